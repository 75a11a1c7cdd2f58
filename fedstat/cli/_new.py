"""``fedstat new``: a folder with a configuration, a method and a network of one's own, which runs at once."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

_START = Path(__file__).parent / "start"


def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make; its name is the experiment's.")],
) -> None:
    """Make a folder with an experiment that runs at once: a configuration, mine.py and a README.

    mine.py holds a network and a method of your own, to be changed. The
    experiment compares the method with FedAvg and Local on scikit-learn's
    digits, in seconds.

    Example:

    \b
    fedstat new mine
    """
    name = folder.name
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(
            f"NAME must be a folder's name of letters, digits, '-', '_' and '.', got {str(folder)!r}; try `fedstat new "
            f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name).strip('-') or 'mine'}`."
        )
    if folder.exists() or folder.is_symlink():
        free = next(other for n in range(2, 10**6) if not (other := folder.with_name(f"{name}-{n}")).exists())
        raise ValueError(f"{folder} exists already, and nothing in it was touched; try `fedstat new {free}`.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fedstat-", dir=folder.parent) as place:
        made = Path(place, name)
        made.mkdir()
        for file in ("experiment.toml", "README.md"):
            text = (_START / file).read_text(encoding="utf-8").replace("{name}", name)
            target = made / file.replace("experiment", name)
            target.write_text(text, encoding="utf-8")
        shutil.copyfile(_START / "mine.py", made / "mine.py")
        made.rename(folder)  # refused if somebody else has filled it meanwhile
    config = shlex.quote(str(folder / f"{name}.toml"))
    typer.echo(
        f"{folder}: {name}.toml, mine.py, README.md\n\nNext:\n"
        f"  fedstat run {config}\n"
        f"  fedstat compare runs/{name} --all-pairs\n"
        f"  fedstat report runs/{name} --out {name}.pdf"
    )

"""``fedstat new``: an experiment with a method of one's own, or a claim; either runs at once."""

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
    claim: Annotated[
        bool, typer.Option("--claim", help="Write a claim that can be judged, a file NAME.py, in place of a folder.")
    ] = False,
) -> None:
    """Make a folder with an experiment that runs at once: a configuration, mine.py and a README.

    mine.py holds a network and a method of your own, to be changed. The
    experiment compares the method with FedAvg and Local on scikit-learn's
    digits, in seconds.

    With --claim, write a file that puts a statement on trial.

    Examples:

    \b
    fedstat new mine
    fedstat new my_claim --claim
    """
    if claim:
        folder = folder.with_name(folder.name.removesuffix(".py"))
    name = folder.name
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(
            f"NAME must be a folder's name of letters, digits, '-', '_' and '.', got {str(folder)!r}; try `fedstat new "
            f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name).strip('-') or 'mine'}`."
        )
    made_of = ".py" if claim else ""
    target, tail = folder.with_name(name + made_of), " --claim" if claim else ""
    if target.exists() or target.is_symlink():
        others = (folder.with_name(f"{name}-{n}") for n in range(2, 10**6))
        free = next(other for other in others if not other.with_name(other.name + made_of).exists())
        raise ValueError(f"{target} exists already, and nothing in it was touched; try `fedstat new {free}{tail}`.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    if claim:
        shutil.copyfile(_START / "claim.py", target)
        typer.echo(f"{target}: a statement with its checks\n\nNext:\n  fedstat judge {shlex.quote(str(target))}")
        return
    with tempfile.TemporaryDirectory(prefix=".fedstat-", dir=folder.parent) as place:
        made = Path(place, name)
        made.mkdir()
        for file in ("experiment.toml", "README.md"):
            text = (_START / file).read_text(encoding="utf-8").replace("{name}", name)
            (made / file.replace("experiment", name)).write_text(text, encoding="utf-8")
        shutil.copyfile(_START / "mine.py", made / "mine.py")
        made.rename(folder)  # refused if somebody else has filled it meanwhile
    config = shlex.quote(str(folder / f"{name}.toml"))
    typer.echo(
        f"{folder}: {name}.toml, mine.py, README.md\n\nNext:\n"
        f"  fedstat run {config}\n"
        f"  fedstat compare runs/{name} --all-pairs\n"
        f"  fedstat report runs/{name} --out {name}.pdf"
    )

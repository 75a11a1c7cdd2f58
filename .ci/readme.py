"""Run README's two command lines as a stranger does: as printed, each in a fresh clone of HEAD, with nothing at hand.

HOME is empty, no cache and no data are found, and of the environment only what finds programs and packages is left. The
clones, with the environments that were made in them, stay in the folder that is given: `1/clone` and `2/clone`.

    python .ci/readme.py FOLDER    # one line after the other
    python .ci/readme.py FOLDER 2  # the second alone
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What a stranger's shell has, too: where programs lie, the language, and where pip looks for packages.
KEPT = re.compile("PATH|LANG|PIP_.*|SSL_CERT_FILE")
FIRST = re.compile(r"^From a clone, one line each:\n\n```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENDS = (".venv/bin/python -m reports", ".venv/bin/python -m pytest")


def commands(page: str) -> list[str]:
    """Return the two command lines: the first writes the report, the second runs the tests.

    Raises
    ------
    ValueError
        If they are not where they are looked for, or do something else.
    """
    block = FIRST.search(page)
    lines = block[1].splitlines() if block else []
    if len(lines) != 2 or not all(map(str.endswith, lines, ENDS)) or not all("pip install" in line for line in lines):
        raise ValueError(f"README.md must have two command lines after 'From a clone', got {lines}.")
    return lines


def run(line: str, folder: Path) -> int:
    """Run a line in a fresh clone; print it, what it prints, its exit status and how long it took."""
    clone, home = folder / "clone", folder / "home"
    home.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    start = time.perf_counter()
    print(f"$ {line}", flush=True)
    done = subprocess.run(line, shell=True, cwd=clone, env={**kept, "HOME": str(home)})
    print(f"exit status {done.returncode} after {time.perf_counter() - start:.0f} s", flush=True)
    return done.returncode


if __name__ == "__main__":
    folder, *which = sys.argv[1:]
    lines = dict(zip("12", commands((ROOT / "README.md").read_text(encoding="utf-8")), strict=True))
    sys.exit(any([run(lines[i], Path(folder).resolve() / i) != 0 for i in which or lines]))

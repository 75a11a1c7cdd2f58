"""Run studies anew for a report: which of them at which scale, how far it is, and what failed."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reports.choices import QUICK
from simulations.studies import Scale, check_data, in_order, simulate

#: Seconds for the chapters, the claims and the pages.
PAGES = 70
#: Seconds for a study at smoke scale.
SMOKE = 1

#: What became of a study's fresh run. Left out: it is none of this scale's.
State = Literal["ran", "left out", "no data", "failed"]


@dataclass(frozen=True)
class Fresh:
    """A study's fresh run.

    Attributes
    ----------
    state : {"ran", "left out", "no data", "failed"}
        What became of it.
    why : str
        What failed, or which data are missing.
    command : str
        Runs this study alone.
    """

    state: State
    why: str = ""
    command: str = ""


def chosen(scale: Scale, named: Sequence[str]) -> list[str]:
    """Return the studies to run anew, in order: those that are named; where none is, `QUICK` at quick scale, or all."""
    wanted = named or (QUICK if scale == "quick" else in_order())
    return [name for name in in_order() if name in wanted]


def run_anew(scale: Scale, names: Sequence[str], folder: Path) -> dict[str, Fresh]:
    """Run studies one by one, whatever becomes of each, and say how long it will still take.

    Parameters
    ----------
    scale : str
        Scale of the runs.
    names : sequence of str
        Which studies.
    folder : Path
        For the tables of all studies at this scale. What is finished there is read, not run again.

    Returns
    -------
    dict of str to Fresh
        What became of each of them.
    """
    seconds = {name: {"quick": QUICK.get(name, 30), "smoke": SMOKE}.get(scale) for name in names}
    done: dict[str, Fresh] = {}
    start, expected = time.perf_counter(), 0
    for number, name in enumerate(names, 1):
        begun = time.perf_counter()
        done[name] = _run(name, scale, folder)
        expected += seconds[name] or 0
        known = [one for one in list(seconds.values())[number:] if one]
        pace = (time.perf_counter() - start) / expected if expected else 1.0
        left = f"; about {duration(pace * sum(known) + PAGES)} left" if expected else ""
        what = {"ran": "", "no data": " is not run anew: ", "failed": " FAILED: "}[done[name].state] + done[name].why
        took = duration(time.perf_counter() - begun)
        print(f"study {number} of {len(names)}, {name}{what}: {took}{left}", file=sys.stderr, flush=True)
    return done


def _run(name: str, scale: Scale, folder: Path) -> Fresh:
    command = f"python -m simulations {name} --scale {scale} --out {folder.parent}"
    try:
        check_data(name, scale)
    except FileNotFoundError as error:
        return Fresh("no data", str(error), command)
    try:
        simulate(name, scale, folder)
    except Exception as error:  # whatever it is, it must not cost the report
        shutil.rmtree(folder / name, ignore_errors=True)  # tables of an earlier run, which are not this one's
        return Fresh("failed", words_of(error), command)
    return Fresh("ran", command=command)


def words_of(error: Exception) -> str:
    """Return an error in one line: what it says, or its kind where that alone would not be understood."""
    said = " ".join(str(error).split())
    return (
        said
        if isinstance(error, ValueError | OSError | FloatingPointError) and said
        else f"{type(error).__name__} {said}"
    )


def duration(seconds: float) -> str:
    """Return a time in words."""
    return f"{seconds:.0f} s" if seconds < 99.5 else f"{seconds / 60:.1f} minutes"

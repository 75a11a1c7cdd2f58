"""Command line: ``python -m simulations.chooser``."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from fedstat._files import atomic_file
from fedstat._tables import read_tables
from fedstat.methods._cards import CELLS, TABLE, Variant, read_variants
from simulations.bench.arms import absent
from simulations.chooser.came_out import ARMS, came_out
from simulations.chooser.measured import Case, cases, measured

BENCH = Path(__file__).parents[2] / "reports" / "results" / "bench"


def main() -> None:
    """Measure all methods, read where they came out, and write the table of ``fedstat.methods.available()``."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.chooser",
        description="Write fedstat/methods/cards.csv, from which fedstat.methods.available() and the report's page "
        "for choosing a method are made: what each method keeps, sends and needs is measured anew (a minute of "
        "processor time), and where it came out is read from the tables of the study bench, if they are there.",
    )
    parser.add_argument("--bench", type=Path, default=BENCH, help=f"the study's tables (default: {BENCH})")
    parser.add_argument("--out", type=Path, default=TABLE, help=f"file to write (default: {TABLE})")
    parser.add_argument(
        "--outcomes", action="store_true", help="measure nothing: keep what was measured, read where methods came out"
    )
    options = parser.parse_args()
    found = came_out(read_tables(options.bench)) if options.bench.is_dir() else {}
    every = cases()
    table = written(every, kept(every) if options.outcomes else measured(every), found)
    with atomic_file(options.out) as path:
        table.to_csv(path, index=False, lineterminator="\n")
    print(f"{options.out} ({len(table)} variants; {len(found)} arms of the bench)")
    for name, why in absent().items():
        print(f"not on the bench: {name}, which {why}")


def kept(some: list[Case]) -> list[Variant]:
    """Return what was measured of each case before.

    Raises
    ------
    ValueError
        If one has not been measured.
    """
    known = {(name, variant.options): variant for name, own in read_variants().items() for variant in own}
    if missing := [f"{case.name}({case.words})" for case in some if (case.name, case.words) not in known]:
        raise ValueError(f"{', '.join(missing)} must be measured first: leave out --outcomes.")
    return [known[case.name, case.words] for case in some]


def written(some: list[Case], variants: list[Variant], found: dict[str, dict[str, str]]) -> pd.DataFrame:
    """Return the table that the package reads: a row for each variant."""
    rows = []
    for case, variant in zip(some, variants, strict=True):
        own = found.get(ARMS.get((case.name, case.words), ""), {})
        told = {name: getattr(variant, name) for name in ("kind", "personal", "up", "down", "state", "needs")}
        rows.append({"method": case.name, "options": case.words, **told, **{cell: own.get(cell, "") for cell in CELLS}})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()

"""Command line: ``python -m reports --scale quick --out out``."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import date
from pathlib import Path

from fedstat._warnings import plain_warnings
from fedstat._workers import kept_workers
from fedstat.report import typeset
from reports.content import content
from simulations.studies import in_order, simulate

TEMPLATE = Path(__file__).parent / "report.typ"


def main() -> None:
    """Run what has no cached result and write ``report.pdf``, ``report.html``, or both."""
    chapters = ("claims", *in_order())
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description="Typeset the report from the committed tables and the ledger of claims. Studies are run anew "
        "beside them, on other seeds, and the report says which signs and verdicts that changes; an interrupted run "
        "continues from what is finished.",
        epilog="example: python -m reports --scale committed --format html",
    )
    parser.add_argument(
        "--scale",
        choices=("committed", "smoke", "quick", "paper"),
        default="quick",
        help="of the fresh runs. committed: none, the report is there in seconds; smoke: about a minute, to see that "
        "all of it runs; quick (default): some ten minutes on two cores; paper: the papers' sizes, hours",
    )
    parser.add_argument(
        "--format", choices=("pdf", "html"), nargs="+", default=["pdf"], help="what to write (default: pdf)"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="output folder (default: out)")
    parser.add_argument(
        "--only", choices=chapters, nargs="+", default=list(chapters), help="chapters to include (default: all)"
    )
    parser.add_argument("--date", type=date.fromisoformat, default=date.today(), help="date on the report, YYYY-MM-DD")
    options = parser.parse_args()
    start = time.perf_counter()
    out = options.out / options.scale
    shown = [name for name in in_order() if name in options.only]
    claims = "claims" in options.only
    if fresh := None if options.scale == "committed" else out:
        needed = in_order() if claims else shown  # claims about training are judged on the fresh tables, too
        for number, name in enumerate(needed, 1):
            begun = time.perf_counter()
            try:
                simulate(name, options.scale, fresh)
            except FileNotFoundError as error:  # data; the committed tables are shown without a second look
                print(f"study {number} of {len(needed)}, {name}, is not run anew: {error}", file=sys.stderr)
                continue
            print(f"study {number} of {len(needed)}, {name}: {_minutes(begun)}", file=sys.stderr)
    data, files = content(options.scale, fresh, out / "shown", shown, claims)
    for form in dict.fromkeys(options.format):
        typeset(TEMPLATE, data, files, out / f"report.{form}", day=options.date)
        print(f"{out / f'report.{form}'} ({_minutes(start)})")


def _minutes(since: float) -> str:
    return f"{(time.perf_counter() - since) / 60:.1f} minutes"


if __name__ == "__main__":
    with plain_warnings(), kept_workers():
        main()

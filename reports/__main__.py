"""Command line: ``python -m reports`` writes the report, ``python -m reports --supplement`` all that it rests on."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from datetime import date
from pathlib import Path

from fedstat._files import atomic_file
from fedstat._warnings import plain_warnings
from fedstat._workers import kept_workers
from fedstat.report import typeset
from reports.anew import PAGES, chosen, duration, run_anew
from reports.choices import QUICK
from reports.content import content, worth_reading
from reports.pages import write_pages
from simulations.studies import in_order
from theory_checks import COMMITTED

PAPER, SUPPLEMENT = (Path(__file__).parent / name for name in ("paper.typ", "supplement.typ"))


def main() -> int:
    """Run what has no cached result, write ``report.pdf`` or the supplement; return 1 if something failed."""
    chapters = ("claims", *in_order())
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description="Write the report (report.pdf, twelve pages) or its supplement (a chapter for every study and an "
        "entry for every claim) from the committed tables and the ledger of claims. Some studies are also run anew, "
        "on other seeds, and the report says which signs and verdicts change. If a study fails, its chapter is made of "
        "the committed tables, and the last lines say what failed. An interrupted run continues from what is finished. "
        "The table of effects, effects.csv, is always written.",
        epilog="example: python -m reports --scale committed --supplement",
    )
    parser.add_argument(
        "--scale",
        choices=("committed", "smoke", "quick", "paper"),
        default="quick",
        help="size of the fresh runs. committed: no fresh runs, the report takes a minute; smoke: two minutes, to see "
        f"that everything runs; quick (default): four to seven minutes on two cores, {', '.join(QUICK)}; paper: all "
        "studies whose data are there, at the papers' sizes, for hours",
    )
    parser.add_argument(
        "--supplement",
        choices=("html", "pdf"),
        nargs="*",
        help="write the supplement instead of the report: a folder of web pages, supplement/index.html first (html, "
        "the default), supplement.pdf, or both",
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="output folder (default: out)")
    parser.add_argument(
        "--only",
        choices=chapters,
        nargs="+",
        metavar="CHAPTER",
        help="write a supplement of these chapters alone, and run only their studies anew; there are "
        f"{', '.join(chapters)}",
    )
    parser.add_argument("--date", type=date.fromisoformat, default=date.today(), help="date on the report, YYYY-MM-DD")
    options = parser.parse_args()
    start = time.perf_counter()
    out = options.out / options.scale
    shown = [name for name in in_order() if options.only is None or name in options.only]
    anew = [] if options.scale == "committed" else chosen(options.scale, shown if options.only else [])
    if options.only is None:  # a study whose tables are not committed yet has no chapter but that of its fresh run
        shown = [name for name in shown if name in anew or (COMMITTED / name).is_dir()]
    if anew:
        print(f"{len(anew)} studies are run anew; committed tables make the chapters", file=sys.stderr)
    fresh = run_anew(options.scale, anew, out)
    print(f"chapters, claims and pages: about {duration(PAGES)}", file=sys.stderr)
    claims = options.only is None or "claims" in options.only
    made = content(options.scale, out if anew else None, out / "shown", shown, claims, fresh)
    forms = (options.supplement or ["html"]) if options.supplement is not None or options.only else []
    written = [out / ("supplement/index.html" if form == "html" else "supplement.pdf") for form in forms]
    written = written or [out / "report.pdf"]
    for target in written:
        if target.suffix == ".html":
            write_pages(SUPPLEMENT, made.data, made.files, target.parent, day=options.date)
        else:
            typeset(SUPPLEMENT if forms else PAPER, made.data, made.files, target, day=options.date)
    with atomic_file(out / "effects.csv") as path:
        made.effects.to_csv(path, index=False)
    if found := worth_reading(made):
        print("Worth reading first:\n")
        for number, words in enumerate(found, 1):
            print(textwrap.fill(words, 100, initial_indent=f"{number}. ", subsequent_indent="   ") + "\n")
    for target in written:
        print(f"{target} ({duration(time.perf_counter() - start)})")
    if made.failed:
        print("\nWhat failed, and what shows it:", *made.failed, sep="\n- ", file=sys.stderr)
    return int(bool(made.failed))


if __name__ == "__main__":
    with plain_warnings(), kept_workers():
        code = main()
    sys.exit(code)

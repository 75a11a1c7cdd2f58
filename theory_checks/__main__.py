"""Command line: ``python -m theory_checks`` prints the ledger, ``python -m theory_checks FS-04`` explains one claim."""

from __future__ import annotations

import argparse
import sys

from fedstat._warnings import plain_warnings
from fedstat._workers import WHERE, workers
from fedstat.claims import judge_all, write_ledger
from fedstat.cli import app
from theory_checks import COMMITTED, FOLDER, LEDGER


def main(arguments: list[str]) -> None:
    """Judge the papers' claims as ``fedstat judge`` judges anybody's; ``--update`` rewrites the committed ledger.

    ``--executor ray`` has a Ray cluster do it.
    """
    if arguments[:1] == ["--update"]:
        parser = argparse.ArgumentParser(prog="python -m theory_checks --update")
        parser.add_argument("--executor", choices=WHERE, default="processes")
        with plain_warnings(), workers(parser.parse_args(arguments[1:]).executor):
            write_ledger(judge_all(FOLDER, studies=COMMITTED), LEDGER)
        return
    given = [] if "--results" in arguments else ["--results", str(COMMITTED)]
    app(["judge", str(FOLDER), *given, *arguments], prog_name="python -m theory_checks")


if __name__ == "__main__":
    main(sys.argv[1:])

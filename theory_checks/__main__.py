"""Command line: ``python -m theory_checks`` prints the ledger, ``python -m theory_checks FS-04`` explains one claim."""

from __future__ import annotations

import argparse
import sys

from fedstat._warnings import plain_warnings
from fedstat._workers import WHERE, workers
from fedstat.claims import judge_all, read_claims, read_ledger, write_ledger
from fedstat.cli import app
from theory_checks import COMMITTED, FOLDER, LEDGER, PICTURE


def main(arguments: list[str]) -> None:
    """Judge the papers' claims as ``fedstat judge`` judges anybody's; ``--update`` rewrites the committed ledger.

    ``--update FS-10`` judges one claim and keeps what the ledger says of the others; ``--executor ray`` has a Ray
    cluster do it. The picture on the front page is drawn again.
    """
    if arguments[:1] == ["--update"]:
        from theory_checks._overview import write_overview

        parser = argparse.ArgumentParser(prog="python -m theory_checks --update")
        parser.add_argument("ids", nargs="*", help="claims to judge (default: all)")
        parser.add_argument("--executor", choices=WHERE, default="processes")
        options = parser.parse_args(arguments[1:])
        with plain_warnings(), workers(options.executor):
            judged = judge_all(FOLDER, options.ids, studies=COMMITTED)
        known = read_ledger(LEDGER) if options.ids else {}
        write_ledger(judged, LEDGER, kept=[known[name] for name in known.keys() & read_claims(FOLDER)])
        write_overview(PICTURE)
        return
    given = [] if "--results" in arguments else ["--results", str(COMMITTED)]
    app(["judge", str(FOLDER), *given, *arguments], prog_name="python -m theory_checks")


if __name__ == "__main__":
    main(sys.argv[1:])

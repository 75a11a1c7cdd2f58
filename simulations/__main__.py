"""Command line: ``python -m simulations NAME --scale quick --out out``; ``python -m simulations list``."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from pathlib import Path

from fedstat._warnings import plain_warnings
from fedstat._workers import WHERE, workers
from simulations import NAMES
from simulations.captions import publish
from simulations.catalogue import listing, names
from simulations.studies import evidence, simulate, study
from simulations.tables import read_config, write_tables


class _Parser(argparse.ArgumentParser):
    """A parser whose help ends in a line for every study, which are read only then."""

    def format_help(self) -> str:
        return f"{super().format_help()}\nstudies:\n{names()}\n\nexample: python -m simulations split --scale quick\n"


def _study(name: str) -> str:
    """Return the name of a study, or `list`."""
    if name in ("list", *NAMES):
        return name
    near = difflib.get_close_matches(name, ("list", *NAMES), 3)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise argparse.ArgumentTypeError(
        f"there is no study {name!r}; {meant}`python -m simulations list` names all, by figure and by study."
    )


def main() -> None:
    """Run one study and say where its tables and figures are, or list all."""
    parser = _Parser(
        prog="python -m simulations",
        description="Run one study; finished parts are cached under --out, so an interrupted run continues. Figures "
        "come as SVG, PDF and PNG, each with its caption in a .txt. `list` says which command draws which figure or "
        "table of which paper, what data that needs and how long it takes.",
    )
    parser.add_argument("name", type=_study, metavar="NAME", help="list, or one of the studies below")
    parser.add_argument(
        "--scale",
        choices=("smoke", "quick", "desk", "paper"),
        default="quick",
        help="smoke: seconds, to see that it runs; quick (default): a minute or so on two cores; desk: what two cores "
        "do in the background, in studies whose paper's sizes need a GPU; paper: the paper's sizes",
    )
    parser.add_argument("--device", default="cpu", help="where networks train, such as cuda (default: cpu)")
    parser.add_argument(
        "--executor",
        choices=WHERE,
        default="processes",
        help="who computes the parts of a study: processes of this machine (default), or tasks of a Ray cluster, "
        "whose machines need the same code and data in the same places",
    )
    parser.add_argument(
        "--gpus", type=float, default=1.0, help="GPUs that a part reserves on Ray if --device is one (default: 1)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="output folder, with a folder for every scale (default: out)"
    )
    parser.add_argument(
        "--evidence",
        type=Path,
        metavar="FOLDER",
        help="also write to this folder the tables on which claims and the report rest; at smoke and quick scale their "
        "seeds are not those of other runs",
    )
    options = parser.parse_args()
    if options.name == "list":
        try:
            print(listing(), flush=True)
        except BrokenPipeError:  # `| head` has read enough; what is left must not be written at exit either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    out = options.out / options.scale
    if time := study(options.name).ABOUT.times.get(options.scale):
        print(f"{options.name} at {options.scale} scale takes {time}", file=sys.stderr)
    try:
        with workers(options.executor, options.gpus):
            tables = simulate(options.name, options.scale, out, second_look=not options.evidence, device=options.device)
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print(f"stopped; finished parts are kept in {out / 'cache'}: the same command goes on", file=sys.stderr)
        sys.exit(130)
    chosen = evidence(options.name, tables)
    folder = out / options.name
    figures = publish(options.name, chosen, folder)
    if options.evidence:
        write_tables(options.evidence, chosen, read_config(folder))
    print(f"tables and figures: {folder}")
    for file in figures:
        print(f"  {file.stem}: .svg, .pdf, .png; its caption in {file.stem}.txt")


if __name__ == "__main__":
    with plain_warnings():
        main()

"""The command line: ``fedstat``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedstat.cli._assess import assess
from fedstat.cli._compare import compare
from fedstat.cli._data import data
from fedstat.cli._doctor import doctor
from fedstat.cli._factor import factor
from fedstat.cli._judge import judge
from fedstat.cli._new import new
from fedstat.cli._report import report
from fedstat.cli._run import run
from fedstat.cli._sentences import Sentences, taught

app = typer.Typer(cls=Sentences, no_args_is_help=True, pretty_exceptions_enable=False)


def version() -> None:
    """Print the version, as --version does.

    Example:

    \b
    fedstat version
    """
    from fedstat import __version__

    typer.echo(__version__)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """A statistician's bench for personalised federated learning.

    Simulate, run, compare and report. COMMAND --help ends in examples.

    The papers' figures and tables are drawn by studies, in a checkout of the
    sources: `python -m simulations list` says which command draws which, such
    as Figure 6 of FedFac's paper.

    Examples:

    \b
    fedstat doctor
    fedstat new mine
    fedstat run mine/mine.toml
    """


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the PDF, the table and the run.")] = Path("fedstat-demo"),
    seeds: Annotated[int, typer.Option(min=2, help="Seeds to pair on; more seeds, narrower intervals.")] = 6,
) -> None:
    """Compare five ways to share a network on synthetic clients, in about a minute.

    Prints one table and writes a two-page PDF with a figure. Everything is computed now, on this machine.

    Example:

    \b
    fedstat demo --seeds 3
    """
    from fedstat.demo import run_demo

    comparison, pdf = run_demo(out, seeds)
    typer.echo(str(comparison))
    typer.echo(f"\n{pdf}")


app.callback(**taught(main))(main)
for command in (new, run, compare, assess, report, factor, judge, demo, doctor, version):
    app.command(**taught(command))(command)
app.add_typer(data, name="data")

"""The command line: ``fedstat``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedstat.cli._compare import compare
from fedstat.cli._data import data
from fedstat.cli._factor import factor
from fedstat.cli._judge import judge
from fedstat.cli._report import report
from fedstat.cli._run import run


class _Sentences(TyperGroup):
    """Commands that print errors as sentences, not as tracebacks."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `| head` has read enough and closed the pipe
            raise
        except (ValueError, OSError, ImportError) as error:  # the last of an extra that is not installed
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=_Sentences,
    help="A statistician's bench for personalised federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Simulate, run, compare and report personalised federated learning."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the PDF, the table and the run.")] = Path("fedstat-demo"),
    seeds: Annotated[int, typer.Option(min=2, help="Seeds to pair on; more seeds, narrower intervals.")] = 6,
) -> None:
    """Compare five ways to share a network on synthetic clients, in about a minute.

    Prints one table and writes a two-page PDF with a figure. Everything is computed now, on this machine.
    """
    from fedstat.demo import run_demo

    comparison, pdf = run_demo(out, seeds)
    typer.echo(str(comparison))
    typer.echo(f"\n{pdf}")


app.command()(run)
app.command()(compare)
app.command()(factor)
app.command()(judge)
app.command()(report)
app.add_typer(data, name="data")


@app.command()
def version() -> None:
    """Print the version."""
    from fedstat import __version__

    typer.echo(__version__)

"""``fedstat report``: a PDF or a web page of anybody's runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedstat.cli._comparison import comparing


@comparing
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of `fedstat run` or of Result.save, or tables with columns method, seed, client and accuracy."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The report, a .pdf or an .html file.")],
    how: dict[str, Any],
    title: Annotated[str | None, typer.Option(help="Title of the report.", show_default="the methods")] = None,
    event: Annotated[
        str | None,
        typer.Option(help="Which of two classes is the event in predictions.", show_default="the run's second"),
    ] = None,
) -> None:
    """Typeset runs: what may be concluded, and everything that it rests on.

    Setting, who holds what, curves, comparison, clients, traffic, versions
    and how to reproduce. Tables without settings make a report with fewer
    sections, and it says which.

    Examples:

    \b
    fedstat report runs/digits --out digits.pdf --margin 0.01
    fedstat report runs/ours theirs.csv --out both.html --control FedAvg
    fedstat report mine.csv --out mine.pdf --method algo --value acc --metric accuracy
    """
    from fedstat.report.runs import report_runs

    comparison = report_runs(runs, out, title=title, event=event, **how)
    typer.echo("\n".join([*comparison.conclusions, comparison.generalises, "", str(out)]))

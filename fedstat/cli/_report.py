"""``fedstat report``: a PDF or a web page of anybody's runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedstat._warnings import plain_warnings
from fedstat.cli._compare import options_named


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of `fedstat run` or of Result.save, or tables with columns method, seed, client and accuracy."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The report, a .pdf or an .html file.")],
    control: Annotated[
        str | None, typer.Option(help="Method that the others are compared with.", show_default="FedAvg, or the first")
    ] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Compare every method with every other.")] = False,
    margin: Annotated[
        float | None, typer.Option(help="Largest difference that counts as none: 0.01 is a point of accuracy.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="What is compared.", show_default="accuracy, or mse")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level.", show_default="0.95")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.", show_default="the methods")] = None,
) -> None:
    """Typeset runs: what may be concluded, and everything that it rests on.

    Setting, who holds what, curves, comparison, clients, traffic, versions
    and how to reproduce. Of tables without settings the report has fewer
    sections, and says which.

    Examples:

    \b
    fedstat report runs/digits --out digits.pdf --margin 0.01
    fedstat report runs/ours theirs.csv --out both.html --control FedAvg
    """
    from fedstat.report.runs import report_runs

    if control is not None and all_pairs:
        raise ValueError("--control and --all-pairs exclude each other: give one of them.")
    with plain_warnings(), options_named(columns=False):
        comparison = report_runs(
            runs,
            out,
            metric=metric,
            control=None if all_pairs else control or "auto",
            margin=margin,
            level=level,
            title=title,
        )
    typer.echo("\n".join([*comparison.conclusions, comparison.generalises, "", str(out)]))

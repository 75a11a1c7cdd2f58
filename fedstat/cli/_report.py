"""``fedstat report``: a PDF or a web page of anybody's runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedstat._warnings import plain_warnings
from fedstat.cli._comparison import (
    Across,
    AllPairs,
    Client,
    Control,
    Estimand,
    Last,
    Level,
    Margin,
    Method,
    Metric,
    PlanFile,
    Round,
    Seed,
    Separate,
    Split,
    Value,
    asked,
    options_named,
)


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of `fedstat run` or of Result.save, or tables with columns method, seed, client and accuracy."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The report, a .pdf or an .html file.")],
    control: Control = None,
    all_pairs: AllPairs = False,
    metric: Metric = None,
    margin: Margin = None,
    estimand: Estimand = None,
    last: Last = None,
    split: Split = None,
    level: Level = None,
    across: Across = None,
    separate: Separate = False,
    plan: PlanFile = None,
    method: Method = None,
    seed: Seed = None,
    client: Client = None,
    round_: Round = None,
    value: Value = None,
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
    fedstat report mine.csv --out mine.pdf --method algo --value acc --metric accuracy
    """
    from fedstat.report.runs import report_runs

    columns, how = asked(
        (method, seed, client, round_, value),
        metric=metric, control=control, all_pairs=all_pairs, estimand=estimand, across=across, separate=separate,
        margin=margin, last=last, split=split, level=level,
    )  # fmt: skip
    with plain_warnings(), options_named():
        comparison = report_runs(runs, out, columns=columns, plan=plan, title=title, **how)
    typer.echo("\n".join([*comparison.conclusions, comparison.generalises, "", str(out)]))

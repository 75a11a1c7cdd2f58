"""``fedstat compare``: compare methods from anybody's results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedstat._files import atomic_file
from fedstat._warnings import plain_warnings

_COLUMNS = ("method", "seed", "client", "round", "value")


def compare(
    files: Annotated[
        list[Path], typer.Argument(help="Run folders, CSV or parquet files, or results of PFLlib, FL-bench or Flower.")
    ],
    control: Annotated[
        str | None, typer.Option(help="Method that the others are compared with.", show_default="FedAvg, or the first")
    ] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Compare every method with every other.")] = False,
    metric: Annotated[str | None, typer.Option(help="What is compared.", show_default="accuracy, or mse")] = None,
    margin: Annotated[
        float | None, typer.Option(help="Largest difference that counts as none: 0.01 is a point of accuracy.")
    ] = None,
    estimand: Annotated[
        list[str] | None,
        typer.Option(help="Model measured: personal, global, fine-tuned, or METHOD=MODEL for one method; repeatedly."),
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Rounds averaged.", show_default="10")] = None,
    split: Annotated[str | None, typer.Option(help="Samples measured on.", show_default="test")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level.", show_default="0.95")] = None,
    across: Annotated[
        list[str] | None, typer.Option(help="In what runs may differ: data, participants or rounds; repeatedly.")
    ] = None,
    separate: Annotated[
        bool, typer.Option("--separate", help="Intervals that hold each for itself, not all together.")
    ] = False,
    plan: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Analysis plan (.toml) to hold the result against.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Column that names the method.")] = None,
    seed: Annotated[str | None, typer.Option(help="Column that numbers the seed.")] = None,
    client: Annotated[str | None, typer.Option(help="Column that names the client.")] = None,
    round_: Annotated[str | None, typer.Option("--round", help="Column that numbers the round.")] = None,
    value: Annotated[str | None, typer.Option(help="Column that holds the metric.")] = None,
    form: Annotated[str, typer.Option("--format", help="text, markdown, latex or csv.")] = "text",
    out: Annotated[Path | None, typer.Option(help="File for the table; .md, .tex or .csv chooses the format.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File for a forest plot, such as forest.pdf.")] = None,
) -> None:
    """Compare methods, paired on seeds, and say what may be concluded.

    Results may come from fedstat or from any other program: four columns,
    method, seed, client and accuracy, are enough. Intervals hold together for
    all comparisons. Runs on other data, or that end after other rounds, are
    refused.

    Examples:

    \b
    fedstat compare runs/digits --control Local --margin 0.01
    fedstat compare runs/ours theirs.csv --all-pairs
    fedstat compare mine.csv --method algo --seed run --value acc --metric accuracy
    """
    from fedstat.inference import AnalysisPlan, read_results
    from fedstat.inference import compare as compared

    if control is not None and all_pairs:
        raise ValueError("--control and --all-pairs exclude each other: give one of them.")
    named = dict(zip(_COLUMNS, (method, seed, client, round_, value), strict=True))
    columns = {theirs: ours for ours, theirs in named.items() if theirs is not None}
    if value is not None and metric is not None:
        columns[value] = metric
    kind = form if out is None else {".md": "markdown", ".tex": "latex", ".csv": "csv"}.get(out.suffix, form)
    if kind not in (known := ("text", "markdown", "latex", "csv")):
        raise ValueError(f"--format must be one of {', '.join(known)}, got {form!r}.")
    with plain_warnings(), _options_named():
        results = {str(file): read_results(file, columns=columns) if columns else file for file in files}
        if len(results) < len(files):
            raise ValueError("one file is named twice; name each once.")
        found = compared(
            results,
            metric=metric,
            control=None if all_pairs else control or "auto",
            estimand=_estimand(estimand or ()),
            last=last,
            split=split,
            level=level,
            margin=margin,
            simultaneous=not separate,
            across=tuple(across or ()),
            plan=None if plan is None else AnalysisPlan.read(plan),
        )
    if plot is not None:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(layout="constrained")
        found.plot(axes)
        with atomic_file(plot) as temporary:
            figure.savefig(temporary, format=plot.suffix.removeprefix(".") or "pdf")
    text = {"text": found.__str__, "markdown": found.to_markdown, "latex": found.to_latex, "csv": found.to_csv}[kind]()
    if out is None:
        typer.echo(text)
    else:
        with atomic_file(out) as temporary:
            temporary.write_text(text + "\n" * (not text.endswith("\n")), encoding="utf-8")
        typer.echo("\n".join([*found.conclusions, found.generalises, "", str(out)]))


@contextmanager
def _options_named() -> Iterator[None]:
    """Say in options what an error proposes in Python."""
    try:
        yield
    except ValueError as error:
        proposed = re.search(r"columns=\{([^}]*)\}", str(error))
        if proposed is None:
            raise
        pairs = dict(re.findall(r"'([^']*)': '([^']*)'", proposed[1]))
        options = [f"--{ours} {theirs}" for theirs, ours in pairs.items() if ours in _COLUMNS]
        values = {theirs: ours for theirs, ours in pairs.items() if ours not in _COLUMNS}
        options += [f"--value {theirs} --metric {ours}" for theirs, ours in values.items()][:1]
        raise ValueError(str(error).replace(proposed[0], " ".join(options))) from None


def _estimand(wanted: list[str] | tuple[str, ...]) -> str | dict[str, str] | None:
    """Read models that are named for all methods, or for single ones."""
    each = dict(one.rsplit("=", 1) for one in wanted if "=" in one)
    of_all = [one for one in wanted if "=" not in one]
    if len(of_all) > 1 or (of_all and each):
        raise ValueError(f"--estimand names several models for all methods: {', '.join(wanted)}. Use METHOD=MODEL.")
    return of_all[0] if of_all else each or None

"""``fedstat compare``: compare methods from anybody's results."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedstat._files import atomic_file
from fedstat._warnings import plain_warnings

#: What errors say of the functions' arguments, and what of the options.
_IN_OPTIONS = {
    r"^control must be": "--control must be",
    r"or None for all pairs": "or left out for --all-pairs",
    r"give kind, one of .*\.$": "name the files, not the folder.",
    r", or say kind\.$": ".",
    r'across="(\w+)"': r"--across \1",
    r"estimand=('[^']*')": r"--estimand \1",
}
_FORMATS = {"": "text", ".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv"}
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
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Analysis plan (.toml with arms, control, margin ...) to hold the result against.",
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Column that names the method.")] = None,
    seed: Annotated[str | None, typer.Option(help="Column that numbers the seed.")] = None,
    client: Annotated[str | None, typer.Option(help="Column that names the client.")] = None,
    round_: Annotated[str | None, typer.Option("--round", help="Column that numbers the round.")] = None,
    value: Annotated[str | None, typer.Option(help="Column that holds the metric.")] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="text, markdown, latex or csv.", show_default="text, or as --out ends"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the table, ending in .md, .tex, .csv or .txt.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File for a forest plot: .pdf, .svg or .png.")] = None,
) -> None:
    """Compare methods, paired on seeds, and say what may be concluded.

    Results may come from fedstat or from any other program: four columns,
    method, seed, client and accuracy, are enough. Intervals hold together for
    all comparisons. Runs on other data, or that end after other rounds, are
    refused.

    Examples:

    \b
    fedstat compare runs/digits --control FedAvg --margin 0.01
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
        metric = metric.removesuffix("%").rstrip()
    kind = _format(form, out)
    if plot is not None and plot.suffix.lower() not in (".pdf", ".svg", ".png"):
        raise ValueError(f"--plot must end in .pdf, .svg or .png, got {plot}.")
    with plain_warnings(), options_named():
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

        found.plot()
        with atomic_file(plot) as temporary:
            plt.savefig(temporary, format=plot.suffix.lower().removeprefix("."))
        plt.close()
    text = {"text": found.__str__, "markdown": found.to_markdown, "latex": found.to_latex, "csv": found.to_csv}[kind]()
    if out is None:
        typer.echo(text)
    else:
        with atomic_file(out) as temporary:
            temporary.write_text(text + "\n" * (not text.endswith("\n")), encoding="utf-8")
        typer.echo("\n".join([*found.conclusions, found.generalises, "", str(out)]))
    if plot is not None:
        typer.echo(str(plot) if out is not None else f"\n{plot}", err=out is None and kind != "text")


def _format(form: str | None, out: Path | None) -> str:
    """Return the format that is asked for, by name or by how the file ends."""
    if form not in (None, *_FORMATS.values()):
        raise ValueError(f"--format must be one of {', '.join(dict.fromkeys(_FORMATS.values()))}, got {form!r}.")
    ends = None if out is None else _FORMATS.get(out.suffix.lower())
    if out is not None and out.suffix and form is None and ends is None:
        raise ValueError(f"--out must end in .md, .tex, .csv or .txt, got {out}; or name the format with --format.")
    if out is not None and out.suffix and form is not None and ends not in (None, form):
        raise ValueError(f"--out {out} and --format {form} contradict each other: leave one of them out.")
    return form or ends or "text"


@contextmanager
def options_named(*, columns: bool = True) -> Iterator[None]:
    """Say in options what an error proposes in Python; without `columns` a command cannot map them."""
    try:
        yield
    except ValueError as error:
        said = str(error).replace("Map a column to None to leave it out.", "").rstrip()
        for python, option in _IN_OPTIONS.items():
            said = re.sub(python, option, said)
        if proposed := re.search(r"columns=\{([^}]*)\}", said):
            pairs = dict(re.findall(r"'?([^',]*?)'?: '([^']*)'", proposed[1]))
            if columns:
                options = [f"--{ours} {theirs}" for theirs, ours in pairs.items() if ours in _COLUMNS]
                values = {theirs: shlex.quote(ours) for theirs, ours in pairs.items() if ours not in _COLUMNS}
                options += [f"--value {theirs} --metric {ours}" for theirs, ours in values.items()][:1]
            else:
                options = [f"to rename {', '.join(f'{theirs} to {ours}' for theirs, ours in pairs.items())}"]
            said = said.replace(proposed[0], " ".join(options))
        raise ValueError(said) from None


def _estimand(wanted: list[str] | tuple[str, ...]) -> str | dict[str, str] | None:
    """Read models that are named for all methods, or for single ones."""
    each = dict(one.rsplit("=", 1) for one in wanted if "=" in one)
    of_all = [one for one in wanted if "=" not in one]
    if len(of_all) > 1 or (of_all and each):
        raise ValueError(f"--estimand names several models for all methods: {', '.join(wanted)}. Use METHOD=MODEL.")
    return of_all[0] if of_all else each or None

"""What `fedstat compare` and `fedstat report` have in common: the options that say what is compared, and how."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

Control = Annotated[
    str | None, typer.Option(help="Method that the others are compared with.", show_default="FedAvg, or the first")
]
AllPairs = Annotated[bool, typer.Option("--all-pairs", help="Compare every method with every other.")]
Metric = Annotated[str | None, typer.Option(help="What is compared.", show_default="accuracy, or mse")]
Margin = Annotated[
    float | None, typer.Option(help="Largest difference that counts as none: 0.01 is a point of accuracy.")
]
Estimand = Annotated[
    list[str] | None,
    typer.Option(help="Model measured: personal, global, fine-tuned, or METHOD=MODEL for one method; repeatedly."),
]
Last = Annotated[int | None, typer.Option(min=1, help="Rounds averaged.", show_default="10")]
Split = Annotated[str | None, typer.Option(help="Samples measured on.", show_default="test")]
Level = Annotated[float | None, typer.Option(help="Confidence level.", show_default="0.95")]
Across = Annotated[
    list[str] | None, typer.Option(help="In what runs may differ: data, participants or rounds; repeatedly.")
]
Separate = Annotated[bool, typer.Option("--separate", help="Intervals that hold each for itself, not all together.")]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Analysis plan (.toml with arms, control, margin ...) to hold the result against.",
    ),
]
Method = Annotated[str | None, typer.Option(help="Column that names the method.")]
Seed = Annotated[str | None, typer.Option(help="Column that numbers the seed.")]
Client = Annotated[str | None, typer.Option(help="Column that names the client.")]
Round = Annotated[str | None, typer.Option("--round", help="Column that numbers the round.")]
Value = Annotated[str | None, typer.Option(help="Column that holds the metric.")]

_COLUMNS = ("method", "seed", "client", "round", "value")
#: What errors say of the functions' arguments, and what of the options.
_IN_OPTIONS = {
    r"^control must be": "--control must be",
    r"or None for all pairs": "or left out for --all-pairs",
    r"give kind, one of .*\.$": "name the files, not the folder.",
    r", or say kind\.$": ".",
    r'across="(\w+)"': r"--across \1",
    r"estimand=('[^']*')": r"--estimand \1",
}


def asked(
    columns: Sequence[str | None],
    *,
    metric: str | None,
    control: str | None,
    all_pairs: bool,
    estimand: list[str] | None,
    across: list[str] | None,
    separate: bool,
    **same: Any,
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the columns of tables, from theirs to ours, and the arguments of `fedstat.compare`.

    Parameters
    ----------
    columns : sequence of str or None
        Their names of method, seed, client, round and value.
    metric, control, all_pairs, estimand, across, separate
        The options of these names.
    **same
        Options that are arguments as they stand.
    """
    if control is not None and all_pairs:
        raise ValueError("--control and --all-pairs exclude each other: give one of them.")
    mapped = {theirs: ours for ours, theirs in zip(_COLUMNS, columns, strict=True) if theirs is not None}
    if (value := columns[-1]) is not None and metric is not None:
        mapped[value] = metric
        metric = metric.removesuffix("%").rstrip()
    return mapped, {
        "metric": metric,
        "control": None if all_pairs else control or "auto",
        "estimand": _estimand(estimand or ()),
        "across": tuple(across or ()),
        "simultaneous": not separate,
        **same,
    }


@contextmanager
def options_named() -> Iterator[None]:
    """Say in options what an error proposes in Python."""
    try:
        yield
    except ValueError as error:
        said = str(error).replace("Map a column to None to leave it out.", "").rstrip()
        for python, option in _IN_OPTIONS.items():
            said = re.sub(python, option, said)
        if proposed := re.search(r"columns=\{([^}]*)\}", said):
            pairs = dict(re.findall(r"'?([^',]*?)'?: '([^']*)'", proposed[1]))
            options = [f"--{ours} {theirs}" for theirs, ours in pairs.items() if ours in _COLUMNS]
            values = {theirs: shlex.quote(ours) for theirs, ours in pairs.items() if ours not in _COLUMNS}
            options += [f"--value {theirs} --metric {ours}" for theirs, ours in values.items()][:1]
            said = said.replace(proposed[0], " ".join(options))
        raise ValueError(said) from None


def _estimand(wanted: list[str] | tuple[str, ...]) -> str | dict[str, str] | None:
    """Read models that are named for all methods, or for single ones."""
    each = dict(one.rsplit("=", 1) for one in wanted if "=" in one)
    of_all = [one for one in wanted if "=" not in one]
    if len(of_all) > 1 or (of_all and each):
        raise ValueError(f"--estimand names several models for all methods: {', '.join(wanted)}. Use METHOD=MODEL.")
    return of_all[0] if of_all else each or None

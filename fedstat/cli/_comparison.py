"""What `fedstat compare` and `fedstat report` have in common: the options that say what is compared, and how."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from fedstat._warnings import plain_warnings

_COLUMNS = ("method", "seed", "client", "round", "value")
#: What errors say of the functions' arguments, and what of the options.
_IN_OPTIONS: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"^skewed=True": "--skewed",
    r"^(control|estimand|event|level|margin|metric|split|threshold) must": r"--\1 must",
    r"^metrics must": "--metric must",
    r"or None for all pairs": "or left out for --all-pairs",
    r"give kind, one of .*\.$": "name the files, not the folder.",
    r", or say kind\.$": ".",
    r'across="(\w+)"': r"--across \1",
    r"estimand=('[^']*')": r"--estimand \1",
    r'spread="(\w+)"': r"--spread \1",
    r'"(se|ci|none)" if': r"--spread \1 if",
    r'methods="(\w+)"': r"--methods-in \1",
    r"table=(\d+)": r"--table \1",
    r"fs\.assess\('([^']*)', '(\w+)'\)": lambda found: f"`fedstat assess {shlex.quote(found[1])} --metric {found[2]}`",
    r"fs\.assess takes event='([^']*)' or event='([^']*)'": lambda found: (
        f"`fedstat assess` takes --event {shlex.quote(found[1])} or --event {shlex.quote(found[2])}"
    ),
    r"runs=3": "--runs 3",
    r"without spread and runs": "without --spread and --runs",
    r"smaller=True": "--smaller",
    r"smaller=False": "without --smaller",
}


def asked(
    control: Annotated[
        list[str] | None,
        typer.Option(
            help="Method that the others are compared with; repeat it to ask which are better than all of several.",
            show_default="the run's, FedAvg, or the first",
        ),
    ] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Compare every method with every other.")] = False,
    metric: Annotated[str | None, typer.Option(help="What is compared.", show_default="accuracy, or mse")] = None,
    margin: Annotated[
        float | None, typer.Option(help="Largest difference that counts as none: 0.01 is a point of accuracy.")
    ] = None,
    estimand: Annotated[
        list[str] | None,
        typer.Option(help="Model to measure: personal, global, fine-tuned, or METHOD=MODEL for one method."),
    ] = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="Last rounds that are averaged.", show_default="the run's, or 10")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Samples that models are measured on.", show_default="test")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level.", show_default="0.95")] = None,
    across: Annotated[
        list[str] | None, typer.Option(help="Let runs differ in data, participants or rounds; repeatable.")
    ] = None,
    separate: Annotated[
        bool, typer.Option("--separate", help="Intervals that hold one by one, not all together.")
    ] = False,
    skewed: Annotated[
        bool, typer.Option("--skewed", help="Intervals that allow for skewed runs, from 8 seeds on.")
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
) -> dict[str, Any]:
    """Return what the options ask for: the arguments of `fedstat.compare`, the plan's file, and columns of tables.

    `columns` go from a table's own names to ours.
    """
    if control and all_pairs:
        raise ValueError("--control and --all-pairs exclude each other: give one of them.")
    theirs = (method, seed, client, round_, value)
    columns = {name: ours for ours, name in zip(_COLUMNS, theirs, strict=True) if name is not None}
    if value is not None and metric is not None:
        columns[value] = metric
        metric = re.sub(r"(?<=\S)\s*(?:%|\(%\))$", "", metric)
    return {
        "columns": columns,
        "metric": metric,
        "control": None if all_pairs else tuple(control) if control else "auto",
        "estimand": _estimand(estimand or ()),
        "across": tuple(across or ()),
        "simultaneous": not separate,
        "skewed": skewed,
        "margin": margin,
        "last": last,
        "split": split,
        "level": level,
        "plan": plan,
    }


def comparing(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `asked` in place of its argument `how`, which takes what they ask for."""
    options = inspect.signature(asked, eval_str=True).parameters

    @wraps(command)
    def with_options(**given: Any) -> None:
        how = asked(**{name: given.pop(name) for name in options})
        with plain_warnings(), options_named():
            command(how=how, **given)

    own = inspect.signature(command, eval_str=True).parameters
    every = [p for name, one in own.items() for p in (options.values() if name == "how" else [one])]
    keywords = [p.replace(kind=p.KEYWORD_ONLY) for p in every]
    with_options.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return with_options


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
            pairs = {shlex.quote(theirs): shlex.quote(ours) for theirs, ours in pairs.items()}
            options = [f"--{ours} {theirs}" for theirs, ours in pairs.items() if ours in _COLUMNS]
            values = {theirs: ours for theirs, ours in pairs.items() if ours not in _COLUMNS}
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

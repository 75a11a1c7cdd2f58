"""What may be said of an assessment, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedstat.inference.formatting import first_of, interval, listed
from fedstat.inference.predictions.metrics import IDEAL
from fedstat.inference.predictions.table import Predictions
from fedstat.inference.predictions.tabulating import PATIENTS, tabulate
from fedstat.inference.reading.scores import better, is_share

if TYPE_CHECKING:
    from fedstat.inference.predictions.assessment import Assessment

#: Clients that are named in a sentence; more are counted.
_NAMED = 6


def unit(metric: str) -> tuple[float, str, str]:
    """Return the factor by which a metric is shown, and the units of its values and of its differences."""
    return (100.0, "%", " points") if is_share(metric) else (1.0, "", "")


def sized(row: pd.Series, of: str = "estimate") -> str:
    """Write an estimate or a difference with its limits and its unit."""
    factor, percent, points = unit(row["metric"])
    name = percent if of == "estimate" else points
    shown = interval((factor * row[end] for end in (of, "low", "high")), 1 if factor > 1 else 3, name)
    return shown if np.isfinite(row["low"]) else shown.partition(" [")[0]


def conclude(
    pooled: pd.DataFrame,
    differences: pd.DataFrame,
    predictions: Predictions,
    control: str,
    over: str,
    level: float,
    cut: float,
) -> tuple[str, ...]:
    """Say what differs, for whom by name, and of whom the intervals speak; tables are those of an `Assessment`."""
    said: list[str] = []
    for metric in pooled["metric"].unique():
        values = pooled[(pooled["metric"] == metric) & (pooled["over"] == over)]
        rows = differences[(differences["metric"] == metric) & (differences["over"] == over)]
        said += _overall(metric, over, values, rows, control)
        by_client = differences[(differences["metric"] == metric) & (differences["over"] == "client")]
        if len(predictions.clients) > 1 and len(by_client) and better(metric) and not predictions.anew:
            said += _by_client(metric, by_client, control)
    if "accuracy" in {*pooled["metric"]} and "class" in predictions.kind:
        said += _majority(predictions, level, cut)
    return (*said, _speaks_of(predictions))


def _overall(metric: str, over: str, values: pd.DataFrame, rows: pd.DataFrame, control: str) -> Iterator[str]:
    name, estimates = metric.replace("_", " "), values.set_index("method")
    where = "over all patients" if over == PATIENTS else f"as {over}"
    if values["estimate"].isna().all():
        yield f"{name} {where} is undefined: {values['undefined'].iloc[0]}."
        return
    if not better(metric) or not len(rows):
        each = [f"{label} {sized(row)}" for label, row in estimates.iterrows()]
        ideal = f" (at best {IDEAL[metric]:g})" if metric in IDEAL else ""
        yield f"{name}{ideal} {where}: {listed(each)}."
        return
    told = []
    for outcome, words in (("better", "better than"), ("worse", "worse than")):
        if len(found := rows[rows["outcome"] == outcome]):
            each = [f"{row['method']} (by {sized(_by(row), 'difference')})" for _, row in found.iterrows()]
            told.append(f"{listed(each)} {'is' if len(each) == 1 else 'are'} {words} {control}")
    if len(found := rows[rows["outcome"].isin(["undecided", "no spread"])]):
        what = "difference " * (better(metric) < 0)  # what is better is said above by a positive size
        each = [f"{row['method']} ({what}{sized(row, 'difference')})" for _, row in found.iterrows()]
        told.append(f"{listed(each)} cannot be told apart from {control}")
    if len(found := rows[rows["outcome"] == "tie"]):
        told.append(f"{listed(found['method'])} predicts as {control} does for every patient, a tie")
    yield f"{name} {where} ({control} {sized(estimates.loc[control])}): {'; '.join(told)}."


def _by(row: pd.Series) -> pd.Series:
    """Return a difference by its size, with its limits in order."""
    if row["difference"] >= 0:
        return row
    return pd.Series({**row, "difference": -row["difference"], "low": -row["high"], "high": -row["low"]})


def _by_client(metric: str, rows: pd.DataFrame, control: str) -> Iterator[str]:
    defined = rows[rows["outcome"] != "undefined"]
    if not len(defined):
        return
    count, told = defined["client"].nunique(), []
    for method, own in defined.groupby("method", sort=False):
        for outcome, word in (("better", "gains"), ("worse", "loses")):
            if len(found := own[own["outcome"] == outcome]):
                each = [f"{row['name']} (by {sized(_by(row), 'difference')})" for _, row in found.iterrows()]
                told.append(f"{method} {word} at {_few(each)}")
        if len(found := own[own["outcome"] == "tie"]):
            told.append(f"{method} ties at {'every client' if len(found) == len(own) else _few([*found['name']])}")
    every = f"limits hold jointly for {len(defined)} differences" if len(defined) > 1 else "one difference"
    start = f"{metric.replace('_', ' ')} against {control} by client ({every})"
    if told:
        yield f"{start}: {'; '.join(told)}. No other client is shown to gain or lose."
    else:
        yield f"{start}: none of {count} clients is shown to gain or lose."


def gains_and_losses(found: Assessment) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return how many clients gain, lose and tie by each metric with a direction, each by name, and sentences."""
    if found.predictions.anew:
        raise ValueError("predictions must be of the same clients under every seed, but each seed draws its own.")
    differences = found.differences
    side = differences["metric"].map(better)
    own = differences[(differences["over"] == "client") & (side != 0)]
    if own["client"].nunique() < 2:
        raise ValueError(
            "predictions must be of two methods at two clients, in a metric of which more or less is better, got "
            f"differences at {own['client'].nunique()} clients."
        )
    words = {"better": "gains", "worse": "loses", "tie": "ties", "no spread": "undecided"}
    rows = own.assign(outcome=own["outcome"].replace(words), worst=side * own["difference"])
    counted = {word: rows["outcome"] == word for word in ("gains", "loses", "ties", "undecided", "undefined")}
    groups = rows.assign(clients=1, **counted).groupby(["metric", "method"], sort=False)
    each = pd.concat([of.sort_values("worst") for _, of in groups], ignore_index=True)
    shown = ["metric", "method", "name", "difference", "low", "high", "outcome", "seeds"]
    return (
        groups[["clients", *counted]].sum().reset_index(),
        each[shown].rename(columns={"name": "client"}),
        [said for (metric, control), of in own.groupby(["metric", "against"], sort=False)
         for said in _by_client(metric, of, control)],
    )  # fmt: skip


def _few(names: list[str]) -> str:
    return listed(names) if len(names) <= _NAMED else first_of(names, _NAMED)


def _majority(predictions: Predictions, level: float, cut: float) -> Iterator[str]:
    """Name the methods that are not shown to be right more often than who names each client's most frequent class."""
    counts = predictions.class_counts().sum(axis=0)
    usual = counts.argmax(axis=1)
    rule = np.eye(counts.shape[1])[usual] if predictions.kind == "classes" else 1.0 * usual
    blocks = []
    for block in predictions.blocks:
        beside = np.broadcast_to(rule[block.client], (1, *block.prediction.shape[1:]))
        blocks.append(replace(block, prediction=np.concatenate([block.prediction, beside])))
    beside_all = replace(predictions, methods=(*predictions.methods, "the majority"), blocks=tuple(blocks))
    _, values, differences = tabulate(beside_all, "accuracy", len(predictions.methods), max(cut, 1e-300), level)
    rows = differences[(differences["over"] == PATIENTS) & (differences["outcome"] != "better")]
    right = values[values["over"] == PATIENTS]["estimate"].iloc[-1]
    if not len(rows) or not right < 1:  # nobody beats a rule that is never wrong
        return
    no = predictions.kind == "two classes" and not usual.any()
    whose = "each client's" if len(usual) > 1 else "the"
    what = "saying no" if no else f"naming {whose} most frequent class"
    each = [f"{row['method']} ({sized(row, 'difference')})" for _, row in rows.iterrows()]
    verb = "is" if len(each) == 1 else "are"
    yield f"{listed(each)} {verb} not shown to beat always {what}, which is right for {100 * right:.1f}% of patients."


def _speaks_of(predictions: Predictions) -> str:
    count = len(predictions.seeds)
    whose = "patients like these at these clients" if len(predictions.clients) > 1 else "patients like these"
    if count == 1:
        return f"Intervals speak of {whose}, for the models trained here: one training run tells nothing of others."
    if predictions.anew:
        return f"Intervals speak of newly trained models on clients and patients drawn anew ({count} training runs)."
    return f"Intervals speak of {whose} and of newly trained models ({count} training runs), not of other clients."


def notes_on(clients: pd.DataFrame, pooled: pd.DataFrame, predictions: Predictions, others: str) -> Iterator[str]:
    """Tell what must be known to read the numbers: what is undefined and why, and how patients and runs belong.

    `others` are those to whom `Predictions.again` relates the patients of a seed.
    """
    seeds = len(predictions.seeds)
    for metric in pooled["metric"].unique():
        name, here = metric.replace("_", " "), clients[clients["metric"] == metric].drop_duplicates("client")
        for rows, when, left in (
            (here[here["seeds"] == 0], "", "The mean over clients leaves them out."),
            (here[here["seeds"].between(1, seeds - 1)], " in some seeds", "Their rows are of the other seeds."),
        ):
            if len(rows) and len(predictions.clients) > 1:
                each = [f"{client} ({why})" for client, why in zip(rows["name"], rows["undefined"], strict=True)]
                yield (
                    f"{name} is undefined{when}, for all methods alike, at {len(rows)} of "
                    f"{len(predictions.clients)} clients: {_few(each)}. {left}"
                )
        whole = pooled[(pooled["metric"] == metric) & (pooled["over"] == PATIENTS)].iloc[0]
        if 0 < whole["seeds"] < seeds:
            yield (
                f"{name} over all patients is of {whole['seeds']} of {seeds} seeds, for all methods alike; it is "
                f"undefined in the others: {whole['undefined']}."
            )
    if seeds < 2:
        return
    if predictions.anew:
        yield "Each seed draws its clients anew: the row of a client is a mean over others, one of each seed."
    if len(predictions.blocks) == 1:
        yield "All seeds are tested on the same patients; the variance is the sum of two parts, patients and runs."
        rows = pooled[pooled["over"] == PATIENTS]
        share = rows["variance (patients)"] / (rows["variance (patients)"] + rows["variance (runs)"])
        of = {str(m).replace("_", " "): one.median() for m, one in share.groupby(rows["metric"], sort=False)}
        if known := [f"{name} {100 * value:.0f}%" for name, value in of.items() if value == value]:
            yield f"The patients' part of the variance, over all patients (median over methods): {listed(known)}."
        return
    words = (
        "Patients differ between seeds: n and events are those of one seed, on average, and runs differ by patients as "
        "well as by training; the part of runs is what they differ by beyond their patients."
    )
    if predictions.again:
        words += (
            " Seeds draw from the same patients, so that both parts are corrected by the ratio of test to "
            f"{others}, {predictions.again:.2g} (the runs' after Nadeau and Bengio 2003)."
        )
    yield words

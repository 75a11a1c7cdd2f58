"""The differences that the study of the paper's decompositions reports, and what they are read from."""

from __future__ import annotations

import pandas as pd

from fedstat._tables import Tables
from simulations.decompositions.study import CONTROL_ARMS, Outputs
from simulations.effects import DRAWN, Effects, Question
from simulations.showing import setting
from simulations.split.study import TUNED_AT

#: Arms compared with the true decomposition.
COMPARED = ("static", "dynamic", "dynamic, code", "random, every round", "Local", "FedAvg")
WRITTEN: Outputs = "as written"
#: All populations of all settings, in which labels vary.
POOLED = "populations of all settings"
CENTRED = f"output weights centred, {setting(*TUNED_AT)}"
#: By metric what turns the tables' unit into that which is shown, this unit, and its decimals.
METRICS = {"accuracy": (100, "points", 2), "balanced_accuracy": (100, "points", 2), "log_loss": (1, "nats", 3)}
Place = tuple[float, float]
Cell = tuple[float, float, int, float]


def effects(tables: Tables) -> Effects:
    """Return each arm's metrics minus those of the true decomposition, and the positive control.

    Populations are drawn for one setting: those of all settings together are a setting of their own.
    """
    accuracy = {setting(*place): by_arm(tables, WRITTEN, place) for place in places(tables)}
    found = [
        Question(
            f"each arm against the true decomposition by {metric.replace('_', ' ')}", metric,
            {where: factor * table for where, table in values.items()},
            {where: [(arm, "true") for arm in COMPARED] for where in values}, DRAWN, unit,
        )
        for metric, (factor, unit, _) in METRICS.items()
        for values in [(accuracy if metric == "accuracy" else {}) | {POOLED: pooled(tables, metric)}]
    ]  # fmt: skip
    cells = {in_words(cell): 100 * controlled(tables, cell) for cell in control_cells(tables)}
    others = [arm for arm in CONTROL_ARMS if arm != "true"]
    return Effects(
        [
            *found,
            Question(
                "a random choice against the true decomposition, output weights centred", "accuracy",
                {CENTRED: 100 * by_arm(tables, "centred", TUNED_AT)}, {CENTRED: [("random, every round", "true")]},
                DRAWN, "points",
            ),
            Question(
                "the positive control", "accuracy", cells,
                {where: [("true", other) for other in others] for where in cells}, DRAWN, "points",
            ),
        ]
    )  # fmt: skip


def places(tables: Tables, outputs: Outputs = WRITTEN) -> list[Place]:
    """Return the settings (p, alpha) at which networks were trained."""
    rows = tables["accuracy"]
    found = rows.loc[rows["outputs"] == outputs, ["p", "alpha"]].drop_duplicates()
    return [(float(p), float(alpha)) for p, alpha in found.itertuples(index=False)]


def by_arm(tables: Tables, outputs: Outputs, place: Place, metric: str = "accuracy") -> pd.DataFrame:
    """Return primary summaries of one setting: one row per population, one column per arm."""
    rows = tables["accuracy"]
    rows = rows[(rows["outputs"] == outputs) & (rows["metric"] == metric)]
    rows = rows[(rows["p"] == place[0]) & (rows["alpha"] == place[1])]
    return rows.pivot(index="seed", columns="arm", values="value")


def pooled(tables: Tables, metric: str = "accuracy") -> pd.DataFrame:
    """Return the primary summaries of all settings as written: a row per population, which is drawn for one setting."""
    return pd.concat([by_arm(tables, WRITTEN, place, metric) for place in places(tables)], ignore_index=True)


def control_cells(tables: Tables) -> list[Cell]:
    """Return the cells of the positive control: (p, alpha, samples, noise)."""
    rows = tables["control"][["p", "alpha", "samples", "noise"]].drop_duplicates()
    return [(float(p), float(a), int(n), float(noise)) for p, a, n, noise in rows.itertuples(index=False)]


def controlled(tables: Tables, cell: Cell, metric: str = "accuracy") -> pd.DataFrame:
    """Return the primary summaries of one cell of the positive control: one row per seed, one column per arm."""
    rows = tables["control"]
    for name, value in zip(("p", "alpha", "samples", "noise"), cell, strict=True):
        rows = rows[rows[name] == value]
    return rows[rows["metric"] == metric].pivot(index="seed", columns="arm", values="value")


def in_words(cell: Cell) -> str:
    """Name a cell of the positive control."""
    p, alpha, samples, noise = cell
    return f"{setting(p, alpha)}, n = {samples}, noise {noise:g}"

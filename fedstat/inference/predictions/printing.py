"""The tables of an assessment in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd

from fedstat.inference.comparing.tables import Table, counts, decimals, fixed, percent
from fedstat.inference.formatting import p_value
from fedstat.inference.predictions.conclusions import unit
from fedstat.inference.reading.scores import better

if TYPE_CHECKING:
    from fedstat.inference.predictions.assessment import Assessment


def tables(found: Assessment, most: int | None = None, also: str = "") -> Iterator[Table]:
    """Yield the tables; with `most` rows of clients, those of the first metric only, and of another one."""
    alone = f"{percent(found.level)} limits"
    yield _table(
        f"value of each method, {found.over}, with {alone} of each alone",
        found.pooled[found.pooled["over"] == found.over],
        ["metric", "method"], "estimate", "", ["n", "events", "seeds"],
    )  # fmt: skip
    rows = found.differences[found.differences["over"] == found.over]
    if len(rows):
        yield _table(
            f"differences to {found.control} on the same patients, {found.over}, with joint {alone} for each metric",
            rows, ["metric", "method"], "difference", "", ["p (adjusted)", "outcome"],
        )  # fmt: skip
    if len(found.predictions.clients) < 2:
        return
    metrics = list(found.clients["metric"].unique())
    for metric in metrics if most is None else [name for name in metrics if name in (metrics[0], also)]:
        rows = found.clients[found.clients["metric"] == metric].copy()
        beside = found.differences[(found.differences["metric"] == metric) & (found.differences["over"] == "client")]
        if len(beside):
            shown = beside.set_index(["client", "method"])[["difference", "low", "high", "outcome"]]
            shown = shown.rename(columns={"low": "joint low", "high": "joint high"})
            rows = rows.join(shown, on=["client", "method"])
        some = (
            f"; {len(rows) - most} more rows are in `fedstat.assess(...).clients`" if most and len(rows) > most else ""
        )
        direction = {1: "more is better", -1: "less is better", 0: "neither more nor less is better"}[better(metric)]
        yield _table(
            f"{metric.replace('_', ' ')} ({direction}) at each client, with {alone} of each alone"
            + (f"; differences to {found.control} with joint limits for all clients" if len(beside) else "") + some,
            rows.head(most) if most else rows,
            ["name", "method"], "estimate", "difference" if len(beside) else "", ["n", "events", "outcome"],
        )  # fmt: skip


def _table(title: str, rows: pd.DataFrame, keys: list[str], value: str, beside: str, last: list[str]) -> Table:
    """Write rows as words, each metric with its own decimals and unit; with `beside`, joint limits stand behind it."""
    units = {metric: unit(metric)[0] for metric in rows["metric"].unique()}
    places = {}
    for metric, of in rows.groupby("metric"):
        halves = units[metric] * (of["high"] - of["low"]) / 2
        places[metric] = decimals(halves, units[metric] * of[value], int(units[metric] > 1))

    def written(name: str) -> list[str]:
        pairs = zip(rows["metric"], rows[name], strict=True)
        return [fixed(units[metric] * float(one), places[metric]) for metric, one in pairs]

    def spans(low: str, high: str) -> list[str]:
        ends = zip(written(low), written(high), strict=True)
        return ["–" if "–" in (start, end) else f"[{start}, {end}]" for start, end in ends]

    cells: dict[str, list[str]] = {}
    for name in keys:
        shown = [str(one) for one in rows[name]]
        if name == "metric":
            shown = [f"{one.replace('_', ' ')}{' (%)' * (units[one] > 1)}" for one in shown]
        cells["client" if name == "name" else name] = shown
    cells |= {value: written(value), "limits": spans("low", "high")}
    if beside:
        cells |= {beside: written(beside), "joint limits": spans("joint low", "joint high")}
    elif rows["low (runs)"].notna().any():
        cells |= {f"over {of} alone": spans(f"low ({of})", f"high ({of})") for of in ("patients", "runs")}
    for name in [name for name in last if name in rows and rows[name].notna().any()]:
        plain = {"p (adjusted)": lambda of: [p_value(p) for p in of], "outcome": lambda of: list(of.fillna(""))}
        cells[name] = plain.get(name, counts)(rows[name])
    words = frozenset(["metric", "method", "client", "outcome"])
    return Table(title, tuple(cells), tuple(zip(*cells.values(), strict=True)), words, ("seeds", "over runs alone"))

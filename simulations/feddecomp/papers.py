"""The FedDecomp paper's printed tables beside ours, and the line for the report's first pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from simulations.beside import beside_printed
from simulations.feddecomp.cells import ARMS, CODE, QUESTION, TEXT
from simulations.feddecomp.effects import design, not_trained
from simulations.feddecomp.per_seed import Layout, by_seed, layouts
from simulations.feddecomp.runs import BEST
from simulations.feddecomp.study import FEDAVG_LOW, LOCAL_LOW, REVERSE, SIMULTANEOUS
from simulations.published import printed
from simulations.showing import NONE, mean_sd

#: Seeds behind the paper's values.
PRINTED_SEEDS = 3
PAPER = "feddecomp"


def beside(
    rows: list[dict[str, str]], data: str, wide: pd.DataFrame, names: Mapping[str, str], column: str, control: str,
    at: str = "", *, design: Design, untrained: Mapping[str, str],
) -> dict[str, Any] | None:  # fmt: skip
    """Return printed values beside ours, or None where the paper prints none for these data.

    `names` maps the labels of the printed table's `column` to our arms; a label of the form "name (reading)" stands
    for the printed "name". `design` and `untrained`, by arm, decide which orders and signs are resolved.
    """
    of = {
        row[column]: row
        for row in rows
        if row["data"] == data and row.get("dirichlet", at) == (at or row.get("dirichlet", at))
    }
    shown = {label: of[label.partition(" (")[0]] for label in names if label.partition(" (")[0] in of}
    own = pd.DataFrame({label: wide[names[label]] for label in shown}).dropna()
    own = own[[label for label in own if own[label].nunique() > 1]]
    if len(own) < 2 or control not in own or own.shape[1] < 2:
        return None
    table = pd.DataFrame(
        {
            "value": [float(shown[label]["accuracy"]) for label in own],
            "sd": [float(shown[label]["sd"] or np.nan) for label in own],
            "seeds": PRINTED_SEEDS,
        },
        index=list(own),
    )
    why = {label: untrained[arm] for label, arm in names.items() if arm in untrained}
    return beside_printed(table, own, control=control, difference=design, untrained=why)


#: The arms of Table 1 by the paper's label, FedDecomp in both readings.
_NAMES = {
    **{arm: arm for arm in ARMS if arm not in (CODE, TEXT)}, "FedDecomp (code)": CODE, "FedDecomp (text)": TEXT,
}  # fmt: skip


def _printed_at(dirichlet: float) -> str:
    """Write a concentration as the printed tables do."""
    return f"{dirichlet:.1f}"


def _how(tables: Tables, layout: Layout, dirichlet: float) -> dict[str, Any]:
    """Return by what orders and signs are decided."""
    return {"design": design(layout.train), "untrained": not_trained(tables, layout, dirichlet, layout.train)}


def table_1(tables: Tables, layout: Layout, data: str, how: Design | None = None) -> list[dict[str, Any]]:
    """Return Table 1 beside ours by concentration, both as the largest mean over rounds; `how` is another design."""
    found, names = [], {name: arm for name, arm in _NAMES.items() if arm in layout.arms}
    for a in layout.every:
        wide = by_seed(tables, layout, a, BEST)
        by = _how(tables, layout, a) | ({"design": how} if how else {})
        record = beside(printed(PAPER, "table_1"), data, wide, names, "method", "FedAvg", _printed_at(a), **by)
        if record:
            found.append({"dirichlet": f"{a:g}", **record})
    return found


def table_5(tables: Tables, layout: Layout) -> list[dict[str, Any]]:
    """Return Table 5, which the paper prints for CIFAR-100, beside ours."""
    found = []
    for a in layout.main:
        wide, names = by_seed(tables, layout, a, BEST), {"FedDecomp": CODE, "reverse": REVERSE}
        rows, by = printed(PAPER, "table_5"), _how(tables, layout, a)
        if record := beside(rows, "CIFAR-100", wide, names, "method", "FedDecomp", _printed_at(a), **by):
            found.append({"dirichlet": f"{a:g}", **record})
    return found


def table_2(wide: pd.DataFrame, layout: Layout, data: str) -> list[dict[str, str]]:
    """Tabulate accuracy by ranks, printed and ours on the seeds that all ranks have."""
    wide = wide[list(dict.fromkeys(layout.ratios.values()))].dropna()
    theirs = {(row["dense_ratio"], row["conv_ratio"]): row["accuracy"] for row in printed(PAPER, "table_2")
              if row["data"] == data}  # fmt: skip
    return [
        {
            "dense": f"{100 * dense:g}%", "conv": f"{100 * conv:g}%", "ours": mean_sd(wide[arm]),
            "printed": theirs.get((f"{100 * dense:g}", f"{100 * conv:g}"), NONE),
        }
        for (dense, conv), arm in layout.ratios.items()
    ]  # fmt: skip


def proof(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the study's lines for the report's first pages, one for each main concentration."""
    layout, (experiment, *_) = layouts(tables)[0], config["experiments"]
    world, setup = experiment["world"], experiment["setup"]
    rows = printed(PAPER, "table_1")
    found = []
    for a in layout.main:
        theirs = {r["method"]: r["accuracy"] for r in rows
                  if r["data"] == world["printed"] and r["dirichlet"] == _printed_at(a)}  # fmt: skip
        names = {name: arm for name, arm in _NAMES.items() if arm in QUESTION}
        wide = by_seed(tables, layout, a, BEST)
        words = ", ".join(f"{name} {theirs[name]}" for name in ("FedDecomp", "Local", "FedAvg") if name in theirs)
        found.append(
            {
                "what": f"FedDecomp in both readings against Local and FedAvg, {layout.world}, Dirichlet {a:g}, "
                f"{setup['clients']} clients of {setup['train']} training images, {setup['rounds']} rounds of "
                f"{setup['epochs']} epochs",
                "findings": [f"{arm} − {other}, {a:g}" for arm in QUESTION[2:] for other in QUESTION[:2]],
                "names": {
                    f"{arm} − {other}, {a:g}": f"{arm.removeprefix('FedDecomp ')} minus {other}"
                    for arm in QUESTION[2:]
                    for other in QUESTION[:2]
                },
                "beside": beside(
                    rows, world["printed"], wide, names, "method", "FedAvg", _printed_at(a), **_how(tables, layout, a)
                ),
                "printed": f"{words} (ResNet-8, 40 clients of 500, 300 rounds)" if words else "",
            }
        )
    return found


def table_3(tables: Tables, layout: Layout, data: str) -> dict[str, Any] | None:
    """Return Table 3 beside ours."""
    wide, by = by_seed(tables, layout, layout.first, BEST), _how(tables, layout, layout.first)
    names = {"simultaneous": SIMULTANEOUS, "alternating": CODE}
    return beside(printed(PAPER, "table_3"), data, wide, names, "training", "simultaneous", **by)


def table_4(tables: Tables, layout: Layout, data: str) -> dict[str, Any] | None:
    """Return Table 4 beside ours."""
    wide, by = by_seed(tables, layout, layout.first, BEST), _how(tables, layout, layout.first)
    names = {name: name for name in ("Local", LOCAL_LOW, "FedAvg", FEDAVG_LOW)}
    return beside(printed(PAPER, "table_4"), data, wide, names, "method", "FedAvg", **by)

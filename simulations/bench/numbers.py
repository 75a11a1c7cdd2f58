"""What the bench of all methods hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference.formatting import p_value
from simulations.bench import compared
from simulations.bench.by_cell import PER_CENT, chosen_for, of_cell, sizes
from simulations.bench.compared import CELLS, by_seed, cells, controls
from simulations.bench.effects import READINGS, against, effects, outcomes
from simulations.bench.pictures import figures
from simulations.contract import Finding
from simulations.effects import Effect, Effects
from simulations.estimates import mean_of
from simulations.names import readable
from simulations.showing import NONE, fixed, rounded, span

__all__ = ["effects", "figures", "findings", "numbers"]

#: The arms of the papers' proving experiments, which meet here.
PROVING = ("FedDecomp code", "Factorized-FL beta, code", "FedFac dynamic", "FilterDecomp personal")


# --- findings --------------------------------------------------------------------------------------------------


def findings(tables: Tables) -> dict[str, Finding]:
    """Return what validation preferred beside its better control, the papers' arms minus Local, and readings."""
    asked, found = effects(tables), dict[str, Finding]()
    for cell in cells(tables):
        joint = against(tables, asked, cell)
        favourite = compared.favourite(tables, cell)
        if own := [effect for (arm, _), effect in joint.items() if arm == favourite]:
            better = min(own, key=lambda effect: effect.mean)
            found[f"{cell} favourite"] = _points(f"{favourite} (preferred by validation) - {better.second}", better)
        for arm in PROVING:
            if (arm, "Local") in joint:
                found[f"{cell} {arm} - Local"] = _points(f"{arm} - Local", joint[arm, "Local"])
        for a, b in READINGS:
            if ("accuracy", cell, a, b) in asked:
                found[f"{cell} {a} - {b}"] = _points(f"{a} - {b}", asked["accuracy", cell, a, b])
    return found


def _points(what: str, effect: Effect) -> Finding:
    return Finding.of(readable(f"accuracy, {what}, {CELLS[effect.setting]}"), effect, digits=1)


# --- numbers ---------------------------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arms of each data set in words and tables, ranks over data sets, bytes, readings and tuning."""
    there, asked = cells(tables), effects(tables)
    came_out = outcomes(tables, asked)
    size = {cell["name"]: sizes(cell) for cell in config["cells"]}
    return {
        "cells": [{**size[cell], **of_cell(tables, cell, asked, came_out)} for cell in there],
        "outcomes": came_out.to_dict("records"),
        "controls": [readable(arm) for arm in compared.every_arm(tables) if arm in controls(tables)],
        "absent": _absent(tables),
        "ranks": _ranks(tables),
        "readings": _readings(tables, asked),
        "beside": _beside(tables),
        "tuning": [_tuning(tables, cell) for cell in there],
    }


def _absent(tables: Tables) -> list[dict[str, Any]]:
    """Return what is missing, by data set and reason."""
    found = pd.DataFrame(compared.absent(tables), columns=["arm", "cell", "why"])
    return [
        {"cell": CELLS[str(cell)], "why": str(why), "arms": [readable(arm) for arm in own["arm"]]}
        for (cell, why), own in found.groupby(["cell", "why"], sort=False)
    ]


# --- over data sets --------------------------------------------------------------------------------------------


def _ranks(tables: Tables) -> dict[str, Any]:
    """Return mean ranks over seeds and over data sets, who is told apart, and how data sets agree."""
    arms, seeds, sets = compared.ranked_arms(tables), compared.over_seeds(tables), compared.over_cells(tables)
    left_out = [arm for arm in compared.every_arm(tables) if arm not in arms]
    found: dict[str, Any] = {
        "arms": str(len(arms)),
        "left_out": [readable(arm) for arm in left_out],
        "cells": str(len(cells(tables))),
        "each": str(min((len(by_seed(tables, cell)) for cell in cells(tables)), default=0)),
        "over_seeds": None if seeds is None else _ranking(seeds),
        "over_cells": None if sets is None else _ranking(sets),
        "correlations": [
            {"first": CELLS[a], "second": CELLS[b], "halves": a == b, "value": fixed(value, 2)}
            for a, b, value in compared.correlations(tables)
        ],
    }
    if sets is not None:
        found["chance"] = fixed(1 / sets.settings, 2)
        found["concordance"] = fixed(compared.concordance(sets), 2)
        found["agree"] = bool(sets.p < 1 - sets.level)
        found["by_cell"] = _rank_table(tables)
    return found


def _ranking(found: Any) -> dict[str, Any]:
    apart, of = compared.told_apart(found)
    p = p_value(found.p)
    return {
        "blocks": str(found.settings),
        "p": p if p.startswith("<") else f"= {p}",
        "critical": fixed(found.critical_difference, 1),
        "most": str(len(found.methods) - 1),
        "apart": apart,
        "of": of,
        "differ": bool(found.p < 1 - found.level),
        "first": readable(found.methods[0]),
    }


def _rank_table(tables: Tables) -> list[dict[str, str]]:
    """Tabulate the rank of each ranked arm's mean in each data set, by their mean."""
    arms = compared.ranked_arms(tables)
    places = pd.DataFrame(
        {cell: by_seed(tables, cell)[arms].mean().rank(ascending=False) for cell in cells(tables)}, index=arms
    )
    order = places.mean(axis=1).sort_values(kind="stable").index
    return [
        {
            "arm": readable(str(arm)),
            **{cell: f"{places.loc[arm, cell]:g}" if cell in places else NONE for cell in CELLS},
            "mean": fixed(places.loc[arm].mean(), 1),
        }
        for arm in order
    ]


# --- readings, other models, tuning ----------------------------------------------------------------------------


def _readings(tables: Tables, asked: Effects) -> list[dict[str, Any]]:
    """Tabulate readings of one method side by side: both accuracies, and their difference."""
    found = []
    for cell in cells(tables):
        table = 100 * by_seed(tables, cell)
        for a, b in READINGS:
            if ("accuracy", cell, a, b) not in asked:
                continue
            effect = asked["accuracy", cell, a, b]
            found.append(
                {
                    "cell": CELLS[cell],
                    "first": readable(a),
                    "second": readable(b),
                    "of_first": mean_of(table[a], within=PER_CENT),
                    "of_second": mean_of(table[b], within=PER_CENT),
                    "difference": effect.estimate,
                    "correlation": fixed(effect.correlation, 2),
                    "sign": _points("", effect).sign,
                }
            )
    return rounded(found, of_first=1, of_second=1, difference=1)


def _beside(tables: Tables) -> list[dict[str, str]]:
    """Tabulate the accuracy of the models that arms have beside their own."""
    rows = tables["accuracy"]
    rows = rows[~rows["own"] & (rows["metric"] == "accuracy")]
    found = []
    for (arm, estimand), own in rows.groupby(["arm", "estimand"], sort=False):
        by_cell = {str(cell): values["value"].dropna() for cell, values in own.groupby("cell")}
        shown = {c: 100 * v for c, v in by_cell.items() if len(v) > 1}
        found.append(
            {
                "arm": readable(str(arm)),
                "estimand": str(estimand),
                **{c: mean_of(shown[c], within=PER_CENT) if c in shown else None for c in CELLS},
            }
        )
    return rounded(found, **dict.fromkeys(CELLS, 1))


def _tuning(tables: Tables, cell: str) -> dict[str, Any]:
    """Say how tuning went: what stayed at an end, how far validation lay above the test, and what choosing flatters."""
    rows = tables["tuning"][tables["tuning"]["cell"] == cell]
    validated, table = compared.validated(tables, cell), 100 * by_seed(tables, cell).mean()
    gap = (100 * validated - table).dropna()
    flattered = compared.optimism(tables, cell)
    return {
        "cell": CELLS[cell],
        "rates": ", ".join(f"{lr:g}" for lr in sorted(rows["lr"].unique())),
        "settings": str(sum(bool(v["setting"]) for v in chosen_for(tables, cell).values())),
        "ends": [readable(arm) for arm in rows.loc[rows["end"] & rows["chosen"], "arm"].unique()],
        "gap": fixed(gap.mean(), 1) if len(gap) else NONE,
        "range": span(gap, 1) if len(gap) else NONE,
        "optimism": NONE if flattered is None else rounded([{"x": flattered}], x=2)[0]["x"],
    }

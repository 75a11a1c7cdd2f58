"""What the bench of all methods hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import mean_interval
from fedstat.inference.formatting import p_value
from simulations.bench import compared
from simulations.bench.compared import CELLS, budgets, by_seed, cells, controls, costs, differences
from simulations.bench.outcomes import CONTROLS, outcomes
from simulations.bench.pictures import figures
from simulations.contract import Finding
from simulations.showing import NONE, fixed, greek, rounded, span

__all__ = ["figures", "findings", "numbers"]

PER_CENT = (0.0, 100.0)
#: The arms of the papers' proving experiments, which meet here.
PROVING = ("FedDecomp code", "Factorized-FL beta, code", "FedFac dynamic", "FilterDecomp personal")
#: Readings of one method, two and two.
READINGS = (
    ("FedFac dynamic", "FedFac code"),
    ("Factorized-FL alpha, text", "Factorized-FL alpha, code"),
    ("Factorized-FL beta, text", "Factorized-FL beta, code"),
    ("FedDecomp text", "FedDecomp code"),
    ("FilterDecomp personal", "FilterDecomp personal, own head"),
    ("FilterDecomp fast/slow", "FilterDecomp fast/slow, alpha"),
)


# --- findings --------------------------------------------------------------------------------------------------


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the papers' arms less Local, what validation preferred less both controls, and readings' differences."""
    found: dict[str, Finding] = {}
    for cell in cells(tables):
        favourite = compared.favourite(tables, cell)
        for kind, (control, estimate) in compared.favourite_less(tables, cell).items():
            words = f"accuracy of {favourite} (preferred by validation) less that of {control}, {CELLS[cell]}"
            found[f"{cell} favourite less {kind}"] = _points(words, estimate)
        joint = differences(tables, cell)
        for arm in PROVING:
            if (arm, "Local") in joint.index:
                words = f"accuracy of {arm} less that of Local, {CELLS[cell]}"
                found[f"{cell} {arm} less Local"] = _points(words, joint.loc[(arm, "Local")])
        for (a, b), (estimate, _) in compared.reading_differences(tables, cell, READINGS).items():
            found[f"{cell} {a} less {b}"] = _points(f"accuracy of {a} less {b}, {CELLS[cell]}", estimate)
    return found


def _points(what: str, estimate: Any) -> Finding:
    mean, low, high = (float(value) for value in estimate)
    return Finding(greek(what), mean, low, high, unit="points", digits=1)


# --- numbers ---------------------------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arms of each data set in words and tables, ranks over data sets, bytes, readings and tuning."""
    there = cells(tables)
    came_out = outcomes(tables["differences"])
    sizes = {cell["name"]: _sizes(cell) for cell in config["cells"]}
    return {
        "cells": [{**sizes[cell], **_cell(tables, cell, came_out)} for cell in there],
        "outcomes": came_out[came_out["cell"].isin(there)].to_dict("records"),
        "controls": [greek(arm) for arm in compared.every_arm(tables) if arm in controls(tables)],
        "absent": _absent(tables),
        "ranks": _ranks(tables),
        "readings": _readings(tables),
        "beside": _beside(tables),
        "tuning": [_tuning(tables, cell) for cell in there],
    }


def _sizes(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a data set's sizes as the chapter prints them."""
    return {
        "samples": NONE if cell["samples"] is None else f"{cell['samples']:,}",
        "drawn": cell["samples"] is not None,
        "alpha": f"{cell['alpha']:g}" if cell["alpha"] else NONE,
        **{name: str(cell[name]) for name in ("batch_size", "local_epochs", "last", "tuning_rounds")},
        "tuned": len(cell["rates"]) > 1,
    }


def _cell(tables: Tables, cell: str, came_out: pd.DataFrame) -> dict[str, Any]:
    """Return all about a data set."""
    words = came_out[came_out["cell"] == cell].set_index("arm")["outcome"]
    others = words.drop(index=[arm for arm in words.index if arm in controls(tables)])
    table, prices = by_seed(tables, cell), costs(tables, cell)
    pairs = tables["differences"].loc[tables["differences"]["cell"] == cell, "correlation"].dropna()
    favourite = compared.favourite(tables, cell)
    return {
        "cell": cell,
        "name": CELLS[cell],
        "seeds": str(len(table)),
        "tuning_seeds": str(tables["tuning"].loc[tables["tuning"]["cell"] == cell, "seed"].nunique()),
        "clients": str(int(prices["clients"].iloc[0])),
        "rounds": str(int(prices["rounds"].iloc[0])),
        "majority": fixed(100 * by_seed(tables, cell, "majority_share").to_numpy().mean(), 1),
        "correlation": span(pairs, 2) if len(pairs) else NONE,
        "of": len(others),
        "counts": [_count(tables, cell, control) for control in CONTROLS],
        "margin": fixed(compared.margin(tables, cell), 1),
        "controls": _between_controls(tables, cell),
        "came_out": [
            {"outcome": str(outcome), "arms": [greek(arm) for arm in own]}
            for outcome, own in others.groupby(others, sort=False).groups.items()
        ],
        "groups": _groups(tables, cell, words),
        "estimands": _estimands(tables, cell),
        "front": _front(tables, cell),
        "favourite": greek(favourite) if favourite else NONE,
        "tuned_after": _tuned_after(tables, cell),
    }


def _count(tables: Tables, cell: str, control: str) -> dict[str, Any]:
    """Count the arms above, below and not told apart from one kind of control; of the last, those shown to be equal.

    `half` is the median half-width of the limits, `frugal` the same counts for arms that send no more than FedAvg.
    """
    rows = differences(tables, cell).xs(control, level="control")
    rows = rows[~rows.index.isin(controls(tables))]
    prices = costs(tables, cell).loc[rows.index]
    sent = prices["up"] + prices["down"]
    most = costs(tables, cell)[["up", "down"]].sum(axis=1).reindex(prices["control_fedavg"]).to_numpy()
    width = compared.margin(tables, cell)
    equal = (rows["low"] > -width) & (rows["high"] < width) & (rows["low"] <= 0) & (rows["high"] >= 0)
    return {
        "control": control,
        **_signs(rows),
        "equal": int(equal.sum()),
        "half": fixed(((rows["high"] - rows["low"]) / 2).median(), 1),
        "frugal": _signs(rows[sent.to_numpy() <= 1.001 * most]),
    }


def _signs(rows: pd.DataFrame) -> dict[str, int]:
    above, below = int((rows["low"] > 0).sum()), int((rows["high"] < 0).sum())
    return {"above": above, "below": below, "neither": len(rows) - above - below, "of": len(rows)}


def _between_controls(tables: Tables, cell: str) -> dict[str, str] | None:
    """Return Local less FedAvg of the smallest budget: whether a data set can tell its controls apart."""
    found = compared.between_controls(tables, cell)
    if found is None:
        return None
    finding = Finding.of("", found, digits=1)
    return {"sign": finding.sign, "text": finding.text}


def _groups(tables: Tables, cell: str, words: pd.Series) -> list[dict[str, Any]]:
    """Tabulate a data set's arms by budget of epochs, the most accurate first."""
    wide = {m: by_seed(tables, cell, m) for m in ("accuracy", "balanced_accuracy", "log_loss")}
    joint, prices = differences(tables, cell), costs(tables, cell)
    chosen = _chosen(tables, cell)
    rows, where = [], []
    for budget, arms in budgets(tables, cell):
        for arm in arms:
            where.append(budget)
            rows.append(
                {
                    "arm": greek(arm),
                    "accuracy": mean_interval(100 * wide["accuracy"][arm], within=PER_CENT),
                    **{c: tuple(joint.loc[(arm, c)]) if (arm, c) in joint.index else None for c in CONTROLS},
                    "outcome": str(words.get(arm, NONE)),
                    "balanced": _interval(wide["balanced_accuracy"], arm, 100),
                    "log_loss": _interval(wide["log_loss"], arm, 1),
                    **chosen.get(arm, {"rate": NONE, "setting": ""}),
                    "epochs": str(prices.loc[arm, "epochs"]).replace("x", "×"),
                    **{way: fixed(prices.loc[arm, way] / 1000, 1) for way in ("up", "down", "state")},
                }
            )
    shown = rounded(rows, accuracy=1, **dict.fromkeys(CONTROLS, 1), balanced=1, log_loss=3)
    return [
        {
            "budget": budget,
            "times": f"{compared.epochs_of(tables, cell, budget)}",
            "controls": [greek(arm) for arm in compared.own_controls(tables, cell, budget).values()],
            "arms": [row for row, own in zip(shown, where, strict=True) if own == budget],
        }
        for budget, _ in budgets(tables, cell)
    ]


def _interval(table: pd.DataFrame, arm: str, factor: float) -> Any:
    return mean_interval(factor * table[arm]) if arm in table else None


def _chosen(tables: Tables, cell: str) -> dict[str, dict[str, str]]:
    """Return the rate and the setting with which each arm was measured; a star where a choice stayed at an end.

    Of the three values of a setting both that are not the default are ends. A rate that differs from the one chosen,
    which diverged under the seeds of the results, has a mark of its own.
    """
    rows = tables["tuning"]
    rows = rows[(rows["cell"] == cell) & rows["chosen"]]
    ends = rows.groupby("arm")["end"].any()
    tuned = rows.groupby("arm")["lr"].first()
    found = {}
    for arm, row in costs(tables, cell).iterrows():
        setting = row["setting"]
        other = arm in tuned.index and not np.isclose(tuned[arm], row["lr"])
        found[str(arm)] = {
            "rate": f"{row['lr']:g}" + "*" * bool(ends.get(arm, False)) + "§" * other,
            "setting": "" if pd.isna(setting) or not setting else greek(f"{setting}*"),
        }
    return found


def _estimands(tables: Tables, cell: str) -> list[dict[str, Any]]:
    own = tables["accuracy"]
    own = own[(own["cell"] == cell) & own["own"] & own["arm"].isin(by_seed(tables, cell).columns)]
    return [
        {"name": str(name), "arms": [greek(arm) for arm in arms]}
        for name, arms in own.groupby("estimand", sort=False)["arm"].unique().items()
    ]


def _tuned_after(tables: Tables, cell: str) -> list[dict[str, Any]]:
    """Return the arms that are compared with another FedAvg than that of their budget, by that control."""
    prices = costs(tables, cell)
    found: dict[str, list[str]] = {}
    for budget, arms in budgets(tables, cell):
        own = compared.own_controls(tables, cell, budget)
        for arm in arms:
            control = str(prices.loc[arm, "control_fedavg"])
            if control != own.get("FedAvg", control):
                found.setdefault(control, []).append(greek(arm))
    return [{"control": greek(control), "arms": arms} for control, arms in found.items()]


def _front(tables: Tables, cell: str) -> list[dict[str, str]]:
    """Tabulate the arms that none dominates by bytes and accuracy."""
    table, found = by_seed(tables, cell), compared.undominated(tables, cell)
    return rounded(
        [
            {
                "arm": greek(str(arm)),
                "spent": f"{row['spent']:.3g}",
                "accuracy": mean_interval(100 * table[arm], within=PER_CENT),
                "seeds": f"{round(row['seeds'] * len(table))} of {len(table)}",
            }
            for arm, row in found.iterrows()
        ],
        accuracy=1,
    )


def _absent(tables: Tables) -> list[dict[str, Any]]:
    """Return what is missing, by data set and reason."""
    found = pd.DataFrame(compared.absent(tables), columns=["arm", "cell", "why"])
    return [
        {"cell": CELLS[str(cell)], "why": str(why), "arms": [greek(arm) for arm in own["arm"]]}
        for (cell, why), own in found.groupby(["cell", "why"], sort=False)
    ]


# --- over data sets --------------------------------------------------------------------------------------------


def _ranks(tables: Tables) -> dict[str, Any]:
    """Return mean ranks over seeds and over data sets, who is told apart, and how data sets agree."""
    arms, seeds, sets = compared.ranked_arms(tables), compared.over_seeds(tables), compared.over_cells(tables)
    left_out = [arm for arm in compared.every_arm(tables) if arm not in arms]
    found: dict[str, Any] = {
        "arms": str(len(arms)),
        "left_out": [greek(arm) for arm in left_out],
        "cells": str(len(cells(tables))),
        "each": str(min(len(by_seed(tables, cell)) for cell in cells(tables))),
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
        "first": greek(found.methods[0]),
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
            "arm": greek(str(arm)),
            **{cell: f"{places.loc[arm, cell]:g}" if cell in places else NONE for cell in CELLS},
            "mean": fixed(places.loc[arm].mean(), 1),
        }
        for arm in order
    ]


# --- readings, other models, tuning ----------------------------------------------------------------------------


def _readings(tables: Tables) -> list[dict[str, Any]]:
    """Tabulate readings of one method side by side: both accuracies, and their difference in joint limits."""
    found = []
    for cell in cells(tables):
        table = 100 * by_seed(tables, cell)
        for (a, b), (estimate, correlation) in compared.reading_differences(tables, cell, READINGS).items():
            found.append(
                {
                    "cell": CELLS[cell],
                    "first": greek(a),
                    "second": greek(b),
                    "of_first": mean_interval(table[a], within=PER_CENT),
                    "of_second": mean_interval(table[b], within=PER_CENT),
                    "difference": estimate,
                    "correlation": fixed(correlation, 2),
                    "sign": _points("", estimate).sign,
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
                "arm": greek(str(arm)),
                "estimand": str(estimand),
                **{c: mean_interval(shown[c], within=PER_CENT) if c in shown else None for c in CELLS},
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
        "settings": str(sum(bool(v["setting"]) for v in _chosen(tables, cell).values())),
        "ends": [greek(arm) for arm in rows.loc[rows["end"] & rows["chosen"], "arm"].unique()],
        "gap": fixed(gap.mean(), 1) if len(gap) else NONE,
        "range": span(gap, 1) if len(gap) else NONE,
        "optimism": NONE if flattered is None else rounded([{"x": flattered}], x=2)[0]["x"],
    }

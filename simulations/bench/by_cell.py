"""What the bench's chapter is told of one data set: its sizes, counts, tables of arms, and the arms none dominates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.bench import compared
from simulations.bench.compared import CELLS, budgets, by_seed, controls, costs, own_controls
from simulations.bench.effects import LONGER, MARGIN, against
from simulations.bench.outcomes import CONTROLS
from simulations.contract import Finding
from simulations.effects import Effect, Effects, to_the_better
from simulations.estimates import mean_of, strict_mean
from simulations.names import readable
from simulations.showing import NONE, fixed, rounded, span

PER_CENT = (0.0, 100.0)


def sizes(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a data set's sizes as the chapter prints them."""
    return {
        "samples": NONE if cell["samples"] is None else f"{cell['samples']:,}",
        "drawn": cell["samples"] is not None,
        "alpha": f"{cell['alpha']:g}" if cell["alpha"] else NONE,
        **{name: str(cell[name]) for name in ("batch_size", "local_epochs", "last")},
        "tuned": len(cell["rates"]) > 1,
    }


def of_cell(tables: Tables, cell: str, asked: Effects, came_out: pd.DataFrame) -> dict[str, Any]:
    """Return all about a data set."""
    words = came_out[came_out["cell"] == cell].set_index("arm")["outcome"]
    others = words.drop(index=[arm for arm in words.index if arm in controls(tables)])
    table, prices = by_seed(tables, cell), costs(tables, cell)
    joint = against(tables, asked, cell)
    pairs = pd.Series([effect.correlation for effect in joint.values()]).dropna()
    favourite = compared.favourite(tables, cell)
    return {
        "cell": cell,
        "name": CELLS[cell],
        "seeds": str(len(table)),
        "tuning_seeds": str(tables["tuning"].loc[tables["tuning"]["cell"] == cell, "seed"].nunique()),
        "clients": str(int(prices["clients"].iloc[0])),
        "rounds": str(int(prices["rounds"].iloc[0])),
        "majority": fixed(100 * strict_mean(by_seed(tables, cell, "majority_share").to_numpy().ravel()), 1),
        "correlation": span(pairs, 2) if len(pairs) else NONE,
        "of": len(others),
        "counts": [_count(tables, cell, control, joint) for control in CONTROLS],
        "margin": fixed(MARGIN, 0),
        "both": _both(joint, others),
        "longer": _longer(cell, asked),
        "controls": _between_controls(tables, cell, asked),
        "came_out": [
            {"outcome": str(outcome), "arms": [readable(arm) for arm in own]}
            for outcome, own in others.groupby(others, sort=False).groups.items()
        ],
        "groups": _groups(tables, cell, joint, words),
        "estimands": _estimands(tables, cell),
        "front": _front(tables, cell),
        "favourite": readable(favourite) if favourite else NONE,
        "tuned_after": _tuned_after(tables, cell),
    }


def _count(tables: Tables, cell: str, control: str, joint: Mapping[tuple[str, str], Effect]) -> dict[str, Any]:
    """Count the arms above, below and not told apart from one kind of control.

    `equal` are those shown to be equivalent, `half` is the median half-width of the limits, `find` the median of what
    could have been found, `frugal` the same counts for arms that send no more than FedAvg.
    """
    found = {arm: effect for (arm, kind), effect in joint.items() if kind == control and arm not in controls(tables)}
    prices = costs(tables, cell)
    sent = prices["up"] + prices["down"]
    frugal = {arm: e for arm, e in found.items() if sent[arm] <= 1.001 * sent[prices.loc[arm, "control_fedavg"]]}
    return {
        "control": control,
        **_signs(found),
        "equal": sum(effect.outcome(MARGIN) == "equivalent" for effect in found.values()),
        "half": _median([(e.high - e.low) / 2 for e in found.values()]),
        "find": _median([e.could_find for e in found.values()]),
        "frugal": _signs(frugal),
    }


def _signs(found: Mapping[str, Effect]) -> dict[str, int]:
    above, below = sum(e.low > 0 for e in found.values()), sum(e.high < 0 for e in found.values())
    of = sum(not e.unjudged for e in found.values())
    return {"above": above, "below": below, "neither": of - above - below, "of": of}


def _both(joint: Mapping[tuple[str, str], Effect], others: pd.Series) -> dict[str, Any]:
    """Say what "above both" could have shown: the gain over the better control, and the largest that limits allow."""
    left = [
        to_the_better([joint[arm, kind] for kind in CONTROLS])
        for arm in others.index
        if others[arm] != "above both" and all((arm, kind) in joint for kind in CONTROLS)
    ]
    most = [effect.high for effect in left if np.isfinite(effect.high)]
    return {"find": _median([e.could_find for e in left]), "most": fixed(max(most), 1) if most else NONE}


def _median(values: list[float]) -> str:
    known = [value for value in values if np.isfinite(value)]
    return fixed(float(np.median(known)), 1) if known else NONE


def _between_controls(tables: Tables, cell: str, asked: Effects) -> dict[str, str] | None:
    """Return Local - FedAvg of the smallest budget: whether a data set can tell its controls apart."""
    own = own_controls(tables, cell, budgets(tables, cell)[0][0])
    key = ("accuracy", cell, own.get("Local", ""), own.get("FedAvg", ""))
    return _told(asked[key]) if key in asked else None


def _longer(cell: str, asked: Effects) -> list[dict[str, str]]:
    """Return what the next budget of epochs adds to each control: whether training has ended at the smallest."""
    return [{"control": e.second, **_told(e)} for e in asked.among(LONGER) if e.setting == cell]


def _told(effect: Effect) -> dict[str, str]:
    return Finding.of("", effect, digits=1).record()


def _groups(
    tables: Tables, cell: str, joint: Mapping[tuple[str, str], Effect], words: pd.Series
) -> list[dict[str, Any]]:
    """Tabulate a data set's arms by budget of epochs, the most accurate first."""
    wide = {m: by_seed(tables, cell, m) for m in ("accuracy", "balanced_accuracy", "log_loss")}
    prices, chosen = costs(tables, cell), chosen_for(tables, cell)
    rows, where = [], []
    groups = budgets(tables, cell)
    for budget, arms in groups:
        for arm in arms:
            where.append(budget)
            rows.append(
                {
                    "arm": readable(arm),
                    "accuracy": mean_of(100 * wide["accuracy"][arm], within=PER_CENT),
                    **{c: joint[arm, c].estimate if (arm, c) in joint else None for c in CONTROLS},
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
            "controls": [readable(arm) for arm in compared.own_controls(tables, cell, budget).values()],
            "arms": [row for row, own in zip(shown, where, strict=True) if own == budget],
        }
        for budget, _ in groups
    ]


def _interval(table: pd.DataFrame, arm: str, factor: float) -> Any:
    return mean_of(factor * table[arm]) if arm in table else None


def chosen_for(tables: Tables, cell: str) -> dict[str, dict[str, str]]:
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
            "setting": "" if pd.isna(setting) or not setting else readable(f"{setting}*"),
        }
    return found


def _estimands(tables: Tables, cell: str) -> list[dict[str, Any]]:
    own = tables["accuracy"]
    own = own[(own["cell"] == cell) & own["own"] & own["arm"].isin(by_seed(tables, cell).columns)]
    return [
        {"name": str(name), "arms": [readable(arm) for arm in arms]}
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
                found.setdefault(control, []).append(readable(arm))
    return [{"control": readable(control), "arms": arms} for control, arms in found.items()]


def _front(tables: Tables, cell: str) -> list[dict[str, str]]:
    """Tabulate the arms that none dominates by bytes and accuracy."""
    table, found = by_seed(tables, cell), compared.undominated(tables, cell)
    return rounded(
        [
            {
                "arm": readable(str(arm)),
                "spent": f"{row['spent']:.3g}",
                "accuracy": mean_of(100 * table[arm], within=PER_CENT),
                "seeds": f"{round(row['seeds'] * len(table))} of {len(table)}",
            }
            for arm, row in found.iterrows()
        ],
        accuracy=1,
    )

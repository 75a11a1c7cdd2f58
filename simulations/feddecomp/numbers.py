"""What the FedDecomp study hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import Effects
from simulations.estimates import mean_of
from simulations.feddecomp import papers
from simulations.feddecomp.cells import ARMS, CODE, TEXT
from simulations.feddecomp.effects import CONTROLS, MARGIN, READINGS, above_both, effects, over_better, setting
from simulations.feddecomp.per_seed import LOG_LOSS, Layout, by_seed, drawn, layouts, moved
from simulations.feddecomp.runs import BEST
from simulations.feddecomp.study import SPREAD, rate_arm
from simulations.feddecomp.told import findings, prefix
from simulations.published import printed
from simulations.showing import NONE, fixed, mean_sd, rounded, sought

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["effects", "figures", "findings", "numbers"]

PER_CENT = (0.0, 100.0)


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter, those of each world in a record of its own."""
    found, every = findings(tables), effects(tables)
    return {
        "worlds": [
            _world(tables, found, every, layout, of)
            for layout, of in zip(layouts(tables), config["experiments"], strict=True)
        ],
        "proof": papers.proof(tables, config),
    }


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the figures."""
    from simulations.feddecomp.pictures import draw

    return draw(tables)


def _world(
    tables: Tables, found: Mapping[str, Finding], every: Effects, layout: Layout, of: Mapping[str, Any]
) -> dict[str, Any]:
    data, setup = of["world"]["printed"], of["setup"]
    return {
        "name": layout.world,
        "network": of["world"]["network"],
        "drawn": [figure for figure, one in drawn(layouts(tables)).items() if one.world == layout.world],
        "apart": of["world"]["apart"],
        "arms": [{"arm": arm, "words": ARMS[arm]} for arm in layout.arms],
        "setup": {key: setup[key] for key in ("clients", "train", "held_out", "rounds", "last", "batch", "epochs")}
        | {key: setup[key] for key in ("lora_epochs", "head_epochs", "body_epochs")},
        "seeds": {"all": of["seeds"], "few": of["few"], "tuning": of["tuning_seeds"]},
        "tuned": {"rounds": of["tuning_rounds"], "at": f"{of['tuned_at']:g}", "grid": len(of["rates"]) > 1},
        "start": prefix(tables, layout),
        "first": f"{layout.first:g}",
        "main": [f"{a:g}" for a in layout.main],
        "settings": [{"key": f"{a:g}", "seeds": str(len(by_seed(tables, layout, a)))} for a in layout.every],
        "sizes": [str(n) for n in layout.samples],
        "accuracy": accuracies(tables, layout, "accuracy"),
        "best": accuracies(tables, layout, BEST),
        "metrics": [{"dirichlet": f"{a:g}", "rows": _metrics(tables, layout, a)} for a in layout.main],
        "margin": f"{MARGIN:g}",
        "together": len(layout.main) * len(layout.others) * len(READINGS),
        "question": _question(every, layout),
        "above_both": {name: _above_both(every, layout, arm) for name, arm in _SHORT.items()},
        "differences": [_differences(every, layout, a) for a in layout.every],
        "table_1": papers.table_1(tables, layout, data),
        "paper_rate": _paper_rate(tables, found, layout),
        "tuning": rates_tried(tables["tuning"], layout.world),
        "turns": _turns(tables, found, layout, data) if layout.turns else None,
        "doses": _doses(tables, layout, data) if layout.doses else None,
    }  # fmt: skip


def _turns(tables: Tables, found: Mapping[str, Finding], layout: Layout, data: str) -> dict[str, Any]:
    return {
        "table_3": papers.table_3(tables, layout, data),
        "table_4": papers.table_4(tables, layout, data),
        "table_5": papers.table_5(tables, layout),
        "spread": _spread(tables, found, layout),
    }


def _doses(tables: Tables, layout: Layout, data: str) -> dict[str, Any]:
    wide = by_seed(tables, layout, layout.first)
    return {
        "table_2": papers.table_2(wide, layout, data),
        "epochs": by_epochs(wide, layout),
        "table_6": _table_6(tables, layout),
        "warm": _warm(tables, layout),
    }


# --- accuracies ---------------------------------------------------------------------------------------------------


def accuracies(tables: Tables, layout: Layout, metric: str) -> list[dict[str, str]]:
    """Tabulate mean (standard deviation over seeds) by arm and concentration, and the majority class."""
    wide = {f"{a:g}": by_seed(tables, layout, a, metric) for a in layout.every}
    rows = [{"arm": arm, **{key: mean_sd(table[arm]) for key, table in wide.items()}} for arm in layout.arms]
    share = {f"{a:g}": mean_sd(by_seed(tables, layout, a, "majority_share")["FedAvg"]) for a in layout.every}
    return [*rows, {"arm": "majority class", **share}]


def _metrics(tables: Tables, layout: Layout, dirichlet: float) -> list[dict[str, str]]:
    """Tabulate accuracy, the largest over rounds, balanced accuracy (per cent) and log-loss, 95% intervals."""
    named = {"accuracy": "accuracy", "best": BEST, "balanced": "balanced_accuracy", "log_loss": LOG_LOSS}
    wide = {name: by_seed(tables, layout, dirichlet, metric) for name, metric in named.items()}
    return rounded([_metric_row(arm, wide) for arm in layout.arms], accuracy=1, best=1, balanced=1, log_loss=2)


def _metric_row(arm: str, wide: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    row: dict[str, Any] = {"arm": arm}
    for name, table in wide.items():
        known = table[arm].dropna()
        limits = (-np.inf, np.inf) if name == "log_loss" else PER_CENT
        row[name] = mean_of(known, within=limits) if len(known) > 1 else None
    return row


_SHORT = {"code": CODE, "text": TEXT}


def _question(every: Effects, layout: Layout) -> list[dict[str, str]]:
    """Tabulate FedDecomp − Local and − FedAvg, with outcome and the correlation that pairing achieved."""
    rows = []
    for a in layout.main:
        for arm in READINGS:
            for other in CONTROLS:
                effect = every["accuracy", setting(layout, a), arm, other]
                rows.append(
                    {
                        "dirichlet": f"{a:g}", "arm": arm, "other": other, "difference": effect.estimate,
                        "outcome": effect.outcome(MARGIN), "correlation": fixed(effect.correlation, 2),
                    }
                )  # fmt: skip
    return rounded(rows, difference=1)


def _above_both(every: Effects, layout: Layout, arm: str) -> dict[str, Any]:
    """Say where a reading is above both controls, and what is shown of it over the better one where it is not."""
    tests = {n: above_both(every, layout, n) for n in layout.samples}
    shown = {n: [f"{a:g}" for one, a in found if one == arm] for n, found in tests.items()}
    first = shown[layout.train]
    return {
        "at": first,
        "p": [fixed(p, 3) for (one, _), p in tests[layout.train].items() if one == arm],
        "not": [
            {"dirichlet": f"{a:g}", "other": effect.second, **sought([effect], 1)}
            for a in layout.main
            if f"{a:g}" not in first
            for effect in [over_better(every, layout, arm, a)]
        ],
        "sizes": [f"{n} at {a}" for n, some in shown.items() for a in some],
    }


def _differences(every: Effects, layout: Layout, dirichlet: float) -> dict[str, Any]:
    """Tabulate both readings − every other arm of Table 1."""
    where = setting(layout, dirichlet)
    others = [arm for arm in layout.arms if arm not in READINGS]
    found = {(name, other): every["accuracy", where, arm, other] for other in others for name, arm in _SHORT.items()}
    rows = [
        {
            "other": other,
            **{name: found[name, other].estimate for name in _SHORT},
            **{f"{name}_outcome": found[name, other].outcome(MARGIN) for name in _SHORT},
        }
        for other in others
    ]
    counts = {}
    for name in _SHORT:
        own = [found[name, other] for other in others]
        unclear = [effect for effect in own if effect.low <= 0 <= effect.high]
        counts[name] = {
            "above": sum(effect.low > 0 for effect in own),
            "below": sum(effect.high < 0 for effect in own),
            "unclear": len(unclear),
            "unjudged": sum(math.isnan(effect.low + effect.high) for effect in own),
            "of": len(own),
            **sought(unclear, 1),
        }
    return {
        "dirichlet": f"{dirichlet:g}", "rows": rounded(rows, code=1, text=1), "of": len(others), "counts": counts,
        "seeds": found["code", "Local"].seeds, "main": dirichlet in layout.main,
    }  # fmt: skip


# --- ablations ----------------------------------------------------------------------------------------------------


def by_epochs(wide: pd.DataFrame, layout: Layout) -> list[dict[str, str]]:
    """Tabulate accuracy by the epochs of the low-rank part, and the extremes at their own rates."""
    arms = {str(epochs): arm for epochs, arm in layout.epochs.items()} | {"FedAvg": "FedAvg", "Local": "Local"}
    seeds = wide[list(layout.epochs.values())].dropna().index
    rows = [{"epochs": e, "accuracy": mean_of(wide.loc[seeds, a], within=PER_CENT)} for e, a in arms.items()]
    return rounded(rows, accuracy=1)


def _spread(tables: Tables, found: Mapping[str, Finding], layout: Layout) -> list[dict[str, str]]:
    """Tabulate the ratios of Figure 6."""
    start = prefix(tables, layout)
    return [
        {"reading": reading, "how": how, "ratio": found[f"{start}figure 6, {reading}, {how}"].text}
        for reading in SPREAD
        for how in ("in all", "of σ")
    ]


def _table_6(tables: Tables, layout: Layout) -> list[dict[str, str]]:
    """Tabulate accuracy and distances by the epochs of the low-rank part: printed, pre-trained, from a random start.

    All on the seeds that all have.
    """
    arms = [*layout.warm.values(), *(arm for e, arm in layout.epochs.items() if e in layout.warm)]
    wide = by_seed(tables, layout, layout.first)[arms].dropna()
    theirs = {row["low_rank_epochs"]: row for row in printed("feddecomp", "table_6")}
    rows = []
    for epochs, warm in layout.warm.items():
        row = {"epochs": str(epochs)}
        of_paper = theirs.get(str(epochs), {})
        for name, column in (("accuracy", "accuracy"), ("sigma", "change_of_sigma"), ("tau", "change_of_tau")):
            row[f"printed_{name}"] = of_paper.get(column, NONE)
        for kind, arm in (("warm", warm), ("cold", layout.epochs.get(epochs, ""))):
            there = arm in wide
            far = moved(tables, layout, arm).loc[wide.index] if there else None
            row[f"{kind}_accuracy"] = mean_sd(wide[arm]) if there else NONE
            for part in ("sigma", "tau"):
                row[f"{kind}_{part}"] = NONE if far is None else mean_sd(far[part], 2)
        rows.append(row)
    return rows


def _warm(tables: Tables, layout: Layout) -> str:
    """Return the accuracy of the pre-trained network on images of its own kind, in per cent."""
    rows = tables["moved"]
    return fixed(100 * float(rows.loc[rows["world"] == layout.world, "warm"].dropna().head(1).mean()), 0)


def _paper_rate(tables: Tables, found: Mapping[str, Finding], layout: Layout) -> list[dict[str, str]]:
    """Tabulate FedDecomp at the paper's rate beside the tuned rate, and how many seeds diverged."""
    start, rows = prefix(tables, layout), []
    for a in layout.main:
        wide = by_seed(tables, layout, a)
        for arm in (arm for arm in (CODE, TEXT) if rate_arm(arm) in wide):
            minus = {o: found.get(f"{start}{rate_arm(arm)} − {o}, {a:g}") for o in CONTROLS}
            own = wide.loc[wide["Local"].notna(), [arm, rate_arm(arm)]]
            few = own.loc[own.index.isin(_ran(tables, layout, a, rate_arm(arm)))]
            rows.append(
                {
                    "dirichlet": f"{a:g}", "arm": arm, "tuned": mean_sd(few[arm]),
                    "paper": mean_sd(few[rate_arm(arm)]), "diverged": str(int(few[rate_arm(arm)].isna().sum())),
                    "seeds": str(len(few)),
                    **{f"minus_{o.lower()}": NONE if f is None else f.text for o, f in minus.items()},
                }
            )  # fmt: skip
    return rows


def _ran(tables: Tables, layout: Layout, dirichlet: float, arm: str) -> pd.Series:
    rows = tables["accuracy"]
    return rows.loc[(rows["world"] == layout.world) & (rows["dirichlet"] == dirichlet) & (rows["arm"] == arm), "seed"]


def rates_tried(tuning: pd.DataFrame, world: str) -> list[dict[str, str]]:
    """Tabulate the chosen rates, with the grid that was tried."""
    rows = []
    for arm, own in tuning[tuning["world"] == world].groupby("arm", sort=False):
        grid = sorted(own["lr"].unique())
        rows.append(
            {
                "arm": str(arm), "rate": f"{own.loc[own['chosen'], 'lr'].iloc[0]:g}",
                "grid": f"{grid[0]:g} to {grid[-1]:g}" if len(grid) > 1 else f"{grid[0]:g}",
                "end": "yes" if bool(own["end"].any()) else "no",
            }
        )  # fmt: skip
    return rows

"""What the FedDecomp study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import equivalence, mean_interval, paired_difference
from simulations.beside import beside_printed
from simulations.feddecomp.cells import ARMS, CODE, QUESTION, TEXT
from simulations.feddecomp.per_seed import LOG_LOSS, Layout, by_seed, joint, layouts, margin, moved, question
from simulations.feddecomp.runs import BEST
from simulations.feddecomp.study import FEDAVG_LOW, LOCAL_LOW, REVERSE, SIMULTANEOUS, SPREAD, rate_arm
from simulations.feddecomp.told import findings, prefix
from simulations.published import printed
from simulations.showing import NONE, Estimate, fixed, rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figures", "findings", "numbers"]

#: Seeds behind the paper's values, from its section 4.1 and the authors' code.
PRINTED_SEEDS = 3
PER_CENT = (0.0, 100.0)


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter, those of each world in a record of its own."""
    setup = config["setup"]
    return {
        "arms": [{"arm": arm, "words": words} for arm, words in ARMS.items()],
        "setup": {key: setup[key] for key in ("clients", "train", "held_out", "rounds", "last", "batch", "epochs")}
        | {key: setup[key] for key in ("lora_epochs", "head_epochs", "body_epochs")},
        "seeds": {"all": config["seeds"], "few": config["few"], "tuning": config["tuning_seeds"]},
        "tuned": {"rounds": config["tuning_rounds"], "at": f"{config['tuned_at']:g}", "grid": len(config["rates"]) > 1},
        "worlds": [
            _world(tables, layout, world) for layout, world in zip(layouts(tables), config["worlds"], strict=True)
        ],
        "proof": _proof(tables, config),
    }


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the figures."""
    from simulations.feddecomp.pictures import draw

    return draw(tables)


def _world(tables: Tables, layout: Layout, world: Mapping[str, Any]) -> dict[str, Any]:
    data = world["printed"]
    wide = by_seed(tables, layout, layout.first)
    return {
        "name": layout.world,
        "start": prefix(tables, layout),
        "first": f"{layout.first:g}",
        "main": [f"{a:g}" for a in layout.main],
        "settings": [{"key": f"{a:g}", "seeds": str(len(by_seed(tables, layout, a)))} for a in layout.every],
        "sizes": [str(n) for n in layout.samples],
        "accuracy": _accuracy(tables, layout, "accuracy"),
        "best": _accuracy(tables, layout, BEST),
        "metrics": [{"dirichlet": f"{a:g}", "rows": _metrics(tables, layout, a)} for a in layout.main],
        "question": _question(tables, layout),
        "differences": [_differences(tables, layout, a) for a in layout.every],
        "table_1": _table_1(tables, layout, data),
        "table_2": _table_2(wide, layout, data),
        "table_3": _beside(printed("feddecomp", "table_3"), data, wide, {"simultaneous": SIMULTANEOUS,
                           "alternating": CODE}, "training", "simultaneous"),
        "table_4": _beside(printed("feddecomp", "table_4"), data, wide, {name: name for name in
                           ("Local", LOCAL_LOW, "FedAvg", FEDAVG_LOW)}, "method", "FedAvg"),
        "table_5": _table_5(tables, layout),
        "epochs": _epochs(wide, layout),
        "spread": _spread(tables, layout),
        "table_6": _table_6(tables, layout),
        "warm": _warm(tables, layout),
        "paper_rate": _paper_rate(tables, layout),
        "tuning": _tuning(tables["tuning"], layout.world),
    }  # fmt: skip


# --- accuracies ---------------------------------------------------------------------------------------------------


def _mean_sd(values: pd.Series, digits: int = 1) -> str:
    known = values.dropna()
    return f"{fixed(known.mean(), digits)} ({fixed(known.std(), digits)})" if len(known) else NONE


def _accuracy(tables: Tables, layout: Layout, metric: str) -> list[dict[str, str]]:
    """Tabulate mean (standard deviation over seeds) by arm and concentration, and the majority class."""
    wide = {f"{a:g}": by_seed(tables, layout, a, metric) for a in layout.every}
    rows = [{"arm": arm, **{key: _mean_sd(table[arm]) for key, table in wide.items()}} for arm in ARMS]
    share = {f"{a:g}": _mean_sd(by_seed(tables, layout, a, "majority_share")["FedAvg"]) for a in layout.every}
    return [*rows, {"arm": "majority class", **share}]


def _metrics(tables: Tables, layout: Layout, dirichlet: float) -> list[dict[str, str]]:
    """Tabulate accuracy, the largest over rounds, balanced accuracy (per cent) and log-loss, 95% intervals."""
    named = {"accuracy": "accuracy", "best": BEST, "balanced": "balanced_accuracy", "log_loss": LOG_LOSS}
    wide = {name: by_seed(tables, layout, dirichlet, metric) for name, metric in named.items()}
    return rounded([_metric_row(arm, wide) for arm in ARMS], accuracy=1, best=1, balanced=1, log_loss=2)


def _metric_row(arm: str, wide: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    row: dict[str, Any] = {"arm": arm}
    for name, table in wide.items():
        known = table[arm].dropna()
        limits = (-np.inf, np.inf) if name == "log_loss" else PER_CENT
        row[name] = mean_interval(known, within=limits) if len(known) > 1 else None
    return row


def _outcome(a: pd.Series, b: pd.Series, estimate: Estimate, width: float, of: int) -> str:
    both = pd.concat([a, b], axis=1).dropna()
    if equivalence(both.iloc[:, 0], both.iloc[:, 1], margin=width, alpha=0.05 / of).outcome == "equivalent":
        return "equivalent"
    return "different" if estimate[1] > 0 or estimate[2] < 0 else "undecided"


def _question(tables: Tables, layout: Layout) -> list[dict[str, str]]:
    """Tabulate FedDecomp less Local and FedAvg, with outcome and the correlation that pairing achieved."""
    estimates = question(tables, layout)
    rows = []
    for (arm, other, a), estimate in estimates.items():
        wide = by_seed(tables, layout, a)
        both = wide[[arm, other]].dropna()
        rows.append(
            {
                "dirichlet": f"{a:g}", "arm": arm, "other": other, "difference": estimate,
                "outcome": _outcome(wide[arm], wide[other], estimate, margin(wide), len(estimates)),
                "correlation": fixed(paired_difference(both[arm], both[other]).correlation, 2),
            }
        )  # fmt: skip
    return rounded(rows, difference=1)


def _differences(tables: Tables, layout: Layout, dirichlet: float) -> dict[str, Any]:
    """Tabulate both readings less every other arm of Table 1, limits joint over all at a concentration."""
    found = against_all(tables, layout, dirichlet)
    wide = by_seed(tables, layout, dirichlet)
    width = margin(wide)
    rows: list[dict[str, Any]] = []
    for other in (arm for arm in ARMS if arm not in (CODE, TEXT)):
        row: dict[str, Any] = {"other": other}
        for name, arm in (("code", CODE), ("text", TEXT)):
            row[name] = found[arm, other]
            row[f"{name}_outcome"] = _outcome(wide[arm], wide[other], found[arm, other], width, len(found))
        rows.append(row)
    counts = {
        name: {
            "above": sum(low > 0 for (one, _), (_, low, _) in found.items() if one == arm),
            "below": sum(high < 0 for (one, _), (_, _, high) in found.items() if one == arm),
            "of": len(rows),
        }
        for name, arm in (("code", CODE), ("text", TEXT))
    }
    return {
        "dirichlet": f"{dirichlet:g}", "rows": rounded(rows, code=1, text=1), "margin": fixed(width, 1),
        "pairs": len(found), "seeds": len(wide[list(ARMS)].dropna()), "counts": counts,
    }  # fmt: skip


def against_all(tables: Tables, layout: Layout, dirichlet: float) -> dict[tuple[str, str], Estimate]:
    """Return both readings less every other arm of Table 1, with joint limits."""
    pairs = [(arm, other) for arm in (CODE, TEXT) for other in ARMS if other not in (CODE, TEXT)]
    return joint(by_seed(tables, layout, dirichlet), pairs, moderated="auto")


# --- beside the paper ---------------------------------------------------------------------------------------------


def _beside(
    rows: list[dict[str, str]], data: str, wide: pd.DataFrame, names: Mapping[str, str], column: str, control: str,
    at: str = "",
) -> dict[str, Any] | None:  # fmt: skip
    """Return printed values beside ours, or None where the paper prints none for these data.

    `names` maps the labels of the printed table's `column` to our arms; a label of the form "name (reading)" stands
    for the printed "name".
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
    return beside_printed(table, own, control=control)


#: The arms of Table 1 by the paper's label, FedDecomp in both readings.
_NAMES = {
    **{arm: arm for arm in ARMS if arm not in (CODE, TEXT)}, "FedDecomp (code)": CODE, "FedDecomp (text)": TEXT,
}  # fmt: skip


def _printed_at(dirichlet: float) -> str:
    """Write a concentration as the printed tables do."""
    return f"{dirichlet:.1f}"


def _table_1(tables: Tables, layout: Layout, data: str) -> list[dict[str, Any]]:
    """Return Table 1 beside ours by concentration, both as the largest mean over rounds."""
    found = []
    for a in layout.every:
        wide = by_seed(tables, layout, a, BEST)
        beside = _beside(printed("feddecomp", "table_1"), data, wide, _NAMES, "method", "FedAvg", _printed_at(a))
        if beside:
            found.append({"dirichlet": f"{a:g}", **beside})
    return found


def _table_5(tables: Tables, layout: Layout) -> list[dict[str, Any]]:
    """Return Table 5, which the paper prints for CIFAR-100, beside ours."""
    found = []
    for a in layout.main:
        wide, names = by_seed(tables, layout, a, BEST), {"FedDecomp": CODE, "reverse": REVERSE}
        rows = printed("feddecomp", "table_5")
        if beside := _beside(rows, "CIFAR-100", wide, names, "method", "FedDecomp", _printed_at(a)):
            found.append({"dirichlet": f"{a:g}", **beside})
    return found


def _table_2(wide: pd.DataFrame, layout: Layout, data: str) -> list[dict[str, str]]:
    """Tabulate accuracy by ranks, printed and ours."""
    theirs = {(row["dense_ratio"], row["conv_ratio"]): row["accuracy"] for row in printed("feddecomp", "table_2")
              if row["data"] == data}  # fmt: skip
    return [
        {
            "dense": f"{100 * dense:g}%", "conv": f"{100 * conv:g}%", "ours": _mean_sd(wide[arm]),
            "printed": theirs.get((f"{100 * dense:g}", f"{100 * conv:g}"), NONE),
        }
        for (dense, conv), arm in layout.ratios.items()
    ]  # fmt: skip


def _proof(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the study's lines for the report's first pages, one for each main concentration."""
    layout, world, setup = layouts(tables)[0], config["worlds"][0], config["setup"]
    rows = printed("feddecomp", "table_1")
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
                "findings": [f"{arm} less {other}, {a:g}" for arm in QUESTION[2:] for other in QUESTION[:2]],
                "agreement": _beside(rows, world["printed"], wide, names, "method", "FedAvg", _printed_at(a)),
                "printed": f"{words} (ResNet-8, 40 clients of 500, 300 rounds)" if words else "",
            }
        )
    return found


# --- ablations ----------------------------------------------------------------------------------------------------


def _epochs(wide: pd.DataFrame, layout: Layout) -> list[dict[str, str]]:
    """Tabulate accuracy by the epochs of the low-rank part, and the extremes at their own rates."""
    arms = {str(epochs): arm for epochs, arm in layout.epochs.items()} | {"FedAvg": "FedAvg", "Local": "Local"}
    seeds = wide[list(layout.epochs.values())].dropna().index
    rows = [{"epochs": e, "accuracy": mean_interval(wide.loc[seeds, a], within=PER_CENT)} for e, a in arms.items()]
    return rounded(rows, accuracy=1)


def _spread(tables: Tables, layout: Layout) -> list[dict[str, str]]:
    """Tabulate the ratios of Figure 6."""
    found, start = findings(tables), prefix(tables, layout)
    return [
        {"reading": reading, "how": how, "ratio": found[f"{start}figure 6, {reading}, {how}"].text}
        for reading in SPREAD
        for how in ("in all", "of σ")
    ]


def _table_6(tables: Tables, layout: Layout) -> list[dict[str, str]]:
    """Tabulate accuracy and distances by the epochs of the low-rank part: printed, pre-trained, from a random start."""
    wide = by_seed(tables, layout, layout.first)
    theirs = {row["low_rank_epochs"]: row for row in printed("feddecomp", "table_6")}
    rows = []
    for epochs, warm in layout.warm.items():
        row = {"epochs": str(epochs)}
        of_paper = theirs.get(str(epochs), {})
        for name, column in (("accuracy", "accuracy"), ("sigma", "change_of_sigma"), ("tau", "change_of_tau")):
            row[f"printed_{name}"] = of_paper.get(column, NONE)
        for kind, arm in (("warm", warm), ("cold", layout.epochs.get(epochs, ""))):
            there = arm in wide
            far = moved(tables, layout, arm) if there else None
            row[f"{kind}_accuracy"] = _mean_sd(wide[arm]) if there else NONE
            for part in ("sigma", "tau"):
                row[f"{kind}_{part}"] = NONE if far is None else _mean_sd(far[part], 2)
        rows.append(row)
    return rows


def _warm(tables: Tables, layout: Layout) -> str:
    """Return the accuracy of the pre-trained network on images of its own kind, in per cent."""
    rows = tables["moved"]
    return fixed(100 * float(rows.loc[rows["world"] == layout.world, "warm"].dropna().iloc[0]), 0)


def _paper_rate(tables: Tables, layout: Layout) -> list[dict[str, str]]:
    """Tabulate FedDecomp at the paper's rate beside the tuned rate, and how many seeds diverged."""
    rows = []
    for a in layout.main:
        wide = by_seed(tables, layout, a)
        for arm in (arm for arm in (CODE, TEXT) if rate_arm(arm) in wide):
            own = wide.loc[wide["Local"].notna(), [arm, rate_arm(arm)]]
            few = own.loc[own.index.isin(_ran(tables, layout, a, rate_arm(arm)))]
            rows.append(
                {
                    "dirichlet": f"{a:g}", "arm": arm, "tuned": _mean_sd(few[arm]),
                    "paper": _mean_sd(few[rate_arm(arm)]), "diverged": str(int(few[rate_arm(arm)].isna().sum())),
                    "seeds": str(len(few)),
                }
            )  # fmt: skip
    return rows


def _ran(tables: Tables, layout: Layout, dirichlet: float, arm: str) -> pd.Series:
    rows = tables["accuracy"]
    return rows.loc[(rows["world"] == layout.world) & (rows["dirichlet"] == dirichlet) & (rows["arm"] == arm), "seed"]


def _tuning(tuning: pd.DataFrame, world: str) -> list[dict[str, str]]:
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

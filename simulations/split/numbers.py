"""What the split study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import p_value, plan
from simulations.contract import Finding
from simulations.effects import Effects
from simulations.estimates import Estimate, mean_of, times
from simulations.showing import NONE, fixed, rounded, setting
from simulations.split.effects import BY_THEOREM, COMPARED, MAJORITY, MARGIN, OVER, Setting, effects, settings
from simulations.split.study import ARMS, TUNED_AT, family, per_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The contribution of the study's factor analyses.
CONTRIBUTION = 0.85
BALANCES = {
    "none": "as written",
    "center": "output weights centred",
    "median": "scores centred at each client’s median",
}
SHARE = (0.0, 1.0)
PER_CENT = (0.0, 100.0)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return differences in accuracy, balanced accuracy and log-loss over settings, and the control of sharing."""
    found, (_, control) = effects(tables), settings(tables)
    every, over = "random, every round", OVER
    return {
        **{arm: Finding.of(f"accuracy, {arm} − the true units, {over}", found["accuracy", over, arm, "true"])
           for arm in COMPARED},
        "log-loss, random, every round": Finding.of(
            f"log-loss, {every} − the true units, {over}", found["log-loss", over, every, "true"], digits=3
        ),
        "balanced, Local": Finding.of(
            f"balanced accuracy, Local − the true units, {over}", found["balanced accuracy", over, "Local", "true"]
        ),
        "FedAvg above majority": Finding.of(
            f"accuracy, FedAvg − the majority class, {over}", found["accuracy", over, "FedAvg", MAJORITY], digits=1
        ),
        "log-loss": Finding.of(f"log-loss, the true units − Local, {over}", found["log-loss", over, "true", "Local"]),
        "control, random once": Finding.of(
            "accuracy, random units drawn once − the true units, control of sharing",
            found["accuracy", setting(*control[:2]), "random, once", "true"], digits=1,
        ),
        "control": Finding.of(
            "accuracy, the true units − Local, control of sharing",
            found["accuracy", setting(*control[:2]), "true", "Local"], digits=1,
        ),
    }  # fmt: skip


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter; columns over settings are named by `key`."""
    (main, control), found = settings(tables), effects(tables)
    base = next(s for s in main if s[:2] == TUNED_AT)
    return {
        "arms": [{"arm": arm, "words": words} for arm, words in ARMS.items()],
        "settings": [{"key": _key(s), "p": f"{s[0]:g}", "alpha": f"{s[1]:g}"} for s in main],
        "base": setting(*base[:2]),
        "seeds": len(per_seed(tables, *base)),
        "accuracy": _accuracy(tables, main),
        "metrics": _metrics(tables, base),
        "equivalence": _equivalences(tables, found, main),
        "outcomes": _outcomes(found, main),
        "margin": f"{MARGIN:g}",
        "together": len(found.among("each arm against the true units")),
        "contribution": f"{CONTRIBUTION:g}",
        "differences": _differences(found, setting(*base[:2])),
        "log_loss": _log_loss(found, main),
        "control": {"setting": setting(*control[:2]), "samples": control[2]},
        "rates": [{"key": f"{lr:g}"} for lr in sorted(tables["tuning"]["lr"].unique())],
        "tuning": _tuning(tables["tuning"]),
        "balance": _balance(tables["balance"]),
        "recovery": _recovery(tables["recovery"]),
    }


def _key(s: Setting) -> str:
    return f"{s[0]:g}, {s[1]:g}"


def _accuracy(tables: Tables, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Tabulate mean (standard deviation over seeds) of all arms, and of the majority class."""
    wide = {_key(s): 100 * per_seed(tables, *s) for s in settings}
    rows = [
        {
            "arm": arm,
            **{
                key: f"{fixed(table[arm].mean(), 1)} ({fixed(table[arm].std(), 1)})" if arm in table else NONE
                for key, table in wide.items()
            },
        }
        for arm in ARMS
        if any(arm in table for table in wide.values())
    ]
    majority = {_key(s): 100 * per_seed(tables, *s, "majority_share")["FedAvg"] for s in settings}
    shares = {key: f"{fixed(values.mean(), 1)} ({fixed(values.std(), 1)})" for key, values in majority.items()}
    return [*rows, {"arm": "majority class", **shares}]


def _metrics(tables: Tables, base: Setting) -> list[dict[str, Any]]:
    """Tabulate accuracy, balanced accuracy (both in per cent) and log-loss at one setting."""
    wide = {metric: per_seed(tables, *base, metric) for metric in ("accuracy", "balanced_accuracy", "log_loss")}
    return rounded(
        [
            {
                "arm": arm,
                "accuracy": mean_of(100 * wide["accuracy"][arm], within=PER_CENT),
                "balanced": mean_of(100 * wide["balanced_accuracy"][arm], within=PER_CENT),
                "log_loss": mean_of(wide["log_loss"][arm]),
            }
            for arm in ARMS
            if arm in wide["accuracy"]
        ],
        accuracy=1,
        balanced=1,
        log_loss=3,
    )


def _equivalences(tables: Tables, found: Effects, main: Sequence[Setting]) -> list[dict[str, Any]]:
    """Tabulate what is said of each arm against the true shared units, and the seeds needed, by setting.

    These are the seeds with which equivalence would be found with a probability of 80%, were there no difference; a
    dash where pairs have no spread.
    """
    rows: list[dict[str, Any]] = []
    for arm in COMPARED:
        row: dict[str, Any] = {"arm": arm}
        for s in main:
            effect, points, needed = found["accuracy", setting(*s[:2]), arm, "true"], 100 * per_seed(tables, *s), NONE
            if not effect.why:
                spread = points[arm] - points["true"]
                seeds = plan(spread, margin=MARGIN, goal="equivalence", comparisons=effect.together).seeds
                needed = str(seeds)
            row[_key(s)] = {"outcome": effect.outcome(MARGIN), "needed": needed}
        rows.append(row)
    return rows


def _outcomes(found: Effects, main: Sequence[Setting]) -> dict[str, dict[str, Any]]:
    """Count for each arm the settings in which it is equivalent to the true shared units, different, or undecided."""
    counted = {}
    for arm in (*COMPARED, *BY_THEOREM):
        judged = [found["accuracy", setting(*s[:2]), arm, "true"] for s in main]
        outcomes, gaps = [effect.outcome(MARGIN) for effect in judged], [effect.mean for effect in judged]
        counted[arm] = {
            "settings": len(judged),
            **{name: outcomes.count(name) for name in ("equivalent", "different", "undecided")},
            "lowest": fixed(np.min(gaps), 2),
            "deepest": fixed(-np.min(gaps), 2),
            "highest": fixed(np.max(gaps), 2),
        }
    return counted


def _differences(found: Effects, base: str) -> list[dict[str, Any]]:
    """Tabulate differences to the true shared units at one setting."""
    here = [e for e in found.values() if (e.metric, e.setting, e.second) == ("accuracy", base, "true")]
    return rounded(
        [
            {
                "arm": e.first,
                "difference": e.estimate,
                "correlation": fixed(e.correlation, 2),
                "p": "same law" if e.first in BY_THEOREM else p_value(e.p),
            }
            for e in sorted(here, key=lambda e: list(ARMS).index(e.first))
        ],
        difference=2,
    )


def _log_loss(found: Effects, main: Sequence[Setting]) -> dict[str, int]:
    """Count the settings in which true shared units have a smaller, and a larger, log-loss than Local."""
    each = [found["log-loss", setting(*s[:2]), "true", "Local"] for s in main]
    return {"smaller": sum(e.high < 0 for e in each), "larger": sum(e.low > 0 for e in each), "of": len(each)}


def _tuning(tuning: pd.DataFrame) -> list[dict[str, Any]]:
    """Tabulate validation accuracy by learning rate, and the rate chosen, marked at an end of the grid."""
    edges = (tuning["lr"].min(), tuning["lr"].max())
    rows = []
    for (p, alpha, n, arms), group in tuning.groupby(["p", "alpha", "samples", "family"], sort=False):
        lr = float(group.loc[group["chosen"], "lr"].min())
        rows.append(
            {
                "setting": f"{setting(p, alpha)}, n = {n}",
                "arms": arms,
                **{
                    f"{rate:g}": fixed(100 * accuracy, 1)
                    for rate, accuracy in zip(group["lr"], group["accuracy"], strict=True)
                },
                "chosen": f"{lr:g}" + (" (end of the grid)" if lr in edges else ""),
            }
        )
    return rows


def _balance(balance: pd.DataFrame) -> list[dict[str, Any]]:
    """Tabulate the share of clients with one class, and with a majority above 95%: per cent, over populations."""
    balance = balance.assign(
        one_class=balance["one_class_clients"] / balance["clients"], uneven=balance["above_95"] / balance["clients"]
    )
    return rounded(
        [
            {
                "balance": words,
                **{
                    what: times(100, mean_of(balance.loc[balance["balance"] == name, what], within=SHARE))
                    for what in ("one_class", "uneven")
                },
            }
            for name, words in BALANCES.items()
        ],
        one_class=1,
        uneven=1,
    )


def _recovery(recovery: pd.DataFrame) -> list[dict[str, Any]]:
    """Tabulate recovery of the true units, from the true weights first."""
    rows: list[dict[str, Any]] = []
    for (p, alpha, start), group in recovery.groupby(["p", "alpha", "start"], sort=False):
        found: dict[str, Estimate] = {m: mean_of(group[m], within=SHARE) for m in ("auc", "accuracy")}
        chance = fixed(p**2 + (1 - p) ** 2, 2)
        rows.append({"setting": setting(p, alpha), "start": start, **found, "chance": chance})
    return rounded(sorted(rows, key=lambda row: row["start"] != "true weights"), auc=3, accuracy=3)


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw every arm's difference to the true shared units, and recovery of the true units."""
    return {"accuracy": _accuracy_figure(tables), "recovery": _recovery_figure(tables)}


def _accuracy_figure(tables: Tables) -> Figure:
    """Draw every arm's difference to the true shared units, one panel per setting, in rows as the paper's Figure 6.

    The axis is linear within one point and logarithmic beyond.
    """
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    (main, control), found = settings(tables), effects(tables)
    above = [s for s in main if s[1] == TUNED_AT[1]]
    below = [s for s in main if s not in above]
    shown = [arm for arm in ARMS if arm != "true"]
    columns = max(len(above) + 1, len(below))
    with style():
        figure, axes = plt.subplots(2, columns, figsize=(WIDTH, 4.8), sharey=True, squeeze=False, layout="constrained")
        for row, places in zip(axes, ([*above, control], below), strict=True):
            for axis, s in zip(row, places, strict=False):
                _differences_panel(axis, found, setting(*s[:2]), shown)
                axis.set_title(("control of sharing:\n" if s == control else "") + setting(*s[:2]))
            for axis in row[len(places) :]:
                axis.set_visible(False)
            row[0].set_yticks(range(len(shown)), shown)
            row[0].set_ylim(len(shown) - 0.5, -0.5)
        figure.supxlabel("test accuracy minus that under the true units, percentage points", fontsize=8)
    return figure


def _differences_panel(axis: Axes, found: Effects, where: str, shown: Sequence[str]) -> None:
    """Draw the arms' differences to the true shared units at one setting."""
    for height, arm in enumerate(shown):
        if ("accuracy", where, arm, "true") in found:
            mean, low, high = found["accuracy", where, arm, "true"].estimate
            yardstick = family(arm) == arm
            axis.plot([low, high], [height] * 2, color="black", lw=1.0)
            axis.plot(
                mean, height, "s" if yardstick else "o", color="black", mfc="black" if yardstick else "white", ms=3.5
            )
    axis.axvspan(-MARGIN, MARGIN, color="0.92", lw=0, zorder=0)
    axis.axvline(0, color="0.6", lw=0.6, zorder=0)
    axis.set_xscale("symlog", linthresh=1.0, linscale=0.6)
    axis.set_xlim(-45, 2)
    axis.set_xticks([-30, -5, -1, 0, 1], ["−30", "−5", "−1", "0", "1"])
    axis.set_xticks([], minor=True)


def _recovery_figure(tables: Tables) -> Figure:
    """Draw AUC of the communality for the true units against the noise of the start."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import style

    rows = tables["recovery"]
    noisy = rows[rows["start"].str.startswith("trained")]
    noise = noisy["start"].str.extract(r"\+ ([\d.]+) sd")[0].astype(float)
    with style():
        figure, axis = plt.subplots(figsize=(76 / 25.4, 2.3), layout="constrained")
        for metric, marker, label in (("auc", "o", "AUC of the communality"), ("accuracy", "s", "accuracy of the cut")):
            points = [(x, *mean_of(values)) for x, values in noisy.groupby(noise)[metric]]
            x, mean, low, high = map(np.array, zip(*points, strict=True))
            axis.errorbar(x, mean, [mean - low, high - mean], fmt=f"-{marker}", color="0.25", ms=3.5, lw=0.8,
                          mfc="white" if marker == "o" else "0.25", label=label)  # fmt: skip
        axis.axhline(0.5, color="0.6", lw=0.6, ls="--")
        axis.set_xlabel("noise (standard deviations of the true weights)")
        axis.set_ylabel("recovery of the true units")
        axis.set_ylim(0, 1.03)
        axis.legend(fontsize=7, frameon=False)
    return figure

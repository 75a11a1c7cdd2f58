"""What the split study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import holm, p_value, plan
from simulations.contract import Finding
from simulations.estimates import Estimate, difference_of, limits, margin_of, mean_of, outcome_of, times
from simulations.showing import NONE, fixed, rounded, setting
from simulations.split.study import ARMS, CONTROL, TUNED_AT, family, per_seed, settings_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Arms compared with the true shared units. The oracle's shared units and one random draw are left out: by a theorem
#: they have the same law as the true ones, and what is proved is not tested.
COMPARED = (
    "static", "dynamic", "dynamic, code", "dynamic, updates", "random, every round", "random, per client", "Local",
    "FedAvg",
)  # fmt: skip
#: The contribution of the study's factor analyses.
CONTRIBUTION = 0.85
BY_THEOREM = ("oracle", "random, once")
BALANCES = {
    "none": "as written",
    "center": "output weights centred",
    "median": "scores centred at each client’s median",
}
SHARE = (0.0, 1.0)
PER_CENT = (0.0, 100.0)
Setting = tuple[float, float, int]


def findings(tables: Tables) -> dict[str, Finding]:
    """Return differences in accuracy, balanced accuracy and log-loss over settings, and the control of sharing."""
    main, control = _settings(tables)
    found = {
        arm: Finding.of(
            f"accuracy, {arm} less the true units, mean over the settings",
            difference_of(_over(tables, main, arm), _over(tables, main, "true")),
            100,
            "points",
        )
        for arm in COMPARED
    }
    sharing = per_seed(tables, *control)
    every = "random, every round"
    return {
        **found,
        "log-loss, random, every round": Finding.of(
            f"log-loss, {every} less the true units, mean over the settings",
            difference_of(_over(tables, main, every, "log_loss"), _over(tables, main, "true", "log_loss")),
            unit="nats",
            digits=3,
        ),
        "balanced, Local": Finding.of(
            "balanced accuracy, Local less the true units, mean over the settings",
            difference_of(
                _over(tables, main, "Local", "balanced_accuracy"), _over(tables, main, "true", "balanced_accuracy")
            ),
            100,
            "points",
        ),
        "FedAvg above majority": Finding.of(
            "accuracy, FedAvg less the majority class, mean over the settings",
            difference_of(_over(tables, main, "FedAvg"), _over(tables, main, "FedAvg", "majority_share")),
            100,
            "points",
            digits=1,
        ),
        "log-loss": Finding.of(
            "log-loss, the true units less Local, mean over the settings",
            difference_of(_over(tables, main, "true", "log_loss"), _over(tables, main, "Local", "log_loss")),
            unit="nats",
        ),
        "control": Finding.of(
            "accuracy, the true units less Local, control of sharing",
            difference_of(sharing["true"], sharing["Local"]),
            100,
            "points",
            digits=1,
        ),
    }


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter; columns over settings are named by `key`."""
    main, control = _settings(tables)
    base = next(s for s in main if s[:2] == TUNED_AT)
    return {
        "arms": [{"arm": arm, "words": words} for arm, words in ARMS.items()],
        "settings": [{"key": _key(s), "p": f"{s[0]:g}", "alpha": f"{s[1]:g}"} for s in main],
        "base": setting(*base[:2]),
        "seeds": len(per_seed(tables, *base)),
        "accuracy": _accuracy(tables, main),
        "metrics": _metrics(tables, base),
        "equivalence": _equivalences(tables, main),
        "outcomes": _outcomes(tables, main),
        "margin": " to ".join(sorted({f"{margin_of(100 * per_seed(tables, *s)):.2g}" for s in main})),
        "contribution": f"{CONTRIBUTION:g}",
        "differences": _differences(tables, base),
        "log_loss": _log_loss(tables, main),
        "control": {"setting": setting(*control[:2]), "samples": control[2]},
        "rates": [{"key": f"{lr:g}"} for lr in sorted(tables["tuning"]["lr"].unique())],
        "tuning": _tuning(tables["tuning"]),
        "balance": _balance(tables["balance"]),
        "recovery": _recovery(tables["recovery"]),
    }


def _settings(tables: Tables) -> tuple[list[Setting], Setting]:
    """Return the settings of the paper's Figure 6, and the control of sharing."""
    settings = settings_of(tables)
    control = next(s for s in settings if s[:2] == CONTROL)
    return [s for s in settings if s != control], control


def _key(s: Setting) -> str:
    return f"{s[0]:g}, {s[1]:g}"


def _over(tables: Tables, settings: Sequence[Setting], arm: str, metric: str = "accuracy") -> pd.Series:
    """Return an arm's mean over settings, per seed."""
    return pd.concat([per_seed(tables, *s, metric)[arm] for s in settings], axis=1).mean(axis=1, skipna=False)


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


def _judge(tables: Tables, arm: str, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Judge an arm against the true shared units in each setting: outcome, seeds needed, difference in points.

    The level of "different" keeps 95% over all arms and settings. The seeds needed are those with which equivalence
    would be found with a probability of 80%, were there no difference; a dash where pairs have no spread.
    """
    found = []
    for s in settings:
        points = 100 * per_seed(tables, *s)
        width = margin_of(points)
        joint = difference_of(points[arm], points["true"], level=1 - 0.05 / (len(COMPARED) * len(settings)))
        outcome, needed = outcome_of(points[arm], points["true"], limits(joint), width), NONE
        if not np.isnan(joint.low) and width > 0:
            needed = str(plan(points[arm] - points["true"], margin=width, goal="equivalence").seeds)
        found.append({"key": _key(s), "outcome": outcome, "needed": needed, "points": joint.mean})
    return found


def _equivalences(tables: Tables, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Tabulate each arm's outcome and the seeds needed, by setting."""
    return [
        {"arm": arm}
        | {j["key"]: {"outcome": j["outcome"], "needed": j["needed"]} for j in _judge(tables, arm, settings)}
        for arm in COMPARED
    ]


def _outcomes(tables: Tables, settings: Sequence[Setting]) -> dict[str, dict[str, Any]]:
    """Count for each arm the settings in which it is equivalent to the true shared units, different, or undecided."""
    found = {}
    for arm in (*COMPARED, *BY_THEOREM):
        judged = _judge(tables, arm, settings)
        counts = {o: sum(j["outcome"] == o for j in judged) for o in ("equivalent", "different", "undecided")}
        gaps = [j["points"] for j in judged]
        found[arm] = {
            "theorem": arm in BY_THEOREM,
            "settings": len(judged),
            **counts,
            "lowest": fixed(np.min(gaps), 2),
            "deepest": fixed(-np.min(gaps), 2),
            "highest": fixed(np.max(gaps), 2),
        }
    return found


def _differences(tables: Tables, base: Setting) -> list[dict[str, Any]]:
    """Tabulate paired differences to the true shared units at one setting, with Holm-adjusted p-values of the tests."""
    table = per_seed(tables, *base)
    arms = [arm for arm in ARMS if arm in table and arm != "true"]
    found = [difference_of(table[arm], table["true"]) for arm in arms]
    tests = [float("nan") if arm in BY_THEOREM else d.p for arm, d in zip(arms, found, strict=True)]
    return rounded(
        [
            {
                "arm": arm,
                "difference": times(100, limits(d)),
                "correlation": fixed(d.correlation, 2),
                "p": "same law" if arm in BY_THEOREM else p_value(p),
            }
            for arm, d, p in zip(arms, found, holm(tests), strict=True)
        ],
        difference=2,
    )


def _log_loss(tables: Tables, settings: Sequence[Setting]) -> dict[str, int]:
    """Count the settings in which true shared units have a smaller, and a larger, log-loss than Local (jointly 95%)."""
    found = [
        difference_of(table["true"], table["Local"], level=1 - 0.05 / len(settings))
        for table in (per_seed(tables, *s, "log_loss") for s in settings)
    ]
    return {"smaller": sum(d.high < 0 for d in found), "larger": sum(d.low > 0 for d in found), "of": len(found)}


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

    The axis is linear within one point, the largest margin of equivalence, and logarithmic beyond.
    """
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    main, control = _settings(tables)
    above = [s for s in main if s[1] == TUNED_AT[1]]
    below = [s for s in main if s not in above]
    shown = [arm for arm in ARMS if arm != "true"]
    columns = max(len(above) + 1, len(below))
    with style():
        figure, axes = plt.subplots(2, columns, figsize=(WIDTH, 4.8), sharey=True, squeeze=False, layout="constrained")
        for row, settings in zip(axes, ([*above, control], below), strict=True):
            for axis, s in zip(row, settings, strict=False):
                _differences_panel(axis, per_seed(tables, *s), shown)
                axis.set_title(("control of sharing:\n" if s == control else "") + setting(*s[:2]))
            for axis in row[len(settings) :]:
                axis.set_visible(False)
            row[0].set_yticks(range(len(shown)), shown)
            row[0].set_ylim(len(shown) - 0.5, -0.5)
        figure.supxlabel("test accuracy less that under the true units, percentage points", fontsize=8)
    return figure


def _differences_panel(axis: Axes, table: pd.DataFrame, shown: Sequence[str]) -> None:
    """Draw the arms' differences to the true shared units at one setting, with 95% intervals."""
    for height, arm in enumerate(shown):
        if arm in table:
            mean, low, high = times(100, limits(difference_of(table[arm], table["true"])))
            yardstick = family(arm) == arm
            axis.plot([low, high], [height] * 2, color="black", lw=1.0)
            axis.plot(
                mean, height, "s" if yardstick else "o", color="black", mfc="black" if yardstick else "white", ms=3.5
            )
    axis.axvspan(-1, 1, color="0.92", lw=0, zorder=0)
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
        for metric, marker, label in (
            ("auc", "o", "AUC of the communality"),
            ("accuracy", "s", "accuracy of the cut"),
        ):
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

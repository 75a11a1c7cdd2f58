"""What the study of the paper's decompositions hands to its chapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import clopper_pearson
from simulations.contract import Finding
from simulations.decompositions.effects import (
    CENTRED,
    COMPARED,
    METRICS,
    POOLED,
    WRITTEN,
    Place,
    by_arm,
    control_cells,
    controlled,
    effects,
    in_words,
    places,
)
from simulations.decompositions.study import ARMS, CONTROL_ARMS, OUTPUTS, Outputs
from simulations.effects import Effects
from simulations.estimates import half_widths, mean_of, times
from simulations.showing import fixed, rounded, setting, sought, span
from simulations.split.effects import MARGIN
from simulations.split.study import TUNED_AT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DYNAMIC = ("dynamic", "dynamic, code", "random, every round")
#: 'Nearly all' units: at least this share.
NEARLY_ALL = 0.95
MEASURES = {"agreement": (0.0, 1.0), "kappa": (-1.0, 1.0)}
#: Lines and marks by arm, to be told apart in black and white.
LINES = {
    "true": ("-", "o", "black"),
    "static": ("--", "s", "white"),
    "dynamic": ("-.", "^", "white"),
    "dynamic, code": (":", "v", "black"),
    "random, every round": ("-", "x", "black"),
    "Local": ((0, (6, 2)), "D", "white"),
    "FedAvg": ((0, (1, 3)), "P", "black"),
}


# --- reading the tables ----------------------------------------------------------------------------------------


def counted(tables: Tables, place: Place, config: Mapping[str, Any]) -> pd.DataFrame:
    """Return the populations of one setting that were looked at whatever their labels."""
    rows = tables["populations"]
    return rows[(rows["p"] == place[0]) & (rows["alpha"] == place[1])].head(int(config["populations"]))


# --- findings and numbers --------------------------------------------------------------------------------------


def findings(tables: Tables) -> dict[str, Finding]:
    """Return differences to the true decomposition, agreement between rounds, and the positive control."""
    every, differences = "random, every round", effects(tables)
    found = {
        f"{metric} {arm}": Finding.of(
            f"{metric.replace('_', ' ')}, {ARMS[arm]} − true, as written, over {POOLED}",
            differences[metric, POOLED, arm, "true"], digits=digits,
        )
        for arm in COMPARED
        for metric, (_, _, digits) in METRICS.items()
    }  # fmt: skip
    found[f"centred {every}"] = Finding.of(
        f"accuracy, {ARMS[every]} − true, centred, {setting(*TUNED_AT)}",
        differences["accuracy", CENTRED, every, "true"],
    )
    for arm in DYNAMIC:
        late = tables["late"][(tables["late"]["outputs"] == WRITTEN) & (tables["late"]["arm"] == arm)]
        for measure, border in (("agreement", NEARLY_ALL), ("kappa", 0.8)):
            estimate = mean_of(late[measure], within=MEASURES[measure])
            what = f"{measure} of consecutive rounds, {ARMS[arm]}, as written, over {POOLED}"
            found[f"{measure} {arm}"] = Finding.of(what, estimate, border=border, digits=3)
    for effect in differences.among("the positive control"):
        what = f"accuracy, true − {effect.second}, units identified, {effect.setting}"
        found[f"control {effect.second} {effect.setting}"] = Finding.of(what, effect, digits=1)
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter."""
    main, differences = places(tables), effects(tables)
    late = tables["late"][tables["late"]["outputs"] == WRITTEN]
    looked = [counted(tables, place, config) for place in main]
    alike = [(rows["outputs"] != WRITTEN).mean() for rows in looked]
    return {
        "arms": [{"arm": arm, "words": words} for arm, words in ARMS.items()],
        "settings": [{"key": setting(*place), "p": f"{place[0]:g}", "alpha": f"{place[1]:g}"} for place in main],
        "base": setting(*TUNED_AT),
        "seeds": len(by_arm(tables, WRITTEN, main[0])),
        "populations": _populations(looked, main),
        "alike": span((100 * share for share in alike), 0),
        "accuracy": _accuracy(tables, main),
        "outcomes": _outcomes(differences, main),
        "margin": f"{MARGIN:g}",
        "together": len(differences.among("each arm against the true decomposition by accuracy")),
        "could_find": _could_find(differences, main),
        "base_metrics": list(_base_metrics(tables)),
        "constant": _constant(tables),
        "kept": _kept(late),
        "control": rounded(list(_control(tables, differences)), minus_complement=1, minus_random=1),
        "seen": _seen(differences),
        "tuning": _tuning(tables["tuning"]),
        "nearly_all": f"{100 * NEARLY_ALL:g}%",
    }


def _populations(looked: list[pd.DataFrame], main: list[Place]) -> list[dict[str, str]]:
    """Tabulate for each setting the populations with nearly one label, with Clopper and Pearson's limits."""
    rows = []
    for table, place in zip(looked, main, strict=True):
        n, alike = len(table), int((table["outputs"] != WRITTEN).sum())
        low, high = clopper_pearson(alike, n)
        rows.append(
            {
                "setting": setting(*place),
                "alike": f"{alike} of {n}",
                "share": f"{fixed(100 * alike / n, 0)} [{fixed(100 * low, 0)}, {fixed(100 * high, 0)}]",
                "median": fixed(100 * table["majority_share"].median(), 1),
                "one_label": fixed(100 * table["one_label"].mean(), 0),
            }
        )
    return rows


def _accuracy(tables: Tables, main: list[Place]) -> list[dict[str, str]]:
    """Tabulate mean accuracy (standard deviation over populations) by arm and setting, and the majority share."""
    rows = []
    for arm, words in ARMS.items():
        cells = {setting(*place): 100 * by_arm(tables, WRITTEN, place)[arm] for place in main}
        rows.append({"arm": words, **{k: f"{fixed(v.mean(), 1)} ({fixed(v.std(), 1)})" for k, v in cells.items()}})
    shares = {setting(*place): 100 * by_arm(tables, WRITTEN, place, "majority_share")["true"] for place in main}
    return [
        *rows,
        {"arm": "majority class", **{k: f"{fixed(v.mean(), 1)} ({fixed(v.std(), 1)})" for k, v in shares.items()}},
    ]


def _outcomes(found: Effects, main: list[Place]) -> list[dict[str, Any]]:
    """Judge each arm against the true decomposition in each setting: equivalent, different or undecided."""
    rows = []
    for arm in COMPARED:
        judged = {where: found["accuracy", where, arm, "true"] for where in (setting(*place) for place in main)}
        outcomes = {where: effect.outcome(MARGIN) for where, effect in judged.items()}
        row: dict[str, Any] = {"arm": ARMS[arm], "key": arm}
        row |= {w: {"outcome": outcomes[w], "points": fixed(effect.mean, 2)} for w, effect in judged.items()}
        row |= {name: list(outcomes.values()).count(name) for name in ("equivalent", "different", "undecided")}
        rows.append(row)
    return rows


def _could_find(found: Effects, main: list[Place]) -> str:
    """Return the median over settings and arms of the difference that would have been found with 80% power."""
    where = [setting(*place) for place in main]
    return fixed(float(np.median([found["accuracy", w, arm, "true"].could_find for w in where for arm in COMPARED])), 1)


def _base_metrics(tables: Tables) -> Iterator[dict[str, Any]]:
    """Yield accuracy, balanced accuracy and log-loss by arm at the base setting, as written and centred."""
    for outputs in (WRITTEN, "centred"):
        wide = {metric: by_arm(tables, outputs, TUNED_AT, metric) for metric in METRICS}
        found = [
            {
                "outputs": OUTPUTS[outputs] if arm == next(iter(ARMS)) else "",
                "arm": words,
                **{
                    metric: times(METRICS[metric][0], mean_of(wide[metric][arm], within=(0.0, np.inf)))
                    for metric in METRICS
                },
            }
            for arm, words in ARMS.items()
        ]
        yield from rounded(found, accuracy=1, balanced_accuracy=1, log_loss=3)


def _constant(tables: Tables) -> dict[str, str]:
    """Return the range of accuracies over arms, and the majority share, where all clients have nearly one label."""
    table = 100 * by_arm(tables, "nearly one label", TUNED_AT)
    share = 100 * by_arm(tables, "nearly one label", TUNED_AT, "majority_share")["true"]
    return {
        "count": str(len(table)),
        "accuracy": span(table[list(ARMS)].to_numpy().ravel(), 2),
        "share": fixed(share.mean(), 2),
    }


def _kept(late: pd.DataFrame) -> list[dict[str, Any]]:
    """Tabulate the late agreement of consecutive rounds by setting and arm."""
    rows = [
        {
            "setting": setting(p, alpha) if arm == DYNAMIC[0] else "",
            "arm": ARMS[arm],
            **{m: mean_of(group.loc[group["arm"] == arm, m], within=within) for m, within in MEASURES.items()},
        }
        for (p, alpha), group in late.groupby(["p", "alpha"], sort=False)
        for arm in DYNAMIC
    ]
    return rounded(rows, agreement=3, kappa=3)


def _control(tables: Tables, found: Effects) -> Iterator[dict[str, Any]]:
    """Yield the cells of the positive control: accuracies, and differences jointly at 95%."""
    for cell in control_cells(tables):
        table, where = 100 * controlled(tables, cell), in_words(cell)
        others = {other: found["accuracy", where, "true", other].estimate for other in ("complement", "random")}
        yield {
            "cell": setting(*cell[:2]),
            "samples": str(cell[2]),
            "noise": f"{cell[3]:g}",
            **{arm: fixed(table[arm].mean(), 1) for arm in CONTROL_ARMS},
            **{f"minus_{other}": estimate for other, estimate in others.items()},
        }


def _seen(found: Effects) -> dict[str, Any]:
    """Count the cells of the positive control in which the true decomposition is seen to be the better one.

    With what was looked for in vain in the others.
    """
    asked = found.among("the positive control")
    better = {other: [e.low > 0 for e in asked if e.second == other] for other in ("complement", "random")}
    counts = {other: sum(seen) for other, seen in better.items()}
    unseen, cells = [e for e in asked if not e.low > 0], len(better["complement"])
    unclear = sought(unseen, 1) if unseen else None
    return {**counts, "of": cells, "all": counts["complement"] == cells, "unseen": unclear}


def _tuning(tuning: pd.DataFrame) -> list[dict[str, str]]:
    """Tabulate the rates tried and the rate chosen by arm."""
    rows = []
    for arm, group in tuning.groupby("arm", sort=False):
        means = 100 * group.groupby("lr")["accuracy"].mean()
        best = group.loc[group["chosen"], "lr"].iloc[0]
        rows.append(
            {
                "arm": str(arm),
                "tried": ", ".join(f"{lr:g}: {fixed(value, 1)}" for lr, value in means.items()),
                "chosen": f"{best:g}" + (" (end of the grid)" if bool(group["end"].iloc[0]) else ""),
            }
        )
    return rows


# --- figures ---------------------------------------------------------------------------------------------------


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw Figure 6 as accuracy and as differences to the true decomposition, Figure 7, and the positive control."""
    return {
        "accuracy": _accuracy_figure(tables),
        "differences": _differences_figure(tables),
        "kept": _kept_figure(tables),
        "control": _control_figure(tables),
    }


def band(values: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Return half-widths of simultaneous limits at all rounds of all arms; values (arms, populations, rounds)."""
    arms, _, rounds = values.shape
    return np.stack([half_widths(of_arm, arms * rounds, level) for of_arm in values])


def curves_at(
    tables: Tables, outputs: Outputs, place: Place, arms: tuple[str, ...], column: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return evaluated rounds and values (arms, populations, rounds) of one setting."""
    rows = tables["agreement" if column in MEASURES else "curves"]
    rows = rows[(rows["outputs"] == outputs) & (rows["p"] == place[0]) & (rows["alpha"] == place[1])]
    wide = [rows[rows["arm"] == arm].pivot(index="seed", columns="round", values=column) for arm in arms]
    return wide[0].columns.to_numpy(), np.stack([table.to_numpy() for table in wide])


def _panels(tables: Tables, height: float) -> tuple[Figure, list[tuple[Axes, Outputs, Place]]]:
    """Make a panel for each setting as written, and one for centred output weights at the base setting."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    main = places(tables)
    upper = [place for place in main if place[1] == TUNED_AT[1]]
    lower = [place for place in main if place not in upper]
    columns = max(len(upper) + 1, len(lower), 2)
    figure, axes = plt.subplots(
        2, columns, figsize=(WIDTH, height), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    found: list[tuple[Axes, Outputs, Place]] = []
    for axis, place in [*zip(axes[0], upper, strict=False), *zip(axes[1], lower, strict=False)]:
        axis.set_title(setting(*place))
        found.append((axis, WRITTEN, place))
    for axis in (*axes[0, len(upper) : -1], *axes[1, len(lower) :]):
        axis.set_visible(False)
    axes[0, -1].set_title(f"centred:\n{setting(*TUNED_AT)}")
    axes[0, -1].tick_params(labelbottom=True)
    found.append((axes[0, -1], "centred", TUNED_AT))
    return figure, found


def _legend(figure: Figure, arms: tuple[str, ...], more: tuple[tuple[str, Any], ...] = ()) -> None:
    import matplotlib.pyplot as plt

    handles = [
        plt.Line2D([], [], color="black", ls=LINES[arm][0], marker=LINES[arm][1], mfc=LINES[arm][2], ms=3.5, lw=0.8,
                   mew=0.8, label=ARMS[arm])
        for arm in arms
    ]  # fmt: skip
    handles += [plt.Line2D([], [], label=words, **look) for words, look in more]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False, fontsize=7)


def _accuracy_figure(tables: Tables) -> Figure:
    """Draw accuracy against rounds for all arms, with the true decomposition's simultaneous band."""
    from fedstat.report.figures import style

    arms = tuple(LINES)
    with style():
        figure, panels = _panels(tables, 4.6)
        for axis, outputs, place in panels:
            rounds, values = curves_at(tables, outputs, place, arms, "accuracy")
            _, share = curves_at(tables, outputs, place, ("true",), "majority_share")
            half = band(values)[arms.index("true")]
            means = values.mean(axis=1)
            true = means[arms.index("true")]
            axis.fill_between(rounds, 100 * np.clip(true - half, 0, 1), 100 * np.clip(true + half, 0, 1), color="0.88",
                              lw=0)  # fmt: skip
            for arm, mean in zip(arms, means, strict=True):
                line, mark, fill = LINES[arm]
                axis.plot(rounds, 100 * mean, ls=line, marker=mark, mfc=fill, color="black", lw=0.8, ms=3, mew=0.7)
            axis.axhline(100 * share.mean(), color="0.5", lw=1.6, zorder=0)
        low = min(100 * curves_at(tables, o, s, arms, "accuracy")[1].mean(axis=1)[:, 1:].min() for _, o, s in panels)
        panels[0][0].set_ylim(max(0, 5 * np.floor(low / 5) - 2), 101)
        figure.supylabel("test accuracy, per cent", fontsize=8)
        figure.supxlabel("round", fontsize=8)
        _legend(figure, arms, (("share of the majority class", {"color": "0.5", "lw": 1.6}),))
    return figure


def _differences_figure(tables: Tables) -> Figure:
    """Draw accuracy minus that under the true decomposition, paired by population, with simultaneous limits."""
    from fedstat.report.figures import style

    arms = ("static", "dynamic", "dynamic, code", "random, every round")
    with style():
        figure, panels = _panels(tables, 4.4)
        for axis, outputs, place in panels:
            rounds, values = curves_at(tables, outputs, place, ("true", *arms), "accuracy")
            values = 100 * (values[1:] - values[:1])
            half = band(values)
            step = float(np.diff(rounds).max()) / 7
            for i, arm in enumerate(arms):
                line, mark, fill = LINES[arm]
                at = rounds + (i - 1.5) * step
                axis.plot(at, values[i].mean(axis=0), ls=line, marker=mark, mfc=fill, color="black", lw=0.8, ms=3,
                          mew=0.7)  # fmt: skip
                axis.vlines(
                    at, values[i].mean(axis=0) - half[i], values[i].mean(axis=0) + half[i], color="0.45", lw=0.7
                )
            axis.axhspan(-MARGIN, MARGIN, color="0.93", lw=0, zorder=0)
            axis.axhline(0, color="0.6", lw=0.6, zorder=0)
            axis.set_yscale("symlog", linthresh=1.0, linscale=0.8)
            axis.set_yticks([-30, -10, -3, -1, 0, 1, 3, 10], ["−30", "−10", "−3", "−1", "0", "1", "3", "10"])
            axis.set_yticks([], minor=True)
            axis.set_ylim(-40, 15)
        figure.supylabel("test accuracy minus that under\nthe true decomposition, points", fontsize=8)
        figure.supxlabel("round", fontsize=8)
        _legend(figure, arms)
    return figure


def _kept_figure(tables: Tables) -> Figure:
    """Draw the share of units that keep their state from the round before, with simultaneous limits."""
    from fedstat.report.figures import style

    with style():
        figure, panels = _panels(tables, 4.2)
        for axis, outputs, place in panels:
            rounds, values = curves_at(tables, outputs, place, DYNAMIC, "agreement")
            half = band(values)
            step = float(np.diff(rounds).max()) / 6
            for i, arm in enumerate(DYNAMIC):
                line, mark, fill = LINES[arm]
                at, mean = rounds + (i - 1) * step, values[i].mean(axis=0)
                axis.plot(at, mean, ls=line, marker=mark, mfc=fill, color="black", lw=0.8, ms=3, mew=0.7)
                axis.vlines(at, mean - half[i], np.minimum(mean + half[i], 1), color="0.45", lw=0.7)
            axis.axhline(NEARLY_ALL, color="0.6", lw=0.6, ls=(0, (2, 2)), zorder=0)
            axis.set_ylim(0.3, 1.02)
        figure.supylabel("units that keep their state (share)", fontsize=8)
        figure.supxlabel("round", fontsize=8)
        _legend(figure, DYNAMIC, (("nearly all: 95%", {"color": "0.6", "lw": 0.6, "ls": (0, (2, 2))}),))
    return figure


def _control_figure(tables: Tables) -> Figure:
    """Draw the true decomposition's accuracy minus that of a wrong one, where units are identified."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import style

    found, cells = effects(tables), control_cells(tables)
    with style():
        figure, axis = plt.subplots(figsize=(76 / 25.4, 0.9 + 0.4 * len(cells)), layout="constrained")
        for height, cell in enumerate(cells):
            for shift, other, mark, fill in ((-0.13, "complement", "o", "black"), (0.13, "random", "s", "white")):
                e = found["accuracy", in_words(cell), "true", other]
                axis.plot([e.low, e.high], [height + shift] * 2, color="black", lw=0.9)
                axis.plot(e.mean, height + shift, mark, color="black", mfc=fill, ms=3.8,
                          label=f"− {other}" if height == 0 else None)  # fmt: skip
        axis.axvline(0, color="0.6", lw=0.6)
        names = [f"α = {alpha:g}, n = {n},\nnoise {noise:g}" for _, alpha, n, noise in cells]
        axis.set_yticks(range(len(cells)), names)
        axis.set_ylim(len(cells) - 0.5, -0.5)
        axis.set_xlabel("accuracy, the true decomposition\nminus a wrong one, points")
        axis.legend(fontsize=7, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure

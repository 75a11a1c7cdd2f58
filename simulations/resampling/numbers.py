"""What the resampling study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import DRAWN, Effects, Question
from simulations.estimates import mean_of, note
from simulations.resampling.study import LOOKS, MEDIAN
from simulations.showing import fixed, rounded, setting, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = ("-o", "--s", ":^", "-.D")
KAPPAS = {
    "kappa": "a resample and all clients",
    "halves": "two halves of the clients",
    "start": "all clients and the common start alone",
}
RULES = "two contributions"
RANGE = (-1.0, 1.0)
#: Agreement beyond chance below this is called weak: more is at least moderate (Landis and Koch 1977).
WEAK = 0.4


def effects(tables: Tables) -> Effects:
    """Return κ of resamples minus that of the control, and κ of two contributions minus that of two halves."""
    by_seed, resamples, rules = _by_seed(tables), f"κ of {KAPPAS['kappa']}", _rules(tables)
    drawn = pd.DataFrame({look: by_seed.loc[look, "kappa"] for look in LOOKS})
    chosen = pd.DataFrame(
        {RULES: _of_seeds(rules[rules["look"] == "weights"]), KAPPAS["halves"]: by_seed.loc["weights", "halves"]}
    )
    return Effects(
        [
            Question(
                "resampled clients against the control", resamples, {"": drawn},
                {"": [(look, "noise") for look in LOOKS if look != "noise"]}, DRAWN,
            ),
            Question(
                "two contributions against two halves", "κ", {LOOKS["weights"]: chosen},
                {LOOKS["weights"]: [(RULES, KAPPAS["halves"])]}, DRAWN,
            ),
        ]
    )  # fmt: skip


def findings(tables: Tables) -> dict[str, Finding]:
    """Return κ of halves, of the start and of two contributions, and κ of resamples minus that of the control."""
    by_seed, differences = _by_seed(tables), effects(tables)
    found = {}
    for look, words in LOOKS.items():
        for measure in ("halves", "start"):
            estimate = mean_of(by_seed.loc[look, measure], within=RANGE)
            found[f"{measure} {look}"] = Finding.of(f"κ of {KAPPAS[measure]}, {words}", estimate)
    changes = mean_of(by_seed.loc["changes", "halves"], within=RANGE)
    found["weak changes"] = Finding.of(f"κ of {KAPPAS['halves']}, {LOOKS['changes']}", changes, border=WEAK)
    rules = _rules(tables)
    for first, second in _pairs(tables):
        pair = rules[(rules["look"] == "weights") & (rules["first"] == first) & (rules["second"] == second)]
        what = f"κ of contributions {first:g} and {second:g}, {LOOKS['weights']}"
        found[f"rules {first:g} {second:g}"] = Finding.of(what, mean_of(_of_seeds(pair), within=RANGE))
    effect = differences["κ", LOOKS["weights"], RULES, KAPPAS["halves"]]
    found["rules − halves"] = Finding.of(f"κ of two contributions − that of two halves, {LOOKS['weights']}", effect)
    for contribution, rows in _median(tables["grid"]).query("look == 'changes'").groupby("contribution"):
        what = f"κ of {KAPPAS['start']}, {LOOKS['changes']}, contribution {contribution:g}"
        found[f"start changes {contribution:g}"] = Finding.of(what, mean_of(rows["start"], within=RANGE))
    for look in ("weights", "changes"):
        what = f"κ of {KAPPAS['kappa']}"
        found[f"kappa {look}"] = Finding.of(
            f"{what}, {LOOKS[look]} − the control's", differences[what, "", look, "noise"]
        )
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices by resampled clients at the median cut, and the range of their means by what is analysed."""
    grid = _median(tables["grid"])
    note(*(grid[column] for column in ("n_factors", "unsure", "at_bound", "unidentified")))
    rows = []
    for (p, alpha, look, contribution), found in grid.groupby(["p", "alpha", "look", "contribution"], sort=False):
        rows.append(
            {
                "setting": setting(p, alpha),
                "look": LOOKS[look],
                "contribution": f"{contribution:g}",
                "factors": fixed(found["n_factors"].mean(skipna=False), 0),
                **{measure: mean_of(found[measure], within=RANGE) for measure in KAPPAS},
                **{m: fixed(100 * found[m].mean(skipna=False), 0) for m in ("unsure", "at_bound", "unidentified")},
            }
        )
    places = ["look", "p", "alpha", "contribution"]
    means = grid.groupby(places)[list(KAPPAS)].mean(skipna=False)
    rules = _rules(tables).groupby(["look", "p", "alpha", "first", "second"])["kappa"].mean(skipna=False)
    # what is undefined comes last
    pairs = rules["weights"].groupby(["first", "second"]).mean(skipna=False).sort_values().index
    return {
        "settings": sorted({row["setting"] for row in rows}),
        "pairs": [{"key": f"rules {first:g} {second:g}"} for first, second in pairs],
        "starts": [{"key": f"start changes {c:g}", "contribution": f"{c:g}"} for c in config["contributions"]],
        "bound_shown": bool((tables["units"]["at_bound"] > 0.5).any()),
        "rows": rounded(rows, **dict.fromkeys(KAPPAS, 2)),
        "ranges": {
            look: {m: span(means.loc[look, m], 2) for m in KAPPAS} | {"rules": span(rules[look], 2)} for look in LOOKS
        },
        "contributions": ", ".join(f"{c:g}" for c in config["contributions"]),
        "seeds": tables["grid"]["seed"].nunique(),
    }


def _by_seed(tables: Tables) -> pd.DataFrame:
    """Return means at the median cut over settings and contributions, by what is analysed and seed."""
    return _median(tables["grid"]).groupby(["look", "seed"])[list(KAPPAS)].mean(skipna=False)


def _median(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["quantile"] == MEDIAN]


def _rules(tables: Tables) -> pd.DataFrame:
    return _median(tables["rules"])


def _of_seeds(rules: pd.DataFrame) -> pd.Series:
    return rules.groupby("seed")["kappa"].mean(skipna=False)


def _pairs(tables: Tables) -> list[tuple[float, float]]:
    """Return the pairs of contributions that are compared."""
    return list(tables["rules"][["first", "second"]].drop_duplicates().itertuples(index=False, name=None))


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the units' probabilities under one seed above, and kappa over the grid below, for the first setting."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    first = tables["grid"].iloc[0]
    units, summed = (
        table[(table["p"] == first["p"]) & (table["alpha"] == first["alpha"])]
        for table in (tables["units"], tables["summary"])
    )
    units = units[(units["seed"] == first["seed"]) & (units["quantile"] == MEDIAN)]
    contributions = list(summed["contribution"].unique())
    middle = contributions[len(contributions) // 2]
    with style():
        figure, axes = plt.subplots(2, len(LOOKS), figsize=(WIDTH, 4.2), sharey="row", layout="constrained")
        for (look, words), above, below in zip(LOOKS.items(), *axes, strict=True):
            rows = units[(units["look"] == look) & (units["contribution"] == middle)]
            values, probability, often = (rows[c].to_numpy() for c in ("communality", "probability", "at_bound"))
            plot_units(above, values, probability, often, cut=rows["communality"].median())
            above.set_title(words)
            for i, contribution in enumerate(contributions):
                for measure, colour in (("halves", "0.6"), ("kappa", "0")):
                    points = summed[
                        (summed["look"] == look)
                        & (summed["contribution"] == contribution)
                        & (summed["measure"] == measure)
                    ]
                    at = points["quantile"] + 0.012 * (i - (len(contributions) - 1) / 2)
                    below.vlines(at, points["low"], points["high"], color=colour, lw=0.6)
                    label = f"contribution {contribution:g}" if measure == "kappa" else None
                    below.plot(at, points["mean"], LINES[i], color=colour, mfc="white", ms=3, lw=0.9, label=label)
            below.axhline(0, color="0.6", lw=0.6, zorder=0)
            below.set_xticks(sorted(summed["quantile"].unique()))
            below.set_xlabel("quantile of the cut")
        for axis in axes[0, 1:]:
            axis.set_ylabel("")
        axes[1, 0].set_ylabel("Cohen's κ")
        axes[1, 0].set_ylim(top=1.05)
        below.plot([], [], color="0.6", label="two halves")
        below.legend(frameon=False, fontsize=7)
    return {"resampling": figure}


def plot_units(ax: Axes, communalities: np.ndarray, probability: np.ndarray, at_bound: np.ndarray, cut: float) -> None:
    """Draw units' probabilities of being shared over the ranks of their communalities.

    Open squares are units at the bound in more than half of the resamples. The dashed line is the cut of all clients.
    """
    order = np.argsort(communalities, kind="stable")[: (~np.isnan(communalities)).sum()]  # NaN come last
    rank, often = np.arange(1, len(order) + 1), at_bound[order] > 0.5
    for chosen, look, size, label in ((~often, "o", 2.5, "below the bound"), (often, "s", 3.5, "mostly at the bound")):
        if chosen.any():
            fill = "white" if look == "s" else "0.25"
            ax.plot(rank[chosen], probability[order[chosen]], look, color="0.25", mfc=fill, ms=size, label=label)
    below = (communalities < cut).sum()
    ax.axvline(below + 0.5, color="0.6", lw=0.6, ls="--", zorder=0, label="cut of all clients")
    ax.set(xlabel="unit, by communality", ylabel="probability of being shared", ylim=(-0.04, 1.04))

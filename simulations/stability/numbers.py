"""What the stability study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import DRAWN, Effects, Question
from simulations.estimates import mean_of
from simulations.showing import rounded, setting, span
from simulations.stability.study import ARMS, MEASURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: 'Nearly all' units: at least this share.
NEARLY_ALL = 0.95
#: Agreement beyond chance that is called almost perfect (Landis and Koch 1977).
ALMOST_PERFECT = 0.8
#: Units that 'change little' from the start: at least this share keeps its state in the first rounds.
LITTLE = 0.9
#: The first rounds, which the late ones are compared with.
EARLY = 6
LATE, FIRST = "last rounds", f"rounds 2 to {EARLY}"
WORDS = {
    "agreement": "share of units keeping their state",
    "kappa": "agreement beyond chance (κ) of consecutive rounds",
}


def effects(tables: Tables) -> Effects:
    """Return each arm's late agreement of consecutive rounds minus that of the first rounds.

    The first rounds are known as means over seeds: the change has limits over settings, which stand in the place of
    seeds.
    """
    change = {
        words: pd.DataFrame({LATE: _means(tables, arm)["agreement"], FIRST: _early(tables, arm)})
        for arm, words in ARMS.items()
    }
    pairs = {words: [(LATE, FIRST)] for words in change}
    return Effects([Question("whether agreement changes", WORDS["agreement"], change, pairs, DRAWN)])


def findings(tables: Tables) -> dict[str, Finding]:
    """Return each arm's late agreement, against what is called nearly all or almost perfect, and its change."""
    found, changes = {}, effects(tables)
    for measure, border in (("agreement", NEARLY_ALL), ("kappa", ALMOST_PERFECT)):
        for arm, words in ARMS.items():
            values = _late(tables, arm).groupby("seed")[measure].mean(skipna=False)
            estimate = mean_of(values, within=MEASURES[measure])
            what = f"{WORDS[measure]} by {words}, mean over the settings"
            found[f"{measure} {arm}"] = Finding.of(what, estimate, border=border, digits=3)
    for arm, words in ARMS.items():
        early = f"{WORDS['agreement']} by {words}, {FIRST}, interval over the settings"
        found[f"early {arm}"] = Finding.of(
            early, mean_of(_early(tables, arm), within=MEASURES["agreement"]), border=LITTLE, digits=3
        )
        what = f"{WORDS['agreement']} by {words}, {LATE} − {FIRST}, interval over the settings"
        found[f"drift {arm}"] = Finding.of(what, changes[WORDS["agreement"], words, LATE, FIRST], digits=3)
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return late agreement by setting and arm, and its range over settings by arm."""
    rows, ranges = [], []
    for (p, alpha), group in tables["late"].groupby(["p", "alpha"], sort=False):
        for arm, words in ARMS.items():
            values = group[group["arm"] == arm]
            estimates = {m: mean_of(values[m], within=range_) for m, range_ in MEASURES.items()}
            rows.append({"setting": setting(p, alpha), "by": words, "first": arm == next(iter(ARMS)), **estimates})
    for arm, words in ARMS.items():
        means = _means(tables, arm)
        ranges.append({"arm": arm, "by": words, **{measure: span(means[measure], 2) for measure in MEASURES}})
        ranges[-1]["early"] = span(_early(tables, arm), 2)
        ranges[-1]["changing"] = span(config["units"] * (1 - means["agreement"]), 0)
    return {
        "rows": rounded(rows, agreement=3, kappa=3),
        "ranges": ranges,
        "seeds": tables["late"]["seed"].nunique(),
        "early": f"2 to {EARLY}",
        "nearly_all": f"{100 * NEARLY_ALL:g}%",
    }


def _late(tables: Tables, arm: str) -> pd.DataFrame:
    return tables["late"][tables["late"]["arm"] == arm]


def _means(tables: Tables, arm: str) -> pd.DataFrame:
    """Return means over seeds of the late agreement, raw and beyond chance, by setting."""
    return _late(tables, arm).groupby(["p", "alpha"])[list(MEASURES)].mean(skipna=False)


def _early(tables: Tables, arm: str) -> pd.Series:
    """Return an arm's agreement in the first rounds, mean over seeds and rounds, by setting."""
    curves = tables["curves"]
    first = curves[(curves["arm"] == arm) & (curves["round"] <= EARLY)]
    return first.groupby(["p", "alpha"])["agreement"].mean(skipna=False)


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the share of units that keep their state, a panel per setting; at the end the mean of the last rounds."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    curves, late = tables["curves"], tables["late"]
    settings = list(curves[["p", "alpha"]].drop_duplicates().itertuples(index=False))
    lines, marks, fills = ("-", "-.", "--", ":"), "os^D", ("black", "white", "black", "white")
    columns = min(len(settings), 3)
    with style():
        figure, axes = plt.subplots(
            -(-len(settings) // columns), columns, figsize=(WIDTH, 4.0), sharex=True, sharey=True, squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for axis, (p, alpha) in zip(axes.flat, settings, strict=True):
            for place, (arm, line, mark, fill) in enumerate(zip(ARMS, lines, marks, fills, strict=True)):
                curve, values = (t[(t["p"] == p) & (t["alpha"] == alpha) & (t["arm"] == arm)] for t in (curves, late))
                mean, low, high = mean_of(values["agreement"], within=MEASURES["agreement"])
                at = curves["round"].max() * (1.05 + 0.04 * place)
                axis.plot(curve["round"], curve["agreement"], line, color="black", lw=0.8)
                axis.plot([at, at], [low, high], color="black", lw=0.8)
                axis.plot(at, mean, mark, color="black", mfc=fill, ms=3.5, mew=0.8)
            axis.set_title(setting(p, alpha))
            axis.set_ylim(0, 1.02)
        figure.supylabel("units that keep their state (share)", fontsize=8)
        figure.supxlabel("round; right of the curves: mean of the last rounds with its 95% interval", fontsize=8)
        handles = [
            plt.Line2D([], [], color="black", ls=line, marker=mark, mfc=fill, ms=3.5, lw=0.8, label=words)
            for words, line, mark, fill in zip(ARMS.values(), lines, marks, fills, strict=True)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, fontsize=7)
    return {"agreement": figure}

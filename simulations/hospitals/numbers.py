"""What the study of four hospitals hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import UNTRAINED
from simulations.estimates import Estimate, reason, undefined
from simulations.hospitals.study import ARMS, CONTROL, METRICS, OF_ALL
from simulations.showing import fixed, rounded
from simulations.trained import untrained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "all patients"
#: What an accuracy by chance is, per cent.
CHANCE = 50.0
#: Shown in per cent, their differences in points.
_SHARES = ("auc", "accuracy")
_POWER, _JOINT = 0.8, 0.05 / (len(ARMS) - 1)


def _factor(metric: str) -> float:
    return 100.0 if metric in _SHARES else 1.0


def not_trained(tables: Tables) -> dict[str, str]:
    """Return why arms are not trained enough to be judged."""
    learnt = tables["learnt"]
    accuracy, share, gain = (
        learnt.pivot(index="seed", columns="arm", values=of) for of in ("accuracy", "majority_share", "gain")
    )
    return untrained(accuracy, share, of_all=OF_ALL, chance=CHANCE, gain=gain)


def _estimate(row: Any, of: str, factor: float) -> Estimate:
    found = (factor * row[of], factor * row["low"], factor * row["high"])
    return undefined("it has no limits") if math.isnan(sum(found)) else found


def findings(tables: Tables) -> dict[str, Finding]:
    """Return differences to Local over all patients, by ranks and by the slope of calibration."""
    from scipy import stats

    table, why = tables["differences"], not_trained(tables)
    found = {}
    for metric, words, digits in (("auc", "AUC", 1), ("calibration_slope", "calibration slope", 2)):
        for _, row in table[(table["metric"] == metric) & (table["hospital"] == ALL)].iterrows():
            estimate = _estimate(row, "difference", _factor(metric))
            told = [f"{arm} ({why[arm]})" for arm in (row["arm"], CONTROL) if arm in why]
            if told:
                estimate = undefined(f"{' and '.join(told)} {'is' if len(told) == 1 else 'are'} {UNTRAINED}")
            q = stats.t.isf(_JOINT / 2, row["df"])
            could = (estimate[2] - estimate[1]) / 2 * (1 + stats.t.ppf(_POWER, row["df"]) / q)
            found[f"{metric} {row['arm']}"] = Finding(
                f"{words} of {row['arm']} minus {CONTROL}'s, over all patients", *estimate,
                unit="points" if metric in _SHARES else "", digits=digits, why=reason(estimate), could_find=could,
            )  # fmt: skip
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return values and differences as tables, and who is shown to gain or to lose."""
    found, why = findings(tables), not_trained(tables)
    values = tables["values"].set_index(["metric", "hospital", "arm"]).sort_index()
    differences = tables["differences"].set_index(["metric", "hospital", "arm"]).sort_index()
    hospitals = [name for name in tables["values"]["hospital"].unique() if name != ALL]
    others = [arm for arm in ARMS if arm != CONTROL]
    whole = [{"arm": arm, **{m: _cell(values, (m, ALL, arm), "estimate", _factor(m)) for m in METRICS}} for arm in ARMS]
    own = [{"arm": arm, **{h: _cell(differences, ("auc", h, arm), "difference", 100.0) for h in hospitals}}
           for arm in others]  # fmt: skip
    own = rounded(own, **dict.fromkeys(hospitals, 1))
    judged = [(arm, h, differences.loc[("auc", h, arm)]) for arm in others for h in hospitals if arm not in why]
    held = [
        {
            "hospital": h,
            "patients": fixed(values.loc[("auc", h, CONTROL), "n"], 0),
            "ill": fixed(values.loc[("auc", h, CONTROL), "events"], 0),
            "auc": _cell(values, ("auc", h, CONTROL), "estimate", 100.0),
        }
        for h in hospitals
    ]
    auc = [found[f"auc {arm}"] for arm in others]
    limits = [abs(side) for one in auc for side in (one.low, one.high) if one.sign != "undefined"]
    return {
        "whole": rounded(whole, auc=1, accuracy=1, brier=3, calibration_intercept=2, calibration_slope=2),
        "hospitals": [{"name": h} for h in hospitals],
        "own": [{"arm": row["arm"], "cells": [{"text": row[h]} for h in hospitals]} for row in own],
        "held": rounded(held, auc=1),
        "gains": [{"text": f"{h} by {arm}"} for arm, h, row in judged if row["low"] > 0],
        "loses": [{"text": f"{h} by {arm}"} for arm, h, row in judged if row["high"] < 0],
        "better": [{"text": arm} for arm in others if found[f"auc {arm}"].sign == "more"],
        "worse": [{"text": arm} for arm in others if found[f"auc {arm}"].sign == "less"],
        "untrained": [{"arm": arm, "why": words} for arm, words in why.items()],
        "joint": f"{len(hospitals) * len(others)}",
        "most": fixed(max(limits, default=math.nan), 1),
        "tuned": "tuning" in tables,
    }


def _cell(table: pd.DataFrame, key: tuple[str, str, str], of: str, factor: float) -> Estimate | None:
    """Return a value with its limits, None where one of them is missing."""
    found = factor * table.loc[key, [of, "low", "high"]].to_numpy(float)
    return None if np.isnan(found).any() else (float(found[0]), float(found[1]), float(found[2]))


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw each method's difference to Local, over all patients and at each hospital."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    table = tables["differences"]
    table = table[table["metric"] == "auc"]
    places = [ALL, *(name for name in table["hospital"].unique() if name != ALL)]
    others = [arm for arm in ARMS if arm != CONTROL]
    with style():
        figure, axes = plt.subplots(1, len(places), figsize=(WIDTH, 2.4), sharey=True, layout="constrained")
        for axis, place in zip(axes, places, strict=True):
            rows = 100 * table[table["hospital"] == place].set_index("arm").loc[others, ["difference", "low", "high"]]
            axis.axvline(0, color="0.5", lw=0.6, ls=":", zorder=0)
            bars = [(rows["difference"] - rows["low"]).clip(0), (rows["high"] - rows["difference"]).clip(0)]
            axis.errorbar(
                rows["difference"], np.arange(len(others)), xerr=bars, fmt="o", color="black",
                mfc="black" if place == ALL else "white", ms=3.5, mew=0.8, lw=0.7,
            )  # fmt: skip
            axis.set_title(place, fontsize=7)
        axes[0].set_yticks(range(len(others)), others)
        axes[0].invert_yaxis()
        figure.supxlabel(f"AUC minus that of {CONTROL}, points; scales differ", fontsize=8)
    return {"hospitals": figure}

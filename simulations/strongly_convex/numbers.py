"""What the study of the strongly convex bound hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.estimates import Estimate, mean_of
from simulations.showing import NONE, fixed, rounded, total
from simulations.strongly_convex.study import FORMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the largest ratio of gap and bound over the steps, mean over seeds, by setting and form of the bound."""
    found = {}
    for (setting, form), rows in tables["largest"].groupby(["setting", "bound"], sort=False):
        what = f"largest ratio of gap and bound as {form}, {setting}"
        found[f"{form}: {setting}"] = Finding.of(what, mean_of(rows["ratio"]), border=1.0)
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how often the gap exceeds the bound as printed and as corrected, and by how much."""
    wanted = tables["summary"].set_index(["setting", "bound"])
    largest = tables["largest"].set_index(["setting", "bound"])["ratio"].sort_index()
    # a gap that is not known may have exceeded the bound
    known = largest.groupby(["setting", "bound"]).mean(skipna=False).notna()
    exceeding, last = (wanted[column].where(known) for column in ("seeds_exceeding", "last_step_exceeding"))
    rows = []
    for setting in tables["summary"]["setting"].unique():
        row: dict[str, Any] = {"setting": setting}
        for form in FORMS:
            row[f"{form}_seeds"] = f"{fixed(exceeding[setting, form], 0)} of {wanted['seeds'][setting, form]}"
            row[f"{form}_ratio"] = _ratio(mean_of(largest.loc[[(setting, form)]]))
        row["last"] = fixed(last[setting, "printed"], 0) if exceeding[setting, "printed"] else NONE
        rows.append(row)
    return {
        "rows": rows,
        "broken": {form: total(exceeding.clip(upper=1).xs(form, level="bound")) for form in FORMS},
        "exceeding": {form: total(exceeding.xs(form, level="bound")) for form in FORMS},
        "settings": len(rows),
        "runs": int(wanted.xs(FORMS[0], level="bound")["seeds"].sum()),
        "seed": int(tables["gap"]["seed"].min()),
    }


def _ratio(estimate: Estimate) -> str:
    return "< 0.01" if estimate[2] < 0.01 else rounded([{"ratio": estimate}], ratio=2)[0]["ratio"]


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw gap and bounds over the steps for the first seed, a panel per setting; shade where the printed one fails."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    gaps = tables["gap"]
    first = gaps[gaps["seed"] == gaps["seed"].min()]
    groups = list(first.groupby("setting", sort=False))
    with style():
        figure, axes = plt.subplots(
            2, -(-len(groups) // 2), figsize=(WIDTH, 3.8), sharex=True, layout="constrained",
            subplot_kw={"xscale": "log", "yscale": "log"},
        )  # fmt: skip
        for axis, (setting, table) in zip(axes.flat, groups, strict=True):
            t, gap, printed = (table[c].to_numpy() for c in ("t", "gap", "printed"))
            axis.fill_between(t, printed, gap, where=gap > printed, color="0.85", lw=0, label="printed bound fails")
            axis.fill_between(
                t, np.maximum(table["low"], 1e-300), table["high"], color="0.5", lw=0, label="95% interval"
            )
            axis.plot(t, gap, "-", color="black", lw=1.2, label="expected gap")
            axis.plot(t, printed, "--", color="black", lw=0.9, label="bound as printed")
            axis.plot(t, table["corrected"], ":", color="black", lw=1.2, label="bound as corrected")
            axis.set_title(setting)
        figure.supxlabel("step t", fontsize=8)
        figure.supylabel("F(w) − F* and its bounds", fontsize=8)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False, fontsize=7)
    return {"gap": figure}

"""What the coverage study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.coverage.study import DESIGNS, FAMILIES, LEVEL, RULES, SHAPES, SKEWED, UNION
from simulations.estimates import missing, note, undefined
from simulations.showing import NONE, fixed, span

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The number of seeds at which families are told of in words.
SEEDS = 5
#: Shapes that a t interval is made for, whatever the variances and correlations.
FAIR = ("normal", "unequal", "noisy control", "correlated", "clones", "one noisy", "half noisy", "ties")


def findings(tables: Tables) -> dict[str, Finding]:
    """Return how often families hold by rule and number of methods, and how often single intervals do by design."""
    found = {}
    for row in tables["coverage"].query("seeds == @SEEDS and family == 'control'").itertuples():
        what = f"families of {row.methods} methods against one that hold, {row.shape}, {RULES[row.rule]}"
        found[f"{row.shape} {row.methods} {row.rule}"] = _finding(f"{what}, {SEEDS} seeds", row)
    for row in tables["designs"].itertuples():
        size = f"test_to_train {row.test_to_train:g}" if row.test_to_train else f"{row.clients} clients"
        what = f"intervals that hold, {DESIGNS[row.design]}, {row.seeds} seeds, {size}"
        found[f"{row.design} {row.seeds} {row.clients} {row.test_to_train:g}"] = _finding(what, row)
    return found


def _finding(what: str, row: Any) -> Finding:
    estimate = (row.coverage, row.low, row.high)
    if missing(estimate):
        estimate = undefined("the share that holds or its limits are missing", row.coverage)
    return Finding.of(what, estimate, 100, "per cent", 1, 100 * LEVEL)


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shares of families that hold, half-widths, designs, and where the default fails."""
    table = tables["coverage"]
    control = table[table["family"] == "control"]
    default = table[table["rule"] == "default"]
    t = control.query("rule == 'none' and methods == 2")
    flagged = tables["flagged"].query("seeds > 3 and shape != 'ties'")  # the others are not tested
    note(
        *(both[c] for both in (table, tables["designs"], tables["skewed"]) for c in ("coverage", "high")),
        flagged["flagged"],
    )
    return {
        "rows": [
            {"shape": shape, "methods": f"{methods}", "first": methods == min(config["methods"]), **found}
            for (shape, methods), rows in control.groupby(["shape", "methods"], sort=False)
            for found in [{rule: by_seeds(rows, rule, config["seeds"]) for rule in RULES}]
        ],
        "widths": [
            {"family": FAMILIES[family], "methods": f"{methods}"}
            | {rule: widths(rows, rule, config["seeds"]) for rule in ("none", "default")}
            for (family, methods), rows in table.query("shape == 'normal' and methods > 2").groupby(
                ["family", "methods"], sort=False
            )
        ],
        "widest": fixed(default["widest"].max(), 2),
        "designs": [
            {"design": DESIGNS[design], "at": _design_at(rows), "coverage": _shares(rows)}
            for (design, _), rows in tables["designs"].groupby(["design", "test_to_train"], sort=False)
        ],
        "seeds": ", ".join(str(s) for s in config["seeds"]),
        "figure_seeds": f"{SEEDS}",
        "told": [{"methods": f"{m}", "key": f"normal {m} none"} for m in config["methods"] if m > 2],
        "fair": span(100 * default[default["shape"].isin(FAIR)]["coverage"], 1),
        "failing": [
            {"shape": shape, "least": fixed(100 * rows["coverage"].min(skipna=False), 0)}
            for shape, rows in default.groupby("shape", sort=False)
            if (rows["high"] < LEVEL).any()
        ],
        "single": [
            {"shape": shape, "coverage": span(100 * rows["coverage"], 0)}
            for shape, rows in t[~t["shape"].isin(FAIR)].groupby("shape", sort=False)
        ],
        "flagged": [
            {"shape": shape, "share": span(100 * rows["flagged"], 0)}
            for shape, rows in flagged.groupby("shape", sort=False)
        ],
        "skewed": [
            {"shape": shape, "meaning": SKEWED[shape], "width": span(rows["widest"][rows["rule"] == "union"], 2)}
            | {rule: span(100 * rows["coverage"][rows["rule"] == rule], 0) for rule in UNION}
            for shape, rows in tables["skewed"].groupby("shape", sort=False)
        ],
        "skewed_seeds": ", ".join(str(s) for s in config["skewed_seeds"]),
        "replicates": f"{table['replicates'].max()}",
        "shapes": [{"shape": shape, "meaning": SHAPES[shape]} for shape in config["shapes"]],
    }


def share(row: pd.Series) -> str:
    """Format a coverage in per cent, starred where its upper limit lies below the level."""
    known = row[["coverage", "high"]].notna().all()
    return fixed(100 * row["coverage"], 1) + "*" * bool(row["high"] < LEVEL) if known else NONE


def by_seeds(rows: pd.DataFrame, rule: str, seeds: Sequence[int]) -> str:
    """Format the coverages of one rule by seeds."""
    found = rows[rows["rule"] == rule].set_index("seeds")
    return ", ".join(share(found.loc[s]) if s in found.index else NONE for s in seeds)


def widths(rows: pd.DataFrame, rule: str, seeds: Sequence[int]) -> str:
    """Format the range over pairs of median half-widths over Bonferroni's of the same pair."""
    found = rows[rows["rule"] == rule].set_index("seeds")
    return ", ".join(span(found.loc[s, ["narrowest", "widest"]], 2) if s in found.index else NONE for s in seeds)


def _design_at(rows: pd.DataFrame) -> str:
    seeds = ", ".join(str(s) for s in rows["seeds"].unique())
    if rows["test_to_train"].max():
        return f"{seeds} splits, test to train {rows['test_to_train'].iloc[0]:g}"
    return f"{seeds} seeds, {' or '.join(str(k) for k in sorted(rows['clients'].unique()))} clients"


def _shares(rows: pd.DataFrame) -> str:
    """Format a design's coverages: by seeds, and within them by clients."""
    blocks = [" or ".join(share(row) for _, row in group.iterrows()) for _, group in rows.groupby("seeds")]
    return ", ".join(blocks)


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw, in a panel for each number of methods, how often families against the control hold, by kind of error."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    table = tables["coverage"].query("family == 'control' and seeds == @SEEDS")
    shapes = list(table["shape"].unique())
    looks = {"none": ("x", "none", -0.22), "bonferroni": ("s", "white", 0.0), "default": ("o", "black", 0.22)}
    with style():
        figure, axes = plt.subplots(
            1, table["methods"].nunique(), figsize=(WIDTH, 3.2), sharey=True, squeeze=False, layout="constrained"
        )
        for axis, (methods, own) in zip(axes[0], table.groupby("methods"), strict=True):
            axis.axvline(100 * LEVEL, color="0.5", lw=0.6, ls=":", zorder=0)
            for rule, (mark, fill, shift) in looks.items():
                rows = own[own["rule"] == rule].set_index("shape").loc[shapes]
                bars = 100 * pd.concat([rows["coverage"] - rows["low"], rows["high"] - rows["coverage"]], axis=1).T
                axis.errorbar(
                    100 * rows["coverage"], np.arange(len(shapes)) + shift, xerr=bars.clip(0), fmt=mark, color="black",
                    mfc=fill, ms=3.5, mew=0.8, lw=0.7, label=RULES[rule],
                )  # fmt: skip
            axis.set(title=f"{methods} methods", xlim=(0, 103), xticks=(0, 50, 95))
        axes[0][0].set_yticks(range(len(shapes)), shapes)
        axes[0][0].invert_yaxis()
        figure.supxlabel("families that hold, per cent", fontsize=8)
        figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False,
                      fontsize=7)  # fmt: skip
    return {"coverage": figure}

"""Ask whether the dynamic version's shared units stay the same (FedFac paper, Figure 7).

The dynamic arms of the split study, at its settings and learning rate, train on seeds of their own and record every
round's shared units. The study measures the agreement of the shared units of consecutive rounds, raw and corrected for
chance, for factor analysis of weights and of updates and for the statistic of the authors' code, with a random
statistic as control.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd

from fedstat._tables import Tables
from simulations.contract import About
from simulations.parts import Part, run_parts
from simulations.split import study as split

ABOUT = About(
    "How often the shared units change", "FedSplit/FedFac", "section 4.3, every reading", order=30,
    times={"paper": "17 minutes of two busy cores"},
)  # fmt: skip
SCALES = split.SCALES
ARMS = {
    "dynamic": "factor analysis of weights",
    "dynamic, code": "the authors' statistic of weights",
    "dynamic, updates": "factor analysis of updates",
    "random, every round": "a random statistic (control)",
}
#: Agreement with nothing to agree about lies around these by construction.
MEASURES = {"agreement": (0.0, 1.0), "kappa": (-1.0, 1.0)}
LAST = 10
#: Smaller seeds are the split study's.
FIRST_SEED = 200


def one_setting(scale: split.Scale, p: float, alpha: float, lr: float) -> Tables:
    """Train the dynamic arms at one setting; return their agreement between consecutive rounds."""
    every = split.arms(scale, p)
    first = FIRST_SEED + scale.shift
    result = split.federate(
        scale,
        {label: every[label] for label in ARMS},
        partial(split.draw, scale, p, alpha, scale.samples),
        lr,
        range(first, first + scale.seeds),
    )
    return {"agreement": pd.concat(split.agreement_between_rounds(result), ignore_index=True).assign(p=p, alpha=alpha)}


def run(scale: split.Scale, out: Path) -> Tables:
    """Run all settings at the split study's learning rate; add means over seeds by round, and over the last rounds."""
    tuned = run_parts([split.tuning_part(scale, *split.TUNED_AT, scale.samples)], out, "stability: learning rates")
    lr = split.chosen_rates(tuned["tuning"], *split.TUNED_AT)["changing split"]
    parts = [
        Part(f"stability-p{p}-alpha{alpha}", scale, partial(one_setting, scale, p, alpha, lr))
        for p, alpha in scale.settings
    ]
    agreement = run_parts(parts, out, "stability: settings")["agreement"]
    curves = (
        agreement.groupby(["p", "alpha", "arm", "round"], sort=False)[list(MEASURES)].mean(skipna=False).reset_index()
    )
    late = settled(agreement, "agreement").assign(kappa=settled(agreement, "kappa")["kappa"])
    return {"agreement": agreement, "curves": curves, "late": late}


def evidence(tables: Tables) -> Tables:
    """Return means over seeds and means over rounds, without each seed's every round."""
    return {name: tables[name] for name in ("curves", "late")}


def settled(agreement: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the mean over the last rounds: one row per setting, arm and seed."""
    late = agreement[agreement["round"] > agreement["round"].max() - LAST]
    return late.groupby(["p", "alpha", "arm", "seed"], sort=False)[column].mean(skipna=False).reset_index()

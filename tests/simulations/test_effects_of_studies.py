"""Tables of effects of the committed studies: what a chapter says of a pair is the one interval that it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedstat as fs
from fedstat._tables import read_tables
from fedstat.inference import mean_interval
from simulations.factorized import judged
from simulations.studies import evidence

RESULTS = Path(__file__).parents[2] / "reports" / "results"


def committed(name):
    return evidence(name, read_tables(RESULTS / name))


def test_a_pair_of_the_study_has_the_interval_of_compare():
    """Local against the methods that it is compared with in domains: one family, one interval."""
    tables = committed("factorized")
    cell = next(cell for cell in judged.cells(tables) if cell.domains)
    wide = judged.per_seed(tables, cell)[["Local", "FedAvg", "FedProx", "pFedPara"]]
    rows = wide.reset_index().melt("seed", var_name="method", value_name="mse").assign(client=0)
    told = fs.compare(rows, control="Local", design=judged.DESIGNS[True]).differences
    found = judged.effects(tables)
    for arm in ("FedAvg", "FedProx", "pFedPara"):
        effect, row = found["accuracy", judged.key(cell), arm, "Local"], told.loc[f"{arm} − Local"]
        assert (effect.mean, effect.low, effect.high) == pytest.approx(tuple(row[["difference", "low", "high"]]))


def test_images_that_seeds_share_widen_an_interval_by_what_they_share():
    tables = committed("factorized")
    cell = next(cell for cell in judged.cells(tables) if cell.domains)
    wide, design = judged.per_seed(tables, cell), judged.DESIGNS[True]
    effect = judged.effects(tables)["accuracy", judged.key(cell), "FedAvg", "Local"]
    _, low, high = mean_interval(wide["FedAvg"] - wide["Local"], 1 - 0.05 / 3)
    n = len(wide)
    assert (effect.high - effect.low) / (high - low) == pytest.approx(np.sqrt(1 + n * design.test_to_train))

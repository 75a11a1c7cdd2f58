"""Tables of effects of the committed studies: what a chapter says of a pair is the one interval that it has."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import fedstat as fs
from fedstat._tables import read_tables
from fedstat.inference import mean_interval
from simulations import NAMES
from simulations.factorized import judged
from simulations.studies import effects, evidence, handed_over

RESULTS = Path(__file__).parents[2] / "reports" / "results"
STUDIES = [name for name in NAMES if (RESULTS / name).is_dir() and hasattr(handed_over(name), "effects")]


def committed(name):
    return evidence(name, read_tables(RESULTS / name))


@pytest.mark.parametrize("name", STUDIES)
def test_a_finding_on_a_pair_has_the_interval_of_the_table(name):
    tables = committed(name)
    known = effects(name, tables)
    assert known
    sides = {(e.mean, e.low, e.high) for e in known.values()} | {(-e.mean, -e.high, -e.low) for e in known.values()}
    findings = handed_over(name).findings(tables)
    pairs = [f for f in findings.values() if not math.isnan(f.p)]
    assert {(f.mean, f.low, f.high) for f in pairs} <= sides
    minus = [f for f in findings.values() if " minus " in f.what and f.border == 0 and not math.isnan(f.low)]
    others = [f.what for f in minus if (f.mean, f.low, f.high) not in sides]
    # not differences of two arms under the same seeds: other seeds, rounds up to a target, a mean of one quantity
    apart = ("tuning seeds minus fresh seeds", "rounds of FilterDecomp", "told by the other seeds")
    assert [what for what in others if not any(words in what for words in apart)] == []


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

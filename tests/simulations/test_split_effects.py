"""What the studies on shared units say of two arms: tables of effects against independent computations."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score, roc_auc_score

import fedstat as fs
from fedstat._tables import read_tables
from simulations.contract import Finding
from simulations.effects import Effects
from simulations.split import effects as split
from simulations.split.study import auc, chance_corrected, per_seed
from simulations.studies import effects, evidence
from theory_checks import COMMITTED

STUDIES = ("split", "decompositions", "agreement", "stability", "phase", "resampling")


@pytest.fixture(scope="module")
def every() -> dict[str, Effects]:
    return {name: effects(name, evidence(name, read_tables(COMMITTED / name))) for name in STUDIES}


@pytest.mark.parametrize("name", STUDIES)
def test_limits_of_all_kinds_are_nested_and_power_asks_for_more_than_half_an_interval(
    every: dict[str, Effects], name: str
) -> None:
    found = every[name]
    families = Counter(effect.question for effect in found.values())
    for effect in found.values():
        assert effect.together <= families[effect.question]
        assert not effect.why or np.isnan(effect.low)
        if not effect.why:
            assert effect.low < effect.inner[0] < effect.mean < effect.inner[1] < effect.high
            assert effect.mean - effect.low == pytest.approx(effect.high - effect.mean)
            assert effect.could_find > (effect.high - effect.low) / 2


def test_a_small_family_is_the_paired_t_of_scipy(every: dict[str, Effects]) -> None:
    tables = read_tables(COMMITTED / "split")
    main, _ = split.settings(tables)
    wide = split.over_settings(tables, main, "balanced_accuracy")[split.OVER]
    effect = every["split"]["balanced accuracy", split.OVER, "Local", "true"]
    test = stats.ttest_rel(wide["Local"], wide["true"])
    limits = test.confidence_interval(0.95)
    assert (effect.mean, effect.low, effect.high, effect.p) == pytest.approx(
        (100 * (wide["Local"] - wide["true"]).mean(), 100 * limits.low, 100 * limits.high, test.pvalue)
    )
    # the mean over the settings is that of the settings' means, seed by seed
    by_hand = np.mean([per_seed(tables, *s)["Local"] - per_seed(tables, *s)["true"] for s in main], axis=0)
    mean = every["split"]["accuracy", split.OVER, "Local", "true"].mean
    assert mean == pytest.approx(100 * by_hand.mean())


def test_a_question_of_many_arms_is_what_compare_makes_of_it(every: dict[str, Effects]) -> None:
    tables = read_tables(COMMITTED / "split")
    _, control = split.settings(tables)
    where = split.setting(*control[:2])
    asked = every["split"].among("the control of sharing")
    arms = ["true", *(effect.first for effect in asked)]
    rows = (100 * per_seed(tables, *control)[arms]).reset_index().melt("seed", var_name="method", value_name="mse")
    design = fs.inference.Design(clients="new", data="drawn")
    told = fs.compare(rows.assign(client=0), control="true", design=design).differences
    assert len(told) == len(asked) > 8
    for effect in asked:
        assert effect.setting == where
        row = told.loc[f"{effect.first} − true", ["difference", "low", "high", "p (t)"]]
        assert (effect.mean, effect.low, effect.high, effect.p) == pytest.approx(tuple(row))


def test_where_nothing_is_shown_it_is_said_what_would_have_been(every: dict[str, Effects]) -> None:
    unclear, clear = (every["split"]["accuracy", split.OVER, arm, "true"] for arm in ("static", "Local"))
    said = Finding.of("it", unclear).record()["power"]
    assert said == f"a difference of {unclear.could_find:.2f} would have been found with 80% power"
    assert Finding.of("it", clear).record()["power"] == ""


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_the_area_under_the_curve_is_scikit_learns(pairs):
    values, positive = np.array([value for value, _ in pairs]), np.array([is_one for _, is_one in pairs])
    if 0 < positive.sum() < len(positive):
        assert auc(values, positive) == pytest.approx(roc_auc_score(positive, values), abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_agreement_is_cohens_kappa(pairs):
    a, b = np.array(pairs).T
    agreement, kappa = chance_corrected(a, b)
    assert agreement == pytest.approx(np.mean(a == b))
    assert np.isnan(kappa) == ((a.all() and b.all()) or not (a.any() or b.any()))
    if not np.isnan(kappa):
        assert kappa == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)

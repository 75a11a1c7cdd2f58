"""Seeds needed against statsmodels, simulation and limits."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from fedstat.inference import equivalence, plan
from fedstat.inference.intervals.planning import detectable_shift, difference_power, equivalence_power


@given(st.floats(0.1, 3), st.integers(2, 400), st.sampled_from([0.05, 0.01, 0.0005]))
def test_power_of_the_t_test_is_the_noncentral_t(effect, n, alpha):
    theirs = TTestPower().power(effect, n, alpha)
    assume(np.isfinite(theirs))  # scipy's noncentral t gives up now and then
    assert difference_power(effect, n, alpha) == pytest.approx(theirs, rel=1e-6)


@given(st.floats(1, 40), st.floats(1, 60), st.floats(0.5, 0.95), st.sampled_from([1, 2]))
def test_what_is_detectable_has_its_power_by_the_noncentral_t(critical, df, power, sides):
    law = stats.nct(df, detectable_shift(critical, df, power, sides))
    theirs = law.sf(critical) + (law.cdf(-critical) if sides == 2 else 0)
    assume(np.isfinite(theirs))
    assert theirs == pytest.approx(power, abs=1e-5)
    assert detectable_shift(0.1, df, 0.8) == 0  # such a test rejects at once


@given(st.floats(0.06, 2), st.floats(0.3, 0.99), st.integers(1, 30))
def test_seeds_for_a_difference_are_statsmodels(effect, power, comparisons):
    found = plan(1.0, pilot_seeds=5, margin=effect, power=power, comparisons=comparisons).seeds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = TTestPower().solve_power(effect, power=power, alpha=0.05 / comparisons)
    if np.isfinite(theirs) and abs(theirs - round(float(theirs))) > 1e-6:
        assert found == max(2, np.ceil(theirs))


@pytest.mark.parametrize("n", [3, 8, 25])
def test_power_of_equivalence_is_what_simulation_finds(n):
    rng = np.random.default_rng(2)
    margin, repeats = 2.4 / np.sqrt(n) + 1.5 / n, 40_000
    d = rng.normal(size=(repeats, n))
    half = stats.t.ppf(0.95, n - 1) * d.std(axis=1, ddof=1) / np.sqrt(n)
    found = (np.abs(d.mean(axis=1)) + half < margin).mean()
    assert 0.1 < found < 0.9
    assert equivalence_power(margin, n, 0.05) == pytest.approx(found, abs=4 * np.sqrt(0.25 / repeats))


def test_so_many_seeds_find_equivalence_and_one_less_does_not():
    rng = np.random.default_rng(4)
    needed = plan(1.0, pilot_seeds=9, margin=1.0, goal="equivalence").seeds
    assert equivalence_power(1.0, needed, 0.05) >= 0.8 > equivalence_power(1.0, needed - 1, 0.05)
    found = [
        equivalence(rng.normal(size=needed), np.zeros(needed), margin=1.0).outcome == "equivalent" for _ in range(400)
    ]
    assert np.mean(found) == pytest.approx(equivalence_power(1.0, needed, 0.05), abs=4 * np.sqrt(0.16 / 400))


@given(
    st.lists(st.floats(-1, 1), min_size=3, max_size=9).filter(lambda d: np.std(d) > 0.01),
    st.floats(0.05, 1),
    st.sampled_from(["difference", "equivalence"]),
)
def test_the_range_holds_the_seeds_and_no_unit_matters(pilot, margin, goal):
    found = plan(pilot, margin=margin, goal=goal)
    assert 2 <= found.low <= found.seeds <= found.high
    n = len(pilot)
    sd = np.std(pilot, ddof=1)
    np.testing.assert_allclose(
        [(n - 1) * sd**2 / found.sd_high**2, (n - 1) * sd**2 / found.sd_low**2], stats.chi2.ppf([0.025, 0.975], n - 1)
    )
    per_cent = plan(64 * np.array(pilot), margin=64 * margin, goal=goal)
    assert (per_cent.low, per_cent.seeds, per_cent.high) == (found.low, found.seeds, found.high)
    assert plan(pilot, margin=margin, goal=goal, comparisons=7).seeds >= found.seeds


def test_what_a_plan_says():
    words = str(plan([0.031, -0.012, 0.024, 0.005, 0.041], margin=0.01))
    assert words == (
        "About 38 seeds are needed to find a difference of 0.01 with a probability of 80% at a level of 95%; "
        "with 5 pilot seeds anything from 15 to 300."
    )
    few = str(plan([0.3, 0.1, 0.2], margin=50, goal="equivalence", comparisons=3))
    assert "About 2 seeds are needed to find equivalence within 50 in each of 3 comparisons, adjusted for all" in few
    assert "sign flips" not in few  # which equivalence does not use
    several = str(plan(1.0, pilot_seeds=5, margin=2.2, comparisons=10))
    assert "so few rest on normal differences, since sign flips cannot reach 0.5% below 9" in several
    assert "More than 10,000 seeds" in str(plan(1.0, pilot_seeds=5, margin=1e-12))


def test_the_normal_approximation_takes_over_without_a_step():
    """Around 100,000 seeds both ways of counting agree to a seed or two."""
    for goal, z in (("difference", 1.959964 + 0.841621), ("equivalence", 1.644854 + 1.281552)):
        exact = plan(1.0, pilot_seeds=5, margin=z / np.sqrt(99_990), goal=goal).seeds
        assert 0 <= exact - 99_990 <= 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plan([0.2, 0.2, 0.2], margin=0.1), "no spread to judge by, so it cannot say how many seeds"),
        (lambda: plan([0.1 + 0.2, 0.3, 0.3], margin=0.1), "no spread to judge by"),
        (lambda: plan([0.2, np.nan], margin=0.1), r"pilot must be finite, but holds nan at \[1\]"),
        (lambda: plan([0.2], margin=0.1), "pilot must hold at least 2 values, got 1"),
        (lambda: plan(0.2, margin=0.1), "give pilot_seeds too"),
        (lambda: plan([0.2, 0.1], margin=0.1, pilot_seeds=2), "pilot_seeds belongs to"),
        (lambda: plan([0.2, 0.1], margin=np.inf), "margin must be a number in"),
        (lambda: plan([0.2, 0.1], margin=0.1, power=80), "power must be a number in"),
        (lambda: plan([0.2, 0.1], margin=0.1, power=0.04), "power must exceed the level of the test, 0.05"),
        (lambda: plan([0.2, 0.1], margin=0.1, level=95), "For 95% write 0.95"),
        (lambda: plan([0.2, 0.1], margin=0.1, goal="same"), 'goal must be "difference" or "equivalence", got'),
        (lambda: plan([0.2, 0.1], margin=0.1, comparisons=0), "comparisons must be a whole number, at least 1"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""Intervals for many looks against integration, and by simulation with a look after every seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from fedstat.inference import added_seeds, looks
from fedstat.inference.intervals.sequential import _factor, _prior

differences = st.lists(st.integers(-50, 50), min_size=2, max_size=12, unique=True).map(lambda d: np.array(d) / 50)


def evidence(d, mean, c):
    """The likelihood ratio of the t statistic: noncentral t's mixed over effects, by integration, against the t."""
    n = len(d)
    t = np.sqrt(n) * (d.mean() - mean) / d.std(ddof=1)

    def mixed(effect):
        return stats.nct.pdf(t, n - 1, np.sqrt(n) * effect) * stats.norm.pdf(effect, 0, np.sqrt(c))

    return integrate.quad(mixed, -8 * np.sqrt(c), 8 * np.sqrt(c), limit=400)[0] / stats.t.pdf(t, n - 1)


@pytest.mark.parametrize("n", [2, 3, 6, 12])
def test_p_is_one_over_the_mixture_of_noncentral_ts(n):
    d = np.random.default_rng(n).normal(0.8, 1, n)
    c = _prior(10, 0.05)
    found = [max(evidence(d[:k], 0, c), 1) for k in range(2, n + 1)]
    np.testing.assert_allclose(looks(d).table["p"], np.r_[1, 1 / np.maximum.accumulate(found)], rtol=1e-6)


def test_limits_are_where_the_evidence_reaches_its_bound():
    d = np.random.default_rng(3).normal(0.2, 1, 9)
    row = looks(d, planned=6, level=0.9).table.loc[9]
    for limit in (row["low"], row["high"]):
        assert evidence(d, limit, _prior(6, 0.1)) == pytest.approx(10, rel=1e-6)


@given(differences, st.floats(-3, 3), st.floats(0.1, 50))
def test_looks_do_not_know_of_later_seeds_nor_of_units(d, shift, scale):
    whole, early = looks(d).table, looks(d[:-1]).table
    np.testing.assert_allclose(whole[:-1], early, rtol=1e-9, atol=1e-12)
    other = looks(shift + scale * d).table
    np.testing.assert_allclose(other[["low", "high"]], shift + scale * whole[["low", "high"]], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("planned", "level"), [(3, 0.95), (5, 0.95), (10, 0.9), (30, 0.99)])
def test_the_sequence_is_narrowest_where_planned(planned, level):
    n, c = np.array([planned]), _prior(planned, 1 - level)
    width = _factor(n, c, 1 - level)[0]
    assert np.isfinite(width)
    assert all(_factor(n, c * f, 1 - level)[0] > width for f in (0.5, 0.9, 1.1, 2))
    # a single look is narrower
    assert width > stats.t.ppf((1 + level) / 2, planned - 1) / np.sqrt(planned * (planned - 1))


@pytest.mark.slow
@pytest.mark.parametrize("planned", [3, 5, 10, 30])
def test_error_with_a_look_after_every_seed(planned):
    """No look of 3 to 30 excludes the mean in 95% of runs; t intervals exclude it in a quarter of them."""
    rng = np.random.default_rng(6)
    repeats = 4000
    d = 0.7 + rng.normal(size=(repeats, 30))
    tables = [looks(row, planned=planned).table for row in d]
    wrong = np.mean([((t["low"] > 0.7) | (t["high"] < 0.7)).any() for t in tables])
    assert wrong < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert wrong > 0.01  # not empty
    n = np.arange(2, 31)
    means = np.cumsum(d, axis=1)[:, 1:] / n
    sd = np.stack([d[:, :k].std(axis=1, ddof=1) for k in n], axis=1)
    plain = (np.abs(means - 0.7) > stats.t.ppf(0.975, n - 1) * sd / np.sqrt(n))[:, 1:].any(axis=1).mean()
    assert plain > 0.2


def test_a_look_at_equal_differences_decides_nothing():
    found = looks([0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert found.decided_at is None
    assert np.isinf(found.table[["low", "high"]]).all(axis=None)
    assert (found.table["p"] == 1).all()
    assert "no interval yet; undecided so far" in str(found)
    assert str(looks([0.1])).startswith("After 1 seed: mean difference 0.1, no interval yet")


def test_the_decision_is_kept():
    d = np.r_[np.full(8, 1.0) + 0.01 * np.arange(8), np.full(8, -3.0)]
    found = looks(d)
    assert found.decided_at == 5
    assert (found.table["p"].diff().dropna() <= 0).all()


def test_the_sentence_gives_the_error_of_looking_twice():
    # two looks at 1000 and 2000 are nearly normal, with correlation sqrt(1/2)
    law = stats.multivariate_normal(cov=[[1, np.sqrt(0.5)], [np.sqrt(0.5), 1]])
    z = 1.959964
    inside = law.cdf([z, z]) - law.cdf([-z, z]) - law.cdf([z, -z]) + law.cdf([-z, -z])
    assert 1 - inside == pytest.approx(0.0831, abs=1e-3)
    words = added_seeds([60, 120])
    assert "With looks at 60 and 120 seeds the 95% interval excludes zero at one of them in 8% of runs" in words
    assert "in 5% of runs without any difference, in place of 5%" in added_seeds([10])
    assert "each of 3 to 30 seeds" in added_seeds(range(3, 31))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: looks([0.1, np.nan]), "differences must be finite, got nan"),
        (lambda: looks([[0.1]]), "one value per seed"),
        (lambda: looks([0.1, 0.2], planned=2), "planned must be a whole number, at least 3"),
        (lambda: looks([0.1, 0.2], level=95), "For 95% write 0.95"),
        (lambda: added_seeds([5, 5]), "rising numbers of seeds"),
        (lambda: added_seeds([1, 5]), "looked_at must be a whole number, at least 2"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()

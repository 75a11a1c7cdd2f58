"""Intraclass correlations of raters against Shrout and Fleiss's example, restricted likelihood and exact limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstat.factor import icc, intraclass_correlation

# Shrout and Fleiss (1979), table 2: six targets rated by four judges
JUDGES = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])


@pytest.mark.parametrize(
    ("kind", "form", "estimate", "low", "high", "statistic", "df"),
    # estimates: Shrout and Fleiss, table 4; limits: McGraw and Wong's formulas, as R's psych prints them here;
    # under agreement quantiles of six million random draws
    [
        ("one-way", "ICC(1,1)", 0.17, -0.13, 0.72, 1.79, (5, 18)),
        ("agreement", "ICC(2,1)", 0.29, 0.027, 0.745, 11.03, (5, 15)),
        ("consistency", "ICC(3,1)", 0.71, 0.34, 0.95, 11.03, (5, 15)),
    ],
)
def test_the_example_of_shrout_and_fleiss(kind, form, estimate, low, high, statistic, df):
    found = icc(JUDGES, kind)
    assert (found.form, found.degrees_of_freedom) == (form, df)
    assert [found.estimate, found.low, found.high] == pytest.approx([estimate, low, high], abs=0.005)
    assert found.statistic == pytest.approx(statistic, abs=0.005)
    assert str(found).startswith(f"{form}, {kind}: {found.estimate:.3f} (95% interval ")


def test_agreement_is_the_ratio_of_restricted_likelihoods_variances():
    """A mixed model with random targets and random raters, balanced, has the ANOVA estimates where all are positive."""
    import pandas as pd
    from statsmodels.formula.api import mixedlm

    rng = np.random.default_rng(3)
    x = 2 * rng.normal(size=(30, 1)) + rng.normal(size=6) + rng.normal(size=(30, 6))
    target, rater = np.indices(x.shape)
    data = pd.DataFrame({"x": x.ravel(), "target": target.ravel(), "rater": rater.ravel(), "one": 1})
    parts = {"target": "0 + C(target)", "rater": "0 + C(rater)"}
    fit = mixedlm("x ~ 1", data, groups="one", vc_formula=parts).fit(reml=True)
    variances = dict(zip(fit.model.exog_vc.names, fit.vcomp, strict=True))
    total = sum(variances.values()) + fit.scale
    assert icc(x, "agreement").estimate == pytest.approx(variances["target"] / total, abs=1e-3)


@given(st.integers(0, 999), st.integers(3, 8), st.integers(2, 5))
def test_levels_of_raters_count_for_agreement_alone(seed, n, k):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1)) + rng.normal(size=(n, k))
    moved = x + 10 * np.arange(k)
    here, there = icc(x, "consistency"), icc(moved, "consistency")
    assert [there.estimate, there.low, there.high] == pytest.approx([here.estimate, here.low, here.high], abs=1e-8)
    assert there.estimate == pytest.approx(intraclass_correlation(moved.T[:, None])[0], abs=1e-8)
    between, within = k * x.mean(axis=1).var(ddof=1), x.var(axis=1, ddof=1).mean()
    one_way = (between - within) / (between + (k - 1) * within)
    assert icc(x, "one-way").estimate == pytest.approx(one_way, abs=1e-8)
    assert abs(icc(moved, "agreement").estimate) < 0.2
    for kind in ("one-way", "agreement", "consistency"):
        found = icc(x, kind, level=0.9)
        assert found.low <= found.estimate <= found.high <= 1
        wider = icc(x, kind, level=0.99)
        assert wider.low < found.low
        assert wider.high > found.high
        assert icc(-3 * x + 2, kind).estimate == pytest.approx(icc(x, kind).estimate, abs=1e-9)


def test_few_raters_whose_levels_differ_leave_agreement_open():
    """Beyond each limit lie 2.5% of what mean squares over chi squares say, by draws and by the law of the targets'."""
    from scipy.stats import chi2

    rng = np.random.default_rng(1)
    n, k = 100, 2
    x = 4 * rng.normal(size=(n, 1)) + [0, 4] + rng.normal(size=(n, k))
    targets, raters = k * x.mean(axis=1).var() * n, n * x.mean(axis=0).var() * k
    residual = x.var() * n * k - targets - raters
    c, e = raters / rng.chisquare(k - 1, 400_000), residual / rng.chisquare((n - 1) * (k - 1), 400_000)
    found = icc(x * 1e100)
    for limit, chance in ((found.low, 0.025), (found.high, 0.975)):
        below = targets * (1 - limit) / (limit * k * c / n + (1 + limit * (k - 1 - k / n)) * e)
        assert chi2.sf(below, n - 1).mean() == pytest.approx(chance, abs=0.002)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k", "spread", "level"), [(15, 5, 1, 0.7), (100, 2, 2, 2), (100, 3, 6, 0.6)])
def test_intervals_cover(n, k, spread, level):
    """600 samples: 95% up to chance, also where few raters' levels differ by far more than the errors."""
    rng = np.random.default_rng(0)
    hits = dict.fromkeys(("one-way", "agreement", "consistency"), 0)
    for _ in range(600):
        targets, noise = spread * rng.normal(size=(n, 1)), rng.normal(size=(n, k))
        raters = rng.normal(size=k) * level
        for kind, x, truth in (
            ("one-way", targets + noise, spread**2 / (spread**2 + 1)),
            ("agreement", targets + raters + noise, spread**2 / (spread**2 + level**2 + 1)),
            ("consistency", targets + raters + noise, spread**2 / (spread**2 + 1)),
        ):
            found = icc(x, kind)
            hits[kind] += found.low <= truth <= found.high
    for count in hits.values():
        assert 0.925 < count / 600 < 0.975


def test_limits():
    copies = np.repeat(np.arange(4.0)[:, None], 3, axis=1)
    for kind in ("one-way", "agreement", "consistency"):
        found = icc(copies, kind)
        assert (found.estimate, found.low, found.high, found.statistic, found.p) == (1, 1, 1, np.inf, 0)
    levels = copies + np.arange(3)
    assert icc(levels, "consistency").low == 1
    assert 0 < icc(levels, "agreement").low < icc(levels, "agreement").estimate < icc(levels, "agreement").high < 1


@pytest.mark.parametrize(
    ("ratings", "options", "message"),
    [
        (JUDGES[0], {}, r"ratings must have shape \(targets, raters\) .* got shape \(4,\)"),
        (JUDGES[:, :1], {}, r"two at least, got \(6, 1\)"),
        (np.where(JUDGES == 10, np.nan, JUDGES), {}, r"ratings must be finite, but holds nan at \[4, 0\]"),
        (np.tile([1.1, 2.2, 3.3], (4, 1)), {}, "no target differs from another"),
        (np.full((3, 3), 0.1), {}, "no target differs from another"),
        ([[1, 2], [2, 1]], {}, "equal means of targets and of raters: agreement is 0 / 0. Rate more targets"),
        (JUDGES, {"kind": "ICC2"}, 'kind must be "one-way" or "agreement" or "consistency", got .ICC2'),
        (JUDGES, {"level": 95}, r"level must be a number in \(0, 1\), got 95"),
    ],
)
def test_bad_input_is_named(ratings, options, message):
    with pytest.raises(ValueError, match=message):
        icc(ratings, **options)

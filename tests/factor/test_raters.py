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
    # estimates: Shrout and Fleiss, table 4; limits: McGraw and Wong's formulas, as R's psych prints them for this table
    [
        ("one-way", "ICC(1,1)", 0.17, -0.13, 0.72, 1.79, (5, 18)),
        ("agreement", "ICC(2,1)", 0.29, 0.02, 0.76, 11.03, (5, 15)),
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


@pytest.mark.slow
def test_intervals_cover():
    """2,000 samples of 15 targets and 5 raters: 95% up to chance, by Satterthwaite about that."""
    rng = np.random.default_rng(0)
    hits = dict.fromkeys(("one-way", "agreement", "consistency"), 0)
    for _ in range(2000):
        targets, noise = rng.normal(size=(15, 1)), rng.normal(size=(15, 5))
        raters = rng.normal(size=5) * 0.7
        for kind, x, truth in (
            ("one-way", targets + noise, 1 / 2),
            ("agreement", targets + raters + noise, 1 / 2.49),
            ("consistency", targets + raters + noise, 1 / 2),
        ):
            found = icc(x, kind)
            hits[kind] += found.low <= truth <= found.high
    for count in hits.values():
        assert 0.93 < count / 2000 < 0.97


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

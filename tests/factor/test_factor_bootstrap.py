"""The bootstrap of loadings against a plain one written out, known standard errors, and its own rules."""

import itertools

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from fedstat.factor import (
    PrincipalAxis,
    Rotation,
    bootstrap_loadings,
    congruence,
    match_factors,
    rotate,
    target_rotation,
)

LOADINGS = np.kron(np.eye(2), np.array([[0.8], [0.7], [0.6], [0.5]]))


def sample(n, seed, loadings=LOADINGS, phi=0.0):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.array([[1, phi], [phi, 1]]))
    unique = np.sqrt(1 - np.einsum("pm,mk,pk->p", loadings, root @ root.T, loadings))
    return rng.normal(size=(n, 2)) @ root.T @ loadings.T + rng.normal(size=(n, len(loadings))) * unique


@pytest.mark.slow
def test_a_plain_bootstrap_of_copied_rows():
    """Rows copied out, numpy's correlations, scipy's Procrustes: the same standard errors, from other draws."""
    x = sample(150, 0)
    found = bootstrap_loadings(x, 2, draws=600)
    rng, whole = np.random.default_rng(1), PrincipalAxis(2).fit(x)
    loadings, communalities = [], []
    for _ in range(600):
        fit = PrincipalAxis(2).fit(x[rng.integers(len(x), size=len(x))])
        loadings.append(fit.loadings_ @ orthogonal_procrustes(fit.loadings_, whole.loadings_)[0])
        communalities.append(fit.communalities_)
    np.testing.assert_allclose(found.loadings.error, np.std(loadings, axis=0), rtol=0.2)
    np.testing.assert_allclose(found.communalities.error, np.std(communalities, axis=0), rtol=0.2)
    np.testing.assert_allclose(found.communalities.low, np.quantile(communalities, 0.025, axis=0), atol=0.05)
    np.testing.assert_allclose(found.loadings.high, np.quantile(loadings, 0.975, axis=0), atol=0.05)
    np.testing.assert_allclose(
        found.loadings.estimate, target_rotation(whole.loadings_, whole.loadings_).loadings, rtol=1e-9
    )
    np.testing.assert_allclose(found.communalities.estimate, whole.communalities_, rtol=1e-9)


@pytest.mark.slow
def test_standard_errors_are_those_over_samples():
    """The spread of varimax loadings over 300 fresh samples, matched to the truth."""
    fresh = []
    for seed in range(300):
        rotated = rotate(PrincipalAxis(2).fit(sample(400, seed + 1)).loadings_).loadings
        fresh.append(match_factors(rotated, LOADINGS).loadings)
    found = bootstrap_loadings(sample(400, 0), 2, "varimax", draws=300)
    order = match_factors(found.loadings.estimate, LOADINGS).order
    ratio = found.loadings.error[:, order] / np.std(fresh, axis=0)
    assert 0.9 < np.exp(np.log(ratio).mean()) < 1.1
    assert (np.abs(np.log(ratio)) < 0.5).all()


def test_the_freedom_of_factors_is_no_uncertainty():
    """Equal factors change places and signs from draw to draw; unmatched, errors would be of the size of loadings."""
    x = sample(300, 3)
    for rotation in (None, "varimax", "oblimin"):
        found = bootstrap_loadings(x, 2, rotation, draws=80)
        assert found.loadings.error.max() < 0.15
        assert found.congruence.min() > 0.95
    raw = [PrincipalAxis(2).fit(sample(300, seed)).loadings_ for seed in range(40)]
    assert np.std(raw, axis=0).max() > 0.25


def test_an_oblique_rotation_has_correlations_with_intervals():
    found = bootstrap_loadings(sample(400, 5, phi=0.5), 2, "oblimin", draws=100)
    phi = found.correlations
    np.testing.assert_allclose(np.diag(phi.low), 1)
    assert abs(phi.estimate[0, 1] - 0.5) < 3 * phi.error[0, 1]
    assert 0.1 < phi.low[0, 1] < phi.estimate[0, 1] < phi.high[0, 1] < 0.8
    assert "Correlations of the factors" in str(found)
    assert bootstrap_loadings(sample(100, 5), 2, draws=50).correlations is None


def test_the_order_and_signs_in_which_draws_factors_come_change_nothing():
    three = np.kron(np.eye(3), np.array([[0.8], [0.7], [0.6]]))
    phi = np.array([[1, 0.5, 0.1], [0.5, 1, -0.3], [0.1, -0.3, 1]])
    r = three @ phi @ three.T
    x = np.random.default_rng(0).multivariate_normal(np.zeros(9), r + np.diag(1 - np.diag(r)), 300)
    calls = itertools.count()

    def shuffled(loadings):
        found, draw = rotate(loadings, "oblimin"), next(calls)
        order = np.roll(range(3), draw % 3)
        sign = np.where(np.arange(3) == draw % 4, -1, 1) if draw else np.ones(3)  # the first call is of all rows
        phi = found.correlations[np.ix_(order, order)] * np.outer(sign, sign)
        return Rotation(found.loadings[:, order] * sign, found.rotation[:, order] * sign, phi)

    plain, found = (bootstrap_loadings(x, 3, rotation, draws=50) for rotation in ("oblimin", shuffled))
    assert np.ptp(plain.correlations.estimate[np.triu_indices(3, 1)]) > 0.5
    for what in ("loadings", "correlations"):
        for limit in ("estimate", "low", "high"):
            expected = getattr(getattr(plain, what), limit)
            np.testing.assert_allclose(getattr(getattr(found, what), limit), expected, atol=1e-5)


def test_a_target_is_a_rotation_too():
    x = sample(200, 7)
    found = bootstrap_loadings(x, 2, lambda loadings: target_rotation(loadings, LOADINGS), draws=60)
    expected = target_rotation(PrincipalAxis(2).fit(x).loadings_, LOADINGS).loadings
    np.testing.assert_allclose(found.loadings.estimate, expected, atol=1e-10)
    assert np.diag(congruence(found.loadings.estimate, LOADINGS)).min() > 0.95


def test_a_seed_repeats_itself_and_the_scale_does_not_matter():
    x = sample(80, 0)
    one, same, other = (bootstrap_loadings(x, 2, "varimax", draws=60, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.loadings.low, same.loadings.low)
    assert (one.loadings.low != other.loadings.low).all()
    scaled = bootstrap_loadings(1000 * x + 5, 2, "varimax", draws=60, seed=1)
    np.testing.assert_allclose(scaled.loadings.low, one.loadings.low, atol=1e-6)
    wider = bootstrap_loadings(x, 2, "varimax", draws=60, seed=1, level=0.99)
    assert (wider.loadings.high > one.loadings.high).all()


def test_tables():
    found = bootstrap_loadings(sample(80, 0), 2, draws=60)
    rows = found.text([f"test{j}" for j in range(8)]).splitlines()[1:]
    assert rows[0].split() == ["PA1", "PA2", "h2"]
    for j, row in enumerate(rows[1:9]):
        cells = [(of.estimate[j, i], of.low[j, i], of.high[j, i]) for of in [found.loadings] for i in (0, 1)]
        cells.append((found.communalities.estimate[j], found.communalities.low[j], found.communalities.high[j]))
        told = " ".join(f"{estimate:.2f} ({low:.2f} to {high:.2f})" for estimate, low, high in cells)
        assert row.split() == [f"test{j}", *told.split()]
    with pytest.raises(ValueError, match="one name for each of the 8 variables, got 1"):
        found.text(["a"])


def test_heywood_cases_and_lost_draws_are_counted():
    x = sample(60, 2)
    rare = np.zeros(60)
    rare[:5] = 1  # absent from 0.6% of the draws
    found = bootstrap_loadings(np.column_stack([x, rare]), 1, draws=400)
    assert found.draws + found.lost == 400
    assert 0 < found.lost < 15
    assert f"{found.lost} draws without correlations were left out (a column is constant, for one)" in str(found)
    noisy = bootstrap_loadings(np.random.default_rng(0).normal(size=(20, 6)), 2, draws=60)
    assert noisy.at_bound.max() > 0.1
    assert "intervals need not cover at the bound" in str(noisy)
    ties = bootstrap_loadings(np.sign(sample(200, 2)), 2, draws=60)  # ties everywhere are numbers like others
    assert np.isfinite(ties.loadings.high).all()


@pytest.mark.slow
def test_intervals_cover():
    """15 samples of 200 rows, 16 loadings and 8 communalities each: near 95% of them are covered."""
    r = LOADINGS @ LOADINGS.T
    communalities = np.diag(r).copy()
    np.fill_diagonal(r, 1)
    truth, inside = PrincipalAxis(2).fit_correlation(r).loadings_, []
    for seed in range(15):
        found = bootstrap_loadings(sample(200, seed), 2, draws=200, seed=seed)
        turned = target_rotation(truth, found.loadings.estimate).loadings
        for interval, value in ((found.loadings, turned), (found.communalities, communalities)):
            inside.append(np.mean((interval.low <= value) & (value <= interval.high)))
    assert 0.91 < np.mean(inside) < 0.98


@pytest.mark.slow
def test_intervals_cover_the_correlations_of_factors():
    """8 samples of three factors that correlate by 0.7: oblimin finds 0.6 or so, and less in draws."""
    three, inside = np.kron(np.eye(3), [[0.8], [0.7], [0.6], [0.5]]), []
    r = three @ (0.7 + 0.3 * np.eye(3)) @ three.T
    np.fill_diagonal(r, 1)
    for seed in range(8):
        x = np.random.default_rng(seed).multivariate_normal(np.zeros(12), r, 300)
        phi = bootstrap_loadings(x, 3, "oblimin", draws=100, seed=seed).correlations
        inside.append(((phi.low <= 0.7) & (phi.high >= 0.7))[np.triu_indices(3, 1)])
    assert np.mean(inside) > 0.8


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda x: x[:8], {}, "x must have more rows than its 8 columns, got 8"),
        (lambda x: x * np.where(np.arange(8) == 3, 0, 1), {}, "column 3 does not; leave it out"),
        (lambda x: np.where(x == x.max(), np.nan, x), {}, r"x must be finite, but row \d+, column \d holds NaN"),
        (
            lambda x: np.column_stack([x, np.arange(60) == 7]),
            {},
            r"in \d+ of 60 a column is constant \(column 8 holds one ",
        ),
        (
            lambda x: x,
            {"n_factors": 5},
            "n_factors must be a whole number from 1 to 4, the Ledermann bound of 8 .* got 5",
        ),
        (lambda x: x, {"n_factors": 0}, "from 1 to 4, .* got 0"),
        (lambda x: x, {"draws": 10}, "draws must be a whole number, at least 50, got 10"),
        (lambda x: x, {"level": 95}, r"level must be a number in \(0, 1\), got 95"),
        (lambda x: x, {"rotation": "spin"}, 'method must be one of "varimax", '),
        (lambda x: x[:, 0], {}, "x must be a matrix"),
    ],
)
def test_bad_input_is_named(change, options, message):
    x = np.asarray(change(sample(60, 0)), dtype=float)
    with pytest.raises(ValueError, match=message):
        bootstrap_loadings(x, **{"n_factors": 2, "draws": 60, **options})


@pytest.mark.parametrize("missing", [None, "pairwise", "likelihood"])
def test_draws_in_which_a_column_is_constant_are_left_out(missing):
    x = np.random.default_rng(3).normal(size=(80, 6))
    x[:, 5] = np.arange(80) < 5  # absent from about one draw in 200
    if missing:
        x[7::20, 0] = np.nan
    found = bootstrap_loadings(x, 1, draws=400, seed=1, missing=missing)
    assert 0 < found.lost < 20
    assert found.lost + found.draws == 400

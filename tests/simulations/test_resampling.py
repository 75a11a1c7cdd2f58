"""Resampled splits against enumerated draws, stacked rows, and cases whose answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedstat.factor import PrincipalAxis, units_as_columns
from fedstat.factor.moments import Moments
from fedstat.methods.cut import Quantile, is_shared
from fedstat.methods.fedfac import communality
from simulations.resampling.numbers import plot_units
from simulations.resampling.splits import pooled, resampled_splits, spread
from simulations.split.study import chance_corrected

#: Where the communalities are cut.
QUANTILES = (0.25, 0.5, 0.75)


def planted(clients=12, units=8, q=30, noise=0.3, seed=0):
    """The first half of the units share one factor, the others are noise."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(clients, 1, q)) * (np.arange(units) < units // 2)[:, None]
    return common + np.where(np.arange(units) < units // 2, noise, 1.0)[:, None] * rng.normal(size=(clients, units, q))


@pytest.mark.slow
def test_two_clients_against_all_draws_that_there_are():
    """Both clients, or one of them twice: 1/2, 1/4, 1/4. The third unit varies at the first client only."""
    x = planted(clients=2, units=7, q=9, noise=1.5, seed=3)
    x[1, 2] = 0.5
    found = resampled_splits(x, contributions=[0.5], quantiles=[0.4], resamples=600)
    m = found.n_factors[0]

    def split(rows):
        fit = PrincipalAxis(m).fit(rows)
        h = fit.communalities_.copy()
        h[fit.constant_] = np.nan
        return ~np.isnan(h), np.where(np.isnan(h), False, h >= np.nanquantile(h, 0.4))

    (_, one), (varies, two), (_, both) = (split(units_as_columns(part)) for part in (x[:1], x[1:], x))
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(found.shared[0, 0], both)
    expected = np.where(varies, one / 4 + two / 4 + both / 2, (one / 4 + both / 2) / 0.75)
    np.testing.assert_allclose(found.probability[0, 0], expected, atol=5 * 0.5 / np.sqrt(450))
    first, second = chance_corrected(one, both)[1], chance_corrected(two[varies], both[varies])[1]
    assert set(np.round(found.kappa[0, 0], 12)) == set(np.round([first, second, 1.0], 12))
    assert found.kappa.mean() == pytest.approx(first / 4 + second / 4 + 1 / 2, abs=0.05)
    np.testing.assert_allclose(found.halves, chance_corrected(one[varies], two[varies])[1])


@pytest.mark.slow
@given(
    x=arrays(np.float64, (3, 4, 5), elements=st.integers(-20, 20).map(float)),
    counts=arrays(np.int64, 3, elements=st.integers(0, 3)).filter(lambda c: c.sum() > 0),
    order=st.permutations(range(3)),
    level=st.sampled_from([0.0, 1e5]),
)
def test_a_resample_has_the_correlations_of_its_stacked_rows(x, counts, order, level):
    x = x + level
    clients = [Moments.of(client.T) for client in x]
    resample = pooled(clients, counts)
    rows = np.concatenate([client.T for client, n in zip(x, counts, strict=True) for _ in range(n)])
    varies = np.ptp(rows, axis=0) > 0
    np.testing.assert_array_equal(resample.varies(), varies)
    if varies.any():
        expected = np.atleast_2d(np.corrcoef((rows - level)[:, varies], rowvar=False))
        np.testing.assert_allclose(resample.correlation(), expected, atol=1e-12)
        relabelled = pooled([clients[k] for k in order], counts[list(order)])
        np.testing.assert_allclose(relabelled.correlation(), expected, atol=1e-12)


def test_all_clients_is_the_split_of_fedfac():
    x = planted(noise=1.0)
    contributions, quantiles = (0.4, 0.6), (0.25, 0.5)
    found = resampled_splits(x, contributions, quantiles, resamples=1)
    for g, contribution in enumerate(contributions):
        h = communality(x, contribution)
        np.testing.assert_allclose(found.communalities[g], h, atol=1e-7)
        for q, quantile in enumerate(quantiles):
            np.testing.assert_array_equal(found.shared[g, q], is_shared(h, Quantile(quantile), np.zeros(8, bool)))
    for q in range(2):
        kappa = chance_corrected(found.shared[0, q], found.shared[1, q])[1]
        np.testing.assert_allclose(found.rules[q], [[1, kappa], [kappa, 1]])


def test_equal_clients_always_give_the_same_split():
    x = np.repeat(planted(clients=1, q=60), 6, axis=0)
    found = resampled_splits(x, contributions=[0.4], quantiles=QUANTILES, resamples=30)
    np.testing.assert_array_equal(found.probability, found.shared)
    assert (found.kappa == 1).all()
    assert (found.halves == 1).all()


def test_planted_units_are_found_again():
    found = resampled_splits(planted(), contributions=[0.3], quantiles=[0.5], resamples=100)
    np.testing.assert_array_equal(found.n_factors, 1)
    np.testing.assert_array_equal(found.probability[0, 0], np.arange(8) < 4)
    assert found.unconverged.tolist() == found.unidentified.tolist() == [0]


@pytest.mark.slow
def test_noise_agrees_with_itself_in_a_resample_but_not_in_halves():
    found = [
        resampled_splits(
            np.random.default_rng(seed).normal(size=(10, 20, 8)),
            contributions=[0.3], quantiles=[0.5], resamples=10, seed=seed,
        )
        for seed in range(20)
    ]  # fmt: skip
    kappa, halves = (np.array([getattr(f, name).mean() for f in found]) for name in ("kappa", "halves"))
    assert kappa.mean() > 0.15
    assert abs(halves.mean()) < 3 * halves.std(ddof=1) / np.sqrt(20)


def test_order_scale_and_dead_units_change_nothing_else():
    x = planted(noise=1.2, seed=1)
    found = resampled_splits(x, contributions=[0.5], quantiles=QUANTILES, resamples=20)
    order = np.random.default_rng(0).permutation(8)
    moved = resampled_splits(-3 * x[:, order], contributions=[0.5], quantiles=QUANTILES, resamples=20)
    dead = resampled_splits(np.insert(x, 5, 0.1, axis=1), contributions=[0.5], quantiles=QUANTILES, resamples=20)
    np.testing.assert_allclose(moved.probability, found.probability[..., order])
    np.testing.assert_allclose(np.delete(dead.probability, 5, axis=-1), found.probability)
    for other in (moved, dead):
        np.testing.assert_allclose(other.kappa, found.kappa)
        np.testing.assert_allclose(other.halves, found.halves)
    assert np.isnan(dead.communalities[0, 5])
    assert np.isnan(dead.probability[..., 5]).all()
    assert not dead.shared[..., 5].any()
    images = np.stack([x, x**2], axis=-1)  # any shape of incoming weights
    flat = resampled_splits(images.reshape(12, 8, -1), contributions=[0.5], quantiles=QUANTILES, resamples=3)
    np.testing.assert_array_equal(
        resampled_splits(images, contributions=[0.5], quantiles=QUANTILES, resamples=3).kappa, flat.kappa
    )


def heywood(clients=4):
    """Three independent blocks of three units, each with a first unit that one factor would explain by 160%."""
    r = np.kron(np.eye(3), np.array([[1, 0.8, 0.8], [0.8, 1, 0.4], [0.8, 0.4, 1]]))
    rows = np.random.default_rng(0).normal(size=(30, 9))
    basis = np.linalg.qr(rows - rows.mean(axis=0))[0]
    return np.repeat((basis @ np.linalg.cholesky(r).T).T[None], clients, axis=0)


def test_units_at_the_bound_tie_and_are_all_shared():
    found = resampled_splits(heywood(), contributions=[0.75], quantiles=[0.5, 0.9], resamples=10)
    assert found.n_factors.tolist() == [3]
    np.testing.assert_array_equal(found.at_bound[0], [1, 0, 0] * 3)
    np.testing.assert_array_equal(found.cut_at_bound, [[0, 1]])
    np.testing.assert_array_equal(found.probability[0, 1], [1, 0, 0] * 3)  # one of nine was asked for
    none = resampled_splits(heywood(), contributions=[0.75], quantiles=[0.0], resamples=3)
    assert np.isnan(none.kappa).all()  # everything is shared: nothing to agree about
    assert np.isnan(spread(none.kappa)).all()


@pytest.mark.slow
def test_seeds_decide_the_draws_and_nothing_else_does():
    x = planted(noise=1.5)
    one, again, other = (
        resampled_splits(x, contributions=[0.5], quantiles=QUANTILES, resamples=25, seed=s) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.kappa, again.kappa)
    assert not np.array_equal(one.kappa, other.kappa)
    more = resampled_splits(x, contributions=[0.4, 0.5], quantiles=QUANTILES, resamples=30, seed=1)
    np.testing.assert_array_equal(more.halves[1, :, :25], one.halves[0])


def test_analyses_with_more_factors_than_the_units_identify_are_counted():
    # eight units of noise: 95% of the eigenvalues need seven factors, more than R identifies
    with pytest.warns(UserWarning, match="identif"):
        found = resampled_splits(planted(noise=1.5), contributions=[0.3, 0.95], quantiles=[0.5], resamples=20)
    assert found.n_factors.tolist() == [2, 7]
    assert found.unidentified.tolist() == [0, 1 + 3 * 20]


def test_the_figure_marks_units_at_the_bound():
    import matplotlib.pyplot as plt

    found = resampled_splits(heywood(), contributions=[0.75], quantiles=[0.9], resamples=5)
    figure, axes = plt.subplots()
    plot_units(axes, found.communalities[0], found.probability[0, 0], found.at_bound[0], cut=0.99)
    plt.close(figure)
    drawn = {line.get_label(): line.get_xdata() for line in axes.get_lines()}
    assert drawn["below the bound"].tolist() == [1, 2, 3, 4, 5, 6]
    assert drawn["mostly at the bound"].tolist() == [7, 8, 9]
    np.testing.assert_array_equal(drawn["cut of all clients"], 6.5)

"""The intraclass correlation of units against ANOVA tables, exact nulls and what the communality cannot see."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedstat as fs
from fedstat.factor import intraclass_correlation
from fedstat.methods.fedfac import communality, squares_in_eigenvectors
from simulations.agreement import study as agreement
from tests.support import mixture

_numbers = st.integers(-20, 20).map(lambda i: i / 4)


def stacks(clients=(2, 4), q=(2, 5)):
    """Weights (K, 3, q) on a grid."""
    shapes = st.tuples(st.integers(*clients), st.just(3), st.integers(*q))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=_numbers))


def placebo(weights, rng):
    """Permute the inputs within each client, alike for all units."""
    return np.stack([w[:, rng.permutation(w.shape[1])] for w in weights])


@pytest.mark.parametrize("replicates", [1, 3])
def test_the_anova_table_of_statsmodels(replicates):
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    rng, clients, q = np.random.default_rng(0), 4, 6
    common, own = rng.normal(size=(2, q)), rng.normal(size=(clients, 2, q))
    x = 1 + common + own + rng.normal(size=(replicates, clients, 2, 1))
    x = x + 0.5 * rng.normal(size=x.shape) * (replicates > 1)
    found = intraclass_correlation(x if replicates > 1 else x[0])
    axes = np.indices((replicates, clients, q)).reshape(3, -1)
    for unit in range(2):
        data = pd.DataFrame(axes.T, columns=["r", "k", "i"]).assign(x=x[:, :, unit].ravel())
        terms = "C(i) + C(i):C(k)" if replicates > 1 else "C(i)"
        table = anova_lm(ols(f"x ~ C(r):C(k) + {terms}", data).fit(), typ=1)
        squares = table["sum_sq"] / table["df"]
        between, last = squares["C(i)"], squares["Residual"]
        within, noise = (squares["C(i):C(k)"], last) if replicates > 1 else (last, 0.0)
        expected = (between - within) / (between + (clients - 1) * within - clients * noise)
        assert found[unit] == pytest.approx(expected, abs=1e-10)


def test_restricted_likelihood_agrees_on_balanced_data():
    """A mixed model with a level for each client and random coordinates has the ANOVA estimate."""
    from statsmodels.formula.api import mixedlm

    rng = np.random.default_rng(1)
    x = rng.normal(size=(40,)) + 0.7 * rng.normal(size=(5, 40)) + rng.normal(size=(5, 1))
    k, i = np.indices(x.shape)
    data = pd.DataFrame({"x": x.ravel(), "k": k.ravel(), "i": i.ravel()})
    fit = mixedlm("x ~ C(k)", data, groups="i").fit(reml=True)
    target = float(fit.cov_re.iloc[0, 0])
    found = intraclass_correlation(x[:, None])[0]
    assert found == pytest.approx(target / (target + fit.scale), abs=1e-4)


@given(stacks())
def test_it_is_the_mean_covariance_of_two_clients_over_the_mean_variance_of_one(x):
    found = intraclass_correlation(x)
    for unit in range(3):
        s = np.cov(x[:, unit])
        variance = np.diag(s).mean()
        if variance == 0:
            assert np.isnan(found[unit])
            continue
        covariance = (s.sum() - np.trace(s)) / (len(s) * (len(s) - 1))
        assert found[unit] == pytest.approx(covariance / variance, abs=1e-9)


@given(stacks(), st.integers(0, 99))
def test_what_leaves_it_alone(x, seed):
    """The order of coordinates and of clients, a unit's scale and sign, and the clients' levels."""
    rng = np.random.default_rng(seed)
    clients, units, q = x.shape
    moved = x[rng.permutation(clients)][:, :, rng.permutation(q)]
    moved = moved * rng.choice([-2.0, 0.5, 4.0], (units, 1))
    moved = moved + rng.integers(-3, 4, (clients, units, 1))
    here, there = (intraclass_correlation(v) for v in (x, moved))
    np.testing.assert_allclose(there, here, atol=1e-9)


@given(stacks(clients=(1, 1)), st.integers(2, 5))
def test_identical_clients_agree_fully(x, clients):
    assume((np.ptp(x, axis=2) > 0).all())
    copies = np.repeat(x, clients, axis=0)
    np.testing.assert_allclose(intraclass_correlation(copies), 1, atol=1e-9)
    np.testing.assert_allclose(intraclass_correlation(np.stack([copies, copies])), 1, atol=1e-9)


@given(stacks(clients=(2, 2), q=(2, 4)), st.booleans())
def test_the_null_is_exactly_zero_over_all_permutations_of_one_of_two_clients(x, copies):
    if copies:  # even clients that agree fully
        x = np.repeat(x[:1], 2, axis=0)
    assume((np.ptp(x, axis=2) > 0).any(axis=0).all())
    orders = itertools.permutations(range(x.shape[2]))
    found = [intraclass_correlation(np.stack([x[0], x[1][:, list(order)]])) for order in orders]
    np.testing.assert_allclose(np.mean(found, axis=0), 0, atol=1e-9)


def test_the_placebo_leaves_communality_and_eigenvectors_and_destroys_the_agreement():
    truth = fs.data.relu_mixture(clients=20, d=40, units=30, samples=5, validation=0, test=5, balance="median").truth
    shared, moved = ~truth.personal_units, placebo(truth.weights, np.random.default_rng(0))
    before, after = (communality(w, 0.75) for w in (truth.weights, moved))
    np.testing.assert_allclose(after, before, atol=1e-6)
    before, after = (squares_in_eigenvectors(w, 0.75) for w in (truth.weights, moved))
    np.testing.assert_allclose(after, before, atol=1e-6)
    assert 1 < before.sum() < 30
    agree, broken = intraclass_correlation(truth.weights), intraclass_correlation(moved)
    np.testing.assert_allclose(agree[shared], 1, atol=1e-9)
    assert agree[~shared].max() < 0.2
    assert np.abs(broken).max() < 0.1


def test_replicates_separate_clients_from_batch_noise():
    rng = np.random.default_rng(3)
    common, own = rng.normal(size=(1, 50)), rng.normal(size=(30, 1, 50))
    noise = 2 * rng.normal(size=(2, 30, 1, 50))
    half = common + own + noise  # common and own patterns of equal variance
    assert intraclass_correlation(half)[0] == pytest.approx(0.5, abs=0.15)
    assert intraclass_correlation(half[0])[0] == pytest.approx(1 / 6, abs=0.1)  # the noise counts as disagreement
    agreeing = intraclass_correlation(common + noise)[0]
    assert 0.7 < agreeing <= 1


def test_undefined_values_and_bad_input():
    x = np.random.default_rng(0).normal(size=(4, 3, 5))
    x[:, 1] = 0.1
    found = intraclass_correlation(x)
    assert np.isnan(found).tolist() == [False, True, False]
    assert np.isnan(intraclass_correlation(x[:1])).all()
    assert np.isnan(intraclass_correlation(x[:, :, :1])).all()
    opposite = np.stack([x[0], -x[0]])  # replicates that cancel: nothing but noise
    assert np.isnan(intraclass_correlation(np.stack([np.stack([o, -o]) for o in opposite]))).all()
    with pytest.raises(ValueError, match=r"shape \(K, units, q\) or \(R, K, units, q\), got \(3, 5\)"):
        intraclass_correlation(x[0])
    x[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"the entry at \(1, 2, 3\) is nan"):
        intraclass_correlation(x)


# --- the study -------------------------------------------------------------------------------------------------


def test_units_on_their_true_side_by_hand():
    shared = np.array([True, True, False, False, False, False, False, False])
    values = np.array([0.9, 0.2, 0.3, 0.1, 0.0, -0.1, -0.2, np.nan])
    found = agreement.recovered(values, shared)
    # the undefined unit stays shared: it displaces unit 1 at the true size, and joins the others at the quantiles
    assert found["true_size"] == 6 / 8
    assert found["nearest"] == 5 / 8  # above the 75% quantile lie units 0 and 2
    assert found["median"] == 5 / 8  # and above the median also 1 and 3
    assert found["auc"] == pytest.approx(11 / 12)
    assert (found["shared"], found["personal"]) == (pytest.approx(0.55), pytest.approx(0.02))


def test_own_and_common_starts():
    clients = mixture.clients()
    true, shared = clients.truth.weights, ~clients.truth.personal_units
    own, common = (agreement.start_weights(clients, 0.0, start, 0) for start in ("own", "common"))
    np.testing.assert_allclose(own, true, atol=1e-6)
    np.testing.assert_allclose(common[0, shared], true[0, shared], atol=1e-6)
    assert (common == common[0]).all()
    noisy = agreement.start_weights(clients, 1.0, "common", 0)
    assert (noisy == noisy[0]).all()
    method = agreement.OwnStart(shared_units={"hidden": shared}, weights=own)
    result = fs.federate(
        {"it": method}, fs.models.mlp(8, 10, 1), clients, fs.Training(lr=0.0), rounds=1, evaluate_at=()
    )
    start = method.models(result.states["it", 0], torch.arange(6))["personal"].params["hidden.weight"].numpy()
    np.testing.assert_array_equal(start[:, ~shared], own[:, ~shared])
    assert (start[:, shared] == start[0, shared]).all()

"""Inequality over clients, and both weightings, against exact laws, brute force and simulation."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fedstat._random import stream
from fedstat.inference import fairness
from fedstat.inference.client_fairness import gini, hierarchical_differences, jain_index, latent_variance

shares = st.lists(st.floats(0, 1), min_size=2, max_size=12)
tables = st.lists(st.tuples(st.integers(0, 20), st.integers(2, 20)), min_size=2, max_size=15)


def as_shares(pairs):
    count = np.array([[n for _, n in pairs]], dtype=float)
    return np.minimum([[y for y, _ in pairs]], count) / count, count


def cell(result, measure, version, column="mean"):
    rows = result.table.set_index(["measure", "version"])
    return rows.loc[(measure, version), column]


@given(shares)
def test_gini_and_jain_are_their_double_sums(values):
    x = np.array(values)
    assert 0 <= gini(x) < 1
    assert 1 / len(x) - 1e-12 <= jain_index(x) <= 1 + 1e-12
    if x.mean() > 1e-6:
        assert gini(x) == pytest.approx(np.abs(x[:, None] - x).mean() / (2 * x.mean()), abs=1e-12)
        assert jain_index(x) == pytest.approx(1 / (1 + x.var() / x.mean() ** 2))


def test_gini_and_jain_at_their_ends():
    one_has_all = np.eye(5)[0]
    assert gini(one_has_all) == pytest.approx(0.8)
    assert jain_index(one_has_all) == pytest.approx(0.2)
    for equal in (np.zeros(4), np.full(4, 0.3), np.full(4, 1e-200)):
        assert gini(equal) == pytest.approx(0, abs=1e-15)
        assert jain_index(equal) == pytest.approx(1)


def test_the_variance_of_clients_is_unbiased_under_the_beta_binomial_law():
    """All outcomes of two clients with different numbers of test samples, weighted by scipy's probabilities."""
    alpha, beta, sizes = 2.0, 3.5, (3, 5)
    laws = [stats.betabinom(n, alpha, beta) for n in sizes]
    expected = sum(
        laws[0].pmf(y) * laws[1].pmf(z) * latent_variance(np.array([y / 3, z / 5]), np.array(sizes, dtype=float))
        for y, z in itertools.product(range(4), range(6))
    )
    assert expected == pytest.approx(stats.beta(alpha, beta).var(), rel=1e-10)


def test_shrunken_shares_are_stretched_posterior_means():
    a = np.array([[0.2, 0.9, 0.5, 0.75, 0.6, 0.3]])
    n = np.array([[10.0, 20, 40, 12, 60, 10]])
    m, v = a.mean(), latent_variance(a[0], n[0])
    total = m * (1 - m) / v - 1
    prior = stats.beta(m * total, (1 - m) * total)
    posterior = []
    for y, size in zip((a * n)[0], n[0], strict=True):

        def weight(p, y=y, size=size):
            return prior.pdf(p) * stats.binom.pmf(round(y), int(size), p)

        posterior.append(integrate.quad(lambda p: p * weight(p), 0, 1)[0] / integrate.quad(weight, 0, 1)[0])
    stretched = m + (posterior - np.mean(posterior)) * np.sqrt(v) / np.std(posterior, ddof=1)
    result = fairness(a, n)
    assert cell(result, "sd", "shrunken") == pytest.approx(np.sqrt(v))
    assert cell(result, "Gini", "shrunken") == pytest.approx(gini(stretched))
    assert cell(result, "worst decile", "shrunken") == pytest.approx(stretched.min())
    assert np.std(posterior, ddof=1) < np.sqrt(v) < cell(result, "sd", "raw")


@pytest.mark.parametrize("sd", [0.04, 0.1])
def test_shrinkage_recovers_the_spread_that_noise_hides(sd):
    rng = np.random.default_rng(3)
    seeds, clients, mean = 60, 100, 0.8
    total = mean * (1 - mean) / sd**2 - 1
    p = rng.beta(mean * total, (1 - mean) * total, size=(seeds, clients))
    n = rng.integers(20, 61, size=p.shape)
    result = fairness(rng.binomial(n, p) / n, n)
    # the measures of the true shares themselves; one standard error of the 60 seeds is 0.6 to 1.5% of the sd
    truth = {"sd": p.std(axis=1, ddof=1), "Gini": gini(p), "Jain": jain_index(p)}
    truth["worst decile"] = np.sort(p, axis=1)[:, :10].mean(axis=1)
    for measure, values in truth.items():
        raw, shrunken = (abs(cell(result, measure, v) - values.mean()) for v in ("raw", "shrunken"))
        assert shrunken < 0.35 * raw
    assert cell(result, "sd", "shrunken") == pytest.approx(truth["sd"].mean(), rel=0.06)


def test_equal_clients_look_as_noise_alone_says():
    rng = np.random.default_rng(4)
    n = np.broadcast_to(np.arange(20, 60), (200, 40))
    result = fairness(rng.binomial(n, 0.85) / n, n)
    for measure, version in itertools.product(("sd", "worst decile", "Gini", "Jain"), ("", ", shrunken")):
        low, high = (cell(result, measure, version[2:] or "raw", limit) for limit in ("low", "high"))
        assert low - 0.001 < cell(result, measure, "noise only" + version) < high + 0.001
    # the exact second moment of equal clients; simulated sds have a root mean square near it, a little below
    exact = np.sqrt((0.85 * 0.15 / np.arange(20, 60)).mean())
    assert 0.97 * exact < cell(result, "sd", "noise only") < exact
    assert cell(result, "sd", "shrunken") < 0.35 * exact
    assert any("seeds the shares spread no more than noise" in note for note in result.notes)


@settings(max_examples=30)
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_clients_does_not_matter(pairs, random):
    order = random.sample(range(len(pairs)), len(pairs))
    a, n = as_shares(pairs)
    r = np.flip(a, axis=1) * 0.5
    one = fairness(a, n, reference=r).table
    other = fairness(a[:, order], n[:, order], reference=r[:, order]).table
    # what is simulated pairs its draws with columns, and may differ by their noise
    exact = ~one["version"].str.startswith("noise only")
    np.testing.assert_allclose(one.loc[exact, "mean"], other.loc[exact, "mean"], rtol=1e-7, atol=1e-7)
    assert one["mean"].between(0, 1).all()


def test_shares_of_zero_and_one():
    for value in (0.0, 1.0):
        result = fairness(np.full((3, 5), value), np.full((3, 5), 8))
        for version in ("raw", "shrunken", "noise only", "noise only, shrunken"):
            assert cell(result, "sd", version) == 0
            assert cell(result, "Jain", version) == 1
    apart = fairness([[0.0, 1.0, 0.0, 1.0]] * 2, np.full((2, 4), 50))  # nothing to shrink
    assert cell(apart, "sd", "shrunken") == pytest.approx(cell(apart, "sd", "raw"))
    single = fairness([[0.0, 1.0, 0.4, 0.9]] * 2, [[1, 1, 10, 10]] * 2)  # one sample tells no noise: others' is taken
    assert 0 <= cell(single, "sd", "shrunken") < cell(single, "sd", "raw")


def test_absent_clients_are_left_out_and_missing_values_refused():
    gap = np.nan
    with_gap = fairness([[0.5, 0.8, gap], [0.4, 0.9, 0.7]], [[20, 30, gap], [20, 30, 0 + 40]])
    alone = [fairness([[0.5, 0.8]], [[20, 30]]), fairness([[0.4, 0.9, 0.7]], [[20, 30, 40]])]
    assert cell(with_gap, "sd", "raw") == pytest.approx(np.mean([cell(one, "sd", "raw") for one in alone]))
    assert cell(with_gap, "sd", "raw", "clients") == 2.5
    with pytest.raises(ValueError, match="client 1 under the seed in row 0 has no finite value, but 30 samples"):
        fairness([[0.5, gap, 0.5]], [[20, 30, 10]])
    with pytest.raises(ValueError, match="has a value but no samples"):
        fairness([[0.5, 0.1, 0.5]], [[20, 0, 10]])


@pytest.mark.parametrize(
    ("accuracy", "samples", "message"),
    [
        ([[80.0, 90.0]], [[10, 10]], "accuracy must hold shares in .0, 1.*Divide by 100"),
        ([[0.5, 1.0]], [[1, 1]], "no client has two test samples"),
        ([[0.5]], [[10]], "at least two clients, got 1 in row 0"),
        ([[0.5, 0.7], [np.nan, np.nan]], [[10, 10], [0, 0]], "got 0 in row 1"),
        ([0.5, 0.6], [10, 10], "must be matrices"),
        ([[0.5, 0.5]], [[10, -1]], "not negative"),
        ([[0.5, 0.5]], [[10, 9.5]], "whole numbers, got 9.5"),
    ],
)
def test_bad_tables_of_clients(accuracy, samples, message):
    with pytest.raises(ValueError, match=message):
        fairness(accuracy, samples)


def test_one_seed_has_no_limits_and_says_so():
    result = fairness([[0.5, 0.7, 0.9]], [[30, 30, 30]])
    assert result.table["low"].isna().all()
    assert "One seed: no limits" in str(result)


def test_who_loses_when_nobody_does():
    rng = np.random.default_rng(5)
    n = np.full((20, 100), 40)
    method, local = rng.binomial(n, 0.84) / n, rng.binomial(n, 0.80) / n
    result = fairness(method, n, reference=local)
    # everybody gains four points, and yet three clients in ten seem to lose: by noise
    y, z = (stats.binom(40, p).pmf(np.arange(41)) for p in (0.84, 0.80))
    exact = np.tril(np.outer(z, y), -1).sum()
    assert cell(result, "share that loses", "raw") == pytest.approx(exact, abs=0.03)
    assert cell(result, "share that loses", "noise only") == pytest.approx(exact, abs=0.02)
    assert cell(result, "share that loses", "shrunken") < 0.5 * exact


def test_who_loses_when_a_third_does():
    rng = np.random.default_rng(6)
    seeds, clients = 8, 90
    gain = np.where(np.arange(clients) < 30, -0.15, 0.15)
    n = np.full((seeds, clients), 60)
    local, method = rng.binomial(n, 0.7) / n, rng.binomial(n, 0.7 + gain) / n
    names = [f"ward {i}" for i in range(clients)]
    result = fairness(method, n, reference=local, clients=names, fresh_tests=True)
    assert cell(result, "share that loses", "shrunken") == pytest.approx(1 / 3, abs=0.06)
    named = result.clients.set_index("client")["outcome"]
    losers, winners = ({f"ward {i}" for i in ids} for ids in (range(30), range(30, 90)))
    assert set(named.index[named == "loses"]) <= losers
    assert len(set(named.index[named == "loses"])) >= 25
    assert set(named.index[named == "gains"]) <= winners
    # without new test samples eight seeds know little more than one, and fewer are named
    cautious = fairness(method, n, reference=local, clients=names).clients.set_index("client")["outcome"]
    assert set(cautious.index[cautious == "loses"]) < set(named.index[named == "loses"])
    with pytest.raises(ValueError, match="clients must be 90 different names"):
        fairness(method, n, reference=local, clients=["a", "b"])


def test_differences_are_those_of_the_eight_schools():
    """Gelman et al., Bayesian Data Analysis, section 5.5, with a flat prior on the sd, by Monte Carlo."""
    effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    mean, sd, (below, above) = hierarchical_differences(effect, error**2)
    rng = np.random.default_rng(9)
    # importance sampling: sd and mean from flat laws, schools from their conditional ones
    tau, mu = rng.uniform(0, 2 * np.sqrt((error**2).mean()), 400_000), rng.uniform(-40, 50, 400_000)
    total = tau[:, None] ** 2 + error**2
    weight = np.exp(-0.5 * (np.log(total) + (effect - mu[:, None]) ** 2 / total).sum(axis=1) + 25)
    weight /= weight.sum()
    centre = (tau[:, None] ** 2 * effect + error**2 * mu[:, None]) / total
    school = centre + np.sqrt(tau[:, None] ** 2 * error**2 / total) * rng.normal(size=centre.shape)
    np.testing.assert_allclose(mean, weight @ school, atol=0.25)
    np.testing.assert_allclose(sd, np.sqrt(weight @ (school - weight @ school) ** 2), atol=0.25)
    np.testing.assert_allclose(below, weight @ (school < 0), atol=0.01)
    np.testing.assert_allclose(mean, [11.4, 7.9, 6.1, 7.6, 5.1, 6.1, 10.6, 8.5], atol=0.6)
    np.testing.assert_allclose(below + above, 1)


def test_equal_methods_name_nobody():
    rng = np.random.default_rng(10)
    n, named = np.full((5, 50), 40), 0
    for _ in range(20):
        method, local = (rng.binomial(n, 0.8) / n for _ in range(2))
        result = fairness(method, n, reference=local, clients=range(50), fresh_tests=True)
        named += (result.clients["outcome"] != "undecided").sum()
    assert named <= 20  # of 1000; with a plug-in variance whole runs of 50 are named at once


def test_the_same_model_makes_nobody_lose():
    a = np.full((3, 6), 0.5)
    result = fairness(a, np.full((3, 6), 20), reference=a, clients=range(6))
    assert set(result.clients["outcome"]) == {"ties"}
    own = result.table["version"].isin(["raw", "shrunken"])
    assert (
        result.table.loc[own, ["low", "high"]].isna().all(axis=None)
    )  # three seeds of one value say nothing of others
    assert (result.clients[["low", "high", "probability of losing"]] == 0).all(axis=None)
    for version in ("raw", "shrunken", "noise only"):
        assert cell(result, "share that loses", version) == 0
    assert cell(result, "share that ties", "raw") == cell(result, "share that ties", "noise only") == 1
    right = np.ones((3, 6))
    assert cell(fairness(right, 20 * right, reference=right), "share that loses", "shrunken") == 0


def test_ties_are_ties_and_shared_test_noise_counts_once():
    """Twelve hospitals with 100 test samples, at eight of which both methods are right on the same ones."""
    rng = np.random.default_rng(11)
    seeds, n = 5, np.full((5, 12), 100)
    local = rng.binomial(n, 0.8) / n
    change = np.zeros((seeds, 12))
    change[:, 8:] = [0.02, 0.02, 0.02, -0.02]
    # means over rounds that are equal but for rounding tie as well
    result = fairness(local + change + 1e-16, n, reference=local, clients=range(12))
    assert cell(result, "share that ties", "raw") == pytest.approx(8 / 12)
    assert cell(result, "share that loses", "raw") == pytest.approx(1 / 12)
    assert 0 < cell(result, "share that loses", "shrunken") < 2.5 / 12
    assert set(result.clients.query("outcome == 'ties'")["client"]) == set(range(8))
    assert any(re.search(r"the methods share test noise, and 4(\.\d)?% of", note) for note in result.notes)
    # by noise alone methods that differ at so few samples tie often: exactly, from the law of such a difference
    p = 0.8
    one_way = 0.5 * (4 * 0.02**2 / 12) * 100  # what the mean square of the differences leaves for a sample, each way
    at = np.arange(101)
    up, down = (stats.binom(100, one_way).pmf(at) for _ in range(2))
    assert cell(result, "share that ties", "noise only") == pytest.approx(up @ down, abs=0.03)
    # separate tests of equal methods share nothing, and all of their noise is counted
    apart = fairness(rng.binomial(n, p) / n, n, reference=rng.binomial(n, p) / n)
    assert cell(apart, "share that loses", "noise only") == pytest.approx(0.46, abs=0.04)
    assert cell(apart, "share that loses", "shrunken") > 0.3


def test_means_over_rounds_are_not_held_against_the_noise_of_one_test():
    """Two methods that are equally good everywhere, and right or wrong by chance at some samples in each round."""
    rng = np.random.default_rng(0)
    n, sure = np.full((6, 20), 20), rng.random((6, 20, 1, 20)) < 0.9

    def rounds():
        open_ = rng.random((6, 20, 10, 20)) < 0.06
        return np.where(open_, rng.random(open_.shape) < 0.5, sure).mean(axis=-1)

    method, reference = rounds(), rounds()
    last = fairness(method[..., -1], n, reference=reference[..., -1])
    assert cell(last, "share that loses", "raw") == pytest.approx(cell(last, "share that loses", "noise only"), abs=0.1)
    mean = fairness(method.mean(axis=-1), n, reference=reference.mean(axis=-1))
    measures = mean.table.set_index(["measure", "version"]).index
    assert [version for measure, version in measures if measure == "share that loses"] == ["raw", "shrunken"]
    assert "share that ties" not in measures.get_level_values("measure")
    assert any("as of means over several tests" in note for note in mean.notes)
    four_decimals = fairness(method[..., -1].round(4), n, reference=reference[..., -1].round(4))
    assert "share that ties" in set(four_decimals.table["measure"])


def test_noise_is_drawn_by_key():
    a, n = [[0.5, 0.7, 0.9]] * 2, [[30, 30, 30]] * 2
    assert fairness(a, n).table.equals(fairness(a, n).table)
    assert stream(0, "fairness by noise alone", 0).random() != stream(0, "fairness by noise alone", 1).random()

"""Rates, the wide limit and the complexity term, against explicit training and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedstat as fs
from fedstat.data import product_clients
from fedstat.ntk import extreme_eigenvalues, infinite_gram, personal_gram
from fedstat.theory import complexity_term, convergence_factor, diagnose, prescribed_step
from fedstat.theory.convergence import limit_trajectory
from simulations.wide.teacher import taught

STEPS = {"eta_g": 1.0, "eta_l": 0.1, "local_steps": 1, "clients": 2}


def kernels(n=4, clients=2, seed=0):
    x = np.random.default_rng(seed).normal(size=(n * clients, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    owner = np.repeat(np.arange(clients), n)
    return x, infinite_gram(x), personal_gram(x, owner)


def limit(shared, personal, residual, *, clients, rounds, eta_l, local_steps=1, eta_g=1.0):
    """Return the limit where all clients have as many rows and one step size."""
    n = len(residual) // clients
    blocks = [slice(c * n, (c + 1) * n) for c in range(clients)]
    how = {"eta_g": eta_g, "steps": [eta_l] * clients, "local_steps": local_steps, "rounds": rounds}
    return limit_trajectory(shared, personal, residual, blocks, **how)


def test_claimed_factor_by_hand():
    half = np.eye(4) / 2
    assert convergence_factor(half, half, eta_g=1, eta_l=0.2, local_steps=3, clients=2) == pytest.approx(
        1 - (0.3 * 0.5 + 0.6 * 0.5) / 2
    )
    assert prescribed_step(half, half, local_steps=3) == pytest.approx(1 / (3 * 16))
    assert prescribed_step(np.ones((2, 2)), np.ones((2, 2)), local_steps=1) == 0
    multiples = np.array([[1.0, 2], [2, 4], [0, 1]])
    assert prescribed_step(infinite_gram(multiples), np.eye(3), local_steps=1) == 0
    assert prescribed_step(np.eye(3), infinite_gram(multiples), local_steps=1) == 0
    assert prescribed_step(np.eye(2), infinite_gram(np.array([[1.0, 0], [-1, 0]])), local_steps=1) > 0


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_limit_is_federated_training_of_a_linear_model(clients, n, local_steps, mean, seed):
    """Random features: a shared weight vector that is averaged and a personal one per client, trained step by step."""
    rng = np.random.default_rng(seed)
    shared_x, own_x = rng.normal(size=(2, clients, n, 7)) / 3
    y = rng.normal(size=(clients, n))
    eta_g, eta_l, rounds = 0.7, 0.3, 5
    step = eta_l / n if mean else eta_l
    w, v = np.zeros(7), np.zeros((clients, 7))
    expected = [(y**2).sum()]
    for _ in range(rounds):
        moves = []
        for c in range(clients):
            local = w.copy()
            for _ in range(local_steps):
                residual = shared_x[c] @ local + own_x[c] @ v[c] - y[c]
                local, v[c] = local - step * shared_x[c].T @ residual, v[c] - step * own_x[c].T @ residual
            moves.append(local - w)
        w = w + eta_g * np.mean(moves, axis=0)
        expected.append(sum(((shared_x[c] @ w + own_x[c] @ v[c] - y[c]) ** 2).sum() for c in range(clients)))
    flat = shared_x.reshape(-1, 7)
    blocks = np.zeros((clients * n, clients * n))
    for c in range(clients):
        blocks[c * n : (c + 1) * n, c * n : (c + 1) * n] = own_x[c] @ own_x[c].T
    sizes = {"eta_g": eta_g, "eta_l": step, "local_steps": local_steps, "clients": clients, "rounds": rounds}
    found = limit(flat @ flat.T, blocks, -y.ravel(), **sizes)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_limit_on_an_eigenvector_is_a_power():
    _, shared, _ = kernels(clients=1)
    value, vectors = np.linalg.eigh(2 * shared)
    norms = limit(shared, shared, vectors[:, 0], eta_l=0.1, clients=1, rounds=6)
    np.testing.assert_allclose(norms, (1 - 0.1 * value[0]) ** (2 * np.arange(7)))


def test_wide_networks_follow_the_limit():
    """The engine trains model (4) at width 4,096: its residual stays within a few per cent of the linear limit."""
    drawn = taught(clients=2, samples=4, d=6, seed=1)
    clients = fs.data.Clients(train=drawn, test=drawn)
    x = drawn.x.reshape(8, 6).astype(float)
    shared, personal = infinite_gram(x), personal_gram(x, np.repeat([0, 1], 4))
    eta_l = 1 / (2 * extreme_eigenvalues(shared / 2 + personal)[1])
    width = 4096
    result = fs.federate(
        fs.FedSplit(shared_units={"hidden": np.repeat([False, True], width)}, independent=True, weighting="uniform"),
        fs.models.split_relu(6, personal=width, shared=width, antisymmetric=True),
        clients,
        fs.Training(lr=4 * eta_l, batch_size=4, local_epochs=2),
        rounds=8,
        seed=range(3),
        evaluate_at=range(9),
    )
    assert set(result.history["round"]) == set(range(9))
    squares = (
        4 * result.history.query("metric == 'mse'").groupby(["round", "seed"])["value"].sum().unstack("seed").to_numpy()
    )
    y = drawn.y.ravel().astype(float)
    np.testing.assert_allclose(squares[0], (y**2).sum(), rtol=1e-5)  # an antisymmetric start puts out zero
    expected = limit(shared, personal, -y, eta_l=eta_l, local_steps=2, clients=2, rounds=8)
    np.testing.assert_allclose(squares.mean(axis=1), expected, rtol=0.1, atol=1e-3 * expected[0])


def test_complexity_term_of_regular_and_singular_kernels():
    _, shared, personal = kernels()
    y = np.array([1.0, -1, 1, 1, -1, 1, -1, -1])
    expected = 2 * np.sqrt(2 / 4 * y @ np.linalg.inv(shared + personal) @ y)
    assert complexity_term(shared, personal, y, 2) == pytest.approx(expected, rel=1e-10)
    one = np.full((3, 3), 0.5)  # three equal inputs
    assert complexity_term(one, one, np.ones(3), 1) == pytest.approx(2 / np.sqrt(3))
    assert complexity_term(one, one, np.array([1.0, -1, 1]), 1) == np.inf


def test_diagnosis_does_not_depend_on_the_order_of_samples():
    x, _, _ = kernels(n=5, clients=3, seed=4)
    client, y = np.repeat(["a", "b", "c"], 5), np.sign(x[:, 0])
    order = np.random.default_rng(0).permutation(15)
    sorted_, shuffled = diagnose(x, client, y), diagnose(x[order], client[order], y[order])
    for name in ("smallest_shared", "claimed_factor", "exact_factor", "slowest_factor_mean", "complexity"):
        assert getattr(sorted_, name) == pytest.approx(getattr(shuffled, name), rel=1e-6)
    assert sorted_.vacuous
    assert "vacuous: yes" in str(sorted_)
    assert sorted_.slowest_factor <= sorted_.claimed_factor < sorted_.slowest_factor_mean
    assert "slower than claimed" in str(sorted_)


def test_no_start_is_slower_than_the_slowest():
    """Clients of two and of twelve samples, several local steps: a search over random starts finds none."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(14, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    client = np.repeat([0, 1], [2, 12])
    found = diagnose(x, client, x[:, 0], local_steps=3, rounds=400)
    assert found.slowest_factor > found.exact_factor
    assert found.slowest_factor_mean > found.exact_factor_mean
    for seed in range(20):  # after many rounds only the slowest mode is left of any start
        other = diagnose(x, client, np.random.default_rng(seed).normal(size=14), local_steps=3, rounds=400)
        assert other.exact_factor <= found.slowest_factor + 1e-9
        assert other.exact_factor_mean <= found.slowest_factor_mean + 1e-9


@pytest.mark.parametrize("eta_g", [0.5, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("length", [0.5, 1.0, 1.9])
@pytest.mark.parametrize("local_steps", [1, 2, 5])
def test_the_slowest_start_falls_by_the_spectral_radius_of_a_round(eta_g, length, local_steps):
    x, shared, personal = kernels(n=3, clients=2, seed=1)
    eta_l = length / extreme_eigenvalues(shared + personal)[1]
    found = diagnose(x, np.repeat([0, 1], 3), np.zeros(6), eta_g=eta_g, eta_l=eta_l, local_steps=local_steps, rounds=20)
    for factor, step in ((found.slowest_factor, eta_l), (found.slowest_factor_mean, eta_l / 3)):
        summed = np.zeros((6, 6))
        for rows in (slice(3), slice(3, 6)):
            there = np.eye(3) - step * (shared + personal)[rows, rows]
            summed[rows, rows] = step * sum(np.linalg.matrix_power(there, g) for g in range(local_steps))
        whole = np.eye(6) - (eta_g / 2 * shared + personal) @ summed
        assert factor == pytest.approx(np.abs(np.linalg.eigvals(whole)).max() ** 2, rel=1e-6)
    assert np.isnan([found.exact_factor, found.exact_factor_mean]).all()
    slow = found.slowest_factor > found.claimed_factor
    assert f"exact, without 1/n   {found.slowest_factor:.6g} from the slowest start: " in str(found)
    assert (f"{found.slowest_factor:.6g} from the slowest start: slower than claimed" in str(found)) == slow


def test_diagnosis_of_easy_and_of_singular_clients():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    easy = diagnose(x, np.zeros(200), x[:, 0])
    assert not easy.vacuous
    assert str(easy).endswith("vacuous: no")
    singular = diagnose(np.concatenate([x[:6], 2 * x[:1], [[0.0, 0, 0]]]), [0, 0, 1, 1, 2, 2, 2, 1], np.ones(8))
    assert (singular.smallest_shared, singular.condition_shared) == (0, np.inf)
    assert "promises nothing" in str(singular)
    plane = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])  # no input is a positive multiple of another
    opposite = diagnose(np.concatenate([plane, -plane]), np.zeros(6), np.ones(6))
    assert opposite.condition_shared == np.inf
    assert "opposites in linearly dependent directions" in str(opposite)


def test_generators_keep_their_promises():
    values, probabilities = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([0.25, 0.75])
    pairs = product_clients((values, probabilities), clients=4, repeats=5000, seed=1)
    assert pairs.shape == (5000, 4, 2)
    assert (pairs[..., 0] == 3).mean() == pytest.approx(0.75, abs=0.02)
    trained = np.arange(12.0).reshape(4, 3)  # clients that are equally likely, with atoms of two entries
    drawn = product_clients(trained, clients=4000, seed=np.random.default_rng(2))
    kinds, counts = np.unique(drawn.reshape(-1, 3), axis=0, return_counts=True)
    np.testing.assert_array_equal(kinds, trained)
    np.testing.assert_allclose(counts / 4000, 0.25, atol=0.03)
    normal = product_clients(lambda rng, n: rng.normal(size=(n, 2)), clients=3, seed=2)
    np.testing.assert_array_equal(normal, product_clients(lambda rng, n: rng.normal(size=(n, 2)), clients=3, seed=2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda h: convergence_factor(h, h[:2, :2], **STEPS), r"h_personal must have shape \(8, 8\)"),
        (lambda h: convergence_factor(h, h * np.nan, **STEPS), "h_personal must be finite"),
        (lambda h: convergence_factor(h, h, **{**STEPS, "eta_l": -1.0}), r"eta_l must be a number in \[0, inf\)"),
        (lambda h: convergence_factor(h, h, **{**STEPS, "clients": 0}), "clients must be a whole number, at least 1"),
        (lambda h: complexity_term(h, np.triu(h), np.ones(8), 2), "h_personal must be symmetric, but differs from its"),
        (lambda h: complexity_term(np.tril(h), h, np.ones(8), 2), "h_shared must be symmetric"),
        (lambda h: infinite_gram(np.full((2, 2), 1e200)), r"finite squares, got a norm of 1\.41e\+200; scale x first"),
        (lambda h: complexity_term(h, h, np.ones(7), 2), r"y must have shape \(8,\)"),
        (lambda h: complexity_term(h, h, np.ones(8), 0), "clients must lie between 1"),
        (lambda h: diagnose(np.ones((3, 2)), [0, 1], np.ones(3)), "one entry per row"),
        (lambda h: diagnose(np.zeros((2, 2)), [0, 1], np.ones(2)), "not zero"),
        (lambda h: diagnose(np.eye(2), [0, 1], np.ones(2), rounds=0), "rounds must be a whole number, at least 1"),
        (lambda h: product_clients((np.ones((2, 2)), np.array([0.5, 0.6])), clients=2), "sum to one"),
        (lambda h: product_clients((np.ones((2, 3)), np.ones(3) / 3), clients=2), "probabilities must be 2"),
        (lambda h: product_clients(np.ones(4), clients=2), "a finite law must have values of shape"),
        (lambda h: product_clients(lambda rng, n: np.ones(n), clients=2), "must return rows"),
        (lambda h: fs.models.split_relu(3, personal=1, shared=2, antisymmetric=True), "even counts"),
        (lambda h: fs.models.split_relu(3, personal=0, shared=0), "nor both zero"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make(kernels()[1])

"""Gram matrices against 60-digit arithmetic, simulation and autograd."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedstat as fs
from fedstat.ntk import extreme_eigenvalues, finite_gram, finite_personal_gram, infinite_gram, personal_gram


def exact_gram(x):
    with mpmath.workdps(60):
        rows = [[mpmath.mpf(v) for v in row] for row in x.tolist()]

        def entry(a, b):
            na, nb = mpmath.sqrt(mpmath.fdot(a, a)), mpmath.sqrt(mpmath.fdot(b, b))
            if na == 0 or nb == 0:
                return mpmath.mpf(0)
            u, v = [t / na for t in a], [t / nb for t in b]
            minus = mpmath.sqrt(sum((p - q) ** 2 for p, q in zip(u, v, strict=True)))
            plus = mpmath.sqrt(sum((p + q) ** 2 for p, q in zip(u, v, strict=True)))
            return mpmath.fdot(a, b) * (mpmath.pi - 2 * mpmath.atan2(minus, plus)) / (2 * mpmath.pi)

        matrix = mpmath.matrix([[entry(a, b) for b in rows] for a in rows])
        values = mpmath.eigsy(matrix, eigvals_only=True)
        return np.array(matrix.tolist(), dtype=float), float(min(values))


def nearly_parallel():
    rng = np.random.default_rng(5)
    base = rng.normal(size=4)
    x = np.stack([base + 1e-8 * rng.normal(size=4) for _ in range(3)] + [-base, *rng.normal(size=(2, 4))])
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "x", [np.random.default_rng(0).normal(size=(8, 6)), nearly_parallel()], ids=["generic", "nearly parallel"]
)
def test_against_sixty_digits(x):
    gram, smallest = exact_gram(x)
    ours = infinite_gram(x)
    np.testing.assert_allclose(ours, gram, rtol=0, atol=1e-15 * np.abs(gram).max() * 10)
    # the smallest eigenvalue survives near-parallel inputs, where arc-cosines lose it altogether
    assert abs(extreme_eigenvalues(ours)[0] - smallest) < 1e-5 * smallest + 1e-15


@given(
    arrays(np.float64, (6, 3), elements=st.floats(-2, 2, width=32)), st.lists(st.integers(0, 2), min_size=6, max_size=6)
)
def test_symmetric_positive_and_interlaced(x, client):
    client = np.array(client)
    whole, blocks = infinite_gram(x), personal_gram(x, client)
    scale = np.trace(whole) + 1e-300
    np.testing.assert_array_equal(whole, whole.T)
    np.testing.assert_allclose(np.diag(whole), (x**2).sum(axis=1) / 2, rtol=1e-14)
    (low, high), (own_low, own_high) = extreme_eigenvalues(whole), extreme_eigenvalues(blocks)
    assert low >= -1e-12 * scale
    assert own_low >= low - 1e-12 * scale
    assert own_high <= high + 1e-12 * scale
    assert (blocks[client[:, None] != client[None, :]] == 0).all()


def test_zero_and_duplicate_rows_are_results():
    x = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    gram = infinite_gram(x)
    assert (gram[1] == 0).all()
    assert gram[0, 2] == pytest.approx(2.5, abs=1e-15)
    assert abs(extreme_eigenvalues(gram)[0]) < 1e-14


def test_finite_width_is_the_gram_matrix_of_the_gradients():
    """autograd of the network sum_r a_r relu(w_r . x) / sqrt(m), a_r = +-1, gives the same matrix."""
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    sign = torch.from_numpy(rng.choice([-1.0, 1.0], 7))
    weights = torch.from_numpy(w).requires_grad_()
    gradients = []
    for row in torch.from_numpy(x):
        output = (sign * torch.relu(weights @ row)).sum() / 7**0.5
        gradients.append(torch.autograd.grad(output, weights)[0].flatten())
    jacobian = torch.stack(gradients).numpy()
    np.testing.assert_allclose(finite_gram(x, w), jacobian @ jacobian.T, atol=1e-14)


def test_finite_width_converges_to_the_limit():
    x = np.random.default_rng(3).normal(size=(6, 4))
    w = np.random.default_rng(4).normal(size=(200_000, 4))
    inner, limit = x @ x.T, infinite_gram(x)
    q = limit / inner
    error = np.abs(inner) * np.sqrt(q * (1 - q) / len(w))
    assert (np.abs(finite_gram(x, w) - limit) < 5 * error).all()


def test_inputs_whose_squares_overflow():
    x = np.random.default_rng(2).normal(size=(4, 3))
    np.testing.assert_allclose(infinite_gram(1e150 * x), infinite_gram(x) * 1e300, rtol=1e-13)


def test_blocks_do_not_change_the_matrix(monkeypatch):
    x = np.random.default_rng(6).normal(size=(50, 4))
    whole = infinite_gram(x)
    monkeypatch.setattr("fedstat.ntk.gram._BLOCK", 7)
    np.testing.assert_allclose(infinite_gram(x), whole, rtol=0, atol=1e-14)


def test_accelerator_path_gives_the_same_matrix(monkeypatch):
    """Blocks formed by torch (here on the processor itself) against blocks formed by numpy."""
    monkeypatch.setattr("fedstat.ntk.gram._DEVICE_BLOCK", 5)
    x = np.concatenate([nearly_parallel(), np.zeros((1, 4)), np.random.default_rng(8).normal(size=(6, 4))])
    client = np.arange(len(x)) % 2
    np.testing.assert_allclose(infinite_gram(x, device="cpu:0"), infinite_gram(x), rtol=0, atol=1e-15)
    np.testing.assert_allclose(personal_gram(x, client, device="cpu:0"), personal_gram(x, client), rtol=0, atol=1e-15)


def test_kernels_of_the_split_network_by_autograd():
    """Jacobians of model (4) at each client give Definition 2 at the start of a round."""
    rng = np.random.default_rng(9)
    x, client, m = rng.normal(size=(6, 3)), np.array([0, 0, 1, 1, 1, 0]), 4
    shared, personal = rng.normal(size=(m, 3)), rng.normal(size=(2, m, 3))
    module = fs.models.split_relu(3, personal=m, shared=m)().double()

    rows = []  # gradients of the output at each sample's client by that client's personal units and by the shared ones
    for row, c in zip(x, client, strict=True):
        weight = torch.from_numpy(np.concatenate([personal[c], shared])).requires_grad_()
        output = torch.func.functional_call(module, {"hidden.weight": weight}, (torch.from_numpy(row),))
        rows.append(torch.autograd.grad(output.sum(), weight)[0].numpy())
    by_personal, by_shared = (np.stack(rows)[:, units].reshape(6, -1) for units in (slice(m), slice(m, None)))
    same = client[:, None] == client
    np.testing.assert_allclose(finite_gram(x, shared), by_shared @ by_shared.T, atol=1e-13)
    np.testing.assert_allclose(
        finite_personal_gram(x, client, personal), same * (by_personal @ by_personal.T), atol=1e-13
    )


@pytest.mark.slow
def test_extreme_eigenvalues_of_large_and_of_nearly_singular_matrices():
    x = np.random.default_rng(10).normal(size=(1600, 30))
    h = infinite_gram(x)
    values = np.linalg.eigvalsh(h)
    np.testing.assert_allclose(extreme_eigenvalues(h), values[[0, -1]], rtol=1e-9)
    x[1] = x[0]  # no Cholesky factor any more
    assert abs(extreme_eigenvalues(infinite_gram(x))[0]) < 1e-10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: infinite_gram(np.ones(3)), "x must have shape"),
        (lambda: infinite_gram(np.array([[1.0, np.inf]])), r"x must be finite, but holds inf at \[0, 1\]"),
        (lambda: personal_gram(np.ones((3, 2)), [0, 1]), "one entry per row"),
        (lambda: finite_gram(np.ones((3, 2)), np.ones((4, 3))), r"w must have shape \(units, 2\)"),
        (lambda: personal_gram(np.ones((2, 2)), [0.0, np.nan]), "NaN names no client"),
        (lambda: finite_personal_gram(np.ones((3, 2)), [0, 1, 2], np.ones((2, 4, 2))), "from 0 to 1"),
        (lambda: finite_personal_gram(np.ones((3, 2)), [0, 0, 0], np.ones((4, 2))), r"shape \(clients, units, 2\)"),
        (lambda: finite_personal_gram(np.ones((2, 2)), [0, 0], np.full((1, 4, 2), np.nan)), "w must be finite"),
        (lambda: extreme_eigenvalues(np.array([[1.0, 2.0], [0.0, 1.0]])), "finite and symmetric"),
        (lambda: extreme_eigenvalues(np.array([[1.0, np.nan], [np.nan, 1.0]])), "finite and symmetric"),
        (lambda: extreme_eigenvalues(np.diag([*[1.0] * 1099, np.nan])), "finite and symmetric"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()

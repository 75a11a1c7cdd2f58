"""Gram matrices against 60-digit arithmetic, simulation and autograd."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedstat.ntk import extreme_eigenvalues, finite_gram, infinite_gram, personal_gram


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
    arrays(np.float64, (6, 3), elements=st.floats(-2, 2, width=32)),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
)
def test_symmetric_positive_and_interlaced(x, client):
    client = np.array(client)
    whole, blocks = infinite_gram(x), personal_gram(x, client)
    scale = np.trace(whole) + 1e-300
    np.testing.assert_array_equal(whole, whole.T)
    np.testing.assert_array_equal(np.diag(whole), np.sqrt((x**2).sum(axis=1)) ** 2 / 2)
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
    moved = w + rng.normal(size=w.shape)
    two_times = finite_gram(x, moved, w)
    expected = (x @ x.T) * ((x @ w.T >= 0).astype(float) @ (x @ moved.T >= 0).T) / 7
    np.testing.assert_allclose(two_times, expected, atol=1e-14)


def test_finite_width_converges_to_the_limit():
    x = np.random.default_rng(3).normal(size=(6, 4))
    w = np.random.default_rng(4).normal(size=(200_000, 4))
    inner, limit = x @ x.T, infinite_gram(x)
    q = limit / inner
    error = np.abs(inner) * np.sqrt(q * (1 - q) / len(w))
    assert (np.abs(finite_gram(x, w) - limit) < 5 * error).all()


def test_blocks_do_not_change_the_matrix(monkeypatch):
    x = np.random.default_rng(6).normal(size=(50, 4))
    whole = infinite_gram(x)
    monkeypatch.setattr("fedstat.ntk.gram._BLOCK", 7)
    np.testing.assert_allclose(infinite_gram(x), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: infinite_gram(np.ones(3)), "x must be a matrix"),
        (lambda: infinite_gram(np.array([[1.0, np.inf]])), "row 0 is not"),
        (lambda: personal_gram(np.ones((3, 2)), [0, 1]), "one entry per row"),
        (lambda: finite_gram(np.ones((3, 2)), np.ones((4, 3))), r"w must have shape \(m, 2\)"),
        (lambda: extreme_eigenvalues(np.array([[1.0, 2.0], [0.0, 1.0]])), "finite and symmetric"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()

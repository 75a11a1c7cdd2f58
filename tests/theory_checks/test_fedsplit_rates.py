"""The rates by which FedSplit's theorem is judged, against an independent computation."""

import numpy as np
import pytest

from fedstat.ntk import infinite_gram, personal_gram
from fedstat.theory.convergence import limit_trajectory
from theory_checks.fedsplit.rates import least_decrement, lost


@pytest.fixture
def kernels():
    x = np.random.default_rng(0).normal(size=(6, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return infinite_gram(x), personal_gram(x, np.repeat([0, 1], 3))


@pytest.mark.parametrize("local_steps", [1, 4])
def test_the_worst_start_loses_the_least_decrement_and_no_start_loses_less(kernels, local_steps):
    b = lost(*kernels, clients=2, step=0.2, local_steps=local_steps)
    blocks = [slice(0, 3), slice(3, 6)]
    sizes = {"eta_g": 1.0, "steps": [0.2, 0.2], "local_steps": local_steps, "rounds": 1}

    def share(start):
        before, after = limit_trajectory(*kernels, start, blocks, **sizes)
        return 1 - after / before

    worst = np.linalg.svd(np.eye(6) - b)[2][0]
    assert share(worst) == pytest.approx(least_decrement(b), rel=1e-9)
    starts = np.random.default_rng(1).normal(size=(200, 6))
    assert min(map(share, starts)) >= least_decrement(b)


def test_a_kernel_of_unit_inputs_is_at_least_a_quarter_of_their_products():
    x = np.random.default_rng(2).normal(size=(40, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert np.linalg.eigvalsh(infinite_gram(x) - x @ x.T / 4)[0] > -1e-12

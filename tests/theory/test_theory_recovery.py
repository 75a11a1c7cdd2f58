"""FedFac's statistics of the generator's true parameters, from formulas written out here and seeds no study used."""

import warnings

import numpy as np
import pytest

import fedstat as fs
from theory_checks.fedsplit.printed_tables import printed


def _truth(p, alpha, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fs.data.relu_mixture(
            clients=100,
            d=100,
            units=200,
            shared_units=p,
            shared_inputs=alpha,
            samples=1,
            validation=0,
            test=1,
            seed=seed,
        ).truth


def _factors(r, kappa):
    share = np.cumsum(np.linalg.eigvalsh(r)[::-1]) / len(r)
    return 1 + int((share < kappa).sum())


def _communality(r, factors):
    """Principal-axis factoring in its plainest form."""
    nu = 1 - 1 / np.diag(np.linalg.inv(r))
    for _ in range(300):
        values, vectors = np.linalg.eigh(r - np.diag(1 - nu))
        before, nu = nu, np.minimum((vectors[:, -factors:] ** 2) @ np.maximum(values[-factors:], 0), 1)
        if np.abs(nu - before).max() < 1e-6:
            break
    return nu


def _auc(values, shared):
    return (values[shared][:, None] > values[~shared]).mean()


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
def test_the_true_split_is_recovered_for_a_range_of_kappa_and_reversed_below_it(p):
    found = {kappa: [] for kappa in (0.5, 0.75, 0.8, 0.85)}
    code = []
    for seed in range(300, 303):
        truth = _truth(p, 0.4, seed)
        shared = ~truth.personal_units
        r = np.corrcoef(truth.weights.transpose(0, 2, 1).reshape(-1, len(shared)), rowvar=False)
        for kappa, values in found.items():
            values.append(_auc(_communality(r, _factors(r, kappa)), shared))
        vectors = np.linalg.eigh(r)[1][:, -(_factors(r, 0.95) - 1) :]
        code.append(_auc((vectors**2).sum(axis=1), shared))
    means = {kappa: np.mean(values) for kappa, values in found.items()}
    assert means[0.5] < 0.5
    assert min(means[kappa] for kappa in (0.75, 0.8, 0.85)) > 0.95
    assert np.mean(code) < 0.05  # the authors' statistic at the largest kappa of the grid


def test_the_printed_tables_are_whole():
    assert [len(printed(n, "method", setting="CIFAR-10, Dirichlet 1")) for n in (2, 3, 7)] == [8, 9, 6]
    assert len(printed(4, "layer", setting="CIFAR-100, S = 5")) == 14
    assert len(printed(8, variant="random split")) == 8

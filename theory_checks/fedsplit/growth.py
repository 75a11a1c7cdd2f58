"""How what Theorem 1 prescribes grows with the number of samples, whatever the constants hidden in its O-terms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedstat.claims import Evidence, within
from fedstat.inference import mean_interval
from fedstat.ntk import extreme_eigenvalues, infinite_gram, personal_gram

_SIZES = (32, 64, 128, 256, 512)
_SEEDS = 30

#: Draws that many inputs.
Inputs = Callable[[np.random.Generator, int], np.ndarray]
#: Tells who holds each of so many samples, and does not change its mind about the first ones.
Deal = Callable[[int], np.ndarray]
#: A quantity made of the smallest eigenvalues of both kernels, the personal condition number, C and N.
Quantity = Callable[[float, float, float, int, int], float]


def on_a_sphere(rng: np.random.Generator, samples: int, dimension: int = 8) -> np.ndarray:
    """Draw unit inputs uniformly, in as many dimensions however many they are."""
    x = rng.normal(size=(samples, dimension))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def orthonormal(rng: np.random.Generator, samples: int) -> np.ndarray:
    """Return orthonormal inputs, as many dimensions as inputs; nothing is drawn."""
    return np.eye(samples)


def more_samples(n: int) -> np.ndarray:
    """Deal samples to four clients: the sample grows by more samples at each."""
    return np.arange(n) % 4


def more_clients(n: int) -> np.ndarray:
    """Deal eight samples to each client: the sample grows by more clients."""
    return np.arange(n) // 8


def exponent(quantity: Quantity, inputs: Inputs, deal: Deal, region: tuple[float, float], what: str) -> Evidence:
    """Estimate b where the quantity grows like N^b: the mean slope over samples, each extended from 32 to 512 inputs.

    A constant factor of the quantity moves all its logarithms alike and leaves the slope as it is.
    """
    slopes = []
    for seed in range(_SEEDS):
        x = inputs(np.random.default_rng(seed), _SIZES[-1])
        logs = []
        for n in _SIZES:
            owner = deal(n)
            shared, personal = infinite_gram(x[:n]), personal_gram(x[:n], owner)
            (low, _), (low_p, high_p) = extreme_eigenvalues(shared), extreme_eigenvalues(personal)
            logs.append(np.log(quantity(low, low_p, high_p / low_p, int(owner.max()) + 1, n)))
        slopes.append(round(float(np.polyfit(np.log(_SIZES), logs, 1)[0]), 9))  # the rounding of a slope of zero
    _, low, high = mean_interval(slopes)
    told = f"{what} like N to the power b for N from {_SIZES[0]} to {_SIZES[-1]}; b"
    return within(low, high, region, cases=_SEEDS, what=told)

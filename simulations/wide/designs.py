"""Designs whose smallest eigenvalue spans two decades: the rate at which networks learn, and their kernels on the way.

In every client two inputs lie at a small angle, on which the smallest eigenvalue of the round's kernel depends. Labels
lie along its bottom eigenvector and the network's first output is zero, so that the residual points where training is
slowest. A round is one local step, with gradients summed over a client's samples, as the theorem's update has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.ntk import extreme_eigenvalues, finite_gram, finite_personal_gram, infinite_gram, personal_gram
from fedstat.theory.convergence import convergence_factor

#: How often kernels are looked at along training.
_LOOKS = 10


@dataclass(frozen=True)
class Sample:
    """Inputs (N, d) on the unit sphere, who owns each, labels (N,), and what infinite width makes of them.

    Attributes
    ----------
    lowest : float
        The smallest eigenvalue of the round's kernel.
    eta : float
        The step, one over its largest eigenvalue.
    rounds : int
        Rounds after which the limit's squared residual is about exp(-2) of its start.
    bound : float
        The rate that Theorem 1 guarantees, minus the logarithm of its factor.
    """

    x: np.ndarray
    owner: np.ndarray
    y: np.ndarray
    lowest: float
    eta: float
    rounds: int
    bound: float


def draw(clients: int, samples: int, d: int, angle: float, seed: int) -> Sample:
    """Draw inputs of which two lie at `angle` (radians) at every client, with labels along the bottom eigenvector."""
    x = np.random.default_rng(seed).normal(size=(clients, samples, d))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    first, second = x[:, 0], x[:, 1]
    apart = second - (second * first).sum(axis=1, keepdims=True) * first
    x[:, 1] = math.cos(angle) * first + math.sin(angle) * apart / np.linalg.norm(apart, axis=1, keepdims=True)
    inputs, owner = x.reshape(-1, d), np.repeat(np.arange(clients), samples)
    shared, personal = infinite_gram(inputs), personal_gram(inputs, owner)
    kernel = shared / clients + personal
    lowest, largest = extreme_eigenvalues(kernel)
    eta = 1 / largest
    factor = convergence_factor(shared, personal, eta_g=1.0, eta_l=eta, local_steps=1, clients=clients)
    y = math.sqrt(len(inputs)) / 2 * np.linalg.eigh(kernel)[1][:, 0]
    return Sample(inputs, owner, y, lowest, eta, math.ceil(1 / (eta * lowest)), -math.log(factor))


def train(sample: Sample, width: int, seed: int) -> dict[str, float]:
    """Train one network; return its rate, minus the logarithm of the residual's share that is left, by round.

    Beside it stand the smallest eigenvalues of the round's kernel at the start and the least along training.
    """
    rng = np.random.default_rng(seed)
    x, owner, clients = sample.x, sample.owner, int(sample.owner.max()) + 1
    shape = (1 + clients, width // 2, x.shape[1])
    w = np.concatenate([half := rng.normal(size=shape), half], axis=1)  # the outputs of the two halves cancel
    signs = np.sign(rng.normal(size=shape[:2]))
    a = np.concatenate([signs, -signs], axis=1) / math.sqrt(width)
    members = [np.flatnonzero(owner == c) for c in range(clients)]
    seen = [np.arange(len(x)), *members]

    def outputs() -> np.ndarray:
        total = np.zeros(len(x))
        for part, rows in enumerate(seen):
            total[rows] += np.maximum(x[rows] @ w[part].T, 0) @ a[part]
        return total

    def lowest() -> float:
        return extreme_eigenvalues(finite_gram(x, w[0]) / clients + finite_personal_gram(x, owner, w[1:]))[0]

    residual = outputs() - sample.y
    start, kernels = residual @ residual, [lowest()]
    looks = {math.ceil(sample.rounds * k / _LOOKS) for k in range(1, _LOOKS + 1)}
    for t in range(1, sample.rounds + 1):
        for part, rows in enumerate(seen):
            active = (x[rows] @ w[part].T > 0) * residual[rows, None]
            w[part] -= sample.eta / (clients if part == 0 else 1) * a[part][:, None] * (active.T @ x[rows])
        residual = outputs() - sample.y
        if t in looks:
            kernels.append(lowest())
    rate = -math.log(residual @ residual / start) / sample.rounds
    return {"rate": rate, "kernel at the start": kernels[0], "least kernel": min(kernels)}


def design(
    clients: int, samples: int, d: int, angle: float, number: int, widths: tuple[int, ...], seeds: range
) -> Tables:
    """Return a row for each width and seed of one design."""
    sample = draw(clients, samples, d, angle, number)
    limit = -2 * math.log1p(-sample.eta * sample.lowest)
    keys = {"design": number, "angle": angle, "lowest": sample.lowest, "rounds": sample.rounds}
    keys |= {"limit": limit, "bound": sample.bound}
    rows = [{**keys, "width": m, "seed": seed, **train(sample, m, seed)} for m in widths for seed in seeds]
    return {"designs": pd.DataFrame(rows)}

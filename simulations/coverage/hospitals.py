"""Hospitals whose samples are split anew under every seed, drawn with learners that really train on the splits.

Clients are drawn from a population, each with one set of samples; every seed splits each set. Two learners train: one
on all clients' training samples, one on each client's own. What is to be covered is the mean difference of their test
values over new clients, new samples and new splits, which a separate drawing of many federations tells.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

#: Samples of a client, their dimension, and random features.
SAMPLES, DIMENSION, FEATURES = 40, 5, 3
#: The differences, in words.
LEARNERS = {
    "centroid": "accuracy, nearest centroid of all clients minus each one's own",
    "ridge": "squared error, ridge regression on all clients minus on each one's own",
    "random features": "the same, but the shared regression is on random features that each seed draws",
    "one client": "the same, but the shared regression is the first client's",
}
#: The intervals that are compared.
INTERVALS = {
    "over runs": "corrected t over runs",
    "crossed": "crossed effects, not corrected",
    "corrected": "crossed effects, corrected",
}
#: How far the clients' own parameters lie from the population's.
SPREADS = (0.0, 0.5)
_AT_ONCE = 100


def truth(rng: np.random.Generator, replicates: int, learners: str, spread: float, clients: int, test: int) -> float:
    """Return the mean difference over five times as many federations as intervals are tried on, one split of each."""
    drawn = federations(rng, 5 * replicates, learners, spread, 1, clients, test)
    return float(np.mean([d.mean() for d in drawn]))


def federations(
    rng: np.random.Generator, replicates: int, learners: str, spread: float, seeds: int, clients: int, test: int
) -> Iterator[np.ndarray]:
    """Yield differences of a hundred federations at once, shape (100, seeds, clients); `test` samples are for tests."""
    for _ in range(0, replicates, _AT_ONCE):
        x, y = _samples(rng, learners, spread, clients)
        values = []
        for _ in range(seeds):
            order = rng.permuted(np.broadcast_to(np.arange(SAMPLES), y.shape), axis=-1)
            xs = np.take_along_axis(x, order[..., None], axis=-2)
            ys = np.take_along_axis(y, order, axis=-1)
            split = (xs[..., test:, :], ys[..., test:], xs[..., :test, :], ys[..., :test])
            values.append(_centroid(*split) if learners == "centroid" else ridge(rng, learners, *split))
        yield np.stack(values, axis=1)


def _samples(rng: np.random.Generator, learners: str, spread: float, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs (100, K, n, d) and targets (100, K, n): two classes, or a linear regression with noise."""
    inputs = rng.standard_normal((_AT_ONCE, clients, SAMPLES, DIMENSION))
    own = (1 + spread * rng.standard_normal((_AT_ONCE, clients, 1, DIMENSION))) / np.sqrt(DIMENSION)
    if learners == "centroid":
        y = rng.choice([-1.0, 1.0], size=inputs.shape[:-1])
        return inputs + 0.7 * own * y[..., None], y
    return inputs, (inputs * own).sum(axis=-1) + rng.standard_normal(inputs.shape[:-1])


def _centroid(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    own = (x * y[..., None]).mean(axis=-2, keepdims=True)
    shared = own.mean(axis=1, keepdims=True)
    right = [((x_test * weights).sum(axis=-1) * y_test > 0).mean(axis=-1) for weights in (shared, own)]
    return np.asarray(right[0] - right[1])


def ridge(
    rng: np.random.Generator, learners: str, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray
) -> np.ndarray:
    """Return the squared error of ridge regression on shared samples minus that on each client's own."""
    seen, seen_test = x, x_test
    if learners == "random features":
        drawn = rng.standard_normal((len(x), 1, DIMENSION, FEATURES))
        seen, seen_test = np.tanh(x @ drawn), np.tanh(x_test @ drawn)
    whose = slice(1) if learners == "one client" else slice(None)
    gram, moment = _moments(seen[:, whose], y[:, whose])
    shared = _weights(gram.sum(axis=1, keepdims=True), moment.sum(axis=1, keepdims=True))
    errors = [
        ((inputs @ weights - y_test[..., None])[..., 0] ** 2).mean(axis=-1)
        for inputs, weights in ((seen_test, shared), (x_test, _weights(*_moments(x, y))))
    ]
    return np.asarray(errors[0] - errors[1])


def _moments(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    turned = np.swapaxes(x, -1, -2)
    return turned @ x, turned @ y[..., None]


def _weights(gram: np.ndarray, moment: np.ndarray) -> np.ndarray:
    return np.linalg.solve(gram + np.eye(gram.shape[-1]), moment)

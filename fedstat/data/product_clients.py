"""Draw clients that are a pair of numbers, a coefficient and an atom, from any joint law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedstat._random import stream

Law = Callable[[np.random.Generator, int], np.ndarray]


def product_clients(
    law: Law | tuple[np.ndarray, np.ndarray], *, clients: int, repeats: int = 1, seed: int = 0
) -> np.ndarray:
    """Draw independent clients (alpha, D) from one joint law, for the filter decomposition's aggregate.

    Parameters
    ----------
    law : callable, or pair of arrays
        A function of a generator and a count that returns pairs, shape (count, 2); or a finite law as its values,
        shape (k, 2), and their probabilities, shape (k,), as `fedstat.theory.product_average_moments` takes them.
    clients, repeats : int
        Number of clients, and how often that many are drawn.
    seed : int
        Seed; the draws are a pure function of it.

    Returns
    -------
    ndarray, shape (repeats, clients, 2)

    Raises
    ------
    ValueError
        If a count is below one, the probabilities do not make a law, or the function returns another shape.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> pairs = (np.array([[1.0, 1.0], [2.0, 0.5]]), np.array([0.5, 0.5]))
    >>> fs.data.product_clients(pairs, clients=3, repeats=2, seed=0).shape
    (2, 3, 2)
    """
    if min(clients, repeats) < 1:
        raise ValueError(f"clients and repeats must be at least 1, got {clients} and {repeats}.")
    rng, count = stream(seed, "data"), clients * repeats
    if callable(law):
        pairs = np.asarray(law(rng, count), dtype=float)
        if pairs.shape != (count, 2):
            raise ValueError(f"law must return pairs of shape ({count}, 2), got {pairs.shape}.")
    else:
        values, probabilities = (np.asarray(part, dtype=float) for part in law)
        if values.ndim != 2 or values.shape[1] != 2 or probabilities.shape != values.shape[:1]:
            raise ValueError(
                f"a finite law is values (k, 2) with probabilities (k,), got {values.shape} and {probabilities.shape}."
            )
        if (probabilities < 0).any() or abs(probabilities.sum() - 1) > 1e-9:
            raise ValueError(f"probabilities must not be negative and sum to one, got {probabilities.tolist()}.")
        pairs = values[rng.choice(len(values), size=count, p=probabilities)]
    return pairs.reshape(repeats, clients, 2)

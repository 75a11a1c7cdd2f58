"""Draw clients that are a coefficient and an atom, from any joint law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedstat._checks import array, whole
from fedstat._random import stream

Law = Callable[[np.random.Generator, int], np.ndarray]


def product_clients(
    law: Law | np.ndarray | tuple[np.ndarray, np.ndarray],
    *,
    clients: int,
    repeats: int = 1,
    seed: int | np.random.Generator = 0,
) -> np.ndarray:
    """Draw independent clients (alpha, D) from one joint law, for the filter decomposition's aggregates.

    A client is a row: its coefficient, and after it the entries of its atom, one or more.

    Parameters
    ----------
    law : array, pair of arrays, or callable
        Clients that are equally likely, shape (k, 1 + entries), such as trained ones; or such values with their
        probabilities, shape (k,), as `fedstat.theory.product_average_moments` takes them; or a function of a generator
        and a count that returns as many rows.
    clients, repeats : int
        Number of clients, and how often that many are drawn.
    seed : int or Generator
        Seed, of which the draws are a pure function; or a generator to draw from.

    Returns
    -------
    ndarray, shape (repeats, clients, 1 + entries)

    Raises
    ------
    ValueError
        If a count is below one, values are not finite, the probabilities do not make a law, or the function returns
        another shape.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> pairs = np.array([[1.0, 1.0], [2.0, 0.5]])
    >>> fs.data.product_clients(pairs, clients=3, repeats=2, seed=0).shape
    (2, 3, 2)
    """
    whole("clients", clients, 1)
    whole("repeats", repeats, 1)
    rng, count = seed if isinstance(seed, np.random.Generator) else stream(seed, "data"), clients * repeats
    if callable(law):
        rows = np.asarray(law(rng, count), dtype=float)
        if rows.ndim != 2 or len(rows) != count or rows.shape[1] < 2:
            raise ValueError(f"law must return rows of shape ({count}, 1 + entries), got {rows.shape}.")
    else:
        given, p = law if isinstance(law, tuple) else (law, None)
        values = np.asarray(given, dtype=float)
        if values.ndim != 2 or values.shape[1] < 2:
            raise ValueError(f"a finite law must have values of shape (k, 1 + entries), got {values.shape}.")
        array("law", values, values.shape)
        if p is not None:
            p = np.asarray(p, dtype=float)
            if p.shape != values.shape[:1] or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
                raise ValueError(
                    f"probabilities must be {len(values)}, not negative, and sum to one, got {p.tolist()}."
                )
        rows = values[rng.choice(len(values), size=count, p=p)]
    return array("law", rows, rows.shape).reshape(repeats, clients, -1)

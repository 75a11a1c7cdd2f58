"""The mean of a table of seeds and clients, both random."""

from __future__ import annotations

import numpy as np


def crossed_mean(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean over seeds and clients, its standard error and its degrees of freedom.

    Seeds and clients are crossed random effects: ``y_sk = mean + a_s + b_k + e_sk``. The variance of the mean comes
    from the mean squares of seeds, clients and their interaction, with negative components set to zero:
    ``max(MS_s + MS_k - MS_sk, MS_s, MS_k, MS_sk) / (S K)``; its degrees of freedom are Satterthwaite's. With positive
    components it is the restricted maximum likelihood estimate.

    Parameters
    ----------
    table : ndarray, shape (..., S >= 2, K >= 2)
        One value per seed and client, none missing.

    Returns
    -------
    mean, se, df : ndarray, shape (...,)
    """
    s, k = table.shape[-2:]
    mean = table.mean(axis=(-2, -1))
    by_seed, by_client = table.mean(axis=-1), table.mean(axis=-2)
    rest = table - by_seed[..., None] - by_client[..., None, :] + mean[..., None, None]
    seeds, clients = k * by_seed.var(axis=-1, ddof=1), s * by_client.var(axis=-1, ddof=1)
    both = (rest**2).sum(axis=(-2, -1)) / ((s - 1) * (k - 1))
    squares = np.stack([seeds, clients, both], axis=-1)
    # each row says which mean squares enter: all three, or one alone where components are negative
    uses = np.array([[1, 1, -1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    sums = squares @ uses.T
    used = squares * uses[sums.argmax(axis=-1)]
    total = used.sum(axis=-1)
    spread = np.where(total > 0, total, np.nan)
    df = spread**2 / (used**2 / np.array([s - 1, k - 1, (s - 1) * (k - 1)])).sum(axis=-1)
    return mean, np.sqrt(total / (s * k)), df

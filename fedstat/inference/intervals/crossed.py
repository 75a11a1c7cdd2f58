"""The mean of a table of seeds and clients, both random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: The rule by which a law averages over a variance leaves out this probability at either end.
_LEFT_OUT = 1e-7


@dataclass(frozen=True, eq=False)
class Law:
    """The law of an estimate's error: normal, with a standard deviation that is known by its own law alone.

    It is each of `sds`, shape (N,), with the probability that stands in `weights`.
    """

    sds: np.ndarray
    weights: np.ndarray

    def p(self, distance: float) -> float:
        """Return the probability that the error is at least this large, on either side."""
        from scipy.special import ndtr

        return float(2 * self.weights @ ndtr(-distance / self.sds))

    def half_width(self, alpha: float) -> float:
        """Return the distance whose `p` is alpha."""
        from scipy import optimize, special

        ends = np.log(-special.ndtri(alpha / 2) * np.array([0.999 * self.sds.min(), 1.001 * self.sds.max()]))
        return float(np.exp(optimize.brentq(lambda log: self.p(np.exp(log)) - alpha, *ends)))


def mean_squares(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean of seeds and clients, (..., S, K), the mean squares and their degrees of freedom.

    The squares are of seeds, of clients and of their interaction. With ``y_sk = mean + a_s + b_k + e_sk`` they estimate
    ``K var(a) + var(e)``, ``S var(b) + var(e)`` and ``var(e)``.
    """
    s, k = table.shape[-2:]
    mean = table.mean(axis=(-2, -1))
    by_seed, by_client = table.mean(axis=-1), table.mean(axis=-2)
    rest = table - by_seed[..., None] - by_client[..., None, :] + mean[..., None, None]
    seeds, clients = k * by_seed.var(axis=-1, ddof=1), s * by_client.var(axis=-1, ddof=1)
    both = (rest**2).sum(axis=(-2, -1)) / ((s - 1) * (k - 1))
    return mean, np.stack([seeds, clients, both], axis=-1), np.array([s - 1, k - 1, (s - 1) * (k - 1)])


def crossed_mean(table: np.ndarray, test_to_train: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean of a table as in `mean_squares`, its standard error and Satterthwaite's degrees of freedom.

    Seeds and clients are crossed random effects, whose negative components are set to zero. Where every seed splits the
    same samples anew, `test_to_train` corrects the seeds' part as `Design` says: what a client's own samples do to it
    is in the mean square of clients already, and what they do to all clients, through a shared model, shows from split
    to split in ``var(a)``.
    """
    s, k = table.shape[-2:]
    mean, squares, dfs = mean_squares(table)
    w = 1 + s * test_to_train
    # each row says how mean squares enter: with both components positive, one alone, or none
    uses = np.array([[w, 1, -w], [w, 0, 1 - w], [0, 1, 0], [0, 0, 1]])
    sums = squares @ uses.T
    used = squares * uses[sums.argmax(axis=-1)]
    total = used.sum(axis=-1)
    spread = np.where(total > 0, total, np.nan)
    return mean, np.sqrt(total / (s * k)), spread**2 / (used**2 / dfs).sum(axis=-1)


def crossed_law(table: np.ndarray, test_to_train: float = 0.0, *, new_client: bool = False) -> Law:
    """Return the law of the error of one table's mean, as in `crossed_mean`, from the fiducial laws of mean squares.

    It makes generalised intervals (Weerahandi 1993, JASA 88), which hold where seeds or clients are few.
    Satterthwaite's t fails there, the more the higher the level. With `new_client` it is the law of the distance from
    the table's mean to the mean over all seeds of a client that is not in the table.
    """
    s, k = table.shape
    _, squares, dfs = mean_squares(table)
    rules = [_chi_square_rule(df) for df in dfs]
    drawn = (square * df / nodes for square, df, (nodes, _) in zip(squares, dfs, rules, strict=True))
    seeds, clients, both = np.meshgrid(*drawn, indexing="ij", sparse=True)
    variance = (1 + s * test_to_train) * np.maximum(seeds - both, 0) + np.maximum(clients, both)
    if new_client:
        variance = variance + k * np.maximum(clients - both, 0)
    weights = np.einsum("a,b,c->abc", *(weights for _, weights in rules))
    return Law(np.sqrt(variance / (s * k)).ravel(), weights.ravel())


def _chi_square_rule(df: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the trapezoidal rule in the logarithm: the lower tail makes large variances.

    Quantiles of Student's t come out to three digits, from probabilities of 10% down to 0.01%.
    """
    from scipy.special import chdtri

    low, high = np.log(chdtri(df, [1 - _LEFT_OUT, _LEFT_OUT]))
    logs = np.linspace(low, high, 16 + 16 // df)
    density = (df * logs - np.exp(logs)) / 2
    weights = np.exp(density - density.max())
    return np.exp(logs), weights / weights.sum()

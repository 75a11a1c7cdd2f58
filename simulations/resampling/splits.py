"""Draw clients anew from one run, and see which units FedFac would share."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedstat._random import stream
from fedstat.factor import Moments, PrincipalAxis
from fedstat.factor.solver import AT_BOUND
from simulations.split.study import chance_corrected


@dataclass(frozen=True, eq=False)
class Splits:
    """How the choice of shared units varies over B draws of clients, for G contributions and Q quantiles.

    All of it is conditional on the run: every client has trained from the weights of this one run. By all clients:
    `n_factors` (G,), which resamples keep, `communalities` (G, units), NaN for units that do not vary, and `shared`
    (G, Q, units). Over resamples: the `probability` of being shared (G, Q, units), among those in which the unit
    varies; how often its communality stands at its bound 1, `at_bound` (G, units), and how often the cut does,
    `cut_at_bound` (G, Q). Where the cut stands there, all units at the bound tie and are shared.

    Cohen's kappa is NaN if one of two choices is all units, or none. `kappa` (G, Q, B) is that of a resample and of all
    clients. Its level by chance is above zero: on average 63% of the clients are in a resample, so that even choices by
    pure noise agree. `halves` (G, Q, B) is that of two random halves of the clients, whose level by chance is zero; but
    a half knows less than all. `rules` (Q, G, G) compares all clients' choices at two contributions. `unconverged` and
    `unidentified` (G,) count among the 1 + 3 B analyses.
    """

    n_factors: np.ndarray
    communalities: np.ndarray
    shared: np.ndarray
    probability: np.ndarray
    at_bound: np.ndarray
    cut_at_bound: np.ndarray
    kappa: np.ndarray
    halves: np.ndarray
    rules: np.ndarray
    unconverged: np.ndarray
    unidentified: np.ndarray


def resampled_splits(
    weights: np.ndarray, contributions: Sequence[float], quantiles: Sequence[float], resamples: int, seed: int = 0
) -> Splits:
    """Resample clients, (K, units, ...) stacked, and choose the shared units of every resample as FedFac does.

    A unit is shared if its communality reaches a quantile of all units' communalities; ties at the cut are shared.
    Clients are drawn with replacement, each with all its rows, and every resample is analysed anew with the number of
    factors that all clients gave. Given the weights from which they started, clients that take no part in each other's
    training are independent. At the bound 1 a bootstrap need not be consistent (Andrews 2000, Econometrica 68,
    399-405), so units that stand there are counted apart.
    """
    rng = stream(seed, "resampled clients")
    clients = [Moments.of(client.reshape(len(client), -1).T) for client in weights]
    everybody = pooled(clients, np.ones(len(clients)))
    chosen = [_choose(everybody, quantiles, c) for c in contributions]

    def again(counts: np.ndarray) -> list[_Choice]:
        moments = pooled(clients, counts)
        return [_choose(moments, quantiles, c, w.n_factors) for c, w in zip(contributions, chosen, strict=True)]

    resampled = [[again(counts) for counts in _draw(len(clients), rng)] for _ in range(resamples)]
    drawn, one_half, other_half = zip(*resampled, strict=True)

    shared = np.array([[s.shared for s in choices] for choices in drawn])
    h = np.array([[s.communalities for s in choices] for choices in drawn])
    seen = (~np.isnan(h)).sum(axis=0)
    with np.errstate(invalid="ignore"):  # 0 / 0 for a unit that varies in no resample
        probability, at_bound = shared.sum(axis=0) / seen[:, None], (h >= AT_BOUND).sum(axis=0) / seen
    every = [chosen, *drawn, *one_half, *other_half]
    return Splits(
        n_factors=np.array([s.n_factors for s in chosen]),
        communalities=np.array([s.communalities for s in chosen]),
        shared=np.array([s.shared for s in chosen]),
        probability=probability,
        at_bound=at_bound,
        cut_at_bound=np.mean([[s.cut >= AT_BOUND for s in choices] for choices in drawn], axis=0),
        kappa=np.stack([_kappa(chosen, choices) for choices in drawn], axis=-1),
        halves=np.stack([_kappa(one, other) for one, other in zip(one_half, other_half, strict=True)], axis=-1),
        rules=np.stack([_kappa([w] * len(chosen), chosen) for w in chosen]).transpose(2, 0, 1),
        unconverged=np.sum([[not s.converged for s in choices] for choices in every], axis=0),
        unidentified=np.sum([[not s.identified for s in choices] for choices in every], axis=0),
    )


def pooled(clients: Sequence[Moments], counts: np.ndarray) -> Moments:
    """Pool the moments of the rows of all clients, those of client k counted ``counts[k]`` times."""
    return functools.reduce(operator.add, (c * float(n) for c, n in zip(clients, counts, strict=True) if n > 0))


def spread(kappa: np.ndarray) -> np.ndarray:
    """Return mean and 2.5% and 97.5% percentiles over the last axis, as three rows; NaN are left out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice|All-NaN slice")
        return np.array([np.nanmean(kappa, axis=-1), *np.nanpercentile(kappa, [2.5, 97.5], axis=-1)])


@dataclass(frozen=True, eq=False)
class _Choice:
    """The units chosen by one analysis at every quantile; communalities are NaN for units that do not vary."""

    n_factors: int
    communalities: np.ndarray  # (units,)
    cut: np.ndarray  # (Q,)
    shared: np.ndarray  # (Q, units)
    converged: bool
    identified: bool


def _choose(moments: Moments, quantiles: Sequence[float], contribution: float, n_factors: int | None = None) -> _Choice:
    """Analyse units and choose the shared ones; `n_factors`, if given, replaces the number by the contribution.

    The analysis of all clients warns; warnings of resamples are only counted.
    """
    varies = moments.varies()
    h = np.full(len(varies), np.nan)
    if not varies.any():
        return _Choice(0, h, np.full(len(quantiles), np.nan), np.zeros((len(quantiles), len(h)), bool), True, True)
    fit = PrincipalAxis(n_factors and min(n_factors, int(varies.sum())), contribution=contribution)
    with warnings.catch_warnings():
        if n_factors is not None:
            warnings.simplefilter("ignore", UserWarning)
        h[varies] = fit.fit_moments(moments).communalities_[varies]
    cut = np.quantile(h[varies], quantiles)
    return _Choice(fit.n_factors_, h, cut, h >= cut[:, None], fit.converged_, fit.identified_)


def _draw(clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Draw how often every client is taken: with replacement, in a half, and in another half."""
    rank, half = rng.permutation(clients), clients // 2
    return [rng.multinomial(clients, np.full(clients, 1 / clients)), rank < half, (half <= rank) & (rank < 2 * half)]


def _kappa(first: Sequence[_Choice], second: Sequence[_Choice]) -> np.ndarray:
    """Return Cohen's kappa of two lists of choices, on units that vary in both; one row for each pair, shape (G, Q)."""
    kappa = np.full((len(first), len(first[0].cut)), np.nan)
    for g, (a, b) in enumerate(zip(first, second, strict=True)):
        both = ~np.isnan(a.communalities) & ~np.isnan(b.communalities)
        if both.any():
            kappa[g] = [chance_corrected(x[both], y[both])[1] for x, y in zip(a.shared, b.shared, strict=True)]
    return kappa

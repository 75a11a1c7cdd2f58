"""Tell whether other clients would choose the same shared units: clients are drawn anew, the run stays as it is."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedstat._checks import whole
from fedstat._random import stream
from fedstat.factor.moments import Moments
from fedstat.factor.recovery import chance_corrected
from fedstat.factor.solver import AT_BOUND

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class SplitStability:
    """How the choice of shared units varies over draws of clients, for G contributions and Q quantiles; ``print`` it.

    All of it is conditional on the run: clients are drawn anew, but every one of them has trained from the weights
    of this one run. Percentiles over resamples show a bootstrap's spread; they are no confidence limits over runs.

    Attributes
    ----------
    contributions, quantiles : tuple of float
        The grid.
    resamples : int
        B draws with replacement, and as many divisions into halves.
    n_factors : ndarray of int, shape (G,)
        Number of factors in the analysis of all clients, held fixed in the resamples.
    communalities : ndarray, shape (G, units)
        Communalities by all clients; NaN for units that do not vary, which are left out of the cut and of kappa.
    shared : ndarray of bool, shape (G, Q, units)
        True for the units that all clients together choose as shared.
    probability : ndarray, shape (G, Q, units)
        Share of the resamples in which a unit is shared, among those in which it varies; NaN if there are none. Its
        Monte-Carlo standard error is at most ``0.5 / sqrt(B)``.
    at_bound : ndarray, shape (G, units)
        Share of these resamples in which the unit's communality stands at its bound 1, to 1e-6 (a Heywood case).
    cut_at_bound : ndarray, shape (G, Q)
        Share of the resamples in which the cut stands at the bound as well: units at the bound tie, and all of them are
        shared.
    kappa : ndarray, shape (G, Q, B)
        Cohen's kappa between the choice by a resample and the choice by all clients. Its level by chance is above
        zero: on average 63% of the clients are in a resample, so even choices by pure noise agree with each other.
    halves : ndarray, shape (G, Q, B)
        Cohen's kappa between the choices by two random halves of the clients. These have no client in common and the
        level by chance is zero; but a half of the clients knows less than all of them.
    rules : ndarray, shape (Q, G, G)
        Cohen's kappa between the choices by all clients at two contributions and one quantile. (Choices at different
        quantiles differ in size, and kappa could not reach one.)
    unconverged, unidentified : ndarray of int, shape (G,)
        How many of the 1 + 3 B analyses did not converge, and how many had more factors than the data identify.

    A kappa is NaN if one of the two choices is all units, or none.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import split_stability
    >>> rng = np.random.default_rng(0)
    >>> factor, own = rng.normal(size=(10, 1, 20)), rng.normal(size=(10, 8, 20))
    >>> weights = own + 2 * factor * (np.arange(8) < 4)[:, None]
    >>> found = split_stability(weights, contributions=[0.4], quantiles=[0.5], resamples=50)
    >>> found.shared[0, 0]
    array([ True,  True,  True,  True, False, False, False, False])
    >>> found.probability[0, 0].round(2)
    array([1., 1., 1., 1., 0., 0., 0., 0.])
    """

    contributions: tuple[float, ...]
    quantiles: tuple[float, ...]
    resamples: int
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

    def plot(self, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
        """Draw each unit's probability of being shared, and kappa over the grid.

        The first panel is that of the middle contribution and quantile; open squares are units at the bound in more
        than half of the resamples. In the second bars reach from the 2.5% to the 97.5% percentile over resamples, and
        those of one quantile stand side by side.

        Parameters
        ----------
        axes : two Axes, optional
            Made anew if not given.

        Returns
        -------
        sequence of Axes

        Raises
        ------
        ValueError
            If `axes` are not two.
        """
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots(1, 2, figsize=(7.5, 2.8), layout="constrained", width_ratios=[3, 4])[1]
        if np.array(axes, dtype=object).shape != (2,):
            raise ValueError(f"axes must be two Axes, such as plt.subplots(1, 2)[1], got {axes!r}.")
        left, right = axes
        g, q = len(self.contributions) // 2, len(self.quantiles) // 2
        cut = np.nanquantile(self.communalities[g], self.quantiles[q])
        plot_units(left, self.communalities[g], self.probability[g, q], self.at_bound[g], float(cut))
        left.set_title(f"contribution {self.contributions[g]:g}, quantile {self.quantiles[q]:g}", fontsize="medium")
        left.legend(edgecolor="none", framealpha=1, fontsize="small")
        looks = ("-o", "--s", ":^", "-.D", "-v")
        order, at = np.argsort(self.quantiles), np.sort(self.quantiles)
        gap = np.diff(np.unique(at)).min(initial=0.25)
        step = gap / (3 * len(self.contributions) + 1)  # a quantile's bars stand side by side
        for i, contribution in enumerate(self.contributions):
            pairs = (("0", self.kappa[i], f"contribution {contribution:g}"), ("0.6", self.halves[i], None))
            for k, (colour, values, label) in enumerate(pairs):
                mean, low, high = spread(values[order])
                beside = at + step * (2 * i + k - len(self.contributions) + 0.5)
                right.vlines(beside, low, high, color=colour, lw=0.8)
                look = looks[i % len(looks)]
                right.plot(beside, mean, look, color=colour, mfc="white", ms=3, lw=0.8, label=label)
        right.axhline(0, color="0.6", lw=0.6, zorder=0)
        right.plot([], [], color="0.6", label="between two halves")
        right.vlines([], 0, 0, color="0", lw=0.8, label="bars: 2.5% to 97.5%")
        right.set(xlabel="quantile of the cut", ylabel="Cohen's kappa")
        right.set(xticks=at, xlim=(at[0] - gap / 2, at[-1] + gap / 2), ylim=(None, 1.05))
        right.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
        return axes

    def __str__(self) -> str:
        lines = [
            f"Cohen's kappa of which of {self.communalities.shape[1]} units are shared, mean (2.5% to 97.5%):",
            f"of {self.resamples} resamples of the clients with all of them, and of as many pairs of halves",
            f"{'contribution':>12}{'factors':>9}{'quantile':>10}{'resamples':>22}{'halves':>22}{'cut at bound':>14}",
        ]
        for g, contribution in enumerate(self.contributions):
            for q, quantile in enumerate(self.quantiles):
                kappas = "".join(
                    f"{mean:8.2f} ({low:5.2f} to{high:5.2f})"
                    for mean, low, high in (spread(self.kappa[g, q]), spread(self.halves[g, q]))
                )
                lines.append(
                    f"{contribution:12g}{self.n_factors[g]:9d}{quantile:10g}{kappas}{self.cut_at_bound[g, q]:13.0%}"
                )
        for what, counts in (("not identified", self.unidentified), ("not converged", self.unconverged)):
            if counts.any():
                each = ", ".join(
                    f"{n} at contribution {c:g}" for n, c in zip(counts, self.contributions, strict=True) if n
                )
                lines.append(f"{what}, of {1 + 3 * self.resamples} analyses each: {each}")
        return "\n".join(lines)


def split_stability(
    weights: np.ndarray,
    *,
    contributions: Sequence[float] = (0.75, 0.85, 0.95),
    quantiles: Sequence[float] = (0.25, 0.5, 0.75),
    resamples: int = 200,
    seed: int = 0,
) -> SplitStability:
    """Resample clients and see how FedFac's choice of shared units varies.

    As in FedFac, a unit is shared if its communality reaches a quantile of all units' communalities; ties at the cut
    are shared. Clients are drawn with replacement, each with all its rows, and every resample is analysed anew with
    the number of factors that all clients gave (at most the number of units that vary in the resample).

    Given the weights from which they started, clients that take no part in each other's training are independent.
    As far as they are also draws from one population, a resample agrees with the choice by all clients as that
    choice does with the one that infinitely many clients would make. At the bound 1 a bootstrap need not be consistent
    (Andrews 2000, Econometrica 68, 399-405), so units that stand there are reported separately.

    Parameters
    ----------
    weights : ndarray, shape (K, units, ...)
        Stacked weights or changes of K clients, at least two. Every client is reduced to its moments at once, a
        matrix (units, units) each.
    contributions : sequence of float
        Shares of the eigenvalues that the factors must reach (the papers' kappa), in (0, 1].
    quantiles : sequence of float
        Where the communalities are cut (the papers' tau), in [0, 1].
    resamples : int
        B. For each of them and every contribution three analyses are made: a draw with replacement, and two halves
        (K // 2 clients each, none twice).
    seed : int
        Decides the draws, which are the same for all contributions.

    Raises
    ------
    ValueError
        If `weights` has another shape, fewer than two clients, fewer than two units that vary, or entries that are
        not finite; if another argument is out of range.

    Examples
    --------
    Ten clients, and eight units with 20 inputs, of which the first four follow one factor:

    >>> import numpy as np
    >>> from fedstat.factor import split_stability
    >>> rng = np.random.default_rng(0)
    >>> factor, own = rng.normal(size=(10, 1, 20)), rng.normal(size=(10, 8, 20))
    >>> weights = own + 0.7 * factor * (np.arange(8) < 4)[:, None]
    >>> print(split_stability(weights, contributions=[0.25], quantiles=[0.5], resamples=50))
    Cohen's kappa of which of 8 units are shared, mean (2.5% to 97.5%):
    of 50 resamples of the clients with all of them, and of as many pairs of halves
    contribution  factors  quantile             resamples                halves  cut at bound
            0.25        2       0.5    0.64 ( 0.50 to 1.00)    0.41 ( 0.00 to 1.00)           0%
    """
    x = np.asarray(weights)
    if x.ndim < 3 or x.size == 0:
        raise ValueError(f"weights must have shape (K, units, ...) and not be empty, got {x.shape}.")
    if len(x) < 2:
        raise ValueError("weights must hold at least 2 clients, got 1, which cannot be resampled; stack all clients'.")
    if not np.isfinite(x).all():
        place = tuple(np.argwhere(~np.isfinite(x))[0].tolist())
        raise ValueError(f"weights must be finite; the entry at {place} is {x[place]}. Leave that client out.")
    if np.ndim(contributions) != 1 or len(contributions) == 0 or not all(0 < c <= 1 for c in contributions):
        raise ValueError(f"contributions must be a list of numbers in (0, 1], such as [0.85], got {contributions}.")
    if np.ndim(quantiles) != 1 or len(quantiles) == 0 or not all(0 <= q <= 1 for q in quantiles):
        raise ValueError(f"quantiles must be a list of numbers in [0, 1], such as [0.5], got {quantiles}.")
    whole("resamples", resamples, 1)

    rng = stream(seed, "resampled clients")
    clients = [Moments.of(client.reshape(len(client), -1).T) for client in x]
    everybody = pooled(clients, np.ones(len(clients)))
    if everybody.varies().sum() < 2:
        raise ValueError("weights must have at least 2 units that vary, or there is nothing to choose.")
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
    return SplitStability(
        contributions=tuple(contributions),
        quantiles=tuple(quantiles),
        resamples=resamples,
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


def plot_units(ax: Axes, communalities: np.ndarray, probability: np.ndarray, at_bound: np.ndarray, cut: float) -> Axes:
    """Draw units' probabilities of being shared over the ranks of their communalities.

    Open squares are units at the bound in more than half of the resamples. The dashed line is the cut of all clients.
    """
    order = np.argsort(communalities, kind="stable")[: (~np.isnan(communalities)).sum()]  # NaN come last
    rank, often = np.arange(1, len(order) + 1), at_bound[order] > 0.5
    for chosen, look, size, label in ((~often, "o", 2.5, "below the bound"), (often, "s", 3.5, "mostly at the bound")):
        if chosen.any():
            fill = "white" if look == "s" else "0.25"
            ax.plot(rank[chosen], probability[order[chosen]], look, color="0.25", mfc=fill, ms=size, label=label)
    below = (communalities < cut).sum()
    ax.axvline(below + 0.5, color="0.6", lw=0.6, ls="--", zorder=0, label="cut of all clients")
    ax.set(xlabel="unit, by communality", ylabel="probability of being shared", ylim=(-0.04, 1.04))
    return ax


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
    from fedstat.factor import PrincipalAxis

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

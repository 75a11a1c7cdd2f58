"""Bootstrap of loadings and communalities: rows are drawn anew, and the whole analysis is repeated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from time import monotonic

import numpy as np

from fedstat._checks import number, whole
from fedstat._progress import progress_bar
from fedstat._random import stream
from fedstat.factor.correlation import smoothed
from fedstat.factor.diagnostics import factor_names
from fedstat.factor.gaps import Missing, moments_with_gaps
from fedstat.factor.moments import Moments
from fedstat.factor.principal_axis import PrincipalAxis
from fedstat.factor.retention import ledermann_bound
from fedstat.factor.rotation import Rotation, arranged, rotate
from fedstat.factor.solver import AT_BOUND
from fedstat.factor.table import decimals, variable_names
from fedstat.factor.targets import congruence, match_factors, target_rotation

_LOST = 0.05  # share of the draws in which a column may be constant
_LONG = 2.0  # seconds from which on a bar is shown


@dataclass(frozen=True, eq=False)
class BootstrapInterval:
    """Estimates by all rows with what the bootstrap says of them; arrays of one shape.

    Attributes
    ----------
    estimate : ndarray
        By all rows.
    error : ndarray
        Standard deviation over draws.
    low, high : ndarray
        Limits of the interval.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import bootstrap_loadings
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 1)) + rng.normal(size=(200, 4))  # loadings of sqrt(1/2)
    >>> found = bootstrap_loadings(x, 1, draws=100).communalities  # the truth is 1/2
    >>> np.column_stack([found.low, found.estimate, found.high]).round(2)
    array([[0.38, 0.51, 0.62],
           [0.41, 0.52, 0.65],
           [0.39, 0.51, 0.67],
           [0.31, 0.47, 0.63]])
    """

    estimate: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class LoadingBootstrap:
    """Bootstrap of a factor analysis of p variables and m factors; ``print`` it for its table.

    Attributes
    ----------
    loadings : BootstrapInterval, shape (p, m)
        Of the loadings, rotated if that was asked for.
    communalities : BootstrapInterval, shape (p,)
        Of the communalities.
    correlations : BootstrapInterval, shape (m, m), or None
        Of the factors' correlations, after an oblique rotation.
    congruence : ndarray, shape (m,)
        Mean over draws of each factor's Tucker congruence with its estimate. Below 0.85 it is another factor in many
        draws, and the intervals of its loadings mean little.
    at_bound : ndarray, shape (p,)
        Share of the draws in which the communality stands at its bound 1 (a Heywood case).
    level : float
        Confidence of the intervals, each by itself.
    draws, lost, unconverged : int
        Number of draws used, of those left out since a column was constant in them, and of those used whose analysis
        did not converge.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import bootstrap_loadings
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 1)) + rng.normal(size=(200, 4))
    >>> found = bootstrap_loadings(x, 1, draws=100)
    >>> found.congruence.round(2), found.loadings.error[:, 0].round(2)
    (array([1.]), array([0.05, 0.04, 0.05, 0.06]))
    """

    loadings: BootstrapInterval
    communalities: BootstrapInterval
    correlations: BootstrapInterval | None
    congruence: np.ndarray
    at_bound: np.ndarray
    level: float
    draws: int
    lost: int
    unconverged: int

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the table for people, every estimate with its interval, of variables with these names."""
        import pandas as pd

        p, m = self.loadings.estimate.shape
        labels, factors = variable_names(names, p), factor_names(m)
        cells = np.column_stack([_cells(self.loadings), _cells(self.communalities)])
        lines = [
            f"Bootstrap of {self.draws} draws of the rows: estimates and {100 * self.level:g}% intervals, each alone",
            pd.DataFrame(cells, labels, [*factors, "h2"]).to_string(),
        ]
        if self.correlations is not None:
            correlations = pd.DataFrame(_cells(self.correlations), factors, factors)
            lines += ["", "Correlations of the factors", correlations.to_string(), ""]
        same = ", ".join(f"{factor} {c:.2f}" for factor, c in zip(factors, self.congruence, strict=True))
        lines.append(f"Congruence of the draws' factors with these, mean: {same}")
        often = [f"{labels[j]} in {self.at_bound[j]:.0%}" for j in np.flatnonzero(self.at_bound > 0.01)]
        if often:
            lines.append(f"Heywood cases in draws: {', '.join(often)}; intervals need not cover at the bound")
        if self.lost:
            lines.append(f"{self.lost} draws without correlations were left out (a column is constant, for one)")
        lines += [f"{self.unconverged} draws did not converge"] * (self.unconverged > 0)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def bootstrap_loadings(
    x: np.ndarray,
    n_factors: int,
    rotation: str | Callable[[np.ndarray], Rotation] | None = None,
    *,
    missing: Missing | None = None,
    correlation: Callable[[np.ndarray], np.ndarray] | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> LoadingBootstrap:
    """Draw rows anew and repeat the analysis: standard errors and intervals of loadings and communalities.

    Rows (persons) are drawn with replacement; the correlations of every draw are factored by `PrincipalAxis` and turned
    to the analysis of all rows, since factors are determined only up to a rotation, and after a rotation up to their
    order and signs. Left alone, that freedom would pass for uncertainty. Without `rotation` a draw is turned by the
    orthogonal Procrustes rotation, so the intervals are those of loadings up to rotation. With `rotation` a draw is
    turned, rotated by the same method from there, and its factors are matched by `match_factors`: the criterion fixes
    the position, and the uncertainty of the position stays in.

    Intervals are percentiles of the draws. Over 80 samples of normal rows, three factors of four variables each with
    loadings from 0.8 to 0.5, 95% intervals by 200 draws covered 93 to 94% of loadings and of communalities, at 200 and
    at 500 rows alike, unrotated, after varimax and after oblimin. Oblique rotations make factors' correlations too
    small, and those of draws once more, so that their percentiles are reflected at the estimate: where these factors
    correlated by 0.3 to 0.7 they covered 87 to 100% (percentiles left as they are 6 to 89%).

    Correlations that belong to no table (see `moments_with_gaps`) lose their negative eigenvalues, as by ``cor.smooth``
    of R's psych, in all rows and in draws.

    The rows must be independent. Those of a network's weights are not.

    Parameters
    ----------
    x : ndarray, shape (n, p)
        Rows and columns; n exceeds p, and every column varies.
    n_factors : int
        m, at most the `ledermann_bound`. It is held fixed: that it was chosen is not in the intervals.
    rotation : str or callable, optional
        A method of `rotate`, or a function of unrotated loadings that returns a `Rotation`.
    missing : {"pairwise", "likelihood"}, optional
        How gaps of `x` (NaN) are dealt with, see `moments_with_gaps`; without it `x` must have none.
    correlation : callable, optional
        A function of rows that returns their correlations, `polychoric` for one, in place of Pearson's; it deals with
        gaps itself. 25 columns of six steps and 2,800 rows take a second a draw.
    draws : int
        At least 50.
    level : float
        Confidence, in (0, 1).
    seed : int
        Decides the draws.

    Raises
    ------
    ValueError
        If `x` is no finite matrix with more rows than columns, or a column is constant, in all rows or in more than
        5% of the draws; if both `missing` and `correlation` are given, the factors are more than the columns identify,
        or another argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import bootstrap_loadings
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 1)) + rng.normal(size=(200, 4))  # all loadings are sqrt(1/2), or 0.71
    >>> print(bootstrap_loadings(x, 1, draws=200))
    Bootstrap of 200 draws of the rows: estimates and 95% intervals, each alone
                        PA1                   h2
    V1  0.71 (0.63 to 0.80)  0.51 (0.39 to 0.64)
    V2  0.72 (0.63 to 0.81)  0.52 (0.40 to 0.65)
    V3  0.72 (0.63 to 0.81)  0.51 (0.39 to 0.66)
    V4  0.69 (0.57 to 0.78)  0.47 (0.32 to 0.61)
    Congruence of the draws' factors with these, mean: PA1 1.00
    """
    if missing is not None and correlation is not None:
        raise ValueError(f"missing must be None where correlation deals with gaps, got {missing!r}.")
    x = np.asarray(x, dtype=np.float64)
    if correlation is None:
        moments = Moments.of(x) if missing is None else moments_with_gaps(x, missing)
        if not moments.varies().all():
            raise ValueError(
                f"x must vary in all columns, but column {np.argmin(moments.varies())} does not; leave it out."
            )
        r, z = moments.correlation(), (x - moments.mean) / np.sqrt(np.diag(moments.scatter) / moments.rows)
    else:
        r, z = correlation(x), x
    n, p = x.shape
    if n <= p:
        raise ValueError(f"x must have more rows than its {p} columns, got {n}; leave columns out.")
    most = ledermann_bound(p)
    if not isinstance(n_factors, Integral) or isinstance(n_factors, bool) or not 1 <= n_factors <= most:
        raise ValueError(
            f"n_factors must be a whole number from 1 to {most}, the Ledermann bound of {p} columns, got "
            f"{n_factors!r}: loadings of more factors have no one value to estimate."
        )
    draws, level = whole("draws", draws, 50), number("level", level, "(0, 1)")

    fit = PrincipalAxis(int(n_factors)).fit_correlation(smoothed(r)[0])
    estimate, turn = _turning(fit.loadings_, rotation)
    rng = stream(seed, "bootstrap of loadings")
    begun = monotonic()
    draw = partial(_draw, z, int(n_factors), rng, turn, missing, correlation)
    found = draw()
    long = (monotonic() - begun) * draws > _LONG
    with progress_bar("bootstrap", draws, None if long else False) as advance:
        advance()
        for _ in range(draws - 1):
            found += draw()
            advance()
    lost = draws - len(found)
    if lost > _LOST * draws:
        column = int(np.argmax([np.unique(values, return_counts=True)[1].max() for values in x.T]))
        gaps = "" if missing is None else ", or too few of its rows are complete"
        raise ValueError(
            f"x must vary in the draws, but in {lost} of {draws} a column is constant{gaps} (column {column} holds one "
            "value in most rows); leave it out."
        )
    rotations, communalities, converged = zip(*found, strict=True)
    phi = None
    if estimate.correlations is not None:
        phi = _interval(estimate.correlations, [rotation.correlations for rotation in rotations], level)
        low, high = np.clip(2 * phi.estimate - [phi.high, phi.low], -1, 1)
        phi = replace(phi, low=low, high=high)
    return LoadingBootstrap(
        _interval(estimate.loadings, [rotation.loadings for rotation in rotations], level),
        _interval(fit.communalities_, communalities, level),
        phi,
        np.mean([np.diag(congruence(rotation, estimate)) for rotation in rotations], axis=0),
        np.mean(np.array(communalities) >= AT_BOUND, axis=0),
        level,
        len(found),
        lost,
        converged.count(False),
    )


def _draw(
    z: np.ndarray,
    m: int,
    rng: np.random.Generator,
    turn: Callable[[np.ndarray], Rotation],
    missing: Missing | None,
    correlation: Callable[[np.ndarray], np.ndarray] | None,
) -> list[tuple[Rotation, np.ndarray, bool]]:
    """Draw rows of standardised data (raw for `correlation`); nothing if they have no correlations.

    Else return loadings turned to the estimate's, communalities, and whether the analysis converged.
    """
    n = len(z)
    counts = rng.multinomial(n, np.full(n, 1 / n))
    try:
        if correlation is not None:
            r = correlation(np.repeat(z, counts, axis=0))
        elif missing is not None:
            moments = moments_with_gaps(z, missing, weights=counts)
            if not moments.varies().all():
                return []
            r = moments.correlation()
        else:
            mean = counts @ z / n
            scatter = (z * counts[:, None]).T @ z - n * np.outer(mean, mean)
            variance = np.diag(scatter)
            if variance.min() <= 1e-10 * n:
                return []
            r = np.clip(scatter / np.sqrt(np.outer(variance, variance)), -1, 1)
    except ValueError:
        return []
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # counted instead
        fit = PrincipalAxis(m).fit_correlation(smoothed(r)[0])
    return [(turn(fit.loadings_), fit.communalities_, fit.converged_)]


def _turning(
    whole: np.ndarray, rotation: str | Callable[[np.ndarray], Rotation] | None
) -> tuple[Rotation, Callable[[np.ndarray], Rotation]]:
    """Return the rotated loadings of all rows, and the function that rotates a draw's and matches its factors."""
    if rotation is None:
        return Rotation(whole, np.eye(whole.shape[1]), None), lambda loadings: target_rotation(loadings, whole)
    rotated = (lambda loadings: rotate(loadings, rotation)) if isinstance(rotation, str) else rotation
    estimate = rotated(whole)

    def turn(loadings: np.ndarray) -> Rotation:
        near = target_rotation(loadings, estimate.loadings)
        again = rotated(near.loadings)
        match = match_factors(again.loadings, estimate.loadings)
        matched = arranged(again, match.order, match.signs)
        return replace(matched, rotation=near.rotation @ matched.rotation)

    return estimate, turn


def _interval(estimate: np.ndarray, draws: Sequence[np.ndarray | None], level: float) -> BootstrapInterval:
    values = np.array(draws, dtype=np.float64)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return BootstrapInterval(estimate, values.std(axis=0, ddof=1), low, high)


def _cells(interval: BootstrapInterval) -> np.ndarray:
    """Write every estimate with its interval."""
    write = np.vectorize(lambda e, low, high: f"{decimals(e)} ({decimals(low)} to {decimals(high)})", otypes=[object])
    return np.asarray(write(interval.estimate, interval.low, interval.high))

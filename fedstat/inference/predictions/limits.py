"""Intervals over patients, over runs, and over both, of values and of differences.

The variance of a mean over runs has two named parts, "patients" and "runs", as ``docs/predictions.md`` says. Splits by
class give each run as many patients of each class; what these numbers make shows in the influences of classes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedstat.inference.intervals.family import moments, satterthwaite

_HALVINGS = 60
#: Variances and their degrees of freedom.
Part = tuple[np.ndarray, np.ndarray]


def over_patients(
    influence: np.ndarray, client: np.ndarray, label: np.ndarray, by_class: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variance over patients, its degrees of freedom, and the part that the sizes of classes make.

    `influence` is (R, n), all that is returned (R,). Squares of deviations are summed within clients, with `by_class`
    within the classes of each, and then there is no third part. A patient alone in a stratum counts with the square of
    the influence itself. Degrees of freedom are Satterthwaite's over the classes of clients.
    """
    piece = client * (int(label.max()) + 1) + label
    order = np.argsort(piece, kind="stable")
    a, piece, client = influence[:, order], piece[order], client[order]
    stratum = piece if by_class else client
    starts, place, count = np.unique(stratum, return_index=True, return_inverse=True, return_counts=True)[1:]
    mean = np.where(count > 1, np.add.reduceat(a, starts, axis=1) / count, 0.0)
    squares = (a - mean[:, place]) ** 2 * np.where(count > 1, count / np.maximum(count - 1, 1), 1.0)[place]
    starts, size = np.unique(piece, return_index=True, return_counts=True)[1:]
    each = np.add.reduceat(squares, starts, axis=1).T
    apart = size * (np.add.reduceat(a, starts, axis=1) / size - mean[:, place[starts]]) ** 2
    between = np.zeros(len(a)) if by_class else np.where((count > 1)[place[starts]], apart, 0.0).sum(axis=1)
    return each.sum(axis=0), satterthwaite(each, np.maximum(size - 1.0, 1.0)[:, None]), between


@dataclass(frozen=True, eq=False)
class Parts:
    """Estimates with the parts of their variance; all arrays of one shape, NaN where there is none.

    `patients` and `runs` are variances with degrees of freedom `patients_df` and `runs_df`, which are NaN with one run.
    `fresh` is what share of all tests count, since patients are tested again.
    """

    estimate: np.ndarray
    patients: np.ndarray
    patients_df: np.ndarray
    runs: np.ndarray
    runs_df: np.ndarray
    fresh: np.ndarray

    def over(self, sources: str) -> tuple[Part, ...]:
        """Return the parts of the variance over "patients", "runs" or "both"."""
        every = {"patients": (self.patients, self.patients_df), "runs": (self.runs, self.runs_df)}
        return tuple(every.values()) if sources == "both" else (every[sources],)


def sum_of(parts: Sequence[Part]) -> np.ndarray:
    """Return the sums of the variances."""
    return np.sum([variance for variance, _ in parts], axis=0)


def critical(alpha: ArrayLike, parts: Sequence[Part]) -> np.ndarray:
    """Return two-sided critical values of errors over the root of `sum_of`: the parts' t, averaged by their variances.

    So Cochran and Cox (1950, Experimental Designs) have it. Satterthwaite's t errs too often where few runs vary as
    much as patients do, the more the smaller alpha is.
    """
    from scipy import stats

    total = sum_of(parts)
    found = stats.t.isf(np.asarray(alpha) / 2, parts[0][1])
    for variance, df in parts[1:]:
        share = variance / np.where(total == 0, 1.0, total)
        found = (1 - share) * found + share * stats.t.isf(np.asarray(alpha) / 2, df)
    return np.asarray(found)


def p_values(errors: np.ndarray, parts: Sequence[Part]) -> np.ndarray:
    """Return the levels at which errors over the root of `sum_of` are critical, zero below what floats can hold."""
    from scipy import stats
    from scipy.optimize import elementwise

    each = np.stack([np.maximum(2 * stats.t.sf(np.abs(errors), df), np.finfo(float).tiny) for _, df in parts])
    flat = [np.broadcast_to(of, errors.shape) for part in parts for of in part]

    def beyond(p: np.ndarray, error: np.ndarray, *flat: np.ndarray) -> np.ndarray:
        return critical(p, list(zip(flat[::2], flat[1::2], strict=True))) - error

    ends = (1 - 1e-9) * each.min(axis=0), (1 + 1e-9) * each.max(axis=0)
    found = elementwise.find_root(beyond, ends, args=(np.abs(errors), *flat)).x
    return np.where(np.isnan(found) & np.isfinite(errors), 0.0, found)


def parts(
    by_seed: np.ndarray, patients: np.ndarray, df: np.ndarray, between: np.ndarray, same: bool, again: float
) -> Parts:
    """Put the variances over patients and over runs together.

    `by_seed` (..., runs) is what each run reaches, `patients` and `df` are those of the mean over runs as if no patient
    were tested twice, and `between` is what of it splits by class keep from showing. Unless all runs test the `same`
    patients, the variance of the mean is ``(1 / S + again) s^2`` (Nadeau and Bengio 2003). A run tests the share ``f =
    again / (1 + again)`` of all patients, so that the variance over patients is ``1 - f + S f`` times what it were
    without; where there are validation samples, `f` is too large, and so is the variance.
    """
    estimate, spread, runs_df, n = moments(by_seed)
    known = np.maximum(n, 1)
    if same:
        runs, fresh = spread / known, np.ones_like(estimate)
    else:
        tested = again / (1 + again)
        fresh = 1 / (1 - tested + known * tested)
        patients = (patients - between) / fresh
        runs = np.maximum(spread * (1 / known + again) - patients, 0.0)
        patients = patients + between * known * tested
    return Parts(estimate, patients, df, runs, runs_df, fresh)


def value_limits(
    scale: str, found: Parts, over: str, level: float, n: np.ndarray, events: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return limits of values over "patients", "runs" or "both"; arguments broadcast.

    Proportions have Wilson's score interval, areas under the ROC curve Newcombe's (2006, Statistics in Medicine 25,
    method 5), both widened for the variance over runs; the area's also for DeLong's variance where that is larger than
    the one that Newcombe assumes. They stand where all patients are told apart as well. Other shares have t intervals
    on the logit scale, positive numbers on the logarithmic scale.
    """
    from scipy.special import expit, logit

    value, made = found.estimate, found.over(over)
    score = scale in ("proportion", "ranks") and over != "runs"
    n, events = n * found.fresh, events * found.fresh
    with np.errstate(divide="ignore", invalid="ignore"):
        if score:
            assumed = _assumed(scale, value, n, events)
            # as the score intervals have it: no correction of a sum of squares for its mean, and no t
            own = np.maximum(found.patients, assumed) if scale == "ranks" else found.patients * (n - 1) / n
            own = np.where(own > 0, own, assumed)  # clients that are all right or all wrong still vary
            made = ((own, np.full_like(own, np.inf)), *made[1:])
        variance, q = sum_of(made), critical(1 - level, made)
        if score:
            widened = np.where(variance == 0, 1.0, np.where(assumed > 0, variance / assumed, np.nan))
            ends = [_score(scale, value, q**2 * widened, n, events, end) for end in (0.0, 1.0)]
            return ends[0], ends[1]
        half = q * np.sqrt(np.where(variance > 0, variance, np.nan))
        if scale in ("share", "proportion", "ranks"):
            half = half / (value * (1 - value))
            return expit(logit(value) - half), expit(logit(value) + half)
        if scale == "positive":
            return value * np.exp(-half / value), value * np.exp(half / value)
    return value - half, value + half


def _assumed(scale: str, value: np.ndarray, n: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Return the variance that a score interval assumes at a value: binomial, or Newcombe's of an area."""
    spread = value * (1 - value)
    if scale == "proportion":
        return spread / n
    others = n - events
    half = n / 2 - 1
    return spread / (events * others) * (1 + half * (1 - value) / (2 - value) + half * value / (1 + value))


def _score(
    scale: str, value: np.ndarray, factor: np.ndarray, n: np.ndarray, events: np.ndarray, end: float
) -> np.ndarray:
    """Return where ``(value - x)^2 = factor * assumed(x)`` between a value and an end of [0, 1], by bisection."""
    inside, outside = value + 0 * factor, end + 0 * (value + factor)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        within = (value - middle) ** 2 <= factor * _assumed(scale, middle, n, events)
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return np.where(np.isnan(factor), np.nan, outside)

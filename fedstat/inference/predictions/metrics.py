"""Metrics of predictions, each with what every patient adds to it.

A metric takes outcomes ``y`` and predictions ``p`` of several runs on the same n patients. It returns its value in each
run, and the influence of each patient on it: the derivative by the patient's weight. For a mean that is the deviation
over n; for the area under the ROC curve it is made of DeLong's placement values. Sums of squares of these numbers are
variances over patients (the infinitesimal jackknife), of differences between methods as well. Average precision has the
jackknife and the coefficients of recalibration its one-step form instead, which keep their size where events are few.

References
----------
DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44, for the area under the curve. Pregibon (1981), Annals of
Statistics 9, for one-step deletion in logistic regression. Harrell, Lee and Mark (1996), Statistics in Medicine 15, for
concordance. Van Calster et al. (2019), BMC Medicine 17, for calibration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

#: What the outcomes of a table may be.
Kind = Literal["two classes", "classes", "numbers", "times"]
#: Values, shape (L,), and influences, shape (L, n).
Found = tuple[np.ndarray, np.ndarray]
_STEPS, _SETTLED = 50, 1e-9
#: Patients whose pairs with all others are compared at once.
_ROWS = 256


@dataclass(frozen=True)
class Metric:
    """A metric of predictions, and what kind of number it is.

    `of` takes outcomes, of shape (n,) or (n, 2) for times, predictions, (runs, n) or (runs, n, classes), and the
    threshold; a value that it returns is NaN where the metric is undefined. `kinds` are the tables that have the
    metric. The scale decides the interval; a proportion is a mean of zeros and ones. Each class must have `least`
    patients; 0 if classes do not matter. `by_class` says that the metric speaks of the classes given their sizes, so
    that patients vary within their class.
    """

    of: Callable[[np.ndarray, np.ndarray, float], Found]
    kinds: tuple[Kind, ...] = ("two classes",)
    scale: Literal["ranks", "share", "proportion", "positive", "real"] = "share"
    least: int = 0
    by_class: bool = False


def _mean(losses: np.ndarray) -> Found:
    value = losses.mean(axis=-1)
    return value, (losses - value[:, None]) / losses.shape[-1]


def _named(p: np.ndarray, threshold: float) -> np.ndarray:
    """Return the class that is named: of two the second from the threshold on, of more the most probable one."""
    return p.argmax(axis=-1) if p.ndim == 3 else (p >= threshold).astype(int)


def _accuracy(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    return _mean((_named(p, threshold) == y).astype(float))


def _squared_error(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    """Of several classes: summed over them, each an outcome of zeros and ones."""
    if p.ndim == 3:
        return _mean(((p - np.eye(p.shape[-1])[y]) ** 2).sum(axis=-1))
    return _mean((p - y) ** 2)


def _log_loss(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    of_outcome = p[:, np.arange(len(y)), y] if p.ndim == 3 else np.where(y == 1, p, 1 - p)
    return _mean(-np.log(np.maximum(of_outcome, np.finfo(float).eps)))


def _recall(y: np.ndarray, p: np.ndarray, threshold: float, of: int) -> Found:
    influence, there = np.zeros(p.shape[:2]), y == of
    value, influence[:, there] = _mean((_named(p, threshold)[:, there] == of).astype(float))
    return value, influence


def _balanced_accuracy(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    values, influences = zip(*(_recall(y, p, threshold, of) for of in np.unique(y)), strict=True)
    return np.mean(values, axis=0), np.mean(influences, axis=0)


def _auc(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    """Of several classes: each against the others, averaged equally over classes."""
    from scipy.stats import rankdata

    if p.ndim == 3:
        each = [_auc((y == of).astype(int), p[..., of], threshold) for of in range(p.shape[-1])]
        values, influences = zip(*each, strict=True)
        return np.mean(values, axis=0), np.mean(influences, axis=0)
    yes, ranks, influence = np.asarray(y == 1), rankdata(p, axis=-1), np.empty(p.shape)
    m, n = int(yes.sum()), int((~yes).sum())
    placed = (ranks[:, yes] - rankdata(p[:, yes], axis=-1)) / n
    others = 1 - (ranks[:, ~yes] - rankdata(p[:, ~yes], axis=-1)) / m
    value = placed.mean(axis=-1)
    influence[:, yes], influence[:, ~yes] = (placed - value[:, None]) / m, (others - value[:, None]) / n
    return value, influence


def _average_precision(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    """Have the jackknife, too: whoever is named with a patient changes the precision at all lower thresholds."""
    m, n, values, influences = y.sum(), len(y), [], []
    for scores in p:
        _, level = np.unique(-scores, return_inverse=True)  # 0 is the highest probability
        yes, every = np.bincount(level, y), np.bincount(level)
        hit, named = yes.cumsum(), every.cumsum()
        above = np.append(0, np.cumsum(yes * hit / named))
        fewer = np.maximum(named - 1, 1)
        rest = [np.cumsum((yes * of)[::-1])[::-1] for of in (hit / fewer, (hit - 1) / fewer)]
        value = above[-1] / m
        without = np.where(
            y == 1,
            (above[level] + rest[1][level] - ((hit - 1) / fewer)[level]) / (m - 1),
            (above[level] + rest[0][level]) / m,
        )
        values.append(value)
        influences.append((value - without) * (n - 1) / n)
    return np.array(values), np.array(influences)


def _expected_over_observed(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    value = p.sum(axis=-1) / y.sum()
    return value, (p - value[:, None] * y) / y.sum()


def _recalibrated(y: np.ndarray, p: np.ndarray, threshold: float, slope: bool) -> Found:
    """Fit ``logit P(y = 1) = a + b logit(p)`` by maximum likelihood: b, or with b = 1 (an offset) a.

    Where a probability is 0 or 1, all are equal, or they separate the outcomes, there is no such fit: NaN.
    """
    from scipy.special import expit, logit

    with np.errstate(divide="ignore"):
        x = logit(p)
    fits = np.asarray(np.isfinite(x).all(axis=-1))
    x = np.where(fits[:, None], x, 0.0)
    if slope:
        spread = x.std(axis=-1)
        low, high = ([np.where(y == of, x, sign * np.inf) for of in (0, 1)] for sign in (1, -1))
        apart = (low[1].min(-1) >= high[0].max(-1)) | (low[0].min(-1) >= high[1].max(-1))
        fits &= (spread > 1e-9) & ~apart
        scale = np.where(fits, spread, 1.0)
        design = np.stack([np.ones_like(x), (x - x.mean(axis=-1, keepdims=True)) / scale[:, None]], axis=-1)
        offset, last, start = np.zeros_like(x), scale, [logit(y.mean()), 0.0]
    else:
        design, offset, last, start = np.ones((*x.shape, 1)), x, np.ones(len(x)), [0.0]
    beta = np.tile(start, (len(x), 1))
    ridge = 1e-12 * np.eye(beta.shape[-1])  # of a run without a fit, whose result is not used
    for _ in range(_STEPS):
        fitted = expit(offset + np.einsum("lnk,lk->ln", design, beta))
        weight = fitted * (1 - fitted)
        inverse = np.linalg.inv(np.einsum("lnj,ln,lnk->ljk", design, weight, design) + ridge)
        step = np.einsum("ljk,lnk,ln->lj", inverse, design, y - fitted)
        length = np.abs(step).max(axis=-1, keepdims=True)
        step /= np.maximum(length, 1.0)  # steps of at most one, in units of the spread, do not overshoot
        beta += step
        if not (length[fits] > _SETTLED).any():
            break
    fits &= length[:, 0] <= _SETTLED
    toward = np.einsum("ljk,lnk->lnj", inverse, design)
    lever = weight * np.einsum("lnk,lnk->ln", toward, design)
    influence = toward[..., -1] * (y - fitted) / (1 - lever)
    value = np.where(fits, beta[:, -1] / last, np.nan)
    return value, influence / last[:, None]


def _concordance(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    """Count a pair if the one with the shorter time had the event; at equal times, if only one of them had it."""
    time, event = y[:, 0], y[:, 1] == 1
    agree, usable = np.zeros(p.shape), np.zeros(len(time))
    for start in range(0, len(time), _ROWS):
        rows = slice(start, start + _ROWS)
        first = (time[rows, None] < time) | ((time[rows, None] == time) & ~event)
        first &= event[rows, None]
        usable[rows] += first.sum(axis=1)
        usable += first.sum(axis=0)
        for of, risk in zip(agree, p, strict=True):
            won = first * (np.sign(risk[rows, None] - risk) + 1) / 2
            of[rows] += won.sum(axis=1)
            of += won.sum(axis=0)
    if not usable.any():
        return np.full(len(p), np.nan), np.zeros(p.shape)
    value = agree.sum(axis=-1) / usable.sum()
    return value, 2 * (agree - value[:, None] * usable) / usable.sum()


def _mae(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    return _mean(np.abs(p - y))


def _r2(y: np.ndarray, p: np.ndarray, threshold: float) -> Found:
    around = (y - y.mean()) ** 2
    if not around.sum() > 0:
        return np.full(len(p), np.nan), np.zeros(p.shape)
    left = ((p - y) ** 2).sum(axis=-1) / around.sum()
    return 1 - left, (left[:, None] * around - (p - y) ** 2) / around.sum()


_CLASSES: tuple[Kind, ...] = ("two classes", "classes")
METRICS: dict[str, Metric] = {
    "auc": Metric(_auc, _CLASSES, "ranks", least=2, by_class=True),
    "average_precision": Metric(_average_precision, least=2),
    "brier": Metric(_squared_error, _CLASSES, "positive"),
    "log_loss": Metric(_log_loss, _CLASSES, "positive"),
    "accuracy": Metric(_accuracy, _CLASSES, "proportion"),
    "balanced_accuracy": Metric(_balanced_accuracy, _CLASSES, least=2, by_class=True),
    "sensitivity": Metric(partial(_recall, of=1), scale="proportion", least=2, by_class=True),
    "specificity": Metric(partial(_recall, of=0), scale="proportion", least=2, by_class=True),
    "calibration_intercept": Metric(partial(_recalibrated, slope=False), scale="real", least=2),
    "calibration_slope": Metric(partial(_recalibrated, slope=True), scale="real", least=5),
    "expected_over_observed": Metric(_expected_over_observed, scale="positive", least=2),
    "concordance": Metric(_concordance, ("times",), least=2),
    "mse": Metric(_squared_error, ("numbers",), "positive"),
    "mae": Metric(_mae, ("numbers",), "positive"),
    "r2": Metric(_r2, ("numbers",), "real"),
}
#: Metrics of two classes that depend on the threshold.
CUT = ("accuracy", "balanced_accuracy", "sensitivity", "specificity")
#: Of metrics of which neither more nor less is better: the value of a model that is right on average.
IDEAL = {"calibration_intercept": 0.0, "calibration_slope": 1.0, "expected_over_observed": 1.0}


def largest(name: str, kind: Kind) -> float:
    """Return the largest value that a metric can have; no difference is larger, in either direction."""
    if name == "brier":
        return 1.0 if kind == "two classes" else 2.0
    return np.inf if METRICS[name].scale in ("positive", "real") else 1.0

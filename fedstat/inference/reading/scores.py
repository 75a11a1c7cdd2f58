"""What is compared: a number for each method, seed and client, with what it measures and where it is missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Metrics that lie between 0 and 1, of which a hundredth is called a point, and that some write in percent.
SHARES = (
    "accuracy", "balanced_accuracy", "auc", "f1", "macro_f1", "micro_f1", "precision", "recall", "majority_share",
    "calibration_error", "average_precision", "sensitivity", "specificity", "concordance",
)  # fmt: skip
#: Metrics of which less is better.
LOSSES = frozenset((
    "log_loss", "loss", "mse", "rmse", "mae", "calibration_error", "error", "perplexity", "cross_entropy", "brier",
    "ece", "err", "ppl", "nll", "wer", "fid", "mean_rank",
))  # fmt: skip
#: Metrics that are never negative; a loss of one's own may be, and a density's logarithm.
POSITIVE = LOSSES - {"loss", "nll"}
_GAINS = (frozenset(SHARES) | {"r2"}) - LOSSES - {"majority_share"}
SPLITS = ("test", "validation", "train")


def usual_split(splits: Collection[str]) -> str | None:
    """Return the split that is measured on where nobody says it: test samples, else validation, else training."""
    return next((one for one in SPLITS if one in splits), None)


def usual_metric(metrics: Sequence[str]) -> str | None:
    """Return the metric that is compared where nobody says it: accuracy, else mse, else the only one."""
    return next((one for one in ("accuracy", "mse") if one in metrics), metrics[0] if len(metrics) == 1 else None)


def better(metric: str) -> int:
    """Return 1 if more of a metric is better, -1 if less is, and 0 if that is not known."""
    return -1 if metric.lower() in LOSSES else int(metric.lower() in _GAINS)


def is_share(metric: str) -> bool:
    """Tell whether a metric is one of `SHARES`, in whatever case it is written."""
    return metric.lower() in SHARES


@dataclass(frozen=True, eq=False)
class Scores:
    """What methods reached under each seed at each client.

    Attributes
    ----------
    metric, split : str
        What was measured, on whose samples.
    methods : tuple of str, length M
        Labels, in the order of the runs.
    models : tuple of str, length M
        Which model of each method is measured: "personal", "global", "fine-tuned" and the like.
    seeds, clients : tuple, lengths S and K
        Those of any method; seeds are numbers, clients numbers or names.
    values : ndarray, shape (M, S, K)
        Means over the rounds that count; NaN where a method has no run, a client was not there, or a value is missing.
    there : ndarray of bool, shape (S, K)
        Which clients were there under each seed, for any method.
    ran : ndarray of bool, shape (M, S)
        Which methods ran under which seeds.
    samples : ndarray, shape (S, K), or None
        Samples of the split at each client, as far as they are known.
    rounds : ndarray of int, shape (T,)
        Evaluated rounds.
    curves : ndarray, shape (M, S, T)
        Means over clients after each evaluated round; NaN where there is none or a value is missing.
    averaged : tuple of int
        The rounds over which `values` average; empty where each run has its own, or there are no rounds.
    missing : mapping of str to str
        Methods of which values are missing, with their number in words.
    spent : ndarray, shape (M, S, T), or None
        The bytes that all clients had sent and received after each evaluated round, where that is known.
    smaller : bool
        Whether it is said that less of the metric is better.
    """

    metric: str
    split: str
    methods: tuple[str, ...]
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    clients: tuple[Any, ...]
    values: np.ndarray
    there: np.ndarray
    ran: np.ndarray
    samples: np.ndarray | None
    rounds: np.ndarray
    curves: np.ndarray
    averaged: tuple[int, ...]
    missing: Mapping[str, str]
    spent: np.ndarray | None = None
    smaller: bool = False

    @property
    def direction(self) -> int:
        """1 if more of the metric is better, -1 if less is, and 0 if that is not known."""
        return -1 if self.smaller else better(self.metric)

    @property
    def of_shares(self) -> bool:
        """Whether values are shares, between 0 and 1, and differences are told in points."""
        known = self.values[np.isfinite(self.values)]
        return is_share(self.metric) and bool(((known >= 0) & (known <= 1)).all())

    def aim(self, margin: float | None) -> float | None:
        """Return the difference that seeds are counted for: the margin, else a point of shares, else None."""
        return margin if margin is not None else 0.01 if self.of_shares else None

    def by_seed(self) -> np.ndarray:
        """Return the mean over clients for each method and seed, shape (M, S); NaN where a client is missing."""
        finite = np.isfinite(self.values)
        total = np.where(finite & self.there, self.values, 0).sum(axis=2)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = total / self.there.sum(axis=1)
        return np.where((self.there & ~finite).any(axis=2), np.nan, means)


def alone(scores: Scores) -> dict[str, int]:
    """Return methods that have a value under one seed only, with the seed, where others have more."""
    reached = np.isfinite(scores.by_seed())
    if (reached.sum(axis=1) > 1).sum() < 2:
        return {}
    return {
        label: scores.seeds[int(np.argmax(own))]
        for label, own in zip(scores.methods, reached, strict=True)
        if own.sum() == 1
    }


def size(value: float, scores: Scores, digits: int = 4) -> str:
    """Say how large a difference is, without its sign: in points where values are shares."""
    if not scores.of_shares:
        return f"{abs(value):.{digits}g}"
    points = f"{100 * abs(value):.{digits}g}"
    return f"{points} point{'s' * (points != '1')}"


def still_changing(scores: Scores) -> dict[str, str]:
    """Say of which methods, by label, the metric still changed within the rounds that are averaged, and by how much.

    The second half of these rounds is compared with the first, seed by seed: named is a change whose t interval
    excludes zero, at an error of 5% over all methods, or with one seed a straight line through four rounds or more with
    p < 0.001. Changes of a share by less than a twentieth of a point are not named.
    """
    from scipy import stats

    window = scores.curves[:, :, np.isin(scores.rounds, scores.averaged)]
    half = window.shape[2] // 2
    found: dict[str, str] = {}
    for label, curves in zip(scores.methods, window, strict=True):
        curves = curves[np.isfinite(curves).all(axis=1)]
        if half < 1 or not len(curves):
            continue
        changes = curves[:, -half:].mean(axis=1) - curves[:, :half].mean(axis=1)
        mean, rounding = float(changes.mean()), 1e-12 * float(np.abs(curves).max())
        if len(changes) > 1:
            t = stats.t.isf(0.025 / len(scores.methods), len(changes) - 1)
            sure = abs(mean) > max(t * changes.std(ddof=1) / np.sqrt(len(changes)), rounding)
        else:
            sure = curves.shape[1] >= 4 and stats.linregress(range(curves.shape[1]), curves[0]).pvalue < 0.001
        if sure and not (scores.of_shares and abs(mean) < 5e-4):
            found[label] = f"{'rose' if mean > 0 else 'fell'} by {size(mean, scores, 2)}"
    return found

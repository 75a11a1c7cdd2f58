"""Stop runs early: each method under each seed ends by itself, and keeps its best round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedstat._checks import check_fields
from fedstat.inference.reading.missing import complete_mean
from fedstat.inference.reading.scores import better


@dataclass(frozen=True)
class Patience:
    """End a run when a metric has not been better for some rounds, and keep its best round's models.

    Every run, one method under one seed, ends by itself. The metric is the mean over clients of the method's own models
    (its first estimand).
    The column ``kept`` of the history marks the round that is kept, and `fedstat.compare` reads that round; choosing it
    on the samples that it is then compared by would be optimistic, so that validation samples are the default.

    Parameters
    ----------
    metric : str
        The metric that decides, such as "log_loss" or one of the run's own metrics.
    rounds : int
        Number of rounds without a better one after which to end, at least 1.
    split : {"validation", "test", "train"}
        The samples on which the metric is measured.
    higher : bool, optional
        Whether more is better; by default as `fedstat.compare` knows it by the name, and true of others.

    Examples
    --------
    >>> import fedstat as fs
    >>> stop = fs.Patience("log_loss", rounds=10)  # fs.federate(..., stop=stop)
    >>> stop.best({1: 0.9, 2: 0.5, 3: 0.6})
    2
    >>> stop.is_over({1: 0.9, 2: 0.5, 11: 0.6}), stop.is_over({1: 0.9, 2: 0.5, 12: 0.6})
    (False, True)
    """

    metric: str
    rounds: int = 10
    split: str = "validation"
    higher: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self, rounds=1, split=("validation", "test", "train"))
        if not (isinstance(self.metric, str) and self.metric):
            raise ValueError(f"metric must be the name of a metric, got {self.metric!r}.")

    def best(self, values: Mapping[int, float]) -> int:
        """Return the first of the rounds with the best value; missing values are never best."""
        higher = better(self.metric) >= 0 if self.higher is None else self.higher
        ranked = {t: (value if higher else -value) if np.isfinite(value) else -np.inf for t, value in values.items()}
        return max(ranked, key=lambda t: (ranked[t], -t))

    def is_over(self, values: Mapping[int, float]) -> bool:
        """Tell whether the latest round is `rounds` or more after the best one."""
        return max(values) - self.best(values) >= self.rounds

    def value(self, table: pd.DataFrame) -> float:
        """Return the mean over clients of what one evaluation measured of a run; ValueError without the metric."""
        personal = table[table["estimand"] == table["estimand"].iloc[0]]
        rows = personal[personal["metric"] == self.metric]
        if not len(rows):
            known = ", ".join(personal["metric"].unique())
            raise ValueError(f"stop: metric must be one of {known}, got {self.metric!r}.")
        return float(complete_mean(rows, ["metric"]).iloc[0])

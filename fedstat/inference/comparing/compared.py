"""What a comparison of methods found, as data: tables and sentences, without their print and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from fedstat.inference.intervals.design import Design
from fedstat.inference.reading.scores import Scores


@dataclass(frozen=True, eq=False)
class Compared:
    """The fields of a `Comparison`, which says what each of them holds."""

    scores: Scores
    summary: pd.DataFrame
    differences: pd.DataFrame
    control: str | None
    level: float
    simultaneous: bool
    margin: float | None
    estimand: str
    conclusions: tuple[str, ...]
    notes: tuple[str, ...]
    generalises: str
    above: pd.DataFrame | None = None
    design: Design | None = None
    majority: Scores | None = None

    @property
    def aim(self) -> float | None:
        """The difference that seeds needed are counted for: the margin, or for shares a point; None without either."""
        return self.scores.aim(self.margin)

    @property
    def gaps(self) -> Mapping[str, str]:
        """The number of missing values in words, by method; methods without missing values are left out."""
        return self.scores.missing

"""Say how a run is going: a bar on a terminal, lines in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Literal

import numpy as np
import pandas as pd

from fedstat._progress import progress_bar
from fedstat.inference.reading.missing import complete_mean

#: What `fedstat.federate` is told about progress.
Shown = bool | Literal["lines"] | None

_ALL = 5  # methods that are named one by one
_QUIET = 10.0  # seconds that a run may take before it writes lines that nobody asked for
_PACE = 50  # lines of a long run are a fiftieth of its time apart


@contextmanager
def shown(first: int, rounds: int, progress: Shown) -> Iterator[Callable[..., None]]:
    """Yield what `fedstat._progress.progress_bar` yields, for rounds `first` + 1 to `rounds`."""
    if progress not in (True, False, None, "lines"):
        raise ValueError(f'progress must be True, False, None or "lines", got {progress!r}.')
    if progress == "lines" or (progress is None and not sys.stderr.isatty()):
        yield _Lines(first, rounds, _QUIET if progress is None else 0.0, perf_counter())
    else:
        with progress_bar("rounds", rounds - first, progress) as advance:
            yield advance


def announce(progress: Shown, *what: object) -> None:
    """Say what the rounds to come are of, where they are shown from the first one on."""
    if progress in (True, "lines") or (progress is None and sys.stderr.isatty()):
        print(*what, file=sys.stderr, flush=True)


@dataclass
class _Lines:
    """Writes a line to standard error after a round, unless another came shortly before."""

    first: int
    rounds: int
    wait: float
    begun: float
    played: int = 0
    last: float | None = None

    def __call__(self, note: Callable[[], str] = str, steps: int = 1) -> None:
        """Count so many rounds, and write a line if one is due."""
        self.played += steps
        gone = perf_counter() - self.begun
        if not steps or gone < self.wait:
            return
        due = self.last is None or gone - self.last >= max(1.0, self.wait, gone / _PACE)
        done = self.first + self.played
        if due or done == self.rounds:
            self.last = gone
            left = gone / self.played * (self.rounds - done)
            times = f"{timedelta(seconds=round(gone))} gone, about {timedelta(seconds=round(left))} left"
            print(f"round {done} of {self.rounds}: {note()}, {times}", file=sys.stderr, flush=True)


def in_brief(evaluated: Sequence[pd.DataFrame], round: int, clients: int, since: float) -> str:
    """Say in one line how the latest evaluation went, for every method: the mean over its clients, and over seeds.

    Each table holds one method under one seed, of which the first estimand counts; of many methods the best and the
    worst are named. `clients` is the number of clients trained since the moment `since` of the performance counter.
    """
    speed = f"{clients / (perf_counter() - since):.0f} clients/s"
    if not evaluated:
        return speed
    rows = pd.concat([table[table["estimand"] == table["estimand"].iloc[0]] for table in evaluated])
    split = rows["split"].iloc[0]
    rows = rows[rows["split"] == split]  # neither validation samples nor the common test set
    metric = next((name for name in ("accuracy", "mse") if name in set(rows["metric"])), rows["metric"].iloc[0])
    rows = rows[rows["metric"] == metric].astype({"method": str})
    means = complete_mean(rows, ["method"], sort=False)
    told = {str(label): "missing" if np.isnan(value) else f"{value:.4g}" for label, value in means.items()}
    if len(told) > _ALL:
        known = means.dropna().sort_values(ascending=metric != "accuracy")
        ends = {"best": known.index[0], "worst": known.index[-1]} if len(known) else {}
        gaps = [f"{len(means) - len(known)} missing"] * (len(known) < len(means))
        each = ", ".join([*(f"{end} {label} {told[str(label)]}" for end, label in ends.items()), *gaps])
        each += f" of {len(told)} methods"
    else:
        each = ", ".join(f"{label} {value}" for label, value in told.items())
    seeds = sorted({int(n) for n in rows.groupby("method")["seed"].nunique()})  # fewer once runs stop early
    over = f" (means over {' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds)" if seeds[-1] > 1 else ""
    at = int(rows["round"].iloc[0])
    after = f" after round {at}" if at != round else ""
    return f"{split} {metric}{after}: {each}{over}, {speed}"

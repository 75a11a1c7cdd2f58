"""What tuning leaves behind: the choice, every trial, the budget, and how optimistic the choice was."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from fedstat._in_words import counted
from fedstat.federated.client.local import Training
from fedstat.federated.method import Method
from fedstat.inference import PairedDifference, interval, mean_interval
from fedstat.inference.intervals.paired import spreads
from fedstat.inference.reading.scores import is_share
from fedstat.tuning.grid import assigned, shown

_NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Check:
    """The chosen values under seeds that tuning never saw.

    Attributes
    ----------
    chosen : str
        The trial that was chosen.
    runner_up : str or None
        The best of the other trials, of whatever step; None if all others diverged.
    by_test : str or None
        The trial that test samples would have chosen; None if tuning did not measure them.
    scores : DataFrame
        All that was measured under the fresh seeds, as in `Tuning.scores`.
    split : str
        The samples on which `fresh` is measured: of validation samples where every seed draws clients of its own; of
        test samples where all seeds have the same data, whose validation samples are those that the choice was made
        by.
    same_data : bool
        Whether all seeds have the same data.
    tuned : float
        The score that the choice was made by.
    fresh : tuple of float
        The chosen trial's mean over the fresh seeds, with limits.
    optimism : tuple of float
        By how much tuning made the choice look better than it is: `tuned` minus the mean of `fresh`, the other way
        round where less is better; with Welch's limits, since no seed of one side belongs to a seed of the other.
        Where the data are the same they speak of these data alone.
    difference : PairedDifference or None
        The chosen trial minus the runner-up under the fresh seeds, paired. None below two seeds.
    test_optimism : tuple of float or None
        As `optimism`, of the trial that test samples would have chosen: its test score under the tuning seeds minus
        that under the fresh ones.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> clients = fs.data.from_arrays(x, (x[:, 0] > 0) * 1, np.arange(200) % 5, validation=0.2)
    >>> tuning = fs.tune(
    ...     fs.FedAvg(), {"lr": [0.001, 0.3]}, fs.models.mlp(3, 8, 2), clients, fs.Training(lr=0.1),
    ...     rounds=3, seed=range(2), fresh=range(10, 12), last=1,
    ... )
    >>> tuning.check.chosen, tuning.check.runner_up, tuning.check.split
    ('lr=0.3', 'lr=0.001', 'test')
    """

    chosen: str
    runner_up: str | None
    by_test: str | None
    scores: pd.DataFrame
    split: str
    same_data: bool
    tuned: float
    fresh: tuple[float, float, float]
    optimism: tuple[float, float, float]
    difference: PairedDifference | None
    test_optimism: tuple[float, float, float] | None


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """Outcome of `fedstat.tune`; print it.

    Attributes
    ----------
    best : dict
        The chosen value of every parameter.
    method, training : Method, Training
        Made with them, ready for `fedstat.federate`.
    table : DataFrame
        Every trial of every step: step, what it chooses, the values, mean over the tuning seeds with limits, whether it
        was chosen, whether it ran in an earlier step, and its label. The limits are of each trial by itself, before any
        choice.
    scores : DataFrame
        All that was measured, tidy: trial, seed, split, metric, and the value, a mean over clients and the last rounds;
        of trials that diverged one row of NaN for each seed.
    budget : DataFrame
        What tuning and the check cost: trials, runs (one per seed), rounds; of runs that did not diverge also the
        clients' rounds, local epochs, local steps and samples by the training's settings, and the bytes that travelled.
        What a method trains before the first round is not counted.
    check : Check or None
        The choice under fresh seeds.
    steps : tuple of tuple of str
        The parameters in the order in which they were chosen.
    start : dict
        What parameters were held at before their step.
    ends : dict
        The chosen values that lie at an end of an ordered grid.
    grown : dict of tuple
        The values by which grids grew because the best was an end.
    growths : int
        How often the grid of a step could grow.
    metric : str
        What was chosen by.
    higher : bool
        Whether more of it is better.
    rounds, last : int
        Rounds of a trial, and how many of the last are averaged.
    seeds : tuple of int
        The tuning seeds.
    level : float
        Of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> clients = fs.data.from_arrays(x, (x[:, 0] > 0) * 1, np.arange(200) % 5, validation=0.2)
    >>> tuning = fs.tune(
    ...     fs.FedAvg(), {"lr": [0.001, 0.3]}, fs.models.mlp(3, 8, 2), clients, fs.Training(lr=0.1),
    ...     rounds=3, seed=range(2), fresh=range(10, 12), growths=0, last=1,
    ... )
    >>> tuning.best, tuning.training.lr, len(tuning.table)
    ({'lr': 0.3}, 0.3, 2)
    """

    best: dict[str, Any]
    method: Method
    training: Training
    table: pd.DataFrame
    scores: pd.DataFrame
    budget: pd.DataFrame
    check: Check | None
    steps: tuple[tuple[str, ...], ...]
    start: dict[str, Any]
    ends: dict[str, Any]
    grown: dict[str, tuple[Any, ...]]
    growths: int
    metric: str
    higher: bool
    rounds: int
    last: int
    seeds: tuple[int, ...]
    level: float

    @property
    def equal_budget(self) -> str:
        """What a method that is compared with this one may spend on its own tuning."""
        trials, runs = (int(self.budget.loc["tuning", name]) for name in ("trials", "runs"))
        seeds = ", ".join(map(str, self.seeds))
        under = f"seed {seeds}" if len(self.seeds) == 1 else f"the {len(self.seeds)} seeds {seeds}"
        return f"{counted(trials, 'trial')} under {under}, {counted(runs, 'run')} of {counted(self.rounds, 'round')}"

    def __repr__(self) -> str:
        return f"Tuning({assigned(self.best)}; {self.equal_budget})"

    def __str__(self) -> str:
        note = f"({100 * self.level:.4g}% limits over seeds, of each trial by itself)"
        table = self._shown().to_string(index=False)
        return "\n".join([*self._choice(), "", table, note, "", *self._cost(), *self._honesty()])

    def _repr_html_(self) -> str:
        told = [*self._choice(), *self._cost(), *self._honesty()]
        table = self._shown().to_html(index=False)
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in told) + table

    def _choice(self) -> list[str]:
        mean = float(self.table.loc[self.table["chosen"], "mean"].iloc[-1])
        order = " then ".join(" with ".join(step) for step in self.steps)
        told = [
            f"Chosen on validation samples: {assigned(self.best)}.",
            f"{self.metric} {mean:.4f}, mean over clients, the last {self.last} of {counted(self.rounds, 'round')} and "
            f"{counted(len(self.seeds), 'seed')}; {'more' if self.higher else 'less'} is better.",
        ]
        if len(self.steps) > 1:
            held = assigned({name: self.start[name] for step in self.steps[1:] for name in step})
            told.append(f"Order: {order}, the best of the earlier ones held; to begin with {held}.")
        last = self.table[self.table["step"] == self.table["step"].max()]
        if (ties := int((last["mean"] == mean).sum())) > 1:
            told.append(f"{ties} trials come to this value; the first of them was taken.")
        for name, values in self.grown.items():
            told.append(
                f"The best {name} was an end of its grid, which therefore grew, {counted(self.growths, 'time')} at "
                f"most, by {', '.join(map(shown, values))}."
            )
        for name, value in self.ends.items():
            told.append(f"{name}={shown(value)} is an end of its grid: a value beyond it may be better.")
        if lost := int(self.table["mean"].isna().sum()):
            told.append(
                f"Never chosen, because training diverged or outputs were no numbers: {lost} of the trials below."
            )
        return told

    def _shown(self) -> pd.DataFrame:
        """Return the table for readers."""
        rows = []
        for _, row in self.table.iterrows():
            limits = (row["mean"], row["low"], row["high"])
            rows.append(
                {"step": row["step"], **{name: shown(row[name]) for name in self.best},
                 self.metric: "diverged" if np.isnan(limits[0]) else _interval(limits),
                 "": ("chosen" if row["chosen"] else "") + (" (ran before)" if row["ran before"] else "")}
            )  # fmt: skip
        return pd.DataFrame(rows)

    def _cost(self) -> list[str]:
        spent = self.budget.loc["tuning"]
        told = f"Budget: {self.equal_budget}"
        if "local epochs" in spent:
            told += f", {spent['local epochs']:,} local epochs, {spent['local steps']:,} local steps"
        return [told + ". It is what a method that is compared with this one may spend on its tuning."]

    def _honesty(self) -> list[str]:
        check = self.check
        if check is None:
            return ["Optimism: not measured; give fresh= seeds that tuning does not use."]
        seeds = counted(check.scores["seed"].nunique(), "fresh seed")
        limits = "" if np.isnan(check.optimism[1]) else " (Welch's limits)"
        data = " The data are the same under all seeds, and the limits speak of these data alone." * check.same_data
        told = [
            f"Optimism: {_interval(check.optimism)}{limits}. The choice was made by {check.tuned:.4f} on validation "
            f"samples and comes to {_interval(check.fresh)} on {check.split} samples of {seeds}.{data}"
        ]
        if check.runner_up is not None and check.difference is not None:
            d = check.difference
            ahead = "ahead of" if (d.low > 0) == self.higher else "behind"
            word = "not resolved from" if not (d.low > 0 or d.high < 0) else ahead
            told.append(f"Under the fresh seeds it is {word} the runner-up, {check.runner_up}: difference {d}.")
        if check.test_optimism is not None:
            told.append(
                f"Test samples would have chosen {check.by_test}: optimism {_interval(check.test_optimism)} on them."
            )
        return told


class Tunings(dict[str, Tuning]):
    """Outcome of `fedstat.tune` for several arms: each one's `Tuning` by label; print it.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> clients = fs.data.from_arrays(x, (x[:, 0] > 0) * 1, np.arange(200) % 5, validation=0.2)
    >>> model = fs.models.mlp(3, 8, 2)
    >>> tuned = fs.tune(
    ...     {"one": fs.FedAvg(), "two": fs.FedAvg(fine_tune=1)}, {"lr": [0.001, 0.03, 0.1]}, model, clients,
    ...     fs.Training(lr=0.1), rounds=3, seed=range(2), growths=0, last=1,
    ... )
    >>> list(tuned), tuned.training["two"].lr == tuned["two"].best["lr"]
    (['one', 'two'], True)
    >>> result = fs.federate(tuned.method, model, clients, tuned.training, rounds=3, seed=range(10, 12))
    """

    @property
    def method(self) -> dict[str, Method]:
        """Every arm's method with the chosen values."""
        return {label: tuning.method for label, tuning in self.items()}

    @property
    def training(self) -> dict[str, Training]:
        """Every arm's local training with the chosen values."""
        return {label: tuning.training for label, tuning in self.items()}

    @property
    def sentence(self) -> str:
        """What was chosen, by how many trials, and whether all arms had as many."""
        one = next(iter(self.values()))
        trials = {label: int(tuning.budget.loc["tuning", "trials"]) for label, tuning in self.items()}
        told = []
        for label, tuning in self.items():
            chosen = ", ".join(f"{name} = {shown(value)}" for name, value in tuning.best.items())
            grown = [f"{name} grew by {', '.join(map(shown, values))}" for name, values in tuning.grown.items()]
            ends = [f"{' and '.join(tuning.ends)} at the end of the grid"] if tuning.ends else []
            told.append(f"{label} {chosen} ({'; '.join([f'one of {trials[label]} trials', *grown, *ends])})")
        unequal = "; methods had unequal budgets of trials" if len(set(trials.values())) > 1 else ""
        return (
            f"parameters were chosen by {one.metric} on validation samples, {counted(one.rounds, 'round')} under the "
            f"seed{'s' * (len(one.seeds) > 1)} {', '.join(map(str, one.seeds))}: {', '.join(told)}{unequal}"
        )

    def __repr__(self) -> str:
        return f"Tunings({', '.join(f'{label}: {tuning!r}' for label, tuning in self.items())})"

    def __str__(self) -> str:
        first = f"{self.sentence[0].upper()}{self.sentence[1:]}."
        return "\n\n".join([first, *(f"{label}\n\n{tuning}" for label, tuning in self.items())])

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{escape(label)}</h4>{tuning._repr_html_()}" for label, tuning in self.items())


def spread_of(values: pd.Series, metric: str, level: float) -> tuple[float, float, float]:
    """Return the mean over seeds and its limits; NaN where a value is missing, and limits without spread."""
    if len(values) > 1 and np.isfinite(values).all() and spreads(values.to_numpy()):
        return mean_interval(values, level, within=(0.0, 1.0) if is_share(metric) else (-np.inf, np.inf))
    return float(values.mean(skipna=False)), _NAN, _NAN


def excess(before: pd.Series, after: pd.Series, higher: bool, level: float) -> tuple[float, float, float]:
    """Return by how much values look better before than after, with Welch's limits.

    There are none below two values a side, and none without spread on either.
    """
    from statsmodels.stats.weightstats import CompareMeans

    sides = [side.to_numpy() for side in ((before, after) if higher else (after, before))]
    value = float(sides[0].mean() - sides[1].mean())
    if min(map(len, sides)) < 2 or not np.isfinite(value) or not any(map(spreads, sides)):
        return value, _NAN, _NAN
    low, high = CompareMeans.from_data(*sides).tconfint_diff(1 - level, usevar="unequal")
    return value, float(low), float(high)


def _interval(estimate: tuple[float, float, float]) -> str:
    return f"{estimate[0]:.4f} (limits unknown)" if np.isnan(estimate[1]) else interval(estimate, 4)

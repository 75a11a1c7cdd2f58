"""Choose a method's parameters on validation samples, count what that costs, and measure its optimism."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd

from fedstat._checks import whole
from fedstat._digest import digest
from fedstat.data import Clients
from fedstat.federated.client.local import Training
from fedstat.federated.client.network import Model
from fedstat.federated.engine.executor import Executor, ExecutorName
from fedstat.federated.federate import federate, observed
from fedstat.federated.metrics import LESS_IS_BETTER, Metric, choose_metrics
from fedstat.federated.plan import Population, choose_sources, make_plan, seeds_of, takes_two
from fedstat.federated.record.progress import Shown
from fedstat.federated.record.result import Result, load
from fedstat.federated.record.run_folder import sole_writer
from fedstat.inference import primary_summary
from fedstat.inference.levels import check_level
from fedstat.tuning.grid import Grid, Maker, Trial
from fedstat.tuning.outcome import Check, Tuning, spread_of


class How(TypedDict, total=False):
    """The arguments of `fedstat.federate` that tuning hands on."""

    participation: float
    metrics: Mapping[str, Metric] | Iterable[str]
    chunk: int | None
    dtype: str
    device: str
    executor: ExecutorName | Executor
    checkpoint: int | None
    progress: Shown


def tune(
    method: Maker,
    grid: Mapping[str, Iterable[Any]],
    model: Model,
    clients: Population,
    training: Training,
    *,
    rounds: int,
    seed: int | Iterable[int],
    order: Sequence[str | Sequence[str]] | None = None,
    start: Mapping[str, Any] | None = None,
    metric: str = "accuracy",
    higher: bool | None = None,
    last: int = 10,
    fresh: int | Iterable[int] | None = None,
    also_test: bool = False,
    level: float = 0.95,
    folder: str | Path | None = None,
    **how: Unpack[How],
) -> Tuning:
    """Choose a method's parameters on validation samples, all at once or one after the other.

    What is chosen by is the primary summary: the mean over clients, the last rounds and the seeds, of the model that
    `fedstat.compare` takes. Test samples are taken away before a trial starts. All trials share what the seeds decide,
    so that they are paired; those of a step that train alike run as one call.

    Parameters
    ----------
    method : class, callable or Method
        What makes the method: ``fs.FedFac``, ``partial(fs.FedFac, dynamic=True)``, a function with parameters by name,
        or a method of which some values change.
    grid : mapping of str to sequence
        The values of each parameter, two at least, in the order in which the first of equals is taken. A name means the
        method's parameter, or else a field of `training` such as ``"lr"``; where both have it, it must be written
        ``"method.NAME"`` or ``"training.NAME"``.
    model, clients, training
        As `fedstat.federate` takes them. The clients must hold validation samples.
    rounds : int
        Communication rounds of every trial.
    seed : int or iterable of int
        The seeds of tuning.
    order : sequence of str, or of sequences of str, optional
        Which parameters are chosen one after the other, with the best of the earlier ones held, such as
        ``("layers", "tau", "kappa")``; parameters that a step names together are chosen together. By default all are:
        the full grid.
    start : mapping, optional
        What parameters are held at before their step. By default the value that the method or the training has, in the
        grid or not; without one the first of the grid.
    metric : str
        What is chosen by: a standard metric, or one of `metrics`.
    higher : bool, optional
        Whether more is better; by default as is known of built-in metrics, and true of others.
    last : int
        How many of the last rounds are averaged, and evaluated.
    fresh : int or iterable of int, optional
        Seeds, none of them in `seed`, under which the chosen values and the runner-up run once more: the choice is
        then judged by numbers that it was not made by.
    also_test : bool
        Measure trials on test samples as well, in rows of the split ``test`` of `Tuning.scores`, and run those values
        under the fresh seeds that the test samples would have chosen. The choice does not look at them; it is for
        studies of what tuning on test samples would do.
    level : float
        Of the intervals.
    folder : path, optional
        Keep every finished call there, and checkpoints of the running one: the same call again continues and comes to
        the same numbers.
    **how
        Arguments of `fedstat.federate`: participation, metrics, chunk, dtype, device, executor, checkpoint, progress.

    Returns
    -------
    Tuning
        Print it: the choice, every trial, the budget, and the optimism.

    Raises
    ------
    ValueError
        For a parameter that neither the method nor the training has, a grid without a choice, an order that misses a
        parameter, clients without validation samples, or fresh seeds that tuning used; and as `fedstat.federate`.
    FloatingPointError
        If training diverges at every value of a step. A trial that diverges under some seed is never chosen.

    Examples
    --------
    >>> import numpy as np, fedstat as fs
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = (x[:, 0] > 0).astype(int)
    >>> clients = fs.data.from_arrays(x, y, np.arange(200) % 5, test=0.2, validation=0.2)
    >>> tuning = fs.tune(
    ...     fs.FedAvg(), {"lr": [0.001, 0.1, 0.3]}, fs.models.mlp(3, 8, 2), clients, fs.Training(lr=0.1),
    ...     rounds=5, seed=range(3), fresh=range(10, 14), last=2,
    ... )
    >>> tuning.best["lr"] > 0.001
    True
    """
    if unknown := sorted(set(how) - set(How.__annotations__)):
        raise TypeError(f"tune has no argument {unknown[0]!r}; it hands on {', '.join(How.__annotations__)}.")
    rounds, last, level = whole("rounds", rounds, 1), whole("last", last, 1), check_level(level)
    seeds, new = seeds_of(seed), [] if fresh is None else seeds_of(fresh)
    if both := sorted(set(seeds) & set(new)):
        raise ValueError(f"fresh holds the seed {both[0]}, which tuning uses; take seeds that it has not seen.")
    choices = Grid.of(method, training, grid, order, start)
    more = metric not in LESS_IS_BETTER if higher is None else bool(higher)
    place = None if folder is None else Path(folder)
    bench = _Bench(model, clients, rounds, min(last, rounds), metric, also_test, place, how)
    scores, steps, held = _search(choices, bench, seeds, more)
    best = choices.trial(held)
    table = pd.concat(
        [_tabulated(scores, step, s + 1, metric, level) for s, step in enumerate(steps)], ignore_index=True
    )
    check = _checked(bench, scores, best, new, more, level) if new else None
    return Tuning(
        best=held, method=best.method, training=best.training, table=table, scores=bench.measured(fresh=False),
        budget=bench.budget(), check=check, steps=choices.steps, start=dict(choices.start), ends=choices.ends(held),
        metric=metric, higher=more, rounds=rounds, last=bench.last, seeds=tuple(seeds), level=level,
    )  # fmt: skip


class _Scores:
    """What trials came to, by label, in the order in which they first ran."""

    def __init__(self) -> None:
        self.trials: dict[str, Trial] = {}
        self.values: dict[str, pd.DataFrame] = {}  # seed by split

    def mean(self, label: str, split: str = "validation") -> float:
        """Mean over seeds; NaN if training diverged under any."""
        return float(self.values[label][split].mean(skipna=False))

    def best(self, labels: Iterable[str], higher: bool, split: str = "validation") -> str | None:
        """Return the first of the best; None if all diverged."""
        ranked = {one: (1 if higher else -1) * self.mean(one, split) for one in labels}
        known = {one: value for one, value in ranked.items() if np.isfinite(value)}
        return max(known, key=lambda one: known[one]) if known else None


@dataclass(frozen=True)
class _Step:
    """What a step tried: labels in the order of the grid, those that ran before, and the choice."""

    labels: tuple[str, ...]
    before: frozenset[str]
    chosen: str
    names: tuple[str, ...]


@dataclass(eq=False)
class _Bench:
    """The means to run trials, and the count of what they cost."""

    model: Model
    clients: Population
    rounds: int
    last: int
    metric: str
    also_test: bool
    folder: Path | None
    how: How
    counts: list[dict[str, Any]] = field(default_factory=list)
    scores: list[pd.DataFrame] = field(default_factory=list)

    def run(self, name: str, trials: Sequence[Trial], seeds: Sequence[int], *, fresh: bool) -> dict[str, pd.DataFrame]:
        """Run trials, those of equal training together; return their scores by label: seed by split, NaN if lost."""
        groups: dict[str, list[Trial]] = {}
        for trial in trials:
            groups.setdefault(digest(trial.training), []).append(trial)
        found: dict[str, pd.DataFrame] = {}
        for g, group in enumerate(groups.values()):
            here = name if len(groups) == 1 else f"{name}.{g + 1}"
            try:
                found |= self._together(here, group, seeds, fresh)
            except FloatingPointError:
                for k, trial in enumerate(group):  # one by one, so that none loses by another's divergence
                    found |= self._alone(f"{here}, alone {k + 1}", trial, seeds, fresh)
        return {trial.label: found[trial.label] for trial in trials}

    def _alone(self, name: str, trial: Trial, seeds: Sequence[int], fresh: bool) -> dict[str, pd.DataFrame]:
        try:
            return self._together(name, [trial], seeds, fresh)
        except FloatingPointError:
            self._count(trial, seeds, fresh, None)
            lost = pd.DataFrame(np.nan, index=pd.Index(list(seeds), name="seed"), columns=[trial.label])
            splits = self._splits(fresh)
            self.scores += [_tidy(lost, split, self.metric, fresh) for split in splits]
            return {trial.label: pd.DataFrame({split: lost[trial.label] for split in splits})}

    def _together(
        self, name: str, trials: Sequence[Trial], seeds: Sequence[int], fresh: bool
    ) -> dict[str, pd.DataFrame]:
        both = fresh or self.also_test
        arguments: dict[str, Any] = {
            "method": {trial.label: trial.method for trial in trials},
            "model": self.model,
            "clients": _held_back(self.clients, test=both),
            "training": trials[0].training,
            "seed": list(seeds),
            **self.how,
        }
        result = self._federated(None if self.folder is None else self.folder / name, arguments, fresh)
        for trial in trials:
            self._count(trial, seeds, fresh, result)
        summaries = {}
        own = result.history.groupby("method", observed=True)["estimand"].first().to_dict()
        for split in dict.fromkeys(one for one in result.history["split"] if one in self._splits(fresh)):
            of_split = result.history[result.history["split"] == split]
            for metric in dict.fromkeys([self.metric, *of_split["metric"]]):
                table = primary_summary(result.history, metric, last=self.last, split=split, estimand=own)
                self.scores.append(_tidy(table, split, metric, fresh))
                if metric == self.metric:
                    summaries[split] = table
        return {t.label: pd.DataFrame({split: table[t.label] for split, table in summaries.items()}) for t in trials}

    def _splits(self, fresh: bool) -> tuple[str, ...]:
        return ("validation", "test") if fresh or self.also_test else ("validation",)

    def _federated(self, place: Path | None, arguments: dict[str, Any], fresh: bool) -> Result:
        """Run, continue what was interrupted, or read what is finished."""
        how = {**arguments, "rounds": self.rounds, "evaluate_at": range(self.rounds - self.last + 1, self.rounds + 1)}
        validate = (fresh or self.also_test) and _has_test(arguments["clients"], arguments["seed"][0])
        if place is None:
            return federate(**how, validate=validate)
        place.parent.mkdir(parents=True, exist_ok=True)
        with sole_writer(place):  # it puts back what a killed writer moved
            there = (place / "config.toml").exists()
        if not there:
            return federate(**how, validate=validate, folder=place)
        saved = load(place, self.model, arguments["method"], arguments["training"])
        try:
            saved.check_same(_config(arguments, validate))
        except ValueError as error:
            raise ValueError(f"{place} holds other trials ({error}); choose another folder.") from error
        if saved.config["rounds"] < self.rounds:
            return federate(**how, validate=validate, folder=place, resume=saved)
        if saved.config["rounds"] > self.rounds:
            raise ValueError(f"{place} holds {saved.config['rounds']} rounds, more than {self.rounds}; choose another.")
        return saved

    def _count(self, trial: Trial, seeds: Sequence[int], fresh: bool, result: Result | None) -> None:
        """Count a trial; of one that diverged the runs and rounds that it was given."""
        row = {"fresh": fresh, "trials": 1, "runs": len(seeds), "rounds": self.rounds * len(seeds)}
        self.counts.append(row | ({} if result is None else _work(result, trial)))

    def measured(self, *, fresh: bool) -> pd.DataFrame:
        """Return all that was measured of the trials, or of the check: trial, seed, split, metric, value."""
        rows = pd.concat(self.scores, ignore_index=True)
        columns = ["trial", "seed", "split", "metric", "value"]
        return rows.loc[rows["fresh"] == fresh, columns].reset_index(drop=True)

    def budget(self) -> pd.DataFrame:
        """Sum the counts, of tuning and of the check."""
        counts = pd.DataFrame(self.counts).groupby("fresh").sum().astype(np.int64)
        return counts.rename(index={False: "tuning", True: "check on fresh seeds"}).rename_axis(None)


def _tidy(table: pd.DataFrame, split: str, metric: str, fresh: bool) -> pd.DataFrame:
    """Turn a table of seeds by trials into rows."""
    rows = table.rename_axis(index="seed", columns="trial").T.stack(future_stack=True).rename("value").reset_index()
    return rows.assign(split=split, metric=metric, fresh=fresh)


def _work(result: Result, trial: Trial) -> dict[str, int]:
    """Count what the participants of a trial did by its training's settings, and what travelled."""
    traffic = result.traffic[result.traffic["method"] == trial.label]
    took_part = traffic[traffic["round"] > 0].merge(result.clients[["seed", "client", "train"]], on=["seed", "client"])
    n, epochs = took_part["train"].to_numpy(), np.asarray(trial.training.local_epochs)
    epochs = epochs[took_part["client"].to_numpy()] if epochs.ndim else np.full(len(n), int(epochs))
    return {
        "client rounds": len(n),
        "local epochs": int(epochs.sum()),
        "local steps": int((epochs * -(-n // trial.training.batch_size)).sum()),
        "samples": int((epochs * n).sum()),
        "bytes": int(traffic[["bytes_up", "bytes_down"]].to_numpy().sum()),
    }


def _config(arguments: Mapping[str, Any], validate: bool) -> dict[str, Any]:
    """Return the configuration by which a run of these arguments is known again."""
    a = arguments
    vary = choose_sources(None, a["clients"], a["model"])
    plan = make_plan(
        a["method"], a["model"], a["clients"], a["training"], a.get("participation", 1.0), a["seed"], a.get("chunk"),
        a.get("dtype", "float32"), a.get("device", "cpu"), a.get("executor", "auto"), vary,
    )  # fmt: skip
    return plan.config | observed(validate, choose_metrics(a.get("metrics", ())), False, None, None)


def _held_back(clients: Population, *, test: bool) -> Population:
    """Return the same clients, without test samples unless these are wanted; refuse clients without validation."""

    def kept(drawn: Clients) -> Clients:
        if not isinstance(drawn, Clients):
            raise ValueError(f"clients(seed) must return Clients, got {type(drawn).__name__}.")
        if drawn.validation is None:
            raise ValueError(
                "clients hold no validation samples, and tuning must not look at test samples; make some, such as "
                "fs.data.from_arrays(..., validation=0.2)."
            )
        return drawn if test else replace(drawn, test=None, common=None)

    if isinstance(clients, Clients):
        return kept(clients)
    if not callable(clients):
        raise ValueError(f"clients must be Clients or a function from a seed to Clients, got {type(clients).__name__}.")
    if takes_two(clients):
        return lambda data, partition: kept(clients(data, partition))  # type: ignore[call-arg]
    return lambda seed: kept(clients(seed))  # type: ignore[call-arg]


def _has_test(clients: Population, seed: int) -> bool:
    """Tell whether there are test samples, beside which validation samples must be asked for."""
    drawn = clients if isinstance(clients, Clients) else clients(*[seed] * (2 if takes_two(clients) else 1))
    return drawn.test is not None


def _search(
    grid: Grid, bench: _Bench, seeds: Sequence[int], higher: bool
) -> tuple[_Scores, list[_Step], dict[str, Any]]:
    """Choose step by step; trials that ran in an earlier step are not run again."""
    scores, steps, held = _Scores(), list[_Step](), dict(grid.start)
    for number, names in enumerate(grid.steps, start=1):
        trials = grid.trials(names, held)
        new = [trial for trial in trials if trial.label not in scores.trials]
        scores.values |= bench.run(f"step {number}", new, seeds, fresh=False) if new else {}
        scores.trials |= {trial.label: trial for trial in new}
        labels = tuple(trial.label for trial in trials)
        chosen = scores.best(labels, higher)
        if chosen is None:
            raise FloatingPointError(f"training diverged at every value of {', '.join(names)}; lower the rates.")
        held = dict(scores.trials[chosen].values)
        steps.append(_Step(labels, frozenset(labels) - {trial.label for trial in new}, chosen, names))
    return scores, steps, held


def _tabulated(scores: _Scores, step: _Step, number: int, metric: str, level: float) -> pd.DataFrame:
    """Return a step's trials as the rows of a table."""
    rows = []
    for label in step.labels:
        mean, low, high = spread_of(scores.values[label]["validation"], metric, level)
        rows.append(
            {"step": number, "chooses": ", ".join(step.names), **scores.trials[label].values, "mean": mean, "low": low,
             "high": high, "chosen": label == step.chosen, "ran before": label in step.before, "trial": label}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _checked(bench: _Bench, scores: _Scores, best: Trial, seeds: Sequence[int], higher: bool, level: float) -> Check:
    """Run the choice and the runner-up under fresh seeds, and what test samples would have chosen if they were seen."""
    others = [label for label in scores.trials if label != best.label]
    second = scores.best(others, higher)
    by_test = scores.best(scores.trials, higher, "test") if bench.also_test else None
    wanted = list(dict.fromkeys(one for one in (best.label, second, by_test) if one is not None))
    found = bench.run("fresh", [scores.trials[one] for one in wanted], seeds, fresh=True)
    same_data = isinstance(bench.clients, Clients)
    split = "test" if same_data and "test" in found[best.label] else "validation"
    how: dict[str, Any] = {
        "split": split,
        "same_data": same_data,
        "metric": bench.metric,
        "higher": higher,
        "level": level,
    }
    return Check.of(scores.values, found, bench.measured(fresh=True), best.label, second, by_test, **how)

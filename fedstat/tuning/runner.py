"""Run trials under seeds on validation samples, and count what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from fedstat._in_words import counted
from fedstat.data import Clients
from fedstat.federated.attacks import Attack
from fedstat.federated.attendance import Attendance
from fedstat.federated.client.network import Model
from fedstat.federated.engine.executor import Executor, ExecutorName
from fedstat.federated.federate import federate
from fedstat.federated.fingerprint import digest
from fedstat.federated.metrics import Metric, choose_metrics
from fedstat.federated.plan import Population, draw, make_plan
from fedstat.federated.record.progress import Shown
from fedstat.federated.record.result import Result, load
from fedstat.federated.record.run_folder import sole_writer
from fedstat.inference import primary_summary
from fedstat.tuning.grid import Trial


class How(TypedDict, total=False):
    """The arguments of `fedstat.federate` that tuning hands on."""

    participation: float | Attendance
    attack: Attack | None
    evaluate_at: Iterable[int] | None
    metrics: Mapping[str, Metric] | Iterable[str]
    chunk: int | None
    dtype: str
    device: str
    executor: ExecutorName | Executor
    checkpoint: int | None
    progress: Shown


@dataclass(eq=False)
class Runner:
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
        last = range(self.rounds - self.last + 1, self.rounds + 1)
        how = {**arguments, "rounds": self.rounds, "evaluate_at": self.how.get("evaluate_at") or last}
        seed = arguments["seed"][0]  # beside test samples validation samples must be asked for
        validate = (fresh or self.also_test) and draw(arguments["clients"], seed, seed).test is not None
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
            raise ValueError(
                f"{place} holds {counted(saved.config['rounds'], 'round')}, more than {self.rounds}; choose another."
            )
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
    beside = ("evaluate_at", "metrics", "checkpoint", "progress")
    plan = make_plan(**{name: value for name, value in arguments.items() if name not in beside})
    return plan.observed(None, choose_metrics(arguments.get("metrics", ())), validate=validate).config


def _held_back(clients: Population, *, test: bool) -> Population:
    """Return the same clients, without test samples unless these are wanted; refuse clients without validation."""

    def kept(drawn: Clients) -> Clients:
        if not isinstance(drawn, Clients):
            raise ValueError(f"clients must be Clients or a function that returns them, got {type(drawn).__name__}.")
        if drawn.validation is None:
            raise ValueError(
                "clients hold no validation samples, and tuning must not look at test samples; make some, such as "
                "fs.data.from_arrays(..., validation=0.2)."
            )
        return drawn if test else replace(drawn, test=None, common=None)

    if isinstance(clients, Clients) or not callable(clients):
        return kept(clients)
    return lambda data, partition: kept(draw(clients, data, partition))

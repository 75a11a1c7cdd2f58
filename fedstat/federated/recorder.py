"""What a run leaves behind, round by round: measurements, traffic, checkpoints, a progress bar."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
import pandas as pd

from fedstat.federated.history import COLUMNS, DTYPES, TRAFFIC_DTYPES
from fedstat.federated.patience import Patience
from fedstat.federated.plan import Plan
from fedstat.federated.record.checkpoints import Checkpoints, Terminated
from fedstat.federated.record.progress import in_brief
from fedstat.federated.record.result import Result
from fedstat.federated.record.rows import Growing, Rows, Segment
from fedstat.federated.record.run_folder import aside
from fedstat.federated.rounds import Key, Round, Run
from fedstat.federated.route import overrides
from fedstat.federated.state import State


@dataclass(eq=False)
class Recorder:
    """Keeps what the first `rounds` of a run come to, or those after the ones of `before`.

    Models are measured after the rounds `measured`, on `splits` and the default one. `runs` are ready to begin, and
    stopped if their patience was over already; `advance` is that of the progress bar.
    """

    plan: Plan
    runs: Mapping[Key, Run]
    rounds: int
    measured: set[int]
    splits: tuple[str, ...]
    folder: Path | None
    checkpoint: int | None
    before: InitVar[Result | None]
    advance: Callable[..., None]
    kept: dict[Key, State] = field(init=False, default_factory=dict)
    records: Mapping[Key, Mapping[str, np.ndarray]] = field(init=False, default_factory=dict)  # of the rounds before
    curves: dict[Key, dict[int, float]] = field(init=False, default_factory=partial(defaultdict, dict))
    latest: list[pd.DataFrame] = field(init=False, default_factory=list)
    who: Segment | None = field(init=False, default=None)  # the file of the clients, once it is written
    trained: int = field(init=False, default=0)
    begun: float = field(init=False, default_factory=perf_counter)

    def __post_init__(self, before: Result | None) -> None:
        history, traffic, evaluated = Rows(DTYPES), Rows(TRAFFIC_DTYPES), self.measured
        if before is not None:
            history, traffic, config = before.rows("history"), before.rows("traffic"), before.config
            self.kept, self.records = dict(before.kept), before.records
            looks = {name: value for name, value in config.items() if name == "looks"}
            self.plan = replace(self.plan, config=self.plan.config | looks)
            evaluated = {t for t in from_ranges(config["evaluated"]) if t <= config["rounds"]}
            evaluated |= {t for t in self.measured if t > config["rounds"]}
        spare = None if self.folder is None else aside(self.folder)
        self.history, self.traffic = Growing("metrics", history, spare), Growing("traffic", traffic, spare)
        self.evaluated = as_ranges(evaluated)
        if before is None:
            sent = tuple(run.prelude() for run in self.runs.values() if overrides(run.method, "prelude"))
            start = Round(0, {key: run.state for key, run in self.runs.items()}, {}, sent, self.runs)
            self.traffic.add(start.traffic)
            if 0 in self.measured:
                self._measure(start)
        elif self.plan.stop is not None:
            self._remember(self.plan.stop, history)
        if self.folder is not None:
            self.checkpoints = Checkpoints(self.checkpoint)
            if before is None and self.plan.analysis is not None:
                self.save(0, self.folder)

    def keep(self, round: Round, ending: Callable[[], bool]) -> None:
        """Take down a round, and save the run where that is due or the process is `ending`.

        It raises `Terminated` after it has saved a run whose process is ending.
        """
        self.traffic.add(round.traffic)
        if round.number in self.measured:
            self._measure(round)
        if self.folder is not None:
            self._save_if_due(round.number, self.folder, ending)
        self.trained += sum(len(update.ids) for update in round.updates.values())
        self.advance(partial(in_brief, self.latest, round.number, self.trained, self.begun))

    def _save_if_due(self, done: int, folder: Path, ending: Callable[[], bool]) -> None:
        if done == self.rounds or self.stopped or ending() or self.checkpoints.due(done):
            with self.checkpoints.saving():
                self.save(done, folder)
            if ending():
                raise Terminated(f"SIGTERM came: {folder} holds round {done} of {self.rounds}; continue from there.")

    def save(self, rounds: int, folder: Path) -> None:
        """Write the run as it stands after so many rounds."""
        files = self.result(rounds).write(folder, self.who)
        self.history.saved(files["metrics"])
        self.traffic.saved(files["traffic"])
        (self.who,) = files["clients"]

    @property
    def stopped(self) -> bool:
        """Whether all runs have come to their end."""
        return all(run.stopped for run in self.runs.values())

    def result(self, rounds: int) -> Result:
        """Return the run as it stands after so many rounds."""
        stop = self.plan.stop
        best = None if stop is None else {key: stop.best(curve) for key, curve in self.curves.items() if curve}
        return Result(
            history=cast("Any", self.history.rows(best)),
            traffic=cast("Any", self.traffic.rows()),
            clients=self.plan.clients,
            states={key: run.state for key, run in self.runs.items()},
            kept=dict(self.kept),
            records={key: _joined(self.records.get(key, {}), run.records) for key, run in self.runs.items()},
            config={
                **self.plan.config,
                "rounds": int(rounds),
                "rounds_asked": self.rounds,
                "finished": self.stopped or rounds == self.rounds,
                "evaluated": self.evaluated,
            },
            model=self.plan.model,
            methods=self.plan.methods,
            training=self.plan.training,
            plan=self.plan.analysis,
            runs=self.runs,
        )

    def _measure(self, round: Round) -> None:
        """Evaluate all runs; end those whose patience is over."""
        self.latest = []
        for key, run in round.runs.items():
            splits = (run.replicate.split, *self.splits)
            tables = {split: run.evaluate(round.states[key], split, self.plan.metrics) for split in splits}
            if run.replicate.clients.common is not None and (tables[run.replicate.split]["estimand"] == "global").any():
                tables["common"] = run.evaluate(round.states[key], "common", self.plan.metrics)
            if self.plan.config["trained"] and round.updates:
                tables["trained"] = run.evaluate_trained(round.updates[key], self.plan.metrics)
            self.latest.append(pd.concat(tables.values(), ignore_index=True).assign(round=round.number))
            if self.plan.stop is not None and round.number:
                self._consider(self.plan.stop, key, round, tables)
        self.history.add(pd.concat(self.latest, ignore_index=True)[list(COLUMNS)])

    def _consider(self, stop: Patience, key: Key, round: Round, tables: Mapping[str, pd.DataFrame]) -> None:
        """Keep the best round's state of a run, and stop the run if its patience is over."""
        run, curve = self.runs[key], self.curves[key]
        curve[round.number] = stop.value(tables[stop.split])
        if stop.best(curve) == round.number:
            self.kept[key] = round.states[key]
        run.stopped = stop.is_over(curve)

    def _remember(self, stop: Patience, history: Rows) -> None:
        """Read the curves that decide from the history of the run that is continued."""
        for part in history.parts():
            rows = part[(part["split"] == stop.split) & (part["round"] > 0)]
            for (method, seed, number), table in rows.groupby(["method", "seed", "round"], observed=True, sort=False):
                self.curves[method, int(seed)][int(number)] = stop.value(table)
        for key, curve in self.curves.items():
            self.runs[key].stopped = bool(curve) and stop.is_over(curve)


def as_ranges(rounds: Iterable[int]) -> list[list[int]]:
    """Write rounds as few ranges [first, last, step], the same for the same rounds."""
    ranges: list[list[int]] = []
    for t in sorted(rounds):
        if ranges and (ranges[-1][0] == ranges[-1][1] or t - ranges[-1][1] == ranges[-1][2]):
            ranges[-1][1:] = t, t - ranges[-1][1]
        else:
            ranges.append([t, t, 1])
    return ranges


def from_ranges(ranges: Iterable[Sequence[int]]) -> set[int]:
    """Return the rounds that `as_ranges` wrote."""
    return {t for first, last, step in ranges for t in range(first, last + 1, step)}


def _joined(before: Mapping[str, np.ndarray], now: Mapping[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.stack([*before.get(name, ()), *now.get(name, ())]) for name in {**before, **now}}

"""The round loop: receive, train, aggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedstat._random import stream
from fedstat.federated.client.local import AnyTraining
from fedstat.federated.client.network import Model, Params
from fedstat.federated.engine.executor import Elsewhere, Executor, ExecutorName
from fedstat.federated.engine.products import products
from fedstat.federated.history import COLUMNS, Traffic, traffic_table
from fedstat.federated.method import Method, State, Update
from fedstat.federated.metrics import Metric, choose_metrics
from fedstat.federated.plan import Population, choose_sources, make_plan
from fedstat.federated.run import Key, Run, stacks

#: Stacks whose work is asked for at once.
_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Round:
    """The outcome of one round, for every method and seed that took part in it.

    Attributes
    ----------
    number : int
        Rounds completed.
    states : mapping of (label, seed) to State
        What each method knows after the round.
    updates : mapping of (label, seed) to Update
        What the participants received and trained; at hand until the next round begins.
    sent : tuple of Traffic
        Bytes that travelled.
    runs : mapping of (label, seed) to Run
        Who took part.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> training = fs.Training(lr=0.1)
    >>> now = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, training))
    >>> now.number, len(now.evaluate("test")), int(now.traffic["bytes_up"].sum())
    (1, 16, 912)
    """

    number: int
    states: Mapping[Key, State]
    updates: Mapping[Key, Update]
    sent: tuple[Traffic, ...]
    runs: Mapping[Key, Run] = field(repr=False)

    @property
    def traffic(self) -> pd.DataFrame:
        """Bytes of each participant: method, seed, round, client, bytes_up, bytes_down."""
        return traffic_table(self.sent)

    def evaluate(
        self,
        split: str | None = None,
        *,
        metrics: Mapping[str, Metric] | Iterable[str] = (),
        trained: bool = False,
    ) -> pd.DataFrame:
        """Measure every client's models.

        Parameters
        ----------
        split : str, optional
            Whose samples: "test" (the default where clients have them), "validation", "train", or "common" for global
            models on the test set that all clients have in common.
        metrics : mapping of str to callable, or names
            What to measure beside the standard metrics; see `fedstat.metrics`.
        trained : bool
            Measure the participants' models as local training left them, the estimand "trained", instead.

        Returns
        -------
        DataFrame
            Tidy as ``result.history``.

        Raises
        ------
        ValueError
            For a split that clients do not have, an unknown metric, or `trained` after the next round began.
        """
        chosen, tables = choose_metrics(metrics), []
        if trained and not self.updates:
            raise ValueError("what participants trained is at hand until the next round begins; evaluate it before.")
        for key, run in self.runs.items():
            if trained:
                tables.append(run.evaluate_trained(self.updates[key], chosen))
            else:
                tables.append(run.evaluate(self.states[key], split or run.replicate.split, chosen))
        return pd.concat(tables, ignore_index=True).assign(round=self.number)[list(COLUMNS)]

    def stop(self, method: str | None = None, seed: int | None = None) -> None:
        """Let runs, by label and seed or all, take part in no more rounds."""
        for key, run in self.runs.items():
            run.stopped |= method in (None, key[0]) and seed in (None, key[1])


def rounds(
    method: Method | Sequence[Method] | Mapping[str, Method],
    model: Model,
    clients: Population,
    training: AnyTraining,
    *,
    participation: float = 1.0,
    seed: int | Iterable[int] = 0,
    vary: Iterable[str] | None = None,
    chunk: int | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    executor: ExecutorName | Executor | Elsewhere = "auto",
) -> Iterator[Round]:
    """Train methods on clients, a round at a time, for as long as the caller goes on asking.

    All arguments are those of `fedstat.federate`, which is this loop with a history, checkpoints and a progress bar.

    Yields
    ------
    Round
        After every round. It measures when asked to, and ends methods and seeds one by one (`Round.stop`).

    Raises
    ------
    ValueError, FloatingPointError
        As `fedstat.federate`.

    Examples
    --------
    Stop as soon as the mean accuracy is good enough:

    >>> import numpy as np, fedstat as fs
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 3))
    >>> clients = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.arange(200) % 5)
    >>> for round in fs.rounds(fs.FedAvg(), fs.models.mlp(3, 8, 2), clients, fs.Training(lr=0.5)):
    ...     table = round.evaluate(metrics=["macro_f1"])
    ...     accuracy = table.loc[table["metric"] == "accuracy", "value"].mean()
    ...     if accuracy > 0.9 or round.number == 50:
    ...         break
    >>> bool(accuracy > 0.9)
    True
    """
    varying = choose_sources(vary, clients, model)
    plan = make_plan(method, model, clients, training, participation, seed, chunk, dtype, device, executor, varying)
    return loop(plan.start(), 0, plan.participation)


def loop(runs: Mapping[Key, Run], first: int, participation: float) -> Iterator[Round]:
    """Play round after round, from the one numbered `first` (from 0), until all runs have stopped.

    Runs whose local steps are the same train as one stack; what they share is keyed by seed and round, so that a run
    in company equals the run alone.
    """
    for t in count(first):
        going = {key: run for key, run in runs.items() if not run.stopped}
        if not going:
            return
        with products(tf32=any(run.bench.tf32 for run in going.values())):
            updates, sent = _play(list(going.values()), t, participation)
        yield Round(t + 1, {key: run.state for key, run in going.items()}, updates, sent, going)
        updates.clear()  # they are large


def _play(runs: Sequence[Run], t: int, participation: float) -> tuple[dict[Key, Update], tuple[Traffic, ...]]:
    """Let the participants of a round receive and train, and the server aggregate; return that, and what travelled."""
    updates, sent = dict[Key, Update](), dict[Key, Traffic]()
    found = stacks(runs)
    with _mapping(found) as over:
        for stack, rows in zip(found, over(partial(_rows, t=t, participation=participation), found), strict=True):
            for run, ids, start, end in zip(stack, *rows, strict=True):
                updates[run.key], sent[run.key] = run.aggregate(t, ids, start, end)
    return updates, tuple(sent[run.key] for run in runs)


@contextmanager
def _mapping(found: Sequence[Sequence[Run]]) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield `map`; where other processes do the work, one that has it done for all stacks at once."""
    if len(found) == 1 or not isinstance(found[0][0].bench.executor, Elsewhere):
        yield map
        return
    with ThreadPoolExecutor(min(len(found), _AT_ONCE)) as waiting:
        try:
            yield waiting.map
        except BaseException:
            waiting.shutdown(cancel_futures=True)
            raise


def _rows(
    stack: Sequence[Run], t: int, participation: float
) -> tuple[list[np.ndarray], list[Params], Iterable[Params]]:
    """Return the participants of each run of a stack, what they received, and what they trained."""
    chosen = [
        participants(run.replicate.seeds.of("participants"), t, len(run.replicate.clients), participation)
        for run in stack
    ]
    received = [run.receive(ids) for run, ids in zip(stack, chosen, strict=True)]
    return chosen, received, _train(stack, chosen, received, t)


def participants(seed: int, round: int, clients: int, participation: float) -> np.ndarray:
    """Return the sorted ids of the clients that take part in `round`: a function of seed and round alone."""
    count = max(1, round_half_up(participation * clients))
    return np.sort(stream(seed, "participants", round).choice(clients, count, replace=False))


def round_half_up(value: float) -> int:
    """Round to the nearest integer, halves up (Python rounds them to even)."""
    return int(np.floor(value + 0.5))


def _train(stack: Sequence[Run], chosen: Sequence[np.ndarray], received: Sequence[Params], t: int) -> Iterator[Params]:
    """Train the participants of several runs as one stack; return an iterator over each run's rows."""
    start = received[0]
    if len(stack) > 1:
        start = {name: torch.cat([one[name] for one in received]) for name in start}
    jobs = [job for run, ids in zip(stack, chosen, strict=True) for job in run.replicate.jobs(ids.tolist())]
    ends = stack[0].bench.train(stack[0].method, stack[0].network, start, jobs, t)
    firsts = np.cumsum([0, *map(len, chosen)]).tolist()
    return ({name: leaf[a:b] for name, leaf in ends.items()} for a, b in pairwise(firsts))

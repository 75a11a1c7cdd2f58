"""One method under one seed: what it knows, and the three things that happen to it in a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedstat._memory import in_words, machine_memory
from fedstat.federated.client.local import Learner, Phase, Training
from fedstat.federated.client.losses import LossName
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.samples import Job, StackedSamples
from fedstat.federated.codec import size
from fedstat.federated.engine.evaluation import evaluate
from fedstat.federated.engine.executor import Elsewhere, Executor, ExecutorName, choose
from fedstat.federated.engine.products import products
from fedstat.federated.engine.training import moments, train
from fedstat.federated.history import Traffic
from fedstat.federated.method import Federation, Method, Predictor, State, Update, is_plain, naming, on_device, returned
from fedstat.federated.metrics import Metric
from fedstat.federated.replicate import Replicate

#: Label of the method, and seed.
Key = tuple[str, int]


@dataclass(frozen=True, eq=False)
class Bench:
    """The means that all runs train with.

    Attributes
    ----------
    task : {"cross_entropy", "logistic", "squared"}
        What outputs mean.
    training : Training
        Local training.
    samples : StackedSamples
        The training samples of all seeds.
    executor : {"auto", "stacked", "per-client"}, Executor or Elsewhere
        What does the work; "auto" by network.
    chunk : int, optional
        Clients stacked at once.
    tf32 : bool
        Whether products may round to TF32.
    """

    task: LossName
    training: Training
    samples: StackedSamples
    executor: ExecutorName | Executor | Elsewhere = "auto"
    chunk: int | None = None
    tf32: bool = False

    def executor_of(self, network: Network) -> Executor:
        """Return what does the work for a network."""
        return choose(self.executor, network, self.samples.sample, self.training.batch_size, self.chunk)

    def learner(self, network: Network) -> Learner:
        """Return a network with the loss that it is trained by."""
        loss = self.training.loss
        return Learner(network, self.task, loss) if callable(loss) else Learner(network, self.task)

    def train(
        self, method: Method, network: Network, start: Params, jobs: Sequence[Job], round: int, **how: Any
    ) -> Params:
        """Train each row of `start`; see `fedstat.federated.engine.training.train`."""
        executor = self.executor_of(network)
        learner = self.learner(network)
        with products(tf32=self.tf32):
            return train(method, learner, self.training, self.samples, start, jobs, round, executor, **how)

    def evaluate(
        self,
        network: Network,
        models: Any,
        held_out: StackedSamples,
        metrics: Mapping[str, Metric] | None = None,
        clients: np.ndarray | None = None,
    ) -> pd.DataFrame:
        """Measure what ``models(ids)`` gives to each client; see `fedstat.federated.engine.evaluation.evaluate`."""
        executor = self.executor_of(network)
        with products(tf32=self.tf32):
            return evaluate(self.learner(network), models, held_out, executor, metrics or {}, clients)


@dataclass(eq=False)
class Run:
    """One method under one seed, between two rounds.

    Attributes
    ----------
    key : tuple of str and int
        Label of the method, and seed.
    method : Method
        The method that runs.
    replicate : Replicate
        The seed's data and initial network.
    bench : Bench
        The means to train.
    federation : Federation
        What the method sees of the clients.
    state : State
        What the method knows.
    records : dict of list
        What the method records, round by round.
    stopped : bool
        Whether it takes part in no more rounds.
    """

    key: Key
    method: Method
    replicate: Replicate
    bench: Bench
    federation: Federation
    state: State
    records: dict[str, list[np.ndarray]] = field(default_factory=dict)
    stopped: bool = False

    @property
    def network(self) -> Network:
        """The network as the method builds it."""
        return self.federation.network

    def receive(self, ids: np.ndarray) -> Params:
        """Return what the participants start from, stacked (m, ...)."""
        start = self.method.receive(self.state, torch.from_numpy(ids).to(self.network.device))
        return returned(self.method, "receive", start, Mapping, "a dict of tensors by leaf")

    def aggregate(self, t: int, ids: np.ndarray, start: Params, end: Params) -> tuple[Update, Traffic]:
        """Hand what participants trained in round t (from 0) to the method; return that, and what travelled."""
        n, rng = self.replicate.clients.train.n[ids], self.replicate.seeds.stream("server", t)
        update = Update.of(self.method, ids, n, start, end, rng, self.network)

        def step(name: str, kind: Any, what: str) -> Any:
            with naming(self.method, name, f"round {t + 1}", end, stacked=True):
                found = getattr(self.method, name)(self.state, update)
            return returned(self.method, name, found, kind, what)

        down, up = (step(name, Mapping, "a dict of entries by name") for name in ("download", "upload"))
        self.state = step("aggregate", State, "a State")
        for name, value in self.method.record(self.state).items():
            self.records.setdefault(name, []).append(value.cpu().numpy())
        return update, Traffic(self.key, t + 1, ids, size(up), size(down))

    def prelude(self) -> Traffic:
        """Count the bytes that travel before the first round."""
        everyone = np.arange(len(self.replicate.clients))
        up, down = self.method.prelude(self.network, len(everyone))
        return Traffic(self.key, 0, everyone if up or down else everyone[:0], size(up), size(down))

    def evaluate(self, state: State, split: str, metrics: Mapping[str, Metric]) -> pd.DataFrame:
        """Measure every client's models on its samples of a split; on the common test set the global models alone."""

        def models(some: Tensor) -> dict[str, Predictor]:
            found = self.method.models(state, some, self.federation)
            return returned(self.method, "models", found, Mapping, "a dict of predictors by estimand")

        def shared(one: Tensor) -> dict[str, Predictor]:
            return {name: model for name, model in models(one).items() if name == "global"}

        common, held_out = split == "common", self.replicate.held_out(split)
        table = self.bench.evaluate(self.network, shared if common else models, held_out, metrics)
        return table.assign(method=self.key[0], seed=self.key[1], split=split, **({"client": -1} if common else {}))

    def evaluate_trained(self, update: Update, metrics: Mapping[str, Metric]) -> pd.DataFrame:
        """Measure the participants' models as their local training left them, before the server averages."""
        split = self.replicate.split
        whose = update.ids.cpu().numpy()

        def models(some: Tensor) -> dict[str, Predictor]:
            rows = slice(int(some[0]), int(some[-1]) + 1)
            return {"trained": self.method.predictor({name: leaf[rows] for name, leaf in update.end.items()})}

        table = self.bench.evaluate(self.network, models, self.replicate.held_out(split), metrics, whose)
        return table.assign(method=self.key[0], seed=self.key[1], split=split, client=whose[table["client"]])


def check_size(label: str, method: Method, network: Network, clients: int) -> None:
    """Refuse a method that holds more of all clients at once than the machine has memory.

    Raises
    ------
    ValueError
        It says what would be held, and how large it would be.
    """
    needs, memory = method.at_once(network, clients), machine_memory()
    if memory is not None and sum(needs.values()) > memory:
        what = " and ".join(f"{name}, {in_words(size)}" for name, size in needs.items())
        raise ValueError(
            f"{label!r} ({type(method).__name__}) holds {what} for {clients:,} clients, and this machine has "
            f"{in_words(memory)} of memory. Take fewer clients, a smaller network, or a method that does without."
        )


def start_run(key: Key, method: Method, replicate: Replicate, bench: Bench, state: State | None = None) -> Run:
    """Make ready one method under one seed, from `state` or from the method's start."""
    if len(replicate.clients) < method.fewest:
        raise ValueError(
            f"{type(method).__name__} needs at least {method.fewest} clients, there are {len(replicate.clients)}."
        )
    federation = make_federation(method, replicate, bench)
    with products(tf32=bench.tf32):
        state = method.init(federation.network, federation) if state is None else state
    state = on_device(returned(method, "init", state, State, "a State"), str(federation.network.device))
    return Run(key, method, replicate, bench, federation, state)


def make_federation(method: Method, replicate: Replicate, bench: Bench) -> Federation:
    """Give a method its view of a replicate's clients, and the means to train them."""
    network = method.parameterize(replicate.network, replicate.seeds.stream("parts"))
    returned(method, "parameterize", network, Network, "a Network")
    device = network.device

    def warmup(start: Params, repeat: int = 0, ids: Tensor | None = None) -> Params:
        everyone = range(len(replicate.clients))
        return bench.train(
            Method(), network, start, replicate.jobs(everyone if ids is None else ids.tolist()), -1 - repeat
        )

    def fresh(count: int | None = None) -> Params:
        drawn = [replicate.draw(k) for k in range(len(replicate.clients) if count is None else count)]
        built = [
            method.parameterize(one, replicate.seeds.stream("client parts", k)).initial() for k, one in enumerate(drawn)
        ]
        return {name: torch.stack([leaves[name] for leaves in built]).to(device) for name in built[0]}

    def trained(
        method: Method,
        start: Params,
        ids: Tensor,
        phases: tuple[Phase, ...],
        round: int,
        moves: Params | None = None,
    ) -> Params:
        how = {"phases": phases, "moves": moves, "purpose": "tuning batches"}
        return bench.train(method, network, start, replicate.jobs(ids.tolist()), round, **how)

    def statistics(params: Params, ids: Tensor) -> Params:
        return moments(network, bench.samples, params, replicate.jobs(ids.tolist()))

    rng = replicate.seeds.stream("method")
    return Federation(replicate.clients, network, bench.training, rng, warmup, fresh, trained, statistics)


def stacks(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs that train as one stack: one method under several seeds, and methods whose local steps are FedAvg's.

    Methods of different local training train apart. A module with frozen weights or constants of its own trains apart
    from those of other seeds, and clients that train by themselves gain nothing from a larger stack.
    """
    found: dict[object, list[Run]] = {}
    for run in runs:
        alike = is_plain(run.method) and run.network is run.replicate.network
        which = (run.bench if alike else run.key[0], run.network.constants and run.replicate.seed)
        together = run.bench.executor_of(run.network).together
        found.setdefault(which if together else run.key, []).append(run)
    return list(found.values())

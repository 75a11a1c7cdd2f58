"""Runs, and the round loop: receive, train, aggregate, evaluate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count, pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedstat.federated.attendance import Attendance, Attended
from fedstat.federated.client.local import Phase
from fedstat.federated.client.network import Network, Params, products
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.codec import Message, Sent, size
from fedstat.federated.composition import check_composition
from fedstat.federated.compression import compressed
from fedstat.federated.engine.executor import RemoteExecutor, evaluation_bytes
from fedstat.federated.engine.training import moments, train
from fedstat.federated.fingerprint import digest
from fedstat.federated.history import COLUMNS, DTYPES, TRAFFIC_DTYPES
from fedstat.federated.method import Method, aggregated, naming, on_device, returned, stack, unattended, weighed
from fedstat.federated.metrics import Metric, choose_metrics, own, standard
from fedstat.federated.record.rows import joined
from fedstat.federated.replicate import Replicate
from fedstat.federated.route import Equipment, Route
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.federated.store import ClientStore

#: Label of the method, and seed.
Key = tuple[str, int]
#: Stacked leaves (on a GPU more, `evaluation_bytes`), and padded inputs, alive at once, in bytes.
_MODELS = _INPUTS = 2**28
#: Stacks whose work is asked for at once.
_AT_ONCE = 32
#: What messages are, and what a method offers for evaluation.
_ENTRIES, _PREDICTORS = "a dict of entries by name", "a dict of predictors by estimand"


@dataclass(frozen=True, eq=False)
class Traffic:
    """The bytes that travelled in a round of one run: up from and down to clients `ids`, each (m,) or one for all.

    Who dropped out is among them, and sent nothing.
    """

    key: Key
    ids: np.ndarray
    up: np.ndarray
    down: np.ndarray


@dataclass(eq=False)
class Run:
    """One method under one seed, between two rounds.

    `federation` is what the method sees of the clients, `route` how they train. `draws` is the key of the
    server's draws, to which the round is added; `records` lists an array per round.
    """

    key: Key
    method: Method
    replicate: Replicate
    equipment: Equipment
    federation: Federation
    state: State
    route: Route
    draws: tuple[Any, ...]
    records: dict[str, list[np.ndarray]] = field(default_factory=dict)
    stopped: bool = False

    @property
    def network(self) -> Network:
        """The network as the method builds it."""
        return self.federation.network

    @cached_property
    def stack(self) -> object:
        """What runs that train as one have alike: the method under several seeds, or that local steps are FedAvg's."""
        # a module with frozen weights or constants of its own differs between seeds, and clients that train by
        # themselves gain nothing from a larger stack
        if not self.route.executor.together:
            return self.key
        own = self.route.own or self.route.learner.network is not self.replicate.network
        return self.key[0] if own else self.equipment, self.route.learner.network.constants and self.replicate.seed

    def receive(self, ids: np.ndarray) -> Params:
        """Return what the participants start from, stacked (m, ...)."""
        start = self.method.receive(self.state, torch.from_numpy(ids).to(self.federation.network.device))
        return returned(self.method, "receive", start, Mapping, "a dict of tensors by leaf")

    def aggregate(self, t: int, who: Attended, start: Params, end: Params) -> tuple[Update, Traffic]:
        """Hand what participants return in round t (from 0) to the method; return that, and what travelled."""
        n, rng = self.replicate.clients.train.n, self.replicate.seeds.stream(*self.draws, t)
        trained = update = weighed(self.method, who, n, start, end, rng, self.federation.network)

        def step(name: str, work: Callable[[State, Update], Any], kind: Any, what: str) -> Any:
            with naming(self.method, name, f"round {t + 1}", end, stacked=True):
                found = work(self.state, update)
            return returned(self.method, name, found, kind, what)

        down, up = (step(name, getattr(self.method, name), Mapping, _ENTRIES) for name in ("download", "upload"))
        if self.replicate.attack is not None:
            trained = update = self.replicate.falsified(t, up, self.state, update)
            up = step("upload", self.method.upload, Mapping, _ENTRIES)
        unsent = self.state.unsent
        if self.method.compression is not None:
            update, up, unsent = self.compressed(t, update, down, up)
        self.state = replace(step("aggregate", partial(aggregated, self.method), State, "a State"), unsent=unsent)
        for name, value in self.method.record(self.state).items():
            self.records.setdefault(name, []).append(value.cpu().numpy())
        return trained, Traffic(self.key, who.ids, size(up), size(down))

    def compressed(self, t: int, update: Update, down: Message, up: Message) -> tuple[Update, Sent, ClientStore]:
        """Return what comes of an upload in round t (from 0) by the method's compression, if any."""
        codec, of = self.method.compression, type(self.method).__name__
        if codec is None:
            return update, up, self.state.unsent
        rngs = [self.replicate.seeds.stream("compression", t, k) for k in update.ids.tolist()]
        found = compressed(codec, of, self.state, update, down, up, rngs, len(self.replicate.clients))
        few = len(update.ids) < getattr(self.method.aggregator, "fewest", 1)
        return (*found[:2], self.state.unsent) if few else found

    def without(self, t: int, missing: np.ndarray) -> Traffic:
        """Count what clients receive in round t before they drop out."""
        n, rng = self.replicate.clients.train.n, self.replicate.seeds.stream(*self.draws, t)
        start = self.receive(missing)
        update = weighed(self.method, Attended(missing), n, start, start, rng, self.network)
        return Traffic(self.key, missing, np.zeros((), np.int64), size(self.method.download(self.state, update)))

    def sit_out(self, t: int, who: Attended) -> Update:
        """Let round t pass, to which nobody came."""
        rng = self.replicate.seeds.stream(*self.draws, t)
        update = weighed(self.method, who, self.replicate.clients.train.n, {}, {}, rng, self.network)
        self.state = unattended(self.method, self.state, update)
        for name, value in self.method.record(self.state).items():
            self.records.setdefault(name, []).append(value.cpu().numpy())
        return update

    def prelude(self) -> Traffic:
        """Count the bytes that travel before the first round."""
        everyone = np.arange(len(self.replicate.clients))
        up, down = self.method.prelude(self.network, len(everyone))
        return Traffic(self.key, everyone if up or down else everyone[:0], size(up), size(down))

    def models(self, state: State, split: str, ids: Tensor) -> dict[str, Predictor]:
        """Return the models that clients `ids` have for a split, by the name of the estimand.

        On the test set that all clients have in common that are the global ones alone.
        """
        found = returned(self.method, "models", self.method.models(state, ids, self.federation), Mapping, _PREDICTORS)
        return {name: model for name, model in found.items() if split != "common" or name == "global"}

    def evaluate(self, state: State, split: str, metrics: Mapping[str, Metric]) -> pd.DataFrame:
        """Measure honest clients' models on their samples of a split."""
        table = evaluate(self.route, partial(self.models, state, split), self.replicate.held_out(split), metrics)
        return self._honest(table.assign(split=split, **({"client": -1} if split == "common" else {})))

    def evaluate_trained(self, update: Update, metrics: Mapping[str, Metric]) -> pd.DataFrame:
        """Measure honest participants' models as their local training left them, before the server averages."""
        split, whose, trained = self.replicate.split, update.ids.cpu().numpy(), self.method.predictor(update.end)
        if not len(whose):
            return pd.DataFrame(columns=list(COLUMNS)).astype(DTYPES).drop(columns="round")
        held_out = self.replicate.held_out(split)
        table = evaluate(self.route, lambda some: {"trained": trained.of(some)}, held_out, metrics, whose)
        return self._honest(table.assign(split=split, client=whose[table["client"]]))

    def _honest(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of honest clients, and say of which run they are."""
        return table[~table["client"].isin(self.replicate.attackers)].assign(method=self.key[0], seed=self.key[1])


def evaluate(
    route: Route,
    models: Callable[[Tensor], Mapping[str, Predictor]],
    held_out: StackedSamples,
    metrics: Mapping[str, Metric],
    clients: np.ndarray | None = None,
) -> pd.DataFrame:
    """Return metrics of all clients, in float64, as rows (client, estimand, metric, value).

    `models` returns the models of the clients with given ids by the name of the estimand; `metrics` come on top of the
    standard ones, and for classes the accuracy of always naming a client's most frequent one. If `clients` are given,
    only their samples are used, for one model each; the column "client" and the ids for `models` then count from 0 in
    their order.
    """
    rows = np.arange(len(held_out.n)) if clients is None else clients
    found = dict[tuple[str, str], list[Tensor]]()
    with products(tf32=route.tf32):
        for estimand, outputs, y, valid in predict(route, models, held_out, rows):
            measured = standard(route.learner, outputs, y, valid)
            if metrics:
                measured |= own(metrics, outputs, y, valid)
            for metric, values in measured.items():
                found.setdefault((estimand, metric), []).append(values)
    for estimand in [name for name, metric in found if metric == "accuracy"]:
        found[estimand, "majority_share"] = [torch.from_numpy(held_out.majority[rows])]
    whose = np.tile(np.arange(len(rows)), len(found))
    estimands, names = (np.repeat(np.array(of, object), len(rows)) for of in zip(*found, strict=True))
    measures = torch.stack([torch.cat(values).cpu() for values in found.values()]).flatten().numpy()
    return pd.DataFrame({"client": whose, "estimand": estimands, "metric": names, "value": measures})


def predict(
    route: Route, models: Callable[[Tensor], Mapping[str, Predictor]], held_out: StackedSamples, rows: np.ndarray
) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Yield what models predict for the clients in some rows, as many at once as the memory holds.

    That is the estimand, outputs (c, n_max, Q) in float64, targets (c, n_max), and which of them are no padding. The
    caller says how products round.
    """
    for part, most in _parts(held_out, rows, route.learner.network.bytes):
        x, y = held_out.padded(rows[part], most)
        ids = torch.arange(part.start, part.stop, device=held_out.device)
        n = torch.from_numpy(held_out.n[rows[part]]).to(held_out.device)
        valid = torch.arange(most, device=held_out.device) < n[:, None]
        for estimand, predictor in models(ids).items():
            yield estimand, route.executor.evaluate(route.learner, predictor, x, n).double(), y, valid


def _parts(held_out: StackedSamples, rows: np.ndarray, model: int) -> Iterator[tuple[slice, int]]:
    """Yield the rows that are evaluated at once, and the samples that they are padded to."""
    # padding has one length, whatever the parts, as long as all of it is little; sums then round alike
    models = evaluation_bytes(held_out.device, _MODELS)
    step, each = max(1, models // model), max(1, held_out.sample[0].nbytes)
    if (held_out.n == held_out.n_max).all() or len(rows) * held_out.n_max * each <= _INPUTS:
        for first in range(0, len(rows), step):
            yield slice(first, min(first + step, len(rows))), held_out.n_max
    else:
        first, n = 0, held_out.n[rows].tolist()
        while first < len(n):
            last, most = first + 1, n[first]
            while last < min(first + step, len(n)) and (last + 1 - first) * max(most, n[last]) * each <= _INPUTS:
                most, last = max(most, n[last]), last + 1
            yield slice(first, last), most
            first = last


def start_run(key: Key, method: Method, replicate: Replicate, equipment: Equipment, state: State | None = None) -> Run:
    """Make ready one method under one seed, from `state` or the method's start."""
    if len(replicate.clients) < method.fewest:
        raise ValueError(
            f"{type(method).__name__} needs at least {method.fewest} clients, there are {len(replicate.clients)}."
        )
    federation = make_federation(method, replicate, equipment)
    with products(tf32=equipment.tf32):
        state = method.init(federation.network, federation) if state is None else state
    state = on_device(returned(method, "init", state, State, "a State"), str(federation.network.device))
    if any(part is not None for part in (method.server, method.aggregator, method.compression, method.mechanism)):
        check_composition(method, state)
    route = equipment.route(method, federation.network, stack(state.server, 1))
    draws = ("server",) if method.mechanism is None else ("noise", int(digest((method, equipment.training)), 16))
    return Run(key, method, replicate, equipment, federation, state, route, draws)


def make_federation(method: Method, replicate: Replicate, equipment: Equipment) -> Federation:
    """Give a method its view of a replicate's clients, and the means to train them."""
    network = method.parameterize(replicate.network, replicate.seeds.stream("parts"))
    means = _Means(method, returned(method, "parameterize", network, Network, "a Network"), replicate, equipment)
    rng, how = replicate.seeds.stream("method"), (means.warmup, means.fresh, means.train, means.statistics)
    return Federation(replicate.clients, network, equipment.training, rng, *how)


@dataclass(frozen=True, eq=False)
class _Means:
    """How a method trains a replicate's clients outside the rounds."""

    method: Method
    network: Network
    replicate: Replicate
    equipment: Equipment

    def warmup(self, start: Params, repeat: int = 0, ids: Tensor | None = None) -> Params:
        everyone = torch.arange(len(self.replicate.clients))
        return self._train(self.equipment, Method(), start, everyone if ids is None else ids, -1 - repeat)

    def fresh(self, count: int | None = None) -> Params:
        made = []
        for k in range(len(self.replicate.clients) if count is None else count):
            rng = self.replicate.seeds.stream("client parts", k)
            made.append(self.method.parameterize(self.replicate.draw(k), rng).initial())
        return {name: torch.stack([leaves[name] for leaves in made]).to(self.network.device) for name in made[0]}

    def train(
        self,
        method: Method,
        start: Params,
        ids: Tensor,
        phases: tuple[Phase, ...],
        round: int,
        moves: Params | None = None,
    ) -> Params:
        # decay and schedule count rounds, and after the last one a schedule may be zero
        equipment = replace(self.equipment, training=replace(self.equipment.training, lr_decay=1.0, schedule=None))
        return self._train(equipment, method, start, ids, round, phases=phases, moves=moves, purpose="tuning batches")

    def statistics(self, params: Params, ids: Tensor) -> Params:
        return moments(self.network, self.equipment.samples, params, self.replicate.jobs(ids.tolist()))

    def _train(
        self, equipment: Equipment, method: Method, start: Params, ids: Tensor, round: int, **how: Any
    ) -> Params:
        route = equipment.route(method, self.network, start)
        return train(route, start, self.replicate.jobs(ids.tolist()), round, **how)


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
    >>> now = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1)))
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
        tables = []
        for one in self.sent:
            ids, up, down = np.broadcast_arrays(one.ids, one.up, one.down)
            sent = {"seed": one.key[1], "round": self.number, "client": ids, "bytes_up": up, "bytes_down": down}
            tables.append(pd.DataFrame(sent | {"method": pd.Categorical.from_codes(0 * ids, [one.key[0]])}))
        return joined(tables, TRAFFIC_DTYPES)

    def evaluate(
        self, split: str | None = None, *, metrics: Mapping[str, Metric] | Iterable[str] = (), trained: bool = False
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


def loop(runs: Mapping[Key, Run], first: int, participation: float | Attendance) -> Iterator[Round]:
    """Play round after round, from the one numbered `first` (from 0), until all runs have stopped.

    Runs whose local steps are the same train as one stack; what they share is keyed by seed and round, so that a run
    in company equals the run alone.
    """
    for t in count(first):
        if not (going := {key: run for key, run in runs.items() if not run.stopped}):
            return
        with products(tf32=any(run.equipment.tf32 for run in going.values())):
            updates, sent = _play(list(going.values()), t, participation)
        yield Round(t + 1, {key: run.state for key, run in going.items()}, updates, sent, going)
        updates.clear()  # they are large


def _play(
    runs: Sequence[Run], t: int, participation: float | Attendance
) -> tuple[dict[Key, Update], tuple[Traffic, ...]]:
    """Let the participants of a round receive and train, and the server aggregate; return that, and what travelled."""
    updates, sent, found = dict[Key, Update](), dict[Key, Traffic](), dict[object, list[Run]]()
    who = {run.key: run.replicate.attended(t, participation) for run in runs}
    away = [run.without(t, missing) for run in runs if len(missing := who[run.key].missing)]
    for run in runs:
        if len(who[run.key].ids):
            found.setdefault(run.stack, []).append(run)
        else:
            updates[run.key] = run.sit_out(t, who[run.key])
    elsewhere = len(found) > 1 and isinstance(runs[0].equipment.executor, RemoteExecutor)
    with _at_once(len(found)) if elsewhere else nullcontext(map) as over:
        for stack, rows in zip(found.values(), over(partial(_train, who, t), found.values()), strict=True):
            for run, start, end in zip(stack, *rows, strict=True):
                updates[run.key], sent[run.key] = run.aggregate(t, who[run.key], start, end)
    return updates, (*(sent[run.key] for run in runs if run.key in sent), *away)


@contextmanager
def _at_once(stacks: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield a `map` that has other processes do the work of all stacks at once."""
    with ThreadPoolExecutor(min(stacks, _AT_ONCE)) as waiting:
        try:
            yield waiting.map
        except BaseException:
            waiting.shutdown(cancel_futures=True)
            raise


def _train(who: Mapping[Key, Attended], t: int, stack: Sequence[Run]) -> tuple[list[Params], Iterable[Params]]:
    """Return what the participants of each run of a stack received, and what they trained, all as one stack."""
    received = [run.receive(who[run.key].ids) for run in stack]
    start = received[0] if len(stack) == 1 else {n: torch.cat([one[n] for one in received]) for n in received[0]}
    works = [run.replicate.jobs(who[run.key].ids.tolist(), who[run.key].work.tolist()) for run in stack]
    ends = train(stack[0].route, start, [job for work in works for job in work], t)
    firsts = np.cumsum([0, *map(len, works)]).tolist()
    return received, ({name: leaf[a:b] for name, leaf in ends.items()} for a, b in pairwise(firsts))

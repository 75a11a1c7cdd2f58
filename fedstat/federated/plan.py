"""What the arguments of a run mean: methods and seeds by name, data and networks by seed, and how it is known again."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from fedstat._checks import whole
from fedstat._memory import in_words, machine_memory
from fedstat._random import SEEDS
from fedstat._workers import connected
from fedstat.data import Clients
from fedstat.federated.attacks import Attack
from fedstat.federated.attendance import Attendance, share_of_clients
from fedstat.federated.client.local import AnyTraining, Training
from fedstat.federated.client.losses import LossName, choose_task
from fedstat.federated.client.network import TF32, Model, check_device, floating, products
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.client.seeds import SOURCES, Seeds, check_vary
from fedstat.federated.engine.executor import AnyExecutor, ExecutorName, check_executor
from fedstat.federated.engine.own_parts import rehearse_attendance, rehearse_method, rehearse_parts
from fedstat.federated.engine.ray import RayExecutor
from fedstat.federated.engine.rehearsal import is_own, outputs_of, rehearse
from fedstat.federated.fingerprint import digest, of_clients, of_network, plain
from fedstat.federated.history import CLIENT_DTYPES
from fedstat.federated.mechanisms import check_participation
from fedstat.federated.method import Method, label_of
from fedstat.federated.metrics import Metric
from fedstat.federated.patience import Patience
from fedstat.federated.record.predictions import check_outputs
from fedstat.federated.replicate import Replicate, attacked, make_replicate
from fedstat.federated.rounds import Key, Run, start_run
from fedstat.federated.route import Equipment, overrides
from fedstat.federated.state import State
from fedstat.inference import AnalysisPlan

#: Rounds of an attendance among which one must have as many participants as an aggregator needs.
_TRIED = 100
#: What trainings and methods have that may be the user's own.
_PARTS = ("loss", "optimizer", "schedule", "server", "aggregator", "compression", "mechanism")
#: The clients of all seeds, or a function of a seed, or of two: that of the data and that of the partition.
Population = Clients | Callable[[int], Clients] | Callable[[int, int], Clients]


@dataclass(frozen=True, eq=False)
class Plan:
    """A run that is all set, and has not begun.

    Methods and equipment are by label, replicates by seed; `config` is all of it in plain values, with the hashes by
    which the run is known again. `metrics` are measured beside the standard ones.
    """

    methods: Mapping[str, Method]
    model: Model
    training: AnyTraining
    replicates: Mapping[int, Replicate]
    participation: float | Attendance
    equipment: Mapping[str, Equipment]
    config: dict[str, Any]
    analysis: AnalysisPlan | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    stop: Patience | None = None

    @cached_property
    def clients(self) -> pd.DataFrame:
        """Who takes part under each seed: a row per client, with its name and number of samples by split.

        With an attack, ``attacker`` tells who attacks.
        """
        tables = []
        for seed, replicate in self.replicates.items():
            held = replicate.clients
            who = {"seed": seed, "client": np.arange(len(held)), "name": list(held.names)}
            counts = {split: samples.n for split, samples in held.splits.items()}
            if replicate.attack is not None:
                counts["attacker"] = np.isin(np.arange(len(held)), replicate.attackers)
            tables.append(pd.DataFrame(who | dict.fromkeys(("train", "validation", "test"), 0) | counts))
        return pd.concat(tables, ignore_index=True).astype(CLIENT_DTYPES)

    def observed(
        self, analysis: AnalysisPlan | None, metrics: Mapping[str, Metric], stop: Patience | None = None, **asked: bool
    ) -> Plan:
        """Return the plan with what is measured of the run, by which it is known again as well."""
        if asked.get("predictions"):
            first = next(iter(self.replicates.values()))
            check_outputs(self.config["loss"], outputs_of(first.network, first.clients.train))
        seen = {
            **{name: bool(asked.get(name)) for name in ("validate", "trained", "predictions")},
            "metrics": {name: digest(metric) for name, metric in metrics.items()},
            "stop": {} if stop is None else plain(stop),
            "plan": "" if analysis is None else analysis.digest,
        }
        return replace(self, config=self.config | seen, analysis=analysis, metrics=metrics, stop=stop)

    def start(
        self, states: Mapping[Key, State], advance: Callable[..., None] = lambda note, steps: None
    ) -> dict[Key, Run]:
        """Make ready all runs, from `states` or else their methods' starts; `advance` is that of the progress bar."""
        runs, keys = {}, [(label, seed) for label in self.methods for seed in self.replicates]
        for label, seed in keys:  # before the first method trains anybody
            if overrides(self.methods[label], "at_once"):
                _check_size(label, self.methods[label], self.replicates[seed])
            if self.methods[label].aggregator is not None:
                _check_participants(self.methods[label], self.replicates[seed], self.participation)
            if (mechanism := self.methods[label].mechanism) is not None:
                check_participation(mechanism, self.participation, len(self.replicates[seed].clients))
        for key in keys:
            advance(partial("preparing {}, seed {}".format, *key), steps=0)
            method, replicate, equipment = self.methods[key[0]], self.replicates[key[1]], self.equipment[key[0]]
            runs[key] = start_run(key, method, replicate, equipment, states.get(key))
        return runs


def make_plan(
    method: Method | Sequence[Method] | Mapping[str, Method],
    model: Model,
    clients: Population,
    training: AnyTraining,
    participation: float | Attendance = 1.0,
    seed: int | Iterable[int] = 0,
    vary: Iterable[str] | None = None,
    chunk: int | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    executor: AnyExecutor = "auto",
    attack: Attack | None = None,
    first: int | None = None,
) -> Plan:
    """Check arguments that are those of `fedstat.federate`, and rehearse the network and all that is not fedstat's own.

    Sources that do not vary follow the seed `first`, by default the first of `seed`; a run that is continued under more
    seeds gives it, and with it the sources as `choose_sources` chose them.
    """
    varying = tuple(vary or ()) if first is not None else choose_sources(vary, clients, model)
    participation = participation if callable(participation) else share_of_clients(participation)
    chunk = None if chunk is None else whole("chunk", chunk, 1)
    check_executor(executor)
    check_device(device)
    methods, seeds = _labels(method), seeds_of(seed)
    trained = _trained(training, methods)
    first_label, some = next(iter(trained.items()))
    training = some if all(one == some for one in trained.values()) else trained
    _check_range(dtype, *trained.values(), *methods.values())
    keyed = [Seeds(s, seeds[0] if first is None else first, varying) for s in seeds]
    replicates = _replicates(clients, model, keyed, dtype, device)
    if attack is not None:
        replicates = attacked(replicates, attack)
    outputs = {seed: outputs_of(each.network, each.clients.train) for seed, each in replicates.items()}
    tasks = {_task(one, each, outputs[seed]) for seed, each in replicates.items() for one in trained.values()}
    if len(tasks) > 1:
        raise ValueError(
            f"clients(seed) and training must make one task for all seeds and methods, got losses "
            f"{', '.join(sorted(tasks))}."
        )
    (task,) = tasks
    executor = RayExecutor() if executor == "ray" else executor
    with products(tf32=dtype == TF32):
        executor, known = _rehearsed(executor, methods, trained, task, replicates[seeds[0]])
    distinct = {each.offset: each.clients for each in replicates.values()}
    data = {offset: of_clients(held) for offset, held in distinct.items()}
    codes = {label: digest(one) for label, one in trained.items()}
    config = {
        **plain(dict(methods=methods, model=model, training=training, seeds=seeds, participation=participation)),
        "dtype": dtype,
        "executor": known,
        "device": str(device),
        "vary": list(varying),
        "loss": task,
        "classes": {str(s): plain(each.clients.classes or ()) for s, each in replicates.items()},
        "clients": {str(s): len(each.clients) for s, each in replicates.items()},
        "fingerprint": {str(s): data[each.offset] | of_network(each.network) for s, each in replicates.items()},
        "code": {label: digest(one) for label, one in methods.items()},
        "python": platform.python_version(),  # bytecode, by which own code is hashed, is of one version
        "training_code": codes if training is trained else codes[first_label],
        **({} if attack is None else {"attack": {"what": plain(attack), "code": digest(attack)}}),
    }
    if not isinstance(participation, float):
        rehearse_attendance(participation, replicates.values())
        config["attendance_code"] = digest(participation)
    samples = StackedSamples.stack([held.train for held in distinct.values()], floating(dtype), device)
    what = (samples, executor, chunk, dtype == TF32, attack)
    made = {codes[name]: Equipment(task, one, *what) for name, one in trained.items()}
    equipment = {label: made[code] for label, code in codes.items()}
    return Plan(methods, model, training, replicates, participation, equipment, config)


def _rehearsed(
    executor: AnyExecutor,
    methods: Mapping[str, Method],
    trained: Mapping[str, Training],
    task: LossName,
    replicate: Replicate,
) -> tuple[AnyExecutor, str]:
    """Return the executor that trains everything right, and by what it is known: where work is done is no part."""

    parts = [getattr(one, name, None) for one in (*trained.values(), *methods.values()) for name in _PARTS]
    own = any(map(is_own, (*parts, replicate.attack)))

    def right(name: ExecutorName) -> ExecutorName:
        name = rehearse(replicate.network, replicate.clients.train, name)
        name = rehearse_parts(trained.values(), methods.values(), replicate, name) if own else name
        for label in [label for label, method in methods.items() if is_own(method)]:
            name = rehearse_method(methods[label], trained[label], task, replicate, name)
        return name

    if isinstance(executor, str):
        known = right(executor)
        return known, known
    if isinstance(executor, RayExecutor):
        connected()  # before a run, since it takes SIGTERM for itself
        local = right(executor.local)
        return replace(executor, local=local), local
    right("stacked" if getattr(executor, "together", False) else "per-client")
    return executor, type(executor).__qualname__


def _check_size(label: str, method: Method, replicate: Replicate) -> None:
    """Refuse a method that holds more of all clients at once than the machine has memory."""
    clients = len(replicate.clients)
    needs = method.at_once(replicate.network, clients)
    if needs and (memory := machine_memory()) is not None and sum(needs.values()) > memory:
        what = " and ".join(f"{name}, {in_words(size)}" for name, size in needs.items())
        raise ValueError(
            f"{label!r} ({type(method).__name__}) holds {what} for {clients:,} clients, and this machine has "
            f"{in_words(memory)} of memory. Take fewer clients, a smaller network, or a method that does without."
        )


def _check_participants(method: Method, replicate: Replicate, participation: float | Attendance) -> None:
    """Refuse a rule that needs more participants than a round has, or than any of the first rounds."""
    rounds = range(1 if isinstance(participation, float) else _TRIED)
    fewest = getattr(method.aggregator, "fewest", 1)
    most = max(len(replicate.attended(t, participation).ids) for t in rounds)
    if most < fewest:
        when = f" at most in the first {_TRIED} rounds" if len(rounds) > 1 else ""
        raise ValueError(f"{method.aggregator!r} needs {fewest} participants in a round, there are {most}{when}.")


def _labels(method: Method | Sequence[Method] | Mapping[str, Method]) -> dict[str, Method]:
    if isinstance(method, Mapping):
        labels, listed = list(method), list(method.values())
    else:
        listed = list(method) if isinstance(method, Iterable) and not isinstance(method, str) else [method]
        labels = [label_of(m) for m in listed]
    for label, m in zip(labels, listed, strict=True):
        check_one(m)
        if not isinstance(label, str):
            raise ValueError(f"labels of methods must be text, got {label!r}.")
        if labels.count(label) > 1:
            raise ValueError(
                f"two methods have the label {label!r}; give each its own, as in "
                f"{{'{label} A': fs.methods.{label}(...), '{label} B': fs.methods.{label}(...)}}."
            )
    if not listed:
        raise ValueError("method must hold at least one method.")
    return dict(zip(labels, listed, strict=True))


def _trained(training: AnyTraining, methods: Mapping[str, Method]) -> dict[str, Training]:
    """Return the local training of each method; refuse what is none, or no method's."""
    if isinstance(training, Mapping) and set(training) != set(methods):
        wrong = [f"{label!r} is missing" for label in methods if label not in training]
        wrong += [f"there is no method {label!r}" for label in training if label not in methods]
        raise ValueError(
            f"training must be one Training, or a mapping with one for each of the labels {', '.join(methods)}; "
            f"{', '.join(wrong)}."
        )
    found = {label: training[label] if isinstance(training, Mapping) else training for label in methods}
    for one in found.values():
        if not isinstance(one, Training):
            raise ValueError(f"training must be a fedstat Training, or one for each method by label, got {one!r}.")
    return found


def check_one(value: object) -> None:
    """Refuse what is no method, and say what to pass instead."""
    if not isinstance(value, Method):
        remedy = "Did you pass the class? Call it to make one." if isinstance(value, type) else "One is fs.FedAvg()."
        if isinstance(value, str):
            find = f"fs.methods.find({value!r})"
            remedy = f"A name is none: {find} is the class, and {find}() makes one."
        raise ValueError(f"method must be a fedstat Method, or several, got {value!r}. {remedy}")


def seeds_of(seed: int | Iterable[int]) -> list[int]:
    """Return master seeds as a list; ValueError if they are none, or not different."""
    seeds = list(seed) if isinstance(seed, Iterable) else [seed]
    if not seeds or len(set(seeds)) < len(seeds) or not all(isinstance(s, Integral) and s >= 0 for s in seeds):
        raise ValueError(f"seed must be one or several different non-negative integers, got {seed!r}.")
    if max(seeds) >= SEEDS:
        raise ValueError(f"seed must lie in 0..2^63 - 1, so that tables can hold it, got {max(seeds)}.")
    return [int(s) for s in seeds]


def _check_range(dtype: str, *settings: Training | Method) -> None:
    """Refuse numbers that the floating type of a run cannot hold; infinite ones mean what they say."""
    most = torch.finfo(floating(dtype)).max
    for of in settings:
        for name, value in vars(of).items():
            if isinstance(value, float) and most < abs(value) < np.inf:
                raise ValueError(f"{name} of {type(of).__name__} must be at most {most:.4g} in {dtype}, got {value}.")


def _task(training: Training, replicate: Replicate, outputs: int) -> LossName:
    """Return what outputs mean; refuse settings of single clients that are more or fewer than the clients."""
    clients, classes = len(replicate.clients), replicate.clients.classes
    for name, value in (("lr", training.lr), ("local_epochs", training.local_epochs)):
        if isinstance(value, tuple) and len(value) != clients:
            raise ValueError(f"{name} must be one number, or one for each of {clients} clients, got {len(value)}.")
    return choose_task(training.loss, None if classes is None else len(classes), outputs)


def choose_sources(vary: Iterable[str] | None, clients: Population, model: Model) -> tuple[str, ...]:
    """Return the sources of randomness that vary with the seed; by default all that can.

    One named in `vary` that cannot vary with these clients or this model raises a ValueError.
    """
    if isinstance(model, Clients) or not (isinstance(clients, Clients) or callable(clients)):
        raise ValueError(
            "clients must be Clients or a function from a seed to Clients, and stand after the model; got "
            f"{type(model).__name__} as model and {type(clients).__name__} as clients."
        )
    fixed = {"data", "partition"} if isinstance(clients, Clients) else set()
    if vary is None:
        return tuple(source for source in SOURCES if source not in fixed)
    chosen = check_vary(vary)
    fixed |= {"initial weights"} if isinstance(model, nn.Module) else set()  # a method's own parts vary nevertheless
    if named := [source for source in chosen if source in fixed]:
        why = (
            "model is a module, whose own weights every seed starts from; pass a function that builds it"
            if named[0] == "initial weights"
            else "clients are the same for all seeds; pass a function from a seed to Clients"
        )
        raise ValueError(f"vary names {named[0]!r}, but {why}.")
    if not isinstance(clients, Clients) and not takes_two(clients) and ("data" in chosen) != ("partition" in chosen):
        one, other = ("data", "partition") if "data" in chosen else ("partition", "data")
        raise ValueError(
            f"vary names {one!r} without {other!r}, but clients is a function of one seed, which serves both; pass a "
            "function of two, clients(data_seed, partition_seed), or vary both."
        )
    return chosen


def takes_two(function: Callable[..., Any]) -> bool:
    """Tell whether a function has two arguments without defaults."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # some built-in functions do not tell
        return False
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) == 2


def draw(clients: Population, data: int, partition: int) -> Clients:
    """Return the clients of a seed of the data and one of the partition."""
    if isinstance(clients, Clients):
        return clients
    made: Callable[..., Clients] = clients
    return made(data, partition) if takes_two(made) else made(partition)  # one seed then serves both


def _replicates(
    clients: Population, model: Model, seeds: Sequence[Seeds], dtype: str, device: str
) -> dict[int, Replicate]:
    keys = [(one.of("data"), one.of("partition")) for one in seeds]
    drawn = {key: draw(clients, *key) for key in dict.fromkeys(keys)}  # clients of all seeds are stored once
    offsets = dict(zip(drawn, np.cumsum([0, *map(len, drawn.values())]).tolist(), strict=False))
    replicates = {
        one.seed: make_replicate(drawn[key], model, one, dtype, device, offsets[key])
        for one, key in zip(seeds, keys, strict=True)
    }
    if len(shapes := {replicate.clients.train.x.shape[1:] for replicate in replicates.values()}) > 1:
        raise ValueError(f"clients(seed) must return inputs of one shape for all seeds, got {sorted(shapes)}.")
    return replicates

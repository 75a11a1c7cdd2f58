"""From a configuration to what it stands for: samples, partitions, clients, the network and the methods."""

from __future__ import annotations

import inspect
import json
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedstat as fs
from fedstat._checks import naming
from fedstat._random import share_of, stream
from fedstat.data import Clients, Partition, datasets
from fedstat.data.arrays import coded
from fedstat.data.datasets.base import Dataset
from fedstat.data.files import read_arrays, read_csv
from fedstat.experiment import config, dealing
from fedstat.experiment.making import make_attack, make_method, participation
from fedstat.experiment.parsing import FACTS, executor, metrics, network, transformer
from fedstat.federated import Method
from fedstat.federated.attacks import Attack
from fedstat.federated.attendance import Attendance
from fedstat.federated.client.local import AnyTraining
from fedstat.federated.client.losses import choose_task
from fedstat.federated.client.network import Network, build, check_device
from fedstat.federated.client.samples import inputs_to_device
from fedstat.federated.engine.executor import NAMES, here
from fedstat.federated.engine.rehearsal import outputs_of, rehearse
from fedstat.federated.metrics import Metric
from fedstat.federated.replicate import check_samples
from fedstat.inference.formatting import listed
from fedstat.models import Factory


@dataclass(frozen=True, eq=False)
class Setup:
    """The data, network and methods that a configuration stands for, ready to run.

    `dataset` are the samples, before anybody holds them. By seed, `partitions` say who holds what, new clients
    included; `clients` train, and those of `unseen` come later, which is empty without new clients. `model` builds the
    `network`, which is as the first seed starts it. Methods, and local training where it is not one for all, go by
    label.
    """

    experiment: config.Experiment
    dataset: Dataset
    partitions: Mapping[int, Partition]
    clients: Mapping[int, Clients]
    unseen: Mapping[int, Clients]
    model: Factory
    network: Network
    methods: Mapping[str, Method]
    training: AnyTraining
    metrics: Mapping[str, Metric]
    executor: Any
    participation: float | Attendance
    attack: Attack | None = None

    @property
    def sample(self) -> torch.Tensor:
        """A few inputs as the engine stores them."""
        first = next(iter(self.clients.values()))
        return inputs_to_device(first.train.x[:2], self.network.dtype, self.network.device)

    def tuning_clients(self) -> Clients | Callable[[int, int], Clients]:
        """Return the clients that tuning trains: those of the run, or dealt anew for its seeds where the run's are."""
        if "partition" not in self.experiment.vary:
            return self.clients[self.experiment.seeds[0]]
        drawn = cache(lambda seed: _populate(self.experiment, self.dataset, seed)[1])
        return lambda data, partition: drawn(partition)

    def dealt(self, data: int, partition: int) -> Clients:
        """Return the clients of a seed of the partition, as `fedstat.federate` asks for them; the data have no seed."""
        return self.clients[partition]


def set_up(experiment: config.Experiment) -> Setup:
    """Read the data, deal them, and build network and methods; errors name a key or a file."""
    check_device(experiment.device)
    dataset = _read(experiment.data)
    populate = cache(partial(_populate, experiment, dataset))  # seeds may share a partition
    dealt = {seed: populate(experiment.partition_seed(seed)) for seed in experiment.seeds}
    shape = dealt[experiment.seeds[0]][1].train.x.shape[1:]
    model, built = _network(experiment, dataset, shape)
    setup = Setup(
        experiment,
        dataset,
        {seed: partition for seed, (partition, _, _) in dealt.items()},
        {seed: clients for seed, (_, clients, _) in dealt.items()},
        {seed: later for seed, (_, _, later) in dealt.items() if later is not None},
        model,
        built,
        {label: make_method(choice) for label, choice in experiment.method.items()},
        experiment.trainings,
        metrics(experiment.evaluation),
        executor(experiment.executor),
        participation(experiment.participation),
        None if experiment.attack is None else make_attack(experiment.attack),
    )
    _check_fit(setup)
    _check_stop(setup)
    _check_margins(setup)
    return setup


def population(experiment: config.Experiment, seed: int | None = None) -> tuple[Clients, Clients | None]:
    """Return the clients that an experiment trains under a seed, and those that come later.

    Parameters
    ----------
    experiment : Experiment
        As `fedstat.experiment.read` returns it.
    seed : int, optional
        By default the experiment's first.

    Returns
    -------
    Clients, Clients or None
        Who trains; and who stays away from training, None without ``partition.new_clients``.

    Raises
    ------
    ValueError, OSError
        As `fedstat.experiment.run`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedstat as fs
    >>> file = Path(tempfile.mkdtemp(), "mine.toml")
    >>> _ = file.write_text('''rounds = 2
    ... data.name = "digits"
    ... partition = {kind = "iid", clients = 4}
    ... model = {name = "mlp", widths = [8]}
    ... training.lr = 0.1
    ... method.FedAvg = {}''')
    >>> clients, later = fs.experiment.population(fs.experiment.read(file))
    >>> len(clients), later
    (4, None)
    """
    wanted = experiment.partition_seed(experiment.seeds[0] if seed is None else seed)
    _, clients, unseen = _populate(experiment, _read(experiment.data), wanted)
    return clients, unseen


def _read(data: config.Source) -> Dataset:
    dataset = _from_file(data) if data.file is not None else datasets.read(str(data.name), data.root)
    if data.prepare is None and hasattr(dataset.x, "iloc"):
        raise ValueError(
            f'data.prepare is missing; {dataset.name} holds gaps and words: prepare = "standard" sees to them.'
        )
    return dataset


def _populate(experiment: config.Experiment, dataset: Dataset, seed: int) -> tuple[Partition, Clients, Clients | None]:
    """Deal the samples to clients under a seed of the partition; return who holds what, who trains, who comes later."""
    spec, common = experiment.partition, _common(experiment, dataset)
    how = {"prepare": transformer(experiment.data), "fit_on": experiment.data.fit_on}
    with naming("partition"):
        part = _deal(spec, dataset, experiment.data.pool, seed)
        new = _new_clients(spec, part.names, seed)
        test = spec.test if isinstance(spec, dealing.Tested) and not isinstance(spec.test, str) else 0.0
        if part.test is None and test == 0:
            raise ValueError("test = 0 leaves clients without test samples.")
        gather = partial(
            fs.data.from_indices,
            dataset.x,
            dataset.y,
            test=test,
            validation=spec.validation,
            seed=seed,
            stratify=experiment.data.file is not None or hasattr(dataset.x, "iloc"),  # others keep their splits
            tokens=experiment.data.tokens or dataset.vocabulary is not None,
            classes=dataset.classes or None,
        )
        clients = gather(part.of(np.flatnonzero(~new)), common=common, **how)
        if not new.any():
            return part, clients, None
        if clients.transformer is not None:
            how = {"prepare": clients.transformer, "fit_on": "fitted"}
        return part, clients, gather(part.of(np.flatnonzero(new)), **how)


def _from_file(data: config.Source) -> Dataset:
    """Read samples of one's own, grouped by client."""
    path = Path(str(data.file))
    if not path.exists():
        raise FileNotFoundError(f"data.file: {path} does not exist.")
    if path.suffix.lower() == ".csv":
        how = {"inputs": data.inputs, "drop": data.drop, "prepare": data.prepare}
        x, y, owner, names = read_csv(path, client=data.client, target=data.target, **how)
        test, order = np.zeros(len(y), dtype=bool), {data.client: names}
        if data.prepare is None and not (finite := np.isfinite(x).all(axis=1)).all():
            raise ValueError(f"{path}: sample {finite.argmin()} holds an infinite number, or one beyond float32.")
    else:
        x, y, owner, test = read_arrays(path, client=data.client, target=data.target)
        order = {}
    with naming(path):
        y, classes = coded(y)
    return Dataset(path.name, x, y, classes or (), test, groups={data.client: owner}, order=order)


def _common(experiment: config.Experiment, dataset: Dataset) -> np.ndarray | None:
    """Return the numbers of the official test samples, None where global models are not tested on them."""
    if not experiment.evaluation.common:
        return None
    if experiment.data.pool or not dataset.test.any():
        raise ValueError(
            f"evaluation.common needs an official test part that is kept aside; {dataset.name} has none, or "
            "data.pool is true."
        )
    return np.flatnonzero(dataset.test)


def _deal(spec: dealing.Dealing, dataset: Dataset, pool: bool, seed: int) -> Partition:
    """Deal the samples that may be held: all of them, or those outside the official test part."""
    held = np.arange(len(dataset.y)) if pool else np.flatnonzero(~dataset.test)
    y, test = dataset.y, dataset.test
    tested = spec.test if isinstance(spec, dealing.Tested) else "drawn"
    if isinstance(tested, str) and (pool or not test.any()):
        raise ValueError(
            f"test samples come from an official test part here; {dataset.name} has none, or data.pool is true."
        )
    by_class = f'kind = "{spec.kind}"' if not isinstance(spec, dealing.Iid | dealing.Group) else ""
    by_class = 'test = "own classes"' if tested == "own classes" else by_class
    if by_class and not dataset.classes:
        raise ValueError(f"{by_class} needs class labels, and the targets of {dataset.name} are numbers.")
    match spec:
        case dealing.Iid():
            part = fs.data.iid(len(held), spec.clients, seed=seed).within(held)
        case dealing.Dirichlet():
            part = fs.data.dirichlet(
                y[held], spec.clients, spec.alpha, min_size=spec.min_size, tries=spec.tries, seed=seed
            ).within(held)
        case dealing.DirichletDraws():
            part = fs.data.dirichlet_draws(
                y, test, spec.clients, spec.alpha, train=spec.train, held_out=spec.held_out, apart=spec.apart, seed=seed
            )
        case dealing.Shards():
            part = fs.data.shards(y[held], spec.clients, spec.classes_per_client, seed=seed).within(held)
        case dealing.OneLabel():
            part = fs.data.one_label_shards(y[held], spec.clients, seed=seed).within(held)
        case dealing.Group():
            kind = _kind(dataset, spec.by)
            names, order = dataset.groups[kind][held], dataset.order.get(kind)
            part = fs.data.by_group(names, min_size=spec.min_size, order=order).within(held)
        case dealing.Domains():
            groups = dataset.groups[_kind(dataset, spec.by)][held].astype(str)
            part = fs.data.domains(groups, spec.groups, spec.clients, seed=seed).within(held)
        case _:
            raise TypeError(f"no rule for {type(spec).__name__}")
    if isinstance(spec, dealing.Tested) and tested == "own classes":
        part = fs.data.own_test(part, y, test, most=spec.most_test, seed=seed)
    elif tested == "all":
        part = replace(part, test=(np.flatnonzero(test),) * len(part))
    return fs.data.permute_labels(part, len(dataset.classes), seed=seed) if spec.permute_labels else part


def _kind(dataset: Dataset, by: str | None) -> str:
    """Return the kind of group that is meant."""
    known = dataset.groups
    if by is None and len(known) == 1:
        return next(iter(known))
    if by is None or by not in known:
        raise ValueError(f"by must be one of {', '.join(known) or 'none'} for {dataset.name}, got {by!r}.")
    return by


def _new_clients(spec: dealing.Dealing, names: Sequence[str], seed: int) -> np.ndarray:
    """Tell which clients come after training: those that are named, or so many drawn at random."""
    chosen, count = spec.new_clients, len(names)
    new = np.zeros(count, dtype=bool)
    if isinstance(chosen, tuple):
        if strange := [name for name in chosen if name not in names]:
            raise ValueError(f"new_clients names {listed(map(repr, strange))}, but the clients are {', '.join(names)}.")
        new = np.isin(names, chosen)
    elif chosen:
        drawn = min(count, max(1, share_of(count, chosen)))
        new[stream(seed, "new clients").choice(count, drawn, replace=False)] = True
    if new.all():
        raise ValueError(f"new_clients = {json.dumps(chosen)} leaves none of {count} clients to train.")
    return new


def _network(experiment: config.Experiment, dataset: Dataset, shape: Sequence[int]) -> tuple[Factory, Network]:
    """Return what builds the network, told about the data what it asks for, and what it builds."""
    function, given = network(experiment.model)
    facts = _facts(dataset, shape)
    args: list[Any] = []
    named: dict[str, Any] = {}
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.VAR_POSITIONAL:  # sizes of hidden layers, and the outputs last
            args += [*given[p.name], facts["classes"]]
        elif p.kind is not p.VAR_KEYWORD:
            value = given[p.name]
            if value is None and p.name in FACTS:
                value = facts.get(p.name, p.default)
                if value is p.empty:
                    raise ValueError(f"model.{p.name} is missing, and {dataset.name} does not tell it.")
            if p.kind is p.KEYWORD_ONLY:
                named[p.name] = value
            else:
                args.append(value)
    try:
        model = partial(function, *args, **named) if ":" in experiment.model.name else function(*args, **named)
        dtype = torch.float64 if experiment.dtype == "float64" else torch.float32
        built = build(
            model, stream(experiment.seeds[0], "initial weights"), dtype, mixed=experiment.dtype == "bf16-mixed"
        )
        built.module.to(experiment.device)
        return model, built
    except Exception as error:  # a function of one's own may fail in any way
        raise ValueError(f"model: {experiment.model.name} builds no network: {error}") from None


def _check_fit(setup: Setup) -> None:
    """Refuse a network that does not take the inputs, has other outputs than the task, or would be trained wrongly."""
    network, name = setup.network, setup.experiment.model.name
    for clients in (*setup.clients.values(), *setup.unseen.values()):
        with naming("data"):
            check_samples(network, clients)
    train = next(iter(setup.clients.values())).train
    with naming("model"):
        outputs = outputs_of(network, train, name)
    classes = setup.dataset.classes
    try:
        for training in setup.experiment.trainings.values():
            choose_task(training.loss, len(classes) or None, outputs)
    except ValueError as error:  # with the labels themselves: one of them may be a slip of the pen
        labels = f" The classes of {setup.dataset.name} are {reprlib.repr(list(classes))[1:-1]}." if classes else ""
        raise ValueError(f"model: {error}{labels}") from None
    local = here(setup.executor)
    if local in NAMES:
        with naming("model"):
            rehearse(network, train, local)


def _check_stop(setup: Setup) -> None:
    """Refuse a rule for stopping that looks at what is not measured."""
    stop = setup.experiment.stop
    if stop is None:
        return
    own_loss = all(callable(training.loss) for training in setup.experiment.trainings.values())
    standard = ("accuracy", "balanced_accuracy", "log_loss", "majority_share") if setup.dataset.classes else ("mse",)
    known = [*standard, *(["loss"] if own_loss else []), *setup.metrics]
    if stop.metric not in known:
        raise ValueError(f"stop.metric must be one of {', '.join(known)}, got {json.dumps(stop.metric)}.")
    if stop.split == "validation" and not setup.experiment.partition.validation:
        raise ValueError(
            'stop.split = "validation" needs validation samples, such as partition.validation = 0.1; or take "test", '
            "which is optimistic."
        )


def _check_margins(setup: Setup) -> None:
    """Refuse margins of accuracies that no difference exceeds, before hours are spent on the runs."""
    experiment = setup.experiment
    margins = {"evaluation.margin": experiment.evaluation.margin}
    if experiment.plan is not None and experiment.plan.metric in (None, "accuracy"):
        margins["plan.margin"] = experiment.plan.margin
    for name, margin in margins.items():
        if setup.dataset.classes and margin is not None and margin >= 1:
            raise ValueError(f"{name} must be below 1 for accuracies, got {margin:g}. A point is 0.01.")


def _facts(dataset: Dataset, shape: Sequence[int]) -> dict[str, int]:
    """Return the facts about the data that a network may ask for, by name; `shape` is that of one input."""
    facts = {"inputs": math.prod(shape), "classes": len(dataset.classes) or 1}
    if dataset.vocabulary is not None:
        facts["vocabulary"] = dataset.vocabulary
    elif len(shape) in (2, 3):
        facts |= {"side": shape[-1], "channels": shape[0] if len(shape) == 3 else 1}
    return facts

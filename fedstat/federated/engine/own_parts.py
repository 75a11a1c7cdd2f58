"""Rehearse what is not fedstat's own before a run begins: losses, optimisers, schedules, metrics, steps of methods.

Parts obey the laws of `fedstat.federated.engine.laws`, on outputs of the run's network for samples of its clients. A
method of one's own plays a round with a few clients of few samples, each by itself and all as one stack. What is right
under one executor alone gets that one, as networks do; what cannot be right is refused. All of it is tried on copies,
and generators stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstat.data import Clients, Samples
from fedstat.federated.attendance import Attendance, Attended, share_of_clients
from fedstat.federated.client.local import Learner, Phase, Training
from fedstat.federated.client.losses import LossName
from fedstat.federated.client.network import Network, Params, rounds_to_tf32
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.engine.exchange_laws import (
    try_aggregator,
    try_attack,
    try_attendance,
    try_compression,
    try_mechanism,
)
from fedstat.federated.engine.executor import Executor, ExecutorName, Stacked
from fedstat.federated.engine.laws import BrokenLaw, check_statistics, try_loss, try_metric, try_optimizer, try_schedule
from fedstat.federated.engine.rehearsal import (
    DRAWS,
    Refused,
    aside,
    copy_of,
    differ,
    drawn,
    generators,
    is_own,
    near,
    only_under,
    same,
    tolerance,
)
from fedstat.federated.engine.training import phases_of, train
from fedstat.federated.method import Method
from fedstat.federated.metrics import Metric
from fedstat.federated.replicate import Replicate
from fedstat.federated.rounds import Run, start_run
from fedstat.federated.route import Equipment
from fedstat.federated.state import Predictor

#: Samples that losses and metrics are tried on.
_BATCH = 8
#: Samples of the clients with whom a method plays a round, in turn, and of a batch: one is padded, and one ends first.
_SIZES, _OF_A_STEP = (5, 3), 3
#: Steps of an optimiser.
_STEPS = 3
#: The rounds that a method plays: the first, and one in which it may do otherwise.
_ROUNDS = (0, 9)
#: Samples that metrics are tried on at most, and clients.
_MEASURED, _CLIENTS = 1000, 5


def rehearse_parts(
    trainings: Iterable[Training], methods: Iterable[Method], replicate: Replicate, executor: ExecutorName = "auto"
) -> ExecutorName:
    """Try the losses, optimisers and schedules that are not fedstat's own; return the executor that serves them.

    Servers' optimisers, aggregators and compressions are among these, and the attack. A ``ValueError`` names the part,
    the law and a remedy, if one is wrong under every executor, or under the one asked for.
    """
    with aside(replicate.network.device):
        for training in {id(one): one for one in trainings}.values():
            loss, optimizer, schedule = copy.deepcopy((training.loss, training.optimizer, training.schedule))
            if schedule is not None and is_own(schedule):
                executor = _obeys("schedule", partial(try_schedule, schedule, [(0, 0)]), executor)
            if is_own(loss):
                executor = _obeys("loss", partial(_try_loss, loss, replicate), executor)
            if is_own(optimizer):
                name = f"optimizer {type(optimizer).__name__}"
                executor = _obeys(name, partial(_try_optimizer, optimizer, replicate), executor)
        laws: dict[str, Callable[[Any], object]] = {
            "server": partial(_try_optimizer, replicate=replicate), "aggregator": try_aggregator,
            "compression": try_compression, "mechanism": try_mechanism,
        }  # fmt: skip
        between = [(kind, getattr(method, kind), law) for method in methods for kind, law in laws.items()]
        for kind, part, law in (*between, ("attack", replicate.attack, try_attack)):
            if is_own(part):  # these run once, whatever executor trains the clients
                _obeys(f"{kind} {type(part).__name__}", partial(law, copy.deepcopy(part)), "auto")
    return executor


def rehearse_attendance(attendance: Attendance, replicates: Iterable[Replicate]) -> None:
    """Try an attendance on the clients of every seed; fedstat's own may not fit them either."""
    if isinstance(attendance, type):
        share_of_clients(attendance)  # which it is not
    with aside(torch.device("cpu")):
        for clients in {len(replicate.clients) for replicate in replicates}:
            law = partial(try_attendance, copy.deepcopy(attendance), clients)
            _obeys(f"participation {type(attendance).__name__}", law, "auto")


def rehearse_metrics(metrics: Mapping[str, Metric], replicate: Replicate) -> None:
    """Try the metrics that are not fedstat's own, on the samples of clients as the run measures them.

    A metric may fail at some clients, as where there is one class: it is refused if it fails at all that are tried.
    """
    samples, network = replicate.clients.all_splits[replicate.split], replicate.network
    largest = np.argsort(-samples.n, kind="stable")[:_CLIENTS]
    own = {name: copy.deepcopy(metric) for name, metric in metrics.items() if is_own(metric)}
    with aside(network.device):
        for name, metric in own.items():
            for k in largest:
                outputs, y = _outputs(replicate, samples.of(np.array([k]), _MEASURED))
                try:
                    if outputs.isfinite().all():
                        _obeys(f"metrics[{name!r}]", partial(try_metric, metric, outputs.double(), y), "auto")
                    break
                except ValueError as error:
                    if k == largest[-1] or "breaks the law 'call'" not in str(error):
                        raise


def rehearse_method(
    method: Method, training: Training, task: LossName, replicate: Replicate, executor: ExecutorName = "auto"
) -> ExecutorName:
    """Play rounds of a method that is not fedstat's own; return the executor that serves it.

    A ``ValueError`` tells of a step that fails, draws random numbers, remembers, or disagrees under `executor`.
    """
    chosen = np.argsort(-replicate.clients.train.n, kind="stable")
    chosen = np.resize(chosen, max(2, method.fewest))
    training = _of_clients(training, chosen)
    exact = copy_of(replicate.network, torch.float64)
    few, all_samples = _few(replicate.clients.train, chosen), replicate.clients.train.of(chosen)
    # a step of one's own may know no float64, or need more samples
    tries = ((exact, few), (replicate.network, few), (replicate.network, all_samples))
    with aside(replicate.network.device):
        for network, samples in tries:
            clients = Clients(samples, classes=replicate.clients.classes, truth=replicate.clients.truth)
            played = replace(replicate, clients=clients, network=network, offset=0, attack=None, _held_out={})
            try:
                return _suited(method, training, task, played, executor)
            except FloatingPointError:  # which the run itself tells of its own samples
                return executor
            except Refused:
                raise
            except Exception:
                if samples is all_samples:
                    raise
    return executor


def _obeys(name: str, law: Callable[[], object], executor: ExecutorName) -> ExecutorName:
    """Return the executor for a part that obeys its law, or under which alone it does."""
    try:
        law()
    except BrokenLaw as broken:
        if broken.only is None:
            raise ValueError(f"{name} {broken}") from None
        return only_under(broken.only, f"{name} {broken}", executor)
    return executor


def _outputs(replicate: Replicate, samples: Samples) -> tuple[Tensor, Tensor]:
    """Return outputs (B, Q) and targets (B,) of a client's samples, under weights near the initial ones."""
    network = replicate.network
    held = StackedSamples.stack([samples], network.dtype, network.device)
    x, y = held.row(0)
    with torch.no_grad():
        return network(drawn(network, held.sample, 0).second, network.inputs(x)), y


def _try_loss(loss: Any, replicate: Replicate) -> None:
    samples, generator = replicate.clients.train, torch.Generator().manual_seed(0)
    places = np.linspace(0, len(samples.y) - 1, _BATCH).astype(int)
    outputs, y = _outputs(replicate, samples.at(places, np.array([_BATCH])))
    if outputs.isfinite().all():  # the run itself tells where they are not
        wide = 3 * torch.randn(outputs.shape, generator=generator).to(outputs)
        classes = replicate.clients.classes
        others = y if classes is None else torch.arange(len(y), device=y.device) % len(classes)
        try_loss(loss, outputs, y, (wide, others), 1e-4)


def _try_optimizer(optimizer: Any, replicate: Replicate) -> None:
    network, generator = replicate.network, torch.Generator().manual_seed(0)
    leaves = {name: leaf for name, leaf in network.initial().items() if name in network.trainable}

    def scattered(leaf: Tensor) -> Tensor:
        return torch.randn((2, *leaf.shape), generator=generator).to(leaf)

    params = {name: leaf + 0.1 * scattered(leaf) for name, leaf in leaves.items()}
    grads = [{name: scattered(leaf) for name, leaf in leaves.items()} for _ in range(_STEPS)]
    try_optimizer(optimizer, params, grads, 1e-4)


def _few(samples: Samples, chosen: np.ndarray) -> Samples:
    """Return a few samples of each of the clients `chosen`; samples come again where there are too few."""
    n = np.resize(_SIZES, len(chosen))
    places = [samples.start[k] + np.arange(m) % samples.n[k] for k, m in zip(chosen, n, strict=True)]
    return samples.at(np.concatenate(places), n)


def _of_clients(training: Training, chosen: np.ndarray) -> Training:
    """Return the training of the clients `chosen`, in small batches."""
    each: dict[str, Any] = {
        name: tuple(value[k] for k in chosen)
        for name in ("lr", "local_epochs")
        if isinstance(value := getattr(training, name), tuple)
    }
    return replace(training, batch_size=_OF_A_STEP, **each)


def _suited(
    method: Method, training: Training, task: LossName, replicate: Replicate, executor: ExecutorName
) -> ExecutorName:
    """Return the executor that serves a method; refuse what is wrong client by client."""
    # where alone and in a stack it trains otherwise, a stack of one client tells which of the two is meant
    network, name = replicate.network, type(method).__name__
    samples = StackedSamples.stack([replicate.clients.train], network.dtype, network.device)
    equipment = Equipment(task, training, samples, "per-client", tf32=rounds_to_tf32())
    try:
        run = start_run((name, replicate.seed), copy.deepcopy(method), replicate, equipment)
        ids = np.arange(len(replicate.clients))
        begun = run.receive(ids)
        plans = [_shortened(phases_of(run.route, round)) for round in _ROUNDS]
    except Exception:  # what needs all clients shows where the run itself begins
        return executor
    _check_ends(run, ids, begun, plans[0])
    for round, phases in zip(_ROUNDS, plans, strict=True):
        if round and phases == plans[0]:
            continue
        for seed in range(DRAWS):
            start = near(begun, seed)
            alone = _trained(run, "per-client", start, phases, round)
            try:
                stacked = _trained(run, "stacked", start, phases, round)
            except ValueError as error:
                return only_under("per-client", f"{name} cannot train in a stack. {error}", executor)
            if (apart := _apart(start, stacked, alone, network)) is None:
                break
        else:
            first = tuple(replace(phase, steps=1) for phase in phases)  # no batch of these is padded
            ways: tuple[ExecutorName | Executor, ...] = ("per-client", "stacked", Stacked(1))
            one, several, single = (_trained(run, way, start, first, round) for way in ways)
            what = (
                f"{name} would be trained wrongly: {apart!r} of a client is otherwise in a stack of clients than alone"
            )
            if _apart(start, several, one, network) and not _apart(start, several, single, network):
                what += ", where leaves have no client axis in gradient()."
                executor = only_under("stacked", what, executor)
            else:
                what += (
                    ", as it depends on others or on padding. Average with batch.mean or data.mean, and let gradient()"
                )
                executor = only_under("per-client", f"{what} compute client by client.", executor)
    return executor


def _shortened(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    return tuple(replace(p, steps=2, epochs=1 if p.epochs is None else min(p.epochs, 1)) for p in phases)


def _trained(
    run: Run, executor: ExecutorName | Executor, start: Params, phases: tuple[Phase, ...], round: int
) -> Params:
    """Train all clients a little."""
    equipment = replace(run.equipment, executor=executor)
    jobs = run.replicate.jobs(range(len(run.replicate.clients)))
    return train(equipment.route(copy.deepcopy(run.method), run.network, start), start, jobs, round, phases=phases)


def _check_ends(run: Run, ids: np.ndarray, start: Params, phases: tuple[Phase, ...]) -> None:
    """Refuse steps that write to what they are given, draw random numbers or remember; and models that cannot be."""
    name, given = type(run.method).__name__, [*start.items(), *run.state.server.items(), *run.state.memory.items()]
    kept, jobs = [leaf.clone() for _, leaf in given], run.replicate.jobs(ids.tolist())
    before = generators(run.network.device)
    ends = _trained(run, "per-client", start, phases, 0)
    turned = {n: leaf.flip(0) for n, leaf in start.items()}
    again = train(replace(run.route, method=copy.deepcopy(run.method)), turned, jobs[::-1], 0, phases=phases)
    outputs, offered = dict[str, tuple[Tensor, Tensor]](), dict[str, Params]()
    with suppress(Exception):  # what needs all clients shows in the run itself
        run.aggregate(0, Attended(ids), start, {n: leaf.clone() for n, leaf in ends.items()})
        models = run.method.models(run.state, torch.from_numpy(ids), run.federation)
        x = run.network.inputs(run.route.samples.row(0)[0])
        with torch.no_grad():
            outputs = {e: _predicted(run.route.learner, model, x) for e, model in models.items()}
        offered = {estimand: model.params for estimand, model in models.items()}
    if before != generators(run.network.device):
        raise Refused(
            f"{name} breaks the law 'repeat': its steps draw random numbers, so that a run could be neither repeated "
            "nor continued. Draw in init or aggregate, from federation.rng and update.rng."
        )
    if written := [n for (n, leaf), was in zip(given, kept, strict=True) if not same(leaf, was)]:
        raise Refused(f"{name} breaks the law 'untouched': it writes to {written[0]!r}. Let it make new tensors.")
    if other := [n for n, leaf in ends.items() if differ(again[n].flip(0), leaf, tolerance(run.network))]:
        raise Refused(
            f"{name} breaks the law 'repeat': {other[0]!r} depends on the order in which clients train. Let no step "
            "keep anything in attributes; what lasts belongs to the state or to leaves in a slot."
        )
    for estimand, (whole, half) in outputs.items():
        if isinstance(whole, Tensor) and differ(half, whole[: len(half)], tolerance(run.network)):
            raise Refused(
                f"{name} breaks the law 'one sample': the outputs of its model {estimand!r} for a sample depend on the "
                "other samples, which are cut and padded in evaluation. Let predict() compute sample by sample."
            )
    try:
        check_statistics(run.network, offered)
    except BrokenLaw as broken:
        raise Refused(f"{name} {broken}") from None


def _predicted(learner: Learner, model: Predictor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first client's outputs for all samples, and for the first two of them alone."""
    params = {name: leaf[0] for name, leaf in model.params.items()}
    return model.outputs(learner, params, x.clone()), model.outputs(learner, params, x[:2].clone())


def _apart(start: Params, found: Params, wanted: Params, network: Network) -> str | None:
    """Name a leaf that trains otherwise, as far as rounding does not tell; None if all agree."""

    def changes(ends: Params) -> Params:
        return {n: leaf.double() - start[n].double() if n in start else leaf.double() for n, leaf in ends.items()}

    here, there = changes(found), changes(wanted)
    largest = max((float(change.abs().max()) for change in there.values() if change.numel()), default=0.0)
    return next((n for n, change in there.items() if differ(here[n], change, tolerance(network), 1e-3 * largest)), None)

"""Rehearse what is not fedstat's own before a run begins: losses, optimisers, schedules, metrics, steps of methods.

Parts obey the laws of `fedstat.federated.laws`, on outputs of the run's network for samples of its clients. A method of
one's own plays a round with a few clients of few samples, each by itself and all as one stack. What is wrong in a stack
alone goes client by client, as networks do; what cannot be right is refused. Generators stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstat.data import Clients
from fedstat.federated.executor import ExecutorName
from fedstat.federated.laws import BrokenLaw, check_statistics, try_loss, try_metric, try_optimizer, try_schedule
from fedstat.federated.local import Training
from fedstat.federated.losses import LossName
from fedstat.federated.method import Method
from fedstat.federated.metrics import Metric
from fedstat.federated.network import Params
from fedstat.federated.products import rounds_to_tf32
from fedstat.federated.rehearsal import alone_if, aside, copy_of, differ, drawn, generators, same
from fedstat.federated.replicate import Replicate
from fedstat.federated.run import Bench, Run, start_run
from fedstat.federated.samples import StackedSamples
from fedstat.federated.training import phases_of

#: Samples that losses and metrics are tried on.
_BATCH = 8
#: Samples of the clients with whom a method plays a round, in turn, and of a batch: one is padded, and one ends first.
_SIZES, _OF_A_STEP = (5, 3), 3
#: Steps of an optimiser.
_STEPS = 3
#: How many draws of weights must show a difference before it counts: one draw may lie on the kink of a ReLU.
_DRAWS = 3


def rehearse_parts(
    trainings: Iterable[Training], replicate: Replicate, executor: ExecutorName = "auto"
) -> ExecutorName:
    """Try the losses, optimisers and schedules that are not fedstat's own; return the executor that serves them.

    Raises
    ------
    ValueError
        If one is wrong under every executor, or under the one asked for. It names the part, the law and a remedy.
    """
    with aside(replicate.network.device):
        for training in trainings:
            loss, optimizer, schedule = training.loss, training.optimizer, training.schedule
            if schedule is not None and is_own(schedule):
                executor = _obeys("schedule", partial(try_schedule, schedule, [(0, 0)]), executor)
            if callable(loss):
                executor = _obeys("loss", partial(_try_loss, loss, replicate), executor)
            if not isinstance(optimizer, str) and is_own(optimizer):
                name = f"optimizer {type(optimizer).__name__}"
                executor = _obeys(name, partial(_try_optimizer, training, replicate), executor)
    return executor


def rehearse_metrics(metrics: Mapping[str, Metric], replicate: Replicate) -> None:
    """Try the metrics that are not fedstat's own.

    Raises
    ------
    ValueError
        It names the metric, the law and a remedy.
    """
    with aside(replicate.network.device):
        for name, metric in metrics.items():
            if is_own(metric):
                outputs, y = _outputs(replicate)
                if outputs.isfinite().all():
                    _obeys(f"metrics[{name!r}]", partial(try_metric, metric, outputs, y, 1e-4), "auto")


def rehearse_method(
    method: Method, training: Training, task: LossName, replicate: Replicate, executor: ExecutorName = "auto"
) -> ExecutorName:
    """Play a round of a method that is not fedstat's own; return the executor that serves it.

    Raises
    ------
    ValueError
        If a step fails, draws random numbers, remembers, or disagrees under the executor asked for.
    """
    if not is_own(method):
        return executor
    few = replace(
        replicate,
        clients=_few(replicate.clients, max(2, method.fewest)),
        offset=0,
        _held_out=dict[str, StackedSamples](),
    )
    with aside(replicate.network.device):
        try:
            try:
                exact = replace(few, network=copy_of(replicate.network, torch.float64))
                fault = _fault(method, _short(training), task, exact, executor)
            except Exception:  # a step of one's own may know no float64
                fault = _fault(method, _short(training), task, few, executor)
        except FloatingPointError:  # which the run itself tells of its own samples
            return executor
    return alone_if(fault, executor)


def is_own(part: Any) -> bool:
    """Tell whether a function or object was not written by fedstat."""
    module = getattr(part, "__module__", None) or type(part).__module__
    return not f"{module}.".startswith("fedstat.")


def _obeys(name: str, law: Callable[[], object], executor: ExecutorName) -> ExecutorName:
    """Return the executor for a part that obeys its law; or the one without a stack, if there alone it does not."""
    try:
        law()
    except BrokenLaw as broken:
        if not broken.company:
            raise ValueError(f"{name} {broken}") from None
        return alone_if(f"{name} {broken}", executor)
    return executor


def _outputs(replicate: Replicate) -> tuple[Tensor, Tensor]:
    """Return outputs (B, Q) and targets (B,) of samples of all clients, under weights near the initial ones."""
    samples, network = replicate.clients.train, replicate.network
    places = np.linspace(0, len(samples.y) - 1, _BATCH).astype(int)
    held = StackedSamples.stack([samples.at(places, np.array([_BATCH]))], network.dtype, network.device)
    x, y = held.row(0)
    with torch.no_grad():
        return network(drawn(network, held.sample, 0).second, network.inputs(x)), y


def _try_loss(loss: Any, replicate: Replicate) -> None:
    outputs, y = _outputs(replicate)
    if outputs.isfinite().all():  # the run itself tells where they are not
        try_loss(loss, outputs, y, 1e-4)


def _try_optimizer(training: Training, replicate: Replicate) -> None:
    network, generator = replicate.network, torch.Generator().manual_seed(0)
    leaves = {name: leaf for name, leaf in network.initial().items() if name in network.trainable}

    def scattered(leaf: Tensor) -> Tensor:
        return torch.randn((2, *leaf.shape), generator=generator).to(leaf)

    params = {name: leaf + 0.1 * scattered(leaf) for name, leaf in leaves.items()}
    grads = [{name: scattered(leaf) for name, leaf in leaves.items()} for _ in range(_STEPS)]
    try_optimizer(training.steps, params, grads, 1e-4)


def _few(clients: Clients, count: int) -> Clients:
    """Return clients of a few samples each, from the first ones; samples come again where there are too few."""
    samples, n = clients.train, np.resize(_SIZES, count)
    places = [samples.start[k % len(clients)] + np.arange(m) % samples.n[k % len(clients)] for k, m in enumerate(n)]
    return Clients(samples.at(np.concatenate(places), n), classes=clients.classes, truth=clients.truth)


def _short(training: Training) -> Training:
    rate = training.lr[0] if isinstance(training.lr, tuple) else training.lr
    return replace(training, lr=rate, batch_size=_OF_A_STEP, local_epochs=1)


def _fault(method: Method, training: Training, task: LossName, replicate: Replicate, executor: ExecutorName) -> str:
    """Say what goes wrong in a stack alone; refuse what goes wrong client by client."""
    network, name = replicate.network, type(method).__name__
    samples = StackedSamples.stack([replicate.clients.train], network.dtype, network.device)
    bench = Bench(task, training, samples, "per-client", tf32=rounds_to_tf32())
    try:
        run = start_run((name, replicate.seed), method, replicate, bench)
        ids = np.arange(len(replicate.clients))
        start = run.receive(ids)
    except Exception:  # what needs all clients shows where the run itself begins
        return ""
    fault = ""
    for seed in range(_DRAWS):
        start = start if seed == 0 else _near(start, run, seed)
        alone = _trained(run, bench, start)
        if seed == 0:
            _check_ends(run, ids, start, alone)
        if executor == "per-client":
            break
        try:
            stacked = _trained(run, replace(bench, executor="stacked"), start)
        except ValueError as error:
            return f"{name} cannot train in a stack. {error}"
        apart = _apart(start, stacked, alone, network.dtype)
        if apart is None:
            return ""
        fault = (
            f"{name} would be trained wrongly in a stack: {apart!r} of a client depends on other clients or on "
            "padding. Average over samples with batch.mean or data.mean, and let gradient() compute client by client."
        )
    return fault


def _trained(run: Run, bench: Bench, start: Params) -> Params:
    """Train all clients a little in each phase of the first round."""
    phases = phases_of(run.method, run.network, bench.training, 0)
    short = tuple(replace(p, steps=2, epochs=None if p.epochs is None else min(p.epochs, 1)) for p in phases)
    jobs = run.replicate.jobs(range(len(run.replicate.clients)))
    return bench.train(run.method, run.network, start, jobs, 0, phases=short)


def _near(start: Params, run: Run, seed: int) -> Params:
    """Return leaves within a tenth of those given, for each client others."""
    generator = torch.Generator().manual_seed(seed)

    def near(leaf: Tensor) -> Tensor:
        return leaf * (0.9 + 0.2 * torch.rand(leaf.shape, generator=generator).to(leaf))

    return {name: near(leaf) if name in run.network.trainable else leaf for name, leaf in start.items()}


def _check_ends(run: Run, ids: np.ndarray, start: Params, ends: Params) -> None:
    """Refuse steps that write to what they received, draw random numbers or remember; and models without statistics."""
    name, received = type(run.method).__name__, {n: leaf.clone() for n, leaf in start.items()}
    before = generators(run.network.device)
    again = _trained(run, run.bench, start)
    if before != generators(run.network.device):
        raise ValueError(
            f"{name} breaks the law 'repeat': its local steps draw random numbers, so that a run could be neither "
            "repeated nor continued. Draw in init or aggregate, from federation.rng and update.rng."
        )
    if written := [n for n, leaf in received.items() if not same(start[n], leaf)]:
        raise ValueError(f"{name} breaks the law 'untouched': it writes to {written[0]!r}, which it received.")
    if other := [n for n, leaf in ends.items() if differ(again[n], leaf, 1e-6)]:
        raise ValueError(
            f"{name} breaks the law 'repeat': {other[0]!r} differs between two identical trainings. Let no step keep "
            "anything in attributes; what lasts belongs to the state or to leaves in a slot."
        )
    if not run.network.statistics:
        return
    try:
        run.aggregate(0, ids, start, ends)
        models = run.method.models(run.state, torch.from_numpy(ids), run.federation)
        offered = {estimand: model.params for estimand, model in models.items()}
    except Exception:  # what needs all clients shows in the run itself
        return
    try:
        check_statistics(run.network, offered)
    except BrokenLaw as broken:
        raise ValueError(f"{name} {broken}") from None


def _apart(start: Params, found: Params, wanted: Params, dtype: torch.dtype) -> str | None:
    """Name a leaf that trains otherwise, as far as rounding does not tell; None if all agree."""
    tolerance = 1e-7 if dtype == torch.float64 else 1e-2

    def changes(ends: Params) -> Params:
        return {n: leaf.double() - start[n].double() if n in start else leaf.double() for n, leaf in ends.items()}

    here, there = changes(found), changes(wanted)
    largest = max((float(change.abs().max()) for change in there.values() if change.numel()), default=0.0)
    return next((n for n, change in there.items() if differ(here[n], change, tolerance, 1e-3 * largest)), None)

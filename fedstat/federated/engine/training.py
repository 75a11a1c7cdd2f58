"""Local training of many clients: stacked, where the client axis is a tensor axis, or one client after the other.

Of stacked clients the loss is the sum of each client's batch loss, so one backward pass gives every client exactly its
own gradient and one elementwise step serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import number
from fedstat.federated.client.layers import MaskedBatchNorm
from fedstat.federated.client.local import Batch, ClientData, Context, Phase
from fedstat.federated.client.network import Network, Params, apart, products
from fedstat.federated.client.optimizers import Rate, along_clients, descend, started
from fedstat.federated.client.samples import BatchOrders, Job, StackedSamples, Steps
from fedstat.federated.client.schedules import Schedule
from fedstat.federated.engine import layer_chain
from fedstat.federated.engine.between import Between, check_leaves
from fedstat.federated.engine.dense_chain import Chain
from fedstat.federated.engine.descent import Descent, all_finite
from fedstat.federated.method import naming, returned
from fedstat.federated.route import Route
from fedstat.federated.slots import in_slot, is_statistic, slot


def train(
    route: Route,
    start: Params,
    jobs: Sequence[Job],
    round: int,
    *,
    phases: tuple[Phase, ...] | None = None,
    moves: Params | None = None,
    purpose: str = "batches",
) -> Params:
    """Train each row of `start` (J, ...), which stays unchanged, on its job's samples for one round.

    Returned are the trained leaves, and what the method's ``finish`` added; up to rounding they do not depend on what
    does the work. `round` and `purpose`, rounds or something beside them, are parts of the key of the batch orders;
    phases are the method's by default. Where `moves`, broadcastable to (J, ...), is false an element stays as it is. If
    a loss, weights or statistics became infinite or NaN, a ``FloatingPointError`` names client, round and rate.
    """
    method, size, network = route.method, route.training.batch_size, route.learner.network
    phases = phases_of(route, round) if phases is None else phases
    for phase in phases:
        rates = phase.lr if isinstance(phase.lr, Mapping) else {}
        model = [] if phase.slot is None else map(phase.leaf, network.shapes)
        if unknown := {*phase.train, *rates, *model} - start.keys() or (rates and set(phase.train) - rates.keys()):
            raise ValueError(
                f"a phase of {type(method).__name__} names leaves {sorted(unknown)} that it has not received, or has "
                f"no rate for; leaves are {', '.join(start)}."
            )
    orders = BatchOrders(size, route.samples, round, purpose, method.held_out, method.batches, noisy=network.noisy)
    with products(tf32=route.tf32):
        return route.executor.train(LocalTraining(route, orders, round, phases), start, jobs, moves or {})


def phases_of(route: Route, round: int) -> tuple[Phase, ...]:
    """Return what a method trains in a round."""
    found = route.method.phases(route.learner.network, route.training, round)
    return tuple(returned(route.method, "phases", found, tuple | list, "a tuple of phases"))


@dataclass(frozen=True, eq=False)
class LocalTraining:
    """The local training of one round, negative before the first, for whichever clients an executor hands it.

    ``orders`` say which samples each step uses; phases train one after the other.
    """

    route: Route
    orders: BatchOrders
    round: int
    phases: tuple[Phase, ...]

    @property
    def when(self) -> str:
        """When the training takes place, in words."""
        if self.orders.purpose == "tuning batches":
            return f"tuning after round {self.round}"
        return f"round {self.round + 1}" if self.round >= 0 else "the training before the first round"

    def stacked(self, start: Params, jobs: Sequence[Job], moves: Params) -> Params:
        """Train clients that lie along the first axis of all leaves."""
        return _Crew(self, self.route, jobs, self.route.dense, stacked=True).run(start, moves)

    def alone(self, network: Network, start: Params, job: Job, moves: Params) -> Params:
        """Train one client, whose leaves have no client axis, with a network of the caller's."""
        route = replace(self.route, learner=replace(self.route.learner, network=network))
        return _Crew(self, route, [job], self.route.layers, stacked=False).run(start, moves)


@dataclass(frozen=True, eq=False)
class _Crew:
    """Some clients at their local training, a stack of them or one alone, and the chain of their gradients, if any."""

    work: LocalTraining
    route: Route
    jobs: Sequence[Job]
    chain: Chain | layer_chain.Chain | None
    stacked: bool

    @property
    def first(self) -> np.ndarray:
        """Where each client's samples begin, (c,)."""
        return self.route.samples.start[[job.row for job in self.jobs]]

    def each(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Make what speaks of one client apply to those at hand."""
        return torch.vmap(step) if self.stacked else step

    def run(self, received: Params, moves: Params) -> Params:
        """Prepare, train phase by phase, finish."""
        prepares, finishes = (step in self.route.own for step in ("prepare", "finish"))
        params, aux = self.prepare(received) if prepares else (received, {})
        params, sums, first = dict(params), dict[str, Tensor](), 0
        for phase in self.work.phases:
            epochs = self.route.training.local_epochs if phase.epochs is None else phase.epochs
            own = [epochs[job.client] if isinstance(epochs, tuple) else epochs for job in self.jobs]
            first = first if phase.first_epoch is None else phase.first_epoch
            if max(own):
                steps = self.work.orders.of(self.jobs, first, own, phase.steps)
                if len(steps.places):
                    self.train(params, received, aux, phase, steps, moves)
                if finishes:
                    sums |= {name: sums.get(name, 0) + more for name, more in self.rate_sum(phase, steps).items()}
            first += max(epochs) if isinstance(epochs, tuple) else epochs  # whoever else is at hand
        params = apart({name: leaf.contiguous() for name, leaf in params.items()}, received)
        if finishes:
            params |= self.finish(params, received, aux, sums)
        return params | {name: torch.where(mask, params[name], received[name]) for name, mask in moves.items()}

    @torch.no_grad()
    def prepare(self, received: Params) -> tuple[Params, Params]:
        """Let the method change leaves before training, and add what its steps need beside them."""
        method, learner = self.route.method, self.route.learner

        def prepared(p: Params, d: Mapping[str, Tensor]) -> tuple[Params, Params]:
            with naming(method, "prepare", self.work.when, p):
                found = method.prepare(learner, p, ClientData(**d))
            return returned(method, "prepare", found, tuple, "the leaves and what the steps need beside them")

        return self.each(prepared)(received, self.data)

    @torch.no_grad()
    def finish(self, params: Params, received: Params, aux: Params, sums: Params) -> Params:
        """Let the method change leaves after training, or add what is sent beside them."""
        method, learner = self.route.method, self.route.learner

        def finished(p: Params, r: Params, a: Params, d: Mapping[str, Tensor], sums: Params) -> Params:
            with naming(method, "finish", self.work.when, p):
                found = method.finish(learner, p, ClientData(**d), Context(r, a, "finish", sums))
            return returned(method, "finish", found, Mapping, "a dict of tensors by leaf")

        return self.each(finished)(params, received, aux, self.data, sums)

    def train(self, params: Params, received: Params, aux: Params, phase: Phase, steps: Steps, moves: Params) -> None:
        """Put what all steps of one phase come to into `params`."""
        descent = self.descent(received, aux, phase, steps, moves)
        if descent is None:
            finite = self.step_by_step(params, self.between(received, aux, phase), phase, steps, moves)
            moved = [params[name] for name in params if name in phase.train or is_statistic(name)]
            finite = torch.stack([finite, *(all_finite(leaf if self.stacked else leaf[None]) for leaf in moved)]).all(0)
        else:
            finite = descent.run(params, self.first, steps.places[:, 0])
        if not finite.all():
            self.stop(finite, phase)

    def between(self, received: Params, aux: Params, phase: Phase) -> Between:
        """Return what the method adds to gradients in a phase, and puts back after a step."""
        context = Context(received, aux, phase.name)
        return Between(self.route.method, phase, self.when(phase), context, self.stacked, self.route.own)

    def descent(self, received: Params, aux: Params, phase: Phase, steps: Steps, moves: Params) -> Descent | None:
        """Return the steps of a phase in closed form; None if the method asks for more than the optimiser's steps."""
        route, training = self.route, self.route.training
        asked = phase.plain or phase.state is not None or {*phase.train} & moves.keys() or "gradient" in route.own
        if not isinstance(self.chain, Chain) or asked or not phase.train:
            return None
        chain = self.chain if phase.slot is None else self.chain.renamed(phase.leaf)
        if not {*phase.train} <= {*chain.leaves}:
            return None
        rate, schedule, count = self.rate(phase), training.schedule, len(steps.places)
        rates = [rate if schedule is None else _scaled(rate, self.factor(schedule, s)) for s in range(count)]
        between = None if route.own.isdisjoint(("pull", "constrain")) else self.between(received, aux, phase)
        return Descent(chain, route.learner, route.samples, phase.train, rates, training, between)

    def step_by_step(self, params: Params, between: Between, phase: Phase, steps: Steps, moves: Params) -> Tensor:
        """Take all steps of one phase, each by its gradient, on copies; return whose losses were all finite."""
        training, rate = self.route.training, self.rate(phase)
        params |= {name: leaf.clone() for name, leaf in params.items()}
        if phase.plain:
            training = replace(training, optimizer="sgd", momentum=0.0, weight_decay=0.0, clip_norm=None, schedule=None)
        kept = None if phase.state is None else slot(params, phase.state)
        state = {} if kept is None else kept
        finite = torch.ones(len(self.jobs), dtype=torch.bool, device=self.route.samples.device)
        for name in phase.train:
            params[name].requires_grad_()
        grad = _Gradients(self, between, finite)
        active = steps.places[:, 0, :, 0] >= 0
        everybody, moving = np.asarray(active.all(1)), torch.from_numpy(active).to(finite.device)
        for taken, batches in enumerate(self.batches(steps)):
            step = self.direction(grad, params, batches)
            if taken == 0:
                _lay_out(params, step)
                with torch.no_grad():  # and the state like the leaves
                    begun = {} if kept else started(training.steps, {name: params[name] for name in phase.train})
                if begun and kept is not None:
                    raise ValueError(
                        f"{type(self.route.method).__name__} has a phase with state={phase.state!r}, a slot where its "
                        "leaves put nothing: add in_slot(federation.training.steps.start(leaves), "
                        f"{phase.state!r}) to what leaves() returns."
                    )
                state |= begun
            if step:
                rows = None if everybody[taken] else moving[taken]
                lr = rate if training.schedule is None else _scaled(rate, self.factor(training.schedule, taken))
                with torch.no_grad():
                    before = None if kept is None or rows is None else {n: s.clone() for n, s in state.items()}
                    descend(params, step, state, training, lr, stacked=self.stacked, moves=moves, active=rows)
                    if before is not None:  # the state of who has finished lives on
                        state |= {n: torch.where(along_clients(rows, s), s, before[n]) for n, s in state.items()}
                    between.constrain(params, rows)
        if phase.state is not None:
            params |= in_slot(state, phase.state)
        for name in phase.train:
            params[name] = params[name].detach()
        return grad.finite

    def when(self, phase: Phase) -> str:
        """When a phase takes place, in words."""
        return f"phase {phase.name!r} of {self.work.when}"

    def direction(self, grad: _Gradients, params: Params, batches: tuple[Batch, ...]) -> Params:
        """Return the direction of one step, as the method makes it of gradients."""
        method = self.route.method
        if "gradient" not in self.route.own:
            return grad(params, batches[0])
        with naming(method, "gradient", grad.between.when, params, stacked=self.stacked):
            found = method.gradient(grad, params, batches, grad.between.context)
        check_leaves(method, "gradient", found, params)
        return found

    def batches(self, steps: Steps) -> Iterator[tuple[Batch, ...]]:
        """Batches of every step; a client alone has no padding."""
        samples, network = self.route.samples, self.route.learner.network
        counts = (steps.places >= 0).sum(-1)
        full = (counts == steps.places.shape[-1]).all(-1)
        first = torch.from_numpy(self.first).to(samples.device)[:, None]
        tensors = (torch.from_numpy(values).to(samples.device) for values in (steps.places, steps.noise))
        for group, keys, some, whole in zip(*tensors, counts, full, strict=True):
            made = []
            for rows, key, count, padless in zip(group, keys, some, whole, strict=True):
                at = first
                if not self.stacked:
                    rows, key, at, padless = rows[0, : count[0]], key[0], first[0], True
                valid, rows = rows >= 0, rows.clamp(min=0)
                x, y = samples.take(at + rows)
                made.append(Batch(network.inputs(x), y, valid, rows, bool(padless), key))
            yield tuple(made)

    @cached_property
    def data(self) -> dict[str, Tensor]:
        """Each client's training samples, as the fields of a `ClientData`; a client alone has no padding."""
        samples, network = self.route.samples, self.route.learner.network
        masks = dict(zip(("valid", "held_out"), self.work.orders.masks(self.jobs), strict=True))
        if self.stacked:
            x, y = samples.padded(np.array([job.row for job in self.jobs]))
        else:
            x, y = samples.row(self.jobs[0].row)
            masks = {name: mask[0, : len(y)] for name, mask in masks.items()}
        return {"x": network.inputs(x), "y": y, **masks}

    def rate(self, phase: Phase) -> Rate:
        """Learning rate of a phase in this round."""
        lr: Any = self.route.training.lr if phase.lr is None else phase.lr
        if isinstance(lr, tuple):
            each = torch.tensor([lr[job.client] for job in self.jobs], dtype=torch.float64)
            lr = each.to(self.route.samples.device) if self.stacked else each.item()
        return lr if phase.plain else _scaled(lr, self.route.training.lr_decay ** max(0, self.work.round))

    def rate_sum(self, phase: Phase, steps: Steps) -> Params:
        """Sum of the learning rates of each client's own steps in a phase, by leaf that trains."""
        taken, rate = steps.places[:, 0, :, 0] >= 0, self.rate(phase)
        schedule = None if phase.plain else self.route.training.schedule
        factors = np.ones(len(taken)) if schedule is None else [self.factor(schedule, s) for s in range(len(taken))]
        total = torch.from_numpy(np.asarray(factors) @ taken).to(self.route.samples.device)
        total, dtype = total if self.stacked else total[0], self.route.learner.network.dtype
        return {n: (total * (rate[n] if isinstance(rate, Mapping) else rate)).to(dtype) for n in phase.train}

    def factor(self, schedule: Schedule, step: int) -> float:
        """Return a schedule's factor for a step, checked."""
        round = max(0, self.work.round)
        try:
            factor = schedule(round, step)
        except Exception as error:  # a function of one's own may fail in any way
            raise ValueError(f"schedule({round}, {step}) failed: {type(error).__name__}: {error}") from None
        return number("schedule(round, step)", factor, "[0, inf)")

    def stop(self, finite: Tensor, phase: Phase) -> NoReturn:
        """Say of the first client whose loss or weights are no numbers any more; `finite` (c,) tells whose are."""
        which = int((~finite).nonzero()[0])
        job, rate, attack = self.jobs[which], self.rate(phase), self.route.attack
        raise FloatingPointError(
            f"loss or weights of client {job.client} (seed {job.seeds.seed}) became infinite or NaN in "
            f"{self.work.when} under {type(self.route.method).__name__} at "
            f"lr={rate[which].item() if isinstance(rate, Tensor) else rate}. Lower lr, or scale the inputs"
            + (f"; the attack {attack!r} may drive them there: see fs.aggregators." if attack and attack.share else ".")
        )


class _Gradients:
    """Gradients of a method's objective and pull, as its ``gradient`` asks for them; `finite` tells of the losses."""

    def __init__(self, crew: _Crew, between: Between, finite: Tensor) -> None:
        method, learner, when, phase = between.method, crew.route.learner, between.when, between.phase
        self.names, self.between, self.finite = phase.train, between, finite
        self.whose, self.learner, self.chain = type(method).__name__, learner, crew.chain
        self.own = {phase.leaf(name): name for name in (self.chain.leaves if self.chain else ())}
        if not {*phase.train} <= self.own.keys():
            self.chain = None  # a leaf of the method's own has no part in the loss

        def loss(
            full: bool, p: Params, r: Params, a: Params, x: Tensor, y: Tensor, valid: Tensor, rows: Tensor, key: Tensor
        ) -> Tensor:
            with naming(method, "objective", when, p):
                batch, model = Batch(x, y, valid, rows, full, key), phase.model(p, learner.network)
                loss = method.objective(learner, model, batch, Context(r, a, phase.name))
            returned(method, "objective", loss, Tensor, "a tensor, the loss")
            if loss.dim():
                raise ValueError(
                    f"{type(method).__name__}.objective must return one number, a tensor without axes, got shape "
                    f"{tuple(loss.shape)}. batch.mean(losses) averages over a client's samples."
                )
            return loss

        self.losses = {full: crew.each(partial(loss, full)) for full in (True, False)}

    def __call__(self, point: Params, batch: Batch) -> Params:
        """Return the gradients at a point, by the names of the leaves that train."""
        found = self.of_objective(point, batch)
        return found | {name: found[name] + pull for name, pull in self.between.pull(point).items()}

    def of_objective(self, point: Params, batch: Batch) -> Params:
        """Return the gradients without the pull."""
        if self.chain is not None and self.names:
            model = self.between.phase.model(point, self.learner.network)
            finite, found = self.chain.gradients(self.learner, model, [self.own[n] for n in self.names], batch)
            self.finite = self.finite & finite
            return {name: found[self.own[name]] for name in self.names}
        received, aux = self.between.context.received, self.between.context.aux
        tensors = (batch.x, batch.y, batch.valid, batch.rows, batch.noise)
        losses = self.losses[batch.full](point, received, aux, *tensors)
        self.finite = self.finite & losses.detach().isfinite()
        leaves = [point[name] for name in self.names]
        if not leaves:  # the forward pass alone moves statistics
            return {}
        if not losses.requires_grad:
            raise ValueError(
                f"no gradient reaches {', '.join(self.names)} from the objective of {self.whose}; look for detach(), "
                "torch.no_grad() or .item() there and in the loss."
            )
        grads = torch.autograd.grad(losses.sum(), leaves, allow_unused=True, materialize_grads=True)
        return dict(zip(self.names, grads, strict=True))


def _scaled(lr: Rate, factor: float) -> Rate:
    return {name: rate * factor for name, rate in lr.items()} if isinstance(lr, Mapping) else lr * factor


@torch.no_grad()
def moments(network: Network, samples: StackedSamples, params: Params, jobs: Sequence[Job]) -> Params:
    """Running statistics of batch norm (J, ...) from one pass over all of each job's training samples, without dropout.

    `params` are the leaves (J, ...) of the jobs; without batch norm nothing is returned.
    """
    norms = [layer for layer in network.module.modules() if isinstance(layer, MaskedBatchNorm)]
    before = [layer.momentum for layer in norms]
    found: list[Params] = []
    try:
        for layer in norms:
            layer.momentum = 1.0  # the batch's own moments, whatever stood there
        for k, job in enumerate(jobs if norms else ()):
            leaves = {name: leaf[k].clone() for name, leaf in params.items()}
            network(leaves, network.inputs(samples.row(job.row)[0]), train=True)
            found.append({name: leaves[name] for name in network.statistics})
    finally:
        for layer, momentum in zip(norms, before, strict=True):
            layer.momentum = momentum
    return {name: torch.stack([one[name] for one in found]) for name in found[0]} if found else {}


def _lay_out(params: Params, grads: Params) -> None:
    """Give leaves the memory layout of their gradients: dense layers' come transposed, and steps then run in order."""
    for name, g in grads.items():
        if _strides(g) != _strides(params[name]):
            params[name] = torch.empty_like(g).copy_(params[name].detach()).requires_grad_()


def _strides(leaf: Tensor) -> list[int]:
    """Strides along the axes that have any."""
    return [step for step, length in zip(leaf.stride(), leaf.shape, strict=True) if length > 1]

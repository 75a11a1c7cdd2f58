"""Local training of many clients at once: the client axis is a tensor axis.

The loss is the sum over clients of each client's batch loss, so one backward pass gives every client exactly its
own gradient and one elementwise step serves all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedstat._random import stream
from fedstat.data import Samples
from fedstat.federated.layers import MaskedBatchNorm
from fedstat.federated.local import Batch, Context, Data, Learner, Phase, Training
from fedstat.federated.method import Method
from fedstat.federated.network import Network, Params
from fedstat.federated.optimizers import SGD, Adam

#: Stacked leaves of one chunk of clients: about the size at which more clients stop paying on a CPU.
CHUNK_BYTES = 8 * 2**20


@dataclass(frozen=True, eq=False)
class Pool:
    """Training samples of several populations stacked on one client axis.

    Attributes
    ----------
    x : Tensor, shape (R * n_max, ...)
        Inputs of all R rows (clients), row after row.
    y : Tensor, shape (R * n_max,)
        Targets.
    n : ndarray of int, shape (R,)
        Samples per row.
    n_max : int
        Length of a row.
    """

    x: Tensor
    y: Tensor
    n: np.ndarray
    n_max: int

    @classmethod
    def stack(cls, populations: Sequence[Samples], dtype: torch.dtype, device: str) -> Pool:
        """Stack populations, padding to the largest client of all."""
        n_max = max(p.x.shape[1] for p in populations)
        floating = np.issubdtype(populations[0].y.dtype, np.floating)

        def flat(values: np.ndarray) -> np.ndarray:
            wide = np.zeros((values.shape[0], n_max, *values.shape[2:]), dtype=values.dtype)
            wide[:, : values.shape[1]] = values
            return wide.reshape(-1, *values.shape[2:])

        x = torch.from_numpy(np.concatenate([flat(p.x) for p in populations])).to(device, dtype)
        y = torch.from_numpy(np.concatenate([flat(p.y) for p in populations]))
        y = y.to(device, dtype if floating else torch.int64)
        return cls(x, y, np.concatenate([p.n for p in populations]), n_max)


@dataclass(frozen=True, eq=False)
class Job:
    """One row of a round's work: which data, and the key of its batch orders."""

    row: int
    seed: int
    client: int


def train(
    method: Method,
    learner: Learner,
    training: Training,
    pool: Pool,
    start: Params,
    jobs: Sequence[Job],
    round: int,
    chunk: int | None = None,
    *,
    phases: tuple[Phase, ...] | None = None,
    moves: Params | None = None,
    purpose: str = "batches",
) -> Params:
    """Train each row of `start` on its job's samples for one round.

    Parameters
    ----------
    method, learner, training
        The local steps, the network with its loss, and the settings.
    pool : Pool
        The training samples.
    start : dict of Tensor, each (J, ...)
        Received leaves, one row per job; left unchanged.
    jobs : sequence of Job, length J
        Data row and random key of each row.
    round : int
        Part of the key of the batch orders.
    chunk : int, optional
        Rows trained at once. The result does not depend on it (up to rounding); 1 is the sequential loop.
    phases : tuple of Phase, optional
        By default the method's.
    moves : dict of Tensor of bool, each broadcastable to (J, ...), optional
        Where false an element stays as it is.
    purpose : str
        Part of the key of the batch orders: rounds, or something beside them.

    Returns
    -------
    dict of Tensor, each (J, ...)
        Trained leaves, and what the method's ``finish`` added.

    Raises
    ------
    FloatingPointError
        If a loss or weights became infinite or NaN; client, round and learning rate are named.
    """
    size = chunk_size(start) if chunk is None else chunk
    phases = method.phases(learner.network, training, round) if phases is None else phases
    for phase in phases:
        rates = phase.lr if isinstance(phase.lr, Mapping) else {}
        if unknown := {*phase.train, *rates} - start.keys() or (rates and set(phase.train) - rates.keys()):
            raise ValueError(
                f"a phase of {type(method).__name__} names leaves {sorted(unknown)} that it has not received, or has "
                f"no rate for; leaves are {', '.join(start)}."
            )
    orders = _BatchOrders(training.batch_size, pool, round, purpose, method.held_out, method.batches)
    chunks = []
    for first in range(0, len(jobs), size):
        part = slice(first, first + size)
        some = {name: mask if len(mask) == 1 else mask[part] for name, mask in (moves or {}).items()}
        received = {name: leaf[part] for name, leaf in start.items()}
        worker = _Worker(method, learner, training, pool, orders, jobs[part], round)
        chunks.append(worker.run(received, phases, some))
    return chunks[0] if len(chunks) == 1 else {name: torch.cat([part[name] for part in chunks]) for name in chunks[0]}


@torch.no_grad()
def moments(network: Network, pool: Pool, params: Params, jobs: Sequence[Job]) -> Params:
    """Running statistics of batch norm from one pass over all of each job's training samples.

    Parameters
    ----------
    network : Network
        Supplies the statistics' names; without batch norm nothing is returned.
    pool : Pool
        The training samples.
    params : dict of Tensor, each (J, ...)
        Leaves of each row.
    jobs : sequence of Job, length J
        Data row of each row.

    Returns
    -------
    dict of Tensor, each (J, ...)
    """
    norms = [layer for layer in network.module.modules() if isinstance(layer, MaskedBatchNorm)]
    before = [layer.momentum for layer in norms]
    found: list[Params] = []
    try:
        for layer in norms:
            layer.momentum = 1.0  # the batch's own moments, whatever stood there
        for k, job in enumerate(jobs if norms else ()):
            row = slice(job.row * pool.n_max, job.row * pool.n_max + int(pool.n[job.row]))
            leaves = {name: leaf[k].clone() for name, leaf in params.items()}
            network(leaves, pool.x[row], train=True)
            found.append({name: leaves[name] for name in network.statistics})
    finally:
        for layer, momentum in zip(norms, before, strict=True):
            layer.momentum = momentum
    return {name: torch.stack([one[name] for one in found]) for name in found[0]} if found else {}


def chunk_size(start: Params) -> int:
    """Rows whose stacked leaves fill `CHUNK_BYTES`: a formula, never a timing, so that runs repeat."""
    return max(1, CHUNK_BYTES // sum(leaf[0].numel() * leaf.element_size() for leaf in start.values()))


@dataclass(frozen=True, eq=False)
class _Worker:
    """Local training of one chunk of clients."""

    method: Method
    learner: Learner
    training: Training
    pool: Pool
    orders: _BatchOrders
    jobs: Sequence[Job]
    round: int

    def run(self, received: Params, phases: tuple[Phase, ...], moves: Params) -> Params:
        """Prepare, train phase by phase, finish."""
        method, learner = self.method, self.learner
        params, aux = received, dict[str, Tensor]()
        data = None
        if type(method).prepare is not Method.prepare or type(method).finish is not Method.finish:
            data = self.orders.data(self.jobs)
        if data is not None and type(method).prepare is not Method.prepare:
            with torch.no_grad():
                params, aux = torch.vmap(lambda p, d: method.prepare(learner, p, Data(**d)))(received, data)
        params = {name: leaf.clone() for name, leaf in params.items()}
        epoch = 0
        for phase in phases:
            epochs = self.training.local_epochs if phase.epochs is None else phase.epochs
            first = epoch if phase.first_epoch is None else phase.first_epoch
            epoch = first + epochs
            if epochs:
                self.train(params, received, aux, phase, *self.orders.of(self.jobs, first, epochs), moves)
        if data is not None and type(method).finish is not Method.finish:

            def finished(p: Params, r: Params, a: Params, d: Mapping[str, Tensor]) -> Params:
                return method.finish(learner, p, Data(**d), Context(r, a, "finish"))

            with torch.no_grad():
                params |= torch.vmap(finished)(params, received, aux, data)
        return params | {name: torch.where(mask, params[name], received[name]) for name, mask in moves.items()}

    def train(
        self, params: Params, received: Params, aux: Params, phase: Phase, index: Tensor, sizes: Tensor, moves: Params
    ) -> None:
        """Take all steps of one phase in place; `index` (S, G, c, B) has -1 at padding, `sizes` is (S, G, c)."""
        method, learner, pool = self.method, self.learner, self.pool
        optimizer = _optimizer(self.training, phase)
        own = torch.tensor([job.row * pool.n_max for job in self.jobs], device=index.device)[:, None]
        finite = torch.ones(len(self.jobs), dtype=torch.bool, device=index.device)
        for name in phase.train:
            params[name].requires_grad_()

        def single(p: Params, r: Params, a: Params, x: Tensor, y: Tensor, valid: Tensor, rows: Tensor) -> Tensor:
            return method.objective(learner, p, Batch(x, y, valid, rows), Context(r, a, phase.name))

        def grad(point: Params, batch: Batch) -> Params:
            nonlocal finite
            losses = torch.vmap(single)(point, received, aux, batch.x, batch.y, batch.valid, batch.rows)
            finite &= losses.detach().isfinite()
            leaves = [point[name] for name in phase.train]
            if not leaves:  # the forward pass alone moves statistics
                return {}
            grads = torch.autograd.grad(losses.sum(), leaves, allow_unused=True, materialize_grads=True)
            return dict(zip(phase.train, grads, strict=True))

        full = bool((sizes == index.shape[-1]).all())
        for rows, size in zip(index[: phase.steps], sizes[: phase.steps], strict=True):
            batches = tuple(
                Batch(pool.x[group], pool.y[group], group >= 0, (group - own).clamp(min=0)) for group in rows
            )
            step = method.gradient(grad, params, batches)
            step |= {name: torch.where(mask, step[name], 0) for name, mask in moves.items() if name in step}
            optimizer.step({name: params[name] for name in phase.train}, step, None if full else size[0] > 0)
        for name in phase.train:
            params[name] = params[name].detach()
            finite &= params[name].isfinite().flatten(1).all(1)
        self.check(finite, phase)

    def check(self, finite: Tensor, phase: Phase) -> None:
        """Stop where a loss or a weight is no number any more."""
        if finite.all():
            return
        job = self.jobs[int((~finite).nonzero()[0])]
        when = f"round {self.round + 1}" if self.round >= 0 else "the training before the first round"
        if self.orders.purpose == "tuning batches":
            when = f"tuning after round {self.round}"
        lr = self.training.lr if phase.lr is None else phase.lr
        raise FloatingPointError(
            f"loss or weights of client {job.client} (seed {job.seed}) became infinite or NaN in {when} under "
            f"{type(self.method).__name__} at lr={lr}. Lower lr, or scale the inputs."
        )


def _optimizer(training: Training, phase: Phase) -> SGD | Adam:
    lr = training.lr if phase.lr is None else phase.lr
    return Adam(lr) if training.optimizer == "adam" else SGD(lr, momentum=training.momentum)


class _BatchOrders:
    """Which samples each job's local steps use: a function of (seed, purpose, round, client), whatever the method."""

    def __init__(
        self, batch_size: int, pool: Pool, round: int, purpose: str = "batches", held_out: float = 0.0, group: int = 1
    ) -> None:
        self.batch_size, self.pool, self.held_out, self.group = batch_size, pool, held_out, group
        self.purpose, self.round = (purpose, round) if round >= 0 else (f"warmup {purpose}", -round)
        self.known: dict[tuple[Job, int, int], np.ndarray] = {}

    def split(self, job: Job) -> tuple[np.ndarray, np.ndarray]:
        """Places of the samples that train and of those held out, the same in every round."""
        n = int(self.pool.n[job.row])
        if not self.held_out:
            return np.arange(n), np.arange(0)
        order = stream(job.seed, "held out", job.client).permutation(n)
        out = min(n - 1, max(1, round(self.held_out * n)))
        return np.sort(order[out:]), np.sort(order[:out])

    def order(self, job: Job, first: int, epochs: int) -> np.ndarray:
        """Sample places of one job, (steps, group, B), -1 at padding; `first` epochs go before."""
        key = (job, first, epochs)
        if key not in self.known:
            places = self.split(job)[0]
            rng = stream(job.seed, self.purpose, self.round, job.client)
            shuffled = rng.permuted(np.tile(places, (first + epochs, 1)), axis=1)[first:]
            self.known[key] = np.concatenate([self.steps(epoch) for epoch in shuffled])
        return self.known[key]

    def steps(self, epoch: np.ndarray) -> np.ndarray:
        """Cut one epoch's samples into steps of `group` batches, (steps, group, B); no sample comes twice in a step.

        Where samples are too few to fill a step's batches they are spread over them evenly; a batch that still has
        none repeats the step's first.
        """
        b, g = self.batch_size, self.group
        batches = np.pad(epoch, (0, -len(epoch) % b), constant_values=-1).reshape(-1, b)
        if g == 1:
            return batches[:, None]
        steps = []
        for i in range(0, len(batches), g):
            group = batches[i : i + g]
            if len(group) < g:
                rest = np.array_split(group[group >= 0], g)
                rest = [part if len(part) else rest[0] for part in rest]
                group = np.stack([np.pad(part, (0, b - len(part)), constant_values=-1) for part in rest])
            steps.append(group)
        return np.stack(steps)

    def of(self, jobs: Sequence[Job], first: int, epochs: int) -> tuple[Tensor, Tensor]:
        """Positions in the pool, (S, G, c, B) with -1 at padding, and batch sizes, (S, G, c)."""
        orders = [self.order(job, first, epochs) for job in jobs]
        steps, width = max(map(len, orders)), min(self.batch_size, int(self.pool.n.max()))
        index = np.full((steps, self.group, len(jobs), width), -1)
        for column, (job, order) in enumerate(zip(jobs, orders, strict=True)):
            used = order[..., :width]
            index[: len(order), :, column] = np.where(used < 0, -1, used + job.row * self.pool.n_max)
        sizes = (index >= 0).sum(-1)
        device = self.pool.x.device
        return torch.from_numpy(index).to(device), torch.from_numpy(sizes).to(device)

    def data(self, jobs: Sequence[Job]) -> dict[str, Tensor]:
        """All training samples of each job, as the fields of a stacked `Data`."""
        pool = self.pool
        masks = np.zeros((2, len(jobs), pool.n_max), dtype=bool)
        for k, job in enumerate(jobs):
            for mask, places in zip(masks, self.split(job), strict=True):
                mask[k, places] = True
        valid, held_out = torch.from_numpy(masks).to(pool.x.device)
        x, y = (values.view(-1, pool.n_max, *values.shape[1:]) for values in (pool.x, pool.y))
        chosen = torch.tensor([job.row for job in jobs], device=pool.x.device)
        return {"x": x[chosen], "y": y[chosen], "valid": valid, "held_out": held_out}

"""Local training of many clients at once: the client axis is a tensor axis.

The loss is the sum over clients of each client's mean batch loss, so one backward pass gives every client
exactly its own gradient and one elementwise step serves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat._random import stream
from fedstat.data import Samples
from fedstat.federated.losses import LOSSES, LossName
from fedstat.federated.network import Network, Params
from fedstat.federated.optimizers import SGD, Adam

#: Stacked weights of one chunk of clients: about the size at which more clients stop paying on a CPU.
CHUNK_BYTES = 8 * 2**20


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a client trains in one round.

    Parameters
    ----------
    lr : float
        Learning rate, not negative (zero is the fixed point that the laws test).
    optimizer : {"sgd", "adam"}
        Its state starts afresh in every round.
    momentum : float
        Heavy-ball momentum of SGD, in [0, 1).
    batch_size : int
        Samples per step. A client with fewer takes all of them in every step; an epoch's last batch holds what
        is left over.
    local_epochs : int
        Passes over the client's training samples per round.
    loss : {"cross_entropy", "logistic", "squared"}, optional
        By default what the task asks for: squared error for regression, logistic loss for two classes and one
        output, else cross-entropy.
    """

    lr: float
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.0
    batch_size: int = 32
    local_epochs: int = 1
    loss: LossName | None = None

    def __post_init__(self) -> None:
        """Check ranges."""
        if not (np.isfinite(self.lr) and self.lr >= 0):
            raise ValueError(f"lr must be finite and not negative, got {self.lr}.")
        if self.optimizer not in ("sgd", "adam"):
            raise ValueError(f'optimizer must be "sgd" or "adam", got {self.optimizer!r}.')
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {self.momentum}.")
        if self.momentum and self.optimizer == "adam":
            raise ValueError(f"momentum belongs to SGD, but optimizer is 'adam' (momentum={self.momentum}).")
        for name, value in (("batch_size", self.batch_size), ("local_epochs", self.local_epochs)):
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number, at least 1, got {value!r}.")
        if self.loss is not None and self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {self.loss!r}.")


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
    network: Network,
    loss: LossName,
    training: Training,
    pool: Pool,
    start: Params,
    jobs: Sequence[Job],
    round: int,
    chunk: int | None = None,
) -> Params:
    """Train each row of `start` on its job's samples for one round.

    Parameters
    ----------
    network, loss, training
        What is trained, and how.
    pool : Pool
        The training samples.
    start : dict of Tensor, each (J, ...)
        Received weights, one row per job; left unchanged.
    jobs : sequence of Job, length J
        Data row and random key of each row.
    round : int
        Part of the key of the batch orders; negative for training before the first round.
    chunk : int, optional
        Rows trained at once. The result does not depend on it (up to rounding); 1 is the sequential loop.

    Returns
    -------
    dict of Tensor, each (J, ...)
        Trained weights.

    Raises
    ------
    FloatingPointError
        If weights became infinite or NaN; client, round and learning rate are named.
    """
    size = chunk_size(network) if chunk is None else chunk
    orders = _BatchOrders(training, pool, round)
    chunks = []
    for first in range(0, len(jobs), size):
        part = jobs[first : first + size]
        params = {name: leaf[first : first + size].clone().requires_grad_() for name, leaf in start.items()}
        _train_chunk(network, LOSSES[loss], training, pool, params, *orders.of(part))
        _check_finite(params, part, training, round)
        chunks.append(params)
    return {name: torch.cat([part[name].detach() for part in chunks]) for name in start}


def chunk_size(network: Network) -> int:
    """Rows whose stacked weights fill `CHUNK_BYTES`: a formula, never a timing, so that runs repeat."""
    return max(1, CHUNK_BYTES // network.bytes)


def _train_chunk(
    network: Network,
    loss: object,
    training: Training,
    pool: Pool,
    params: Params,
    index: Tensor,
    sizes: Tensor,
) -> None:
    """Run all local steps of one chunk in place; `index` (S, c, B) has -1 at padding, `sizes` is (S, c)."""
    optimizer = Adam(training.lr) if training.optimizer == "adam" else SGD(training.lr, momentum=training.momentum)
    leaves = list(params.values())
    full = bool((sizes == index.shape[-1]).all())
    for rows, size in zip(index, sizes, strict=True):
        outputs = network.forward(params, pool.x[rows])
        per_sample = loss(outputs, pool.y[rows])  # type: ignore[operator]
        if full:
            total, active = per_sample.sum() / rows.shape[-1], None
        else:
            inside = rows >= 0
            means = torch.where(inside, per_sample, 0).sum(1) / size.clamp(min=1)
            total, active = means.sum(), size > 0
        grads = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        optimizer.step(params, dict(zip(params, grads, strict=True)), active)


def _check_finite(params: Params, jobs: Sequence[Job], training: Training, round: int) -> None:
    for name, leaf in params.items():
        finite = leaf.detach().isfinite().flatten(1).all(1)
        if not finite.all():
            job = jobs[int((~finite).nonzero()[0])]
            when = f"round {round + 1}" if round >= 0 else "the training before the first round"
            raise FloatingPointError(
                f"weights {name!r} of client {job.client} (seed {job.seed}) became infinite or NaN in {when} at "
                f"lr={training.lr}. Lower lr, or scale the inputs."
            )


class _BatchOrders:
    """Which samples each job's local steps use: a function of (seed, round, client), shared by all methods."""

    def __init__(self, training: Training, pool: Pool, round: int) -> None:
        self.training, self.pool = training, pool
        self.purpose, self.round = ("batches", round) if round >= 0 else ("warmup batches", -round)
        self.known: dict[tuple[int, int, int], np.ndarray] = {}

    def order(self, job: Job) -> np.ndarray:
        """Sample numbers of one job, (steps, B), -1 at padding."""
        key = (job.row, job.seed, job.client)
        if key not in self.known:
            n, b = int(self.pool.n[job.row]), self.training.batch_size
            rng = stream(job.seed, self.purpose, self.round, job.client)
            epochs = rng.permuted(np.tile(np.arange(n), (self.training.local_epochs, 1)), axis=1)
            padded = np.pad(epochs, ((0, 0), (0, -n % b)), constant_values=-1)
            self.known[key] = padded.reshape(-1, b)
        return self.known[key]

    def of(self, jobs: Sequence[Job]) -> tuple[Tensor, Tensor]:
        """Positions in the pool, (S, c, B) with -1 at padding, and batch sizes, (S, c)."""
        orders = [self.order(job) for job in jobs]
        steps, width = max(map(len, orders)), min(self.training.batch_size, int(self.pool.n.max()))
        index = np.full((steps, len(jobs), width), -1)
        for column, (job, order) in enumerate(zip(jobs, orders, strict=True)):
            used = order[:, :width]
            index[: len(order), column] = np.where(used < 0, -1, used + job.row * self.pool.n_max)
        sizes = (index >= 0).sum(-1)
        device = self.pool.x.device
        return torch.from_numpy(index).to(device), torch.from_numpy(sizes).to(device)

"""The samples of all clients, which of them each local step uses, and the keys of its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from math import ceil

import numpy as np
import torch
from torch import Tensor

from fedstat._mapped import Mapped, joined
from fedstat.data import Samples
from fedstat.federated.client.seeds import Seeds

#: So that a share of 0.07 of 100 steps, which is a little more than 7 in floating point, is 7 steps.
_BELOW = 1 - 1e-12


@dataclass(frozen=True, eq=False)
class StackedSamples:
    """Samples of the clients of several seeds, laid end to end: inputs `x`, (N, ...), and targets `y`, (N,).

    Row after row (one client of one seed) has `n` samples, (R,). Inputs are pixels and tokens unchanged, or numbers in
    `dtype`. What lies in a file is read batch by batch, all else is on the run's device. `majority`, (R,), is the share
    of a row's samples that have the client's most frequent class of training.
    """

    x: Tensor | Mapped
    y: Tensor
    n: np.ndarray
    dtype: torch.dtype
    majority: np.ndarray = field(default_factory=partial(np.zeros, 0))

    @classmethod
    def stack(cls, seeds: Sequence[Samples], dtype: torch.dtype, device: str | torch.device) -> StackedSamples:
        """Lay the samples of all seeds end to end."""
        held, where = joined([p.x for p in seeds]), torch.device(device)
        x = held if isinstance(held, Mapped) else inputs_to_device(held, dtype, where)
        y = torch.from_numpy(np.asarray(joined([p.y for p in seeds])))
        y = y.to(where, dtype if y.is_floating_point() else torch.int64)
        return cls(x, y, np.concatenate([p.n for p in seeds]), dtype)

    @property
    def device(self) -> torch.device:
        """Where the samples are computed with."""
        return self.y.device

    @cached_property
    def start(self) -> np.ndarray:
        """Where each row begins, shape (R,)."""
        return np.cumsum(self.n, dtype=np.int64) - self.n

    @cached_property
    def n_max(self) -> int:
        """Number of samples of the longest row."""
        return int(self.n.max())

    @cached_property
    def sample(self) -> Tensor:
        """The first two inputs as they are stored."""
        return self.take(slice(0, 2))[0]

    def take(self, places: Tensor | slice, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets at `places`, a slice or a tensor of any shape; inputs in `out`'s memory."""
        if isinstance(places, slice):
            return (self._read(places) if isinstance(self.x, Mapped) else self.x[places]), self.y[places]
        flat = places.flatten()  # selecting along one axis is several times faster than indexing
        if isinstance(self.x, Mapped):
            x = self._read(flat.cpu().numpy())
        else:
            x = torch.index_select(self.x, 0, flat, out=None if out is None else out.resize_(0))
        return x.view(*places.shape, *x.shape[1:]), self.y.index_select(0, flat).view(places.shape)

    def _read(self, which: slice | np.ndarray) -> Tensor:
        """Read inputs that lie in a file; a GPU fetches them from pinned memory while the next ones are read."""
        assert isinstance(self.x, Mapped)
        inputs = inputs_to_device(self.x[which], self.dtype, torch.device("cpu"))
        pinned = self.device.type == "cuda"
        return (inputs.pin_memory() if pinned else inputs).to(self.device, non_blocking=pinned)

    def row(self, row: int) -> tuple[Tensor, Tensor]:
        """Return a row's inputs and targets in memory of their own: products round by where numbers lie in it."""
        first = int(self.start[row])
        x, y = self.take(slice(first, first + int(self.n[row])))
        return x.clone(), y

    def padded(self, rows: np.ndarray, most: int | None = None) -> tuple[Tensor, Tensor]:
        """Return inputs (c, most, ...) and targets (c, most) of some rows, zero beyond a row's own samples.

        By default `most` is the length of the longest of all rows.
        """
        most, n, first = self.n_max if most is None else most, self.n[rows], self.start[rows]
        if len(rows) and (n == most).all() and (np.diff(first) == most).all():  # they lie so already
            x, y = self.take(slice(int(first[0]), int(first[0]) + most * len(rows)))
            return x.view(len(rows), most, *x.shape[1:]), y.view(len(rows), most)
        within = np.arange(most)
        places = first[:, None] + np.minimum(within, n[:, None] - 1)
        x, y = self.take(torch.from_numpy(places).to(self.device))
        if (beyond := within >= n[:, None]).any():
            nothing = torch.from_numpy(beyond).to(self.device)
            x[nothing], y[nothing] = 0, 0
        return x, y


def inputs_to_device(x: np.ndarray, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Move inputs to the device: bytes and tokens keep their type, numbers get `dtype`."""
    inputs = torch.from_numpy(x)
    return inputs.to(device, dtype if inputs.is_floating_point() else inputs.dtype)


@dataclass(frozen=True, eq=False)
class Job:
    """One client's work in a round: its row among the stacked samples; seeds and number key its batches.

    Of the steps of each phase it takes the first ones, the share `work` in (0, 1] of them, rounded up.
    """

    row: int
    seeds: Seeds
    client: int
    work: float = 1.0


@dataclass(frozen=True, eq=False)
class Steps:
    """The samples and the noise of some jobs' S steps, each on G batches of B samples.

    `places`, (S, G, c, B), are places among each job's samples, -1 for padding, which stands at the end of a batch;
    `noise`, int64 of shape (S, G, c), are the keys of the noise that dropout draws.
    """

    places: np.ndarray
    noise: np.ndarray


class BatchOrders:
    """The samples and the noise of jobs' steps: a function of (seed, purpose, round, client), whatever the method."""

    known: dict[tuple[Job, int, int], np.ndarray]

    def __init__(
        self,
        batch_size: int,
        samples: StackedSamples,
        round: int,
        purpose: str = "batches",
        held_out: float = 0.0,
        group: int = 1,
        *,
        noisy: bool = False,
    ) -> None:
        self.batch_size = min(batch_size, int(samples.n.max()))  # a batch larger than every client would be padding
        self.samples, self.held_out, self.group, self.noisy, self.known = samples, held_out, group, noisy, {}
        self.purpose, self.round = (purpose, round) if round >= 0 else (f"warmup {purpose}", -round)

    def divide(self, job: Job) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of a job's samples that train and of those held out, the same in every round."""
        n = int(self.samples.n[job.row])
        if not self.held_out:
            return np.arange(n), np.arange(0)
        order = job.seeds.stream("held out", job.client).permutation(n)
        out = min(n - 1, max(1, round(self.held_out * n)))
        return np.sort(order[out:]), np.sort(order[:out])

    def order(self, jobs: Sequence[Job], first: int, epochs: Sequence[int]) -> list[np.ndarray]:
        """Return each job's sample places, (steps, group, B), -1 for padding, after skipping `first` epochs."""
        keys = [(job, first, count) for job, count in zip(jobs, epochs, strict=True)]
        for seeds, new in groupby((key for key in keys if key not in self.known), lambda key: key[0].seeds):
            asked = list(new)
            rngs = seeds.streams(self.purpose, self.round, last=[job.client for job, *_ in asked])
            for (job, _, count), rng in zip(asked, rngs, strict=True):
                shuffled = rng.permuted([self.divide(job)[0]] * (first + count), axis=1)[first:]
                self.known[job, first, count] = self.steps(shuffled)
        return [self.known[key] for key in keys]

    def steps(self, epochs: np.ndarray) -> np.ndarray:
        """Cut the samples of E epochs, (E, n), into steps of `group` batches, (steps, group, B).

        No sample comes twice in a step. If a step has too few samples to fill its batches, they are spread over the
        batches evenly; a batch that still has none repeats the step's first.
        """
        (count, n), b, g = epochs.shape, self.batch_size, self.group
        padded = np.full((count, n + -n % b), -1)
        padded[:, :n] = epochs
        if g == 1:
            return padded.reshape(-1, 1, b)
        batches = padded.reshape(count, (n + -n % b) // b, b)
        steps = np.zeros((count, -(-batches.shape[1] // g), g, b), int)
        for epoch, taken in zip(batches, steps, strict=True):
            for i in range(len(taken)):
                group = epoch[i * g : (i + 1) * g]
                if len(group) < g:
                    rest = np.array_split(group[group >= 0], g)
                    rest = [part if len(part) else rest[0] for part in rest]
                    group = np.stack([np.pad(part, (0, b - len(part)), constant_values=-1) for part in rest])
                taken[i] = group
        return steps.reshape(-1, g, b)

    def of(self, jobs: Sequence[Job], first: int, epochs: Sequence[int], most: int | None = None) -> Steps:
        """Return the jobs' steps: each job skips `first` epochs, then takes as many as `epochs` says for it.

        They are cut after `most` steps, and after a job's share of them. Networks without noise get keys that are all
        zero.
        """
        orders = self.order(jobs, first, epochs)
        taken = [ceil(job.work * len(order[:most]) * _BELOW) for job, order in zip(jobs, orders, strict=True)]
        places = np.full((max(taken), self.group, len(jobs), self.batch_size), -1)
        noise = np.zeros(places.shape[:3], np.int64)
        for column, (job, order, count, some) in enumerate(zip(jobs, orders, epochs, taken, strict=True)):
            places[:some, :, column] = order[:some]
            if self.noisy:
                rng = job.seeds.stream(f"noise of {self.purpose}", self.round, job.client)
                keys = rng.integers(2**63, size=(first + count, len(order) // count, self.group))[first:]
                noise[:some, :, column] = keys.reshape(-1, self.group)[:some]
        return Steps(places, noise)

    def masks(self, jobs: Sequence[Job]) -> tuple[Tensor, Tensor]:
        """Return masks of each job's samples that train, and of those held out, (c, n_max) each."""
        masks = np.zeros((2, len(jobs), self.samples.n_max), dtype=bool)
        for k, job in enumerate(jobs):
            for mask, places in zip(masks, self.divide(job), strict=True):
                mask[k, places] = True
        valid, held_out = torch.from_numpy(masks).to(self.samples.device)
        return valid, held_out

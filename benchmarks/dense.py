"""Time ways to train stacked dense networks by hand, each against the one before: which ideas pay.

Run ``OMP_NUM_THREADS=1 python benchmarks/dense.py`` (or 2, and ``--clients 1000``). The work is a round of local
training of W1: every client's MLP 100-200-1, logistic loss, 100 samples, batches of 20, 5 epochs of plain steps. All
ways use the same samples, batches and start, take turns in one process, and end with the same weights to rounding.
Beside them stand whole rounds of `fedstat.rounds`, by either path.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fedstat as fs
from fedstat.federated.route import Route

INPUTS, UNITS, SAMPLES, BATCH, EPOCHS, LR = 100, 200, 100, 20, 5, 0.05
STEPS = EPOCHS * SAMPLES // BATCH


@dataclass(frozen=True)
class Way:
    """How to train.

    Attributes
    ----------
    gradient : str
        "autograd" for torch's backward pass; "closed" for the formula.
    reuse : bool
        Write what a step computes to the same memory in every step.
    fused : bool
        Add the gradient's product to the weights, without storing it.
    turned : bool
        Keep weights as (clients, inputs, outputs); by default (clients, outputs, inputs), as torch does.
    column : bool
        Keep the biases of the hidden layer as one more column of its weights.
    block : int, optional
        Clients that take all their steps before the next begin; by default all at once.
    gathered : bool
        Gather a block's samples once for all its steps; by default step by step.
    workers : int
        Threads that share the blocks, each with one thread of torch's.
    compiled : bool
        Let torch.compile compile a step.
    """

    gradient: str = "closed"
    reuse: bool = False
    fused: bool = False
    turned: bool = False
    column: bool = False
    block: int | None = None
    gathered: bool = False
    workers: int = 1
    compiled: bool = False


#: As the engine does it, but for the samples, which it gathers for several steps into memory that it keeps.
BEST = Way(reuse=True, fused=True, block=12, gathered=True)
WAYS = {
    "autograd, all clients at once": Way("autograd"),
    "autograd, 12 clients at once": Way("autograd", block=12),
    "autograd, 12 at once, compiled": Way("autograd", block=12, compiled=True),
    "closed form, all at once": Way(),
    "closed form, 12 at once": Way(block=12),
    "the same, results in the same memory": Way(reuse=True, block=12),
    "the same, update fused": Way(reuse=True, fused=True, block=12),
    "the same, samples gathered once": BEST,
    "the same, all at once": replace(BEST, block=None),
    "the same, 4 at once": replace(BEST, block=4),
    "the same, 25 at once": replace(BEST, block=25),
    "the same, inputs x outputs": replace(BEST, turned=True),
    "the same, biases as a column": replace(BEST, column=True),
    "the same, compiled": replace(BEST, compiled=True),
    "the same, two workers": replace(BEST, workers=2),
}


ENGINES = ("fedstat, general path", "fedstat, closed form")


@dataclass(frozen=True, eq=False)
class Task:
    """Samples, the places of every step's batch (S, K, B), and where the networks start."""

    x: Tensor
    y: Tensor
    places: Tensor
    start: tuple[Tensor, ...]


def make_task(clients: int) -> Task:
    """Draw samples, batches and a start."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(clients * SAMPLES, INPUTS, generator=rng)
    orders = torch.stack(
        [torch.stack([torch.randperm(SAMPLES, generator=rng) for _ in range(EPOCHS)]) for _ in range(clients)]
    )
    places = (orders + SAMPLES * torch.arange(clients)[:, None, None]).view(clients, STEPS, BATCH).transpose(0, 1)
    shapes = ((UNITS, INPUTS), (1, UNITS), (1, UNITS), (1, 1))
    start = tuple(torch.randn(shape, generator=rng) / 10 for shape in shapes)
    return Task(x, (x[:, 0] > 0).float()[:, None], places.contiguous(), start)


def trained(task: Task, way: Way) -> list[Tensor]:
    """Train all clients; return weights, biases, head and its bias, each (K, ...), as torch lays them out."""
    clients = task.places.shape[1]
    size = way.block or clients
    blocks = [slice(first, first + size) for first in range(0, clients, size)]

    def work(block: slice) -> list[Tensor]:
        places = task.places[:, block]
        w, b, v, c = (leaf.expand(places.shape[1], *leaf.shape).clone() for leaf in task.start)
        if way.turned:
            w, v = w.mT.contiguous(), v.mT.contiguous()
        if way.column:
            w = torch.cat([w, b.mT], 2)
        leaves = [w, b, v, c]
        step = STEP[way.gradient](way, leaves)
        if way.gathered:
            x, y = (values[places.flatten()].view(*places.shape, -1) for values in (task.x, task.y))
            x = torch.cat([x, torch.ones_like(y)], -1) if way.column else x
        for s in range(STEPS):
            if way.gathered:
                step(x[s], y[s])
            else:
                step(
                    *(
                        values.index_select(0, places[s].flatten()).view(*places[s].shape, -1)
                        for values in (task.x, task.y)
                    )
                )
        if way.column:
            leaves[:2] = w[..., :-1], w[..., -1:].mT
        return [leaf.mT if way.turned and leaf.shape[1] > 1 and leaf is not leaves[1] else leaf for leaf in leaves]

    if way.workers == 1:
        ends = [work(block) for block in blocks]
    else:
        before = torch.get_num_threads()
        with ThreadPoolExecutor(way.workers, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            ends = list(workers.map(work, blocks))
        torch.set_num_threads(before)
    return [torch.cat(leaves) for leaves in zip(*ends, strict=True)]


COMPILED: dict[object, Callable[..., Any]] = {}


def by_autograd(way: Way, leaves: list[Tensor]) -> Callable[[Tensor, Tensor], None]:
    """Make a step whose gradients torch finds."""

    def loss(w: Tensor, b: Tensor, v: Tensor, c: Tensor, x: Tensor, y: Tensor) -> Tensor:
        outputs = torch.baddbmm(c, torch.baddbmm(b, x, w.mT).relu(), v.mT)
        return torch.nn.functional.binary_cross_entropy_with_logits(outputs, y, reduction="none").mean(1).sum()

    forward: Callable[..., Tensor] = loss
    if way.compiled:
        key = ("autograd", len(leaves[0]))
        forward = COMPILED[key] = COMPILED.get(key) or torch.compile(loss, dynamic=False)

    def step(x: Tensor, y: Tensor) -> None:
        for leaf in leaves:
            leaf.requires_grad_()
        grads = torch.autograd.grad(forward(*leaves, x, y), leaves)
        with torch.no_grad():
            for leaf, g in zip(leaves, grads, strict=True):
                leaf.sub_(g, alpha=LR)

    return step


def by_formula(way: Way, leaves: list[Tensor]) -> Callable[[Tensor, Tensor], None]:
    """Make a step by the formula of its gradients."""
    w, b, v, c = leaves
    k = len(w)
    shapes = ((BATCH, UNITS), (BATCH, UNITS), (BATCH, 1), (BATCH, 1), (1, BATCH), w.shape[1:], v.shape[1:])
    hidden, slopes, outputs, delta, ones, gw, gv = (w.new_ones(k, *shape) for shape in shapes)

    def step(w: Tensor, b: Tensor, v: Tensor, c: Tensor, x: Tensor, y: Tensor) -> None:
        h, d, o, e, to_w, to_v = (hidden, slopes, outputs, delta, gw, gv) if way.reuse else [None] * 6
        turned, head = (w, v) if way.turned else (w.mT, v.mT)
        h = torch.bmm(x, turned, out=h) if way.column else torch.baddbmm(b, x, turned, out=h)
        h.relu_()
        o = torch.baddbmm(c, h, head, out=o)
        e = torch.sigmoid(o, out=e).sub_(y).mul_(1 / BATCH)
        d = torch.mul(e, head.mT, out=d)
        d = (
            torch.ops.aten.threshold_backward(d, h, 0)
            if d is None
            else torch.ops.aten.threshold_backward.grad_input(d, h, 0, grad_input=d)
        )
        for leaf, g, inputs, place in ((v, e, h, to_v), (w, d, x, to_w)):
            pair = (inputs.mT, g) if way.turned else (g.mT, inputs)
            if way.fused:
                leaf.baddbmm_(*pair, alpha=-LR)
            else:
                leaf.sub_(torch.bmm(*pair, out=place), alpha=LR)
        c.baddbmm_(ones, e, alpha=-LR)
        if not way.column:
            b.baddbmm_(ones, d, alpha=-LR)

    taken: Callable[..., None] = step
    if way.compiled:  # what is compiled writes to the places of the first block, which is all that it needs
        taken = COMPILED["formula", k] = COMPILED.get(("formula", k)) or torch.compile(step, dynamic=False)
    return lambda x, y: taken(w, b, v, c, x, y)


STEP = {"autograd": by_autograd, "closed": by_formula}


def engine(task: Task, *, general: bool) -> Callable[[], None]:
    """Make a round of fedstat's FedAvg on the same samples, everything but evaluation included."""
    clients = task.places.shape[1]
    whose = np.repeat(np.arange(clients), SAMPLES)
    data = fs.data.from_arrays(task.x.numpy(), task.y[:, 0].long().numpy(), whose, test=0)
    settings = fs.Training(lr=LR, batch_size=BATCH, local_epochs=EPOCHS)
    rounds = fs.rounds(fs.FedAvg(), fs.models.mlp(INPUTS, UNITS, 1), data, settings)

    def turn() -> None:
        dense = Route.dense
        Route.dense = None if general else dense
        try:
            next(rounds)
        finally:
            Route.dense = dense

    return turn


def main() -> None:
    """Print the seconds of every way, and the rate of a large product in the same run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--ways", default="", help="measure those whose names hold this regular expression")
    chosen = parser.parse_args()
    task, matrix = make_task(chosen.clients), torch.randn(1024, 1024)
    ways = {name: way for name, way in WAYS.items() if re.search(chosen.ways, name)}
    turns: dict[str, Callable[[], object]] = {name: partial(trained, task, way) for name, way in ways.items()}
    apart, ends = {}, {}
    for name, way in ways.items():
        ends[name] = [leaf.detach() for leaf in trained(task, way)]
        first = next(iter(ends.values()))
        apart[name] = max(float((a - b).abs().max()) for a, b in zip(first, ends[name], strict=True))
    for name in ENGINES:
        if re.search(chosen.ways, name):
            turns[name] = engine(task, general="general" in name)
            turns[name]()
    turns["product of two 1024-cubed matrices"] = lambda: matrix @ matrix
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(chosen.turns):
        for name, turn in turns.items():
            wall, cpu = time.perf_counter(), time.process_time()
            turn()
            times.setdefault(name, []).append((time.perf_counter() - wall, time.process_time() - cpu))
    flops = chosen.clients * STEPS * BATCH * 4 * UNITS * (INPUTS + 1)
    print(
        f"threads {torch.get_num_threads()}, torch {torch.__version__}, {chosen.turns} interleaved turns, "
        f"{chosen.clients} clients; medians and least; rate by least CPU seconds; gap to the first"
    )
    print(f"{'':40}{'wall s':>8}{'least':>8}{'CPU s':>8}{'least':>8}{'GFLOP/s':>9}   apart")
    for name, measured in times.items():
        walls, cpus = zip(*measured, strict=True)
        work = 2 * 1024**3 if "product" in name else flops
        columns = (statistics.median(walls), min(walls), statistics.median(cpus), min(cpus))
        gap = f"{apart[name]:.1e}" if name in apart else ""
        print(f"{name:40}" + "".join(f"{t:8.4f}" for t in columns) + f"{work / min(cpus) / 1e9:9.1f}   {gap}")


if __name__ == "__main__":
    main()

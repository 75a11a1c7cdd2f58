"""Plain gradient descent of a chain of dense layers: each step's update is fused into its gradient.

``torch.baddbmm`` adds the product that is a gradient to the weights themselves, so that no gradient is ever stored.
Clients go in blocks that stay in a core's cache for all their steps, one block after the other on each of as many
threads as torch has; what a client comes to does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.chains import SLOPES, Chain, Slope, Weights, passed, stacked
from fedstat.federated.local import Learner
from fedstat.federated.network import Params
from fedstat.federated.optimizers import Rate
from fedstat.federated.samples import StackedSamples

#: Bytes of a block's leaves and hidden layers: about what a core's own cache holds.
BLOCK_BYTES = 3 * 2**19
#: Bytes of the inputs that are gathered at once, for several steps of a block.
_GATHERED = 2**20
#: By what a step multiplies a leaf, and its gradient, by the leaf's name.
Factors = Mapping[str, tuple[float, float]]
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, eq=False)
class Descent:
    """The plain steps of one phase.

    Attributes
    ----------
    chain : Chain
        The network's layers.
    learner : Learner
        The network with one of the losses of `SLOPES`.
    samples : StackedSamples
        The training samples.
    train : tuple of str
        The leaves that move.
    rates : sequence of float, mapping of leaf to float, or Tensor (c,)
        The learning rate of every step.
    decay : float
        Strength of the L2 penalty; zero if clients have rates of their own.
    """

    chain: Chain
    learner: Learner
    samples: StackedSamples
    train: tuple[str, ...]
    rates: Sequence[Rate]
    decay: float

    @torch.no_grad()
    def run(self, params: Params, first: np.ndarray, places: np.ndarray) -> Tensor:
        """Take all steps in place; return whose losses were all finite, (c,).

        Parameters
        ----------
        params : dict of Tensor, each (c, ...)
            Contiguous leaves.
        first : ndarray of int, shape (c,)
            Where each client's samples begin.
        places : ndarray of int, shape (S, c, B)
            Which samples each step uses, counted from there; -1 at padding, which ends a batch. A client's steps come
            first, and those without any sample are none.
        """
        taken = (places[..., 0] >= 0).sum(0)
        order = np.argsort(-taken, kind="stable")  # who has finished stands last in a block, beyond what steps touch
        moved = bool((np.diff(order) < 0).any())
        rows = torch.from_numpy(order)
        for name in self.chain.leaves:
            params[name] = params[name].contiguous()
        own = {name: params[name][rows] if moved else params[name] for name in self.chain.leaves}
        blocks = self.blocks(params, places)

        def work(block: slice) -> Tensor:
            some = {name: leaf[block] for name, leaf in own.items()}
            return _Block(self, some, order[block], first[order[block]], places[:, order[block]]).run()

        finite = torch.cat(spread(work, blocks))
        if moved:
            for name in self.train:
                params[name][rows] = own[name]
        return finite[rows.argsort()]

    def factors(self, rate: Rate) -> Factors:
        """Return by what a step multiplies each leaf that moves, and its gradient; own rates are part of the slopes."""
        own = {n: 1.0 if isinstance(rate, Tensor) else rate[n] if isinstance(rate, Mapping) else rate for n in self.train}
        return {name: (1 - lr * self.decay, -lr) for name, lr in own.items()}

    def blocks(self, params: Params, places: np.ndarray) -> list[slice]:
        """Cut the clients into blocks that fit the cache, an even number of them, so that two threads have equal work."""
        clients, batch = places.shape[1:]
        hidden = 2 * batch * sum(layer.outputs for layer in self.chain.layers)
        leaves = [params[name] for name in self.chain.leaves]
        one = (sum(leaf[0].numel() for leaf in leaves) + hidden) * leaves[0].element_size()
        count = 1 if clients * one <= BLOCK_BYTES else 2 * max(1, round(clients * one / (2 * BLOCK_BYTES)))
        ends = np.linspace(0, clients, min(count, clients) + 1).round().astype(int).tolist()
        return [slice(first, last) for first, last in pairwise(ends)]


@dataclass(frozen=True, eq=False)
class _Block:
    """Some clients with their leaves, who of the stack they are, where their samples begin, and their steps."""

    descent: Descent
    params: Params
    clients: np.ndarray
    first: np.ndarray
    places: np.ndarray

    def run(self) -> Tensor:
        """Take all steps; return whose losses were all finite."""
        descent, samples, valid = self.descent, self.descent.samples, self.places >= 0
        losses, network = descent.learner.losses, descent.learner.network
        prepare, slope = SLOPES[losses]
        at, share = torch.from_numpy(np.where(valid, self.places, 0) + self.first[:, None]), self.share(valid)
        factors = [descent.factors(rate) for rate in descent.rates]
        finite = torch.ones(len(self.clients), dtype=torch.bool)
        gathered, frames = samples.x.new_empty(0), dict[tuple[int, int], _Frame]()
        for steps, a, b in self.stretches(valid):
            if (a, b) not in frames:
                frames[a, b] = _Frame.of(descent, {name: leaf[:a] for name, leaf in self.params.items()}, b)
            flat = at[steps, :a, :b].flatten()
            shape = (-1, a, b, samples.x[0].numel())
            x = torch.index_select(samples.x, 0, flat, out=gathered.resize_(0)).view(shape)
            x, y = network.inputs(x), samples.y.index_select(0, flat).view(shape[:-1])
            outputs = x.new_empty(*y.shape, descent.chain.layers[-1].outputs)
            each = (values.unbind() for values in (x, prepare(outputs, y), share[steps, :a, :b], outputs))
            for *values, moves in zip(*each, factors[steps], strict=True):
                frames[a, b].step(slope, *values, moves)
            counted = torch.where(torch.from_numpy(valid[steps, :a, :b]), losses(outputs, y), 0)
            finite[:a] &= counted.sum(-1).isfinite().all(0)
        return finite

    def stretches(self, valid: np.ndarray) -> Iterator[tuple[slice, int, int]]:
        """Cut the steps into stretches in which the first `a` clients are at work, with at most `b` samples each."""
        active, most = valid[..., 0].sum(1).tolist(), valid.sum(-1).max(1).tolist()
        width = valid[0].size * self.descent.samples.x[0].numel() * self.descent.samples.x.element_size()
        begin = 0
        for step in range(len(active)):
            end = step + 1
            if end == len(active) or (active[end], most[end]) != (active[step], most[step]) or end - begin >= _GATHERED // width:
                if active[step]:
                    yield slice(begin, end), active[step], most[step]
                begin = end

    def share(self, valid: np.ndarray) -> Tensor:
        """Return what each sample's slope counts for, (S, c, B, 1): zero at padding, and with each client's own rate."""
        share = valid / np.maximum(1, valid.sum(-1, keepdims=True))
        rates = self.descent.rates
        if isinstance(rates[0], Tensor):
            share *= np.stack(rates)[:, self.clients, None]
        return torch.from_numpy(share).to(self.descent.learner.network.dtype).unsqueeze(-1)


@dataclass(frozen=True, eq=False)
class _Frame:
    """What a step of some clients works on.

    Attributes
    ----------
    chain : Chain
        The network's layers.
    lowest : int
        The first layer that moves.
    weights : list of Weights
        The clients' leaves of each layer.
    made, slopes : list of Tensor, each (a, b, outputs)
        Places of what each layer but the last makes, and of the slopes at all layers.
    ones : Tensor, shape (a, 1, b)
        Ones, whose product with slopes sums them up.
    """

    chain: Chain
    lowest: int
    weights: list[Weights]
    made: list[Tensor]
    slopes: list[Tensor]
    ones: Tensor

    @classmethod
    def of(cls, descent: Descent, params: Params, b: int) -> _Frame:
        """Make ready for steps of stacked clients with batches of `b` samples."""
        chain = descent.chain
        weights = [stacked(layer, params) for layer in chain.layers]
        like, a = weights[0].weight, len(weights[0].weight)
        made, slopes = ([like.new_empty(a, b, layer.outputs) for layer in chain.layers] for _ in range(2))
        return cls(chain, chain.lowest(descent.train), weights, made[:-1], slopes, like.new_ones(a, 1, b))

    def step(self, slope: Slope, x: Tensor, targets: Tensor, share: Tensor, outputs: Tensor, moves: Factors) -> None:
        """Move leaves by one step on inputs (a, b, f), and write the outputs (a, b, Q) before it to their place."""
        layers = self.chain.layers
        made = [x, *self.chain.forward(self.weights, x, [*self.made, outputs])]
        delta = slope(outputs, targets, self.slopes[-1]).mul_(share)
        for i in range(len(layers) - 1, self.lowest - 1, -1):
            layer, (weight, _, bias) = layers[i], self.weights[i]
            below = passed(layers[i - 1], made[i], delta, weight, self.slopes[i - 1]) if i > self.lowest else delta
            if layer.weight in moves:
                beta, alpha = moves[layer.weight]
                weight.baddbmm_(delta.mT, made[i], beta=beta, alpha=alpha)
            if bias is not None and layer.bias in moves:
                beta, alpha = moves[layer.bias]
                bias.baddbmm_(self.ones, delta, beta=beta, alpha=alpha)
            delta = below


def spread(work: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
    """Apply `work` to every item, on as many threads as torch has, each of which computes with one thread of torch's."""
    threads = torch.get_num_threads()
    if min(threads, len(items)) < 2:
        return [work(item) for item in items]
    try:
        with ThreadPoolExecutor(min(threads, len(items)), initializer=torch.set_num_threads, initargs=(1,)) as workers:
            return list(workers.map(torch.no_grad()(work), items))
    finally:
        torch.set_num_threads(threads)

"""Plain gradient descent of a chain of dense layers: each step's update is fused into its gradient.

``torch.baddbmm`` adds the product that is a gradient to the weights themselves, so that no gradient is ever stored.
Clients go in blocks that stay in a core's cache for all their steps, one block after the other on each of as many
threads as torch has; what a client comes to does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.chains import SLOPES, Chain, Weights, passed, stacked
from fedstat.federated.local import Learner
from fedstat.federated.network import Params
from fedstat.federated.optimizers import Rate
from fedstat.federated.samples import StackedSamples

#: Bytes of a block's leaves and hidden layers: what a core's own cache holds.
BLOCK_BYTES = 2**20
#: Bytes of the inputs that are gathered at once, for several steps of a block.
_GATHERED = 2**20
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
        size = self.block(params, places.shape[-1])
        blocks = [slice(k, k + size) for k in range(0, len(order), size)]

        def work(block: slice) -> Tensor:
            some = {name: leaf[block] for name, leaf in own.items()}
            return _Block(self, some, order[block], first[order[block]], places[:, order[block]]).run()

        finite = torch.cat(spread(work, blocks))
        if moved:
            for name in self.train:
                params[name][rows] = own[name]
        return finite[rows.argsort()]

    def rate(self, leaf: str, step: int) -> float:
        """Return by what a step multiplies a leaf's gradient; rates of each client are part of the slopes."""
        rate = self.rates[step]
        return 1.0 if isinstance(rate, Tensor) else rate[leaf] if isinstance(rate, Mapping) else rate

    def block(self, params: Params, batch: int) -> int:
        """Return how many clients fill a block."""
        hidden = 2 * batch * sum(layer.outputs for layer in self.chain.layers)
        leaves = [params[name] for name in self.chain.leaves]
        return max(1, BLOCK_BYTES // ((sum(leaf[0].numel() for leaf in leaves) + hidden) * leaves[0].element_size()))


@dataclass(frozen=True, eq=False)
class _Frame:
    """Leaves of the clients that a step moves, and the places of what it computes.

    Attributes
    ----------
    weights : list of Weights
        Leaves of each layer.
    made, slopes : list of Tensor, each (a, b, outputs)
        Places of what each layer makes, and of the slopes there.
    ones : Tensor, shape (a, 1, b)
        Ones, whose product with slopes sums them up.
    """

    weights: list[Weights]
    made: list[Tensor]
    slopes: list[Tensor]
    ones: Tensor


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
        samples, chain = self.descent.samples, self.descent.chain
        valid = self.places >= 0
        active, rows = valid[..., 0].sum(1), valid.sum(-1).max(1)
        steps = int((active > 0).sum())
        finite = torch.ones(len(self.clients), dtype=torch.bool)
        at = torch.from_numpy(np.where(valid, self.places, 0) + self.first[:, None])
        share = self.share(valid)
        width = at[0].numel() * samples.x[0].numel() * samples.x.element_size()
        several = max(1, _GATHERED // max(1, width))
        inputs = samples.x.new_empty(0)
        frames = dict[tuple[int, int], _Frame]()
        for begin in range(0, steps, several):
            some = slice(begin, min(begin + several, steps))
            flat = at[some].flatten()
            inputs.resize_(0)
            x = torch.index_select(samples.x, 0, flat, out=inputs).view(*at[some].shape, *samples.x.shape[1:])
            y = samples.y.index_select(0, flat).view(at[some].shape)
            x = self.descent.learner.network.inputs(x).flatten(3)
            outputs = x.new_zeros(*y.shape, chain.layers[-1].outputs)
            prepare, _ = SLOPES[self.descent.learner.losses]
            targets = prepare(outputs, y)
            for i, step in enumerate(range(some.start, some.stop)):
                a, b = shape = int(active[step]), int(rows[step])
                if shape not in frames:
                    frames[shape] = self.frame(a, b)
                self.step(frames[shape], step, x[i, :a, :b], targets[i, :a, :b], share[step, :a, :b])
                outputs[i, :a, :b] = frames[shape].made[-1]
            losses = torch.where(torch.from_numpy(valid[some]), self.descent.learner.losses(outputs, y), 0)
            finite &= losses.sum(-1).isfinite().all(0)
        return finite

    def frame(self, a: int, b: int) -> _Frame:
        """Make ready for steps of the first `a` clients with batches of `b`."""
        layers = self.descent.chain.layers
        some = {name: leaf[:a] for name, leaf in self.params.items()}
        one = next(iter(some.values()))
        made, slopes = ([one.new_empty(a, b, layer.outputs) for layer in layers] for _ in range(2))
        return _Frame([stacked(layer, some) for layer in layers], made, slopes, one.new_ones(a, 1, b))

    def share(self, valid: np.ndarray) -> Tensor:
        """Return what each sample's slope counts for, (S, c, B, 1): zero at padding, and with each client's own rate."""
        share = valid / np.maximum(1, valid.sum(-1, keepdims=True))
        rates = self.descent.rates
        if isinstance(rates[0], Tensor):
            each = torch.stack(list(rates)).numpy()[:, self.clients]  # type: ignore[arg-type]
            share *= each[..., None]
        dtype = self.descent.learner.network.dtype
        return torch.from_numpy(share).to(dtype).unsqueeze(-1)

    def step(self, frame: _Frame, step: int, x: Tensor, targets: Tensor, share: Tensor) -> None:
        """Move the leaves by one step on inputs (a, b, f)."""
        descent, layers, train = self.descent, self.descent.chain.layers, self.descent.train
        made = [x, *descent.chain.forward(frame.weights, x, frame.made)]
        _, slope = SLOPES[descent.learner.losses]
        delta = slope(made[-1], targets, frame.slopes[-1]).mul_(share)
        lowest = descent.chain.lowest(train)
        for i in range(len(layers) - 1, lowest - 1, -1):
            layer, (weight, bias) = layers[i], frame.weights[i]
            below = passed(layers[i - 1], made[i], delta, weight, frame.slopes[i - 1]) if i > lowest else delta
            if layer.weight in train:
                rate = descent.rate(layer.weight, step)
                weight.baddbmm_(delta.mT, made[i], beta=1 - rate * descent.decay, alpha=-rate)
            if bias is not None and layer.bias in train:
                rate = descent.rate(layer.bias, step)
                bias.baddbmm_(frame.ones, delta, beta=1 - rate * descent.decay, alpha=-rate)
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

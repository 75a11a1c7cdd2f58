"""Descent of chains of dense layers: all steps of a phase in closed form, on clients that fit the cache.

Clients go in blocks that stay in a core's cache for all their steps, one block after the other on each of as many
threads as torch has; what a client comes to does not depend on their number. In plain gradient steps the update is
fused into the gradient: ``torch.baddbmm`` adds the product that is a gradient to the weights themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.local import Learner, Training
from fedstat.federated.client.network import Params
from fedstat.federated.client.optimizers import OPTIMIZERS, SGD, Rate, descend, move, started
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.engine.between import Between
from fedstat.federated.engine.dense_chain import SLOPES, Chain, Slope, Use, Weights, stacked

#: Bytes of a block's leaves and hidden layers: about what a core's own cache holds.
BLOCK_BYTES = 3 * 2**20
#: Bytes of the inputs that are gathered at once, for several steps of a block.
_GATHERED = 2**20
#: From how many steps on, at how many outputs, a layer's weights are laid out for the forward pass: each step is then a
#: tenth to a third faster, and turning them there and back takes as long as seven steps save.
_STEPS, _OUTPUTS = 10, 32
#: The optimiser whose steps are fused into the gradients.
_PLAIN = SGD()
#: By what a step multiplies a leaf (beta) and its gradient (alpha), by the leaf's name.
Factors = Mapping[str, Mapping[str, float]]
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, eq=False)
class Descent:
    """The steps of one phase, which move the leaves `train`, each at its learning rate.

    The learner's loss is one of `SLOPES`. The state of the optimiser starts anew.
    """

    chain: Chain
    learner: Learner
    samples: StackedSamples
    train: tuple[str, ...]
    rates: Sequence[Rate]
    training: Training
    between: Between | None = None

    @cached_property
    def plain(self) -> bool:
        """Whether a leaf moves by a number times its gradient, and stays in proportion to what it was."""
        rescaled = self.training.weight_decay and isinstance(self.rates[0], Tensor)
        return self.training.steps == _PLAIN and self.training.clip_norm is None and not rescaled

    @cached_property
    def lowest(self) -> int:
        """The number of the first layer that moves."""
        return self.chain.lowest(self.train)

    @torch.no_grad()
    def run(self, params: Params, first: np.ndarray, places: np.ndarray) -> Tensor:
        """Put what all steps come to into `params`; return whose losses, and whose leaves then, are all finite, (c,).

        Leaves are (c, ...), and those that were there stay as they are. A client's samples begin at `first` (c,);
        `places` (steps, c, B) are counted from there, and -1 is padding, which ends a batch. A client's steps come
        first, and those without any sample are none.
        """
        # who has finished stands last in a block, beyond what steps touch
        order = np.argsort(-(places[..., 0] >= 0).sum(0), kind="stable")
        rows, moved = torch.from_numpy(order), bool((np.diff(order) < 0).any())
        seen = self.chain.leaves if self.between is None else tuple(params)
        changing = seen if self.between and "constrain" in self.between.own else self.train
        ends, turned = {name: params[name].new_empty(params[name].shape) for name in changing}, self.turned(len(places))

        def work(block: slice) -> Tensor:
            which = rows[block] if moved else block
            own = {name: laid_out(params[name][which], turned=name in turned) for name in seen}
            between = self.between and self.between.of(which)
            finite = _Block(self, own, between, order[block], first[order[block]], places[:, order[block]]).run()
            for name, end in ends.items():
                end[which] = own[name]
            return torch.stack([finite, *(all_finite(own[name]) for name in self.train)]).all(0)

        finite = torch.cat(spread(work, self.blocks(places)))
        params |= ends
        return finite[rows.argsort()]

    def factors(self, rate: Rate) -> Factors:
        """Return by what a step multiplies each leaf that moves, and its gradient; own rates are part of the slopes."""
        rate = 1.0 if isinstance(rate, Tensor) else rate
        own = rate if isinstance(rate, Mapping) else dict.fromkeys(self.train, rate)
        return {name: {"beta": 1 - own[name] * self.training.weight_decay, "alpha": -own[name]} for name in self.train}

    def turned(self, steps: int) -> tuple[str, ...]:
        """Return the weights that lie input by input, and not output by output, while so many steps are taken."""
        layer = self.chain.layers[self.lowest]
        pays = self.plain and self.between is None and steps >= _STEPS and layer.outputs >= _OUTPUTS
        return (layer.weight,) if pays else ()

    def blocks(self, places: np.ndarray) -> list[slice]:
        """Cut the clients into blocks that fit the cache, an even number of them for two threads to share."""
        (clients, batch), network = places.shape[1:], self.learner.network
        hidden = 2 * batch * sum(layer.outputs for layer in self.chain.layers)
        one = network.bytes + hidden * network.dtype.itemsize
        count = 1 if clients * one <= BLOCK_BYTES else 2 * max(1, round(clients * one / (2 * BLOCK_BYTES)))
        ends = np.linspace(0, clients, min(count, clients) + 1).round().astype(int).tolist()
        return [slice(first, last) for first, last in pairwise(ends)]


@dataclass(frozen=True, eq=False)
class _Block:
    """Some clients with their leaves, who of the stack they are, where their samples begin, and their steps."""

    descent: Descent
    params: Params
    between: Between | None
    clients: np.ndarray
    first: np.ndarray
    places: np.ndarray

    def run(self) -> Tensor:
        """Take all steps; return whose losses were all finite."""
        descent, learner, samples = self.descent, self.descent.learner, self.descent.samples
        (prepare, slope), valid = SLOPES[learner.losses], self.places >= 0
        at, share = torch.from_numpy(np.where(valid, self.places, 0) + self.first[:, None]), self.share(valid)
        finite = torch.ones(len(self.clients), dtype=torch.bool)
        gathered, frame = samples.sample.new_empty(0), None
        state = {} if descent.plain else started(descent.training.steps, {n: self.params[n] for n in descent.train})
        for steps, a, b in self.stretches(valid):
            if frame is None or frame.size != (a, b):
                frame = _Frame.of(descent, self.between, {name: leaf[:a] for name, leaf in self.params.items()}, b)
            x, y = samples.take(at[steps, :a, :b], out=gathered)
            x = learner.network.inputs(x).flatten(3)
            outputs = x.new_empty(*y.shape, descent.chain.layers[-1].outputs)
            state = {name: values[:a] if values.dim() else values for name, values in state.items()}
            each = (values.unbind() for values in (x, prepare(outputs, y), share[steps, :a, :b], outputs))
            for *one, rate in zip(*each, descent.rates[steps], strict=True):
                if descent.plain and frame.between is None:
                    frame.step(frame.fuse(rate), slope, *one)
                else:
                    self.step(frame, state, slope, one, rate)
            counted = torch.where(torch.from_numpy(valid[steps, :a, :b]), learner.losses(outputs, y), 0)
            finite[:a] &= counted.sum(-1).isfinite().all(0)
        return finite

    def step(self, frame: _Frame, state: Params, slope: Slope, one: list[Tensor], rate: Rate) -> None:
        """Take one step of another optimiser, or of a method that adds to gradients or puts something back."""
        descent, between, grads = self.descent, frame.between, dict[str, Tensor]()
        rate = rate[torch.from_numpy(self.clients[: frame.size[0]])] if isinstance(rate, Tensor) else rate
        pulled = {} if between is None else between.pull(frame.params)
        if descent.plain:
            frame.step(frame.fuse(rate), slope, *one)
            move(frame.params, pulled, rate)
        else:
            frame.step(descent.chain.collect(descent.train, grads, frame.grads), slope, *one)
            grads |= {name: grads[name].add_(pull) for name, pull in pulled.items()}
            descend(frame.params, grads, state, descent.training, rate, stacked=True)
        if between is not None:
            between.constrain(frame.params)

    def stretches(self, valid: np.ndarray) -> Iterator[tuple[slice, int, int]]:
        """Cut the steps into stretches in which the first `a` clients are at work, with at most `b` samples each."""
        active, most = valid[..., 0].sum(1).tolist(), valid.sum(-1).max(1).tolist()
        width = valid[0].size * self.descent.samples.sample[0].nbytes
        begin = 0
        for step, end in pairwise(range(len(active) + 1)):
            if (
                end == len(active)
                or (active[end], most[end]) != (active[step], most[step])
                or end - begin >= _GATHERED // width
            ):
                if active[step]:
                    yield slice(begin, end), active[step], most[step]
                begin = end

    def share(self, valid: np.ndarray) -> Tensor:
        """Return what each sample's slope counts for, (S, c, B, 1): zero at padding; plain steps add own rates."""
        share, rates = valid / np.maximum(1, valid.sum(-1, keepdims=True)), self.descent.rates
        if isinstance(rates[0], Tensor) and self.descent.plain:
            share *= torch.stack([torch.as_tensor(rate) for rate in rates]).numpy()[:, self.clients, None]
        return torch.from_numpy(share).to(self.descent.learner.network.dtype).unsqueeze(-1)


@dataclass(frozen=True, eq=False)
class _Frame:
    """What a step of some clients (a) on batches (b) works on."""

    descent: Descent
    params: Params
    between: Between | None
    weights: list[Weights]
    made: list[Tensor]
    slopes: list[Tensor]
    ones: Tensor

    @property
    def size(self) -> tuple[int, int]:
        """How many clients a step is of, and how many samples each of them."""
        return len(self.ones), self.ones.shape[-1]

    @cached_property
    def grads(self) -> Params:
        """Where gradients go: fedstat's own optimisers keep none, so that the next one may take its place."""
        own = type(self.descent.training.steps) in OPTIMIZERS.values()
        return {name: torch.empty_like(self.params[name]) for name in self.descent.train if own}

    @classmethod
    def of(cls, descent: Descent, between: Between | None, params: Params, b: int) -> _Frame:
        """Make ready for steps of stacked clients with batches of `b` samples."""
        weights = [stacked(layer, params) for layer in descent.chain.layers]
        like, a = weights[0].weight, len(weights[0].weight)
        made, slopes = ([like.new_empty(a, b, layer.outputs) for layer in descent.chain.layers] for _ in range(2))
        between = between and between.of(slice(a))
        return cls(descent, params, between, weights, made[:-1], slopes, like.new_ones(a, 1, b))

    def step(self, use: Use, slope: Slope, x: Tensor, targets: Tensor, share: Tensor, outputs: Tensor) -> None:
        """Go forward and back on inputs (a, b, f), and write the outputs (a, b, Q) to their place."""
        made = self.descent.chain.forward(self.weights, x, [*self.made, outputs])
        delta = slope(outputs, targets, self.slopes[-1]).mul_(share)
        self.descent.chain.backward(self.weights, made, delta, self.descent.lowest, self.slopes, use)

    def fuse(self, rate: Rate) -> Use:
        """Return what moves a layer by its slopes as soon as they are known."""
        factors = self.descent.factors(rate)

        def use(i: int, inputs: Tensor, delta: Tensor) -> None:
            layer, (weight, turned, bias) = self.descent.chain.layers[i], self.weights[i]
            if layer.weight in factors:
                if weight.is_contiguous():
                    weight.baddbmm_(delta.mT, inputs, **factors[layer.weight])
                else:
                    turned.baddbmm_(inputs.mT, delta, **factors[layer.weight])
            if bias is not None and layer.bias is not None and layer.bias in factors:
                bias.baddbmm_(self.ones, delta, **factors[layer.bias])

        return use


def laid_out(leaf: Tensor, *, turned: bool) -> Tensor:
    """Return a copy of a leaf (c, ...) that lies in the order of its axes, or with the last two `turned`."""
    if not turned:
        return leaf.clone(memory_format=torch.contiguous_format)
    if leaf.stride(0) == 0:  # all start from one model, which is turned once
        return leaf[:1].mT.contiguous().expand_as(leaf.mT).clone(memory_format=torch.contiguous_format).mT
    return leaf.mT.clone(memory_format=torch.contiguous_format).mT


def all_finite(leaf: Tensor) -> Tensor:
    """Tell of which clients all elements of a leaf (c, ...) are finite, (c,)."""
    flat = leaf.reshape(len(leaf), -1)
    sums = flat.sum(1).isfinite()  # much faster than asking every element
    return sums if sums.all() else flat.isfinite().all(1)  # a sum may overflow where no element is infinite


def spread(work: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
    """Apply `work` to every item, on as many threads as torch has; each computes with one thread of torch's."""
    threads = torch.get_num_threads()
    if min(threads, len(items)) < 2:
        return [work(item) for item in items]
    try:
        futures = [_threads(threads).submit(torch.no_grad()(work), item) for item in items]
        wait(futures)  # whatever fails, none is at work any more when this returns
        return [future.result() for future in futures]
    finally:
        torch.set_num_threads(threads)  # a worker that began has set what threads begin with


@cache
def _threads(threads: int) -> ThreadPoolExecutor:
    """Keep the threads, whose memory would have to be made ready again in every round."""
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)

"""Time one client's local steps of the two-convolution network under ideas for speed, those that were kept and others.

Run ``OMP_NUM_THREADS=1 python benchmarks/conv_ideas.py``. A turn is two epochs of 100 images 1x28x28 in batches of 20;
variants take turns in one process, in an order drawn anew for every turn, and what is compared is the processor time of
the thread, since other work may share the machine. Each variant changes one thing of the closed form that the engine
takes (`fedstat.federated.engine.layer_chain`); "autograd" is the general path.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.client.layers import layers_of
from fedstat.federated.client.local import Batch, Learner
from fedstat.federated.client.network import Params, build
from fedstat.federated.client.optimizers import move
from fedstat.federated.engine import layer_chain
from fedstat.federated.engine.layer_chain import Chain, Link, chain_of

LR, BATCH = 0.05, 20
aten, last = torch.ops.aten, torch.channels_last
network = build(fs.models.two_conv(10), np.random.default_rng(0))
learner, names = Learner(network, "cross_entropy"), network.trainable
chain = chain_of(network)
pixels, labels = torch.rand(100, 28, 28), torch.arange(100) % 10
Gradient = Callable[[Params, Batch], Params]


def client(gradient: Gradient, layout: torch.memory_format = last) -> Params:
    """Train one client, and return its leaves."""
    start = network.initial()
    params = {n: v.clone(memory_format=layout) if v.dim() == 4 else v for n, v in start.items()}
    order = torch.Generator().manual_seed(1)
    for _ in range(2):
        for rows in torch.randperm(100, generator=order).split(BATCH):
            batch = Batch(pixels.index_select(0, rows), labels.index_select(0, rows), rows >= 0, rows, True)
            move(params, gradient(params, batch), LR)
    return params


def by_autograd(params: Params, batch: Batch) -> Params:
    """Return gradients through the module."""
    leaves = {name: leaf.detach().requires_grad_() for name, leaf in params.items()}
    return dict(zip(names, torch.autograd.grad(learner.loss(leaves, batch), list(leaves.values())), strict=True))


def closed(params: Params, batch: Batch, of: Chain = chain) -> Params:
    """Return gradients in closed form."""
    return of.gradients(learner, params, names, batch)[1]


@contextmanager
def changed(rules: dict[type[nn.Module], Any], **others: Any) -> Iterator[None]:
    """Change rules, or other names of the module that holds them."""
    before, kept = dict(layer_chain._RULES), {name: getattr(layer_chain, name) for name in others}
    try:
        layer_chain._RULES.update(rules)
        vars(layer_chain).update(others)
        yield
    finally:
        layer_chain._RULES.update(before)
        vars(layer_chain).update(kept)


def under(*args: Any, **others: Any) -> Callable[[], Params]:
    """Train under changed rules."""

    def run() -> Params:
        with changed(*args, **others):
            return client(closed)

    return run


def relu_in_place(layer: nn.ReLU, x: Tensor, *_: object) -> layer_chain.Pass:
    """Overwrite the inputs."""
    y = x.relu_()
    return y, lambda g, _: (aten.threshold_backward.default(g, y, 0), None, None)


def strided_maximum(layer: nn.MaxPool2d, x: Tensor, *_: object) -> layer_chain.Pass:
    """Take maxima of four strided views, and masks backward."""
    a, b, c, d = (x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1))
    upper, lower = torch.maximum(a, b), torch.maximum(c, d)

    def back(g: Tensor, _: object) -> layer_chain.Slopes:
        by = torch.empty_like(x)
        top = g * (upper >= lower)
        left, below = top * (a >= b), (g - top) * (c >= d)
        for (i, j), part in zip(
            ((0, 0), (0, 1), (1, 0), (1, 1)), (left, top - left, below, g - top - below), strict=True
        ):
            by[:, :, i::2, j::2] = part
        return by, None, None

    return torch.maximum(upper, lower), back


def bias_apart(layer: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor) -> layer_chain.Pass:
    """Sum the gradient by the bias in an operation of its own."""
    y, whole = layer_chain._convolution(layer, x, weight, bias)
    return y, lambda g, wanted: (*whole(g, (*wanted[:2], False))[:2], g.sum((0, 2, 3)))


class Block(nn.Module):
    """Stands for the first convolution with its pooling."""


def in_parts(parts: int) -> Any:
    """Convolve and pool so many parts of a batch by themselves, so that each stays in the cache."""
    conv, pool = network.module.conv1, network.module.pool1

    def rule(layer: Block, x: Tensor, weight: Tensor, bias: Tensor) -> layer_chain.Pass:
        done = []
        for some in x.tensor_split(parts):
            y, first = layer_chain._convolution(conv, some, weight, bias)
            done.append((first, *layer_chain._maximum(pool, y)))

        def back(g: Tensor, wanted: layer_chain.Wanted) -> layer_chain.Slopes:
            sums = []
            for part, (first, _, second) in zip(g.tensor_split(parts), done, strict=True):
                sums.append(first(second(part, wanted)[0], wanted)[1:])
            return None, *(sum(more[1:], more[0]) for more in zip(*sums, strict=True))

        return torch.cat([y for _, y, _ in done]), back

    return rule


def as_product(layer: Block, x: Tensor, weight: Tensor, bias: Tensor) -> layer_chain.Pass:
    """Write first convolution and pooling as a product: a 6x6 patch gives four outputs, whose maximum counts."""
    product, corners = layer_chain._product, [(i, j) for i in (0, 1) for j in (0, 1)]
    patches = x[:, 0].unfold(1, 6, 2).unfold(2, 6, 2).reshape(-1, 36)
    wide = weight.new_zeros(4, 32, 6, 6)
    for k, (i, j) in enumerate(corners):
        wide[k, :, i : i + 5, j : j + 5] = weight[:, 0]
    four = product(patches, wide.view(128, 36), bias.repeat(4)).view(-1, 4, 32)
    a, b, c, d = four.unbind(1)
    upper, lower = torch.maximum(a, b), torch.maximum(c, d)

    def back(g: Tensor, wanted: object) -> layer_chain.Slopes:
        g = g.permute(0, 2, 3, 1).reshape(-1, 32)
        top = g * (upper >= lower)
        left, below = top * (a >= b), (g - top) * (c >= d)
        each = torch.stack([left, top - left, below, g - top - below], 1).view(-1, 128)
        by = product(each.T, patches.T).view(4, 32, 6, 6)
        return None, sum(by[k, :, i : i + 5, j : j + 5] for k, (i, j) in enumerate(corners)).unsqueeze(1), g.sum(0)

    return torch.maximum(upper, lower).view(-1, 12, 12, 32).permute(0, 3, 1, 2), back


def with_block(rule: Any) -> Callable[[], Params]:
    """Train with another rule for the first convolution and its pooling."""
    links = [Link(Block(), link.name) if link.name == "conv1" else link for link in chain.links]
    other = Chain(tuple(link for link in links if link.name != "pool1"))

    def run() -> Params:
        with changed({Block: rule}):
            return client(lambda params, batch: closed(params, batch, other))

    return run


def fused() -> Params:
    """Move the large dense layer in its backward pass, without a gradient in between."""

    def dense(layer: nn.Linear, x: Tensor, weight: Tensor, bias: Tensor) -> layer_chain.Pass:
        y, whole = layer_chain._dense(layer, x, weight, bias)

        def back(g: Tensor, wanted: layer_chain.Wanted) -> layer_chain.Slopes:
            large = weight.numel() > 10**5
            below, by_weight, by_bias = whole(g, (wanted[0], not large, True))
            if large:
                weight.addmm_(g.T, x, alpha=-LR)
            return below, by_weight, by_bias

        return y, back

    def gradient(params: Params, batch: Batch) -> Params:
        others = [name for name in names if name != "hidden.weight"]
        return chain.gradients(learner, params, others, batch)[1]

    with changed({nn.Linear: dense}):
        return client(gradient)


def as_written() -> Params:
    """Pool after ReLU, as the module does."""
    links = [Link(layer, name) for name, layer in layers_of(network.module)]
    return client(lambda params, batch: closed(params, batch, Chain(tuple(links))))


VARIANTS: dict[str, Callable[[], Params]] = {
    "closed form (kept)": lambda: client(closed),
    "autograd (general path)": lambda: client(by_autograd),
    "dense layers by MKL": under({}, _ONEDNN=False),
    "ReLU before pooling": as_written,
    "loss by autograd": under({}, cross_entropy=None),
    "plain kernels, not channels last": lambda: client(closed, torch.contiguous_format),
    "ReLU in place": under({nn.ReLU: relu_in_place}),
    "maxima of strided views": under({nn.MaxPool2d: strided_maximum}),
    "gradients by biases apart": under({nn.Conv2d: bias_apart}),
    "first layer in 2 parts": with_block(in_parts(2)),
    "first layer in 4 parts": with_block(in_parts(4)),
    "first layer as a product": with_block(as_product),
    "update fused into gradient": fused,
}


def product_rate(multiply: Callable[[Tensor, Tensor], Tensor]) -> float:
    """Return the operations per second of a product of two 1024-cubed matrices, the best of several."""
    a, best = torch.randn(1024, 1024), float("inf")
    for _ in range(6):
        start = time.thread_time()
        multiply(a, a)
        best = min(best, time.thread_time() - start)
    return 2 * 1024**3 / best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=25)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    reference = client(closed)
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for name, variant in VARIANTS.items():
        end = variant()
        assert max((end[leaf] - reference[leaf]).abs().max() for leaf in names) < 1e-3, name
    for _ in range(turns):
        for name, variant in random.sample(list(VARIANTS.items()), len(VARIANTS)):
            start = time.thread_time()
            variant()
            times[name].append(100 * (time.thread_time() - start))
    first = np.array(times["closed form (kept)"])
    rates = [product_rate(multiply) / 1e9 for multiply in (F.linear, layer_chain._product)]
    flops = 493_608_960  # tests/federated/engine/test_counts_conv.py
    print(f"torch {torch.__version__}, 1 thread, {turns} turns in random order, processor time")
    print(f"1024-cubed product: MKL {rates[0]:.0f} GFLOP/s, oneDNN {rates[1]:.0f} GFLOP/s")
    print(f"{'':34}{'ms a step':>10}{'lowest':>8}{'over kept':>11}{'quartiles':>14}{'GFLOP/s':>9}")
    for name, own in times.items():
        ratio = np.quantile(np.array(own) / first, [0.25, 0.5, 0.75])
        middle = float(np.median(own))
        where = f"{ratio[0]:.2f} to {ratio[2]:.2f}"
        print(f"{name:34}{middle:10.2f}{min(own):8.2f}{ratio[1]:11.2f}{where:>14}{flops / middle / 1e6:9.0f}")


if __name__ == "__main__":
    main()

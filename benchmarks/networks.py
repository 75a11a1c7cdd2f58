"""Measure what the papers' networks cost: ``python benchmarks/networks.py [table] [analysis]``, both by default.

table
    Weights, forward GFLOP per sample (a multiplication and an addition count 2; batch norm and ReLU are left out) and
    seconds per training step of 32 samples.
analysis
    FedFac's factor analysis at the last block of ResNet-18 (512 units, 10 clients) as a share of a round in the FedFac
    paper's CIFAR-10 setting: 10 of 100 clients train on 480 images each, in batches of 32, for one epoch. Some steps of
    every client are timed and multiplied by the number of steps in a round; averaging and evaluation come on top of
    that, so the share is an upper limit. The analysis sees the changes that these steps made.

Pixels and labels are random. One thread, processor time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import fedstat as fs
from fedstat.federated.client.network import build
from fedstat.methods.fedfac import communality
from fedstat.models.factory import Factory

BATCH, CLIENTS, IMAGES, STEPS = 32, 10, 480, 4

#: Networks as the papers' settings have them, and the shape of one sample (a length for tokens).
NETWORKS: dict[str, tuple[Factory, tuple[int, ...]]] = {
    "two_conv": (fs.models.two_conv(10), (28, 28)),
    "two_conv, FEMNIST": (fs.models.two_conv(62, hidden=2048, padding=2), (28, 28)),
    "alexnet": (fs.models.alexnet(10), (3, 32, 32)),
    "alexnet, Tiny ImageNet": (fs.models.alexnet(200, side=64), (3, 64, 64)),
    "resnet8": (fs.models.resnet8(10), (3, 32, 32)),
    "resnet10": (fs.models.resnet10(100), (3, 32, 32)),
    "resnet10, Tiny ImageNet": (fs.models.resnet10(200), (3, 64, 64)),
    "resnet9": (fs.models.resnet9(10), (3, 32, 32)),
    "vgg16": (fs.models.vgg16(100), (3, 32, 32)),
    "resnet18": (fs.models.resnet18(10), (3, 32, 32)),
    "lstm": (fs.models.lstm(80, vocabulary=80), (80,)),
}


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call, which on one thread is its wall time on a quiet machine."""
    start = time.process_time()
    call()
    return time.process_time() - start


def drawn(factory: Factory) -> nn.Module:
    """Build the network with torch's own layers, always with the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return factory()


def samples(shape: tuple[int, ...], seed: int) -> Tensor:
    """Draw one batch of random pixels, or of tokens out of 80."""
    generator = torch.Generator().manual_seed(seed)
    if len(shape) == 1:
        return torch.randint(80, (BATCH, *shape), generator=generator)
    return torch.rand(BATCH, *shape, generator=generator)


def stepper(module: nn.Module, shape: tuple[int, ...], seed: int = 0) -> Callable[[], None]:
    """Return a function that takes one step of Adam on a random batch."""
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    x, y = samples(shape, seed), torch.randint(10, (BATCH,), generator=torch.Generator().manual_seed(seed))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()

    return step


def table() -> None:
    """Print what every network costs."""
    print(f"{'network':24} {'weights':>12} {'GFLOP':>8} {'s a step':>9}")
    for name, (factory, shape) in NETWORKS.items():
        module = drawn(factory)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            # torch's counter sees nothing of nn.LSTM, but all of the engine's own in plain operations
            build(factory, np.random.default_rng(0)).module(samples(shape, 0)[:1])
        step = stepper(module, shape)
        step()
        taken = statistics.median(seconds(step) for _ in range(STEPS))
        weights = sum(leaf.numel() for leaf in module.parameters())
        print(f"{name:24} {weights:12,} {counter.get_total_flops() / 1e9:8.4f} {taken:9.3f}", flush=True)


def analysis() -> None:
    """Print the time of the analysis beside that of a round."""
    factory, shape = NETWORKS["resnet18"]
    layer = "stage4.block2.conv2.weight"
    start = drawn(factory).get_parameter(layer).detach()
    changes, steps = [], []
    for k in range(CLIENTS):
        module = drawn(factory)
        step = stepper(module, shape, seed=1 + k)
        steps += [seconds(step) for _ in range(STEPS)][1:]  # the first call allocates memory
        changes.append(module.get_parameter(layer).detach() - start)
    in_a_round = CLIENTS * IMAGES // BATCH
    training = statistics.mean(steps) * in_a_round
    stacked = torch.stack(changes)

    def analyse() -> None:
        communality(stacked.flatten(2).numpy().astype(np.float64), 0.85)

    analyse()
    times = [seconds(analyse) for _ in range(5)]
    taken = statistics.median(times)
    print(
        f"ResNet-18, {layer}: {stacked.shape[1]} units, {CLIENTS} clients\n"
        f"training   {training:8.1f} s a round = {in_a_round} steps of {statistics.mean(steps):.3f} s "
        f"(mean of {len(steps)} timed, {min(steps):.3f} to {max(steps):.3f})\n"
        f"analysis   {taken:8.2f} s (median of {len(times)}, {min(times):.2f} to {max(times):.2f})\n"
        f"share      {100 * taken / training:8.2f} % of a round"
    )


def main(*parts: str) -> None:
    """Run the parts that are named."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread")
    with threadpool_limits(1):
        for part in parts or ("table", "analysis"):
            {"table": table, "analysis": analysis}[part]()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Time rounds of networks with batch norm: closed form, general path and variants, against a plain torch loop.

Run ``OMP_NUM_THREADS=1 python -m benchmarks.norms [cnn] [three] [--turns 5] [--clients 3]``. Every client has
300 random images of 32 x 32 and takes one epoch of plain SGD in batches of 100. A turn is a round of `fedstat.rounds`
without evaluation, or of the plain loop of `benchmarks.conv`; sides take turns in one process, and what is compared is
processor time, since other work may share the machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

import fedstat as fs
from benchmarks.conv import Setting, Turn, plain
from benchmarks.conv_ideas import product_rate
from fedstat.federated.client.network import Model
from fedstat.federated.engine import executor, layer_chain


def three() -> nn.Module:
    """Three convolutions of 32, 64 and 128 channels, each with batch norm, ReLU and pooling, and a head."""
    layers = list[nn.Module]()
    for width, wider in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(width, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 10))


NETWORKS: dict[str, tuple[Model, tuple[int, ...]]] = {
    "cnn": (fs.models.cnn(32, 10, norm=True), (32, 32)),
    "three": (three, (3, 32, 32)),
}


def normed_first(layer: Any, pool: nn.MaxPool2d, x: Tensor, *leaves: Any) -> layer_chain.Pass:
    """Normalise all numbers, and take maxima of them."""
    y, below = layer_chain._norm(layer, None, x, *leaves)
    z, above = layer_chain._maximum(pool, y)
    return z, lambda g, wanted: below(cast(Tensor, above(g, wanted)[0]), wanted)


def as_they_are(params: dict[str, Tensor], k: int) -> dict[str, Tensor]:
    """Take client k's leaves out of a stack, kernels not in channels last."""
    return {name: leaf[k] for name, leaf in params.items()}


#: What each side changes: a module, a name in it, and what stands there instead.
SIDES: dict[str, tuple[Any, str, Any] | None] = {
    "closed form": None,
    "general path": (layer_chain, "chain_of", lambda network: None),
    "batch norm before maxima": (layer_chain, "_norm_of_maxima", normed_first),
    "kernels not in channels last": (executor, "_of_one", as_they_are),
}


@contextmanager
def changed(change: tuple[Any, str, Any] | None) -> Iterator[None]:
    """Put something in the place of something else."""
    if change is None:
        yield
        return
    where, name, other = change
    before = getattr(where, name)
    setattr(where, name, other)
    try:
        yield
    finally:
        setattr(where, name, before)


def engine(setting: Setting, clients: fs.data.Clients, change: tuple[Any, str, Any] | None) -> Turn:
    """Run a round of FedAvg under a change."""
    with changed(change):
        rounds = fs.rounds(fs.FedAvg(), setting.model, clients, setting.training, executor="per-client")
        next(rounds)

    def turn() -> None:
        with changed(change):
            next(rounds)

    return turn


def main() -> None:
    """Print a table for each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clients", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.networks:
        model, shape = NETWORKS[name]
        count, training = options.clients, fs.Training(lr=0.05, batch_size=100)
        setting = Setting(model, shape, clients=count, samples=300, participants=count, training=training)
        clients = setting.make_clients()
        turns: dict[str, Callable[[], None]] = {"plain loop": plain(setting, clients)}
        turns |= {side: engine(setting, clients, change) for side, change in SIDES.items()}
        times: dict[str, list[float]] = {side: [] for side in turns}
        turns["plain loop"]()
        for _ in range(options.turns):
            for side, turn in turns.items():
                start = time.process_time()
                turn()
                times[side].append((time.process_time() - start) / (3 * count))
        rate = product_rate(layer_chain._product) / 1e9
        print(f"{name}: {setting.flops() / 3e9 / count:.2f} GFLOP a step; 1024-cubed product {rate:.0f} GFLOP/s")
        for side, own in times.items():
            ratios = np.array(times["plain loop"]) / own
            print(
                f"  {side:30} {1000 * statistics.median(own):7.1f} ms a step, plain loop's time over it "
                f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
            )


if __name__ == "__main__":
    main()

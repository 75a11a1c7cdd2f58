"""Time rounds of FedAvg with convolutions on a CPU: the engine by its own choice and as a stack, against torch loops.

Run ``python benchmarks/conv.py``: 100 clients of 100 images 1x28x28, the two-convolution network, batches of 20, two
local epochs, ten clients a round. All sides train the same network on the same random pixels and take turns in one
process; ratios are of neighbouring turns. "plain" is the usual research code (a module, an optimiser and a DataLoader
per client), "plain fast" the same with one module, all data on the device, batches by index and the fused optimiser.

Convolutions and pooling bound the speed: they are about three quarters of a step in the plain loops. The engine lays
kernels out with channels last, which takes a plain step of this network from 7.6 to 5.2 ms on one core, takes gradients
in closed form (``docs/performance.md``: a fifth less processor time again), and its workers never wait for each
other between operations; stacking turns convolutions into grouped ones, which gain nothing.
``torch.compile`` is not offered: in an earlier prototype it made this network slower (2.5 s a round, against 1.8 s),
and every new shape costs 5 to 20 s.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fedstat as fs
from fedstat.data import Clients, Samples
from fedstat.federated.client.network import Model, build
from fedstat.federated.engine.executor import ExecutorName, cost

Turn = Callable[[], None]


@dataclass(frozen=True)
class Setting:
    """The setting that all sides train: `participants` of `clients` in each round."""

    model: Model
    shape: tuple[int, ...]
    clients: int
    samples: int
    participants: int
    training: fs.Training
    device: str = "cpu"
    dtype: str = "float32"

    def make_clients(self) -> Clients:
        """Draw random pixels as bytes, of ten classes."""
        rng = np.random.default_rng(0)
        x = rng.integers(256, size=(self.clients, self.samples, *self.shape), dtype=np.uint8)
        y = rng.integers(10, size=(self.clients, self.samples))
        return Clients(Samples.from_rows(x, y), classes=tuple(range(10)))

    def flops(self) -> float:
        """Count the operations of one round: those of the forward pass, and twice as many backward."""
        network = build(self.model, np.random.default_rng(0))
        sample = cost(network, torch.zeros(2, *self.shape, dtype=torch.uint8)).flops
        return 3.0 * sample * self.samples * self.training.local_epochs * self.participants


def engine(setting: Setting, clients: Clients, rounds: int, executor: ExecutorName = "auto") -> Turn:
    """Run `rounds` rounds of `fedstat.federate` without evaluation."""
    share = setting.participants / setting.clients

    def turn() -> None:
        fs.federate(
            fs.FedAvg(), setting.model, clients, setting.training, rounds=rounds, participation=share, evaluate_at=(),
            device=setting.device, dtype=setting.dtype, executor=executor, progress=False,
        )  # fmt: skip

    return turn


def plain(setting: Setting, clients: Clients, *, fast: bool = False) -> Turn:
    """Run one round of a sequential loop in plain torch."""
    training, device = setting.training, torch.device(setting.device)
    server = build(setting.model, np.random.default_rng(0)).module.to(device)
    worker = copy.deepcopy(server)
    rows = setting.clients, setting.samples
    x = torch.from_numpy(np.asarray(clients.train.x)).view(*rows, *setting.shape) / 255
    y = torch.from_numpy(clients.train.y).view(rows)
    if fast:
        x, y = x.to(device), y.to(device)
    chosen = range(setting.participants)
    models = [worker] * len(chosen) if fast else [copy.deepcopy(server) for _ in chosen]
    batch, mixed = training.batch_size, setting.dtype == "bf16-mixed"

    def batches(k: int) -> list[torch.Tensor]:
        return list(torch.randperm(setting.samples, device=device).split(batch))

    def turn() -> None:
        ends = []
        for k, model in zip(chosen, models, strict=True):
            model.load_state_dict(server.state_dict())
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), lr=training.lr, fused=fast or None)
            for _ in range(training.local_epochs):
                loader = DataLoader(TensorDataset(x[k], y[k]), batch_size=batch, shuffle=True)
                for inputs, targets in ((x[k, rows], y[k, rows]) for rows in batches(k)) if fast else loader:
                    inputs, targets = inputs.to(device), targets.to(device)
                    optimizer.zero_grad()
                    with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
                        loss = nn.functional.cross_entropy(model(inputs), targets)
                    loss.backward()
                    optimizer.step()
            ends.append({name: leaf.clone() for name, leaf in model.state_dict().items()})
        server.load_state_dict({name: torch.stack([end[name] for end in ends]).mean(0) for name in ends[0]})
        if device.type == "cuda":
            torch.cuda.synchronize()

    return turn


def product_rate(device: str, dtype: torch.dtype, size: int) -> float:
    """Return the floating-point operations per second of a matrix product, the best of several."""
    matrix = torch.randn(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        product = matrix @ matrix
        product[0, 0].item()  # waits for the device
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def compare(setting: Setting, sides: dict[str, tuple[Turn, int]], turns: int, size: int) -> None:
    """Let the sides take turns; print rounds per minute, arithmetic, and ratios to the first side."""
    for turn, _ in sides.values():
        turn()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, (turn, rounds) in sides.items():
            start = time.perf_counter()
            turn()
            times[name].append((time.perf_counter() - start) / rounds)
    device, kind = setting.device, torch.bfloat16 if setting.dtype == "bf16-mixed" else torch.float32
    peak, flops = product_rate(device, kind, size), setting.flops()
    where = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {setting.dtype}, {turns} interleaved turns, medians")
    print(f"{flops / 1e9:.1f} GFLOP a round; {size}-cubed product {peak / 1e9:.0f} GFLOP/s")
    first = times[next(iter(times))]
    for name, own in times.items():
        ratios = [a / b for a, b in zip(first, own, strict=True)]
        rate = flops / statistics.median(own)
        print(
            f"{name:24} {60 / statistics.median(own):7.1f} rounds a minute, {rate / 1e9:8.1f} GFLOP/s "
            f"({rate / peak:4.0%} of the product), {statistics.median(ratios):5.2f} times the first "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument(
        "--small",
        action="store_true",
        help="a tenth of the samples, to see that it runs: set-up and averaging weigh too much",
    )
    options = parser.parse_args()
    setting = Setting(
        model=fs.models.two_conv(10),
        shape=(28, 28),
        clients=100,
        samples=10 if options.small else 100,
        participants=10,
        training=fs.Training(lr=0.05, batch_size=20, local_epochs=2),
    )
    clients = setting.make_clients()
    sides = {
        "plain": (plain(setting, clients), 1),
        "plain fast": (plain(setting, clients, fast=True), 1),
        "engine": (engine(setting, clients, 2), 2),
        "engine, stacked": (engine(setting, clients, 2, "stacked"), 2),
    }
    compare(setting, sides, options.turns, 1024)


if __name__ == "__main__":
    main()

"""What Ray adds to a round: ``python benchmarks/ray_overhead.py``.

Seconds a round in this process and by tasks of a Ray cluster of one machine, taken in turns; medians. W0 is 10 clients
with next to nothing to do; W1 is 100 clients with 100 samples each, a network 100-200-1, batches of 20, 5 epochs, in
one chunk (the default) and in two; W2 is 10 of 100 clients, two convolutions and a wide dense layer on 28x28 pixels,
batches of 20, 2 epochs. Every process computes with one thread.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import ray
import torch

import fedstat as fs


def w0() -> Callable[[object], Iterator[fs.federated.Round]]:
    """Return a function from an executor to rounds of W0."""
    x = np.random.default_rng(0).normal(size=(100, 10)).astype(np.float32)
    clients = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.repeat(np.arange(10), 10), test=0)
    training = fs.Training(lr=0.05, batch_size=10)
    return lambda executor: fs.rounds(fs.FedAvg(), fs.models.mlp(10, 5, 1), clients, training, executor=executor)


def w1(chunk: int | None) -> Callable[[object], Iterator[fs.federated.Round]]:
    """Return a function from an executor to rounds of W1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10_000, 100)).astype(np.float32)
    clients = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.repeat(np.arange(100), 100), test=0)
    training = fs.Training(lr=0.05, batch_size=20, local_epochs=5)
    model = fs.models.mlp(100, 200, 1)
    return lambda executor: fs.rounds(fs.FedAvg(), model, clients, training, executor=executor, chunk=chunk)


def w2() -> Callable[[object], Iterator[fs.federated.Round]]:
    """Return a function from an executor to rounds of W2."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10_000, 28, 28)).astype(np.float32)
    clients = fs.data.from_arrays(x, rng.integers(10, size=10_000), np.repeat(np.arange(100), 100), test=0)
    training, model = (
        fs.Training(lr=0.05, batch_size=20, local_epochs=2),
        fs.models.cnn(28, 10, channels=(32, 64), hidden=512),
    )
    return lambda executor: fs.rounds(fs.FedAvg(), model, clients, training, participation=0.1, executor=executor)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="workers of the cluster (default: 2)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds timed of each (default: 9)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ray.init(num_cpus=options.workers, include_dashboard=False)
    print(
        f"Python {platform.python_version()}, torch {version('torch')}, ray {version('ray')}, {os.cpu_count()} cores, "
        f"{options.workers} workers"
    )
    for name, work in (("W0", w0()), ("W1", w1(None)), ("W1 in two", w1(50)), ("W2", w2())):
        going = {executor: work(executor) for executor in ("auto", "ray")}
        seconds: dict[str, list[float]] = {executor: [] for executor in going}
        own: dict[str, list[float]] = {executor: [] for executor in going}
        for _ in range(2 + options.rounds):
            for executor, rounds in going.items():
                begun, busy = time.perf_counter(), time.process_time()
                next(rounds)
                seconds[executor].append(time.perf_counter() - begun)
                own[executor].append(time.process_time() - busy)
        for executor in going:
            low, middle, high = np.quantile(seconds[executor][2:], [0.1, 0.5, 0.9])
            print(
                f"{name:9} {executor:5} {middle:.3f} s a round (10 to 90 %: {low:.3f} to {high:.3f}), of which this "
                f"process computes {np.median(own[executor][2:]):.3f} s"
            )


if __name__ == "__main__":
    main()

"""Time what each step costs that a method overrides: ``OMP_NUM_THREADS=1 python benchmarks/hooks.py [--turns 9]``.

Methods take turns in one process. A turn is one round of 16 clients with 100 samples each, batches of 20 and plain
steps: 5 epochs of an MLP 100-200-10, whose clients train as one stack; one epoch of two small convolutions on images
1x14x14, whose clients train one by one. It prints medians of processor time, and of its ratio to FedAvg's in the same
turn. Ditto trains two models, so that its round has twice FedAvg's steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import nn

import fedstat as fs
from fedstat.federated.client.local import Batch, Context, Learner
from fedstat.federated.client.network import Params

CLIENTS, SAMPLES, MU = 16, 100, 0.1


class Constrain(fs.FedAvg):
    """It puts nothing back."""

    def constrain(self, params: Params, context: Context) -> Params:
        """Change nothing."""
        return {}


class WrittenAgain(fs.FedAvg):
    """Its objective is FedAvg's."""

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Any:
        """Return the loss."""
        return learner.loss(params, batch)


class InObjective(fs.FedAvg):
    """FedProx whose penalty is a part of the objective."""

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Any:
        """Return the loss with the penalty."""
        far = sum((params[name] - context.received[name]).square().sum() for name in learner.network.trainable)
        return learner.loss(params, batch) + MU / 2 * far


class InGradient(fs.FedAvg):
    """FedProx whose penalty is added to the gradient."""

    def gradient(
        self, grad: Callable[[Params, Batch], Params], params: Params, batches: tuple[Batch, ...], context: Context
    ) -> Params:
        """Return the gradient with the penalty's."""
        found = grad(params, batches[0])
        return {name: g + MU * (params[name].detach() - context.received[name]) for name, g in found.items()}


METHODS: dict[str, fs.Method] = {
    "FedAvg": fs.FedAvg(),
    "constrain that returns nothing": Constrain(),
    "objective, FedAvg's written again": WrittenAgain(),
    "objective, loss and penalty": InObjective(),
    "gradient, penalty added": InGradient(),
    "FedProx": fs.methods.FedProx(mu=MU),
    "Ditto": fs.methods.Ditto(),
    "FedAMP": fs.methods.FedAMP(),
}


@dataclass(frozen=True)
class Task:
    """A network, the shape of a sample of its inputs, the epochs of a round, and how clients train."""

    model: Any
    shape: tuple[int, ...]
    epochs: int
    executor: Literal["stacked", "per-client"]


def small() -> nn.Module:
    """Build two small convolutions and a dense layer."""
    first, second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
    blocks = [layer for conv in (first, second) for layer in (conv, nn.ReLU(), nn.MaxPool2d(2))]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(144, 10))


TASKS = {
    "MLP 100-200-10": Task(fs.models.mlp(100, 200, 10), (100,), 5, "stacked"),
    "two small convolutions": Task(small, (1, 14, 14), 1, "per-client"),
}


def rounds_of(method: fs.Method, task: Task) -> Iterator[object]:
    """Return the rounds of a method, which run as they are asked for."""
    rng, count = np.random.default_rng(0), CLIENTS * SAMPLES
    x, y = rng.normal(size=(count, *task.shape)).astype(np.float32), rng.integers(10, size=count)
    clients = fs.data.from_arrays(x, y, np.arange(count) % CLIENTS)
    training = fs.Training(lr=0.05, batch_size=20, local_epochs=task.epochs)
    return iter(fs.rounds(method, task.model, clients, training, executor=task.executor))


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call in seconds."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Print the table of each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=9)
    turns = parser.parse_args().turns
    for name, task in TASKS.items():
        running = {label: rounds_of(method, task) for label, method in METHODS.items()}
        for each in running.values():
            next(each)
        times = [{label: seconds(each.__next__) for label, each in running.items()} for _ in range(turns)]
        print(f"{name}, {CLIENTS} clients, {turns} turns")
        for label in running:
            ratio = statistics.median(turn[label] / turn["FedAvg"] for turn in times)
            print(f"  {label:36} {1e3 * statistics.median(turn[label] for turn in times):7.1f} ms  {ratio:5.2f}")


if __name__ == "__main__":
    main()

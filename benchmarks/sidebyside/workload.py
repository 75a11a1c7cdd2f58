"""The three workloads, and the turns that the driver and its peers take. No package is needed here but numpy."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sizes:
    """What one workload asks for.

    Attributes
    ----------
    clients, chosen : int
        Clients, and how many of them train in a round.
    shape : tuple of int
        Shape of one sample.
    outputs : int
        1 for the logistic loss, otherwise classes.
    epochs : int
        Local epochs; a client has `SAMPLES` samples, in batches of `BATCH`.
    turns : int
        Turns that are timed, after one that is not; a turn is one round.
    flops : int
        Multiplications and additions of a training step, per sample.
    """

    clients: int
    chosen: int
    shape: tuple[int, ...]
    outputs: int
    epochs: int
    turns: int
    flops: int


SAMPLES, BATCH, LR, TEST = 100, 20, 0.05, 2000
# forward 2 a weight and sample, backward 2 more for the weight and 2 for the inputs; the first layer's inputs need none
_DENSE = 2 * (2 * 100 * 200 + 3 * 200)
_CONV = 2 * (2 * 24 * 24 * 32 * 25 + 3 * 8 * 8 * 64 * 800 + 3 * 1024 * 512 + 3 * 512 * 10)
SIZES = {
    "W1": Sizes(100, 100, (100,), 1, 5, 9, _DENSE),
    "W2": Sizes(100, 10, (28, 28), 10, 2, 7, _CONV),
    "W3": Sizes(1000, 1000, (100,), 1, 5, 3, _DENSE),
}


@dataclass(frozen=True)
class Workload:
    """The arrays that all peers train on.

    Attributes
    ----------
    name : str
    file : path
        Where the arrays lie.
    x, y : ndarray [clients, SAMPLES, ...], [clients, SAMPLES]
        Samples, float32, and labels.
    start : dict of str to ndarray
        Initial weights, by the names that torch has for them.
    chosen : ndarray [rounds, participants]
        Who takes part in which round.
    """

    name: str
    file: Path
    x: np.ndarray
    y: np.ndarray
    start: Weights
    chosen: np.ndarray

    @classmethod
    def read(cls, name: str, file: Path) -> Workload:
        """Read what the driver wrote."""
        with np.load(file, allow_pickle=False) as kept:
            start = {key.removeprefix("start/"): kept[key] for key in kept.files if key.startswith("start/")}
            return cls(name, file, kept["x"], kept["y"], start, kept["chosen"])

    @property
    def sizes(self) -> Sizes:
        """What the workload asks for."""
        return SIZES[self.name]

    @property
    def dense(self) -> bool:
        """Whether the network is the dense one, with the logistic loss."""
        return self.sizes.outputs == 1


def draw(name: str) -> dict[str, np.ndarray]:
    """Draw samples and labels of all clients, and a test set in common, that a network can learn in a few rounds."""
    sizes, rng = SIZES[name], np.random.default_rng(1)
    shape = (sizes.clients * SAMPLES + TEST, *sizes.shape)
    if sizes.outputs == 1:
        x = rng.normal(size=shape).astype(np.float32)
        y = (x @ rng.normal(size=shape[1]) + 5 * rng.normal(size=len(x)) > 0).astype(np.int64)
    else:
        y = rng.integers(sizes.outputs, size=shape[0])
        x = (rng.normal(size=(sizes.outputs, *sizes.shape))[y] / 2 + rng.normal(size=shape)).astype(np.float32)
    count = sizes.clients * SAMPLES
    return {
        "x": x[:count].reshape(sizes.clients, SAMPLES, *sizes.shape),
        "y": y[:count].reshape(sizes.clients, SAMPLES),
        "x_test": x[count:],
        "y_test": y[count:],
    }


class Turns:
    """A peer's end of the pipe. Its loop asks `more` before every round, and trains as long as the answer is yes.

    The driver's lines are ``round``, ``weights FILE`` and ``quit``. A peer answers with one line of JSON each; what it
    prints goes to the standard error.
    """

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._answers, self._versions = os.fdopen(os.dup(1), "w"), versions
        os.dup2(2, 1)
        self.rounds = 0
        self._begun: tuple[float, float] | None = None
        self._ready = False

    def more(self, weights: Callable[[], Weights]) -> bool:
        """Report the round that has ended, and wait for what the driver wants next."""
        if self._begun is not None:
            wall, used = time.perf_counter() - self._begun[0], time.process_time() - self._begun[1]
            self.rounds += 1
            self._say(seconds=wall, cpu=used)
        elif not self._ready:
            self._say(versions=self._versions)
        self._ready, self._begun = True, None
        for line in sys.stdin:
            command, _, rest = line.strip().partition(" ")
            if command == "round":
                self._begun = (time.perf_counter(), time.process_time())
                return True
            if command == "quit":
                return False
            np.savez(rest, **weights())  # type: ignore[arg-type]
            self._say(rounds=self.rounds)
        return False

    def _say(self, **answer: object) -> None:
        print(json.dumps(answer), file=self._answers, flush=True)

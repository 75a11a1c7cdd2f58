"""What a run will take: memory by a formula, time from a rehearsal of a few batches whose outcome is thrown away."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from time import monotonic
from typing import Any

import numpy as np
import torch

import fedstat as fs
from fedstat._checks import naming
from fedstat._mapped import Mapped
from fedstat.data import Clients, Samples
from fedstat.experiment.build import Setup
from fedstat.experiment.config import Experiment
from fedstat.federated.attendance import attended_by
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.engine.executor import COPIES, choose, chunk_size, cost, here
from fedstat.federated.replicate import participants
from fedstat.federated.route import own_steps
from fedstat.federated.state import State
from fedstat.federated.store import IN_MEMORY_BYTES

#: Bytes of a row of the history, while it is appended to or summarised.
_HISTORY_ROW = 200
#: Rounds of an attendance that are looked at.
_TRIED = 20
#: Stacks of the participants' leaves that a round holds: received, trained, and what the server makes of them.
_STACKS = 4
#: Samples of a client in the first round that is rehearsed (some methods keep a few from training); the seconds above
#: which it is the only one; and the rounds whose time is taken otherwise.
_FEW, _SLOW, _ROUNDS = 8, 2.0, 3
#: A sample costs about a third in evaluation of what it costs in a training step: no way back through the network.
_FORWARD = 1 / 3


@dataclass(frozen=True)
class Estimate:
    """The time and memory that a run will take, roughly.

    Seconds are those of a machine as busy as during the rehearsal. `memory` is in bytes on the device and beside it,
    without the program's own; `disk` in bytes of clients' rows in the temporary folder, where they are too large for
    memory.
    """

    seconds: float
    memory: int
    disk: int

    def __str__(self) -> str:
        disk = f", {_bytes(self.disk)} in the temporary folder" if self.disk else ""
        return f"{duration(self.seconds)}, {_bytes(self.memory)} of memory{disk}"


def estimate(setup: Setup, done: int = 0) -> Estimate:
    """Rehearse a run and estimate what the rounds after `done` take.

    All methods train a few clients of the first seed for a few rounds, on one batch each; nothing of it is kept. What
    does not fit together shows as a ValueError, and losses that become infinite or NaN already as a FloatingPointError.
    """
    experiment = setup.experiment
    clients = setup.clients[experiment.seeds[0]]
    chosen = _participants(setup, len(clients))
    count = max(2, min(chosen, _chunk(setup)), *(method.fewest for method in setup.methods.values()))
    count = min(count, len(clients))
    few = partial(_first, clients, count)
    start, evaluation = 0.0, 0.0
    try:
        (a_round,), states = _rehearse(setup, few(_FEW))
    except ValueError:
        for label, method in setup.methods.items():  # whose error is it?
            with naming(f"method.{label}"):
                _rehearse(replace(setup, methods={label: method}), few(_FEW))
        raise
    if a_round > _SLOW:  # arithmetic is what counts, and goes by samples: what some more of them take
        (more,), _ = _rehearse(setup, few(4 * _FEW))
        held = [np.minimum(clients.train.n[:count], most).mean() for most in (_FEW, 4 * _FEW)]
        longer = more > a_round and held[1] > held[0]
        each = (more - a_round) / (held[1] - held[0]) if longer else a_round / held[0]
        a_round = each * clients.train.n.mean()
    else:  # what happens once in a process is over now; what remains goes by steps
        batch = few(max(_batch_size(setup), _FEW))
        (start, *times, evaluation), _ = _rehearse(setup, batch, _ROUNDS)
        a_round = sum(times) / _ROUNDS * _steps(setup, clients.train) / _steps(setup, batch.train)
    a_round *= chosen / count
    epochs = np.mean([np.mean(training.local_epochs) for training in experiment.trainings.values()])
    forward = a_round / (chosen * clients.train.n.mean() * epochs) * _FORWARD
    evaluation += forward * sum(int(of.n.sum()) for name, of in clients.all_splits.items() if name != "train")
    evaluations = sum(t > done for t in experiment.evaluated)
    seconds = start + (experiment.rounds - done) * a_round + evaluations * evaluation
    rows, disk = _rows(states, len(clients), chosen)
    runs = len(experiment.seeds)
    tuning = 0.0 if done else _tuning(experiment, start, a_round, evaluation)
    memory = _data(setup) + runs * rows + _stacks(setup, states, chosen) + _history(setup, len(clients), chosen)
    return Estimate(runs * seconds + tuning, int(memory), runs * disk)


def _tuning(experiment: Experiment, start: float, a_round: float, evaluation: float) -> float:
    """Count the seconds of all trials of the grids as they begin; a method's share of a round is an equal one."""
    tune = experiment.tune
    if tune is None:
        return 0.0
    rounds, last = tune.rounds or experiment.rounds, tune.last or experiment.evaluation.last
    a_run = start + rounds * a_round + min(last, rounds) * evaluation
    return sum(experiment.trials.values()) * len(tune.seeds) * a_run / len(experiment.method)


def _rehearse(setup: Setup, clients: Clients, further: int = 0) -> tuple[list[float], list[State]]:
    """Run a round under one seed, and further ones with an evaluation; return the seconds of each, and all states."""
    experiment, times = setup.experiment, [monotonic()]
    with warnings.catch_warnings(action="ignore"):  # the run itself says it
        loop = fs.rounds(
            setup.methods,
            setup.model,
            clients,
            {label: experiment.trainings[label] for label in setup.methods},
            seed=experiment.seeds[0],
            dtype=experiment.dtype,
            executor=here(setup.executor),
            device=experiment.device,
        )
        for _ in range(1 + further):
            last = next(loop)
            times.append(monotonic())
        if further:
            last.evaluate(metrics=setup.metrics)
            times.append(monotonic())
    return [after - before for before, after in pairwise(times)], list(last.states.values())


def _first(clients: Clients, count: int, most: int) -> Clients:
    """Keep the first `count` clients, with at most `most` training samples each, and one for testing."""
    some = slice(count)
    return Clients(clients.train.of(some, most), (clients.test or clients.train).of(some, 1), classes=clients.classes)


def _steps(setup: Setup, samples: Samples) -> float:
    """Steps of an epoch, mean over clients and methods; those that train as one chunk all wait for the longest."""
    chunk = min(_chunk(setup), len(samples.n))
    of_methods = []
    for training in setup.experiment.trainings.values():
        steps = -(-samples.n // training.batch_size)
        longest = np.maximum.reduceat(steps, np.arange(0, len(steps), chunk))
        of_methods.append(np.repeat(longest, chunk)[: len(steps)].mean())
    return float(np.mean(of_methods))


def _batch_size(setup: Setup) -> int:
    """Count the samples of the largest step of any method: at most those of the largest client."""
    largest = max(int(clients.train.n.max()) for clients in setup.clients.values())
    return min(max(training.batch_size for training in setup.experiment.trainings.values()), largest)


def _chunk(setup: Setup) -> int:
    """Clients that the engine trains as one stack."""
    if _per_client(setup):
        return 1
    network = setup.network
    return chunk_size(network.bytes, network, setup.sample, _batch_size(setup))


def _per_client(setup: Setup) -> bool:
    """Tell whether the engine trains each client by itself."""
    executor = choose(here(setup.executor), setup.network, setup.sample, setup.experiment.training.batch_size)
    return not executor.together


def _data(setup: Setup) -> int:
    """Count the bytes of the data set, of every seed's clients, and of the engine's copies."""
    x: Any = setup.dataset.x  # a data frame of a .csv, if it is prepared
    total = x.nbytes if hasattr(x, "nbytes") else int(x.memory_usage(deep=True).sum())
    total += setup.dataset.y.nbytes + sum(of.nbytes for of in setup.dataset.groups.values())
    for clients in {id(of): of for of in (*setup.clients.values(), *setup.unseen.values())}.values():
        for name, samples in clients.all_splits.items():
            if isinstance(samples.x, Mapped):  # it stays in its file
                total += samples.x.rows.nbytes + samples.y.nbytes
                continue
            engine = samples.x.size * _itemsize(setup, samples.x) + samples.y.nbytes
            moved = setup.network.device.type != "cpu" or samples.x.itemsize != _itemsize(setup, samples.x)
            stacked = name == "train" and len(setup.clients) > 1  # over seeds
            total += samples.x.nbytes + samples.y.nbytes + (moved + stacked) * engine
    return total


def _itemsize(setup: Setup, x: np.ndarray) -> int:
    """Return the bytes of an input on the device, where pixels and tokens stay as they are."""
    return x.itemsize if x.dtype.kind in "iu" else setup.network.dtype.itemsize


def _participants(setup: Setup, clients: int) -> int:
    """Count the participants of a round; under an attendance, in the mean of some rounds."""
    seed, share = setup.experiment.seeds[0], setup.participation
    if isinstance(share, float):
        return len(participants(seed, 0, clients, share))
    counts = [len(attended_by(share, Seeds(seed), t, clients).ids) for t in range(min(_TRIED, setup.experiment.rounds))]
    return max(1, round(float(np.mean(counts))))


def _rows(states: list[State], clients: int, chosen: int) -> tuple[int, int]:
    """Count the bytes that clients keep under all methods, in memory and on disk."""
    memory = disk = 0
    for state in states:
        if state.clients:
            row = sum(leaf.nbytes for leaf in state.clients.rows(torch.tensor([0])).values())
            if clients * row > IN_MEMORY_BYTES:
                disk += (clients + chosen) * row
            else:
                memory += (clients + chosen) * row
    return memory, disk


def _stacks(setup: Setup, states: list[State], chosen: int) -> int:
    """Participants' leaves of the methods and seeds that train as one stack, and what a chunk of them trains."""
    leaves = {
        label: sum(leaf.nbytes for leaf in s.server.values()) for label, s in zip(setup.methods, states, strict=True)
    }
    largest, forward = max(leaves.values()), cost(setup.network, setup.sample)
    kept = _batch_size(setup) * forward.activations + 2 * forward.weights
    each = COPIES * largest + kept
    if _per_client(setup):  # each method and seed for itself
        return _STACKS * chosen * largest + torch.get_num_threads() * each
    together = sum(size for label, size in leaves.items() if not own_steps(setup.methods[label]))
    rows = chosen * len(setup.experiment.seeds)
    return _STACKS * rows * max(together, largest) + min(rows, _chunk(setup)) * each


def _history(setup: Setup, clients: int, chosen: int) -> int:
    """Count the bytes of the history, a few metrics of every client, and of the traffic."""
    experiment = setup.experiment
    metrics = 4 if setup.dataset.classes else 1
    each = metrics * clients * len(experiment.evaluated) + chosen * experiment.rounds
    return int(_HISTORY_ROW * each * len(experiment.seeds) * len(setup.methods))


def duration(seconds: float) -> str:
    """Say how long something takes, in two units at most."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"about {days} d" + f" {hours} h" * (days < 10)
    return f"about {hours} h {minutes} min" if hours else f"about {minutes} min"


def _bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{max(1, round(count / 2**20))} MiB"

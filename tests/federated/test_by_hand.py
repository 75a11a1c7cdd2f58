"""What a run draws and counts, written down as numbers: batches, fine-tuning, participants, bytes before round one.

Every sample of these clients is a unit vector, and a sample's loss is the model's output. A step then moves one weight
for each sample that it uses, by its rate over the size of its batch, so that the weights tell who was in which step.
"""

import zlib
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import fedstat as fs
from fedstat.federated import Phase
from fedstat.federated.replicate import participants
from tests.support import mixture
from tests.support.runs import final, run

SIZES = (5, 2, 7)
#: The batches of three samples in two epochs under seed 0: by round, client and step.
BATCHES = [
    [[[1, 2, 3], [0, 4], [0, 2, 4], [1, 3]], [[0, 1], [0, 1]], [[1, 2, 3], [4, 5, 6], [0], [0, 3, 4], [1, 2, 5], [6]]],
    [[[1, 2, 4], [0, 3], [0, 1, 2], [3, 4]], [[0, 1], [0, 1]], [[1, 3, 4], [0, 2, 5], [6], [2, 3, 4], [0, 1, 6], [5]]],
]
#: Those of one epoch of fine-tuning after the first round, and after the second.
TUNING = [
    [[[1, 2, 4], [0, 3]], [[0, 1]], [[1, 2, 4], [0, 5, 6], [3]]],
    [[[0, 2, 3], [1, 4]], [[0, 1]], [[1, 3, 6], [2, 4, 5], [0]]],
]


class TwoPhases(fs.Local):
    """Train for one epoch, then for another whose rates begin a thousandfold smaller."""

    def phases(self, network, training, round):
        return tuple(Phase(network.trainable, epochs=1, lr=lr) for lr in (1.0, 1e-3))


@dataclass(frozen=True)
class Tenths:
    """Plain steps, each with a tenth of the rate of the one before."""

    def start(self, params):
        return {"divisor": torch.tensor(0.1, dtype=torch.float64)}

    def step(self, params, grads, state):
        state["divisor"] = 10 * state["divisor"]
        return grads, state["divisor"]


def train(method, rounds):
    """Train for two epochs a round, by steps that tell which they are."""
    x = np.concatenate([np.eye(7)[:n] for n in SIZES])
    clients = fs.data.Clients(fs.data.Samples(x, np.zeros(len(x)), np.array(SIZES)))
    training = fs.Training(lr=1.0, batch_size=3, local_epochs=2, loss=lambda o, y: o[:, 0], optimizer=Tenths())
    model = torch.nn.Linear(7, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return run(method, rounds, clients=clients, model=model, training=training, participation=1.0, evaluate_at=())


def batches(before, after):
    """Return the samples of every client's steps, by how far the weights went."""
    found = []
    for way in (before["weight"] - after["weight"])[:, 0].tolist():
        digits = [f"{round(6e5 * went):06d}" for went in way]  # 6 over the size of the batch, step by step
        steps = [[i for i, digit in enumerate(step) if digit != "0"] for step in zip(*digits, strict=True)]
        assert all(int(digits[i][s]) == 6 // len(step) for s, step in enumerate(steps) for i in step)
        found.append([step for step in steps if step])
    return found


@pytest.mark.parametrize("method", [fs.Local(), TwoPhases()], ids=["one phase", "two phases"])
def test_the_batches_of_two_rounds(method):
    start, first, second = {"weight": torch.zeros(3, 1, 7)}, final(train(method, 1)), final(train(method, 2))
    assert [batches(start, first), batches(first, second)] == BATCHES


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_batches_of_fine_tuning_after_each_round(rounds):
    result = train(fs.FedAvg(fine_tune=1), rounds)
    assert batches(final(result, "global"), final(result, "fine-tuned")) == TUNING[rounds - 1]


def drawn(purpose, round, client, epochs):
    """Return batches as `fedstat._random.stream` has them, by NumPy alone: a key of purpose, round and client."""
    key = (zlib.crc32(purpose.encode()), round, client)
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=key))
    n = SIZES[client]
    shuffled = rng.permuted(np.tile(np.arange(n), (epochs, 1)), axis=1).tolist()
    return [sorted(epoch[i : i + 3]) for epoch in shuffled for i in range(0, n, 3)]


def test_the_batches_are_numpys():
    assert [[drawn("batches", t, k, 2) for k in range(3)] for t in range(2)] == BATCHES
    assert [[drawn("tuning batches", t, k, 1) for k in range(3)] for t in (1, 2)] == TUNING


@pytest.mark.parametrize(
    ("clients", "participation", "count"),
    [(7, 0.4, 3), (7, 0.3, 2), (6, 0.25, 2), (5, 0.5, 3), (10, 0.25, 3), (10, 0.04, 1), (9, 1.0, 9)],
)
def test_participants_are_rounded_to_the_nearest_and_halves_up(clients, participation, count):
    ids = participants(0, 0, clients, participation)
    assert len(ids) == count == len({*ids.tolist()} & {*range(clients)})


def test_the_bytes_before_the_first_round_of_fedfac():
    """Weights of 10 units with 8 inputs in float64, for each of three batch orders; a bit for each unit comes back."""
    method = fs.FedFac(layers=["hidden"], statistic="agreement", source="updates", replicates=3)
    table = mixture.run(method, rounds=1, evaluate_at=()).traffic.query("round == 0")
    assert table["client"].tolist() == list(range(6))
    assert {*table["bytes_up"]} == {3 * 80 * 8}
    assert {*table["bytes_down"]} == {2}

"""Time one round of FedAvg on 100 small clients: the stacked engine against a plain sequential torch loop.

Run ``python benchmarks/engine.py``. Both sides train the same networks on the same samples and evaluate every
client after the round; they take turns in one process, and the ratios are of neighbouring turns.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fedstat as fs
from fedstat.data import Clients, Samples
from fedstat.federated.network import build

CLIENTS, SAMPLES, TEST, BATCH, EPOCHS, LR = 100, 100, 100, 20, 5, 0.05
TURNS = 9
ROUNDS = 5  # rounds of the engine per turn, in one call


def make_clients() -> Clients:
    """Draw 100 clients with 100 training and 100 test samples of 100 inputs with binary labels."""
    rng = np.random.default_rng(0)

    def split(n: int) -> Samples:
        x = rng.normal(size=(CLIENTS, n, 100)).astype(np.float32)
        return Samples.from_rows(x, (x[..., 0] > 0).astype(np.int64))

    return Clients(split(SAMPLES), split(TEST), classes=(0, 1))


def stacked_rounds(clients: Clients) -> Callable[[], None]:
    """Run `ROUNDS` rounds of `fedstat.federate` with set-up, evaluation after every round, and history."""
    network = fs.models.mlp(100, 200, 1)
    training = fs.Training(lr=LR, batch_size=BATCH, local_epochs=EPOCHS)

    def turn() -> None:
        fs.federate(fs.FedAvg(), network, clients, training, rounds=ROUNDS, progress=False)

    return turn


def plain_round(clients: Clients) -> Callable[[], None]:
    """Run the usual research code: a module, a DataLoader and a torch optimiser per client."""
    server = build(fs.models.mlp(100, 200, 1), np.random.default_rng(0)).module
    models = [copy.deepcopy(server) for _ in range(CLIENTS)]

    def dataset(samples: Samples, k: int) -> TensorDataset:
        x, y = samples.client(k)
        return TensorDataset(torch.from_numpy(x), torch.from_numpy(y).float())

    train_sets = [dataset(clients.train, k) for k in range(CLIENTS)]
    test_sets = [dataset(clients.test, k) for k in range(CLIENTS)]
    criterion = nn.BCEWithLogitsLoss()

    def turn() -> None:
        for model, data in zip(models, train_sets, strict=True):
            model.load_state_dict(server.state_dict())
            optimizer = torch.optim.SGD(model.parameters(), lr=LR)
            for _ in range(EPOCHS):
                for x, y in DataLoader(data, batch_size=BATCH, shuffle=True):
                    optimizer.zero_grad()
                    criterion(model(x).squeeze(-1), y).backward()
                    optimizer.step()
        with torch.no_grad():
            for name, leaf in server.named_parameters():
                leaf.copy_(torch.stack([dict(m.named_parameters())[name] for m in models]).mean(0))
            for data in test_sets:
                for x, y in DataLoader(data, batch_size=TEST):
                    ((server(x).squeeze(-1) > 0) == y).float().mean().item()

    return turn


def seconds(turn: Callable[[], object]) -> float:
    """Return the wall time of one call in seconds."""
    start = time.perf_counter()
    turn()
    return time.perf_counter() - start


def main() -> None:
    """Print times, ratios and arithmetic rates."""
    clients = make_clients()
    plain, stacked = plain_round(clients), stacked_rounds(clients)
    matrix = torch.randn(1024, 1024)
    for warm in (plain, stacked, stacked):
        warm()
    times = [(seconds(plain), seconds(stacked) / ROUNDS, seconds(lambda: matrix @ matrix)) for _ in range(TURNS)]
    ratios = [p / s for p, s, _ in times]
    p, s, m = (statistics.median(column) for column in zip(*times, strict=True))
    steps = EPOCHS * SAMPLES
    # forward 2 flops per weight and sample, backward once more for weights; inputs need no gradient
    flops = CLIENTS * (steps * 2 * (2 * 100 * 200 + 3 * 200) + TEST * 2 * (100 * 200 + 200))
    print(f"threads {torch.get_num_threads()}, torch {torch.__version__}, {TURNS} interleaved turns, medians")
    print(f"plain sequential loop  {p:.3f} s a round, {flops / p / 1e9:5.1f} GFLOP/s")
    print(f"stacked engine         {s:.3f} s a round, {flops / s / 1e9:5.1f} GFLOP/s")
    print(f"1024-cubed product     {2 * 1024**3 / m / 1e9:5.1f} GFLOP/s")
    print(f"plain / stacked        {statistics.median(ratios):.1f} (from {min(ratios):.1f} to {max(ratios):.1f})")


if __name__ == "__main__":
    main()

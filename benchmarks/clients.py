"""Measure memory and time of rounds with a thousand clients, each with personal leaves of 2.6 million parameters.

``python benchmarks/clients.py [Ditto|FedPer|FedAvg] [rounds]`` trains 20 of 1,000 clients in each round, and prints
the peak of resident memory, in two parts: the process's own, and the pages of memory-mapped rows, which the system
takes back when it needs them. A method that keeps a full copy of the network (Ditto) needs 11 GB of temporary disk.
"""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import torch

import fedstat as fs
from fedstat.data import Clients, Samples

CLIENTS, INPUTS, HIDDEN = 1000, 784, (2048, 480)


def resident() -> tuple[int, int]:
    """Return the bytes of this process in memory: its own, and those of mapped files."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return tuple(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))  # type: ignore[return-value]


def make_clients() -> Clients:
    """Draw clients with 20 random samples each, four of them held out."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> Samples:
        x = rng.normal(size=(CLIENTS, n, INPUTS)).astype(np.float32)
        return Samples.from_rows(x, rng.integers(10, size=(CLIENTS, n)))

    return Clients(draw(16), draw(4), classes=tuple(range(10)))


def main(name: str = "Ditto", rounds: int = 30) -> None:
    """Run the rounds, and print time and memory."""
    torch.set_num_threads(2)
    model = fs.models.mlp(INPUTS, *HIDDEN, 10)
    floats = sum(p.numel() for p in model().parameters())
    clients, peak, stop = make_clients(), [0, 0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            peak[:] = [max(a, b) for a, b in zip(peak, resident(), strict=True)]

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    result = fs.federate(
        fs.methods.find(name)(), model, clients, fs.Training(lr=0.01, batch_size=8), rounds=rounds,
        participation=0.02, evaluate_at=[rounds], progress=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    stop.set()
    watcher.join()
    (state,) = result.states.values()
    kept = state.clients.nbytes
    print(
        f"{name}: {CLIENTS:,} clients, {floats:,} parameters, {rounds} rounds of 20 clients and one evaluation of all: "
        f"{seconds:.0f} s; rows set aside {kept / 1e9:.2f} GB; peak resident {peak[0] / 2**30:.2f} GiB own, "
        f"{peak[1] / 2**30:.2f} GiB mapped"
    )


if __name__ == "__main__":
    main(*(convert(value) for convert, value in zip((str, int), sys.argv[1:], strict=False)))

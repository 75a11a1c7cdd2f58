"""Measure rounds of 100 participants among 1,000 to 1,000,000 clients: time, memory and what comes once.

``python benchmarks/populations.py [rounds] [turns]`` runs every cell of the table in a process of its own, one after
the other, `turns` times over, and writes the table into ``docs/scale.md``. Each client holds 20 samples of 10 numbers;
nobody is evaluated, and a run is saved once, at its end. It needs 2 GB of memory and takes some minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import fedstat as fs
from fedstat.data import Clients, Samples

sys.path.insert(0, str(Path(__file__).parent))
from tables import publish, setting

POPULATIONS, METHODS, PARTICIPANTS = (10**3, 10**4, 10**5, 10**6), ("FedAvg", "FedPer", "Ditto"), 100
SAMPLES, INPUTS, HIDDEN = 20, 10, 32
#: Rounds before the measured ones.
WARM = 10


def make_clients(clients: int) -> Clients:
    """Draw clients with random inputs and one linear rule."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((clients, SAMPLES, INPUTS), dtype=np.float32)
    y = (x @ rng.standard_normal(INPUTS, dtype=np.float32) > 0).astype(np.int64)
    return Clients(Samples.from_rows(x, y), None, classes=(0, 1))


def memory(field: str) -> int:
    """Return a field of this process's memory, "VmRSS" or "VmHWM", in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def measured(name: str, clients: int, rounds: int) -> dict[str, object]:
    """Run one cell in this process."""
    torch.set_num_threads(1)
    moments: list[tuple[float, float]] = []
    base = fs.methods.find(name)

    def record(self: fs.Method, state: object) -> dict[str, torch.Tensor]:
        moments.append((time.perf_counter(), time.process_time()))
        return {}

    method = type(name, (base,), {"record": record})()
    model, training = fs.models.mlp(INPUTS, HIDDEN, 2), fs.Training(lr=0.1, batch_size=10)
    fs.federate(base(), model, make_clients(200), training, rounds=1, participation=0.5, progress=False)  # imports
    empty, data = memory("VmRSS"), make_clients(clients)
    held, begun = memory("VmRSS"), time.process_time()
    result = fs.federate(
        method, model, data, training, rounds=WARM + rounds, participation=PARTICIPANTS / clients, evaluate_at=[],
        progress=False,
    )  # fmt: skip
    peak, spent = memory("VmHWM"), time.process_time() - begun
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        result.save(Path(folder) / "run")
        saving = time.process_time() - begun
    wall, cpu = np.diff(np.array(moments), axis=0)[WARM - 1 :].T
    return {
        "wall": wall.tolist(),
        "cpu": cpu.tolist(),
        "start": spent - (moments[-1][1] - moments[0][1]),
        "saving": saving,
        "peak": peak,
        "data": held - empty,
        "beside": peak - held,
    }


def main(rounds: int = 150, turns: int = 3) -> None:
    """Run all cells, each in a process of its own, and publish the table."""
    torch.set_num_threads(1)
    found: dict[tuple[str, int], list[dict[str, object]]] = {}
    for _ in range(turns):
        for name in METHODS:
            for clients in POPULATIONS:
                cell = [sys.executable, __file__, "--cell", name, str(clients), str(rounds)]
                printed = subprocess.run(cell, check=True, capture_output=True, text=True).stdout
                found.setdefault((name, clients), []).append(json.loads(printed))
                print(name, clients, f"{1e3 * np.median(found[name, clients][-1]['cpu']):.2f} ms", flush=True)
    rows = []
    for (name, clients), cells in found.items():
        cpu, wall = (1e3 * np.concatenate([cell[kind] for cell in cells]) for kind in ("cpu", "wall"))
        low, high = np.quantile(cpu, [0.1, 0.9])
        least = {key: min(cell[key] for cell in cells) for key in ("start", "saving", "peak", "data", "beside")}
        rows.append(
            {
                "method": name,
                "clients": clients,
                "ms a round (processor)": float(np.median(cpu)),
                "10% to 90%": f"{low:.1f} to {high:.1f}",
                "ms a round (wall)": float(np.median(wall)),
                "s once": float(least["start"]),
                "s to save": float(least["saving"]),
                "peak MB": least["peak"] / 1e6,
                "samples, bytes a client": float(least["data"] / clients) if clients >= 10**5 else "",
                "beside, bytes a client": float(least["beside"] / clients) if clients >= 10**5 else "",
            }
        )
    notes = (
        f"`python benchmarks/populations.py {rounds} {turns}`: {PARTICIPANTS} participants a round, {SAMPLES} samples "
        f"of {INPUTS} numbers each, a network of {INPUTS}-{HIDDEN}-2, batches of 10, one epoch; {turns} turn(s) of "
        f"{rounds} rounds after {WARM}, every cell in a fresh process. {setting()} "
        '"Once" is what comes before the first round: hashing the samples by which a run is known again, and the first '
        'states. "Save" is the processor time of a checkpoint of the whole run from nothing.'
    )
    publish("populations", pd.DataFrame(rows), "scale.md", notes)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cell"]:
        print(json.dumps(measured(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        main(*map(int, sys.argv[1:]))

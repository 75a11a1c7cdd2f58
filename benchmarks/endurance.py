"""A long run with checkpoints, killed twice and continued: memory, time by hundred rounds, and whether bits are equal.

``python benchmarks/endurance.py [rounds] [clients]`` runs FedPer on 1,000 clients for 2,000 rounds in a process of its
own; and the same in another folder, where SIGKILL ends it twice at random moments. It writes the table into
``docs/scale.md``, and fails if a file of the two folders differs in a bit.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import fedstat as fs
from fedstat._files import complete_folder
from fedstat._memory import in_words
from fedstat.data import Clients, Samples
from fedstat.federated.record import rows

sys.path.insert(0, str(Path(__file__).parent))
from populations import memory
from tables import publish, setting

INPUTS, PARTICIPANTS, EVERY, SAVED = 5, 10, 20, 50


def make_clients(clients: int) -> Clients:
    """Draw clients with a linear rule each; of their samples 8 train and 4 test."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((clients, 12, INPUTS), dtype=np.float32)
    rule = rng.standard_normal((clients, INPUTS, 1), dtype=np.float32)
    y = ((x @ (rule + 1))[..., 0] > 0).astype(np.int64)
    train, test = (Samples.from_rows(x[:, part], y[:, part]) for part in (slice(8), slice(8, 12)))
    return Clients(train, test, classes=(0, 1))


def carry_on(folder: Path, log: Path, rounds: int, clients: int) -> None:
    """Run, or continue, in this process; a line of the log says round, moment, processor time and memory."""
    torch.set_num_threads(1)
    lines = log.open("a", buffering=1)

    def record(self: fs.Method, state: fs.federated.State) -> dict[str, torch.Tensor]:
        lines.write(f"{state.round},{time.perf_counter()},{time.process_time()},{memory('VmRSS')},{os.getpid()}\n")
        return {}

    method = {"FedPer": type("FedPer", (fs.methods.FedPer,), {"record": record})()}
    model = fs.models.mlp(INPUTS, 8, 2)
    resume = fs.load(folder, model, method) if complete_folder(folder).exists() else None
    fs.federate(
        method, model, make_clients(clients), fs.Training(lr=0.05, batch_size=4), rounds=rounds,
        participation=PARTICIPANTS / clients, evaluate_at=range(EVERY, rounds + 1, EVERY), folder=folder,
        checkpoint=SAVED, resume=resume, progress=False,
    )  # fmt: skip


def started(folder: Path, log: Path, rounds: int, clients: int) -> subprocess.Popen[bytes]:
    """Start `carry_on` in a process of its own."""
    log.touch()
    return subprocess.Popen([sys.executable, __file__, "--run", str(folder), str(log), str(rounds), str(clients)])


def reached(log: Path) -> int:
    """Return the last round of which a log has a whole line."""
    lines = log.read_text().splitlines(keepends=True)
    return next((int(line.split(",")[0]) for line in reversed(lines) if line.endswith("\n")), 0)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a run but the one that says where it was computed, and that one's hash."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != "environment.json"]
    held = {str(p.relative_to(folder)): p.read_bytes() for p in files}
    manifest = json.loads(held["manifest.json"])
    del manifest["sha256"]["environment.json"]
    return held | {"manifest.json": json.dumps(manifest).encode()}


def read(log: Path) -> pd.DataFrame:
    """Read a log: the last line of each round, with its processor and wall time in ms and the memory in MB."""
    table = pd.read_csv(log, names=["round", "wall", "cpu", "rss", "process"])
    steps = table.groupby("process")[["wall", "cpu"]].diff() * 1e3
    return table.assign(wall=steps["wall"], cpu=steps["cpu"], rss=table["rss"] / 1e6).groupby("round").last()


def main(rounds: int = 2000, clients: int = 1000) -> None:
    """Run both, compare them, and publish the table."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        whole, killed = Path(place) / "whole", Path(place) / "killed"
        logs = {folder: folder.with_suffix(".csv") for folder in (whole, killed)}
        if started(whole, logs[whole], rounds, clients).wait():
            raise SystemExit("the run without kills failed.")
        rng, ends = np.random.default_rng(), []
        for least, most in ((0.15, 0.45), (0.5, 0.85)):
            process, at = started(killed, logs[killed], rounds, clients), int(rng.uniform(least, most) * rounds)
            while reached(logs[killed]) < at:
                time.sleep(rng.uniform(0.001, 0.01))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            ends.append((reached(logs[killed]) + 1, fs.load(killed).config["rounds"]))
            print(f"killed in round {ends[-1][0]}; the folder holds round {ends[-1][1]}", flush=True)
        if started(killed, logs[killed], rounds, clients).wait():
            raise SystemExit("the run that was killed could not be continued.")
        one, other = contents(whole), contents(killed)
        if one != other:
            raise SystemExit(
                f"bits differ in {[name for name in one.keys() | other if one.get(name) != other.get(name)]}"
            )
        loaded = fs.load(whole)
        lengths = {name: len(loaded.rows(name)) for name in ("history", "traffic")}
        files = sum(path.parent.name in ("metrics", "traffic") for path in whole.rglob("*.parquet"))
        tables, size = {name: read(log) for name, log in logs.items()}, sum(map(len, one.values()))
    hundred = rounds // 20
    rows_ = []
    for last in range(hundred, rounds + 1, hundred):
        row: dict[str, object] = {"rounds": f"{last - hundred + 1} to {last}"}
        for folder, words in ((whole, "in one go"), (killed, "killed twice")):
            part = tables[folder].loc[last - hundred + 1 : last]
            row |= {
                f"ms a round, {words}": float(part["cpu"].median()),
                f"mean with checkpoints, {words}": float(part["cpu"].mean()),
                f"MB, {words}": float(part["rss"].max()),
            }
        rows_.append(row)
    notes = (
        f"`python benchmarks/endurance.py {rounds} {clients}`: FedPer, {clients:,} clients, {PARTICIPANTS} a round, "
        f"all evaluated every {EVERY} rounds, a checkpoint every {SAVED}. SIGKILL came twice, in rounds "
        f"{ends[0][0]:,} and {ends[1][0]:,}; the folder then held rounds {ends[0][1]:,} and {ends[1][1]:,}. Processor "
        f"time; the mean holds evaluations and checkpoints, the median neither. At the end {lengths['history']:,} rows "
        f"of history and {lengths['traffic']:,} of traffic lay in {files} files (a segment is {rows.SEGMENT:,} rows), "
        f"{in_words(size)} in all. All {len(one):,} files of the two folders but environment.json are equal to the "
        f"bit. {setting()}"
    )
    publish("endurance", pd.DataFrame(rows_), "scale.md", notes)
    print(pd.DataFrame(rows_).to_string(), notes, sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        carry_on(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        main(*map(int, sys.argv[1:]))

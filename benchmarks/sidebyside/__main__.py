"""The driver: draws the arrays, lets the peers take turns, tests what they learnt, and writes the table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np
import torch

import fedstat as fs
from benchmarks.sidebyside import __doc__ as head
from benchmarks.sidebyside.processes import Peer
from benchmarks.sidebyside.table import Row, markdown, paste, row, write_csv
from benchmarks.sidebyside.torch_parts import loss, module, weights
from benchmarks.sidebyside.workload import BATCH, LR, SIZES, Workload, draw
from fedstat.data import Clients, Samples
from fedstat.federated.replicate import participants

#: How a missing peer is added.
ADD = {
    "matmul": "torch==2.13.0",
    "fedstat": "-e .",
    "plain": "torch==2.13.0",
    "pfl": "pfl==0.6.0",
    "fedjax": "fedjax==0.0.17 jax==0.10.2",
    "flwr": "'flwr[simulation]==1.41.0'",
    "pfllib": "h5py matplotlib scikit-learn",
}
SEEDS = 4
#: So many standard deviations of fedstat's own losses under other orders of batches count as the same.
WITHIN = 6


def make(name: str, folder: Path) -> tuple[Workload, dict[str, np.ndarray]]:
    """Draw a workload and write it; return it with its test set."""
    arrays, sizes, file = draw(name), SIZES[name], folder / f"{name}.npz"
    torch.manual_seed(0)
    built = (fs.models.mlp(100, 200, 1) if sizes.outputs == 1 else fs.models.two_conv(10))()
    start = {f"start/{key}": leaf for key, leaf in weights(built).items()}
    rounds, share = range(sizes.turns + 1), sizes.chosen / sizes.clients
    chosen = np.stack([participants(0, t, sizes.clients, share) for t in rounds])
    np.savez(file, x=arrays["x"], y=arrays["y"], chosen=chosen, **start)
    return Workload.read(name, file), arrays


def learnt(work: Workload, arrays: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Return the test loss and accuracy of a model."""
    net = module(work)
    net.load_state_dict({name: torch.from_numpy(leaf) for name, leaf in values.items()})
    y = torch.from_numpy(arrays["y_test"])
    with torch.no_grad():
        out = net(torch.from_numpy(arrays["x_test"]))
        right = ((out > 0) if work.dense else out.argmax(1)) == y
        return float(loss(work)(out, y.float() if work.dense else y)), float(right.float().mean())


def noise(work: Workload, arrays: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Return mean and standard deviation of fedstat's own test loss when only the order of batches varies."""
    held = Clients(Samples.from_rows(work.x, work.y), classes=tuple(range(max(2, work.sizes.outputs))))
    build = fs.models.mlp(100, 200, 1) if work.dense else fs.models.two_conv(10)
    net = build()
    net.load_state_dict({name: torch.from_numpy(leaf) for name, leaf in work.start.items()})
    result = fs.federate(
        fs.FedAvg(), net, held, fs.Training(lr=LR, batch_size=BATCH, local_epochs=work.sizes.epochs),
        rounds=work.sizes.turns + 1, participation=work.sizes.chosen / work.sizes.clients, seed=range(SEEDS),
        vary=["batches"], evaluate_at=(), progress=False,
    )  # fmt: skip
    models = [{name: leaf.numpy() for name, leaf in state.server.items()} for state in result.states.values()]
    losses = [learnt(work, arrays, model)[0] for model in models]
    return float(np.mean(losses)), float(np.std(losses, ddof=1))


def started(work: Workload, wanted: list[str], options: argparse.Namespace) -> dict[str, Peer]:
    """Start the peers that are there, at once; say which are not, and how to add them."""
    pythons, peers, versions = dict(pair.split("=", 1) for pair in options.python), dict[str, Peer](), {}
    for name in wanted:
        if name == "pfllib" and options.pfllib is None:
            print("pfllib is left out: --pfllib names a checkout of github.com/TsingZ0/PFLlib", file=sys.stderr)
            continue
        more = [options.pfllib.absolute()] if name == "pfllib" else []
        peers[name] = Peer(name, work.name, work.file, pythons.get(name, sys.executable), options.threads, more)
    for name, peer in list(peers.items()):
        try:
            versions[name] = peer.answer()["versions"]
        except RuntimeError as error:
            print(f"{name} is left out; pip install {ADD[name]} adds it:\n{error}", file=sys.stderr)
            del peers[name]
    for name, peer in peers.items():
        peer.versions = ", ".join(f"{package} {number}" for package, number in versions[name].items())
    return peers


def compare(name: str, wanted: list[str], options: argparse.Namespace) -> tuple[list[Row], bool]:
    """Let the peers take turns on one workload; return their rows, and whether all have learnt the same."""
    with tempfile.TemporaryDirectory() as folder:
        work, arrays = make(name, Path(folder))
        peers = started(work, wanted, options)
        try:
            turns = {peer: list[dict[str, float]]() for peer in peers}
            for t in range(work.sizes.turns + 1):
                for each, peer in peers.items():
                    turns[each].append(peer.round())
                print(f"{name}: turn {t} of {work.sizes.turns}", end="\r", file=sys.stderr, flush=True)
            rows = []
            for each, peer in peers.items():
                ours = turns["fedstat"][1:] if "fedstat" in turns else []
                one = row(name, each, turns[each][1:], ours) | {"peak_mib": peer.peak() / 2**20}
                one |= {"threads": options.threads, "date": str(date.today()), "versions": peer.versions}
                rows.append(one | dict.fromkeys(("share", "test_loss", "accuracy"), float("nan")))
                if each != "matmul":
                    peer.ask(f"weights {folder}/{each}.npz")
        finally:
            for peer in peers.values():
                peer.quit()
        for one in rows:
            if one["peer"] != "matmul":
                with np.load(f"{folder}/{one['peer']}.npz") as values:
                    one["test_loss"], one["accuracy"] = learnt(work, arrays, dict(values))
        rate = [one["gflops"] for one in rows if one["peer"] == "matmul"]
        for one in rows:
            one["share"] = one["gflops"] / rate[0] if rate else float("nan")
        return rows, same(work, arrays, rows)


def same(work: Workload, arrays: Mapping[str, np.ndarray], rows: list[Row]) -> bool:
    """Tell whether all test losses are those that fedstat reaches under other orders of batches; say so."""
    mean, deviation = noise(work, arrays)
    begun, _ = learnt(work, arrays, work.start)
    far = {one["peer"]: (one["test_loss"] - mean) / deviation for one in rows if one["peer"] != "matmul"}
    off = [f"{peer} ({away:+.1f} deviations)" for peer, away in far.items() if abs(away) > WITHIN]
    print(
        f"{work.name}: test loss {begun:.4f} at the start; {mean:.4f} with standard deviation {deviation:.1e} over "
        f"{SEEDS} orders of batches; " + (f"not the same: {', '.join(off)}" if off else "all the same")
    )
    return not off


def main() -> None:
    """Compare, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=head, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], choices=[*SIZES, *ADD], help="workloads and peers; all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="its interpreter")
    parser.add_argument("--pfllib", type=Path, metavar="PATH", help="a checkout of PFLlib")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where side-by-side.csv and .md lie")
    options = parser.parse_args()
    workloads = [name for name in SIZES if name in options.only] or list(SIZES)
    wanted = [peer for peer in ADD if peer in options.only] or list(ADD)
    results = [compare(name, wanted, options) for name in workloads]
    rows = [one for table, _ in results for one in table]
    print(markdown(rows))
    if options.write is not None:
        table = write_csv(options.write / "side-by-side.csv", rows)
        paste(options.write / "side-by-side.md", "python -m benchmarks.sidebyside --write docs", markdown(table))
    if not all(equal for _, equal in results):
        sys.exit("models differ by more than the order of batches explains.")


if __name__ == "__main__":
    main()

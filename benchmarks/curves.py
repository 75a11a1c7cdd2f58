"""Time as the work grows: ``python -m benchmarks.curves [clients width samples factor kernel] [--write docs]``.

clients, width, samples
    A round of FedAvg, all clients taking part, one local epoch in batches of 20 of a dense network 100-width-1: by
    clients (100 samples each, width 200), by width (20 clients of 100 samples) and by samples (20 clients, width 200).
factor
    `PrincipalAxis().fit` of 4 p rows of p units with a power-law spectrum, from the rows to the communalities.
kernel
    `infinite_gram` of N samples of 100 inputs; the matrix of the largest takes 3.2 GB.

One thread. Sizes take turns, and times are processor seconds, which on one thread are the wall seconds of a quiet
machine. The exponent is the slope of a straight line through the logarithms of the medians of the `FITTED` largest
sizes, where fixed costs no longer matter, with a 95 % interval by Student's t, which covers noise and the bend
that is left.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from threadpoolctl import threadpool_limits

import fedstat as fs
from benchmarks.factor import weights
from benchmarks.sidebyside.table import paste
from fedstat.data import Clients, Samples
from fedstat.factor import PrincipalAxis
from fedstat.ntk import infinite_gram

TURNS, FITTED = 5, 5
#: A size that takes longer than these seconds has one turn.
LONG = 2.0
SIZES = {
    "clients": (10, 18, 32, 56, 100, 178, 316, 562, 1000),
    "width": (16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    "samples": (20, 40, 80, 160, 320, 640, 1280, 2560, 5120),
    "factor": (64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048),
    "kernel": (1000, 2000, 3000, 5000, 8000, 12_000, 20_000),
}
AXES = {
    "clients": "clients, 100 samples each",
    "width": "hidden units, 20 clients",
    "samples": "samples of a client, 20 clients",
    "factor": "units p of the factor analysis",
    "kernel": "samples N of the kernel matrix",
}


def rounds(clients: int = 20, width: int = 200, samples: int = 100) -> Callable[[], object]:
    """Return a function that plays a round."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(clients, samples, 100)).astype(np.float32)
    held = Clients(Samples.from_rows(x, (x[..., 0] > 0).astype(np.int64)), classes=(0, 1))
    training = fs.Training(lr=0.05, batch_size=20)
    loop = fs.rounds(fs.FedAvg(), fs.models.mlp(100, width, 1), held, training)
    return lambda: next(loop)


def work(curve: str, size: int) -> Callable[[], object]:
    """Return a function that does a curve's work of one size."""
    if curve == "factor":
        rows = weights(size, 0)
        return lambda: PrincipalAxis().fit(rows)
    if curve == "kernel":
        x = np.random.default_rng(0).normal(size=(size, 100))
        return lambda: infinite_gram(x)
    return rounds(**{curve: size})


def measure(curve: str, sizes: Iterable[int]) -> dict[int, list[float]]:
    """Return the processor seconds of every size's turns; each is warmed up, but for the long ones."""
    calls, taken = {size: work(curve, size) for size in sizes}, dict[int, list[float]]()
    for turn in range(TURNS + 1):
        for size, call in calls.items():
            if taken.get(size, [0.0])[-1] > LONG:
                continue
            begun = time.process_time()
            call()
            seconds = time.process_time() - begun
            if turn == 1:
                taken[size] = []  # what was taken to warm up
            taken.setdefault(size, []).append(seconds)
    return taken


def fit(taken: Mapping[int, list[float]]) -> tuple[float, float, float]:
    """Return the exponent of the largest sizes, and half of its 95 % interval, and the logarithm at size one."""
    sizes = sorted(taken)[-FITTED:]
    line = stats.linregress(np.log(sizes), np.log([statistics.median(taken[size]) for size in sizes]))
    return float(line.slope), float(stats.t.ppf(0.975, FITTED - 2) * line.stderr), float(line.intercept)


def draw(curves: Mapping[str, Mapping[int, list[float]]], file: Path) -> None:
    """Draw one panel a curve: medians with their range, and the fitted line."""
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "fedstat", "font.size": 8}):
        figure, axes = plt.subplots(
            1, len(curves), figsize=(2.6 * len(curves), 2.6), layout="constrained", squeeze=False
        )
        for ax, (curve, taken) in zip(axes[0], curves.items(), strict=True):
            sizes = sorted(taken)
            middle = np.array([statistics.median(taken[size]) for size in sizes])
            ends = np.array([(min(taken[size]), max(taken[size])) for size in sizes]).T
            ax.errorbar(sizes, middle, np.abs(ends - middle), fmt="ko", markersize=3, capsize=2)
            slope, half, intercept = fit(taken)
            ax.plot(sizes[-FITTED:], np.exp(intercept) * np.array(sizes[-FITTED:]) ** slope, "k--", linewidth=1)
            ax.set(xscale="log", yscale="log", xlabel=AXES[curve], title=f"exponent {slope:.2f} ± {half:.2f}")
        axes[0, 0].set_ylabel("processor seconds, one thread")
        figure.savefig(file, metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="CURVE", help=", ".join(SIZES))
    parser.add_argument("--largest", type=int, default=10**9, help="leave larger sizes out")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where performance-curves.md, .csv and .svg go")
    options = parser.parse_args()
    if unknown := set(options.what) - set(SIZES):
        parser.error(f"there is no curve {', '.join(sorted(unknown))}; there are {', '.join(SIZES)}.")
    torch.set_num_threads(1)
    curves = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for curve in options.what or SIZES:
            curves[curve] = measure(curve, [size for size in SIZES[curve] if size <= options.largest])
            slope, half, _ = fit(curves[curve])
            print(f"{curve}: exponent {slope:.2f} ± {half:.2f}", flush=True)
            for size, taken in curves[curve].items():
                print(
                    f"  {size:6d}  {statistics.median(taken):9.4f} s ({min(taken):.4f} to {max(taken):.4f})", flush=True
                )
    if options.write is not None:
        write(curves, options.write)


def write(curves: Mapping[str, Mapping[int, list[float]]], folder: Path) -> None:
    """Write the medians as CSV, the figure, and the exponents into the page; curves not measured now stay."""
    path, kept = folder / "performance-curves.csv", dict[str, dict[int, list[float]]]()
    if path.exists():
        with path.open(newline="") as before:
            for row in csv.DictReader(before):
                three = [float(row[name]) for name in ("cpu_seconds_min", "cpu_seconds", "cpu_seconds_max")]
                kept.setdefault(row["curve"], {})[int(row["size"])] = three
    known = kept | dict(curves)
    curves = {curve: known[curve] for curve in SIZES if curve in known}
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["curve", "size", "cpu_seconds", "cpu_seconds_min", "cpu_seconds_max"])
        for curve, taken in curves.items():
            for size, own in taken.items():
                table.writerow([curve, size, *(f"{f(own):.4g}" for f in (statistics.median, min, max))])
    draw(curves, folder / "performance-curves.svg")
    versions = ", ".join(f"{name} {version(name)}" for name in ("fedstat", "torch", "numpy", "scipy"))
    lines = [
        f"{date.today()}, one thread, {TURNS} turns, one where a turn takes over {LONG:.0f} s; {versions}.",
        "",
        "| | sizes fitted | largest, s | exponent |",
    ]
    lines.append("| --- | ---: | ---: | ---: |")
    for curve, taken in curves.items():
        (slope, half, _), sizes = fit(taken), sorted(taken)
        largest = statistics.median(taken[sizes[-1]])
        span = f"{sizes[-FITTED:][0]:,} to {sizes[-1]:,}"
        lines.append(f"| {AXES[curve]} | {span} | {largest:.2f} | {slope:.2f} ± {half:.2f} |")
    paste(folder / "performance-curves.md", "python -m benchmarks.curves --write docs", "\n".join(lines))


if __name__ == "__main__":
    main()

"""Measure how far apart chunk sizes end, with batch norm and without: ``python -m benchmarks.rounding [--update]``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

import fedstat as fs

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
MARKS = ("<!-- rounding -->\n", "<!-- end of rounding -->\n")
SIDE, CLASSES, CLIENTS, SAMPLES = 8, 4, 12, 20


def network(norm: bool) -> nn.Module:
    """Two convolutions and a head, with batch norm or without."""
    widths, layers = (1, 6, 8), []
    for i in range(2):
        layers += [nn.Conv2d(widths[i], widths[i + 1], 3, padding=1)]
        layers += [nn.BatchNorm2d(widths[i + 1])] if norm else []
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(widths[2] * (SIDE // 4) ** 2, CLASSES))


def clients(seed: int, level: float) -> fs.data.Clients:
    """Noise about a level, with classes at random: training never comes to rest."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, CLIENTS * SAMPLES)
    x = level + rng.normal(size=(len(y), 1, SIDE, SIDE))
    return fs.data.from_arrays(x, y, np.arange(len(y)) // SAMPLES, test=0.2, seed=seed)


def apart(norm: bool, level: float, dtype: str, seed: int = 0, rounds: int = 4) -> list[float]:
    """Return, for each round, the largest difference of any element between one client at once and all of them."""
    ends = []
    for chunk in (1, CLIENTS):
        training = fs.Training(lr=0.1, momentum=0.9, batch_size=5, local_epochs=3)
        loop = fs.rounds(
            fs.FedAvg(), partial(network, norm), clients(seed, level), training,
            chunk=chunk, dtype=dtype, seed=seed, executor="stacked",
        )  # fmt: skip
        ends.append([dict(next(iter(next(loop).states.values())).server) for _ in range(rounds)])
    pairs = zip(*ends, strict=True)
    return [max(float((a[name].double() - b[name].double()).abs().max()) for name in a) for a, b in pairs]


def table() -> str:
    """Return the measurements as Markdown."""
    lines = ["| network | inputs | numbers | round 1 | 2 | 3 | 4 |", "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    cells = [(False, 0.0, "float32"), (True, 0.0, "float32"), (True, 300.0, "float32"), (True, 300.0, "float64")]
    for norm, level, dtype in cells:
        worst = np.max([apart(norm, level, dtype, seed) for seed in range(2)], axis=0)
        shown = " | ".join(f"{value:.0e}" for value in worst)
        lines.append(f"| {'with' if norm else 'without'} batch norm | {level:g} ± 1 | {dtype} | {shown} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Print the table; write it into the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rounding", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the table into docs/reliability.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = table() + f"\ntorch {torch.__version__.partition('+')[0]}, one thread.\n"
    print(text)
    if options.update:
        page = PAGE.read_text(encoding="utf-8")
        head, _, rest = page.partition(MARKS[0])
        PAGE.write_text(f"{head}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()

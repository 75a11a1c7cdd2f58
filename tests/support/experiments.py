"""A small experiment for `fedstat run`: its configuration, its data, and what its folder holds."""

import copy

import numpy as np

from fedstat.experiment.parsing import parse

BASE = {
    "rounds": 3,
    "data": {"name": "digits"},
    "partition": {"kind": "iid", "clients": 4},
    "model": {"name": "mlp", "widths": [5]},
    "method": {"FedAvg": {}},
    "training": {"lr": 0.1, "batch_size": 50},
}


def changed(**changes):
    """BASE with values set by keys in which two underscores stand for a dot; None removes one."""
    table = copy.deepcopy(BASE)
    for key, value in changes.items():
        *path, last = key.split("__")
        inner = table
        for step in path:
            inner = inner[step]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return table


def images(folder, samples=240, classes=4, clients=6, side=8):
    """A file of one's own: grey images with a client for each, a third of them official test samples."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, samples)
    x = rng.integers(0, 256, (samples, side, side), dtype=np.uint8)
    x[:, 0, 0] = np.arange(samples) % 256  # to be known again
    test = np.arange(samples) % 3 == 0
    np.savez(folder / "mine.npz", x=x, y=y, client=np.arange(samples) % clients, test=test)
    return x, y, test


def own(folder, **changes):
    """A configuration of `images`."""
    file = {"data": {"file": str(folder / "mine.npz")}, "method": {"FedAvg": {}, "Local": {}}}
    return parse({**changed(), **file, **changes}, folder)


def contents(folder):
    """Bytes of every file, but for what speaks of the machine."""
    files = (file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}

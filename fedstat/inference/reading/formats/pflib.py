"""PFLlib's results, files ``results/{dataset}_{algorithm}_{goal}_{times}.h5``.

Source: https://github.com/TsingZ0/PFLlib at d832e76f6a23b833038949ec1e4fdefe63a4d350 (29 November 2025).

- ``system/flcore/servers/serverbase.py``: `save_results` writes the datasets rs_test_acc, rs_test_auc and
  rs_train_loss. `evaluate` appends one value every ``eval_gap`` rounds, before the round trains: the mean over the
  samples of all clients. In that version nothing is appended to rs_test_auc, and some algorithms have no rs_train_loss.
- ``serverditto.py``: `evaluate` and then `evaluate_personalized` append to the same lists, so that values of the global
  and of the personal models alternate.
- ``serverpFedMe.py``: the values are of the personal models, and rs_train_acc takes the place of rs_test_auc.
- ``system/main.py``: ``torch.manual_seed(0)`` once in a process; ``times`` counts the runs in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedstat.inference.reading.formats.tidy import UNNAMED, Content, rows

_METRICS = {
    "rs_test_acc": ("accuracy", "test"),
    "rs_test_auc": ("auc", "test"),
    "rs_train_loss": ("loss", "train"),
    "rs_train_acc": ("accuracy", "train"),
}
#: The algorithms of ``system/main.py``, by which a file's name is taken apart where its parts have underscores.
_ALGORITHMS = (
    "FedAvg", "Local", "FedMTL", "PerAvg", "pFedMe", "FedProx", "FedFomo", "FedAMP", "APFL", "FedPer", "Ditto",
    "FedRep", "FedPHP", "FedBN", "FedROD", "FedProto", "FedDyn", "MOON", "FedBABU", "APPLE", "FedGen", "SCAFFOLD",
    "FD", "FedALA", "FedPAC", "LG-FedAvg", "FedGC", "FML", "FedKD", "FedPCL", "FedCP", "GPFL", "FedNTD", "FedGH",
    "FedDBE", "FedCAC", "PFL-DA", "FedLC", "FedAS", "FedCross",
)  # fmt: skip
_NOTES = (
    "PFLlib writes one number for each run and round, the mean over all clients' samples: client -1",
    "rounds of PFLlib are counted in evaluations, 0 before training; with an eval_gap above 1 they are fewer",
    "the seed is PFLlib's number of the run; its runs are not seeded one by one, so that pairs share the data only",
)
_MEASURED = "the {model}, one number over all clients' {split} samples, mean over {when}"


def read(path: Path, given: Mapping[str, Any]) -> Content:
    """Read one file; `given` may hold the method and the seed of a file that is named otherwise."""
    try:
        import h5py
    except ImportError:
        raise ImportError(f"reading {path} needs h5py: pip install 'fedstat[hdf5]'.") from None
    dataset, algorithm, method, seed = _named(path, given)
    try:
        with h5py.File(path, "r") as file:
            found = {name: np.asarray(file[name]) for name in _METRICS if isinstance(file.get(name), h5py.Dataset)}
            others = list(file)
    except (OSError, RuntimeError, KeyError) as error:  # h5py's errors of damaged files
        raise ValueError(f"{path} is no readable HDF5 file: {error}") from error
    tables = []
    for name, values in found.items():
        if values.ndim != 1 or (values.size and values.dtype.kind not in "fiu"):
            raise ValueError(f"{path}: {name} must be a list of numbers, got {values.dtype} of shape {values.shape}.")
        metric, split = _METRICS[name]
        of = {"global": values[::2], "personal": values[1::2]} if algorithm == "Ditto" else {UNNAMED: values}
        if algorithm == "pFedMe":
            of = {"personal": values}
        tables += [
            rows(method, seed, range(len(own)), metric, own, split=split, estimand=estimand)
            for estimand, own in of.items()
            if len(own)
        ]
    if not tables:
        raise ValueError(f"{path} holds no results of PFLlib ({', '.join(_METRICS)}); it has {', '.join(others)}.")
    if dataset:
        tables = [table.assign(setting=dataset) for table in tables]
    return Content(tables, _NOTES, _MEASURED)


def _named(path: Path, given: Mapping[str, Any]) -> tuple[str | None, str, str, int]:
    """Return data set, algorithm, label and number of the run, from a file's name or from what is given."""
    algorithms = "|".join(map(re.escape, sorted(_ALGORITHMS, key=len, reverse=True)))
    known = re.fullmatch(rf"(.+?)_({algorithms})_(?:.*_)?(\d+)", path.stem)
    found = known or re.fullmatch(r"([^_]+)_([^_]+)_[^_]*_(\d+)", path.stem)
    if found is None and not {"method", "seed"} <= given.keys():
        raise ValueError(
            f"{path.name} is not named dataset_algorithm_goal_times.h5 as PFLlib does with an algorithm of its own; "
            f"give fs.read_results({{'LABEL': [{path.name!r}]}})."
        )
    if found is None:
        return None, given["method"], given["method"], given["seed"]
    label = str(given.get("method", found[2]))
    return found[1], found[2] if known else label, label, int(found[3])

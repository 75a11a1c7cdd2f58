"""Clients from the files into which PFLlib deals a data set: ``train/K.npz``, ``test/K.npz`` and ``config.json``.

Source: https://github.com/TsingZ0/PFLlib at d832e76f6a23b833038949ec1e4fdefe63a4d350 (29 November 2025).

- ``dataset/utils/dataset_utils.py``: `save_file` writes for client K, from 0 on, an array of objects ``data`` that
  holds one dictionary with the arrays ``x`` and ``y``, and the numbers of clients and classes into ``config.json``.
  ``dataset/generate_Shakespeare.py`` writes no ``config.json``.
- ``system/utils/data_utils.py``: `read_client_data` reads inputs as float32 and targets as int64. Where the folder's
  name has "Shakespeare" or "News", inputs are tokens; each text of the news has their number beside it, the
  same for all texts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fedstat._checks import local, naming
from fedstat.data.arrays import from_indices
from fedstat.data.clients import Clients
from fedstat.data.npz import read_object
from fedstat.data.partition import Partition


def from_pfllib(path: str | Path, *, validation: float = 0.0, seed: int = 0) -> Clients:
    """Read clients from the folder of a data set that PFLlib has dealt, never unpickling.

    Parameters
    ----------
    path : path
        The folder, such as ``PFLlib/dataset/Cifar10``. Its test samples are the clients' test samples. Inputs are
        tokens where PFLlib reads them so: if the folder's name has "Shakespeare" or "News".
    validation : float
        Share of each client's training samples held out for validation, in [0, 1).
    seed : int
        Decides which.

    Raises
    ------
    ValueError
        If a file is missing, damaged, or holds anything but numbers; or if ``config.json`` tells another number of
        clients, or fewer classes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import fedstat as fs
    >>> folder = Path(tempfile.mkdtemp())
    >>> for split, n in (("train", 6), ("test", 2)):
    ...     (folder / split).mkdir()
    ...     for client in range(3):  # as PFLlib does
    ...         samples = {"x": np.ones((n, 1, 8, 8), np.float32), "y": np.arange(n) % 2}
    ...         np.savez_compressed(folder / split / f"{client}.npz", data=samples)
    >>> clients = fs.data.from_pfllib(folder)
    >>> clients.train.n.tolist(), clients.test.n.tolist(), clients.train.x.shape[1:]
    ([6, 6, 6], [2, 2, 2], (1, 8, 8))
    """
    path = local("path", path)
    config: dict[str, int] = {}
    if (file := path / "config.json").is_file():
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            config = {name: int(found[name]) for name in ("num_clients", "num_classes") if name in found}
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{file} is damaged: {error}.") from None
    count = len(list((path / "train").glob("*.npz")))
    if count == 0 or config.get("num_clients", count) != count:
        raise ValueError(
            f"{path} must hold train/0.npz, train/1.npz, ... of {config.get('num_clients', 'all')} clients, as PFLlib "
            f"writes them; it has {count} such files."
        )
    tokens = any(word in path.resolve().name for word in ("Shakespeare", "News"))
    parts = [_samples(path / split / f"{k}.npz", tokens) for split in ("train", "test") for k in range(count)]
    if len(shapes := {x.shape[1:] for x, _ in parts}) > 1:
        raise ValueError(f"{path}: samples of all clients must have one shape, got {', '.join(map(str, shapes))}.")
    ends = np.cumsum([len(y) for _, y in parts])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    x, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    partition = Partition(tuple(rows[:count]), test=tuple(rows[count:]))
    classes = range(config["num_classes"]) if "num_classes" in config else None
    with naming(path):
        return from_indices(x, y, partition, validation=validation, seed=seed, tokens=tokens, classes=classes)


def _samples(path: Path, tokens: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return one client's inputs and targets."""
    held = read_object(path, "data")
    try:
        x, y = np.asarray(held["x"]), np.asarray(held["y"])
        if x.dtype == object:  # texts of news: tokens, and how many
            x = np.array([text for text, _ in x.tolist()], dtype=np.int64)
        if x.dtype.kind not in "biuf" or y.dtype.kind not in "biuf" or y.shape != x.shape[:1] or (y % 1 != 0).any():
            raise ValueError(f"x of {x.dtype} {x.shape} and y of {y.dtype} {y.shape} are no numbers with their classes")
        return x if tokens or x.dtype == np.uint8 else x.astype(np.float32), y.astype(np.int64)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path} does not hold a client's x and y as PFLlib writes them: {error}.") from None

"""What studies of real images have in common: the images, a small network, and one rule for learning rates."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from torch import nn

import fedstat as fs
from fedstat.data import datasets
from fedstat.models import Factory
from simulations.parts import Part, run_parts

#: How often the grid of rates may grow at each end.
_GROWTH = 3


@functools.cache
def images(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the images of a data set as float32 (N, channels, side, side), standardised by channel, labels and test.

    Parameters
    ----------
    name : str
        As `fedstat.data.datasets.read` takes it.

    Returns
    -------
    x, y, test : ndarray
        `test` is true for samples of the official test part.

    Raises
    ------
    FileNotFoundError
        If the files are missing; the command that fetches them is named.
    """
    found = datasets.read(name)
    x = found.x.astype(np.float32)
    x = x[:, None] if x.ndim == 3 else x
    mean, sd = (f(x, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    return (x - mean) / sd, found.y, found.test


class SmallCNN(nn.Sequential):
    """Two 5x5 convolutions with stride 2, a pooling and two dense layers: conv1, conv2, hidden and head."""

    def __init__(self, channels: int, side: int, classes: int, widths: Sequence[int], hidden: int, norm: bool) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, (c_in, c_out) in enumerate(zip((channels, *widths), widths, strict=False), start=1):
            layers[f"conv{i}"] = nn.Conv2d(c_in, c_out, 5, stride=2, padding=2)
            if norm:
                layers[f"norm{i}"] = nn.BatchNorm2d(c_out)
            layers[f"relu{i}"] = nn.ReLU()
            side = -(-side // 2)
        layers["pool"] = nn.MaxPool2d(2)
        layers["flatten"] = nn.Flatten()
        layers["hidden"] = nn.Linear(widths[-1] * (side // 2) ** 2, hidden)
        layers["relu3"] = nn.ReLU()
        layers["head"] = nn.Linear(hidden, classes)
        super().__init__(layers)


def small_cnn(
    x: np.ndarray, classes: int = 10, *, widths: Sequence[int] = (8, 16), hidden: int = 64, norm: bool = False
) -> Factory:
    """Build the small network for images of this shape; with `norm` batch norms follow the convolutions.

    On 32 x 32 colour images the defaults make 21 thousand weights and .65 million multiplications a sample.
    """
    return partial(SmallCNN, x.shape[1], x.shape[2], classes, tuple(widths), hidden, norm)


def tuned_rates(
    what: str, arms: Sequence[str], rates: Sequence[float], part: Callable[[str, float], Part], out: Path
) -> pd.DataFrame:
    """Choose each arm's learning rate on validation data: one rule for all, and no rate at an end of its grid.

    The rate with the largest mean accuracy over the tuning seeds, the smallest of equals. Where that is an end of the
    arm's grid, the grid grows there by its own ratio, three times at most. A rate at which training diverged under
    any seed is not chosen.

    Parameters
    ----------
    what : str
        Stands before the progress bar.
    arms : sequence of str
        The arms that are tuned.
    rates : sequence of float
        The grid to begin with, ascending, equally spaced in ratio; at least two.
    part : callable
        The part that measures an arm at a rate: its table ``tuning`` has the columns arm, lr, seed and accuracy, NaN
        where training diverged.
    out : Path
        Where parts are cached.

    Returns
    -------
    DataFrame
        One row per arm, rate and seed, with ``chosen``, and ``end`` where growing did not free the choice from an end.

    Raises
    ------
    FloatingPointError
        If an arm diverges at all rates.
    """
    ratio, grids = rates[1] / rates[0], {arm: sorted(rates) for arm in arms}
    for growth in range(_GROWTH + 1):
        parts = [part(arm, rate) for arm, grid in grids.items() for rate in grid]
        table = run_parts(parts, out, f"{what}: learning rates")["tuning"]
        mean = table.groupby(["arm", "lr"], sort=True)["accuracy"].agg(lambda a: a.mean(skipna=False)).unstack("arm")
        if lost := [arm for arm in arms if mean[arm].isna().all()]:
            raise FloatingPointError(f"training of {', '.join(lost)} diverged at every rate of {rates}.")
        best = {arm: float(mean[arm].idxmax()) for arm in arms}
        ends = {arm: rate for arm, rate in best.items() if rate in (grids[arm][0], grids[arm][-1])}
        if not ends or growth == _GROWTH:
            break
        for arm, rate in ends.items():
            new = float(f"{rate / ratio if rate == grids[arm][0] else rate * ratio:.2g}")
            grids[arm] = sorted([*grids[arm], new])
    return table.assign(chosen=table["arm"].map(best) == table["lr"], end=table["arm"].isin(list(ends)))


def chosen(tuning: pd.DataFrame) -> Mapping[str, float]:
    """Return each arm's rate from the table of `tuned_rates`."""
    return {str(arm): float(lr) for arm, lr in tuning[tuning["chosen"]].groupby("arm")["lr"].first().items()}


def dealt(
    x: np.ndarray, y: np.ndarray, parts: fs.data.Partition | Sequence[np.ndarray], *, seed: int, validation: bool
) -> fs.data.Clients:
    """Deal images to clients, of whose samples a fifth are test samples and a fifth of the rest validation samples.

    With `validation` the clients' test samples are those for validation, so that tuning sees no test sample.
    """
    with warnings.catch_warnings():  # skewed labels are the point of these partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        clients = fs.data.from_indices(x, y, parts, test=0.2, validation=0.2, seed=seed)
        if not validation:
            return clients
        return fs.data.Clients(clients.train, clients.validation, classes=clients.classes)

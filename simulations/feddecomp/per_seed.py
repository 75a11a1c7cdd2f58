"""The FedDecomp study's tables by seed and arm, and which settings they hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

from fedstat._tables import Tables
from simulations.estimates import by_run
from simulations.feddecomp.cells import CODE, Setup
from simulations.feddecomp.study import SIMULTANEOUS, warm_arm

LOG_LOSS = "log_loss"
_RANKS = re.compile(r"R_l ([\d.]+), R_c ([\d.]+)$")
_EPOCHS = re.compile(r"^FedDecomp code, E_lora (\d+)$")


@dataclass(frozen=True)
class Layout:
    """Which settings the tables of a world hold.

    Attributes
    ----------
    world : str
        Its name.
    main, further : tuple of float
        Dirichlet concentrations with all arms and ablations, and with the arms of Table 1 alone.
    train : int
        Training samples of a client where nothing else is said.
    samples : tuple of int
        All numbers of training samples, ascending.
    ratios : dict of (float, float) to str
        The arm of each pair of ranks (R_l, R_c).
    epochs, warm : dict of int to str
        The arm of each number of epochs of the low-rank part, from a random and from a pre-trained start.
    """

    world: str
    main: tuple[float, ...]
    further: tuple[float, ...]
    train: int
    samples: tuple[int, ...]
    ratios: dict[tuple[float, float], str]
    epochs: dict[int, str]
    warm: dict[int, str]

    @property
    def first(self) -> float:
        """The concentration of the ablations."""
        return self.main[0]

    @property
    def every(self) -> tuple[float, ...]:
        """All concentrations of Table 1."""
        return (*self.main, *self.further)


def layouts(tables: Tables) -> list[Layout]:
    """Return the settings of every world, in the order of the tables."""
    return [_layout(str(world), rows) for world, rows in tables["accuracy"].groupby("world", sort=False)]


def _layout(world: str, rows: pd.DataFrame) -> Layout:
    names = list(dict.fromkeys(rows["arm"].astype(str)))
    at_once = rows[rows["arm"] == SIMULTANEOUS]
    main = tuple(sorted(float(a) for a in at_once["dirichlet"].unique()))
    further = tuple(sorted(float(a) for a in rows["dirichlet"].unique() if a not in main))
    ratios = {(float(m[1]), float(m[2])): name for name in names if (m := _RANKS.search(name))}
    dense, conv = (sorted({pair[i] for pair in ratios}) for i in (0, 1))
    ratios |= {(a, b): CODE for a in dense for b in conv if (a, b) not in ratios}
    epochs = {int(m[1]): name for name in names if (m := _EPOCHS.search(name))} | {Setup.lora_epochs: CODE}
    return Layout(
        world, main, further, int(at_once["train"].iloc[0]), tuple(sorted(int(n) for n in rows["train"].unique())),
        dict(sorted(ratios.items())), dict(sorted(epochs.items())),
        {e: warm_arm(e) for e in range(100) if warm_arm(e) in names},
    )  # fmt: skip


def by_seed(
    tables: Tables, layout: Layout, dirichlet: float, metric: str = "accuracy", train: int | None = None
) -> pd.DataFrame:
    """Return one row per seed and one column per arm, shares in per cent."""
    rows = tables["accuracy"]
    here = (rows["world"] == layout.world) & (rows["dirichlet"] == dirichlet) & (rows["metric"] == metric)
    rows = rows[here & (rows["train"] == (train or layout.train))]
    return by_run(rows, "arm") * (1 if metric == LOG_LOSS else 100)


def moved(tables: Tables, layout: Layout, arm: str) -> pd.DataFrame:
    """Return how far sigma and tau moved under an arm, by seed."""
    rows = tables["moved"]
    here = (rows["world"] == layout.world) & (rows["dirichlet"] == layout.first) & (rows["train"] == layout.train)
    return rows[here & (rows["arm"] == arm)].set_index("seed").sort_index()


def spreads(tables: Tables, layout: Layout, arm: str) -> pd.DataFrame:
    """Return the spread of the clients' sigma, one row per seed and one column per round."""
    rows = tables["curves"]
    rows = rows[(rows["world"] == layout.world) & (rows["arm"] == arm)]
    return rows.pivot(index="seed", columns="round", values="spread")

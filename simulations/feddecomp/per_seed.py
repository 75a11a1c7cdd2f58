"""The FedDecomp study's tables by seed and arm, and which settings they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference.comparing.learning import late_gain
from simulations.estimates import by_run
from simulations.feddecomp.cells import ARMS, CODE, QUESTION, Setup
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
    arms : tuple of str
        Those of Table 1 that ran.
    ratios : dict of (float, float) to str
        The arm of each pair of ranks (R_l, R_c).
    epochs, warm : dict of int to str
        The arm of each number of epochs of the low-rank part, from a random and from a pre-trained start; none where
        they did not run.
    turns : bool
        Whether what Tables 3 to 5 and Figure 6 show ran.
    """

    world: str
    main: tuple[float, ...]
    further: tuple[float, ...]
    train: int
    samples: tuple[int, ...]
    arms: tuple[str, ...]
    ratios: dict[tuple[float, float], str]
    epochs: dict[int, str]
    warm: dict[int, str]
    turns: bool

    @property
    def first(self) -> float:
        """The concentration of the ablations."""
        return self.main[0]

    @property
    def others(self) -> tuple[str, ...]:
        """The arms of Table 1 that are neither FedDecomp nor one of its extremes."""
        return tuple(arm for arm in self.arms if arm not in QUESTION)

    @property
    def doses(self) -> bool:
        """Whether other ranks, other epochs of the low-rank part and pre-trained starts ran."""
        return bool(self.warm)

    @property
    def every(self) -> tuple[float, ...]:
        """All concentrations of Table 1."""
        return (*self.main, *self.further)


def layouts(tables: Tables) -> list[Layout]:
    """Return the settings of every world, in the order of the tables."""
    return [_layout(str(world), rows) for world, rows in tables["accuracy"].groupby("world", sort=False)]


def drawn(worlds: Sequence[Layout]) -> dict[str, Layout]:
    """Return which world each figure shows: the first that has it; for the spread, that which is taken apart most."""
    turns, doses = (next((w for w in worlds if getattr(w, what)), None) for what in ("turns", "doses"))
    sizes = next((layout for layout in worlds if len(layout.samples) > 1), None)
    found = {"methods": worlds[0], "epochs": doses, "spread": doses or turns, "samples": sizes}
    return {figure: layout for figure, layout in found.items() if layout}


def _layout(world: str, rows: pd.DataFrame) -> Layout:
    names = list(dict.fromkeys(rows["arm"].astype(str)))
    whole = rows[rows["arm"] == SIMULTANEOUS] if SIMULTANEOUS in names else rows[rows["arm"] == CODE]
    main = tuple(sorted(float(a) for a in whole["dirichlet"].unique()))
    further = tuple(sorted(float(a) for a in rows["dirichlet"].unique() if a not in main))
    ratios = {(float(m[1]), float(m[2])): name for name in names if (m := _RANKS.search(name))}
    dense, conv = (sorted({pair[i] for pair in ratios}) for i in (0, 1))
    ratios |= {(a, b): CODE for a in dense for b in conv if (a, b) not in ratios}
    epochs = {int(m[1]): name for name in names if (m := _EPOCHS.search(name))}
    epochs |= {Setup.lora_epochs: CODE} if epochs else {}
    return Layout(
        world, main, further, int(whole["train"].iloc[0]), tuple(sorted(int(n) for n in rows["train"].unique())),
        tuple(arm for arm in ARMS if arm in names),
        dict(sorted(ratios.items())), dict(sorted(epochs.items())),
        {e: warm_arm(e) for e in range(100) if warm_arm(e) in names}, SIMULTANEOUS in names,
    )  # fmt: skip


def by_seed(
    tables: Tables, layout: Layout, dirichlet: float, metric: str = "accuracy", train: int | None = None
) -> pd.DataFrame:
    """Return one row per seed and one column per arm, shares in per cent."""
    rows = tables["accuracy"]
    here = (rows["world"] == layout.world) & (rows["dirichlet"] == dirichlet) & (rows["metric"] == metric)
    rows = rows[here & (rows["train"] == (train or layout.train))]
    return by_run(rows, "arm") * (1 if metric == LOG_LOSS else 100)


def late_gains(tables: Tables, layout: Layout, dirichlet: float, train: int) -> pd.DataFrame:
    """Return the change of accuracy over the last fifth of the rounds, points, by seed and arm.

    Infinite where a curve has gaps; nothing where less than two of these rounds were evaluated.
    """
    rows = tables["curves"]
    rows = rows[(rows["world"] == layout.world) & (rows["dirichlet"] == dirichlet) & (rows["train"] == train)]
    wide = rows.pivot(index=["seed", "arm"], columns="round", values="accuracy")
    rounds = wide.columns.to_numpy(int)
    if not np.isfinite(late_gain(np.zeros(len(rounds)), rounds)):
        return pd.DataFrame()
    gains = pd.Series(100 * late_gain(wide.to_numpy(float), rounds), wide.index).fillna(math.inf)
    return gains.unstack("arm")


def moved(tables: Tables, layout: Layout, arm: str) -> pd.DataFrame:
    """Return how far sigma and tau moved under an arm, by seed."""
    rows = tables["moved"]
    here = (rows["world"] == layout.world) & (rows["dirichlet"] == layout.first) & (rows["train"] == layout.train)
    return rows[here & (rows["arm"] == arm)].set_index("seed").sort_index()


def spreads(tables: Tables, layout: Layout, arm: str) -> pd.DataFrame:
    """Return the spread of the clients' sigma, one row per seed and one column per round."""
    rows = tables["curves"]
    here = (rows["world"] == layout.world) & (rows["dirichlet"] == layout.first) & (rows["train"] == layout.train)
    return rows[here & (rows["arm"] == arm)].pivot(index="seed", columns="round", values="spread")

"""The FedDecomp study's tables by seed and arm, which settings they hold, and intervals that hold together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from simulations.estimates import Estimate, by_run, difference_of, joint_of
from simulations.feddecomp.cells import ARMS, CODE, QUESTION, TEXT, Setup
from simulations.feddecomp.study import SIMULTANEOUS, warm_arm

#: Seeds deal the same images anew, and the sentences are about other deals and runs.
DESIGN = Design(clients="new", data="fixed")
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


def beside_each_other(wide: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Join tables by seed; columns are named "arm @ setting"."""
    return pd.concat([t.rename(columns=lambda arm, s=s: f"{arm} @ {s}") for s, t in wide.items()], axis=1)


def joint(
    wide: pd.DataFrame, pairs: Sequence[tuple[str, str]], *, moderated: bool | Literal["auto"] = False
) -> dict[tuple[str, str], Estimate]:
    """Return differences of pairs of columns, with limits that hold together at 95%, on the seeds that all have."""
    return joint_of(
        wide[[*{name: None for pair in pairs for name in pair}]].dropna(), pairs, DESIGN, moderated=moderated
    )


def question(tables: Tables, layout: Layout, metric: str = "accuracy") -> dict[tuple[str, str, float], Estimate]:
    """Return each reading of FedDecomp less Local and FedAvg at the main concentrations, limits joint over all."""
    wide = beside_each_other({f"{a:g}": by_seed(tables, layout, a, metric)[list(QUESTION)] for a in layout.main})
    keys = [(arm, other, a) for a in layout.main for arm in QUESTION[2:] for other in QUESTION[:2]]
    pairs = [(f"{arm} @ {a:g}", f"{other} @ {a:g}") for arm, other, a in keys]
    return dict(zip(keys, joint(wide, pairs).values(), strict=True))


def over_samples(tables: Tables, layout: Layout) -> dict[tuple[str, str, float, int], Estimate]:
    """Return the same at every number of training samples, limits joint over all, on the seeds that all sizes have."""
    sizes = [(a, n) for a in layout.main for n in layout.samples]
    wide = beside_each_other({f"{a:g} {n}": by_seed(tables, layout, a, train=n)[list(QUESTION)] for a, n in sizes})
    keys = [(arm, other, a, n) for a, n in sizes for arm in QUESTION[2:] for other in QUESTION[:2]]
    pairs = [(f"{arm} @ {a:g} {n}", f"{other} @ {a:g} {n}") for arm, other, a, n in keys]
    return dict(zip(keys, joint(wide, pairs, moderated="auto").values(), strict=True))


def single(a: pd.Series, b: pd.Series, of: int) -> Estimate:
    """Return the difference of two arms on their common seeds, as one of `of` that hold together (Bonferroni)."""
    both = pd.concat([a, b], axis=1).dropna()
    found = difference_of(both.iloc[:, 0], both.iloc[:, 1], level=1 - 0.05 / of)
    return found.mean, found.low, found.high


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


def log_ratio(tables: Tables, layout: Layout, arm: str, other: str) -> np.ndarray:
    """Return, by seed, the logarithm of an arm's spread over another's, each the mean over rounds."""
    a, b = (spreads(tables, layout, name).mean(axis=1) for name in (arm, other))
    both = pd.concat([a, b], axis=1).dropna()
    return np.log(both.iloc[:, 0] / both.iloc[:, 1]).to_numpy()


def against_all(tables: Tables, layout: Layout, dirichlet: float) -> dict[tuple[str, str], Estimate]:
    """Return both readings less every other arm of Table 1, with joint limits."""
    pairs = [(arm, other) for arm in (CODE, TEXT) for other in ARMS if other not in (CODE, TEXT)]
    return joint(by_seed(tables, layout, dirichlet), pairs, moderated="auto")

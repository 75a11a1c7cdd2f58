"""Differences of arms, paired on seeds, with limits that hold together; and who beats all controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from simulations.estimates import joint_of
from simulations.factorized_parts.arms import BASES, SWITCHES
from simulations.factorized_parts.study import DOMAIN_SETTING

LEVEL = 0.95
#: Clients are dealt anew under every seed, of one fixed set of images.
DESIGN = Design(clients="new", data="fixed")
CONTROLS = ("Local", "FedAvg", "FedPer")

#: Families of comparisons on domains: who is compared with whom, and in which panel of Figure 7.
COMPONENTS = {
    "g": (
        ("beta", "FedAvg"), ("Factorized-FedAvg", "FedAvg"), ("without mu", "Factorized-FedAvg"),
        ("without mu, plain head", "Factorized-FedAvg"), ("three most similar", "beta"),
        ("random three", "three most similar"), ("worst three", "three most similar"),
        ("own domain", "three most similar"),
    ),
    "h": (("rank 2", "beta"), ("rank 4", "beta")),
    "i": (("tau = 0.99", "tau = 0"), ("tau = 0.999", "tau = 0"), ("nobody averaged", "tau = 0")),
    "k": (
        ("beta", "FF x IO"), ("IF x OF", "FF x IO"), ("O x IFF", "FF x IO"), ("beta", "Local"),
        ("beta, second network", "Local, second network"), ("beta, third network", "Local, third network"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """The mean of `arm` less that of `control` in points, with limits that hold for its whole family."""

    arm: str
    control: str
    mean: float
    low: float
    high: float


def per_seed(tables: Tables, setting: str, metric: str = "accuracy") -> pd.DataFrame:
    """Return a metric by seed (rows) and arm (columns), empty if the setting was not run."""
    rows = tables["runs"].query("setting == @setting and metric == @metric")
    return rows.pivot(index="seed", columns="arm", values="value")[list(dict.fromkeys(rows["arm"]))]


def differences(wide: pd.DataFrame, pairs: Sequence[tuple[str, str]], level: float = LEVEL) -> list[Difference]:
    """Return the differences of those pairs whose arms both ran, one family."""
    known = [(a, b) for a, b in pairs if a in wide and b in wide]
    if not known:
        return []
    found = joint_of(100 * wide, known, DESIGN, level=level, moderated="auto")
    return [Difference(*pair, *estimate) for pair, estimate in found.items()]


def components(tables: Tables) -> dict[str, list[Difference]]:
    """Return the comparisons of each panel of Figure 7 that compares accuracies on domains, one family a panel."""
    wide = per_seed(tables, DOMAIN_SETTING)
    found = {panel: differences(wide, pairs) for panel, pairs in COMPONENTS.items()}
    return {panel: several for panel, several in found.items() if several}


def switches(tables: Tables, cell: str) -> list[Difference]:
    """Return each mixed reading less its base, one family."""
    pairs = [(f"{base}: {name}", base) for base in BASES for name in SWITCHES]
    return differences(per_seed(tables, cell), pairs)


def against_controls(tables: Tables) -> dict[str, list[Difference]]:
    """Return Factorized-FL's four forms less each control by setting, all settings one family."""
    settings = [s for s in dict.fromkeys(tables["runs"]["setting"]) if s != "one client"]
    level = 1 - (1 - LEVEL) / len(settings)
    pairs = [(base, control) for base in BASES for control in CONTROLS]
    return {setting: differences(per_seed(tables, setting), pairs, level) for setting in settings}


@dataclass(frozen=True)
class Lead:
    """By how many points a form of Factorized-FL is ahead of the best control in a setting; below zero it is behind.

    The smallest of the differences to the controls, with the smallest of their limits: these cover the smallest of
    the true differences wherever the limits cover all of them.
    """

    setting: str
    arm: str
    controls: tuple[str, ...]
    mean: float
    low: float
    high: float


def leads(tables: Tables) -> Iterator[Lead]:
    """Yield the lead of each form of Factorized-FL in each setting."""
    for setting, found in against_controls(tables).items():
        for base in BASES:
            own = [d for d in found if d.arm == base]
            if own:
                worst = [min(getattr(d, name) for d in own) for name in ("mean", "low", "high")]
                yield Lead(setting, base, tuple(d.control for d in own), *worst)

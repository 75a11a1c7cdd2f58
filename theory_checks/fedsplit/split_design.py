"""What statements about trained networks are judged on: tables of the split study and of that of decompositions.

They are about section 4.3 of the FedSplit/FedFac paper. Nothing is trained here. Many comparisons are made at once, so
intervals are widened (Bonferroni) to keep 95% over all comparisons of a reading; equivalences claimed together are an
intersection-union test and need no widening.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from fedstat._tables import Tables
from fedstat.claims import Evidence, Studies, within
from fedstat.inference import paired_difference
from simulations.split.study import CONTROL, per_seed, settings_of

INFINITY = float("inf")
#: Corrected statements were worded with the tables of other seeds in view.
CONFIRMED = "worded after seeing tables of seeds below 100, and judged on fresh ones"
DESIGN = (
    "judged in our design: Figure 6's caption fixes α = 0.4 where p varies and p = 0.5 where α varies, but the text "
    "gives neither the values that vary nor sample sizes, rounds and noise; output weights centred, or as written "
    "where a reading says so, on populations in which labels vary; sizes as the committed configurations say"
)


def as_written(studies: Studies) -> Tables:
    """Return the tables of networks trained with output weights as written, on populations in which labels vary."""
    tables = studies["decompositions"]
    return {name: tables[name].query("outputs == 'as written'") for name in ("accuracy", "late")}


def settings(tables: Tables) -> list[tuple[float, float, int]]:
    """Return the settings of Figure 6, (p, alpha, samples), without the positive control."""
    return [s for s in settings_of(tables) if s[:2] != CONTROL]


def in_words(setting: tuple[float, float, int]) -> str:
    """Write a setting."""
    return f"p = {setting[0]:g}, α = {setting[1]:g}"


def points(tables: Tables, setting: tuple[float, float, int]) -> pd.DataFrame:
    """Return the accuracies of a setting in percentage points, by seed and arm."""
    return 100 * per_seed(tables, *setting)


def differences(
    tables: Tables,
    arm: str,
    others: Sequence[str],
    region: Callable[[pd.DataFrame], tuple[float, float]],
    comparisons: int,
) -> list[Evidence]:
    """Judge the arm's accuracy less the others', in every setting, in percentage points, against a claimed region."""
    parts = []
    for setting in settings(tables):
        table = points(tables, setting)
        for other in others:
            d = paired_difference(table[arm], table[other], level=1 - 0.05 / comparisons)
            what = f"{arm} less {other} at {in_words(setting)} (points)"
            parts.append(within(d.low, d.high, region(table), cases=d.n, what=what, level=d.level))
    return parts

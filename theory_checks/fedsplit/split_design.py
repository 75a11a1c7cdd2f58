"""What statements about trained networks are judged on: tables of the split study and of that of decompositions.

They are about section 4.3 of the FedSplit/FedFac paper. Nothing is trained here. Differences that a study reports have
that study's intervals. Those that only a claim asks about are widened (Bonferroni) to keep 95% over all comparisons of
a reading; equivalences claimed together are an intersection-union test and need no widening.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fedstat._tables import Tables
from fedstat.claims import Evidence, Studies, within
from fedstat.inference import paired_difference
from simulations.effects import Effect, Effects
from simulations.split.effects import MARGIN
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


def judged(effect: Effect, region: tuple[float, float], *, where: str = "", note: str = "") -> Evidence:
    """Judge a difference that a study reports, against a claimed region."""
    what = f"{effect.first} − {effect.second} at {where or effect.setting} ({effect.unit}{note})"
    return within(effect.low, effect.high, region, cases=effect.seeds, what=what)


def nearly_equal(effect: Effect, *, note: str = "") -> Evidence:
    """Judge equivalence within the margin: supported by the limits for it, refuted by those of the difference."""
    low, high = effect.inner if effect.outcome(MARGIN) == "equivalent" else (effect.low, effect.high)
    what = f"{effect.first} − {effect.second} at {effect.setting} ({effect.unit}{note})"
    level = 0.9 if (low, high) == effect.inner else 0.95
    return within(low, high, (-MARGIN, MARGIN), cases=effect.seeds, what=what, level=level)


def exceeds(
    found: Effects, tables: Tables, arm: str, others: Sequence[str], region: tuple[float, float] = (0.0, INFINITY)
) -> list[Evidence]:
    """Judge the arm's accuracy minus the others', in every setting, in percentage points, against a claimed region.

    A pair that is not among the effects has limits of its own, which hold for all settings and others.
    """
    every, parts = settings(tables), []
    for setting in every:
        for other in others:
            if ("accuracy", in_words(setting), arm, other) in found:
                parts.append(judged(found["accuracy", in_words(setting), arm, other], region))
                continue
            table = points(tables, setting)
            d = paired_difference(table[arm], table[other], level=1 - 0.05 / (len(others) * len(every)))
            what = f"{arm} − {other} at {in_words(setting)} (points)"
            parts.append(within(d.low, d.high, region, cases=d.n, what=what, level=d.level))
    return parts

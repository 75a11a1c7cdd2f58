"""Which arms of a study have learnt enough for their differences to be judged.

The rule is that of `fedstat.compare`. Beside it a model that all clients share must exceed chance by a stated margin:
it cannot know which class a client holds most of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from fedstat.inference import number
from fedstat.inference.comparing.learning import rising

#: By how much a model that all clients share must exceed chance, points.
ABOVE_CHANCE = 10.0
#: Why arms are not trained enough, by setting and arm.
Untrained = Mapping[str, Mapping[str, str]]


def untrained(
    accuracy: pd.DataFrame,
    share: pd.DataFrame,
    *,
    of_all: Collection[str] = (),
    chance: float = np.nan,
    gain: pd.DataFrame | None = None,
    margin: float = 1.0,
) -> dict[str, str]:
    """Return why arms are not trained enough; arms that are, and those without a value, are left out.

    Parameters
    ----------
    accuracy, share : DataFrame
        Accuracy, and the share of each client's most frequent class: one row per seed, one column per arm, in per cent.
        Without any share nothing is held against it.
    of_all : collection of str
        Arms with one model for all clients.
    chance : float
        What guessing reaches, per cent; none of `of_all` is held against it if it is not known.
    gain : DataFrame, optional
        The change of accuracy over the last fifth of the rounds, points; infinite where a curve has gaps.
    margin : float
        The largest gain that counts as none, points.
    """
    found = {}
    for arm in accuracy:
        ran = accuracy[arm].dropna()
        reached = float(ran.mean())
        usual = float(share[arm].reindex(ran.index).mean(skipna=False)) if arm in share else np.nan
        if arm in of_all:
            if reached < chance + ABOVE_CHANCE:
                found[arm] = f"accuracy {number(reached)}%, chance {number(chance)}%"
        elif len(share.columns) and not np.isfinite(usual):
            found[arm] = "share of the most frequent class not known"
        elif reached <= usual:
            found[arm] = f"accuracy {number(reached)}%, most frequent class {number(usual)}%"
        late = [] if gain is None or arm not in gain else gain[arm].dropna()
        if not np.isfinite(late).all():
            found[arm] = "curve not known"
        elif rise := rising(late, 1 - 0.05 / len(accuracy.columns), margin):
            found[arm] = f"accuracy still rises by {number(rise[0], 2)} points over the last fifth of the rounds"
    return found

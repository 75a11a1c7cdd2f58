"""Values that a run could not measure: they are counted, and no mean passes over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def complete_mean(rows: pd.DataFrame, by: Sequence[str], *, sort: bool = True) -> pd.Series:
    """Mean of the column ``value`` in groups; NaN where a value of the group is infinite or NaN.

    Pandas' own mean passes over NaN: an accuracy over those clients alone whose outputs are numbers.

    Parameters
    ----------
    rows : DataFrame
        Such as a history, with the columns `by` and ``value``.
    by : sequence of str
        What groups have in common.
    sort : bool
        Order groups; otherwise they come as they appear.
    """
    marked = rows["value"].where(np.isfinite(rows["value"]), np.inf)
    means = marked.groupby([rows[name] for name in by], observed=True, sort=sort).mean()
    return means.where(np.isfinite(means))


def count_missing(rows: pd.DataFrame) -> dict[str, str]:
    """Say how many values of each method are infinite or NaN, where any is.

    Parameters
    ----------
    rows : DataFrame
        Of a history, of one metric.

    Returns
    -------
    dict of str
        By method, such as "3 of 60 values of accuracy are missing (infinite or NaN), the first at client 4 after round
        7 under seed 0".
    """
    found = {}
    for method, own in rows.groupby("method", observed=True, sort=False):
        gaps = own[~np.isfinite(own["value"])]
        if len(gaps):
            first = gaps.iloc[0]
            found[str(method)] = (
                f"{len(gaps)} of {len(own)} values of {first['metric']} are missing (infinite or NaN), the first at "
                f"client {first['client']} after round {first['round']} under seed {first['seed']}"
            )
    return found

"""Count the values that a run could not measure, and leave them out of no mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd


def complete_mean(rows: pd.DataFrame, by: Sequence[str], *, sort: bool = True) -> pd.Series:
    """Return the mean of the column ``value`` in groups, NaN if a value of the group is infinite or NaN.

    Pandas' own mean leaves NaN out, and would give an accuracy over those clients alone whose outputs are numbers.
    Groups that are not sorted come in the order of their first rows.
    """
    means = rows["value"].groupby([rows[name] for name in by], observed=True, sort=sort).mean(skipna=False)
    return means.where(np.isfinite(means))


def count_missing(rows: pd.DataFrame | Iterable[pd.DataFrame]) -> dict[str, str]:
    """Say in words how many values of each method are infinite or NaN; other methods are left out.

    Parameters
    ----------
    rows : DataFrame, or iterable of them
        The rows of a history that are of one metric, whole or in parts.

    Returns
    -------
    dict of str
        By method, such as "3 of 60 values of accuracy are missing (infinite or NaN), the first at client 4 after round
        7 under seed 0".

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import count_missing
    >>> rows = pd.DataFrame({"method": ["A", "A", "B"], "seed": 0, "round": 7, "client": [0, 4, 0],
    ...     "metric": "accuracy", "value": [0.7, float("nan"), 0.8]})
    >>> print(count_missing(rows)["A"])
    1 of 2 values of accuracy are missing (infinite or NaN), the first at client 4 after round 7 under seed 0
    """
    values, missing, firsts = Counter[str](), Counter[str](), dict[str, Any]()
    for part in cast("Iterable[pd.DataFrame]", [rows] if hasattr(rows, "columns") else rows):
        for method, own in part.groupby("method", observed=True, sort=False):
            gaps = own[~np.isfinite(own["value"])]
            values[str(method)] += len(own)
            missing[str(method)] += len(gaps)
            if len(gaps):
                firsts.setdefault(str(method), gaps.iloc[0])
    return {
        method: f"{missing[method]} of {values[method]} values of {firsts[method]['metric']} are missing (infinite or "
        f"NaN), the first at client {firsts[method]['client']} after round {firsts[method]['round']} under seed "
        f"{firsts[method]['seed']}"
        for method in values
        if method in firsts
    }

"""Our numbers beside a paper's: whether they agree, by three answers, as records for chapters."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedstat.inference import agrees, interval
from simulations.showing import fixed


def beside_printed(
    printed: pd.DataFrame, ours: pd.DataFrame, *, control: str, digits: int = 1, level: float = 0.95
) -> dict[str, Any]:
    """Return a paper's values beside ours, and the three answers: value, order, sign of the difference to `control`.

    Parameters
    ----------
    printed, ours : DataFrame
        As `fedstat.inference.agrees` takes them.
    control : str
        The method that the others are compared with.
    digits : int
        Decimals of the values.
    level : float
        Of the intervals.

    Returns
    -------
    dict
        ``rows`` (method, printed, ours with its prediction interval, inside), ``value`` and ``of`` (how many printed
        values lie inside), and for ``order`` and ``sign`` a record of counts: same, opposite, unresolved, equal.
    """
    found = agrees(printed, ours, control=control, level=level)
    rows = [
        {
            "method": str(name),
            "printed": fixed(row["printed"], digits),
            "ours": interval((row["ours"], row["low"], row["high"]), digits),
            "inside": "yes" if row["inside"] else "no",
        }
        for name, row in found.values.iterrows()
    ]
    return {
        "rows": rows,
        "control": control,
        "seeds": found.seeds,
        "value": int(found.values["inside"].sum()),
        "of": len(rows),
        "order": _counts(found.order),
        "sign": _counts(found.signs),
    }


def _counts(pairs: pd.DataFrame) -> dict[str, int]:
    answers = pairs["answer"]
    words = {"same": "same", "opposite": "opposite", "unresolved": "not resolved", "equal": "printed equal"}
    return {"of": len(answers), **{key: int((answers == word).sum()) for key, word in words.items()}}

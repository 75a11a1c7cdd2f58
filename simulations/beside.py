"""Our numbers beside a paper's: whether they agree, by three answers, as records for chapters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fedstat.inference import agrees, interval
from fedstat.inference.intervals.paired import spreads
from simulations.estimates import missing, reason, undefined
from simulations.showing import NONE, fixed


def beside_printed(
    printed: pd.DataFrame, ours: pd.DataFrame, *, control: str, digits: int = 1, level: float = 0.95
) -> dict[str, Any]:
    """Return a paper's values beside ours, and the three answers: value, order, sign of the difference to `control`.

    Parameters
    ----------
    printed, ours : DataFrame
        As `fedstat.inference.agrees` takes them. Methods of ours with missing values, one seed or no spread get a dash
        and are not judged; nothing is without the control.
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
    known = [name for name in printed.index if not _unfit(ours[name])]
    judged = len(known) > 1 and control in known
    found = agrees(printed.loc[known], ours, control=control, level=level) if judged else None
    rows = []
    for name, value in printed["value"].items():
        row = {"method": str(name), "printed": fixed(value, digits), "ours": NONE, "inside": NONE}
        if found and name in known:
            mine = found.values.loc[name]
            row["ours"] = interval((mine["ours"], mine["low"], mine["high"]), digits)
            row["inside"] = "yes" if mine["inside"] else "no"
        rows.append(row)
    return {
        "rows": rows,
        "control": control,
        "seeds": len(ours),
        "value": sum(row["inside"] == "yes" for row in rows),
        "of": sum(row["inside"] != NONE for row in rows),
        "order": _counts(found and found.order),
        "sign": _counts(found and found.signs),
    }


def _unfit(values: pd.Series) -> str:
    """Return, and note, why there is no prediction from a method's runs."""
    x = values.to_numpy(dtype=float)
    why = missing(values) or ("one run predicts nothing" if len(x) < 2 else "")
    if not why and not spreads(x, np.zeros(len(x))):
        why = f"{values.name} has the same value under all seeds"
    return reason(undefined(why)) if why else ""


def _counts(pairs: pd.DataFrame | None) -> dict[str, int]:
    answers = pd.Series(dtype=str) if pairs is None else pairs["answer"]
    words = {"same": "same", "opposite": "opposite", "unresolved": "not resolved", "equal": "printed equal"}
    return {"of": len(answers), **{key: int((answers == word).sum()) for key, word in words.items()}}

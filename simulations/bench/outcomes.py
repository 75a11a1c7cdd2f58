"""What the simultaneous intervals of one data set say of an arm, in words that chapter and method chooser share."""

from __future__ import annotations

import pandas as pd

#: The kinds of control, in the order in which words name them.
CONTROLS = ("Local", "FedAvg")
#: The word for an arm whose intervals all cover zero.
NOT_RESOLVED = "not resolved"


def outcomes(differences: pd.DataFrame) -> pd.DataFrame:
    """Return for each cell and arm where it came out, read off the simultaneous intervals alone.

    Parameters
    ----------
    differences : pandas.DataFrame
        The table `differences`: one row per ``cell``, ``arm`` and ``control`` with the joint limits ``low`` and
        ``high``; where there is a column ``metric``, the rows of accuracy are read.

    Returns
    -------
    pandas.DataFrame
        Columns ``cell``, ``arm`` and ``outcome``, in the order of first appearance. Above a control: the lower limit
        is above zero; below: the upper limit is below zero. Rows without limits (training diverged) are left out, and
        so is an arm that has no others.
    """
    rows = differences
    if "metric" in rows:
        rows = rows[rows["metric"] == "accuracy"]
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows.dropna(subset=["low", "high"]).to_dict("records"):
        sign = int(row["low"] > 0) - int(row["high"] < 0)
        found.setdefault((str(row["cell"]), str(row["arm"])), {})[str(row["control"])] = sign
    records = [(cell, arm, outcome(signs)) for (cell, arm), signs in found.items()]
    return pd.DataFrame(records, columns=["cell", "arm", "outcome"])


def outcome(signs: dict[str, int]) -> str:
    """Say in words where an arm lies, from the sign of each control's interval (1 above, -1 below, 0 covers zero).

    One of "above both", "above Local", "above FedAvg", "below both", "below Local", "below FedAvg", "above Local,
    below FedAvg", "above FedAvg, below Local" and "not resolved". A control that is not among `signs` (an arm is not
    compared with itself) says nothing.
    """
    above = [control for control in CONTROLS if signs.get(control, 0) > 0]
    below = [control for control in CONTROLS if signs.get(control, 0) < 0]
    parts = [
        f"{word} {'both' if len(names) == len(CONTROLS) else names[0]}"
        for word, names in (("above", above), ("below", below))
        if names
    ]
    return ", ".join(parts) or NOT_RESOLVED

"""Methods that are better than every one of several controls: an intersection-union question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedstat.inference.comparing.differences import detectable
from fedstat.inference.intervals.family import simultaneous as simultaneous_family
from fedstat.inference.intervals.paired import holm
from fedstat.inference.reading.scores import Scores, better


def tabulate_above(
    scores: Scores, pairs: Sequence[tuple[int, int]], differences: pd.DataFrame, level: float, settings: dict[str, Any]
) -> pd.DataFrame:
    """Ask of each method whether it is better than all controls, with a row for each as in `Comparison.above`.

    The p-value of all is the largest of the one-sided ones, whatever their correlation (Berger 1982, Technometrics 24),
    and is adjusted (Holm) for the number of methods, but not with the rule "none". `differences` are in the order of
    `pairs`, and `settings` are arguments of `fedstat.inference.simultaneous`: design, moderated and rule.
    """
    sign = better(scores.metric) or 1
    methods = list(dict.fromkeys(i for i, _ in pairs))
    adjusted = settings["rule"] != "none"
    # a lower limit at this level is that of one method's one-sided test
    each = 1 - 2 * (1 - level) / (len(methods) if adjusted else 1)
    alone = simultaneous_family(scores.values, pairs, level=each, **settings | {"rule": "none"})
    p = np.where(sign * alone.estimate > 0, alone.p / 2, 1 - alone.p / 2)
    edge = 1.0 if scores.of_shares else np.inf
    rows = {}
    for i in methods:
        own = [k for k, (first, _) in enumerate(pairs) if first == i]
        least = min(own, key=lambda k: sign * alone.estimate[k])
        upper = differences.iloc[own]["high" if sign > 0 else "low"].to_numpy(float) * sign
        rows[scores.methods[i]] = {
            "against": scores.methods[pairs[least][1]],
            "gain": sign * alone.estimate[least],
            "p": p[own].max(),
            "detectable": detectable(alone, least, edge, sides=1),
            "at most": upper.min(),
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table["p (adjusted)"] = holm(table["p"]) if adjusted else table["p"]
    table["better"] = table["p (adjusted)"] < 1 - level
    return table

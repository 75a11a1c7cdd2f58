"""Our numbers beside a paper's: whether they agree, as records for chapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from fedstat.inference import Design, agrees, interval
from fedstat.inference.intervals.paired import spreads
from fedstat.inference.printed_values import answer_of
from simulations.effects import Effect, Effects, Question
from simulations.estimates import missing, reason, undefined
from simulations.showing import NONE, fixed


def beside_printed(
    printed: pd.DataFrame,
    ours: pd.DataFrame,
    *,
    control: str,
    difference: Callable[[str, str], Effect] | Design,
    untrained: Mapping[str, str] | None = None,
    digits: int = 1,
    level: float = 0.95,
    within: tuple[float, float] = (0.0, 100.0),
) -> dict[str, Any]:
    """Return a paper's values beside ours, and two answers: order, and sign of the difference to `control`.

    How many values agree is not counted: network, rounds or data are not the paper's.

    Parameters
    ----------
    printed, ours : DataFrame
        As `fedstat.inference.agrees` takes them. Methods of ours with missing values, one seed or no spread get a dash
        and are not judged; nothing is without the control.
    control : str
        The method that the others are compared with.
    difference : callable or Design
        Returns the effect of two methods, from which order and signs are read. For values of which no study keeps a
        table of effects, how seeds, clients and data belong together: differences of all pairs, and those to the
        control, hold together.
    untrained : mapping of str to str, optional
        Why methods are not trained enough to be judged, with a design: no order or sign of theirs is resolved.
    digits : int
        Decimals of the values.
    level : float
        Of the intervals.
    within : (float, float)
        The range of the values; by default that of per cent.

    Returns
    -------
    dict
        ``rows`` (method, printed, ours with its prediction interval, inside: "yes", "no" or "too wide to say"), and
        for ``order`` and ``sign`` a record of counts: same, opposite, unresolved, equal.
    """
    known = [name for name in printed.index if not _unfit(ours[name])]
    judged = len(known) > 1 and control in known
    found = agrees(printed.loc[known], ours, control=control, level=level, within=within) if judged else None
    answers: dict[str, list[str]] = {"order": [], "sign": []}
    with_control = [(name, control) for name in known if name != control]
    for answer, pairs in (("order", list(combinations(known, 2))), ("sign", with_control)) if judged else ():
        read = difference
        if isinstance(read, Design):
            read = _asked(ours, pairs, read, untrained or {})
        answers[answer] = _read(printed["value"], pairs, read)
    rows = []
    for name, value in printed["value"].items():
        row = {"method": str(name), "printed": fixed(value, digits), "ours": NONE, "inside": NONE}
        if found and name in known:
            mine = found.values.loc[name]
            row["ours"] = interval((mine["ours"], mine["low"], mine["high"]), digits)
            row["inside"] = answer_of(mine)
        rows.append(row)
    return {
        "rows": rows,
        "control": control,
        "seeds": len(ours),
        "order": _counts(answers["order"]),
        "sign": _counts(answers["sign"]),
    }


def _asked(
    ours: pd.DataFrame, pairs: list[tuple[str, str]], design: Design, untrained: Mapping[str, str]
) -> Callable[[str, str], Effect]:
    """Return the effects of pairs that hold together."""
    asked = Question("beside a paper", "value", {"": ours}, {"": pairs}, design)
    found = Effects([asked], {"": untrained})
    return lambda a, b: found["value", "", a, b]


def _read(printed: pd.Series, pairs: Iterable[tuple[str, str]], difference: Callable[[str, str], Effect]) -> list[str]:
    """Say of each pair whether the effect has the printed sign."""
    said = []
    for a, b in pairs:
        effect, printed_sign = difference(a, b), np.sign(printed[a] - printed[b])
        sign = int(effect.low > 0) - int(effect.high < 0)
        said.append(
            "printed equal" if printed_sign == 0 else "not resolved" if sign == 0
            else "same" if sign == printed_sign else "opposite"
        )  # fmt: skip
    return said


def _unfit(values: pd.Series) -> str:
    """Return, and note, why there is no prediction from a method's runs."""
    x = values.to_numpy(dtype=float)
    why = missing(values) or ("one run predicts nothing" if len(x) < 2 else "")
    if not why and not spreads(x, np.zeros(len(x))):
        why = f"{values.name} has the same value under all seeds"
    return reason(undefined(why)) if why else ""


def _counts(answers: list[str]) -> dict[str, int]:
    words = {"same": "same", "opposite": "opposite", "unresolved": "not resolved", "equal": "printed equal"}
    return {"of": len(answers), **{key: answers.count(word) for key, word in words.items()}}

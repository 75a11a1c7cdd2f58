"""Whether runs agree with the values that a paper prints: three answers, to be given apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from fedstat._checks import check_level
from fedstat.inference.formatting import number
from fedstat.inference.intervals.family import satterthwaite
from fedstat.inference.intervals.paired import paired_difference, spreads

#: Whether a difference of two methods has the printed sign; "printed equal" if the paper prints one value for both.
Answer = Literal["same", "opposite", "not resolved", "printed equal"]


@dataclass(frozen=True, eq=False)
class Agreement:
    """Three answers to 'do our runs agree with the paper?'; ``print`` it for tables and sentences.

    Attributes
    ----------
    values : DataFrame
        One row per method: the printed value and its seeds, our mean, the limits ``low`` and ``high`` of the prediction
        interval, whether the printed value lies ``inside`` it, and whether the interval ``tells`` anything: one that
        holds all printed values is too wide to say.
    order : DataFrame
        One row per pair of methods, (a, b): the printed difference a - b, ours with simultaneous limits over all
        pairs, and the answer.
    signs : DataFrame
        The same for the differences to the control, with simultaneous limits over these; empty without control.
    control : str or None
        The method that the others are compared with.
    level : float
        Level of each prediction interval, and of all differences of a table together.
    seeds : int
        Number of our seeds.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import agrees
    >>> ours = pd.DataFrame({"FedAvg": [0.70, 0.72, 0.71, 0.69], "FedPer": [0.80, 0.83, 0.81, 0.82]})
    >>> printed = pd.DataFrame({"value": [0.71, 0.90], "seeds": 3}, index=["FedAvg", "FedPer"])
    >>> agrees(printed, ours).values[["low", "high", "inside"]].round(3)
              low   high  inside
    FedAvg  0.674  0.736    True
    FedPer  0.784  0.846   False
    """

    values: pd.DataFrame
    order: pd.DataFrame
    signs: pd.DataFrame
    control: str | None
    level: float
    seeds: int

    def __str__(self) -> str:
        rows = self.values
        told = rows[rows["tells"]]
        count, chance, wide = int(told["inside"].sum()), (1 - self.level) * len(told), len(rows) - len(told)
        shown = rows.assign(inside=[answer_of(row) for _, row in rows.iterrows()]).drop(columns="tells")
        lines = [
            shown.to_string(float_format="%.4g", na_rep="–"),
            "",
            f"values: {count} of {len(told)} printed values lie inside our {100 * self.level:.4g}% prediction "
            f"intervals for a mean of as many seeds as the paper used; about {chance:.2g} would lie outside by chance"
            + f"; {wide} more intervals hold all printed values and are too wide to say"
            * bool(wide),
            f"order: {_told(self.order)}",
        ]
        if self.control is not None:
            lines.append(f"sign of the difference to {self.control}: {_told(self.signs)}")
        return "\n".join(lines)


def answer_of(row: pd.Series) -> str:
    """Say of a row of `Agreement.values` whether the printed value lies inside: "yes", "no" or "too wide to say"."""
    return "too wide to say" if not row["tells"] else "yes" if row["inside"] else "no"


def agrees(
    printed: pd.DataFrame,
    ours: pd.DataFrame,
    *,
    control: str | None = None,
    level: float = 0.95,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> Agreement:
    """Compare a paper's printed values with our runs: value, order of the methods, sign of the differences.

    **Value**: is the printed value inside our prediction interval for a mean of as many seeds as the paper used? With n
    seeds here and m there the interval is ``mean ± t s sqrt(1/n + 1/m)``, t with n - 1 degrees of freedom; with a
    printed standard deviation S over seeds it is ``mean ± t sqrt(s^2/n + S^2/m)``, t with Welch's degrees. One interval
    per method, not adjusted for their number; one that holds all printed values is too wide to say. **Order**: does
    each pair of methods differ in the printed direction?
    **Sign**: does each method differ from the control as printed? A direction of ours counts only if our paired
    interval excludes zero, simultaneously over all pairs or all methods (Bonferroni).

    Parameters
    ----------
    printed : DataFrame
        Indexed by method; columns ``value``, ``seeds`` (the runs behind the paper's mean) and, if printed, ``sd`` over
        seeds, NaN where it is not. In the unit of `ours`.
    ours : DataFrame
        One row per seed, one column per method; at least those of `printed`, without missing values.
    control : str, optional
        Method that the others are compared with for the third answer.
    level : float
        In (0, 1).
    within : (float, float)
        The range of the values, such as (0, 1) for shares, at which prediction intervals are cut off.

    Raises
    ------
    ValueError
        If columns, methods or values are missing or out of their range.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import agrees
    >>> ours = pd.DataFrame({"FedAvg": [0.70, 0.72, 0.71, 0.69], "FedPer": [0.80, 0.83, 0.81, 0.82]})
    >>> printed = pd.DataFrame({"value": [0.71, 0.90], "seeds": 3}, index=["FedAvg", "FedPer"])
    >>> print(agrees(printed, ours, control="FedAvg"))
            printed  seeds  ours    low   high inside
    FedAvg     0.71      3 0.705 0.6736 0.7364    yes
    FedPer      0.9      3 0.815 0.7836 0.8464     no
    <BLANKLINE>
    values: 1 of 2 printed values lie inside our 95% prediction intervals for a mean of as many seeds as the paper
    used; about 0.1 would lie outside by chance
    order: 1 of 1 as printed
    sign of the difference to FedAvg: 1 of 1 as printed
    """
    level = check_level(level)
    table, methods = _checked(printed, ours, control), list(printed.index)
    value = printed["value"].astype(float)
    rows = [_prediction(table[name].to_numpy(), printed.loc[name], level) for name in methods]
    values = pd.DataFrame({"printed": value, "seeds": printed["seeds"].astype(int)})
    values[["ours", "low", "high"]] = rows
    values[["low", "high"]] = values[["low", "high"]].clip(*within)
    values["inside"] = (values["low"] <= values["printed"]) & (values["printed"] <= values["high"])
    values["tells"] = (values["low"] > value.min()) | (values["high"] < value.max()) | (value.min() == value.max())
    order = _directions(table, value, list(combinations(methods, 2)), level)
    signs = _directions(table, value, [(name, control) for name in methods if name != control and control], level)
    return Agreement(values, order, signs, control, level, len(table))


def _checked(printed: pd.DataFrame, ours: pd.DataFrame, control: str | None) -> pd.DataFrame:
    """Return our runs of the printed methods; refuse values that cannot be judged."""
    if missing := [name for name in ("value", "seeds") if name not in printed]:
        raise ValueError(f"printed lacks the columns {missing}; it has {list(map(str, printed.columns))}.")
    if not printed.index.is_unique or len(printed) < 2:
        raise ValueError(f"printed must hold at least 2 methods, each once, got {list(printed.index)}.")
    if absent := [name for name in printed.index if name not in ours]:
        raise ValueError(f"our runs lack the printed methods {absent}; they have {list(map(str, ours.columns))}.")
    if control is not None and control not in printed.index:
        raise ValueError(f"control must be a printed method, {', '.join(map(str, printed.index))}, got {control!r}.")
    table = ours[list(printed.index)].astype(float)
    if not table.columns.is_unique:
        raise ValueError(f"the table must have methods as columns, each once, got {list(table.columns)}.")
    for name, lacks in (~np.isfinite(table)).sum().items():
        if lacks:
            raise ValueError(
                f"{name} lacks {lacks} of {len(table)} values (infinite or NaN). Leave the method out, and say so."
            )
    if len(table) < 2:
        raise ValueError(f"the table must have at least 2 seeds as rows, got {len(table)}. Run more seeds.")
    if printed["value"].astype(float).min() > 1 and ((table >= 0) & (table <= 1)).all(axis=None):
        raise ValueError(
            f"printed values, from {printed['value'].min():g} on, look like percent, and ours are shares: divide value "
            "and sd by 100."
        )
    for name, row in printed.iterrows():
        seeds, sd = float(row["seeds"]), float(row.get("sd", np.nan))
        if not np.isfinite(row["value"]):
            raise ValueError(f"the printed value of {name} must be finite, got {row['value']}. Leave the method out.")
        if not (seeds >= 1 and seeds == int(seeds)):
            raise ValueError(f"the printed seeds of {name} must be a whole number, at least 1, got {row['seeds']}.")
        if not np.isnan(sd) and not (0 <= sd < np.inf and seeds >= 2):
            raise ValueError(f"{name}: a printed sd must be finite, not negative and over 2 seeds at least, got {sd}.")
    return table


def _prediction(x: np.ndarray, row: pd.Series, level: float) -> tuple[float, float, float]:
    """Return our mean and the prediction limits for the paper's."""
    n, m, mean, variance = len(x), int(row["seeds"]), float(x.mean()), float(x.var(ddof=1))
    if not spreads(x):
        raise ValueError(f"{row.name} has the same value under all of our seeds: no spread to predict by.")
    sd, df, error = float(row.get("sd", np.nan)), float(n - 1), np.sqrt(variance * (1 / n + 1 / m))
    if not np.isnan(sd):
        of_means = np.array([variance / n, sd**2 / m])
        error, df = np.sqrt(of_means.sum()), float(satterthwaite(of_means, np.array([n - 1, m - 1])))
    half = float(stats.t.ppf((1 + level) / 2, df) * error)
    return mean, mean - half, mean + half


def _directions(ours: pd.DataFrame, value: pd.Series, pairs: list[tuple[str, str]], level: float) -> pd.DataFrame:
    """Compare the direction of each pair with the printed one."""
    rows = []
    for a, b in pairs:
        d = paired_difference(ours[a], ours[b], level=1 - (1 - level) / len(pairs))
        printed, sign = float(value[a] - value[b]), int(d.low > 0) - int(d.high < 0)
        answer: Answer = "same" if sign * printed > 0 else "opposite"
        if printed == 0:
            answer = "printed equal"
        elif sign == 0:
            answer = "not resolved"
        rows.append([printed, d.mean, d.low, d.high, answer])
    index = pd.MultiIndex.from_tuples(pairs, names=["a", "b"]) if pairs else None
    return pd.DataFrame(rows, columns=["printed", "ours", "low", "high", "answer"], index=index)


def _told(pairs: pd.DataFrame) -> str:
    """Say how many pairs have the printed direction, and name those that do not."""
    said = [f"{int((pairs['answer'] == 'same').sum())} of {len(pairs)} as printed"]
    for answer, words in (("opposite", "the other way round"), ("not resolved", "not resolved")):
        chosen = pairs[pairs["answer"] == answer]
        names = [
            f"{a} − {b} (printed {number(row['printed'])}, ours {number(row['ours'])})"
            for (a, b), row in chosen.iterrows()
        ]
        if names:
            said.append(f"{len(names)} {words}: {', '.join(names)}")
    if equal := int((pairs["answer"] == "printed equal").sum()):
        said.append(f"{equal} printed equal")
    return "; ".join(said)

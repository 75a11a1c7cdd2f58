"""Test equivalence with three outcomes: what cannot be told apart is not equal."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedstat import _checks
from fedstat.inference.formatting import interval, number, p_value
from fedstat.inference.intervals.paired import NO_SPREAD, decimals, paired_difference

if TYPE_CHECKING:
    import pandas as pd

Outcome = Literal["equivalent", "different", "undecided"]


@dataclass(frozen=True)
class Equivalence:
    """Outcome of two one-sided paired t tests; ``print`` it for a sentence.

    Attributes
    ----------
    outcome : {"equivalent", "different", "undecided"}
        "equivalent" if the interval at level ``1 - 2 alpha`` lies within the margin, even if it excludes zero;
        otherwise "different" if the interval at level ``1 - alpha`` excludes zero; otherwise "undecided". Always
        "undecided" if all pairs differ by the same amount, because without spread there is no test.
    margin : float
        Largest difference that counts as none.
    mean, low, high : float
        The mean difference ``a - b`` and its interval at level ``1 - 2 alpha``; no limits (NaN) without spread.
    p : float
        The larger of the two one-sided p-values; NaN without spread.
    n : int
        Number of pairs.
    alpha : float
        Level of each one-sided test.

    Examples
    --------
    >>> from fedstat.inference import equivalence
    >>> found = equivalence([0.81, 0.79, 0.80, 0.82], [0.80, 0.80, 0.79, 0.82], margin=0.02)
    >>> found.outcome, round(found.low, 3), round(found.high, 3)  # the 90% interval lies within 0.02 of zero
    ('equivalent', -0.009, 0.014)
    """

    outcome: Outcome
    margin: float
    mean: float
    low: float
    high: float
    p: float
    n: int
    alpha: float

    def __str__(self) -> str:
        margin = f"margin {number(self.margin)}"
        if np.isnan(self.p):
            return f"undecided within the {margin}: {number(self.mean)} in each of {self.n} pairs; {NO_SPREAD}"
        shown = interval((self.mean, self.low, self.high), decimals(self.high - self.low))
        p = f"p = {p_value(self.p)}".replace("= <", "<")
        return f"{self.outcome} ({margin}): {shown} ({100 * (1 - 2 * self.alpha):.4g}% interval, {self.n} pairs, {p})"


def equivalence(a: ArrayLike, b: ArrayLike, *, margin: float, alpha: float = 0.05) -> Equivalence:
    """Test whether paired values differ by less than `margin` on average.

    How many seeds such a test needs, `fedstat.inference.plan` says of a pilot.

    Parameters
    ----------
    a, b : array_like, length n >= 2
        One value per seed, in the same order of seeds.
    margin : float
        Positive and finite; to be fixed before looking at the data.
    alpha : float
        Level of each one-sided test, in (0, 0.5).

    Raises
    ------
    ValueError
        For a margin or level out of its range, and for values that `paired_difference` refuses.

    Examples
    --------
    >>> from fedstat.inference import equivalence
    >>> ours, theirs = [0.81, 0.79, 0.80, 0.82, 0.80], [0.80, 0.80, 0.79, 0.82, 0.81]
    >>> print(equivalence(ours, theirs, margin=0.02))
    equivalent (margin 0.02): 0.0000 [−0.0095, 0.0095] (90% interval, 5 pairs, p = 0.006)
    >>> print(equivalence(ours, theirs, margin=0.005))
    undecided (margin 0.005): 0.0000 [−0.0095, 0.0095] (90% interval, 5 pairs, p = 0.163)
    """
    from scipy import stats

    margin, alpha = check_margin(margin), _checks.number("alpha", alpha, "(0, 0.5)")
    inner = paired_difference(a, b, level=1 - 2 * alpha)
    outer = paired_difference(a, b, level=1 - alpha)
    p = float("nan")
    if not np.isnan(inner.p):
        p = float(stats.t.sf((margin - abs(inner.mean)) / (inner.sd / np.sqrt(inner.n)), inner.n - 1))
    outcome: Outcome = "undecided"
    if -margin < inner.low and inner.high < margin:
        outcome = "equivalent"
    elif outer.low > 0 or outer.high < 0:
        outcome = "different"
    return Equivalence(outcome, margin, inner.mean, inner.low, inner.high, p, inner.n, alpha)


@dataclass(frozen=True, eq=False)
class Equivalences:
    """Several equivalences judged together; ``print`` it for a table and both claims that may be made of it.

    Attributes
    ----------
    table : DataFrame
        One row per pair of methods: difference, low and high at level ``1 - 2 alpha / m`` for m pairs, the
        equivalence's p (the larger of two one-sided ones), p (adjusted) = min(1, m p), and the outcome. NaN limits and
        p-values where all pairs differ by the same amount.
    margin, alpha : float
        Largest difference that counts as none, and the chance of any wrong outcome that is accepted.
    seeds : int
        Number of pairs behind each row.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import equivalences
    >>> values = {"A": [0.80, 0.81, 0.79, 0.80], "B": [0.80, 0.80, 0.79, 0.81], "C": [0.71, 0.70, 0.70, 0.72]}
    >>> equivalences(pd.DataFrame(values), margin=0.03).table["outcome"]
    A − B    equivalent
    A − C     different
    B − C     different
    Name: outcome, dtype: str
    """

    table: pd.DataFrame
    margin: float
    alpha: float
    seeds: int

    @property
    def all_equivalent(self) -> bool:
        """Tell whether every pair is equivalent, as one claim: each unadjusted p is below `alpha`.

        This intersection-union test needs no adjustment (Berger 1982): the claim is wrong only if some pair is not
        equivalent, and that pair's own test then errs with probability `alpha` at most.
        """
        return bool((self.table["p"] < self.alpha).all())

    def __str__(self) -> str:
        m, names = len(self.table), list(self.table.index[self.table["outcome"] == "equivalent"])
        shown = self.table.assign(outcome=self.table["outcome"].astype(object))
        p = [name for name in shown if name.startswith("p")]
        lines = [
            f"equivalence within {number(self.margin)}, paired on {self.seeds} seeds",
            "",
            shown.to_string(float_format="%.4g", formatters=dict.fromkeys(p, p_value), na_rep="–"),
            "",
            f"each by itself: {', '.join(names) or 'none'} equivalent; intervals and p (adjusted) by Bonferroni over "
            f"{m} comparison{'s' * (m > 1)}: the chance of any wrong 'equivalent' or 'different' is {self.alpha:g} at "
            "most",
            f"all at once: {'shown' if self.all_equivalent else 'not shown'}; that every one is equivalent is another "
            "claim, which needs no adjustment (intersection-union test: each p below "
            f"{self.alpha:g})",
        ]
        if self.table["p"].isna().any():
            lines.append(f"no interval and no test where {NO_SPREAD}")
        return "\n".join(lines)


def equivalences(
    table: pd.DataFrame, *, margin: float, control: str | None = None, alpha: float = 0.05
) -> Equivalences:
    """Test several methods for equivalence at once, against a control or all pairs.

    With m comparisons each is `equivalence` at level ``alpha / m``. One comparison errs with probability ``alpha / m``
    at most whatever its true difference is: outside the margin only "equivalent" is wrong, at zero only "different",
    and in between neither. So the chance that any outcome is wrong is `alpha` at most (Bonferroni), also if the
    differences depend on each other.

    Parameters
    ----------
    table : DataFrame
        One row per seed, one column per method; without missing values.
    margin : float
        Positive and finite; to be fixed before looking at the data.
    control : str, optional
        The method that all others are compared with; by default all pairs are compared.
    alpha : float
        Accepted chance of any wrong outcome, in (0, 0.5).

    Raises
    ------
    ValueError
        If the table has fewer than two methods or seeds or misses values, or the control is none of its columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import equivalences
    >>> values = {"A": [0.80, 0.81, 0.79, 0.80], "B": [0.80, 0.80, 0.79, 0.81], "C": [0.71, 0.70, 0.70, 0.72]}
    >>> print(equivalences(pd.DataFrame(values), margin=0.03, control="A"))
    equivalence within 0.03, paired on 4 seeds
    <BLANKLINE>
       difference      low     high     p p (adjusted)     outcome
    B           0 -0.01299  0.01299 0.003        0.005  equivalent
    C     -0.0925  -0.1125 -0.07248 0.999        1.000   different
    <BLANKLINE>
    each by itself: B equivalent; intervals and p (adjusted) by Bonferroni over 2 comparisons: the chance of any
    wrong 'equivalent' or 'different' is 0.05 at most
    all at once: not shown; that every one is equivalent is another claim, which needs no adjustment
    (intersection-union test: each p below 0.05)
    """
    import pandas as pd

    margin, alpha = check_margin(margin), _checks.number("alpha", alpha, "(0, 0.5)")
    methods = check_methods(table)
    if control is not None and control not in methods:
        raise ValueError(f"control must be one of {', '.join(map(str, methods))}, got {control!r}.")
    pairs = [(a, control) for a in methods if a != control] if control is not None else list(combinations(methods, 2))
    rows = {}
    for a, b in pairs:
        e = equivalence(table[a], table[b], margin=margin, alpha=alpha / len(pairs))
        label = str(a) if control is not None else f"{a} − {b}"
        rows[label] = [e.mean, e.low, e.high, e.p, min(1.0, len(pairs) * e.p) if e.p == e.p else e.p, e.outcome]
    columns = ["difference", "low", "high", "p", "p (adjusted)", "outcome"]
    return Equivalences(pd.DataFrame.from_dict(rows, orient="index", columns=columns), margin, alpha, len(table))


def check_margin(margin: float) -> float:
    """Return a margin, which must be positive and finite: beyond all differences everything would be equivalent."""
    try:
        return _checks.number("margin", margin, "(0, inf)")
    except ValueError as error:
        raise ValueError(f"{error} It is the largest difference that counts as none, in the values' unit.") from None


def check_methods(table: pd.DataFrame) -> list[str]:
    """Return the methods of a table with one row per seed, one column per method, and all values finite."""
    methods = list(table.columns)
    if len(set(methods)) < max(len(methods), 2):
        raise ValueError(f"the table must have at least 2 methods as columns, each once, got {methods}.")
    for name in methods:
        missing = int((~np.isfinite(table[name].to_numpy(dtype=float))).sum())
        if missing:
            raise ValueError(
                f"{name} lacks {missing} of {len(table)} values (infinite or NaN). Leave the method out, and say so."
            )
    if len(table) < 2:
        raise ValueError(f"the table must have at least 2 seeds as rows, got {len(table)}. Run more seeds.")
    return methods

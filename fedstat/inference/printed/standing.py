"""Which bold faces of a printed table stand: comparisons with the best of each setting, jointly over the table."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from scipy import optimize, stats

from fedstat._checks import check_level
from fedstat.inference.formatting import interval, listed
from fedstat.inference.intervals.family import satterthwaite
from fedstat.inference.intervals.paired import decimals
from fedstat.inference.printed.printing import decimal, latex
from fedstat.inference.printed.table import PrintedTable
from fedstat.inference.reading.formats.tables import variant
from fedstat.inference.reading.scores import better

Standing = Literal["stands", "not told apart", "contradicted", "not the best printed", "order only"]
_POWER, _MOST_RUNS = 0.8, 10_000
#: What is known of a pair; all but the first two are NaN where a deviation is not known.
_OF_PAIR = ["method", "difference", "low", "high", "low (joint)", "high (joint)", "df", "runs", "correlation"]
_UNKNOWN = (
    "The table cannot tell whether all methods ran under the same seeds and on the same splits, how each was tuned, "
    "whether the best round was chosen on test samples, or whether deviations were divided by the runs minus one."
)


@dataclass(frozen=True, eq=False)
class PrintedComparison:
    """What may be concluded from a printed table; ``print`` it for sentences and a table.

    Attributes
    ----------
    bold : DataFrame
        A row for each bold face: setting, method, ``answer``, the methods ``among`` which the best may be besides it,
        and the ``line``.
    differences : DataFrame
        A row for each bold face and other method of its setting: the ``difference``, positive where the bold face is
        better, its limits ``low`` and ``high``, those that hold jointly, ``low (joint)`` and ``high (joint)``, ``df``,
        ``runs``, the runs of each method that would tell a difference of this size apart with a probability of 80% (NaN
        above 10,000, or where the bold face is not better), and the ``correlation`` of runs under the same seeds from
        which on as many paired runs would have sufficed.
    notes : tuple of str
        What the limits rest on, and what the table cannot tell.
    level : float
        Probability that no answer "stands" or "contradicted" of the table is wrong.
    less : tuple of str
        Settings in which less is taken to be better.
    printed : PrintedTable
        What was judged.

    Examples
    --------
    >>> import fedstat as fs
    >>> source = "| | CIFAR-10 |\\n|---|---|\\n| A | 70.2 ± 0.3 |\\n| B | **82.0 ± 0.4** |"
    >>> print(fs.compare_printed(fs.read_printed(source, runs=3, spread="sd")).bold["answer"][0])
    stands
    """

    bold: pd.DataFrame
    differences: pd.DataFrame
    notes: tuple[str, ...]
    level: float
    less: tuple[str, ...]
    printed: PrintedTable

    def to_latex(self) -> str:
        """Return the table for LaTeX, which needs the package booktabs, with a bold face for all that may be the best.

        Bold is the best printed value of a setting with every other method that is not told apart from it; settings
        without deviations have no bold face. A note below the table states this rule and its level.
        """
        unmarked = replace(self.printed, cells=self.printed.cells.assign(bold=False))
        return latex(compare_printed(unmarked, level=self.level))

    def __str__(self) -> str:
        counts = self.bold["answer"].value_counts()
        judged = len(self.bold) - counts.get("order only", 0)
        told = f"{counts.get('stands', 0)} of {judged} bold faces with a deviation stand."
        lines = [told if judged else "No bold face has a deviation that can be compared.", ""]
        lines += [self._sentence(row) for row in self.bold.to_dict("records")]
        return "\n".join([*lines, "", *self.notes])

    def _sentence(self, row: dict[str, str]) -> str:
        name = f"{row['method']} ({row['setting']})"
        own = self.differences[
            (self.differences["setting"] == row["setting"]) & (self.differences["bold"] == row["method"])
        ].set_index("method")
        if row["answer"] == "order only":
            cells = self.printed.cells[self.printed.cells["setting"] == row["setting"]].set_index("method")
            single = cells["sd"].notna().any() and (cells["runs"] == 1).all()
            why = "one run has no deviation" if single else "there is no deviation that can be compared"
            ahead = [
                f"{one} ({decimal(*cells.loc[one, ['mean', 'step']])})" for one in own.index[own["difference"] < 0]
            ]
            return f"{name}: only the order is known, {why}{'; printed better: ' * bool(ahead)}{', '.join(ahead)}."
        if row["answer"] == "stands":
            near = own["difference"].idxmin()
            return f"{name} stands: the nearest is {near}, {_told(own.loc[near])} behind."
        others = []
        for method, one in own.loc[list(row["among"])].iterrows():
            more = f"; {one['runs']:.0f} runs each would tell them apart" if one["runs"] == one["runs"] else ""
            known = one["low"] == one["low"]
            others.append(f"{method} ({_told(one)}{more})" if known else f"{method} (only the order is known)")
        if row["answer"] == "contradicted":
            return f"{name} is contradicted: worse than {listed(others)}."
        extra = ", and not the best printed" if row["answer"] == "not the best printed" else ""
        return f"{name} is not told apart from {listed(others)}{extra}."


def compare_printed(printed: PrintedTable, *, level: float = 0.95) -> PrintedComparison:
    """Say which bold faces of a printed table stand.

    Each bold face is compared with every other method of its setting; a setting without one is judged by its best
    printed value. Less is better where a setting's name has ↓, or names a metric such as loss, error or RMSE; a ↑ says
    otherwise, and the notes list these settings. The level is shared by the settings (Bonferroni). A bold face stands
    if it is better than each of the others by its two-sided limits; no more is needed to say that the best of a sample
    is the best (Gutmann and Maymin 1987). It is contradicted if another method is better, Bonferroni over the others
    and the bold faces of the setting.
    Runs are taken as independent, and their variances may differ (Welch 1947). Variances are not moderated over
    methods: with three runs and deviations that differ by factors of three, moderated limits of 95% were wrong in 9% of
    draws. Values are taken as near to each other and deviations as large as their printed digits allow.

    Parameters
    ----------
    printed : PrintedTable
        As `read_printed` returns it.
    level : float
        In (0, 1).

    Raises
    ------
    ValueError
        If a setting has fewer than two methods, or it is not known what is better: most bold faces are the worst of
        their settings, or the only one is in a setting without an arrow that names no metric.

    Examples
    --------
    >>> import fedstat as fs
    >>> source = "| | CIFAR-10 |\\n|---|---|\\n| A | 70.2 ± 0.3 |\\n| B | 81.4 ± 0.2 |\\n| C | **82.0 ± 0.4** |"
    >>> print(fs.compare_printed(fs.read_printed(source, runs=3, spread="sd")).bold[["method", "answer", "among"]])
      method          answer among
    0      C  not told apart  (B,)
    """
    level = check_level(level)
    known = printed.cells["setting"].map(lambda name: _sign(name, printed.smaller))
    sign = known.where(known != 0, -1 if printed.smaller else 1)
    cells = printed.cells.assign(known=known, sign=sign, better=printed.cells["mean"] * sign)
    settings = {str(name): own.reset_index(drop=True) for name, own in cells.groupby("setting", sort=False)}
    for name, own in settings.items():
        if len(own) < 2:
            raise ValueError(f"{name!r} has one method; there is nothing to compare it with.")
    less = tuple(name for name, own in settings.items() if own["sign"].iloc[0] < 0)
    _check_direction(settings, less, printed.smaller)
    family = sum(int(_spread(own).sum() > 1) for own in settings.values())
    alpha = (1 - level) / max(family, 1) / 2
    bold, differences = [], []
    for name, own in settings.items():
        chosen = np.flatnonzero(own["bold"]) if own["bold"].any() else [int(own["better"].argmax())]
        for i in chosen:
            others = [j for j in range(len(own)) if j != i]
            rows = [_pair(own.loc[[i, j]], alpha, len(others) * len(chosen)) for j in others]
            pairs = pd.DataFrame(rows, columns=_OF_PAIR).assign(setting=name, bold=own["method"][i])
            answer, among = _answer(pairs)
            differences.append(pairs)
            bold.append((name, own["method"][i], answer, among, own["line"][i]))
    found = pd.concat(differences, ignore_index=True)
    return PrintedComparison(
        pd.DataFrame(bold, columns=["setting", "method", "answer", "among", "line"]),
        found[["setting", "bold", *_OF_PAIR]],
        tuple(_notes(settings, found, less, family, level, alpha)),
        level,
        less,
        printed,
    )


def _spread(own: pd.DataFrame) -> pd.Series:
    return own["sd"].notna() & (own["runs"] > 1)


def _sign(setting: str, smaller: bool) -> int:
    """Return -1 if less is better and 1 if more is, by a setting's arrow or the last metric it names, 0 if neither.

    If smaller values are said to be better, metrics do not count.
    """
    if arrow := re.search(r"[↓↑]|\\(?:down|up)arrow", setting):
        return -1 if arrow[0] in ("↓", r"\downarrow") else 1
    for head in () if smaller else reversed(setting.split(" / ")):
        named = {better(variant(name) or name.lower()) for name in (head, *re.findall(r"[^\W_]+", head))} - {0}
        if named:
            return sum(named) or 1
    return 0


def _check_direction(settings: dict[str, pd.DataFrame], less: tuple[str, ...], smaller: bool) -> None:
    """Refuse bold faces that are the worst values, mostly or where it is not known what is better."""
    marked = {name: own for name, own in settings.items() if own["bold"].sum() == 1}
    faces = {name: own["better"][own["bold"]].item() for name, own in marked.items()}
    worst = [name for name, own in marked.items() if faces[name] == own["better"].min() < own["better"].max()]
    taken = f"less is better in {listed(less)}, and more elsewhere" if less else "more is better"
    if len(worst) > len(marked) / 2:
        raise ValueError(
            f"{len(worst)} of {len(marked)} bold faces are the worst of their settings if {taken}: "
            + ("mark each head with ↓ or ↑." if less and not smaller else f"say smaller={not smaller}.")
        )
    if open_ := [name for name in worst if marked[name]["known"].iloc[0] == 0]:
        raise ValueError(
            f"the only bold face of {listed(open_)} is the worst value if {taken}: mark the head with ↓ or ↑."
        )


def _pair(two: pd.DataFrame, alpha: float, pairs: int) -> dict[str, object]:
    """Compare the first method of a pair with the second, and say what would have told them apart."""
    difference = float(two["better"].iloc[0] - two["better"].iloc[1])
    found = {"method": two["method"].iloc[1], "difference": difference}
    if not _spread(two).all():
        return found
    n, most = two["runs"].to_numpy(float), (two["sd"] + two["sd_step"] / 2).to_numpy(float)
    least = np.maximum(two["sd"] - two["sd_step"] / 2, 0).to_numpy(float)
    variances = most**2
    # a smaller deviation of one method may leave fewer degrees of freedom, and so wider limits
    corners = [most**2, np.array([most[0], least[1]]) ** 2, np.array([least[0], most[1]]) ** 2]
    half, more = (
        max(float(stats.t.isf(a, satterthwaite(v / n, n - 1)) * np.sqrt((v / n).sum())) for v in corners if v.sum() > 0)
        + two["step"].sum() / 2
        for a in (alpha, alpha / pairs)
    )
    # with the same seeds for both, the degrees of freedom are those of one sample
    paired = difference / stats.t.isf(alpha, n.min() - 1) * np.sqrt(n.min())
    correlation = float((variances.sum() - paired**2) / 2 / np.sqrt(variances.prod())) if difference > 0 else np.nan
    return found | {
        "low": difference - half,
        "high": difference + half,
        "low (joint)": difference - more,
        "high (joint)": difference + more,
        "df": float(satterthwaite(variances / n, n - 1)),
        "runs": _runs(difference, variances, alpha),
        "correlation": correlation if 0 < correlation < 1 else np.nan,
    }


def _runs(difference: float, variances: np.ndarray, alpha: float) -> float:
    """Return the runs of each method with which a difference of this size is found with a probability of 80%."""

    def power(n: float) -> float:
        df = satterthwaite(variances / n, n - 1)
        return float(stats.nct.sf(stats.t.isf(alpha, df), df, difference / np.sqrt(variances.sum() / n))) - _POWER

    if difference <= 0 or power(_MOST_RUNS) < 0:
        return np.nan
    return 2.0 if power(2) >= 0 else float(np.ceil(optimize.brentq(power, 2, _MOST_RUNS)))


def _answer(pairs: pd.DataFrame) -> tuple[Standing, tuple[str, ...]]:
    """Return what becomes of a bold face, and the methods that decide it."""
    if pairs["low"].isna().all():
        return "order only", ()
    worse, open_ = pairs["high (joint)"] < 0, ~(pairs["low"] > 0)
    if worse.any():
        return "contradicted", tuple(pairs["method"][worse])
    if not open_.any():
        return "stands", ()
    best = (pairs["difference"] >= 0).all()
    return "not told apart" if best else "not the best printed", tuple(pairs["method"][open_])


def _told(pair: pd.Series) -> str:
    width = pair["high"] - pair["low"]
    return interval(pair[["difference", "low", "high"]], max(1, decimals(width)) if width > 0 else 1)


def _notes(
    settings: dict[str, pd.DataFrame],
    found: pd.DataFrame,
    less: tuple[str, ...],
    family: int,
    level: float,
    alpha: float,
) -> list[str]:
    others = ", and more in all others" * (len(less) < len(settings))
    told = (
        f"Less is taken to be better in {listed(less)}{others}." if less else "More is taken to be better everywhere."
    )
    if not family:
        return [told, "No deviation can be compared: only the order of the values is known.", _UNKNOWN]
    counts = sorted({int(n) for own in settings.values() for n in own["runs"][_spread(own)]})
    notes = [
        told,
        f"All answers hold together at a level of {100 * level:.4g}%, over {family} setting{'s' * (family > 1)} with "
        f"deviations, of {listed(map(str, counts))} runs each, taken as independent. The limits of each pair hold by "
        f"themselves, at {100 * (1 - 2 * alpha):.4g}%.",
    ]
    known = found[found["df"].notna()]
    if len(known):
        wider = np.sort(stats.t.isf(alpha, known["df"]) / stats.norm.isf(alpha))
        times = " to ".join(dict.fromkeys(f"{x:.1f}" for x in wider[[0, -1]]))
        notes.append(
            f"With so few runs the limits are {times} times as wide as if these deviations were known exactly."
        )
    if ((known["low"] <= 0) & known["runs"].notna()).any():
        notes.append(
            "The runs that would tell two methods apart do so with a probability of 80%, if differences and deviations "
            "are those printed."
        )
    if unmarked := [name for name, own in settings.items() if not own["bold"].any()]:
        notes.append(f"Without a bold face, judged by the best printed value: {listed(unmarked)}.")
    needed = found[(found["low"] <= 0) & found["correlation"].notna()]["correlation"]
    if len(needed):
        notes.append(
            f"Had the runs been paired on seeds, up to {len(needed)} more of the differences could have been told from "
            f"zero, the first if runs under one seed correlate by {needed.min():.2f} or more."
        )
    return [*notes, _UNKNOWN]

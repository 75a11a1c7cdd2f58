"""Who benefits: how the effect of a method differs between clients, and with what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from fedstat._checks import check_level
from fedstat.inference.client_fairness import separate_noise
from fedstat.inference.comparing.compare import compare
from fedstat.inference.comparing.comparison import Comparison
from fedstat.inference.comparing.drawing import clients_anew, pair_values, two_methods
from fedstat.inference.comparing.printing import wrapped
from fedstat.inference.comparing.tables import decimals, fixed, percent
from fedstat.inference.formatting import listed, number, p_value
from fedstat.inference.intervals.crossed import crossed_law, mean_squares
from fedstat.inference.intervals.design import Design
from fedstat.inference.intervals.paired import ROUNDING
from fedstat.inference.modifiers import carried, given, slopes
from fedstat.inference.reading.formats.tidy import RUN
from fedstat.inference.reading.scores import Scores
from fedstat.inference.variance_components import mean_squares_interval

#: F, its degrees of freedom, its p-value, and that beyond the noise of the test.
_Tests = tuple[float, tuple[int, int], float, float]


@dataclass(frozen=True, eq=False)
class Benefit:
    """How an effect differs between clients; ``print`` it for sentences and tables.

    Attributes
    ----------
    method, against : str
        The effect is the value of `method` minus that of `against`.
    effects : DataFrame
        ``estimate`` with limits ``low`` and ``high``, in the unit of the metric (shares are not in percent). With the
        same clients under every seed the rows are "mean", "sd between clients", "sd between clients, at least" (less
        all that the noise of the test may make; only where that is known), "sd of client and seed", and "new client",
        whose limits are the prediction interval. With new clients under every seed they are "mean", "sd between
        clients, noise included", "sd of the test's noise, at most" and "new client in a new run".
    modifiers : DataFrame
        A row for each modifier: ``slope``, the change of the effect for one standard deviation of the modifier, its
        limits ``low`` and ``high``, ``p``, and the standard deviation ``sd`` of the modifier. Limits hold together, and
        p-values are adjusted, for all modifiers (Bonferroni).
    f, df, p : float, (int, int), float
        The test of no difference between clients: exact F for normal effects. NaN and zeros where none is possible.
    p_beyond_noise : float
        The same against clients that differ as much as the noise of the test may make them; NaN where unknown.
    same_clients : bool
        Whether clients are crossed with seeds, or new under every seed.
    level : float
        Confidence level of intervals.
    sentences, notes : tuple of str
        What was found, and what must be known to read it.
    of_shares : bool
        Whether the metric is a share, whose differences are told in points.

    Examples
    --------
    Three hospitals that gain about 4, 6 and 8 points under each of four seeds:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from fedstat.inference import who_benefits
    >>> gains = np.array([[0.04, 0.06, 0.08], [0.05, 0.06, 0.08], [0.04, 0.05, 0.08], [0.03, 0.06, 0.07]])
    >>> runs = {"FedAvg": np.full((4, 3), 0.8), "Ditto": 0.8 + gains}
    >>> rows = [(method, *cell, value) for method, of in runs.items() for cell, value in np.ndenumerate(of)]
    >>> found = who_benefits(pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"]))
    >>> found.effects.loc["sd between clients"].round(3).to_dict(), found.df, round(found.p, 4)
    ({'estimate': 0.019, 'low': 0.009, 'high': 0.118}, (2, 6), 0.0002)
    """

    method: str
    against: str
    effects: pd.DataFrame
    modifiers: pd.DataFrame
    f: float
    df: tuple[int, int]
    p: float
    p_beyond_noise: float
    same_clients: bool
    level: float
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    of_shares: bool

    def __str__(self) -> str:
        words = _Words(self.effects, self.of_shares, self.level)
        unit = " (points)" * self.of_shares
        parts = [wrapped(self.sentences), words.table(self.effects, f"effect{unit}")]
        if len(self.modifiers):
            parts.append(words.table(self.modifiers, f"slope for one sd{unit}"))
        return "\n\n".join([*parts, wrapped(self.notes)])


def who_benefits(
    results: Any,
    *,
    method: str | None = None,
    against: str | None = None,
    modifiers: pd.DataFrame | None = None,
    design: Design | None = None,
    level: float | None = None,
) -> Benefit:
    """Ask how the effect of a method differs between clients: by how much, whether at all, and with what.

    The same clients under every seed are crossed with seeds. The effect at client k under seed s is
    ``mean + a_s + b_k + e_sk``, all normal, and ``sd(b)`` is how the effect differs between clients, apart from what
    varies from run to run. The table is balanced, so that mean squares give the restricted maximum likelihood estimate
    where it is positive, and an exact F test of ``sd(b) = 0``. The mean effect has the interval that `compare` gives
    with ``Design(over="clients")``. The prediction interval is for the effect at another client, mean over many runs,
    and allows for what is not known of the variances.

    New clients under every seed are met once each. How the effect differs between them cannot then be told from what
    differs from run to run at one client: there is no test, the spread is an upper limit, and the prediction is for
    what one run would measure at a new client.

    Accuracies on small test sets differ by chance. Test samples that are the same under every seed repeat their chance
    with every seed, and it looks like a difference between clients. What it may make of it at most is known from the
    number of samples: the noise of two separate tests, since two methods tend to err at the same samples. Estimates
    and the prediction interval include it; "at least" is what is left without it. Where the same samples are split
    anew, it is that of a test on all of a client's samples; where every seed draws its own samples there is none. The
    luck of a client's training samples is part of its effect unless they are drawn anew.

    Parameters
    ----------
    results : Comparison, or what `fedstat.compare` takes
        With a value for each client.
    method, against : str, optional
        By default the method with the best mean, and the control.
    modifiers : DataFrame, optional
        Numbers that the effect may depend on, such as label entropy: a column for each, rows by client (index), or by
        seed and client (two levels of index) if these change. By default the logarithm of each client's samples and the
        share of its most frequent class among them, as far as the results carry them.
    design : Design, optional
        Whether clients are the same and data fixed; by default as the runs tell. Where they do not, clients are taken
        as the same, on the same data, unless their samples change with the seed.
    level : float, optional
        Confidence level; by default that of the comparison, or 0.95.

    Raises
    ------
    ValueError
        If there is no value for each client, fewer than two common seeds or two clients, no spread, a method is
        unknown, or a modifier lacks a client.

    See Also
    --------
    fairness : which of the named clients lose, with their probabilities.

    References
    ----------
    Searle, Casella and McCulloch (1992), Variance Components; Weerahandi (1993), Generalized confidence intervals, JASA
    88, for the prediction interval.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import fedstat as fs
    >>> rng = np.random.default_rng(0)
    >>> gain = 0.05 + 0.03 * rng.standard_normal(12)  # what each of twelve hospitals gains
    >>> rows = [(m, s, k, 0.7 + (m == "Ditto") * gain[k] + 0.01 * rng.standard_normal())
    ...         for m in ("FedAvg", "Ditto") for s in range(5) for k in range(12)]
    >>> table = pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"])
    >>> hospitals = pd.DataFrame({"beds": 100 + 1000 * gain})
    >>> design = fs.inference.Design(clients="same", data="drawn")
    >>> print(fs.inference.who_benefits(table, modifiers=hospitals, design=design))
    Ditto minus FedAvg, accuracy (more is better): 12 clients, the same under each of 5 seeds.
    Mean effect on clients like these: 4.9 points [3.4, 6.5].
    The effect differs between clients: sd 2.1 points [1.4, 3.7]; F(11, 44) = 9.05, p < 0.001.
    At a new client the effect is expected between 0.1 and 9.8 points (95% prediction interval).
    The effect grows with beds: 2.2 points [2.0, 2.4] for one sd more.
    <BLANKLINE>
          effect (points) estimate low high
                     mean      4.9 3.4  6.5
       sd between clients      2.1 1.4  3.7
    sd of client and seed      1.6 1.4  2.1
               new client      4.9 0.1  9.8
    <BLANKLINE>
    slope for one sd (points) slope low high       p   sd
                         beds   2.2 2.0  2.4 < 0.001 22.1
    <BLANKLINE>
    Slopes are of each modifier alone. They tell where the effect is larger, not why.
    """
    if not isinstance(design, Design | None):
        raise ValueError(f"design must be a fedstat.inference.Design, got {design!r}.")
    comparison = results if isinstance(results, Comparison) else compare(results, design=design)
    level = check_level(comparison.level if level is None else level)
    scores, design = comparison.scores, design or comparison.design
    first, second = two_methods(comparison, method, against)
    if scores.clients == (RUN,):
        raise ValueError("results must hold a value for each client to tell who benefits, but they hold one for a run.")
    a, b = pair_values(scores, first, second)
    d, n = a - b, scores.samples
    same = not clients_anew(scores, ~np.isnan(d), design)
    columns = carried(comparison) if modifiers is None else given(modifiers, scores, ~np.isnan(d), same)
    if same:  # clients that are always there, under the seeds under which there is anything
        seeds = ~np.isnan(d).all(axis=1)
        kept = np.ix_(seeds, ~np.isnan(d[seeds]).any(axis=0))
        a, b, d, columns = a[kept], b[kept], d[kept], {name: x[kept] for name, x in columns.items()}
        n = None if n is None else n[kept]
    _check(d, max(np.nanmax(np.abs(a)), np.nanmax(np.abs(b))), first, second)
    noise = _test_noise(a, b, n, scores, design, same)
    effects, tests = (_crossed if same else _nested)(d, noise, (design and design.test_to_train) or 0.0, level)
    if scores.of_shares:
        effects[["low", "high"]] = effects[["low", "high"]].clip(-1, 1)
    along = slopes(d, columns, same, level)
    said = _Words(effects, scores.of_shares, level)
    direction = {1: " (more is better)", -1: " (less is better)", 0: ""}[scores.direction]
    who = f"{first} minus {second}, {scores.metric}{direction}"
    sentences = [*(said.crossed(who, d.shape, tests) if same else said.nested(who, d)), *said.modifiers(along)]
    notes = _notes(scores, d, design, same, noise, along.index, columns)
    return Benefit(first, second, effects, along, *tests, same, level, tuple(sentences), notes, scores.of_shares)


def _check(d: np.ndarray, size: float, method: str, against: str) -> None:
    several = (~np.isnan(d)).sum(axis=1) > 1
    if several.sum() < 2:
        raise ValueError(
            f"{method} and {against} must have two clients under each of two common seeds, got {int(several.sum())} "
            "such seeds. One seed does not tell clients from runs: run more."
        )
    if not np.nanmax(d) - np.nanmin(d) > ROUNDING * size:
        raise ValueError(f"{method} and {against} differ by the same amount at all clients under all seeds.")


def _test_noise(
    a: np.ndarray, b: np.ndarray, n: np.ndarray | None, scores: Scores, design: Design | None, same: bool
) -> float:
    """Return the variance between clients that the noise of the test makes at most, NaN where that is not known."""
    if scores.metric != "accuracy" or not scores.of_shares or scores.split == "common" or n is None:
        return np.nan
    if same and design is not None and design.data == "drawn":
        return np.nan  # it differs from seed to seed, and is in the cells
    tests = [(a.mean(axis=0), b.mean(axis=0), n.mean(axis=0))] if same else list(zip(a, b, n, strict=True))
    found = []
    for one, other, size in tests:
        here = ~np.isnan(one)
        if not here.any():
            continue
        if not (size[here] > 1).all():
            return np.nan
        found.append(separate_noise(one[here], other[here], size[here]))
    # of samples that are split anew all are tested on in time, which are 1 + 1 / test_to_train times as many
    ratio = design.test_to_train if same and design is not None else None
    return float(np.concatenate(found).mean()) * (1.0 if ratio is None else ratio / (1 + ratio))


def _crossed(d: np.ndarray, noise: float, ratio: float, level: float) -> tuple[pd.DataFrame, _Tests]:
    """Return the effects, and F with its degrees of freedom and two p-values, of a full table of seeds and clients."""
    seeds = len(d)
    _, squares, df = mean_squares(d)
    own = mean_squares_interval(np.array([0, 1, -1]) / seeds, squares, df, level)
    cells = mean_squares_interval(np.array([0, 0, 1]), squares, df, level)
    rows = {
        "mean": _around(d.mean(), crossed_law(d, ratio).half_width(1 - level)),
        "sd between clients": _root(own),
        "sd between clients, at least": _root((own[0] - noise, np.nan, np.nan)),
        "sd of client and seed": _root(cells),
        "new client": _around(d.mean(), crossed_law(d, ratio, new_client=True).half_width(1 - level)),
    }
    rest = max(float(squares[2]), ROUNDING * float(squares[1]))  # without any, runs repeat each other
    below = rest + seeds * noise  # NaN where the noise is not known
    f = float(squares[1]) / rest
    p = float(stats.f.sf(f, df[1], df[2]))
    beyond = float(stats.f.sf(squares[1] / below, df[1], min(df[2] * (below / rest) ** 2, 1e9)))
    return _table(rows), (f, (int(df[1]), int(df[2])), p, beyond)


def _table(rows: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    """Return rows of estimates with limits, without those that are not known."""
    return pd.DataFrame.from_dict(rows, orient="index", columns=["estimate", "low", "high"]).dropna(how="all")


def _nested(d: np.ndarray, noise: float, ratio: float, level: float) -> tuple[pd.DataFrame, _Tests]:
    """Return the effects where each seed has clients of its own, and no test."""
    d = d[(~np.isnan(d)).sum(axis=1) > 1]
    count = (~np.isnan(d)).sum(axis=1)
    means, seeds = np.nanmean(d, axis=1), len(d)
    df = np.array([seeds - 1, (count - 1).sum()])
    squares = np.array([means.var(ddof=1), np.nansum((d - means[:, None]) ** 2) / df[1]])
    mean, shared = means.mean(), 1 / seeds + ratio
    # one cell is its seed's mean and the client's distance from it
    weights = np.array([1 + shared, 1 - (1 / count).mean()])
    used, t = weights * squares, partial(stats.t.ppf, (1 + level) / 2)
    rows = {
        "mean": _around(mean, t(df[0]) * np.sqrt(shared * squares[0])),
        "sd between clients, noise included": _root(mean_squares_interval(np.array([0, 1]), squares, df, level)),
        "sd of the test's noise, at most": _root((noise, np.nan, np.nan)),
        "new client in a new run": _around(mean, t(used.sum() ** 2 / (used**2 / df).sum()) * np.sqrt(used.sum())),
    }
    return _table(rows), (np.nan, (0, 0), np.nan, np.nan)


def _around(mean: float, half_width: float) -> tuple[float, float, float]:
    return float(mean), float(mean - half_width), float(mean + half_width)


def _root(variances: tuple[float, float, float]) -> tuple[float, ...]:
    """Return standard deviations, zero of negative estimates."""
    return tuple(float(v) for v in np.sqrt(np.maximum(variances, 0)))


def _notes(
    scores: Scores,
    d: np.ndarray,
    design: Design | None,
    same: bool,
    noise: float,
    modifiers: Collection[Any],
    asked: Collection[str],
) -> tuple[str, ...]:
    said = []
    if design is None:
        taken = "the same, on the same data, under every seed" if same else "new under every seed"
        said.append(f"It is not said how clients and seeds belong together; clients are taken as {taken}. See design=.")
    if same and d.shape[1] < len(scores.clients):
        left = len(scores.clients) - d.shape[1]
        said.append(f"{left} of {len(scores.clients)} clients are left out: they have no value under some seed.")
    if same and np.isnan(noise) and (design is None or design.data != "drawn"):
        said.append(
            "The noise of test samples that are the same under every seed is part of the sd between clients; how much "
            f"of it is not known{'' if scores.metric == 'accuracy' else f' for {scores.metric}'}."
        )
    if less := [name for name in asked if name not in modifiers]:
        said.append(f"There is no slope on {listed(less)}: it does not vary, or clients or seeds are too few.")
    if len(modifiers):
        together = f", limits and p hold for all {len(modifiers)} together (Bonferroni)" * (len(modifiers) > 1)
        said.append(f"Slopes are of each modifier alone{together}. They tell where the effect is larger, not why.")
    return tuple(said)


class _Words:
    """Numbers of one study in words: shares as points, with the decimals that the mean's interval asks for."""

    def __init__(self, effects: pd.DataFrame, of_shares: bool, level: float) -> None:
        self.factor, self.unit = (100.0, " points") if of_shares else (1.0, "")
        self.effects, self.level = effects, level
        mean = self.factor * effects.loc["mean"]
        self.places = decimals([(mean["high"] - mean["low"]) / 2], [mean["estimate"]], int(of_shares))

    def number(self, value: float) -> str:
        return fixed(self.factor * value, self.places)

    def table(self, rows: pd.DataFrame, name: str) -> str:
        """Return a table as text, p-values as such and a modifier's own sd in its own unit."""
        cells = {column: [self.number(value) for value in rows[column]] for column in rows}
        if "p" in rows:
            cells |= {"p": [p_value(p) for p in rows["p"]], "sd": [number(sd) for sd in rows["sd"]]}
        return pd.DataFrame(cells, index=rows.index).rename_axis(name).reset_index().to_string(index=False)

    def span(self, row: str) -> str:
        estimate, low, high = (self.number(value) for value in self.effects.loc[row])
        return f"{estimate}{self.unit} [{low}, {high}]"

    def ends(self, row: str) -> str:
        low, high = (self.number(value) for value in self.effects.loc[row, ["low", "high"]])
        return f"between {low} and {high}{self.unit} ({percent(self.level)} prediction interval)"

    def crossed(self, who: str, shape: tuple[int, ...], tests: _Tests) -> list[str]:
        f, df, p, beyond = tests
        spread, high = self.span("sd between clients"), self.number(self.effects.loc["sd between clients", "high"])
        test = f"F({df[0]}, {df[1]}) = {f:.3g}, p = {p_value(p)}".replace("= <", "<")
        said = [
            f"{who}: {shape[1]} clients, the same under each of {shape[0]} seeds.",
            f"Mean effect on clients like these: {self.span('mean')}.",
            f"The effect differs between clients: sd {spread}; {test}."
            if self.effects.loc["sd between clients", "low"] > 0
            else f"That the effect differs between clients is not shown: sd {spread}; {test}. "
            f"An sd of {high}{self.unit} is not excluded.",
            f"At a new client the effect is expected {self.ends('new client')}.",
        ]
        if not np.isnan(beyond):
            least = self.number(self.effects.loc["sd between clients, at least", "estimate"])
            left = f"{least}{self.unit} are left, p = {p_value(beyond)}.".replace("= <", "<")
            told = "Noise of the test that repeats under every seed is part of this sd: without all that it may make, "
            said.insert(3, told + left)
        return said

    def nested(self, who: str, d: np.ndarray) -> list[str]:
        row = "sd between clients, noise included"
        high = self.number(self.effects.loc[row, "high"])
        said = [
            f"{who}: {int((~np.isnan(d)).sum())} clients, new under each of {len(d)} seeds.",
            f"Mean effect on clients like these: {self.span('mean')}.",
            f"Between the clients of a run it varies with an sd of {self.span(row)}. Each client is met once, so that "
            "what differs between clients cannot be told from what would differ between runs at one client: the sd of "
            f"the effect itself is at most that, {high}{self.unit} by the upper limit, and may be zero.",
            f"One run would measure {self.ends('new client in a new run')} at a new client.",
        ]
        if (test := "sd of the test's noise, at most") in self.effects.index:
            said.insert(3, (
                f"The noise of the test alone makes an sd of {self.number(self.effects.loc[test, 'estimate'])}"
                f"{self.unit} at most."
            ))  # fmt: skip
        return said

    def modifiers(self, slopes: pd.DataFrame) -> list[str]:
        said = []
        for name, row in slopes.iterrows():
            estimate, low, high = (self.number(row[column]) for column in ("slope", "low", "high"))
            word = "grows with" if row["low"] > 0 else "falls with" if row["high"] < 0 else "is not shown to depend on"
            said.append(f"The effect {word} {name}: {estimate}{self.unit} [{low}, {high}] for one sd more.")
        return said

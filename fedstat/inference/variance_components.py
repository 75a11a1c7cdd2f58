"""Where the spread of results comes from: variance components of seeds, clients and other sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from fedstat._checks import check_level
from fedstat.inference.intervals.paired import decimals

Design = Literal["one at a time", "balanced"]
LEFT_OVER = "left over"


@dataclass(frozen=True, eq=False)
class Components:
    """Variance split over its sources; ``print`` it for a table and a sentence.

    Attributes
    ----------
    table : DataFrame
        One row per source or interaction: its standard deviation ``sd`` with limits ``low`` and ``high``, in the unit
        shown; its ``share`` of the sum of all components (negative ones count as zero); the ``variance`` itself, which
        may be estimated negative, in the squared unit of the values.
    design : {"one at a time", "balanced"}
        What the table was recognised as, and so which estimate was made.
    unit : str
        "points" (the values times 100), or empty for the values' own unit.
    level : float
        Confidence level of each interval.
    rows : int
        Rows of the table.
    note : str
        What else a reader must know, in a sentence; empty if nothing.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import components
    >>> table = pd.DataFrame({"seed": [0, 0, 1, 1, 2, 2], "value": [0.70, 0.72, 0.80, 0.82, 0.75, 0.73]})
    >>> found = components(table, sources=["seed"])
    >>> found.table[["sd", "share"]].round(2)  # in points; what differs under one seed is left to "residual"
                sd  share
    seed      5.03   0.93
    residual  1.41   0.07
    >>> found.design
    'balanced'
    """

    table: pd.DataFrame
    design: Design
    unit: str
    level: float
    rows: int
    note: str

    def __str__(self) -> str:
        digits = decimals(2 * float(self.table["sd"].max()))
        sds = {name: [f"{value:.{digits}f}" for value in self.table[name]] for name in ("sd", "low", "high")}
        shares = [f"{100 * share:.0f}%" for share in self.table["share"]]
        shown = pd.DataFrame({**sds, "share": shares}, index=self.table.index)
        unit = f" in {self.unit}" if self.unit else ""
        how = "analysis of variance of a balanced table" if self.design == "balanced" else "one source varied at a time"
        head = f"standard deviation{unit} by source, {100 * self.level:.4g}% intervals ({how}, {self.rows} rows)"
        return "\n".join([head, "", shown.to_string(), "", self._largest(), *([self.note] if self.note else [])])

    def _largest(self) -> str:
        ordered = self.table.sort_values("share", ascending=False)
        first = ordered.iloc[0]
        said = f"{ordered.index[0]} has the largest share of the spread, {100 * first['share']:.0f}%"
        rivals = [str(name) for name in ordered.index[1:] if ordered.loc[name, "high"] >= first["low"]]
        if rivals:
            return f"{said}; by the intervals it could also be {' or '.join(rivals)}"
        return f"{said}, and no other interval reaches its own"


def components(
    table: pd.DataFrame,
    *,
    sources: Sequence[str],
    value: str = "value",
    fixed: Sequence[str] = (),
    nested: Mapping[str, str] | None = None,
    points: bool = True,
    level: float = 0.95,
) -> Components:
    """Split the variance of results over the sources that were varied.

    The design is read from the table. **One at a time**: from one common run each source is varied while the others
    are held, and there may be runs in which all vary together. A source's variance is that over its own runs, with the
    chi-square interval; ``left over`` is what varying all together adds to the sum, positive if a source is not named,
    negative if the named ones interact. It holds at the values at which the others were held. **Balanced**, crossed
    or nested: the analysis of variance, all interactions included; without repeated cells the highest one is the
    residual.

    Intervals of a variance, or of a combination of mean squares, are modified large-sample ones (exact chi-square for
    a single mean square). They assume normal effects.

    Parameters
    ----------
    table : DataFrame
        One row per result, such as a run's primary summary or a client's; a column per source says which seed, client
        and so on it had.
    sources : sequence of str
        Columns of what varied, such as ``["data", "initial weights", "batches"]`` or ``["seed", "client"]``.
    value : str
        Column of the results.
    fixed : sequence of str
        Those of the `sources` whose levels are no sample from a population, such as the method. They get no variance
        themselves, but their interactions do: ``method × seed`` is what pairing leaves.
    nested : dict of str, optional
        Source by source that it lies within: ``{"client": "seed"}`` for clients drawn anew under every seed, which
        have nothing in common where their numbers agree. Without it equal labels mean the same thing.
    points : bool
        Whether values are shares, such as accuracies, to be shown in percentage points.
    level : float
        Confidence level of each interval, in (0, 1).

    Raises
    ------
    ValueError
        If columns are missing, values are not finite or do not vary, a source has one level, two sources cannot be
        told apart, or the table is of neither design.

    References
    ----------
    Searle, Casella and McCulloch (1992), Variance Components, chapter 4; Burdick and Graybill (1992), Confidence
    Intervals on Variance Components, section 3.3 (Ting and others 1990).

    Examples
    --------
    Dyestuff (Davies 1947; Box and Tiao 1973), whose components are 42.0 between batches and 49.5 within:

    >>> import pandas as pd
    >>> from fedstat.inference import components
    >>> yields = [1545, 1440, 1440, 1520, 1580, 1540, 1555, 1490, 1560, 1495, 1595, 1550, 1605, 1510, 1560]
    >>> yields += [1445, 1440, 1595, 1465, 1545, 1595, 1630, 1515, 1635, 1625, 1520, 1455, 1450, 1480, 1445]
    >>> table = pd.DataFrame({"batch": [i // 5 for i in range(30)], "value": yields})
    >>> print(components(table, sources=["batch"], points=False))
    standard deviation by source, 95% intervals (analysis of variance of a balanced table, 30 rows)
    <BLANKLINE>
              sd low high share
    batch     42  18  114   42%
    residual  50  39   69   58%
    <BLANKLINE>
    residual has the largest share of the spread, 58%; by the intervals it could also be batch
    """
    level, names, parents = check_level(level), list(sources), dict(nested or {})
    _check_table(table, names, value, list(fixed), parents, points)
    y, scale = table[value].to_numpy(dtype=float), 100.0 if points else 1.0
    codes = {name: pd.factorize(table[name])[0] for name in names}
    for child, parent in parents.items():  # numbered from zero under each level of the parent
        codes[child] = pd.Series(codes[child]).groupby(codes[parent]).rank("dense").to_numpy(int) - 1
    terms = [s for s in _closed(names, parents) if not set(s) <= set(fixed)]
    design: Design = "balanced"
    note = ""
    if (cells := _cells(y, codes)) is not None:
        found = _balanced(cells, names, parents, terms, level)
    elif not parents and not fixed and (groups := _one_at_a_time(codes)) is not None:
        design = "one at a time"
        found, note = _held(y, groups, level, scale)
    else:
        raise ValueError(
            f"the table is unbalanced: its {len(y)} rows are not equally many for every combination of {names}. Keep "
            "the seeds and clients that have all of the others, or vary one source at a time."
        )
    if len(fixed) == 1:
        crossed = [
            t for t in found if "residual" in t or any(fixed[0] in part.split(" × ") for part in t.split(" in "))
        ]
        note = f"Pairing removes what all levels of {fixed[0]} have in common and leaves {', '.join(crossed)}."
    return Components(_shown(found, scale), design, "points" * points, level, len(table), note)


def _shown(found: Mapping[str, tuple[float, float, float]], scale: float) -> pd.DataFrame:
    """Make the table of (variance, low, high) by source."""
    rows = pd.DataFrame.from_dict(found, orient="index", columns=["variance", "low", "high"])
    if not (rows["variance"] > 0).any():
        raise ValueError("no source has a positive variance: the sources named explain nothing of the values' spread.")
    sds = scale * np.sqrt(rows.rename(columns={"variance": "sd"}).clip(lower=0))
    share = rows["variance"].clip(lower=0)
    return sds.assign(share=share / share.sum(), variance=rows["variance"])


def _check_table(
    table: pd.DataFrame, names: list[str], value: str, fixed: list[str], parents: dict[str, str], points: bool
) -> None:
    """Refuse a table that cannot be split, with the column and the remedy."""
    if not names or len(set(names)) < len(names):
        raise ValueError(f"sources must be names of columns, each once, got {names}.")
    missing = [name for name in [*names, value] if name not in table]
    if missing:
        raise ValueError(f"the table lacks the columns {missing}; it has {list(map(str, table.columns))}.")
    if "method" not in names and "method" in table and table["method"].nunique() > 1:
        raise ValueError(
            f"the table holds {table['method'].nunique()} methods, and 'method' is none of the sources: keep the rows "
            "of one, or name 'method' among the sources and in fixed."
        )
    if unknown := [name for name in [*fixed, *parents, *parents.values()] if name not in names]:
        raise ValueError(f"fixed and nested must speak of the sources {names}, got {unknown}.")
    if set(fixed) == set(names):
        raise ValueError(f"fixed holds all sources, {fixed}: no seed or client is left that varies at random.")
    for child, parent in parents.items():
        if parent == child or parent in parents:
            raise ValueError(f"nested must name one source within another that is not nested, got {parents}.")
    y = table[value].to_numpy(dtype=float)
    if not np.isfinite(y).all():
        raise ValueError(f"{value} misses {int((~np.isfinite(y)).sum())} of {len(y)} values (infinite or NaN).")
    if gaps := [name for name in names if table[name].isna().any()]:
        raise ValueError(f"the columns {gaps} have rows without a label.")
    if alone := [name for name in names if table[name].nunique() < 2]:
        raise ValueError(f"{alone} has one level only, so it does not vary. Vary it, or leave it out of the sources.")
    if not np.ptp(y) > 1e-12 * np.abs(y).max():
        raise ValueError(f"{value} is the same in all rows: no spread to split.")
    if points and (y.min() < 0 or y.max() > 1):
        raise ValueError(
            f"{value} lies in [{y.min():g}, {y.max():g}], not in [0, 1], so it is not shown in percentage points. "
            "Pass points=False."
        )
    for a, b in combinations(names, 2):
        pairs = len(table[[a, b]].drop_duplicates())
        if pairs == table[a].nunique() == table[b].nunique():
            raise ValueError(f"{a} and {b} change together in all rows, so they cannot be told apart. Name one.")
        for child, parent in ((a, b), (b, a)):
            inside = pairs == table[child].nunique() and table[parent].nunique() < pairs
            if inside and parents.get(child) != parent:
                raise ValueError(
                    f"every level of {child} occurs under one level of {parent} only. If it lies within it, pass "
                    f"nested={{{child!r}: {parent!r}}}."
                )


def _one_at_a_time(codes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Return the rows in which each source varies alone, the common run included (all: `LEFT_OVER`); else None."""
    levels = np.stack(list(codes.values()))
    base = np.array([np.bincount(row).argmax() for row in levels])
    moved = levels != base[:, None]
    count, own = moved.sum(axis=0), (~moved).all(axis=0)
    if own.sum() != 1 or not np.isin(count, [0, 1, len(levels)]).all():
        return None
    together = count == len(levels)
    groups = {name: own | (moved[k] & (count == 1)) for k, name in enumerate(codes)}
    groups[LEFT_OVER] = together | own if together.any() else together
    for k, (name, rows) in enumerate(groups.items()):
        of = levels if name == LEFT_OVER else levels[k : k + 1]
        if any(len(np.unique(row[rows])) < rows.sum() for row in of):
            return None
    return groups if all(groups[name].sum() > 1 for name in codes) else None


def _held(
    y: np.ndarray, groups: Mapping[str, np.ndarray], level: float, scale: float
) -> tuple[dict[str, tuple[float, float, float]], str]:
    """Estimate each source's variance from the runs in which it varies alone."""
    names = [name for name in groups if groups[name].sum() > 1]
    squares = np.array([y[groups[name]].var(ddof=1) for name in names])
    dfs = np.array([groups[name].sum() - 1 for name in names])
    weights, said = np.eye(len(names)), "Each source was varied at one value of the others"
    if LEFT_OVER in names:
        weights[-1, :-1] = -1
    found = {name: mean_squares_interval(w, squares, dfs, level) for name, w in zip(names, weights, strict=True)}
    if LEFT_OVER not in names:
        return found, f"{said}; runs in which all vary would show what is left over."
    _, low, high = found[LEFT_OVER]
    why = "the difference is not resolved"
    if low > 0 or high < 0:
        why = "so a source is not named" if low > 0 else "so the sources interact"
    together, alone = scale * np.sqrt([squares[-1], squares[:-1].sum()])
    return found, (
        f"{said}. Varying all together gives a standard deviation of {together:.3g}, the sources one by one would add "
        f"up to {alone:.3g}: {why}."
    )


def _closed(names: Sequence[str], parents: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return all terms of the model: sets of sources that hold the parent of each nested one."""
    subsets = [s for size in range(1, len(names) + 1) for s in combinations(names, size)]
    return [s for s in subsets if all(parents[name] in s for name in s if name in parents)]


def _label(term: Sequence[str], parents: Mapping[str, str]) -> str:
    """Name a term, such as ``method × client in seed``."""
    over = {parents[name] for name in term if name in parents}
    crossed = " × ".join(name for name in term if name not in over)
    return f"{crossed} in {' and '.join(n for n in term if n in over)}" if over else crossed


def _cells(y: np.ndarray, codes: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the values as an array with one axis per source and one for repeats; None if cells differ in number."""
    shape = tuple(int(c.max()) + 1 for c in codes.values())
    if np.prod(shape, dtype=float) > len(y):
        return None
    cell = np.ravel_multi_index(list(codes.values()), shape)
    counts = np.bincount(cell, minlength=int(np.prod(shape)))
    if counts.min() != counts.max():
        return None
    return y[np.argsort(cell, kind="stable")].reshape(*shape, -1)


def _balanced(
    cells: np.ndarray, names: Sequence[str], parents: Mapping[str, str], terms: list[tuple[str, ...]], level: float
) -> dict[str, tuple[float, float, float]]:
    """Equate mean squares with their expectations; a term pools those of its sources and of nested ones' parents."""
    total, repeats = cells.size, cells.shape[-1]
    sizes = dict(zip(names, cells.shape, strict=False))
    everything = _closed(names, parents)
    ss, df = dict.fromkeys(everything, 0.0), dict.fromkeys(everything, 0)
    for chosen in _closed(names, {}):
        axes = [names.index(name) for name in chosen]
        effect = cells.mean(axis=tuple(a for a in range(cells.ndim) if a not in axes), keepdims=True)
        for axis in axes:
            effect = effect - effect.mean(axis=axis, keepdims=True)
        held = {*chosen} | {parents[name] for name in chosen if name in parents}
        term = tuple(name for name in names if name in held)
        ss[term] += float((effect**2).sum()) * total / effect.size
        df[term] += int(np.prod([sizes[name] - 1 for name in chosen]))
    squares, dfs = [ss[t] / df[t] for t in terms], [df[t] for t in terms]
    labels = [_label(t, parents) for t in terms]
    expected = np.array(
        [[total / np.prod([sizes[n] for n in t]) if set(s) <= set(t) else 0.0 for t in terms] for s in terms]
    )
    if repeats > 1:
        inner = cells - cells.mean(axis=-1, keepdims=True)
        dfs.append(total - total // repeats)
        squares.append(float((inner**2).sum()) / dfs[-1])
        labels.append("residual")
        expected = np.block([[expected, np.ones((len(terms), 1))], [np.zeros((1, len(terms))), np.ones((1, 1))]])
    elif len(terms) > 1:
        labels[-1] = f"residual ({labels[-1]})"
    weights = np.linalg.inv(expected)
    weights[np.abs(weights) < 1e-12 * np.abs(weights).max()] = 0
    return {
        label: mean_squares_interval(w, np.array(squares), np.array(dfs), level)
        for label, w in zip(labels, weights, strict=True)
    }


def mean_squares_interval(
    weights: np.ndarray, squares: np.ndarray, df: np.ndarray, level: float
) -> tuple[float, float, float]:
    """Return a weighted sum of the expectations of independent mean squares, with modified large-sample limits.

    Weights may have either sign, and the estimate may be negative. The limits are those of Ting and others (1990); for
    one mean square they are the exact chi-square limits.
    """
    plus, minus = weights > 0, weights < 0
    parts = np.abs(weights) * squares
    estimate = float((weights * squares).sum())
    alpha = (1 - level) / 2
    below = _reach(parts[plus], df[plus], parts[minus], df[minus], alpha)
    above = _reach(parts[minus], df[minus], parts[plus], df[plus], alpha)
    return estimate, estimate - below, estimate + above


def _reach(pos: np.ndarray, df_pos: np.ndarray, neg: np.ndarray, df_neg: np.ndarray, alpha: float) -> float:
    """Return how far below the estimate ``sum pos - sum neg`` its lower limit lies, at the one-sided level alpha."""
    g = 1 - df_pos / stats.chi2.isf(alpha, df_pos)
    h = df_neg / stats.chi2.ppf(alpha, df_neg) - 1
    total = float(((g * pos) ** 2).sum() + ((h * neg) ** 2).sum())
    for i in range(len(pos)):
        for j in range(len(neg)):
            f = stats.f.isf(alpha, df_pos[i], df_neg[j])
            total += ((f - 1) ** 2 - (g[i] * f) ** 2 - h[j] ** 2) / f * pos[i] * neg[j]
        for j in range(i + 1, len(pos)):
            n, m = df_pos[i], df_pos[j]
            both = 1 - (n + m) / stats.chi2.isf(alpha, n + m)
            joint = both**2 * (n + m) ** 2 / (n * m) - g[i] ** 2 * n / m - g[j] ** 2 * m / n
            total += joint / (len(pos) - 1) * pos[i] * pos[j]
    return float(np.sqrt(max(total, 0.0)))

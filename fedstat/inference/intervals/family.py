"""Simultaneous intervals for differences of methods over common seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fedstat import _checks
from fedstat.inference.intervals.crossed import Law, crossed_law, crossed_mean
from fedstat.inference.intervals.design import Design
from fedstat.inference.intervals.moderated import MIN_METHODS, method_variances
from fedstat.inference.intervals.paired import ROUNDING, gaps
from fedstat.inference.intervals.shape import shape_notes, shapes
from fedstat.inference.intervals.skewed import bootstrap_t, check_skewed

Rule = Literal["bonferroni", "none"]
#: A moderated interval is never wider than this many times the pair's own.
WIDEST = 1.05
#: The share of an interval's error rate at which its moderated form is taken: below five seeds, and from there on. The
#: narrower of two intervals errs more often than each of them; these shares were found by drawing (docs/coverage.md).
_FEW_SEEDS, _SHARES = 5, (0.35, 0.7)
_ONE_CLIENT = (
    "Clients are counted as new ones with new samples. Intervals are too narrow if a shared model rests on the samples "
    "of very few of the clients (docs/coverage.md)."
)


@dataclass(frozen=True, eq=False)
class Family:
    """Differences of methods that are claimed together. All arrays run over the pairs; NaN where there is no number.

    Attributes
    ----------
    pairs : ndarray of int, shape (P, 2)
        Each row (i, j): the value of method i minus that of j.
    estimate : ndarray
        Mean differences.
    se, df : ndarray
        Standard error of the estimate and the degrees of freedom of its t distribution: moderated where the moderated
        interval is the narrower one. For skewed runs it is the error whose t interval is as wide as the interval. With
        new clients meant, these are Satterthwaite's, and the interval is wider than their t makes it.
    sd : ndarray
        Standard deviation over seeds of the differences, not moderated.
    n : ndarray of int
        Common seeds.
    correlation : ndarray
        Correlation of the two methods over seeds: what pairing gains. NaN with two seeds, or where a side is constant.
    low, high : ndarray
        Limits that hold for all pairs together.
    p : ndarray
        Adjusted p-values: below 1 - level if and only if the interval excludes zero.
    p_single : ndarray
        p-values of each test alone: what `p` would be with rule "none".
    level : float
        Confidence level of all intervals together; of each alone with rule "none".
    rule : {"bonferroni", "none"}
        What made the limits.
    moderated : bool
        Whether variances were moderated.
    apart : ndarray of bool
        Pairs of which `shape_notes` warns that their runs lie far apart.
    design : Design
        What the result generalises to: ``design.sentence()``.
    notes : tuple of str
        What a reader has to know, a sentence each.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.inference import Design, simultaneous
    >>> runs = np.array([[80, 82, 81, 79, 80], [70, 71, 72, 70, 71], [70, 72, 71, 71, 70]])  # three methods, five seeds
    >>> found = simultaneous(runs[:, :, None] / 100, [(0, 1), (2, 1)], design=Design(clients="new", data="drawn"))
    >>> np.column_stack([found.estimate, found.low, found.high]).round(3)  # the first differs, the second does not
    array([[ 0.096,  0.082,  0.11 ],
           [ 0.   , -0.016,  0.016]])
    """

    pairs: np.ndarray
    estimate: np.ndarray
    se: np.ndarray
    df: np.ndarray
    sd: np.ndarray
    n: np.ndarray
    correlation: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    p_single: np.ndarray
    level: float
    rule: Rule
    moderated: bool
    apart: np.ndarray
    design: Design
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Differences with what t intervals need; arrays of shape (..., P), NaN where a pair has no spread.

    `se` and `df` are of the pair's own differences; `moderated` holds the same two with moderated variances. Where
    `laws` are given, one for each difference in the order of ``estimate.flat``, intervals are theirs instead of t's.
    """

    estimate: np.ndarray
    se: np.ndarray
    df: np.ndarray
    sd: np.ndarray
    n: np.ndarray
    moderated: tuple[np.ndarray, np.ndarray] | None = None
    laws: Sequence[Law | None] | None = None


def simultaneous(
    values: ArrayLike,
    pairs: ArrayLike,
    *,
    design: Design,
    level: float = 0.95,
    rule: Rule = "bonferroni",
    moderated: bool | Literal["auto"] = "auto",
    weights: ArrayLike | None = None,
    skewed: bool = False,
) -> Family:
    """Compare pairs of methods with intervals that hold together.

    What is compared are the means over clients in each run, paired on seeds, with a t interval over seeds: clients of
    one run are coupled and no repeats. If `design` splits the same data again and again, the standard error is that of
    the corrected resampled t. If it speaks of new clients while the same took part under every seed, seeds and clients
    are crossed random effects, and the interval is a generalised one (`crossed_law`); if it also splits the same data
    again and again, the seeds' part is corrected likewise.

    `rule` is how the intervals come to hold together. "bonferroni" gives each pair its share of the error rate: it
    holds for any correlations and any variances. "none" adjusts nothing.

    `moderated` lets pairs borrow strength: each pair's variance is also averaged with a prior that is fitted on all
    methods of the pairs (`method_variances`), and the pair takes the narrower of two intervals: the moderated one, at
    0.7 of its share of the error rate (0.35 below 5 seeds), and its own, widened by 5%. So nothing that other methods
    do makes an interval wider than that, and two methods that nearly agree keep what pairing gives them. "auto" does so
    for 8 methods or more under the same seeds, three or more, if no method's errors are constant; a note says whether,
    and why not.

    `skewed` is for runs whose errors lean to one side, from 8 seeds on: an interval covers the t interval and the
    bootstrap-t interval (Efron's studentised bootstrap), and variances are not moderated.

    Coverage is measured in ``docs/coverage.md``.

    Parameters
    ----------
    values : array_like, shape (M, S, K)
        Value of each method under each seed at each client, NaN where there is none. A pair uses the clients that both
        methods have under a seed.
    pairs : array_like of int, shape (P, 2)
        Rows (i, j), for the value of method i minus that of j; each two methods once.
    design : Design
        How seeds, clients and data belong together.
    level : float
        Confidence level in (0, 1), of all intervals together.
    rule, moderated
        See above.
    weights : array_like, shape (S, K), optional
        Each client's share in the mean of a run, such as its number of samples; by default all are equal.
    skewed : bool
        See above.

    Raises
    ------
    ValueError
        If shapes, pairs, level or weights make no sense, a value is infinite, or `design`, `rule`, `moderated` or
        `skewed` ask for what these values do not allow.

    References
    ----------
    Smyth (2004), Statistical Applications in Genetics and Molecular Biology 3, for moderated variances. Efron and
    Tibshirani (1993), An Introduction to the Bootstrap, for bootstrap-t.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.inference import Design, simultaneous
    >>> rng = np.random.default_rng(0)
    >>> runs = rng.normal(size=(4, 10, 1)) + np.array([2.0, 0.0, 0.0, 0.0])[:, None, None]  # only the first differs
    >>> pairs = [(0, 3), (1, 3), (2, 3)]
    >>> for rule in ("none", "bonferroni"):
    ...     found = simultaneous(runs, pairs, design=Design(clients="new", data="drawn"), rule=rule)
    ...     print(rule, found.p.round(3), (found.high - found.low)[0].round(2))
    none [0.002 0.052 0.69 ] 1.99
    bonferroni [0.005 0.155 1.   ] 2.59
    """
    _checks.check_level(level)
    _checks.choice("rule", rule, get_args(Rule))
    if moderated not in (True, False, "auto"):
        raise ValueError(f"moderated must be True, False or 'auto', got {moderated!r}.")
    table = _values(values)
    chosen = _pairs(pairs, len(table))
    if design.crossed and table.shape[2] < 2:
        raise ValueError("over='clients' needs at least 2 clients, got 1. Use over='runs'.")
    if design.crossed and weights is not None:
        raise ValueError("weights do not go with over='clients' and the same clients: leave them out.")
    shares = None if weights is None else _shares(weights, table)
    notes: list[str] = []
    runs = _mean_over_clients(table, shares)
    first, second = _common(table, chosen, shares)
    differences = gaps(first, second)
    use = False
    if design.crossed:
        found, kept = _crossed(table, chosen, design.test_to_train or 0.0)
        if left := (clients := table.shape[2]) - kept:
            notes.append(
                f"Up to {left} of {clients} clients are left out of a pair: they have no value under some seed."
            )
        if design.data == "resplit":
            notes.append(_ONE_CLIENT)
        if moderated is True:
            raise ValueError("moderated=True does not go with over='clients'. Use moderated='auto' or False.")
    else:
        methods = np.unique(chosen)
        reason = unmoderated_because(runs[methods])
        if moderated is True and reason:
            raise ValueError(f"moderated=True is not possible: {reason}. Use moderated='auto' or False.")
        use = moderated is not False and not reason and not skewed
        prior = None
        if use:
            variances, worth = method_variances(runs[methods])
            places = np.searchsorted(methods, chosen)
            prior = variances[places].sum(axis=1), worth[places].min(axis=1)
            notes.append(
                f"Intervals borrow strength from all methods' spreads (a prior worth {worth.max():.3g} "
                "degrees of freedom); none is more than 5% wider than its pair alone makes it. This supposes that no "
                "method's runs collapse."
            )
        elif moderated == "auto" and len(methods) >= MIN_METHODS and not skewed:
            notes.append(f"Variances are not moderated: {reason}.")
        largest = np.nan_to_num(np.maximum(np.abs(first), np.abs(second))).max(axis=-1)
        found = contrasts(differences, largest, design.test_to_train or 0.0, prior)
    if skewed:
        check_skewed(found.n, moderated, design)
        notes.append("Intervals are for skewed runs: each covers the t interval and the bootstrap-t interval.")
    made = limits(found, level, rule, differences if skewed else None)
    notes += [*_notes(found, chosen), *shape_notes(differences)]
    return Family(
        chosen, found.estimate, made.se, made.df, found.sd, found.n, _correlation(first, second), made.low, made.high,
        made.p, made.p_single, level, rule, use, shapes(differences) == "apart", design, tuple(notes),
    )  # fmt: skip


def contrasts(
    differences: np.ndarray,
    scale: np.ndarray,
    test_to_train: float = 0.0,
    prior: tuple[np.ndarray, np.ndarray] | None = None,
) -> Contrasts:
    """Return what t intervals need of differences over seeds, of shape (..., pairs, seeds), NaN where there is none.

    `scale` is the size of the values that were subtracted, by which rounding is told from spread. The variance of a
    mean is that of the corrected resampled t, ``(1 / n + test_to_train) s^2``. `prior` holds the variances that the
    samples' are moved towards, and the degrees of freedom that this is worth.
    """
    mean, variance, df, n = moments(differences)
    sd = np.sqrt(variance)
    spread = sd > ROUNDING * scale
    factor = np.where(spread, 1 / np.maximum(n, 1) + test_to_train, np.nan)
    moderated = None
    if prior is not None:
        towards, worth = prior
        moderated = np.sqrt(factor * (worth * towards + df * variance) / (worth + df)), df + worth
    df = np.where(spread, df, np.nan)
    return Contrasts(mean, np.sqrt(factor * variance), df, sd, n, moderated)


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, variance, its degrees of freedom and the number of values along the last axis, leaving NaN out."""
    there = ~np.isnan(values)
    n = there.sum(axis=-1)
    mean = np.where(there, values, 0.0).sum(axis=-1) / np.maximum(n, 1)
    errors = np.where(there, values - mean[..., None], 0.0)
    df = np.where(n > 1, n - 1.0, np.nan)
    return np.where(n > 0, mean, np.nan), (errors**2).sum(axis=-1) / df, df, n


def satterthwaite(variances: np.ndarray, df: np.ndarray | float) -> np.ndarray:
    """Return the degrees of freedom of sums of variances over the first axis; infinite where a sum is zero."""
    fourth = (variances**2 / df).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(fourth == 0, np.inf, variances.sum(axis=0) ** 2 / np.where(fourth == 0, 1.0, fourth))


@dataclass(frozen=True, eq=False)
class Limits:
    """Intervals of differences, arrays of shape (..., P); `se` and `df` are those that made each interval."""

    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    p_single: np.ndarray
    se: np.ndarray
    df: np.ndarray


def limits(found: Contrasts, level: float, rule: Rule, skewed: np.ndarray | None = None) -> Limits:
    """Return the limits of all differences, adjusted p-values, and p-values of each test alone.

    With the differences over seeds as `skewed`, shape (..., P, S), intervals cover those of bootstrap-t as well.
    """
    from scipy import stats

    count = 1 if rule == "none" else found.estimate.shape[-1]
    each = (1 - level) / count
    size = np.abs(found.estimate)
    se, df, p = found.se, found.df, 2 * stats.t.sf(size / found.se, found.df)
    half = stats.t.isf(each / 2, df) * se
    if found.moderated is not None:
        share = _SHARES[0] if found.n.min() < _FEW_SEEDS else _SHARES[1]
        theirs, more = found.moderated
        moderated = stats.t.isf(share * each / 2, more) * theirs
        p = np.minimum(2 * stats.t.sf(size / theirs, more) / share, 2 * stats.t.sf(size / WIDEST / se, df))
        narrower = moderated < WIDEST * half
        half = np.where(narrower, moderated, WIDEST * half)
        se, df = np.where(narrower, theirs, se), np.where(narrower, more, df)
    if found.laws is not None:
        made = [law and (law.p(at), law.half_width(each)) for law, at in zip(found.laws, size.flat, strict=True)]
        p, half = np.array([sides or (np.nan, np.nan) for sides in made]).T.reshape(2, *size.shape)
    low, high = found.estimate - half, found.estimate + half
    if skewed is not None:
        least, most, theirs = bootstrap_t(skewed, each / 2)
        low, high = np.minimum(low, found.estimate - most * se), np.maximum(high, found.estimate - least * se)
        p, se = np.maximum(p, theirs), (high - low) / 2 / stats.t.isf(each / 2, df)
    return Limits(low, high, np.asarray(np.minimum(count * p, 1.0)), np.asarray(np.minimum(p, 1.0)), se, df)


def unmoderated_because(runs: np.ndarray) -> str:
    """Return why the variances of these methods are not moderated, in words; "" if they can be; runs (M, S)."""
    if len(runs) < MIN_METHODS:
        return f"a prior on variances needs at least {MIN_METHODS} methods"
    if np.isnan(runs).any():
        return "not all methods ran under the same seeds"
    if runs.shape[1] < 3:
        return "it takes at least 3 seeds"
    errors = runs - runs.mean(axis=1, keepdims=True)
    errors = errors - errors.mean(axis=0)
    if (np.abs(errors).max(axis=1) <= ROUNDING * np.abs(runs).max()).any():
        return "a method's errors are constant"
    return ""


def _values(values: ArrayLike) -> np.ndarray:
    table = np.asarray(values, dtype=float)
    if table.ndim != 3 or 0 in table.shape:
        raise ValueError(f"values must have the shape (methods, seeds, clients), got {table.shape}.")
    if np.isinf(table).any():
        raise ValueError("values must be finite, or NaN where there is none. Leave out runs that diverged.")
    return table


def _pairs(pairs: ArrayLike, methods: int) -> np.ndarray:
    chosen = np.asarray(pairs)
    if chosen.ndim != 2 or chosen.shape[-1] != 2 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise ValueError(f"pairs must be rows (i, j) of two methods' numbers, got {pairs!r}.")
    if chosen.min() < 0 or chosen.max() >= methods:
        raise ValueError(f"pairs must name methods 0 to {methods - 1}, got {chosen.min()} to {chosen.max()}.")
    if (chosen[:, 0] == chosen[:, 1]).any() or len(np.unique(np.sort(chosen), axis=0)) < len(chosen):
        raise ValueError("pairs must be of two different methods, each two once.")
    return chosen


def _shares(weights: ArrayLike, table: np.ndarray) -> np.ndarray:
    """Return the weights of clients, zero where no method has a value."""
    shares = np.asarray(weights, dtype=float)
    if shares.shape != table.shape[1:]:
        raise ValueError(f"weights must have the shape (seeds, clients) = {table.shape[1:]}, got {shares.shape}.")
    there = ~np.isnan(table).all(axis=0)
    if not (np.isfinite(shares[there]) & (shares[there] >= 0)).all():
        raise ValueError("weights must be finite and not negative wherever a client has a value.")
    shares = np.where(there, shares, 0.0)
    if (shares.sum(axis=1) == 0)[there.any(axis=1)].any():
        raise ValueError("weights must not all be zero under a seed.")
    return shares


def _mean_over_clients(table: np.ndarray, shares: np.ndarray | None) -> np.ndarray:
    """Return the mean of each run over the clients that it has; NaN without any. Clients are the last axis."""
    there = ~np.isnan(table)
    w = there * (1.0 if shares is None else shares)
    total = w.sum(axis=-1)
    sums = (np.where(there, table, 0.0) * w).sum(axis=-1)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)


def _common(table: np.ndarray, pairs: np.ndarray, shares: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return per pair and seed both methods' means over the clients that both have, each of shape (P, S)."""
    first, second = (np.empty((len(pairs), table.shape[1])) for _ in range(2))
    for row, pair in enumerate(pairs):
        both = np.where(np.isnan(table[pair]).any(axis=0), np.nan, table[pair])
        first[row], second[row] = _mean_over_clients(both, shares)
    return first, second


def _crossed(table: np.ndarray, pairs: np.ndarray, test_to_train: float) -> tuple[Contrasts, int]:
    """Return differences with seeds and clients as crossed random effects, and the fewest clients of a pair."""
    laws: list[Law | None] = [None] * len(pairs)
    found, kept = np.full((5, len(pairs)), np.nan), table.shape[2]
    for row, (i, j) in enumerate(pairs):
        d = table[i] - table[j]
        d = d[~np.isnan(d).all(axis=1)]  # the seeds under which there is anything
        d = d[:, ~np.isnan(d).any(axis=0)]  # and of them the clients that are always there
        found[4, row], kept = len(d), min(kept, d.shape[1])
        if min(d.shape) > 1:
            mean, se, df = crossed_mean(d, test_to_train)
            found[:4, row] = mean, se, df, d.mean(axis=1).std(ddof=1)
            if se > ROUNDING * np.nanmax(np.abs(table[[i, j]])):
                laws[row] = crossed_law(d, test_to_train)
            else:
                found[1:3, row] = np.nan
        elif d.size:
            found[0, row] = d.mean()
    return Contrasts(found[0], found[1], found[2], found[3], found[4].astype(int), laws=laws), kept


def _correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    found = np.full(len(first), np.nan)
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        x, y = np.array([a, b])[:, ~np.isnan(a - b)]
        # the correlation of two points is always 1 or -1
        if len(x) > 2 and min(x.std(), y.std()) > ROUNDING * max(np.abs(x).max(), np.abs(y).max()):
            found[row] = np.corrcoef(x, y)[0, 1]
    return found


def _notes(found: Contrasts, pairs: np.ndarray) -> list[str]:
    """Say which pairs have no interval, and why."""
    why = {
        "have no common seed, hence no difference": found.n == 0,
        "have one common seed, hence no interval. Run more seeds": found.n == 1,
        "differ by the same amount under all seeds, hence have no interval": np.isnan(found.se) & (found.n > 1),
    }
    return [f"{of.sum()} of {len(pairs)} pairs {words}." for words, of in why.items() if of.any()]

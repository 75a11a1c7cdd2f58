"""Simultaneous intervals for differences of methods over common seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fedstat.inference.intervals.crossed import crossed_mean
from fedstat.inference.intervals.design import Design
from fedstat.inference.intervals.moderated import MIN_FIT, MIN_METHODS, method_variances
from fedstat.inference.intervals.shape import shape_notes

Rule = Literal["joint", "bonferroni", "none"]
#: Random draws of the largest statistic, and the seed of their generator: equal data give equal intervals.
_DRAWS, _SEED = 10_000, 0
#: Below so many seeds the correlations are unknown and the joint rule gains nothing.
_MIN_SEEDS = 5
#: Differences that vary by less than this share of the values vary by rounding alone.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Family:
    """Differences of methods that are claimed together. All arrays run over the pairs; NaN where there is no number.

    Attributes
    ----------
    pairs : ndarray of int, shape (P, 2)
        Each row (i, j): the value of method i less that of j.
    estimate : ndarray
        Mean differences.
    se, df : ndarray
        Standard error of the estimate and the degrees of freedom of its t distribution.
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
        p-values of each test alone.
    level : float
        Confidence level of all intervals together; of each alone with rule "none".
    rule : {"joint", "bonferroni", "none"}
        What made the limits; where "joint" does not apply it is "bonferroni", and a note says why.
    moderated : bool
        Whether variances were moderated.
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
    design: Design
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Differences with what a t interval needs; arrays of shape (..., P), NaN where a pair has no spread."""

    estimate: np.ndarray
    se: np.ndarray
    df: np.ndarray
    sd: np.ndarray
    n: np.ndarray


def simultaneous(
    values: ArrayLike,
    pairs: ArrayLike,
    *,
    design: Design,
    level: float = 0.95,
    rule: Rule = "joint",
    moderated: bool | Literal["auto"] = "auto",
    weights: ArrayLike | None = None,
) -> Family:
    """Compare pairs of methods with intervals that hold together.

    What is compared are the means over clients in each run, paired on seeds, with a t interval over seeds: clients of
    one run are coupled and no repeats. If `design` splits the same data again and again, the standard error is that of
    the corrected resampled t. If it speaks of new clients while the same took part under every seed, seeds and clients
    are crossed random effects.

    `rule` is how the intervals come to hold together. "bonferroni" gives each pair its share of the error rate: it
    holds for any correlations and any variances. "joint" takes the quantile of the largest of all t statistics, with
    the sample correlations of the contrasts, shrunken towards none as far as few seeds leave them unknown; it is never
    wider. It falls back to "bonferroni" where it is not shown to hold: with moderated variances, below 5 seeds, with
    pairs over different seeds, with seeds and clients crossed. "none" adjusts nothing.

    `moderated` replaces each variance by its weighted mean with a prior that is fitted on all methods of the pairs
    (`method_variances`). "auto" does so for 8 methods or more under the same seeds, three or more, if the data are not
    resplit, no method's errors are constant and their variances fit the prior (p of Kolmogorov and Smirnov at least
    5%); a note says whether, and why not.

    Coverage is measured in ``docs/coverage.md``.

    Parameters
    ----------
    values : array_like, shape (M, S, K)
        Value of each method under each seed at each client, NaN where there is none. A pair uses the clients that both
        methods have under a seed.
    pairs : array_like of int, shape (P, 2)
        Rows (i, j), for the value of method i less that of j; each two methods once.
    design : Design
        How seeds, clients and data belong together.
    level : float
        Confidence level in (0, 1), of all intervals together.
    rule, moderated
        See above.
    weights : array_like, shape (S, K), optional
        Each client's share in the mean of a run, such as its number of samples; by default all are equal.

    Raises
    ------
    ValueError
        If shapes, pairs, level or weights make no sense, a value is infinite, or `design`, `rule` or `moderated` ask
        for what these values do not allow.

    References
    ----------
    Hasler and Hothorn (2008), Multiple contrast tests in the presence of heteroscedasticity, Biometrical Journal 50;
    Schaefer and Strimmer (2005), Statistical Applications in Genetics and Molecular Biology 4, for the shrinkage.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.inference import Design, simultaneous
    >>> rng = np.random.default_rng(0)
    >>> runs = rng.normal(size=(4, 10, 1)) + np.array([2.0, 0.0, 0.0, 0.0])[:, None, None]  # only the first differs
    >>> pairs = [(0, 3), (1, 3), (2, 3)]
    >>> for rule in ("none", "joint", "bonferroni"):
    ...     found = simultaneous(runs, pairs, design=Design(clients="new", data="drawn"), rule=rule, moderated=False)
    ...     print(rule, found.p.round(3), (found.high - found.low)[0].round(2))
    none [0.002 0.052 0.69 ] 1.99
    joint [0.004 0.144 0.97 ] 2.53
    bonferroni [0.005 0.155 1.   ] 2.59
    """
    table, chosen, shares = _checked(values, pairs, level, rule, moderated, weights, design)
    notes: list[str] = []
    runs = _mean_over_clients(table, shares)
    first, second = _common(table, chosen, shares)
    use = False
    if design.crossed:
        found = _crossed(table, chosen)
        notes += _left_out(table, chosen)
        if moderated is True:
            raise ValueError("moderated=True does not go with over='clients'. Use moderated='auto' or False.")
    else:
        methods = np.unique(chosen)
        reason = unmoderated_because(runs[methods], design)
        if moderated is True and reason:
            raise ValueError(f"moderated=True is not possible: {reason}. Use moderated='auto' or False.")
        use = moderated is not False and not reason
        prior = None
        if use:
            fitted = method_variances(runs[methods])
            prior = fitted.of_pairs(np.searchsorted(methods, chosen))
            notes.append(
                f"Variances are moderated by a prior on all methods, worth {float(fitted.prior_df):.3g} degrees of "
                "freedom. This supposes that no method's runs collapse."
            )
        elif moderated == "auto" and len(methods) >= MIN_METHODS:
            notes.append(f"Variances are not moderated: {reason}.")
        found = contrasts(first - second, _largest(first, second), design.test_to_train or 0.0, prior)
    if rule == "joint" and len(chosen) > 1 and (reason := _not_joint(first - second, use, design)):
        rule = "bonferroni"
        notes.append(f"Limits are Bonferroni's, since {reason}.")
    low, high, p, alone = limits(found, level, rule, first - second)
    notes += [*_notes(found, chosen), *shape_notes(first - second)]
    return Family(
        chosen, found.estimate, found.se, found.df, found.sd, found.n, _correlation(first, second), low, high, p, alone,
        level, rule, use, design, tuple(notes),
    )  # fmt: skip


def contrasts(
    differences: np.ndarray,
    scale: np.ndarray,
    test_to_train: float = 0.0,
    prior: tuple[np.ndarray, np.ndarray] | None = None,
) -> Contrasts:
    """Return what t intervals need of differences over seeds.

    Parameters
    ----------
    differences : ndarray, shape (..., P, S)
        One value per pair and seed, NaN where there is none.
    scale : ndarray, shape (..., P)
        Size of the values that were subtracted, by which rounding is told from spread.
    test_to_train : float
        The correction of the resampled t: the variance of the mean is ``(1 / n + test_to_train) s^2``.
    prior : (ndarray, shape (..., P), ndarray, shape (...,)), optional
        Variances that the samples' are moved towards, and the degrees of freedom that this is worth.
    """
    there = ~np.isnan(differences)
    n = there.sum(axis=-1)
    known = np.where(n > 0, n, 1)
    mean = np.where(there, differences, 0.0).sum(axis=-1) / known
    errors = np.where(there, differences - mean[..., None], 0.0)
    df = np.where(n > 1, n - 1.0, np.nan)
    variance = (errors**2).sum(axis=-1) / df
    sd = np.sqrt(variance)
    spread = sd > _ROUNDING * scale
    if prior is not None:
        towards, worth = prior[0], prior[1][..., None]
        variance = (worth * towards + df * variance) / (worth + df)
        df = df + worth
    se = np.sqrt((1 / known + test_to_train) * variance)
    return Contrasts(
        np.where(n > 0, mean, np.nan), np.where(spread, se, np.nan), np.where(spread, df, np.nan), sd, n
    )  # fmt: skip


def limits(
    found: Contrasts, level: float, rule: Rule, differences: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return lower and upper limits, adjusted p-values and p-values of each test alone, each of shape (..., P).

    `differences`, shape (P, S), is needed for the joint rule, which takes no leading axes; all pairs have the same
    seeds.
    """
    from scipy import stats

    t = np.abs(found.estimate) / found.se
    alone = np.asarray(2 * stats.t.sf(t, found.df))
    share = 1 if rule == "none" else found.estimate.shape[-1]
    p = np.minimum(share * alone, 1.0)
    critical = stats.t.isf((1 - level) / 2 / share, found.df)
    if rule == "joint" and differences is not None and (tested := ~np.isnan(found.se)).sum() > 1:
        complete = differences[:, ~np.isnan(differences).any(axis=0)]
        largest = largest_t(complete[tested])
        p = np.minimum(p, np.where(tested, (1 + (largest >= t[:, None]).sum(axis=-1)) / (1 + len(largest)), np.nan))
        # the smallest t at which p, a count over all draws, is below 1 - level
        rank = int(np.ceil((1 - level) * (1 + len(largest)))) - 2
        if rank >= 0:
            critical = np.minimum(critical, np.sort(largest)[::-1][rank])
    return found.estimate - critical * found.se, found.estimate + critical * found.se, p, alone


def largest_t(differences: np.ndarray) -> np.ndarray:
    """Draw the largest absolute t statistic of pairs whose differences are all zero in truth.

    Numerators are normal with the sample correlations, shrunken towards none by the weight of Schaefer and Strimmer,
    ``sum var(r) / sum r^2`` over pairs of contrasts with ``var(r) = (1 - r^2)^2 / (S - 2)``. Denominators are drawn
    independently, which is on the safe side.

    Parameters
    ----------
    differences : ndarray, shape (P, S)
        Complete, each row with spread.

    Returns
    -------
    ndarray, shape (10000,)
    """
    count, seeds = differences.shape
    errors = differences - differences.mean(axis=-1, keepdims=True)
    errors = errors / np.linalg.norm(errors, axis=-1, keepdims=True)
    r2 = np.minimum((errors @ errors.T)[~np.eye(count, dtype=bool)] ** 2, 1.0)
    weight = min(1.0, ((1 - r2) ** 2).sum() / max(seeds - 2, 1) / max(r2.sum(), 1e-300))
    common, own, denominators = _draws(count, seeds)
    z = np.sqrt(1 - weight) * common @ errors.T.astype(np.float32) + np.sqrt(weight) * own
    return np.asarray((np.abs(z) / denominators).max(axis=-1), dtype=float)


@lru_cache(maxsize=1)
def _draws(count: int, seeds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standard normal numbers for seeds and for pairs, and roots of chi-square over its degrees of freedom."""
    rng = np.random.default_rng(_SEED)
    common, own = (rng.standard_normal((_DRAWS, n), dtype=np.float32) for n in (seeds, count))
    gamma = rng.standard_gamma((seeds - 1) / 2, (_DRAWS, count), dtype=np.float32)
    return common, own, np.sqrt(gamma / ((seeds - 1) / 2))


def unmoderated_because(runs: np.ndarray, design: Design) -> str:
    """Return why the variances of these methods are not moderated, in words; "" if they can be; runs (M, S)."""
    if design.data == "resplit":
        return "splits of the same data are correlated"
    if len(runs) < MIN_METHODS:
        return f"a prior on variances needs at least {MIN_METHODS} methods"
    if np.isnan(runs).any():
        return "not all methods ran under the same seeds"
    if runs.shape[1] < 3:
        return "it takes at least 3 seeds"
    errors = runs - runs.mean(axis=1, keepdims=True)
    errors = errors - errors.mean(axis=0)
    if (np.abs(errors).max(axis=1) <= _ROUNDING * np.abs(runs).max()).any():
        return "a method's errors are constant"
    if (fit := float(method_variances(runs).fit)) < MIN_FIT:
        return f"the methods' variances do not fit the prior (p = {fit:.2g})"
    return ""


def _checked(
    values: ArrayLike,
    pairs: ArrayLike,
    level: float,
    rule: Rule,
    moderated: bool | Literal["auto"],
    weights: ArrayLike | None,
    design: Design,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return values, pairs and weights as arrays; refuse what makes no sense."""
    table = np.asarray(values, dtype=float)
    if table.ndim != 3 or 0 in table.shape:
        raise ValueError(f"values must have the shape (methods, seeds, clients), got {table.shape}.")
    if np.isinf(table).any():
        raise ValueError("values must be finite, or NaN where there is none. Leave out runs that diverged.")
    chosen = np.asarray(pairs)
    if chosen.ndim != 2 or chosen.shape[-1] != 2 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise ValueError(f"pairs must be rows (i, j) of two methods' numbers, got {pairs!r}.")
    if chosen.min() < 0 or chosen.max() >= len(table):
        raise ValueError(f"pairs must name methods 0 to {len(table) - 1}, got {chosen.min()} to {chosen.max()}.")
    if (chosen[:, 0] == chosen[:, 1]).any() or len(np.unique(np.sort(chosen), axis=0)) < len(chosen):
        raise ValueError("pairs must be of two different methods, each two once.")
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}. 95% is 0.95.")
    if rule not in get_args(Rule):
        raise ValueError(f"rule must be one of {', '.join(get_args(Rule))}, got {rule!r}.")
    if moderated not in (True, False, "auto"):
        raise ValueError(f"moderated must be True, False or 'auto', got {moderated!r}.")
    if design.crossed and table.shape[2] < 2:
        raise ValueError("over='clients' needs at least 2 clients, got 1. Use over='runs'.")
    if weights is None:
        return table, chosen, None
    if design.crossed:
        raise ValueError("weights do not go with over='clients' and the same clients: leave them out.")
    shares = np.asarray(weights, dtype=float)
    if shares.shape != table.shape[1:]:
        raise ValueError(f"weights must have the shape (seeds, clients) = {table.shape[1:]}, got {shares.shape}.")
    there = ~np.isnan(table).all(axis=0)
    if not (np.isfinite(shares[there]) & (shares[there] >= 0)).all():
        raise ValueError("weights must be finite and not negative wherever a client has a value.")
    shares = np.where(there, shares, 0.0)
    if (shares.sum(axis=1) == 0)[there.any(axis=1)].any():
        raise ValueError("weights must not all be zero under a seed.")
    return table, chosen, shares


def _mean_over_clients(table: np.ndarray, shares: np.ndarray | None) -> np.ndarray:
    """Return the mean of each run over the clients that it has; NaN without any. Clients are the last axis."""
    there = ~np.isnan(table)
    w = there * (1.0 if shares is None else shares)
    total = w.sum(axis=-1)
    sums = np.where(there, table, 0.0)
    sums = (sums * w).sum(axis=-1)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)


def _common(table: np.ndarray, pairs: np.ndarray, shares: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return per pair and seed both methods' means over the clients that both have, each of shape (P, S)."""
    first, second = (np.empty((len(pairs), table.shape[1])) for _ in range(2))
    for row, (i, j) in enumerate(pairs):
        there = ~np.isnan(table[i]) & ~np.isnan(table[j])
        first[row] = _mean_over_clients(np.where(there, table[i], np.nan), shares)
        second[row] = _mean_over_clients(np.where(there, table[j], np.nan), shares)
    return first, second


def _largest(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.maximum(np.abs(first), np.abs(second))).max(axis=-1)


def _crossed(table: np.ndarray, pairs: np.ndarray) -> Contrasts:
    """Return differences with seeds and clients as crossed random effects, over the cells that both methods have."""
    found = np.full((5, len(pairs)), np.nan)
    for row, (i, j) in enumerate(pairs):
        d = _complete(table[i] - table[j])
        found[4, row] = len(d)
        if min(d.shape) > 1:
            mean, se, df = crossed_mean(d)
            found[:4, row] = mean, se, df, d.mean(axis=1).std(ddof=1)
            if not se > _ROUNDING * np.nanmax(np.abs(table[[i, j]])):
                found[1:3, row] = np.nan
        elif d.size:
            found[0, row] = d.mean()
    return Contrasts(found[0], found[1], found[2], found[3], found[4].astype(int))


def _complete(d: np.ndarray) -> np.ndarray:
    """Return the seeds under which there is anything, and of them the clients that are always there."""
    d = d[~np.isnan(d).all(axis=1)]
    return d[:, ~np.isnan(d).any(axis=0)]


def _left_out(table: np.ndarray, pairs: np.ndarray) -> list[str]:
    clients = table.shape[2]
    kept = min(_complete(table[i] - table[j]).shape[1] for i, j in pairs)
    if kept == clients:
        return []
    return [f"Up to {clients - kept} of {clients} clients are left out of a pair: they were absent under some seed."]


def _not_joint(differences: np.ndarray, moderated: bool, design: Design) -> str:
    """Return why the joint rule is not shown to hold, in words; "" where it is; differences (P, S)."""
    if design.crossed:
        return "each pair has degrees of freedom of its own"
    if moderated:
        return "the joint rule is not shown to hold with moderated variances"
    there = ~np.isnan(differences)
    if (there != there[0]).any():
        return "pairs have different seeds"
    return f"the joint rule needs at least {_MIN_SEEDS} seeds" if there[0].sum() < _MIN_SEEDS else ""


def _correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    found = np.full(len(first), np.nan)
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        x, y = np.array([a, b])[:, ~np.isnan(a - b)]
        # the correlation of two points is always 1 or -1
        if len(x) > 2 and min(x.std(), y.std()) > _ROUNDING * max(np.abs(x).max(), np.abs(y).max()):
            found[row] = np.corrcoef(x, y)[0, 1]
    return found


def _notes(found: Contrasts, pairs: np.ndarray) -> list[str]:
    """Say which pairs have no interval, and why."""
    without = np.isnan(found.se)
    none, one = int((found.n == 0).sum()), int((found.n == 1).sum())
    same = int((without & (found.n > 1)).sum())
    notes = []
    if none:
        notes.append(f"{none} of {len(pairs)} pairs have no common seed, hence no difference.")
    if one:
        notes.append(f"{one} of {len(pairs)} pairs have one common seed, hence no interval. Run more seeds.")
    if same:
        notes.append(f"{same} of {len(pairs)} pairs differ by the same amount under all seeds, hence have no interval.")
    return notes

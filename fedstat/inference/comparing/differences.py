"""The tables of a comparison: methods by themselves, differences of pairs, and methods above several controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedstat.inference.comparing.collapse import tabulate_collapses
from fedstat.inference.intervals.design import Design
from fedstat.inference.intervals.family import Family
from fedstat.inference.intervals.family import simultaneous as simultaneous_family
from fedstat.inference.intervals.paired import holm, sign_flip_test
from fedstat.inference.intervals.planning import Goal, detectable_shift
from fedstat.inference.intervals.planning import plan as seeds_for
from fedstat.inference.intervals.skewed import MIN_SEEDS
from fedstat.inference.reading.scores import POSITIVE, Scores

#: The power at which differences count as found.
POWER = 0.8


def tabulate_methods(
    scores: Scores, design: Design, level: float, fallen: np.ndarray | None, skewed: bool
) -> pd.DataFrame:
    """Tabulate the methods, each by itself, with the limits that the design gives its difference to zero."""
    positive = scores.metric.lower() in POSITIVE and not (scores.values < 0).any()
    lowest, highest = (0.0, 1.0) if scores.of_shares else (0.0 if positive else -np.inf, np.inf)
    values = np.append(scores.values, np.zeros_like(scores.values[:1]), axis=0)
    values[[i for i, label in enumerate(scores.methods) if label in scores.missing]] = np.nan
    alone = [(m, len(scores.methods)) for m in range(len(scores.methods))]
    settings: dict[str, Any] = {"design": design, "level": level, "rule": "none", "moderated": False, "skewed": skewed}
    found = simultaneous_family(values, alone, **settings)
    table = pd.DataFrame(
        {"model": scores.models, "mean": found.estimate, "low": np.maximum(found.low, lowest),
         "high": np.minimum(found.high, highest), "sd over seeds": found.sd, "seeds": scores.ran.sum(axis=1)},
        index=list(scores.methods),
    )  # fmt: skip
    if scores.samples is not None and not design.crossed:
        weighted = simultaneous_family(values, alone, weights=scores.samples, **settings)
        table["by samples"], table["low by samples"] = weighted.estimate, np.maximum(weighted.low, lowest)
        table["high by samples"] = np.minimum(weighted.high, highest)
    if fallen is not None:
        table = table.join(tabulate_collapses(scores, fallen, level))
    if scores.missing:
        table["missing"] = [scores.missing.get(label, "") for label in scores.methods]
    return table


def tabulate_differences(
    scores: Scores,
    pairs: Sequence[tuple[int, int]],
    level: float,
    settings: dict[str, Any],
    margin: float | None,
    aim: float | None,
    fallen: np.ndarray | None,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Tabulate the differences of pairs, with intervals that hold together; `fallen` says which runs collapsed.

    `settings` are arguments of `fedstat.inference.simultaneous`: design, rule, moderated and skewed.
    """
    columns = [
        "method", "against", "difference", "low", "high", "correlation", "pairs", "sd", "se", "df", "p (t)",
        "p (sign flips)", "p (adjusted)", "outcome", "detectable", "at most", "seeds needed", "seeds for equivalence",
        "runs apart",
    ]  # fmt: skip
    if not pairs or len(scores.seeds) < 2:
        return pd.DataFrame(columns=columns), ()
    family = simultaneous_family(scores.values, pairs, level=level, **settings)
    for (i, j), n in zip(pairs, family.n, strict=True):
        if n < 2:
            raise ValueError(
                f"{scores.methods[i]} and {scores.methods[j]} have {n} common seeds; pairs need at least 2. Run both "
                "under the same seeds."
            )
    within, notes = np.zeros(len(pairs), bool), list(family.notes)
    if margin is not None:
        # each pair can be wrong on one side alone, at which equivalence is tested: twice the error rate
        inner = simultaneous_family(scores.values, pairs, level=2 * level - 1, **settings)
        within = (-margin < inner.low) & (inner.high < margin)
        if (within & (np.maximum(-family.low, family.high) >= margin)).any():
            at, wider = (f"{100 * of:.4g}%" for of in (2 * level - 1, level))
            notes.append(
                f"Equivalent pairs have limits at {at} within the margin (two one-sided tests); {wider} may leave it."
            )
    outcome = np.select(
        [np.isnan(family.se), within, (family.low > 0) | (family.high < 0)],
        ["no spread", "equivalent", "different"],
        "undecided",
    )
    edge = 1.0 if scores.of_shares else np.inf
    low, high, every = np.maximum(family.low, -edge), np.minimum(family.high, edge), range(len(pairs))
    names, equal = [(scores.methods[i], scores.methods[j]) for i, j in pairs], scores.by_seed()[np.array(pairs)]
    cells = [
        *zip(*names, strict=True), family.estimate, low, high, family.correlation, family.n, family.sd, family.se,
        family.df, family.p_single, [sign_flip_test(*two[:, np.isfinite(two).all(axis=0)]) for two in equal], family.p,
        outcome.astype(object), [detectable(family, k, edge) for k in every], np.maximum(-low, high),
        [_needed(family, k, aim, level, "difference") for k in every],
        [_needed(family, k, margin, level, "equivalence") for k in every], family.apart,
    ]  # fmt: skip
    table = pd.DataFrame(dict(zip(columns, cells, strict=True)), index=[" − ".join(two) for two in names])
    if scores.samples is not None and not family.design.crossed:
        weighted = simultaneous_family(scores.values, pairs, level=level, weights=scores.samples, **settings)
        table["by samples"], table["low by samples"] = weighted.estimate, np.maximum(weighted.low, -edge)
        table["high by samples"] = np.minimum(weighted.high, edge)
    if fallen is not None:
        free = _without_collapses(scores, pairs, family, fallen, settings) if fallen.any() else family
        table["given no collapse"], table["low given no collapse"] = free.estimate, np.maximum(free.low, -edge)
        table["high given no collapse"], table["pairs without collapse"] = np.minimum(free.high, edge), free.n
    return table, (*notes, *_spread_note(table, level))


def tabulate_above(
    scores: Scores, pairs: Sequence[tuple[int, int]], differences: pd.DataFrame, level: float, settings: dict[str, Any]
) -> pd.DataFrame:
    """Ask of each method whether it is better than all controls, with a row for each as in `Comparison.above`.

    The p-value of all is the largest of the one-sided ones, whatever their correlation (Berger 1982, Technometrics 24),
    and is adjusted (Holm) for the number of methods, but not with the rule "none". `differences` are in the order of
    `pairs`, and `settings` are arguments of `fedstat.inference.simultaneous`: design, moderated and rule.
    """
    sign = scores.direction or 1
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


def _without_collapses(
    scores: Scores, pairs: Sequence[tuple[int, int]], family: Family, fallen: np.ndarray, settings: dict[str, Any]
) -> Family:
    """Compare pairs on the seeds under which neither run collapsed; a pair without a collapse keeps its interval."""
    # runs that are left out are gaps, so that variances are not moderated; skewed intervals need enough pairs
    values = np.where(fallen[:, :, None], np.nan, scores.values)
    how: dict[str, Any] = settings | {"level": family.level, "moderated": False}
    free = simultaneous_family(values, pairs, **how | {"skewed": False})
    few = settings["skewed"] and (free.n < MIN_SEEDS).any()
    made = simultaneous_family(values, pairs, **how) if settings["skewed"] and not few else free
    left_out = free.n < family.n
    low, high = (
        np.where(left_out, np.nan if few else ours, whole)
        for ours, whole in ((made.low, family.low), (made.high, family.high))
    )
    return replace(free, low=low, high=high)


def _spread_note(differences: pd.DataFrame, level: float) -> list[str]:
    """Say how far off seeds needed may be, which grow with the square of a spread that few seeds tell roughly."""
    from scipy import stats

    counted = differences[differences["outcome"] == "undecided"]
    counted = counted[np.isfinite(counted["seeds needed"].astype(float))]
    if not len(counted):
        return []
    df = int(counted["pairs"].min()) - 1
    least, most = (df / stats.chi2.ppf(q, df) for q in ((1 + level) / 2, (1 - level) / 2))
    return [
        f"Seeds needed rest on the spread over {df + 1} seeds, whose {100 * level:.4g}% limits allow {least:.1g} to "
        f"{f'{most:.2g}' if most < 100 else 'more than 100'} times as many."
    ]


def detectable(family: Family, k: int, most: float, sides: Literal[1, 2] = 2) -> float:
    """Return the difference at which a pair's interval excludes zero with a power of 80%; inf if it exceeds `most`.

    With one side only the lower limit counts.
    """
    if not np.isfinite(family.se[k]):
        return np.nan
    critical = (family.high[k] - family.low[k]) / 2 / family.se[k]
    # rounded, so that pairs of equal degrees of freedom are counted once
    critical, df = round(float(critical), 10), round(float(family.df[k]), 10)
    found = float(family.se[k]) * detectable_shift(critical, df, POWER, sides)
    return found if found <= most else np.inf


def _needed(family: Family, k: int, margin: float | None, level: float, goal: Goal) -> float:
    """Return the seeds that reach a goal for a pair within `margin`, with a power of 80%; inf if none do."""
    # the spread is that of the pair's own interval; n splits of the same data are worth
    # ``1 / (1 / n + test_to_train)`` independent ones
    if margin is None or not np.isfinite(family.se[k]) or family.design.crossed:
        return np.nan
    count = 1 if family.rule == "none" else len(family.pairs)
    n, shared = int(family.n[k]), family.design.test_to_train or 0.0
    sd = float(family.se[k] / np.sqrt(1 / n + shared))
    needed = seeds_for(sd, margin=margin, level=level, goal=goal, comparisons=count, pilot_seeds=n, power=POWER).seeds
    rest = 1 / needed - shared
    return float(np.ceil(1 / rest)) if rest > 0 else np.inf

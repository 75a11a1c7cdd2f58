"""Ask how often the intervals of `fedstat.inference.simultaneous` hold, all of them together.

Methods are equal in truth, or their true differences are known. The errors of their runs are drawn, in several shapes,
and the intervals of each rule are computed by the functions that the public one is made of. An interval holds if it
contains the true difference; a family holds if all of its intervals do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.inference import clopper_pearson
from fedstat.inference.intervals.crossed import crossed_law, crossed_mean
from fedstat.inference.intervals.family import Contrasts, contrasts, limits
from fedstat.inference.intervals.moderated import MIN_METHODS, method_variances
from fedstat.inference.intervals.shape import shape_p
from simulations.contract import About
from simulations.coverage.hospitals import INTERVALS, LEARNERS, SAMPLES, SPREADS, federations, truth
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "How often intervals hold", "", "", order=110,
    times={"paper": "half an hour of two busy cores"},
)  # fmt: skip
LEVEL = 0.95
#: How errors of runs are distributed, in words.
SHAPES = {
    "normal": "normal with equal variances",
    "unequal": "normal, their standard deviations lognormal (0.5)",
    "noisy control": "normal, three times as large for the control",
    "correlated": "normal, every second method moving against the others",
    "skewed": "lognormal (1), to the left and three times as large, for every second method",
    "ties": "normal, rounded to one standard deviation",
    "clones": "normal, but the second and fourth methods differ from the ones before them by a twentieth of it",
    "one noisy": "normal, 25 times as large for the last method",
    "half noisy": "normal, 25 times as large for every second method",
    "collapses": "normal, but one method collapses by 30 standard deviations in a tenth of its runs",
}
#: How errors are distributed where intervals for skewed runs are tried, in families against the control.
SKEWED = {
    "normal": SHAPES["normal"],
    "lognormal": "lognormal (0.5), to the left and three times as large, for every second method",
    "exponential": "exponential, to the left and three times as large, for every second method",
    "skewed": SHAPES["skewed"],
    "all exponential": "exponential, to the left, for all methods but the control, which has no errors",
}
FAMILIES = {"control": "against the control", "all": "all pairs"}
#: The rules; "default" is what `simultaneous` does if nothing is said.
RULES = {"none": "unadjusted", "bonferroni": "Bonferroni", "default": "default"}
#: The intervals that are tried there, both at Bonferroni's level.
UNION = {"t": "t", "union": "t or bootstrap-t"}
DESIGNS = {
    "plain": "same data resplit: plain t",
    "corrected": "same data resplit: corrected t",
    "over runs": "same clients, other clients meant: t over runs",
    "crossed": "same clients, other clients meant: crossed effects",
    "nested": "new clients for every seed: t over runs",
}


@dataclass(frozen=True)
class Scale:
    """Size of the study; `shift` is the seed."""

    replicates: int
    seeds: tuple[int, ...] = (3, 5, 10)
    methods: tuple[int, ...] = (2, 5, 10, 30)
    shapes: tuple[str, ...] = tuple(SHAPES)
    splits: tuple[int, ...] = (5, 10, 20)
    clients: tuple[int, ...] = (5, 20)
    skewed_seeds: tuple[int, ...] = (8, 10, 20)
    skewed_methods: tuple[int, ...] = (2, 10)
    shift: int = 0


SCALES = {
    "smoke": Scale(
        replicates=20, methods=(2, 5, 10), shapes=("normal", "skewed"), skewed_seeds=(10,), shift=SECOND_LOOK
    ),
    "quick": Scale(replicates=1000, shift=SECOND_LOOK),
    "paper": Scale(replicates=4000),
}


def draw(shape: str, rng: np.random.Generator, replicates: int, methods: int, seeds: int) -> np.ndarray:
    """Draw the errors of runs, each with mean zero; shape (replicates, methods, seeds)."""
    e = rng.standard_normal((replicates, methods, seeds))
    if shape == "unequal":
        e *= np.exp(0.5 * rng.standard_normal((replicates, methods, 1)))
    elif shape == "noisy control":
        e[:, 0] *= 3
    elif shape == "correlated":
        e += rng.standard_normal((replicates, 1, seeds)) * (-1.0) ** np.arange(methods)[:, None]
    elif shape == "lognormal":
        e[:, 1::2] = 3 * (np.exp(0.125) - np.exp(0.5 * e[:, 1::2])) / np.sqrt(np.exp(0.25) * (np.exp(0.25) - 1))
    elif shape == "exponential":
        e[:, 1::2] = 3 * (1 + stats.norm.logsf(e[:, 1::2]))
    elif shape == "all exponential":
        e[:, 1:], e[:, 0] = 1 + stats.norm.logsf(e[:, 1:]), 0
    elif shape == "skewed":
        e[:, 1::2] = 3 * (np.exp(0.5) - np.exp(e[:, 1::2])) / np.sqrt(np.e * (np.e - 1))
    elif shape == "clones":
        e[:, 1:4:2] = e[:, 0:3:2][:, : methods // 2] + 0.05 * e[:, 1:4:2]
    elif shape == "one noisy":
        e[:, -1] *= 25
    elif shape == "half noisy":
        e[:, 1::2] *= 25
    elif shape == "ties":
        e = e.round()
    elif shape == "collapses":
        e[:, -1] += 3 - 30 * (rng.random((replicates, seeds)) < 0.1)
    return e


def pairs_of(family: str, methods: int) -> np.ndarray:
    """Return the pairs of a family, shape (P, 2): all others minus the first, or all."""
    if family == "all":
        return np.argwhere(np.tri(methods, k=-1, dtype=bool))
    others = np.arange(1, methods)
    return np.stack([others, np.zeros_like(others)], axis=1)


def moderable(runs: np.ndarray) -> np.ndarray:
    """Say for which replicates variances are moderated by default, shape (replicates,); runs (replicates, M, S)."""
    if runs.shape[1] < MIN_METHODS:
        return np.zeros(len(runs), dtype=bool)
    errors = runs - runs.mean(axis=2, keepdims=True)
    errors = errors - errors.mean(axis=1, keepdims=True)
    return np.asarray((np.abs(errors).max(axis=2) > 1e-12).all(axis=1))


def cell(scale: Scale, shape: str, family: str, methods: int, seeds: int) -> Tables:
    """Measure all rules in one cell."""
    rng = stream(scale.shift, "coverage", list(SHAPES).index(shape), list(FAMILIES).index(family), methods, seeds)
    runs = draw(shape, rng, scale.replicates, methods, seeds)
    pairs = pairs_of(family, methods)
    first, second = runs[:, pairs[:, 0]], runs[:, pairs[:, 1]]
    differences, size = first - second, np.maximum(np.abs(first), np.abs(second)).max(axis=2)
    plain = contrasts(differences, size)
    found = {rule: limits(plain, LEVEL, rule) for rule in ("none", "bonferroni")}
    sides = {rule: np.stack([both.low, both.high]) for rule, both in found.items()}
    sides["default"] = sides["bonferroni"].copy()
    fits = moderable(runs)
    if fits.any():
        variances, worth = method_variances(runs[fits])
        prior = variances[:, pairs].sum(axis=-1), worth[:, pairs].min(axis=-1)
        moderated = limits(contrasts(differences[fits], size[fits], prior=prior), LEVEL, "bonferroni")
        sides["default"][:, fits] = moderated.low, moderated.high
    place = {"shape": shape, "family": family, "methods": methods, "seeds": seeds}
    own = _widths(sides["bonferroni"])
    rows = [{**place, "rule": rule, **holding(*both), **_beside(_widths(both), own)} for rule, both in sides.items()]
    flagged = (shape_p(differences).min(axis=1) < 0.05 / len(pairs)).mean() if seeds > 3 and shape != "ties" else np.nan
    return {"coverage": pd.DataFrame(rows), "flagged": pd.DataFrame([{**place, "flagged": flagged}])}


def skewed_cell(scale: Scale, shape: str, methods: int, seeds: int) -> Tables:
    """Measure in one cell the interval for skewed runs beside the t interval, both at Bonferroni's level."""
    rng = stream(scale.shift, "skewed", list(SKEWED).index(shape), methods, seeds)
    runs = draw(shape, rng, scale.replicates, methods, seeds)
    pairs = pairs_of("control", methods)
    first, second = runs[:, pairs[:, 0]], runs[:, pairs[:, 1]]
    plain = contrasts(first - second, np.maximum(np.abs(first), np.abs(second)).max(axis=2))
    found = {"t": limits(plain, LEVEL, "bonferroni"), "union": limits(plain, LEVEL, "bonferroni", first - second)}
    sides = {rule: np.stack([both.low, both.high]) for rule, both in found.items()}
    place = {"shape": shape, "methods": methods, "seeds": seeds}
    own = _widths(sides["t"])
    rows = [{**place, "rule": rule, **holding(*both), **_beside(_widths(both), own)} for rule, both in sides.items()]
    return {"skewed": pd.DataFrame(rows)}


def _widths(sides: np.ndarray) -> np.ndarray:
    return np.asarray(sides[1] - sides[0])


def _beside(widths: np.ndarray, own: np.ndarray) -> dict[str, float]:
    """Return the smallest and largest of the pairs' median widths over Bonferroni's of the same pair."""
    ratios = np.nanmedian(np.where(own > 0, widths / np.where(own > 0, own, 1), np.nan), axis=0)
    return {"narrowest": float(ratios.min()), "widest": float(ratios.max())}


def holding(low: np.ndarray, high: np.ndarray) -> dict[str, float]:
    """Count how often all intervals of a family hold zero; low and high (replicates, P), NaN without an interval.

    A pair without an interval claims nothing, so that it cannot be wrong; `without` is their share.
    """
    wrong = (low > 0) | (high < 0)
    families, covered = len(low), int((~wrong.any(axis=1)).sum())
    lowest, highest = clopper_pearson(covered, families)
    known = ~np.isnan(low)
    return {
        "replicates": families,
        "covered": covered,
        "coverage": covered / families,
        "low": lowest,
        "high": highest,
        "each": 1 - wrong[known].mean() if known.any() else np.nan,
        "half_width": float(np.median((high - low)[known] / 2)) if known.any() else np.nan,
        "without": 1 - known.mean(),
    }


def resplits(scale: Scale, splits: int, ratio: float) -> Tables:
    """Compare the mean of the training samples with a fixed guess as predictors, on splits of one set of samples.

    What is to be covered is the true difference in squared error for training sets of that size, 1 / n minus the square
    of the guess's error; `ratio` is test_to_train.
    """
    samples, guess = 120, 0.1
    test = round(samples * ratio / (1 + ratio))
    rng = stream(scale.shift, "resplits", splits, test)
    values = np.empty((scale.replicates, splits))
    for r in range(scale.replicates):
        y = rng.permuted(np.broadcast_to(rng.standard_normal(samples), (splits, samples)), axis=1)
        mean = y[:, test:].mean(axis=1, keepdims=True)
        values[r] = ((y[:, :test] - mean) ** 2 - (y[:, :test] - guess) ** 2).mean(axis=1)
    d = (values - (1 / (samples - test) - guess**2))[:, None]
    place = {"seeds": splits, "clients": 0, "test_to_train": ratio}
    found = {"plain": 0.0, "corrected": test / (samples - test)}
    return {"designs": pd.DataFrame([
        {"design": name, **place, **_alone(contrasts(d, np.ones((len(d), 1)), used))}
        for name, used in found.items()
    ])}  # fmt: skip


def _alone(found: Contrasts) -> dict[str, float]:
    made = limits(found, LEVEL, "none")
    return holding(made.low, made.high)


def crossings(scale: Scale, seeds: int, clients: int) -> Tables:
    """Compare two methods whose difference has a part of the seed (0.5), of the client (1) and of both (1)."""
    rng = stream(scale.shift, "crossings", seeds, clients)
    shape = (scale.replicates, seeds, clients)
    by_seed = 0.5 * rng.standard_normal((scale.replicates, seeds, 1))
    both = rng.standard_normal(shape)
    same = by_seed + rng.standard_normal((scale.replicates, 1, clients)) + both
    new = by_seed + rng.standard_normal(shape) + both
    one = np.ones((scale.replicates, 1))
    found = {
        "over runs": contrasts(same.mean(axis=2)[:, None], one),
        "crossed": _crossed(same),
        "nested": contrasts(new.mean(axis=2)[:, None], one),
    }
    place = {"seeds": seeds, "clients": clients, "test_to_train": 0.0}
    return {"designs": pd.DataFrame([
        {"design": name, **place, **_alone(value)} for name, value in found.items()
    ])}  # fmt: skip


def _crossed(tables: np.ndarray, ratio: float = 0.0) -> Contrasts:
    mean, se, df = (value[:, None] for value in crossed_mean(tables, ratio))
    laws = [crossed_law(table, ratio) for table in tables]
    return Contrasts(mean, se, df, se, np.ones(mean.shape), laws=laws)


def hospitals(scale: Scale, learners: str, spread: float, ratio: float, clients: int) -> Tables:
    """Compare intervals for new clients where the same clients' samples are split anew under every seed."""
    test = round(SAMPLES * ratio / (1 + ratio))
    rng = stream(scale.shift, "hospitals", list(LEARNERS).index(learners), SPREADS.index(spread), test, clients)
    known, rows = truth(rng, scale.replicates, learners, spread, clients, test), []
    for seeds in scale.seeds:
        drawn = federations(rng, scale.replicates, learners, spread, seeds, clients, test)
        d = np.concatenate(list(drawn)) - known
        one = np.ones((len(d), 1))
        found = {
            "over runs": contrasts(d.mean(axis=2)[:, None], one, ratio),
            "crossed": _crossed(d),
            "corrected": _crossed(d, ratio),
        }
        place = {"learners": learners, "spread": spread, "test_to_train": ratio, "clients": clients, "seeds": seeds}
        rows += [{**place, "interval": name, **_alone(value)} for name, value in found.items()]
    return {"hospitals": pd.DataFrame(rows)}


def run(scale: Scale, out: Path) -> Tables:
    """Measure all cells and designs."""
    jobs: list[tuple[str, Callable[[], Tables]]] = []
    # the longest first, so that they do not come last and alone
    for methods in sorted(scale.methods, reverse=True):
        for family in FAMILIES if methods > 2 else ["control"]:
            for seeds in sorted(scale.seeds, reverse=True):
                for shape in scale.shapes:
                    name = f"{shape.replace(' ', '_')}-{family}-{methods}-{seeds}"
                    jobs.append((name, partial(cell, scale, shape, family, methods, seeds)))
    for methods, seeds in product(sorted(scale.skewed_methods, reverse=True), scale.skewed_seeds):
        for shape in SKEWED:
            name = f"skewed-{shape.replace(' ', '_')}-{methods}-{seeds}"
            jobs.append((name, partial(skewed_cell, scale, shape, methods, seeds)))
    for splits in scale.splits:
        for ratio in (0.25, 1.0):
            jobs.append((f"resplits-{splits}-{ratio}", partial(resplits, scale, splits, ratio)))
    for seeds in scale.seeds:
        for clients in scale.clients:
            jobs.append((f"crossings-{seeds}-{clients}", partial(crossings, scale, seeds, clients)))
    for clients in scale.clients:
        for place in product(LEARNERS, SPREADS, (0.25, 1.0)):
            name = "-".join(map(str, (*place, clients))).replace(" ", "_")
            jobs.append((f"hospitals-{name}", partial(hospitals, scale, *place, clients)))
    tables = run_parts([Part(f"coverage-{name}", scale, job) for name, job in jobs], out, "coverage study")
    orders = {"shape": SHAPES | SKEWED, "family": FAMILIES, "rule": RULES | UNION, "design": DESIGNS,
              "learners": LEARNERS, "interval": INTERVALS}  # fmt: skip
    return {key: _sorted(table, orders) for key, table in tables.items()}


def _sorted(table: pd.DataFrame, orders: dict[str, dict[str, str]]) -> pd.DataFrame:
    keys = [
        c
        for c in (
            "shape",
            "family",
            "learners",
            "spread",
            "design",
            "test_to_train",
            "methods",
            "seeds",
            "clients",
            "rule",
            "interval",
        )
        if c in table
    ]
    return table.sort_values(
        keys,
        key=lambda c: c.map({v: i for i, v in enumerate(orders[c.name])}) if c.name in orders else c,
        kind="stable",
    ).reset_index(drop=True)

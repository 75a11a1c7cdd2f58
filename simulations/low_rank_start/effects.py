"""The differences that the study of the low-rank start reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.design import overlap_ratio
from simulations.effects import Effect, Effects, Question, above_all, once
from simulations.low_rank_start.compared import (
    Kind,
    at,
    best_level,
    curves_of,
    inner_level,
    kinds_of,
    levels_of,
    points,
    response,
    runs_of,
    settings_of,
)
from simulations.low_rank_start.runs import CONTROLS, TEST, VALIDATION, Arm

#: The largest difference in accuracy that counts as none, points; fixed before any run.
MARGIN = 1.0
RATES: dict[Kind, str] = {"paper": "at the paper’s rate", "tuned": "at tuned rates"}
CODE, TEXT, OUTPUT = Arm(reading="code"), Arm(reading="text"), Arm(route="output")
LARGEST = "share of the largest class"
#: All digits are dealt and split anew for every seed. Of the images clients draw as many for tests as for training, and
#: two seeds have some 28% of theirs in common.
_RATIOS = {"digits": TEST / (1 - TEST - VALIDATION), "images": overlap_ratio(1, 1, 0.28)}
Pair = tuple[str, str]


@once
def effects(tables: Tables) -> Effects:
    """Return all differences in accuracy; a setting is a data set with a choice of learning rates.

    A run that diverged counts as a guess. What was chosen on other seeds is asked first, the curves follow.
    """
    return Effects(_questions(tables))


def where(setting: str, kind: Kind) -> str:
    """Name a setting."""
    return f"{setting}, {RATES[kind]}"


def step(name: str, setting: str) -> str:
    """Name a step of the dose on a data set."""
    return f"{name} step on {setting}"


def steps(tables: Tables) -> dict[str, Pair]:
    """Return the two steps of the dose from the code's to the text's, in the code's arrangement."""
    none, inner, text = (at(CODE, level).label for level in (0.0, inner_level(tables), 1.0))
    return {"first": (inner, none), "second": (text, inner)}


def candidates(tables: Tables, setting: str) -> dict[str, str]:
    """Return the arms with the chosen dose and with the code's."""
    return {"best": at(CODE, best_level(tables, setting)).label, "default": CODE.label}


def same_dose(tables: Tables, setting: str, curve: Arm) -> dict[float, Pair]:
    """Return by level a curve and the code's by the start, at the paper's rate, where their difference moves at all.

    It does not where both diverged under all seeds, or are the same runs.
    """
    code, other = (response(tables, setting, one, "paper") for one in (CODE, curve))
    pairs = {level: (at(curve, level).label, at(CODE, level).label) for level in levels_of(tables)}
    moved = [level for level in pairs if (other[level] - code[level]).nunique(dropna=False) > 1]
    return {level: pairs[level] for level in moved if pairs[level][0] != pairs[level][1]}


def above_both(tables: Tables, found: Effects) -> list[tuple[str, str]]:
    """Return the data sets and arms, "best" or "default", that are shown to be above Local and FedAvg."""
    kind = kinds_of(tables)[-1]
    asked = {
        (s, name): [found["accuracy", where(s, kind), arm, control] for control in CONTROLS]
        for s in settings_of(tables)
        for name, arm in candidates(tables, s).items()
    }
    p = above_all({str(key): of for key, of in asked.items()})
    return [key for key in asked if p[str(key)] < 0.05]


def over_better(found: Effects, setting: str, arm: str) -> Effect:
    """Return an arm's difference to the better one of the controls."""
    return min((found["accuracy", setting, arm, control] for control in CONTROLS), key=_mean)


def _mean(effect: Effect) -> float:
    return effect.mean


def _questions(tables: Tables) -> Iterator[Question]:
    kinds, every = kinds_of(tables), settings_of(tables)
    for setting in every:
        yield from _of_setting(tables, setting, {kind: _arms(tables, setting, kind) for kind in kinds})
    if len(every) > 1:
        first, last = every[0], every[-1]
        of = {}
        for kind in kinds:
            wide = {s: _arms(tables, s, kind) for s in (first, last)}
            of[where("both data sets", kind)] = pd.DataFrame(
                {step(name, s): wide[s][a] - wide[s][b] for name, (a, b) in steps(tables).items() for s in wide}
            )
        pairs = [(step(name, last), step(name, first)) for name in steps(tables)]
        # the data sets share nothing but the seeds' numbers; the larger overlap counts
        design = _design(max(every, key=lambda s: _design(s).test_to_train or 0.0))
        yield Question("is the response the same", "accuracy", of, dict.fromkeys(of, pairs), design, "points")


def _of_setting(tables: Tables, setting: str, wide: Mapping[Kind, pd.DataFrame]) -> Iterator[Question]:
    """Yield the questions about a data set; a pair is asked about by the first that names it."""
    asked = set[tuple[Kind, frozenset[str]]]()

    def ask(words: str, pairs: Mapping[Kind, Sequence[Pair]]) -> Iterator[Question]:
        of = {k: [p for p in some if p[0] != p[1] and (k, frozenset(p)) not in asked] for k, some in pairs.items()}
        of = {k: list(dict.fromkeys(some)) for k, some in of.items() if some}
        asked.update((k, frozenset(pair)) for k, some in of.items() for pair in some)
        if of:
            values = {where(setting, k): wide[k] for k in of}
            named = {where(setting, k): some for k, some in of.items()}
            yield Question(f"{words} ({setting})", "accuracy", values, named, _design(setting), "points")

    last, some = list(wide)[-1], candidates(tables, setting)
    against = [(arm, control) for arm in some.values() for control in CONTROLS]
    yield from ask("the chosen dose and the code's against Local and FedAvg", {last: against})
    yield from ask("the two readings", {kind: [(at(TEXT, 1.0).label, CODE.label)] for kind in wide})
    yield from ask("steps of the dose", {kind: list(steps(tables).values()) for kind in wide})
    yield from ask("the chosen dose against the code's", {last: [(some["best"], some["default"])]})
    yield from ask("is anything learnt", {last: [(arm, LARGEST) for arm in (*some.values(), *CONTROLS)]})
    for curve, words in ((OUTPUT, "the route to a dose"), (TEXT, "the arrangement at a dose")):
        yield from ask(words, {"paper": list(same_dose(tables, setting, curve).values())})
    for kind in wide:
        for curve in curves_of(kind):
            pairs = [(at(curve, level).label, control) for level in levels_of(tables) for control in CONTROLS]
            yield from ask(f"{curve.reading} by the {curve.route} against Local and FedAvg, {kind}", {kind: pairs})


def _arms(tables: Tables, setting: str, kind: Kind) -> pd.DataFrame:
    """Return accuracies in points by seed and arm, with the share of the largest class; controls are always tuned."""
    arms = {at(curve, level).label: at(curve, level) for curve in curves_of(kind) for level in levels_of(tables)}
    found = {label: points(tables, setting, arm, kind) for label, arm in arms.items()}
    found |= {control: points(tables, setting, Arm(control)) for control in CONTROLS}
    return pd.DataFrame({**found, LARGEST: 100 * runs_of(tables, setting, Arm("Local"))["majority_share"]})


def _design(setting: str) -> Design:
    ratio = _RATIOS["digits" if setting == "digits" else "images"]
    return Design(clients="new", data="resplit", test_to_train=ratio)

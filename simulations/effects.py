"""The table of effects: every difference that a study reports, each pair with one interval.

A study names its questions: which pairs are compared, in which settings, by which metric. Differences that belong to
one question hold together, and their intervals are those that `fedstat.compare` makes with its defaults. Chapters,
figures, findings and the README read them from here.

The design is the one that a user would state. A pool of samples that every seed splits anew into training and test
samples is "resplit". Samples that a generator makes anew for every seed are "drawn"; so is a small part of a very much
larger pool, of which two seeds have hardly a training sample in common. Samples that stay are "fixed".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design, holm, simultaneous
from fedstat.inference.comparing.differences import detectable
from fedstat.inference.intervals.paired import NO_SPREAD
from simulations.estimates import Estimate, missing, undefined
from simulations.names import readable
from simulations.trained import Untrained

LEVEL = 0.95
#: Clients and samples come anew with every seed.
DRAWN = Design(clients="new", data="drawn")
Outcome = Literal["equivalent", "different", "undecided", "undefined"]
#: What the reason ends with where a difference is not judged.
UNTRAINED = "not trained enough"
#: What tells an effect from all others of its study: metric, setting, and the two that are compared.
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Question:
    """Differences that are claimed together.

    Attributes
    ----------
    words : str
        What is asked, such as "each method against Local".
    metric : str
        What is compared, such as "accuracy".
    values : mapping of str to DataFrame
        Results by setting, in the unit that is shown: one row per seed, one column per arm. A setting is named by words
        such as "Dirichlet 0.1"; a study with one setting names it "".
    pairs : mapping of str to sequence of (str, str)
        The pairs by setting: two columns, the first minus the second.
    design : Design
        How seeds, clients and data belong together.
    unit : str
        Such as "points"; empty for a number without a unit.
    """

    words: str
    metric: str
    values: Mapping[str, pd.DataFrame]
    pairs: Mapping[str, Sequence[tuple[str, str]]]
    design: Design
    unit: str = ""


@dataclass(frozen=True)
class Effect:
    """The difference of two arms under one metric in one setting.

    Attributes
    ----------
    metric, setting, first, second, unit : str
        What is compared: the first minus the second.
    mean, low, high : float
        Estimate, and limits that hold together with all others of the question; NaN where there is none.
    inner : (float, float)
        The limits by which an equivalence is judged: each pair can be wrong on one side alone.
    p : float
        Two-sided p-value of this pair alone, that of an interval which need not hold together with others.
    correlation : float
        Correlation of the two arms over seeds.
    could_find : float
        The smallest difference that these intervals find with a power of 80%.
    question : str
        What was asked.
    together : int
        How many intervals of the question hold together.
    design : Design
        How seeds, clients and data belong together.
    seeds : int
        Common seeds.
    why : str
        Why it is undefined; "" if it is defined.
    unjudged : (float, float, float) or None
        The estimate where it is undefined because an arm is not trained enough to be judged.
    """

    metric: str
    setting: str
    first: str
    second: str
    unit: str
    mean: float
    low: float
    high: float
    inner: tuple[float, float]
    p: float
    correlation: float
    could_find: float
    question: str
    together: int
    design: Design
    seeds: int
    why: str = ""
    unjudged: tuple[float, float, float] | None = None

    @property
    def estimate(self) -> Estimate:
        """Mean and limits; undefined with its reason where there are none."""
        return undefined(self.why, self.mean) if self.why else (self.mean, self.low, self.high)

    @property
    def at_most(self) -> float:
        """The largest difference that the limits allow, in either direction."""
        return max(abs(self.low), abs(self.high))

    def outcome(self, margin: float) -> Outcome:
        """Say whether the two are equivalent within a margin that was fixed before, different, or neither is shown."""
        if math.isnan(self.mean):
            return "undefined"
        if math.isnan(self.low):
            return "undecided"
        if -margin < self.inner[0] and self.inner[1] < margin:
            return "equivalent"
        return "different" if self.low > 0 or self.high < 0 else "undecided"

    def turned(self) -> Effect:
        """Return the second minus the first."""
        names = {"first": self.second, "second": self.first}
        sides = {"mean": -self.mean, "low": -self.high, "high": -self.low, "inner": (-self.inner[1], -self.inner[0])}
        if self.unjudged:
            mean, low, high = self.unjudged
            sides["unjudged"] = (-mean, -high, -low)
        return Effect(**{**vars(self), **names, **sides})


class Effects(Mapping[Key, Effect]):
    """All effects of a study by metric, setting, first and second; either order of the two is found.

    Parameters
    ----------
    questions : iterable of Question
        What is asked.
    untrained : mapping of str to mapping of str to str
        Why arms are not trained enough to be judged, by setting and arm: their differences are undefined. None where a
        study does not ask.

    Attributes
    ----------
    untrained
        As given.

    Raises
    ------
    ValueError
        If a pair is asked about twice: it would have two intervals.
    """

    def __init__(self, questions: Iterable[Question], untrained: Untrained | None = None) -> None:
        self._found: dict[Key, Effect] = {}
        self.untrained = untrained
        for question in questions:
            for effect in _answers(question):
                effect = _judged(effect, (untrained or {}).get(effect.setting, {}))
                key = (effect.metric, effect.setting, effect.first, effect.second)
                if key in self:
                    raise ValueError(
                        f"{effect.first} and {effect.second} ({effect.metric}; {effect.setting or 'one setting'}) are "
                        f"compared by two questions, {self[key].question!r} and {effect.question!r}: a pair has one "
                        "interval."
                    )
                self._found[key] = effect

    def __getitem__(self, key: Key) -> Effect:
        metric, setting, first, second = key
        if key in self._found:
            return self._found[key]
        return self._found[metric, setting, second, first].turned()

    def __contains__(self, key: object) -> bool:
        return key in self._found or (isinstance(key, tuple) and (*key[:2], *key[:1:-1]) in self._found)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def among(self, question: str) -> list[Effect]:
        """Return the effects that answer one question, in its order."""
        return [effect for effect in self.values() if effect.question == question]

    def table(self) -> pd.DataFrame:
        """Return one row for each effect."""
        return pd.DataFrame([_row(effect) for effect in self.values()])


def once(effects: Callable[[Tables], Effects]) -> Callable[[Tables], Effects]:
    """Let effects be worked out once for the tables in hand: numbers, findings and figures all ask for them."""
    known: list[tuple[list[pd.DataFrame], Effects]] = []

    @wraps(effects)
    def asked(tables: Tables) -> Effects:
        frames = list(tables.values())
        if not known or list(map(id, known[0][0])) != list(map(id, frames)):
            known[:] = [(frames, effects(tables))]
        return known[0][1]

    return asked


def above_all(of: Mapping[str, Sequence[Effect]]) -> dict[str, float]:
    """Return for each method the p-value of "it exceeds each of its controls", adjusted for the number of methods.

    An intersection-union test: the claim is false if one control is not exceeded, so that the largest one-sided p-value
    counts and controls cost nothing; methods do (Holm).

    Parameters
    ----------
    of : mapping of str to sequence of Effect
        For each method its differences to its controls. A method with an undefined one cannot be shown to exceed all.

    References
    ----------
    Berger (1982), Technometrics 24.
    """
    sides = {
        name: max((e.p / 2 if e.mean > 0 else 1 - e.p / 2) if np.isfinite(e.p) else 1.0 for e in effects)
        for name, effects in of.items()
    }
    adjusted = holm(list(sides.values())) if sides else np.zeros(0)
    return dict(zip(sides, map(float, adjusted), strict=True))


def to_the_better(effects: Iterable[Effect]) -> Effect:
    """Return the difference of a method to the better of its controls; an undefined one if there is any."""
    return min(effects, key=lambda e: -math.inf if math.isnan(e.mean) else e.mean)


def _answers(question: Question) -> Iterator[Effect]:
    """Yield the effects of a question in the order of its pairs."""
    asked = [(setting, *pair) for setting, pairs in question.pairs.items() for pair in pairs]
    why = {(s, a, b): missing(question.values[s][a], question.values[s][b]) for s, a, b in asked}
    whole = [one for one in asked if not why[one]]
    names = list(dict.fromkeys((s, arm) for s, *pair in whole for arm in pair))
    family, inner = None, None
    if whole:
        wide = pd.concat({(s, arm): question.values[s][arm] for s, arm in names}, axis=1)
        values = wide.to_numpy(dtype=float).T[:, :, None]
        places = [(names.index((s, a)), names.index((s, b))) for s, a, b in whole]
        family = simultaneous(values, places, design=question.design, level=LEVEL)
        inner = simultaneous(values, places, design=question.design, level=2 * LEVEL - 1)
    for one in asked:
        if family is None or inner is None or why[one]:
            found = dict.fromkeys(("mean", "low", "high", "p", "correlation", "could_find"), math.nan)
            yield _effect(question, one, len(whole), 0, why[one], inner=(math.nan, math.nan), **found)
            continue
        k = whole.index(one)
        no_limits = NO_SPREAD if family.n[k] > 1 else "one pair has no limits"
        yield _effect(
            question, one, len(whole), int(family.n[k]), no_limits if np.isnan(family.low[k]) else "",
            mean=float(family.estimate[k]), low=float(family.low[k]), high=float(family.high[k]),
            inner=(float(inner.low[k]), float(inner.high[k])), p=float(family.p_single[k]),
            correlation=float(family.correlation[k]), could_find=detectable(family, k, math.inf),
        )  # fmt: skip


def _judged(effect: Effect, untrained: Mapping[str, str]) -> Effect:
    """Return an effect as it is, or undefined where an arm is not trained enough."""
    found = [f"{readable(arm)} ({untrained[arm]})" for arm in (effect.first, effect.second) if arm in untrained]
    if not found or effect.why:
        return effect
    why = f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} {UNTRAINED}"
    nothing: dict[str, Any] = dict.fromkeys(("mean", "low", "high", "p", "could_find"), math.nan)
    seen = (effect.mean, effect.low, effect.high)
    return replace(effect, **nothing, inner=(math.nan, math.nan), why=why, unjudged=seen)


def _effect(question: Question, one: tuple[str, str, str], together: int, seeds: int, why: str, **found: Any) -> Effect:
    setting, first, second = one
    return Effect(
        metric=question.metric, setting=setting, first=first, second=second, unit=question.unit,
        question=question.words, together=together, design=question.design, seeds=seeds, why=why, **found,
    )  # fmt: skip


def _row(effect: Effect) -> dict[str, Any]:
    design = effect.design
    low, high = effect.inner
    seen = dict(zip(("mean", "low", "high"), effect.unjudged or (), strict=False))
    return {
        **{name: value for name, value in vars(effect).items() if name not in ("inner", "design", "unjudged")},
        **seen,
        "equivalence_low": low, "equivalence_high": high, "clients": design.clients, "data": design.data,
    }  # fmt: skip

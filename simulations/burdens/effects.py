"""The differences that the study of burdens reports; limits hold together over the burdens of a kind and rule."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.design import overlap_ratio
from simulations.burdens.compared import (
    CHANCE,
    OF_ALL,
    SHARED,
    alone,
    bearers,
    burdens_of,
    cost,
    has,
    methods_of,
    named,
    points,
    rows_of,
    settings_of,
    without,
)
from simulations.burdens.loads import FAMILIES, NONE, Burden
from simulations.burdens.runs import TEST, VALIDATION
from simulations.effects import Effects, Question, once
from simulations.trained import untrained

ACCURACY, COST = "accuracy", "cost in accuracy"
#: All digits are dealt and split anew for every seed; of 50,000 and 10,000 images two seeds have up to a fifth of the
#: 2,000 test images in common.
_RATIOS = {"digits": TEST / (1 - TEST - VALIDATION), "images": overlap_ratio(2000, 3000, 0.2)}


@once
def effects(tables: Tables) -> Effects:
    """Return all differences, in points; the data sets are the settings."""
    every = settings_of(tables)
    questions = (question for setting in every for question in _questions(tables, setting))
    return Effects(questions, {setting: not_trained(tables, setting) for setting in every})


def not_trained(tables: Tables, setting: str) -> dict[str, str]:
    """Return why what is compared is not trained enough, by columns of `points`.

    Without a burden an arm must exceed its majority share, or chance where its model is one for all, and its curve must
    be level. With a burden low accuracy is the answer and no reason to be silent; a curve that still rises is one; it
    is asked of the arms of a family together.
    """
    plain = [name for name in (*methods_of(tables, setting), "FedNova", "Local") if has(tables, setting, name, NONE)]
    rows = {named(name): rows_of(tables, setting, name) for name in plain}
    wide = {
        of: pd.DataFrame({arm: run[of] for arm, run in rows.items()}) for of in ("accuracy", "majority_share", "gain")
    }
    of_all = [named(name) for name in plain if name in OF_ALL]
    found = untrained(
        100 * wide["accuracy"], 100 * wide["majority_share"], of_all=of_all, chance=CHANCE, gain=wide["gain"]
    )
    for family in FAMILIES:
        arms = [(m, b) for m, b in bearers(tables, setting) if (b.kind, b.rule) == family]
        loaded = {named(*arm): rows_of(tables, setting, *arm) for arm in arms}
        if loaded:
            accuracy, gain = (
                pd.DataFrame({arm: run[of] for arm, run in loaded.items()}) for of in ("accuracy", "gain")
            )
            found |= untrained(100 * accuracy, pd.DataFrame(), gain=gain)
    for method, burden in bearers(tables, setting):
        reasons = [found[arm] for arm in (named(method), named(method, burden)) if arm in found]
        if reasons:
            found |= dict.fromkeys((named(method, burden), cost(method, burden)), reasons[0])
        for column, arm in ((without(method, burden), named(method)), (alone(burden), named("Local"))):
            if arm in found:
                found[column] = found[arm]
    return found


def rule_of(burden: Burden) -> Burden:
    """Return an attack under the plain mean."""
    return Burden(burden.kind, burden.way, burden.dose)


def _questions(tables: Tables, setting: str) -> Iterator[Question]:
    wide = points(tables, setting)
    design = Design(clients="new", data="resplit", test_to_train=_RATIOS["digits" if setting == "digits" else "images"])

    def ask(words: str, pairs: list[tuple[str, str]], metric: str = ACCURACY) -> Iterator[Question]:
        if pairs:
            yield Question(f"{words} ({setting})", metric, {setting: wide}, {setting: pairs}, design, "points")

    every, personal = methods_of(tables, setting), [m for m in methods_of(tables, setting) if m != SHARED]
    plain = [(named(m), named("Local")) for m in every] + [(named(m), named(SHARED)) for m in personal]
    yield from ask("the methods without a burden", plain)
    for kind, rule in FAMILIES:
        borne = [(m, b) for m, b in bearers(tables, setting) if (b.kind, b.rule) == (kind, rule)]
        words = kind if rule == "mean" else f"{kind} by the {rule}"
        yield from ask(f"what {words} costs", [(named(m, b), without(m, b)) for m, b in borne])
        beside = [(cost(m, b), cost(SHARED, b)) for m, b in borne if m != SHARED]
        yield from ask(f"{words}: costs beside {SHARED}’s", beside, COST)
        alike = [(named(m, b), alone(b)) for m, b in borne if m in personal]
        yield from ask(f"{words}: still better than alone", alike)
    helped = [b for b in burdens_of(tables, setting, "robustness") if b.rule != "mean" and b.dose]
    yield from ask(
        "the geometric median under attack", [(named(m, b), named(m, rule_of(b))) for b in helped for m in every]
    )

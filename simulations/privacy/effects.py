"""The differences that the privacy study reports: what attacks recover from messages, in decibels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from simulations.effects import Effects, Question
from simulations.privacy.per_seed import by_seed, rows, several, stages
from simulations.privacy.study import ARMS

OTHERS = tuple(arm for arm in ARMS if arm != "FedAvg")
#: Settings: messages of one step and of several, of trained networks; at the last stage; with the steps repeated.
ONE, LAST, MANY, REPEATED, APART = "one step", "one step, last", "several steps", "steps repeated", "by steps and stage"
#: Every seed deals the same images anew; eight of 360 training images are attacked.
DESIGN = Design(clients="new", data="resplit", test_to_train=8 / 360)


def target(arm: str, attack: str = "guessing") -> str:
    """Name an attack on an arm's messages."""
    return f"{arm}, {attack}"


AVERAGE, MEAN = target("FedAvg"), target("FedAvg", "mean image")


def effects(tables: Tables) -> Effects:
    """Return all differences in PSNR."""
    return Effects(_questions(tables))


def _questions(tables: Tables) -> Iterator[Question]:
    last, many = stages(tables)[-1], several(tables)
    some = rows(tables, steps=many, stage=last)
    held = {
        ONE: _named(rows(tables, steps=1)),
        LAST: _named(rows(tables, steps=1, stage=last)),
        MANY: _named(some),
        REPEATED: _named(some[some["client"].isin(some[some["attack"] == "simulating"]["client"])]),
    }
    held[APART] = pd.DataFrame({"several": held[MANY][AVERAGE], "one": held[LAST][AVERAGE]})
    if len(stages(tables)) > 1:
        early = _named(rows(tables, steps=1, stage=stages(tables)[0]))
        held[APART] = held[APART].assign(late=held[LAST][AVERAGE], early=early[AVERAGE])

    def ask(words: str, setting: str, pairs: Sequence[tuple[str, str]]) -> Iterator[Question]:
        there = [pair for pair in pairs if set(pair) <= set(held[setting])]
        if there:
            yield Question(words, "PSNR", {setting: held[setting]}, {setting: there}, DESIGN, "dB")

    for setting in (ONE, MANY):
        yield from ask(f"guessed, {setting}", setting, [(target(arm), AVERAGE) for arm in OTHERS])
    knows = [target(arm, "knowing") for arm in OTHERS]
    yield from ask("known, minus guessed", ONE, [(a, target(arm)) for a, arm in zip(knows, OTHERS, strict=True)])
    yield from ask("known, minus FedAvg", ONE, [(a, AVERAGE) for a in knows])
    again = target("FedAvg", "simulating")
    yield from ask("steps repeated, minus FedAvg", REPEATED, [(target(arm, "simulating"), again) for arm in OTHERS])
    pairs = [(target(arm, "simulating, knowing"), target(arm, "simulating")) for arm in OTHERS]
    yield from ask("steps repeated, known minus guessed", REPEATED, pairs)
    yield from ask("repeating the steps", REPEATED, [(again, AVERAGE)])
    yield from ask("a random gradient", LAST, [(target("FedAvg", "random gradient"), MEAN)])
    yield from ask("the cosine", LAST, [(target("FedAvg", "cosine"), AVERAGE)])
    for setting in (ONE, MANY):
        yield from ask(f"more than the mean image, {setting}", setting, [(AVERAGE, MEAN)])
    yield from ask("steps and stages", APART, [("several", "one"), ("late", "early")])


def _named(table: pd.DataFrame) -> pd.DataFrame:
    wide = by_seed(table)
    return wide.set_axis([target(*column) for column in wide], axis=1)

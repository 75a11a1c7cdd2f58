"""Differences of arms, paired on seeds, with limits that hold together; and who beats all controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.design import overlap_ratio
from simulations.effects import LEVEL, Effect, Effects, Question, above_all, to_the_better
from simulations.factorized_parts.arms import BASES, SWITCHES
from simulations.factorized_parts.study import DOMAIN_SETTING, SINGLE_SETTING

#: Every seed deals the same images anew. Digits: a quarter for testing, three fifths for training. In domains 1,600
#: training images are drawn beside the 1,000 test images of all seeds, so that two seeds have .48 of theirs in common;
#: one client draws 500 and 500, of which it is .11. At desk scale.
DIGITS = Design(clients="new", data="resplit", test_to_train=0.25 / 0.6)
DOMAINS = Design(clients="new", data="resplit", test_to_train=overlap_ratio(1000, 1600, 0.48))
ONE_CLIENT = Design(clients="new", data="resplit", test_to_train=overlap_ratio(500, 500, 0.11))
ACCURACY, COSINE = "accuracy", "cosine in the last round"
CONTROLS = ("Local", "FedAvg", "FedPer")
AGAINST = [(base, control) for base in BASES for control in CONTROLS]
SWITCHED = "each part of the reading alone"

#: Who is compared with whom on domains, by panel of Figure 7. A form and a control are of the question of all forms.
COMPONENTS = {
    "g": (
        ("beta", "FedAvg"), ("Factorized-FedAvg", "FedAvg"), ("without mu", "Factorized-FedAvg"),
        ("without mu, plain head", "Factorized-FedAvg"), ("three most similar", "beta"),
        ("random three", "three most similar"), ("worst three", "three most similar"),
        ("own domain", "three most similar"),
    ),
    "h": (("rank 2", "beta"), ("rank 4", "beta")),
    "i": (("tau = 0.99", "tau = 0"), ("tau = 0.999", "tau = 0"), ("nobody averaged", "tau = 0")),
    "k": (
        ("beta", "FF x IO"), ("IF x OF", "FF x IO"), ("O x IFF", "FF x IO"), ("beta", "Local"),
        ("beta, second network", "Local, second network"), ("beta, third network", "Local, third network"),
    ),
}  # fmt: skip


#: What is asked of similarities in the last round: words, and the two that are compared.
SIMILARITIES = {
    "u_over_v": ("cosine of u minus that of v, clients of different domains", "u_between", "v_between"),
    "u_domain": ("cosine of u within domains minus that between them", "u_within", "u_between"),
    "v_domain": ("cosine of v within domains minus that between them", "v_within", "v_between"),
}


def per_seed(tables: Tables, setting: str, metric: str = "accuracy") -> pd.DataFrame:
    """Return a metric by seed (rows) and arm (columns), empty if the setting was not run."""
    rows = tables["runs"].query("setting == @setting and metric == @metric")
    return rows.pivot(index="seed", columns="arm", values="value")[list(dict.fromkeys(rows["arm"]))]


def settings(tables: Tables) -> list[str]:
    """Return the settings in which Factorized-FL competes with its controls."""
    return [setting for setting in dict.fromkeys(tables["runs"]["setting"]) if setting != SINGLE_SETTING]


def effects(tables: Tables) -> Effects:
    """Return the differences to the controls, of every switch, panel and model of one client, and of similarities."""
    return Effects(question for question in _questions(tables) if any(question.pairs.values()))


def _questions(tables: Tables) -> Iterator[Question]:
    digits = [setting for setting in settings(tables) if setting != DOMAIN_SETTING]
    switched = [(f"{base}: {name}", base) for base in BASES for name in SWITCHES]
    yield _asked(tables, "the four forms against each control on digits", dict.fromkeys(digits, AGAINST), DIGITS)
    yield _asked(tables, SWITCHED, {cell: switched for cell in digits[:1]}, DIGITS)
    if DOMAIN_SETTING in settings(tables):
        words = "the four forms against each control in domains"
        yield _asked(tables, words, {DOMAIN_SETTING: AGAINST}, DOMAINS)
        for panel, pairs in COMPONENTS.items():
            rest = [pair for pair in pairs if pair not in AGAINST]
            yield _asked(tables, f"Figure 7{panel}", {DOMAIN_SETTING: rest}, DOMAINS)
    models = [(arm, "regular") for arm in per_seed(tables, SINGLE_SETTING) if arm != "regular"]
    yield _asked(tables, SINGLE_SETTING, {SINGLE_SETTING: models}, ONE_CLIENT)
    last = {str(arm): in_the_last_round(rows) for arm, rows in tables["similarity"].groupby("arm", sort=False)}
    asked = [(first, second) for _, first, second in SIMILARITIES.values()]
    yield Question("similarities of u and v", COSINE, last, dict.fromkeys(last, asked), DOMAINS)


def _asked(tables: Tables, words: str, pairs: Mapping[str, Sequence[tuple[str, str]]], design: Design) -> Question:
    """Ask about the pairs whose arms both ran, in points."""
    values = {setting: 100 * per_seed(tables, setting) for setting in pairs}
    known = {s: [pair for pair in some if set(pair) <= set(values[s])] for s, some in pairs.items()}
    return Question(words, ACCURACY, values, known, design, "points")


def in_the_last_round(rows: pd.DataFrame) -> pd.DataFrame:
    """Return an arm's similarities in the last round by seed."""
    return rows[rows["round"] == rows["round"].max()].set_index("seed").select_dtypes("number")


def components(found: Effects) -> dict[str, list[Effect]]:
    """Return the comparisons of each panel of Figure 7 that compares accuracies on domains, as far as they ran."""
    keys = {panel: [(ACCURACY, DOMAIN_SETTING, *pair) for pair in pairs] for panel, pairs in COMPONENTS.items()}
    several = {panel: [found[key] for key in some if key in found] for panel, some in keys.items()}
    return {panel: some for panel, some in several.items() if some}


def against_controls(found: Effects, setting: str) -> dict[str, list[Effect]]:
    """Return Factorized-FL's four forms minus each control that ran in a setting, by form."""
    keys = {base: [(ACCURACY, setting, base, control) for control in CONTROLS] for base in BASES}
    several = {base: [found[key] for key in some if key in found] for base, some in keys.items()}
    return {base: some for base, some in several.items() if some}


@dataclass(frozen=True)
class Lead:
    """A form of Factorized-FL in a setting: its difference to the better control, and whether it is above all of them.

    Attributes
    ----------
    setting : str
        Where.
    effect : Effect
        The form minus the better control.
    controls : tuple of str
        All controls.
    ahead : bool
        Whether it is above each control: an intersection-union test, adjusted for all forms and settings.
    """

    setting: str
    effect: Effect
    controls: tuple[str, ...]
    ahead: bool


def leads(tables: Tables, found: Effects) -> list[Lead]:
    """Return the lead of each form of Factorized-FL in each setting."""
    claims = {(s, base): some for s in settings(tables) for base, some in against_controls(found, s).items()}
    p = above_all({f"{base}, {setting}": some for (setting, base), some in claims.items()})
    return [
        Lead(setting, to_the_better(some), tuple(e.second for e in some), p[f"{base}, {setting}"] < 1 - LEVEL)
        for (setting, base), some in claims.items()
    ]

"""FS-41: whether it matters which units are shared.

FS-41c: static FedFac nearly equals the true split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from fedstat._tables import Tables
from fedstat.claims import Claim, Evidence, Studies, all_of
from fedstat.inference import plan
from simulations.decompositions import effects as decompositions
from simulations.effects import Effects
from simulations.split import effects as split
from simulations.split.effects import MARGIN
from theory_checks.fedsplit.split_design import (
    CONFIRMED,
    DESIGN,
    INFINITY,
    as_written,
    exceeds,
    in_words,
    judged,
    nearly_equal,
    points,
    settings,
)

#: What the paper leaves open, by the arms of the study.
DYNAMIC = {
    "of the clients' weights": "dynamic",
    "of weights as the authors' code has it": "dynamic, code",
    "of the clients' changes": "dynamic, updates",
}
RANDOM = {"in every round": "random, every round", "once": "random, once", "for each client": "random, per client"}


def _nearly_equal(found: Effects, tables: Tables, arms: Sequence[str]) -> list[Evidence]:
    """Equivalence with the true split in every setting, in percentage points."""
    parts = []
    for setting in settings(tables):
        table = points(tables, setting)
        for arm in arms:
            effect, needed = found["accuracy", in_words(setting), arm, "true"], "no spread between seeds"
            if not effect.why:
                spread = table[arm] - table["true"]
                seeds = plan(spread, margin=MARGIN, goal="equivalence", comparisons=effect.together).seeds
                needed = f"{seeds} seeds needed, {effect.seeds} there"
            parts.append(nearly_equal(effect, note=f"; {needed}"))
    return parts


def _figure_6(found: Effects, tables: Tables, random: str, dynamic: str = "dynamic", much: float = MARGIN) -> Evidence:
    """Static and dynamic nearly equal to the true split, and the random one worse by more than `much` points."""
    equal = _nearly_equal(found, tables, ("static", dynamic))
    return all_of([*equal, *exceeds(found, tables, random, ("true",), (-INFINITY, -much))])


def _in_split(tables: Tables, random: str, dynamic: str = "dynamic", much: float = MARGIN) -> Evidence:
    return _figure_6(split.effects(tables), tables, random, dynamic, much)


def _in_decompositions(studies: Studies, dynamic: str) -> Evidence:
    found = decompositions.effects(studies["decompositions"])
    return _figure_6(found, as_written(studies), "random, every round", dynamic)


def _shifted(tables: Tables, arm: str, by: float) -> Tables:
    """Return the tables with one arm's accuracies moved."""
    rows = tables["accuracy"].copy()
    rows.loc[(rows["arm"] == arm) & (rows["metric"] == "accuracy"), "value"] += by
    return {**tables, "accuracy": rows}


_SEES = "a difference of the margin, with a probability of 80% if there are as many seeds as stand as needed"

FS41 = Claim(
    id="FS-41",
    place="section 4.3.2, first paragraph, third sentence, and Figure 6",
    said_by="paper",
    words="The true, oracle, static and dynamic splits are nearly equal in accuracy, a random split is much worse.",
    statement='A_"true" approx A_"oracle" approx A_"static" approx A_"dynamic" >> A_"random"',
    severity="unstated condition",
    assumptions=f"'nearly equal' is equivalence within {MARGIN:g} points, and 'much worse' is worse by more than "
    "that; that the oracle's split and one random draw have the true split's law is a theorem and not tested. The "
    "paper says 'weights or gradients' of the analysis, and 'by random guess' of the random split, so that no "
    "combination is nearest; " + DESIGN,
    sensitivity=_SEES,
    flaw="Hidden units start exchangeable, so a split that is drawn once has one law whichever units it names; "
    "only a split that keeps changing can be worse, and equality is no evidence for factor analysis.",
    corrected="FS-41c",
    nearest=False,
)


def _reading(random: str, dynamic: str) -> Callable[[Studies], Evidence]:
    def check(studies: Studies) -> Evidence:
        return _in_split(studies["split"], random, dynamic)

    return check


for (_analysis, _dynamic), (_when, _random) in product(DYNAMIC.items(), RANDOM.items()):
    FS41.reading(f"dynamic analysis {_analysis}, random split drawn {_when}")(_reading(_random, _dynamic))


@FS41.reading(
    "dynamic analysis of the clients' weights, random split drawn in every round, 'much worse' read as worse at all"
)
def worse_at_all(studies: Studies) -> Evidence:
    return _in_split(studies["split"], "random, every round", much=0.0)


@FS41.reading("output weights as written: dynamic analysis of the clients' weights, random split drawn in every round")
def written(studies: Studies) -> Evidence:
    return _in_decompositions(studies, "dynamic")


@FS41.reading(
    "output weights as written: dynamic analysis of weights as the authors' code has it, random split drawn in every "
    "round"
)
def written_code(studies: Studies) -> Evidence:
    return _in_decompositions(studies, "dynamic, code")


@FS41.mutant("FedAvg in the place of the random split, static FedFac five points worse than it is")
def five_points_worse(studies: Studies) -> Evidence:
    return _in_split(_shifted(studies["split"], "static", -0.05), "FedAvg")


@FS41.control("FedAvg in the place of the random split")
def fedavg(studies: Studies) -> Evidence:
    return _in_split(studies["split"], "FedAvg")


@FS41.control("units identified by their start: the complement of the true split in the place of the random one")
def complement(studies: Studies) -> Evidence:
    """Ask that it is worse by a point and more, where networks start at the truth plus least noise."""
    tables = studies["decompositions"]
    found, cells = decompositions.effects(tables), decompositions.control_cells(tables)
    least = min(noise for *_, noise in cells)
    places = [decompositions.in_words(cell) for cell in cells if cell[-1] == least]
    return all_of(
        [
            judged(
                found["accuracy", place, "complement", "true"], (-INFINITY, -1.0), where=f"{place}, units identified"
            )
            for place in places
        ]
    )


def _corrected_figure_6(tables: Tables, arm: str) -> Evidence:
    """The arm nearly equal to the true split, and a split drawn anew in every round worse."""
    found = split.effects(tables)
    equal = _nearly_equal(found, tables, (arm,))
    return all_of([*equal, *exceeds(found, tables, "random, every round", ("true",), (-INFINITY, 0.0))])


FS41C = Claim(
    id="FS-41c",
    place="corrected statement of FS-41",
    said_by="fedstat",
    words="Static FedFac nearly equals the true split; a split drawn anew in every round is worse.",
    statement='A_"true" approx A_"static" > A_"random in every round"',
    severity="false",
    assumptions=f"'nearly equal' is equivalence within {MARGIN:g} points, "
    "and 'worse' is worse at all; which units a fixed split names cannot matter, so this says nothing of factor "
    "analysis; " + DESIGN + "; " + CONFIRMED,
    sensitivity=_SEES,
)


@FS41C.reading("all settings of Figure 6")
def all_settings(studies: Studies) -> Evidence:
    return _corrected_figure_6(studies["split"], "static")


@FS41C.mutant("dynamic FedFac by changes in the place of the static version")
def by_changes(studies: Studies) -> Evidence:
    return _corrected_figure_6(studies["split"], "dynamic, updates")

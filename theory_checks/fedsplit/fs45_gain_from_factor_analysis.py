"""FS-45: whether FedFac's gain is due to factor analysis.

FS-45c: static FedFac is as accurate as a split drawn once.
"""

from __future__ import annotations

from itertools import chain, product

import pandas as pd

from fedstat._tables import Tables
from fedstat.claims import Claim, Evidence, Studies, all_of, both, missing, within
from fedstat.inference import equivalence, paired_difference
from simulations.agreement import effects as agreement
from simulations.agreement.study import places_of
from simulations.effects import Effects
from simulations.fedfac import effects as fedfac
from simulations.fedfac.per_seed import groups, settings_of
from simulations.split.effects import MARGIN
from theory_checks.fedsplit.split_design import DESIGN, INFINITY, in_words, judged, points, settings

#: Accuracies in percentage points, one row per seed and one column per arm, by a setting in words.
Settings = dict[str, pd.DataFrame]
#: The margin on real images, in points.
ON_IMAGES = 1.0


def _more(found: Settings, arm: str, others: tuple[str, ...]) -> Evidence:
    """The arm's accuracy exceeds the others' by more than the margin, in every setting."""
    level, parts = 1 - 0.05 / (len(others) * len(found)), []
    for where, table in found.items():
        for other in others:
            d = paired_difference(table[arm], table[other], level=level)
            what = f"{arm} − {other} at {where} (points)"
            parts.append(within(d.low, d.high, (MARGIN, INFINITY), cases=d.n, what=what, level=level))
    return all_of(parts)


def _random_start(studies: Studies) -> Settings:
    """Return Figure 6's settings on the generator, where networks start at random."""
    tables = studies["split"]
    return {in_words(setting): points(tables, setting) for setting in settings(tables)}


def _start(studies: Studies, start: str) -> Evidence:
    """Judge the communality's units where networks start at the generator's parameters plus noise."""
    tables = studies["agreement"]
    found = agreement.effects(tables)
    places = [agreement.started(at, p, a) for p, a, _, at in places_of(tables["accuracy"]) if at == start]
    each = [found["accuracy", place, "communality", "random"] for place in places]
    return all_of([judged(effect, (MARGIN, INFINITY)) for effect in each])


def _images(studies: Studies, arm: str, others: tuple[str, ...]) -> Evidence:
    """Judge real images by the study's own intervals, where both arms have learnt enough to be compared."""
    try:
        tables = studies["fedfac"]
    except FileNotFoundError:
        return missing("the tables of the study fedfac, which python -m simulations fedfac makes")
    untrained, parts = dict[str, dict[str, str]](), []
    for group in groups(tables):
        every = [fedfac.not_trained(tables, setting) for setting in settings_of(tables, group)]
        untrained[fedfac.over(tables, group)] = dict(chain.from_iterable(each.items() for each in every))
    found = Effects((fedfac.splits(tables, group) for group in groups(tables)), untrained)
    for place, other in product(untrained, others):
        effect = found["accuracy", place, arm, other]
        enough = missing(f"runs in which all have learnt enough; at {place} {effect.why}")
        parts.append(enough if effect.unjudged else judged(effect, (ON_IMAGES, INFINITY)))
    return both(*parts)


FS45 = Claim(
    id="FS-45",
    place="section 5.5, last sentence ('which verifies the usefulness of factor analysis'), and Table 2",
    said_by="paper",
    words="What FedFac gains over FedPer, or over a given split of layers, is due to factor analysis.",
    statement='A_"FedFac" - A_"random split of the same size" > epsilon',
    severity="false",
    assumptions="what is due to factor analysis is lost where as many units are drawn at random. ε is "
    f"{MARGIN:g} points on the generator, {ON_IMAGES:g} point on images, where small networks train for 20 rounds. An "
    "arm that does not exceed the share of each client's most frequent class has not learnt enough and is not judged. "
    "Where a network starts at random, fixed splits that are chosen without looking at its weights have one law "
    "whichever units they name (FS-41); FedFac looks at weights, which is why this is measured. Networks that start at "
    "the true parameters plus noise can gain; no user has such a start",
    sensitivity="the half-widths of the intervals, some tenths of a point on the generator",
    flaw="Hidden units start exchangeable, so which of them a fixed split names does not matter; how many of them, and "
    "in which layers, does.",
    corrected="FS-45c",
)


@FS45.reading("images, static FedFac against a random split of the same size, drawn once")
def images_static(studies: Studies) -> Evidence:
    return _images(studies, "FedFac static", ("random split",))


@FS45.reading("images, dynamic FedFac against a random split of the same size, drawn once")
def images_dynamic(studies: Studies) -> Evidence:
    return _images(studies, "FedFac dynamic", ("random split",))


@FS45.reading("images, the authors' code against a random split of the same size, drawn once")
def images_code(studies: Studies) -> Evidence:
    return _images(studies, "FedFac code", ("random split",))


@FS45.reading("images, static FedFac against FedPer and against a random split of the same size", natural=False)
def images_fedper(studies: Studies) -> Evidence:
    return _images(studies, "FedFac static", ("FedPer", "random split"))


@FS45.reading("the generator, networks that start at random: static FedFac against a split drawn once")
def random_start(studies: Studies) -> Evidence:
    return _more(_random_start(studies), "static", ("random, once",))


@FS45.reading(
    "the generator, every client's network starts near its own true parameters: the communality's units against as "
    "many drawn once",
    natural=False,
)
def own_start(studies: Studies) -> Evidence:
    return _start(studies, "own")


@FS45.reading(
    "the generator, all networks start near the mean of the true parameters: the communality's units against as many "
    "drawn once",
    natural=False,
)
def common_start(studies: Studies) -> Evidence:
    return _start(studies, "common")


def _moved(found: Settings, arm: str, by: float) -> Settings:
    return {where: table.assign(**{arm: table[arm] + by}) for where, table in found.items()}


@FS45.control("static FedFac five points better than it is")
def five_points_better(studies: Studies) -> Evidence:
    return _more(_moved(_random_start(studies), "static", 5), "static", ("random, once",))


def _equal(tables: Tables, arm: str) -> Evidence:
    """Equivalence of the arm with a split drawn once, in every setting of Figure 6: an intersection-union test."""
    parts = []
    for setting in settings(tables):
        table = points(tables, setting)
        e = equivalence(table[arm], table["random, once"], margin=MARGIN)
        what = f"{arm} − random, once at {in_words(setting)} (points)"
        parts.append(within(e.low, e.high, (-e.margin, e.margin), cases=e.n, what=what, level=0.9))
    return all_of(parts)


FS45C = Claim(
    id="FS-45c",
    place="corrected statement of FS-45",
    said_by="fedstat",
    words="Where networks start at random, static FedFac is as accurate as a split of the same size drawn once.",
    statement='abs(A_"static" - A_"random, once") < epsilon',
    severity="false",
    assumptions="on the generator, in the settings of Figure 6, judged within ε by two one-sided tests. " + DESIGN,
    sensitivity="a difference of the margin",
)


@FS45C.reading("all settings of Figure 6")
def all_settings(studies: Studies) -> Evidence:
    return _equal(studies["split"], "static")


@FS45C.mutant("dynamic FedFac by changes in the place of the static version")
def by_changes(studies: Studies) -> Evidence:
    return _equal(studies["split"], "dynamic, updates")

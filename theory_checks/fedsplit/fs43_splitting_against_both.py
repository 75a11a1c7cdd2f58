"""FS-43: whether splitting beats both FedAvg and local training."""

from __future__ import annotations

from collections.abc import Sequence

from fedstat._tables import Tables
from fedstat.claims import Claim, Evidence, Studies, all_of
from simulations.decompositions import effects as decompositions
from simulations.effects import Effects
from simulations.split import effects as split
from theory_checks.fedsplit.split_design import DESIGN, as_written, exceeds

BOTH = ("FedAvg", "Local")


def _beats(studies: Studies, arm: str, others: Sequence[str] = BOTH) -> Evidence:
    """The arm's accuracy exceeds the others', in every setting."""
    return _ahead(split.effects(studies["split"]), studies["split"], arm, others)


def _ahead(found: Effects, tables: Tables, arm: str, others: Sequence[str]) -> Evidence:
    return all_of(exceeds(found, tables, arm, others))


FS43 = Claim(
    id="FS-43",
    place="a question to the design of section 4.3, which compares five splits and nothing else",
    said_by="fedstat",
    words="In this design splitting beats both FedAvg and purely local training.",
    statement='A_"split" > max(A_"FedAvg", A_"Local")',
    severity="false",
    assumptions=DESIGN,
    sensitivity="the half-widths of the intervals, a few tenths of a point",
)


@FS43.reading("the true split")
def true_split(studies: Studies) -> Evidence:
    return _beats(studies, "true")


@FS43.reading("static FedFac")
def static(studies: Studies) -> Evidence:
    return _beats(studies, "static")


@FS43.reading("dynamic FedFac")
def dynamic(studies: Studies) -> Evidence:
    return _beats(studies, "dynamic")


@FS43.reading("dynamic FedFac, the authors' code")
def dynamic_code(studies: Studies) -> Evidence:
    return _beats(studies, "dynamic, code")


@FS43.reading("the true split, output weights as written")
def written(studies: Studies) -> Evidence:
    return _ahead(decompositions.effects(studies["decompositions"]), as_written(studies), "true", BOTH)


@FS43.reading("the true split, against FedAvg alone", natural=False)
def fedavg_alone(studies: Studies) -> Evidence:
    return _beats(studies, "true", ("FedAvg",))

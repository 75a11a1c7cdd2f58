"""FS-43: splitting against FedAvg and local training."""

from __future__ import annotations

from collections.abc import Sequence

from fedstat._tables import Tables
from fedstat.claims import Claim, Evidence, Studies, all_of
from theory_checks.fedsplit.split_design import DESIGN, INFINITY, as_written, differences, settings


def _beats(studies: Studies, arm: str, others: Sequence[str] = ("FedAvg", "Local")) -> Evidence:
    """The arm's accuracy exceeds the others', in every setting."""
    return _ahead(studies["split"], arm, others)


def _ahead(tables: Tables, arm: str, others: Sequence[str]) -> Evidence:
    comparisons = len(others) * len(settings(tables))
    return all_of(differences(tables, arm, others, lambda _: (0.0, INFINITY), comparisons))


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
    return _ahead(as_written(studies), "true", ("FedAvg", "Local"))


@FS43.reading("the true split, against FedAvg alone", natural=False)
def fedavg_alone(studies: Studies) -> Evidence:
    return _beats(studies, "true", ("FedAvg",))


@FS43.mutant("FedAvg against the true split")
def swapped(studies: Studies) -> Evidence:
    return _beats(studies, "FedAvg", ("true",))

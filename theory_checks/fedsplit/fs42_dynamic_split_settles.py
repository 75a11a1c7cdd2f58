"""FS-42: the dynamic split settles if it follows the weights.

FS-42c: splits by weights agree from round to round.
"""

from __future__ import annotations

import pandas as pd

from fedstat._tables import Tables
from fedstat.claims import Claim, Evidence, Studies, all_of, within
from fedstat.inference import mean_interval
from simulations.stability.study import settled
from theory_checks.fedsplit.split_design import CONFIRMED, DESIGN, INFINITY, as_written, settings

#: "Nearly all" units: at least this share.
NEARLY_ALL = 0.95
#: Agreement beyond chance that is called almost perfect.
ALMOST_PERFECT = 0.8


def _stable(tables: Tables, arm: str, measure: str, at_least: float) -> Evidence:
    """Judge the late agreement of consecutive splits, in every setting."""
    agreement = tables["agreement"]
    late = settled(agreement[agreement["samples"] == settings(tables)[0][2]], measure)
    return _at_least(late, arm, measure, at_least)


def _at_least(late: pd.DataFrame, arm: str, measure: str, at_least: float) -> Evidence:
    groups = list(late.query("arm == @arm").groupby(["p", "alpha"])[measure])
    level = 1 - 0.05 / len(groups)
    parts = []
    for (p, alpha), values in groups:
        _, low, high = mean_interval(values, level)
        name = "Cohen's κ" if measure == "kappa" else "share of units keeping their state"
        what = f"{arm}: {name} at p = {p:g}, α = {alpha:g}"
        parts.append(within(low, high, (at_least, INFINITY), cases=len(values), what=what, level=level))
    return all_of(parts)


def _kept(studies: Studies, arm: str) -> Evidence:
    return _stable(studies["split"], arm, "agreement", NEARLY_ALL)


FS42 = Claim(
    id="FS-42",
    place="section 4.3.2, second paragraph, seventh sentence, and Figure 7",
    said_by="paper",
    words="Under dynamic FedFac nearly all units reach their final state: late in training 95% keep it.",
    statement=f'1/m abs({{j : zeta_j (t) = zeta_j (t-1)}}) >= {NEARLY_ALL} " late in training"',
    severity="unstated condition",
    assumptions="'nearly all' is 95% of the units, 'late' the last ten rounds; the paper analyses the intermediate "
    "updates, 'weights or gradients'; " + DESIGN,
    sensitivity="the half-widths of the intervals, one to two points",
    flaw="The changes of one round are mostly noise, and so is a split by them. Weights carry the past with "
    "them, and a split by weights settles.",
    corrected="FS-42c",
)


@FS42.reading("factor analysis of the clients' changes")
def changes(studies: Studies) -> Evidence:
    return _kept(studies, "dynamic, updates")


@FS42.reading("factor analysis of the clients' weights")
def weights(studies: Studies) -> Evidence:
    return _kept(studies, "dynamic")


@FS42.reading("the authors' code, eigenvectors of the clients' weights")
def code(studies: Studies) -> Evidence:
    return _kept(studies, "dynamic, code")


@FS42.reading("output weights as written, factor analysis of the clients' weights")
def weights_as_written(studies: Studies) -> Evidence:
    return _at_least(as_written(studies)["late"], "dynamic", "agreement", NEARLY_ALL)


@FS42.reading("output weights as written, the authors' code, eigenvectors of the clients' weights")
def code_as_written(studies: Studies) -> Evidence:
    return _at_least(as_written(studies)["late"], "dynamic, code", "agreement", NEARLY_ALL)


@FS42.mutant("a random split in every round")
def random(studies: Studies) -> Evidence:
    return _kept(studies, "random, every round")


@FS42.control("a split that never changes")
def never_changes(studies: Studies) -> Evidence:
    tables = studies["split"]
    unchanged = {**tables, "agreement": tables["agreement"].assign(agreement=1.0)}
    return _stable(unchanged, "dynamic, updates", "agreement", NEARLY_ALL)


FS42C = Claim(
    id="FS-42c",
    place="corrected statement of FS-42",
    said_by="fedstat",
    words="With factor analysis of weights consecutive splits agree almost perfectly beyond chance (Cohen's κ ≥ 0.8).",
    statement=f'kappa(zeta(t), zeta(t-1)) >= {ALMOST_PERFECT} " late in training, for splits by weights"',
    severity="false",
    assumptions="0.8 is the customary bound for almost perfect agreement (Landis and Koch 1977); " + CONFIRMED,
    sensitivity="the half-widths of the intervals, a few hundredths",
)


@FS42C.reading("factor analysis of the clients' weights")
def beyond_chance(studies: Studies) -> Evidence:
    return _stable(studies["split"], "dynamic", "kappa", ALMOST_PERFECT)


@FS42C.mutant("factor analysis of the clients' changes")
def changes_beyond_chance(studies: Studies) -> Evidence:
    return _stable(studies["split"], "dynamic, updates", "kappa", ALMOST_PERFECT)

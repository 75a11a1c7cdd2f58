"""The differences that the agreement study reports."""

from __future__ import annotations

import pandas as pd

from fedstat._tables import Tables
from simulations.agreement.study import ARMS, KAPPA, PER_KAPPA, per_seed, places_of
from simulations.effects import DRAWN, Effects, Question
from simulations.showing import setting

#: Statistics whose units are compared with as many drawn once, and the text's statistic with the authors'.
PAIRS = (("communality", "random"), ("eigenvectors", "random"), ("communality", "eigenvectors"))
#: By question what each other arm is compared with.
REFERENCES = {"each arm against the true units": "true", "each arm against Local": "Local"}


def effects(tables: Tables) -> Effects:
    """Return AUC of the communality minus that of the eigenvectors, and accuracy under the units found.

    An arm is compared with the true units, with Local, and statistics with a random choice and each other: these are
    three questions, over all settings and starts.
    """
    accuracy = {
        started(start, p, alpha): 100 * per_seed(tables, p, alpha, n, start)
        for p, alpha, n, start in places_of(tables["accuracy"])
    }
    truth = tables["truth"]
    by_contribution = {f"contribution {kappa:g}": _auc(truth, kappa) for kappa in contributions(truth)}
    asked = {
        words: [(arm, reference) for arm in ARMS if arm not in (reference, "true")]
        for words, reference in REFERENCES.items()
    }
    asked["statistics against a random choice and each other"] = list(PAIRS)
    return Effects(
        [
            Question(
                "communality against eigenvectors on true parameters", "AUC", by_contribution,
                {where: [("communality", "eigenvectors")] for where in by_contribution}, DRAWN,
            ),
            *(
                Question(words, "accuracy", accuracy, dict.fromkeys(accuracy, pairs), DRAWN, "points")
                for words, pairs in asked.items()
            ),
        ]
    )  # fmt: skip


def started(start: str, p: float, alpha: float) -> str:
    """Name where networks start, and a setting of the generator."""
    return f"{start} start, {setting(p, alpha)}"


def contributions(truth: pd.DataFrame) -> list[float]:
    """Return the contributions at which true parameters are analysed."""
    return sorted(truth["kappa"].dropna().unique())


def of_statistic(truth: pd.DataFrame, statistic: str, parameters: str, kappa: float = KAPPA) -> pd.DataFrame:
    """Choose the rows of a statistic, of those that depend on the contribution at one of them."""
    rows = truth[(truth["statistic"] == statistic) & (truth["parameters"] == parameters)]
    return rows if statistic == "agreement" else rows[rows["kappa"] == kappa]


def _auc(truth: pd.DataFrame, kappa: float) -> pd.DataFrame:
    """Return the mean AUC over settings of the statistics that depend on the contribution, by seed."""
    by_name = {name: of_statistic(truth, name, "true", kappa).groupby("seed")["auc"] for name in PER_KAPPA}
    return pd.DataFrame({name: groups.mean(skipna=False) for name, groups in by_name.items()})

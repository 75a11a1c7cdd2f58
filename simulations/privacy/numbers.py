"""What the privacy study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.estimates import difference_of, mean_of, times
from simulations.privacy.per_seed import FOUND, How, by_seed, joint, rows, several, stages
from simulations.privacy.pictures import figures
from simulations.privacy.study import ARMS
from simulations.published import printed
from simulations.showing import fixed, rounded

__all__ = ["figures", "findings", "numbers"]

OTHERS = tuple(arm for arm in ARMS if arm != "FedAvg")
#: What a smooth network's gradient must give away at least, in decibels.
RECOVERED = 30.0
_FAMILY = "limits hold together over four"
_ALL = (-np.inf, np.inf)
_RANGES = {"psnr": _ALL, "printed": _ALL, "most": _ALL, "most_printed": _ALL, "ssim": (-1.0, 1.0)}
#: The rows of the tables: arm, attack, and what they are called.
_ROWS = (
    *((arm, "guessing", arm, "guesses") for arm in ARMS),
    *((arm, "knowing", arm, "knows") for arm in OTHERS),
    *((arm, "simulating", f"{arm}, steps repeated", "guesses") for arm in ARMS),
    *((arm, "simulating, knowing", f"{arm}, steps repeated", "knows") for arm in OTHERS),
    ("FedAvg", "cosine", "FedAvg, by the cosine", "guesses"),
    ("FedAvg", "random gradient", "a random gradient", "–"),
    ("FedAvg", "another image", "another client’s image", "–"),
    ("FedAvg", "mean image", "the others’ mean image", "–"),
)


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the chapter prints."""
    one = rows(tables, steps=1)
    return {
        "findings": {key: _record(finding) for key, finding in findings(tables).items()},
        "one": _table(one),
        "many": _table(rows(tables, steps=several(tables))),
        "steps": several(tables),
        "rounds": " and ".join(map(str, stages(tables))),
        "first": stages(tables)[0],
        "last": stages(tables)[-1],
        "seeds": int(one["seed"].nunique()),
        "per_seed": int(_guessed(one).groupby("seed").size().max()),
        "found": fixed(FOUND, 1),
        "whole": fixed(100 * float((_guessed(one)["psnr"] >= FOUND).mean()), 0),
        "channels": fixed(float((one["psnr"] - one["printed"]).mean()), 2),
        "colour": bool((one["psnr"] - one["printed"]).mean() > 1),
        "data": "600 images of CIFAR-10 as means of 2 by 2 pixels" if config["pool"] == 2 else _named(config),
        "mean": _beside(one, "psnr_mean", "mean"),
        "max": _beside(one, "psnr_max", "max"),
        "accuracy": _accuracy(tables["accuracy"]),
    }


def _guessed(some: pd.DataFrame) -> pd.DataFrame:
    """Return FedAvg's images, as deep leakage found them."""
    return some[(some["arm"] == "FedAvg") & (some["attack"] == "guessing")]


def _named(config: Mapping[str, Any]) -> str:
    names = {"digits": "scikit-learn’s digits", "cifar10": "images of CIFAR-10"}
    many = f"{config['images']} of " if config["images"] else ""
    return many + names[config["dataset"]]


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the quantities on whose sign the chapter's words rest."""
    last, many = stages(tables)[-1], several(tables)
    one = by_seed(rows(tables, steps=1))
    final = by_seed(rows(tables, steps=1, stage=last))
    more = by_seed(rows(tables, steps=many, stage=last))
    fresh = by_seed(rows(tables, steps=1, stage=0))["FedAvg", "guessing"]
    average = ("FedAvg", "guessing")
    found = {
        "positive": Finding.of(
            "PSNR of an image behind one step of an untrained FedAvg", mean_of(fresh), unit="dB", digits=1,
            border=RECOVERED,
        ),
        "negative": _difference(
            "PSNR from a random gradient less the mean image's", final, ("FedAvg", "random gradient")
        ),
        "many above mean": _difference(f"PSNR of FedAvg's images after {many} steps less the mean image's", more),
        "one above mean": _difference("PSNR of FedAvg's images after one step less the mean image's", one),
        "cosine": _difference(
            "PSNR by cosine, total variation and Adam less squared distance and L-BFGS, one step",
            final, ("FedAvg", "cosine"), average,
        ),
        "steps": Finding.of(
            f"PSNR of FedAvg's images after {many} steps less after one",
            difference_of(more[average], final[average]), unit="dB", digits=1,
        ),
    }  # fmt: skip
    if len(stages(tables)) > 1:
        first = by_seed(rows(tables, steps=1, stage=stages(tables)[0]))
        found["stage"] = Finding.of(
            f"PSNR of FedAvg's images after {last} rounds less after {stages(tables)[0]}, one step",
            difference_of(final[average], first[average]), unit="dB", digits=1,
        )  # fmt: skip
    of, known = "PSNR from {0}'s messages", "PSNR from {0}'s messages if personal leaves are known"
    families = [
        ("{0} less FedAvg", f"{of} less FedAvg's, one step", one, "guessing", average),
        ("{0} knowing", f"{known}, less guessed, one step", one, "knowing", None),
        ("{0} known less FedAvg", f"{known}, less FedAvg's, one step", one, "knowing", average),
        ("{0} less FedAvg many", f"{of} less FedAvg's, {many} steps", more, "guessing", average),
    ]
    if ("FedAvg", "simulating") in more:
        some = rows(tables, steps=many, stage=last)
        again = by_seed(some[some["client"].isin(some[some["attack"] == "simulating"]["client"])])
        found["simulating"] = _difference(
            f"PSNR of FedAvg's images if {many} steps are repeated, less if they are taken for one",
            again, ("FedAvg", "simulating"), average,
        )  # fmt: skip
        repeated, less = f"{of}, {many} steps repeated", ("FedAvg", "simulating")
        families += [
            ("{0} less FedAvg repeated", f"{repeated}, less FedAvg's", again, "simulating", less),
            (
                "{0} knowing repeated",
                f"{known}, less guessed, {many} steps repeated",
                again,
                "simulating, knowing",
                None,
            ),
        ]
    for key, words, wide, attack, control in families:
        guessed = "simulating" if attack.startswith("simulating") else "guessing"
        pairs = [((arm, attack), control or (arm, guessed)) for arm in OTHERS]
        for ((arm, _), _), limits in joint(wide, pairs).items():
            found[key.format(arm)] = Finding.of(f"{words.format(arm)} ({_FAMILY})", limits, unit="dB", digits=1)
    return found


def _difference(
    what: str,
    wide: pd.DataFrame,
    of: tuple[str, str] = ("FedAvg", "guessing"),
    less: tuple[str, str] = ("FedAvg", "mean image"),
) -> Finding:
    return Finding.of(what, difference_of(wide[of], wide[less]), unit="dB", digits=1)


def _record(finding: Finding) -> dict[str, Any]:
    return {"what": finding.what, "sign": finding.sign, "text": f"{finding.text} {finding.unit}"}


def _table(some: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what every attack found: PSNR in both normalisations, mean and maximum, and SSIM."""
    columns: dict[str, tuple[str, How]] = {
        "psnr": ("psnr", "mean"), "printed": ("printed", "mean"), "most": ("psnr", "max"),
        "most_printed": ("printed", "max"), "ssim": ("ssim", "mean"),
    }  # fmt: skip
    wide = {name: by_seed(some, measure, how) for name, (measure, how) in columns.items()}
    table = []
    for arm, attack, called, personal in _ROWS:
        if (arm, attack) in wide["psnr"]:
            cells = {name: mean_of(values[arm, attack], within=_RANGES[name]) for name, values in wide.items()}
            table.append({"message": called, "personal": personal, **cells})
    return rounded(table, psnr=1, printed=1, most=1, most_printed=1, ssim=2)


def _beside(some: pd.DataFrame, column: str, how: How) -> dict[str, Any]:
    """Compare Table 7 with ours in the paper's normalisation; both readings stand beside its FedDecomp."""
    wide = by_seed(some[some["attack"] == "guessing"], "printed", how).droplevel("attack", axis=1)
    theirs = {row["method"]: float(row[column]) for row in printed("feddecomp", "table_7")}
    table = pd.DataFrame({"value": [theirs[arm.split()[0]] for arm in ARMS], "seeds": 1}, index=list(ARMS))
    return beside_printed(table, wide[list(ARMS)], control="FedAvg", digits=2)


def _accuracy(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return how far training had come: by arm and stage."""
    found = []
    for (arm, stage), some in table.groupby(["arm", "stage"], sort=False):
        wide = some.pivot(index="seed", columns="metric", values="value")
        share = {m: times(100, mean_of(wide[m], within=(0.0, 1.0))) for m in wide if m != "log_loss"}
        found.append({"arm": arm, "stage": int(stage), **share, "log_loss": mean_of(wide["log_loss"])})
    ordered = sorted(found, key=_place)
    return rounded(ordered, accuracy=1, balanced_accuracy=1, majority_share=1, log_loss=2)


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["stage"], list(ARMS).index(row["arm"])

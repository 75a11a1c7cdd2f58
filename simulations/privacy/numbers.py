"""What the privacy study hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.estimates import mean_of, times
from simulations.privacy.effects import APART, AVERAGE, DESIGN, LAST, MANY, MEAN, ONE, OTHERS, REPEATED, effects, target
from simulations.privacy.per_seed import FOUND, How, by_seed, rows, several, stages
from simulations.privacy.pictures import figures
from simulations.privacy.study import ARMS
from simulations.published import printed
from simulations.showing import fixed, rounded

__all__ = ["effects", "figures", "findings", "numbers"]

#: What a smooth network's gradient must give away at least, in decibels.
RECOVERED = 30.0
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
    asked, last, many = effects(tables), stages(tables)[-1], several(tables)
    fresh = by_seed(rows(tables, steps=1, stage=0))["FedAvg", "guessing"]
    found = {
        "positive": Finding.of(
            "PSNR of an image behind one step of an untrained FedAvg", mean_of(fresh), unit="dB", digits=1,
            border=RECOVERED,
        ),
    }  # fmt: skip

    def add(key: str, words: str, setting: str, first: str, second: str) -> None:
        if ("PSNR", setting, first, second) in asked:
            found[key] = Finding.of(words, asked["PSNR", setting, first, second], digits=1)

    images = "PSNR of FedAvg's images"
    again, gradient = target("FedAvg", "simulating"), target("FedAvg", "random gradient")
    add("negative", "PSNR from a random gradient minus the mean image's", LAST, gradient, MEAN)
    add("many above mean", f"{images} after {many} steps minus the mean image's", MANY, AVERAGE, MEAN)
    add("one above mean", f"{images} after one step minus the mean image's", ONE, AVERAGE, MEAN)
    words = "PSNR by cosine, total variation and Adam minus squared distance and L-BFGS, one step"
    add("cosine", words, LAST, target("FedAvg", "cosine"), AVERAGE)
    add("steps", f"{images} after {many} steps minus after one", APART, "several", "one")
    words = f"{images} after {last} rounds minus after {stages(tables)[0]}, one step"
    add("stage", words, APART, "late", "early")
    words = f"{images} if {many} steps are repeated, minus if they are taken for one"
    add("simulating", words, REPEATED, again, AVERAGE)
    for arm in OTHERS:
        of, known = f"PSNR from {arm}'s messages", f"PSNR from {arm}'s messages if personal leaves are known"
        knowing, repeated = target(arm, "knowing"), f"{many} steps repeated"
        add(f"{arm} - FedAvg", f"{of} minus FedAvg's, one step", ONE, target(arm), AVERAGE)
        add(f"{arm} knowing", f"{known}, minus guessed, one step", ONE, knowing, target(arm))
        add(f"{arm} known - FedAvg", f"{known}, minus FedAvg's, one step", ONE, knowing, AVERAGE)
        add(f"{arm} - FedAvg many", f"{of} minus FedAvg's, {many} steps", MANY, target(arm), AVERAGE)
        one = target(arm, "simulating")
        add(f"{arm} - FedAvg repeated", f"{of}, {repeated}, minus FedAvg's", REPEATED, one, again)
        words = f"{known}, minus guessed, {repeated}"
        add(f"{arm} knowing repeated", words, REPEATED, target(arm, "simulating, knowing"), one)
    return found


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
    return beside_printed(
        table, wide[list(ARMS)], control="FedAvg", difference=DESIGN, digits=2, within=(0.0, math.inf)
    )


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

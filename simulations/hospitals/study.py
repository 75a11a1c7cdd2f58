"""Ask which of four hospitals gains by training with the others: heart disease, by ranks and probabilities.

Every hospital is a client, and its patients are split anew under every seed, the sick and the well each in proportion.
Rates are tuned for each method by itself, on validation samples under seeds of their own. What the final models predict
is assessed by `fedstat.assess`, with Local as control. At scale smoke the patients are drawn, and nothing is tuned.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.experiment.parsing import parse
from fedstat.inference import assess
from simulations.contract import About
from simulations.parts import SECOND_LOOK, Part, complete, run_parts

ABOUT = About(
    "Heart disease at four hospitals",
    "",
    "a question of users",
    order=105,
    data=("heart-disease",),
    times={"smoke": "ten seconds", "quick": "a minute", "paper": "five minutes on two cores"},
)
CONTROL = "Local"
#: The methods, by label, with what they need to know of the network.
ARMS: dict[str, dict[str, Any]] = {
    CONTROL: {}, "FedAvg": {}, "FedPer": {}, "Ditto": {}, "FedRep": {}, "FedFac": {"layers": ["hidden"]},
    "FedDecomp": {}, "Factorized-FL": {"name": "FactorizedFL"},
}  # fmt: skip
#: The methods with one model for all.
OF_ALL = ("FedAvg",)
METRICS = ("auc", "accuracy", "brier", "calibration_intercept", "calibration_slope")
#: The rates of the page of the documentation on these hospitals are chosen under the same seeds.
FIRST_TUNING_SEED = 100
_PATIENTS = 60


@dataclass(frozen=True)
class Scale:
    """Size of the study; `drawn` says whether patients are drawn, and `shift` is added to all seeds."""

    seeds: int
    rounds: int
    tuning_seeds: int = 2
    rates: tuple[float, ...] = (0.03, 0.1, 0.3)
    drawn: bool = False
    shift: int = 0


SCALES = {
    "smoke": Scale(seeds=3, rounds=5, tuning_seeds=0, drawn=True, shift=SECOND_LOOK),
    "quick": Scale(seeds=5, rounds=30, tuning_seeds=1, shift=SECOND_LOOK),
    "paper": Scale(seeds=10, rounds=30),
}


def draw_patients(file: Path) -> None:
    """Write a table of patients of four hospitals, who follow one rule; at the third few are well."""
    rng = stream(0, "hospitals")
    hospital = np.repeat(["North", "East", "South", "West"], _PATIENTS)
    x = rng.normal(size=(len(hospital), 4))
    chance = 1 / (1 + np.exp(-x @ [1.0, -1.0, 0.5, 0.0] - 1.5 * (hospital == "South")))
    table = pd.DataFrame(x, columns=list("abcd"))
    table.assign(hospital=hospital, ill=(rng.random(len(x)) < chance) * 1).to_csv(file, index=False)


def experiment(scale: Scale, folder: Path) -> dict[str, Any]:
    """Return the experiment as a configuration has it; drawn patients are written into a folder."""
    data: dict[str, Any] = {"name": "heart-disease", "prepare": "standard"}
    if scale.drawn:
        draw_patients(folder / "patients.csv")
        data = {"file": "patients.csv", "client": "hospital", "target": "ill", "prepare": "standard"}
    table: dict[str, Any] = {
        "rounds": scale.rounds,
        "seed": list(range(scale.shift, scale.shift + scale.seeds)),
        "data": data,
        "partition": {"kind": "group", "test": 0.3, "validation": 0.2},
        "model": {"name": "mlp", "widths": [16]},
        "method": ARMS,
        "training": {"lr": 0.1, "batch_size": 16, "local_epochs": 2},
        # a fifth of the rounds before the last as well: curves that still rise are told
        "evaluation": {"every": scale.rounds // 5, "last": 5, "predictions": True, "control": CONTROL},
    }
    if scale.tuning_seeds:
        first = FIRST_TUNING_SEED + scale.shift
        table["tune"] = {"seed": list(range(first, first + scale.tuning_seeds)), "grid": {"lr": list(scale.rates)}}
    return table


def measure(scale: Scale) -> Tables:
    """Run the experiment and assess what it predicts."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # factors that are not identified have a study of their own
        folder = Path(name)
        parsed = parse(experiment(scale, folder), folder)
        result = complete(fs.experiment.run(parsed, folder / "out", progress=False))
        clients, tuning = (folder / "out" / file for file in ("clients.csv", "tuning.csv"))
        held = pd.read_csv(clients)
        tuned = {"tuning": pd.read_csv(tuning)} if tuning.exists() else {}
    found = assess(result, METRICS, control=CONTROL)
    return {"values": _values(found), "differences": _differences(found), "learnt": _learnt(result, held), **tuned}


def _values(found: fs.inference.Assessment) -> pd.DataFrame:
    """Return what each method reaches over all patients and at each hospital."""
    whole = found.pooled[found.pooled["over"] == "all patients"].assign(name="all patients")
    rows = pd.concat([whole, found.clients], ignore_index=True).rename(columns={"name": "hospital", "method": "arm"})
    return rows[["metric", "hospital", "arm", "estimate", "low", "high", "n", "events"]]


def _differences(found: fs.inference.Assessment) -> pd.DataFrame:
    """Return each method's difference to Local over all patients and at each hospital."""
    rows = found.differences[found.differences["over"] != "mean over clients"]
    rows = rows.assign(name=rows["name"].fillna("all patients"))
    return rows.rename(columns={"name": "hospital", "method": "arm"})[
        ["metric", "hospital", "arm", "difference", "low", "high", "df"]
    ]


def _learnt(result: fs.Result, held: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy, share of the most frequent class and late gain, means over hospitals in per cent, by run."""
    own = held.drop_duplicates(["seed", "method", "name"])  # the method's own estimand comes first
    table = 100 * own.groupby(["method", "seed"], sort=False)[["accuracy", "majority_share"]].mean()
    rows = result.history.query("metric == 'accuracy' and split == 'test'")
    own_model = rows.groupby("method", observed=True)["estimand"].transform("first")
    curve = rows[rows["estimand"] == own_model].groupby(["method", "seed", "round"], observed=True)["value"].mean()
    wide = 100 * curve.unstack("round")
    last = wide.columns[-1]
    gain = wide[last] - wide[wide.columns[wide.columns <= last - last // 5][-1]]
    return table.join(gain.rename("gain")).reset_index().rename(columns={"method": "arm"})


def run(scale: Scale, out: Path) -> Tables:
    """Run everything as one part."""
    return run_parts([Part("hospitals", scale, partial(measure, scale))], out, "hospitals")


def evidence(tables: Tables) -> Tables:
    """Return all tables, their values rounded to six digits."""
    return {name: table.round(6) for name, table in tables.items()}

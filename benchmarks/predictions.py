"""How often the intervals of `fedstat.assess` hold: 5 to 100 events a site, and twelve small sites together.

Training runs of a site are tested on the same patients; those of the twelve also on splits of their own, by class.

``python -m benchmarks.predictions`` writes docs/tables/predictions.csv and the table of docs/predictions.md; it takes
about six minutes of one processor.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.model_selection import train_test_split

from benchmarks.tables import publish
from fedstat.inference import clopper_pearson
from fedstat.inference.predictions.metrics import METRICS
from fedstat.inference.predictions.table import Block, Predictions
from fedstat.inference.predictions.tabulating import CLIENTS, PATIENTS, tabulate

EVENTS = (5, 10, 20, 50, 100)
NAMES = {
    "auc": "AUC", "brier": "Brier score", "calibration_slope": "calibration slope",
    "average_precision": "average precision", "accuracy": "accuracy",
}  # fmt: skip
#: Sites that are simulated at each number of events, and federations of twelve; training runs of each.
SITES, FEDERATIONS, RUNS, SMALL = 1000, 300, 5, 12
#: Patients at each of the twelve, and the share that a run tests where runs split them anew.
PATIENTS_EACH, TESTED = 16, 0.3
#: Trained models that a training run is one of, and patients by which their true values are known.
MODELS, MANY = 40, 200_000


def patients(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return outcomes, a fifth of them events, and covariates: one that matters, one that does not, and two noises."""
    x = rng.normal(size=(4, n))
    return (rng.random(n) < expit(-1.75 + 1.2 * x[0])).astype(int), x


def trained(rng: np.random.Generator) -> np.ndarray:
    """Return the coefficients of all models of two methods, shape (2, MODELS, 5); the second one is the worse."""
    first = np.column_stack([-1.75 + 0.25 * rng.normal(size=MODELS), 1.2 * (1 + 0.2 * rng.normal(size=MODELS)),
                             0.25 * rng.normal(size=MODELS), np.full(MODELS, 0.3), np.zeros(MODELS)])  # fmt: skip
    second = np.column_stack([first[:, :2], 0.5 * rng.normal(size=MODELS), np.zeros(MODELS), np.full(MODELS, 0.8)])
    return np.stack([first, second])


def predicted(models: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return probabilities by models, shape (..., 5), for patients, shape (4, n)."""
    return expit(models[..., :1] + models[..., 1:] @ x)


def held(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> str:
    """Return the percentage of intervals that hold, with a star where it is clearly below 95."""
    known = np.isfinite(low) & np.isfinite(high)
    count, inside = int(known.sum()), int((known & (low <= truth) & (truth <= high)).sum())
    return f"{100 * inside / count:.1f}" + "\\*" * (clopper_pearson(inside, count)[1] < 0.95)


def sited(sites: int, n: int, models: np.ndarray, rng: np.random.Generator) -> tuple[Predictions, np.ndarray]:
    """Return predictions at sites that have their own training runs each, and which models these runs are."""
    chosen = rng.integers(MODELS, size=(sites, RUNS))
    made = [patients(n, rng) for _ in range(sites)]
    p = np.concatenate([predicted(models[:, runs], x) for runs, (_, x) in zip(chosen, made, strict=True)], axis=-1)
    block = Block(np.repeat(np.arange(sites), n), np.concatenate([y for y, _ in made]), p)
    names = tuple(map(str, range(sites)))
    return Predictions("two classes", ("first", "second"), tuple(range(RUNS)), names, names, (), (block,)), chosen


def federation(models: np.ndarray, anew: bool, rng: np.random.Generator) -> tuple[Predictions, np.ndarray]:
    """Return predictions at twelve sites, of the same patients under all runs or split anew, and the runs' models."""
    chosen = rng.integers(MODELS, size=RUNS)
    each = round(PATIENTS_EACH / TESTED) if anew else PATIENTS_EACH
    y, x = patients(SMALL * each, rng)
    site, p = np.repeat(np.arange(SMALL), each), predicted(models[:, chosen], x)
    blocks = [Block(site, y, p)]
    if anew:
        tested = [np.sort(train_test_split(np.arange(len(y)), train_size=TESTED, stratify=2 * site + y,
                                           random_state=int(rng.integers(2**31)))[0]) for _ in range(RUNS)]  # fmt: skip
        blocks = [Block(site[of], y[of], p[:, i : i + 1, of]) for i, of in enumerate(tested)]
    names, again = tuple(map(str, range(SMALL))), TESTED / (1 - TESTED) if anew else 0.0
    runs = tuple(range(RUNS))
    return Predictions("two classes", ("first", "second"), runs, names, names, (), tuple(blocks), again), chosen


def cells(table: pd.DataFrame, of_runs: np.ndarray, whole: float) -> list[str]:
    """Return how often limits over patients, over both and over runs alone hold.

    `of_runs` is the truth of each row's training runs, `whole` that over all models.
    """
    return [
        held(table["low (patients)"], table["high (patients)"], of_runs),
        held(table["low"], table["high"], whole),
        held(table["low (runs)"], table["high (runs)"], whole),
    ]


def main() -> None:
    """Simulate, and write the table."""
    # intervals that assessments do not have, to show why
    METRICS["average_precision"] = replace(METRICS["average_precision"], alone=True)
    rng = np.random.default_rng(20)
    models, (y, x) = trained(rng), patients(MANY, rng)
    truth = {name: np.zeros((2, MODELS)) for name in NAMES}
    for j in range(MODELS):
        p = predicted(models[:, j], x)
        for name in NAMES:
            truth[name][:, j] = METRICS[name].of(y, p, 0.5)[0]
    share, made = float(y.mean()), []
    mean = {name: of.mean(axis=1) for name, of in truth.items()}

    def told(name: str, what: str, values: pd.DataFrame, differences: pd.DataFrame, of_runs: np.ndarray) -> None:
        own = values[values["method"] == "first"]
        gone = f"{100 * own['estimate'].isna().mean():.0f}"
        made.append([NAMES[name], what, *cells(own, of_runs[0], mean[name][0]), gone])
        gap, whole = of_runs[1] - of_runs[0], mean[name][1] - mean[name][0]
        made.append([f"difference of {NAMES[name]}", what, *cells(differences, gap, whole), gone])

    for events in EVENTS:
        predictions, chosen = sited(SITES, round(events / share), models, rng)
        for name in [name for name in NAMES if name != "accuracy"]:
            values, _, _ = tabulate(predictions, name, 0, 0.5, 0.95)
            # limits hold jointly for all sites; at this level each holds alone at 95%
            alone = 1 - 0.05 * values["estimate"].notna().sum() / 2
            _, _, differences = tabulate(predictions, name, 0, 0.5, alone)
            differences = differences[differences["over"] == "client"]
            told(name, f"{events} a site", values, differences, truth[name][:, chosen].mean(axis=-1))
    for name, anew in product(("auc", "brier", "accuracy"), (False, True)):
        tables, runs = [], []
        for _ in range(FEDERATIONS):
            predictions, chosen = federation(models, anew, rng)
            tables.append(tabulate(predictions, name, 0, 0.5, 0.95)[1:])
            runs.append(truth[name][:, chosen].mean(axis=-1))
        values, differences = (pd.concat(of) for of in zip(*tables, strict=True))
        for over in (PATIENTS, CLIENTS):
            both = values[values["over"] == over], differences[differences["over"] == over]
            told(name, f"38 at {SMALL} sites{', split anew' * anew}, {over}", *both, np.array(runs).T)
    columns = ["", "events", "over patients", "over patients and runs", "over runs alone", "undefined (%)"]
    order = [f"{start}{name}" for name in NAMES.values() for start in ("", "difference of ")]
    made.sort(key=lambda row: order.index(row[0]))
    publish("predictions", pd.DataFrame(made, columns=columns), "predictions.md")


if __name__ == "__main__":
    main()

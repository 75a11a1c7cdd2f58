"""How often the intervals of `fedstat.assess` hold: 5 to 100 events a site, and twelve small sites together.

Training runs of a site are tested on the same patients; those of the twelve also on splits of their own, by class.

``python -m benchmarks.predictions`` writes docs/tables/predictions.csv and federations.csv, and the same tables into
docs/predictions.md; it takes about twenty minutes of one processor.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import kendalltau
from sklearn.model_selection import train_test_split

from benchmarks.tables import publish
from fedstat.inference import clopper_pearson
from fedstat.inference.predictions.metrics import METRICS, Kind
from fedstat.inference.predictions.table import Block, Predictions
from fedstat.inference.predictions.tabulating import CLIENTS, PATIENTS, tabulate

EVENTS = (5, 10, 20, 50, 100)
NAMES: dict[Kind, dict[str, str]] = {
    "two classes": {
        "auc": "AUC", "average_precision": "average precision", "brier": "Brier score", "log_loss": "log-loss",
        "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "sensitivity": "sensitivity",
        "specificity": "specificity", "calibration_intercept": "calibration intercept",
        "calibration_slope": "calibration slope", "expected_over_observed": "expected over observed",
    },
    "times": {"concordance": "concordance"},
    "numbers": {"mae": "mean absolute error", "r2": "R squared"},
}  # fmt: skip
#: Metrics of the twelve sites.
TOGETHER = ("auc", "brier", "accuracy")
#: Sites that are simulated at each number of events, so many at once, federations of twelve, and training runs of each.
SITES, AT_ONCE, FEDERATIONS, RUNS, SMALL = 1000, 10, 300, 5, 12
#: Patients at each of the twelve, and the share that a run tests where runs split them anew.
PATIENTS_EACH, TESTED = 16, 0.3
#: Trained models that a training run is one of, and patients by which their true values are known.
MODELS, MANY = 40, 200_000
#: The share of patients who have an event, the end of follow-up that gives the same of times, and who counts as named.
SHARE, END, THRESHOLD = 0.2, 0.8, 0.2


def patients(n: int, rng: np.random.Generator, kind: Kind = "two classes") -> tuple[np.ndarray, np.ndarray]:
    """Return outcomes and covariates: one that matters, one that does not, and two noises."""
    x = rng.normal(size=(4, n))
    score = -1.75 + 1.2 * x[0]
    if kind == "two classes":
        return (rng.random(n) < expit(score)).astype(int), x
    if kind == "numbers":
        return score + rng.normal(size=n), x
    time = rng.exponential(np.exp(-score))
    return np.column_stack([np.minimum(time, END), time <= END]), x


def trained(rng: np.random.Generator) -> np.ndarray:
    """Return the coefficients of all models of two methods, shape (2, MODELS, 5); the second one is the worse."""
    first = np.column_stack([-1.75 + 0.25 * rng.normal(size=MODELS), 1.2 * (1 + 0.2 * rng.normal(size=MODELS)),
                             0.25 * rng.normal(size=MODELS), np.full(MODELS, 0.3), np.zeros(MODELS)])  # fmt: skip
    second = np.column_stack([first[:, :2], 0.5 * rng.normal(size=MODELS), np.zeros(MODELS), np.full(MODELS, 0.8)])
    return np.stack([first, second])


def predicted(models: np.ndarray, x: np.ndarray, kind: Kind = "two classes") -> np.ndarray:
    """Return probabilities, values or risks by models, shape (..., 5), for patients, shape (4, n)."""
    score = models[..., :1] + models[..., 1:] @ x
    return expit(score) if kind == "two classes" else score


def true_values(kind: Kind, models: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return what all models, shape (2, MODELS, 5), reach on many patients, by metric, shape (2, MODELS)."""
    y, x = patients(MANY, rng, kind)
    found: dict[str, list[np.ndarray]] = {name: [] for name in NAMES[kind]}
    # all who are left at the end have the same time; Kendall's tau counts who is ordered among the other pairs
    pairs, left = MANY * (MANY - 1), (y[:, 1] == 0).sum() if kind == "times" else 0
    scale = np.sqrt(pairs / (pairs - left * (left - 1)))
    for j in range(MODELS):
        p = predicted(models[:, j], x, kind)
        for name, values in found.items():
            if kind == "times":
                tau = np.array([kendalltau(y[:, 0], -risk).statistic for risk in p])
                values.append((1 + scale * tau) / 2)
            else:
                values.append(METRICS[name].of(y, p, THRESHOLD)[0])
    return {name: np.stack(values, axis=1) for name, values in found.items()}


def sited(n: int, kind: Kind, models: np.ndarray, rng: np.random.Generator) -> tuple[Predictions, np.ndarray]:
    """Return predictions at sites that have their own training runs each, and which models these runs are."""
    chosen = rng.integers(MODELS, size=(AT_ONCE, RUNS))
    made = [patients(n, rng, kind) for _ in range(AT_ONCE)]
    each = [predicted(models[:, runs], x, kind) for runs, (_, x) in zip(chosen, made, strict=True)]
    site, y = np.repeat(np.arange(AT_ONCE), n), np.concatenate([y for y, _ in made])
    block, names = Block(site, y, np.concatenate(each, axis=-1)), tuple(map(str, range(AT_ONCE)))
    return Predictions(kind, ("first", "second"), tuple(range(RUNS)), names, names, (), (block,)), chosen


def federation(models: np.ndarray, anew: bool, rng: np.random.Generator) -> tuple[Predictions, np.ndarray]:
    """Return predictions at twelve sites, of the same patients under all runs or split anew, and the runs' models."""
    chosen = rng.integers(MODELS, size=RUNS)
    each = round(PATIENTS_EACH / TESTED) if anew else PATIENTS_EACH
    site, (y, x) = np.repeat(np.arange(SMALL), each), patients(SMALL * each, rng)
    while anew and np.bincount(2 * site + y, minlength=2 * SMALL).min() < 2:  # no split by class has them
        y, x = patients(SMALL * each, rng)
    p = predicted(models[:, chosen], x)
    blocks = [Block(site, y, p)]
    if anew:
        tested = [np.sort(train_test_split(np.arange(len(y)), train_size=TESTED, stratify=2 * site + y,
                                           random_state=int(rng.integers(2**31)))[0]) for _ in range(RUNS)]  # fmt: skip
        blocks = [Block(site[of], y[of], p[:, i : i + 1, of]) for i, of in enumerate(tested)]
    names, again = tuple(map(str, range(SMALL))), TESTED / (1 - TESTED) if anew else 0.0
    runs = tuple(range(RUNS))
    return Predictions("two classes", ("first", "second"), runs, names, names, (), tuple(blocks), again), chosen


def held(table: pd.DataFrame, over: str, truth: np.ndarray | float) -> str:
    """Return the percentage of intervals that hold, with a star where it is clearly below 95."""
    low, high = table["low" + over].to_numpy(), table["high" + over].to_numpy()
    known = np.isfinite(low) & np.isfinite(high)
    count, inside = int(known.sum()), int((known & (low <= truth) & (truth <= high)).sum())
    return f"{100 * inside / count:.1f}" + "\\*" * (clopper_pearson(inside, count)[1] < 0.95)


def told(
    name: str, values: pd.DataFrame, differences: pd.DataFrame, chosen: np.ndarray, truth: np.ndarray
) -> dict[str, tuple[str, str, str]]:
    """Return how often the limits hold over patients, patients and runs, and runs alone; `truth` is by model."""
    own, of_runs, whole = values[values["method"] == "first"], truth[:, chosen].mean(axis=-1), truth.mean(axis=1)
    rows = {name: (own, of_runs[0], whole[0])}
    rows[f"difference of {name}"] = (differences, of_runs[1] - of_runs[0], whole[1] - whole[0])
    return {
        label: (held(table, " (patients)", runs), held(table, "", models), held(table, " (runs)", models))
        for label, (table, runs, models) in rows.items()
    }


def alone(predictions: Predictions, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return values and differences by site, with limits that hold for each site by itself."""
    values, _, _ = tabulate(predictions, name, 0, THRESHOLD, 0.95)
    # limits of differences hold jointly for all sites; at this level each holds alone at 95%
    level = 1 - 0.05 * values["estimate"].notna().sum() / 2
    _, _, differences = tabulate(predictions, name, 0, THRESHOLD, level)
    return values, differences[differences["over"] == "client"]


def one_site(models: np.ndarray, rng: np.random.Generator) -> tuple[pd.DataFrame, str]:
    """Return the table over events at a site, and what holds of runs alone and of undefined values."""
    made: dict[str, dict[str, tuple[str, str, str]]] = {}
    gone = {}
    for kind, names in NAMES.items():
        truth = true_values(kind, models, rng)
        for events in EVENTS:
            drawn = [sited(round(events / SHARE), kind, models, rng) for _ in range(0, SITES, AT_ONCE)]
            chosen = np.concatenate([runs for _, runs in drawn])
            for name, words in names.items():
                tables = zip(*(alone(one, name) for one, _ in drawn), strict=True)
                values, differences = map(pd.concat, tables)
                for row, cells in told(words, values, differences, chosen, truth[name]).items():
                    made.setdefault(row, {})[f"{events} events"] = cells
                if events == EVENTS[0]:
                    gone[words] = 100 * values["estimate"].isna().mean()
    both = {row: {at: f"{cell[0]} / {cell[1]}" for at, cell in cells.items()} for row, cells in made.items()}
    alone_held = [float(cell[2].rstrip("\\*")) for cells in made.values() for cell in cells.values()]
    undefined = ", ".join(f"{words} at {share:.0f}%" for words, share in gone.items() if share >= 0.5)
    note = (
        f"Intervals over runs alone hold in {min(alone_held):.0f} to {max(alone_held):.0f}% here. Undefined at sites "
        f"with {EVENTS[0]} events on average: {undefined}."
    )
    return pd.DataFrame(both).T.rename_axis("").reset_index(), note


def twelve_sites(models: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Return the table of twelve sites, whose patients are the same under every run or split anew."""
    truth = true_values("two classes", models, rng)
    made: dict[str, dict[str, str]] = {}
    for name, anew in product(TOGETHER, (False, True)):
        tables, runs = [], []
        for _ in range(FEDERATIONS):
            predictions, chosen = federation(models, anew, rng)
            tables.append(tabulate(predictions, name, 0, THRESHOLD, 0.95)[1:])
            runs.append(chosen)
        values, differences = (pd.concat(of) for of in zip(*tables, strict=True))
        for over in (PATIENTS, CLIENTS):
            both = values[values["over"] == over], differences[differences["over"] == over]
            rows = told(NAMES["two classes"][name], *both, np.array(runs), truth[name])
            for row, (of_patients, of_both, _) in rows.items():
                made.setdefault(row, {})[over + ", split anew" * anew] = f"{of_patients} / {of_both}"
    return pd.DataFrame(made).T.rename_axis("").reset_index()


def main() -> None:
    """Simulate, and write the tables."""
    rng = np.random.default_rng(20)
    models = trained(rng)
    table, note = one_site(models, rng)
    publish("predictions", table, "predictions.md", note)
    publish("federations", twelve_sites(models, rng), "predictions.md")


if __name__ == "__main__":
    main()

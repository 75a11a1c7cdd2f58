"""Ask whether other clients would give the same shared units (FedFac paper, Algorithm 1).

All clients train for one local round from a common start, as they do for FedFac's first analysis, and are then
resampled: their weights, and their changes. Two comparisons give the figures a scale. The control permutes every
unit's changes over clients and inputs, so that units can no longer be told apart. And the analysis of the start alone
shows how much was decided before any client trained.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.methods.cut import is_shared
from fedstat.methods.fedfac import communality
from simulations.contract import About
from simulations.estimates import mean_of
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.resampling.splits import resampled_splits, spread
from simulations.split.study import chance_corrected

ABOUT = About(
    "Whether other clients would give the same shared units", "FedSplit/FedFac", "Algorithm 1", order=40,
    times={"quick": "a minute"},
)  # fmt: skip
LAYER = "hidden"
LOOKS = {
    "weights": "weights after one round",
    "changes": "changes in one round",
    "noise": "changes, permuted (control)",
}
#: The columns that are averaged over seeds.
MEASURES = ("n_factors", "kappa", "halves", "start", "unsure", "at_bound", "unidentified", "unconverged")
#: The quantile at which units are shown.
MEDIAN = 0.5


@dataclass(frozen=True)
class Scale:
    """Size of the study; symbols as in `fedstat.data.relu_mixture`, settings are (p, alpha) as in the split
    study, and `shift` is added to all seeds."""

    clients: int
    d: int
    units: int
    samples: int
    seeds: int
    resamples: int
    settings: tuple[tuple[float, float], ...] = ((0.5, 0.4), (0.5, 0.8))
    contributions: tuple[float, ...] = (0.5, 0.85, 0.95)
    quantiles: tuple[float, ...] = (0.25, MEDIAN, 0.75)
    lr: float = 1e-3
    batch_size: int = 32
    local_epochs: int = 2
    shift: int = 0


SCALES = {
    "smoke": Scale(
        clients=10, d=12, units=12, samples=40, seeds=2, resamples=10, settings=((0.5, 0.4),), shift=SECOND_LOOK
    ),
    "quick": Scale(
        clients=40, d=40, units=64, samples=160, seeds=6, resamples=30, settings=((0.5, 0.4),), shift=SECOND_LOOK
    ),
    "paper": Scale(clients=100, d=100, units=200, samples=160, seeds=6, resamples=50),
}


def one_round(scale: Scale, p: float, alpha: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the hidden weights of the common start, (m, d), and of every client after one local round, (C, m, d)."""
    clients = fs.data.relu_mixture(
        clients=scale.clients, d=scale.d, units=scale.units, shared_units=p, shared_inputs=alpha,
        samples=scale.samples, validation=0, test=1, seed=seed,
    )  # fmt: skip
    training = fs.Training(lr=scale.lr, optimizer="adam", batch_size=scale.batch_size, local_epochs=scale.local_epochs)
    model = fs.models.mlp(scale.d, scale.units, 1)
    result = fs.federate(fs.Local(), model, clients, training, rounds=1, seed=seed, evaluate_at=(), progress=False)
    state = result.states["Local", seed]
    return state.server[f"{LAYER}.weight"].numpy(), state.clients[f"{LAYER}.weight"].numpy()


def permuted(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Permute the entries of every unit over clients and inputs, for each unit by itself; weights (C, m, d)."""
    rows = weights.transpose(1, 0, 2)
    return rng.permuted(rows.reshape(len(rows), -1), axis=1).reshape(rows.shape).transpose(1, 0, 2)


def one_seed(scale: Scale, p: float, alpha: float, seed: int) -> Tables:
    """Resample the clients of one seed; return results by unit, by point of the grid and by pair of contributions."""
    units, grid, rules = [], [], []
    # analyses that are not identified are counted; unbalanced classes come from the generator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        start, end = one_round(scale, p, alpha, seed)
        untrained = [communality(start[None], contribution) for contribution in scale.contributions]
        changes = end - start
        seen = {"weights": end, "changes": changes, "noise": permuted(changes, stream(seed, "control"))}
        for look, weights in seen.items():
            found = resampled_splits(weights, scale.contributions, scale.quantiles, scale.resamples, seed)
            drawn, halves = spread(found.kappa), spread(found.halves)
            for g, q in np.ndindex(found.probability.shape[:2]):
                place = {"look": look, "contribution": scale.contributions[g], "quantile": scale.quantiles[q]}
                by_unit = pd.DataFrame(
                    {
                        "unit": np.arange(scale.units),
                        "communality": found.communalities[g],
                        "shared": found.shared[g, q],
                        "probability": found.probability[g, q],
                        "at_bound": found.at_bound[g],
                    }
                )
                before = is_shared(untrained[g], fs.Quantile(scale.quantiles[q]), found.shared[g, q])
                units.append(by_unit.assign(**place))
                grid.append(
                    {
                        **place,
                        "n_factors": found.n_factors[g],
                        "kappa": drawn[0, g, q],
                        "low": drawn[1, g, q],
                        "high": drawn[2, g, q],
                        "halves": halves[0, g, q],
                        "start": chance_corrected(found.shared[g, q], before)[1],
                        "unsure": by_unit["probability"].between(0.1, 0.9).mean(),
                        "at_bound": by_unit["at_bound"].mean(),
                        "cut_at_bound": found.cut_at_bound[g, q],
                        "unidentified": found.unidentified[g] / (1 + 3 * scale.resamples),
                        "unconverged": found.unconverged[g] / (1 + 3 * scale.resamples),
                    }
                )
            rules += [
                {
                    "look": look,
                    "quantile": scale.quantiles[q],
                    "first": scale.contributions[a],
                    "second": scale.contributions[b],
                    "kappa": found.rules[q, a, b],
                }
                for q, a, b in np.argwhere(np.triu(np.ones_like(found.rules), 1))
            ]
    tables = {"units": pd.concat(units), "grid": pd.DataFrame(grid), "rules": pd.DataFrame(rules)}
    return {name: table.assign(p=p, alpha=alpha, seed=seed) for name, table in tables.items()}


def run(scale: Scale, out: Path) -> Tables:
    """Run all settings and seeds, and add means over seeds."""
    parts = [
        Part(f"resampling-p{p}-alpha{alpha}-{seed}", scale, partial(one_seed, scale, p, alpha, seed))
        for p, alpha in scale.settings
        for seed in range(scale.shift, scale.shift + scale.seeds)
    ]
    tables = run_parts(parts, out, "resampling study")
    return {**tables, "summary": summary(tables["grid"])}


def evidence(tables: Tables) -> Tables:
    """Return what the chapter shows: of the units those of the figure, at the first setting, seed and median cut."""
    units, first = tables["units"], tables["grid"].iloc[0]
    place = (units["p"] == first["p"]) & (units["alpha"] == first["alpha"]) & (units["seed"] == first["seed"])
    middle = sorted(tables["grid"]["contribution"].unique())[tables["grid"]["contribution"].nunique() // 2]
    shown = units[place & (units["quantile"] == MEDIAN) & (units["contribution"] == middle)]
    return {**tables, "units": shown}


def summary(grid: pd.DataFrame) -> pd.DataFrame:
    """Return mean and 95% interval over seeds of each measure at each point of the grid."""
    places = ["p", "alpha", "look", "contribution", "quantile"]
    rows = []
    for place, group in grid.groupby(places, sort=False):
        for measure in MEASURES:
            mean, low, high = mean_of(group[measure])
            rows.append(
                {**dict(zip(places, place, strict=True)), "measure": measure, "mean": mean, "low": low, "high": high}
            )
    return pd.DataFrame(rows)

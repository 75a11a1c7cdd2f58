"""Ask whether federated averaging keeps to Theorem 5.4's bound (filter decomposition paper, sections 5 and A.4).

On random strongly convex quadratic clients the optimum, the heterogeneity and all constants are known. The study
compares the expected gap of the clients' average with the bound as printed and as corrected. The steps are the proof's,
eta_t = 2 / (mu (gamma + t)), and participants are drawn anew for each averaging.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.data import Quadratics, random_quadratics
from fedstat.theory.strongly_convex import strongly_convex_bound
from simulations.contract import About
from simulations.estimates import mean_of
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "The strongly convex bound", "Filter decomposition", "Theorem 5.4", order=90,
    times={"paper": "3 minutes of two cores"},
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """The setting of one panel: how clients differ, where they start and how they train. mu = 1 throughout."""

    name: str
    local_steps: int
    heterogeneity: float
    distance: float
    clients: int = 10
    participants: int | None = None
    noise: float = 0.0


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    In the settings `noise` is the variance of a client's gradient; `shift` is added to the seeds.
    """

    steps: int
    repeats: int
    seeds: int
    dimension: int = 5
    condition: float = 10.0
    points: int = 40
    shift: int = 0
    settings: tuple[Setting, ...] = (
        # equal clients with one local step are one client, whatever their number
        Setting("one client, E = 1, far start", 1, 0.0, 10.0, clients=1),
        Setting("different clients, E = 5", 5, 1.0, 1.0),
        Setting("different clients, E = 5, 2 of 10 take part", 5, 1.0, 1.0, participants=2),
        Setting("one minimiser, E = 1, noisy gradients", 1, 0.0, 1.0, noise=400.0),
    )


SCALES = {
    "smoke": Scale(steps=60, repeats=20, seeds=2, points=12, shift=SECOND_LOOK),
    "quick": Scale(steps=2000, repeats=200, seeds=6, shift=SECOND_LOOK),
    "paper": Scale(steps=10_000, repeats=400, seeds=20),
}


def descend(
    problem: Quadratics, start: np.ndarray, setting: Setting, gamma: float, at: np.ndarray, repeats: int, seed: int
) -> tuple[np.ndarray, float]:
    """Run federated averaging repeatedly.

    Returns
    -------
    gaps : ndarray, shape (len(at), repeats)
        ``F(w^t) - F*`` at the steps `at`, counted from 1, for the average of all clients.
    gradient_bound : float
        G: the root of the largest mean square of a client's gradient on the way, its noise included.
    """
    clients, dimension = problem.centres.shape
    m = setting.participants or clients
    rng = stream(seed, "batches")
    w = np.broadcast_to(start, (repeats, clients, dimension))
    gaps, largest = np.empty((len(at), repeats)), 0.0
    place = {int(t): i for i, t in enumerate(at)}
    for t in range(1, int(at[-1]) + 1):
        gradient = problem.gradient(w)
        largest = max(largest, float((gradient**2).sum(axis=2).mean(axis=0).max()) + setting.noise)
        if t in place:
            gaps[place[t]] = problem.value(w.mean(axis=1)) - problem.minimum
        if setting.noise:
            gradient = gradient + np.sqrt(setting.noise / dimension) * rng.normal(size=w.shape)
        w = w - 2 / (problem.convexity * (gamma + t)) * gradient
        if t % setting.local_steps == 0:
            if m < clients:
                drawn = rng.random((repeats, clients)).argsort(axis=1)[:, :m]
                w = np.take_along_axis(w, drawn[..., None], axis=1)
            w = np.broadcast_to(w.mean(axis=1, keepdims=True), (repeats, clients, dimension))
    return gaps, np.sqrt(largest)


def one_seed(scale: Scale, seed: int) -> Tables:
    """Run all settings under one seed, with starts in the same direction from the optimum."""
    grid = np.geomspace(1, scale.steps, scale.points)
    rows = []
    for setting in scale.settings:
        e = setting.local_steps
        at = np.unique(1 + e * ((grid.round() - 1) // e).astype(int))  # where all clients hold the same model
        problem = random_quadratics(
            clients=setting.clients,
            dimension=scale.dimension,
            smoothness=scale.condition,
            convexity=1.0,
            heterogeneity=setting.heterogeneity,
            seed=seed,
        )
        direction = stream(seed, "start").normal(size=scale.dimension)
        start = problem.optimum + setting.distance * direction / np.linalg.norm(direction)
        gamma = max(8 * problem.smoothness / problem.convexity, setting.local_steps)
        random = bool(setting.participants or setting.noise)
        gaps, gradient_bound = descend(problem, start, setting, gamma, at, scale.repeats if random else 1, seed)
        for t, values in zip(at, gaps, strict=True):
            mean, low, high = mean_of(values) if random else (float(values[0]),) * 3
            row = {"setting": setting.name, "seed": seed, "t": int(t), "gap": mean, "low": low, "high": high}
            rows.append(row | {form: _bound(problem, setting, int(t), gradient_bound, form) for form in FORMS})
    return {"gap": pd.DataFrame(rows)}


FORMS: tuple[Literal["printed", "corrected"], ...] = ("printed", "corrected")


def _bound(
    problem: Quadratics, setting: Setting, t: int, gradient_bound: float, form: Literal["printed", "corrected"]
) -> float:
    clients = len(problem.centres)
    return float(
        strongly_convex_bound(
            t,
            smoothness=problem.smoothness,
            convexity=problem.convexity,
            local_steps=setting.local_steps,
            gradient_bound=gradient_bound,
            heterogeneity=setting.heterogeneity,
            initial_distance=setting.distance,
            form=form,
            clients=clients,
            participants=setting.participants or clients,
            noise=setting.noise / clients,
        )
    )


def run(scale: Scale, out: Path) -> Tables:
    """Run all seeds, and summarise what they say about the two bounds."""
    seeds = range(scale.shift, scale.shift + scale.seeds)
    parts = [Part(f"strongly_convex-{seed}", scale, partial(one_seed, scale, seed)) for seed in seeds]
    gap = run_parts(parts, out, "strongly convex: seeds")["gap"]
    return {"gap": gap, "summary": summary(gap), "largest": largest(gap)}


def evidence(tables: Tables) -> Tables:
    """Return what the chapter shows: the first seed's gaps, and of the others what sums them up."""
    gap = tables["gap"]
    return {**tables, "gap": gap[gap["seed"] == gap["seed"].min()]}


def largest(gap: pd.DataFrame) -> pd.DataFrame:
    """Return the largest ratio of gap and bound over the steps, of the gap's lower limit where it is estimated."""
    ratios = pd.concat(gap[["setting", "seed"]].assign(bound=form, ratio=gap["low"] / gap[form]) for form in FORMS)
    return ratios.groupby(["setting", "bound", "seed"], sort=False)["ratio"].max(skipna=False).reset_index()


def summary(gap: pd.DataFrame) -> pd.DataFrame:
    """Say per setting and bound in how many seeds the gap exceeds it, until which step, and the largest ratio.

    A gap counts as exceeding if the lower limit of its interval does; the ratio is that of the estimates.
    """
    rows = []
    for setting, table in gap.groupby("setting", sort=False):
        for form in FORMS:
            above = table[table["low"] > table[form] * (1 + 1e-9)]  # gap and bound are equal at an attained bound
            rows.append(
                {
                    "setting": setting,
                    "bound": form,
                    "seeds": table["seed"].nunique(),
                    "seeds_exceeding": above["seed"].nunique(),
                    "last_step_exceeding": int(above["t"].max()) if len(above) else 0,
                    "largest_ratio": float((table["gap"] / table[form]).max()),
                    "median_last_ratio": float((table["gap"] / table[form])[table["t"] == table["t"].max()].median()),
                }
            )
    return pd.DataFrame(rows)

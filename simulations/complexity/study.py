"""Compare FedSplit's complexity term with the measured loss of the trained model, in the limit of infinite width.

One fixed sample is dealt ever more finely: to one client, each of whose halves goes to one of two clients, and so on;
what changes with C is the partition alone. Labels come from a linear teacher, from a two-layer ReLU teacher (both
fixed, and of unit mean square over the law of the inputs) or, as a control, from coin flips. The trained model is the
limit of FedSplit's training, regression with the kernel ``eta_g / C H_shared + H_personal`` (eta_g = 1); its loss is
min(1, |h - y|), measured on fresh samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.ntk import infinite_gram, personal_gram
from fedstat.theory.generalisation import complexity_term
from simulations.contract import About
from simulations.estimates import mean_of
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "The complexity term and the measured loss", "FedSplit/FedFac", "Theorem 2", order=70,
    times={"paper": "5 minutes of two cores"},
)  # fmt: skip
LABELS = {"linear": "linear teacher", "relu": "ReLU teacher", "random": "coin flips"}
_TEACHER_UNITS = 5


@dataclass(frozen=True)
class Scale:
    """Size of the study; `clients` are all powers of two that divide the sample, `shift` is added to the seeds."""

    samples: int
    seeds: int
    clients: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    test: int = 512
    d: int = 6
    shift: int = 0


SCALES = {
    "smoke": Scale(samples=64, seeds=2, shift=SECOND_LOOK),
    "quick": Scale(samples=256, seeds=20, shift=SECOND_LOOK),
    "paper": Scale(samples=1024, seeds=100),
}


def teachers(d: int) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Return the two teachers, the same for all seeds, scaled to unit mean square on the unit sphere."""
    rng = np.random.default_rng(0)
    direction, hidden = rng.normal(size=d), rng.normal(size=(d, _TEACHER_UNITS))
    signs = rng.choice([-1.0, 1.0], size=_TEACHER_UNITS)
    sphere = rng.normal(size=(100_000, d))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    raw: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "linear": lambda x: x @ direction,
        "relu": lambda x: np.maximum(x @ hidden, 0) @ signs,
    }

    def scaled(teacher: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        size = np.sqrt((teacher(sphere) ** 2).mean())
        return lambda x: teacher(x) / size

    return {name: scaled(teacher) for name, teacher in raw.items()}


def one_seed(scale: Scale, seed: int) -> Tables:
    """Measure one sample on the unit sphere, with both kinds of labels, under all partitions."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(scale.samples + scale.test, scale.d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = {name: teacher(x) for name, teacher in teachers(scale.d).items()}
    labels["random"] = rng.choice([-1.0, 1.0], size=len(x))
    shared, n = infinite_gram(x), scale.samples
    rows = []
    for clients in scale.clients:
        # nested partitions: a client of a coarse one is several clients of a fine one
        owner = np.arange(len(x)) % scale.clients[-1] % clients
        personal = personal_gram(x, owner)
        kernel = shared / clients + personal
        for name, y in labels.items():
            fitted = kernel[n:, :n] @ np.linalg.solve(kernel[:n, :n], y[:n])
            loss = float(np.minimum(1.0, np.abs(fitted - y[n:])).mean())
            term = complexity_term(shared[:n, :n], personal[:n, :n], y[:n], clients)
            rows.append({"labels": name, "clients": clients, "seed": seed, "term": term, "loss": loss})
    return {"repeats": pd.DataFrame(rows)}


def run(scale: Scale, out: Path) -> Tables:
    """Run all seeds; add a summary over them, and the rank correlation of term and loss over partitions, per seed."""
    seeds = range(scale.shift, scale.shift + scale.seeds)
    parts = [Part(f"complexity-{seed}", scale, partial(one_seed, scale, seed)) for seed in seeds]
    repeats = run_parts(parts, out, "complexity: seeds")["repeats"]
    summary = []
    for (labels, clients), rows in repeats.groupby(["labels", "clients"]):
        for what in ("term", "loss"):
            mean, low, high = mean_of(rows[what])
            keys = {"labels": labels, "clients": clients, "what": what}
            summary.append({**keys, "mean": mean, "low": low, "high": high, "below_one": (rows["term"] < 1).mean()})
    return {"repeats": repeats, "summary": pd.DataFrame(summary), "ranks": ranks(repeats)}


def ranks(repeats: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's correlation of term and measured loss over the partitions of one sample."""
    from scipy.stats import spearmanr

    groups = repeats.groupby(["labels", "seed"])
    found = groups[["term", "loss"]].apply(lambda rows: float(spearmanr(rows["term"], rows["loss"]).statistic))
    return found.rename("correlation").reset_index()

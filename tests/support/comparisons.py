"""Comparisons made by hand, of any number of methods, seeds, clients and rounds."""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from fedstat.inference import paired_difference
from fedstat.inference.comparing.comparison import Comparison
from fedstat.inference.comparing.conclusions import conclude
from fedstat.inference.reading.scores import Scores


def scores(methods, seeds=5, clients=20, rounds=30, *, metric="accuracy", gap=0.02, sd=0.02, seed=0, same_clients=True):
    """Scores of methods, each `gap` better than the one before it in the last rounds; curves rise to these."""
    rng = np.random.default_rng(seed)
    m, t = len(methods), np.arange(1, rounds + 1)
    level = 0.6 + gap * np.arange(m)[:, None, None] + rng.normal(0, sd, (m, seeds, 1)) + rng.normal(0, sd, (seeds, 1))
    values = np.clip(level + rng.normal(0, 0.1, (m, seeds, clients)), 0, 1)
    rise = 1 - np.exp(-t / (rounds / 6))
    noise = rng.normal(0, sd / 2, (m, seeds, rounds))
    newer = {"there": np.ones((seeds, clients), bool), "ran": np.ones((m, seeds), bool)}
    sizes = rng.integers(10, 60, (1 if same_clients else seeds, clients))
    return Scores(
        metric=metric,
        split="test",
        methods=tuple(methods),
        models=("personal",) * m,
        seeds=tuple(range(seeds)),
        clients=tuple(range(clients)),
        values=values,
        samples=np.broadcast_to(sizes, (seeds, clients)),
        rounds=t,
        curves=values.mean(axis=2)[:, :, None] * rise + noise,
        averaged=tuple(t[-10:]),
        missing={},
        **{name: value for name, value in newer.items() if name in Scores.__dataclass_fields__},
    )


def comparison(of, *, control=None, level=0.95, margin=None, **changes):
    """Compare scores by Bonferroni's t over all pairs of the family."""
    means = of.by_seed()
    n = len(of.seeds)
    summary = pd.DataFrame(
        {"model": of.models, "mean": means.mean(axis=1), "low": np.nan, "high": np.nan}, index=pd.Index(of.methods)
    )
    if n > 1:
        half = stats.t.isf((1 - level) / 2, n - 1) * means.std(axis=1, ddof=1) / np.sqrt(n)
        summary = summary.assign(low=summary["mean"] - half, high=summary["mean"] + half)
        summary["by samples"] = np.average(
            of.values, axis=2, weights=np.broadcast_to(of.samples, of.values.shape)
        ).mean(axis=1)
    summary["sd over seeds"] = means.std(axis=1, ddof=1) if n > 1 else np.nan
    summary["seeds"] = n
    pairs = [
        (a, b)
        for a, b in (combinations(of.methods, 2) if control is None else ((name, control) for name in of.methods))
        if a != b
    ]
    rows = {}
    for a, b in pairs if n > 1 else ():
        x, y = means[of.methods.index(a)], means[of.methods.index(b)]
        d = paired_difference(x, y, level=1 - (1 - level) / len(pairs))
        inner = paired_difference(x, y, level=1 - 2 * (1 - level))
        outcome = "different" if d.low > 0 or d.high < 0 else "undecided"
        if margin is not None and max(abs(inner.low), abs(inner.high)) < margin:
            outcome = "equivalent"
        numbers = (d.low, d.high) if d.sd > 1e-12 else (np.nan, np.nan)
        rows[f"{a} − {b}"] = {
            "method": a, "against": b, "difference": d.mean, "low": numbers[0], "high": numbers[1],
            "correlation": d.correlation, "pairs": n, "p (t)": d.p, "p (sign flips)": 2 / 2**n,
            "p (adjusted)": min(1.0, d.p * len(pairs)), "outcome": outcome if d.sd > 1e-12 else "no spread",
            "detectable": 3 * d.sd / np.sqrt(n), "at most": max(-d.low, d.high),
            "seeds needed": np.nan if margin is None else float(np.ceil((8 * d.sd / margin) ** 2)),
            "seeds for equivalence": np.nan if margin is None else float(np.ceil((9 * d.sd / margin) ** 2)),
            "runs apart": False,
        }  # fmt: skip
    differences = pd.DataFrame.from_dict(rows, orient="index")
    made = {
        "scores": of,
        "summary": summary,
        "differences": differences,
        "control": control,
        "level": level,
        "simultaneous": True,
        "margin": margin,
        "estimand": f"{of.metric} of each client's personal model on its test samples, mean over clients and rounds",
        "conclusions": conclude(of, differences, control, margin),
        "notes": ("few pairs.",) if n < 6 else (),
        "generalises": "The comparison speaks of other runs on these clients, not of other clients.",
    }
    return Comparison(**made | changes)

"""Means over clients that count equally, or by their samples: two questions, two answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedstat._checks import number
from fedstat.inference.intervals.paired import mean_interval

if TYPE_CHECKING:
    import pandas as pd

_QUESTIONS = {
    "clients equally": "Clients equally: what a client drawn at random can expect.",
    "by samples": "By samples: what a sample drawn at random can expect.",
}


@dataclass(frozen=True, eq=False)
class BothWeightings:
    """The mean over clients under both weightings; ``print`` it for a table with the question that each answers.

    Attributes
    ----------
    table : DataFrame
        Rows "clients equally" and "by samples": mean over seeds with t limits, number of seeds, and the effective
        number of clients ``(sum w)^2 / sum w^2`` (Kish 1965), averaged over seeds. With one seed the limits are NaN.
    level : float
        Confidence level of the limits.
    sentences : tuple of str
        Which question each row answers, and what the limits speak of.

    Examples
    --------
    A large client that does well, and a small one that does not:

    >>> from fedstat.inference import both_weightings
    >>> found = both_weightings([[0.9, 0.5], [0.8, 0.6]], [[90, 10], [90, 10]])
    >>> found.table["mean"].round(3)
    clients equally    0.70
    by samples         0.82
    Name: mean, dtype: float64
    """

    table: pd.DataFrame
    level: float
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.table.to_string(float_format="%.4f", na_rep="-"), "", *self.sentences])


def both_weightings(
    values: ArrayLike, samples: ArrayLike, level: float = 0.95, *, within: tuple[float, float] = (-np.inf, np.inf)
) -> BothWeightings:
    """Average over clients equally and by samples, with intervals over seeds.

    Parameters
    ----------
    values : array_like, shape (seeds, clients)
        A metric's value at every client, such as its accuracy; NaN where the client was absent.
    samples : array_like, shape (seeds, clients)
        The number of samples that each value was measured on; zero or NaN where the client was absent.
    level : float
        Confidence level, in (0, 1).
    within : (float, float)
        The range of the values, such as (0, 1) for shares; limits are cut off there.

    Raises
    ------
    ValueError
        If shapes differ, a value is missing at a client that has samples, or a seed has no client.

    Examples
    --------
    >>> from fedstat.inference import both_weightings
    >>> accuracy = [[0.90, 0.50], [0.80, 0.60], [0.88, 0.57]]  # three seeds, a large client and a small one
    >>> print(both_weightings(accuracy, [[90, 10]] * 3))
                      mean    low   high  seeds  effective clients
    clients equally 0.7083 0.6725 0.7442      3             2.0000
    by samples      0.8297 0.7219 0.9374      3             1.2195
    <BLANKLINE>
    Clients equally: what a client drawn at random can expect.
    By samples: what a sample drawn at random can expect.
    Limits at 95% are over seeds; clients of one run are not independent.
    """
    import pandas as pd

    confidence = number("level", level, "(0, 1)")
    value, n = client_table("values", values, samples)
    rows = {}
    for name, weight in (("clients equally", (n > 0).astype(float)), ("by samples", n)):
        means = (weight * np.where(n > 0, value, 0.0)).sum(axis=1) / weight.sum(axis=1)
        mean, low, high = over_seeds(means, confidence, within)
        effective = float((weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1)).mean())
        rows[name] = {"mean": mean, "low": low, "high": high, "seeds": len(means), "effective clients": effective}
    share = f"{confidence:.0%}" if round(confidence * 100, 9).is_integer() else f"{confidence:.1%}"
    about = (
        f"Limits at {share} are over seeds; clients of one run are not independent."
        if len(value) > 1
        else "One seed: no limits. Run more seeds."
    )
    return BothWeightings(pd.DataFrame(rows).T.astype({"seeds": int}), confidence, (*_QUESTIONS.values(), about))


def client_table(name: str, values: ArrayLike, samples: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check a table of clients: return values (NaN where absent) and samples (zero where absent).

    Raises
    ------
    ValueError
        If the two are not matrices of one shape, counts are negative or infinite, a client with samples has no finite
        value, a value has no samples, or a seed has no client at all.
    """
    value, n = np.asarray(values, dtype=float), np.asarray(samples, dtype=float)
    if value.ndim != 2 or value.shape != n.shape or value.size == 0:
        raise ValueError(
            f"{name} and samples must be matrices (seeds, clients) of one shape, got {value.shape} and {n.shape}."
        )
    n = np.where(np.isnan(n), 0.0, n)
    if not np.isfinite(n).all() or (n < 0).any():
        raise ValueError(f"samples must be finite and not negative, got {n.min():g} to {n.max():g}.")
    for wrong, what in (
        ((n > 0) & ~np.isfinite(value), "no finite value, but {n:g} samples. Leaving it out would favour the method: "
         "count it at its worst value, or set its samples to NaN if the client was absent"),
        ((n == 0) & ~np.isnan(value), "a value but no samples. Give the number of samples it was measured on"),
    ):  # fmt: skip
        if wrong.any():
            seed, client = np.argwhere(wrong)[0]
            told = what.format(n=n[seed, client])
            raise ValueError(f"{name}: client {client} under the seed in row {seed} has {told}.")
    if (empty := ~(n > 0).any(axis=1)).any():
        raise ValueError(f"{name}: the seed in row {int(np.flatnonzero(empty)[0])} has no client. Leave the row out.")
    return value, n


def over_seeds(values: np.ndarray, level: float, within: tuple[float, float]) -> tuple[float, float, float]:
    """Return the mean over seeds and its t limits, NaN where one seed alone gives none."""
    if len(values) < 2:
        return float(values.mean()), float("nan"), float("nan")
    lowest, highest = within
    if (np.minimum(values - lowest, highest - values) < -1e-9).any():
        raise ValueError(f"values must lie in [{lowest:g}, {highest:g}], got {values.min():g} to {values.max():g}.")
    return mean_interval(np.clip(values, lowest, highest), level, within=within)

"""How unequal a method treats clients, apart from the noise of small test sets.

With 40 test samples an accuracy has a standard error of 5 to 8 points: identical clients look unfair. The shrinkage is
constrained empirical Bayes. Posterior means under a beta-binomial law order the clients best, but are too close to each
other (Louis 1984); Ghosh (1992) stretches them until their spread is right. Here it is stretched to the moment estimate
of the clients' variance, which is unbiased whatever the law of the clients.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import ndtr

from fedstat._checks import check_level
from fedstat._random import stream
from fedstat.inference.intervals.paired import mean_interval, spreads
from fedstat.inference.predictions.assessment import Assessment, assess
from fedstat.inference.predictions.conclusions import gains_and_losses

#: So near to whole numbers are counts of right answers, as of shares with four decimals.
_WHOLE = 0.04


@dataclass(frozen=True, eq=False)
class Fairness:
    """Inequality over clients; ``print`` it for a table.

    Attributes
    ----------
    table : DataFrame
        One row per measure and version, with the columns measure, version, mean, low, high, seeds, clients: the mean
        over seeds with t limits (NaN with one seed, or without spread), and the mean number of clients. Measures are
        "sd", "worst decile", "Gini", "Jain" and, with a reference, "share that loses" and "share that ties" (is exactly
        as good); versions are "raw" and "shrunken", and beside each what equal clients would show: "noise only" and
        "noise only, shrunken". Of predictions one row per metric and method, with the numbers of ``clients``, of those
        that it is shown to help (``gains``) or to harm (``loses``), or predicts alike (``ties``), and of the others.
    clients : DataFrame or None
        With a reference and the same clients under every seed: per client the mean difference to the reference, the
        shrunken difference with its limits, the probability that the client loses, and whether it "loses", "gains",
        "ties" or is "undecided". Of predictions per metric, method and client the difference to the control with its
        joint limits, and the same words or "undefined". Worst first.
    level : float
        Confidence level of limits, and of shares the probability from which on a client is said to lose or gain.
    notes : tuple of str
        What the numbers rest on.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.inference import fairness
    >>> samples = np.full((4, 20), 50)
    >>> accuracy = np.random.default_rng(0).binomial(samples, 0.8) / samples  # clients are equal: all spread is noise
    >>> found = fairness(accuracy, samples).table.set_index(["measure", "version"])
    >>> found["mean"]["sd"].round(3).to_dict()
    {'raw': 0.06, 'shrunken': 0.021, 'noise only': 0.056, 'noise only, shrunken': 0.012}
    """

    table: pd.DataFrame
    clients: pd.DataFrame | None
    level: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        table = self.table.assign(clients=[f"{count:.4g}" for count in self.table["clients"]])
        shown = [table.to_string(index=False, float_format="%.4f", na_rep="-")]
        if self.clients is not None:
            shown += ["", self.clients.to_string(index=False, float_format="%.4f")]
        return "\n".join([*shown, "", *self.notes])


def fairness(
    accuracy: Any,
    samples: Any = None,
    *,
    reference: ArrayLike | None = None,
    clients: Sequence[Hashable] | None = None,
    fresh_tests: bool = False,
    level: float | None = None,
) -> Fairness:
    """Measure how unequal clients fare under one method, raw, after shrinkage, and by test noise alone.

    Given predictions, it says who is shown to gain and who to lose.

    Parameters
    ----------
    accuracy : array_like, shape (seeds, clients), or predictions
        The share of its test samples that a client gets right; NaN where absent. Of a mean over rounds the noise is
        somewhat smaller than of one evaluation, and is then counted too large; which clients tie, and how many lose by
        noise alone, is then not said. Or, given alone, an `Assessment`, or what `assess` takes, with its usual metrics.
    samples : array_like, shape (seeds, clients)
        The number of test samples; zero or NaN where absent.
    reference : array_like, shape (seeds, clients), optional
        The same clients' accuracies under another method on the same test samples, such as Local's: who loses by taking
        part?
    clients : sequence, length clients, optional
        Names of the clients, to be given only if they are the same under every seed. Then those that lose are named.
    fresh_tests : bool
        Whether each seed tests the named clients on other samples. If not, more seeds do not lessen the test's noise.
    level : float, optional
        Confidence level, in (0, 1); by default that of the assessment, or 0.95.

    Raises
    ------
    ValueError
        If shapes or counts are wrong, accuracies lie outside [0, 1], a seed has fewer than two clients, or none of its
        clients has two test samples; or if predictions do not compare two methods at two clients.

    Notes
    -----
    The variance over clients is the variance of the raw shares (divisor K - 1) minus the mean of
    ``a (1 - a) / (n - 1)``, which is unbiased, and zero where negative. The measures of one
    seed are functions of its clients alone, and limits run over seeds: clients of one run are coupled through the
    shared model.

    Whether a client loses is judged by a hierarchical normal model of the differences. A client at which both methods
    are exactly as good, under every seed, ties: it neither loses nor gains. On the same samples two methods share test
    noise, which their difference does not have. Shares do not tell how much. What is counted is the noise of two
    separate tests, scaled down where the mean square of the differences is below it, since no noise is larger than
    what is seen; and at a client at least ``|d| (1 - |d|) / n``, the noise if one method is right wherever the other
    is. Shrunken numbers err towards equal clients.

    Predictions tell how much noise methods share: who gains or loses is what the joint limits of `assess` show, and
    clients with the same predictions under both methods tie.

    References
    ----------
    T. A. Louis, Estimating a population of parameter values using Bayes and empirical Bayes methods, JASA 1984.
    M. Ghosh, Constrained Bayes estimation with applications, JASA 1992.

    Examples
    --------
    Clients that are equal, so that all inequality is noise of their tests:

    >>> import numpy as np
    >>> from fedstat.inference import fairness
    >>> samples = np.full((4, 20), 50)  # four seeds, twenty clients with fifty test samples each
    >>> accuracy = np.random.default_rng(0).binomial(samples, 0.8) / samples
    >>> found = fairness(accuracy, samples)
    >>> print(found.table.query("measure == 'sd'").round(3).to_string(index=False))
    measure              version  mean   low  high  seeds  clients
         sd                  raw 0.060 0.047 0.074      4     20.0
         sd             shrunken 0.021 0.000 0.048      4     20.0
         sd           noise only 0.056 0.053 0.059      4     20.0
         sd noise only, shrunken 0.012 0.011 0.014      4     20.0
    >>> print(found.notes[-1])
    Under 1 of 4 seeds the shares spread no more than noise does: all clients count as equal there.
    """
    if samples is None and not isinstance(accuracy, list | np.ndarray):
        if reference is not None or clients is not None or fresh_tests:
            raise ValueError("reference, clients and fresh_tests go with samples: predictions tell these themselves.")
        of = accuracy if isinstance(accuracy, Assessment) else assess(accuracy, level=0.95 if level is None else level)
        if level not in (None, of.level):
            raise ValueError(f"level is that of the assessment, {of.level:g}, got {level}. Give it to fs.assess.")
        table, named, said = gains_and_losses(of)
        return Fairness(table, named, of.level, (*said, of.conclusions[-1], *of.notes))
    level = check_level(0.95 if level is None else level)
    a, n = _shares("accuracy", accuracy, samples)
    names = None if clients is None else list(clients)
    if names is not None and not (len(names) == len(set(names)) == a.shape[1]):
        raise ValueError(
            f"clients must be {a.shape[1]} different names, one per column, got {len(names)}: {names[:5]}."
        )
    found, unspread = _unequal(a, n)
    whose = "new seeds, each with the clients that it draws" if names is None else "new seeds with these clients"
    notes = [
        "raw: of the shares as measured; shrunken: of the clients themselves (beta-binomial, constrained empirical "
        "Bayes); noise only: of equal clients with these numbers of test samples, by the same rule.",
        f"Limits are over seeds and speak of {whose}; clients of one run are not independent."
        if len(a) > 1
        else "One seed: no limits. Run more seeds.",
    ]
    if unspread:
        notes.append(
            f"Under {unspread} of {len(a)} seeds the shares spread no more than noise does: "
            "all clients count as equal there."
        )
    if (least := int((n > 0).sum(axis=1).min())) < 10:
        notes.append(f"With {least} clients the worst decile is the worst client.")
    of_names = None
    if reference is not None:
        r, _ = _shares("reference", reference, samples)
        found |= _beside(a, r, n, notes)
        if names is not None:
            of_names = _named(a, r, n, names, fresh_tests, level)
            notes.append(
                f"A client is said to lose or gain where its probability is at least {level:g}, each client by itself: "
                "of many, some may be named by chance."
            )
    table = pd.DataFrame([[*key, *_over_seeds(values, level), len(values)] for key, values in found.items()])
    table.columns = ["measure", "version", "mean", "low", "high", "seeds"]
    return Fairness(table.assign(clients=float((n > 0).sum(axis=1).mean())), of_names, level, tuple(notes))


def _unequal(a: np.ndarray, n: np.ndarray) -> tuple[dict[tuple[str, str], list[float]], int]:
    """Return the measures of inequality under each seed, by measure and version, and how many seeds show none."""
    found: dict[tuple[str, str], list[float]] = {}
    unspread = 0
    for row, (share, count) in enumerate(zip(a, n, strict=True)):
        p, size = share[count > 0], count[count > 0]
        unspread += bool(latent_variance(p, size) < 1e-12)
        rng = stream(0, "fairness by noise alone", row)
        noise = rng.binomial(size.round().astype(int), p.mean(), size=(_draws(len(p)), len(p))) / size.round()
        versions = {
            "raw": p[None],
            "shrunken": _constrained(p, size)[None],
            "noise only": noise,
            "noise only, shrunken": _constrained(noise, size),
        }
        for version, values in versions.items():
            for measure, of_draws in _measures(values).items():
                found.setdefault((measure, version), []).append(float(of_draws.mean()))
    return found, unspread


def _beside(a: np.ndarray, r: np.ndarray, n: np.ndarray, notes: list[str]) -> dict[tuple[str, str], list[float]]:
    """Return under each seed the shares of clients that lose and tie beside a reference; note what they rest on."""
    each = [(a[row, here], r[row, here], n[row, here]) for row, here in enumerate(n > 0)]
    d = np.concatenate([_differences(one, other) for one, other, _ in each])
    apart = _apart(d, np.concatenate([separate_noise(*seed) for seed in each]))
    if apart < 1:
        notes.append(
            "Clients differ by less than the noise of two separate tests: the methods share test noise, and "
            f"{100 * apart:.2g}% of that variance is counted."
        )
    right = np.concatenate([np.multiply(seed[:2], seed[2]).ravel() for seed in each])
    losing = pd.DataFrame([_losing(*seed, apart, row) for row, seed in enumerate(each)])
    if np.abs(right - right.round()).max() >= _WHOLE:  # means over tests tie more rarely than one test does
        losing = losing[[("share that loses", "raw"), ("share that loses", "shrunken")]]
        notes.append(
            "Accuracies times test samples are not whole, as of means over several tests: how many clients lose or "
            "tie by noise alone is not known."
        )
    return losing.to_dict("list")


def _over_seeds(values: list[float], level: float) -> tuple[float, float, float]:
    """Return the mean of shares over seeds with its limits, NaN without spread."""
    shares = np.clip(values, 0.0, 1.0)  # rounding may reach beyond the ends
    if len(shares) > 1 and spreads(shares):
        return mean_interval(shares, level, within=(0.0, 1.0))
    return float(shares.mean()), np.nan, np.nan


def gini(values: np.ndarray) -> np.ndarray:
    """Return the Gini coefficient of non-negative values along the last axis: 0 if all are equal (or zero), below 1.

    It is the mean absolute difference of two values drawn with replacement, divided by twice the mean.
    """
    x = np.sort(values, axis=-1)
    count, total = x.shape[-1], x.sum(axis=-1)
    weight = 2 * np.arange(1, count + 1) - count - 1
    return np.maximum((x * weight).sum(axis=-1) / (count * np.where(total > 0, total, 1.0)), 0.0)


def jain_index(x: np.ndarray) -> np.ndarray:
    """Return Jain's index ``(sum x)^2 / (K sum x^2)`` along the last axis: 1 if all are equal, 1 / K if one has all.

    All values zero are equal values: 1.
    """
    largest = x.max(axis=-1, keepdims=True)
    x = np.where(largest > 0, x / np.where(largest > 0, largest, 1.0), 1.0)  # squares of tiny values are zero
    return np.asarray(x.sum(axis=-1) ** 2 / (x.shape[-1] * (x**2).sum(axis=-1)))


def _measures(values: np.ndarray) -> dict[str, np.ndarray]:
    worst = -(-values.shape[-1] // 10)
    return {
        "sd": values.std(axis=-1, ddof=1),
        "worst decile": np.sort(values, axis=-1)[..., :worst].mean(axis=-1),
        "Gini": gini(values),
        "Jain": jain_index(values),
    }


def _shares(name: str, values: ArrayLike, samples: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check shares and samples of clients (seeds, clients): return both, where a client is absent NaN and zero."""
    share, n = np.asarray(values, dtype=float), np.asarray(samples, dtype=float)
    if share.ndim != 2 or share.shape != n.shape or share.size == 0:
        raise ValueError(
            f"{name} and samples must be matrices (seeds, clients) of one shape, got {share.shape} and {n.shape}."
        )
    n = np.where(np.isnan(n), 0.0, n)
    if not np.isfinite(n).all() or (n < 0).any():
        raise ValueError(f"samples must be finite and not negative, got {n.min():g} to {n.max():g}.")
    for wrong, what in (
        ((n > 0) & ~np.isfinite(share), "no finite value, but {n:g} samples. Leaving it out would favour the method: "
         "count it at its worst value, or set its samples to NaN if the client was absent"),
        ((n == 0) & ~np.isnan(share), "a value but no samples. Give the number of samples it was measured on"),
    ):  # fmt: skip
        if wrong.any():
            seed, client = np.argwhere(wrong)[0]
            told = what.format(n=n[seed, client])
            raise ValueError(f"{name}: client {client} under the seed in row {seed} has {told}.")
    known = share[n > 0]
    if (known < 0).any() or (known > 1).any():
        raise ValueError(f"{name} must hold shares in [0, 1], got {known.min():g} to {known.max():g}. Divide by 100?")
    for row, count in enumerate(n):
        if (present := int((count > 0).sum())) < 2:
            raise ValueError(f"{name}: fairness compares at least two clients, got {present} in row {row}.")
        if count.max() < 2:
            raise ValueError(
                f"samples: under the seed in row {row} no client has two test samples, so that the spread of clients "
                "cannot be told from noise. Test on more samples."
            )
        if not (count >= 1)[count > 0].all() or (count != count.round()).any():
            raise ValueError(f"samples must be whole numbers, got {count[count != count.round()][0]:g} in row {row}.")
    return share, n


def _draws(clients: int) -> int:
    return min(2000, max(25, 20_000 // clients))


def _bernoulli_variance(p: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return unbiased estimates of each client's ``p (1 - p)``; one test sample alone tells nothing: others' mean."""
    several = n > 1
    own = p * (1 - p) * n / np.where(several, n - 1, 1)
    return np.where(several, own, own[..., several].mean(axis=-1, keepdims=True))


def latent_variance(p: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return an unbiased estimate of the variance of clients behind their shares; by chance it may be negative."""
    return p.var(axis=-1, ddof=1) - (_bernoulli_variance(p, n) / n).mean(axis=-1)


def _constrained(p: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return shrunken shares with the mean of the raw shares and the estimated variance (cut off at 0 and 1)."""
    mean, variance = p.mean(axis=-1, keepdims=True), np.maximum(latent_variance(p, n), 0.0)[..., None]
    spread = variance > 1e-12
    # a beta law with this mean and variance is worth as many samples; none if the shares are all 0 or 1
    prior = np.maximum(mean * (1 - mean) / np.where(spread, variance, 1.0) - 1, 0.0)
    posterior = (n * p + prior * mean) / (n + prior)
    posterior = posterior - posterior.mean(axis=-1, keepdims=True)
    found = posterior.var(axis=-1, ddof=1, keepdims=True)
    stretch = np.sqrt(np.where(spread, variance, 0.0) / np.where(found > 0, found, 1.0))
    return np.clip(mean + posterior * stretch, 0.0, 1.0)


def hierarchical_differences(d: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each client's posterior mean and sd, and the probabilities that its true difference is below zero.

    True differences follow a normal law with unknown mean and sd, both with flat priors (Gelman et al., Bayesian Data
    Analysis, section 5.4). The sd is integrated over a grid: an estimate of zero would make all clients lose or gain
    together, as soon as their mean does. The probabilities of above and of below zero are the last answer's two rows.
    """
    if noise.max() == 0:  # all shares are 0 or 1
        return d, np.zeros_like(d), np.stack([d < 0, d > 0]).astype(float)
    tau2 = np.linspace(0, 2 * max(d.std(), float(np.sqrt(noise.mean()))), 64)[:, None] ** 2
    total = tau2 + noise
    mean_variance = 1 / (1 / total).sum(axis=1, keepdims=True)
    mean = (d / total).sum(axis=1, keepdims=True) * mean_variance
    log = 0.5 * (np.log(mean_variance) - (np.log(total) + (d - mean) ** 2 / total).sum(axis=1, keepdims=True))
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    each = (tau2 * d + noise * mean) / total
    variance = tau2 * noise / total + (noise / total) ** 2 * mean_variance
    posterior = (weight * each).sum(axis=0)
    sd = np.sqrt((weight * (variance + (each - posterior) ** 2)).sum(axis=0))
    below = (weight * ndtr(-each / np.sqrt(variance))).sum(axis=0)
    return posterior, sd, np.stack([below, 1 - below])


def _differences(a: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return the clients' differences; zero where only the rounding of a mean makes one."""
    d = a - r
    return np.where(np.abs(d) < 1e-9, 0.0, d)


def separate_noise(a: np.ndarray, r: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return the variances that test noise would give the differences if the methods had separate test samples."""
    return (_bernoulli_variance(a, n) + _bernoulli_variance(r, n)).mean() / n


def _apart(d: np.ndarray, separate: np.ndarray) -> float:
    """Return the largest part of the separate tests' noise that differences leave room for: all of it is 1."""
    total = float(separate.sum())
    return min(1.0, float((d**2).sum()) / total) if total else 1.0


def _noise(d: np.ndarray, separate: np.ndarray, apart: float, n: np.ndarray) -> np.ndarray:
    """Return the variances of test noise in differences, not below those of methods that err at the same samples."""
    return np.maximum(apart * separate, np.abs(d) * (1 - np.abs(d)) / n)


def _losing(a: np.ndarray, r: np.ndarray, n: np.ndarray, apart: float, row: int) -> dict[tuple[str, str], float]:
    """Return the shares of clients below the reference and at it: as measured, expected, and of equal clients."""
    d = _differences(a, r)
    below = hierarchical_differences(d, _noise(d, separate_noise(a, r, n), apart, n))[2][0]
    # of each sample: only the method is right, or only the reference
    p, q = float(a.mean()), float(r.mean())
    differ = max(apart * (p * (1 - p) + q * (1 - q)) + (p - q) ** 2, abs(p - q))
    up, down = (differ + p - q) / 2, (differ - p + q) / 2
    rng, size = stream(0, "losing by noise alone", row), n.round().astype(int)
    gained = rng.binomial(size, up, size=(_draws(len(d)), len(d)))
    lost = rng.binomial(size - gained, down / (1 - up) if up < 1 else 0.0)
    return {
        ("share that loses", "raw"): float((d < 0).mean()),
        ("share that loses", "shrunken"): float(np.where(d == 0, 0.0, below).mean()),
        ("share that loses", "noise only"): float((gained < lost).mean()),
        ("share that ties", "raw"): float((d == 0).mean()),
        ("share that ties", "noise only"): float((gained == lost).mean()),
    }


def _named(
    a: np.ndarray, r: np.ndarray, n: np.ndarray, names: list[Hashable], fresh: bool, level: float
) -> pd.DataFrame:
    """Return the clients' differences over seeds, shrunken, worst first."""
    here = n > 0
    if not here.any(axis=0).all():
        raise ValueError(f"clients: {names[int(np.flatnonzero(~here.any(axis=0))[0])]!r} is absent under every seed.")
    seeds = here.sum(axis=0)
    size = n.sum(axis=0) / seeds
    each = np.where(here, _differences(a, r), np.nan)
    ties = ((each == 0) | ~here).all(axis=0)
    mean_a, mean_r = (np.nanmean(np.where(here, x, np.nan), axis=0) for x in (a, r))
    d = _differences(mean_a, mean_r)
    separate = separate_noise(mean_a, mean_r, size)
    test = _noise(d, separate, _apart(d, separate), size)
    freedom = int((seeds - 1).sum())
    over = float(np.nansum((each - d) ** 2)) / freedom if freedom else 0.0
    if fresh and freedom:
        # seeds show all of the noise; between clients it goes with the binomial one
        noise = over * (test / test.mean() if test.any() else np.ones_like(test)) / seeds
    else:
        noise = test + over / seeds
    mean, sd, probabilities = hierarchical_differences(d, noise)
    loses, gains = np.where(ties, 0.0, probabilities)
    half = stats.norm.ppf((1 + level) / 2) * sd
    table = pd.DataFrame(
        {
            "client": names,
            "difference": d,
            "shrunken": mean,
            "low": mean - half,
            "high": mean + half,
            "probability of losing": loses,
            "outcome": np.select([ties, loses >= level, gains >= level], ["ties", "loses", "gains"], "undecided"),
            "seeds": seeds,
        }
    )
    return table.sort_values("shrunken", kind="stable").reset_index(drop=True)

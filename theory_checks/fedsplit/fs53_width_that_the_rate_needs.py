"""FS-53: the width needed grows at least as fast as prescribed."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from fedstat.claims import Claim, Evidence, within
from fedstat.inference import mean_interval
from fedstat.ntk import extreme_eigenvalues
from fedstat.theory.convergence import convergence_factor
from theory_checks.fedsplit.trained_networks import Sample, train

#: Units of each kind; angles between the two inputs of the first client; seeds with ten starts each.
_WIDTHS = tuple(2**k for k in range(5, 13))
_ANGLES = tuple(float(a) for a in np.geomspace(0.1, 0.18, 4))
_SEEDS, _STARTS = 6, 10


def _sample(angle: float) -> Sample:
    """Return four unit inputs at two clients, two of them at an angle, labels along the slowest eigenvector."""
    x = np.array([[[1, 0, 0], [math.cos(angle), math.sin(angle), 0]], [[0, 0.6, 0.8], [0.6, 0, -0.8]]])
    shared, personal = Sample(x, np.zeros((2, 2))).limits
    return Sample(x, np.linalg.eigh(shared / 2 + personal)[1][:, 0].reshape(2, 2))


def _least_width(sample: Sample, seed: int) -> float:
    """Return the width at which the median start loses what is guaranteed, until half of the residual should be lost.

    It is interpolated between widths, on logarithmic scales.
    """
    shared, personal = sample.limits
    size = {"eta_g": 1.0, "eta_l": sample.round_step, "local_steps": 1, "clients": 2}
    guaranteed = -math.log(convergence_factor(shared, personal, **size))  # type: ignore[arg-type]
    rounds = math.ceil(math.log(2) / guaranteed)
    logs = []
    for width in _WIDTHS:
        squared = train(
            sample, width, starts=_STARTS, rounds=rounds + 1, local_steps=1, seed=seed, zero_output=True, watch=False
        ).squared
        rate = float(np.median(-np.log(squared[:, -1]))) / rounds
        logs.append(math.log(rate / guaranteed))
        if logs[-1] > 0:
            break
    return float(np.exp(np.interp(0.0, logs[-2:], np.log(_WIDTHS[: len(logs)])[-2:])))


@cache
def _slopes() -> tuple[list[float], list[float]]:
    """Return the smallest eigenvalues, and for each seed the power of them that the least width follows."""
    samples = [_sample(angle) for angle in _ANGLES]
    lows = np.log([extreme_eigenvalues(s.limits[0])[0] for s in samples])
    widths = [[_least_width(s, seed) for s in samples] for seed in range(_SEEDS)]
    return list(lows), [float(np.polyfit(lows, np.log(row), 1)[0]) for row in widths]


def _power(claimed: tuple[float, float]) -> Evidence:
    lows, slopes = _slopes()
    _, low, high = mean_interval(slopes)
    what = f"least width like λ to the power b, for λ from {math.exp(lows[0]):.2g} to {math.exp(lows[-1]):.2g}; b"
    return within(low, high, claimed, cases=_SEEDS, what=what)


FS53 = Claim(
    id="FS-53",
    place="section 3.3, Theorem 1, third sentence: the widths' powers of λ",
    said_by="fedstat",
    words="Where two inputs of a client nearly agree, the least width at which networks keep to the guaranteed rate "
    "grows at least like the fourth power of 1/λ, as the prescribed widths do (λ from 0.018 to 0.035).",
    statement='m_"least" prop lambda^b, quad b <= -4',
    severity="false",
    assumptions="four unit inputs at two clients, of which the first holds two at a small angle, and labels along the "
    "slowest eigenvector; a start of zero output, G = 1, η_g = 1, steps of half the limit of stability, updates "
    "without 1/n; the width counts units of each kind, and is the least at which the median start loses what is "
    "guaranteed in as many rounds as the guarantee takes to halve the squared residual. If the theorem holds, the "
    "power can exceed four over a narrow range only; the widths found are less than a millionth of "
    "N⁴ log(N/δ) (λˢ)⁻⁴",
    sensitivity="a power above −4 by the half-width of the interval, one half; nothing is said of smaller λ",
)


@FS53.reading("two inputs of one client at angles of 6 to 10 degrees")
def power() -> Evidence:
    return _power((-np.inf, -4.0))


@FS53.mutant("grows at least like the eighth power of 1/λ")
def eighth() -> Evidence:
    return _power((-np.inf, -8.0))

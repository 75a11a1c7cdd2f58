"""FS-49: Gram matrices of wide networks stay close to their start."""

from __future__ import annotations

from functools import cache

import numpy as np

from fedstat.claims import Claim, Evidence, all_of, both, probability, within
from fedstat.inference import mean_interval
from fedstat.ntk import extreme_eigenvalues
from theory_checks.fedsplit.trained_networks import Sample, Training, train

#: Units of each kind, starts at each width, rounds and local steps.
_WIDTHS = tuple(2**k for k in range(5, 13))
_STARTS, _ROUNDS, _LOCAL_STEPS = 60, 10, 3
_KINDS = ("shared", "personal")


def _sample() -> Sample:
    """Return four unit inputs at two clients, labels 1 and -1 at each."""
    x = np.array([[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 1, 1]]], dtype=float)
    return Sample(x / np.linalg.norm(x, axis=2, keepdims=True), np.array([[1.0, -1.0], [-1.0, 1.0]]))


@cache
def _trained(width: int) -> Training:
    return train(_sample(), width, starts=_STARTS, rounds=_ROUNDS, local_steps=_LOCAL_STEPS, seed=0)


def _rates() -> Evidence:
    """Slope of the logarithm of the largest distance from the start, averaged over five starts, on the width's."""
    parts = []
    for k, kind in enumerate(_KINDS):
        distances = [_trained(m).from_start[:, k].reshape(-1, 5).mean(axis=1) for m in _WIDTHS]
        slopes = np.polyfit(np.log(_WIDTHS), np.log(distances), 1)[0]
        _, low, high = mean_interval(slopes, 0.975)
        told = f"largest distance of the {kind} Gram matrices from their start, like m to the power b; b"
        parts.append(within(low, high, (-0.7, -0.45), cases=len(slopes), what=told, level=0.975))
    return both(*parts)


def _close(width: int) -> Evidence:
    """Starts whose Gram matrices stay within half the smallest eigenvalue from their limits, at every step."""
    lows = [extreme_eigenvalues(kernel)[0] for kernel in _sample().limits]
    parts = []
    for k, kind in enumerate(_KINDS):
        good = int((_trained(width).from_limit[:, k] <= lows[k] / 2).sum())
        what = f"starts with {width} units of each kind whose {kind} Gram matrices stay within λ/2 = {lows[k] / 2:.3g}"
        parts.append(probability(good, _STARTS, at_least=0.95, what=what))
    return all_of(parts)


FS49 = Claim(
    id="FS-49",
    place="section 3.3, paragraph after Definition 2, third sentence; the step that carries Theorem 1 to networks",
    said_by="paper",
    words="While a wide network trains, its Gram matrices stay close to those of its start, and these are close to the "
    "limit kernels.",
    statement="norm(H(t, g) - H(0)) = O(1 / sqrt(m)), quad norm(H(t, g) - H^infinity) <= lambda / 2",
    severity="false",
    assumptions="the paper does not say how close, and its proof is not in the text; half the limit's smallest "
    "eigenvalue is what proofs of this kind need to keep half of the rate (Du et al., 2018). Four unit inputs in "
    "three dimensions at two clients, labels 1 and −1, G = 3, ten rounds of half the limit of stability, in which the "
    "squared residual falls to less than a hundredth; distances are spectral, the largest over all local steps; "
    "'like 1/√m' is an exponent between −0.7 and −0.45",
    sensitivity="an exponent above −0.45; at 4,096 units a distance above λ/2 in one start of twenty",
)


@FS49.reading("how far they move: like 1/√m, from 32 to 4,096 units of each kind")
def rates() -> Evidence:
    return _rates()


@FS49.reading("whether they stay close enough for the rate: within λ/2 of the limits, with 4,096 units of each kind")
def close() -> Evidence:
    return _close(_WIDTHS[-1])


@FS49.mutant("within λ/2 of the limits with 32 units of each kind")
def narrow() -> Evidence:
    return _close(_WIDTHS[0])

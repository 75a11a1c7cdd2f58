"""An audit of a mechanism: how well one can tell from what rounds release whether a client took part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import stats

from fedstat._account import stated
from fedstat._checks import number, whole
from fedstat._random import stream
from fedstat.federated.attendance import Attended, Poisson, attended_by
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.mechanisms import Mechanism, check_mechanism, released
from fedstat.federated.replicate import participants

#: How far beyond the clipping norm the canary goes, and coordinates of its change.
_FAR, _WIDTH = 1e6, 4
#: Numbers of changes that are made at once.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    lower : float
        The lower confidence limit of epsilon: at the stated confidence no smaller epsilon is true.
    confidence : float
        The confidence.
    delta : float
        The delta at which epsilon is meant.
    replaced : bool
        Whether the canary is replaced by its opposite, or put to zero; under Poisson sampling it is removed instead.
    true_positives, false_positives : float
        Shares of the trials with the canary, and without it, in which the test says that it is there.
    trials : int
        Trials of each kind on which these shares rest.

    Examples
    --------
    >>> import fedstat as fs
    >>> found = fs.privacy.audit(fs.mechanisms.Gaussian(clip=1.0, noise=0.5), clients=5, rounds=2, trials=2000)
    >>> found.lower < fs.privacy.spent(fs.mechanisms.Gaussian(clip=1.0, noise=0.5), clients=5, rounds=2).epsilon
    True
    """

    lower: float
    confidence: float
    delta: float
    replaced: bool
    true_positives: float
    false_positives: float
    trials: int

    def __str__(self) -> str:
        return (
            f"epsilon is {self.lower:.3f} at least, at delta {self.delta:.3g} and {self.confidence:.0%} confidence: "
            f"the test finds the canary in {self.true_positives:.1%} of {self.trials:,} trials with it and in "
            f"{self.false_positives:.1%} of as many without it"
        )


def audit(
    mechanism: Mechanism,
    *,
    clients: int,
    rounds: int,
    participation: float | Poisson = 1.0,
    delta: float | None = None,
    confidence: float = 0.95,
    trials: int = 10_000,
    seed: int = 0,
) -> Audit:
    """Return a lower confidence limit of a mechanism's epsilon, from a membership test of a canary.

    One client is the canary. Its change is as large as can be, in a direction in which nobody else moves; what is tried
    is what the server releases of it, over all rounds, by the functions by which runs draw participants, cut changes
    and add noise. In half of the trials the canary is there; in the others its change is zero, or, where participants
    are drawn in a fixed number, the opposite: the relation of `Spent`. The test sums what the rounds release in the
    canary's direction. On half of the trials it chooses its threshold and its side, and on the others both error rates
    are bounded (Clopper and Pearson), each at half of what `confidence` leaves. An (epsilon, delta) private mechanism
    has ``TPR <= exp(epsilon) FPR + delta``, and so the limit follows (Jagielski, Ullman and Oprea 2020; Nasr et al.
    2023). It is valid for any mechanism, and low where trials are few: of n trials on each side none exceeds log n.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism, fedstat's or one's own.
    clients, rounds, participation, delta
        As `spent` takes them; participants are a fixed number, or drawn by `fedstat.attendance.Poisson`.
    confidence : float
        Of the limit, in (0, 1).
    trials : int
        Trials with the canary, and as many without; four at least.
    seed : int
        Of all draws.

    Raises
    ------
    ValueError
        If an argument is out of range, or `mechanism` is none.

    Examples
    --------
    A mechanism whose noise lacks its factor, the norm that changes are cut to:

    >>> from dataclasses import dataclass
    >>> import fedstat as fs
    >>> @dataclass(frozen=True)
    ... class Weak(fs.mechanisms.Gaussian):
    ...     def _drawn(self, like, rng):
    ...         return super()._drawn(like, rng) / self.clip
    >>> claimed = fs.privacy.spent(fs.mechanisms.Gaussian(clip=5.0, noise=4.0), clients=5, rounds=1)
    >>> bool(fs.privacy.audit(Weak(clip=5.0, noise=4.0), clients=5, rounds=1).lower > claimed.epsilon)
    True
    """
    check_mechanism(mechanism, "uniform", aggregator=None, compression=None)
    clients, rounds, trials = whole("clients", clients, 1), whole("rounds", rounds, 1), whole("trials", trials, 4)
    delta = stated(delta, clients)
    alpha = 1 - number("confidence", confidence, "(0, 1)")
    if not isinstance(participation, Poisson):
        participation = number("participation", participation, "(0, 1]")
    replaced = isinstance(participation, float) and len(participants(0, 0, clients, participation)) < clients
    inside, outside = (
        _scores(mechanism, clients, rounds, participation, trials, sign, stream(seed, "audit", k))
        for k, sign in enumerate((1, -1 if replaced else 0))
    )
    half = trials // 2
    cut, above = _threshold(inside[:half], outside[:half], delta, alpha)
    found = [np.mean((scores[half:] > cut) == above) for scores in (inside, outside)]
    lower = float(_limit(found[0], found[1], trials - half, delta, alpha))
    return Audit(lower, confidence, delta, replaced, float(found[0]), float(found[1]), trials - half)


def _scores(
    mechanism: Mechanism, clients: int, rounds: int, participation: float | Poisson, trials: int, sign: int,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Return what each trial's rounds release in the direction of the canary, which is client 0, summed."""
    direction = torch.ones(_WIDTH, dtype=torch.float64) / _WIDTH**0.5
    seeds, found = rng.integers(2**62, size=trials).tolist(), np.zeros(trials)
    for t in range(rounds):
        if isinstance(participation, Poisson):
            who = [attended_by(participation, Seeds(one), t, clients) for one in seeds]
            if not sign:  # the canary is no client at all
                who = [replace(one, ids=one.ids[one.ids > 0]) for one in who]
        elif participation == 1.0:
            who = [Attended(np.arange(clients))] * trials
        else:
            who = [Attended(participants(one, t, clients, participation)) for one in seeds]
        alike = dict[tuple[int, float], list[int]]()
        for trial, one in enumerate(who):
            alike.setdefault((len(one.ids), one.of), []).append(trial)
        for (m, of), trials_of in alike.items():
            step = max(1, _AT_ONCE // (max(1, m) * _WIDTH))
            for first in range(0, len(trials_of) if of else 0, step):  # nothing is released where `of` is 0
                rows = trials_of[first : first + step]
                canary = torch.from_numpy(np.stack([who[trial].ids for trial in rows]) == 0).double()  # (trials, m)
                changes = sign * _FAR * mechanism.clip * canary[..., None] * direction
                found[rows] += (released(mechanism, changes, of, rng) @ direction).numpy()
    return found


def _threshold(inside: np.ndarray, outside: np.ndarray, delta: float, alpha: float) -> tuple[float, bool]:
    """Return the threshold and the side of it, of all between scores, by which the limit would be highest."""
    cuts = np.unique(np.concatenate([inside, outside]))
    above = [1 - np.searchsorted(np.sort(scores), cuts, side="right") / len(scores) for scores in (inside, outside)]
    limits = np.stack([_limit(above[0], above[1], len(inside), delta, alpha),
                       _limit(1 - above[0], 1 - above[1], len(inside), delta, alpha)])  # fmt: skip
    side, place = np.unravel_index(int(limits.argmax()), limits.shape)
    return float(cuts[place]), bool(side == 0)


def _limit(positives: Any, falses: Any, trials: int, delta: float, alpha: float) -> Any:
    """Return the epsilon below which shares of true and false positives of so many trials each cannot lie."""
    hits, wrong = np.round(np.multiply(positives, trials)), np.round(np.multiply(falses, trials))
    low = np.where(hits > 0, stats.beta.ppf(alpha / 2, np.maximum(hits, 1), trials - hits + 1), 0)
    high = np.where(wrong < trials, stats.beta.ppf(1 - alpha / 2, wrong + 1, np.maximum(trials - wrong, 1)), 1)
    return np.log(np.maximum((low - delta) / high, 1))

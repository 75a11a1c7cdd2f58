"""Learning-rate schedules: factors of the learning rate, as functions of the round and of the step in it.

Any function ``schedule(round, step)`` will do, both counted from 0; these are the usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fedstat._checks import check_fields, whole

Schedule = Callable[[int, int], float]


@dataclass(frozen=True)
class Cosine:
    """From 1 to `least` along half a cosine (Loshchilov and Hutter 2017, without restarts), then constant.

    Parameters
    ----------
    rounds : int
        Rounds until `least` is reached.
    least : float
        Factor at the end, in [0, 1].

    Examples
    --------
    >>> import fedstat as fs
    >>> decay = fs.schedules.Cosine(rounds=10)
    >>> [round(decay(t, 0), 3) for t in (0, 5, 10, 11)]
    [1.0, 0.5, 0.0, 0.0]
    """

    rounds: int
    least: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, rounds=1, least="[0, 1]")

    def __call__(self, round: int, step: int) -> float:
        """Return the factor of a round."""
        done = min(1.0, round / self.rounds)
        return self.least + (1 - self.least) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class Warmup:
    """From near 0 to 1 in equal parts, over the first rounds or over the first steps of every round.

    Parameters
    ----------
    rounds, steps : int
        How many of them have a smaller rate; 0 for none.

    Examples
    --------
    >>> import fedstat as fs
    >>> [fs.schedules.Warmup(rounds=4)(t, 0) for t in (0, 1, 3, 4)]
    [0.25, 0.5, 1.0, 1.0]
    """

    rounds: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        check_fields(self, rounds=0, steps=0)

    def __call__(self, round: int, step: int) -> float:
        """Return the factor of a step."""
        return min(1.0, (round + 1) / max(1, self.rounds)) * min(1.0, (step + 1) / max(1, self.steps))


@dataclass(frozen=True)
class Milestones:
    """A smaller rate after each of some rounds.

    Parameters
    ----------
    after : tuple of int
        Rounds completed before the rate falls, each at least 1.
    factor : float
        By which it falls, in [0, 1].

    Examples
    --------
    >>> import fedstat as fs
    >>> [fs.schedules.Milestones((50, 75), 0.5)(t, 0) for t in (49, 50, 75)]
    [1.0, 0.5, 0.25]
    """

    after: tuple[int, ...]
    factor: float = 0.1

    def __post_init__(self) -> None:
        check_fields(self, factor="[0, 1]")
        object.__setattr__(self, "after", tuple(whole("after", one, 1) for one in self.after))

    def __call__(self, round: int, step: int) -> float:
        """Return the factor of a round."""
        return self.factor ** sum(round >= one for one in self.after)

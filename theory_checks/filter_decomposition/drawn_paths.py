"""Federated averaging with drawn clients on scalar problems, exactly: distances before and after every draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from fedstat.claims import Evidence, Sides, compared
from theory_checks.filter_decomposition.averaging_exactly import (
    SINGLE_CLIENTS,
    Scalars,
    client_pairs,
    mean_of,
    whole_offset,
)
from theory_checks.filter_decomposition.drawn_clients import Sizes


class Moment(NamedTuple):
    """At a step t: E |w^ - w*|^2 of all clients' average, E |w - w*|^2 after the draw, if any, and G^2 so far."""

    everyone: Fraction
    drawn: Fraction
    squared_gradient: Fraction


class Schedule(NamedTuple):
    """Step sizes by the problem and t, in words and as a function."""

    words: str
    rate: Callable[[Scalars, int], Fraction]


#: The step sizes that the proof chooses, and those that Theorem 5.4 prints.
OF_THE_THEOREM = tuple(
    Schedule(f"η_t = {n}/(μ(γ + t))", lambda p, t, n=n: Fraction(n, p.convexity * (whole_offset(p) + t)))  # type: ignore[misc]
    for n in (2, 1)
)
#: What A.4.2 and A.4.3 ask for: not growing, at most 1/(4L), at most halved within E steps.
AS_ASSUMED = (
    Schedule("η_t = 1/(4L)", lambda p, t: Fraction(1, 4 * p.smoothness)),
    Schedule(
        "η_t = 1/(4L), halved after every E steps",
        lambda p, t: Fraction(1, 4 * p.smoothness * 2 ** ((t - 1) // p.local_steps)),
    ),
)


def moments(problem: Scalars, schedule: Schedule, steps: int) -> list[Moment]:
    """Return the moments at t = 1..steps + 1, over all sequences of draws."""
    target, everyone = problem.optimum, (problem.start - problem.optimum) ** 2
    paths = [(problem.start,) * len(problem.h)]
    found, largest = [], Fraction(0)
    for t in range(1, steps + 2):
        drawn = mean_of((mean_of(path) - target) ** 2 for path in paths)
        for k, (h, c) in enumerate(zip(problem.h, problem.c, strict=True)):
            largest = max(largest, mean_of((h * (path[k] - c)) ** 2 for path in paths))
        found.append(Moment(everyone, drawn, largest))
        eta = schedule.rate(problem, t)
        paths = [
            tuple(w - eta * h * (w - c) for w, h, c in zip(path, problem.h, problem.c, strict=True)) for path in paths
        ]
        everyone = mean_of((mean_of(path) - target) ** 2 for path in paths)
        if t % problem.local_steps == 0:
            size, m = len(problem.h), problem.participants
            paths = [(mean_of(s),) * size for path in paths for s in combinations(path, m)]
    return found


def problems() -> Iterator[Scalars]:
    """Yield one to three clients, with one to three local steps, all or some of them taking part."""
    yield from SINGLE_CLIENTS
    yield from client_pairs([1, 2, 3])
    for h, m, e in (((1, 1, 1), 1, 1), ((1, 1, 1), 2, 2), ((1, 2, 4), 1, 2)):
        three = Scalars(h, (0, 0, 1), Fraction(0), max(h), e, m)
        yield three._replace(start=three.optimum)


class Terms(NamedTuple):
    """What bounds of a step are made of."""

    eta: Fraction
    distance: Fraction
    drift: Fraction
    heterogeneity: Fraction
    sizes: Sizes

    @property
    def share(self) -> Fraction:
        """(M - m)/(m (M - 1)), and nothing for a single client."""
        return self.sizes.f if self.sizes.M > 1 else Fraction(0)


def steps_bounded(
    schedules: Iterable[Schedule],
    bound: Callable[[Terms], dict[str, Any]],
    *,
    of_drawn: bool,
    from_drawn: bool,
    steps: int = 6,
) -> Evidence:
    """Compare a distance after each step with a bound.

    Parameters
    ----------
    schedules : iterable of Schedule
        Step sizes.
    bound : callable
        The bound's summands, of ``(1 - mu eta) times the distance before``, ``eta^2 (E - 1)^2 G^2`` and
        ``eta^2 L Gamma``.
    of_drawn, from_drawn : bool
        Whether the distance after the step, and that before it, are those of the drawn clients' average w; else those
        of ``w^``, all clients' average.
    steps : int
        How many steps.
    """

    def name(drawn: bool) -> str:
        return "w" if drawn else "ŵ"

    def compare() -> Iterator[Sides]:
        names = (f"squared distance of {name(of_drawn)} after the step", "bound")
        for problem in problems():
            for schedule in schedules:
                for t, (now, then) in enumerate(pairwise(moments(problem, schedule, steps)), 1):
                    eta = schedule.rate(problem, t)
                    terms = Terms(
                        eta,
                        (1 - problem.convexity * eta) * (now.drawn if from_drawn else now.everyone),
                        eta**2 * (problem.local_steps - 1) ** 2 * now.squared_gradient,
                        eta**2 * problem.smoothness * problem.heterogeneity,
                        Sizes(problem.participants, len(problem.h)),
                    )
                    left = then.drawn if of_drawn else then.everyone
                    yield Sides(f"{problem}, {schedule.words}, t = {t}", left, bound(terms), names)

    return compared(compare(), of="steps of scalar problems")

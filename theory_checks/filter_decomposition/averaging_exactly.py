"""Federated averaging on quadratic clients: exactly on scalars, and in floating point in several dimensions.

Means and second moments of the scalar runs are rational, with sampled participants and with gradient noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Evidence, Sides, compared, search
from fedstat.data import Quadratics, random_quadratics
from fedstat.theory.strongly_convex import strongly_convex_bound

Form = Literal["printed", "corrected"]

# --- federated averaging on scalar quadratics, exactly ----------------------------------------------------------


class Scalars(NamedTuple):
    """Clients ``F_k(w) = h_k/2 (w - c_k)^2`` with equal weights, a start, and how they are trained."""

    h: tuple[int, ...]
    c: tuple[int, ...]
    start: Fraction
    smoothness: int
    local_steps: int = 1
    participants: int = 1
    variances: tuple[int, ...] = ()

    @property
    def convexity(self) -> int:
        """mu, the smallest curvature."""
        return min(self.h)

    @property
    def sigma(self) -> tuple[int, ...]:
        """Variances of the clients' gradients."""
        return self.variances or (0,) * len(self.h)

    @property
    def optimum(self) -> Fraction:
        """w*."""
        return Fraction(sum(h * c for h, c in zip(self.h, self.c, strict=True)), sum(self.h))

    @property
    def heterogeneity(self) -> Fraction:
        """Gamma = F*, as every client's own minimum is zero."""
        return Fraction(sum(h * (self.optimum - c) ** 2 for h, c in zip(self.h, self.c, strict=True))) / (
            2 * len(self.h)
        )

    @property
    def noise(self) -> Fraction:
        """Variance of the averaged gradient."""
        return Fraction(sum(self.sigma), len(self.h) ** 2)

    def __str__(self) -> str:
        parts = [
            f"clients h/2 (w − c)² with h = {in_brackets(self.h)} and c = {in_brackets(self.c)}",
            f"start {in_words(self.start)}",
            f"L = {self.smoothness}",
            f"μ = {self.convexity}",
            f"E = {self.local_steps}",
        ]
        parts += [f"{self.participants} of {len(self.h)} taking part"] if self.participants < len(self.h) else []
        parts += [f"gradient variances {in_brackets(self.variances)}"] if self.variances else []
        return ", ".join(parts)


def in_brackets(values: Iterable[Any]) -> str:
    """Return the values as a bracketed list."""
    return "(" + ", ".join(map(in_words, values)) + ")"


def in_words(value: Any) -> str:
    """Write a number with a true minus sign."""
    return str(value).replace("-", "−")


class Step(NamedTuple):
    """Expectations at one step: squared distance and gap of the average, and the largest squared gradient so far."""

    distance: Fraction
    gap: Fraction
    squared_gradient: Fraction


def run_exactly(problem: Scalars, rate: Callable[[int], Fraction], steps: int) -> list[Step]:
    """Return the expected path of federated averaging at t = 1..steps.

    Client k's iterate is ``a_k w + b_k`` plus noise of variance s_k, where w is the model of the last averaging; so
    the first two moments of w carry everything, and sampling averages them over all subsets of participants.
    """
    h, c, sigma, clients = problem.h, problem.c, problem.sigma, len(problem.h)
    every = range(clients)
    subsets = list(itertools.combinations(every, problem.participants))
    target, curvature = problem.optimum, Fraction(sum(h), clients)
    first, second = problem.start, problem.start**2
    a, b, s = [Fraction(1)] * clients, [Fraction(0)] * clients, [Fraction(0)] * clients
    path, largest = [], Fraction(0)

    def about(slope: Fraction, constant: Fraction) -> Fraction:
        """Return the second moment of ``slope w + constant``."""
        return slope**2 * second + 2 * slope * constant * first + constant**2

    def mean(values: list[Fraction], chosen: Iterable[int]) -> Fraction:
        return sum((values[k] for k in chosen), Fraction(0)) / len(list(chosen))

    for t in range(1, steps + 1):
        squares = [h[k] ** 2 * (about(a[k], b[k] - c[k]) + s[k]) + sigma[k] for k in every]
        largest = max(largest, *squares)
        distance = about(mean(a, every), mean(b, every) - target) + mean(s, every) / clients
        path.append(Step(distance, curvature / 2 * distance, largest))
        eta = rate(t)
        for k in every:
            keep = 1 - eta * h[k]
            a[k], b[k], s[k] = keep * a[k], keep * b[k] + eta * h[k] * c[k], keep**2 * s[k] + eta**2 * sigma[k]
        if t % problem.local_steps == 0:
            drawn = [(mean(a, x), mean(b, x), mean(s, x) / len(x)) for x in subsets]
            first, second = (
                sum((slope * first + constant for slope, constant, _ in drawn), Fraction(0)) / len(drawn),
                sum((about(slope, constant) + extra for slope, constant, extra in drawn), Fraction(0)) / len(drawn),
            )
            a, b, s = [Fraction(1)] * clients, [Fraction(0)] * clients, [Fraction(0)] * clients
    return path


def whole_offset(problem: Scalars) -> int:
    """Return gamma = max(8 L / mu, E); all curvatures here divide L."""
    return max(8 * problem.smoothness // problem.convexity, problem.local_steps)


#: A bound's summands by name, given the iterate's index and the largest squared gradient so far.
Bound = Callable[[Scalars, int, Fraction], dict[str, Fraction]]
#: Summands in proportion to the square of the gradients' bound.
WITH_GRADIENTS = ("drift", "sampling")


def bound_of(form: Form) -> Bound:
    """Return the library's bound, summand by summand."""

    def bound(problem: Scalars, t: int, squared_gradient: Fraction) -> dict[str, Fraction]:
        gamma = whole_offset(problem)
        scale = Fraction(gamma + 1, gamma + t)
        summands = _summands(problem, form).items()
        return {name: x * scale * (squared_gradient if name in WITH_GRADIENTS else 1) for name, x in summands}

    return bound


@lru_cache(maxsize=4096)
def _summands(problem: Scalars, form: Form) -> dict[str, Fraction]:
    """Return the summands at t = 1 for gradients of norm one."""

    def alone(participants: int, **given: Fraction | int) -> Fraction:
        constants = {"gradient_bound": 0, "heterogeneity": 0, "initial_distance": 0} | given
        value = strongly_convex_bound(
            1,
            smoothness=Fraction(problem.smoothness),
            convexity=problem.convexity,
            local_steps=problem.local_steps,
            form=form,
            clients=len(problem.h),
            participants=participants,
            **constants,
        )
        return Fraction(value)

    every = len(problem.h)
    drift = alone(every, gradient_bound=1)
    summands = {
        "heterogeneity": alone(every, heterogeneity=problem.heterogeneity),
        "drift": drift,
        "sampling": alone(problem.participants, gradient_bound=1) - drift,
        "start": alone(every, initial_distance=abs(problem.start - problem.optimum)),
    }
    if form == "corrected" and problem.variances:
        summands["noise"] = alone(every, noise=problem.noise)
    return summands


def recursion_terms(problem: Scalars, squared_gradient: Fraction) -> dict[str, Fraction]:
    """Return the summands of B in the corrected recursion, from the library's bound without its start."""
    mu, smoothness = problem.convexity, problem.smoothness
    scale = Fraction(mu**2 * (whole_offset(problem) + 1), 2 * smoothness)
    summands = bound_of("corrected")(problem, 1, squared_gradient)
    return {name: value * scale for name, value in summands.items() if name != "start"}


#: Clients with so many local steps that they part and the drift is needed; see them at T = 401, after averaging.
PARTED = Scalars((1, 4), (0, 1), Fraction(4, 5), 4, 400, 2)
AFTER_MANY = "problems with 400 local steps, after them"
SINGLE_CLIENTS = tuple(Scalars((1,), (0,), Fraction(1), smoothness) for smoothness in (1, 2, 4))


def client_pairs(
    local_steps: Iterable[int], variances: Iterable[tuple[int, ...]] = ((),), starts: tuple[int, ...] = (0, 1, -10)
) -> Iterator[Scalars]:
    """Yield two clients, equal or different, all or one of them taking part, from several distances to the optimum."""
    for e, v, h, c, away, m in itertools.product(
        local_steps, variances, ((1, 1), (1, 2), (1, 4)), ((0, 0), (0, 1)), starts, (2, 1)
    ):
        here = Scalars(h, c, Fraction(0), max(h), e, m, v)
        yield here._replace(start=here.optimum + away)


def gaps_along(
    problems: Iterable[Scalars],
    bound: Bound,
    numerator: int,
    *,
    steps: Iterable[int],
    of: str,
    quantity: Literal["gap", "distance"] = "gap",
) -> Evidence:
    """Gap (or squared distance) against bound for ``eta_t = numerator / (mu (gamma + t))``, fewest steps first."""
    wanted, names = list(steps), (f"expected {'gap' if quantity == 'gap' else 'squared distance'}", "bound")

    def compare() -> Iterator[Sides]:
        paths: list[tuple[Scalars, list[Step]]] = []
        for t in wanted:
            if not paths:  # one path per problem serves all t, but the first t may already decide
                paths = [(p, _path(p, numerator, wanted[0])) for p in problems]
            elif len(paths[0][1]) < t:
                paths = [(p, _path(p, numerator, wanted[-1])) for p, _ in paths]
            for problem, path in paths:
                at = path[t - 1]
                yield Sides(f"{problem}, T = {t}", getattr(at, quantity), bound(problem, t, at.squared_gradient), names)

    return compared(compare(), of=of)


def _path(problem: Scalars, numerator: int, steps: int) -> list[Step]:
    gamma = whole_offset(problem)
    return run_exactly(problem, lambda t: Fraction(numerator, problem.convexity * (gamma + t)), steps)


# --- the same in several dimensions, in floating point ----------------------------------------------------------


class Design(NamedTuple):
    """A random quadratic problem and how it is trained; its coordinates alternate between slow and fast."""

    clients: int
    dimension: int
    condition: int
    heterogeneity: float
    local_steps: int
    periods: int
    distance: float
    steps: int
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.clients} clients in {self.dimension} dimensions, L/μ = {self.condition}, "
            f"Γ = {self.heterogeneity:g}, E = {self.local_steps}, 1/β = {self.periods}, "
            f"start at distance {self.distance:g} from the optimum, {self.steps} steps, seed {self.seed}"
        )


def random_designs(local_steps: st.SearchStrategy[int], periods: st.SearchStrategy[int]) -> st.SearchStrategy[Design]:
    """Draw designs with these numbers of local steps and of periods."""
    return st.builds(
        Design,
        st.integers(1, 4),
        st.integers(1, 4),
        st.sampled_from([1, 2, 5, 20]),
        st.sampled_from([0.0, 0.01, 1.0, 10.0]),
        local_steps,
        periods,
        st.sampled_from([0.0, 0.1, 1.0, 10.0]),
        st.integers(2, 60),
        st.integers(0, 10_000),
    )


def draw_problem(design: Design) -> tuple[Quadratics, np.ndarray]:
    """Draw the clients and the start of a design."""
    clients, dimension = design.clients, design.dimension
    problem = random_quadratics(
        clients=clients,
        dimension=dimension,
        smoothness=design.condition if clients * dimension > 1 else 1.0,
        convexity=1.0,
        heterogeneity=design.heterogeneity if clients > 1 else 0.0,
        seed=design.seed,
    )
    direction = np.random.default_rng(design.seed).normal(size=dimension)
    return problem, problem.optimum + design.distance * direction / np.linalg.norm(direction)


def _descend(
    problem: Quadratics, start: np.ndarray, design: Design, rate: Callable[[int], float]
) -> tuple[list[float], float]:
    """Return the average's gaps at t = 1..steps and the largest gradient on the way; slow coordinates travel rarely."""
    w = np.repeat(start[None], design.clients, axis=0)
    slow = np.arange(design.dimension) % 2 == 0
    gaps, largest = [], 0.0
    for t in range(1, design.steps + 1):
        gradient = problem.gradient(w)
        largest = max(largest, float(np.linalg.norm(gradient, axis=1).max()))
        gaps.append(float(problem.value(w.mean(axis=0))) - problem.minimum)
        w = w - rate(t) * gradient
        if t % design.local_steps == 0:
            w[:, ~slow] = w[:, ~slow].mean(axis=0)
        if t % (design.local_steps * design.periods) == 0:
            w[:, slow] = w[:, slow].mean(axis=0)
    return gaps, largest


def search_for_gaps(
    form: Form, numerator: int, local_steps: st.SearchStrategy[int], periods: st.SearchStrategy[int]
) -> Evidence:
    """The step after the first with the largest ratio of gap and bound, over random problems."""

    def sides(design: Design) -> tuple[float, dict[str, float]]:
        problem, start = draw_problem(design)
        period = design.local_steps * (design.periods if form == "corrected" else 1)
        gamma = max(8 * problem.smoothness / problem.convexity, period)
        gaps, largest = _descend(problem, start, design, lambda t: numerator / (problem.convexity * (gamma + t)))

        def alone(**given: float) -> float:
            constants: dict[str, Any] = {"gradient_bound": 0.0, "heterogeneity": 0.0, "initial_distance": 0.0} | given
            bound = strongly_convex_bound(
                1,
                smoothness=problem.smoothness,
                convexity=problem.convexity,
                local_steps=design.local_steps,
                form=form,
                beta=1 / design.periods,
                **constants,
            )
            return float(bound) * (gamma + 1)

        summands = {
            "heterogeneity": alone(heterogeneity=max(problem.gamma, 0.0)),
            "drift": alone(gradient_bound=largest),
            "start": alone(initial_distance=float(np.linalg.norm(start - problem.optimum))),
        }
        whole = sum(summands.values())
        t = max(range(2, design.steps + 1), key=lambda t: gaps[t - 1] * ((gamma + t) / whole if whole > 0 else 1.0))
        return gaps[t - 1], {name: x / (gamma + t) for name, x in summands.items()}

    return search(
        random_designs(local_steps, periods), sides, tolerance=1e-9, examples=150, names=("expected gap", "bound")
    )


def mean_of(values: Iterable[Any]) -> Any:
    """Return the mean of numbers or vectors, exact for fractions."""
    values = list(values)
    return sum(values) / len(values)

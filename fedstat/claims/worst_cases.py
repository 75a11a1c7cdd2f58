"""The worst case of a method over all functions of a class, in every dimension.

What a run asks of a function is finitely many gradients and values, and whether some function of a class has these is a
matter of inequalities between inner products (Taylor, Hendrickx and Glineur 2017). So the worst function is found by a
semidefinite programme, which PEPit writes (Goujaud et al. 2024). The functions that are found are rebuilt from its
solution and checked without it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedstat._checks import number as real
from fedstat.claims.runs import Client, Functions, Method, Quantity, Run, Vector

Array = NDArray[np.float64]
#: Solvers, and how accurately they are asked to solve.
SOLVERS: dict[str, dict[str, Any]] = {"CLARABEL": {}, "SCS": {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 50_000}}
#: How far the values of two solvers, or value and dual bound of one, may lie apart, and a bound be exceeded.
TOLERANCE = 1e-4
#: How far the rebuilt functions may violate the inequalities of their class, or the run leave their points.
EXACTNESS = 1e-5
#: Directions are left out of the rebuilt functions in which all squared lengths are below this share of the largest.
_FLAT = 1e-8


@dataclass(frozen=True)
class WorstFunction:
    """A function of a class, told by its gradients and values at finitely many points.

    Attributes
    ----------
    functions : Functions
        The class.
    points, gradients : array
        A row for each point.
    values : array
        The function's values there.

    Examples
    --------
    The largest 1-smooth function that has the value and the slope 0 at 0:

    >>> import numpy as np
    >>> from fedstat.claims import Functions, WorstFunction
    >>> nothing = np.zeros((1, 1))
    >>> found = WorstFunction(Functions(smoothness=1), nothing, nothing, np.zeros(1))
    >>> found(np.array([2.0])), found.violation
    (2.0, 0.0)
    """

    functions: Functions
    points: Array
    gradients: Array
    values: Array

    @property
    def violation(self) -> float:
        """By how much the points violate the inequalities that say that a function of the class passes through them."""
        mu, smooth, largest = self.functions
        x = self.points[:, None] - self.points[None]
        g = self.gradients[:, None] - self.gradients[None]
        least = self.values + np.einsum("ijd,jd->ij", x, self.gradients) + mu / 2 * (x**2).sum(2)
        least = least + ((g - mu * x) ** 2).sum(2) / (2 * (smooth - mu)) if smooth > mu else least
        lengths = np.sqrt((self.gradients**2).sum(1))
        return float(max((least - self.values[:, None]).max(), (lengths - largest).max()))

    def __call__(self, point: Array) -> float:
        """Return the value at a point: of all smooth functions of the class through the points, the largest.

        That is the convex hull of parabolas of curvature L, one under which the function lies at each point, continued
        by straight lines where gradients are bounded. Where the class is not smooth it is the smallest function, the
        largest of the tangents.
        """
        from scipy.optimize import minimize

        mu, smooth, largest = self.functions
        slopes = self.gradients - mu * self.points
        levels = self.values - mu / 2 * (self.points**2).sum(1)
        bent, curvature = mu / 2 * float((point**2).sum()), smooth - mu
        if math.isinf(smooth):
            return bent + float((levels + ((point - self.points) * slopes).sum(1)).max())
        lowest, heights = self.points - slopes / curvature, levels - (slopes**2).sum(1) / (2 * curvature)

        def mixed(shares: Array) -> tuple[float, Array]:
            away = shares @ lowest - point
            slope = curvature * away
            slope = slope * min(1.0, largest / max(float(np.linalg.norm(slope)), 1e-300))
            return float(slope @ away - slope @ slope / (2 * curvature) + shares @ heights), lowest @ slope + heights

        one: Any = {"type": "eq", "fun": lambda shares: shares.sum() - 1, "jac": np.ones_like}
        even = np.full(len(heights), 1 / len(heights))
        found = minimize(mixed, even, jac=True, bounds=[(0.0, 1.0)] * len(even), constraints=one, tol=1e-12)
        return bent + float(found.fun)


@dataclass(frozen=True)
class WorstCase:
    """The worst case of a method over classes of functions.

    Attributes
    ----------
    values : mapping of str to float
        The value that each solver found.
    dual : float
        The bound that the first solver's multipliers prove: no function of the classes exceeds it.
    functions : tuple of WorstFunction
        The clients' functions, rebuilt from the first solver's solution.
    run : Run
        The run carried out on them, without a solver.
    reached : float
        The measure in that run.
    violation : float
        How far the functions are from their classes and the run from their points.

    Examples
    --------
    One gradient step of size 0.5 on a strongly convex function leaves at most (1 - 0.5 mu)^2 of the squared distance:

    >>> from fedstat.claims import Functions, fedavg, worst_case
    >>> found = worst_case(
    ...     fedavg(step=0.5, local_steps=1), [Functions(convexity=0.2, smoothness=1)],
    ...     measure=lambda run: run.distance, given=lambda run: [run.start],
    ... )
    >>> round(found.value, 4), round(found.dual, 4), round(found.reached, 4), found.agreed
    (0.81, 0.81, 0.81, True)
    """

    values: Mapping[str, float]
    dual: float
    functions: tuple[WorstFunction, ...]
    run: Run
    reached: float
    violation: float

    @property
    def value(self) -> float:
        """The worst case, as the first solver found it."""
        return next(iter(self.values.values()))

    @property
    def apart(self) -> float:
        """How far the solvers' values, the dual bound and the rebuilt functions' measure lie apart."""
        found = [*self.values.values(), self.dual, self.reached]
        return max(found) - min(found)

    @property
    def agreed(self) -> bool:
        """Whether solvers, dual bound and functions agree to 1 part in 10,000 of the value, or of one if it is less."""
        return self.apart <= TOLERANCE * max(1.0, abs(self.value)) and self.violation <= EXACTNESS


def worst_case(
    method: Method,
    clients: Sequence[Functions],
    *,
    measure: Callable[[Run], Quantity],
    given: Callable[[Run], Iterable[Quantity]],
    weights: Sequence[float] | None = None,
    solvers: Iterable[str] = tuple(SOLVERS),
) -> WorstCase:
    """Find the largest value of a measure over all functions of the clients' classes, in every dimension.

    It needs the extra ``fedstat[worst-case]``.

    Parameters
    ----------
    method : callable
        A round, or several, as a pure function of the clients and the first model; it returns the last model, or a list
        of equally likely ones, e.g. over all subsets of clients that may take part. It may add models, multiply them by
        numbers, and ask clients for `gradient`, `proximal` and `chosen` vectors.
    clients : sequence of Functions
        The class of each client's function.
    measure : callable
        What is to be as large as possible, a sum of quantities of the `Run`.
    given : callable
        Quantities of the `Run` that are at most one.
    weights : sequence of float, optional
        The clients' shares in the objective, positive and with sum one; equal by default.
    solvers : iterable of str
        Which of "CLARABEL" and "SCS" to ask; the first one's solution is rebuilt.

    Raises
    ------
    ValueError
        If an argument is not as described, or the measure has no largest value under these conditions; if functions
        need not be convex and a quantity depends on the optimum or a client's minimiser.

    Examples
    --------
    Two clients start at distance one from the optimum. A gradient step of size 0.2 on functions with curvatures from
    0.1 to 1 leaves at most (1 - 0.02)^2 of the squared distance, and two local steps little less:

    >>> from fedstat.claims import Functions, fedavg, worst_case
    >>> clients = [Functions(convexity=0.1, smoothness=1)] * 2
    >>> def after(steps):
    ...     method = fedavg(step=0.2, local_steps=steps)
    ...     return worst_case(
    ...         method, clients, measure=lambda run: run.distance, given=lambda run: [run.start, run.heterogeneity]
    ...     )
    >>> one, two = after(1), after(2)
    >>> print(f"{one.value:.4f} {two.value:.4f}", two.agreed)
    0.9604 0.9259 True

    The functions are there to be looked at, and the run on them needs no solver:

    >>> print(f"{two.reached:.4f}", max(f.violation for f in two.functions) < 1e-5)
    0.9259 True
    """
    asked = list(solvers)
    if not asked or not set(asked) <= SOLVERS.keys():
        raise ValueError(f"solvers must be one or more of {', '.join(SOLVERS)}, got {solvers!r}.")
    # a new problem resets PEPit's counters, so that each is solved before the next is made
    problems = {name: Problem(method, clients, weights).solved(name, measure, given) for name in asked}
    values = {name: problem.value for name, problem in problems.items()}
    first = next(iter(problems.values()))
    functions, told = first.rebuilt()
    actors = [_Told(actor.weight, answers) for actor, answers in zip(first.actors, told, strict=True)]
    run = Run.of(method, actors, first.turned(first.start), np.zeros(functions[0].points.shape[1]))
    reached = float(measure(run))
    strayed = [actor.strayed for actor in actors] + [float(quantity) - 1 for quantity in given(run)]
    balance = np.abs(sum(actor.weight * f.gradients[0] for actor, f in zip(actors, functions, strict=True))).max()
    violation = max(*strayed, balance, *(function.violation for function in functions))
    return WorstCase(values, first.dual, functions, run, reached, float(violation))


class NoWorstCase(ValueError):
    """A solver found none."""


class _Symbolic(Client):
    """A client of whose function PEPit keeps account."""

    def __init__(self, function: Any, weight: float) -> None:
        super().__init__(weight)
        self.function, self.told = function, list[tuple[Any, Any, Any]]()

    def at(self, model: Vector) -> tuple[Vector, Quantity]:
        gradient, value = self.function.oracle(model)
        self.told.append((model, gradient, value))
        return gradient, value

    def proximal(self, model: Vector, step: float) -> Vector:
        from PEPit import Expression, Point

        gradient, value = Point(), Expression()
        self.told.append((model - step * gradient, gradient, value))
        self.function.add_point(self.told[-1])
        return self.told[-1][0]

    def minimiser(self) -> Vector:
        point = self.function.stationary_point()
        self.told.append((point, *self.function.oracle(point)))
        return point

    def chosen(self) -> Vector:
        from PEPit import Point

        self.told.append((Point(), None, None))
        return self.told[-1][0]


class _Told(Client):
    """A client that answers what it was told to, in order, and notes how far the questions are from those expected."""

    def __init__(self, weight: float, answers: Iterable[tuple[Array, Any, Any]]) -> None:
        super().__init__(weight)
        self.answers, self.strayed = iter(answers), 0.0

    def at(self, model: Array) -> tuple[Array, float]:
        point, gradient, value = next(self.answers)
        self._expect(model, point)
        return gradient, value

    def proximal(self, model: Array, step: float) -> Array:
        point, gradient, _ = next(self.answers)
        self._expect(model - step * gradient, point)
        return point

    def minimiser(self) -> Array:
        point, gradient, _ = next(self.answers)
        self._expect(gradient, np.zeros_like(gradient))
        return point

    def chosen(self) -> Array:
        return next(self.answers)[0]

    def _expect(self, found: Array, expected: Array) -> None:
        self.strayed = max(self.strayed, float(np.abs(found - expected).max()))


class Problem:
    """A run on symbols; the optimum is the origin, where the clients' weighted gradients add up to zero."""

    def __init__(self, method: Method, clients: Sequence[Functions], weights: Sequence[float] | None) -> None:
        if not clients or not all(isinstance(kind, Functions) for kind in clients):
            raise ValueError(f"clients must be Functions, one for each client, got {clients!r}.")
        shares = [1 / len(clients)] * len(clients) if weights is None else [float(weight) for weight in weights]
        if len(shares) != len(clients) or min(shares) <= 0 or not math.isclose(sum(shares), 1):
            raise ValueError(f"weights must be positive with sum one, one for each client, got {weights!r}.")
        try:
            from PEPit import PEP, Expression, Point
        except ImportError as error:
            raise ImportError("the worst case needs PEPit: pip install 'fedstat[worst-case]'.") from error

        self.pep, self.classes = PEP(), clients
        self.actors = [_Symbolic(_declared(self.pep, kind), w) for kind, w in zip(clients, shares, strict=True)]
        self.start, origin = self.pep.set_initial_point(), Point(is_leaf=False, decomposition_dict={})
        balance: Vector = origin
        for number, actor in enumerate(self.actors, start=1):
            own = (-1 / actor.weight) * balance if number == len(self.actors) else Point()
            balance = balance + actor.weight * own
            actor.function.add_point((origin, own, Expression()))
        self.run = Run.of(method, self.actors, self.start, origin)

    def solved(
        self, solver: str, measure: Callable[[Run], Quantity], given: Callable[[Run], Iterable[Quantity]]
    ) -> Problem:
        """Find the largest value of the measure."""
        from cvxpy.error import SolverError
        from PEPit import Expression

        measured, limited = measure(self.run), list(given(self.run))
        asked = [("measure", measured), *(("bound, assumed or given", quantity) for quantity in limited)]
        asked += [("run.largest", condition.expression) for condition in self.run.conditions]
        free, stationary = [kind for kind in self.classes if kind.convexity < 0], {self.start}
        for function in (actor.function for actor in self.actors):
            for triplet in (function.list_of_points[0], *function.list_of_stationary_points):
                stationary.update(*(symbol.decomposition_dict for symbol in triplet))
        for what, quantity in asked:
            if not isinstance(quantity, Expression):
                raise ValueError(f"{what} must be a quantity of the run, such as run.start, got {quantity!r}.")
            kept = [key for key, share in quantity.decomposition_dict.items() if abs(share) > 1e-9]  # not cancelled
            if free and any(stationary & set(key if isinstance(key, tuple) else [key]) for key in kept):
                raise ValueError(
                    f"{what} must not depend on the optimum or on a client's minimiser where functions need not be "
                    f"convex, got {free[0]}: these are any stationary points there. Use values and gradients at models "
                    "of the run, such as run.value(run.first)."
                )
        for quantity in limited:
            self.pep.add_constraint(quantity <= 1)
        for condition in self.run.conditions:
            self.pep.add_constraint(condition)
        self.pep.set_performance_metric(measured)
        dual = None
        with warnings.catch_warnings(), suppress(SolverError):
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")  # what was found tells how much
            dual = self.pep.solve(wrapper="cvxpy", verbose=0, solver=solver, **SOLVERS[solver])
        if dual is None:
            raise NoWorstCase(
                f"{solver} finds no worst case: it is infinite, no functions meet the conditions, or constants are far "
                "from one; name in `given` what is at most one, and choose a unit in which the smoothness is near one."
            )
        self.dual = float(dual)
        self.value = float(measured.eval())
        return self

    def rebuilt(self) -> tuple[tuple[WorstFunction, ...], list[list[tuple[Array, Any, Any]]]]:
        """Return the functions, whose first point is the optimum, and the answers of each client, in few dimensions."""
        vectors = [actor.function.list_of_points for actor in self.actors]
        told = [v for actor in self.actors for v, _, _ in actor.told]
        known = [v for points in vectors for x, g, _ in points for v in (x, g)]
        every = np.array([v.eval() for v in (*known, *told, self.start)])
        _, sizes, directions = np.linalg.svd(every, full_matrices=False)
        self.directions = directions[: max(1, int((sizes**2 > _FLAT * sizes[0] ** 2).sum()))]
        functions = tuple(
            WorstFunction(
                kind,
                np.array([self.turned(x) for x, _, _ in points]),
                np.array([self.turned(g) for _, g, _ in points]),
                np.array([float(f.eval()) for _, _, f in points]),
            )
            for kind, points in zip(self.classes, vectors, strict=True)
        )
        answers = [
            [(self.turned(x), g and self.turned(g), f and float(f.eval())) for x, g, f in actor.told]
            for actor in self.actors
        ]
        return functions, answers

    def turned(self, vector: Any) -> Array:
        """Return a vector of the solution in the directions that the functions need."""
        return np.asarray(self.directions @ vector.eval(), dtype=float)


def _declared(pep: Any, kind: Functions) -> Any:
    """Declare a function of a class, with one subgradient at each point."""
    from PEPit import functions as of

    mu, smooth, largest = kind
    real("smoothness", smooth, "(0, inf]")
    if math.isfinite(largest) and mu != 0:
        raise ValueError(
            f"gradient bounds need convexity = 0, got {kind}: no strongly convex function has bounded ones."
        )
    if not (-smooth == mu or 0 <= mu < smooth):
        raise ValueError(f"convexity must lie from 0 to below the smoothness, or be its negative, got {kind}.")
    declare = partial(pep.declare_function, reuse_gradient=True)
    if math.isfinite(largest):
        if math.isinf(smooth):
            return declare(of.ConvexLipschitzFunction, M=largest)
        return declare(of.SmoothConvexLipschitzFunction, L=smooth, M=largest)
    if mu == -smooth:
        return declare(of.SmoothFunction, L=smooth)
    if math.isinf(smooth):
        return declare(of.StronglyConvexFunction, mu=mu) if mu else declare(of.ConvexFunction)
    return declare(of.SmoothStronglyConvexFunction, mu=mu, L=smooth)

"""FD-22: two chains of inequalities print values for gradients.

FD-22c: both chains of inequalities, with gradients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, Sides, all_of, compared, search
from theory_checks.filter_decomposition.averaging_exactly import in_brackets, in_words, mean_of

#: The sides of the sharpest inequality of a chain.
NAMES = ("a term", "the next")


class Terms(NamedTuple):
    """A chain of terms that should not decrease."""

    case: str
    terms: tuple[Any, ...]

    def worst(self) -> tuple[Any, Any]:
        """Return the neighbours of which the earlier exceeds the later by the most."""
        return max(itertools.pairwise(self.terms), key=lambda p: p[0] - p[1])

    def inequalities(self) -> Iterator[Sides]:
        """Yield each term with the next."""
        for i, (a, b) in enumerate(itertools.pairwise(self.terms), 1):
            yield Sides(f"{self.case}: inequality {i} of the chain", a, b, NAMES)

    def __str__(self) -> str:
        return str(next((sides for sides in self.inequalities() if sides.left > sides.right), self.case))


Client = tuple[Any, Any, Any]  # curvature, centre and offset of h/2 (w - c)^2 + o


def _value(client: Client, w: Any) -> Any:
    h, c, o = client
    return h * (w - c) ** 2 / 2 + o


def _slope(client: Client, w: Any) -> Any:
    return client[0] * (w - client[1])


def _chain_19(clients: list[Client], points: list[Any], w: Any, eta: Any, smoothness: Any, norm: Any) -> Terms:
    """Return the terms of (19) with the sign turned, so that they increase.

    With gradients each step is an inequality: convexity; ``-2 x'y <= eta |x|^2 + |y|^2 / eta``; and
    ``|grad F_k|^2 <= 2 L (F_k - F_k*)``. All three hold for any points w_k.
    """
    pairs = list(zip(clients, points, strict=True))
    decrease = mean_of(_value(k, w) - _value(k, p) for k, p in pairs)
    linear = -mean_of(_slope(k, w) * (p - w) for k, p in pairs)
    spread = mean_of((p - w) ** 2 for _, p in pairs) / (2 * eta)
    young = eta / 2 * mean_of(norm(k, w) ** 2 for k in clients) + spread
    smooth = eta * smoothness * mean_of(_value(k, w) - k[2] for k in clients) + spread
    text = f"{_told(clients)}, w = {in_words(w)}, the clients at {in_brackets(points)}, η = {eta}"
    return Terms(text, (decrease, linear, young, smooth))


def _chain_22(
    clients: list[Client], w: Any, local_steps: int, gamma: int, begin: int, norm: Any, *, running: bool, factor: int
) -> Terms:
    """Return the terms of (22) after E - 1 local steps from the common point w at t0.

    With gradients: the mean minimises the mean squared distance; ``|sum of j vectors|^2 <= j sum of squares``, with
    j <= E - 1 steps; the step sizes are at most the first, and the gradients at most G; and FD-20.
    `running` lets the step size and gradient in the sum belong to the sum's step; otherwise all are those at t.
    """
    smallest = min(k[0] for k in clients)
    one = Fraction(1)
    rate = [2 * one / (smallest * (gamma + begin + j)) for j in range(local_steps)]
    paths = []
    for k in clients:
        path = [w]
        for j in range(local_steps - 1):
            path.append(path[-1] - rate[j] * _slope(k, path[-1]))
        paths.append(path)
    middle = mean_of(path[-1] for path in paths)
    largest = max(_slope(k, p) ** 2 for k, path in zip(clients, paths, strict=True) for p in path)
    sums = []
    for k, path in zip(clients, paths, strict=True):
        at = range(local_steps - 1) if running else [local_steps - 1] * (local_steps - 1)
        sums.append(sum((local_steps - 1) * rate[j] ** 2 * norm(k, path[j]) ** 2 for j in at))
    whole = (local_steps - 1) ** 2 * largest
    text = f"{_told(clients)}, w = {in_words(w)}, E = {local_steps}, γ = {gamma}, t₀ = {begin}"
    terms = (
        mean_of((path[-1] - middle) ** 2 for path in paths),
        mean_of((path[-1] - w) ** 2 for path in paths),
        mean_of(sums),
        rate[0] ** 2 * whole,
        factor * rate[-1] ** 2 * whole,
    )
    return Terms(text, terms)


def _told(clients: Iterable[Client]) -> str:
    return f"clients h/2 (w − c)² + o with (h, c, o) = {', '.join(in_brackets(k) for k in clients)}"


_ONE_CLIENT = [(Fraction(h), Fraction(0), Fraction(o)) for h in (1, 2) for o in (0, -1, 1)]


def _single_19(norm: Callable[[Client, Any], Any]) -> Evidence:
    """One client, one local step of size 1/4L."""

    def cases() -> Iterator[Sides]:
        for client, w in itertools.product(_ONE_CLIENT, (Fraction(1), Fraction(2), Fraction(3))):
            eta = 1 / (4 * client[0])
            yield from _chain_19([client], [w - eta * _slope(client, w)], w, eta, client[0], norm).inequalities()

    return compared(cases(), of="inequalities for single clients after one local step")


def _single_22(norm: Callable[[Client, Any], Any], *, running: bool) -> Evidence:
    def cases() -> Iterator[Sides]:
        for e, client, w in itertools.product((2, 3), _ONE_CLIENT, (Fraction(1), Fraction(2), Fraction(3))):
            yield from _chain_22([client], w, e, 8, 1, norm, running=running, factor=4).inequalities()

    return compared(cases(), of="inequalities for single clients after E − 1 local steps")


_small = st.integers(-8, 8).map(lambda i: Fraction(i, 2))


_client = st.tuples(st.integers(1, 8).map(Fraction), _small, _small)


def _gradients_19() -> Evidence:
    cases = st.lists(st.tuples(_client, _small), min_size=1, max_size=3).flatmap(
        lambda pairs: st.tuples(st.just(pairs), _small, st.sampled_from([Fraction(1, 4), Fraction(1, 16), Fraction(1)]))
    )

    def chain(case: Any) -> Terms:
        pairs, w, eta = case
        clients = [k for k, _ in pairs]
        return _chain_19(clients, [p for _, p in pairs], w, eta, max(k[0] for k in clients), _slope)

    return _search_chain(cases, chain)


def _gradients_22(factor: int) -> Evidence:
    cases = st.tuples(
        st.lists(_client, min_size=1, max_size=3),
        _small,
        st.integers(2, 12),
        st.sampled_from([1, 2]),
        st.integers(0, 4),
    )

    def chain(case: Any) -> Terms:
        clients, w, e, condition, begin = case
        spread = max(k[0] for k in clients) / min(k[0] for k in clients)
        gamma = max(math.ceil(8 * condition * spread), e)
        return _chain_22(clients, w, e, gamma, begin, _slope, running=True, factor=factor)

    return _search_chain(cases, chain)


def _search_chain(cases: Any, chain: Callable[[Any], Terms]) -> Evidence:
    """The sharpest of the chain's inequalities; exact numbers, so that no rounding is allowed for."""

    def sides(case: Any) -> tuple[float, float]:
        terms = chain(case)
        left, right = terms.worst()
        if left > right:
            return float(left), float(right)
        nontrivial = [(a, b) for a, b in itertools.pairwise(terms.terms) if b > 0]
        left, right = max(nontrivial, key=lambda p: p[0] / p[1], default=(Fraction(0), Fraction(0)))
        return float(left), float(right)

    return search(cases, sides, tolerance=1e-12, examples=150, names=NAMES, show=lambda case: str(chain(case)))


FD22 = Claim(
    id="FD-22",
    place="section A.4.1, (19), and section A.4.2, (22)",
    said_by="paper",
    words="The inequalities (19) and (22) hold term by term.",
    statement="-1/2 sum_k p_k (eta_t norm(F_k (w^t))^2 + 1/eta_t norm(w_k^t - w^t)^2) <= sum_k p_k "
    "chevron.l nabla F_k (w^t), w_k^t - w^t chevron.r, quad norm(w^(t_0) - w_k^t)^2 <= sum_(t_0)^(t-1) (E - 1) eta_t^2 "
    "norm(F_k (w_k^t))^2",
    severity="misprint",
    assumptions="η_t = 2/(μ(γ + t)); G bounds the gradients on the path",
    sensitivity="exact rational terms",
    flaw="Both lines print the norm of the objective's value where its gradient is meant, and (22) takes the step size "
    "and the gradient at t inside a sum that runs over earlier steps. Adding a constant to an objective changes the "
    "printed terms and nothing else.",
    corrected="FD-22c",
)


@FD22.reading("as printed, the index in the sum running")
def printed() -> Evidence:
    return all_of([_single_19(_value), _single_22(_value, running=True)])


@FD22.reading("with gradients in place of the values, all taken at step t as printed")
def gradients_at_t() -> Evidence:
    return all_of([_single_19(_slope), _single_22(_slope, running=False)])


@FD22.reading("with gradients in place of the values, and a running index in the sum")
def with_gradients() -> Evidence:
    return all_of([_gradients_19(), _gradients_22(4)])


FD22C = Claim(
    id="FD-22c",
    place="corrected statement of FD-22",
    said_by="fedstat",
    words="With gradients, and a running index in the sum, (19) and (22) hold term by term.",
    statement="-1/2 sum_k p_k (eta_t norm(nabla F_k (w^t))^2 + 1/eta_t norm(w_k^t - w^t)^2) <= sum_k p_k "
    "chevron.l nabla F_k (w^t), w_k^t - w^t chevron.r, quad norm(w^(t_0) - w_k^t)^2 <= (E - 1) sum_(s=t_0)^(t-1) "
    "eta_s^2 norm(nabla F_k (w_k^s))^2",
    severity="false",
    assumptions="η_t = 2/(μ(γ + t)) with γ = max(8 L/μ, E); G bounds the gradients on the path",
    sensitivity="exact rational terms",
)


@FD22C.reading("any clients and points")
def gradients() -> Evidence:
    return all_of([_gradients_19(), _gradients_22(4)])


@FD22C.mutant("the factor 4 in the last line of (22) left out")
def no_factor() -> Evidence:
    return _gradients_22(1)

"""CL-88: error feedback is not free for every operator.

CL-88c: a rate for steps of δ / (2 L).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import ceil

from fedstat.claims import Claim, Evidence, Sides, both, compared, exact

CL88 = Claim(
    id="CL-88",
    place="Karimireddy, Rebjock, Stich and Jaggi, Error feedback fixes SignSGD and other gradient compression schemes "
    "(ICML 2019), abstract, the sentence before 'for free'; arXiv:1901.09847",
    said_by="paper",
    words="EF-SGD with an arbitrary compression operator achieves the same rate of convergence as SGD without any "
    "additional assumptions.",
    statement="p_t = gamma nabla f(x_t) + e_t, quad x_(t+1) = x_t - C(p_t), quad e_(t+1) = p_t - C(p_t) ==> x_t -> x^*",
    severity="unstated condition",
    assumptions="losses Σ h_i x_i² / 2 with the smallest curvature μ and the largest L, no noise; converged is a "
    "tenth of the squared distance at the start; of the paper only the abstract could be read",
    sensitivity="any excess, exact",
    flaw="What is held back must be less than what was to be sent, and it comes late, so that steps must be shorter "
    "than those of gradient descent: an entry that is sent every d steps moves d times as far.",
    corrected="CL-88c",
)

_Vector = tuple[Fraction, ...]
_Operator = Callable[[_Vector], _Vector]


def _top(p: _Vector) -> _Vector:
    """Return the largest entry alone."""
    largest = max(range(len(p)), key=lambda i: abs(p[i]))
    return tuple(v if i == largest else Fraction(0) for i, v in enumerate(p))


def _sign(p: _Vector, size: Fraction = Fraction(1)) -> _Vector:
    return tuple(size * ((v > 0) - (v < 0)) for v in p)


def _scaled_sign(p: _Vector) -> _Vector:
    """Return the signs times the mean size of the entries."""
    return _sign(p, sum(map(abs, p), Fraction(0)) / len(p))


def _half(p: _Vector) -> _Vector:
    return tuple(v / 2 for v in p)


#: Operators that hold back at most 1 - δ of the square, with a δ for vectors of d entries.
_CONTRACTIONS: dict[str, tuple[_Operator, Callable[[int], Fraction]]] = {
    "the largest entry": (_top, lambda d: Fraction(1, d)),
    "signs times the mean size": (_scaled_sign, lambda d: Fraction(1, d)),
    "half of every entry": (_half, lambda d: Fraction(3, 4)),
}
#: Operators that may hold back as much as was to be sent, or more.
_OTHERS: dict[str, _Operator] = {"signs": _sign, "three times every entry": lambda p: tuple(3 * v for v in p)}
#: Curvatures and starts.
_PROBLEMS = tuple(
    (h, tuple(map(Fraction, start)))
    for h, start in (
        ((1,), (Fraction(1, 2),)),
        ((1, 1), (1, 1)),
        ((1, 2), (2, -1)),
        ((1, 1, 1), (1, 2, 3)),
        ((1, 1, 1, 1), (1,) * 4),
    )
)


def _after(operator: _Operator, h: tuple[int, ...], start: _Vector, step: Fraction, steps: int) -> Fraction:
    """Return the squared distance from the minimum after some steps with error feedback."""
    x, error = start, (Fraction(0),) * len(h)
    for _ in range(steps):
        p = tuple(step * c * v + e for c, v, e in zip(h, x, error, strict=True))
        sent = operator(p)
        x = tuple(v - s for v, s in zip(x, sent, strict=True))
        error = tuple(v - s for v, s in zip(p, sent, strict=True))
    return sum((v**2 for v in x), Fraction(0))


def _converged(operator: _Operator, name: str, length: Callable[[int], Fraction]) -> Iterator[Sides]:
    """Compare the squared distance after two times 1 / (step μ) steps with a tenth of the start's.

    The step is a length that depends on the number of entries, over L.
    """
    for h, start in _PROBLEMS:
        step = length(len(h)) / max(h)
        steps = ceil(2 / (step * min(h)))
        case = f"sent {name}, h = {', '.join(map(str, h))}, {steps} steps of {exact(step)}"
        tenth = sum((v**2 for v in start), Fraction(0)) / 10
        yield Sides(case, _after(operator, h, start, step, steps), tenth, names=("squared distance", "a tenth"))


def _contractions() -> Iterator[Sides]:
    """Compare for operators that hold back at most 1 - δ of the square, with steps of δ / (2 L)."""
    for name, (operator, delta) in _CONTRACTIONS.items():
        yield from _converged(operator, name, partial(_half_of, delta))


def _half_of(delta: Callable[[int], Fraction], entries: int) -> Fraction:
    return delta(entries) / 2


def _held_back() -> Iterator[Sides]:
    """Compare what the contractions hold back with what they may, on vectors of small whole numbers."""
    for name, (operator, delta) in _CONTRACTIONS.items():
        for d in (1, 2, 3, 4):
            for v in product(range(-2, 3), repeat=d):
                p = tuple(map(Fraction, v))
                kept = sum(((a - b) ** 2 for a, b in zip(operator(p), p, strict=True)), Fraction(0))
                allowed = (1 - delta(d)) * sum((a**2 for a in p), Fraction(0))
                yield Sides(f"{name} of {', '.join(map(str, v))}", kept, allowed, names=("held back", "allowed"))


@CL88.reading("any operator, steps of 1 / (4 L)")
def any_operator() -> Evidence:
    def cases() -> Iterator[Sides]:
        for name, operator in _OTHERS.items():
            yield from _converged(operator, name, lambda d: Fraction(1, 4))

    return compared(cases(), of="problems and operators")


@CL88.reading(
    "the largest entry is sent, with gradient descent's step of 1 / L: 20 steps lead no farther", natural=False
)
def step_of_descent() -> Evidence:
    def cases() -> Iterator[Sides]:
        for h, start in _PROBLEMS:
            found, before = (_after(_top, h, start, Fraction(1, max(h)), steps) for steps in (20, 0))
            told = f"h = {', '.join(map(str, h))}, start {', '.join(map(str, start))}"
            yield Sides(told, found, before, names=("squared distance after 20 steps", "at the start"))

    return compared(cases(), of="problems")


@CL88.condition("an operator that holds back at most 1 − δ of the square, and steps of δ / (2 L)")
def contractions() -> Evidence:
    return compared(_contractions(), of="problems and operators")


CL88C = Claim(
    id="CL-88c",
    place="corrected statement of CL-88",
    said_by="fedstat",
    words="If the operator holds back at most 1 − δ of the square, with δ > 0, steps of δ / (2 L) with error feedback "
    "reach a tenth of the squared distance within 4 L / (δ μ) steps.",
    statement="norm(C(p) - p)^2 <= (1 - delta) norm(p)^2, quad gamma = delta / (2 L) ==> "
    "norm(x_T)^2 <= 1/10 norm(x_0)^2",
    severity="false",
    assumptions="as in CL-88; the largest entry, signs times the mean size, half of every entry, up to four entries",
    sensitivity="any excess, exact",
)


@CL88C.reading("three operators on five problems, and what they hold back")
def within_so_many() -> Evidence:
    return both(compared(_held_back(), of="vectors"), compared(_contractions(), of="problems and operators"))

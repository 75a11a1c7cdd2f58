"""CL-14: Krum stays close to the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import factorial, prod

from fedstat.claims import Claim, Evidence, Sides, compared, expectation, sampled, variance

CL14 = Claim(
    id="CL-14",
    place="Blanchard, El Mhamdi, Guerraoui and Stainer, Byzantine-tolerant machine learning (2017), section 4, "
    "Proposition 1, by the bound on ‖E Kr − g‖² with which its proof ends; later published as "
    "Machine learning with adversaries; arXiv:1703.02757",
    said_by="paper",
    words="With 2f + 2 < n, Krum's mean lies within η(n, f) √d σ of the gradient, whatever f of n clients send.",
    statement='norm(EE op("Krum") - g)^2 <= eta^2 d sigma^2, quad '
    "eta^2 = 2 (n - f + (f (n - f - 2) + f^2 (n - f - 1)) / (n - 2 f - 2)), quad 2 f + 2 < n",
    severity="false",
    assumptions="the other clients' gradients are independent with mean g and variance d σ²; adversaries see them "
    "before they answer, and ties go to the adversaries; tried on numbers (d = 1) of two and three values, with "
    "adversaries on a grid",
    sensitivity="any excess over the bound, exact; the bound is so loose that a tenth of it would stand",
    flaw="The proof takes the average of the chosen vector's honest neighbours to have the mean g, as each honest "
    "vector has. It has not, as their values decide which of them are neighbours; the bound itself is loose and was "
    "not seen to fail.",
)

_Values = tuple[int, ...]
_Rule = Callable[[_Values, int], set[int]]
#: Values that an honest client sends, in quarters, with their chances in hundredths.
_LAWS = (((-4, 50), (4, 50)), ((0, 80), (8, 20)), ((-4, 25), (0, 50), (4, 25)), ((-8, 10), (0, 80), (8, 10)))


def _krum(sent: _Values, f: int) -> set[int]:
    """Return the values with the smallest sum of squared distances to the n - f - 2 nearest others."""
    scores: dict[int, int] = {}
    for i, v in enumerate(sent):
        squares = sorted((v - w) ** 2 for j, w in enumerate(sent) if j != i)
        scores[v] = min(sum(squares[: len(sent) - f - 2]), scores.get(v, 10**9))
    return {v for v, score in scores.items() if score == min(scores.values())}


def _middle(sent: _Values, f: int) -> set[int]:
    """Return the mean, which knows nothing of adversaries, in whole quarters."""
    return {sum(sent) // len(sent)}


def _honest(chances: tuple[tuple[int, int], ...], clients: int) -> Iterator[tuple[Fraction, _Values]]:
    """Yield what so many honest clients send, in any order, with its chance."""
    for chosen in combinations_with_replacement(chances, clients):
        orders = factorial(clients) // prod(factorial(chosen.count(pair)) for pair in set(chosen))
        chance = prod((Fraction(share, 100) for _, share in chosen), start=Fraction(orders))
        yield chance, tuple(value for value, _ in chosen)


def _shifts(rule: _Rule) -> Iterator[Sides]:
    """Compare the squared distance of the expected answer from g with the bound, the adversaries at their worst."""
    for (n, f), chances, sign in product(((5, 1), (6, 1), (7, 2)), _LAWS, (1, -1)):
        honest = [(Fraction(chance, 100), Fraction(value, 4)) for value, chance in chances]
        g, sigma2 = expectation(honest), variance(honest)
        mean = Fraction(0)
        for chance, others in _honest(chances, n - f):
            attacks = combinations_with_replacement((-400, *range(-16, 17, 1 if f == 1 else 2), 400), f)
            worst = max(sign * value for attack in attacks for value in rule(others + attack, f))
            mean += chance * sign * Fraction(worst, 4)
        eta2 = 2 * (n - f + Fraction(f * (n - f - 2) + f**2 * (n - f - 1), n - 2 * f - 2))
        values = " or ".join(f"{Fraction(value, 4)} ({chance}%)" for value, chance in chances)
        yield Sides(
            f"n = {n}, f = {f}, honest {values}", (mean - g) ** 2, eta2 * sigma2, names=("squared shift", "bound")
        )


def _first_step() -> Iterator[Sides]:
    """Compare Krum's squared shift with its mean squared distance from its honest neighbours, as the proof does.

    The adversary among five sends 0. Of five values that are 0 or one other, Krum chooses the one sent more often, and
    both of its neighbours are equal to it, so that the distance is zero whichever of them are honest.
    """
    mean, distance = Fraction(0), Fraction(0)
    for chance, others in _honest(_LAWS[1], 4):
        (chosen,) = _krum((*others, 0), 1)
        nearest = sorted((chosen - value) ** 2 for value in others)[: 2 if chosen else 1]
        mean += chance * Fraction(chosen, 4)
        distance += chance * Fraction(sum(nearest), 16 * len(nearest))
    g = Fraction(sum(chance * value for value, chance in _LAWS[1]), 400)
    case = "n = 5, f = 1, honest 0 (80%) or 2 (20%), the adversary 0"
    yield Sides(case, (mean - g) ** 2, distance, names=("squared shift", "distance from neighbours"))


def _far_away(spare: int) -> Evidence:
    """Whether f equal values far away are never chosen, with n = 2 f + spare."""

    def sent() -> Iterator[tuple[_Values, int]]:
        for f in (1, 2, 3):
            for honest in combinations_with_replacement((-4, 0, 4), f + spare):
                yield honest + (400,) * f, f

    def show(case: tuple[_Values, int]) -> str:
        return f"n = {len(case[0])}, f = {case[1]}, sent " + ", ".join(str(Fraction(value, 4)) for value in case[0])

    return sampled(sent(), lambda case: 400 not in _krum(*case), of="sets of values with f far away", show=show)


@CL14.reading("adversaries who see what the others send")
def omniscient() -> Evidence:
    return compared(_shifts(_krum), of="laws with adversaries at their worst")


@CL14.reading("the proof's first inequality: no farther from g than from the honest neighbours", natural=False)
def first_inequality() -> Evidence:
    return compared(_first_step(), of="laws of honest values")


@CL14.reading("n = 2f + 2, which the condition excludes: values far away are never chosen", natural=False)
def one_client_fewer() -> Evidence:
    return _far_away(2)


@CL14.reading("n = 2f + 1, a majority of honest clients: values far away are never chosen", natural=False)
def bare_majority() -> Evidence:
    return _far_away(1)


@CL14.mutant("the mean in place of Krum")
def the_mean() -> Evidence:
    return compared(_shifts(_middle), of="laws with adversaries at their worst")

"""Finite laws of chance, and what is expected under them by enumeration: who takes part in a round, for example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from typing import Any, TypeVar

from fedstat._checks import number

Outcome = TypeVar("Outcome")
#: Outcomes with their probabilities, which add up to one.
Law = Sequence[tuple[Fraction, Outcome]]


def expectation(law: Law[Outcome], value: Callable[[Outcome], Any] = lambda outcome: outcome) -> Any:
    """Return the expected value under a finite law; exact where probabilities and values are.

    Parameters
    ----------
    law : sequence of (Fraction, outcome)
        All outcomes with their probabilities.
    value : callable
        Returns what is averaged: a number, a symbol or an array; the outcome itself if left out.

    Raises
    ------
    ValueError
        If the probabilities do not add up to one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import expectation
    >>> coin = [(Fraction(1, 3), 0), (Fraction(2, 3), 1)]
    >>> expectation(coin), expectation(coin, lambda x: 3 * x**2)
    (Fraction(2, 3), Fraction(2, 1))
    """
    if (whole := sum(p for p, _ in law)) != 1:
        raise ValueError(f"law must have probabilities that add up to 1, got {whole}.")
    return sum(p * value(outcome) for p, outcome in law)


def variance(law: Law[Outcome], value: Callable[[Outcome], Any] = lambda outcome: outcome) -> Any:
    """Return the variance of a value under a finite law, entry by entry for arrays; parameters as in `expectation`.

    Examples
    --------
    A client of three takes part, each with the same chance, and sends its model:

    >>> from fedstat.claims import subsets, variance
    >>> variance(subsets(3, 1), lambda chosen: (0, 3, 6)[chosen[0]])
    Fraction(6, 1)
    """
    mean = expectation(law, value)
    return expectation(law, lambda outcome: (value(outcome) - mean) ** 2)


def subsets(clients: int, size: int) -> Law[tuple[int, ...]]:
    """Return the law of `size` of `clients` clients without replacement, all sets equally likely.

    Examples
    --------
    >>> from fedstat.claims import subsets
    >>> subsets(3, 2)
    [(Fraction(1, 3), (0, 1)), (Fraction(1, 3), (0, 2)), (Fraction(1, 3), (1, 2))]
    """
    chance = Fraction(1, comb(clients, size)) if 0 < size <= clients else Fraction(0)
    if not chance:
        raise ValueError(f"size must be from 1 to {clients}, the number of clients, got {size}.")
    return [(chance, chosen) for chosen in combinations(range(clients), size)]


def draws(shares: Sequence[Fraction], size: int) -> Law[tuple[int, ...]]:
    """Return the law of `size` clients drawn with replacement, each time client k with probability ``shares[k]``.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import draws
    >>> for chance, drawn in draws((Fraction(1, 3), Fraction(2, 3)), 2):
    ...     print(chance, drawn)
    1/9 (0, 0)
    2/9 (0, 1)
    2/9 (1, 0)
    4/9 (1, 1)
    """
    return [
        (prod((shares[k] for k in drawn), start=Fraction(1)), drawn)
        for drawn in product(range(len(shares)), repeat=size)
    ]


def inclusions(chances: Sequence[Fraction]) -> Law[tuple[int, ...]]:
    """Return the law of clients who take part independently, client k with probability ``chances[k]``; maybe nobody.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import inclusions
    >>> for chance, present in inclusions((Fraction(1, 2), Fraction(1, 3))):
    ...     print(chance, present)
    1/3 ()
    1/6 (1,)
    1/3 (0,)
    1/6 (0, 1)
    """
    for k, chance in enumerate(chances):
        number(f"chances[{k}]", chance, "[0, 1]")
    return [
        (
            prod((q if here else 1 - q for q, here in zip(chances, present, strict=True)), start=Fraction(1)),
            tuple(k for k, here in enumerate(present) if here),
        )
        for present in product((False, True), repeat=len(chances))
    ]

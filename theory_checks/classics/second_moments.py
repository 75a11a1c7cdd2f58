"""Methods with a state for every client, which are linear in it on parabolas: their exact second moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedstat.claims import subsets

#: A round: from a state (the model, then what each client keeps) and who takes part to the next state.
Round = Callable[[list[Any], tuple[int, ...]], list[Any]]


def expected_square(one: Round, start: Sequence[Fraction], size: int, rounds: int) -> Fraction:
    """Return the model's expected square after some rounds of so many clients, drawn anew each time.

    States are deviations from the one that is aimed at, so that a round is linear; its matrix is what it makes of the
    unit vectors.
    """
    unit = [np.array([Fraction(i == j) for j in range(len(start))]) for i in range(len(start))]
    matrices = [(chance, np.array(one(list(unit), chosen))) for chance, chosen in subsets(len(start) - 1, size)]
    second = np.outer(np.array(start), np.array(start))
    for _ in range(rounds):
        second = sum(chance * (matrix @ second @ matrix.T) for chance, matrix in matrices)
    return Fraction(second[0, 0])

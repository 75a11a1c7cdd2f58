"""FF-08: the weights of the printed average belong inside the sum.

FF-08c: with the weights inside the sum it is an average.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, search
from theory_checks.factorized_fl.weighted_average import Scores, scores, softmax

FF08 = Claim(
    id="FF-08",
    place="section 4.2, equation (5)",
    said_by="paper",
    words="The printed expression is a weighted average of the clients' vectors.",
    statement="u_k <- e^(epsilon sigma_i) / (sum_i e^(epsilon sigma_i)) sum_i u_i",
    severity="misprint",
    assumptions="an average of equal vectors is that vector",
    sensitivity="one part in 10¹²",
    flaw="One softmax weight stands before the sum of all vectors, so that K equal vectors come out multiplied by "
    "K times that weight. FedAvg's average is written in the same order in section 3.1, so the free index "
    "seems to be meant as that of the sum that follows it.",
    corrected="FF-08c",
)


def _constant(average: Callable[[Scores], float]) -> Evidence:
    """An average of vectors u_i that are all one is one."""
    return search(
        scores(5),
        lambda case: (average(case), 1.0),
        relation="==",
        tolerance=1e-12,
        names=("the average of ones", "their value"),
    )


@FF08.reading("the weight before the sum is the client's own")
def own_weight_outside() -> Evidence:
    return _constant(lambda case: float(softmax(case)[0] * len(case.similarity)))


@FF08.reading("the free index is bound by the sum of the vectors, so that the weights stand inside")
def weights_inside() -> Evidence:
    return _constant(lambda case: float(softmax(case) @ np.ones(len(case.similarity))))


FF08C = Claim(
    id="FF-08c",
    place="corrected statement of FF-08",
    said_by="fedstat",
    words="With the weight inside the sum the result is a weighted average, between the smallest and the largest of "
    "the clients' values.",
    statement="u_k <- sum_i omega_i u_i, quad omega_i = e^(epsilon sigma_i) / (sum_j e^(epsilon sigma_j))",
    severity="misprint",
    sensitivity="one part in 10⁹",
)


class Average(NamedTuple):
    """Similarities with one entry of each client's vector."""

    scores: Scores
    u: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.scores}, entries ({', '.join(map(str, self.u))})".replace("-", "−")


_averages = scores(20).flatmap(
    lambda case: st.tuples(*[st.integers(-9, 9)] * len(case.similarity)).map(lambda u: Average(case, u))
)


def _is_average(average: Callable[[np.ndarray, np.ndarray], float]) -> Evidence:
    """The weights of the softmax are positive and sum to one, so the result is a convex combination of the u_i.

    It lies between the smallest and the largest, that is at most half their distance from the middle between them.
    """

    def from_the_middle(case: Average) -> tuple[float, float]:
        result = average(softmax(case.scores), np.array(case.u, dtype=float))
        return abs(result - (max(case.u) + min(case.u)) / 2), (max(case.u) - min(case.u)) / 2

    return search(
        _averages, from_the_middle, tolerance=1e-9, names=("distance from the middle", "half the entries' range")
    )


@FF08C.reading("entry by entry")
def between() -> Evidence:
    return _is_average(lambda omega, u: float(omega @ u))


@FF08C.mutant("the client's own weight before the sum")
def weight_before_sum() -> Evidence:
    return _is_average(lambda omega, u: float(omega[0] * u.sum()))

"""The exact moments behind the judgement of a classical bound, against all noise that could be drawn."""

from fractions import Fraction
from itertools import product

import pytest

from theory_checks.classics.cl02_decaying_steps_bound import Scalars, _path


@pytest.mark.parametrize("first", [0, 1])
def test_moments_are_those_of_all_noise(first):
    problem = Scalars((1, 2), (0, 1), (Fraction(1, 4), Fraction(3, 4)), (1, 4), 2, -3, first)
    steps, found = 4, list(_path(problem, first + 4))[-1].distance
    total = Fraction(0)
    for signs in product(list(product((-1, 1), (-2, 2))), repeat=steps):  # variances 1 and 4
        own = [problem.optimum + problem.distance] * 2
        for t, noise in enumerate(signs, start=first):
            average = sum(p * w for p, w in zip(problem.p, own, strict=True))
            own = [average] * 2 if t % problem.local_steps == 0 else own
            eta = 2 / (problem.gamma + t)
            own = [w - eta * (h * (w - c) + z) for w, h, c, z in zip(own, problem.h, problem.c, noise, strict=True)]
        total += (sum(p * w for p, w in zip(problem.p, own, strict=True)) - problem.optimum) ** 2
    assert found == total / 4**steps

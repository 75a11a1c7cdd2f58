"""The exact moments behind the judgement of statements, against all noise and all clients that could be drawn."""

from fractions import Fraction
from functools import partial
from itertools import combinations, product
from statistics import median

import pytest
from scipy.stats import trim_mean

from theory_checks.classics.cl02_decaying_steps_bound import Scalars, _path
from theory_checks.classics.cl82_scaffold_and_sampling import _equal, _round
from theory_checks.classics.corrupted_values import trimmed_mean
from theory_checks.classics.second_moments import expected_square


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


@pytest.mark.parametrize("size", [1, 2])
def test_expected_squares_are_those_of_all_draws(size):
    one = partial(_round, clients=_equal((1, 2, 8), (0, 0, 0)), steps=2, lr=Fraction(1, 8))
    start, rounds = [Fraction(v) for v in (1, 2, 0, -1)], 3
    squares = []
    for draws in product(combinations(range(3), size), repeat=rounds):
        state = list(start)
        for chosen in draws:
            state = one(state, chosen)
        squares.append(state[0] ** 2)
    assert expected_square(one, start, size, rounds) == sum(squares) / len(squares)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_trimmed_means_end_in_the_median(n):
    for values in product((-2, 0, 3), repeat=n):
        assert trimmed_mean(values, (n - 1) // 2) == median(values)
        assert all(abs(trimmed_mean(values, b) - trim_mean(values, b / n + 1e-9)) < 1e-12 for b in range((n + 1) // 2))

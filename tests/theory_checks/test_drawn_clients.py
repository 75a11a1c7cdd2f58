"""What the claims on drawn clients derive, checked apart from them."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory_checks.filter_decomposition.drawn_clients import crossed
from theory_checks.filter_decomposition.fd24_sampling_error_bound import Descent
from theory_checks.filter_decomposition.fd26_smaller_sampling_error import rates

populations = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=4, max_size=7)


@pytest.mark.parametrize("local_steps", [1, 2, 3, 4, 7, 8, 9, 20, 100])
def test_the_printed_bound_holds_from_three_steps_on_with_the_theorems_step_sizes(local_steps):
    for start in (max(8, local_steps), 2 * max(8, local_steps), 1000):
        steps = [Fraction(2, start + j) for j in range(local_steps)]
        parted = Descent((tuple([1] * local_steps), tuple([-1] * local_steps)), tuple(steps), 1)
        assert parted.error == sum(steps) ** 2  # the clients part as far as their gradients allow
        assert (parted.error <= parted.bound(local_steps - 1)) == (local_steps >= 3)


@settings(max_examples=60)
@given(populations.flatmap(lambda clients: st.tuples(st.just(clients), st.integers(1, len(clients)))))
def test_the_difference_of_the_errors_for_more_clients_than_the_claim_tries(case):
    clients, m = case
    size = len(clients)

    def mean(values):
        values = list(values)
        return sum(values, Fraction(0)) / len(values)

    a0, d0, everyone = mean(a for a, _ in clients), mean(d for _, d in clients), mean(a * d for a, d in clients)

    def t(i, j):
        return mean((a - a0) ** i * (d - d0) ** j for a, d in clients)

    found = mean(
        (mean(a for a, _ in s) * mean(d for _, d in s) - everyone) ** 2 - (mean(a * d for a, d in s) - everyone) ** 2
        for s in combinations(clients, m)
    )
    f, f3, f4, g = rates(Fraction(m), Fraction(size))
    claimed = (1 - f) * t(1, 1) ** 2 - 2 * (f - f3) * (a0 * t(1, 2) + d0 * t(2, 1)) - (f - f4) * t(2, 2)
    assert found == claimed + g * (t(2, 0) * t(0, 2) + 2 * t(1, 1) ** 2)


def test_crossed_populations_have_independent_coefficients_and_atoms():
    for case in crossed(((0, 0, 1), (1, 2))):
        assert case.central(1, 1) == case.central(1, 2) == case.central(2, 1) == 0
        assert case.central(2, 2) == case.central(2, 0) * case.central(0, 2)

"""The exact moments behind the judgement of statements, against all noise and all clients that could be drawn."""

from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import sqrt
from random import Random
from statistics import median

import numpy as np
import pytest
import sympy as sp
import torch
from scipy.linalg import subspace_angles
from scipy.stats import trim_mean
from sympy import Matrix

from fedstat.claims import Functions, fedavg_round, worst_case
from theory_checks.classics.cl02_decaying_steps_bound import Scalars, _path
from theory_checks.classics.cl40_local_descent_on_convex_clients import averaged
from theory_checks.classics.cl82_scaffold_and_sampling import _equal, _round
from theory_checks.classics.cl93_one_round_of_fedprox import SETTINGS, one_round, shortfall
from theory_checks.classics.cl94_sum_in_spite_of_dropouts import _PRIME, _result, _subsets
from theory_checks.classics.cl96_least_distance_of_fedavg import PAIR
from theory_checks.classics.cl97_sampled_gaussian_noise import cost
from theory_checks.classics.cl98_fedlin_converges_linearly import fedlin
from theory_checks.classics.cl99_fedrep_recovers_the_representation import distance, fedrep, frame
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


@pytest.mark.parametrize(("n", "threshold"), [(2, 1), (2, 2), (3, 2), (4, 3)])
def test_the_server_opens_masks_whose_polynomials_it_finds_by_search(n, threshold):
    """The protocol message by message, with everything drawn; of all polynomials one at most fits t shares."""
    draw, users = Random(n), range(1, n + 1)
    inputs = {u: draw.randrange(_PRIME) for u in users}
    masks = {
        mask: [draw.randrange(_PRIME) for _ in range(threshold)]
        for size in (1, 2)
        for mask in combinations(users, size)
    }

    def opened(mask, end):
        held = {u: sum(a * u**i for i, a in enumerate(masks[mask])) % _PRIME for u in end}
        fitting = [
            q
            for q in product(range(_PRIME), repeat=threshold)
            if all(sum(a * u**i for i, a in enumerate(q)) % _PRIME == y for u, y in held.items())
        ]
        assert len(fitting) == 1
        return fitting[0][0]

    sent = {
        u: inputs[u]
        + masks[u,][0]
        + sum(masks[u, v][0] for v in users if v > u)
        - sum(masks[v, u][0] for v in users if v < u)
        for u in users
    }
    for arrived in _subsets(users):
        for end in (e for e in _subsets(arrived) if len(e) >= threshold):
            total = sum(sent[u] - opened((u,), end) for u in arrived)
            for u, v in product(arrived, set(users) - set(arrived)):
                total -= opened((u, v), end) if u < v else -opened((v, u), end)
            expected = sum(inputs[u] for u in arrived) % _PRIME
            assert total % _PRIME == _result(inputs, masks, arrived, end, open_pairs=True) == expected


@pytest.mark.parametrize(("pull", "b", "k"), SETTINGS)
def test_what_fedprox_promises_is_as_printed(pull, b, k):
    spare = pull - 1
    rho = 1 / pull - b / (spare * pull) - b**2 / (2 * spare**2)
    if k is not None:
        rho -= b * sqrt(2) / (spare * sqrt(k)) + b**2 / (spare**2 * k) * (2 * sqrt(2 * k) + 2)
    assert 1 - sum(shortfall(1 / pull, b, k).values()) == pytest.approx(pull * rho)
    assert rho > 0


@pytest.mark.parametrize("local_steps", [(1, 1), (1, 2), (2, 2), (1, 4)])
@pytest.mark.parametrize("step", [0.5, 1])
def test_the_worst_case_of_fedlin_is_a_parabola_of_the_smallest_curvature(local_steps, step):
    pytest.importorskip("PEPit")
    found = worst_case(
        fedlin(local_steps, step),
        [Functions(convexity=0.5, smoothness=1)] * 2,
        measure=lambda run: run.gap,
        given=lambda run: [run.value(run.first) - run.value(run.optimum)],
    )
    kept = [(1 - step * 0.5 / steps) ** steps for steps in local_steps]
    assert found.value == pytest.approx((sum(kept) / 2) ** 2, abs=1e-5)
    assert found.agreed


@pytest.mark.parametrize("steps", [3, 8, pytest.param(20, marks=pytest.mark.slow)])
def test_the_bound_of_local_descent_comes_closer_with_more_steps(steps):
    """docs/how-loose.md: without local steps and heterogeneity T steps reach T / (4 T + 12) of the bound."""
    pytest.importorskip("PEPit")
    found = worst_case(
        averaged(0.25, 1, steps),
        [Functions(smoothness=1)],
        measure=lambda run: run.gap,
        given=lambda run: [2 / (0.25 * steps) * run.start],
    )
    assert found.agreed
    assert found.value == pytest.approx(steps / (4 * steps + 12), abs=1e-5)


@pytest.mark.parametrize("size", [1, 2])
def test_a_round_of_fedrep_is_the_gradient_step_of_torch(size):
    start, truth = frame((1, -2, 3))[:, :size], frame((0, 2, -1))[:, :size]
    models = [truth * Matrix([w, *([w - 1] * (size - 1))]) for w in (1, -2, 3)]
    after = fedrep(start, models, Fraction(1, 7))

    weights, targets = (torch.tensor(np.array(m, dtype=float)) for m in (start, [list(m) for m in models]))
    weights.requires_grad_()
    heads = torch.linalg.lstsq(weights.detach().expand(3, 3, size), targets[..., None]).solution
    ((weights @ heads - targets[..., None]) ** 2).sum().div(2 * 3).backward()
    stepped = (weights - weights.grad / 7).detach().numpy()
    assert np.array(after, dtype=float) == pytest.approx(stepped)
    found = subspace_angles(stepped, np.array(truth, dtype=float))
    assert float(distance(after, truth)) == pytest.approx((np.sin(found) ** 2).sum())


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (0.3, 2.0), (1.0, 0.7)])
def test_the_cost_of_sampled_noise_is_what_dp_accounting_says(rate, sigma):
    dp = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    accountant = rdp.RdpAccountant(orders := [2, 3, 8, 32])
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)))
    assert [float(cost(order, rate, sigma)) for order in orders] == pytest.approx(list(accountant.rdp), rel=1e-9)


@pytest.mark.parametrize(("pull", "k"), [(4, None), (6, None), (9, 8)])
def test_the_worst_case_of_fedprox_with_equal_gradients_is_a_parabola(pull, k):
    pytest.importorskip("PEPit")
    setting, least = one_round(pull, 1, k), (1 + 1 / (2 * pull)) / (1 + 1 / pull) ** 2
    promised = sum(shortfall(1 / pull, 1, k).values())

    def given(run):  # a squared gradient of at most one
        return [sum(setting.bound(run).values()) / promised, *(1 + quantity for quantity in setting.assumed(run))]

    found = worst_case(setting.method, setting.clients, measure=setting.measure, given=given)
    assert found.agreed
    assert 1 - found.value == pytest.approx(least, abs=1e-4)


def test_each_step_of_the_proof_that_fedavg_stays_away():
    x, eta, w, count = sp.symbols("x eta w K", positive=True)
    first, second = (gradient(x) for gradient in PAIR)
    mean, squares = (first + second) / 2, (first**2 + second**2) / 2
    assert sp.expand(mean - x) == 0
    assert sp.expand(2 + 3 * mean**2 - squares - (x - 1) ** 2) == 0  # the bound on the dissimilarity
    for steps in (1, 2, 3, 5):
        gone = 1 - (1 - 2 * eta) ** steps
        after = (1 - gone / 2) * x + steps * eta / 2 - gone / 4
        assert sp.expand(fedavg_round(x, PAIR, lr=eta, steps=steps) - after) == 0
    square = fedavg_round(x, PAIR, lr=eta, steps=2) - x * (1 + x) / (1 + 2 * x)
    assert sp.simplify(square - ((1 + 2 * x) * eta - x) ** 2 / (1 + 2 * x)) == 0
    length = count * (1 - (1 - w) ** (1 / count)) / 2  # K eta, given w
    assert all(
        length.subs({count: k + 1, w: sp.Rational(i, 9)}) > length.subs({count: k, w: sp.Rational(i, 9)})
        for k in range(1, 8)
        for i in range(1, 10)
    )

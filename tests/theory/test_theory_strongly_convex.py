"""The convergence bound against exact federated averaging, quadratics with known truth."""

import itertools
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedstat.data import Quadratics, random_quadratics
from fedstat.theory.strongly_convex import strongly_convex_bound
from simulations.strongly_convex import study
from simulations.strongly_convex.numbers import figures
from theory_checks.filter_decomposition.averaging_exactly import Scalars, run_exactly

CONSTANTS = {
    "smoothness": F(2),
    "convexity": 1,
    "local_steps": 3,
    "gradient_bound": 1,
    "heterogeneity": 1,
    "initial_distance": 2,
}


def every_outcome(problem, rate, steps):
    """Expected gaps and the largest expected squared gradient, by listing all participants and all noise signs."""
    clients = range(len(problem.h))
    subsets = list(itertools.combinations(clients, problem.participants))
    target, curvature = problem.optimum, F(sum(problem.h), len(problem.h))
    law, gaps, largest = {(problem.start,) * len(problem.h): F(1)}, [], F(0)
    for t in range(1, steps + 1):
        average = {w: sum(w) / len(w) for w in law}
        gaps.append(sum(p * curvature / 2 * (average[w] - target) ** 2 for w, p in law.items()))
        after = {}
        squares = [F(0)] * len(problem.h)
        for w, p in law.items():
            for signs in itertools.product((-1, 1), repeat=len(w)):
                # every variance is a square here, so that noise of two points has it
                noise = [s * int(v**0.5) for s, v in zip(signs, problem.sigma, strict=True)]
                gradient = [problem.h[k] * (w[k] - problem.c[k]) + noise[k] for k in clients]
                for k in clients:
                    squares[k] += p * F(1, 2 ** len(w)) * gradient[k] ** 2
                moved = tuple(w[k] - rate(t) * gradient[k] for k in clients)
                ends = [moved] * len(subsets)
                if t % problem.local_steps == 0:
                    ends = [(sum(moved[k] for k in s) / len(s),) * len(w) for s in subsets]
                for end in ends:
                    after[end] = after.get(end, 0) + p / 2 ** len(w) / len(ends)
        law, largest = after, max(largest, *squares)
    return gaps, largest


PROBLEMS = [
    Scalars((1,), (0,), F(1), 1),
    Scalars((1, 2), (0, 3), F(-2), 2, local_steps=2, participants=2),
    Scalars((1, 2), (0, 3), F(5), 2, local_steps=2, participants=1),
    Scalars((1, 1), (0, 0), F(0), 1, participants=2, variances=(1, 4)),
    Scalars((1, 4), (0, 1), F(1), 4, local_steps=2, participants=1, variances=(4, 0)),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_corrected_bound_and_moments_against_every_outcome(problem):
    gamma = 8 * problem.smoothness

    def rate(t):
        return F(2, gamma + t)

    gaps, largest = every_outcome(problem, rate, 4)
    path = run_exactly(problem, rate, 4)
    assert [at.gap for at in path] == gaps
    assert path[-1].squared_gradient == largest
    for t, gap in enumerate(gaps, 1):
        bound = strongly_convex_bound(
            t,
            smoothness=problem.smoothness,
            convexity=1,
            local_steps=problem.local_steps,
            gradient_bound=float(largest) ** 0.5,
            heterogeneity=problem.heterogeneity,
            initial_distance=abs(problem.start - problem.optimum),
            form="corrected",
            clients=len(problem.h),
            participants=problem.participants,
            noise=problem.noise,
        )
        assert gap <= bound


@given(
    condition=st.integers(1, 5),
    local_steps=st.integers(1, 6),
    rounds=st.integers(1, 3),
    sizes=st.tuples(*[st.fractions(0, 10, max_denominator=5)] * 4),
    counts=st.sampled_from([(1, 1), (1, 2), (2, 5)]),
)
def test_corrected_bound_covers_its_recursion(condition, local_steps, rounds, sizes, counts):
    """Delta' = (1 - mu eta) Delta + eta^2 B as an equality, and F - F* = L Delta / 2."""
    (g, heterogeneity, distance, noise), (m, big_m) = sizes, counts
    period, gamma = local_steps * rounds, max(8 * condition, local_steps * rounds)
    b = noise + 6 * condition * heterogeneity + 8 * (period - 1) ** 2 * g**2
    if m < big_m:
        b += F(4 * (big_m - m), m * (big_m - 1)) * period**2 * g**2
    delta = distance**2
    for t in range(1, 15):
        bound = strongly_convex_bound(
            t,
            smoothness=condition,
            convexity=1,
            local_steps=local_steps,
            gradient_bound=g,
            heterogeneity=heterogeneity,
            initial_distance=distance,
            form="corrected",
            clients=big_m,
            participants=m,
            noise=noise,
            beta=F(1, rounds),
        )
        assert isinstance(bound, F)
        assert F(condition, 2) * delta <= bound
        if t == 1 and b == 0:
            assert F(condition, 2) * delta == bound  # attained at the start
        eta = F(2, gamma + t)
        delta = (1 - eta) * delta + eta**2 * b


def test_printed_bound_by_hand():
    """The formula with its numbers put in, and the start at which it is nine times too small."""
    found = strongly_convex_bound(4, **CONSTANTS, form="printed", clients=3, participants=2)
    assert found == F(4, 20) * (12 + 32 + F(4 * 5, 4 * 9 * 8) * 4 + 1)
    slow = strongly_convex_bound(4, **CONSTANTS, form="printed", beta=F(1, 10), noise=7)
    assert slow == F(4, 20) * (12 + 8 * 29**2 + 1)
    constants = CONSTANTS | {"smoothness": F(1), "local_steps": 1, "heterogeneity": 0, "initial_distance": 1}
    assert strongly_convex_bound(1, **constants, form="printed") == F(1, 18) == F(1, 2) / 9
    in_floats = {name: float(value) if name != "local_steps" else value for name, value in CONSTANTS.items()}
    assert strongly_convex_bound(np.int64(4), **in_floats, form="printed", clients=3, participants=2) == pytest.approx(
        float(found), rel=1e-15
    )
    far = strongly_convex_bound(4, **CONSTANTS | {"initial_distance": np.int64(2**62)}, form="printed")
    assert far == strongly_convex_bound(4, **CONSTANTS | {"initial_distance": 2**62}, form="printed")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"steps": 0}, "steps must be a whole number, at least 1, got 0"),
        ({"steps": 1.5}, "steps must be a whole number"),
        ({"local_steps": 0}, "local_steps must be"),
        ({"participants": 0}, "participants must be a whole number"),
        ({"participants": 3, "clients": 2}, "participants must be at most clients = 2, got 3"),
        ({"convexity": 0}, r"convexity must be a number in \(0, inf\)"),
        ({"smoothness": F(1, 2)}, "smoothness must be finite and at least convexity = 1, got 1/2"),
        ({"smoothness": float("inf")}, "smoothness must be finite"),
        ({"smoothness": None}, "smoothness must be a number, got None"),
        ({"smoothness": "4"}, "smoothness must be a number, got '4'"),
        ({"gradient_bound": float("nan")}, r"gradient_bound must be a number in \[0, inf\)"),
        ({"heterogeneity": -1}, "heterogeneity must be"),
        ({"initial_distance": -1}, "initial_distance must be"),
        ({"noise": -1}, "noise must be"),
        ({"beta": 0}, r"beta must be a number in \(0, 1\], got 0"),
        ({"beta": 1.5}, "beta must be a number"),
        ({"form": "sharp"}, 'form must be "printed" or "corrected"'),
    ],
)
def test_bad_constants(changed, message):
    arguments = {"steps": 1, **CONSTANTS, "form": "printed", **changed}
    with pytest.raises(ValueError, match=message):
        strongly_convex_bound(arguments.pop("steps"), **arguments)


@given(
    clients=st.integers(1, 6),
    dimension=st.integers(1, 5),
    condition=st.floats(1, 100),
    heterogeneity=st.floats(0.01, 100),
    seed=st.integers(0, 1000),
)
def test_quadratics_have_the_wanted_constants(clients, dimension, condition, heterogeneity, seed):
    wanted = {
        "smoothness": 0.5 * condition if clients * dimension > 1 else 0.5,
        "convexity": 0.5,
        "heterogeneity": heterogeneity if clients > 1 else 0.0,
    }
    drawn = random_quadratics(clients=clients, dimension=dimension, **wanted, seed=seed)
    values = np.linalg.eigvalsh(drawn.hessians)
    assert drawn.smoothness == pytest.approx(wanted["smoothness"], rel=1e-12)
    assert drawn.convexity == pytest.approx(0.5, rel=1e-9)
    assert (values.min(), values.max()) == pytest.approx((drawn.convexity, drawn.smoothness))
    own = [Quadratics(h[None], c[None]).value(c) for h, c in zip(drawn.hessians, drawn.centres, strict=True)]
    assert drawn.minimum - np.mean(own) == pytest.approx(drawn.gamma)
    assert drawn.gamma == pytest.approx(wanted["heterogeneity"], rel=1e-9, abs=1e-12)
    again = random_quadratics(clients=clients, dimension=dimension, **wanted, seed=seed)
    np.testing.assert_array_equal(drawn.hessians, again.hessians)
    np.testing.assert_array_equal(drawn.centres, again.centres)


def test_quadratics_against_a_general_minimiser():
    drawn = random_quadratics(clients=4, dimension=3, smoothness=8, convexity=2, heterogeneity=5, seed=3)
    found = minimize(
        lambda w: float(drawn.value(w)), np.ones(3), jac=lambda w: drawn.gradient(w[None]).mean(axis=0), tol=1e-12
    )
    np.testing.assert_allclose(drawn.optimum, found.x, atol=1e-8)
    assert drawn.minimum == pytest.approx(found.fun)
    points = np.random.default_rng(0).normal(size=(2, 4, 3))
    by_client = drawn.gradient(points)
    for k in range(4):
        away = points[:, k] - drawn.centres[k]
        np.testing.assert_allclose(by_client[:, k], away @ drawn.hessians[k], atol=1e-12)
    step = 1e-5 * np.eye(3)
    slope = (drawn.value(points[0, 0] + step) - drawn.value(points[0, 0] - step)) / 2e-5
    np.testing.assert_allclose(drawn.gradient(points[0, :1]).mean(axis=0), slope, rtol=1e-6)


GOOD = {"clients": 2, "dimension": 2, "smoothness": 2.0, "convexity": 1.0, "heterogeneity": 1.0, "seed": 0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: random_quadratics(**GOOD | {"clients": 0}), "clients must be a whole number, at least 1"),
        (lambda: random_quadratics(**GOOD | {"dimension": 0}), "dimension must be a whole number, at least 1"),
        (lambda: random_quadratics(**GOOD | {"convexity": 0.0}), r"convexity must be a number in \(0, inf\)"),
        (lambda: random_quadratics(**GOOD | {"smoothness": 0.5}), "smoothness must be finite and at least convexity"),
        (lambda: random_quadratics(**GOOD | {"heterogeneity": -1.0}), r"heterogeneity must be a number in \[0, inf\)"),
        (lambda: random_quadratics(**GOOD | {"clients": 1}), "heterogeneity must be 0 for a single client"),
        (
            lambda: random_quadratics(**GOOD | {"clients": 1, "dimension": 1, "heterogeneity": 0.0}),
            "smoothness must equal convexity",
        ),
        (lambda: random_quadratics(**GOOD | {"seed": -1}), "seed must be"),
        (lambda: Quadratics(np.eye(2), np.zeros((1, 2))), r"hessians must have shape \(1, 2, 2\)"),
        (lambda: Quadratics(np.eye(2)[None], np.full((1, 2), np.nan)), "must be finite"),
        (lambda: Quadratics(-np.eye(2)[None], np.zeros((1, 2))), "positive definite"),
        (lambda: Quadratics(np.array([[[1.0, 1.0], [0.0, 1.0]]]), np.zeros((1, 2))), "symmetric"),
    ],
)
def test_bad_quadratics(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_study_runs_federated_averaging(problem):
    """Against the exact expectation: equal where nothing is random, else within four standard errors."""
    random = any(problem.variances) or problem.participants < len(problem.h)
    # the study's clients all have one variance
    noise = max(problem.sigma)
    problem = problem._replace(variances=(noise,) * len(problem.h))
    clients = Quadratics(np.array(problem.h, dtype=float)[:, None, None], np.array(problem.c, dtype=float)[:, None])
    setting = study.Setting("", problem.local_steps, 0.0, 0.0, participants=problem.participants, noise=float(noise))
    gamma, at = 8 * problem.smoothness, np.arange(1, 8)
    gaps, bound = study.descend(clients, np.array([float(problem.start)]), setting, gamma, at, 20_000, seed=1)
    path = run_exactly(problem, lambda t: F(2, gamma + t), 7)
    exact = np.array([float(step.gap) for step in path])
    error = gaps.std(axis=1) / np.sqrt(gaps.shape[1])
    assert (np.abs(gaps.mean(axis=1) - exact) <= (4 * error if random else 0) + 1e-12).all()
    assert bound**2 == pytest.approx(float(path[-1].squared_gradient), rel=0.05 if random else 1e-12)


def test_the_study_finds_where_the_printed_bound_fails():
    scale = replace(study.SCALES["smoke"], seeds=1)
    gap = study.one_seed(scale, 0)["gap"]
    found = study.summary(gap).set_index(["setting", "bound"])["seeds_exceeding"].unstack("bound")
    assert (found["corrected"] == 0).all()
    single = [setting.name for setting in scale.settings if setting.local_steps == 1]
    assert (found.loc[single, "printed"] == 1).all()
    assert (found.drop(index=single)["printed"] == 0).all()
    assert (gap["t"] <= scale.steps).all()
    assert set(figures({"gap": gap})) == {"gap"}

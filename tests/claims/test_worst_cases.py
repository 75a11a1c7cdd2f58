"""Worst cases against closed forms, against functions of one's own, and without a solver."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedstat.claims import (
    Client,
    Functions,
    Run,
    Setting,
    WorstFunction,
    average,
    bounded,
    fedavg,
    worst_case,
    worst_cases,
)

pytest.importorskip("PEPit")
CURVED = Functions(convexity=0.1, smoothness=1)


def distance(run):
    return run.distance


ONE_STEP = Setting(
    case="one step", method=fedavg(0.2, 1), clients=[CURVED], measure=distance, bound=lambda run: {"start": run.start}
)


def gap(run):
    return run.gap


def start(run):
    return [run.start]


def start_and_heterogeneity(run):
    return [run.start, run.heterogeneity]


class Quadratic(Client):
    """``h (w - c)^2 / 2`` in each coordinate."""

    def __init__(self, h, c, weight):
        super().__init__(weight)
        self.h, self.c = np.asarray(h, dtype=float), np.asarray(c, dtype=float)

    def at(self, w):
        return self.h * (w - self.c), float((self.h * (w - self.c) ** 2).sum() / 2)


@pytest.mark.parametrize(
    ("steps", "conditions", "value"),
    [(1, start_and_heterogeneity, 0.98**2), (2, start_and_heterogeneity, 0.9259), (2, start, 0.98**4)],
)
def test_federated_averaging_from_distance_one(steps, conditions, value):
    clients = [CURVED] * (2 if conditions is start_and_heterogeneity else 1)
    found = worst_case(fedavg(0.2, steps), clients, measure=distance, given=conditions)
    assert found.agreed
    assert found.value == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize("steps", [1, 3])
def test_gradient_descent_on_convex_functions_has_its_closed_form(steps):
    """Drori and Teboulle (2014): step 1 / L leaves L / (4 N + 2) of the squared distance."""
    found = worst_case(fedavg(0.5, steps), [Functions(smoothness=2)], measure=gap, given=start)
    assert found.agreed
    assert found.value == pytest.approx(2 / (4 * steps + 2), abs=1e-5)
    assert found.reached <= found.dual + 1e-6


def test_proximal_points_of_convex_functions_have_their_closed_form():
    """Taylor, Hendrickx and Glineur (2017): N steps of size s leave 1 / (4 s N) of the squared distance."""

    def two(clients, model):
        return clients[0].proximal(clients[0].proximal(model, 1.5), 1.5)

    found = worst_case(two, [Functions()], measure=gap, given=start)
    assert found.agreed
    assert found.value == pytest.approx(1 / (4 * 1.5 * 2), abs=1e-5)


def test_one_subgradient_of_bounded_length_moves_no_further_than_it_may():
    found = worst_case(fedavg(1.0, 1), [Functions(gradient=0.5)], measure=distance, given=start)
    assert found.agreed
    assert found.value == pytest.approx(1 + 0.25, abs=1e-5)


def test_sampling_is_enumerated():

    def one_of_two(clients, model):
        return [model - 0.2 * client.gradient(model) for client in clients]

    found = worst_case(one_of_two, [CURVED] * 2, measure=distance, given=start_and_heterogeneity)
    assert found.agreed
    assert len(found.run.models) == 2
    assert found.value >= 0.98**2 + 0.2**2 - 1e-5  # so far come two parabolas of curvature 0.1


def test_noise_is_chosen_by_the_worst_case():
    def noisy(clients, model):
        (client,) = clients
        noise = client.chosen()
        gradient = client.gradient(model)
        return [model - 0.5 * (gradient + sign * noise) for sign in (-1, 1)]

    def given_noise(run):
        one, two = run.models
        yield run.start
        yield ((one - two) ** 2).sum() if isinstance(one, np.ndarray) else (one - two) ** 2

    found = worst_case(noisy, [CURVED], measure=distance, given=given_noise)
    assert found.agreed
    assert found.value == pytest.approx(0.95**2 + 0.25, abs=1e-5)  # the halves of the noise's own distance, squared


@given(
    h=st.lists(st.tuples(st.floats(0.1, 1), st.floats(0.1, 1)), min_size=2, max_size=2),
    c=st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
    first=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
)
@settings(max_examples=200, deadline=None)
def test_quadratics_never_exceed_the_worst_case(h, c, first):
    worst = _worst_of_two_steps()
    h, c = np.array(h), np.array(c)
    other = -h[0] * c / h[1]  # so that the optimum is 0
    scale = max(1.0, float(np.sqrt(((h[0] * c) ** 2).sum())), float(np.linalg.norm(first)))
    clients = [Quadratic(h[0], c / scale, 0.5), Quadratic(h[1], other / scale, 0.5)]
    run = Run.of(fedavg(0.2, 2), clients, np.array(first) / scale, np.zeros(2))
    assert run.start <= 1 + 1e-9
    assert run.heterogeneity <= 1 + 1e-9
    assert run.distance <= worst + 1e-6


def _worst_of_two_steps(found={}):  # noqa: B006 - solved once
    if not found:
        found["dual"] = worst_case(fedavg(0.2, 2), [CURVED] * 2, measure=distance, given=start_and_heterogeneity).dual
    return found["dual"]


def test_the_rebuilt_functions_are_functions():
    """They have the values and gradients that they are told by, everywhere the curvature that their class allows."""
    found = worst_case(fedavg(0.2, 2), [CURVED] * 2, measure=distance, given=start_and_heterogeneity)
    for f in found.functions:
        for x, g, value in zip(f.points, f.gradients, f.values, strict=True):
            assert f(x) == pytest.approx(value, abs=1e-5)
            for direction in np.eye(len(x)):
                slope = (f(x + 1e-2 * direction) - f(x - 1e-2 * direction)) / 2e-2
                assert slope == pytest.approx(g @ direction, abs=2e-2)


def test_bounded_gradients_hold_between_and_beyond_the_points():
    """Of all such functions with value and slope 0 at 0 Huber's is the largest; through its points others lie above."""

    def huber(x):
        return np.where(np.abs(x) <= 0.5, x**2 / 2, 0.5 * np.abs(x) - 0.125)

    def told(*points):
        x = np.array(points)
        return WorstFunction(kind, x[:, None], np.clip(x, -0.5, 0.5)[:, None], huber(x))

    kind, grid = Functions(smoothness=1, gradient=0.5), np.linspace(-10, 10, 201)
    alone, several = (np.array([f(np.array([x])) for x in grid]) for f in (told(0.0), told(-3.0, 0.2, 2.0)))
    assert alone == pytest.approx(huber(grid), abs=1e-9)
    assert (several >= huber(grid) - 1e-6).all()
    assert several[[70, 102, 120]] == pytest.approx(huber(np.array([-3, 0.2, 2])), abs=1e-6)
    slopes = np.diff(several) / 0.1
    assert np.abs(slopes).max() <= 0.5 + 1e-4
    assert (np.diff(slopes) >= -1e-4).all()
    assert np.diff(slopes).max() <= 0.1 + 1e-4


@pytest.mark.parametrize(("steps", "value"), [(1, 0.98**2), (2, 0.98**4)])
def test_control_variates_are_part_of_a_round(steps, value):
    """SCAFFOLD with controls by option I: two local steps are worth two of gradient descent, unlike FedAvg's."""

    def scaffold(clients, model):
        controls = [client.gradient(model) for client in clients]
        mean = average(clients, controls)
        ends = []
        for client, control in zip(clients, controls, strict=True):
            end = model
            for _ in range(steps):
                end = end - 0.2 * (client.gradient(end) - control + mean)
            ends.append(end)
        return average(clients, ends)

    found = worst_case(scaffold, [CURVED] * 2, measure=distance, given=start)
    assert found.agreed
    assert found.value == pytest.approx(value, abs=5e-5)


def test_a_function_outside_its_class_is_noticed():
    found = worst_case(fedavg(0.2, 1), [CURVED], measure=distance, given=start)
    (f,) = found.functions
    assert f.violation < 1e-6
    assert type(f)(Functions(convexity=0.5, smoothness=1), f.points, f.gradients, f.values).violation > 0.01


def test_what_a_theorem_assumes_narrows_its_worst_case():
    assert bounded([ONE_STEP], of="steps").margin == pytest.approx(0.98**2, abs=1e-4)
    shorter = replace(ONE_STEP, assumed=lambda run: [run.distance - 0.75 * run.start])
    assert bounded([shorter], of="steps").margin == pytest.approx(0.75, abs=1e-4)


def test_solvers_that_disagree_leave_a_bound_undecided(monkeypatch):
    agreed = bounded([ONE_STEP], of="steps")
    assert agreed.verdict == "holds-on-cases"
    assert "dual value 0.9604; CLARABEL and SCS" in agreed.summary
    monkeypatch.setitem(worst_cases.SOLVERS, "SCS", {"max_iters": 2})
    assert bounded([ONE_STEP], of="steps").verdict == "undecided"


def test_every_summand_of_a_bound_is_left_out_in_turn():
    setting = Setting(
        case="one step",
        method=fedavg(0.2, 1),
        clients=[CURVED] * 2,
        measure=distance,
        bound=lambda run: {"start": run.start, "heterogeneity": run.heterogeneity},
    )
    made = bounded([setting], of="rounds").made
    assert made["without the start"]
    assert made["without the heterogeneity"] is False  # there is no drift


@pytest.mark.parametrize("kind", [Functions(convexity=0.1, gradient=1), Functions(convexity=2, smoothness=1)])
def test_a_class_without_functions_is_refused(kind):
    with pytest.raises(ValueError, match="convexity"):
        worst_case(fedavg(0.2, 1), [kind], measure=distance, given=start)

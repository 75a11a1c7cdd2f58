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
    square,
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


NOT_CONVEX = [CURVED, Functions(convexity=-1, smoothness=1)]


def slope(run):
    return square(average(run.clients, run.visited))


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


NO_STEP = Setting(
    case="no step",
    method=lambda clients, model: model,
    clients=[Functions()],
    measure=gap,
    bound=lambda run: {"start": run.start},
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clients": [Functions(gradient=1)]}, "clients of a setting must have no bound on gradients"),
        (
            {"bound": lambda run: {"start": 10 * run.start, "rest": 0.01}},
            '"rest" of the bound must grow .* number 0.01',
        ),
        ({"bound": lambda run: 10 * run.start}, "bound must return its summands by name, a dict, got"),
        ({"bound": lambda run: {"all": 10 * run.start + 0.01}}, '"all" of the bound must grow'),
        ({"bound": lambda run: {"all": run.largest([run.start, 0.01])}}, "run.largest must grow"),
        ({"measure": lambda run: run.gap - 0.01}, "measure must grow"),
        ({"assumed": lambda run: [run.start - 1]}, "assumed must grow"),
        ({"bound": lambda run: {}}, "bound, assumed or given must be a quantity of the run, .* got 0"),
    ],
)
def test_a_bound_is_judged_by_its_ratio_only_if_all_grows_with_the_functions(changes, words):
    """The gap of |x| at 0.02 exceeds 10 times the squared distance and 0.01, which no ratio at one scale shows."""
    with pytest.raises(ValueError, match=words):
        bounded([replace(NO_STEP, **changes)], of="settings")


@pytest.mark.parametrize(("share", "verdict"), [(1, "holds-on-cases"), (0.5, "refuted")])
def test_a_bound_on_gradients_is_a_quantity_of_the_run(share, verdict):
    """Subgradient steps of size s leave on average at most |x_0 - x*|^2 / (2 s N) + s G^2 / 2: it is reached."""

    def mean_of_two(clients, model):
        second = model - 0.5 * clients[0].gradient(model)
        clients[0].gradient(second)  # counts among the gradients of the run
        return 0.5 * (model + second)

    def bound(run):
        return {"start": run.start / 2, "gradients": share * 0.25 * run.largest_gradient}

    setting = replace(NO_STEP, method=mean_of_two, bound=bound)
    found, worst = bounded([setting], of="settings"), setting.worst()
    assert found.verdict == verdict
    assert worst.agreed
    assert worst.reached == pytest.approx(found.margin, abs=1e-4)
    assert (worst.reached > 1 + 1e-4) == (verdict == "refuted")
    assert sum(bound(worst.run).values()) <= 1 + 1e-5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"given": lambda run: []}, "infinite, .* name in `given` what is at most one"),
        ({"clients": [Functions()] * 2}, "infinite"),
        ({"method": fedavg(0.2, 2), "given": lambda run: [run.start]}, "CLARABEL finds no worst case: it is infinite"),
        ({"clients": []}, r"clients must be Functions, one for each client, got \[\]"),
        ({"clients": ["convex", "convex"]}, "clients must be Functions"),
        ({"weights": [1, 1]}, r"weights must be positive with sum one, one for each client, got \[1, 1\]"),
        ({"weights": [2, -1]}, "weights must be positive"),
        ({"weights": [1, 0]}, "weights must be positive"),
        ({"weights": [1]}, "one for each client"),
        ({"solvers": ["MOSEK"]}, r"solvers must be one or more of CLARABEL, SCS, got \['MOSEK'\]"),
        ({"solvers": []}, "solvers must be"),
        ({"measure": lambda run: 0}, r"measure must be a quantity of the run, such as run\.start, got 0"),
        ({"clients": [Functions(0, 0)]}, r"smoothness must be a number in \(0, inf\], got 0"),
    ],
)
def test_a_worst_case_that_cannot_be_asked_for_is_refused(changes, words):
    asked = {"method": fedavg(0.2, 1), "clients": [CURVED] * 2, "measure": distance, "given": start_and_heterogeneity}
    with pytest.raises(ValueError, match=words):
        worst_case(**(asked | changes))


def test_a_solver_that_gives_up_leaves_a_bound_undecided():
    """The worst case of a step of size 1 / L is L / 6, whatever L; this one is too large for the solvers."""
    smooth = Functions(smoothness=1e4)
    setting = replace(ONE_STEP, method=fedavg(1e-4, 1), clients=[smooth], measure=lambda run: run.gap,
                      bound=lambda run: {"start": 1e4 / 5 * run.start})  # fmt: skip
    assert bounded([setting], of="steps").verdict == "undecided"


def test_a_setting_takes_weights_as_an_array():
    setting = replace(ONE_STEP, clients=[CURVED] * 2, weights=np.array([0.25, 0.75]))
    assert bounded([setting], of="steps").margin == pytest.approx(0.98**2, abs=1e-4)
    with pytest.raises(ValueError, match="settings must not be empty"):
        bounded([], of="steps")


@pytest.mark.parametrize(
    "quantity",
    [
        lambda run: 2 * (run.value(run.first) - run.value(run.optimum)),
        lambda run: run.clients[0].value(run.clients[0].minimiser()),
        lambda run: square(run.models[0] - run.clients[0].minimiser()),
        lambda run: run.start,
        lambda run: run.distance,
        lambda run: run.gap,
        lambda run: run.heterogeneity,
        lambda run: run.largest([run.start]),
    ],
)
def test_the_optimum_of_functions_that_need_not_be_convex_is_refused(quantity):
    asked = {"method": fedavg(1.0, 1), "clients": NOT_CONVEX, "measure": slope, "given": lambda run: [quantity(run)]}
    for changes, what in (
        ({}, "(bound, assumed or given|run.largest)"),
        ({"measure": quantity}, "(measure|run.largest)"),
    ):
        with pytest.raises(ValueError, match=rf"{what} must not depend on the optimum .* got Functions\(convexity=-1"):
            worst_case(**(asked | changes))


def test_what_a_step_gains_on_functions_that_need_not_be_convex():
    """A step of size 1 / L lowers F by |grad F|^2 / (2 L); the value at the optimum cancels."""

    def gained(run):
        return [run.value(run.first) - run.value(run.optimum) - run.gap]

    found = worst_case(fedavg(1.0, 1), NOT_CONVEX, measure=slope, given=gained)
    assert found.agreed
    assert found.value == pytest.approx(2, abs=1e-4)


@pytest.mark.parametrize("kind", [Functions(convexity=0.1, gradient=1), Functions(convexity=2, smoothness=1)])
def test_a_class_without_functions_is_refused(kind):
    with pytest.raises(ValueError, match="convexity"):
        worst_case(fedavg(0.2, 1), [kind], measure=distance, given=start)

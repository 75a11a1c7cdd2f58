"""The plane of trajectories, virtual clients, and what the study of the landscape says of planted tables."""

from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
import torch

from simulations.filterdecomp.cells import network, population
from simulations.landscape import study as landscape
from simulations.landscape.numbers import findings, numbers
from simulations.landscape.plane import filter_norms, flat, grid, plane_of, shaped

RNG = np.random.default_rng(0)
WEIGHTS = {
    "conv.bias": RNG.normal(size=3),
    "conv.weight": RNG.normal(size=(3, 2, 3, 3)),
    "head.weight": RNG.normal(size=(2, 5)),
}
SMOKE = landscape.SCALES["smoke"]


def test_filter_norms_equal_a_loop_over_filters():
    norms = shaped(filter_norms(WEIGHTS), WEIGHTS)
    for out in range(3):
        own = np.append(WEIGHTS["conv.weight"][out].ravel(), WEIGHTS["conv.bias"][out])
        np.testing.assert_allclose(norms["conv.weight"][out], np.linalg.norm(own), rtol=1e-6)
        np.testing.assert_allclose(norms["conv.bias"][out], np.linalg.norm(own), rtol=1e-6)
    np.testing.assert_allclose(norms["head.weight"][:, 0], np.linalg.norm(WEIGHTS["head.weight"], axis=1), rtol=1e-6)


def test_a_zero_filter_has_no_scale():
    with pytest.raises(ValueError, match=r"no filter that is zero, got one in conv"):
        filter_norms({**WEIGHTS, "conv.bias": np.zeros(3), "conv.weight": np.zeros((3, 2, 3, 3))})


def planted(scale: float = 1.0):
    """Networks on a plane through a start, whose filters are `scale` times as large."""
    start = {name: scale * value for name, value in WEIGHTS.items()}
    norms = filter_norms(start)
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(len(norms), 2)))[0].T
    places = np.random.default_rng(2).normal(size=(6, 2)) * (3.0, 1.0)
    return start, norms, flat(start) + norms * (places @ directions), places


def test_the_plane_gives_back_planted_networks_and_their_distances():
    start, norms, networks, places = planted()
    plane = plane_of(flat(start), norms, networks)
    assert plane.held == pytest.approx(1.0, abs=1e-12)
    found = plane.coordinates(networks)
    np.testing.assert_allclose(plane.weights(found), networks, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(places, axis=1))
    assert (found[-1] > 0).all()  # the last one lies to the upper right


def test_the_plane_knows_what_it_leaves_out_and_does_not_see_the_size_of_filters():
    start, norms, networks, _ = planted()
    away = np.random.default_rng(3).normal(size=networks.shape) * norms
    plane = plane_of(flat(start), norms, networks + away)
    z = (networks + away - flat(start)) / norms
    values = np.linalg.eigvalsh(z @ z.T)
    assert plane.held == pytest.approx(values[-2:].sum() / values.sum())
    large = planted(scale=10.0)
    np.testing.assert_allclose(
        plane_of(flat(large[0]), large[1], large[2]).coordinates(large[2]),
        plane_of(flat(start), norms, networks).coordinates(networks),
    )


def test_a_grid_has_margins_on_all_sides():
    x, y = grid([np.array([[0.0, 0.0]]), np.array([[2.0, 1.0]])], 5, margin=0.5)
    np.testing.assert_allclose(x, [-1, 0, 1, 2, 3])
    np.testing.assert_allclose(y, [-0.5, 0, 0.5, 1, 1.5])


@pytest.fixture(scope="module")
def first_rounds():
    clients = population(SMOKE.cell, SMOKE.size, 5)
    found = {}
    for arm in landscape.METHODS:
        (round,) = landscape.rounds(SMOKE, arm, 0.05, clients, 5, 1)
        ((key, state),) = round.states.items()
        found[arm] = round.updates[key], state
    return clients, found


def test_both_methods_start_from_equal_filters(first_rounds):
    _, found = first_rounds
    starts = [
        flat(landscape.composed(u.network, {n: leaf[0] for n, leaf in u.start.items()})) for u, _ in found.values()
    ]
    np.testing.assert_array_equal(*starts)


def test_all_pairs_of_clients_average_to_what_the_server_makes(first_rounds):
    _, found = first_rounds
    update, state = found["FilterDecomp"]
    local, virtual = landscape.returned(update), landscape.virtual(update)
    assert (len(local), len(virtual)) == (4, 12)
    weights = update.weight.numpy()
    pairs = [(k, j) for k in range(4) for j in range(4) if k != j]
    mean = sum(weights[k] ** 2 * flat(w) for k, w in enumerate(local))
    mean = mean + sum(weights[k] * weights[j] * flat(w) for (k, j), w in zip(pairs, virtual, strict=True))
    np.testing.assert_allclose(mean, flat(landscape.composed(update.network, state.server)), atol=2e-6)


def test_the_loss_is_that_of_the_engine(first_rounds):
    clients, found = first_rounds
    update, state = found["FedAvg"]
    loss = landscape.Losses(SMOKE, clients)
    ours = loss(landscape.composed(update.network, state.server))
    weights = torch.from_numpy(clients.train.n / clients.train.n.sum())
    module = network(SMOKE.cell, SMOKE.size)()
    module.load_state_dict(dict(state.server))
    with torch.no_grad():
        each = [
            float(torch.nn.functional.cross_entropy(
                module(torch.from_numpy(x)), torch.from_numpy(y).long()
            ))
            for x, y in map(clients.train.client, range(len(clients)))
        ]  # fmt: skip
    assert ours == pytest.approx(float(weights @ torch.tensor(each, dtype=torch.float64)), rel=1e-5)


def tables(shift: float, ratio: float):
    """Tables in which our loss is `shift` above FedAvg's and virtual clients lie `ratio` times as far away."""
    rng, curves, close, plane = np.random.default_rng(0), [], [], []
    for seed in range(6):
        base = rng.normal(1.0, 0.1)
        for arm, more in (("FedAvg", 0.0), ("FilterDecomp", shift)):
            curves += [{"arm": arm, "round": r, "loss": base + more + rng.normal(0, 0.01), "seed": seed}
                       for r in range(41)]  # fmt: skip
            plane.append(
                {"arm": arm, "held": 0.8, "end": base, "projected": base + rng.normal(0.2, 0.01), "seed": seed}
            )
            for kind, factor in (("local", 1.0), ("virtual", ratio)):
                far = factor * rng.normal(1.0, 0.01)
                row = {"spread": far, "farthest": 2 * far, "excess": 0.1 * far, "worst": 0.2 * far}
                close.append({"arm": arm, "round": 4, "kind": kind, "networks": 4, **row, "seed": seed})
    tuning = pd.DataFrame([{"arm": a, "lr": 0.1, "chosen": True, "end": False} for a in landscape.METHODS])
    return {"curves": pd.DataFrame(curves), "close": pd.DataFrame(close), "plane": pd.DataFrame(plane),
            "tuning": tuning}  # fmt: skip


@pytest.mark.parametrize(("shift", "ratio", "words"), [(0.3, 1.5, "more"), (-0.3, 0.6, "less")])
def test_findings_turn_with_what_was_planted(shift, ratio, words):
    found = findings(tables(shift, ratio))
    assert {found[name].sign for name in ("early", "late", "spread", "farthest", "excess", "worst")} == {words}
    assert found["spread"].low < ratio < found["spread"].high
    assert found["projected FedAvg"].sign == "more"


def test_nothing_planted_is_not_resolved():
    found = findings(tables(0.0, 1.0))
    assert {found[name].sign for name in ("early", "late", "spread", "excess")} == {"unclear"}


def test_numbers_are_fit_for_the_chapter():
    told = numbers(tables(0.1, 1.2), asdict(SMOKE))
    assert told["virtual"] == "12"
    assert [row["kind"] for row in told["rows"]] == ["local", "virtual"] * 2


def test_the_paper_scale_builds():
    paper = replace(landscape.SCALES["paper"], dataset="digits", images=20)
    clients = population(paper.cell, paper.size, 0)
    loss = landscape.Losses(paper, clients)
    assert type(loss.module).__name__ == "AlexNet"
    weights = {name: value.detach().numpy() for name, value in loss.module.named_parameters()}
    assert np.isfinite(loss(weights))

"""FedSplit: limits, gradient descent, masks of clients, rows of their own, exchangeable units."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import grad

import fedstat as fs
from fedstat.federated.client.network import build
from fedstat.federated.replicate import participants
from fedstat.methods import FedAvg, FedSplit, Local
from fedstat.methods.units import share_units
from fedstat.testing.methods import UNITS, check_method
from tests.support import mixture
from tests.support.clients import all_samples, regression
from tests.support.laws import ALL_BUT_LIMITS
from tests.support.networks import WIDTHS
from tests.support.runs import STEP, equal, final, run

ALL = {"hidden": np.ones(UNITS, dtype=bool), "head": np.ones(2, dtype=bool)}
NONE = {layer: ~mask for layer, mask in ALL.items()}
ALTERNATING = {"hidden": np.arange(UNITS) % 2 == 0}


def test_shared_units_range_from_fedavg_to_local_in_the_laws(examples):
    limits = {"all_shared": FedSplit(shared_units=ALL), "all_personal": FedSplit(shared_units=NONE)}
    check_method(FedSplit(shared_units=ALTERNATING), **limits, except_for=ALL_BUT_LIMITS, examples=examples)


@pytest.mark.slow
def test_fedsplit_in_the_setting_of_the_theory_obeys_the_laws():
    # independent personal rows belong to positions: permuted data or clones do not start alike
    check_method(FedSplit(shared_units=ALTERNATING, independent=True), except_for=["permutation", "clones"], examples=5)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "personal"])
def test_fedsplit_with_all_units_alike_is_uniform_fedavg_or_local(shared):
    other = FedAvg(weighting="uniform") if shared else Local()

    def fedsplit(units):
        shared_units = {layer: np.full(n, shared) for layer, n in units.items()}
        return FedSplit(shared_units=shared_units, weighting="uniform")

    equal(run(fedsplit(WIDTHS), rounds=4), run(other, rounds=4), 0)
    counts = {"personal": 0, "shared": 16} if shared else {"personal": 16, "shared": 0}
    options = {"rounds": 4, "model": fs.models.split_relu(3, **counts), "clients": regression()}
    equal(run(fedsplit({"hidden": 16}), **options), run(other, **options), 0)


HALVES = {"hidden": np.arange(20) >= 4}
SPLIT_RELU = {"model": fs.models.split_relu(3, personal=4, shared=16), "clients": regression(), "participation": 1.0}


def risk(weight, x, y):
    """Half the mean squared error of the split network with four personal units and sixteen shared ones."""
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64)
    personal = torch.relu(x @ weight[:4].T) @ sign.repeat(2) / np.sqrt(4)
    shared = torch.relu(x @ weight[4:].T) @ sign.repeat(8) / np.sqrt(16)
    return (personal + shared - y).square().sum() / (2 * len(y))


def weights(result):
    """All clients' assembled weights, (C, 20, 3)."""
    return final(result)["hidden.weight"]


def test_one_full_step_of_fedsplit_per_round_is_centralised_gradient_descent():
    eta_l, eta_g = 0.2, 0.7
    method = FedSplit(shared_units=HALVES, independent=True, weighting="uniform", server=fs.server.SGD(lr=eta_g))
    still = weights(run(method, 1, training=replace(STEP, lr=0.0), **SPLIT_RELU))
    personal, shared = still[:, :4].clone(), still[0, 4:].clone()
    assert personal.std(0).min() > 0.01
    clients = all_samples(SPLIT_RELU["clients"])

    def objective(personal, shared):
        every = [risk(torch.cat([own, shared]), x, y) for own, (x, y) in zip(personal, clients, strict=True)]
        return sum(every) / len(clients)

    for rounds in (1, 2, 3):
        up, us = grad(objective, argnums=(0, 1))(personal, shared)
        personal, shared = personal - len(clients) * eta_l * up, shared - eta_g * eta_l * us
        got = weights(run(method, rounds, training=replace(STEP, lr=eta_l), **SPLIT_RELU))
        torch.testing.assert_close(got[:, :4], personal, rtol=0, atol=1e-10)
        torch.testing.assert_close(got[:, 4:], shared.expand_as(got[:, 4:]), rtol=0, atol=1e-10)


def test_fedsplit_with_one_client_is_gradient_descent():
    options = SPLIT_RELU | {"clients": regression(1)}
    method = FedSplit(shared_units=HALVES, weighting="uniform")
    (x, y), w = (
        all_samples(options["clients"])[0],
        weights(run(method, 1, training=replace(STEP, lr=0.0), **options))[0],
    )
    for rounds in (1, 2, 3):
        for _ in range(5):
            w = w - 0.2 * grad(risk)(w, x, y)
        got = weights(run(method, rounds, training=replace(STEP, lr=0.2, local_epochs=5), **options))
        torch.testing.assert_close(got[0], w, rtol=0, atol=1e-10)


def test_a_mask_per_client_equal_for_all_is_the_common_mask():
    mask = np.arange(10) % 2 == 0
    common = mixture.run(FedSplit(shared_units={"hidden": mask}))
    per_client = mixture.run(FedSplit(shared_units={"hidden": np.tile(mask, (6, 1))}))
    np.testing.assert_allclose(mixture.measured(per_client), mixture.measured(common), atol=1e-12)


def test_a_mask_per_client_averages_over_those_who_share_and_leaves_the_others_alone():
    sharing = np.zeros((6, 10), dtype=bool)
    sharing[:2, 0] = True  # unit 0 is shared by clients 0 and 1 only; all clients hold equally many samples
    local = Local()
    alone = fs.federate(
        {"it": local}, fs.models.mlp(8, 10, 1), mixture.clients(), mixture.TRAINING, rounds=1, dtype="float64"
    )
    split = fs.federate(
        {"it": FedSplit(shared_units={"hidden": sharing})},
        fs.models.mlp(8, 10, 1),
        mixture.clients(),
        mixture.TRAINING,
        rounds=1,
        dtype="float64",
    )
    found = FedSplit(shared_units={}).models(split.states["it", 0], torch.arange(6))
    models = found["personal"].params["hidden.weight"]
    trained = alone.states["it", 0].clients["hidden.weight"]
    for k in (0, 1):
        torch.testing.assert_close(models[k, 0], trained[:2, 0].mean(0), rtol=0, atol=1e-12)
    torch.testing.assert_close(models[2:, 0], trained[2:, 0], rtol=0, atol=0)
    torch.testing.assert_close(models[:, 1:], trained[:, 1:], rtol=0, atol=0)


def test_masks_live_where_the_network_lives():
    network = build(fs.models.mlp(8, 10, 1), np.random.default_rng(0))
    network.module.to("meta")
    for mask in (share_units(network, {"hidden": np.ones(10, dtype=bool)}, 3), Local().shared(network, None)):
        assert {leaf.device.type for leaf in mask.values()} == {"meta"}


def test_absentees_keep_their_personal_units():
    method = FedSplit(shared_units={"hidden": np.zeros(10, dtype=bool)})
    before, after = mixture.run(method, rounds=3), mixture.run(method, rounds=4)
    present = set(participants(0, 3, 6, 0.5).tolist())
    for k in range(6):
        same = torch.equal(*(r.states["it", 0].clients["hidden.weight"][k] for r in (before, after)))
        assert same == (k not in present)


def test_independent_personal_rows_differ_between_clients_and_shared_rows_do_not():
    mask = np.arange(10) < 4
    method = FedSplit(shared_units={"hidden": mask}, independent=True)
    start = fs.federate(
        {"it": method}, fs.models.mlp(8, 10, 1), mixture.clients(), fs.Training(lr=0.0), rounds=1, dtype="float64"
    )
    weights = method.models(start.states["it", 0], torch.arange(6))["personal"].params["hidden.weight"]
    assert torch.equal(weights[0, :4], weights[1, :4])
    assert not torch.isclose(weights[0, 4:], weights[1, 4:]).any()


def test_hidden_units_are_exchangeable_pathwise():
    """Permute initial weights and shared units together: the whole trajectory is permuted, so shared units that are
    chosen without looking at the weights have one law whichever units they are."""
    clients, order = mixture.clients(), np.random.default_rng(0).permutation(10)
    module = fs.models.mlp(8, 10, 1)()
    moved = fs.models.mlp(8, 10, 1)()
    with torch.no_grad():
        moved.hidden.weight.copy_(module.hidden.weight[order])
        moved.hidden.bias.copy_(module.hidden.bias[order])
        moved.head.weight.copy_(module.head.weight[:, order])
        moved.head.bias.copy_(module.head.bias)
    mask = ~clients.truth.personal_units
    results = [
        fs.federate(
            {"it": FedSplit(shared_units={"hidden": m})},
            net,
            clients,
            mixture.TRAINING,
            rounds=6,
            participation=0.5,
            dtype="float64",
        )
        for net, m in ((module, mask), (moved, mask[order]))
    ]
    np.testing.assert_allclose(*map(mixture.measured, results), atol=1e-10)
    for group in ("server", "clients"):
        here, there = (getattr(r.states["it", 0], group)["hidden.weight"] for r in results)
        torch.testing.assert_close(here[..., order, :], there, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: mixture.run(FedSplit(shared_units={"hidden": np.ones(3, dtype=bool)})),
            r"or \(6, 10\), got bool \(3,\)",
        ),
        (lambda: mixture.run(FedSplit(shared_units={"hiden": np.ones(10, dtype=bool)})), "no layer 'hiden' with units"),
        (lambda: mixture.run(FedSplit(shared_units=[True] * 10)), "shared_units must map layer names to masks"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rows_of_their_own_need_a_function_that_builds_the_network():
    method, module = FedSplit(shared_units=ALTERNATING, independent=True), fs.models.mlp(8, UNITS, 1)()
    with pytest.raises(ValueError, match="need a function that builds the network"):
        fs.federate(method, module, mixture.clients(), mixture.TRAINING, rounds=1)

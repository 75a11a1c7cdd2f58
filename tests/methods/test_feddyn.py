"""FedDyn: plain loops, closed forms on quadratics, where it ends, a limit, bytes, new clients."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import fedstat as fs
from fedstat.data.quadratics import random_quadratics
from fedstat.federated.slots import slot, without_slots
from fedstat.methods import FedAvg, FedDyn
from fedstat.testing import check_method
from tests.methods.test_scaffold import VARYING, gradients, quadratic_clients
from tests.support.clients import image_clients, samples
from tests.support.copies import PLAIN, assert_whole_models_travel, orders, start_of
from tests.support.networks import leaves_of
from tests.support.runs import KEY, assert_close, offered, run, same, traffic


def test_the_laws_hold(examples):
    check_method(FedDyn(alpha=0.3, weighting="samples"), examples=examples)


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_four_rounds_are_those_of_a_plain_loop(weighting, executor):
    clients, rounds, server_lr, alpha = image_clients(5), 4, 0.7, 0.3
    method = FedDyn(alpha=alpha, weighting=weighting, server=fs.server.SGD(lr=server_lr))
    result = run(method, rounds, clients=clients, training=VARYING, executor=executor)
    size = clients.train.n if weighting == "samples" else np.ones(5)
    x = start_of(result)
    h = {name: torch.zeros_like(leaf) for name, leaf in x.named_parameters()}
    own = [dict(h) for _ in range(5)]
    came = traffic(result, "bytes_up").notna()
    assert came.any().all()
    assert not came.all(axis=1).any()
    for t in range(rounds):
        present, ends = [k for k in came.columns if came.loc[t + 1, k]], []
        before = leaves_of(x)
        for k in present:
            inputs, targets = samples(clients, k)
            y = copy.deepcopy(x).train()
            for step, b in enumerate(orders(clients, k, t, fs.Training(**vars_of(VARYING, k)))):
                rate = VARYING.lr[k] * 0.8**t / (1 + 0.3 * step)
                grads = gradients(y, inputs[b], targets[b])
                with torch.no_grad():
                    for (name, leaf), g in zip(y.named_parameters(), grads, strict=True):
                        leaf -= rate * (g + 0.01 * leaf - own[k][name] + alpha * (leaf - before[name]))
            ends.append(leaves_of(y))
            own[k] = {name: g - alpha * (ends[-1][name] - before[name]) for name, g in own[k].items()}
        h = {name: sum(s * one[name] for s, one in zip(size, own, strict=True)) / size.sum() for name in h}
        p = size[present] / size[present].sum()
        mean = {name: sum(w * end[name] for w, end in zip(p, ends, strict=True)) for name in before}
        to = {name: leaf - h[name] / alpha if name in h else leaf for name, leaf in mean.items()}
        lr = {name: server_lr if name in h else 1 for name in before}
        x.load_state_dict({name: before[name] + lr[name] * (to[name] - before[name]) for name in before}, strict=False)
    state = result.states[KEY]
    assert_close(without_slots(state.server), leaves_of(x))
    assert_close(slot(state.memory, "h"), h)
    for k in range(5):
        assert_close(slot({n: leaf[k] for n, leaf in state.clients.items()}, "g"), own[k])


def vars_of(training, k):
    """What decides the batches of a client, whose number of epochs is its own."""
    return {"lr": 1.0, "batch_size": training.batch_size, "local_epochs": training.local_epochs[k]}


#: Four clients with three samples each; one to four full steps.
QUADRATICS = random_quadratics(clients=4, dimension=3, smoothness=1.0, convexity=0.5, heterogeneity=2.0, seed=0)
EPOCHS, LR = (1, 2, 3, 4), 0.2
OF_QUADRATICS = {
    "clients": quadratic_clients(QUADRATICS),
    "model": lambda: nn.Linear(3, 1, bias=False),
    "training": fs.Training(lr=LR, batch_size=3, local_epochs=EPOCHS),
}


def test_on_quadratics_rounds_have_a_closed_form():
    """Steps lead to the minimum of the tilted quadratic by powers of a matrix; half of the clients take part."""
    alpha, unit = 0.5, np.eye(3)
    w, h, own = None, np.zeros(3), np.zeros((4, 3))
    for now in fs.rounds(FedDyn(alpha=alpha), **OF_QUADRATICS, participation=0.5, dtype="float64"):
        (update,), (state,) = now.updates.values(), now.states.values()
        w = update.start["weight"][0, 0].numpy() if w is None else w
        ends = []
        for k in update.ids.tolist():
            curved = QUADRATICS.hessians[k] + alpha * unit
            tilted = np.linalg.solve(curved, QUADRATICS.hessians[k] @ QUADRATICS.centres[k] + own[k] + alpha * w)
            ends.append(tilted + np.linalg.matrix_power(unit - LR * curved, EPOCHS[k]) @ (w - tilted))
            own[k] -= alpha * (ends[-1] - w)
        h = own.mean(0)
        w = np.mean(ends, 0) - h / alpha
        np.testing.assert_allclose(state.server["weight"][0].numpy(), w, atol=1e-10)
        if now.number == 6:
            break


@pytest.mark.parametrize(
    ("participation", "rounds"), [(1.0, 40), pytest.param(0.5, 140, marks=pytest.mark.slow)], ids=["all", "half"]
)
def test_it_ends_at_the_optimum_where_fedavg_ends_elsewhere(participation, rounds):
    """There every client remembers its own gradient, and these cancel."""
    options = OF_QUADRATICS | {"training": fs.Training(lr=0.5, batch_size=3, local_epochs=EPOCHS), "evaluate_at": ()}
    state = run(FedDyn(alpha=1.0), rounds, **options, participation=participation).states[KEY]
    np.testing.assert_allclose(state.server["weight"][0].numpy(), QUADRATICS.optimum, atol=1e-8)
    slopes = np.einsum("kij,kj->ki", QUADRATICS.hessians, QUADRATICS.optimum - QUADRATICS.centres)
    np.testing.assert_allclose(state.clients["g/weight"][:, 0].numpy(), slopes, atol=1e-8)
    other = run(FedAvg(), 30, **options, participation=1.0).states[KEY].server["weight"][0].numpy()
    assert np.linalg.norm(other - QUADRATICS.optimum) > 0.1


def test_without_a_pull_the_first_round_is_fedavgs_with_a_longer_step():
    """All that moved is added once more, as a share of all clients; here half of the clients take part."""
    longer = FedAvg(weighting="uniform", server=fs.server.SGD(lr=1.5))
    ours, theirs = run(FedDyn(alpha=1e-12), 1), run(longer, 1)
    same(ours, theirs, 1e-9)
    assert_close(without_slots(ours.states[KEY].server), theirs.states[KEY].server, 1e-9)


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(FedDyn())


def test_new_clients_get_the_servers_model():
    result = run(FedDyn(), 2, training=PLAIN)
    state = result.states[KEY]
    models = offered(FedDyn(), state, result.federations[KEY])
    assert list(models) == ["global"]
    for k in range(6):
        assert_close({n: leaf[k] for n, leaf in models["global"].params.items()}, without_slots(state.server), 0)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="alpha must be a number in"):
        FedDyn(alpha=0)
    with pytest.raises(ValueError, match="FedDyn aggregates in a way of its own"):
        run(FedDyn(aggregator=fs.aggregators.Median()))

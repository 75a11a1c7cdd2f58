"""SCAFFOLD: plain loops, limits, quadratics whose optimum FedAvg misses, bytes, new clients."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.data.quadratics import random_quadratics
from fedstat.federated.slots import slot, without_slots
from fedstat.methods import SCAFFOLD, FedAvg
from fedstat.testing import check_method
from tests.support.clients import all_samples, image_clients, samples
from tests.support.copies import PLAIN, orders, start_of
from tests.support.networks import conv_net, leaves_of, plain_net
from tests.support.runs import KEY, STEP, assert_close, offered, run, same, sent, traffic

#: Five clients whose numbers of steps and whose rates differ, from client to client and from step to step.
VARYING = fs.Training(
    lr=(0.05, 0.02, 0.04, 0.03, 0.06),
    local_epochs=(2, 1, 3, 2, 1),
    batch_size=5,
    weight_decay=0.01,
    lr_decay=0.8,
    schedule=lambda round, step: 1 / (1 + 0.3 * step),
)


def gradients(module, x, y):
    return torch.autograd.grad(F.cross_entropy(module(x), y), list(module.parameters()))


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
@pytest.mark.parametrize("weighting", ["uniform", "samples"])
@pytest.mark.parametrize("option", ["I", "II"])
def test_four_rounds_are_those_of_a_plain_loop(option, weighting, executor):
    clients, rounds, server_lr = image_clients(5), 4, 0.7
    method = SCAFFOLD(option=option, weighting=weighting, server=fs.server.SGD(lr=server_lr))
    result = run(method, rounds, clients=clients, training=VARYING, executor=executor)
    size = clients.train.n if weighting == "samples" else np.ones(5)
    x = start_of(result)
    names = [name for name, _ in x.named_parameters()]
    c = {name: torch.zeros_like(leaf) for name, leaf in x.named_parameters()}
    own = [dict(c) for _ in range(5)]
    came = traffic(result, "bytes_up").notna()
    assert came.any().all()
    assert not came.all(axis=1).any()
    for t in range(rounds):
        present = [k for k in came.columns if came.loc[t + 1, k]]
        ends, changes = [], []
        for k in present:
            inputs, targets = samples(clients, k)
            y, total = copy.deepcopy(x).train(), 0.0
            own_orders = orders(clients, k, t, replace(VARYING, local_epochs=VARYING.local_epochs[k]))
            for step, b in enumerate(own_orders):
                rate = VARYING.lr[k] * 0.8**t / (1 + 0.3 * step)
                grads = gradients(y, inputs[b], targets[b])
                with torch.no_grad():
                    for (name, leaf), g in zip(y.named_parameters(), grads, strict=True):
                        leaf -= rate * (g + 0.01 * leaf - own[k][name] + c[name])
                total += rate
            here, there = dict(x.named_parameters()), dict(y.named_parameters())
            if option == "I":
                new = dict(zip(names, gradients(copy.deepcopy(x).train(), inputs, targets), strict=True))
            else:
                new = {n: (own[k][n] - c[n] + (here[n] - there[n]) / total).detach() for n in names}
            ends.append(leaves_of(y))
            changes.append({n: new[n] - own[k][n] for n in names})
            own[k] = new
        p = size[present] / size[present].sum()
        before = leaves_of(x)
        mean = {n: sum(w * end[n] for w, end in zip(p, ends, strict=True)) for n in before}
        after = {n: before[n] + (server_lr if n in names else 1) * (mean[n] - before[n]) for n in before}
        x.load_state_dict(after, strict=False)
        for k, change in zip(present, changes, strict=True):
            c = {n: c[n] + size[k] / size.sum() * change[n] for n in names}
    state = result.states[KEY]
    assert_close(without_slots(state.server), leaves_of(x))
    assert_close(slot(state.server, "c"), c)
    for k in range(5):
        assert_close(slot({n: leaf[k] for n, leaf in state.clients.items()}, "c_i"), own[k])
    assert_close(c, {n: sum(s * one[n] for s, one in zip(size, own, strict=True)) / size.sum() for n in names})


@pytest.mark.slow
@pytest.mark.parametrize("method", [SCAFFOLD(option="I"), SCAFFOLD(weighting="samples")], ids=["I", "samples"])
def test_its_options_obey_the_laws(method, examples):
    check_method(method, examples=examples)


@pytest.mark.parametrize("option", ["I", "II"])
def test_the_first_round_is_that_of_uniform_fedavg(option):
    both = [run(it, 1, training=PLAIN) for it in (SCAFFOLD(option=option), FedAvg(weighting="uniform"))]
    same(*both, 0)
    assert_close(without_slots(both[0].states[KEY].server), both[1].states[KEY].server, 0)


@pytest.mark.parametrize("option", ["I", "II"])
def test_with_one_full_step_of_everybody_the_server_descends_the_mean_loss(option):
    clients, rounds = image_clients(), 5
    result = run(SCAFFOLD(option=option), rounds, model=plain_net, training=STEP, participation=1.0)
    w = start_of(result, plain_net)
    for _ in range(rounds):
        sum(F.cross_entropy(w(x), y) / len(clients) for x, y in all_samples(clients)).backward()
        with torch.no_grad():
            for leaf in w.parameters():
                leaf -= STEP.lr * leaf.grad
        w.zero_grad()
    assert_close(without_slots(result.states[KEY].server), leaves_of(w))


def quadratic_clients(quadratics):
    """Clients whose mean squared losses are given quadratics: as many samples as there are dimensions."""
    count, d = quadratics.centres.shape
    x = np.sqrt(d) * np.linalg.cholesky(quadratics.hessians).swapaxes(1, 2)
    y = np.einsum("kij,kj->ki", x, quadratics.centres)
    return fs.data.from_arrays(x.reshape(-1, d), y.ravel(), np.repeat(np.arange(count), d), test=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "participation"),
    [
        (SCAFFOLD(), 0.5),
        pytest.param(SCAFFOLD(), 1.0, marks=pytest.mark.slow),
        pytest.param(SCAFFOLD(option="I"), 0.5, marks=pytest.mark.slow),
    ],
)
def test_heterogeneous_quadratics_lead_it_to_the_optimum_and_fedavg_elsewhere(method, participation):
    """Clients take one to four steps each; FedAvg stops where its clients' moves cancel, which is another point."""
    quadratics = random_quadratics(clients=4, dimension=3, smoothness=1.0, convexity=0.5, heterogeneity=2.0, seed=0)
    lr, epochs = 0.2, (1, 2, 3, 4)
    training = fs.Training(lr=lr, batch_size=3, local_epochs=epochs)

    def reached(method, participation):
        result = run(
            method,
            200,
            clients=quadratic_clients(quadratics),
            model=lambda: nn.Linear(3, 1, bias=False),
            training=training,
            participation=participation,
            evaluate_at=(),
        )
        return result.states[KEY].server["weight"][0].numpy()

    moves = [
        np.eye(3) - np.linalg.matrix_power(np.eye(3) - lr * h, e)
        for h, e in zip(quadratics.hessians, epochs, strict=True)
    ]
    elsewhere = np.linalg.solve(sum(moves), sum(m @ c for m, c in zip(moves, quadratics.centres, strict=True)))
    assert np.linalg.norm(elsewhere - quadratics.optimum) > 0.2
    np.testing.assert_allclose(reached(FedAvg(weighting="uniform"), 1.0), elsewhere, atol=1e-9)
    np.testing.assert_allclose(reached(method, participation), quadratics.optimum, atol=1e-9)


@pytest.mark.parametrize("option", ["I", "II"])
def test_a_model_and_a_control_travel_in_each_direction(option):
    module = conv_net()
    model = sum(leaf.numel() for leaf in leaves_of(module).values())
    control = sum(leaf.numel() for leaf in module.parameters())
    assert control < model
    result = run(SCAFFOLD(option=option), training=PLAIN)
    for direction in ("up", "down"):
        assert sent(result, direction) == {8 * (model + control)}


def test_new_clients_get_the_servers_model():
    result = run(SCAFFOLD(), 2, training=PLAIN)
    state = result.states[KEY]
    models = offered(SCAFFOLD(), state, result.federations[KEY])
    assert list(models) == ["global"]
    for k in range(6):
        assert_close({n: leaf[k] for n, leaf in models["global"].params.items()}, without_slots(state.server), 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SCAFFOLD(option="III"), 'option must be "I" or "II", got \'III\''),
        (lambda: SCAFFOLD(weighting="n"), "weighting must be"),
        (
            lambda: run(SCAFFOLD(), training=fs.Training(lr=0.1, optimizer="adam")),
            r"must be \"sgd\" without momentum .*, got Adam\(",
        ),
        (lambda: run(SCAFFOLD(), training=fs.Training(lr=0.1, momentum=0.9)), r"got SGD\(momentum=0.9"),
        (lambda: run(SCAFFOLD(), training=fs.Training(lr=0.1, clip_norm=1.0)), "clip_norm None, got .* clip_norm=1.0"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_plain_sgd_may_be_an_object():
    training = fs.Training(lr=0.05, optimizer=fs.SGD(), batch_size=5, local_epochs=2)
    same(run(SCAFFOLD(), training=training), run(SCAFFOLD(), training=PLAIN), 0)

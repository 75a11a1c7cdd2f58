"""Per-FedAvg: limits, plain loops, closed forms on squared loss, bytes, adapted models."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import grad
from torch.nn import functional as F

import fedstat as fs
from fedstat._random import stream
from fedstat.methods import FedAvg, PerFedAvg
from tests.support.clients import all_samples, image_clients, noise_regression, regression, samples
from tests.support.copies import PLAIN, assert_whole_models_travel, load, mean_of, orders, start_of, trained
from tests.support.networks import leaves_of, plain_net
from tests.support.runs import KEY, TRAINING, assert_close, offered, run, same


class SecondBatches(FedAvg):
    """FedAvg on every second batch."""

    batches = 2

    def gradient(self, grad, params, batches, context):
        return grad(params, batches[1])


def test_per_fedavg_without_an_inner_step_is_uniform_fedavg_on_every_second_batch():
    method, limit = run(PerFedAvg(inner_lr=0)), run(SecondBatches(weighting="uniform"))
    same(method, limit, 0, estimands=("global", None))
    assert_close(method.states[KEY].server, limit.states[KEY].server, 0)


def in_groups(order, group):
    """Steps of several batches within each epoch; where batches are missing their samples are dealt out evenly."""
    dealt = []
    for epoch in np.array_split(np.arange(len(order)), TRAINING.local_epochs):
        batches = [order[i] for i in epoch]
        whole = len(batches) - len(batches) % group
        dealt += batches[:whole]
        if whole < len(batches):
            parts = np.array_split(np.concatenate(batches[whole:]), group)
            dealt += [part if len(part) else parts[0] for part in parts]
    return dealt


@pytest.mark.parametrize("hessian_free", [False, True], ids=["first-order", "Hessian-free"])
def test_a_round_of_per_fedavg_is_that_of_a_plain_loop(hessian_free):
    clients, a, delta, group = image_clients(3), 0.3, 1e-2, 3 if hessian_free else 2
    method = PerFedAvg(inner_lr=a, hessian_free=hessian_free, delta=delta)
    result = run(method, 1, clients=clients, model=plain_net, participation=1.0)
    start = start_of(result, plain_net)
    ends = []
    for k in range(3):
        (x, y), module = samples(clients, k), copy.deepcopy(start)
        optimizer = torch.optim.SGD(module.parameters(), lr=TRAINING.lr, momentum=TRAINING.momentum)

        def grad(at, b, x=x, y=y, module=module):
            outputs = torch.func.functional_call(module, at, (x[b],))
            return dict(zip(at, torch.autograd.grad(F.cross_entropy(outputs, y[b]), list(at.values())), strict=True))

        order = in_groups(orders(clients, k, 0, TRAINING), group)
        for s in range(0, len(order), group):
            w = dict(module.named_parameters())
            inner = grad(w, order[s])
            v = grad({n: p - a * inner[n] for n, p in w.items()}, order[s + 1])
            if hessian_free:
                ahead, behind = (grad({n: p + by * v[n] for n, p in w.items()}, order[s + 2]) for by in (delta, -delta))
                v = {n: v[n] - a * (ahead[n] - behind[n]) / (2 * delta) for n in v}
            for n, p in w.items():
                p.grad = v[n]
            optimizer.step()
        ends.append(module)
    assert_close(result.states[KEY].server, mean_of(ends, np.full(3, 1 / 3)))


def test_for_squared_loss_the_hessian_free_direction_is_exact():
    clients = noise_regression()
    method = PerFedAvg(inner_lr=0.2, hessian_free=True, delta=0.7)
    training = fs.Training(lr=0.1, batch_size=4)
    result = run(
        method, 1, clients=clients, model=lambda: nn.Linear(3, 1, bias=False), training=training, participation=1.0
    )
    w0 = result.federations[KEY].network.initial()["weight"][0].numpy()
    ends = []
    for k in range(3):
        (x, y), w = clients.train.client(k), w0
        d0, d1, d2 = orders(clients, k, 0, training)
        inner = w - 0.2 * x[d0].T @ (x[d0] @ w - y[d0]) / len(d0)
        v = x[d1].T @ (x[d1] @ inner - y[d1]) / len(d1)
        ends.append(w - 0.1 * (v - 0.2 * x[d2].T @ (x[d2] @ v) / len(d2)))
    np.testing.assert_allclose(result.states[KEY].server["weight"][0], np.mean(ends, axis=0), atol=1e-12)


class OneBatch(PerFedAvg):
    """The three batches of a step are all of the client's samples."""

    batches = 1

    def gradient(self, grad, params, batches, context):
        return super().gradient(grad, params, 3 * batches, context)


def test_hessian_free_per_fedavg_on_squared_loss_descends_the_adapted_loss():
    clients, a, eta = regression(), 0.3, 0.1
    data = all_samples(clients)

    def loss(w, x, y):
        return (x @ w[0] - y).square().mean() / 2

    def adapted(w):
        return sum(loss(w - a * grad(loss)(w, x, y), x, y) for x, y in data) / len(data)

    options = {"clients": clients, "training": fs.Training(lr=eta, batch_size=100), "participation": 1.0}
    method = OneBatch(inner_lr=a, hessian_free=True, delta=0.5)
    results = [run(method, n, model=lambda: nn.Linear(3, 1, bias=False), **options) for n in (1, 2, 3)]
    w = results[0].network(KEY).initial()["weight"]
    for result in results:
        w = w - eta * grad(adapted)(w)
        torch.testing.assert_close(result.states[KEY].server["weight"], w, rtol=0, atol=1e-12)


def test_per_fedavgs_models_took_one_plain_step_on_the_clients_own_data():
    slow = {"weight_decay": 0.1, "clip_norm": 0.01, "schedule": fs.schedules.Warmup(rounds=4)}
    training = fs.Training(lr=0.05, momentum=0.5, batch_size=100, **slow)
    method = PerFedAvg(inner_lr=0.3)
    result = run(method, 2, model=plain_net, training=training)
    federation, state = result.federations[KEY], result.states[KEY]
    shared = load(start_of(result, plain_net), state.server)
    for models in (method.models(state, torch.arange(6), federation), offered(method, state, federation)):
        for k in range(6):
            x, y = samples(federation.clients, k)
            grads = torch.autograd.grad(F.cross_entropy(shared(x), y), list(shared.parameters()))
            step = zip(shared.named_parameters(), grads, strict=True)
            adapted = {name: leaf.detach() - 0.3 * g for (name, leaf), g in step}
            assert_close({n: leaf[k] for n, leaf in models["personal"].params.items()}, adapted)
            assert_close({n: leaf[k] for n, leaf in models["global"].params.items()}, state.server, 0)


def test_per_fedavg_adapts_on_one_batch_of_several_or_for_an_epoch():
    result = run(PerFedAvg(), 1, model=plain_net, training=replace(PLAIN, momentum=0.9))
    federation, state = result.federations[KEY], result.states[KEY]
    shared = load(start_of(result, plain_net), state.server)
    x, y = samples(federation.clients, 0)
    epoch = stream(0, "tuning batches", 0, 0).permutation(len(y))
    batches = [epoch[i : i + 5] for i in range(0, len(y), 5)]
    for how, order in (("step", batches[:1]), ("epoch", batches)):
        method = PerFedAvg(inner_lr=0.3, adaptation=how)
        shown = method.models(state, torch.arange(6), federation)["personal"].params
        plain = fs.Training(lr=0.3, batch_size=5)
        one = trained(shared, lambda m, b: F.cross_entropy(m(x[b]), y[b]), order, plain)
        assert_close({n: leaf[0] for n, leaf in shown.items()}, leaves_of(one))


def test_sgd_may_be_an_object():
    named = replace(TRAINING, momentum=0.0, optimizer=fs.SGD(TRAINING.momentum))
    same(run(PerFedAvg(), training=named), run(PerFedAvg()), 0)


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(PerFedAvg(hessian_free=True))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PerFedAvg(inner_lr=-0.1), "inner_lr must be .*, got -0.1"),
        (lambda: PerFedAvg(delta=0), "delta must be"),
        (lambda: PerFedAvg(adaptation="batch"), "adaptation must be"),
        (lambda: run(PerFedAvg(), training=fs.Training(lr=0.01, optimizer="adam")), "optimizer must be"),
        (lambda: PerFedAvg().models(fs.federated.State({"w": torch.zeros(1)}), torch.arange(1)), "loaded result"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""Ditto: limits, plain loops, bytes, new clients."""

import copy

import pytest
import torch
from torch.func import functional_call, grad
from torch.nn import functional as F

from fedstat.federated.slots import slot, without_slots
from fedstat.methods import Ditto, FedAvg, Local
from tests.support.clients import all_samples, image_clients, samples
from tests.support.copies import (
    PLAIN,
    assert_whole_models_travel,
    load,
    mean_of,
    orders,
    plainly_trained,
    pull,
    start_of,
    trained,
    weights_of,
)
from tests.support.networks import leaves_of, plain_net
from tests.support.runs import KEY, STEP, TRAINING, assert_close, offered, run, same


def test_ditto_without_penalty_is_fedavg_and_local_side_by_side():
    both = run(Ditto(penalty=0))
    same(both, run(Local()), 0, estimands=("personal", None))
    same(both, run(FedAvg()), 0, estimands=("global", None))


def test_dittos_shared_model_is_fedavgs_whatever_the_penalty():
    same(run(Ditto(penalty=2.0, personal_epochs=3)), run(FedAvg()), 0, estimands=("global", None))


def test_ditto_with_a_pull_of_one_over_lr_steps_from_the_shared_model_in_every_round():
    clients, module = image_clients(), plain_net().double()
    options = {"clients": clients, "model": plain_net, "training": STEP, "participation": 1.0}
    data, p = all_samples(clients), clients.train.n / clients.train.n.sum()

    def slope(at, x, y):
        return grad(lambda leaves: F.cross_entropy(functional_call(module, leaves, (x,)), y))(at)

    results = [run(Ditto(penalty=1 / STEP.lr), rounds, **options) for rounds in (1, 2, 3)]
    w = results[0].network(KEY).initial()
    own = [w] * len(data)
    for result in results:
        own = [{n: w[n] - STEP.lr * g for n, g in slope(v, *xy).items()} for v, xy in zip(own, data, strict=True)]
        shared = [slope(w, *xy) for xy in data]
        w = {n: w[n] - STEP.lr * sum(pk * g[n] for pk, g in zip(p, shared, strict=True)) for n in w}
        assert_close({n: result.states[KEY].server[n] for n in w}, w)
        for k, v in enumerate(own):
            assert_close(slot({n: leaf[k] for n, leaf in result.states[KEY].clients.items()}, "personal"), v)


@pytest.mark.parametrize("training", [TRAINING, PLAIN], ids=["momentum", "plain"])
def test_two_rounds_of_ditto_are_those_of_a_plain_loop(training):
    clients = image_clients(3)
    result = run(Ditto(penalty=1.5), 2, clients=clients, training=training, participation=1.0)
    w = start_of(result)
    own = [copy.deepcopy(w) for _ in range(3)]
    for t in range(2):
        received, copies = leaves_of(w), []
        for k in range(3):
            x, y = samples(clients, k)
            order = orders(clients, k, t, training)
            copies.append(trained(w, lambda m, b, x=x, y=y: F.cross_entropy(m(x[b]), y[b]), order, training))

            def near(m, b, x=x, y=y, received=received):
                return F.cross_entropy(m(x[b]), y[b]) + 1.5 / 2 * pull(m, received)

            own[k] = trained(own[k], near, order, training)
        w = load(w, mean_of(copies, weights_of(clients)))
    state = result.states[KEY]
    assert_close(without_slots(state.server), leaves_of(w))
    for k in range(3):
        assert_close(slot({n: leaf[k] for n, leaf in state.clients.items()}, "personal"), leaves_of(own[k]))


def test_a_pull_of_one_over_lr_starts_every_step_of_ditto_at_the_shared_model():
    clients = image_clients(3)
    result = run(Ditto(penalty=1 / PLAIN.lr), 1, clients=clients, model=plain_net, training=PLAIN, participation=1.0)
    w = start_of(result, plain_net)
    for k in range(3):
        (x, y), v = samples(clients, k), w
        for b in orders(clients, k, 0, PLAIN):
            grads = torch.autograd.grad(F.cross_entropy(v(x[b]), y[b]), list(v.parameters()))
            step = zip(w.named_parameters(), grads, strict=True)
            v = load(w, {name: leaf.detach() - PLAIN.lr * g for (name, leaf), g in step})
        row = {n: leaf[k] for n, leaf in result.states[KEY].clients.items()}
        assert_close(slot(row, "personal"), leaves_of(v))


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(Ditto())


def test_new_clients_without_a_pull_train_the_shared_model():
    method = Ditto(penalty=0)
    result = run(method, 2)
    state = result.states[KEY]
    plain = plainly_trained(result, without_slots(state.server))
    assert_close(offered(method, state, result.federations[KEY])["personal"].params, plain)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ditto(penalty=-1), r"penalty must be a number in \[0, inf\), got -1"),
        (lambda: Ditto(personal_epochs=0), "personal_epochs must be a whole"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

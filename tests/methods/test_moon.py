"""MOON: limits, a plain loop, bytes, representations of zero, new clients."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedstat.federated.slots import slot, without_slots
from fedstat.methods import MOON, FedAvg
from fedstat.testing import check_method
from tests.support.clients import image_clients, samples, vector_clients
from tests.support.copies import PLAIN, assert_whole_models_travel, load, mean_of, orders, start_of, trained
from tests.support.networks import leaves_of
from tests.support.runs import KEY, TRAINING, assert_close, differ, equal, offered, run, traffic


def test_the_laws_hold(examples):
    check_method(MOON(mu=5.0), examples=examples)


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_without_the_contrast_it_is_fedavg(executor):
    equal(run(MOON(mu=0.0), executor=executor), run(FedAvg(), executor=executor), 0)


def test_the_first_round_is_fedavgs_and_the_next_ones_are_not():
    equal(run(MOON(mu=5.0), 1), run(FedAvg(), 1), 1e-12)
    differ(run(MOON(mu=5.0)), run(FedAvg()))


def features(module, x):
    seen = []
    with module.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
        return module(x), seen[0]


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_four_rounds_are_those_of_a_plain_loop(executor):
    clients, rounds, mu, heat = image_clients(5), 4, 3.0, 0.4
    result = run(MOON(mu=mu, temperature=heat), rounds, clients=clients, executor=executor)
    w, last = start_of(result), [None] * 5
    came = traffic(result, "bytes_up").notna()
    assert came.sum().max() >= 2
    assert not came.loc[1].all()
    for t in range(rounds):
        present = [k for k in came.columns if came.loc[t + 1, k]]
        received = copy.deepcopy(w).eval()
        for k in present:
            x, y = samples(clients, k)

            def loss(m, b, x=x, y=y, models=(received, last[k] or received)):
                outputs, z = features(m, x[b])
                with torch.no_grad():
                    anchors = [features(one, x[b])[1] for one in models]
                logits = torch.stack([F.cosine_similarity(z, anchor) / heat for anchor in anchors], 1)
                contrast = F.cross_entropy(logits, torch.zeros(len(z), dtype=torch.int64))
                return F.cross_entropy(outputs, y[b]) + mu * contrast

            last[k] = trained(w, loss, orders(clients, k, t, TRAINING), TRAINING).eval()
        size = clients.train.n[present]
        w = load(w, mean_of([last[k] for k in present], size / size.sum()))
    state = result.states[KEY]
    assert_close(without_slots(state.server), leaves_of(w))
    for k in range(5):
        assert state.clients["met/last"][k] == (last[k] is not None)
        if last[k] is not None:
            assert_close(slot({n: leaf[k] for n, leaf in state.clients.items()}, "last"), leaves_of(last[k]))


def test_representations_of_zero_have_no_contrast():
    """All hidden units are dead: a cosine has no value there, and must not spoil the gradient."""

    def dead():
        module = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
        nn.init.constant_(module[0].bias, -100.0)
        return module

    options = {"clients": vector_clients(), "model": dead, "training": PLAIN}
    equal(run(MOON(mu=5.0), **options), run(FedAvg(), **options), 1e-12)


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(MOON())


def test_new_clients_get_the_servers_model():
    result = run(MOON(), 2)
    state = result.states[KEY]
    models = offered(MOON(), state, result.federations[KEY])
    assert list(models) == ["global"]
    for k in range(6):
        assert_close({n: leaf[k] for n, leaf in models["global"].params.items()}, without_slots(state.server), 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MOON(mu=-1), "mu must be a number"),
        (lambda: MOON(temperature=0), "temperature must be a number"),
        (
            lambda: run(MOON(), clients=vector_clients(), model=lambda: nn.Linear(3, 2)),
            "^the network needs a dense layer .* as its head",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""APFL: plain loops, limits, shares that clients learn, bytes, new clients."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.slots import slot, without_slots
from fedstat.methods import APFL, FedAvg, Local
from fedstat.testing import check_method
from tests.support.clients import image_clients, samples
from tests.support.copies import PLAIN, assert_whole_models_travel, mean_of, orders, plainly_trained, start_of
from tests.support.networks import leaves_of, plain_net
from tests.support.runs import KEY, TRAINING, assert_close, final, offered, run, same, traffic

ALPHA = "mixture/alpha"


def mixed(w, v, alpha):
    """Weights of the mixture, with v's statistics."""
    theirs = dict(w.named_parameters())
    weights = {name: alpha * leaf + (1 - alpha) * theirs[name].detach() for name, leaf in v.named_parameters()}
    return weights | dict(v.named_buffers())


@pytest.mark.parametrize("training", [TRAINING, PLAIN], ids=["momentum", "plain"])
@pytest.mark.parametrize("method", [APFL(alpha=0.99), APFL(alpha=0.3, adaptive=False)], ids=["adaptive", "fixed"])
def test_four_rounds_are_those_of_a_plain_loop(method, training):
    clients = image_clients(4)
    result = run(method, 4, clients=clients, training=training)
    w, own, alphas, clipped = start_of(result), [start_of(result) for _ in range(4)], [method.alpha] * 4, 0
    came = traffic(result, "bytes_up").notna()
    assert came.any().all()
    assert not came.all(axis=1).any()
    for t in range(4):
        copies = []
        for k in [k for k in came.columns if came.loc[t + 1, k]]:
            (x, y), here, v = samples(clients, k), copy.deepcopy(w).train(), own[k].train()
            batches = orders(clients, k, t, training)
            if method.adaptive:
                alpha = torch.tensor(alphas[k], dtype=torch.float64, requires_grad=True)
                b = batches[0]
                outputs = functional_call(copy.deepcopy(v), mixed(here, copy.deepcopy(v), alpha), (x[b],))
                F.cross_entropy(outputs, y[b]).backward()
                moved = alphas[k] - training.lr * alpha.grad.item()
                alphas[k] = min(max(moved, 0.0), 1.0)
                clipped += alphas[k] != moved
                v.zero_grad()
            options = {"lr": training.lr, "momentum": training.momentum}
            optimizers = [torch.optim.SGD(module.parameters(), **options) for module in (here, v)]
            for b in batches:
                for optimizer in optimizers:
                    optimizer.zero_grad()
                F.cross_entropy(functional_call(v, mixed(here, v, alphas[k]), (x[b],)), y[b]).backward()
                F.cross_entropy(here(x[b]), y[b]).backward()
                for optimizer in optimizers:
                    optimizer.step()
            copies.append(here)
        w.load_state_dict(mean_of(copies, np.full(len(copies), 1 / len(copies))), strict=False)
    assert (clipped > 0) == method.adaptive
    assert clipped < 8
    state = result.states[KEY]
    assert_close(without_slots(state.server), leaves_of(w))
    for k in range(4):
        row = {name: leaf[k] for name, leaf in state.clients.items()}
        assert_close(slot(row, "personal"), leaves_of(own[k]))
        assert row[ALPHA].item() == pytest.approx(alphas[k], abs=1e-12)
        shown = {name: leaf for name, leaf in mixed(w, own[k], alphas[k]).items() if leaf.is_floating_point()}
        assert_close({name: leaf[k] for name, leaf in final(result).items()}, shown)


def test_without_a_share_of_their_own_models_clients_have_fedavgs():
    """But for running statistics, which are each client's own."""
    result, fedavg = (run(it, model=plain_net) for it in (APFL(alpha=0, adaptive=False), FedAvg(weighting="uniform")))
    same(result, fedavg, 0, estimands=("personal", None))
    start = result.federations[KEY].network.initial()
    for name, leaf in slot(dict(result.states[KEY].clients), "personal").items():
        assert all(torch.equal(row, start[name]) for row in leaf)


def test_with_no_share_of_the_shared_model_clients_have_locals():
    same(run(APFL(alpha=1, adaptive=False)), run(Local()), 0, estimands=("personal", None))


@pytest.mark.parametrize("method", [APFL(), APFL(alpha=0.9, adaptive=False)], ids=["adaptive", "fixed"])
def test_the_shared_model_is_fedavgs_whatever_the_share(method):
    same(run(method), run(FedAvg(weighting="uniform")), 0, estimands=("global", None))


def test_a_client_unlike_the_others_learns_to_rely_on_its_own_model():
    rng = np.random.default_rng(0)
    client = np.repeat(np.arange(5), 100)
    x = rng.normal(size=(500, 2))
    y = x @ [1.0, -1.0] * np.where(client == 2, -1, 1)
    clients = fs.data.from_arrays(x, y, client, test=0)
    training = fs.Training(lr=0.05, batch_size=100, local_epochs=3)
    result = run(APFL(), 20, clients=clients, model=lambda: nn.Linear(2, 1), training=training, participation=1.0)
    alpha = result.states[KEY].clients[ALPHA][:, 0]
    assert alpha[2] == 1
    assert (alpha[[0, 1, 3, 4]] < 0.7).all()


@pytest.mark.slow
def test_a_fixed_share_obeys_the_laws(examples):
    check_method(APFL(alpha=0.7, adaptive=False, weighting="samples"), examples=examples)


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(APFL())


def test_new_clients_train_a_copy_of_the_shared_model_for_a_round():
    method = APFL(alpha=1, adaptive=False)
    result = run(method, 2)
    state = result.states[KEY]
    server = without_slots(state.server)
    models = offered(method, state, result.federations[KEY])
    assert_close(models["personal"].params, plainly_trained(result, server))
    for k in range(6):
        assert_close({name: leaf[k] for name, leaf in models["global"].params.items()}, server, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: APFL(alpha=1.5), r"alpha must be a number in \[0, 1\], got 1.5"),
        (lambda: APFL(adaptive=1), "adaptive must be True or False, got 1"),
        (lambda: APFL(weighting="n"), "weighting must be"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

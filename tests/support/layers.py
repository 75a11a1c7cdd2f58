"""Rounds of methods that keep or replace layers, written again in plain torch on full batches; their new clients."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fedstat as fs
from tests.support.clients import all_samples, image_clients, vector_clients
from tests.support.networks import conv_net, leaves_of
from tests.support.runs import FULL, TRAINING, federation_of, final, offered, reference, run, traffic

LAYERS = ("conv1", "conv2", "hidden", "head")
#: Batches of all samples at rates that fall, and are zero after two rounds.
FADED = replace(FULL, lr_decay=0.5, schedule=fs.schedules.Cosine(rounds=2))
HEAD = ("head.weight", "head.bias")


def network_of(result):
    return next(iter(result.federations.values())).network


def samples(result):
    return all_samples(next(iter(result.federations.values())).clients)


def shares(result, uniform=False):
    n = np.array([len(y) for _, y in samples(result)])
    return np.full(len(n), 1 / len(n)) if uniform else n / n.sum()


def loaded(leaves, model=conv_net):
    """A torch module with these leaves, in training mode."""
    module = model().double()
    missing = module.load_state_dict(leaves, strict=False).missing_keys
    assert all("num_batches" in name for name in missing)
    return module


def descend(module, loss, epochs, trained=lambda name: True, lr=FULL.lr):
    """Full-batch steps of torch's SGD."""
    chosen = [leaf for name, leaf in module.named_parameters() if trained(name)]
    optimizer = torch.optim.SGD(chosen, lr, momentum=FULL.momentum)
    for _ in range(epochs):
        module.zero_grad()
        loss().backward()
        optimizer.step()


def mean(values, weights):
    return sum(w * v for w, v in zip(weights, values, strict=True))


def assert_models(result, expected, estimand=None):
    models = final(result, estimand)
    assert len(models["head.weight"]) == len(expected)
    for k, leaves in enumerate(expected):
        for name, leaf in leaves.items():
            torch.testing.assert_close(models[name][k], leaf, rtol=0, atol=1e-10)


def everything(name):
    return True


def nothing(name):
    return False


def of_head(name):
    return name in HEAD


def of_body(name):
    return name not in HEAD


def of_norm(name):
    return name.startswith("norm")


def assert_two_rounds_are_a_loop(method, private=nothing, uniform=False, phases=((everything, 3),)):
    """Two rounds of all clients on full batches; `phases` train some leaves for some epochs each."""
    result = run(method, rounds=2, training=FULL, participation=1.0)
    weights, data = shares(result, uniform), samples(result)
    server = network_of(result).initial()
    own = [server] * len(data)
    for _ in range(2):
        ends = []
        for k, (x, y) in enumerate(data):
            start = {n: own[k][n] if private(n) else server[n] for n in server}
            module = loaded(start)

            def loss(module=module, start=start, x=x, y=y):
                moved = [(leaf - start[n]).square().sum() for n, leaf in module.named_parameters()]
                return F.cross_entropy(module(x), y) + getattr(method, "mu", 0) / 2 * sum(moved)

            for trained, epochs in phases:
                descend(module, loss, epochs, trained)
            ends.append(leaves_of(module))
        own = ends
        server = {n: mean([e[n] for e in ends], weights) for n in server}
    assert_models(result, [{n: e[n] if private(n) else server[n] for n in server} for e in own])


def assert_tuning_is_a_loop(kind, part):
    """Fine-tuning of the whole model or its head, by torch, at the rate that rounds without a schedule have."""
    result = run(kind(fine_tune=4, part=part), rounds=2, training=FADED)
    received, expected = final(result, "global"), []
    for k, (x, y) in enumerate(samples(result)):
        module = loaded({n: leaf[k] for n, leaf in received.items()})
        descend(
            module, lambda m=module, x=x, y=y: F.cross_entropy(m(x), y), 4, everything if part == "all" else of_head
        )
        tuned = leaves_of(module)
        expected.append({n: tuned[n] if part == "all" or of_head(n) else received[n][k] for n in tuned})
    assert_models(result, expected)


def newcomers(method, training=TRAINING, model=conv_net):
    """Models of three new clients by the state of a short run; the run, and the new clients' federation."""
    result = reference(method, model, training)
    ((_, state),) = result.states.items()
    federation = federation_of(method, image_clients(3, seed=5), model, training)
    return offered(method, state, federation), result, federation


def assert_new_clients_train(method, trained):
    """New clients train these leaves, each its own, and no others."""
    models, result, _ = newcomers(method)
    ((_, state),) = result.states.items()
    found = models["personal"].params
    assert {name for name in found if not found[name].equal(state.server[name].expand_as(found[name]))} == trained
    assert all(len(leaf.unique(dim=0)) == 3 for name, leaf in found.items() if name in trained)


def floats(*layers):
    """Numbers in the leaves of some layers, counters apart."""
    state = conv_net().state_dict()
    return sum(leaf.numel() for n, leaf in state.items() if n.startswith(layers) and "num_batches" not in n)


#: Numbers of the whole network.
D = floats("")


def assert_bytes(method, up, down, down_at_first=None):
    """A client sends and receives as many numbers in every round."""
    result = reference(method)
    at_first = {"bytes_up": up, "bytes_down": down if down_at_first is None else down_at_first}
    for metric, expected in (("bytes_up", up), ("bytes_down", down)):
        table = traffic(result, metric).to_numpy()
        np.testing.assert_array_equal(np.nanmin(table, 1), [8 * at_first[metric], 8 * expected, 8 * expected])
        np.testing.assert_array_equal(np.nanmax(table, 1), np.nanmin(table, 1))


def assert_refuses_tasks_without_classes(method):
    clients = vector_clients()
    with pytest.raises(ValueError, match=r"1 output\(s\) for 2 classes"):
        run(method, clients=clients, model=fs.models.mlp(3, 4, 1))
    targets = fs.data.from_arrays(np.ones((6, 3)), np.linspace(0, 1, 6), [0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r"1 output\(s\) for numbers"):
        run(method, clients=targets, model=fs.models.mlp(3, 4, 1))

"""Rounds of methods that choose whose models to mix, written again in plain torch on full batches."""

import torch
from torch.nn import functional as F

import fedstat as fs
from fedstat._random import stream
from fedstat.federated.client.network import build
from tests.support.clients import image_clients
from tests.support.networks import conv_net
from tests.support.runs import federation_of, offered

FULL = fs.Training(lr=0.1, momentum=0.5, batch_size=100, local_epochs=3)
CLIENTS = image_clients()
N = CLIENTS.train.n
WEIGHTS = list(dict(conv_net().named_parameters()))
START = build(conv_net, stream(0, "initial weights"), torch.float64).initial()
D = sum(leaf.numel() for leaf in START.values())
STRANGERS = image_clients(3, seed=5)


def samples(k, clients=CLIENTS):
    """A client's training samples."""
    x, y = clients.train.client(k)
    return torch.from_numpy(x).double(), torch.from_numpy(y)


def trained(leaves, x, y):
    """Leaves after one round of full batches, by torch."""
    module = conv_net().double()
    module.load_state_dict(leaves, strict=False)
    optimizer = torch.optim.SGD(module.parameters(), lr=FULL.lr, momentum=FULL.momentum)
    for _ in range(FULL.local_epochs):
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
    return {name: leaf.detach().clone() for name, leaf in module.state_dict().items() if name in START}


def mean(models, weights):
    """Weighted mean of models."""
    return {name: sum(w * model[name] for w, model in zip(weights, models, strict=True)) for name in models[0]}


def shares(ids):
    """Weights of some clients by samples."""
    return [N[k] / N[list(ids)].sum() for k in ids]


def state_of(result):
    """The state after a run of one method."""
    ((_, state),) = result.states.items()
    return state


def models_of(result):
    """Leaves of all clients by the method's own estimand, (K, ...)."""
    models = result.methods["it"].models(state_of(result), torch.arange(len(CLIENTS)))
    return next(iter(models.values())).params


def agree(found, expected):
    """Stacked leaves equal a list of models, leaf by leaf."""
    for name in expected[0]:
        torch.testing.assert_close(found[name], torch.stack([m[name] for m in expected]), rtol=0, atol=1e-10)


def newcomers(method, result, model=conv_net):
    """Leaves of three new clients."""
    (predictor,) = offered(method, state_of(result), federation_of(method, STRANGERS, model, FULL)).values()
    return predictor.params

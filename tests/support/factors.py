"""Rounds of methods whose weights are composed of factors, written again in plain torch on full batches."""

from dataclasses import replace

import torch
from torch.nn import functional as F

from fedstat.federated.replicate import participants
from tests.support.clients import image_clients
from tests.support.networks import conv_net
from tests.support.runs import FULL, offered, run


def federation(result):
    return result.federations["it", 0]


def models(method, result):
    """Every client's leaves, as they are evaluated."""
    state = result.states["it", 0]
    return next(iter(method.models(state, torch.arange(len(federation(result).clients))).values())).params


def compose(network, rule, leaves):
    """The module's weights; `rule` composes one from its parts."""
    weights = {name: leaf for name, leaf in leaves.items() if name not in network.parts}
    for name, form in network.forms.items():
        parts = {leaf.removeprefix(f"{name}."): p for leaf, p in leaves.items() if leaf.startswith(f"{name}.")}
        weights[name] = rule(form.shape, parts)
    return weights


def trained(network, rule, leaves, samples, phases, penalty=lambda leaves: 0.0, model=conv_net):
    """One client's round: full-batch steps of torch's own SGD, phase after phase."""
    module = model().double().train()
    x, y = map(torch.from_numpy, samples)
    leaves = {name: leaf.detach().clone() for name, leaf in leaves.items()}
    for names, epochs in phases:
        moving = [leaves[name].requires_grad_() for name in names]
        optimizer = torch.optim.SGD(moving, lr=FULL.lr, momentum=FULL.momentum)
        for _ in range(epochs):
            optimizer.zero_grad()
            outputs = torch.func.functional_call(module, compose(network, rule, leaves), (x,))
            (F.cross_entropy(outputs, y) + penalty(leaves)).backward()
            optimizer.step()
        for name in names:
            leaves[name] = leaves[name].detach()
    return leaves


def averaged(network, rule, clients, phases, shared, rounds, p, model=conv_net):
    """Rounds at half participation with means of leaves `shared`; `p` maps the participants' sizes to weights."""
    server = network.initial()
    own = [dict(server) for _ in range(len(clients))]
    for t in range(rounds):
        ids = participants(0, t, len(clients), 0.5)
        for k in ids:
            start = own[k] | {name: server[name] for name in shared}
            own[k] = trained(network, rule, start, clients.train.client(k), phases, model=model)
        weights = p(clients.train.n[ids])
        for name in shared:
            server[name] = sum(w * own[k][name] for w, k in zip(weights, ids, strict=True))
    return stacked([mine | {name: server[name] for name in shared} for mine in own])


def stacked(clients):
    return {name: torch.stack([leaves[name] for leaves in clients]) for name in clients[0]}


def assert_a_new_client_trains(method, layers=(), parts=(), model=conv_net):
    """A new client trains these layers and parts, from the start, and nothing else."""
    old, new = run(method, model=model), run(method, rounds=1, model=model, clients=image_clients(3, seed=9))
    state, start = old.states["it", 0], federation(old).network.initial()
    untouched = {"train": lambda method, start, *rest, **moves: start, "statistics": lambda params, ids: {}}
    untrained = replace(federation(new), **untouched)
    begun, ended = (offered(method, state, new)["personal"].params for new in (untrained, federation(new)))
    for name, leaf in ended.items():
        personal = name.startswith(layers) or name.endswith(parts)
        if personal:
            assert torch.equal(begun[name], start[name].expand_as(leaf))
        assert torch.equal(leaf, begun[name]) != personal

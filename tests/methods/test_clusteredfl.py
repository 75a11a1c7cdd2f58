"""Clustered FL: limits, a plain loop, bisection by brute force, bytes, new clients."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.replicate import participants
from fedstat.methods import ClusteredFL, FedAvg
from fedstat.methods.clusteredfl import _bisect
from tests.support.clients import vector_clients
from tests.support.mixing import (
    FULL,
    START,
    STRANGERS,
    WEIGHTS,
    D,
    agree,
    mean,
    models_of,
    newcomers,
    samples,
    shares,
    state_of,
    trained,
)
from tests.support.runs import federation_of, offered, run, same, sent


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_clustered_fl_that_never_bisects_is_fedavg(weighting):
    ours = run(ClusteredFL(eps1=0, eps2=0, min_rounds=0, weighting=weighting))
    same(ours, run(FedAvg(weighting=weighting)), estimands=("cluster", "global"))


class Zero(nn.Module):
    """One linear layer that starts at zero."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 1, bias=False)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        return self.head(x)


OPPOSED = {"model": Zero, "training": FULL, "participation": 1.0}


def opposed(groups, copies=None):
    """Clients of group 1 have the inputs of group 0 and opposite labels; a client may hold everything several times."""
    x = np.random.default_rng(3).normal(size=(12, 3)) + 1
    y = (x[:, 0] > 1).astype(int)
    copies = copies or [1] * len(groups)
    many = [(np.tile(x, (c, 1)), np.tile(y if g == 0 else 1 - y, c)) for g, c in zip(groups, copies, strict=True)]
    client = np.repeat(np.arange(len(groups)), [len(labels) for _, labels in many])
    return fs.data.from_arrays(*map(np.concatenate, zip(*many, strict=True)), client, test=0.0)


def test_clustered_fl_tells_opposite_gradients_apart_and_trains_each_group_by_itself():
    method = ClusteredFL(eps1=1e-6, eps2=0, min_rounds=0)
    both = run(method, 4, clients=opposed([0, 1] * 3), **OPPOSED)
    assert state_of(both).memory["cluster"].tolist() in ([1, 2] * 3, [2, 1] * 3)
    models = method.models(state_of(both), torch.arange(6))["cluster"].params["head.weight"]
    for group in (0, 1):
        alone = run(FedAvg(), 4, clients=opposed([group] * 3), **OPPOSED)
        torch.testing.assert_close(models[group], state_of(alone).server["head.weight"], rtol=0, atol=1e-10)
    strangers = opposed([1, 0, 0, 1])
    federation = federation_of(method, strangers, Zero, FULL, "logistic")
    found = offered(method, state_of(both), federation)["cluster"].params["head.weight"]
    assert found.equal(models[[1, 0, 0, 1]])


@pytest.mark.parametrize(("weighting", "clusters"), [("samples", 2), ("uniform", 1)])
def test_clustered_fl_weighs_the_mean_change_as_it_weighs_models(weighting, clusters):
    """One client outweighs two others by samples, but not by number."""
    method = ClusteredFL(eps1=1e-6, eps2=0, min_rounds=0, weighting=weighting)
    result = run(method, 1, clients=opposed([0, 1, 1], [2, 1, 1]), **OPPOSED)
    assert len(state_of(result).memory["cluster"].unique()) == clusters


def test_units_of_relative_thresholds_are_those_of_the_first_round_to_which_anybody_came():
    method = ClusteredFL(eps1=0.1, eps2=0.5, min_rounds=1, relative=True)
    log = [{"round": t, "client": k, "work": float(t > 1)} for t in range(1, 5) for k in range(6)]
    with pytest.warns(RuntimeWarning, match="1 of 4 rounds had no participant"):
        late = run(method, 4, training=FULL, participation=fs.attendance.Trace(pd.DataFrame(log)))
    soon = run(method, 3, training=FULL, participation=1.0)
    torch.testing.assert_close(state_of(late).memory["unit"], state_of(soon).memory["unit"])
    assert state_of(soon).memory["unit"] != 1


def cut(members, last, linkage):
    """Two sides: of all bipartitions that with the smallest cosine across; or by merging what is farthest last."""
    cosine = {(i, j): float(F.cosine_similarity(last[i], last[j], dim=0)) for i in members for j in members}
    if linkage == "single":
        sides = [frozenset(s) for n in range(1, len(members)) for s in combinations(sorted(members), n)]
        best = min(sides, key=lambda s: max(cosine[i, j] for i in s for j in members - s))
        return best, members - best
    groups = [frozenset([k]) for k in members]
    while len(groups) > 2:
        a, b = max(combinations(groups, 2), key=lambda p: min(cosine[i, j] for i in p[0] for j in p[1]))
        groups = [g for g in groups if g not in (a, b)] + [a | b]
    return tuple(groups)


def clustered(method, rounds):
    """Clustered FL in loops: the clusters with their models, those bisected with the changes of their sides."""
    clusters, bisected, last, unit = [(frozenset(range(6)), START)], {}, {}, 1.0
    for t in range(1, rounds + 1):
        ids, model = participants(0, t - 1, 6, 0.7).tolist(), {k: m for c, m in clusters for k in c}
        change = {}
        for k in ids:
            end = trained(model[k], *samples(k))
            change[k] = {n: end[n] - model[k][n] for n in end}
            last[k] = torch.cat([change[k][n].flatten() for n in WEIGHTS])
        if t == 1 and method.relative:
            unit = np.mean([last[k].norm() for k in ids])
        now = []
        for c, m in clusters:
            due = len(c) > 2 and c <= set(last) and t > method.min_rounds
            if due:
                average = sum(w * last[k] for k, w in zip(c, shares(c), strict=True))
                due = average.norm() < method.eps1 * unit and max(last[k].norm() for k in c) > method.eps2 * unit
            if due:
                sides = cut(c, last, method.linkage)
                bisected[c] = m, {s: sum(w * last[k] for k, w in zip(s, shares(s), strict=True)) for s in sides}
            now += [(side, m) for side in sides] if due else [(c, m)]
        clusters = []
        for c, m in now:
            here = [k for k in ids if k in c]
            step = mean([change[k] for k in here], shares(here)) if here else dict.fromkeys(m, 0.0)
            clusters.append((c, {n: m[n] + step[n] for n in m}))
    return dict(clusters), bisected


@pytest.mark.parametrize(
    "method",
    [
        ClusteredFL(eps1=9, eps2=0.01, min_rounds=1),
        ClusteredFL(eps1=1.5, eps2=0.2, min_rounds=0, relative=True, linkage="complete"),
    ],
    ids=["single", "complete, relative"],
)
def test_clustered_fl_is_its_loop(method):
    expected, bisected = clustered(method, 6)
    result = run(method, 6, training=FULL, participation=0.7)
    assert len(expected) >= 3, "a second bisection is where places in a cluster differ from numbers of clients"
    agree(models_of(result), [next(m for c, m in expected.items() if k in c) for k in range(6)])
    memory = state_of(result).memory
    places = {frozenset((memory["cluster"] == c).nonzero()[:, 0].tolist()) for c in memory["cluster"].unique()}
    assert places == set(expected)
    found = torch.cat([memory[f"side/{n}"].flatten(1) for n in WEIGHTS], dim=1)
    for changes in (change for _, sides in bisected.values() for change in sides.values()):
        assert (found - changes).abs().amax(1).min() < 1e-10
    new = []
    for k in range(3):
        c = frozenset(range(6))
        while c in bisected:
            model, sides = bisected[c]
            end = trained(model, *samples(k, STRANGERS))
            own = torch.cat([(end[n] - model[n]).flatten() for n in WEIGHTS])
            c = max(sides, key=lambda s: F.cosine_similarity(own, sides[s], dim=0))
        new.append(expected[c])
    agree(newcomers(method, result), new)


@given(st.integers(0, 999), st.integers(3, 7), st.sampled_from(["single", "complete"]))
@settings(max_examples=30)
def test_clustered_fl_bisects_as_brute_force_does(seed, clients, linkage):
    last = dict(enumerate(torch.from_numpy(np.random.default_rng(seed).normal(size=(clients, 4)))))
    vectors = torch.stack(list(last.values()))
    sides = _bisect((vectors @ vectors.T).numpy(), linkage)
    assert {frozenset(side.tolist()) for side in sides} == set(cut(frozenset(range(clients)), last, linkage))


def test_clustered_fl_sends_a_model_up_and_one_down():
    result = run(ClusteredFL(**ClusteredFL.example))
    assert sent(result, "up") == {8 * D}
    assert sent(result, "down") == {8 * D}


def test_one_client_is_nothing_to_cluster():
    with pytest.raises(ValueError, match="ClusteredFL needs at least 2 clients, there are 1"):
        run(ClusteredFL(), clients=vector_clients(1), model=fs.models.mlp(3, 5, 2))


@pytest.mark.parametrize(
    ("argument", "value"), [("eps1", -1.0), ("eps2", math.inf), ("min_rounds", 1.5), ("linkage", "average")]
)
def test_arguments_out_of_range_are_named(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must .*{value}"):
        ClusteredFL(**{argument: value})

"""FedPAC: limits, a plain loop, the programme of its heads, bytes, new clients."""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated import ClientData, Learner, Method, Phase
from fedstat.methods import FedPAC, FedRep, fedpac
from tests.support.clients import CLASSES, all_samples, clones
from tests.support.layers import (
    HEAD,
    D,
    assert_bytes,
    assert_models,
    assert_new_clients_train,
    assert_refuses_tasks_without_classes,
    descend,
    loaded,
    mean,
    network_of,
    newcomers,
    of_body,
    of_head,
    samples,
    shares,
)
from tests.support.networks import leaves_of
from tests.support.runs import FULL, TRAINING, assert_close, differ, equal, run


@dataclass(frozen=True, kw_only=True)
class FedRepAtRate(FedRep):
    """FedRep whose head has a learning rate of its own."""

    head_lr: float

    def phases(self, network, training, round):
        head, body = super().phases(network, training, round)
        return replace(head, lr=self.head_lr), body


@pytest.mark.parametrize("head_lr", [None, 0.1])
def test_fedpac_with_own_heads_and_no_alignment_is_fedrep(monkeypatch, head_lr):
    there = FedRepAtRate(head_epochs=1, body_epochs=2, head_lr=head_lr or TRAINING.lr)
    monkeypatch.setattr(fedpac, "head_weights", lambda h, v: np.eye(len(h)))
    equal(run(FedPAC(penalty=0.0, head_lr=head_lr)), run(there))


def test_a_lone_participant_of_fedpac_keeps_its_own_head():
    """Nothing is patched here: the programme itself must give the unit vector."""
    here = run(FedPAC(penalty=0.0, head_lr=None), participation=0.1)
    equal(here, run(FedRep(head_epochs=1, body_epochs=2), participation=0.1))


@dataclass(frozen=True, kw_only=True)
class HeadThenBody(Method):
    """FedAvg of everything, the head trained first."""

    def phases(self, network, training, round):
        head = network.layers[network.head]
        body = tuple(name for name in network.trainable if name not in head)
        return Phase(head, epochs=1, lr=0.1), Phase(body)


def test_fedpac_among_clients_with_equal_moments_averages_heads_uniformly():
    options = {"rounds": 4, "participation": 1.0}
    methods = FedPAC(penalty=0.0), HeadThenBody(weighting="uniform")
    equal(*(run(method, clients=clones(), **options) for method in methods))
    differ(*(run(method, **options) for method in methods))


def cut(weights):
    kept = np.where(weights < 1e-3, 0, weights)
    return kept / kept.sum()


def moments(module, x, y):
    """Class means (zero where a class is missing), shares and counts in evaluation mode, class by class."""
    seen = []
    hook = module.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    module.eval()(x)
    module.train()
    hook.remove()
    z = seen[0]
    counts = torch.bincount(y, minlength=CLASSES)
    means = torch.stack([z[y == q].mean(0) if counts[q] else torch.zeros(7).double() for q in range(CLASSES)])
    p = counts.double() / len(y)
    square = sum(p[q] * z[y == q].square().sum(1).mean() for q in range(CLASSES) if counts[q])
    variance = (square - sum(p[q] ** 2 * means[q].square().sum() for q in range(CLASSES))) / len(y)
    return z, counts.double(), means, p[:, None] * means, variance


def programme(h, v, i):
    """The matrix of client i's quadratic programme, entry by entry as the paper has it."""
    return np.diag(v) + np.array([[(h[i] - a) @ (h[i] - b) for b in h] for a in h])


def simplex_minimum(matrix):
    """Try every support: on the right one the solution is M^-1 1, normalised."""
    best, value = None, np.inf
    for size in range(1, len(matrix) + 1):
        for support in map(list, combinations(range(len(matrix)), size)):
            inner = np.linalg.solve(matrix[np.ix_(support, support)], np.ones(size))
            if (inner > 0).all() and 1 / inner.sum() < value:
                value, best = 1 / inner.sum(), np.zeros(len(matrix))
                best[support] = inner / inner.sum()
    return best


def test_fedpac_is_a_loop_over_clients():
    method = FedPAC(penalty=2.0, head_lr=0.2)
    result = run(method, rounds=3, training=FULL, participation=1.0)
    data, server = samples(result), network_of(result).initial()
    heads, centroids = [{n: server[n] for n in HEAD}] * len(data), None
    for _ in range(3):
        ends, new, h, v, counts = [], [], [], [], []
        for k, (x, y) in enumerate(data):
            module = loaded(server | heads[k])
            _, count, means, weighted, variance = moments(module, x, y)
            descend(module, lambda m=module, x=x, y=y: F.cross_entropy(m(x), y), 1, of_head, method.head_lr)
            seen = []
            module.head.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))

            def loss(m=module, x=x, y=y, seen=seen, means=means, centroids=centroids):
                ce = F.cross_entropy(m(x), y)
                if centroids is None:
                    return ce
                target = torch.stack([centroids[q] if q in centroids else means[q] for q in y.tolist()])
                return ce + 2.0 * F.mse_loss(seen[-1], target)

            descend(module, loss, FULL.local_epochs, of_body)
            module.head._forward_pre_hooks.clear()
            ends.append(leaves_of(module))
            new.append(moments(module, x, y)[2])
            h.append(weighted.flatten().numpy())
            v.append(float(variance))
            counts.append(count)
        weights = np.stack([cut(simplex_minimum(programme(np.stack(h), np.array(v), i))) for i in range(len(data))])
        assert 0 < (weights == 0).sum() < weights.size - len(data), "the programme should not be trivial"
        heads = [{n: mean([e[n] for e in ends], w) for n in HEAD} for w in weights]
        server = {n: mean([e[n] for e in ends], shares(result)) for n in server}
        totals = sum(counts)
        centroids = {
            q: mean([c[q] for c in new], [float(n[q] / totals[q]) for n in counts]) for q in range(CLASSES) if totals[q]
        }
    assert_models(result, [server | head for head in heads])


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**16), st.floats(-6, 3))
def test_combinations_of_heads_are_optimal(clients, width, seed, scale):
    rng = np.random.default_rng(seed)
    h = 10**scale * rng.normal(size=(clients, width)) * rng.choice([0.01, 1], size=(clients, 1))
    v = 10 ** (2 * scale) * rng.uniform(0.01, 2, size=clients)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedpac, "_NEGLIGIBLE", 0)
        weights = fedpac.head_weights(h, v)
    exact = np.stack([simplex_minimum(programme(h, v, i)) for i in range(clients)])
    np.testing.assert_allclose(weights, exact, rtol=0, atol=1e-8)


def test_combinations_of_heads_are_uniform_where_clients_are_alike_and_drop_crumbs(monkeypatch):
    np.testing.assert_allclose(fedpac.head_weights(np.ones((5, 3)), np.full(5, 0.2)), np.full((5, 5), 0.2), atol=1e-12)
    nothing = fedpac.head_weights(np.zeros((4, 3)), np.array([0, 0, -1e-19, 0]))
    np.testing.assert_allclose(nothing, np.full((4, 4), 0.25), atol=1e-12)
    v = np.array([1.0, 1.0, 2000.0])
    np.testing.assert_allclose(fedpac.head_weights(np.zeros((3, 2)), v), [[0.5, 0.5, 0]] * 3, atol=1e-12)
    monkeypatch.setattr(fedpac, "_NEGLIGIBLE", 0.4)  # all weights are below, as those of a thousand clients would be
    np.testing.assert_allclose(fedpac.head_weights(np.zeros((4, 3)), np.ones(4)), np.full((4, 4), 0.25), atol=1e-12)


def test_a_client_without_noise_keeps_its_own_head():
    """A single sample has V = 0, and its own head costs nothing."""
    weights = fedpac.head_weights(np.array([[1.0, 0], [0, 1], [0.5, 0.5]]), np.array([0.0, 0.3, 0.3]))
    np.testing.assert_allclose(weights[0], [1, 0, 0], atol=1e-9)


def test_the_network_travels_with_class_means_and_comes_back_with_centroids():
    means = 7 * CLASSES
    assert_bytes(FedPAC(), D + 2 * means + 1, D + means, down_at_first=D)  # no centroids yet


def test_a_centroid_is_known_from_when_it_is_sent_be_it_zero():
    x, y, model = (
        np.random.default_rng(0).normal(size=(12, 3)),
        np.array([0, 1] * 3 + [1, 2] * 3),
        fs.models.mlp(3, 5, 3),
    )
    log = pd.DataFrame({"round": [1, 2, 2], "client": [0, 0, 1], "work": [1.0, 1.0, 1.0]})
    clients = fs.data.from_arrays(x, y, np.repeat([0, 1], 6), test=0)
    result = run(FedPAC(), 2, clients=clients, model=model, participation=fs.attendance.Trace(log))
    whole = 8 * (3 * 5 + 5 + 5 * 3 + 3)
    assert result.traffic["bytes_down"].tolist() == [whole, *[whole + 8 * 2 * 5] * 2]  # centroids of two classes
    state, network = result.states["it", 0], result.federations["it", 0].network
    assert state.memory["known"].tolist() == [1, 1, 1]
    sample = ClientData(*map(torch.from_numpy, (x, y)), valid=torch.ones(12).bool(), held_out=torch.zeros(12).bool())
    params = network.initial() | {"centroids": torch.zeros(3, 5).double(), "known": torch.tensor([1.0, 1, 0])}
    _, aux = FedPAC().prepare(Learner(network, "cross_entropy"), params, sample)
    assert not aux["target"][:2].any()
    z, _ = network.features(params, sample.x)
    torch.testing.assert_close(aux["target"][2], z[sample.y == 2].mean(0))


def test_new_clients_train_the_head_alone_at_its_own_rate():
    assert_new_clients_train(FedPAC(), set(HEAD))
    models, result, federation = newcomers(FedPAC(head_lr=0.3), FULL)
    for k, (x, y) in enumerate(all_samples(federation.clients)):
        module = loaded(result.states["it", 0].server)
        descend(module, lambda m=module, x=x, y=y: F.cross_entropy(m(x), y), FULL.local_epochs, of_head, 0.3)
        assert_close({n: models["personal"].params[n][k] for n in HEAD}, {n: leaves_of(module)[n] for n in HEAD})


def test_tasks_without_classes_are_refused():
    assert_refuses_tasks_without_classes(FedPAC())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedPAC(penalty=-1.0), r"penalty must be a number in \[0, inf\), got -1"),
        (lambda: FedPAC(head_lr=-1.0), r"head_lr must be a number in \[0, inf\), got -1"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

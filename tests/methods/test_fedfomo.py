"""FedFOMO: limits, a plain loop, exploration, bytes, new clients."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from fedstat._random import stream
from fedstat.federated.replicate import participants
from fedstat.methods import FedAvg, FedFOMO, Local
from fedstat.methods.fedfomo import _best
from tests.support.mixing import (
    CLIENTS,
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
    trained,
)
from tests.support.networks import conv_net
from tests.support.runs import run, same, traffic


@dataclass(frozen=True, kw_only=True)
class Deaf(FedFOMO):
    """Nobody helps."""

    def mixing(self, benefit):
        return torch.zeros_like(benefit)


@dataclass(frozen=True, kw_only=True)
class HeldOutLocal(Local):
    held_out = 0.2


def test_fedfomo_without_positive_weights_trains_alone_on_what_is_left():
    same(run(Deaf(), participation=0.7), run(HeldOutLocal(), participation=0.7))


@dataclass(frozen=True, kw_only=True)
class Even(FedFOMO):
    """Everybody helps alike; all are given the mean model, as FedAvg's server would."""

    def mixing(self, benefit):
        return torch.full_like(benefit, 1 / 6)

    def models(self, state, ids, federation=None):
        return {
            "global": self.predictor(
                {n: leaf.mean(0).expand(len(ids), *leaf.shape[1:]) for n, leaf in state.clients.items()}
            )
        }


@dataclass(frozen=True, kw_only=True)
class HeldOutFedAvg(FedAvg):
    held_out = 0.2


def test_fedfomo_with_even_weights_is_uniform_fedavg():
    even = run(Even(candidates=6), participation=1.0)
    same(even, run(HeldOutFedAvg(weighting="uniform"), participation=1.0))


@dataclass(frozen=True, kw_only=True)
class Recorded(FedFOMO):
    def record(self, state):
        return {name: state.memory[name] for name in ("sent", "affinity")}


def fold(k, clients=CLIENTS):
    """Samples that train, and those held out."""
    x, y = samples(k, clients)
    order = stream(0, "held out", k).permutation(len(y))
    out = order[: round(0.2 * len(y))]
    kept = np.setdiff1d(order, out)
    return (x[kept], y[kept]), (x[out], y[out])


def mixed(own, candidates, held_out):
    """Mixed model and raw benefits, in loops."""

    def validation(leaves):
        module = conv_net().double().eval()
        module.load_state_dict(leaves, strict=False)
        return F.cross_entropy(module(held_out[0]), held_out[1]).item()

    raw = []
    for other in candidates:
        distance = math.sqrt(sum((other[n] - own[n]).square().sum().item() for n in WEIGHTS))
        raw.append((validation(own) - validation(other)) / distance if distance else 0.0)
    positive = [max(0.0, value) for value in raw]
    if not any(positive):
        return own, raw
    return mean(candidates, [value / sum(positive) for value in positive]), raw


def test_fedfomo_is_its_loop_and_sends_the_models_of_highest_affinity():
    rounds = 4
    result = run(Recorded(candidates=2, epsilon=0.0), rounds, training=FULL, participation=0.7)
    ((_, records),) = result.records.items()
    own, affinity, sent, helped = [START] * 6, np.eye(6), np.full((6, 2), -1), 0
    for t in range(rounds):
        ids = participants(0, t, 6, 0.7).tolist()
        ends = {}
        for i in ids:
            kept, held_out = fold(i)
            others = [j for j in sent[i] if j >= 0]
            start, raw = mixed(own[i], [own[j] for j in others], held_out)
            helped += any(value > 0 for value in raw)
            affinity[i, others] += raw
            ends[i] = trained(start, *kept)
        own = [ends.get(k, own[k]) for k in range(6)]
        np.testing.assert_allclose(records["affinity"][t], affinity, rtol=0, atol=1e-9)
        sent = records["sent"][t]
        for i in range(6):
            others = [affinity[i, j] for j in ids if j != i]
            assert sorted(others)[-2:] == pytest.approx(sorted(affinity[i, j] for j in sent[i]), abs=1e-9)
            assert set(sent[i]) <= set(ids) - {i}
    assert helped >= 3
    agree(models_of(result), own)


@given(st.integers(0, 99), st.integers(1, 6))
def test_fedfomo_at_epsilon_one_is_blind_to_affinities(seed, width):
    rng, uploaders = np.random.default_rng(seed), torch.tensor([0, 2, 3, 5])
    affinity = torch.from_numpy(rng.normal(size=(6, 6)))
    blind, again = (
        _best(a, uploaders, np.arange(6), 1.0, width, np.random.default_rng(1)) for a in (affinity, -affinity)
    )
    assert blind.equal(again)
    best = _best(affinity, uploaders, np.arange(6), 0.0, width, rng)
    for i, row in enumerate(best.tolist()):
        ranked = sorted((j for j in uploaders.tolist() if j != i), key=lambda j: -affinity[i, j])
        assert row == [*ranked[:width], *[-1] * (width - len(ranked))]


def test_fedfomo_explores_for_each_model_by_itself():
    """In a fraction epsilon of the places a model is random, whatever is in the others."""
    clients, width, epsilon = 4000, 3, 0.4
    affinity = torch.arange(10.0).expand(clients, -1)
    ids = np.full(clients, -1)
    chosen = _best(affinity, torch.arange(10), ids, epsilon, width, np.random.default_rng(0)).numpy()
    assert all(len(set(row)) == width for row in chosen.tolist())
    greedy = (chosen == 9 - np.arange(width)).sum(1)
    # in each place in turn the best is left, and drawn by chance as well
    none, all_ = epsilon * 0.9, np.prod([1 - epsilon + epsilon / (10 - s) for s in range(width)])
    for seen, expected in ((chosen[:, 0] != 9, none), (greedy == width, all_)):
        assert abs(seen.mean() - expected) < 5 * math.sqrt(expected * (1 - expected) / clients)
    assert ((greedy > 0) & (greedy < width)).mean() > 0.3  # neither all random nor all by affinity


def test_fedfomo_explores_less_from_round_to_round():
    seen = []

    def choose(affinity, uploaders, ids, epsilon, width, rng):
        seen.append(epsilon)
        return _best(affinity, uploaders, ids, epsilon, width, rng)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedstat.methods.fedfomo._best", choose)
        run(FedFOMO(epsilon=0.5, epsilon_decay=0.2), 4)
    assert seen == pytest.approx([0.5, 0.3, 0.1, 0.0])


def test_fedfomo_sends_up_a_model_with_its_benefits_and_down_the_candidates():
    result = run(FedFOMO(candidates=2))
    before = [set(), *(set(participants(0, t, 6, 0.5).tolist()) for t in range(2))]
    for t, uploaders in enumerate(before):
        for k in participants(0, t, 6, 0.5).tolist():
            count = min(2, len(uploaders - {k}))
            assert traffic(result, "bytes_up").loc[t + 1, k] == 8 * (D + count)
            assert traffic(result, "bytes_down").loc[t + 1, k] == 8 * D * count


def test_fedfomo_lets_new_clients_mix_the_last_models_with_the_start():
    method = FedFOMO(candidates=5)
    result = run(method, training=FULL)
    last = [{n: leaf[k] for n, leaf in models_of(result).items()} for k in participants(0, 2, 6, 0.5)]
    expected = []
    for k in range(3):
        kept, held_out = fold(k, STRANGERS)
        expected.append(trained(mixed(START, last, held_out)[0], *kept))
    agree(newcomers(method, result), expected)


@pytest.mark.parametrize(("argument", "value"), [("candidates", 0), ("epsilon", -0.1), ("epsilon_decay", math.nan)])
def test_arguments_out_of_range_are_named(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must .*{value}"):
        FedFOMO(**{argument: value})

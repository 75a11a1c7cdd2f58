"""FedCAC: limits, a plain loop, what is critical, bytes, new clients."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedstat as fs
from fedstat.federated.replicate import participants
from fedstat.methods import FedAvg, FedCAC
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
from tests.support.runs import run, same, sent


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_fedcac_without_critical_entries_is_fedavg(weighting):
    ours = run(FedCAC(tau=0, weighting=weighting, server=fs.server.SGD(lr=0.7)))
    same(ours, run(FedAvg(weighting=weighting, server=fs.server.SGD(lr=0.7))))


def test_fedcac_where_all_is_critical_is_uniform_fedavg_at_any_round():
    """All masks are equal, so that everybody stays a peer, long after round beta."""
    uniform = run(FedAvg(weighting="uniform"), participation=1.0)
    same(run(FedCAC(tau=1, beta=0.5, weighting="uniform"), participation=1.0), uniform)


def critical(start, end, tau):
    """The largest sensitivities of each tensor, the lower index first among equal ones."""
    change = {n: (end[n] - start[n]).abs() for n in WEIGHTS}
    rounding = 100 * 2.0**-52 * max(leaf.max() for leaf in change.values())
    masks = {}
    for n, leaf in change.items():
        values = ((leaf > rounding) * leaf * end[n].abs()).flatten().tolist()
        first = sorted(range(len(values)), key=lambda i: (-values[i], i))[
            : math.floor(Fraction(str(tau)) * len(values))
        ]
        masks[n] = torch.tensor([i in first for i in range(len(values))]).view(leaf.shape)
    return masks


def cac(tau, beta, rounds):
    """FedCAC in loops: every client's model, what the server keeps, and the last round's peers."""
    server, merged, masks = START, {}, {}

    def served(k):
        if k not in masks:
            return server
        return {n: torch.where(masks[k][n], merged[k][n], server[n]) if n in WEIGHTS else server[n] for n in server}

    def overlap(i, j):
        different = sum((masks[i][n] ^ masks[j][n]).sum() for n in WEIGHTS)
        return 1 - different / (2 * sum(masks[i][n].sum() for n in WEIGHTS))

    for t in range(1, rounds + 1):
        ids, peers = participants(0, t - 1, 6, 0.7).tolist(), {}
        start = {k: served(k) for k in ids}
        end = {k: trained(start[k], *samples(k)) for k in ids}
        masks |= {k: critical(start[k], end[k], tau) for k in ids}
        pairs = [overlap(i, j) for i in ids for j in ids if i != j]
        threshold = sum(pairs) / len(pairs) + t / beta * (max(pairs) - sum(pairs) / len(pairs))
        for i in ids:
            peers[i] = [i] + [j for j in ids if j != i and overlap(i, j) >= threshold]
            merged[i] = mean([end[j] for j in peers[i]], [1 / len(peers[i])] * len(peers[i]))
        server = mean([end[k] for k in ids], shares(ids))
    return [served(k) for k in range(6)], (server, merged, masks), peers


@pytest.mark.parametrize(("beta", "alone"), [(6.0, False), (0.5, True)], ids=["few peers", "none beyond round beta"])
def test_fedcac_is_its_loop(beta, alone):
    expected, _, peers = cac(0.3, beta, 3)
    assert {len(found) for found in peers.values()} == {1} if alone else {1} < {len(found) for found in peers.values()}
    agree(models_of(run(FedCAC(tau=0.3, beta=beta), training=FULL, participation=0.7)), expected)


def test_fedcac_finds_nothing_critical_in_what_only_rounding_moved():
    """A bias in front of a batch norm has no gradient, so that its entries are chosen by their index."""
    result = run(
        FedCAC(tau=0.5), training=fs.Training(lr=0.5, momentum=0.9, batch_size=7, local_epochs=5), participation=1.0
    )
    for name in ("conv1.bias", "conv2.bias"):
        half = START[name].numel() // 2
        assert (~state_of(result).shared[name]).int().tolist() == [[1] * half + [0] * (START[name].numel() - half)] * 6


def test_fedcac_takes_exactly_the_share_that_is_asked_for_and_ties_go_to_the_front():
    still = torch.zeros(10, 10)
    for percent in range(101):  # 0.29 * 100 is 28.999999999999996
        mask = FedCAC(tau=percent / 100)._largest(still)
        assert mask.flatten().tolist() == [True] * percent + [False] * (100 - percent)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(1, 9))
def test_fedcac_at_round_beta_keeps_the_largest_overlap_and_equal_ones_keep_all(counts, beta):
    overlap, others = torch.tensor(counts).double() / 7, torch.ones(len(counts), dtype=torch.bool)
    assert FedCAC(beta=beta)._peers(overlap, others, beta).equal(overlap == overlap.max())
    later = FedCAC(beta=beta)._peers(overlap * 7, others, 3 * beta)
    assert later.all() if len(set(counts)) == 1 else not later.any()


def test_fedcac_sends_a_model_and_a_bit_per_weight_up_and_a_model_down():
    result = run(FedCAC())
    bits = sum(-(-START[name].numel() // 8) for name in WEIGHTS)
    assert sent(result, "up") == {8 * D + bits}
    assert sent(result, "down") == {8 * D}


def test_fedcac_serves_new_clients_among_all_that_took_part():
    method = FedCAC(tau=0.3, beta=6.0)
    result = run(method, training=FULL, participation=0.7)
    _, (server, merged, masks), _ = cac(0.3, 6.0, 3)
    expected = []
    for k in range(3):
        end = trained(server, *samples(k, STRANGERS))
        mask = critical(server, end, 0.3)
        common = {j: sum(int((mask[n] & masks[j][n]).sum()) for n in WEIGHTS) for j in masks}
        average, most = sum(common.values()) / len(common), max(common.values())
        peers = [merged[j] for j in masks if common[j] - average >= 3 / 6 * (most - average)]
        own = mean([end, *peers], [1 / (1 + len(peers))] * (1 + len(peers)))
        expected.append({n: torch.where(mask[n], own[n], server[n]) if n in WEIGHTS else server[n] for n in server})
    agree(newcomers(method, result), expected)


@pytest.mark.parametrize(("argument", "value"), [("tau", 1.1), ("beta", 0.0)])
def test_arguments_out_of_range_are_named(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must .*{value}"):
        FedCAC(**{argument: value})

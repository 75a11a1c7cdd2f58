"""Local: a plain loop, and nothing that travels."""

import torch

from fedstat.federated.replicate import participants
from fedstat.methods import Local
from tests.support.layers import assert_two_rounds_are_a_loop, everything
from tests.support.runs import KEY, final, reference, run, traffic


def test_two_rounds_are_those_of_a_loop_over_clients():
    assert_two_rounds_are_a_loop(Local(), everything)


def test_who_does_not_take_part_keeps_the_common_start():
    result = run(Local(), rounds=1)
    start, end = result.network(KEY).initial(), final(result)
    moved = [k for k in range(6) if not all(torch.equal(end[name][k], leaf) for name, leaf in start.items())]
    assert moved == participants(0, 0, 6, 0.5).tolist()


def test_nothing_travels():
    for metric in ("bytes_up", "bytes_down"):
        sent = traffic(reference(Local()), metric)
        assert sent.notna().sum(axis=1).tolist() == [3, 3, 3]
        assert (sent.isna() | (sent == 0)).all(axis=None)

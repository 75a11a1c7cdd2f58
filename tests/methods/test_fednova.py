"""FedNova: a plain loop, the point that it ends at, its limit, bytes, and who is refused."""

from dataclasses import replace

import numpy as np
import pytest
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.data.quadratics import random_quadratics
from fedstat.methods import FedAvg, FedNova
from fedstat.testing import check_method
from tests.methods.test_scaffold import quadratic_clients
from tests.support.clients import image_clients, samples
from tests.support.copies import PLAIN, load, mean_of, orders, trained
from tests.support.networks import conv_net, leaves_of
from tests.support.runs import KEY, assert_close, run, same, traffic


def test_it_obeys_the_laws(examples):
    check_method(FedNova(), examples=examples)


def test_rounds_are_those_of_a_plain_loop():
    """Unequal clients, one to three epochs of batches, in plain torch: the server counts steps, not samples."""
    clients, epochs, t = image_clients(5), (1, 2, 3, 1, 2), 0
    x = None
    for now in fs.rounds(
        FedNova(), conv_net, clients, replace(PLAIN, local_epochs=epochs), participation=0.6, dtype="float64"
    ):
        (update,), (state,) = now.updates.values(), now.states.values()
        x = load(conv_net().double(), {n: leaf[0] for n, leaf in update.start.items()}) if x is None else x
        ids = update.ids.tolist()
        batches = [orders(clients, k, t, replace(PLAIN, local_epochs=epochs[k])) for k in ids]
        ends = []
        for k, mine in zip(ids, batches, strict=True):
            images, labels = samples(clients, k)
            ends.append(trained(x, lambda m, b, x=images, y=labels: F.cross_entropy(m(x[b]), y[b]), mine, PLAIN))
        p, tau = clients.train.n[ids] / clients.train.n[ids].sum(), np.array([len(mine) for mine in batches])
        assert len(set(tau)) > 1
        steps = {name for name, _ in x.named_parameters()}
        mean, before = mean_of(ends, p), leaves_of(x)
        per_step = mean_of(ends, p / tau)  # (sum p tau) sum p (y - x) / tau
        expected = {
            n: before[n] + p @ tau * (per_step[n] - (p / tau).sum() * before[n]) if n in steps else mean[n]
            for n in before
        }
        assert_close({n: state.server[n] for n in expected}, expected)
        x, t = load(x, expected), t + 1
        if t == 4:
            break


def test_clients_with_as_many_steps_are_fedavg():
    equal = image_clients(equal=True)
    same(*(run(method, clients=equal, training=PLAIN) for method in (FedNova(), FedAvg())))


@pytest.mark.parametrize("lr", [0.2, 0.05])
def test_it_ends_where_changes_per_step_cancel(lr):
    """On quadratics that point is known; for short steps it is the optimum, and FedAvg's is not."""
    quadratics = random_quadratics(clients=4, dimension=3, smoothness=1.0, convexity=0.5, heterogeneity=2.0, seed=0)
    epochs = (1, 2, 3, 4)

    def ends(per_step):
        moves = [
            (np.eye(3) - np.linalg.matrix_power(np.eye(3) - lr * h, e)) / (e if per_step else 1)
            for h, e in zip(quadratics.hessians, epochs, strict=True)
        ]
        return np.linalg.solve(sum(moves), sum(m @ c for m, c in zip(moves, quadratics.centres, strict=True)))

    result = run(
        FedNova(weighting="uniform"), 60 if lr == 0.2 else 300, clients=quadratic_clients(quadratics),
        model=lambda: nn.Linear(3, 1, bias=False), training=fs.Training(lr=lr, batch_size=3, local_epochs=epochs),
        participation=1.0, evaluate_at=(),
    )  # fmt: skip
    np.testing.assert_allclose(result.states[KEY].server["weight"][0].numpy(), ends(True), atol=1e-8)
    far = {of: np.linalg.norm(ends(of) - quadratics.optimum) for of in (True, False)}
    assert far[True] < (0.07 if lr == 0.05 else 0.5) * far[False]


def test_the_model_travels_and_one_number():
    model = sum(leaf.numel() for leaf in conv_net().state_dict().values() if leaf.is_floating_point())
    result = run(FedNova(), training=PLAIN)
    assert set(traffic(result, "bytes_down").stack().dropna()) == {8 * model}
    assert set(traffic(result, "bytes_up").stack().dropna()) == {8 * (model + 1)}


def test_momentum_is_refused():
    with pytest.raises(ValueError, match="FedNova counts plain gradient steps"):
        run(FedNova(), training=fs.Training(lr=0.1, momentum=0.9))

"""FedLC: limits, a plain loop, classes that clients lack, bytes, new clients."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fedstat as fs
from fedstat.methods import FedAvg, FedLC, FedRoD
from tests.support.clients import CLASSES, SIDE, image_clients, samples
from tests.support.copies import load, mean_of, orders, start_of, trained
from tests.support.layers import D, assert_bytes, assert_refuses_tasks_without_classes
from tests.support.networks import conv_net, leaves_of, plain_net
from tests.support.runs import KEY, TRAINING, assert_close, differ, equal, offered, reference, run, traffic


def test_without_calibration_it_is_fedavg():
    equal(run(FedLC(tau=0.0)), reference(FedAvg()), 0)


def test_on_balanced_classes_it_is_fedavg():
    """All classes of a client have the same margin; on the usual clients they have not."""
    rng = np.random.default_rng(0)
    client = np.repeat([0, 1, 2, 3], [8, 12, 16, 4])
    y = np.concatenate([rng.permutation(np.arange(n) % CLASSES) for n in (8, 12, 16, 4)])
    clients = fs.data.from_arrays(rng.normal(size=(len(y), SIDE, SIDE)), y, client, test=0)
    equal(*(run(method, clients=clients) for method in (FedLC(), FedAvg())))
    differ(reference(FedLC()), reference(FedAvg()))


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_four_rounds_are_those_of_a_plain_loop(executor):
    clients, tau = image_clients(), 0.7
    result = run(FedLC(tau=tau), 4, clients=clients, executor=executor)
    came = traffic(result, "bytes_up").notna()
    assert not came.all(axis=1).any()
    w, lacking = start_of(result), 0
    for t in range(4):
        present, ends = [k for k in came.columns if came.loc[t + 1, k]], []
        for k in present:
            x, y = samples(clients, k)
            counts = {q: y.tolist().count(q) for q in set(y.tolist())}
            lacking += len(counts) < CLASSES

            def loss(m, b, x=x, y=y, counts=counts):
                outputs = m(x[b])
                odds = {q: torch.exp(outputs[:, q] - tau / n**0.25) for q, n in counts.items()}
                own = torch.stack([odds[q][i] for i, q in enumerate(y[b].tolist())])
                return -(own / sum(odds.values())).log().mean()

            ends.append(trained(w, loss, orders(clients, k, t, TRAINING), TRAINING))
        n = clients.train.n[present]
        w = load(w, mean_of(ends, n / n.sum()))
    assert lacking
    assert_close(result.states[KEY].server, leaves_of(w))


def test_nothing_moves_the_logit_of_a_class_that_a_client_lacks():
    clients = image_clients()
    now = next(fs.rounds(FedLC(), conv_net, clients, TRAINING, dtype="float64"))
    (update,) = now.updates.values()
    for k in range(6):
        there = np.bincount(samples(clients, k)[1], minlength=CLASSES) > 0
        for name in ("head.weight", "head.bias"):
            moved = (update.end[name] != update.start[name])[k].reshape(CLASSES, -1).any(1)
            np.testing.assert_array_equal(moved, there)


def test_the_model_travels_in_each_direction():
    assert_bytes(FedLC(), D, D)


def test_new_clients_get_the_servers_model():
    result = reference(FedLC())
    (model,) = offered(FedLC(), result.states[KEY], result.federations[KEY]).items()
    assert model[0] == "global"
    for k in range(6):
        assert_close({n: leaf[k] for n, leaf in model[1].params.items()}, result.states[KEY].server, 0)


def test_tasks_without_classes_are_refused():
    assert_refuses_tasks_without_classes(FedLC())


def test_a_value_out_of_range_is_named():
    with pytest.raises(ValueError, match=r"tau must be a number in \[0, inf\), got -1"):
        FedLC(tau=-1.0)


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
@pytest.mark.parametrize(("method", "shift"), [(FedLC(), lambda n: -(n**-0.25)), (FedRoD(), torch.log)])
def test_losses_of_all_classes_stay_finite_where_clients_lack_some(method, shift, executor):
    """Label smoothing, by hand: no gradient reaches the logit of a class that a client lacks."""

    def smoothed(outputs, y):
        return F.cross_entropy(outputs, y, label_smoothing=0.1, reduction="none")

    clients, training = image_clients(), fs.Training(lr=0.1, batch_size=100, loss=smoothed)
    now = next(fs.rounds(method, plain_net, clients, training, dtype="float64", executor=executor))
    (update,) = now.updates.values()
    lacks = 0
    for k in range(len(clients)):
        x, y = samples(clients, k)
        counts = torch.bincount(y, minlength=CLASSES).double()
        module = load(plain_net().double(), {n: leaf[k] for n, leaf in update.start.items()})
        there = module(x)[:, counts > 0] + shift(counts[counts > 0])
        log_p = there - there.exp().sum(1, keepdim=True).log()
        places = (counts > 0).cumsum(0) - 1
        each = log_p.sum(1) - (counts == 0).sum() * there.exp().sum(1).log()
        loss = -(0.9 * log_p[torch.arange(len(y)), places[y]] + 0.1 / CLASSES * each).mean()
        loss.backward()
        due = {n: p.detach() - 0.1 * p.grad for n, p in module.named_parameters()}
        assert_close({n: update.end[n][k] for n in due}, due)
        lacks += int((counts == 0).sum())
    assert lacks

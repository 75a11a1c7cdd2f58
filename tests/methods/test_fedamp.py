"""FedAMP: limits, a plain loop, bytes, new clients."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.slots import slot, without_slots
from fedstat.methods import FedAMP, FedAvg, FedProx, Local
from tests.support.clients import clones, image_clients, samples
from tests.support.copies import assert_whole_models_travel, load, orders, plainly_trained, pull, start_of, trained
from tests.support.networks import leaves_of, plain_net
from tests.support.runs import FULL, KEY, STEP, TRAINING, assert_close, differ, equal, offered, run, same, traffic


def test_fedamp_without_penalty_is_local():
    method, local = run(FedAMP(penalty=0)), run(Local())
    same(method, local, 0)
    assert_close(dict(method.states[KEY].clients), dict(local.states[KEY].clients), 0)


class Averaged(FedAMP):
    """FedAMP judged by the mean of all models."""

    def models(self, state, ids, federation=None):
        mean = {name: leaf.mean(0).expand(len(ids), *leaf.shape[1:]) for name, leaf in state.clients.items()}
        return {"global": self.predictor(mean)}


def test_fedamp_that_mixes_uniformly_and_starts_there_is_uniform_fedavg():
    method = Averaged(penalty=0, alpha=1e30 / 6, scale=1e30, start="u")
    same(run(method, 3, participation=1.0), run(FedAvg(weighting="uniform"), 3, participation=1.0))


def test_fedamp_mixes_models_that_are_equal_into_themselves():
    state = run(FedAMP(), 1, model=plain_net, training=fs.Training(lr=0.0)).states[KEY]
    received = FedAMP().receive(state, torch.arange(6))
    assert_close(slot(received, "cloud"), without_slots(received), 1e-14)


def test_fedamp_mixes_clones_into_themselves():
    """One step is then Local's; further ones are pulled to where the round began, as FedProx's are."""
    method = FedAMP(penalty=0.5, alpha=1.0, scale=6.0)
    for training, limit in ((STEP, Local()), (FULL, FedProx(mu=0.5))):
        options = {"rounds": 4, "training": training, "participation": 1.0}
        equal(*(run(it, clients=clones(), **options) for it in (method, limit)))
        differ(*(run(it, **options) for it in (method, limit)))


@pytest.mark.parametrize("start", ["w", "u"])
def test_three_rounds_of_fedamp_are_those_of_a_plain_loop(start):
    clients, penalty, alpha, scale = image_clients(4), 0.3, 0.2, 0.7
    method = FedAMP(penalty=penalty, alpha=alpha, scale=scale, start=start)
    result = run(method, 3, clients=clients)
    own = [start_of(result) for _ in range(4)]
    by_round = traffic(result, "bytes_up")
    assert by_round.notna().sum(axis=1).eq(2).all()
    for t in range(3):
        before = [leaves_of(module) for module in own]
        flat = [np.concatenate([p.detach().numpy().ravel() for p in module.parameters()]) for module in own]
        for i in [k for k in by_round.columns if by_round.notna().loc[t + 1, k]]:
            xi = np.array([alpha / scale * np.exp(-np.sum((flat[i] - w) ** 2) / scale) for w in flat])
            xi[i] = 0
            xi[i] = 1 - xi.sum()
            u = {name: sum(x * w[name] for x, w in zip(xi, before, strict=True)) for name in before[i]}
            x, y = samples(clients, i)

            def near(m, b, x=x, y=y, u=u):
                return F.cross_entropy(m(x[b]), y[b]) + penalty / (2 * alpha) * pull(m, u)

            begin = load(own[i], u if start == "u" else before[i])
            own[i] = trained(begin, near, orders(clients, i, t, TRAINING), TRAINING)
    for k in range(4):
        assert_close({n: leaf[k] for n, leaf in result.states[KEY].clients.items()}, leaves_of(own[k]))


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(FedAMP())


def test_new_clients_without_a_pull_train_the_mean():
    method = FedAMP(penalty=0)
    result = run(method, 2)
    state = result.states[KEY]
    plain = plainly_trained(result, {name: stack.mean(0) for name, stack in state.clients.items()})
    assert_close(offered(method, state, result.federations[KEY])["personal"].params, plain)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedAMP(penalty=np.inf), "penalty must be a number"),
        (lambda: FedAMP(alpha=0), "alpha must be"),
        (lambda: FedAMP(start="v"), "start must be"),
        (lambda: run(FedAMP(alpha=2.0, scale=9.0)), "alpha must be at most .* = 1.8 for 6 clients"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

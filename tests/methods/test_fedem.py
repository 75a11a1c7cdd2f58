"""FedEM: limits, a plain loop, regression, bytes, new clients."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.slots import slot
from fedstat.methods import FedAvg, FedEM
from tests.support.clients import image_clients, noise_regression, samples, vector_clients
from tests.support.copies import PLAIN, assert_whole_models_travel, load, mean_of, orders, start_of, trained, weights_of
from tests.support.networks import TwoLogits, conv_net, leaves_of
from tests.support.runs import KEY, TRAINING, assert_close, offered, run, same


def test_fedem_with_one_component_is_fedavg():
    one, fedavg = run(FedEM(components=1)), run(FedAvg())
    same(one, fedavg)
    assert_close(slot(one.states[KEY].server, "0"), fedavg.states[KEY].server, 0)


class Alike(FedEM):
    """FedEM whose components start equal."""

    def leaves(self, network, federation):
        own = network.initial()
        every = {f"{m}/{name}": leaf.clone() for m in range(self.components) for name, leaf in own.items()}
        return every | {"mixture/pi": torch.full((self.components,), 1 / self.components, dtype=network.dtype)}


def test_components_that_start_alike_are_fedavg_with_a_smaller_step():
    alike = run(Alike(components=3), training=PLAIN)
    slow = fs.Training(lr=PLAIN.lr / 3, batch_size=PLAIN.batch_size, local_epochs=PLAIN.local_epochs)
    fedavg = run(FedAvg(), training=slow)
    same(alike, fedavg)
    for m in range(3):
        assert_close(slot(alike.states[KEY].server, str(m)), fedavg.states[KEY].server)
    torch.testing.assert_close(alike.states[KEY].clients["mixture/pi"], torch.full((6, 3), 1 / 3, dtype=torch.float64))


def test_two_rounds_of_fedem_are_those_of_a_plain_loop():
    clients, m_all = image_clients(3), range(3)
    result = run(FedEM(components=3), 2, clients=clients, participation=1.0)
    federation = result.federations[KEY]
    drawn = FedEM(components=3).leaves(federation.network, federation)
    theta = [load(start_of(result), slot(drawn, str(m))) for m in m_all]
    assert all(abs(drawn["0/hidden.weight"] - drawn[f"{m}/hidden.weight"]).min() > 0 for m in (1, 2))
    pi = np.full((3, 3), 1 / 3)
    for t in range(2):
        ends = [[], [], []]
        for k in range(3):
            x, y = samples(clients, k)
            with torch.no_grad():
                likelihood = np.stack([copy.deepcopy(c).eval()(x).softmax(-1)[range(len(y)), y] for c in theta], axis=1)
            q = likelihood * pi[k] / (likelihood @ pi[k])[:, None]
            pi[k] = q.mean(0)
            for m in m_all:

                def weighted(module, b, x=x, y=y, q=q[:, m]):
                    losses = F.cross_entropy(module(x[b]), y[b], reduction="none")
                    return (torch.from_numpy(q[b]) * losses).sum() / len(b)

                ends[m].append(trained(theta[m], weighted, orders(clients, k, t, TRAINING), TRAINING))
        theta = [load(theta[m], mean_of(ends[m], weights_of(clients))) for m in m_all]
    state = result.states[KEY]
    for m in m_all:
        assert_close(slot(state.server, str(m)), leaves_of(theta[m]))
    np.testing.assert_allclose(state.clients["mixture/pi"], pi, atol=1e-10)
    x, _ = samples(clients, 0)
    mixed = sum(p * c.eval()(x).softmax(-1) for p, c in zip(pi[0], theta, strict=True))
    torch.testing.assert_close(result.personal(0)(x).exp(), mixed, rtol=0, atol=1e-10)


def test_fedem_in_regression_weighs_by_gaussian_likelihood_and_predicts_the_mean():
    clients = noise_regression()
    result = run(FedEM(components=2), 1, clients=clients, model=fs.models.mlp(3, 4, 1), participation=1.0)
    network, state = result.federations[KEY].network, result.states[KEY]
    drawn = FedEM(components=2).leaves(network, result.federations[KEY])
    x, y = samples(clients, 1)
    h = torch.cat([network(slot(drawn, str(m)), x) for m in range(2)], dim=1)
    density = torch.distributions.Normal(h, 1.0).log_prob(y[:, None]).exp()
    pi = (density / density.sum(1, keepdim=True)).mean(0)
    torch.testing.assert_close(state.clients["mixture/pi"][1], pi, rtol=0, atol=1e-10)
    h = torch.cat([network(slot(state.server, str(m)), x) for m in range(2)], dim=1)
    torch.testing.assert_close(result.personal(1)(x)[:, 0], h @ pi, rtol=0, atol=1e-10)


def test_one_output_with_the_logistic_loss_is_two_logits_with_cross_entropy():
    models = fs.models.mlp(3, 5, 1), TwoLogits
    same(*(run(FedEM(components=2), 3, clients=vector_clients(), model=model) for model in models))


def test_its_components_travel_in_each_direction():
    assert_whole_models_travel(FedEM(components=3), 3)


def test_a_new_client_of_fedem_gets_the_most_likely_mixture_of_unchanged_components():
    result = run(FedEM(components=2), 3)
    federation, state = result.federations[KEY], result.states[KEY]
    new = offered(FedEM(components=2), state, federation)["personal"].params
    torch.testing.assert_close(new["mixture/pi"].sum(1), torch.ones(6, dtype=torch.float64))
    for k in range(6):
        assert_close({n: leaf[k] for n, leaf in new.items() if n != "mixture/pi"}, {
            n: leaf for n, leaf in state.server.items() if n != "mixture/pi"
        }, 0)  # fmt: skip
        x, y = samples(federation.clients, k)
        p = np.stack([
            federation.network(slot(state.server, str(m)), x).softmax(-1)[range(len(y)), y].numpy() for m in range(2)
        ])  # fmt: skip
        grid = np.linspace(0, 1, 2001)
        likelihood = np.log(np.outer(grid, p[0]) + np.outer(1 - grid, p[1])).sum(1)
        pi = new["mixture/pi"][k].numpy()
        assert np.log(pi @ p).mean() >= likelihood.max() / len(y) - 1e-4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedEM(components=0), "components must be a whole"),
        (lambda: run(FedEM(), model=conv_net()), "needs? a function"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""Which way a method's clients train, as `fs.describe` and a run's log say it."""

from dataclasses import dataclass

import pytest

import fedstat as fs
from tests.support.clients import image_clients
from tests.support.networks import conv_net


@dataclass(frozen=True, kw_only=True)
class Doubled(fs.Method):
    def objective(self, learner, params, batch, context):
        return 2 * learner.loss(params, batch)


def own_loss(outputs, y):
    return (outputs.squeeze(-1) - y).abs()


DENSE = fs.models.mlp(5, 8, 1)


@pytest.mark.parametrize(
    ("method", "settings", "options", "words"),
    [
        (fs.FedAvg(), {}, {"chunk": 3}, "stacked clients, at most 3 at once; closed form: a chain of dense layers"),
        (fs.methods.SCAFFOLD(), {}, {}, "chain of dense layers, step by step: SCAFFOLD has its own gradient"),
        (Doubled(), {}, {}, "general path: Doubled has its own objective"),
        (fs.methods.FedDecomp(), {"local_epochs": 2}, {}, "general path: FedDecomp makes weights of parts"),
        (fs.FedAvg(), {"loss": own_loss}, {}, "general path: the loss is one's own"),
        (fs.FedAvg(), {"loss": own_loss}, {"executor": "per-client"}, "by itself; closed form: a chain of layers"),
        (Doubled(), {}, {"executor": "per-client"}, "by itself; general path: Doubled has its own objective"),
    ],
)
def test_the_log_says_how_clients_train(method, settings, options, words, capsys):
    clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    training = fs.Training(lr=0.1, **settings)
    fs.federate({"it": method}, DENSE, clients, training, rounds=1, progress="lines", **options)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith("it: ")
    assert words in first
    assert not any("it: " in line and "path" in line for line in rest)


def test_a_description_says_how_clients_train():
    described = fs.describe(fs.FedAvg(), DENSE)
    assert described.route in repr(described)
    assert "closed form" in described.route
    assert "each client by itself" not in described.route
    assert "the network is no chain of dense layers" in fs.describe(fs.FedAvg(), conv_net, image_clients()).route

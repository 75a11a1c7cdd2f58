"""What `fs.federate` takes, and in which words it refuses what it cannot run."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import fedstat as fs
from tests.support import mixture


def test_frozen_parameters_stay_and_unused_ones_do_no_harm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.head, self.idle = nn.Linear(8, 5), nn.Linear(5, 1), nn.Linear(2, 2)
            self.frozen.requires_grad_(False)

        def forward(self, x):
            return self.head(torch.relu(self.frozen(x)))

    module = Net()
    result = fs.federate(fs.FedAvg(), module, mixture.clients(), fs.Training(lr=0.5), rounds=2)
    trained = result.personal(0)
    assert torch.equal(trained.frozen.weight, module.frozen.weight)
    assert torch.equal(trained.idle.weight, module.idle.weight)
    assert not torch.equal(trained.head.weight, module.head.weight)


class Gained(nn.Module):
    """A network whose gain and offset have any shape."""

    def __init__(self, *shape):
        super().__init__()
        self.hidden, self.head = nn.Linear(8, 5), nn.Linear(5, 1)
        self.gain, self.offset = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))

    def forward(self, x):
        return self.head(self.offset + self.gain * torch.relu(self.hidden(x)))


@pytest.mark.parametrize("method", [fs.FedAvg(), fs.methods.FedAMP(), fs.methods.ClusteredFL(), fs.methods.FedCAC()])
@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_a_parameter_without_axes_trains_as_one_with_an_axis_of_one(method, executor):
    training = fs.Training(lr=0.3, batch_size=8, clip_norm=0.2)

    def go(*shape):
        module = Gained(*shape)
        module.load_state_dict({n: w.reshape(module.state_dict()[n].shape) for n, w in weights.items()})
        options = {"rounds": 3, "dtype": "float64", "executor": executor, "progress": False}
        result = fs.federate({"it": method}, module, mixture.clients(), training, **options)
        return result.history["value"], fs.newcomers(result, mixture.clients(seed=1))["value"], result.personal(0)

    torch.manual_seed(0)
    weights = Gained().state_dict()
    (without, offered, model), (expected, all_of, _) = go(), go(1)
    np.testing.assert_allclose(without, expected, atol=1e-12)
    np.testing.assert_allclose(offered, all_of, atol=1e-12)
    assert model.gain != 1


def test_who_holds_a_parameter_without_axes_is_told():
    table = fs.describe(fs.Local(), Gained, mixture.clients()).table
    assert table.set_index("leaf").loc["gain", "holder"] == "client"


@pytest.mark.parametrize("shape", [(0,), (0, 8), (3, 0)])
def test_a_parameter_that_holds_no_numbers_is_refused_by_name(shape):
    class Marked(nn.Linear):
        def __init__(self, mark):
            super().__init__(8, 1)
            self.mark = mark

    def go(kind):
        model = Marked(kind(torch.zeros(shape)))
        fs.federate(fs.methods.FedCAC(), model, mixture.clients(), fs.Training(lr=0.1), rounds=1)

    with pytest.raises(ValueError, match=rf"'mark' of the network has shape {re.escape(str(shape))}, which holds no"):
        go(nn.Parameter)
    go(nn.Buffer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mixture.run(fs.FedAvg), "Did you pass the class"),
        (lambda: mixture.run(fs.FedAvg(), participation=0.0), r"participation must be a number in \(0, 1\]"),
        (lambda: mixture.run(fs.FedAvg(), participation=1.5), r"participation must be a number in \(0, 1\]"),
        (lambda: mixture.run(fs.FedAvg(), seed=[1, 1]), "different non-negative integers"),
        (lambda: mixture.run(fs.FedAvg(), seed="12"), "different non-negative integers"),
        (lambda: mixture.run(fs.FedAvg(), seed=1.7), "different non-negative integers"),
        (lambda: mixture.run(fs.FedAvg(), rounds=2.5), "rounds must be a whole number"),
        (lambda: mixture.run(fs.FedAvg(), evaluate_at=1), "evaluate_at must hold rounds"),
        (lambda: mixture.run({1: fs.FedAvg()}), "labels of methods must be text|fedstat Method"),
        (lambda: fs.Training(lr=0.1, batch_size=2.5), "batch_size must be a whole number"),
        (lambda: mixture.run(fs.FedAvg(), evaluate_at=[9]), "rounds between 0 and 4"),
        (lambda: mixture.run(fs.FedAvg(), chunk=0), "chunk must be a whole number, at least 1"),
    ],
)
def test_bad_input_names_argument_value_and_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_networks_that_do_not_fit_are_refused():
    clients = mixture.clients()
    with pytest.raises(ValueError, match="momentum a number"):
        fs.federate(
            fs.FedAvg(),
            lambda: nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 1)),
            clients,
            mixture.TRAINING,
            rounds=1,
        )
    for model, loss, message in (
        (fs.models.mlp(8, 4, 3), "logistic", "needs a network with 1 output, this one has 3"),
        (fs.models.mlp(8, 4, 1), "cross_entropy", "2 classes need a network with 2 outputs"),
        (fs.models.mlp(8, 4, 1), "squared", "targets are class labels"),
    ):
        with pytest.raises(ValueError, match=message):
            fs.federate(fs.FedAvg(), model, clients, fs.Training(lr=0.1, loss=loss), rounds=1)
    few = fs.federate(fs.FedAvg(), fs.models.mlp(8, 4, 2), clients, fs.Training(lr=0.1), rounds=1)
    x = clients.train.x[:10]
    with pytest.raises(ValueError, match=r"classes \[1\], the run had .*from_indices\(\.\.\., classes=\[0, 1\]\)"):
        fs.newcomers(few, fs.data.from_arrays(x, np.ones(10, int), np.arange(10) % 2))
    with pytest.raises(ValueError, match=r"classes \[2\], the run had \[0, 1\]\.$"):
        fs.newcomers(few, fs.data.from_arrays(x, np.full(10, 2), np.arange(10) % 2))
    with pytest.raises(ValueError, match="does not take inputs of shape"):
        fs.federate(fs.FedAvg(), fs.models.mlp(9, 4, 1), clients, mixture.TRAINING, rounds=1)


def test_outputs_without_their_axis_are_refused():
    class Squeezed(nn.Linear):
        def forward(self, x):
            return super().forward(x).squeeze(-1)

    with pytest.raises(ValueError, match=r"one output to \(B, 1\); for B = 2 it returns \(2,\)"):
        fs.federate(fs.FedAvg(), lambda: Squeezed(8, 1), mixture.clients(), mixture.TRAINING, rounds=1)


def test_divergence_names_round_client_and_learning_rate():
    x = np.array([[1e20], [2e20], [1e20], [3e20]])
    clients = fs.data.from_arrays(x, np.array([1e20, -1e20, 3e20, 0.0]), np.array([0, 0, 1, 1]), test=0.0)
    with pytest.raises(
        FloatingPointError, match=r"client 0 \(seed 0\) became infinite or NaN in round 1 under FedAvg at lr=10"
    ):
        fs.federate(fs.FedAvg(), fs.models.mlp(1, 1), clients, fs.Training(lr=10.0), rounds=2)

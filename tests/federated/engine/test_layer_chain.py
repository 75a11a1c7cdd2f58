"""Gradients of a chain of layers in closed form, against autograd through the module."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.client.layers import layers_of
from fedstat.federated.client.local import Batch, Learner
from fedstat.federated.client.losses import LOSSES
from fedstat.federated.client.network import build
from fedstat.federated.engine import layer_chain
from fedstat.federated.engine.layer_chain import chain_of
from fedstat.federated.route import Route, overrides
from tests.support.clients import CLASSES, SIDE, image_clients
from tests.support.named import NAMED
from tests.support.networks import conv_net
from tests.support.runs import TRAINING, run

small = fs.models.cnn(SIDE, CLASSES, channels=(4, 5), hidden=5)


def settings():
    """Convolutions and pooling with every setting, layers within layers, and one used twice."""
    twice = nn.ReLU(inplace=True)
    return nn.Sequential(
        nn.Identity(),
        nn.Sequential(nn.Conv2d(2, 6, 3, stride=(1, 2), padding=(2, 1), dilation=(2, 1), groups=2), twice),
        nn.MaxPool2d(3, stride=(1, 2), padding=1, dilation=(2, 1), ceil_mode=True),
        nn.Conv2d(6, 4, (2, 3), bias=False),
        nn.Tanh(),
        nn.MaxPool2d((2, 1)),
        nn.Sequential(nn.Flatten(2), nn.Linear(6, 3), twice, nn.Flatten(), nn.Linear(12, 5, bias=False)),
        nn.Linear(5, 3),
    )


def normed():
    """Batch norms before and after other layers, with pooling of every kind behind them, and without scales."""
    layers = nn.Sequential(
        nn.BatchNorm2d(2),
        nn.Conv2d(2, 5, 3, padding=1, bias=False),
        nn.BatchNorm2d(5, eps=0.1, momentum=0.3),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Conv2d(5, 4, 3),
        nn.BatchNorm2d(4),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(4, eps=0.1, affine=False),
        nn.MaxPool2d((1, 2), stride=1),
        nn.Tanh(),
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.Flatten(),
        nn.Linear(4, 3),
        nn.BatchNorm1d(3),
    )
    with torch.no_grad():
        for scale, values in ((layers[2], (2.0, 0.5, 1.0, 3.0, 0.1)), (layers[6], (1.0, -2.0, 0.5, 0.0))):
            scale.weight.copy_(torch.tensor(values))  # maxima come first unless a scale is not positive
    return layers


CHAINS = {
    "two_conv": (fs.models.two_conv(3, side=16, widths=(3, 4), hidden=6), (16, 16)),
    "cnn": (small, (SIDE, SIDE)),
    "mlp": (fs.models.mlp(7, 5, 3), (7,)),
    "settings": (settings, (2, 9, 12)),
    "one layer": (lambda: nn.Linear(4, 3), (4,)),
    "cnn with norm": (fs.models.cnn(SIDE, 3, channels=(4, 5), hidden=5, norm=True), (SIDE, SIDE)),
    "norms": (normed, (2, 9, 12)),
}


def problem(model, shape, loss="cross_entropy", dtype=torch.float64, samples=6):
    network = build(model, np.random.default_rng(0), dtype)
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.normal(size=(samples, *shape))).to(dtype)
    y = torch.from_numpy(rng.integers(3 if loss == "cross_entropy" else 2, size=samples))
    batch = Batch(x, y, torch.ones(samples, dtype=torch.bool), torch.arange(samples), full=True)
    return Learner(network, loss if isinstance(loss, str) else "cross_entropy", LOSSES.get(loss, loss)), batch


def by_autograd(learner, params, batch, names):
    leaves = {name: params[name].clone().requires_grad_() for name in names}
    loss = learner.loss(params | leaves, batch)
    found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return dict(zip(names, found, strict=True))


def assert_same(learner, batch, names, atol):
    params, others = learner.network.initial(), learner.network.initial()
    finite, grads = chain_of(learner.network).gradients(learner, params, names, batch)
    slopes = by_autograd(learner, others, batch, names)
    assert finite
    assert list(grads) == list(names)
    for name, slope in slopes.items():
        torch.testing.assert_close(grads[name], slope, rtol=0, atol=atol, msg=name)
    for name in learner.network.statistics:
        assert (params[name] != learner.network.initial()[name]).any()
        torch.testing.assert_close(params[name], others[name], rtol=0, atol=atol, msg=name)


@pytest.mark.parametrize(("model", "shape"), CHAINS.values(), ids=CHAINS)
def test_gradients_equal_autograd(model, shape):
    learner, batch = problem(model, shape)
    leaves = learner.network.trainable
    for names in (leaves, leaves[::2], leaves[-1:], leaves[:1]):
        assert_same(learner, batch, names, 1e-12 if learner.network.norm_leaves else 1e-14)


@pytest.mark.parametrize("loss", ["logistic", "squared", lambda h, y: F.cross_entropy(h, y, reduction="none") ** 2])
def test_every_loss_has_its_gradient(loss):
    outputs = 1 if isinstance(loss, str) else 2
    learner, batch = problem(fs.models.cnn(SIDE, outputs), (SIDE, SIDE), loss)
    assert_same(learner, batch, learner.network.trainable, 1e-14)


def test_padding_of_a_batch_counts_for_nothing():
    learner, batch = problem(small, (SIDE, SIDE))
    padded = replace(batch, valid=torch.arange(6) < 4, full=False)
    assert_same(learner, padded, learner.network.trainable, 1e-14)


def test_batch_norm_counts_no_padding_and_takes_a_single_sample():
    learner, batch = problem(*CHAINS["cnn with norm"])
    for valid in (torch.arange(6) < 4, torch.arange(6) < 1):
        assert_same(learner, replace(batch, valid=valid, full=False), learner.network.trainable, 1e-13)
    learner, batch = problem(lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), (4,), samples=1)
    assert_same(learner, batch, learner.network.trainable, 0)


def test_single_precision_differs_by_rounding():
    learner, batch = problem(fs.models.two_conv(3, widths=(3, 4), hidden=30), (28, 28), dtype=torch.float32)
    assert_same(learner, batch, learner.network.trainable, 1e-7)


def test_ties_go_the_same_way_before_and_after_relu():
    # whole numbers: sums are exact, so that every bit must agree, whatever the order; most maxima are tied or negative
    learner, batch = problem(small, (SIDE, SIDE), "squared")
    network = learner.network
    rng = np.random.default_rng(2)
    for leaf in network.module.parameters():
        leaf.data = torch.from_numpy(rng.integers(-2, 2, leaf.shape)).double()
    learner = replace(learner, losses=lambda outputs, y: (outputs.sum(-1) - y).square() / 2)
    batch = replace(batch, x=torch.from_numpy(rng.integers(-1, 2, batch.x.shape)).double()[:4], y=batch.y[:4])
    batch = replace(batch, valid=batch.valid[:4], rows=batch.rows[:4])
    assert_same(learner, batch, network.trainable, 0)


class Own(fs.FedAvg):
    def objective(self, learner, params, batch, context):
        return learner.loss(params, batch)


class Doubled(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked():
    module = small()
    module.head.register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)
    return module


def tied():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


def frozen():
    module = small()
    module.conv1.weight.requires_grad_(False)
    return module


OTHERS = {
    "no Sequential": conv_net,
    "residual blocks": fs.models.resnet8(CLASSES),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)),
    "another forward pass": lambda: Doubled(nn.Linear(4, 2)),
    "a hook": hooked,
    "tied weights": tied,
    "frozen weights": frozen,
    "padding by its name": lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding="same")),
    "padding with values": lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")),
}


@pytest.mark.parametrize("model", OTHERS.values(), ids=OTHERS)
def test_what_is_no_plain_chain_takes_the_general_path(model):
    assert chain_of(build(model, np.random.default_rng(0))) is None


def test_weights_of_parts_and_mixed_precision_take_the_general_path():
    network = build(small, np.random.default_rng(0))
    assert [type(layer) for _, layer in layers_of(network.module)][1:4] == [nn.Conv2d, nn.ReLU, nn.MaxPool2d]
    assert chain_of(network) is not None
    assert chain_of(replace(network, mixed=True)) is None
    parts = fs.methods.FedDecomp().parameterize(network, np.random.default_rng(0))
    assert parts.forms
    assert chain_of(parts) is None


@pytest.fixture
def taken(monkeypatch):
    """How many steps took the closed form."""
    calls, gradients = [], layer_chain.Chain.gradients

    def counted(self, *args):
        calls.append(args)
        return gradients(self, *args)

    monkeypatch.setattr(layer_chain.Chain, "gradients", counted)
    return calls


def both(method, monkeypatch, **options):
    """A run with the closed form, and one without."""
    options = {"model": small, "executor": "per-client", "rounds": 2, "training": TRAINING} | options
    rounds = options.pop("rounds")
    fast = run(method, rounds, **options)
    with monkeypatch.context() as patch:
        patch.setattr(Route, "layers", None)
        return fast, run(method, rounds, **options)


def assert_equal_runs(fast, general, atol):
    for state, other in zip(fast.states.values(), general.states.values(), strict=True):
        everyone = torch.arange(len(image_clients()))
        for leaves, expected in ((state.server, other.server), (state.memory, other.memory)):
            for name, leaf in leaves.items():
                torch.testing.assert_close(leaf, expected[name], rtol=0, atol=atol, msg=name)
        if state.clients:
            for name, leaf in state.clients.rows(everyone).items():
                torch.testing.assert_close(leaf, other.clients.rows(everyone)[name], rtol=0, atol=atol, msg=name)
    np.testing.assert_allclose(fast.history["value"], general.history["value"], rtol=0, atol=10 * atol)


#: Methods that make weights of parts, or another objective; all others train chains in closed form.
GENERAL = {
    "APFL", "FactorizedFL", "FedALA", "FedDecomp", "FedEM", "FedLC", "FedPAC", "FedPara", "FedProto", "FedRoD",
    "FilterDecomp", "MOON", "PFedGate", "PFedSD",
}  # fmt: skip
CHAINED = sorted(NAMED - GENERAL)


@pytest.mark.filterwarnings("ignore:kappa = 0.5 asks for more factors")
@pytest.mark.parametrize("name", CHAINED)
def test_every_method_trains_as_by_autograd(name, monkeypatch, taken):
    cls = fs.methods.find(name)
    plain = replace(TRAINING, momentum=0.0)
    for norm in (False, True):
        if name == "FedBN" and not norm:  # it has nothing to do there
            continue
        model = fs.models.cnn(SIDE, CLASSES, channels=(4, 5), hidden=5, norm=norm)
        options = {"training": plain if name in ("FedNova", "SCAFFOLD") else TRAINING, "model": model}
        fast, general = both(cls(**cls.example), monkeypatch, **options)
        assert taken
        assert_equal_runs(fast, general, 1e-11 if norm else 1e-12)


def test_other_objectives_and_parts_take_the_general_path(taken):
    methods = {name: fs.methods.find(name) for name in NAMED}
    own = {name for name, cls in methods.items() if overrides(cls(**cls.example), "objective")}
    assert own < GENERAL
    for method in (Own(), fs.methods.FedRoD(), fs.methods.FedDecomp()):
        run(method, 1, model=small, executor="per-client")
    run(fs.FedAvg(), 1, model=small, executor="stacked")
    assert not taken


def test_settings_of_local_training_apply(monkeypatch, taken):
    adam = fs.Training(
        lr=0.01, optimizer="adam", batch_size=7, weight_decay=0.1, clip_norm=0.5, schedule=fs.schedules.Cosine(rounds=4)
    )
    assert_equal_runs(*both(fs.FedAvg(), monkeypatch, training=adam), 1e-12)
    assert_equal_runs(*both(fs.methods.FedAvg(fine_tune=1, part="head"), monkeypatch), 1e-12)
    assert taken


def test_workers_change_no_bit_and_runs_repeat(taken):
    results, before = [], torch.get_num_threads()
    try:
        for count in (1, 3, 3):
            torch.set_num_threads(count)
            results.append(run(fs.FedAvg(), model=small, executor="per-client", dtype="float32"))
    finally:
        torch.set_num_threads(before)
    assert taken
    for other in results[1:]:
        assert_equal_runs(results[0], other, 0)


def test_divergence_is_found(taken):
    with pytest.raises(FloatingPointError, match=r"client \d .*round 1 under FedAvg at lr=1e\+200"):
        run(fs.FedAvg(), model=small, training=fs.Training(lr=1e200, batch_size=5), executor="per-client")
    assert taken

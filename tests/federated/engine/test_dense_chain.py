"""Training of chains of dense layers in closed form against the general path, and what counts as a chain."""

import os
import signal
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrize

import fedstat as fs
from fedstat.federated.client.local import Learner, Phase
from fedstat.federated.client.losses import LOSSES
from fedstat.federated.client.network import build
from fedstat.federated.client.samples import Job, StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.engine import dense_chain, descent
from fedstat.federated.engine.dense_chain import chain_of
from fedstat.federated.engine.executor import Stacked
from fedstat.federated.route import Equipment, Route, overrides
from tests.support.clients import vector_clients
from tests.support.named import NAMED
from tests.support.runs import final, run, train_once

#: Clients of unequal size, batches that they do not fill.
SIZES = (9, 2, 14, 5, 9)
PLAIN = fs.Training(lr=0.2, batch_size=4, local_epochs=3)
#: Every built-in method whose objective is the plain loss.
METHODS = {
    name: method
    for name, method in ((n, fs.methods.find(n)(**fs.methods.find(n).example)) for n in fs.methods.available())
    if not overrides(method, "objective")
}


@pytest.fixture
def general(monkeypatch):
    """Train something by the general path."""

    def trained(work):
        with monkeypatch.context() as patched:
            patched.setattr(Route, "dense", None)
            return work()

    return trained


@pytest.fixture
def counted(monkeypatch):
    """How many phases were trained in blocks, and how many gradients had a closed form otherwise."""
    counts = {"phases": 0, "gradients": 0}

    def count(owner, name, what):
        true = getattr(owner, name)

        def counting(*args, **kwargs):
            counts[what] += 1
            return true(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(descent.Descent, "run", "phases")
    count(dense_chain.Chain, "gradients", "gradients")
    return counts


def network_of(model, dtype=torch.float64):
    return build(model, np.random.default_rng(1), dtype)


def trained(
    network,
    settings=PLAIN,
    *,
    loss="cross_entropy",
    sizes=SIZES,
    shape=(6,),
    method=None,
    chunk=None,
    pixels=False,
    **how,
):
    """The leaves of some clients, each from a start of its own, after a round."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(len(sizes), max(sizes), *shape))
    x = rng.integers(256, size=x.shape, dtype=np.uint8) if pixels else x
    y = rng.normal(size=x.shape[:2]) if loss == "squared" else rng.integers(2, size=x.shape[:2])
    samples = StackedSamples.stack([fs.data.Samples.from_rows(x, y, np.array(sizes))], network.dtype, "cpu")
    start = {
        name: leaf + 0.1 * torch.randn(len(sizes), *leaf.shape, generator=torch.Generator().manual_seed(2)).to(leaf)
        for name, leaf in network.initial().items()
    }
    jobs = [Job(k, Seeds(3), k) for k in range(len(sizes))]
    return train_once(
        method or fs.FedAvg(), Learner(network, loss), settings, samples, start, jobs, 1, Stacked(chunk), **how
    )


def assert_close(here, there, atol=1e-12):
    assert here.keys() == there.keys()
    for name, leaf in here.items():
        torch.testing.assert_close(leaf, there[name], rtol=0, atol=atol)


@pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")
@pytest.mark.parametrize("momentum", [0.0, 0.5], ids=["plain steps", "momentum"])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_with_the_plain_loss_ends_as_on_the_general_path(method, momentum, general, counted):
    model = type(method).example_model or fs.models.mlp(3, 5, 2)
    settings = replace(PLAIN, momentum=momentum)

    def work():
        result = run(method, model=model, clients=vector_clients(), training=settings)
        return result, fs.newcomers(result, vector_clients(seed=1))["value"]

    try:
        (fast, new), before = work(), sum(counted.values())
    except ValueError as error:  # a method that counts or corrects plain steps says that it refuses momentum
        if not (momentum and "plain gradient steps" in str(error)):
            raise
        return
    (slow, known), after = general(work), sum(counted.values())
    made_of_parts = overrides(method, "parameterize")
    assert (before > 0) != made_of_parts
    assert after == before
    assert_close(final(fast), final(slow))
    np.testing.assert_allclose(fast.history["value"], slow.history["value"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(new, known, rtol=0, atol=1e-12)


def test_the_methods_that_are_as_fast_as_can_be():
    slow = NAMED - {*METHODS}
    assert slow == {
        "APFL", "FactorizedFL", "FedALA", "FedEM", "FedLC", "FedPAC", "FedProto", "FedRoD", "FilterDecomp", "MOON",
        "PFedGate", "PFedSD",
    }  # fmt: skip


class Remembers:
    """An optimiser of one's own, which keeps the last gradient as it was handed out."""

    def start(self, params):
        return {name: torch.zeros_like(leaf) for name, leaf in params.items()}

    def step(self, params, grads, state):
        directions = {name: g + state[name] / 2 for name, g in grads.items()}
        state.update(grads)
        return directions, 1.0


EACH = (0.1, 0.2, 0.3, 0.0, 0.4)
SETTINGS = {
    "sgd": PLAIN,
    "whole batches": replace(PLAIN, batch_size=100),
    "decays": replace(PLAIN, weight_decay=0.3, lr_decay=0.5),
    "schedule": replace(PLAIN, schedule=lambda round, step: 1 / (1 + step)),
    "of each client": replace(PLAIN, lr=EACH, local_epochs=(1, 4, 2, 3, 5)),
    "of each client, with decay": replace(PLAIN, lr=EACH, local_epochs=(1, 4, 2, 3, 5), weight_decay=0.3),
    "momentum, clipped": replace(PLAIN, momentum=0.9, clip_norm=0.1, weight_decay=0.1),
    "adamw": replace(PLAIN, optimizer="adamw", lr=0.01, local_epochs=(1, 4, 2, 3, 5)),
    "own": replace(PLAIN, optimizer=Remembers()),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(
    ("loss", "model"),
    [
        ("cross_entropy", fs.models.mlp(6, 5, 3)),
        ("logistic", fs.models.mlp(6, 7, 4, 1)),
        ("squared", lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 4), nn.Linear(4, 1))),
        ("cross_entropy", nn.Sequential(nn.Linear(6, 2))),
    ],
    ids=["classes", "two hidden layers", "tanh", "one layer"],
)
def test_training_is_that_of_the_general_path(loss, model, settings, general, counted):
    network = network_of(model)
    fast = trained(network, settings, loss=loss)
    assert counted == {"phases": 1, "gradients": 0}
    assert_close(fast, general(lambda: trained(network, settings, loss=loss)))
    single = network_of(model, torch.float32)
    assert_close(trained(single, settings, loss=loss), general(lambda: trained(single, settings, loss=loss)), 2e-5)


class Held(fs.Method):
    """Weights that are pulled to what was received, in proportion to their distance, and kept in a box."""

    mu: float = 0.7

    def pull(self, params, context):
        assert params["head.weight"].dim() == 2
        away = {name: leaf - context.received[name] for name, leaf in params.items() if name != "head.bias"}
        return {name: self.mu * leaf * leaf.norm() for name, leaf in away.items()}

    def constrain(self, params, context):
        return {"head.weight": params["head.weight"].clamp(-0.1, 0.1)}


class HeldByObjective(Held):
    """The same, its pull the gradient of a term of the objective."""

    def pull(self, params, context):
        return {}

    def objective(self, learner, params, batch, context):
        away = [leaf - context.received[name] for name, leaf in params.items() if name != "head.bias"]
        return learner.loss(params, batch) + self.mu / 3 * sum((leaf.square().sum() + 1e-30) ** 1.5 for leaf in away)


class Idle(Held):
    """It pulls with no strength, and puts nothing back."""

    mu = 0.0

    def constrain(self, params, context):
        return {}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_pull_and_constraint_are_those_of_the_general_path(settings, threads, general, counted, monkeypatch):
    network, before = network_of(fs.models.mlp(6, 5, 3)), torch.get_num_threads()
    monkeypatch.setattr(descent, "BLOCK_BYTES", 2 * network.bytes + 1)
    torch.set_num_threads(threads)
    try:
        fast, idle, plain = (trained(network, settings, method=method) for method in (Held(), Idle(), fs.FedAvg()))
        assert counted == {"phases": 3, "gradients": 0}
        assert_close(fast, general(lambda: trained(network, settings, method=Held())))
        assert_close(fast, trained(network, settings, method=HeldByObjective()))
    finally:
        torch.set_num_threads(before)
    assert_close(idle, plain, 0)
    assert fast["head.weight"].abs().max() <= 0.1 < plain["head.weight"].abs().max()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_pull_may_return_the_leaves_themselves(momentum, counted):
    class Ridge(fs.Method):
        def pull(self, params, context):
            return params

    network, settings = network_of(fs.models.mlp(6, 5, 3)), replace(PLAIN, momentum=momentum)
    decayed = trained(network, replace(settings, weight_decay=1.0))
    assert_close(trained(network, settings, method=Ridge()), decayed)
    assert counted["phases"] == 2


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, r"Wrong\.pull must return a dict of tensors by leaf, got NoneType"),
        ({"head": torch.zeros(3)}, r"Wrong\.pull: 'head' must have one of the leaves hidden\.weight, .*, got shape"),
        ({"head.bias": torch.zeros(4)}, r"Wrong\.pull: 'head\.bias' must have shape \(3,\), got shape \(4,\)"),
    ],
    ids=["nothing", "another leaf", "another shape"],
)
def test_what_a_pull_returns_is_checked(found, message):
    class Wrong(fs.Method):
        def pull(self, params, context):
            return found

    with pytest.raises(ValueError, match=message):
        trained(network_of(fs.models.mlp(6, 5, 3)), method=Wrong())


def test_a_phase_whose_slot_holds_no_model_is_refused():
    network = network_of(fs.models.mlp(6, 5, 3))
    with pytest.raises(ValueError, match=r"names leaves \['other/head\.bias', .* that it has not received"):
        trained(network, phases=(Phase(network.trainable, slot="other"),))


def test_phases_rates_of_leaves_masks_and_images(general, counted):
    network = network_of(fs.models.mlp(6, 7, 4, 3))
    rates = {name: 0.05 * (i + 1) for i, name in enumerate(network.trainable)}
    phases = (
        Phase(network.head_leaves, epochs=2, steps=3),
        Phase(("hidden1.weight", "hidden2.bias"), first_epoch=0),
        Phase(network.trainable, lr=rates),
    )
    masks = {"hidden2.weight": torch.rand(5, 4, 7) > 0.5}
    for how in ({}, {"phases": phases}, {"phases": phases, "moves": masks}):
        fast = trained(network, shape=(2, 3), pixels=True, **how)
        assert_close(fast, general(lambda how=how: trained(network, shape=(2, 3), pixels=True, **how)))
    assert counted["phases"] == 1 + 3 + 2
    assert counted["gradients"]
    start = trained(network, replace(PLAIN, lr=0.0))
    head = trained(network, phases=phases[:1])
    for name, leaf in head.items():
        assert torch.equal(leaf, start[name]) != (name in network.head_leaves)


def test_gradients_of_a_methods_own_step(general, counted):
    class Averaged(fs.Method):
        batches = 2

        def gradient(self, grad, params, batches, context):
            first = grad(params, batches[0])
            second = grad({name: leaf - 0.1 * first.get(name, 0) for name, leaf in params.items()}, batches[1])
            return {name: (first[name] + second[name]) / 2 for name in first}

    network = network_of(fs.models.mlp(6, 5, 3))
    assert_close(trained(network, method=Averaged()), general(lambda: trained(network, method=Averaged())))
    assert counted == {"phases": 0, "gradients": counted["gradients"]}
    assert counted["gradients"]


def test_a_leaf_that_the_loss_does_not_see_takes_the_general_path(general, counted):
    class Carries(fs.Method):
        def leaves(self, network, federation):
            return {**network.initial(), "more/bias": torch.ones(2, dtype=network.dtype)}

        def phases(self, network, training, round):
            return (Phase((*network.trainable, "more/bias")),)

    decayed = fs.Training(lr=0.1, weight_decay=0.5, batch_size=4)
    results = [
        work(lambda: run(Carries(), model=fs.models.mlp(3, 5, 2), clients=vector_clients(), training=decayed))
        for work in (lambda one: one(), general)
    ]
    assert counted == {"phases": 0, "gradients": 0}
    assert_close(*(result.states["it", 0].server for result in results), 0)


@pytest.mark.parametrize("threads", [1, 3])
def test_neither_blocks_nor_threads_nor_chunks_change_what_a_client_comes_to(threads, monkeypatch):
    network, before = network_of(fs.models.mlp(6, 5, 3)), torch.get_num_threads()
    whole = trained(network)
    assert_close(whole, trained(network), 0)
    for chunk in (1, 2, 3):
        assert_close(whole, trained(network, chunk=chunk))
    monkeypatch.setattr(descent, "BLOCK_BYTES", 2 * network.bytes + 1)
    monkeypatch.setattr(descent, "_GATHERED", 1)
    blocks = trained(network)
    assert_close(whole, blocks)
    torch.set_num_threads(threads)
    try:
        assert_close(blocks, trained(network), 0)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_who_has_finished_stands_still_to_the_bit():
    network = network_of(fs.models.mlp(6, 5, 3))
    short, long = (replace(PLAIN, local_epochs=(2, *[more] * 4)) for more in (2, 9))
    for settings in ({}, {"momentum": 0.9}):
        here, there = (trained(network, replace(s, **settings), sizes=(9,) * 5) for s in (short, long))
        for name, leaf in here.items():
            assert torch.equal(leaf[0], there[name][0])
            assert not torch.equal(leaf[1], there[name][1])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_what_became_infinite_is_reported(optimizer):
    rates = (0.1, 0.1, 1e200, 0.1, 0.1)
    with pytest.raises(FloatingPointError, match=r"client 2 \(seed 3\) .*in round 2 under FedAvg at lr=1e\+200"):
        trained(network_of(fs.models.mlp(6, 5, 3)), replace(PLAIN, lr=rates, optimizer=optimizer))


class Own(nn.Sequential):
    """A forward pass of one's own may do anything."""

    def forward(self, x):
        return 2 * super().forward(x)


class Called(nn.Sequential):
    """So may a call,"""

    def __call__(self, x):
        return 2 * super().__call__(x)


class Ordered(nn.Sequential):
    """and an order."""

    def __iter__(self):
        return reversed([*super().__iter__()])


class Doubles(nn.Linear):
    """As may a layer."""

    def forward(self, x):
        return 2 * super().forward(x)


def hooked():
    model = fs.models.mlp(6, 5, 3)()
    model.hidden.register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)
    return model


def patched():
    model = fs.models.mlp(6, 5, 3)()
    model.hidden.forward = lambda x: torch.zeros(*x.shape[:-1], 5)
    return model


def tied():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.Linear(6, 3))
    model[2].weight = model[0].weight
    return model


def twice():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(6, 3))


def frozen():
    model = fs.models.mlp(6, 5, 3)()
    model.hidden.bias.requires_grad_(False)
    return model


def composed():
    model = fs.models.mlp(6, 5, 3)()
    parametrize.register_parametrization(model.hidden, "weight", nn.Tanh())
    return model


@pytest.mark.parametrize(
    "model",
    [
        lambda: Own(nn.Linear(6, 3)),
        lambda: Called(nn.Linear(6, 3)),
        lambda: Ordered(nn.Linear(6, 3)),
        lambda: nn.Sequential(Doubles(6, 3)),
        hooked,
        patched,
        tied,
        twice,
        frozen,
        composed,
        lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.1), nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.ReLU(), nn.Linear(6, 3)),
        lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU()),
        lambda: nn.Sequential(nn.Linear(6, 3), nn.Flatten()),
        lambda: nn.Sequential(nn.Flatten(0), nn.Linear(6, 3)),
        lambda: nn.Linear(6, 3),
    ],
)
def test_what_is_no_chain(model):
    assert chain_of(network_of(model)) is None


def test_what_is_a_chain():
    inner = nn.Sequential(nn.Linear(4, 5), nn.Identity(), nn.Tanh(), nn.Dropout(0.0))
    chain = chain_of(network_of(lambda: nn.Sequential(nn.Flatten(), inner, nn.Sequential(nn.Linear(5, 3, bias=False)))))
    assert chain.flatten
    assert chain.leaves == ("1.0.weight", "1.0.bias", "2.0.weight")
    assert [layer.activation for layer in chain.layers] == [nn.Tanh, None]
    network = network_of(fs.models.mlp(6, 5, 3))
    assert chain_of(network).layers[0].activation is nn.ReLU
    assert chain_of(replace(network, mixed=True)) is None
    flat = chain_of(network_of(nn.Sequential(nn.Linear(6, 3))))
    assert not flat.takes(torch.zeros(4, 2, 6))


def test_a_loss_or_objective_of_ones_own_takes_the_general_path(counted):
    class Mine(fs.Method):
        def objective(self, learner, params, batch, context):
            return 2 * learner.loss(params, batch)

    network = network_of(fs.models.mlp(6, 5, 3))
    trained(network, method=Mine())
    x = torch.zeros(1, 6)
    assert counted == {"phases": 0, "gradients": 0}
    samples, start = (
        StackedSamples(x, torch.zeros(1), np.ones(1, int), torch.float64),
        fs.federated.stack(network.initial(), 1),
    )
    plain = Equipment("cross_entropy", PLAIN, samples)
    assert plain.route(fs.FedAvg(), network, start).dense
    assert "Mine has its own objective" in str(plain.route(Mine(), network, start))
    own = replace(plain, training=replace(PLAIN, loss=lambda outputs, y: LOSSES["cross_entropy"](outputs, y)))
    assert own.route(fs.FedAvg(), network, start).dense is None


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_a_hook_on_all_modules_is_seen_whenever_it_comes(executor):
    def once():
        return final(run(fs.FedAvg(), clients=vector_clients(3), model=fs.models.mlp(3, 4, 2), executor=executor))

    before = once()
    handle = register_module_forward_hook(
        lambda layer, inputs, outputs: 2 * outputs if type(layer) is nn.Linear else None
    )
    try:
        hooked = once()
    finally:
        handle.remove()
    after = once()
    assert max((hooked[name] - leaf).abs().max() for name, leaf in before.items()) > 0.01
    assert_close(after, before, 0)


def test_a_loss_that_has_no_hash_and_a_phase_without_steps_train():
    @dataclass
    class Scaled:
        factor: float

        def __call__(self, outputs, y):
            return self.factor * LOSSES["cross_entropy"](outputs, y)

    class Waits(fs.Method):
        def phases(self, network, training, round):
            return Phase(network.trainable, steps=0), Phase(network.trainable, first_epoch=0)

    own, plain = (
        final(run(fs.FedAvg(), clients=vector_clients(3), model=fs.models.mlp(3, 4, 2), training=settings))
        for settings in (fs.Training(lr=0.1, loss=Scaled(1.0)), fs.Training(lr=0.1))
    )
    assert_close(own, plain)
    network = network_of(fs.models.mlp(6, 5, 3))
    assert_close(trained(network, method=Waits()), trained(network), 0)


def test_an_optimizer_whose_state_is_no_tensor_is_named():
    class Counts:
        def start(self, params):
            return {"steps": 0}

        def step(self, params, grads, state):
            return grads, 1.0

    network = network_of(fs.models.mlp(6, 5, 3))
    with pytest.raises(ValueError, match=r"Counts\.start must return tensors by name, got steps = 0"):
        trained(network, replace(PLAIN, optimizer=Counts()))


def test_threads_end_their_work_before_an_error_and_begin_anew_in_a_forked_process():
    torch.set_num_threads(2)
    done = []

    def work(i):
        if not i:
            raise ValueError("the first fails")
        time.sleep(0.05)
        done.append(i)

    try:
        with pytest.raises(ValueError, match="the first fails"):
            descent.spread(work, range(6))
        assert sorted(done) == [1, 2, 3, 4, 5]
        if not hasattr(os, "fork"):
            return
        if (child := os.fork()) == 0:
            signal.alarm(30)  # it would wait for ever
            os._exit(descent.spread(abs, range(4)) != [0, 1, 2, 3])
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_num_threads(1)

"""The stacked engine against torch.optim and against training each client alone."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import nn

import fedstat as fs
from fedstat.data import Samples
from fedstat.federated.client.local import Learner, Phase, Training
from fedstat.federated.client.network import build
from fedstat.federated.client.samples import BatchOrders, Job, StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.engine import executor as executors
from fedstat.federated.engine.executor import PerClient, Stacked
from tests.support.runs import train_once


def samples(sizes, shape=(6,), classes=3, seed=0):
    rng = np.random.default_rng(seed)
    n_max = max(sizes)
    x = rng.normal(size=(len(sizes), n_max, *shape))
    y = rng.integers(classes, size=(len(sizes), n_max))
    return Samples.from_rows(x, y, np.array(sizes))


def order(training, stacked_samples, job, round):
    epochs = training.local_epochs
    epochs = epochs[job.client] if isinstance(epochs, tuple) else epochs
    return BatchOrders(training.batch_size, stacked_samples, round).order([job], 0, [epochs])[0][:, 0]


def alone(network, training, stacked_samples, job, round):
    """One client in plain torch: its own module, torch.optim, the same batches."""
    module = build(network.module, np.random.default_rng(0), torch.float64).module
    lr = (training.lr[job.client] if isinstance(training.lr, tuple) else training.lr) * training.lr_decay**round
    options = {"lr": lr, "weight_decay": training.weight_decay}
    ours = training.steps
    if isinstance(ours, fs.AdamW):
        optimizer = torch.optim.AdamW(module.parameters(), lr=lr, weight_decay=ours.decay, betas=ours.betas)
    elif isinstance(ours, fs.Adam):
        optimizer = torch.optim.Adam(module.parameters(), betas=ours.betas, **options)
    else:
        optimizer = torch.optim.SGD(module.parameters(), momentum=ours.momentum, nesterov=ours.nesterov, **options)
    for step, batch in enumerate(order(training, stacked_samples, job, round)):
        rows = torch.from_numpy(batch[batch >= 0]) + int(stacked_samples.start[job.row])
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(stacked_samples.x[rows]), stacked_samples.y[rows]).backward()
        if training.clip_norm is not None:
            nn.utils.clip_grad_norm_(module.parameters(), training.clip_norm)
        if training.schedule is not None:
            optimizer.param_groups[0]["lr"] = lr * training.schedule(round, step)
        optimizer.step()
    return {name: leaf.detach() for name, leaf in module.named_parameters()}


@pytest.mark.parametrize(
    "training",
    [
        Training(lr=0.1, batch_size=4, local_epochs=3),
        Training(lr=0.1, momentum=0.9, batch_size=4, local_epochs=3),
        Training(lr=0.01, optimizer="adam", batch_size=4, local_epochs=3),
        Training(lr=0.1, momentum=0.5, batch_size=100, local_epochs=2),
        Training(lr=0.1, momentum=0.9, batch_size=4, local_epochs=2, weight_decay=0.2, lr_decay=0.7),
        Training(lr=0.01, optimizer="adam", batch_size=4, local_epochs=2, weight_decay=0.2, lr_decay=0.7),
        Training(lr=0.1, optimizer=fs.SGD(momentum=0.9, nesterov=True), batch_size=4, local_epochs=2),
        Training(lr=0.01, optimizer="adamw", batch_size=4, local_epochs=3),
        Training(lr=0.01, optimizer=fs.AdamW((0.8, 0.9), decay=0.5), batch_size=4, local_epochs=2, clip_norm=0.3),
        Training(lr=0.1, momentum=0.5, batch_size=4, local_epochs=2, clip_norm=0.2, weight_decay=0.1),
        Training(lr=0.1, optimizer="adam", batch_size=4, local_epochs=2, schedule=fs.schedules.Warmup(4, steps=3)),
        Training(lr=(0.1, 0.2, 0.3, 0.05), momentum=0.9, batch_size=4, local_epochs=(1, 4, 2, 3), lr_decay=0.9),
        Training(lr=(0.01, 0.02, 0.03, 0.005), optimizer="adamw", batch_size=4, local_epochs=(2, 1, 3, 1)),
    ],
    ids=[
        "sgd", "momentum", "adam", "batch larger than the client", "decays", "adam decays", "nesterov", "adamw",
        "adamw clipped", "clipped and decayed", "warm-up", "of each client", "adamw of each client",
    ],
)  # fmt: skip
@pytest.mark.parametrize("sizes", [(8, 8, 8), (1, 5, 13, 8)], ids=["equal", "unequal"])
@pytest.mark.parametrize("executor", [Stacked(), PerClient()], ids=["stacked", "per-client"])
def test_each_client_trains_as_alone_in_torch(training, sizes, executor):
    network = build(fs.models.mlp(6, 5, 3), np.random.default_rng(1), torch.float64)
    stacked_samples = StackedSamples.stack([samples(sizes)], torch.float64, "cpu")
    jobs = [Job(k, Seeds(3), k) for k in range(len(sizes))]
    start = {name: leaf.expand(len(sizes), *leaf.shape) for name, leaf in network.initial().items()}
    learner = Learner(network, "cross_entropy")
    end = train_once(fs.FedAvg(), learner, training, stacked_samples, start, jobs, 2, executor)
    for k, job in enumerate(jobs):
        for name, leaf in alone(network, training, stacked_samples, job, 2).items():
            torch.testing.assert_close(end[name][k], leaf, rtol=0, atol=1e-12)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    batch=st.integers(1, 10),
    chunk=st.integers(1, 6),
    momentum=st.sampled_from([0.0, 0.9]),
)
@hypothesis_settings(max_examples=30)
def test_chunked_equals_client_by_client(sizes, batch, chunk, momentum):
    network = build(fs.models.mlp(6, 4, 3), np.random.default_rng(1), torch.float64)
    stacked_samples = StackedSamples.stack([samples(sizes)], torch.float64, "cpu")
    jobs = [Job(k, Seeds(0), k) for k in range(len(sizes))]
    start = {name: leaf.expand(len(sizes), *leaf.shape) for name, leaf in network.initial().items()}
    training = Training(lr=0.1, momentum=momentum, batch_size=batch, local_epochs=2)
    learner = Learner(network, "cross_entropy")
    one = train_once(fs.FedAvg(), learner, training, stacked_samples, start, jobs, 0, Stacked(1))
    many = train_once(fs.FedAvg(), learner, training, stacked_samples, start, jobs, 0, Stacked(chunk))
    for name in one:
        torch.testing.assert_close(one[name], many[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "shape", "dtype", "tolerance"),
    [
        (fs.models.mlp(64, 20, 10), (8, 8), "float32", 1e-6),
        (fs.models.cnn(8, 10), (8, 8), "float32", 1e-4),
        (fs.models.cnn(8, 10), (8, 8), "float64", 1e-12),
    ],
    ids=["mlp float32", "cnn float32", "cnn float64"],
)
def test_whole_runs_do_not_depend_on_the_chunk(model, shape, dtype, tolerance):
    x, y = fs.data.digits()
    clients = fs.data.from_indices(x, y, fs.data.dirichlet(y, 12, 0.5, min_size=5, seed=1))
    run = {
        chunk: fs.federate(
            fs.FedAvg(), model, clients, Training(lr=0.1, batch_size=20), rounds=1, dtype=dtype, chunk=chunk
        )
        for chunk in (1, 5, None)
    }
    one = run[1].states["FedAvg", 0].server
    for other in (run[5], run[None]):
        for name, leaf in other.states["FedAvg", 0].server.items():
            assert (leaf - one[name]).abs().max() <= tolerance


def test_batches_cover_every_sample_once_per_epoch_and_depend_on_nothing_else():
    stacked_samples = StackedSamples.stack([samples((7, 10))], torch.float64, "cpu")
    short, long = (Training(lr=0.1, batch_size=3, local_epochs=e) for e in (1, 4))
    job = Job(0, Seeds(5), 0)
    first = order(short, stacked_samples, job, 0)
    all_epochs = order(long, stacked_samples, job, 0)
    np.testing.assert_array_equal(first, all_epochs[:3])
    for epoch in all_epochs.reshape(4, -1):
        np.testing.assert_array_equal(np.sort(epoch[epoch >= 0]), np.arange(7))
    assert not np.array_equal(first, order(short, stacked_samples, job, 1))


def test_elements_that_stay_feel_no_weight_decay_and_phases_with_rates_of_their_own_decay():
    network = build(fs.models.mlp(6, 5, 3), np.random.default_rng(1), torch.float64)
    stacked_samples = StackedSamples.stack([samples((8, 8))], torch.float64, "cpu")
    start = {name: leaf.expand(2, *leaf.shape) for name, leaf in network.initial().items()}
    here = (fs.FedAvg(), Learner(network, "cross_entropy"))
    jobs, name = [Job(k, Seeds(3), k) for k in range(2)], "hidden.weight"
    decaying = Training(lr=0.1, weight_decay=0.3, momentum=0.5)
    moves = {name: torch.rand(2, *start[name].shape[1:]) > 0.5}
    end = train_once(*here, decaying, stacked_samples, start, jobs, 0, Stacked(), moves=moves)
    assert torch.equal(end[name][~moves[name]], start[name][~moves[name]])
    assert not (end[name] == start[name])[moves[name]].any()
    rates = dict.fromkeys(start, 0.1)
    for lr in (0.1, rates):
        phases = (Phase(tuple(start), lr=lr),)
        late = train_once(
            *here, Training(lr=9, lr_decay=0.5), stacked_samples, start, jobs, 2, Stacked(), phases=phases
        )
        phases = (Phase(tuple(start), lr=0.1 / 4),)
        plain = train_once(*here, Training(lr=9), stacked_samples, start, jobs, 2, Stacked(), phases=phases)
        torch.testing.assert_close(late, plain, rtol=0, atol=1e-14)


class Marches(fs.Method):
    """Every element moves by each step's rate; ``finish`` compares how far it went with what it is told."""

    def phases(self, network, training, round):
        rates = {name: 0.1 * (i + 1) for i, name in enumerate(network.trainable)}
        return Phase(network.head_leaves, epochs=2, steps=3), Phase(network.trainable, lr=rates)

    def gradient(self, grad, params, batches, context):
        return {name: torch.ones_like(g) for name, g in grad(params, batches[0]).items()}

    def finish(self, learner, params, data, context):
        gone = {name: context.received[name] - params[name] for name in learner.network.trainable}
        return {f"gap/{name}": way - context.rate_sum[name] for name, way in gone.items()}


@pytest.mark.parametrize("executor", [Stacked(), Stacked(2), PerClient()], ids=["stacked", "chunks", "per client"])
def test_finish_is_told_the_sum_of_the_rates_of_a_clients_own_steps(executor):
    sizes = (2, 9, 5)
    network = build(fs.models.mlp(6, 5, 3), np.random.default_rng(1), torch.float64)
    stacked_samples = StackedSamples.stack([samples(sizes)], torch.float64, "cpu")
    start = {name: leaf.expand(3, *leaf.shape) for name, leaf in network.initial().items()}
    training = Training(
        lr=(0.1, 0.2, 0.3),
        batch_size=4,
        local_epochs=(3, 1, 2),
        lr_decay=0.5,
        schedule=lambda round, step: (1 + round) / (1 + step),
    )
    jobs, learner = [Job(k, Seeds(3), k) for k in range(3)], Learner(network, "cross_entropy")
    end = train_once(Marches(), learner, training, stacked_samples, start, jobs, 2, executor)
    for name in start:
        gone = (start[name] - end[name]).flatten(1)[:, 0].tolist()
        assert len({round(way, 9) for way in gone}) == (3 if name in network.head_leaves else 2)  # 3, 3 and 4 steps
        assert end[f"gap/{name}"].abs().max() < 1e-12


def test_global_generators_are_untouched():
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    clients = fs.data.relu_mixture(clients=4, d=6, units=8, test=50, seed=0, balance="median")
    result = fs.federate(
        fs.FedFac(layers=["hidden"], dynamic=True), fs.models.mlp(6, 8, 1), clients, Training(lr=0.1), rounds=2
    )
    result.personal(0)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_a_module_keeps_its_weights_and_a_factory_draws_them_from_the_seed():
    clients = fs.data.relu_mixture(clients=3, d=6, units=8, test=50, seed=0, balance="median")
    frozen = Training(lr=0.0)
    module = fs.models.mlp(6, 4, 1)()
    own = fs.federate(fs.FedAvg(), module, clients, frozen, rounds=1, seed=[0, 1])
    drawn = fs.federate(fs.FedAvg(), fs.models.mlp(6, 4, 1), clients, frozen, rounds=1, seed=[0, 1])
    weight = "hidden.weight"
    for seed in (0, 1):
        torch.testing.assert_close(own.states["FedAvg", seed].server[weight], module.hidden.weight.detach())
    a, b = (drawn.states["FedAvg", seed].server[weight] for seed in (0, 1))
    assert not torch.equal(a, b)


def test_stacked_seeds_equal_separate_seeds():
    def draw(seed):
        return fs.data.relu_mixture(clients=4, d=6, units=8, samples=20 + seed, test=50, seed=seed, balance="median")

    model, training = fs.models.mlp(6, 5, 1), Training(lr=0.1, batch_size=8)
    methods = [fs.FedAvg(), fs.Local()]
    together = fs.federate(methods, model, draw, training, rounds=3, participation=0.5, seed=[0, 1], dtype="float64")
    for seed in (0, 1):
        for method in methods:
            apart = fs.federate(method, model, draw, training, rounds=3, participation=0.5, seed=seed, dtype="float64")
            rows = together.history.query("method == @method.__class__.__name__ and seed == @seed")
            np.testing.assert_allclose(rows["value"], apart.history["value"], atol=1e-12)


def test_a_cpu_evaluates_in_small_pieces_with_the_same_result(monkeypatch):
    clients = fs.data.relu_mixture(clients=20, d=20, units=8, samples=20, test=2000, balance="median", seed=0)
    pieces = []

    class Counted(nn.Sequential):
        def forward(self, x):
            if not self.training:
                pieces.append(x.shape[0])
            return super().forward(x)

    def network():
        return Counted(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))

    def evaluated():
        pieces.clear()
        result = fs.federate(fs.FedAvg(), network, clients, fs.Training(lr=0.1), rounds=1)
        return result.history, max(pieces)

    history, most = evaluated()
    monkeypatch.setattr(executors, "_CPU_BLOCK", 2**40)
    at_once, everything = evaluated()
    assert everything == 2000
    assert executors._SAMPLES <= most < 1000
    pd.testing.assert_frame_equal(history, at_once, rtol=1e-5)  # MKL may round by the length of a product

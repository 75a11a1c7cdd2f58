"""What a run is put together from: optimisers, losses, metrics, schedules, executors, built in and of one's own."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import nn

import fedstat as fs
from fedstat.federated import Phase, in_slot, without_slots
from fedstat.federated.client.losses import cross_entropy
from fedstat.federated.metrics import BUILT_IN
from tests.support.clients import vector_clients
from tests.support.runs import FULL, TRAINING, final, run

MODEL = fs.models.mlp(3, 6, 2)


@dataclass(frozen=True)
class Signs:
    """Steps of one length."""

    def start(self, params):
        return {}

    def step(self, params, grads, state):
        return {name: g.sign() for name, g in grads.items()}, 1.0


class Nosy(Signs):
    """Steps that are measured against the largest gradient of whatever it is handed."""

    def step(self, params, grads, state):
        return {name: g / g.abs().max().clamp(min=1e-9) for name, g in grads.items()}, 1.0


class Restless(Signs):
    """Adds to its state also where nobody took part."""

    def start(self, params):
        self.__dict__.setdefault("calls", [])
        return {name: torch.zeros_like(leaf) for name, leaf in params.items()}

    def step(self, params, grads, state):
        self.calls.append(len(self.calls))
        return {name: g + len(self.calls) for name, g in grads.items()}, 1.0


@pytest.mark.parametrize(
    "optimizer", [fs.SGD(), fs.SGD(0.9), fs.SGD(0.9, nesterov=True), fs.Adam(), fs.AdamW(), Signs()], ids=str
)
def test_optimisers_obey_the_laws(optimizer):
    fs.testing.check_optimizer(optimizer, examples=3)


@pytest.mark.parametrize(("optimizer", "law"), [(Nosy(), "company"), (Restless(), "repeat")], ids=["Nosy", "Restless"])
def test_an_optimiser_that_sees_other_clients_is_found(optimizer, law):
    with pytest.raises(AssertionError, match=f"{type(optimizer).__name__} breaks the law '{law}'"):
        fs.testing.check_optimizer(optimizer, examples=3)


@dataclass(frozen=True, kw_only=True)
class Lasting(fs.Local):
    """Local training with one optimiser from the first round to the last."""

    def leaves(self, network, federation):
        leaves = network.initial()
        return leaves | in_slot(federation.training.steps.start(leaves), "kept")

    def shared(self, network, federation):
        leaves = self.leaves(network, federation)
        return {name: torch.zeros(1, *[1] * leaf.dim(), dtype=torch.bool) for name, leaf in leaves.items()}

    def phases(self, network, training, round):
        return (Phase(network.trainable, state="kept"),)


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
@pytest.mark.parametrize(
    ("name", "dtype", "atol"),
    [("adam", "float64", 1e-9), ("adamw", "float64", 1e-9), ("sgd", "float64", 1e-9), ("adam", "float32", 1e-5)],
)
def test_an_optimiser_that_lives_across_rounds_is_torchs_without_a_break(name, dtype, atol, executor):
    clients = vector_clients(4)
    momentum = 0.9 if name == "sgd" else 0.0
    training = fs.Training(lr=0.05, optimizer=name, momentum=momentum, batch_size=100, local_epochs=2)
    result = run(Lasting(), 4, clients=clients, model=MODEL, training=training, executor=executor, dtype=dtype)
    found = without_slots(final(result))
    met = result.traffic.groupby("client")["round"].nunique()
    network = result.network(("it", 0))
    for k in range(4):
        leaves = {n: leaf.clone().requires_grad_() for n, leaf in network.initial().items()}
        torchs = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
        optimizer = torchs(leaves.values(), lr=0.05, **({"momentum": 0.9} if momentum else {}))
        x, y = (torch.from_numpy(v) for v in clients.train.client(k))
        x = x.to(network.dtype)
        for _ in range(2 * int(met.get(k, 0))):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(leaves, x, train=True), y).backward()
            optimizer.step()
        for n, leaf in leaves.items():
            torch.testing.assert_close(found[n][k], leaf.detach(), rtol=0, atol=atol)


class Unkept(Lasting):
    def leaves(self, network, federation):
        return network.initial()


def test_a_phase_that_keeps_its_optimisers_state_in_no_leaves_is_refused():
    for training in (fs.Training(lr=0.05, optimizer="adam"), fs.Training(lr=0.05, momentum=0.9)):
        with pytest.raises(
            ValueError, match="Unkept has a phase with state='kept', a slot where its leaves put nothing"
        ):
            run(Unkept(), 2, clients=vector_clients(3), model=MODEL, training=training)
    run(Unkept(), 2, clients=vector_clients(3), model=MODEL, training=fs.Training(lr=0.05))


@dataclass(frozen=True, kw_only=True)
class InABall(fs.FedAvg):
    """Local steps are projected to a ball about the received weights."""

    def constrain(self, params, context):
        moved = {n: params[n] - context.received[n] for n in params}
        norm = torch.stack([d.square().sum() for d in moved.values()]).sum().sqrt()
        return {n: context.received[n] + d * (0.05 / norm).clamp(max=1) for n, d in moved.items()}


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_a_step_after_each_step_keeps_clients_where_they_may_be(executor):
    clients = vector_clients(4)
    training = replace(FULL, momentum=0.0)
    loop = fs.rounds(InABall(), MODEL, clients, training, dtype="float64", executor=executor)
    round = next(loop)
    ((_, update),) = round.updates.items()
    for k in range(4):
        leaves = {n: leaf[k].clone() for n, leaf in update.start.items()}
        x, y = (torch.from_numpy(v) for v in clients.train.client(k))
        for _ in range(3):
            point = {n: leaf.requires_grad_() for n, leaf in leaves.items()}
            loss = nn.functional.cross_entropy(update.network(point, x, train=True), y)
            grads = torch.autograd.grad(loss, list(point.values()))
            leaves = {n: (leaf - 0.05 * g).detach() for (n, leaf), g in zip(point.items(), grads, strict=True)}
            gap = {n: leaf - update.start[n][k] for n, leaf in leaves.items()}
            norm = torch.cat([d.flatten() for d in gap.values()]).norm()
            leaves = {n: update.start[n][k] + d * min(1, 0.05 / norm) for n, d in gap.items()}
        moved = torch.cat([(update.end[n][k] - update.start[n][k]).flatten() for n in leaves]).norm()
        assert moved <= 0.05 + 1e-9
        for n, leaf in leaves.items():
            torch.testing.assert_close(update.end[n][k], leaf, rtol=0, atol=1e-10)


def test_a_loss_of_ones_own_trains_like_the_same_loss_built_in():
    def mine(outputs, y):
        return cross_entropy(outputs, y)

    fs.testing.check_loss(mine, classes=2)
    own, built_in = (
        run(fs.methods.APFL(), clients=vector_clients(), model=MODEL, training=replace(TRAINING, loss=loss))
        for loss in (mine, "cross_entropy")
    )
    rows = own.history[own.history["metric"] != "loss"]
    np.testing.assert_array_equal(rows["value"], built_in.history["value"])
    losses = own.history[own.history["metric"] == "loss"]["value"].to_numpy()
    np.testing.assert_array_equal(losses, rows[rows["metric"] == "log_loss"]["value"])


def test_a_quantile_loss_finds_the_quantiles():
    rng = np.random.default_rng(0)
    y = rng.exponential(size=400)
    clients = fs.data.from_arrays(np.ones((400, 1)), y, np.arange(400) % 4, test=0.25)
    levels = torch.tensor([0.25, 0.75], dtype=torch.float64)

    def pinball(outputs, y):
        gap = y[:, None] - outputs
        return torch.maximum(levels.to(gap) * gap, (levels.to(gap) - 1) * gap).sum(-1)

    fs.testing.check_loss(pinball, outputs=2)
    training = fs.Training(lr=0.02, batch_size=10**6, loss=pinball, local_epochs=5)
    result = run(fs.FedAvg(), 60, clients=clients, model=lambda: nn.Linear(1, 2), training=training, participation=1.0)
    server = result.states["it", 0].server
    found = (server["weight"][:, 0] + server["bias"]).numpy()
    pooled = np.concatenate([clients.train.client(k)[1] for k in range(4)])
    np.testing.assert_allclose([(pooled <= q).mean() for q in found], levels, atol=0.02)
    assert set(result.history["metric"]) == {"loss"}  # two outputs have no squared error


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda h, y: cross_entropy(h, y).mean(), r"must return a tensor of shape \(12,\)"),
        (lambda h, y: cross_entropy(h - h.mean(0), y), "must not depend on the others"),
        (lambda h, y: cross_entropy(h.detach(), y) + 0 * h.sum(-1), "must not all be zero"),
    ],
)
def test_a_loss_that_cannot_train_is_found(loss, message):
    with pytest.raises(AssertionError, match=message):
        fs.testing.check_loss(loss, classes=3)


def test_metrics_are_what_the_field_takes_them_for():
    rng = np.random.default_rng(1)
    outputs, y = torch.from_numpy(rng.normal(size=(57, 5))), rng.integers(4, size=57)
    guess, p = outputs.argmax(-1).numpy(), outputs.softmax(-1).amax(-1).numpy()
    assert float(fs.metrics.macro_f1(outputs, torch.from_numpy(y))) == pytest.approx(
        sk.f1_score(y, guess, average="macro")
    )
    edges = np.linspace(0, 1, 16)
    gap = sum(
        abs((guess[b] == y[b]).mean() - p[b].mean()) * b.mean()
        for low, high in pairwise(edges)
        if (b := (p > low) & (p <= high)).any()
    )
    assert float(fs.metrics.calibration_error(outputs, torch.from_numpy(y))) == pytest.approx(gap)
    one, two = outputs[:, :1], torch.from_numpy(rng.integers(2, size=57))
    as_two = torch.cat([torch.zeros_like(one), one], -1)
    for metric in (fs.metrics.macro_f1, fs.metrics.calibration_error):
        assert float(metric(one, two)) == pytest.approx(float(metric(as_two, two)))
    t = rng.normal(size=57)
    assert float(fs.metrics.rmse(one, torch.from_numpy(t))) == pytest.approx(sk.root_mean_squared_error(t, one[:, 0]))
    assert float(fs.metrics.mae(one, torch.from_numpy(t))) == pytest.approx(sk.mean_absolute_error(t, one[:, 0]))
    for name, metric in BUILT_IN.items():
        fs.testing.check_metric(metric, classes=None if name in ("rmse", "mae") else 3)
    with pytest.raises(AssertionError, match="order of samples"):
        fs.testing.check_metric(lambda outputs, y: outputs[0, 0], classes=3)


def test_more_metrics_are_of_each_client_and_missing_where_outputs_are():
    class Bad(nn.Linear):
        def forward(self, x):
            outputs = super().forward(x)
            return outputs if self.training else outputs + torch.where(x[:, :1] > 1.2, torch.inf, 0.0)

    clients = vector_clients()
    metrics = {"macro_f1": fs.metrics.macro_f1, "size": lambda outputs, y: len(y)}
    with pytest.warns(RuntimeWarning, match="missing"):
        result = run(fs.FedAvg(), 1, clients=clients, model=lambda: Bad(3, 2), metrics=metrics)
    table = result.history.pivot(index="client", columns="metric", values="value")
    bad = table["log_loss"].isna()
    assert 0 < bad.sum() < len(table)
    assert (table[["macro_f1", "size"]].isna().all(axis=1) == bad).all()
    np.testing.assert_array_equal(table.loc[~bad, "size"], clients.test.n[~bad.to_numpy()])


def test_schedules_obey_the_laws_and_are_refused_where_they_do_not():
    for schedule in (fs.schedules.Cosine(50), fs.schedules.Warmup(5, 3), fs.schedules.Milestones((10, 90))):
        fs.testing.check_schedule(schedule)
    moods = iter(range(10**6))
    with pytest.raises(AssertionError, match="changes from call to call"):
        fs.testing.check_schedule(lambda round, step: next(moods))
    with pytest.raises(ValueError, match=r"schedule\(round, step\) must be a number in \[0, inf\), got -1"):
        run(fs.FedAvg(), clients=vector_clients(), model=MODEL, training=replace(TRAINING, schedule=lambda *_: -1))


class Counting(fs.federated.Stacked):
    """The stack, which counts what it does."""

    done: list = []  # noqa: RUF012

    def train(self, work, start, jobs, moves):
        self.done.append(len(jobs))
        return super().train(work, start, jobs, moves)


def test_an_executor_of_ones_own_does_the_work():
    fs.testing.check_executor(fs.federated.PerClient(), examples=3)
    Counting.done.clear()
    mine = run(fs.FedAvg(), clients=vector_clients(), model=MODEL, executor=Counting())
    assert Counting.done == [3, 3, 3]
    assert mine.history.equals(run(fs.FedAvg(), clients=vector_clients(), model=MODEL, executor="stacked").history)

    with pytest.raises(ValueError, match="executor must be one of auto, stacked, per-client, ray, or an object"):
        run(fs.FedAvg(), executor=object())


def test_an_executor_that_mistakes_clients_is_found():
    class Forgetful(fs.federated.Stacked):
        def train(self, work, start, jobs, moves):
            return super().train(work, start, [jobs[0]] * len(jobs), moves)

    with pytest.raises(AssertionError, match="Forgetful breaks the law 'as the built-in ones'"):
        fs.testing.check_executor(Forgetful(), examples=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.Training(lr=0.1, optimizer="lion"), 'optimizer must be "sgd" or "adam" or "adamw", or an object'),
        (lambda: fs.Training(lr=0.1, optimizer=fs.SGD), "optimizer must be .* such as fs.SGD"),
        (lambda: fs.Training(lr=0.1, optimizer="adam", momentum=0.5), "momentum belongs to SGD"),
        (lambda: fs.SGD(nesterov=True), "nesterov needs momentum"),
        (lambda: fs.Adam((0.9, 1.0)), r"betas must be two numbers in \[0, 1\)"),
        (lambda: fs.Training(lr=0.1, loss="hinge"), "loss must be .* or a function"),
        (lambda: fs.Training(lr=0.1, clip_norm=0), r"clip_norm must be a number in \(0, inf\)"),
        (lambda: fs.Training(lr=(0.1, -1)), r"lr of client 1 must be a number in \[0, inf\), got -1"),
        (lambda: fs.Training(lr=0.1, local_epochs=[1, 0]), "local_epochs of client 1 must be a whole number"),
        (lambda: run(fs.FedAvg(), training=fs.Training(lr=(0.1, 0.2))), "lr must be one number, or one for each of 6"),
        (lambda: fs.Patience("log_loss", rounds=0), "rounds must be a whole number, at least 1"),
        (lambda: fs.Patience("log_loss", split="common"), 'split must be "validation" or "test" or "train"'),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

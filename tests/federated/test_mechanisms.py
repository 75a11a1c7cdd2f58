"""Mechanisms of differential privacy: a run in plain loops, limit cases, the noise, and who refuses them."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fedstat as fs
from fedstat.experiment import read
from fedstat.experiment.build import set_up
from fedstat.experiment.parsing import code_named
from fedstat.federated.attendance import Dropout, Poisson, Stragglers, Trace
from fedstat.federated.mechanisms import Gaussian, clipped, released
from fedstat.federated.method import aggregated
from fedstat.federated.replicate import participants
from fedstat.testing import check_mechanism
from tests.support.clients import image_clients, vector_clients
from tests.support.networks import plain_net
from tests.support.runs import KEY, equal, run

MODEL = fs.models.mlp(3, 5, 2)
TRAINING = fs.Training(lr=0.2)


def private(cls=fs.FedAvg, mechanism=None, **options):
    return cls(weighting="uniform", mechanism=mechanism or Gaussian(clip=0.05, noise=0.5), **options)


@pytest.mark.parametrize("at", ["server", "client"])
@pytest.mark.parametrize("cls", [fs.FedAvg, fs.methods.FedPer, fs.methods.Ditto], ids=lambda cls: cls.__name__)
def test_a_run_is_its_plain_loop(cls, at):
    """Changes as lists of numbers; the noise is the next of the stream that the run has for the round."""
    method = private(cls, Gaussian(clip=0.05, noise=0.5, at=at))
    rounds = fs.rounds(method, MODEL, vector_clients(9), TRAINING, dtype="float64", participation=0.5)
    for t, now in enumerate(rounds):
        ((key, update),), (state,), (run,) = now.updates.items(), now.states.values(), now.runs.values()
        shared = [n for n in state.server if n not in state.shared or state.shared[n].all()]
        rng, m = run.replicate.seeds.stream(*run.draws, t), len(update.ids)
        assert m == 5
        assert key[0] == cls.__name__
        rows = []
        for i in range(m):
            row = np.concatenate([(update.end[n] - update.start[n])[i].flatten().numpy() for n in shared])
            norm = np.sqrt(sum(v * v for v in row))
            rows.append([v * min(1, 0.05 / norm) for v in row])
        rows = np.array(rows)
        assert (np.linalg.norm(rows, axis=1) > 0.049).any(), "something is cut"
        if at == "client":
            rows = rows + 0.5 * 0.05 / np.sqrt(m) * rng.standard_normal(rows.shape)
            total = rows.sum(0)
        else:
            total = rows.sum(0) + 0.5 * 0.05 * rng.standard_normal(rows.shape[1])
        moved = torch.cat([(state.server[n] - update.start[n][0]).flatten() for n in shared])
        np.testing.assert_allclose(moved.numpy(), total / m, rtol=0, atol=1e-12)
        for n in state.clients:  # personal parts are as trained
            torch.testing.assert_close(
                state.clients.rows(update.ids)[n][:, state.shared[n][0].expand_as(update.end[n][0]) == 0],
                update.end[n][:, state.shared[n][0].expand_as(update.end[n][0]) == 0], rtol=0, atol=0,
            )  # fmt: skip
        if t == 1:
            break


@pytest.mark.parametrize(
    ("attendance", "of"),
    [
        (Poisson(0.2), 0.2 * 6),
        (Stragglers(Poisson(0.2), 0.5, (0.2, 0.6)), 0.2 * 6),
        (Dropout(Poisson(0.5), 0.6), 0.5 * 6 * 0.4),
        (Dropout(0.5, (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)), 3 * 0.25),
    ],
)
@pytest.mark.parametrize("server", [None, fs.server.SGD(lr=0.5, momentum=0.9)], ids=["none", "sgd"])
@pytest.mark.parametrize("cls", [fs.FedAvg, fs.methods.FedPer], ids=lambda cls: cls.__name__)
def test_whoever_comes_the_sum_has_the_noise_and_the_divisor_is_that_of_the_law(cls, server, attendance, of):
    """By plain loops; a round to which nobody comes releases noise as well, and the server's optimiser steps on it."""
    method, sizes, pull, clients = private(cls, Gaussian(clip=0.05, noise=0.5), server=server), set(), 0, {}
    before = {}
    rounds = fs.rounds(method, MODEL, vector_clients(6), TRAINING, dtype="float64", participation=attendance)
    for t, now in zip(range(15), rounds, strict=False):
        (update,), (state,), (run,) = now.updates.values(), now.states.values(), now.runs.values()
        shared = [n for n in state.server if n not in state.shared or state.shared[n].all()]
        start, after = (
            torch.cat([leaves[n].flatten() for n in shared]).numpy()
            for leaves in (before or run.network.initial(), state.server)
        )
        total = 0.5 * 0.05 * run.replicate.seeds.stream(*run.draws, t).standard_normal(len(after))
        for i in range(len(update.ids)):
            row = np.concatenate([(update.end[n] - update.start[n])[i].flatten().numpy() for n in shared])
            total += row * min(1, 0.05 / np.linalg.norm(row))
        pull = total / of if server is None else 0.9 * pull + total / of
        np.testing.assert_allclose(after - start, pull if server is None else 0.5 * pull, rtol=0, atol=1e-12)
        assert state.round == t + 1
        if not len(update.ids):
            assert all(torch.equal(state.clients[n], leaf) for n, leaf in clients.items())
        sizes.add(len(update.ids))
        before, clients = state.server, {n: state.clients[n].clone() for n in state.clients}
    assert {0, 1} < sizes


def test_rounds_of_noise_alone_are_not_told_to_be_still(recwarn):
    run(private(), 6, clients=vector_clients(3), model=MODEL, participation=Poisson(0.1))
    assert not [w for w in recwarn if "no participant" in str(w.message)]
    log = Trace(pd.DataFrame({"round": [2], "client": [0], "work": [1.0]}))  # no law: there is no number to divide by
    with pytest.warns(RuntimeWarning, match="1 of 2 rounds had no participant, and ended without a step"):
        run(private(), 2, clients=vector_clients(3), model=MODEL, participation=log)


def everybody(round, clients, rng, fixed):
    return np.ones(clients)


@pytest.mark.parametrize(
    "attendance",
    [Poisson(0.5), Dropout(0.5, 0.1), Stragglers(Dropout(1.0, 0.1), 0.5, (0.5, 0.5)), everybody,
     Trace(pd.DataFrame({"round": [1], "client": [0], "work": [1.0]}))],
)  # fmt: skip
def test_clients_who_may_be_missing_add_no_noise(attendance):
    words = "participation must draw a fixed number of clients.*Gaussian.*a client that is missing would take its noise"
    with pytest.raises(ValueError, match=words):
        run(private(mechanism=Gaussian(1.0, 1.0, at="client")), model=MODEL, participation=attendance,
            clients=vector_clients())  # fmt: skip
    with pytest.raises(ValueError, match=r"participation must draw a fixed number of clients.*Own"):
        run(private(mechanism=Own()), model=MODEL, participation=attendance, clients=vector_clients())


def test_clients_who_are_slow_deliver_and_add_their_noise():
    here = {"model": MODEL, "clients": vector_clients(), "rounds": 2}
    for at in ("server", "client"):
        slow, plain = (run(private(mechanism=Gaussian(0.05, 0.5, at=at)), participation=p, **here)
                       for p in (Stragglers(0.5, 1.0, (1.0, 1.0)), 0.5))  # fmt: skip
        equal(slow, plain, atol=1e-12)


def test_a_law_by_which_nobody_delivers_is_refused():
    with pytest.raises(ValueError, match=r"participation must let clients deliver, or Gaussian.* has no mean"):
        run(private(), model=MODEL, participation=Dropout(0.5, 1.0), clients=vector_clients())


@pytest.mark.parametrize("at", ["server", "client"])
def test_without_noise_and_cuts_it_is_the_uniform_mean(at):
    method = fs.methods.FedPer(weighting="uniform")
    loose = replace(method, mechanism=Gaussian(clip=1e9, noise=0, at=at))
    equal(*(run(one, model=plain_net, clients=image_clients()) for one in (loose, method)), atol=1e-12)


@pytest.mark.parametrize("at", ["server", "client"])
def test_noise_on_the_mean_has_its_deviation(at):
    """Of 100,000 numbers the standard deviation is known to 0.9% at four standard errors."""
    mechanism = Gaussian(clip=0.3, noise=2.0, at=at)
    found = released(mechanism, torch.zeros(8, 100_000).double(), 8, np.random.default_rng(0))
    assert abs(float(found.std()) / (2.0 * 0.3 / 8) - 1) < 0.009
    assert abs(float(found.mean())) < 4 * 2.0 * 0.3 / 8 / 100_000**0.5
    sent = mechanism.send(torch.zeros(8, 100_000).double(), 8, np.random.default_rng(0))
    due = 0.0 if at == "server" else 2.0 * 0.3 / 8**0.5
    assert abs(float(sent.std()) - due) <= 0.009 * due


@given(seed=st.integers(0, 2**32), m=st.integers(1, 6), size=st.sampled_from([1e-3, 1.0, 1e3, 1e200]))
@settings(max_examples=50, deadline=None)
def test_no_participant_moves_the_mean_further_than_it_may(seed, m, size):
    rng = np.random.default_rng(seed)
    x, other = (size * torch.from_numpy(rng.normal(size=(m, 4))) for _ in range(2))
    mechanism = Gaussian(clip=0.7, noise=1.0)
    other[1:] = x[1:]
    none = x.clone()
    none[0] = 0
    one, two, zero = (released(mechanism, v, m, np.random.default_rng(1)) for v in (x, other, none))
    assert (one - two).norm() <= 2 * 0.7 / m * (1 + 1e-12)
    assert (one - zero).norm() <= 0.7 / m * (1 + 1e-12)


def test_clipping_keeps_directions_and_what_is_short():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.5], [0.0, 0.0], [torch.inf, 1.0], [torch.nan, 1.0]]).double()
    due = [[0.6, 0.8], [0.0, 0.5], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(clipped(x, 1.0), due, rtol=0, atol=1e-15)


def test_noise_is_of_the_seed_and_the_round_alone(tmp_path):
    """Alone, in company and continued a run has the same bits; under another seed it has other noise."""
    method = private(mechanism=Gaussian(clip=0.1, noise=1.0))
    whole = run(method, 4, model=plain_net)
    run(method, 2, model=plain_net).save(tmp_path / "half")
    resumed = run(method, 4, model=plain_net, resume=fs.load(tmp_path / "half", model=plain_net))
    equal(whole, resumed, atol=0)
    both = fs.federate({"other": fs.FedAvg(), "it": method}, whole.model, image_clients(), whole.training, rounds=4,
                       participation=0.5, dtype="float64", seed=(3, 0), progress=False)  # fmt: skip
    for n, leaf in whole.states[KEY].server.items():
        torch.testing.assert_close(both.states[KEY].server[n], leaf, rtol=0, atol=1e-12)
        assert (both.states["it", 3].server[n] - leaf).abs().max() > 1e-3
    assert fs.load(tmp_path / "half").methods["it"] == method


def test_a_server_optimizer_steps_on_what_is_released():
    rounds = fs.rounds(private(), MODEL, vector_clients(), TRAINING, dtype="float64")
    (before,) = next(rounds).states.values()
    (update,) = next(rounds).updates.values()
    full, half = (
        aggregated(private(server=server), before, replace(update, rng=np.random.default_rng(0))).server
        for server in (None, fs.server.SGD(lr=0.5))
    )
    for n, leaf in before.server.items():
        torch.testing.assert_close(half[n] - leaf, (full[n] - leaf) / 2, rtol=0, atol=1e-12)


def test_what_participants_trained_is_told_without_noise():
    now = next(fs.rounds(private(mechanism=Gaussian(clip=1e-6, noise=1e6)), MODEL, vector_clients(), TRAINING))
    plain = next(fs.rounds(fs.FedAvg(), MODEL, vector_clients(), TRAINING))
    assert now.evaluate(trained=True)["value"].tolist() == plain.evaluate(trained=True)["value"].tolist()


def normed():
    return nn.Sequential(nn.Flatten(), nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))


def test_the_server_sees_what_the_mechanism_has_a_client_send():
    """At the client cut and with its share of the noise; at the server as it is."""
    look, network = fs.privacy.Look(client=2, batch=5), fs.models.mlp(3, 40, 2)

    def seen(mechanism):
        method = fs.FedAvg(weighting="uniform", mechanism=mechanism)
        (found,) = fs.privacy.observe(method, network, vector_clients(9), TRAINING, look, dtype="float64")
        return torch.cat([leaf.flatten() for leaf in found.update.values()])

    plain = seen(None)
    assert plain.norm() > 0.01
    torch.testing.assert_close(seen(Gaussian(0.01, 3.0)), plain, rtol=0, atol=1e-15)
    torch.testing.assert_close(seen(Gaussian(0.01, 0, at="client")), plain * 0.01 / plain.norm(), rtol=0, atol=1e-12)
    noise = seen(Gaussian(0.01, 30.0, at="client")) - plain * 0.01 / plain.norm()
    assert abs(float(noise.std()) / (30 * 0.01 / 9**0.5) - 1) < 4 / (2 * len(noise)) ** 0.5


class Talkative(fs.Method):
    """Sends more than its change."""

    def upload(self, state, update):
        return super().upload(state, update) | {"loss": update.weight}


@pytest.mark.parametrize(
    ("method", "model", "words"),
    [
        (Talkative, MODEL, r"Talkative has messages of its own \(upload\), which Gaussian"),
        (fs.FedAvg, normed, r"FedAvg shares running statistics of batch norm \(2.running_mean\)"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_methods_that_say_more_than_a_mean_refuse_a_mechanism(method, model, words):
    with pytest.raises(ValueError, match=words):
        run(private(method), clients=vector_clients(), model=model, training=TRAINING)


def test_personal_statistics_and_masks_are_no_obstacle_but_masks_that_differ_are():
    run(private(fs.methods.FedBN), clients=vector_clients(), model=normed, training=TRAINING, rounds=1)
    masks = np.arange(60).reshape(6, 10) % 2 == 0
    masks[1] = ~masks[1]
    method = private(fs.FedSplit, shared_units={"hidden": masks})
    with pytest.raises(ValueError, match="needs clients that share the same elements, which FedSplit's do not"):
        run(method, clients=vector_clients(), model=fs.models.mlp(3, 10, 2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fs.FedAvg(mechanism=Gaussian(1.0, 1.0)), 'weighting must be "uniform" beside a mechanism.*"?samples'),
        (lambda: private(aggregator=fs.aggregators.Median()), "aggregator must be None beside a mechanism"),
        (lambda: private(compression=fs.compression.TopK(0.1)), "compression must be None beside a mechanism"),
        (lambda: fs.FedAvg(weighting="uniform", mechanism=Gaussian), "mechanism must be one such as"),
        (lambda: fs.FedAvg(weighting="uniform", mechanism=fs.aggregators.Median()), "mechanism must be one such as"),
        (lambda: Gaussian(clip=0, noise=1), r"clip must be a number in \(0, inf\)"),
        (lambda: Gaussian(clip=1, noise=-1), r"noise must be a number in \[0, inf\)"),
        (lambda: Gaussian(clip=1, noise=1, at="both"), "at must be"),
    ],
)
def test_wrong_arguments_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@dataclass(frozen=True)
class Own:
    """Uniform noise, whose laws are those of any mechanism."""

    clip: float = 1.0

    def send(self, changes, of, rng):
        return clipped(changes, self.clip)

    def combine(self, changes, of, rng):
        return (changes.sum(-2) + torch.from_numpy(rng.uniform(-1, 1, changes.sum(-2).shape))) / of


class Unbounded(Own):
    def send(self, changes, of, rng):
        return changes


class Shared(Own):
    def combine(self, changes, of, rng):
        return super().combine(changes, of, np.random.default_rng())


class Flat(Own):
    def combine(self, changes, of, rng):
        return super().combine(changes, of, rng)[..., 0]


class Expectant(Own):
    """Takes the first participant for granted."""

    def combine(self, changes, of, rng):
        return super().combine(changes, of, rng) + 0 * changes[..., 0, :]


class Writes(Own):
    def send(self, changes, of, rng):
        return changes.mul_(0.1)


class Counted(Own):
    """Divides by how many changes are not zero, so that whoever is there shrinks the others."""

    def combine(self, changes, of, rng):
        return super().combine(changes, (changes.norm(dim=-1) > 0).sum(-1, keepdim=True).clamp(min=1), rng)


class Undefined(Own):
    """Cuts what is infinite to zero times infinity, so that one participant may undo the model."""

    def send(self, changes, of, rng):
        return changes * (self.clip / changes.norm(dim=-1, keepdim=True).clamp(min=self.clip))


class Present(Own):
    """Divides by how many came, which tells of one who came or did not."""

    def combine(self, changes, of, rng):
        return super().combine(changes, max(1, changes.shape[-2]), rng)


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [(Unbounded(), "influence"), (Counted(), "influence"), (Present(), "influence"), (Undefined(), "influence"),
     (Shared(), "repeat"), (Flat(), "shape"), (Writes(), "untouched"), (Expectant(), "call")],
)  # fmt: skip
def test_broken_laws_are_named(mechanism, law):
    with pytest.raises(AssertionError, match=f"{type(mechanism).__name__} breaks the law '{law}'"):
        check_mechanism(mechanism)
    with pytest.raises(ValueError, match=f"mechanism {type(mechanism).__name__} breaks the law '{law}'"):
        run(private(mechanism=mechanism), model=plain_net)


@pytest.mark.parametrize("at", ["server", "client"])
def test_mechanisms_obey_their_laws(at):
    check_mechanism(Gaussian(clip=0.3, noise=1.0, at=at))
    check_mechanism(Own(0.5))


def test_a_mechanism_comes_from_a_file_and_a_grid(tmp_path):
    text = """
rounds = 1
data.name = "digits"
partition = {kind = "iid", clients = 4, validation = 0.2}
model = {name = "mlp", widths = [8]}
training.lr = 0.1
[tune]
seed = [7]
[method.FedAvg]
weighting = "uniform"
mechanism = {name = "gaussian", clip = 0.3, noise = 2.0}
[method.FedAvg.grid]
mechanism = [{name = "gaussian", clip = 0.1, noise = 2.0}, {name = "mine.py:Own", clip = 2.0}]
"""
    (tmp_path / "one.toml").write_text(text)
    (tmp_path / "mine.py").write_text("from tests.federated.test_mechanisms import Own\n")
    assert set_up(read(tmp_path / "one.toml")).methods["FedAvg"].mechanism == Gaussian(clip=0.3, noise=2.0)
    (name,) = code_named(tmp_path / "one.toml").values()
    assert name.startswith(str(tmp_path / "mine.py"))
    (tmp_path / "two.toml").write_text(text.replace('weighting = "uniform"\n', ""))
    with pytest.raises(ValueError, match=r'method.FedAvg.weighting must be "uniform" beside a mechanism'):
        read(tmp_path / "two.toml")


def test_participants_are_as_many_as_the_account_counts():
    from fedstat._account import spend

    for clients in (1, 2, 3, 7, 10):
        for share in (0.01, 0.15, 0.25, 0.5, 0.75, 0.95, 1.0):
            drawn = len(participants(0, 0, clients, share))
            words = spend(1.0, "server", share, clients, 1, 1e-5).sampling
            assert words.startswith(f"all {clients} " if drawn == clients else f"{drawn} of {clients} ")


def changes_of_round(runs):
    """What the first round of runs does to the server's weights, a row for each."""
    now = next(runs)
    return torch.stack(
        [
            torch.cat([(now.states[key].server[n] - leaf[0]).flatten() for n, leaf in update.start.items()])
            for key, update in now.updates.items()
        ]
    )


@pytest.mark.parametrize("at", ["server", "client"])
def test_no_two_releases_have_the_same_noise(at):
    """By seeds that share participants, methods, settings and rates; without training noise is all that there is."""
    methods = {
        "FedAvg": private(mechanism=Gaussian(1.0, 1.0, at)),
        "FedProx": private(fs.methods.FedProx, Gaussian(1.0, 1.0, at), mu=0.1),
        "stronger": private(fs.methods.FedProx, Gaussian(1.0, 1.0, at), mu=0.2),
    }
    still = fs.Training(lr=0.0, batch_size=100)
    training = {label: still for label in methods} | {"stronger": replace(still, batch_size=50)}
    how = {"dtype": "float64", "seed": (0, 1), "vary": "initial weights"}
    found = changes_of_round(fs.rounds(methods, fs.models.mlp(3, 100, 2), vector_clients(), training, **how))
    assert len(found) == 6
    correlations = np.corrcoef(found.numpy()) - np.eye(6)
    assert np.abs(correlations).max() < 5 / found.shape[1] ** 0.5
    again = changes_of_round(fs.rounds(methods, fs.models.mlp(3, 100, 2), vector_clients(), training, **how))
    assert torch.equal(found, again)
    rate = {label: replace(one, weight_decay=0.1) for label, one in training.items()}
    other = changes_of_round(fs.rounds(methods, fs.models.mlp(3, 100, 2), vector_clients(), rate, **how))
    assert max(abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(found, other, strict=True)) < 0.2

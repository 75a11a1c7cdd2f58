"""Short runs of one method, and what two of them have in common."""

from dataclasses import replace
from functools import cache

import numpy as np
import torch

import fedstat as fs
from fedstat.federated import stack
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.engine.training import train
from fedstat.federated.replicate import make_replicate
from fedstat.federated.rounds import make_federation
from fedstat.federated.route import Equipment
from tests.support.clients import image_clients
from tests.support.networks import conv_net

#: The run of one method with one seed.
KEY = ("it", 0)

TRAINING = fs.Training(lr=0.05, momentum=0.5, batch_size=5, local_epochs=2)
#: Batches of all samples: their order is then immaterial.
FULL = fs.Training(lr=0.05, momentum=0.5, batch_size=100, local_epochs=3)
#: One gradient step in a round.
STEP = fs.Training(lr=0.05, batch_size=100)


def run(method, rounds=3, *, clients=None, model=conv_net, training=TRAINING, **options):
    """A short run in float64 with half of the clients in each round."""
    options = {"participation": 0.5, "dtype": "float64", "progress": False} | options
    data = image_clients() if clients is None else clients
    return fs.federate({"it": method}, model, data, training, rounds=rounds, **options)


@cache
def reference(method, model=conv_net, training=TRAINING, **options):
    """Runs that several tests compare with."""
    return run(method, model=model, training=training, **options)


def federation_of(method, clients, model=conv_net, training=TRAINING, loss="cross_entropy"):
    """New clients as a method sees them."""
    equipment = Equipment(loss, training, StackedSamples.stack([clients.train], torch.float64, "cpu"))
    return make_federation(method, make_replicate(clients, model, Seeds(0), "float64", "cpu"), equipment)


def train_once(method, learner, training, samples, start, jobs, round, executor, **how):
    """Leaves after one round of local training by an executor."""
    route = Equipment(learner.task, training, samples, executor).route(method, learner.network, start)
    return train(replace(route, learner=learner), start, jobs, round, **how)


def final(result, estimand=None):
    """Leaves of all clients' models after the last round."""
    ((key, state),) = result.states.items()
    federation = result.federations[key]
    models = result.methods[key[0]].models(state, torch.arange(len(federation.clients)), federation)
    return models[estimand or next(iter(models))].params


def trajectory(result, estimand=None):
    """Metrics of one estimand (by default the method's own, its first) over rounds and clients."""
    history = result.history
    chosen = history["estimand"].iloc[0] if estimand is None else estimand
    rows = history[history["estimand"] == chosen]
    assert len(rows), f"no rows of estimand {chosen}"
    return rows.pivot_table(index=["seed", "round", "client"], columns="metric", values="value", observed=True)


def traffic(result, metric):
    """Bytes of one direction, a table of rounds by clients (NaN where a client did not take part)."""
    return result.traffic.pivot_table(index="round", columns="client", values=metric, observed=True)


def offered(method, state, federation):
    """What a method offers to the clients of `federation` as new ones, as `fs.newcomers` asks for it."""
    ids = torch.arange(len(federation.clients))
    return method.newcomer(state, ids, stack(state.server, len(ids)), federation)


def same(here, there, atol=1e-10, estimands=(None, None)):
    """Whole trajectories agree: every metric of every client after every round."""
    a, b = trajectory(here, estimands[0]), trajectory(there, estimands[1])
    assert a.index.equals(b.index)
    assert a.columns.equals(b.columns)
    np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=0, atol=atol)


def assert_close(here, there, atol=1e-10):
    """The same leaves with the same values."""
    assert here.keys() == there.keys()
    for name, leaf in here.items():
        torch.testing.assert_close(leaf, there[name], rtol=0, atol=atol)


def equal(here, there, atol=1e-10, estimands=(None, None)):
    """Whole trajectories agree, and final models."""
    same(here, there, atol, estimands)
    assert_close(final(here, estimands[0]), final(there, estimands[1]), atol)


def differ(here, there):
    """The limit says something: off it, trajectories part."""
    assert not np.allclose(trajectory(here).to_numpy(), trajectory(there).to_numpy(), rtol=0, atol=1e-6)


def sent(result, direction):
    """The different numbers of bytes that went in one direction."""
    counts = np.unique(traffic(result, f"bytes_{direction}").to_numpy())
    return set(counts[~np.isnan(counts)])

"""FedALA: limits, plain loops, what weights learn, bytes, clients never chosen and new ones."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

import fedstat as fs
from fedstat._random import stream
from fedstat.federated import stack
from fedstat.federated.slots import in_slot, slot, without_slots
from fedstat.methods import FedALA, FedAvg
from fedstat.testing import check_method
from tests.support.clients import image_clients, samples
from tests.support.copies import PLAIN, assert_whole_models_travel, load, mean_of, orders, start_of, trained
from tests.support.networks import leaves_of
from tests.support.runs import KEY, TRAINING, assert_close, federation_of, final, offered, run, same, traffic

#: Weights and biases of the three top layers, one of which has a norm.
TOP = (
    "conv2.weight",
    "conv2.bias",
    "norm2.weight",
    "norm2.bias",
    "hidden.weight",
    "hidden.bias",
    "head.weight",
    "head.bias",
)


def mix(w, own, weights):
    """Mixed weights of a client with the global model `w`, under the global model's statistics."""
    mixed = {n: own[n] + (leaf - own[n]) * weights[n] for n, leaf in w.named_parameters() if n in TOP}
    return dict(w.named_parameters()) | dict(w.named_buffers()) | mixed


def learned(method, w, own, weights, x, y, batches, training):
    """Aggregation weights after they have learned on the first samples of each batch."""
    weights = {n: leaf.clone().requires_grad_() for n, leaf in weights.items()}
    optimizer = torch.optim.SGD(weights.values(), lr=method.eta)
    for b in batches:
        some = b[: math.ceil(method.share * len(b) - 1e-9)]
        outputs = functional_call(copy.deepcopy(w).train(), mix(copy.deepcopy(w), own, weights), (x[some],))
        optimizer.zero_grad()
        F.cross_entropy(outputs, y[some]).backward()
        optimizer.step()
        with torch.no_grad():
            for leaf in weights.values():
                leaf.clamp_(0, 1)
    return {n: leaf.detach() for n, leaf in weights.items()}


def loss_of(x, y):
    return lambda module, b: F.cross_entropy(module(x[b]), y[b])


def tops(module):
    return {n: leaf for n, leaf in leaves_of(module).items() if n in TOP}


def epochs(clients, k, round, training, count, purpose):
    """Batches as `orders` has them, of so many epochs and for another purpose."""
    n = int(clients.train.n[k])
    rows = stream(0, purpose, round, k).permuted(np.tile(np.arange(n), (count, 1)), axis=1)
    return [row[i : i + training.batch_size] for row in rows for i in range(0, n, training.batch_size)]


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
@pytest.mark.parametrize("training", [TRAINING, replace(PLAIN, lr_decay=0.5)], ids=["momentum", "decay"])
def test_four_rounds_are_those_of_a_plain_loop(training, executor):
    clients, rounds = image_clients(5), 4
    method = FedALA(top=3, eta=8.0, share=0.6, start_epochs=3)
    result = run(method, rounds, clients=clients, training=training, executor=executor, participation=0.6)
    w, own, met = start_of(result), [None] * 5, set()
    weights = [{n: torch.ones_like(leaf) for n, leaf in tops(w).items()} for _ in range(5)]
    came = traffic(result, "bytes_up").notna()
    assert not came.all(axis=1).any()
    for t in range(rounds):
        present, ends = [k for k in came.columns if came.loc[t + 1, k]], []
        for k in present:
            (x, y), start = samples(clients, k), w
            if k in met:
                batches = epochs(clients, k, t, training, 3 if t == 1 else 1, "batches")
                weights[k] = learned(method, w, own[k], weights[k], x, y, batches, training)
                start = load(w, mix(w, own[k], weights[k]))
            now = replace(training, lr=training.lr * training.lr_decay**t)
            ends.append(trained(start, loss_of(x, y), orders(clients, k, t, training), now))
            own[k] = tops(ends[-1])
        met |= {*present}
        n = clients.train.n[present]
        w = load(w, mean_of(ends, n / n.sum()))
    state, models = result.states[KEY], final(result)
    assert_close(without_slots(state.server), leaves_of(w))
    flat = torch.cat([leaf.flatten() for k in met for leaf in weights[k].values()])
    assert 0 < ((flat > 0) & (flat < 1)).double().mean() < 1
    assert (flat == 0).any()
    for k in range(5):
        row = {n: leaf[k] for n, leaf in state.clients.items()}
        assert bool(row["met/own"]) == (k in met)
        assert_close(slot(row, "aggregation"), weights[k])
        if k not in met:
            assert_close({n: leaf[k] for n, leaf in models.items()}, leaves_of(w))
            continue
        assert_close(slot(row, "own"), own[k])
        batches = epochs(clients, k, rounds, training, 1, "tuning batches")
        now = learned(method, w, own[k], weights[k], *samples(clients, k), batches, training)
        assert_close({n: leaf[k] for n, leaf in models.items()}, leaves_of(load(w, mix(w, own[k], now))))


def test_whose_weights_do_not_learn_has_fedavgs_model():
    still, fedavg = run(FedALA(eta=0.0, top=4)), run(FedAvg())
    for estimand in ("personal", "global"):
        same(still, fedavg, 0, estimands=(estimand, None))
    assert_close(without_slots(still.states[KEY].server), fedavg.states[KEY].server, 0)


def test_a_client_unlike_the_others_takes_over_less_of_the_global_model():
    rng = np.random.default_rng(0)
    client = np.repeat(np.arange(5), 100)
    x = rng.normal(size=(500, 2))
    y = x @ [1.0, -1.0] * np.where(client == 2, -1, 1)
    clients = fs.data.from_arrays(x, y, client, test=0)
    training = fs.Training(lr=0.05, batch_size=100, local_epochs=3)
    result = run(
        FedALA(top=2, eta=0.1), 20, clients=clients, model=lambda: torch.nn.Linear(2, 1), training=training,
        participation=1.0,
    )  # fmt: skip
    weights = result.states[KEY].clients["aggregation/weight"]
    assert weights[2].max() < 0.4
    assert weights[[0, 1, 3, 4]].min() > 0.5
    mse = result.history.query("metric == 'mse' and round == 20 and client == 2").set_index("estimand")["value"]
    assert mse["personal"] < 0.5 * mse["global"]


@pytest.mark.slow
def test_with_a_part_of_each_batch_it_obeys_the_laws(examples):
    check_method(FedALA(top=2, share=0.5), except_for=["permutation"], examples=examples)


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(FedALA())


def test_new_clients_train_the_global_model_for_a_round_and_mix():
    method = FedALA(top=3, eta=8.0, share=0.6, start_epochs=3)
    result, strangers = run(method, 2), image_clients(3, seed=5)
    state, federation = result.states[KEY], federation_of(method, strangers)
    models, w = offered(method, state, federation), load(start_of(result), without_slots(result.states[KEY].server))
    ones = {n: torch.ones_like(leaf) for n, leaf in tops(w).items()}
    for k in range(3):
        x, y = samples(strangers, k)
        own = tops(trained(w, loss_of(x, y), epochs(strangers, k, 2, TRAINING, 2, "tuning batches"), TRAINING))
        weights = learned(method, w, own, ones, x, y, epochs(strangers, k, 2, TRAINING, 3, "tuning batches"), TRAINING)
        assert_close(
            {n: leaf[k] for n, leaf in models["personal"].params.items()}, leaves_of(load(w, mix(w, own, weights)))
        )
        assert_close({n: leaf[k] for n, leaf in models["global"].params.items()}, leaves_of(w), 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedALA(top=0), "top must be a whole number, at least 1, got 0"),
        (lambda: FedALA(share=0.0), r"share must be a number in \(0, 1\], got 0"),
        (lambda: run(FedALA(top=5)), "top must be at most the network's number of layers, 4, got 5"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_loaded_result_has_no_mixed_models(tmp_path):
    run(FedALA(), 1).save(tmp_path / "run")
    loaded = fs.load(tmp_path / "run")
    with pytest.raises(ValueError, match="FedALA learns how to mix on the clients' data"):
        loaded.methods["it"].models(loaded.states[KEY], torch.arange(2))


@pytest.mark.parametrize(
    "changes",
    [{"weight_decay": 0.1}, {"clip_norm": 1e-3}, {"momentum": 0.9}, {"optimizer": fs.AdamW(decay=10.0)}],
    ids=["decay", "clipping", "momentum", "decoupled"],
)
def test_weights_take_plain_steps_whatever_trains_the_model(changes):
    method, clients, ends = FedALA(eta=5.0, top=3), image_clients(), []
    for training in (PLAIN, replace(PLAIN, **changes)):
        federation = federation_of(method, clients, training=training)
        start = stack(method.leaves(federation.network, federation), len(clients))
        start |= in_slot({n: leaf + 0.1 * torch.ones_like(leaf) for n, leaf in slot(start, "own").items()}, "own")
        start["met/own"] = torch.ones_like(start["met/own"])
        phases = method.phases(federation.network, training, 1)[:-1]
        ends.append(slot(federation.train(method, start, torch.arange(len(clients)), phases, 1), "aggregation"))
    assert any(((leaf > 0) & (leaf < 1)).any() for leaf in ends[0].values())
    assert_close(*ends, 0)

"""pFedMe: plain loops, limits, envelopes of quadratics, bytes, new clients."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import fedstat as fs
from fedstat.federated.slots import slot, without_slots
from fedstat.methods import FedAvg, PFedMe
from fedstat.testing import check_method
from tests.methods.test_feddyn import EPOCHS, LR, OF_QUADRATICS, QUADRATICS, vars_of
from tests.methods.test_scaffold import VARYING, gradients
from tests.support.clients import image_clients, samples
from tests.support.copies import assert_whole_models_travel, orders, start_of
from tests.support.networks import leaves_of
from tests.support.runs import FULL, KEY, TRAINING, assert_close, differ, offered, run, same, traffic


def test_the_laws_hold(examples):
    check_method(PFedMe(penalty=2.0, inner_steps=3, inner_lr=0.2), examples=examples)


def near(module, batch, steps, penalty, lr):
    """The weights that some gradient steps from a module's lead to; its statistics move once."""
    w = [leaf.detach().clone() for leaf in module.parameters()]
    theta = copy.deepcopy(module)
    for step in range(steps):
        grads = gradients(module if step == 0 else theta, *batch)
        with torch.no_grad():
            for leaf, g, centre in zip(theta.parameters(), grads, w, strict=True):
                leaf -= lr * (g + penalty * (leaf - centre))
    return [leaf.detach() for leaf in theta.parameters()]


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_three_rounds_are_those_of_a_plain_loop(weighting, executor):
    clients, rounds, beta, how = image_clients(5), 3, 0.7, (3, 2.0, 0.2)
    method = PFedMe(inner_steps=3, penalty=2.0, inner_lr=0.2, weighting=weighting, server=fs.server.SGD(lr=beta))
    result = run(method, rounds, clients=clients, training=VARYING, executor=executor)
    size = clients.train.n if weighting == "samples" else np.ones(5)
    w = start_of(result)
    names = [name for name, _ in w.named_parameters()]
    own = [leaves_of(w)] * 5
    came = traffic(result, "bytes_up").notna()
    assert not came.all(axis=1).any()
    for t in range(rounds):
        present, ends = [k for k in came.columns if came.loc[t + 1, k]], []
        for k in present:
            x, y = samples(clients, k)
            mine = copy.deepcopy(w).train()
            for step, b in enumerate(orders(clients, k, t, fs.Training(**vars_of(VARYING, k)))):
                rate = VARYING.lr[k] * 0.8**t / (1 + 0.3 * step)
                theta = near(mine, (x[b], y[b]), *how)
                with torch.no_grad():
                    for leaf, to in zip(mine.parameters(), theta, strict=True):
                        leaf -= rate * (method.penalty * (leaf - to) + 0.01 * leaf)
            ends.append(leaves_of(mine))
            own[k] = ends[-1] | dict(zip(names, near(mine, (x, y), *how), strict=True))
        p, before = size[present] / size[present].sum(), leaves_of(w)
        mean = {n: sum(share * end[n] for share, end in zip(p, ends, strict=True)) for n in before}
        after = {n: before[n] + (beta if n in names else 1) * (mean[n] - before[n]) for n in before}
        w.load_state_dict(after, strict=False)
    state = result.states[KEY]
    assert_close(without_slots(state.server), leaves_of(w))
    for k in range(5):
        assert_close(slot({n: leaf[k] for n, leaf in state.clients.items()}, "personal"), own[k])


@pytest.mark.parametrize(
    ("method", "apart"),
    [
        (PFedMe(inner_steps=1, penalty=4.0, inner_lr=0.25), 1e-10),
        (PFedMe(inner_steps=4, penalty=1e6, inner_lr=1e-6), 1e-4),
    ],
    ids=["one step", "large penalty"],
)
def test_with_one_step_or_a_large_penalty_the_shared_model_is_fedavgs(method, apart):
    fedavg = FedAvg(weighting="uniform")
    same(run(method), run(fedavg), apart, estimands=("global", None))
    shorter = replace(method, inner_lr=method.inner_lr / 2)
    slower = run(fedavg, training=replace(TRAINING, lr=TRAINING.lr / 2))
    if method.inner_steps == 1:
        same(run(shorter), slower, apart, estimands=("global", None))
    else:
        differ(run(PFedMe(inner_steps=4, penalty=1.0, inner_lr=1.0)), run(fedavg))


def envelopes(w, penalty, steps, lr):
    """Where inner steps lead from w, for each quadratic (K, d), by powers of a matrix."""
    found = []
    for hessian, centre in zip(QUADRATICS.hessians, QUADRATICS.centres, strict=True):
        curved = hessian + penalty * np.eye(3)
        nearest = np.linalg.solve(curved, hessian @ centre + penalty * w)
        found.append(nearest + np.linalg.matrix_power(np.eye(3) - lr * curved, steps) @ (w - nearest))
    return np.stack(found)


def test_on_quadratics_rounds_have_a_closed_form():
    how = {"penalty": 1.5, "inner_steps": 3, "inner_lr": 0.3}
    w, own = None, None
    for now in fs.rounds(PFedMe(**how), **OF_QUADRATICS, participation=0.5, dtype="float64"):
        (update,), (state,) = now.updates.values(), now.states.values()
        if w is None:
            w = update.start["weight"][0, 0].numpy()
            own = np.tile(w, (4, 1))
        ends = []
        for k in update.ids.tolist():
            mine = w
            for _ in range(EPOCHS[k]):
                mine = mine - LR * 1.5 * (mine - envelopes(mine, 1.5, 3, 0.3)[k])
            ends.append(mine)
            own[k] = envelopes(mine, 1.5, 3, 0.3)[k]
        w = np.mean(ends, 0)
        np.testing.assert_allclose(state.server["weight"][0].numpy(), w, atol=1e-12)
        np.testing.assert_allclose(state.clients["personal/weight"][:, 0].numpy(), own, atol=1e-12)
        if now.number == 5:
            break


def test_exact_inner_solutions_lead_to_the_minimum_of_the_mean_envelope():
    """One step in a round; the envelopes' Hessians are ``penalty H (H + penalty)^-1``, about the same centres."""
    penalty, training = 1.5, fs.Training(lr=1.0, batch_size=3)
    method = PFedMe(penalty=penalty, inner_steps=12, inner_lr=0.45)
    result = run(method, 50, **OF_QUADRATICS | {"training": training}, participation=1.0, evaluate_at=())
    curved = [penalty * h @ np.linalg.inv(h + penalty * np.eye(3)) for h in QUADRATICS.hessians]
    least = np.linalg.solve(sum(curved), sum(h @ c for h, c in zip(curved, QUADRATICS.centres, strict=True)))
    assert np.linalg.norm(least - QUADRATICS.optimum) > 0.01
    np.testing.assert_allclose(result.states[KEY].server["weight"][0].numpy(), least, atol=1e-8)


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(PFedMe())


def test_new_clients_train_for_a_round_and_keep_the_personal_model():
    """With full batches, which the order of samples leaves alone, they are what participants become."""
    options = {"training": FULL, "participation": 1.0}
    now, next_ = run(PFedMe(), 2, **options), run(PFedMe(), 3, **options)
    models = offered(PFedMe(), now.states[KEY], now.federations[KEY])
    assert list(models) == ["personal", "global"]
    kept = slot({n: leaf[torch.arange(6)] for n, leaf in next_.states[KEY].clients.items()}, "personal")
    assert_close(models["personal"].params, kept)
    for k in range(6):
        assert_close(
            {n: leaf[k] for n, leaf in models["global"].params.items()}, without_slots(now.states[KEY].server), 0
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PFedMe(penalty=0), "penalty must be a number"),
        (lambda: PFedMe(inner_steps=0), "inner_steps must be a whole number, at least 1"),
        (lambda: PFedMe(inner_lr=-0.1), "inner_lr must be a number"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""Filter decomposition: laws, limit cases, the method client by client, what travels, and its covariance term."""

from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.func import functional_call

import fedstat as fs
from fedstat._random import stream
from fedstat.federated import Method, Phase
from fedstat.federated.client.network import build
from fedstat.federated.replicate import participants
from fedstat.federated.state import Update
from fedstat.federated.store import ClientStore
from fedstat.methods import FedAvg, FilterDecomp
from fedstat.models import mlp
from fedstat.testing import check_method
from tests.support.clients import image_clients
from tests.support.networks import conv_net, plain_net
from tests.support.runs import TRAINING, differ, equal, offered, run, same, traffic, trajectory

CLIENTS = 6
CONVS = ("conv1.weight", "conv2.weight")
ALPHA, ATOMS = ([f"{name}.{part}" for name in CONVS] for part in ("alpha", "atoms"))
HEAD = ["head.weight", "head.bias"]
STATISTICS = [f"norm{n}.running_{kind}" for n in (1, 2) for kind in ("mean", "var")]
# floats of conv_net with three atoms: coefficients, atoms, head, and biases, batch norm and hidden layer
COEFFICIENTS, ATOM_FLOATS, HEAD_FLOATS, REST = 3 * (4 * 1 + 5 * 4), 2 * 9 * 3, 7 * 4 + 4, 9 + 4 * 9 + 20 * 7 + 7


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"personal": True, "head": "local"}, {"beta": 1 / 2}, {"beta": 1 / 2, "personal": True, "keep_local_slow": True}],
    ids=["personal", "fast and slow", "all together"],
)
def test_it_obeys_the_laws(settings):
    # parts that train against others as received, or are dropped between rounds, are no gradient step in all parts
    check_method(FilterDecomp(atoms=4, **settings), except_for=["one client"], examples=5)


# --- the method client by client ---------------------------------------------------------------------------------


def composed(params):
    """The module's weights, filters as sums over atoms."""
    weights = {name: leaf for name, leaf in params.items() if name not in (*ALPHA, *ATOMS)}
    for conv in CONVS:
        alpha, atoms = params[f"{conv}.alpha"], params[f"{conv}.atoms"]
        weights[conv] = sum(alpha[r][:, :, None, None] * atoms[:, :, r] for r in range(len(alpha)))
    return weights


def batches(n, round, client, purpose="batches"):
    """The samples of each local step."""
    places = np.tile(np.arange(n), (TRAINING.local_epochs, 1))
    epochs = stream(0, purpose, round, client).permuted(places, axis=1)
    return [epoch[i : i + TRAINING.batch_size] for epoch in epochs for i in range(0, n, TRAINING.batch_size)]


def trained(module, params, names, x, y, steps):
    """Train some leaves of one client with torch's own optimiser; batch norm's statistics move besides."""
    params = {name: leaf.clone().requires_grad_(name in names) for name, leaf in params.items()}
    optimizer = torch.optim.SGD([params[name] for name in names], lr=TRAINING.lr, momentum=TRAINING.momentum)
    for step in steps:
        optimizer.zero_grad()
        nn.functional.cross_entropy(functional_call(module.train(), composed(params), (x[step],)), y[step]).backward()
        optimizer.step()
    return {name: leaf.detach() for name, leaf in params.items()}


def federation(method, clients, start, rounds):
    """FilterDecomp as its description says, one client after the other: server, personal leaves, bytes."""
    module = conv_net().double()
    trainable = [name for name in start if "running" not in name]
    local = [*ATOMS, *HEAD] if method.head == "local" else ATOMS
    if method.beta == 1:
        slow = []
    else:
        slow = ALPHA if method.slow == "alpha" else [name for name in start if name not in (*ATOMS, *HEAD)]
    kept = [*local, *STATISTICS]
    server, personal = start, [{name: start[name] for name in kept} for _ in range(CLIENTS)]
    cached, own, sent = [None] * CLIENTS, [None] * CLIENTS, []
    for t in range(rounds):
        ids = participants(0, t, CLIENTS, 0.5)
        weight = clients.train.n[ids] / clients.train.n[ids].sum()
        ends, averages = [], t * method.beta == int(t * method.beta)
        for k in ids:
            x, y = (torch.from_numpy(values) for values in clients.train.client(k))
            news = cached[k] is None or any(not torch.equal(cached[k][name], server[name]) for name in slow)
            cached[k] = {name: server[name] for name in slow}
            received = server if news or not method.keep_local_slow else server | own[k]
            steps = batches(len(y), t, k)
            ends.append(trained(module, received, trainable, x, y, steps))
            own[k] = {name: ends[-1][name] for name in slow}
            if method.personal:
                alone = trained(module, received | personal[k], local, x, y, steps)
                personal[k] = {name: alone[name] for name in kept}
            fast = sum(leaf.numel() for name, leaf in start.items() if name not in slow)
            extra = sum(start[name].numel() for name in slow)
            sent.append((t + 1, k, 8 * (fast + averages * extra), 8 * (fast + news * extra)))
        mean = {name: sum(w * end[name] for w, end in zip(weight, ends, strict=True)) for name in start}
        server = {name: leaf if name in slow and not averages else mean[name] for name, leaf in server.items()}
    return server, personal, sent


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(FilterDecomp(atoms=3), marks=pytest.mark.slow),
        FilterDecomp(atoms=5, personal=True, head="local"),
        pytest.param(FilterDecomp(atoms=3, beta=1 / 2), marks=pytest.mark.slow),
        FilterDecomp(atoms=3, beta=1 / 3, slow="alpha", keep_local_slow=True, personal=True),
        pytest.param(FilterDecomp(atoms=3, beta=1 / 2, keep_local_slow=True), marks=pytest.mark.slow),
    ],
    ids=["global", "personal", "fast and slow", "alpha kept, personal atoms", "slow kept"],
)
def test_it_is_the_method_run_client_by_client(method):
    clients = image_clients(CLIENTS)
    result = run(method, rounds=5, clients=clients, participation=0.5)
    state = result.states["it", 0]
    server, personal, sent = federation(method, clients, result.network(("it", 0)).initial(), 5)
    for name, leaf in server.items():
        torch.testing.assert_close(state.server[name], leaf, rtol=0, atol=1e-10)
    up, down = traffic(result, "bytes_up"), traffic(result, "bytes_down")
    assert sent == [(t, k, up.loc[t, k], down.loc[t, k]) for t, k, _, _ in sent]
    assert len(sent) == up.count().sum()
    log_loss = trajectory(result)["log_loss"].xs(5, level="round").to_numpy()
    module = conv_net().double().eval()
    for k in range(CLIENTS):
        model = server | personal[k] if method.personal else server
        x, y = (torch.from_numpy(values) for values in clients.splits["test"].client(k))
        loss = nn.functional.cross_entropy(functional_call(module, composed(model), (x,)), y)
        assert log_loss[k] == pytest.approx(loss.item(), abs=1e-10)


def test_a_new_client_trains_atoms_of_its_own_against_the_newest_shared_part():
    method, clients = FilterDecomp(atoms=3, personal=True), image_clients(CLIENTS)
    result = run(method, rounds=2, clients=clients)
    state, federation = result.states["it", 0], result.federations["it", 0]
    models = offered(method, state, federation)
    assert list(models) == ["personal"]
    start = federation.network.initial()
    shared = {name: state.server[name] for name in start}
    for k in range(CLIENTS):
        x, y = (torch.from_numpy(values) for values in clients.train.client(k))
        received = shared | {name: start[name] for name in ATOMS}
        steps = batches(len(y), 2, k, "tuning batches")
        module = conv_net().double()
        alone = trained(module, received, ATOMS, x, y, steps)
        module.norm1.momentum = module.norm2.momentum = 1.0  # the moments of all samples
        functional_call(module.train(), composed(alone), (x,))
        for name, leaf in alone.items():
            torch.testing.assert_close(models["personal"].params[name][k], leaf, rtol=0, atol=1e-10)


@pytest.mark.parametrize("keep", [False, True])
def test_without_personal_atoms_a_new_client_gets_the_global_model(keep):
    method = FilterDecomp(atoms=3, beta=1 / 2, keep_local_slow=keep)
    result = run(method, rounds=2)
    state = result.states["it", 0]
    models = offered(method, state, result.federations["it", 0])
    assert list(models) == ["global"]
    assert set(models["global"].params) == set(result.network(("it", 0)).initial())
    for name, leaf in models["global"].params.items():
        assert torch.equal(leaf, state.server[name].expand_as(leaf))


# --- limit cases -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Frozen(FilterDecomp):
    """One factor stays as it started."""

    part: str

    def phases(self, network, training, round):
        (phase,) = super().phases(network, training, round)
        return (replace(phase, train=tuple(n for n in phase.train if not n.endswith(f".{self.part}"))),)


def test_with_frozen_canonical_atoms_it_is_fedavg():
    ours = run(Frozen(part="atoms", basis="canonical"), rounds=4)
    fedavg = run(FedAvg(), rounds=4)
    same(ours, fedavg)
    for name, leaf in composed(ours.states["it", 0].server).items():
        torch.testing.assert_close(leaf, fedavg.states["it", 0].server[name], rtol=0, atol=1e-10)


def test_with_frozen_orthonormal_atoms_it_is_fedavg_from_the_composed_filters():
    # gradient steps, with momentum or without, do not depend on the orthonormal basis that they are written in
    ours = run(Frozen(part="atoms"), rounds=4)
    module = conv_net().double()
    module.load_state_dict(composed(ours.network(("it", 0)).initial()), strict=False)
    fedavg = run(FedAvg(), rounds=4, model=module)
    same(ours, fedavg)


@dataclass(frozen=True, kw_only=True)
class OnlyAtoms(FilterDecomp):
    """Coefficients stay as they started."""

    def phases(self, network, training, round):
        return (Phase(tuple(n for n in network.trainable if not n.endswith(".alpha"))),)


@dataclass(frozen=True, kw_only=True)
class MeanOfFilters(OnlyAtoms):
    """Averages composed filters and reads atoms off their mean."""

    def aggregate(self, state, update):
        new = super().aggregate(state, update)
        filters = torch.vmap(update.network.compose)(update.end)
        for name in update.network.forms:
            mean = torch.tensordot(update.weight, filters[name], dims=1)
            inverse = torch.linalg.pinv(state.server[f"{name}.alpha"].flatten(1))
            new.server[f"{name}.atoms"] = torch.einsum("fab,fr->abr", mean.flatten(0, 1), inverse)
        return new


@pytest.mark.slow
def test_filterdecomp_with_common_frozen_coefficients_averages_filters():
    limit = run(MeanOfFilters(atoms=3), rounds=4)
    equal(run(OnlyAtoms(atoms=3), rounds=4), limit)
    differ(run(FilterDecomp(atoms=3), rounds=4), limit)


@dataclass(frozen=True, kw_only=True)
class Relay(Method):
    """The only participant hands its factors on as they are."""

    def parameterize(self, network, rng):
        return FilterDecomp(atoms=3).parameterize(network, rng)

    def aggregate(self, state, update):
        return replace(state, server={n: leaf[0] for n, leaf in update.end.items()}, round=state.round + 1)


@pytest.mark.slow
def test_filterdecomp_with_one_participant_hands_its_product_on():
    options = {"rounds": 4, "participation": 1 / 6}
    equal(run(FilterDecomp(atoms=3), **options), run(Relay(), **options))


@dataclass(frozen=True, kw_only=True)
class FixedAfterTheFirstRound(FilterDecomp):
    """From round 1 on the server takes back what became of some leaves."""

    fast: tuple[str, ...]

    def aggregate(self, state, update):
        new = super().aggregate(state, update)
        back = {n: leaf for n, leaf in state.server.items() if state.round and not n.endswith(self.fast)}
        return replace(new, server=new.server | back)


@pytest.mark.slow
@pytest.mark.parametrize("slow", ["all", "alpha"])
def test_filterdecomp_with_small_beta_fixes_the_slow_group_after_the_first_round(slow):
    rest = ("weight", "bias", "running_mean", "running_var") if slow == "alpha" else ("head.weight", "head.bias")
    limit = run(FixedAfterTheFirstRound(atoms=3, fast=("atoms", *rest)), rounds=4)
    equal(run(FilterDecomp(atoms=3, beta=1 / 50, slow=slow), rounds=4), limit)
    differ(run(FilterDecomp(atoms=3), rounds=4), limit)


class Recorded(FilterDecomp):
    """Keeps what the participants returned."""

    seen: ClassVar[list[Update]] = []

    def aggregate(self, state, update):
        self.seen.append(update)
        return super().aggregate(state, update)


class RecordedFrozen(Recorded, Frozen):
    """The same with one factor frozen."""


def recorded(method, **options):
    """The state after two rounds and the update before it."""
    method.seen.clear()
    result = run(method, rounds=2, **options)
    return result.states["it", 0].server, method.seen[-1]


def filters(coefficients, atoms):
    """All clients' filters, (m, o, i, a, b)."""
    return torch.einsum("kroi,kabr->koiab", coefficients, atoms)


def server_filter(server, conv):
    return composed(server)[conv]


@pytest.mark.parametrize("part", ["atoms", "alpha"])
def test_with_one_factor_frozen_and_common_filters_themselves_are_averaged(part):
    server, update = recorded(RecordedFrozen(atoms=3, part=part))
    for conv in CONVS:
        each = filters(update.end[f"{conv}.alpha"], update.end[f"{conv}.atoms"])
        assert each.var(dim=0).max() > 0
        mean = torch.tensordot(update.weight, each, dims=1)
        torch.testing.assert_close(server_filter(server, conv), mean, rtol=0, atol=1e-12)


def test_with_one_participant_the_filter_is_that_clients_own_product():
    server, update = recorded(Recorded(atoms=3), participation=1 / CLIENTS)
    for conv in CONVS:
        (own,) = filters(update.end[f"{conv}.alpha"], update.end[f"{conv}.atoms"])
        torch.testing.assert_close(server_filter(server, conv), own, rtol=0, atol=1e-12)


def test_the_product_of_averages_holds_virtual_clients_and_lacks_the_covariance():
    server, update = recorded(Recorded(atoms=3))
    p, m = update.weight, len(update.ids)
    for conv in CONVS:
        alpha, atoms = update.end[f"{conv}.alpha"], update.end[f"{conv}.atoms"]
        pairs = torch.stack([p[k] * p[j] * filters(alpha[[k]], atoms[[j]])[0] for k in range(m) for j in range(m)])
        torch.testing.assert_close(server_filter(server, conv), pairs.sum(0), rtol=0, atol=1e-12)
        away = [part - torch.tensordot(p, part, dims=1) for part in (alpha, atoms)]
        covariance = torch.tensordot(p, filters(*away), dims=1)
        assert covariance.norm() > 1e-4
        plain = torch.tensordot(p, filters(alpha, atoms), dims=1)
        torch.testing.assert_close(server_filter(server, conv), plain - covariance, rtol=0, atol=1e-12)


# --- personal atoms ----------------------------------------------------------------------------------------------


def test_personal_atoms_leave_the_global_model_alone():
    personal, plain = run(FilterDecomp(atoms=3, personal=True), rounds=4), run(FilterDecomp(atoms=3), rounds=4)
    same(personal, plain, atol=0, estimands=("global", None))
    for metric in ("bytes_up", "bytes_down"):
        assert traffic(personal, metric).equals(traffic(plain, metric))
    assert not trajectory(personal, "personal").equals(trajectory(personal, "global"))


def test_a_client_predicts_with_the_statistics_of_its_own_atoms():
    """One round of all clients on full batches, in plain torch; the module moves its statistics by itself."""
    training, clients = replace(TRAINING, batch_size=100), image_clients(CLIENTS)
    result = run(FilterDecomp(atoms=3, personal=True), rounds=1, training=training, participation=1.0)
    start, server = result.network(("it", 0)).initial(), result.states["it", 0].server
    for k in range(CLIENTS):
        x, y = (torch.from_numpy(values) for values in clients.train.client(k))
        module = conv_net().double().train()
        module.load_state_dict(composed(start), strict=False)
        atoms = {name: start[name].clone().requires_grad_() for name in ATOMS}
        optimizer = torch.optim.SGD(atoms.values(), lr=training.lr, momentum=training.momentum)
        for _ in range(training.local_epochs):
            optimizer.zero_grad()
            filters = {name: weight for name, weight in composed(start | atoms).items() if name in CONVS}
            nn.functional.cross_entropy(functional_call(module, filters, (x,)), y).backward()
            optimizer.step()
        own = {name: leaf for name, leaf in module.state_dict().items() if name in STATISTICS}
        assert not any(torch.allclose(own[name], server[name]) for name in STATISTICS)
        module.load_state_dict(composed(server | atoms | own), strict=False)
        torch.testing.assert_close(result.personal(k)(x), module.eval()(x), rtol=0, atol=1e-10)


class Following(FilterDecomp):
    """Personal atoms do not train and follow the global ones."""

    def phases(self, network, training, round):
        shared, personal = super().phases(network, training, round)
        return shared, replace(personal, epochs=0)

    def aggregate(self, state, update):
        new = super().aggregate(state, update)
        own = {name: new.server[name.removeprefix("local/")] for name in new.clients}
        return replace(new, clients=ClientStore.filled(own, CLIENTS))


def test_personal_atoms_set_to_the_global_ones_give_the_global_model():
    same(run(Following(atoms=3, personal=True), rounds=4), run(FilterDecomp(atoms=3), rounds=4), atol=0)


def test_absent_clients_keep_their_atoms():
    one, two = (run(FilterDecomp(atoms=3, personal=True), rounds=n).states["it", 0].clients for n in (1, 2))
    assert set(one) == {f"local/{name}" for name in (*ATOMS, *STATISTICS)}
    moved = [a != b for a, b in zip(one.versions, two.versions, strict=True)]
    assert [k for k in range(CLIENTS) if moved[k]] == participants(0, 1, CLIENTS, 0.5).tolist()


# --- fast and slow -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_beta_one_is_the_plain_version_bit_for_bit():
    for personal in (False, True):
        plain = FilterDecomp(atoms=3, personal=personal)
        one = replace(plain, beta=1.0, slow="alpha", keep_local_slow=True)
        a, b = run(one, rounds=4), run(plain, rounds=4)
        np.testing.assert_array_equal(a.history["value"], b.history["value"])
        for name, leaf in b.states["it", 0].server.items():
            assert torch.equal(a.states["it", 0].server[name], leaf)


@pytest.mark.parametrize("slow", ["all", "alpha"])
def test_for_small_beta_the_slow_group_stays_after_the_first_round(slow):
    method = FilterDecomp(atoms=3, beta=1 / 50, slow=slow)
    # without batch norm, since a bias below one has no gradient
    one, four = (run(method, rounds=n, model=plain_net) for n in (1, 4))
    start, first, last = one.network(("it", 0)).initial(), one.states["it", 0].server, four.states["it", 0].server
    assert not any(torch.equal(start[name], first[name]) for name in start)
    still = {name for name in start if torch.equal(first[name], last[name])}
    assert still == (set(ALPHA) if slow == "alpha" else set(start) - {*ATOMS, *HEAD})


class Deaf(FilterDecomp):
    """The server hears noise instead of the slow group in rounds in which that does not travel."""

    def aggregate(self, state, update):
        sent = self.upload(state, update)
        noise = {name: leaf if name in sent else torch.full_like(leaf, 7.0) for name, leaf in update.end.items()}
        heard = super().aggregate(state, replace(update, end=noise))
        return replace(super().aggregate(state, update), server=heard.server)


@pytest.mark.parametrize("keep", [False, True])
def test_between_its_rounds_the_server_does_not_hear_of_the_slow_group(keep):
    method = FilterDecomp(atoms=3, beta=1 / 2, keep_local_slow=keep)
    deaf = Deaf(atoms=3, beta=1 / 2, keep_local_slow=keep)
    same(run(deaf, rounds=4, participation=1.0), run(method, rounds=4, participation=1.0), atol=0)


@pytest.mark.parametrize(
    ("slow", "often", "seldom"),
    [
        ("all", ATOM_FLOATS + HEAD_FLOATS, COEFFICIENTS + REST),
        ("alpha", ATOM_FLOATS + HEAD_FLOATS + REST, COEFFICIENTS),
    ],
)
def test_a_client_always_present_sends_and_receives_the_fast_group_and_a_share_beta_of_the_slow(slow, often, seldom):
    result = run(FilterDecomp(atoms=3, beta=1 / 3, slow=slow), rounds=7, participation=1.0, evaluate_at=(7,))
    up, down = (traffic(result, f"bytes_{way}").to_numpy() / 8 for way in ("up", "down"))
    np.testing.assert_array_equal(up, often + seldom * np.array([[1, 0, 0, 1, 0, 0, 1]] * CLIENTS).T)
    np.testing.assert_array_equal(down, often + seldom * np.array([[1, 1, 0, 0, 1, 0, 0]] * CLIENTS).T)
    # the first aggregate of the slow group is caught up with in the round after it
    assert up[:6].mean() == down[1:].mean() == pytest.approx(often + seldom / 3)


def test_with_partial_participation_a_client_catches_up_when_the_slow_group_is_newer():
    period, fast, slow = 3, ATOM_FLOATS + HEAD_FLOATS, COEFFICIENTS + REST
    method = FilterDecomp(atoms=3, beta=1 / period)
    result = run(method, rounds=10, evaluate_at=(10,))
    down, up = traffic(result, "bytes_down") / 8, traffic(result, "bytes_up") / 8
    caught_up = 0
    for k in range(CLIENTS):
        present = [t - 1 for t in down.index if not np.isnan(down.loc[t, k])]
        for last, t in zip([None, *present], present, strict=False):
            # averaged in some round s of last <= s < t that is a multiple of the period
            newer = last is None or any(s % period == 0 for s in range(last, t))
            assert down.loc[t + 1, k] == fast + newer * slow
            assert up.loc[t + 1, k] == fast + (t % period == 0) * slow
            caught_up += newer and t % period != 0
    assert caught_up > 3


def test_a_round_to_which_nobody_came_makes_no_newer_slow_group():
    """In rounds 1, 2 and 4 all come, and all drop out of round 3, in which the slow group is due."""
    log = [{"round": t, "client": k, "work": float(t != 3)} for t in range(1, 5) for k in range(CLIENTS)]
    method, how = FilterDecomp(atoms=3, beta=1 / 2, keep_local_slow=True), fs.attendance.Trace(pd.DataFrame(log))
    ends = []
    for now in islice(fs.rounds(method, conv_net, image_clients(), TRAINING, participation=how), 4):
        (update,) = now.updates.values()
        if now.number == 4:
            assert all(torch.equal(update.start[name], ends[1][name]) for name in ALPHA)
            assert {*now.traffic["bytes_down"]} == {4 * (ATOM_FLOATS + HEAD_FLOATS)}
        ends.append({name: leaf.clone() for name, leaf in update.end.items()})


def test_without_fast_and_slow_everything_travels_in_every_round():
    result = run(FilterDecomp(atoms=3), rounds=2)
    for metric in ("bytes_up", "bytes_down"):
        sent = traffic(result, metric).to_numpy()
        assert set(sent[~np.isnan(sent)]) == {8 * (COEFFICIENTS + ATOM_FLOATS + HEAD_FLOATS + REST)}


# --- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"atoms": 0}, "atoms must be a whole number"),
        ({"atoms": 2.5}, "atoms must be a whole number"),
        ({"basis": "fourier"}, 'basis must be "orthonormal" or "canonical", got \'fourier\''),
        ({"head": "own"}, "head must be "),
        ({"head": "local"}, "set personal=True"),
        ({"slow": "beta"}, "slow must be "),
        ({"beta": 0.0}, r"beta must be a number in \(0, 1\], got 0.0"),
        ({"beta": 1.5}, "beta must be a number"),
        ({"beta": 0.4}, "beta must be one over"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FilterDecomp(**arguments)


def test_networks_that_it_does_not_suit_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="needs a convolution"):
        FilterDecomp().parameterize(build(mlp(3, 5, 2), rng), rng)
    with pytest.raises(ValueError, match=r"atoms must be k\^2"):
        FilterDecomp(atoms=4, basis="canonical").parameterize(build(conv_net, rng), rng)


def test_filters_of_one_pixel_stay_plain():
    rng = np.random.default_rng(0)
    network = FilterDecomp(atoms=3).parameterize(
        build(lambda: nn.Sequential(nn.Conv2d(1, 2, 5), nn.Conv2d(2, 3, 1)), rng), rng
    )
    assert network.trainable == ("0.weight.alpha", "0.weight.atoms", "0.bias", "1.weight", "1.bias")

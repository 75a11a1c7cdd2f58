"""Factorized-FL: limits, its definition client by client, what its authors ran, neighbours, bytes, new clients."""

import math
import re
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.data import Clients, Samples
from fedstat.federated import Method, Phase, Update, build, load
from fedstat.federated.codec import size
from fedstat.federated.replicate import participants
from fedstat.federated.slots import share_all_but
from fedstat.methods import FactorizedFL, FedAvg, Local
from fedstat.models import mlp, resnet9
from fedstat.testing import check_method
from tests.support import authors
from tests.support.clients import image_clients
from tests.support.factors import assert_a_new_client_trains, federation, models, stacked, trained
from tests.support.networks import conv_net
from tests.support.runs import FULL, assert_close, differ, equal, offered, run, same, traffic

EVERYONE = {"participation": 1.0}
BIASES = ("conv1.bias", "conv2.bias", "hidden.bias")


@dataclass(frozen=True, kw_only=True)
class Text(FactorizedFL):
    """As the paper writes it, with mu as it is trained."""

    reading: str = "text"
    prune: bool = False


@dataclass(frozen=True, kw_only=True)
class FactorizedLocal(Local):
    """Training alone with factorised weights and a penalty on mu."""

    def parameterize(self, network, rng):
        return Text().parameterize(network, rng)

    def objective(self, learner, params, batch, context):
        loss = super().objective(learner, params, batch, context)
        return loss + 0.003 * sum(p.abs().sum() for name, p in params.items() if name.endswith(".mu"))


@dataclass(frozen=True, kw_only=True)
class FactorizedMean(FactorizedLocal):
    """FedAvg of those leaves whose last name is in `parts`, and of the biases below the head."""

    parts: tuple[str, ...]

    def shared(self, network, federation):
        travel = [n for n in network.parts if n.rpartition(".")[2] in self.parts] + list(BIASES)
        return share_all_but(network, network.shapes.keys() - set(travel))


@dataclass(frozen=True, kw_only=True)
class Frozen(Text):
    """Some parts never move."""

    frozen: tuple[str, ...]

    def phases(self, network, training, round):
        still = {n for n in network.parts if n.rpartition(".")[2] in self.frozen}
        return (Phase(tuple(n for n in network.trainable if n not in still)),)


@dataclass(frozen=True, kw_only=True)
class Dense(Frozen):
    """All weight lies in mu, which starts at the plain network's weights; u is zero and stays zero."""

    frozen: tuple[str, ...] = ("u",)
    sparsity: float = 0.0

    def parameterize(self, network, rng):
        made = super().parameterize(network, rng)
        initial = network.initial()
        zero = {n: torch.zeros_like(leaf) for n, leaf in made.parts.items() if n.endswith(".u")}
        start = {f"{name}.mu": form.matrix(initial[name]) for name, form in made.forms.items()}
        return replace(made, parts=made.parts | zero | start)


def unbiased():
    """Convolutions, batch norm and a hidden layer without biases."""
    net = conv_net()
    for layer in (net.conv1, net.conv2, net.hidden):
        layer.register_parameter("bias", None)
    return net


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        FactorizedFL(variant="beta", tau=0.0, epsilon=1.0, reset_head=True),
        FactorizedFL(reading="text"),
        FactorizedFL(reading="text", variant="beta", tau=0.0, epsilon=1.0, rank=2, sparsity=0.01),
    ],
    ids=["beta", "alpha text", "beta text"],
)
def test_its_variants_obey_the_laws(method):
    check_method(method, examples=5)


@pytest.mark.parametrize("variant", ["alpha", "beta"])
def test_factorizedfl_without_neighbours_is_training_alone(variant):
    ours = run(Text(variant=variant, tau=np.inf, sparsity=0.003), rounds=4)
    alone = run(FactorizedLocal(), rounds=4)
    same(ours, alone)
    assert_close(models(Text(tau=np.inf), ours), models(Local(), alone))


@pytest.mark.parametrize(("variant", "parts"), [("alpha", ("u",)), ("beta", ("u", "v", "mu"))])
def test_factorizedfl_with_all_clients_alike_takes_uniform_means(variant, parts):
    ours = run(Text(variant=variant, tau=-np.inf, epsilon=0.0, sparsity=0.003), **EVERYONE)
    mean = run(FactorizedMean(parts=parts, weighting="uniform"), **EVERYONE)
    same(ours, mean)
    assert_close(models(Text(tau=-np.inf, epsilon=0.0), ours), models(Local(), mean))


def test_equal_coefficients_give_uniform_weights_whatever_epsilon():
    same(run(Frozen(frozen=("v",), tau=1.0, epsilon=7.0)), run(Frozen(frozen=("v",), tau=-np.inf, epsilon=0.0)))


def test_factorizedfl_alpha_without_basis_is_training_the_dense_network_alone():
    same(*(run(method, rounds=4, model=unbiased) for method in (Dense(tau=-np.inf, epsilon=0.0), Local())))


def test_factorizedfl_beta_without_basis_is_uniform_fedavg_with_private_head_and_norms():
    @dataclass(frozen=True, kw_only=True)
    class PrivateHead(Method):
        def shared(self, network, federation):
            return share_all_but(network, [n for n in network.shapes if n.startswith(("head", "norm"))])

    ours = run(Dense(variant="beta", tau=-np.inf, epsilon=0.0), rounds=4, **EVERYONE)
    same(ours, run(PrivateHead(weighting="uniform"), rounds=4, **EVERYONE))


def test_with_common_coefficients_averaging_bases_is_averaging_weights():
    method = Frozen(variant="beta", frozen=("v", "mu"), tau=-np.inf, epsilon=0.0)
    result = run(method, **EVERYONE)
    leaves = dict(result.states["it", 0].clients), models(method, result)
    uploads, used = map(torch.vmap(federation(result).network.compose), leaves)
    for name in ("conv1.weight", "conv2.weight", "hidden.weight"):
        assert uploads[name].std(0).max() > 1e-3
        torch.testing.assert_close(used[name], uploads[name].mean(0).expand_as(used[name]), rtol=0, atol=1e-12)


@dataclass(frozen=True, kw_only=True)
class OnlyBases(FactorizedFL):
    """Of the factors only u moves, and models are evaluated with the newest mean."""

    reading: str = "text"

    def phases(self, network, training, round):
        return (Phase(tuple(n for n in network.trainable if not n.endswith((".v", ".mu")))),)


@dataclass(frozen=True, kw_only=True)
class MeanOfWeights(OnlyBases):
    """Averages composed weights, uniformly, and reads u off their mean; head and norm layers are personal."""

    def init(self, network, federation):
        return Method.init(self, network, federation)

    def receive(self, state, ids):
        return Method.receive(self, state, ids)

    def aggregate(self, state, update):
        new = Method.aggregate(self, state, update)
        weights = torch.vmap(update.network.compose)(update.end)
        for name, form in update.network.forms.items():
            mean = torch.tensordot(update.weight, weights[name], dims=1)
            new.server[f"{name}.u"] = form.matrix(mean) @ torch.linalg.pinv(state.server[f"{name}.v"])
        return new


def test_factorizedfl_with_common_frozen_coefficients_averages_weights():
    alike = {"tau": -np.inf, "epsilon": 0.0, "weighting": "uniform"}
    options = {"rounds": 4, "participation": 1.0}
    limit = run(MeanOfWeights(**alike), **options)
    equal(run(OnlyBases(**alike), **options), limit)
    differ(run(FactorizedFL(reading="text", **alike), **options), limit)


def rank1(shape, p, rank=1):
    if len(shape) == 2:
        return torch.einsum("ir,ro->oi", p["u"], p["v"]) + p["mu"].T
    o, i, k, _ = shape
    u, v, mu = p["u"].view(k, k, rank), p["v"].view(rank, i, o), p["mu"].view(k, k, i, o)
    return torch.einsum("abr,rio->oiab", u, v) + torch.einsum("abio->oiab", mu)


def factorized(network, clients, rounds, it):
    """Factorized-FL from its definition: last uploads, cosines, neighbours, a softmax over them, client by client."""
    last = [network.initial() for _ in range(len(clients))]
    reported: set[int] = set()
    neighbours = []  # how many went into each mean

    def travels(name):
        return name in BIASES or name.endswith((".u", ".v", ".mu") if it.variant == "beta" else ".u")

    def mu(leaves):
        return {name: leaf for name, leaf in leaves.items() if name.endswith(".mu")}

    def pruned(leaves):
        return leaves | {n: torch.where(p.abs() < it.sparsity, 0.0, p) for n, p in mu(leaves).items() if it.prune}

    def start(k):
        v = [leaves["hidden.weight.v"].flatten().numpy() for leaves in last]
        cosine = {i: v[k] @ v[i] / np.linalg.norm(v[k]) / np.linalg.norm(v[i]) for i in reported | {k}} | {k: 1.0}
        closest = sorted(cosine, key=lambda i: (i != k, -cosine[i]))
        near = [i for place, i in enumerate(closest) if cosine[i] >= it.tau or place < it.min_neighbours]
        neighbours.append(len(near))
        weight = np.array([np.exp(it.epsilon * cosine[i]) for i in near])
        weight /= weight.sum()
        mean = {n: sum(w * last[i][n] for w, i in zip(weight, near, strict=True)) for n in last[k] if travels(n)}
        return last[k] | mean

    def penalty(leaves):
        return it.sparsity * sum(leaf.abs().sum() for leaf in mu(leaves).values())

    def rule(shape, parts):
        return rank1(shape, parts, it.rank)

    for t in range(rounds):
        ids = participants(0, t, len(clients), 0.5)
        for k, received in {k: start(k) for k in ids}.items():
            phases = [(network.trainable, FULL.local_epochs)]
            end = trained(network, rule, received, clients.train.client(k), phases, penalty)
            last[k] = pruned(end) if it.variant == "beta" else end
        reported |= set(ids.tolist())
    return stacked([pruned(start(k)) for k in range(len(clients))]), neighbours


@pytest.mark.parametrize(("variant", "prune", "rank"), [("alpha", False, 1), ("alpha", True, 2), ("beta", True, 1)])
def test_factorizedfl_is_its_definition_client_by_client(variant, prune, rank):
    setting = {"tau": 0.998, "epsilon": 300.0, "min_neighbours": 2, "sparsity": 2e-3}
    method = Text(variant=variant, prune=prune, rank=rank, **setting)
    result = run(method, training=FULL)
    expected, neighbours = factorized(federation(result).network, image_clients(), 3, method)
    assert len(set(neighbours[-6:])) > 1  # at the end, tau tells some clients from others
    assert_close(models(method, result), expected)


class Factorized(nn.Module):
    """A weight that is a rank-1 product read row by row, plus a dense part whose small entries do not count in use."""

    def __init__(self, inputs, outputs, kernel=None):
        super().__init__()
        rows, columns = (kernel**2, inputs * outputs) if kernel else (inputs, outputs)
        self.kernel, self.shape = kernel, (outputs, inputs, kernel, kernel)
        self.u, self.v = nn.Parameter(torch.empty(rows, 1)), nn.Parameter(torch.empty(1, columns))
        self.mu, self.bias = nn.Parameter(torch.zeros(rows, columns)), nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        mu = self.mu if self.training else self.mu.masked_fill(self.mu.abs() < 5e-4, 0)
        weight = self.u @ self.v + mu
        if self.kernel:
            return F.conv2d(x, weight.view(self.shape), self.bias, padding=1)
        return F.linear(x, weight.T, self.bias)


@pytest.mark.parametrize("reset_head", [False, True])
@pytest.mark.parametrize(("variant", "kept"), [("alpha", (".v", ".mu")), ("beta", ())])
def test_factorizedfl_is_what_its_authors_ran(variant, kept, reset_head):
    clients, tau, epsilon, least = image_clients(4), 0.9999, 20.0, 2
    method = FactorizedFL(variant=variant, tau=tau, epsilon=epsilon, min_neighbours=least, reset_head=reset_head)
    result, network = authors.ours(method, clients, participation=1.0)
    names = {name: name for name in ("u", "v", "mu")}
    own = [
        authors.begun(authors.Body(lambda i, o: Factorized(i, o, 3), Factorized), network, names)
        for _ in range(len(clients))
    ]
    assert not own[0].conv2.mu.any()
    for layer in (own[0].hidden, own[0].head):
        bound = math.sqrt(6 / sum(layer.mu.shape))
        assert 0.8 * bound < layer.mu.abs().max() <= bound
    head = {name: leaf.clone() for name, leaf in own[0].state_dict().items() if name.startswith("head.")}
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9) for module in own]  # for all rounds
    for t in range(authors.ROUNDS):
        if t:
            uploads = [{n: leaf.clone() for n, leaf in module.state_dict().items()} for module in own]
            v = torch.stack([upload["hidden.v"].flatten() for upload in uploads])
            for k, module in enumerate(own):
                similarity, order = torch.sort(F.cosine_similarity(v[k : k + 1], v), descending=True)
                count = max(least, int((similarity >= tau).sum()))
                omega = np.exp(epsilon * similarity[:count].numpy())
                omega /= omega.sum()
                mean = {
                    name: sum(w * uploads[i][name] for w, i in zip(omega, order[:count].tolist(), strict=True))
                    for name in uploads[k]
                    if not name.startswith("head.") and not name.endswith((*kept, "running_mean", "running_var"))
                }
                module.load_state_dict(mean | (head if reset_head else {}), strict=False)
        for k, module in enumerate(own):
            authors.steps(module, clients.train.client(k), optimizers[k], authors.TRAINING.local_epochs)
    authors.agree(result, own, clients)  # as trained, before the next mean


def without_data(clients):
    return Clients(Samples(np.zeros((clients, 2)), np.ones(clients), np.ones(clients, int)))


def state_with(v, u, **options):
    """A state in which client k uploaded the coefficients v[k] and the basis u[k] of the layer `hidden`."""
    method = Text(**options)
    plain = build(mlp(2, 2, 2), np.random.default_rng(0), torch.float64)
    network = method.parameterize(plain, np.random.default_rng(1))
    state = method.init(network, SimpleNamespace(clients=without_data(len(v)), training=FULL))
    parts = {"hidden.weight.v": torch.tensor(v)[:, None], "hidden.weight.u": torch.tensor(u)[..., None]}
    everyone = torch.ones(len(v), dtype=torch.bool)
    memory = state.memory | {"sent": everyone, "v": torch.tensor(v)}
    return method, replace(state, clients=state.clients.write(torch.arange(len(v)), parts), memory=memory)


ANGLES = np.deg2rad([0.0, 10.0, 50.0, 90.0])
DIRECTIONS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1) * [[1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("options", "neighbours"),
    [
        ({"tau": 0.98}, {0: [0, 1], 2: [2]}),
        ({"tau": 0.7}, {0: [0, 1], 1: [0, 1, 2], 2: [1, 2, 3], 3: [2, 3]}),
        ({"tau": np.inf, "min_neighbours": 2}, {0: [0, 1], 1: [0, 1], 2: [1, 2, 3], 3: [2, 3]}),  # a tie: both
        ({"tau": 0.7, "min_neighbours": 4}, {0: [0, 1, 2, 3]}),
    ],
)
def test_neighbours_are_those_above_tau_and_the_most_similar_ones(options, neighbours):
    u = np.array([[1.0, 0.0], [0.0, 1.0], [10.0, 0.0], [0.0, 10.0]])
    method, state = state_with(DIRECTIONS, u, epsilon=2.5, **options)
    for k, near in neighbours.items():
        weight = np.exp(2.5 * np.cos(ANGLES[near] - ANGLES[k]))
        received = method.receive(state, torch.tensor([k]))["hidden.weight.u"][0, :, 0]
        np.testing.assert_allclose(received, weight @ u[near] / weight.sum(), atol=1e-12)


def test_an_infinite_tau_parts_even_clients_with_equal_coefficients():
    method, state = state_with(np.tile([1.0, 0.0], (4, 1)), DIRECTIONS, tau=np.inf)
    received = method.receive(state, torch.arange(4))["hidden.weight.u"][..., 0]
    np.testing.assert_allclose(received, DIRECTIONS, atol=1e-12)


def test_coefficients_that_are_zero_have_no_similarity():
    method, state = state_with(DIRECTIONS * [[1], [0], [1], [1]], np.ones((4, 2)))
    with pytest.raises(
        ValueError, match=r"v below the head of client 1 must not be all zero.* lower the learning rate"
    ):
        method.receive(state, torch.tensor([0]))


def test_factorizedfl_sends_what_its_paper_says():
    alpha, beta = (Text(variant=v, tau=-1.0, sparsity=0.003, prune=True) for v in ("alpha", "beta"))
    u, v, biases = 9 + 9 + 20, 4 + 20 + 7, 4 + 5 + 7
    result = run(alpha)
    for direction, floats in (("bytes_up", u + biases + 7), ("bytes_down", u + biases)):
        bytes_ = traffic(result, direction).to_numpy()
        assert set(bytes_[np.isfinite(bytes_)]) == {8 * floats}

    result = run(beta, rounds=1, **EVERYONE)
    state, ids = result.states["it", 0], torch.arange(6)
    mu = {n: leaf for n, leaf in state.clients.items() if n.endswith(".mu")}

    def cost(counts):  # positions are listed, or a bitmap of the matrix: whichever is smaller
        places = sum(np.minimum(4 * n, -(-mu[name][0].numel() // 8)) for name, n in counts.items())
        return 8 * (u + v + biases + sum(counts.values())) + places

    up = cost({name: np.count_nonzero(leaf.flatten(1), axis=1) for name, leaf in mu.items()})
    np.testing.assert_array_equal(traffic(result, "bytes_up").to_numpy()[0], up)
    for method in (beta, replace(beta, tau=np.inf, min_neighbours=3)):  # all, and the three most similar ones
        near = (method._weights(state, ids) > 0).numpy()
        union = {
            n: np.count_nonzero((near[..., None] & (p.flatten(1) != 0).numpy()).any(1), axis=1) for n, p in mu.items()
        }
        received = method.receive(state, ids)
        down = size(method.download(state, Update(ids, received, received, torch.ones(6), None, None)))
        np.testing.assert_array_equal(down, cost(union))
        assert (up < down).any()


def test_factorizedfl_alpha_sends_65_712_floats_of_the_papers_network():
    def floats(method):
        network = method.parameterize(build(resnet9(10), np.random.default_rng(0)), np.random.default_rng(1))
        state, ids = method.init(network, SimpleNamespace(clients=without_data(1), training=FULL)), torch.tensor([0])
        leaves = method.receive(state, ids)
        update = Update(ids, leaves, leaves, torch.ones(1), np.random.default_rng(), network)
        return int(size(method.download(state, update))[0] + size(method.upload(state, update))[0]) // 4

    assert floats(Text()) == 88 + 65_536 + 88 == 65_712
    assert floats(Text(variant="beta")) == 2 * (88 + 270_528)  # at the start, mu is zero
    assert floats(FedAvg()) == 2 * 2_574_282


@pytest.mark.slow
def test_momentum_lives_on_through_a_resume_and_whoever_trains_beside(tmp_path):
    method, training = FactorizedFL(tau=0.0, epsilon=1.0), replace(FULL, batch_size=5)  # clients end at different steps
    whole = run(method, training=training)
    run(method, rounds=1, training=training).save(tmp_path / "run")
    resumed = run(method, training=training, resume=load(tmp_path / "run"))
    assert whole.history.equals(resumed.history)
    velocity = {name for name in whole.states["it", 0].clients if name.startswith("velocity/")}
    assert {f"velocity/{name}" for name in federation(whole).network.trainable} == velocity
    for options in ({"chunk": 1}, {"executor": "per-client"}):
        other = run(method, training=training, **options)
        for name, leaf in whole.states["it", 0].clients.items():
            torch.testing.assert_close(other.states["it", 0].clients[name], leaf, rtol=0, atol=1e-10)
    anew = run(method, training=replace(training, momentum=0.0))
    assert not any(name.startswith("velocity/") for name in anew.states["it", 0].clients)


def test_momentum_lives_on_whether_sgd_is_a_word_or_an_object():
    method, named = FactorizedFL(tau=0.0, epsilon=1.0), replace(FULL, momentum=0.0, optimizer=fs.SGD(FULL.momentum))
    word, thing = (run(method, training=training) for training in (FULL, named))
    equal(word, thing, 0)
    assert_close(dict(word.states["it", 0].clients), dict(thing.states["it", 0].clients), 0)


@pytest.mark.parametrize(("variant", "parts"), [("alpha", (".v", ".mu")), ("beta", ())])
def test_a_new_client_trains_what_is_personal_from_the_start_and_nothing_else(variant, parts):
    assert_a_new_client_trains(FactorizedFL(reading="text", variant=variant), ("head", "norm"), parts)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_the_start_of_new_clients_is_the_mean_of_all_last_uploads(weighting):
    method = FactorizedFL(reading="text", weighting=weighting)
    result = run(method, rounds=2, participation=0.4)
    sent = np.union1d(*(participants(0, t, 6, 0.4) for t in range(2)))
    assert len(participants(0, 1, 6, 0.4)) < len(sent) < 6
    state, n = result.states["it", 0], image_clients().train.n[sent] if weighting == "samples" else np.ones(len(sent))
    models = offered(method, state, federation(result))["personal"].params
    for name in ("conv2.weight.u", "hidden.bias"):
        mean = np.tensordot(n / n.sum(), state.clients[name].numpy()[sent], axes=1)
        np.testing.assert_allclose(models[name], np.broadcast_to(mean, models[name].shape), atol=1e-12)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("variant", "gamma"),
        ("reading", "cube"),
        ("rank", 0),
        ("min_neighbours", 1.5),
        ("epsilon", np.inf),
        ("sparsity", -1.0),
        ("tau", np.nan),
        ("server", fs.server.SGD(lr=0.5)),
    ],
)
def test_values_out_of_range_are_named(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument} must .*, got {re.escape(repr(value))}"):
        FactorizedFL(**{argument: value})


def test_a_network_or_run_that_does_not_suit_is_named():
    with pytest.raises(ValueError, match="the network needs a dense or convolutional layer below its head"):
        run(FactorizedFL(), model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 4)))
    with pytest.raises(ValueError, match="min_neighbours must be at most the number of clients, 6, got 7"):
        run(FactorizedFL(min_neighbours=7))

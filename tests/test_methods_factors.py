"""Methods whose weights are made of factors: Factorized-FL, FedDecomp, FedPara and pFedPara."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from settings import conv_net, image_clients, plain_net, run, same, traffic
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated import Phase, Update, build
from fedstat.federated.codec import size
from fedstat.federated.federate import participants
from fedstat.federated.method import only
from fedstat.methods import FactorizedFL, FedAvg, FedDecomp, FedPara, Local
from fedstat.models import mlp
from fedstat.parameterization import Hadamard
from fedstat.testing import check_method

#: Batches of all samples: what a client does is then a plain loop over epochs.
FULL = fs.Training(lr=0.05, momentum=0.5, batch_size=100, local_epochs=3)
EVERYONE = {"participation": 1.0}


def population(result):
    return result.populations["it", 0]


def models(method, result):
    """Every client's leaves, as they are evaluated."""
    state = result.states["it", 0]
    return next(iter(method.models(state, torch.arange(len(population(result).clients))).values())).params


def assert_close(here, there, atol=1e-10):
    assert here.keys() == there.keys()
    for name, leaf in here.items():
        torch.testing.assert_close(leaf, there[name], rtol=0, atol=atol)


# an oracle: every client in a plain loop, with weights composed by their definitions


def rank1(shape, p, rank=1):
    if len(shape) == 2:
        return torch.einsum("ir,ro->oi", p["u"], p["v"]) + p["mu"].T
    o, i, k, _ = shape
    u, v, mu = p["u"].view(k, k, rank), p["v"].view(rank, i, o), p["mu"].view(k, k, i, o)
    return torch.einsum("abr,rio->oiab", u, v) + torch.einsum("abio->oiab", mu)


def low_rank_sum(shape, p):
    o, i, *kernel = shape
    k = kernel[0] if kernel else 1
    return p["full"] + torch.einsum("iaob->oiab", (p["b"] @ p["a"]).view(i, k, o, k)).reshape(shape)


def low_rank_factor(shape, p, n):
    if len(shape) == 2:
        return p[f"x{n}"] @ p[f"y{n}"].T
    return torch.einsum("pqab,op,cq->ocab", *(p[f"{name}{n}"] for name in "txy"))


def hadamard(shape, p):
    return low_rank_factor(shape, p, 1) * (low_rank_factor(shape, p, 2) + 1)


def compose(network, rule, leaves):
    """The module's weights; `rule` composes one from its parts."""
    weights = {name: leaf for name, leaf in leaves.items() if name not in network.parts}
    for name, form in network.forms.items():
        parts = {leaf.removeprefix(f"{name}."): p for leaf, p in leaves.items() if leaf.startswith(f"{name}.")}
        weights[name] = rule(form.shape, parts)
    return weights


def trained(network, rule, leaves, samples, phases, penalty=lambda leaves: 0.0):
    """One client's round: full-batch steps of torch's own SGD, phase after phase."""
    module = conv_net().double().train()
    x, y = map(torch.from_numpy, samples)
    leaves = {name: leaf.detach().clone() for name, leaf in leaves.items()}
    for names, epochs in phases:
        moving = [leaves[name].requires_grad_() for name in names]
        optimizer = torch.optim.SGD(moving, lr=FULL.lr, momentum=FULL.momentum)
        for _ in range(epochs):
            optimizer.zero_grad()
            outputs = torch.func.functional_call(module, compose(network, rule, leaves), (x,))
            (F.cross_entropy(outputs, y) + penalty(leaves)).backward()
            optimizer.step()
        for name in names:
            leaves[name] = leaves[name].detach()
    return leaves


def averaged(network, rule, clients, phases, shared, rounds, p):
    """Rounds at half participation with means of leaves `shared`; `p` maps the participants' sizes to weights."""
    server = network.initial()
    own = [dict(server) for _ in range(len(clients))]
    for t in range(rounds):
        ids = participants(0, t, len(clients), 0.5)
        for k in ids:
            start = own[k] | {name: server[name] for name in shared}
            own[k] = trained(network, rule, start, clients.train.client(k), phases)
        weights = p(clients.train.n[ids])
        for name in shared:
            server[name] = sum(w * own[k][name] for w, k in zip(weights, ids, strict=True))
    return stacked([mine | {name: server[name] for name in shared} for mine in own])


def stacked(clients):
    return {name: torch.stack([leaves[name] for leaves in clients]) for name in clients[0]}


# the laws


@pytest.mark.parametrize(
    "method",
    [
        FactorizedFL(),
        FactorizedFL(variant="beta", tau=0.0, epsilon=1.0, prune=True, rank=2, sparsity=0.01),
        FedDecomp(**FedDecomp.example),
    ],
    ids=["alpha", "beta", "FedDecomp"],
)
def test_methods_with_factors_obey_the_laws(method):
    check_method(method, examples=5)


@pytest.mark.parametrize("options", [{}, {"personal": True, "gamma": 0.0, "tanh": True}])
def test_fedpara_obeys_the_laws(options):
    check_method(FedPara(**options), model=mlp(3, 24, 16, 2), examples=5)  # large enough to be factorised


# Factorized-FL

BIASES = ("conv1.bias", "conv2.bias", "hidden.bias")


@dataclass(frozen=True, kw_only=True)
class FactorizedLocal(Local):
    """Training alone with factorised weights and a penalty on mu."""

    def parameterize(self, network, rng):
        return FactorizedFL().parameterize(network, rng)

    def objective(self, learner, params, batch, context):
        loss = super().objective(learner, params, batch, context)
        return loss + 0.003 * sum(p.abs().sum() for name, p in params.items() if name.endswith(".mu"))


@dataclass(frozen=True, kw_only=True)
class FactorizedMean(FactorizedLocal):
    """FedAvg of those leaves whose last name is in `parts`, and of the biases below the head."""

    parts: tuple[str, ...]

    def shared(self, network, population):
        travel = [n for n in network.parts if n.rpartition(".")[2] in self.parts] + list(BIASES)
        return only(network, network.shapes.keys() - set(travel))


@dataclass(frozen=True, kw_only=True)
class Frozen(FactorizedFL):
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


@pytest.mark.parametrize("variant", ["alpha", "beta"])
def test_factorizedfl_without_neighbours_is_training_alone(variant):
    ours = run(FactorizedFL(variant=variant, tau=np.inf, sparsity=0.003), rounds=4)
    alone = run(FactorizedLocal(), rounds=4)
    same(ours, alone)
    assert_close(models(FactorizedFL(tau=np.inf), ours), models(Local(), alone))


@pytest.mark.parametrize(("variant", "parts"), [("alpha", ("u",)), ("beta", ("u", "v", "mu"))])
def test_factorizedfl_with_all_clients_alike_takes_uniform_means(variant, parts):
    ours = run(FactorizedFL(variant=variant, tau=-np.inf, epsilon=0.0, sparsity=0.003), **EVERYONE)
    mean = run(FactorizedMean(parts=parts, weighting="uniform"), **EVERYONE)
    same(ours, mean)
    assert_close(models(FactorizedFL(tau=-np.inf, epsilon=0.0), ours), models(Local(), mean))


def test_equal_coefficients_give_uniform_weights_whatever_epsilon():
    same(run(Frozen(frozen=("v",), tau=1.0, epsilon=7.0)), run(Frozen(frozen=("v",), tau=-np.inf, epsilon=0.0)))


def test_factorizedfl_alpha_without_basis_is_training_the_dense_network_alone():
    same(*(run(method, rounds=4, model=unbiased) for method in (Dense(tau=-np.inf, epsilon=0.0), Local())))


def test_factorizedfl_beta_without_basis_is_uniform_fedavg_with_private_head_and_norms():
    @dataclass(frozen=True, kw_only=True)
    class PrivateHead(FedAvg):
        def shared(self, network, population):
            return only(network, [n for n in network.shapes if n.startswith(("head", "norm"))])

    ours = run(Dense(variant="beta", tau=-np.inf, epsilon=0.0), rounds=4, **EVERYONE)
    same(ours, run(PrivateHead(weighting="uniform"), rounds=4, **EVERYONE))


def test_with_common_coefficients_averaging_bases_is_averaging_weights():
    method = Frozen(variant="beta", frozen=("v", "mu"), tau=-np.inf, epsilon=0.0)
    result = run(method, **EVERYONE)
    leaves = dict(result.states["it", 0].clients), models(method, result)
    uploads, used = map(torch.vmap(population(result).network.compose), leaves)
    for name in ("conv1.weight", "conv2.weight", "hidden.weight"):
        assert uploads[name].std(0).max() > 1e-3
        torch.testing.assert_close(used[name], uploads[name].mean(0).expand_as(used[name]), rtol=0, atol=1e-12)


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
    method = FactorizedFL(variant=variant, prune=prune, rank=rank, **setting)
    result = run(method, training=FULL)
    expected, neighbours = factorized(population(result).network, image_clients(), 3, method)
    assert len(set(neighbours[-6:])) > 1  # at the end, tau tells some clients from others
    assert_close(models(method, result), expected)


def state_with(v, u, **options):
    """A state in which client k uploaded the coefficients v[k] and the basis u[k] of the layer `hidden`."""
    method = FactorizedFL(**options)
    plain = build(mlp(2, 2, 2), np.random.default_rng(0), torch.float64)
    network = method.parameterize(plain, np.random.default_rng(1))
    state = method.init(network, SimpleNamespace(clients=range(len(v))))
    parts = {"hidden.weight.v": torch.tensor(v)[:, None], "hidden.weight.u": torch.tensor(u)[..., None]}
    everyone = {name: torch.ones_like(who) for name, who in state.memory.items()}
    return method, replace(state, clients=state.clients.write(torch.arange(len(v)), parts), memory=everyone)


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
    with pytest.raises(ValueError, match=r"hidden.weight.v of client 1 must not be all zero.* lower the learning rate"):
        method.receive(state, torch.tensor([0]))


def test_factorizedfl_sends_what_its_paper_says():
    alpha, beta = (FactorizedFL(variant=v, tau=-1.0, sparsity=0.003, prune=True) for v in ("alpha", "beta"))
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
        down = size(method.download(state, method.receive(state, ids), ids))
        np.testing.assert_array_equal(down, cost(union))
        assert (up < down).any()


def resnet9():
    """The layers of the Factorized-FL paper's network, in a row: they never run."""
    shapes = [(3, 64, 3), (64, 128, 5), *2 * [(128, 128, 3)], (128, 256, 3), *3 * [(256, 256, 3)]]
    layers = [layer for i, o, k in shapes for layer in (nn.Conv2d(i, o, k, bias=False), nn.BatchNorm2d(o))]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def test_factorizedfl_alpha_sends_65_712_floats_of_the_papers_network():
    def floats(method):
        network = method.parameterize(build(resnet9, np.random.default_rng(0)), np.random.default_rng(1))
        state, ids = method.init(network, SimpleNamespace(clients=range(1))), torch.tensor([0])
        leaves = method.receive(state, ids)
        update = Update(ids, leaves, leaves, torch.ones(1), np.random.default_rng(), network)
        return int(size(method.download(state, leaves, ids))[0] + size(method.upload(state, update))[0]) // 4

    assert floats(FactorizedFL()) == 88 + 65_536 + 88 == 65_712
    assert floats(FactorizedFL(variant="beta")) == 2 * (88 + 270_528)  # at the start, mu is zero
    assert floats(FedAvg()) == 2 * 2_574_282


# FedDecomp


def low_rank(network):
    return [n for n in network.trainable if n.endswith((".a", ".b")) and n in network.parts]


@dataclass(frozen=True, kw_only=True)
class LowRankLocal(Local):
    """Training of low-rank parts alone, around weights that stay."""

    def parameterize(self, network, rng):
        return FedDecomp().parameterize(network, rng)

    def phases(self, network, training, round):
        return (Phase(tuple(low_rank(network))),)


def test_feddecomp_without_low_rank_epochs_is_fedavg_bit_for_bit():
    ours, fedavg = run(FedDecomp(lora_epochs=0), rounds=4), run(FedAvg(weighting="uniform"), rounds=4)
    same(ours, fedavg, atol=0)
    server = ours.states["it", 0].server
    for name, leaf in fedavg.states["it", 0].server.items():
        assert torch.equal(leaf, server.get(f"{name}.full", server.get(name)))


def test_feddecomp_with_low_rank_epochs_only_is_low_rank_training_alone():
    method = FedDecomp(lora_epochs=2)
    ours, alone = (run(m, rounds=4, model=plain_net) for m in (method, LowRankLocal()))
    same(ours, alone)
    assert_close(models(method, ours), models(Local(), alone))


@pytest.mark.parametrize("clients", [1, 6])
@pytest.mark.parametrize("variant", ["alternating", "simultaneous", "reverse", "local", "fedavg"])
def test_feddecomp_is_its_definition_client_by_client(variant, clients):
    method, data = FedDecomp(variant=variant, conv_ratio=0.4, lora_epochs=1), image_clients(clients, seed=2)
    result = run(method, clients=data, training=FULL)
    network = population(result).network
    ranks = {name: len(leaf) for name, leaf in network.parts.items() if name.endswith(".a")}
    assert ranks == {"conv1.weight.a": 1, "conv2.weight.a": 4, "hidden.weight.a": 4, "head.weight.a": 2}
    low = low_rank(network)
    full = network.shapes.keys() - low
    phases = (
        [(low, 1), (full & set(network.trainable), 2)]
        if variant in ("alternating", "reverse")
        else [(network.trainable, 3)]
    )
    shared = {"reverse": low, "local": [], "fedavg": network.shapes}.get(variant, full)
    expected = averaged(network, low_rank_sum, data, phases, shared, 3, lambda n: np.full(len(n), 1 / len(n)))
    assert_close(models(method, result), expected)


def test_feddecomp_sends_one_whole_model_each_way():
    ours, fedavg = run(FedDecomp()), run(FedAvg())
    for direction in ("bytes_up", "bytes_down"):
        assert traffic(ours, direction).equals(traffic(fedavg, direction))


# FedPara


@dataclass(frozen=True)
class LowRank:
    """``W1`` of FedPara alone."""

    form: Hadamard

    def compose(self, parts):
        return low_rank_factor(self.form.shape, parts, 1)


@dataclass(frozen=True, kw_only=True)
class FrozenW2(FedPara):
    """W2 never moves: it is one, or zero where one is added to it."""

    def parameterize(self, network, rng):
        made = super().parameterize(network, rng)
        ones = {n: torch.ones_like(leaf) for n, leaf in made.parts.items() if n.endswith("2")}
        for name, form in made.forms.items():
            ones[f"{name}.y2"] /= form.rank ** (len(form.shape) // 2)  # a sum of r products, r^2 with a core
        return made if self.personal else replace(made, parts=made.parts | ones)

    def phases(self, network, training, round):
        return (Phase(tuple(n for n in network.trainable if not (n in network.parts and n.endswith("2")))),)


@pytest.mark.parametrize("personal", [True, False])
def test_fedpara_with_a_trivial_second_factor_is_fedavg_of_low_rank_weights(personal):
    @dataclass(frozen=True, kw_only=True)
    class LowRankAvg(FedAvg):
        def parameterize(self, network, rng):
            made = FedPara(personal=personal).parameterize(network, rng)
            forms = {name: LowRank(form) for name, form in made.forms.items()}
            return replace(made, forms=forms, parts={n: p for n, p in made.parts.items() if n.endswith("1")})

    ours, low = run(FrozenW2(personal=personal), rounds=4), run(LowRankAvg(), rounds=4)
    same(ours, low)
    server = ours.states["it", 0].server
    assert_close({n: server[n] for n in low.states["it", 0].server}, low.states["it", 0].server)


def test_pfedpara_is_its_definition_client_by_client():
    method = FedPara(personal=True)
    result = run(method, training=FULL)
    network, data = population(result).network, image_clients()
    assert set(network.forms) == {"conv1.weight", "conv2.weight"}  # hidden is too small, the head stays plain
    shared = [n for n in network.shapes if not (n in network.parts and n.endswith("2"))]
    expected = averaged(network, hadamard, data, [(network.trainable, 3)], shared, 3, lambda n: n / n.sum())
    assert_close(models(method, result), expected)


def test_fedpara_sends_its_factors_and_the_plain_layers_and_pfedpara_half_of_the_factors():
    plain = 4 + 5 + 4 * 4 + 4 * 5 + 7 * 21 + 4 * 8  # biases, norms with statistics, hidden, head
    factors = 2 * 1 * (4 + 1 + 1 * 9) + 2 * 2 * (5 + 4 + 2 * 9)
    for method, sent in ((FedPara(), factors + plain), (FedPara(personal=True), factors // 2 + plain)):
        result = run(method, rounds=1)
        for direction in ("bytes_up", "bytes_down"):
            assert (traffic(result, direction) == 8 * sent).all(axis=None)


def test_fedpara_counts_what_its_paper_counts():
    def layers():
        return nn.Sequential(nn.Conv2d(256, 256, 3, bias=False), *(nn.Linear(256, 256) for _ in range(2)))

    plain = build(layers, np.random.default_rng(0))
    network = FedPara(gamma=0.0, tanh=True).parameterize(plain, np.random.default_rng(1))
    assert all(form.tanh for form in network.forms.values())
    conv, dense, head = (sum(p.numel() for n, p in network.parts.items() if n.startswith(layer)) for layer in "012")
    assert conv == 2 * 16 * (512 + 16 * 9) == 20_992
    assert dense == 2 * 16 * 512 == 16_384
    assert head == 0


# new clients and bad input


@pytest.mark.parametrize(
    ("method", "layers", "parts"),
    [
        (FactorizedFL(), ("head", "norm"), (".v", ".mu")),
        (FactorizedFL(variant="beta"), ("head", "norm"), ()),
        (FedDecomp(), (), (".a", ".b")),
        (FedPara(personal=True), (), (".x2", ".y2", ".t2")),
    ],
    ids=["alpha", "beta", "FedDecomp", "pFedPara"],
)
def test_a_new_client_trains_what_is_personal_from_the_start_and_nothing_else(method, layers, parts):
    old, new = run(method), run(method, rounds=1, clients=image_clients(3, seed=9))
    state, start = old.states["it", 0], population(old).network.initial()
    untrained = replace(population(new), train=lambda method, start, *rest, **moves: start)
    begun, ended = (method.newcomer(state, new)["personal"].params for new in (untrained, population(new)))
    for name, leaf in ended.items():
        personal = name.startswith(layers) or name.endswith(parts)
        assert torch.equal(begun[name], (start if personal else state.server)[name].expand_as(leaf))
        assert torch.equal(leaf, begun[name]) != personal


def test_the_start_of_new_clients_is_the_mean_of_the_last_uploads_by_sample_counts():
    result = run(FactorizedFL(), **EVERYONE)
    state, n = result.states["it", 0], image_clients().train.n
    for name in ("conv2.weight.u", "hidden.bias"):
        mean = np.tensordot(n / n.sum(), state.clients[name].numpy(), axes=1)
        np.testing.assert_allclose(state.server[name], mean, atol=1e-12)


WRONG = {
    FactorizedFL: {"variant": "gamma", "layout": "cube", "rank": 0, "min_neighbours": 1.5, "epsilon": np.inf,
                   "sparsity": -1.0, "tau": np.nan, "server_lr": 0.5},
    FedDecomp: {"conv_ratio": 0.0, "dense_ratio": 1.1, "lora_epochs": -1, "variant": "both", "scale": "big"},
    FedPara: {"gamma": 1.5},
}  # fmt: skip


@pytest.mark.parametrize(("method", "argument"), [(method, name) for method, wrong in WRONG.items() for name in wrong])
def test_values_out_of_range_are_named(method, argument):
    value = WRONG[method][argument]
    with pytest.raises(ValueError, match=rf"^{argument} must .*, got {value!r}"):
        method(**{argument: value})


def test_a_network_or_run_that_does_not_suit_is_named():
    with pytest.raises(ValueError, match="the network needs a dense or convolutional layer below its head"):
        run(FactorizedFL(), model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 4)))
    with pytest.raises(ValueError, match="min_neighbours must be at most the number of clients, 6, got 7"):
        run(FactorizedFL(min_neighbours=7))
    with pytest.raises(ValueError, match=r"lora_epochs must be at most the training's local_epochs, 2, got 3"):
        run(FedDecomp(lora_epochs=3))

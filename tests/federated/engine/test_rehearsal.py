"""Networks that would be trained wrongly in silence are refused or put right; all others pass the rehearsal."""

import copy
import random
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint

import fedstat as fs
from fedstat.data import Samples
from fedstat.federated.client.network import build
from fedstat.federated.engine.rehearsal import rehearse

TRAINING = fs.Training(lr=0.1, momentum=0.5, batch_size=4, local_epochs=2)


class Net(nn.Module):
    """Two dense layers, and a forward pass of one's own choice."""

    def __init__(self, function=None, **layers):
        super().__init__()
        self.function = function
        self.first, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        for name, layer in layers.items():
            setattr(self, name, layer)

    def hidden(self, x):
        return torch.relu(self.first(x))

    def forward(self, x):
        return self.head(self.hidden(x)) if self.function is None else self.function(self, x)


class Reader(nn.Module):
    """Tokens, embedded; and a forward pass of one's own choice."""

    def __init__(self, function=None, drop=None, **options):
        super().__init__()
        self.function, self.drop = function, drop
        self.words, self.head = nn.Embedding(9, 3, **options), nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.words(x).flatten(1)) if self.function is None else self.function(self, x)


def vectors(seed=0):
    """Three clients of unequal size, three inputs."""
    rng = np.random.default_rng(seed)
    sizes = [7, 12, 10]
    x = rng.normal(size=(sum(sizes), 3))
    return fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.repeat(range(3), sizes), test=0.3, seed=0)


def tokens():
    """Three clients, four tokens out of nine, zero among them as padding."""
    x = np.random.default_rng(0).integers(9, size=(33, 4))
    x[::2, 3] = 0
    parts = [np.arange(9), np.arange(9, 20), np.arange(20, 33)]
    return fs.data.from_indices(x, (x[:, 0] > 4).astype(int), parts, test=0.3, seed=0, tokens=True)


def run(model, clients=None, method=None, **options):
    options = {"rounds": 2, "dtype": "float64", "progress": False} | options
    method = fs.FedAvg() if method is None else method
    return fs.federate({"it": method}, model, vectors() if clients is None else clients, TRAINING, **options)


def assert_close(here, there, atol=1e-12):
    for name, leaf in here.states["it", 0].server.items():
        torch.testing.assert_close(leaf, there.states["it", 0].server[name], rtol=0, atol=atol)


def with_buffer(function):
    def build():
        net = Net(function)
        net.register_buffer("mean", torch.zeros(4))
        return net

    return build


def reassigned(net, x):
    if net.training:
        net.mean = 0.9 * net.mean + 0.1 * net.hidden(x).detach().mean(0)
    return net.head(net.hidden(x) - net.mean)


def moved(net, x):
    if net.training:
        net.mean.mul_(0.9).add_(0.1 * net.hidden(x).detach().mean(0))
    return net.head(net.hidden(x) - net.mean)


def remembering(net, x):
    hidden = net.hidden(x) + getattr(net, "last", 0.0)
    net.last = 0.1 * hidden.detach().mean()
    return net.head(hidden)


def own_generator(net, x):
    if "generator" not in vars(net):
        net.generator = np.random.default_rng(0)
    return net.head(net.hidden(x) * (1 + net.generator.random()))


def clamped(net, x):
    net.first.weight.data.clamp_(-0.1, 0.1)
    return net.head(net.hidden(x))


def recomputed(net, x):
    return net.head(checkpoint(net.hidden, x, use_reentrant=False))


def dropout():
    """One layer under two names, and called twice under one of them."""
    net = Net(lambda net, x: net.head(net.again(net.drop(net.drop(net.hidden(x))))), drop=nn.Dropout())
    net.again = net.drop
    return net


def dropout_of_steps(net, x):
    """Drops where steps stand before samples, whose places therefore move with the length of a batch."""
    words = net.words(x).transpose(0, 1)
    return net.head(net.drop(words.flatten(0, 1)).view_as(words).transpose(0, 1).flatten(1))


def reentrant(net, x):
    return net.head(checkpoint(torch.tanh, net.first(x), use_reentrant=True))


def through_a_list():
    net = Net(lambda net, x: net.head(torch.relu(F.linear(x, *net.copies))))
    net.copies = [net.first.weight, net.first.bias]
    return net


def less_mean(hidden):
    return hidden - hidden.mean(0)


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x) if self.training else x


class Centre(nn.Module):
    def forward(self, x):
        return less_mean(x)


#: Networks that no executor would train right, and what the message says.
WRONG = {
    "dropout as a function": (
        lambda: Net(lambda net, x: net.head(F.dropout(net.hidden(x), 0.5, net.training))),
        r"its own forward pass draws random numbers \(dropout\).* Make a dropout a layer \(nn\.Dropout\)",
    ),
    "dropout in evaluation": (lambda: Net(lambda net, x: net.head(F.dropout(net.hidden(x)))), "random numbers"),
    "a layer of noise": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), Noise()), nn.Linear(4, 2)),
        r"layer '1\.1' draws random numbers \(randn_like\)",
    ),
    "numpy's generator": (
        lambda: Net(lambda net, x: net.head(net.hidden(x) * np.random.rand())),  # noqa: NPY002
        "its own forward pass draws random numbers",
    ),
    "python's generator": (lambda: Net(lambda net, x: net.head(net.hidden(x) * random.random())), "random numbers"),
    "a generator of its own": (lambda: Net(own_generator), "differ between two identical calls"),
    "state in an attribute": (lambda: Net(remembering), "its own forward pass differ between two identical calls"),
    "a checkpoint": (lambda: Net(recomputed), r"layer 'first' computes again in the backward pass .*checkpoint"),
    "a reentrant checkpoint": (lambda: Net(reentrant), "no way back .*checkpoint"),
    "samples mixed": (
        lambda: Net(lambda net, x: net.head(less_mean(net.hidden(x)))),
        "its own forward pass for a sample depend on the other samples in evaluation",
    ),
    "samples mixed in a layer": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Tanh(), Centre(), nn.ReLU()), nn.Linear(4, 2)),
        r"layer '1\.1' for a sample depend",
    ),
    "batch norm without statistics": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)),
        "layer '1' .* track_running_stats=True",
    ),
    "spectral norm": (lambda: Net(first=spectral_norm(nn.Linear(3, 4))), r"changes 'first\..*_u'.* spectral_norm"),
    "the old spectral norm": (lambda: Net(first=nn.utils.spectral_norm(nn.Linear(3, 4))), "changes 'first.weight_u'"),
    "a buffer reassigned": (with_buffer(reassigned), "changes 'mean', which would pass from client to client"),
    "a buffer moved in place": (with_buffer(moved), "changes 'mean', which would pass from client to client"),
    "a weight moved in place": (lambda: Net(clamped), "changes 'first.weight'"),
    "weights behind a list": (through_a_list, "gradients of 'first.weight' are not those|outputs in training mode are"),
    "inputs moved in place": (lambda: Net(lambda net, x: net.head(net.hidden(x.add_(1)))), r"writes to its inputs"),
    "inputs moved by a layer": (lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2)), "inplace=False"),
    "complex weights": (
        lambda: Net(c=nn.ParameterList([nn.Parameter(torch.ones(4, dtype=torch.cfloat))])),
        r"'c\.0' of the network is complex.*view_as_real",
    ),
    "no gradients": (lambda: Net(lambda net, x: net.head(net.hidden(x)).detach()), "no gradient reaches its weights"),
    "a failure in training": (
        lambda: Net(lambda net, x: 1 / 0 if net.training else net.head(net.hidden(x))),
        "fails in training mode: division by zero",
    ),
    "several outputs in training": (
        lambda: Net(lambda net, x: (net.first(x), net.first(x)) if net.training else net.head(net.hidden(x))),
        r"in training mode it must map B samples to \(B, outputs\); for B = 3 it returns tuple",
    ),
    "what cannot be copied": (lambda: Net(stream=(i for i in ())), "the network cannot be copied.* buffers, numbers"),
}  # fmt: skip

#: Networks that are right client by client alone.
ALONE = {
    "decisions on values": (
        lambda: Net(lambda net, x: net.head(net.hidden(x)) * (1 if x.sum().item() > 0 else -1)),
        vectors,
        "its own forward pass does what torch.vmap cannot do",
    ),
    "decisions on values in a layer": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Sequential(Reading()), nn.Linear(4, 2)),
        vectors,
        r"layer '1\.0' does what torch.vmap cannot do",
    ),
    "samples mixed in training": (
        lambda: Net(lambda net, x: net.head(less_mean(net.hidden(x)) if net.training else net.hidden(x))),
        vectors,
        "with a row of padding, outputs in training mode are not those of the client alone",
    ),
    "dropout of steps before samples": (
        lambda: Reader(dropout_of_steps, drop=nn.Dropout()),
        tokens,
        "with a row of padding, outputs in training mode are not those of the client alone",
    ),
    "padding as a function": (
        lambda: Reader(lambda net, x: net.head(F.embedding(x, net.words.weight, padding_idx=0).flatten(1))),
        tokens,
        r"gradients of 'words\.weight' are not those of the client alone",
    ),
}


class Reading(nn.Module):
    def forward(self, x):
        return x if x.isfinite().all() else torch.zeros_like(x)


def generators():
    state = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), random.getstate(), state[1].tolist(), state[2:]


@pytest.mark.parametrize("executor", ["auto", "per-client"])
@pytest.mark.parametrize("case", WRONG)
def test_what_would_be_trained_wrongly_is_refused(case, executor):
    model, message = WRONG[case]
    clients, before = vectors(), generators()
    samples = clients.train.x.copy()
    with pytest.raises(ValueError, match=message) as refusal:
        run(model, clients, executor=executor)
    for word in ("functorch", "vmap:", "BatchedTensor", "deepcopy", "aten"):
        assert word not in str(refusal.value)
    np.testing.assert_array_equal(clients.train.x, samples)
    if case != "complex weights":
        assert generators() == before


@pytest.mark.parametrize("case", ALONE)
def test_what_is_right_client_by_client_alone_goes_that_way(case):
    model, clients, message = ALONE[case]
    alone, chosen = (run(model, clients(), executor=executor) for executor in ("per-client", "auto"))
    assert_close(chosen, alone, atol=0)
    assert chosen.config["executor"] == "per-client"
    with pytest.raises(ValueError, match=f'executor="stacked": .*{message}'):
        run(model, clients(), executor="stacked")
    fs.newcomers(chosen, clients())


def attention():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
            self.register_buffer("places", torch.arange(16.0).view(4, 4).sin())

        def forward(self, x):
            x = self.words(x) + self.places
            x, self.map = self.attention(x, x, x)  # kept to be looked at
            return self.head(x.mean(1))

    return Attention()


def frozen():
    net = Net()
    net.first.requires_grad_(False)
    return net


def single_precision():
    """Builds a tensor of its own in float32, so that it cannot run in float64."""
    return Net(lambda net, x: net.head(net.hidden(x) + torch.full((len(x), 4), 0.5) @ torch.eye(4)))


def pixels(*shape):
    return lambda rng: rng.integers(256, size=(3, 9, *shape), dtype=np.uint8)


def words(rng):
    return rng.integers(20, size=(3, 9, 6))


def numbers(*shape):
    return lambda rng: rng.normal(size=(3, 9, *shape)).astype(np.float32)


RIGHT = {
    "mlp": (fs.models.mlp(5, 6, 7, 2), numbers(5)),
    "atom_linear": (fs.models.atom_linear(5), numbers(5)),
    "split_relu": (fs.models.split_relu(5, personal=2, shared=4), numbers(5)),
    "cnn": (fs.models.cnn(8, 4), pixels(8, 8)),
    "cnn with batch norm": (fs.models.cnn(8, 4, norm=True), pixels(8, 8)),
    "two_conv": (fs.models.two_conv(4), pixels(28, 28)),
    "resnet8": (fs.models.resnet8(4), pixels(3, 16, 16)),
    "resnet9": (fs.models.resnet9(4), numbers(3, 32, 32)),
    "alexnet": (fs.models.alexnet(4), pixels(3, 32, 32)),
    "lstm": (fs.models.lstm(20, vocabulary=20), words),
    "gru": (fs.models.gru(20, vocabulary=20, hidden=8), words),
    "rnn": (fs.models.rnn(20, vocabulary=20, hidden=8), words),
    "attention, constants and what is kept": (attention, lambda rng: rng.integers(9, size=(3, 9, 4))),
    "frozen layers": (frozen, numbers(3)),
    "dropout": (dropout, numbers(3)),
    "float32 alone": (single_precision, numbers(3)),
    "orthogonal weights": (lambda: Net(first=orthogonal(nn.Linear(3, 4))), numbers(3)),
    "a padded embedding": (lambda: Reader(padding_idx=0), lambda rng: rng.integers(9, size=(3, 9, 4))),
}


@pytest.mark.parametrize(
    ("case", "dtype"),
    [(case, "float32") for case in RIGHT]
    + [(c, d) for c in RIGHT for d in ("float64", "bf16-mixed") if c not in ("float32 alone", "resnet9", "alexnet")],
)
def test_what_is_right_passes_and_nothing_is_left_behind(case, dtype):
    model, draw = RIGHT[case]
    kind = torch.float64 if dtype == "float64" else torch.float32
    network = build(model, np.random.default_rng(0), kind, mixed=dtype == "bf16-mixed")
    rng = np.random.default_rng(1)
    samples = Samples.from_rows(draw(rng), rng.integers(2, size=(3, 9)), np.array([1, 9, 4]))
    network.module.eval()
    before, generated = copy.deepcopy(network.module.state_dict()), generators()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rehearse(network, samples, "stacked") == "stacked"
    assert generators() == generated
    assert not any(layer.training for layer in network.module.modules())
    after = network.module.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], leaf) for name, leaf in before.items())


def test_a_softmax_before_cross_entropy_is_warned_of():
    def trained(*last):
        network = nn.Sequential(nn.Linear(3, 2), *last)
        return fs.federate(fs.Local(), network, vectors(), TRAINING, rounds=1, progress=False)

    with pytest.warns(UserWarning, match="the outputs of the network are probabilities, as after a softmax"):
        trained(nn.Softmax(-1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for right in ((), (nn.LogSoftmax(-1),)):
            trained(*right)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), norm=st.booleans())
def test_kinks_ties_and_constant_pixels_are_no_reason_to_refuse(data, norm):
    values = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.choice(values, size=(2, 5, 6, 6)).astype(data.draw(st.sampled_from([np.uint8, np.float32])))
    x = x * x.dtype.type(data.draw(st.sampled_from([1, 64])))
    network = build(fs.models.cnn(6, 3, norm=norm), rng)
    assert rehearse(network, Samples.from_rows(x, np.zeros((2, 5), int), np.array([5, 2]))) == "auto"


def test_padding_idx_is_kept_still_for_every_client():
    results = {e: run(lambda: Reader(padding_idx=0), tokens(), executor=e) for e in ("stacked", "per-client")}
    assert_close(*results.values())
    leaf = results["stacked"].states["it", 0].server["words.weight"]
    assert torch.equal(leaf[0], torch.zeros(3, dtype=torch.float64))
    assert results["stacked"].personal(1).words.padding_idx == 0


def tied():
    class Tied(nn.Module):
        """Scores of all nine words by the weights that embed them, and a layer under two names."""

        def __init__(self):
            super().__init__()
            self.words, self.middle = nn.Embedding(9, 3), nn.Linear(3, 3)
            self.again = self.middle
            self.scores, self.head = nn.Linear(3, 9, bias=False), nn.Linear(9, 2)
            self.scores.weight = self.words.weight

        def forward(self, x):
            hidden = torch.tanh(self.again(torch.tanh(self.middle(self.words(x).mean(1)))))
            return self.head(torch.tanh(self.scores(hidden)))

    return Tied()


def tied_head():
    net = Reader(lambda net, x: net.head(net.words(x).mean(1)))
    net.head = nn.Linear(3, 9)
    net.head.weight = net.words.weight
    return net


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
@pytest.mark.parametrize("method", [fs.FedAvg(), fs.methods.FedDecomp(lora_epochs=1), fs.methods.Local()])
def test_tied_weights_and_layers_under_two_names_are_kept_and_taken_home(method, executor, tmp_path):
    result = run(tied, tokens(), method, executor=executor)
    result.save(tmp_path / "run")
    x = torch.from_numpy(tokens().test.client(1)[0][:3]).long()
    for one in (result, fs.load(tmp_path / "run", model=tied, methods={"it": method})):
        network, state = one.network(("it", 0)), one.states["it", 0]
        predictor = next(iter(method.models(state, torch.tensor([1])).values()))
        leaves = {name: leaf[0] for name, leaf in predictor.params.items()}
        model = one.personal(1)
        assert model.scores.weight is model.words.weight
        assert model.again is model.middle
        for name, leaf in model.named_parameters():
            assert torch.equal(leaf, network.compose(leaves)[name])
            assert not torch.equal(leaf, network.compose(network.initial())[name])
        torch.testing.assert_close(model(x), network(leaves, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_one_client_with_tied_weights_is_plain_training(executor):
    everything = tokens()
    one = everything.train.of(slice(1))
    training = fs.Training(lr=0.1, batch_size=100, local_epochs=2)
    options = {"rounds": 3, "dtype": "float64", "executor": executor, "progress": False}
    result = fs.federate(fs.FedAvg(), tied, fs.data.Clients(one, one, classes=(0, 1)), training, **options)
    module = copy.deepcopy(result.federations["FedAvg", 0].network.module)
    x, y = (torch.from_numpy(values).long() for values in one.client(0))
    optimizer = torch.optim.SGD(module.parameters(), training.lr)
    for _ in range(6):
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
    for name, leaf in module.named_parameters():
        torch.testing.assert_close(result.states["FedAvg", 0].server[name], leaf.detach(), rtol=0, atol=1e-12)


def test_tied_weights_are_one_leaf_and_a_head_that_is_tied_is_none():
    assert list(fs.describe(fs.FedAvg(), tied).table["leaf"]) == [
        "words.weight", "middle.weight", "middle.bias", "head.weight", "head.bias",
    ]  # fmt: skip
    assert list(fs.describe(fs.methods.FedRep(), tied, tokens()).table.query("holder == 'client'")["leaf"]) == [
        "head.weight",
        "head.bias",
    ]
    with pytest.raises(ValueError, match=r"the head 'head' holds words\.weight of another layer"):
        run(tied_head, tokens(), fs.methods.FedRep())


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize("norm", [weight_norm, nn.utils.weight_norm])
def test_weight_norm_trains_alike_everywhere_and_can_be_taken_home(norm):
    def model():
        return Net(first=norm(nn.Linear(3, 4)))

    results = {e: run(model, executor=e) for e in ("stacked", "per-client")}
    assert_close(*results.values())
    x = torch.from_numpy(vectors().test.x[:2])
    outputs = [result.personal(1)(x) for result in results.values()]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)
    module = model()
    assert_close(run(module, executor="per-client"), run(module, executor="stacked"))  # an instance is copied


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_what_a_layer_keeps_to_be_looked_at_does_no_harm(executor):
    result = run(attention, tokens(), executor=executor)
    assert_close(result, run(attention, tokens()))
    model = result.personal(0)
    model(torch.zeros(2, 4, dtype=torch.long))
    assert model.map.shape == (2, 4, 4)

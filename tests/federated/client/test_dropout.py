"""Keyed dropout: its draws against splitmix64, its outputs against torch's own, its runs against plain training."""

from itertools import combinations, product

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

import fedstat as fs
from fedstat.data import Clients, Samples
from fedstat.federated.client.dropout import KeyedDropout, hashed, keys
from fedstat.federated.client.layers import stackable
from fedstat.federated.client.network import build
from fedstat.federated.client.samples import BatchOrders, Job, StackedSamples
from fedstat.federated.client.seeds import Seeds

ALL = 2**64


def splitmix(seed, count):
    """The generator as its authors write it, on unsigned integers."""
    found = []
    for i in range(1, count + 1):
        z = (seed + i * 0x9E3779B97F4A7C15) % ALL
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % ALL
        z = (z ^ z >> 27) * 0x94D049BB133111EB % ALL
        found.append(z ^ z >> 31)
    return found


def signed(number):
    return (number + ALL // 2) % ALL - ALL // 2


def kept(noise, layer, rows, columns, p):
    """Which elements of a batch a layer keeps in its first call, (rows, columns), by Python's integers."""
    numbers = [splitmix(row, columns) for row in splitmix(noise + layer * 2**48, rows)]
    return torch.tensor([[signed(number) >= p * ALL - ALL // 2 for number in row] for row in numbers])


def key(number):
    return torch.tensor(number, dtype=torch.int64)


def masks(noise, shape, p, calls=1, layers=1):
    """What each of several layers keeps in each of several calls, (layers, calls, ...)."""
    found = []
    for own in keys([str(i) for i in range(layers)], key(noise)).values():
        layer = KeyedDropout(nn.Dropout(p))
        layer.key = own
        found.append(torch.stack([layer(torch.ones(shape)) > 0 for _ in range(calls)]))
    return torch.stack(found)


def test_numbers_are_those_that_the_generators_authors_print_and_along_every_axis_a_generator():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert hashed(key(1234567), (4,)).tolist() == [signed(number) for number in published]
    for seed in (0, 5, 2**63 - 1):
        expected = [[[signed(z) for z in splitmix(y, 2)] for y in splitmix(x, 3)] for x in splitmix(seed, 4)]
        assert hashed(key(seed), (4, 3, 2)).tolist() == expected


def assert_count(found, of, share):
    low, high = stats.binom.interval(1 - 1e-6, of, share)
    assert low <= int(found) <= high, f"{found} of {of} where {of * share:.0f} are expected"


@pytest.mark.parametrize("p", [0.001, 0.3, 0.5, 0.9])
def test_a_share_of_p_is_dropped(p):
    assert_count(masks(7, (400, 1000), p).sum(), 400_000, 1 - p)


def test_layers_calls_steps_rows_and_columns_are_independent():
    found = {noise: masks(noise, (300, 400), 0.5, calls=3, layers=3) for noise in (0, 1, 2**62 + 12345)}
    some = [found[noise][layer, call] for noise in found for layer, call in product(range(3), range(3))]
    for here, there in combinations(some, 2):
        assert_count((here == there).sum(), 300 * 400, 0.5)
    for mask in some:
        assert_count((mask[1:] == mask[:-1]).sum(), 299 * 400, 0.5)
        assert_count((mask[:, 1:] == mask[:, :-1]).sum(), 300 * 399, 0.5)
        assert_count((mask[1:, 1:] == mask[:-1, :-1]).sum(), 299 * 399, 0.5)
        for lines, length in ((mask.sum(0), 300), (mask.sum(1), 400)):  # no row or column is favoured
            spread = ((lines - length / 2) ** 2 / (length / 4)).sum()
            assert 1e-6 < stats.chi2.cdf(float(spread), len(lines)) < 1 - 1e-6


#: Layers, inputs of theirs, and the number of axes along which they draw.
KINDS = {
    "Dropout": (nn.Dropout, (7, 5, 3), 3),
    "Dropout1d": (nn.Dropout1d, (7, 5, 3), 2),
    "Dropout2d": (nn.Dropout2d, (7, 5, 3, 2), 2),
    "Dropout2d of vectors": (nn.Dropout2d, (7, 5), 2),
    "Dropout2d of sequences": (nn.Dropout2d, (7, 5, 3), 2),
    "Dropout3d": (nn.Dropout3d, (7, 5, 3, 2, 2), 2),
    "AlphaDropout": (nn.AlphaDropout, (7, 5, 3), 3),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout, (7, 5, 3), 2),
}


@pytest.mark.filterwarnings("ignore:dropout2d")
@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_every_element_and_its_gradient_are_what_torch_makes_of_it_kept_or_dropped(kind, p):
    cls, shape, axes = KINDS[kind]
    layer = cls(p)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)

    def pair():
        outputs = layer(x)
        return torch.stack([outputs, torch.autograd.grad(outputs.square().sum(), x)[0]]).detach()

    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = torch.stack([pair() for _ in range(60)])  # all elements are kept in some and dropped in others
    layer = stackable(layer)
    assert isinstance(layer, KeyedDropout)
    layer.key = key(3)
    ours = pair()
    assert (draws - ours).abs().sum(1).min(0).values.max() < 1e-12
    stays = (ours[1] != 0).reshape(*shape[:axes], -1)
    assert torch.equal(stays.all(-1), stays.any(-1))
    if p == 0.4:
        assert torch.equal(
            stays[..., 0].flatten(1), kept(3, 0, 7, 5, p) if axes == 2 else masks(3, shape, p)[0, 0].flatten(1)
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_noise_depends_on_the_place_alone_under_vmap_and_for_every_type(dtype):
    layer, x = KeyedDropout(nn.Dropout(0.5)), torch.ones(3, 6, 4, 5, dtype=dtype)
    noise = torch.tensor([3, 4, -(2**63)])

    def drop(noise, x):
        return functional_call(layer, {"key": noise}, (x,))

    together = torch.vmap(drop)(noise, x)
    assert together.dtype == dtype
    for k in range(3):
        assert torch.equal(together[k].bool(), drop(noise[k], x[k].float()).bool())
        for smaller in (x[k, :2], x[k, :1], x[k, :, :3], x[k, ..., :1]):
            here = tuple(slice(length) for length in smaller.shape)
            assert torch.equal(drop(noise[k], smaller), together[k][here])
    assert not torch.equal(together[0], together[1])
    assert not layer.key.numel()  # as it was


def test_nothing_is_dropped_in_evaluation_or_without_a_key():
    model = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.Dropout(0.5), nn.Linear(5, 2))
    network, x = build(model, np.random.default_rng(0)), torch.randn(3, 4)
    plain = model.eval()(x)
    params = network.initial()
    for outputs in (network(params, x), network(params, x, train=True), network(params, x, noise=key(1))):
        assert torch.equal(outputs, plain)
    assert not torch.equal(network(params, x, train=True, noise=key(1)), plain)
    assert network.noisy
    assert not build(nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.0)), np.random.default_rng(0)).noisy


def test_what_torch_would_take_for_one_sample_is_refused():
    for layer, shape in ((nn.Dropout1d(0.5), (3, 4)), (nn.Dropout3d(0.5), (2, 3, 4, 4))):
        with pytest.raises(ValueError, match=r"needs \d axes, samples and channels first"):
            stackable(layer)(torch.ones(shape))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch_first", [True, False])
def test_dropout_between_recurrent_layers_is_that_of_layers_apart(kind, batch_first):
    whole = kind(4, 3, num_layers=3, dropout=0.4, batch_first=batch_first).double()
    x = torch.randn(5, 6, 4, dtype=torch.float64)
    ours = stackable(whole)
    actual, _ = functional_call(ours, keys(["dropout.key"], key(11)), (x,))
    steps = x.transpose(0, 1) if batch_first else x
    for depth, mask in enumerate([torch.ones(1, 1, 1), *masks(11, (len(steps), steps.shape[1], 3), 0.4, calls=2)[0]]):
        steps = steps * mask / (0.6 if depth else 1)
        layer = kind(3 if depth else 4, 3).double()
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        layer.load_state_dict({f"{name}_l0": getattr(whole, f"{name}_l{depth}") for name in names})
        steps, _ = layer(steps)
    torch.testing.assert_close(actual, steps.transpose(0, 1) if batch_first else steps, rtol=0, atol=1e-12)
    ours.eval()
    torch.testing.assert_close(ours(x)[0], whole.eval()(x)[0], rtol=0, atol=1e-12)


def pool(*sizes):
    n = np.array(sizes)
    samples = Samples(np.zeros((n.sum(), 1), np.float32), np.zeros(n.sum(), int), n)
    return StackedSamples.stack([samples], torch.float32, "cpu")


def test_keys_are_functions_of_seed_purpose_round_client_and_step():
    data, jobs = pool(5, 12), [Job(0, Seeds(seed), 0) for seed in (0, 1)] + [Job(1, Seeds(0), 1)]

    def drawn(jobs, first=0, epochs=2, round=3, purpose="batches", group=1):
        return BatchOrders(4, data, round, purpose, group=group, noisy=True).of(jobs, first, [epochs] * len(jobs)).noise

    together = drawn(jobs, epochs=3)
    assert together.shape == (9, 1, 3)
    np.testing.assert_array_equal(drawn(jobs[:1], epochs=3), together[:6, :, :1])
    np.testing.assert_array_equal(drawn(jobs[2:], first=1), together[3:, :, 2:])
    others = [together, drawn(jobs, round=4), drawn(jobs, round=-3), drawn(jobs, purpose="tuning batches")]
    found = np.concatenate([o[o != 0] for o in [*others, drawn(jobs, round=5, group=2)]])
    assert len(set(found.tolist())) == len(found) == 3 * (2 + 2 + 3) + 3 * 2 * (2 + 2 + 3) + 2 * 2 * (1 + 1 + 2)
    assert not BatchOrders(4, data, 3).of(jobs, 0, [2] * 3).noise.any()


def vectors(sizes=(5, 12, 9), seed=0):
    rng = np.random.default_rng(seed)
    k, n = len(sizes), max(sizes)
    x = rng.normal(size=(2, k, n, 3))
    train, test = (Samples.from_rows(part, (part[..., 0] > part[..., 1]).astype(int), np.array(sizes)) for part in x)
    return Clients(train, test, classes=(0, 1))


def net(p=0.4):
    return nn.Sequential(
        nn.Linear(3, 8), nn.ReLU(), nn.Dropout(p), nn.Linear(8, 6), nn.Tanh(), nn.AlphaDropout(p), nn.Linear(6, 2)
    )


class Images(nn.Module):
    """Dropout of every kind and between recurrent layers, one layer called twice, beside batch norm."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.channels, self.units = nn.Dropout2d(0.3), nn.Dropout(0.3)
        self.gru = nn.GRU(12, 5, num_layers=3, dropout=0.3, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        x = self.channels(torch.relu(self.norm(self.conv(x[:, None]))))
        x = self.units(x.transpose(1, 2).flatten(2))
        return self.head(self.units(self.gru(x)[0][:, -1]))


def images():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 11, 4, 4))
    train, test = (Samples.from_rows(part, (part.mean((-1, -2)) > 0).astype(int), np.array([11, 4, 7])) for part in x)
    return Clients(train, test, classes=(0, 1))


TRAINING = fs.Training(lr=0.2, momentum=0.5, batch_size=4, local_epochs=2)


def run(model, clients, method=None, training=TRAINING, **options):
    options = {"rounds": 2, "dtype": "float64", "progress": False, "seed": 3} | options
    return fs.federate({"it": method or fs.FedAvg()}, model, clients, training, **options)


def server(result):
    return result.states["it", 3].server


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_client_is_plain_training_under_the_same_masks(optimizer):
    clients, p = vectors((10,)), 0.4
    training = fs.Training(lr=0.05, optimizer=optimizer, batch_size=4, local_epochs=2)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(p), nn.Linear(8, 6), nn.Dropout(p), nn.Linear(6, 2))
    result = run(model, clients, training=training)
    first, middle, head = (nn.Linear(*sizes).double() for sizes in ((3, 8), (8, 6), (6, 2)))
    module = nn.ModuleDict({"0": first, "3": middle, "5": head})
    module.load_state_dict(build(model, np.random.default_rng(0), torch.float64).initial())
    data = StackedSamples.stack([clients.train], torch.float64, "cpu")
    for number in range(2):
        torchs = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer](module.parameters(), training.lr)
        orders = BatchOrders(4, data, number, noisy=True)
        jobs = [Job(0, Seeds(3), 0)]
        steps = orders.of(jobs, 0, [2])
        for rows, noise in zip(steps.places[:, 0, 0], steps.noise[:, 0, 0].tolist(), strict=True):
            x, y = data.x[rows[rows >= 0]], data.y[rows[rows >= 0]]
            hidden = first(x).relu() * kept(noise, 0, len(x), 8, p) / (1 - p)
            outputs = head(middle(hidden) * kept(noise, 1, len(x), 6, p) / (1 - p))
            torchs.zero_grad()
            F.cross_entropy(outputs, y).backward()
            torchs.step()
    for name, leaf in module.state_dict().items():
        torch.testing.assert_close(server(result)[name], leaf, rtol=0, atol=1e-12)


METHODS = [
    fs.FedAvg(),
    fs.methods.FedRoD(),
    fs.methods.PerFedAvg(hessian_free=True),
    fs.methods.FedEM(components=2),
    fs.methods.Ditto(),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("model", "clients"), [(net, vectors), pytest.param(Images, images, marks=pytest.mark.slow)])
def test_stacked_chunked_client_by_client_and_resumed_runs_drop_the_same(method, model, clients, tmp_path):
    clients = clients()
    whole = run(model, clients, method, executor="stacked")
    for options in (
        {"executor": "per-client"},
        {"executor": "stacked", "chunk": 1},
        {"executor": "stacked", "chunk": 2},
    ):
        other = run(model, clients, method, **options)
        for name, leaf in server(whole).items():
            torch.testing.assert_close(server(other)[name], leaf, rtol=0, atol=1e-10)
    run(model, clients, method, rounds=1, executor="stacked").save(tmp_path / "run")
    begun = fs.load(tmp_path / "run", model=model, methods={"it": method})
    continued = run(model, clients, method, executor="stacked", resume=begun)
    for name, leaf in server(whole).items():
        assert torch.equal(server(continued)[name], leaf)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [fs.FedAvg(), fs.methods.FedRep(), fs.methods.PFedSD()], ids=lambda m: type(m).__name__
)
def test_the_laws_that_do_not_exchange_clients_hold(method):
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.4), nn.Linear(5, 2))
    # noise belongs to a client's number, and plain training has other noise
    fs.testing.check_method(method, model=model, except_for=["permutation", "clones", "one client"], examples=3)


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_limits_of_p_are_the_network_without_dropout_and_without_signals(executor):
    bare = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2))
    none, whole = net(0.0), net(1.0)
    for model in (none, whole):
        for mine, theirs in zip(model.parameters(), bare.parameters(), strict=True):
            mine.data.copy_(theirs)
    without = server(run(bare, vectors(), executor=executor))
    for leaf, expected in zip(server(run(none, vectors(), executor=executor)).values(), without.values(), strict=True):
        torch.testing.assert_close(leaf, expected, rtol=0, atol=1e-12)  # without dropout it is a chain, in closed form
    silent = server(run(whole, vectors(), executor=executor))
    moved = [name for name, leaf in whole.state_dict().items() if not torch.equal(silent[name], leaf.double())]
    assert moved == ["6.bias"]


def test_a_run_with_dropout_learns_and_another_seed_drops_others():
    clients, start = vectors((30, 50, 40)), net()
    result = run(net, clients, rounds=15, seed=(3, 4))
    loss = result.history.query("metric == 'log_loss'").groupby(["seed", "round"])["value"].mean()
    for seed in (3, 4):
        assert loss[seed].iloc[-1] < 0.5 * loss[seed].iloc[0]
    full = fs.Training(lr=0.1, batch_size=100)
    one, other = (run(start, clients, seed=seed, training=full).states["it", seed].server for seed in (3, 4))
    assert not torch.allclose(one["0.weight"], other["0.weight"])  # which nothing but the noise tells apart

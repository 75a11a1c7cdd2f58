"""The stacked engine's layers against torch's own, each client alone on its unpadded batch."""

import copy
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from fedstat.federated.client.layers import MaskedBatchNorm, Unrolled, norm_layers, stackable

NORMS = {
    "1d": (nn.BatchNorm1d(3), (3,)),
    "1d with length": (nn.BatchNorm1d(3, momentum=0.3), (3, 4)),
    "2d": (nn.BatchNorm2d(3, eps=1e-2), (3, 4, 2)),
    "3d": (nn.BatchNorm3d(3), (3, 2, 2, 3)),
    "not affine": (nn.BatchNorm2d(3, affine=False), (3, 2, 2)),
    "without shift": (nn.BatchNorm1d(3, bias=False), (3,)),
    "without running statistics": (nn.BatchNorm1d(3, track_running_stats=False), (3,)),
}

RECURRENT = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN, "RNN with ReLU": partial(nn.RNN, nonlinearity="relu")}


def leaves(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and the running statistics."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    return {n: t for n, t in tensors.items() if n.rpartition(".")[2] not in ("valid", "key", "num_batches_tracked")}


def randomised(module: nn.Module, seed: int) -> nn.Module:
    """A float64 copy with other weights and statistics."""
    module, generator = copy.deepcopy(module).double(), torch.Generator().manual_seed(seed)
    for leaf in leaves(module).values():
        leaf.data = torch.rand(leaf.shape, generator=generator, dtype=torch.float64) + 0.1
    return module


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def stacked(modules: list[nn.Module]) -> dict[str, Tensor]:
    """All clients' leaves, (K, ...); parameters require gradients, running statistics do not."""
    trains = {name for name, _ in modules[0].named_parameters()}
    rows = [leaves(module) for module in modules]
    return {n: torch.stack([r[n].detach() for r in rows]).requires_grad_(n in trains) for n in rows[0]}


def run(module: nn.Module, params: dict[str, Tensor], x: Tensor, valid: Tensor) -> Tensor:
    def single(params: dict[str, Tensor], x: Tensor, valid: Tensor) -> Tensor:
        masks = {f"{name}.valid".removeprefix("."): valid for name in norm_layers(module)}
        return functional_call(module, params | masks, (x,))

    return torch.vmap(single)(params, x, valid)


def nonlinear(outputs: Tensor) -> Tensor:
    """A loss (K, B) of outputs (K, B, ...) under which no gradient through batch norm vanishes by symmetry."""
    return (outputs**3 + outputs.sin()).flatten(2).sum(-1)


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


def assert_stack_equals_alone(
    module: nn.Module, sizes: list[int], shape: tuple[int, ...], tolerance: float = 1e-12
) -> None:
    """Outputs, the gradient of the sum over clients and statistics, after two calls in one outer function."""
    clients = [randomised(module, seed) for seed in range(len(sizes))]
    params, shared = stacked(clients), stackable(randomised(module, 9))
    rows = torch.arange(max(sizes))
    valid = rows < torch.tensor(sizes)[:, None]
    total = torch.zeros((), dtype=torch.float64)
    alone = [torch.zeros((), dtype=torch.float64) for _ in clients]
    for step in range(2):
        x = normal(len(sizes), max(sizes), *shape, seed=step)
        outputs = run(shared, params, x, valid)
        total = total + torch.where(valid, nonlinear(outputs), 0).sum()
        for k, (client, n) in enumerate(zip(clients, sizes, strict=True)):
            expected = client(x[k, :n])
            close(outputs[k, :n], expected, tolerance)
            alone[k] = alone[k] + nonlinear(expected[None]).sum()
    trains = [name for name, leaf in params.items() if leaf.requires_grad]
    gradients = torch.autograd.grad(total, [params[n] for n in trains]) if trains else ()
    for k, client in enumerate(clients):
        own = dict(client.named_parameters())
        expectations = torch.autograd.grad(alone[k], [own[n] for n in trains]) if trains else ()
        for gradient, expected in zip(gradients, expectations, strict=True):
            close(gradient[k], expected, tolerance)
        for name, leaf in leaves(client).items():
            close(params[name][k].detach(), leaf.detach(), tolerance)


@pytest.mark.parametrize("kind", NORMS)
def test_batch_norm_is_torchs_over_several_steps_and_in_evaluation(kind: str) -> None:
    layer, shape = NORMS[kind]
    layer = randomised(layer, 1)
    ours = stackable(copy.deepcopy(layer))
    assert isinstance(ours, MaskedBatchNorm)
    for step in range(4):
        for module in (layer, ours):
            module.train(step < 3)
        x = normal(5, *shape, seed=step).requires_grad_()
        actual, expected = ours(x), layer(x)
        close(actual, expected)
        for a, e in zip(
            torch.autograd.grad(nonlinear(actual[None]).sum(), [x, *ours.parameters()]),
            torch.autograd.grad(nonlinear(expected[None]).sum(), [x, *layer.parameters()]),
            strict=True,
        ):
            close(a, e)
    for name, leaf in leaves(layer).items():
        close(leaves(ours)[name].detach(), leaf.detach())


@pytest.mark.parametrize("kind", NORMS)
def test_stacked_batch_norm_on_padded_batches_equals_each_client_alone(kind: str) -> None:
    assert_stack_equals_alone(NORMS[kind][0], [4, 2, 6], NORMS[kind][1])


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layers = RECURRENT[kind](4, 3, num_layers=2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)[0]


def nested(kind: str = "LSTM") -> nn.Sequential:
    """Convolution, batch norm, recurrence along one image axis, batch norm over its outputs, dense head."""
    images = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.0))
    sequences = nn.Sequential(nn.Flatten(1, 2), Recurrent(kind), nn.Flatten(), nn.BatchNorm1d(24), nn.LayerNorm(24))
    return nn.Sequential(images, sequences, nn.Linear(24, 2))


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_nested_module_with_convolution_batch_norm_and_recurrence_equals_each_client_alone(kind: str) -> None:
    # Normalising twice amplifies rounding.
    assert_stack_equals_alone(nested(kind), [3, 5, 4], (1, 4, 4), tolerance=1e-9)


@given(data=st.data(), sizes=st.lists(st.integers(2, 5), min_size=1, max_size=4))
def test_nothing_depends_on_what_stands_in_the_padding(data: st.DataObject, sizes: list[int]) -> None:
    module, width = stackable(nn.BatchNorm1d(2).double()), 6
    valid = torch.stack([torch.tensor(data.draw(st.permutations([True] * n + [False] * (width - n)))) for n in sizes])
    x = normal(len(sizes), width, 2)
    junk = data.draw(st.lists(st.floats(width=64), min_size=2, max_size=2))

    def everything(x: Tensor) -> list[Tensor]:
        params = stacked([randomised(module, k) for k in range(len(sizes))])
        x = x.clone().requires_grad_()
        outputs = run(module, params, x, valid)
        total = torch.where(valid, nonlinear(outputs), 0).sum()
        return [outputs, *torch.autograd.grad(total, [params["weight"], params["bias"], x]), *params.values()]

    for actual, expected in zip(
        everything(torch.where(valid[..., None], x, torch.tensor(junk, dtype=torch.float64))),
        everything(x),
        strict=True,
    ):
        assert torch.equal(actual, expected)


def test_a_client_that_has_finished_keeps_its_statistics_bit_for_bit_and_gets_zero_gradients() -> None:
    module = stackable(nested())
    params = stacked([randomised(module, k) for k in range(3)])
    before = {name: leaf.detach().clone() for name, leaf in params.items()}
    valid = torch.tensor([[True] * 4, [False] * 4, [True, True, False, False]])
    outputs = run(module.train(), params, normal(3, 4, 1, 4, 4), valid)
    assert outputs.isfinite().all()
    total = torch.where(valid, nonlinear(outputs), 0).sum()
    trains = [name for name, leaf in params.items() if leaf.requires_grad]
    for gradient in torch.autograd.grad(total, [params[n] for n in trains]):
        assert torch.equal(gradient[1], torch.zeros_like(gradient[1]))
        assert gradient.isfinite().all()
    for name in set(params) - set(trains):
        assert torch.equal(params[name][1], before[name][1])
        assert not torch.equal(params[name][[0, 2]], before[name][[0, 2]])


def test_one_value_per_channel_gives_the_bias_and_moves_the_variance_towards_zero() -> None:
    layer = randomised(nn.BatchNorm1d(3, momentum=0.25), 1)
    x, mean, variance = normal(1, 3), layer.running_mean.clone(), layer.running_var.clone()
    ours = stackable(layer)
    close(ours(x), layer.bias[None])
    close(ours.running_mean, 0.75 * mean + 0.25 * x[0])
    close(ours.running_var, 0.75 * variance)


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("given_state", [True, False])
def test_recurrent_layers_are_torchs(kind: str, layers: int, bias: bool, batch_first: bool, given_state: bool) -> None:
    layer = RECURRENT[kind](4, 3, num_layers=layers, bias=bias, batch_first=batch_first).double()
    with torch.no_grad():
        for seed, leaf in enumerate(layer.parameters()):
            leaf.copy_(normal(*leaf.shape, seed=seed))
    ours = stackable(layer)
    assert isinstance(ours, Unrolled)
    rows = 5 if batch_first else 6
    x = normal(5, 6, 4).requires_grad_()
    starts = [normal(layers, rows, 3, seed=seed).requires_grad_() for seed in range(2 if kind == "LSTM" else 1)]
    inputs = (x, tuple(starts) if kind == "LSTM" else starts[0]) if given_state else (x,)
    wanted = [x, *layer.parameters(), *(starts if given_state else ())]

    def results(module: nn.Module) -> list[Tensor]:
        output, state = module(*inputs)
        ends = [state] if isinstance(state, Tensor) else list(state)
        total = (output**2).sum() + sum((i + end.sin() ** 3).sum() for i, end in enumerate(ends))
        return [output, *ends, *torch.autograd.grad(total, wanted)]

    for actual, expected in zip(results(ours), results(layer), strict=True):
        close(actual, expected)


@pytest.mark.parametrize("module", [*(layer for layer, _ in NORMS.values()), nn.LSTM(2, 3, 2), nested(), nested("GRU")])
def test_what_a_stackable_module_saves_loads_into_plain_torch(module: nn.Module) -> None:
    plain, source = copy.deepcopy(module).double(), randomised(module, 3)
    expected = leaves(copy.deepcopy(source))
    plain.load_state_dict(stackable(source).state_dict())
    assert list(leaves(plain)) == list(expected)
    for name, leaf in leaves(plain).items():
        assert torch.equal(leaf, expected[name])


@given(data=st.data(), padding=st.sampled_from([0, 3, -1]), clients=st.integers(1, 3))
def test_stacked_embeddings_keep_the_padding_row_of_every_client(
    data: st.DataObject, padding: int, clients: int
) -> None:
    plain = [nn.Embedding(5, 2, padding_idx=padding).double() for _ in range(clients)]
    ours = stackable(copy.deepcopy(plain[0]))
    assert isinstance(ours, nn.Embedding)
    assert ours.padding_idx == plain[0].padding_idx
    x = torch.tensor(data.draw(st.lists(st.integers(0, 4), min_size=6 * clients, max_size=6 * clients)))
    params = stacked([randomised(layer, k) for k, layer in enumerate(plain)])
    x = x.view(clients, 3, 2)
    outputs = run(ours, params, x, torch.ones(clients, 3, dtype=torch.bool))
    (gradients,) = torch.autograd.grad(nonlinear(outputs).sum(), [params["weight"]])
    for k, layer in enumerate(plain):
        with torch.no_grad():
            layer.weight.copy_(params["weight"][k])
        expected = layer(x[k])
        assert torch.equal(outputs[k], expected)
        close(gradients[k], torch.autograd.grad(nonlinear(expected[None]).sum(), [layer.weight])[0])


def test_stackable_replaces_a_shared_layer_once_and_changes_nothing_twice() -> None:
    norm = nn.BatchNorm1d(2)
    module = nn.Sequential(nn.Sequential(norm, nn.LSTM(2, 2)), norm).eval()
    weight = norm.weight
    assert stackable(module) is module
    assert module[0][0] is module[1]
    assert module[1].weight is weight
    assert not module[1].training
    assert norm_layers(module) == ["0.0"]
    assert norm_layers(module[1]) == [""]
    parts = list(module.modules())
    assert list(stackable(module).modules()) == parts


class OwnNorm(nn.BatchNorm2d):
    pass


class OwnGRU(nn.GRU):
    pass


class OwnDropout(nn.Dropout):
    pass


def with_hook(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda *_: None)
    return layer


@pytest.mark.parametrize(
    ("layer", "remedy"),
    [
        (nn.LSTMCell(2, 2), "nn.LSTM"),
        (nn.LSTM(2, 2, bidirectional=True), "bidirectional=False"),
        (nn.GRU(2, 2, bidirectional=True), "bidirectional=False"),
        (nn.RNN(2, 2, bidirectional=True), "bidirectional=False"),
        (nn.LSTM(2, 2, proj_size=1), "proj_size=0"),
        (OwnGRU(2, 2), "nn.GRU or nn.RNN itself"),
        (nn.Embedding(4, 2, max_norm=1.0), "max_norm=None"),
        (nn.Embedding(4, 2, scale_grad_by_freq=True), "scale_grad_by_freq=False"),
        (nn.Embedding(4, 2, sparse=True), "sparse=False"),
        (nn.EmbeddingBag(4, 2, max_norm=1.0), "max_norm=None"),
        (nn.LazyLinear(2), "give its number of inputs, as Linear"),
        (nn.LazyConv2d(2, 3), "give its number of inputs, as Conv2d"),
        (OwnDropout(0.5), r"nn\.Dropout itself, or set p=0 \(it is 0\.5\)"),
        (nn.MultiheadAttention(4, 2, dropout=0.1), "dropout=0"),
        (nn.SyncBatchNorm(2), "nn.BatchNorm"),
        (nn.BatchNorm2d(2, momentum=None), "momentum"),
        (nn.LazyBatchNorm2d(), "nn.BatchNorm"),
        (OwnNorm(2), "itself"),
        (nn.InstanceNorm2d(2, track_running_stats=True), "track_running_stats=False"),
        (with_hook(nn.BatchNorm2d(2)), "take its hooks or its own forward away"),
        (with_hook(nn.LSTM(2, 2)), "take its hooks or its own forward away"),
    ],
)
def test_a_layer_without_stacked_form_is_named_with_the_remedy(layer: nn.Module, remedy: str) -> None:
    norm = nn.BatchNorm1d(2)
    module = nn.Sequential(norm, nn.ModuleDict({"inner": layer}))
    with pytest.raises(ValueError, match=rf"layer '1\.inner' .*{remedy}"):
        stackable(module)
    assert module[0] is norm
    with pytest.raises(ValueError, match=rf"the module itself .*{remedy}"):
        stackable(layer)


def test_inputs_and_masks_of_a_wrong_shape_are_refused() -> None:
    norm = stackable(nn.BatchNorm2d(1))
    for x in (torch.ones(2, 3, 4, 4), torch.ones(2, 1, 4)):
        with pytest.raises(ValueError, match="x has shape"):
            norm(x)
    with pytest.raises(ValueError, match="valid has shape"):
        functional_call(norm, {"valid": torch.tensor([True])}, (torch.ones(2, 1, 4, 4),))
    for kind in RECURRENT.values():
        layer = stackable(kind(2, 2))
        with pytest.raises(ValueError, match="3 axes"):
            layer(torch.ones(3, 2))
        with pytest.raises(ValueError, match="type PackedSequence"):
            layer(nn.utils.rnn.pack_sequence([torch.ones(3, 2)]))

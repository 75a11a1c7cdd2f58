"""Convolutions as products of matrices are torch's, alone, stacked and in a run."""

import numpy as np
import pytest
import torch
from torch import nn

import fedstat as fs
from fedstat.federated import build
from fedstat.federated.client import convolution
from fedstat.federated.client.convolution import PIXELS, ProductConv2d, multiplied
from fedstat.federated.fingerprint import of_network
from tests.support.clients import image_clients
from tests.support.networks import conv_net
from tests.support.runs import TRAINING


@pytest.fixture
def every_layer(monkeypatch):
    """Leave no convolution to torch."""
    monkeypatch.setattr("fedstat.federated.client.convolution.PIXELS", 10**6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("stride", [1, 2, (2, 3)])
@pytest.mark.parametrize(("kernel", "padding"), [(1, 0), (3, 1), ((7, 5), (3, 2)), (2, 0)])
def test_values_and_gradients_are_torchs(every_layer, kernel, padding, stride, bias):
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 5, kernel, stride, padding, bias=bias).double() for _ in range(3)]
    x = torch.randn(3, 4, 3, 8, 7, dtype=torch.float64, requires_grad=True)
    expected = torch.stack([layer(own) for layer, own in zip(layers, x, strict=True)])
    slopes = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (x, *(leaf for one in layers for leaf in one.parameters())), slopes)
    for layer in layers:
        multiplied(layer)
        assert type(layer) is ProductConv2d
    params, _ = torch.func.stack_module_state(layers)
    flat = torch.vmap(lambda p, own: torch.func.functional_call(layers[0], p, (own,)).view(len(own), -1))(params, x)
    found = flat.view_as(expected)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    got = torch.autograd.grad(found, (x, *params.values()), slopes)
    torch.testing.assert_close(got[0], wanted[0], rtol=0, atol=1e-12)
    for i, gradient in enumerate(got[1:]):
        each = torch.stack(wanted[1 + i :: len(params)])
        torch.testing.assert_close(gradient, each, rtol=0, atol=1e-12)


def test_one_sample_and_none_are_taken(every_layer):
    plain, layer = nn.Conv2d(3, 5, 3, 2), nn.Conv2d(3, 5, 3, 2)
    layer.load_state_dict(plain.state_dict())
    multiplied(layer)
    for x in (torch.randn(3, 8, 8), torch.zeros(0, 3, 8, 8)):
        torch.testing.assert_close(layer(x), plain(x))


def test_a_run_comes_to_the_same(every_layer, monkeypatch):
    patches, pad = [], convolution.F.pad
    monkeypatch.setattr(convolution.F, "pad", lambda x, sides: patches.append(x.shape) or pad(x, sides))

    def products():
        module = conv_net()
        multiplied(module)
        return module

    plain, found = (
        fs.federate({"it": fs.FedAvg()}, model, image_clients(), TRAINING, rounds=2, executor="stacked",
                    dtype="float64", progress=False)
        for model in (conv_net, products)
    )  # fmt: skip
    np.testing.assert_allclose(found.history["value"], plain.history["value"], rtol=0, atol=1e-10)
    assert patches, "the convolutions of a stack are products"


def test_a_run_goes_on_where_convolutions_are_computed_otherwise():
    network = build(conv_net, np.random.default_rng(0))
    before = of_network(network)
    multiplied(network.module)
    assert any(type(layer) is ProductConv2d for layer in network.module.modules())
    assert of_network(network) == before


def test_large_images_and_layers_of_another_kind_stay_torchs(monkeypatch):
    layers = nn.ModuleList([
        nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, dilation=2), nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
    ])  # fmt: skip
    multiplied(layers)
    assert {type(layer) for layer in layers} == {nn.Conv2d}
    asked = []
    monkeypatch.setattr(nn.Conv2d, "forward", lambda layer, x: asked.append(x.shape))
    layer = nn.Conv2d(1, 1, 3, padding=1)
    multiplied(layer)
    side = int(PIXELS**0.5)
    layer(torch.zeros(1, 1, side, side))
    layer(torch.zeros(1, 1, side - 1, side))
    assert asked == [(1, 1, side, side)]

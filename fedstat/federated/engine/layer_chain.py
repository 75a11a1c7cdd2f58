"""Gradients in closed form, for one client by itself whose network is a plain chain of layers.

Autograd records every operation, under calls of the module that put weights into it and take them out. For a chain of
convolutions, pooling, ReLU, tanh and dense layers the chain rule is a loop: each layer returns its outputs, and a
function that maps the gradient by them to those by its inputs and weights. The loop goes no deeper than the lowest leaf
that trains.

The operations are those that autograd would call, with two exceptions. Maxima are taken before ReLU, which then has a
fourth of the numbers: both are monotone, so that values are the same, and so are gradients, as none passes a maximum
that is not positive in either order. And dense layers in float32 are multiplied by oneDNN, which convolutions use too,
because MKL knows only half of what some processors can do. What comes out agrees with autograd to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstat.federated.client.layers import hooked, layers_of
from fedstat.federated.client.local import Batch, Learner
from fedstat.federated.client.losses import cross_entropy
from fedstat.federated.client.network import Network, Params
from fedstat.models.channel_axis import ChannelAxis

#: Which gradients are wanted: by inputs, by weight, by bias.
Wanted = tuple[bool, bool, bool]
#: Gradients by inputs, weight and bias; None in place of what is not wanted.
Slopes = tuple[Tensor | None, Tensor | None, Tensor | None]
#: A layer's outputs, and its way back from the gradient by them.
Pass = tuple[Tensor, Callable[[Tensor, Wanted], Slopes]]

_ATEN, _MKLDNN = torch.ops.aten, torch.ops.mkldnn
#: Whether this build of torch multiplies by oneDNN; the operation is torch's own, under a private name.
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(_MKLDNN, "_linear_pointwise")


@dataclass(frozen=True)
class Link:
    """A layer of a chain, and the names of its leaves, whether it has such leaves or not."""

    layer: nn.Module
    weight: str
    bias: str


@dataclass(frozen=True)
class Chain:
    """Layers of which each takes what the one before returns, in the order of the forward pass."""

    links: tuple[Link, ...]

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The leaves of all layers."""
        return tuple(
            f"{link.weight.rpartition('.')[0]}.{leaf}".removeprefix(".")
            for link in self.links
            for leaf, _ in link.layer.named_parameters()
        )

    @torch.no_grad()
    def gradients(
        self, learner: Learner, params: Params, names: Collection[str], batch: Batch
    ) -> tuple[Tensor, Params]:
        """Return whether the loss of one client's batch is finite, and its gradients by the leaves `names`."""
        wanted = [(link.weight in names, link.bias in names) for link in self.links]
        lowest = next((i for i, pair in enumerate(wanted) if any(pair)), len(wanted))
        values, backs = batch.x, []
        for link in self.links:
            weight, bias = (params.get(leaf) for leaf in (link.weight, link.bias))
            values, back = _RULES[type(link.layer)](link.layer, values, weight, bias)
            backs.append(back)
        loss, slope = _slope(learner, values, batch)
        found = dict[str, Any]()
        for i in reversed(range(lowest, len(backs))):
            below, *own = backs.pop()(slope, (i > lowest, *wanted[i]))  # popped, so that its tensors are freed
            found |= zip((self.links[i].weight, self.links[i].bias), own, strict=True)
            slope = slope if below is None else below
        return loss.isfinite(), {name: found[name] for name in names}


def chain_of(network: Network) -> Chain | None:
    """Return the network as a chain, or None if it is none, or has layers for which there is no rule."""
    if network.forms or network.tied or network.mixed:
        return None
    layers = layers_of(network.module)
    leaves = {f"{name}.{leaf}".removeprefix(".") for name, layer in layers for leaf, _ in layer.named_parameters()}
    if not all(_has_rule(layer) for _, layer in layers) or leaves != network.weights.keys():  # some frozen, or twice
        return None
    for i in range(len(layers) - 1):
        if type(layers[i][1]) is nn.ReLU and type(layers[i + 1][1]) is nn.MaxPool2d:
            layers[i], layers[i + 1] = layers[i + 1], layers[i]
    return Chain(
        tuple(
            Link(layer, *(f"{name}.{leaf}".removeprefix(".") for leaf in ("weight", "bias"))) for name, layer in layers
        )
    )


def _has_rule(layer: nn.Module) -> bool:
    """Tell whether a layer's way back is known, its settings included."""
    if type(layer) not in _RULES or hooked(layer):
        return False
    match layer:
        case nn.Conv2d():
            return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        case nn.MaxPool2d():
            return not layer.return_indices
    return True


def _slope(learner: Learner, outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the mean loss of a batch and its gradient by the outputs."""
    if learner.losses is cross_entropy and batch.full:
        logs, places = outputs.log_softmax(-1), batch.y[..., None]
        losses = logs.gather(-1, places).neg_()
        shares = logs.exp_().scatter_add_(-1, places, losses.new_full(losses.shape, -1))
        return losses.mean(), shares.div_(len(shares))
    with torch.enable_grad():
        outputs = outputs.detach().requires_grad_()
        loss = batch.mean(learner.losses(outputs, batch.y))
    return loss.detach(), torch.autograd.grad(loss, outputs)[0]


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x weight' + bias`` of `x` (n, f) and `weight` (m, f), shape (n, m)."""
    if _ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu":
        return _MKLDNN._linear_pointwise.default(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def _convolution(layer: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor | None) -> Pass:
    stride, dilation, groups, sizes = layer.stride, layer.dilation, layer.groups, None if bias is None else [len(bias)]
    padding: Any = layer.padding  # never a word, see `_has_rule`

    def back(g: Tensor, wanted: Wanted) -> Slopes:
        settings = (stride, padding, dilation, False, [0, 0], groups)
        return _ATEN.convolution_backward.default(g, x, weight, sizes, *settings, wanted)

    return F.conv2d(x, weight, bias, stride, padding, dilation, groups), back


def _dense(layer: nn.Linear, x: Tensor, weight: Tensor, bias: Tensor | None) -> Pass:
    def back(g: Tensor, wanted: Wanted) -> Slopes:
        rows = g.flatten(0, -2)
        return (
            _product(g, weight.T) if wanted[0] else None,
            _product(rows.T, x.flatten(0, -2).T) if wanted[1] else None,
            rows.sum(0) if wanted[2] else None,
        )

    return _product(x, weight, bias), back


def _relu(layer: nn.ReLU, x: Tensor, *_: object) -> Pass:
    y = x.relu()
    return y, lambda g, _: (_ATEN.threshold_backward.default(g, y, 0), None, None)


def _tanh(layer: nn.Tanh, x: Tensor, *_: object) -> Pass:
    y = x.tanh()
    return y, lambda g, _: (_ATEN.tanh_backward.default(g, y), None, None)


def _maximum(layer: nn.MaxPool2d, x: Tensor, *_: object) -> Pass:
    values = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    window = [[v, v] if isinstance(v, int) else list(v) for v in values]
    y, places = _ATEN.max_pool2d_with_indices.default(x, *window, layer.ceil_mode)

    def back(g: Tensor, _: Wanted) -> Slopes:
        return _ATEN.max_pool2d_with_indices_backward.default(g, x, *window, layer.ceil_mode, places), None, None

    return y, back


def _shape(layer: nn.Module, x: Tensor, *_: object) -> Pass:
    return layer(x), lambda g, _: (g.reshape(x.shape), None, None)


#: The rule of a layer, by its class: from the layer, its inputs and its weights to its outputs and its way back.
_RULES: dict[type[nn.Module], Callable[..., Pass]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _dense,
    nn.ReLU: _relu,
    nn.Tanh: _tanh,
    nn.MaxPool2d: _maximum,
    nn.Flatten: _shape,
    nn.Unflatten: _shape,
    nn.Identity: _shape,
    ChannelAxis: _shape,
}

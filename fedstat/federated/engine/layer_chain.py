"""Gradients in closed form, for one client by itself whose network is a plain chain of layers.

Autograd records every operation, under calls of the module that put weights into it and take them out. For a chain of
convolutions, batch norm, pooling, ReLU, tanh and dense layers the chain rule is a loop: each layer returns its outputs,
and a function that maps the gradient by them to those by its inputs and weights. The loop goes no deeper than the
lowest leaf that trains.

The operations are those that autograd would call, with three exceptions. Maxima are taken before ReLU, which then has a
fourth of the numbers: both are monotone, so that values are the same, and so are gradients, as none passes a maximum
that is not positive in either order. For the same reason they are taken before batch norm scales, as long as all its
scales are positive; its moments are those of all pixels. And dense layers in float32 are multiplied by oneDNN, which
convolutions use too, because MKL knows only half of what some processors can do. What comes out agrees with autograd
to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstat.federated.client.layers import MaskedBatchNorm, norm_layers
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
    """A layer of a chain, its name in the network, and maxima after a batch norm."""

    layer: nn.Module
    name: str
    pool: nn.MaxPool2d | None = None

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The names of weight, bias, running mean and variance, whether the layer has such leaves or not."""
        return tuple(_leaf(self.name, last) for last in ("weight", "bias", "running_mean", "running_var"))

    def forward(self, x: Tensor, params: Params) -> Pass:
        """Return the outputs on inputs `x`, and the way back; batch norm moves its statistics in `params`."""
        weight, bias, *running = map(params.get, self.leaves)
        if isinstance(self.layer, MaskedBatchNorm):
            return _norm(self.layer, self.pool, x, weight, bias, *running)
        return _RULES[type(self.layer)](self.layer, x, weight, bias)


@dataclass(frozen=True)
class Chain:
    """Layers of which each takes what the one before returns, in the order of the forward pass."""

    links: tuple[Link, ...]

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The leaves of all layers."""
        return tuple(_leaf(link.name, last) for link in self.links for last, _ in link.layer.named_parameters())

    @torch.no_grad()
    def gradients(
        self, learner: Learner, params: Params, names: Collection[str], batch: Batch
    ) -> tuple[Tensor, Params]:
        """Return whether the loss of one client's batch is finite, and its gradients by the leaves `names`."""
        if not (batch.full and len(batch.y) > 1) and norm_layers(learner.network.module):
            return _by_autograd(learner, params, names, batch)
        wanted = [(weight in names, bias in names) for weight, bias, *_ in (link.leaves for link in self.links)]
        lowest = next((i for i, pair in enumerate(wanted) if any(pair)), len(wanted))
        values, backs = batch.x, []
        for link in self.links:
            values, back = link.forward(values, params)
            backs.append(back)
        loss, slope = _slope(learner, values, batch)
        found = dict[str, Any]()
        for i in reversed(range(lowest, len(backs))):
            below, *own = backs.pop()(slope, (i > lowest, *wanted[i]))  # popped, so that its tensors are freed
            found |= zip(self.links[i].leaves[:2], own, strict=True)
            slope = slope if below is None else below
        return loss.isfinite(), {name: found[name] for name in names}


def chain_of(network: Network) -> Chain | None:
    """Return the network as a chain, or None if it is none, or has layers for which there is no rule."""
    layers = network.layers_in_chain(_has_rule)
    if layers is None:
        return None
    for i in range(len(layers) - 1):
        if type(layers[i][1]) is nn.ReLU and type(layers[i + 1][1]) is nn.MaxPool2d:
            layers[i], layers[i + 1] = layers[i + 1], layers[i]
    links = list[Link]()
    for name, layer in layers:
        if isinstance(layer, nn.MaxPool2d) and links and _normed_images(links[-1]):
            links[-1] = replace(links[-1], pool=layer)
        else:
            links.append(Link(layer, name))
    return Chain(tuple(links))


def _normed_images(link: Link) -> bool:
    """Tell whether a layer is a batch norm of images, without maxima as yet."""
    return isinstance(link.layer, MaskedBatchNorm) and link.layer.ranks == (4,) and link.pool is None


def _leaf(owner: str, last: str) -> str:
    """Return the name of a layer's leaf in the network."""
    return f"{owner}.{last}".removeprefix(".")


def _has_rule(layer: nn.Module) -> bool:
    """Tell whether a layer's way back is known, its settings included."""
    if type(layer) not in (*_RULES, MaskedBatchNorm):
        return False
    match layer:
        case nn.Conv2d():
            return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        case nn.MaxPool2d():
            return not layer.return_indices
    return True


def _by_autograd(learner: Learner, params: Params, names: Collection[str], batch: Batch) -> tuple[Tensor, Params]:
    """Return the same as `Chain.gradients`, where batch norm must not count padding, or has a single sample."""
    with torch.enable_grad():
        leaves = {name: params[name].detach().requires_grad_() for name in names}
        loss = learner.loss(params | leaves, batch)
    found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return loss.detach().isfinite(), dict(zip(leaves, found, strict=True))


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


def _norm(
    layer: MaskedBatchNorm,
    pool: nn.MaxPool2d | None,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *running: Tensor | None,  # mean and variance
) -> Pass:
    """Normalise by the batch's own moments, move the running statistics, and take maxima, if any."""
    if pool is not None and weight is not None and bias is not None and (weight > 0).all():
        return _norm_of_maxima(layer, pool, x, weight, bias, *running)
    y, mean, scale = _ATEN.native_batch_norm.default(x, weight, bias, *running, True, layer.momentum, layer.eps)

    def back(g: Tensor, wanted: Wanted) -> Slopes:
        moments = (mean, scale, True, layer.eps)
        return _ATEN.native_batch_norm_backward.default(g, x, weight, *running, *moments, wanted)

    if pool is None:
        return y, back
    z, above = _maximum(pool, y)
    return z, lambda g, wanted: back(cast(Tensor, above(g, wanted)[0]), wanted)


def _norm_of_maxima(
    layer: MaskedBatchNorm, pool: nn.MaxPool2d, x: Tensor, weight: Tensor, bias: Tensor, *running: Tensor | None
) -> Pass:
    """Normalise maxima: with positive weights they are the maxima of what is normalised, in a fraction of the work."""
    mean, variance = _ATEN.batch_norm_update_stats.default(x, *running, layer.momentum)
    scale, count = (variance + layer.eps).rsqrt_(), x.numel() // len(mean)
    tops, way = _maximum(pool, x)
    normed = tops.sub_(_channels(mean)).mul_(_channels(scale))

    def back(g: Tensor, wanted: Wanted) -> Slopes:
        by_weight, by_bias, below = (g * normed).sum((0, 2, 3)), g.sum((0, 2, 3)), None
        if wanted[0]:
            factor = weight * scale
            slope = factor * scale * by_weight / -count
            below = cast(Tensor, way(g * _channels(factor), wanted)[0])
            below.addcmul_(x, _channels(slope)).sub_(_channels(factor * by_bias / count + slope * mean))
        return below, by_weight, by_bias

    return torch.addcmul(_channels(bias), normed, _channels(weight)), back


def _channels(values: Tensor) -> Tensor:
    """Shape one value for each channel, (C,), so that it broadcasts against images."""
    return values[:, None, None]


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
    ChannelAxis: _shape,
}

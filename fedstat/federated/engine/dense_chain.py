"""Networks that are chains of dense layers, whose gradients have a closed form.

Forward and backward pass of a chain of ``nn.Linear``, ``nn.ReLU`` and ``nn.Tanh`` under one of the usual losses are a
few batched products, which need neither ``torch.vmap`` nor a record of operations. The engine computes them so where
it may; any other network, and every method with an objective of its own, takes the general path. The two agree to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstat.federated.client.local import Batch, Learner
from fedstat.federated.client.losses import Loss, cross_entropy, logistic, squared
from fedstat.federated.client.network import Network, Params

#: Writes the slopes of a loss to a place, from outputs and targets.
Slope = Callable[[Tensor, Tensor, Tensor], Tensor]
#: Takes the number of a layer, its inputs (c, B, inputs), and the slopes at its outputs (c, B, outputs).
Use = Callable[[int, Tensor, Tensor], None]


@dataclass(frozen=True)
class Layer:
    """A dense layer, with leaves (outputs, inputs) and (outputs,), and the class of the activation after it, if any."""

    weight: str
    bias: str | None
    outputs: int
    activation: type[nn.Module] | None = None

    @property
    def leaves(self) -> tuple[str, ...]:
        """The leaves that the layer has."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)


@dataclass(frozen=True)
class Chain:
    """Dense layers one after the other, from the inputs on; `flatten` tells that inputs may have several axes."""

    layers: tuple[Layer, ...]
    flatten: bool

    @property
    def leaves(self) -> tuple[str, ...]:
        """The leaves of all layers."""
        return tuple(leaf for layer in self.layers for leaf in layer.leaves)

    def renamed(self, name: Callable[[str], str]) -> Chain:
        """Return the chain with leaves of other names."""
        layers = (replace(one, weight=name(one.weight), bias=one.bias and name(one.bias)) for one in self.layers)
        return replace(self, layers=tuple(layers))

    def takes(self, x: Tensor) -> bool:
        """Tell whether stored inputs (N, ...) are such that every sample is one row to the first layer."""
        return self.flatten or x.dim() == 2

    def lowest(self, train: Collection[str]) -> int:
        """Return the number of the first layer of which a leaf is in `train`."""
        return next(i for i, layer in enumerate(self.layers) if {*layer.leaves} & {*train})

    def forward(self, weights: Sequence[Weights], x: Tensor, places: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the inputs (c, B, inputs) and what layers make, (c, B, outputs), in `places` where there is one."""
        made = [x]
        for layer, (weight, turned, bias), place in zip(self.layers, weights, places, strict=True):
            if layer.outputs == 1:  # the other way round, where torch.bmm is three times as fast
                h = _product(weight, made[-1].mT, bias, None if place is None else place.mT).mT
            else:
                h = _product(made[-1], turned, bias, place)
            made.append(h.relu_() if layer.activation is nn.ReLU else h.tanh_() if layer.activation is nn.Tanh else h)
        return made

    def gradients(
        self, learner: Learner, params: Params, names: Collection[str], batch: Batch
    ) -> tuple[Tensor, Params]:
        """Return whose loss is finite, (c,), and the gradients of each client's loss by the leaves `names`, (c, ...).

        Leaves and the batch are those of a stack of c clients.
        """
        weights, x = [stacked(layer, params) for layer in self.layers], batch.x.flatten(2)
        made = self.forward(weights, x, [None] * len(weights))
        losses = learner.losses(made[-1], batch.y)
        share = batch.valid / batch.valid.sum(1, keepdim=True, dtype=x.dtype).clamp(min=1)
        prepare, slope = SLOPES[learner.losses]
        delta = slope(made[-1], prepare(made[-1], batch.y), torch.empty_like(made[-1]))
        delta = torch.where(batch.valid[..., None], delta, 0).mul_(share[..., None])
        found = dict[str, Tensor]()
        self.backward(weights, made, delta, self.lowest(names), [None] * len(weights), self.collect(names, found, {}))
        finite = torch.where(batch.valid, losses, 0).sum(1).isfinite()
        return finite, {name: found[name] for name in names}

    def backward(
        self,
        weights: Sequence[Weights],
        made: Sequence[Tensor],
        delta: Tensor,
        lowest: int,
        places: Sequence[Tensor | None],
        use: Use,
    ) -> None:
        """Go back from the slopes `delta` (c, B, Q) at the outputs to the layer number `lowest`.

        ``use(i, inputs, delta)`` is told layer i's inputs, which `made` holds from the first on, and the slopes at its
        outputs, for which there may be `places`; it may then change the layer's weights.
        """
        for i in reversed(range(lowest, len(self.layers))):
            below = delta if i == lowest else passed(self.layers[i - 1], made[i], delta, weights[i], places[i - 1])
            use(i, made[i], delta)
            delta = below

    def collect(self, names: Collection[str], found: Params, places: Params) -> Use:
        """Return what puts the gradients of the leaves `names` into `found`, and writes them to `places`, if any."""

        def use(i: int, inputs: Tensor, delta: Tensor) -> None:
            weight, bias = self.layers[i].weight, self.layers[i].bias
            if weight in names:
                found[weight] = torch.bmm(delta.mT, inputs, out=places.get(weight))
            if bias is not None and bias in names:
                found[bias] = torch.sum(delta, 1, out=places.get(bias))

        return use


class Weights(NamedTuple):
    """A stack's leaves of a layer, in the shapes of batched products.

    The weights (c, outputs, inputs), the same memory turned (c, inputs, outputs), and the biases (c, 1, outputs).
    """

    weight: Tensor
    turned: Tensor
    bias: Tensor | None


def stacked(layer: Layer, params: Params) -> Weights:
    """Return a layer's leaves for batched products, in the memory of `params` (c, ...)."""
    weight = params[layer.weight].detach()
    return Weights(weight, weight.mT, None if layer.bias is None else params[layer.bias].detach().unsqueeze(1))


def _product(one: Tensor, two: Tensor, bias: Tensor | None, place: Tensor | None) -> Tensor:
    return torch.bmm(one, two, out=place) if bias is None else torch.baddbmm(bias, one, two, out=place)


def passed(below: Layer, h: Tensor, delta: Tensor, weights: Weights, place: Tensor | None) -> Tensor:
    """Return the slopes (c, B, f) at what the layer `below` added up, whose activation made `h` (c, B, f) of it.

    They come from the slopes `delta` (c, B, o) behind the next layer, through its `weights`.
    """
    # one output: a product of a column and a row, in which torch.bmm is several times slower
    slopes = (torch.mul if delta.shape[-1] == 1 else torch.bmm)(delta, weights.weight, out=place)
    if below.activation is nn.ReLU:
        return torch.ops.aten.threshold_backward.grad_input(slopes, h, 0, grad_input=slopes)
    if below.activation is nn.Tanh:
        return torch.ops.aten.tanh_backward.grad_input(slopes, h, grad_input=slopes)
    return slopes


def _column(outputs: Tensor, y: Tensor) -> Tensor:
    return y.to(outputs.dtype).unsqueeze(-1)


#: How the slopes of a loss by the outputs (..., B, Q) come about: a function that brings targets (..., B) into their
#: shape, and one that writes the slopes to a place.
SLOPES: dict[Loss, tuple[Callable[[Tensor, Tensor], Tensor], Slope]] = {
    cross_entropy: (
        lambda h, y: F.one_hot(y, h.shape[-1]).to(h.dtype),
        lambda h, targets, place: torch.ops.aten._softmax.out(h, -1, False, out=place).sub_(targets),
    ),
    logistic: (_column, lambda h, targets, place: torch.sigmoid(h, out=place).sub_(targets)),
    squared: (_column, lambda h, targets, place: torch.sub(h, targets, out=place)),
}


def chain_of(network: Network) -> Chain | None:
    """Return a network as a chain of dense layers; None if it is anything else."""
    layers = network.layers_in_chain(_has_closed_form)
    if not layers or not layers[0][0]:  # none, or the module itself
        return None
    flatten = type(layers[0][1]) is nn.Flatten
    found: list[Layer] = []
    for (_, before), (name, layer) in pairwise([("", None), *layers[flatten:]]):
        if isinstance(layer, nn.Linear):
            found.append(Layer(f"{name}.weight", None if layer.bias is None else f"{name}.bias", layer.out_features))
        elif not isinstance(before, nn.Linear):  # activations stand behind dense layers
            return None
        elif isinstance(layer, nn.ReLU | nn.Tanh):
            found[-1] = replace(found[-1], activation=type(layer))
    return Chain(tuple(found), flatten) if isinstance(layers[-1][1], nn.Linear) else None


def _has_closed_form(layer: nn.Module) -> bool:
    flattens = type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)
    return type(layer) in (nn.Linear, nn.ReLU, nn.Tanh) or flattens

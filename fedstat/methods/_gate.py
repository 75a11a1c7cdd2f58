"""The parts of PFedGate, as pure functions of one client: a network's blocks, and the gate that scores them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedstat.federated.client.network import Network, Params

#: The leaves of a gate that gradients move.
TRAINED = (
    *(f"input.{leaf}" for leaf in ("weight", "bias", "mean_weight", "var_weight")),
    *(f"{layer}.{leaf}" for layer in ("linear", "norm") for leaf in ("weight", "bias")),
)
_EPS = 1e-5

Ranking = Literal["score/size", "score"]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Consecutive blocks of equal length into which every weight tensor is cut, the last one shorter if need be.

    `shapes` are those of the leaves that are cut, in order, into at most `parts` blocks each. Blocks of the leaves of
    `dense` layers are chosen among themselves.
    """

    shapes: Mapping[str, torch.Size]
    dense: frozenset[str]
    parts: int

    @cached_property
    def sizes(self) -> dict[str, list[int]]:
        """Numbers of elements of each block, leaf by leaf."""
        lengths = {name: (shape.numel(), -(-shape.numel() // self.parts)) for name, shape in self.shapes.items()}
        return {name: [min(size, n - i) for i in range(0, n, size)] for name, (n, size) in lengths.items()}

    @property
    def count(self) -> int:
        """Number of blocks."""
        return sum(map(len, self.sizes.values()))

    def spread(self, values: Tensor) -> Params:
        """Give every element of every leaf the value of its block, (blocks,)."""
        sizes = self.sizes
        pieces = values.split([len(blocks) for blocks in sizes.values()])
        return {
            name: piece.repeat_interleave(blocks[0])[: sum(blocks)].view(self.shapes[name])
            for piece, (name, blocks) in zip(pieces, sizes.items(), strict=True)
        }

    def least(self, density: float) -> float:
        """Return the share of the elements that the first blocks count as; it is also the lower bound of scores."""
        return min(max(1 / self.parts, 0.1), density)

    def choose(self, scores: Tensor, density: float, ranking: Ranking = "score/size") -> Tensor:
        """Return which blocks are kept, (blocks,): the first of each leaf, and others in the order of the ranking.

        Dense layers and all others fill capacities of their own, ``density - least`` of the elements outside first
        blocks, rounded, as `PFedGate` says of `ranking`. A score below `least` counts as it; of ties the first wins.
        """
        scores, sizes = scores.double().clamp(min=self.least(density)), self.sizes
        size = np.array([n for blocks in sizes.values() for n in blocks], float)
        first = np.concatenate([np.arange(len(blocks)) == 0 for blocks in sizes.values()])
        dense = np.repeat([name in self.dense for name in sizes], [len(blocks) for blocks in sizes.values()])
        kept = torch.from_numpy(first | (density == 1)).to(scores.device)
        for group in (dense & ~first, ~dense & ~first):
            capacity = round((density - self.least(density)) * size[group].sum())
            place, weight = (torch.from_numpy(v).to(scores.device) for v in (group, np.where(group, size, np.inf)))
            value = scores / weight if ranking == "score/size" else scores
            order = torch.where(place, value, -1).argsort(descending=True, stable=True)
            fits = weight[order].cumsum(0) <= capacity if ranking == "score/size" else _fitting(weight[order], capacity)
            kept = kept | torch.zeros_like(fits).scatter(0, order, fits)
        return kept


@lru_cache(maxsize=8)
def blocks_of(network: Network, parts: int) -> Blocks:
    """Cut the leaves that train; the outcome is remembered for the next steps of the same network."""
    weights, pieces = network.weights, network.parts
    shapes = {n: pieces[n].shape if n in pieces else weights[n] for n in network.trainable}
    layers = [name for name, layer in network.module.named_modules() if isinstance(layer, nn.Linear)]
    inside = tuple(f"{layer}." if layer else "" for layer in layers)
    return Blocks(shapes, frozenset(name for name in shapes if name.startswith(inside)), parts)


def _fitting(sizes: Tensor, capacity: float) -> Tensor:
    """Tell which blocks, taken in turn, find room beside those taken before."""
    fits, used = [], torch.zeros_like(sizes[0])
    for size in sizes.unbind():
        fits.append(used + size <= capacity)
        used = used + torch.where(fits[-1], size, 0)
    return torch.stack(fits)


def gate_leaves(shape: tuple[int, ...], blocks: int, rng: np.random.Generator) -> Params:
    """Return the start of a gate for samples of `shape`, with places for its norms' moments and its mean scores.

    The dense layer is drawn as torch draws one; the norms start as identities with equal mixtures.
    """
    channels, inputs = (1 if len(shape) == 2 else shape[0]), math.prod(shape)
    bound = 1 / math.sqrt(inputs)
    return {
        "input.weight": torch.ones(channels),
        "input.bias": torch.zeros(channels),
        "input.mean_weight": torch.ones(2 if len(shape) == 1 else 3),
        "input.var_weight": torch.ones(2 if len(shape) == 1 else 3),
        "linear.weight": torch.from_numpy(rng.uniform(-bound, bound, (blocks, inputs))),
        "linear.bias": torch.from_numpy(rng.uniform(-bound, bound, blocks)),
        "norm.weight": torch.ones(blocks),
        "norm.bias": torch.zeros(blocks),
        "input.mean": torch.zeros(channels),
        "input.var": torch.ones(channels),
        "norm.mean": torch.zeros(blocks),
        "norm.var": torch.ones(blocks),
        "scores": torch.full((blocks,), 0.5),
    }


def score(gate: Params, x: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Params]:
    """Score all blocks for every sample, by a switchable norm, a dense layer, a batch norm and a sigmoid.

    The norms use the moments of the samples that are `valid`, (samples,), or without it those in `gate`. Return scores
    in (0, 1), (samples, blocks), and the means and (biased) variances that the norms used. Equation 3 of Luo et al.
    (2019), Differentiable Learning-to-Normalize via Switchable Normalization.
    """
    x = x.reshape(len(x), len(gate["input.weight"]), -1)
    mean, var = x.mean(-1), x.var(-1, correction=0)
    layer = mean.mean(1, keepdim=True)
    layer_var = (var + (mean - layer).square()).mean(1, keepdim=True)
    batch, batch_var = _batch_moments(gate, "input", mean, var, valid)
    # a single value per channel is its own mean, so that features are not normalised by themselves
    means = [layer.expand_as(mean), batch.expand_as(mean), mean][: len(gate["input.mean_weight"])]
    variances = [layer_var.expand_as(var), batch_var.expand_as(var), var][: len(means)]
    centre = torch.tensordot(gate["input.mean_weight"].softmax(0), torch.stack(means), 1)
    spread = torch.tensordot(gate["input.var_weight"].softmax(0), torch.stack(variances), 1)
    scale = gate["input.weight"] * torch.rsqrt(spread + _EPS)
    normed = (x - centre[..., None]) * scale[..., None] + gate["input.bias"][:, None]
    z = nn.functional.linear(normed.flatten(1), gate["linear.weight"], gate["linear.bias"])
    mean, var = _batch_moments(gate, "norm", z, torch.zeros_like(z), valid)
    scores = torch.sigmoid((z - mean) * torch.rsqrt(var + _EPS) * gate["norm.weight"] + gate["norm.bias"])
    return scores, {"input.mean": batch, "input.var": batch_var, "norm.mean": mean, "norm.var": var}


def _batch_moments(gate: Params, norm: str, mean: Tensor, var: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return mean and variance of a batch from those of its samples, each (n, C); without `valid` the gate's own."""
    if valid is None:
        return gate[f"{norm}.mean"], gate[f"{norm}.var"]
    count = valid.sum().clamp(min=1)
    centre = torch.where(valid[:, None], mean, 0).sum(0) / count
    return centre, torch.where(valid[:, None], var + (mean - centre).square(), 0).sum(0) / count

"""Dropout with keyed noise: each element's draw is a hash of a key and of the element's indices.

Torch's dropout takes its noise from a global generator, so that it depends on earlier draws and on everything that is
computed beside it. Here a client drops the same elements alone, in any stack, under any padding, on any device, and
when the step is taken again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

#: Layers that drop whole channels, with the numbers of axes that their inputs may have.
_RANKS: dict[type[nn.Module], tuple[int, ...]] = {
    nn.Dropout1d: (3,),
    nn.Dropout2d: (2, 3, 4),
    nn.Dropout3d: (5,),
    nn.FeatureAlphaDropout: (2, 3, 4, 5),
}
#: Layers that `KeyedDropout` replaces.
DROPOUTS: tuple[type[nn.Module], ...] = (nn.Dropout, nn.AlphaDropout, *_RANKS)

#: The distance between the keys of two layers, and between those of two calls of one layer. `hashed` adds an odd number
#: per index of the first axis, so that no two keys meet within 2**32 indices.
_LAYER, _CALL = 2**48, 2**32
#: The constants of splitmix64, as int64.
_STEP, _FIRST, _SECOND = (c - 2**64 for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
#: The value that SELU tends to far below zero, with which alpha dropout replaces what it drops.
_SATURATION = -1.7580993408473766


class KeyedDropout(nn.Module):
    """Torch's dropout, with noise from a key in place of a generator.

    The key, an int64 of shape () (or of shape (0,), as at first: none), is a buffer, which ``functional_call`` sets for
    one call; each of several calls in a forward pass has noise of its own. Srivastava et al. (2014), Dropout; Tompson
    et al. (2015), whole channels; Klambauer et al. (2017), alpha dropout, which keeps mean zero and variance one.
    """

    key: Tensor

    def __init__(self, layer: nn.modules.dropout._DropoutNd) -> None:
        super().__init__()
        self.p, self.ranks = layer.p, _RANKS.get(type(layer))
        alpha = isinstance(layer, nn.AlphaDropout | nn.FeatureAlphaDropout)
        self.dropped = _SATURATION if alpha else 0.0
        kept = 1 - self.p
        if not kept:
            self.scale = 0.0
        elif alpha:
            self.scale = 1 / math.sqrt(kept * (1 + self.p * _SATURATION**2))
        else:
            self.scale = 1 / kept
        self.shift = -self.scale * self.dropped * self.p
        self.register_buffer("key", torch.zeros(0, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements, or whole channels, of `x`, shape (B, C, ...), and rescale the others."""
        if self.ranks and x.ndim not in self.ranks:
            takes = " or ".join(map(str, self.ranks))
            raise ValueError(
                f"x has shape {tuple(x.shape)}; this dropout of whole channels needs {takes} axes, samples "
                "and channels first."
            )
        if not self.training or not self.p or not self.key.numel():
            return x
        shape = x.shape[:2] if self.ranks else x.shape
        # a share p of all int64 does not exceed this number, which is one of them for every p in (0, 1]
        kept = hashed(self.key, shape) > math.ceil(self.p * 2**64) - 2**63 - 1
        self.key = self.key + _CALL
        outputs = torch.where(kept.view(*shape, *[1] * (x.ndim - len(shape))), x, self.dropped) * self.scale
        return outputs + self.shift if self.shift else outputs


def hashed(key: Tensor, shape: Sequence[int]) -> Tensor:
    """Return numbers of the given shape, uniform over all int64, each a function of `key` and its own indices alone.

    Keys that are random, or apart by a multiple of 2**32, have independent numbers. Along every axis they are those of
    splitmix64 (Steele, Lea and Flood, 2014), whose seed is the number on the axes before.
    """
    state = key
    for length in shape:
        state = state[..., None] + _STEP * torch.arange(1, length + 1, device=key.device)
        state ^= _shifted(state, 30)
        state *= _FIRST
        state ^= _shifted(state, 27)
        state *= _SECOND
        state ^= _shifted(state, 31)
    return state


def _shifted(state: Tensor, by: int) -> Tensor:
    """Shift the bits, which count as unsigned, to the right."""
    return (state >> by).bitwise_and_(2 ** (64 - by) - 1)


def keys(buffers: Sequence[str], noise: Tensor) -> dict[str, Tensor]:
    """Return what to put into the layers' `buffers` of keys, by their dotted names, in a forward pass.

    `noise`, an int64 of shape (), is the key of the forward pass.
    """
    return {name: noise + number * _LAYER for number, name in enumerate(buffers)}

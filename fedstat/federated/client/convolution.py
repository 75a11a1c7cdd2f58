"""Convolutions as products of matrices: how a GPU computes those of stacked clients fastest, where it does.

Under ``torch.vmap`` a convolution of all clients is a grouped one. On a GPU its kernels are slow where the convolution
has a stride or the image is down to a few pixels, and under TF32 a batched product of kernels and patches is 2.5 to 4.5
times as fast; elsewhere writing the patches costs more than it saves (`docs/performance.md` has the measurements).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: Pixels of an image from which a convolution without stride is left to torch.
PIXELS = 16


class ProductConv2d(nn.Conv2d):
    """``nn.Conv2d`` that multiplies its kernels with the patches under them, where that is faster on a GPU."""

    def forward(self, x: Tensor) -> Tensor:
        """Convolve `x`, shape (B, C, H, W), or one sample without the first axis."""
        faster = x.ndim == 4 and len(x) and (max(self.stride) > 1 or x.shape[2:].numel() < PIXELS)
        if not faster or torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        above, left = map(int, self.padding)
        patches = F.pad(x, (left, left, above, above))
        for axis, (length, step) in enumerate(zip(self.kernel_size, self.stride, strict=True), start=2):
            patches = patches.unfold(axis, length, step)
        shape = len(x), *patches.shape[2:4]
        columns = patches.permute(1, 4, 5, 0, 2, 3).reshape(self.weight[0].numel(), -1)
        outputs = (self.weight.flatten(1) @ columns).view(-1, *shape)
        outputs = outputs if self.bias is None else outputs + self.bias.view(-1, 1, 1, 1)
        return outputs.transpose(0, 1).contiguous()  # as torch lays it out: a view may follow


def multiplied(module: nn.Module) -> None:
    """Let the convolutions of a module, in place, be products where these are faster on a GPU."""
    for layer in module.modules():
        plain = type(layer) is nn.Conv2d and layer.groups == 1 and set(layer.dilation) == {1}
        if plain and layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
            layer.__class__ = ProductConv2d

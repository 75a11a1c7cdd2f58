"""FedDecomp: a full-rank weight plus a low-rank product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from fedstat.parameterization.form import Params, as_fraction, check_shape, check_weight, gaussian


@dataclass(frozen=True)
class LowRankSum:
    """A weight ``sigma + tau`` with sigma of full rank and ``tau* = B A`` of low rank.

    Dense weights have ``tau[o, i] = tau*[i, o]``, convolutions ``tau[o, i, a, b] = tau*[i k + a, o k + b]``. Parts
    are ``full``, sigma in the weight's own shape, ``a`` (rank, out * k) and ``b`` (in * k, rank), with k = 1 in dense
    weights.

    At the start sigma is the network's weight, A is Gaussian with variance 1/rank and B is zero: the weight is
    unchanged, and since ``E A'A = I`` a gradient step on B moves tau, in expectation, as it would a full-rank tau.

    Attributes
    ----------
    shape : tuple of int
        (out, in) or (out, in, k, k).
    ratio : float
        Rank over full rank, in (0, 1]: the rank is ``ratio * min(in, out) * k`` rounded down, one at least.
    scale : {"paper", "code"}
        "paper" adds ``B A`` as it is. "code" follows the authors' implementation: ``B A`` is divided by the rank in
        dense weights; in convolutions the rank is ``floor(ratio * out) * k``, which may exceed full rank, and ``B A``
        is divided by ``floor(ratio * out)``.

    Raises
    ------
    ValueError
        If the shape is neither form, the ratio outside (0, 1], or the scale unknown.

    References
    ----------
    FedDecomp, equations (2) to (4); the block arrangement and the variance of A are ours, the text leaves both open.
    """

    shape: tuple[int, ...]
    ratio: float
    scale: Literal["paper", "code"] = "paper"

    def __post_init__(self) -> None:
        check_shape(self.shape)
        if not 0 < self.ratio <= 1:
            raise ValueError(f"ratio must lie in (0, 1], got {self.ratio}; without a low-rank part leave it plain.")
        if self.scale not in ("paper", "code"):
            raise ValueError(f'scale must be "paper" or "code", got {self.scale!r}.')

    @property
    def rank(self) -> int:
        """Rows of A and columns of B."""
        out, inputs, *kernel = self.shape
        ratio, k = as_fraction(self.ratio), self._kernel
        if self.scale == "code" and kernel:
            return max(1, math.floor(ratio * out)) * k
        return max(1, math.floor(ratio * min(inputs, out) * k))

    @property
    def _kernel(self) -> int:
        return self.shape[2] if len(self.shape) == 4 else 1

    def parts(self, weight: Tensor, rng: np.random.Generator) -> Params:
        """Copy the weight as sigma, draw A, start B at zero."""
        check_weight(weight, self.shape)
        (out, inputs), k, rank = self.shape[:2], self._kernel, self.rank
        return {
            "full": weight.detach().clone(),
            "a": gaussian(rng, (rank, out * k), rank**-0.5, weight),
            "b": weight.new_zeros(inputs * k, rank),
        }

    def compose(self, parts: Params) -> Tensor:
        """Return ``sigma + tau``."""
        (out, inputs), k = self.shape[:2], self._kernel
        tau = (parts["b"] @ parts["a"]).reshape(inputs, k, out, k).permute(2, 0, 1, 3).reshape(self.shape)
        return parts["full"] + (tau if self.scale == "paper" else tau * (k / self.rank))

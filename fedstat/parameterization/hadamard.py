"""FedPara and pFedPara: the Hadamard product of two low-rank weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import number
from fedstat.parameterization.form import Params, as_fraction, check_shape, check_weight, gaussian


@dataclass(frozen=True)
class Hadamard:
    """A weight ``W1 * W2``, or ``W1 * (W2 + 1)`` if W2 is personal, of two low-rank weights.

    Dense: ``Wi = Xi Yi'``; convolution: ``Wi[o, c, a, b] = sum_pq Ti[p, q, a, b] Xi[o, p] Yi[c, q]``. Parts are
    ``x1, x2`` (out, r), ``y1, y2`` (in, r) and in convolutions ``t1, t2`` (r, r, k, k). Without tanh the rank of W,
    a convolution's as an (out, in * k^2) matrix, is at most r^2 (personal: r^2 + r).

    At the start all factors are Gaussian, those of one Wi with the same variance, chosen such that W has He's variance
    ``2 / (in k^2)``: both Wi have its square root. If W2 is personal, W1 alone has He's variance, y2 is zero, so that
    W = W1 on every client at first, and x2 and t2 have variance 1/r, by which a gradient step on y2 moves W2, in
    expectation, as it would a full-rank W2; x2 and t2 follow from the second step on. With tanh the variance is
    somewhat below He's.

    Attributes
    ----------
    shape : tuple of int
        (out, in) or (out, in, k, k).
    gamma : float
        In [0, 1]: where the rank lies between the smallest and the largest that `hadamard_rank` allows.
    personal : bool
        Whether 1 is added to W2 (pFedPara).
    tanh : bool
        Whether W1 and W2 pass through tanh first.

    Raises
    ------
    ValueError
        If the shape is neither form, gamma lies outside [0, 1], or the weight is too small to be factorised.

    References
    ----------
    Hyeon-Woo, Ye-Bin and Oh, "FedPara: low-rank Hadamard product for communication-efficient federated learning",
    ICLR 2022. The initial values are our choice: the authors' code draws each factor with variance 2 over its own
    fan-in, which leaves W far below He's variance; on small networks that did no better.

    Examples
    --------
    Half as many numbers, and the weight still has full rank:

    >>> import numpy as np
    >>> import torch
    >>> from fedstat.parameterization import Hadamard
    >>> form = Hadamard((64, 64), gamma=0.0)
    >>> parts = form.parts(torch.ones(64, 64), np.random.default_rng(0))
    >>> sum(part.numel() for part in parts.values()), int(torch.linalg.matrix_rank(form.compose(parts)))
    (2048, 64)
    """

    shape: tuple[int, ...]
    gamma: float
    personal: bool = False
    tanh: bool = False

    def __post_init__(self) -> None:
        if hadamard_rank(self.shape, self.gamma) is None:
            raise ValueError(
                f"shape {self.shape} is too small: already factors of the smallest rank have more entries than the "
                "weight; leave it plain (hadamard_rank returns None)."
            )

    @property
    def rank(self) -> int:
        """The rank r of the factors."""
        rank = hadamard_rank(self.shape, self.gamma)
        assert rank is not None  # `__post_init__` refuses such shapes
        return rank

    def parts(self, weight: Tensor, rng: np.random.Generator) -> Params:
        """Draw the factors; `weight` gives nothing but dtype and device."""
        check_weight(weight, self.shape)
        (out, inputs, *kernel), r = self.shape, self.rank
        factors = {"x": (out, r), "y": (inputs, r)} | ({"t": (r, r, *kernel)} if kernel else {})
        he = 2 / math.prod(self.shape[1:])
        # variance of W1, which sums r terms, in convolutions r^2
        product = he if self.personal else math.sqrt(he)
        first = (product / r ** (len(factors) - 1)) ** (0.5 / len(factors))
        second = r**-0.5 if self.personal else first
        parts = {f"{name}1": gaussian(rng, size, first, weight) for name, size in factors.items()}
        parts |= {f"{name}2": gaussian(rng, size, second, weight) for name, size in factors.items()}
        return parts | {"y2": torch.zeros_like(parts["y2"])} if self.personal else parts

    def compose(self, parts: Params) -> Tensor:
        """Return the product."""
        first, second = self._low_rank(parts, 1), self._low_rank(parts, 2)
        if self.tanh:
            first, second = first.tanh(), second.tanh()
        return first * (second + 1 if self.personal else second)

    def _low_rank(self, parts: Params, i: int) -> Tensor:
        x, y = parts[f"x{i}"], parts[f"y{i}"]
        if len(self.shape) == 2:
            return x @ y.mT
        # pairwise: the order of three operands would depend on whether opt_einsum is installed
        return torch.einsum("oqab,cq->ocab", torch.einsum("pqab,op->oqab", parts[f"t{i}"], x), y)


def hadamard_rank(shape: tuple[int, ...], gamma: float) -> int | None:
    """Return the rank of the factors, ``ceil((1 - gamma) r_min + gamma r_max)``.

    Here ``r_min = ceil(sqrt(max(out, in)))`` is the smallest rank with ``r_min^2 >= out`` and ``r_min^2 >= in``, with
    which a convolution's unfoldings along `out` and along `in` can both have full rank (a dense weight could do with
    less; one rule serves all), and r_max the largest at which the factors have no more entries than the weight:
    ``2 r (out + in)`` against ``out * in``, in a convolution ``2 r (out + in + r k^2)`` against ``out * in * k^2``.

    Parameters
    ----------
    shape : tuple of int
        (out, in) or (out, in, k, k).
    gamma : float
        In [0, 1], read as the nearest fraction with a denominator up to a million.

    Returns
    -------
    int or None
        None if ``r_max < r_min``, where the weight is better left plain.

    Raises
    ------
    ValueError
        If the shape is neither form, or gamma lies outside [0, 1].

    References
    ----------
    FedPara (ICLR 2022), section 3; the smallest rank is that of the authors' code, which has convolutions alone. With
    the root of the smaller of `out` and `in` a convolution of one input channel could have rank one, and all of its
    filters be multiples of one another.

    Examples
    --------
    At 0 the least rank whose square reaches the larger side; more of it with gamma:

    >>> from fedstat.parameterization import hadamard_rank
    >>> hadamard_rank((256, 128), 0.0), hadamard_rank((256, 128), 0.5)
    (16, 29)
    """
    check_shape(shape)
    number("gamma", gamma, "[0, 1]")
    out, inputs, *kernel = shape
    smallest = math.isqrt(max(out, inputs) - 1) + 1
    if kernel:  # the positive root of k^2 r^2 + (out + in) r - out in k^2 / 2, rounded down in whole numbers
        k2, channels = kernel[0] ** 2, out + inputs
        largest = (math.isqrt(channels**2 + 2 * out * inputs * k2**2) - channels) // (2 * k2)
    else:
        largest = out * inputs // (2 * (out + inputs))
    return math.ceil(smallest + as_fraction(gamma) * (largest - smallest)) if largest >= smallest else None

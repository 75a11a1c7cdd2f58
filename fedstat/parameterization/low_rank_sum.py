"""FedDecomp: a full-rank weight plus a low-rank product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import check_fields
from fedstat.parameterization.form import Params, as_fraction, check_shape, check_weight, gaussian


@dataclass(frozen=True)
class LowRankSum:
    """A weight ``sigma + tau``: sigma of full rank, tau a product of two thin matrices that starts at zero.

    Parts are ``full``, sigma in the weight's own shape, and the factors ``a``, random at the start, and ``b``, zero at
    the start. The weight is (out, in) or (out, in, k, k); k is 1 in dense weights.

    * "code" is the authors' implementation: a is (r, in k), uniform between ``-(in k)**-0.5`` and ``(in k)**-0.5``, b
      is (out k, r), and tau is ``b a`` read row by row as (out, in, k, k). In convolutions r is ``rho k`` with
      ``rho = ratio * out`` rounded down, and tau is divided by rho; in dense weights r is ``ratio * min(in, out)``
      rounded down, and tau is divided by r. A gradient step on b then moves tau, in expectation, ``1 / (3 in rho)`` or
      ``1 / (3 in r)`` as far as it would a tau of full rank: sigma learns faster by far.
    * "text" is the paper's text: a is (r, out k), Gaussian with variance 1 / r, b is (in k, r), r is
      ``ratio * min(in, out) * k`` rounded down, and ``tau[o, i, p, q] = (b a)[i k + p, o k + q]``. The text gives no
      variance; with ours ``E a'a = I``, and a gradient step on b moves tau, in expectation, as it would a tau of full
      rank.

    Ranks are at least one (rho in convolutions).

    Attributes
    ----------
    shape : tuple of int
        (out, in) or (out, in, k, k).
    ratio : float
        Rank over full rank, in (0, 1]; the rank of the code's convolutions may exceed full rank.
    reading : {"code", "text"}
        Whose arrangement and scale of tau, as above.

    Raises
    ------
    ValueError
        If the shape is neither form, the ratio outside (0, 1], or the reading unknown.

    References
    ----------
    FedDecomp, equations (2) to (4), which leave arrangement and scale open.

    Examples
    --------
    The low-rank summand starts at zero:

    >>> import numpy as np
    >>> import torch
    >>> from fedstat.parameterization import LowRankSum
    >>> form = LowRankSum((32, 64), ratio=0.25)
    >>> weight = torch.ones(32, 64)
    >>> parts = form.parts(weight, np.random.default_rng(0))
    >>> {name: tuple(part.shape) for name, part in parts.items()}
    {'full': (32, 64), 'a': (8, 64), 'b': (32, 8)}
    >>> torch.equal(form.compose(parts), parts["full"])
    True
    """

    shape: tuple[int, ...]
    ratio: float
    reading: Literal["code", "text"] = "code"

    def __post_init__(self) -> None:
        check_shape(self.shape)
        check_fields(self, reading=("code", "text"))
        if not 0 < self.ratio <= 1:
            raise ValueError(f"ratio must lie in (0, 1], got {self.ratio}; without a low-rank part leave it plain.")

    @property
    def rank(self) -> int:
        """The rank: the number of rows of a and of columns of b."""
        out, inputs, *kernel = self.shape
        ratio, k = as_fraction(self.ratio), self._kernel
        if self.reading == "code" and kernel:
            return max(1, math.floor(ratio * out)) * k
        return max(1, math.floor(ratio * min(inputs, out) * k))

    @property
    def _kernel(self) -> int:
        return self.shape[2] if len(self.shape) == 4 else 1

    def parts(self, weight: Tensor, rng: np.random.Generator) -> Params:
        """Return the weight itself as sigma, a random a, and b = 0."""
        check_weight(weight, self.shape)
        out, inputs = (n * self._kernel for n in self.shape[:2])
        full = weight.detach().clone()
        if self.reading == "text":
            a = gaussian(rng, (self.rank, out), self.rank**-0.5, weight)
            return {"full": full, "a": a, "b": weight.new_zeros(inputs, self.rank)}
        a = torch.from_numpy(rng.uniform(-(inputs**-0.5), inputs**-0.5, (self.rank, inputs))).to(weight)
        return {"full": full, "a": a, "b": weight.new_zeros(out, self.rank)}

    def compose(self, parts: Params) -> Tensor:
        """Return ``sigma + tau``."""
        (out, inputs), k = self.shape[:2], self._kernel
        tau = parts["b"] @ parts["a"]
        if self.reading == "text":
            return parts["full"] + tau.reshape(inputs, k, out, k).permute(2, 0, 1, 3).reshape(self.shape)
        return parts["full"] + tau.reshape(self.shape) * (k / self.rank)

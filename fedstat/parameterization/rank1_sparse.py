"""Factorized-FL: a product of thin factors plus a sparse matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import check_fields
from fedstat.parameterization.form import Params, check_shape, check_weight


@dataclass(frozen=True)
class Rank1Sparse:
    """A weight that is, as a matrix, ``M = u v + mu``: a basis u, coefficients v and a sparse mu.

    Parts are ``u`` (rows, rank), ``v`` (rank, columns) and ``mu`` (rows, columns), M having (in, out) or
    (k^2, in * out) rows and columns. Dense weights have ``W[o, i] = M[i, o]``. In convolutions the text has
    ``W[o, i, a, b] = M[a k + b, i O + o]``, where a column of u is a spatial filter that v combines over pairs of
    channels; the authors' code reads M row by row as (out, in, k, k), and u is no spatial filter.

    At the start u and v are Xavier-uniform as matrices and mu is zero, so W has variance
    ``4 rank / ((rows + rank)(rank + columns))``. That is far below He's in wide layers: deep networks of this form
    rely on normalisation layers. In the authors' code mu of dense weights starts Xavier-uniform, too.

    Attributes
    ----------
    shape : tuple of int
        (out, in) or (out, in, k, k).
    rank : int
        Columns of u and rows of v.
    reading : {"code", "text"}
        Whose arrangement and start, as above.
    filled : bool, optional
        Whether mu of a dense weight starts Xavier-uniform, else at zero; by default as in `reading`.

    Raises
    ------
    ValueError
        If the shape is neither form, the rank below 1 or above M's full rank, or the reading unknown.

    References
    ----------
    Factorized-FL, section 4.1, equation (3).

    Examples
    --------
    At the start the weight has rank one, as its sparse part is zero:

    >>> import numpy as np
    >>> import torch
    >>> from fedstat.parameterization import Rank1Sparse
    >>> form = Rank1Sparse((32, 64), rank=1, reading="text")
    >>> parts = form.parts(torch.ones(32, 64), np.random.default_rng(0))
    >>> {name: tuple(part.shape) for name, part in parts.items()}
    {'u': (64, 1), 'v': (1, 32), 'mu': (64, 32)}
    >>> int(torch.linalg.matrix_rank(form.compose(parts)))
    1
    """

    shape: tuple[int, ...]
    rank: int = 1
    reading: Literal["code", "text"] = "code"
    filled: bool | None = None

    def __post_init__(self) -> None:
        check_shape(self.shape)
        check_fields(self, rank=1, reading=("code", "text"))
        if self.rank > (full := min(self._matrix_shape)):
            raise ValueError(
                f"rank must be at most {full}, the full rank of {self.shape} as a matrix, got {self.rank}."
            )

    @property
    def _matrix_shape(self) -> tuple[int, int]:
        out, inputs, *kernel = self.shape
        return (kernel[0] ** 2, inputs * out) if kernel else (inputs, out)

    def parts(self, weight: Tensor, rng: np.random.Generator) -> Params:
        """Draw u and v, and mu for dense weights of the code; `weight` gives nothing but dtype and device."""
        check_weight(weight, self.shape)
        rows, columns = self._matrix_shape
        fills = self.reading == "code" if self.filled is None else self.filled
        filled = fills and len(self.shape) == 2
        return {
            "u": _xavier_uniform(rng, (rows, self.rank), weight),
            "v": _xavier_uniform(rng, (self.rank, columns), weight),
            "mu": _xavier_uniform(rng, (rows, columns), weight) if filled else weight.new_zeros(rows, columns),
        }

    def compose(self, parts: Params) -> Tensor:
        """Return ``u v + mu``, arranged as the weight."""
        matrix = parts["u"] @ parts["v"] + parts["mu"]
        if len(self.shape) == 2:
            return matrix.mT
        if self.reading == "code":
            return matrix.reshape(self.shape)
        out, inputs, k, _ = self.shape
        return matrix.reshape(k, k, inputs, out).permute(3, 2, 0, 1)

    def matrix(self, weight: Tensor) -> Tensor:
        """Return the matrix M (rows, columns) of a weight: the mu that, with u = 0, composes to exactly that weight."""
        check_weight(weight, self.shape)
        if len(self.shape) == 2:
            return weight.mT
        return (weight if self.reading == "code" else weight.permute(2, 3, 1, 0)).reshape(self._matrix_shape)


def _xavier_uniform(rng: np.random.Generator, shape: tuple[int, int], like: Tensor) -> Tensor:
    bound = math.sqrt(6 / sum(shape))
    return torch.from_numpy(rng.uniform(-bound, bound, shape)).to(like)

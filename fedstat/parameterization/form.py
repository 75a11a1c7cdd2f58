"""The contract of a parameterisation, and what all forms need: checked shapes, exact ratios, Gaussian parts."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

Params = dict[str, Tensor]

#: A ratio is read as the nearest fraction with a denominator up to this, so that 0.6 of 5 is 3 and 0.29 of 100 is 29.
_DENOMINATOR = 10**6


class Form(Protocol):
    """The way in which one weight tensor is composed of parts.

    Any object with these three members is a form. The axes of a weight are torch's: (out, in) for a dense or
    recurrent layer, (out, in, k, k) for a convolution, where `in` counts the inputs of one group.

    Examples
    --------
    A form of one's own, a weight that is a number times a fixed matrix:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import torch
    >>> import fedstat as fs
    >>> from fedstat.federated import build, parameterize
    >>> @dataclass(frozen=True)
    ... class Scaled:
    ...     shape: tuple[int, ...]
    ...     def parts(self, weight, rng):
    ...         return {"scale": weight.new_ones(())}
    ...     def compose(self, parts):
    ...         return parts["scale"] * torch.eye(*self.shape).to(parts["scale"])
    >>> network = build(fs.models.mlp(4, 3, 2), np.random.default_rng(0))
    >>> network = parameterize(network, {"hidden.weight": Scaled((3, 4))}, np.random.default_rng(1))
    >>> {name: tuple(shape) for name, shape in network.shapes.items()}
    {'hidden.weight.scale': (), 'hidden.bias': (3,), 'head.weight': (2, 3), 'head.bias': (2,)}
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weight."""

    def parts(self, weight: Tensor, rng: np.random.Generator) -> Params:
        """Return initial parts by name, of the dtype and on the device of `weight`.

        Parameters
        ----------
        weight : Tensor
            The network's own initial weight, of `shape`; forms that start from it copy it.
        rng : numpy Generator
            Source of the random parts.

        Raises
        ------
        ValueError
            If `weight` has another shape.
        """

    def compose(self, parts: Params) -> Tensor:
        """Return the weight of `shape`, differentiably, without changes in place, and fit for ``torch.vmap``."""


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `shape` is (out, in) or (out, in, k, k)."""
    sizes = all(isinstance(n, Integral) and n >= 1 for n in shape)
    if not sizes or len(shape) not in (2, 4) or (len(shape) == 4 and shape[2] != shape[3]):
        raise ValueError(
            f"shape must be (out, in) for a dense weight or (out, in, k, k) for a convolution with square filters, "
            f"whole numbers of at least 1, got {tuple(shape)}."
        )


def check_weight(weight: Tensor, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `weight` has this shape."""
    if tuple(weight.shape) != tuple(shape):
        raise ValueError(f"weight must have the form's shape {tuple(shape)}, got {tuple(weight.shape)}.")


def as_fraction(ratio: float) -> Fraction:
    """Return the fraction that a ratio in floating point stands for, so that rounding a rank loses no unit."""
    return Fraction(float(ratio)).limit_denominator(_DENOMINATOR)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...], std: float, like: Tensor) -> Tensor:
    """Draw independent N(0, std^2) entries, of the dtype and on the device of `like`."""
    return torch.from_numpy(std * rng.standard_normal(shape)).to(like)

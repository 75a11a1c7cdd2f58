"""FedDecomp whose low-rank part is given a dose: by how much its first step moves a weight."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.network import Network, Params, parameterize
from fedstat.methods import FedDecomp
from fedstat.parameterization import LowRankSum

Route = Literal["start", "output"]


def own_dose(form: LowRankSum) -> float:
    """Return the dose of a reading as it is.

    The dose is the share of a gradient step on a full-rank tau that the same step on b makes, in expectation over a.
    With ``tau = s b a`` and entries of a of variance v a step on b moves tau by ``s^2 G a'a``, whose expectation is
    ``s^2 r v G`` (r is the rank, G the full-rank step).
    """
    if form.reading == "text":
        return 1.0
    inputs = form.shape[1]
    k = form.shape[2] if len(form.shape) == 4 else 1
    return k / (3 * inputs * form.rank)


def target_dose(form: LowRankSum, level: float) -> float:
    """Return the dose of a weight at a level: 0 is the code's, 1 is the text's (that is 1), 2 ten times as much.

    Between 0 and 1 it is interpolated on the logarithmic scale, so that the doses of weights, which differ by orders of
    magnitude in the code, come together.
    """
    code = own_dose(LowRankSum(form.shape, form.ratio, "code"))
    return code ** (1 - level) if level <= 1 else 10 ** (level - 1)


@dataclass(frozen=True)
class DosedSum:
    """A `LowRankSum` whose first step has a dose of one's choice.

    Attributes
    ----------
    base : LowRankSum
        The reading: its arrangement, rank and law of a.
    dose : float
        As `own_dose` defines it, positive.
    route : {"start", "output"}
        What is multiplied: a at the start, or tau in every pass. The first step is the same; later ones are not, since
        a learns, too: by "output" its steps grow with the multiplier, by "start" only with b.
    """

    base: LowRankSum
    dose: float
    route: Route = "start"

    def __post_init__(self) -> None:
        if not (self.dose > 0 and math.isfinite(self.dose)):
            raise ValueError(
                f"dose must be positive and finite, got {self.dose}; without a low-rank part train FedAvg."
            )
        if self.route not in ("start", "output"):
            raise ValueError(f'route must be "start" or "output", got {self.route!r}.')

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weight."""
        return self.base.shape

    @property
    def multiplier(self) -> float:
        """The factor of a's spread or of tau; the dose grows with its square."""
        return math.sqrt(self.dose / own_dose(self.base))

    def parts(self, weight: Tensor, rng: np.random.Generator) -> Params:
        """Return the parts of the reading, with a spread out if that is the route."""
        parts = self.base.parts(weight, rng)
        return parts if self.route == "output" else parts | {"a": parts["a"] * self.multiplier}

    def low_rank(self, parts: Params) -> Tensor:
        """Return tau, of `shape`."""
        tau = self.base.compose(parts | {"full": torch.zeros_like(parts["full"])})
        return tau * self.multiplier if self.route == "output" else tau

    def compose(self, parts: Params) -> Tensor:
        """Return ``sigma + tau``."""
        return parts["full"] + self.low_rank(parts)


@dataclass(frozen=True, kw_only=True)
class Dosed(FedDecomp):
    """FedDecomp at a level of dose (`target_dose`), in the arrangement of `reading`, by a route.

    Parameters
    ----------
    level : float
        0 is the code's dose in every weight, 1 the text's, 2 ten times the text's.
    route : {"start", "output"}
        See `DosedSum`.
    """

    level: float = 0.0
    route: Route = "start"

    def parameterize(self, network: Network, rng: np.random.Generator) -> Network:
        """Add a low-rank part of the wanted dose to every dense, recurrent and convolutional weight."""
        forms = {}
        for name, shape in network.kernels.items():
            ratio = self.dense_ratio if len(shape) == 2 else self.conv_ratio
            base = LowRankSum(tuple(shape), ratio, self.reading)
            forms[name] = DosedSum(base, target_dose(base, self.level), self.route)
        return parameterize(network, forms, rng)


def undosed(method: Dosed) -> FedDecomp:
    """Return FedDecomp itself with the settings of a dosed one."""
    return FedDecomp(**{field.name: getattr(method, field.name) for field in fields(FedDecomp)})

"""Mechanisms of differential privacy of clients: what each can change is bounded, and hidden in noise.

Noise is a function of the run's seed, the method, its training and the round, so that a run can be repeated: whoever
knows the seed can take it off again. Keep the seed of a published model secret. Two runs of one seed whose method and
training are the same, on other data for example, have the same noise, and their difference has none: give every run
that is published a seed of its own. Numbers are floating-point, whose last bits can tell what exact noise would hide
(Mironov 2012); no epsilon counts that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import check_fields
from fedstat.federated.attendance import Attendance, Stragglers, expected_of


@runtime_checkable
class Mechanism(Protocol):
    """The contract of a mechanism: what participants send of their changes, and what the server makes of that.

    Changes are those of all shared weights together, in float64. Both functions draw from `rng` alone, and take any
    axes before those of participants and weights. Replacing one participant's change, whatever it is, must move what
    comes out by 2 `clip` / `of` at most, and putting zeros in its place by `clip` / `of`;
    ``fedstat.testing.check_mechanism`` measures both. `fedstat.privacy.account` knows no mechanism but `Gaussian`.

    `of` is how many participants are drawn; under `fedstat.attendance.Poisson`, `Dropout` or `Stragglers` how many
    deliver in the mean over rounds, whoever comes, and `combine` is called even where m is 0. Under another attendance
    it is how many deliver, and a round to which nobody comes releases nothing. Where asked clients may be missing, a
    mechanism must have the attribute ``at = "server"``, by which it says that `combine` adds all of the noise.

    A run's account covers what is sent of these changes. A method of one's own whose ``init`` or ``shared`` looks at
    the clients' data says more than that.

    Attributes
    ----------
    clip : float
        The largest Euclidean norm of a participant's change.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import torch
    >>> import fedstat as fs
    >>> @dataclass(frozen=True)
    ... class Laplace:
    ...     clip: float
    ...     scale: float
    ...     def send(self, changes, of, rng):
    ...         return fs.mechanisms.clipped(changes, self.clip)
    ...     def combine(self, changes, of, rng):
    ...         total = changes.sum(-2)
    ...         return (total + torch.from_numpy(rng.laplace(scale=self.scale, size=total.shape)).to(total)) / of
    >>> fs.testing.check_mechanism(Laplace(clip=1.0, scale=2.0))
    >>> fs.FedAvg(weighting="uniform", mechanism=Laplace(clip=1.0, scale=2.0)).mechanism
    Laplace(clip=1.0, scale=2.0)
    """

    @property
    def clip(self) -> float:
        """The largest Euclidean norm of a participant's change."""
        ...

    def send(self, changes: Tensor, of: float, rng: np.random.Generator) -> Tensor:
        """Return what some of `of` participants send of their changes (..., m, d)."""
        ...

    def combine(self, changes: Tensor, of: float, rng: np.random.Generator) -> Tensor:
        """Return the server's change (..., d) from what participants sent, (..., m, d), as a mean over `of`."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """Changes are cut to a norm, averaged with equal weights, and hidden in normal noise.

    The standard deviation of the noise on the sum of the participants' changes is ``noise * clip`` in every coordinate.
    The mean divides by a number that is known beforehand, under Poisson sampling that of participants to be expected; a
    round to which nobody comes releases the noise alone, since it could be told otherwise. It is DP-FedAvg with flat
    clipping and the fixed-denominator estimator (McMahan, Ramage, Talwar and Zhang 2018, "Learning Differentially
    Private Recurrent Language Models", Algorithm 1), whose step is that of DP-SGD (Abadi et al. 2016, Algorithm 1) with
    clients in the place of samples. A change that is not finite counts as none.

    Parameters
    ----------
    clip : float
        The largest Euclidean norm of a participant's change, over all that is shared; positive.
    noise : float
        The noise multiplier; at 0 changes are cut, and epsilon is infinite.
    at : {"server", "client"}
        Who adds the noise. "server": a server that sees every change, and is trusted. "client": each of m participants
        cuts its change and adds noise of standard deviation ``noise * clip / sqrt(m)``, so that the sum has as much;
        all m must deliver, for what is left out would take its noise along: `participation` must draw a fixed number.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.FedAvg(weighting="uniform", mechanism=fs.mechanisms.Gaussian(clip=1.0, noise=0.8)).mechanism
    Gaussian(clip=1.0, noise=0.8, at='server')
    """

    clip: float
    noise: float
    at: Literal["server", "client"] = "server"

    def __post_init__(self) -> None:
        check_fields(self, clip="(0, inf)", noise="[0, inf)", at=("server", "client"))

    def send(self, changes: Tensor, of: float, rng: np.random.Generator) -> Tensor:
        """Return changes as they are; at the client cut, with its share of the noise."""
        if self.at == "server":
            return changes
        sent = clipped(changes, self.clip)
        return sent + self._drawn(sent, rng) / of**0.5

    def combine(self, changes: Tensor, of: float, rng: np.random.Generator) -> Tensor:
        """Return the mean over `of`; at the server of cut changes, with the noise."""
        if self.at == "client":
            return changes.sum(-2) / of
        total = clipped(changes, self.clip).sum(-2)
        return (total + self._drawn(total, rng)) / of

    def _drawn(self, like: Tensor, rng: np.random.Generator) -> Tensor:
        return self.noise * self.clip * torch.from_numpy(rng.standard_normal(like.shape)).to(like)


MECHANISMS: dict[str, type[Gaussian]] = {"gaussian": Gaussian}


def clipped(changes: Tensor, most: float) -> Tensor:
    """Return changes (..., d), each cut to a largest Euclidean norm; one that is not finite comes to zero.

    Examples
    --------
    >>> import torch
    >>> import fedstat as fs
    >>> fs.mechanisms.clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4], [torch.nan, 0.0]]), 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000],
            [0.0000, 0.0000]])
    """
    norms = changes.norm(dim=-1, keepdim=True)
    return torch.where(norms.isfinite(), changes * (most / norms.clamp(min=most)), 0)


def released(mechanism: Mechanism, changes: Tensor, of: float, rng: np.random.Generator) -> Tensor:
    """Return what a round releases of participants' changes (..., m, d), m from 0: the server's change (..., d)."""
    return mechanism.combine(mechanism.send(changes, of, rng), of, rng)


def check_mechanism(mechanism: Any, weighting: str, aggregator: object, compression: object) -> None:
    """Refuse what is no mechanism, or does not fit a method's other arguments."""
    if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
        raise ValueError(
            f"mechanism must be one such as fs.mechanisms.Gaussian(clip=1.0, noise=1.0), got {mechanism!r}."
        )
    if weighting != "uniform":
        raise ValueError(
            f'weighting must be "uniform" beside a mechanism, which bounds what each client can change by equal '
            f"weights; got {weighting!r}."
        )
    if aggregator is not None:
        raise ValueError(
            f"aggregator must be None beside a mechanism, which makes a mean of its own; got {aggregator!r}."
        )
    if compression is not None:
        raise ValueError(
            f"compression must be None beside a mechanism, whose norm and noise are those of what is sent in full; got "
            f"{compression!r}."
        )


def check_participation(mechanism: Mechanism, participation: float | Attendance, clients: int) -> None:
    """Refuse noise of clients who may be missing, and an attendance by which nobody is expected to deliver."""
    base = participation
    while type(base) is Stragglers:  # late or not, who is asked delivers
        base = base.participation
    if not isinstance(base, float) and getattr(mechanism, "at", None) != "server":
        raise ValueError(
            f"participation must draw a fixed number of clients, as 0.5 does, beside {mechanism!r}: a client that is "
            f'missing would take its noise along. Got {participation!r}; take a mechanism with at="server".'
        )
    if expected_of(participation, clients) == 0:
        raise ValueError(
            f"participation must let clients deliver, or {mechanism!r} has no mean; got {participation!r}."
        )

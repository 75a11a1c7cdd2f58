"""Variants of Factorized-FL: mixed readings, without mu, other matchings, other factors of a convolution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat._random import stream
from fedstat.federated import Federation, Phase, State, Training
from fedstat.federated.client.network import Network
from fedstat.methods import FactorizedFL
from fedstat.methods.factorizedfl import COEFFICIENTS, SENT, VELOCITY, ReadingPart
from fedstat.parameterization import Form, Rank1Sparse

#: Under this name the server remembers what random neighbours are drawn by.
KEY = "key"
Kernel = Literal["", "IF x OF", "O x IFF"]
Matching = Literal["similar", "random", "worst", "domain"]


@dataclass(frozen=True, kw_only=True)
class Mixed(FactorizedFL):
    """Factorized-FL with some parts of the other reading, or with kernels that are factorised otherwise.

    Parameters
    ----------
    switched : tuple of str
        The parts (`ReadingPart`) that do not go as `reading` says.
    kernel : {"", "IF x OF", "O x IFF"}
        How the weights of convolutions become matrices; by default as the part "arrangement" says.
    """

    switched: tuple[ReadingPart, ...] = ()
    kernel: Kernel = ""

    def _as_code(self, part: ReadingPart) -> bool:
        return (self.reading == "code") != (part in self.switched)

    def _form(self, shape: tuple[int, ...]) -> Form:
        if self.kernel and len(shape) == 4:
            return OtherKernel(shape, self.rank, kernel=self.kernel)
        return super()._form(shape)


@dataclass(frozen=True, kw_only=True)
class Watched(Mixed):
    """Records after every round what clients have in common: ``u`` and ``v``, cosines (K, K), and ``weights`` (K, K).

    Cosines are those of the last uploads of layer L-1; weights those of the means that clients start from next.
    """

    def record(self, state: State) -> Mapping[str, Tensor]:
        """Record cosines and weights of all clients."""
        everyone = torch.arange(len(state.memory[SENT]), device=state.memory[SENT].device)
        u = state.clients.rows(everyone)[basis_below_the_head(state)].flatten(1)
        return {"u": _cosines(u), "v": _cosines(state.memory[COEFFICIENTS]), "weights": self._weights(state, everyone)}


@dataclass(frozen=True, kw_only=True)
class WithoutMu(Mixed):
    """All mu are zero and stay zero; `switched` must take care that none starts filled."""

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train everything but mu."""
        (phase,) = super().phases(network, training, round)
        return (replace(phase, train=tuple(leaf for leaf in phase.train if not leaf.endswith(".mu"))),)


@dataclass(frozen=True, kw_only=True)
class Matched(Mixed):
    """A client's mean is of itself and of three others, all with equal weights.

    Parameters
    ----------
    matching : {"similar", "random", "worst", "domain"}
        The others: those with the largest cosine of v, any three, drawn anew for every client and round, those with
        the smallest cosine, or those with the next numbers in the client's group of four, which is its domain.
    others : int
        How many there are.
    """

    matching: Matching = "similar"
    others: int = 3

    def init(self, network: Network, federation: Federation) -> State:
        """Draw the key of random neighbours."""
        state = super().init(network, federation)
        key = torch.tensor(int(federation.rng.integers(2**31)), device=network.device)
        return replace(state, memory=state.memory | {KEY: key})

    def _weights(self, state: State, ids: Tensor) -> Tensor:
        v = state.memory[COEFFICIENTS].double()
        direction = v / v.norm(dim=1, keepdim=True)
        closeness = {"similar": 1.0, "worst": -1.0}.get(self.matching, 0.0) * (direction[ids] @ direction.mT)
        number = torch.arange(len(v), device=ids.device)
        if self.matching == "random":
            rng = [stream(int(state.memory[KEY]), "matching", state.round, int(k)) for k in ids]
            closeness = torch.from_numpy(np.stack([r.random(len(v)) for r in rng])).to(v)
        elif self.matching == "domain":
            size = self.others + 1
            closeness = (number // size == (ids // size)[:, None]).to(v)
        own = number == ids[:, None]
        ranked = closeness.masked_fill(~state.memory[SENT], -np.inf).masked_fill(own, np.inf)
        chosen = ranked.argsort(descending=True, stable=True)[:, : self.others + 1]
        weights = torch.zeros_like(closeness).scatter_(1, chosen, 1.0)
        weights *= own | state.memory[SENT]
        return weights / weights.sum(1, keepdim=True)


@dataclass(frozen=True)
class OtherKernel(Rank1Sparse):
    """A convolution whose matrix is (in k, out k), or (out, in k^2), so that u is no set of spatial filters."""

    kernel: Kernel = "IF x OF"

    @property
    def _matrix_shape(self) -> tuple[int, int]:
        out, inputs, k, _ = self.shape
        return (inputs * k, out * k) if self.kernel == "IF x OF" else (out, inputs * k * k)

    def compose(self, parts: dict[str, Tensor]) -> Tensor:
        """Return ``u v + mu``, arranged as the weight."""
        matrix = parts["u"] @ parts["v"] + parts["mu"]
        if self.kernel == "O x IFF":
            return matrix.reshape(self.shape)
        out, inputs, k, _ = self.shape
        return matrix.reshape(inputs, k, out, k).permute(2, 0, 1, 3)

    def matrix(self, weight: Tensor) -> Tensor:
        """Return the matrix of a weight."""
        turned = weight if self.kernel == "O x IFF" else weight.permute(1, 2, 0, 3)
        return turned.reshape(self._matrix_shape)


def basis_below_the_head(state: State) -> str:
    """Return the leaf u of layer L-1, in networks whose last layer is called head."""
    return [
        leaf for leaf in state.server if leaf.endswith(".weight.u") and not leaf.startswith(("head.", f"{VELOCITY}/"))
    ][-1]


def _cosines(rows: Tensor) -> Tensor:
    direction = rows.double() / rows.double().norm(dim=1, keepdim=True)
    return direction @ direction.mT

"""Optimisers of the server: they turn what a method aggregates into the server's step (Reddi et al. 2021, Algorithm 2).

The server's weights minus the aggregated ones are taken for a gradient. Without an optimiser, as with a learning rate
of one and no memory, the server takes over what was aggregated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstat._checks import check_fields
from fedstat.federated.client import optimizers
from fedstat.federated.client.network import Params
from fedstat.federated.client.optimizers import move, started
from fedstat.federated.slots import in_slot, is_statistic, slot
from fedstat.federated.state import State

#: The slot of the server's memory in which an optimiser keeps its state.
_MEMORY = "server"


@runtime_checkable
class ServerOptimizer(optimizers.Optimizer, Protocol):
    """The contract of a server's optimiser: that of one of local training, with its learning rate as a field.

    `fedstat.testing.check_optimizer` holds it to the same laws. ``step`` is given the server's weights and, for
    gradients, these weights minus the aggregated ones.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import fedstat as fs
    >>> @dataclass(frozen=True)
    ... class Signs:
    ...     lr: float = 0.01
    ...     def start(self, params):
    ...         return {}
    ...     def step(self, params, grads, state):
    ...         return {name: g.sign() for name, g in grads.items()}, 1.0
    >>> fs.testing.check_optimizer(Signs(), examples=1)
    >>> fs.FedAvg(server=Signs()).server
    Signs(lr=0.01)
    """

    lr: float


@dataclass(frozen=True, kw_only=True)
class SGD(optimizers.SGD):
    """A step of any length towards what was aggregated, with momentum if wished (Hsu et al. 2019, FedAvgM).

    Parameters
    ----------
    lr : float
        The server's learning rate: 1 goes all the way.
    momentum, nesterov
        As in `fedstat.SGD`.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.FedAvg(server=fs.server.SGD(momentum=0.9)).server
    SGD(momentum=0.9, nesterov=False, lr=1.0)
    """

    lr: float = 1.0
    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, lr="(0, inf)")


@dataclass(frozen=True, kw_only=True)
class Adagrad:
    """FedAdagrad (Reddi et al. 2021, Algorithm 2): steps shrink with the sum of all squared changes.

    With `beta` 0 it is ``torch.optim.Adagrad`` whose ``eps`` is `tau` and whose sums begin at its square.

    Parameters
    ----------
    lr : float
        The server's learning rate.
    beta : float
        Decay rate of the mean of changes, in [0, 1).
    tau : float
        Added to the root of the second moment, which begins at its square: the larger, the less adaptive; positive.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.FedAvg(server=fs.server.Adagrad(lr=0.1)).server
    Adagrad(lr=0.1, beta=0.0, tau=0.001)
    """

    lr: float
    beta: float = 0.0
    tau: float = 1e-3

    def __post_init__(self) -> None:
        check_fields(self, lr="(0, inf)", beta="[0, 1)", tau="(0, inf)")

    def start(self, params: Params) -> Params:
        """Return a first moment of zero, and a second one of the square of `tau`."""
        first = {f"first/{name}": torch.zeros_like(leaf) for name, leaf in params.items()}
        return first | {f"second/{name}": torch.full_like(leaf, self.tau**2) for name, leaf in params.items()}

    def step(self, params: Params, grads: Params, state: Params) -> tuple[Params, float | Tensor]:
        """Return the first moment over the root of the second, without bias correction."""
        directions = {}
        for name, g in grads.items():
            m = state[f"first/{name}"] = self.beta * state[f"first/{name}"] + (1 - self.beta) * g
            v = state[f"second/{name}"] = self.second(state[f"second/{name}"], g.square())
            directions[name] = m / (v.sqrt() + self.tau)
        return directions, 1.0

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the second moment after a round, from that before and the squared change."""
        return v + square


@dataclass(frozen=True, kw_only=True)
class Adam(Adagrad):
    """FedAdam (Reddi et al. 2021, Algorithm 2): the second moment is a running mean.

    Unlike `fedstat.Adam` it corrects no bias: the second moment begins at the square of `tau`.

    Parameters
    ----------
    lr, beta, tau
        As in `Adagrad`.
    beta2 : float
        Decay rate of the second moment, in [0, 1).

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.FedAvg(server=fs.server.Adam(lr=0.01)).server
    Adam(lr=0.01, beta=0.9, tau=0.001, beta2=0.99)
    """

    beta: float = 0.9
    beta2: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, beta2="[0, 1)")

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the running mean of squared changes."""
        return self.beta2 * v + (1 - self.beta2) * square


@dataclass(frozen=True, kw_only=True)
class Yogi(Adam):
    """FedYogi (Reddi et al. 2021, Algorithm 2): the second moment moves by the square, up or down.

    Parameters
    ----------
    lr, beta, tau, beta2
        As in `Adam`.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.FedAvg(server=fs.server.Yogi(lr=0.01)).server
    Yogi(lr=0.01, beta=0.9, tau=0.001, beta2=0.99)
    """

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the moment, moved towards the square by a share of the square."""
        return v - (1 - self.beta2) * square * (v - square).sign()


SERVER_OPTIMIZERS: dict[str, type[SGD] | type[Adagrad]] = {"sgd": SGD, "adagrad": Adagrad, "adam": Adam, "yogi": Yogi}


@torch.no_grad()
def served(optimizer: ServerOptimizer, before: State, after: State, taken_over: Iterable[str]) -> State:
    """Return the state after a round with the server moved by its optimiser, from the aggregated state.

    Running statistics are taken over as they were aggregated: a longer step could turn a variance negative. So is what
    a method's server keeps in the slots `taken_over`, which no client trains.
    """
    masks = {name: mask.any(0) for name, mask in after.shared.items()}  # what nobody shares keeps its value
    untouched = tuple(f"{name}/" for name in taken_over)
    weights = {
        name: leaf
        for name, leaf in before.server.items()
        if not (name.startswith(untouched) or is_statistic(name)) and (name not in masks or masks[name].any())
    }
    memory = {name: value.clone() for name, value in slot(before.memory, _MEMORY).items()}
    memory = memory or started(optimizer, weights)
    grads = {name: leaf - after.server[name] for name, leaf in weights.items()}
    moved = {name: leaf.clone() for name, leaf in weights.items()}
    directions, divisor = optimizer.step(weights, grads, memory)
    move(moved, directions, optimizer.lr, divisor)
    moved |= {name: torch.where(masks[name], leaf, weights[name]) for name, leaf in moved.items() if name in masks}
    return replace(after, server=after.server | moved, memory=after.memory | in_slot(memory, _MEMORY))

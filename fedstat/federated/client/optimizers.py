"""Optimisers of local training, for a stack of clients or one client alike.

``torch.optim`` cannot serve a stack: under momentum it moves a client whose gradient is zero because it has finished
its batches. Here an optimiser says which way to go, and the engine goes there with the clients that are still at work.
While a client is at work its steps equal those of ``torch.optim`` on that client alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstat._checks import check_fields
from fedstat.federated.client.network import Params

if TYPE_CHECKING:
    from fedstat.federated.client.local import Training

#: Learning rate of all leaves, of each by name, or of each client (c,).
Rate = float | Mapping[str, float] | Tensor


@runtime_checkable
class Optimizer(Protocol):
    """The contract of an optimiser: settings as fields, and two functions of tensors.

    Leaves, gradients and state are dictionaries of tensors: (...) for a client alone, (c, ...) for a stack of c. An
    element's direction must depend on its own client's tensors alone; ``fedstat.testing.check_optimizer`` checks that.

    Examples
    --------
    Signs of gradients, with a memory (Bernstein et al. 2018, signSGD with momentum):

    >>> from dataclasses import dataclass
    >>> import torch, fedstat as fs
    >>> @dataclass(frozen=True)
    ... class SignSGD:
    ...     momentum: float = 0.9
    ...     def start(self, params):
    ...         return {name: torch.zeros_like(leaf) for name, leaf in params.items()}
    ...     def step(self, params, grads, state):
    ...         for name, g in grads.items():
    ...             state[name] = self.momentum * state[name] + (1 - self.momentum) * g
    ...         return {name: m.sign() for name, m in state.items()}, 1.0
    >>> fs.testing.check_optimizer(SignSGD(), examples=3)
    >>> fs.Training(lr=0.01, optimizer=SignSGD()).lr
    0.01
    """

    def start(self, params: Params) -> Params:
        """Return the state before the first step; names are free."""
        ...

    def step(self, params: Params, grads: Params, state: Params) -> tuple[Params, float | Tensor]:
        """Return directions d by leaf and a divisor b, so that leaves move by ``-lr / b * d``; `state` may change.

        The divisor is a number, or has shape (c,); bias corrections go there, so that they round once.
        """
        ...


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, as ``torch.optim.SGD`` without dampening.

    Parameters
    ----------
    momentum : float
        Heavy-ball momentum, in [0, 1).
    nesterov : bool
        Step along ``g + momentum v`` instead of along the velocity v.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.Training(lr=0.1, optimizer=fs.SGD(0.9, nesterov=True)).optimizer
    SGD(momentum=0.9, nesterov=True)
    """

    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_fields(self, momentum="[0, 1)")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs momentum, and momentum is 0.")

    def start(self, params: Params) -> Params:
        """Return a velocity of zero for each leaf."""
        return {name: torch.zeros_like(leaf) for name, leaf in params.items()} if self.momentum else {}

    def step(self, params: Params, grads: Params, state: Params) -> tuple[Params, float | Tensor]:
        """Return the gradient, or the velocity."""
        if not self.momentum:
            return grads, 1.0
        velocity, steps = [state[name] for name in grads], list(grads.values())
        torch._foreach_mul_(velocity, self.momentum)
        torch._foreach_add_(velocity, steps)
        if self.nesterov:
            velocity = [g + self.momentum * v for g, v in zip(steps, velocity, strict=True)]
        return dict(zip(grads, velocity, strict=True)), 1.0


@dataclass(frozen=True)
class Adam:
    """Adam with bias correction, as ``torch.optim.Adam`` (Kingma and Ba 2015, Algorithm 1).

    Parameters
    ----------
    betas : tuple of float
        Decay rates of the two moments, each in [0, 1).
    eps : float
        Added to the root of the second moment; positive.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.Training(lr=0.001, optimizer=fs.Adam((0.9, 0.95))).optimizer
    Adam(betas=(0.9, 0.95), eps=1e-08)
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        check_fields(self, eps="(0, inf)")
        betas = self.betas
        if not (isinstance(betas, tuple | list) and len(betas) == 2 and all(0 <= b < 1 for b in betas)):
            raise ValueError(f"betas must be two numbers in [0, 1), got {betas!r}.")
        object.__setattr__(self, "betas", (float(betas[0]), float(betas[1])))

    def start(self, params: Params) -> Params:
        """Return zero for both moments of each leaf, and no step taken."""
        zeros = {
            f"{moment}/{name}": torch.zeros_like(p) for moment in ("first", "second") for name, p in params.items()
        }
        return {**zeros, "steps": torch.zeros((), dtype=next((p.dtype for p in params.values()), None))}

    def step(self, params: Params, grads: Params, state: Params) -> tuple[Params, float | Tensor]:
        """Return the first moment over the root of the second."""
        b1, b2 = self.betas
        state["steps"] = state["steps"] + 1
        taken: Any = state["steps"]
        taken = taken.double() if taken.dim() else taken.item()
        root = (1 - b2**taken) ** 0.5
        directions = {}
        for name, g in grads.items():
            m, v = state[f"first/{name}"], state[f"second/{name}"]
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            root_mean_square = v.sqrt().div_(along_clients(root, v)).add_(self.eps)
            directions[name] = torch.div(m, root_mean_square, out=root_mean_square)
        return directions, 1 - b1**taken


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam whose weight decay does not pass through the moments, as ``torch.optim.AdamW`` (Loshchilov and Hutter 2019).

    Parameters
    ----------
    betas, eps
        As in `Adam`.
    decay : float
        Every step shrinks weights by the factor ``1 - lr * decay``; not negative. The ``weight_decay`` of `Training`
        is another thing, a penalty whose gradient goes through the moments.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.Training(lr=0.001, optimizer=fs.AdamW(decay=0.01)).optimizer
    AdamW(betas=(0.9, 0.999), eps=1e-08, decay=0.01)
    """

    decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, decay="[0, inf)")

    def step(self, params: Params, grads: Params, state: Params) -> tuple[Params, float | Tensor]:
        """Return Adam's direction plus the decay times the weights."""
        directions, divisor = super().step(params, grads, state)
        # what shrinks the weights is not to be divided by the bias correction
        return {n: d + self.decay * along_clients(divisor, d) * params[n] for n, d in directions.items()}, divisor


OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def started(optimizer: Optimizer, params: Params) -> Params:
    """Return an optimiser's state before the first step, checked: a dictionary of tensors."""
    state = optimizer.start(params)
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{type(optimizer).__name__}.start must return tensors by name, got {name} = {value!r}; let a count be "
                "torch.zeros((), dtype=...), of the leaves' dtype."
            )
    return state


@torch.no_grad()
def descend(
    params: Params,
    grads: Params,
    state: Params,
    training: Training,
    lr: Rate,
    *,
    stacked: bool,
    moves: Params | None = None,
    active: Tensor | None = None,
) -> None:
    """Take one step in place: clip the gradients, add the penalty's, and go where the optimiser says.

    Where `moves` is false an element's gradient counts as zero, the penalty's too. If `stacked`, clients lie along the
    first axis, (c, ...), and only those that are `active`, (c,), move; by default all.
    """
    if training.clip_norm is not None:
        grads = clip(grads, training.clip_norm, stacked=stacked)
    if training.weight_decay:
        grads = {name: g + training.weight_decay * params[name] for name, g in grads.items()}
    grads = {name: grads[name] for name in params if name in grads}  # an optimiser sees them in the leaves' order
    grads |= {name: torch.where(mask, grads[name], 0) for name, mask in (moves or {}).items() if name in grads}
    directions, divisor = training.steps.step(params, grads, state)
    move(params, directions, lr, divisor, active)


@torch.no_grad()
def move(
    params: Params, directions: Params, lr: Rate, divisor: float | Tensor = 1.0, active: Tensor | None = None
) -> None:
    """Move leaves in place by ``-lr / divisor`` times their directions; only rows that are `active` (c,), if given."""
    for name, direction in directions.items():  # a leaf at a time, while it is in the cache
        rate = lr[name] if isinstance(lr, Mapping) else lr
        if active is not None:
            direction = torch.where(along_clients(active, direction), direction, 0)
        # rates by leaf round the product first, as they always did
        if isinstance(rate, Tensor) or isinstance(divisor, Tensor) or (isinstance(lr, Mapping) and divisor == 1.0):
            params[name].sub_(along_clients(rate / divisor, direction) * direction)
        else:
            params[name].add_(direction, alpha=-rate / divisor)


def along_clients(values: Any, like: Tensor) -> Any:
    """Reshape what there is one of for each client, (c,), so that it broadcasts against `like` (c, ...)."""
    if not isinstance(values, Tensor):
        return values
    return values.to(like.device, like.dtype if values.is_floating_point() else None).view(-1, *[1] * (like.dim() - 1))


def in_rows(leaf: Tensor) -> Tensor:
    """Lay the numbers of each client, (c, ...), in a row, (c, p), whatever their number of axes."""
    return leaf.unsqueeze(-1).flatten(1)


def inner_products(one: Params, other: Params) -> Tensor:
    """Return the inner products of clients' leaves, (m, ...) and (n, ...), over all in `one`: (m, n) in float64."""
    return torch.stack([in_rows(leaf.double()) @ in_rows(other[name].double()).T for name, leaf in one.items()]).sum(0)


def clip(grads: Params, most: float, *, stacked: bool) -> Params:
    """Scale each client's gradients so that their norm, over all leaves together, is at most `most`.

    As ``torch.nn.utils.clip_grad_norm_`` does for one client.
    """
    squares = [in_rows(g.square()).sum(1) if stacked else g.square().sum() for g in grads.values()]
    norm = torch.stack(squares).sum(0).sqrt()
    factor = (most / (norm + 1e-6)).clamp(max=1)
    return {name: g * (along_clients(factor, g) if stacked else factor) for name, g in grads.items()}

"""SGD and Adam for a stack of clients, where rows that have finished their batches stand still.

``torch.optim`` cannot do that: under momentum it moves a row whose gradient is zero. While a row is active its
steps equal those of ``torch.optim`` on that client alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedstat.federated.network import Params

Rate = float | Mapping[str, float]


def _rows(active: Tensor, like: Tensor) -> Tensor:
    """Reshape a row mask (K,) so that it broadcasts against `like` (K, ...)."""
    return active.view(-1, *[1] * (like.dim() - 1))


@dataclass
class SGD:
    """Stochastic gradient descent with heavy-ball momentum, as ``torch.optim.SGD``.

    Its state is `velocity`; where that `lasts` beyond the phase, rows that have finished keep theirs.
    """

    lr: Rate
    momentum: float = 0.0
    velocity: Params = field(default_factory=dict)
    lasts: bool = False

    @torch.no_grad()
    def step(self, params: Params, grads: Params, active: Tensor | None) -> None:
        """Update `params` in place; `active` (K,) marks the rows that move, None means all."""
        steps = {name: grads[name] for name in params}
        if self.momentum:
            if not self.velocity:
                self.velocity = {name: torch.zeros_like(p) for name, p in params.items()}
            if self.lasts and active is not None:
                moved = {name: self.momentum * v + steps[name] for name, v in self.velocity.items()}
                self.velocity = {n: torch.where(_rows(active, v), v, self.velocity[n]) for n, v in moved.items()}
                steps = moved
            else:  # an inactive row may change its velocity: it never moves again in this phase
                torch._foreach_mul_(list(self.velocity.values()), self.momentum)
                torch._foreach_add_(list(self.velocity.values()), list(steps.values()))
                steps = self.velocity
        if active is not None:
            steps = {name: torch.where(_rows(active, g), g, 0) for name, g in steps.items()}
        if isinstance(self.lr, Mapping):
            torch._foreach_add_(list(params.values()), [self.lr[name] * g for name, g in steps.items()], alpha=-1)
        else:
            torch._foreach_add_(list(params.values()), list(steps.values()), alpha=-self.lr)


@dataclass
class Adam:
    """Adam with bias correction, as ``torch.optim.Adam``."""

    lr: Rate
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    steps: int = 0
    first: Params = field(default_factory=dict)
    second: Params = field(default_factory=dict)

    @torch.no_grad()
    def step(self, params: Params, grads: Params, active: Tensor | None) -> None:
        """Update `params` in place; `active` (K,) marks the rows that move, None means all.

        One step count serves all rows, since a client is active without a break from its first batch to its
        last.
        """
        self.steps += 1
        b1, b2 = self.betas
        root = (1 - b2**self.steps) ** 0.5
        for name, p in params.items():
            g = grads[name]
            if name not in self.first:
                self.first[name], self.second[name] = torch.zeros_like(p), torch.zeros_like(p)
            m, v = self.first[name], self.second[name]
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            step = m / (v.sqrt() / root + self.eps)
            lr = self.lr[name] if isinstance(self.lr, Mapping) else self.lr
            step = step if active is None else torch.where(_rows(active, step), step, 0)
            p.add_(step, alpha=-lr / (1 - b1**self.steps))

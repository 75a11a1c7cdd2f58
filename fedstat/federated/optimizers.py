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


def _rows(active: Tensor | None, like: Tensor) -> Tensor | None:
    """Reshape a row mask (K,) so that it broadcasts against `like` (K, ...)."""
    return None if active is None else active.view(-1, *[1] * (like.dim() - 1))


Rate = float | Mapping[str, float]


def _rate(lr: Rate, name: str) -> float:
    """Learning rate of one leaf: of all, or by name."""
    return lr[name] if isinstance(lr, Mapping) else lr


@dataclass
class SGD:
    """Stochastic gradient descent with heavy-ball momentum, as ``torch.optim.SGD``."""

    lr: Rate
    momentum: float = 0.0
    velocity: Params = field(default_factory=dict)

    @torch.no_grad()
    def step(self, params: Params, grads: Params, active: Tensor | None) -> None:
        """Update `params` in place; `active` (K,) marks the rows that move, None means all."""
        for name, p in params.items():
            g, rows = grads[name], _rows(active, p)
            if rows is not None:
                g = torch.where(rows, g, 0)
            if self.momentum:
                v = self.velocity.get(name)
                if v is None:
                    v = self.velocity[name] = torch.zeros_like(p)
                # an inactive row may change its velocity: it never moves again in this phase
                v.mul_(self.momentum).add_(g)
                g = v if rows is None else torch.where(rows, v, 0)
            p.add_(g, alpha=-_rate(self.lr, name))


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
            g, rows = grads[name], _rows(active, p)
            if name not in self.first:
                self.first[name], self.second[name] = torch.zeros_like(p), torch.zeros_like(p)
            m, v = self.first[name], self.second[name]
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            step = m / (v.sqrt() / root + self.eps)
            scale = _rate(self.lr, name) / (1 - b1**self.steps)
            p.add_(step if rows is None else torch.where(rows, step, 0), alpha=-scale)

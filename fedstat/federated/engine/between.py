"""What a method adds to the gradients of its objective, and puts back after a step: its ``pull`` and ``constrain``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from fedstat.federated.client.local import Context, Phase
from fedstat.federated.client.network import Params, apart
from fedstat.federated.client.optimizers import along_clients
from fedstat.federated.method import Method, naming, returned


@dataclass(frozen=True, eq=False)
class Between:
    """The two steps of a method in a phase, for a stack of clients, along the first axis, or for one alone.

    ``when`` says in words when the phase takes place; ``own`` are the steps of local training that the method has of
    its own.
    """

    method: Method
    phase: Phase
    when: str
    context: Context
    stacked: bool
    own: frozenset[str]

    def of(self, rows: slice | Tensor) -> Between:
        """Return the same for some of the stacked clients."""
        received, aux = ({n: v[rows] for n, v in held.items()} for held in (self.context.received, self.context.aux))
        return replace(self, context=replace(self.context, received=received, aux=aux))

    @torch.no_grad()
    def pull(self, params: Params) -> Params:
        """Return what is added to the gradients at `params`, of leaves that train; nothing without a pull."""
        if "pull" not in self.own:
            return {}
        found = self._call("pull", params)
        # what lies in a leaf's own memory would move with the leaf
        return apart({name: found[name] for name in self.phase.train if name in found}, params)

    @torch.no_grad()
    def constrain(self, params: Params, rows: Tensor | None = None) -> None:
        """Put back in place what a step moved where it may not be, for those of `rows` (c,), if given."""
        if "constrain" not in self.own:
            return
        for name, value in self._call("constrain", params).items():
            leaf = params[name]
            leaf.copy_(value if rows is None else torch.where(along_clients(rows, leaf), value, leaf))

    def _call(self, step: Literal["pull", "constrain"], params: Params) -> Params:
        method = self.method

        def called(p: Params, r: Params, a: Params) -> Params:
            with naming(method, step, self.when, p):
                found = getattr(method, step)(p, Context(r, a, self.phase.name))
            check_leaves(method, step, found, p)
            return dict(found)

        each: Callable[..., Any] = torch.vmap(called) if self.stacked else called
        return each({name: leaf.detach() for name, leaf in params.items()}, self.context.received, self.context.aux)


def check_leaves(method: Method, step: str, found: Params, leaves: Params) -> None:
    """Refuse what is no dict, and what a step returned for no leaf, or in another shape than the leaf's."""
    returned(method, step, found, Mapping, "a dict of tensors by leaf")
    for name, value in found.items():
        if name not in leaves or not isinstance(value, Tensor) or value.shape != leaves[name].shape:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            fits = f"shape {tuple(leaves[name].shape)}" if name in leaves else f"one of the leaves {', '.join(leaves)}"
            raise ValueError(f"{type(method).__name__}.{step}: {name!r} must have {fits}, got {got}.")

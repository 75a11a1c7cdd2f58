"""Leaves by their names: whose they are, which are statistics, and slots, which hold copies of a network's leaves."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from fedstat._checks import names
from fedstat.federated.client.network import Network, Params


def share_all_but(network: Network, personal: Collection[str]) -> Params:
    """Return masks under which the leaves in `personal` stay with the client and all others are shared.

    Raises
    ------
    ValueError
        If `personal` names a leaf that the network does not have, which would be shared under its right name.

    Examples
    --------
    Leaves without a mask are shared; of these two, no element is:

    >>> import numpy as np
    >>> import fedstat as fs
    >>> from fedstat.federated import build, share_all_but
    >>> network = build(fs.models.mlp(4, 3, 2), np.random.default_rng(0))
    >>> masks = share_all_but(network, ["head.weight", "head.bias"])
    >>> {name: bool(mask.any()) for name, mask in masks.items()}
    {'head.weight': False, 'head.bias': False}
    """
    names("personal", personal)
    if unknown := {*personal} - network.shapes.keys():
        leaves = ", ".join(network.shapes)
        raise ValueError(f"personal must name leaves of the network, which are {leaves}; got {sorted(unknown)}.")
    return {
        name: torch.zeros((1, *[1] * len(shape)), dtype=torch.bool, device=network.device)
        for name, shape in network.shapes.items()
        if name in personal
    }


def check_masks(of: str, shared: Params, server: Params, clients: int) -> None:
    """Refuse masks that are no masks of stacked leaves, of `clients` rows or of one that stands for all."""
    if unknown := shared.keys() - server.keys():
        raise ValueError(f"shared names unknown leaves {sorted(unknown)}; leaves are {', '.join(server)}.")
    for name, mask in shared.items():
        if not (isinstance(mask, Tensor) and mask.dtype == torch.bool):
            got = f"dtype {mask.dtype}" if isinstance(mask, Tensor) else repr(mask)
            raise ValueError(f"{of}.shared: the mask of {name} must be a tensor of bool, got {got}.")
        shape = tuple(server[name].shape)
        fits = mask.dim() == len(shape) + 1 and mask.shape[0] in (1, clients)
        if not fits or any(n not in (1, m) for n, m in zip(mask.shape[1:], shape, strict=True)):
            hint = "; put mask[None] for one mask that all clients share" if mask.dim() == len(shape) else ""
            raise ValueError(
                f"{of}.shared: the mask of {name} has shape {tuple(mask.shape)}; it must have a client axis first, of "
                f"length 1 or {clients}, and then fit {shape}{hint}."
            )


def is_statistic(leaf: str) -> bool:
    """Tell whether a leaf is a running statistic of batch norm, by its name."""
    return leaf.endswith((".running_mean", ".running_var"))


def slot(params: Params, name: str) -> Params:
    """Return one slot's leaves by their own names: ``slot(params, "personal")["w"]`` is ``params["personal/w"]``.

    Examples
    --------
    >>> import torch
    >>> from fedstat.federated import slot
    >>> slot({"w": torch.zeros(2), "personal/w": torch.ones(2)}, "personal")
    {'w': tensor([1., 1.])}
    """
    return {leaf.removeprefix(f"{name}/"): value for leaf, value in params.items() if leaf.startswith(f"{name}/")}


def without_slots(params: Params) -> Params:
    """Return the network's own leaves, without those of slots.

    Examples
    --------
    >>> import torch
    >>> from fedstat.federated import without_slots
    >>> list(without_slots({"w": torch.zeros(2), "personal/w": torch.ones(2)}))
    ['w']
    """
    return {name: leaf for name, leaf in params.items() if "/" not in name}


def in_slot(params: Params, name: str) -> Params:
    """Return leaves under the names that they have in a slot; the inverse of `slot`.

    Examples
    --------
    >>> import torch
    >>> from fedstat.federated import in_slot
    >>> list(in_slot({"w": torch.ones(2)}, "personal"))
    ['personal/w']
    """
    return {f"{name}/{leaf}": value for leaf, value in params.items()}

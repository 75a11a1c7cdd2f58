"""Leaves by their names: whose they are, which are statistics, and slots, which hold copies of a network's leaves."""

from __future__ import annotations

from collections.abc import Collection

import torch

from fedstat.federated.client.network import Network, Params


def share_all_but(network: Network, personal: Collection[str]) -> Params:
    """Return masks under which the leaves in `personal` stay with the client and all others are shared.

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
    return {
        name: torch.zeros((1, *[1] * len(shape)), dtype=torch.bool, device=network.device)
        for name, shape in network.shapes.items()
        if name in personal
    }


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

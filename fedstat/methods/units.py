"""Shared hidden units: from one boolean per unit to masks of the elements that belong to the unit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from fedstat.federated.client.network import Network, Params


def share_units(network: Network, shared_units: Mapping[str, np.ndarray], clients: int) -> Params:
    """Expand masks of units to masks of leaves; a unit owns the leaves that `Network.unit_leaves` lists.

    A mask, (units,) for all clients or (clients, units), is true where a unit is shared; those of leaves are
    broadcastable to (clients, ...). Everybody shares layers that are not named.
    """
    shared: Params = {}
    if not isinstance(shared_units, Mapping):
        raise ValueError(
            f'shared_units must map layer names to masks, such as {{"hidden": mask}}, got {shared_units!r}.'
        )
    for layer, mask in shared_units.items():
        leaves = network.unit_leaves(layer)
        shapes = network.shapes
        units = shapes[leaves[0]][0]
        values = np.asarray(mask)
        if values.dtype != bool or values.shape not in ((units,), (clients, units)):
            raise ValueError(
                f"the mask of layer {layer!r} must be boolean with shape ({units},) or ({clients}, {units}), got "
                f"{values.dtype} {values.shape}."
            )
        per_client = torch.from_numpy(np.atleast_2d(values)).to(network.device)
        for name in leaves:
            shared[name] = per_client.view(len(per_client), units, *[1] * (len(shapes[name]) - 1))
    return shared

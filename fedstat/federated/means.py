"""Means over clients, taken of changes: the server's step to the participants, and mixtures of models."""

from __future__ import annotations

import torch
from torch import Tensor

from fedstat.federated.client.network import Params
from fedstat.federated.state import Federation, Update


def weights_of_all(weighting: str, federation: Federation) -> Tensor:
    """Return the weights of all K clients, (K,), which sum to one: by their training samples, or equal."""
    n = torch.from_numpy(federation.clients.train.n).to(federation.network.device, federation.network.dtype)
    n = n if weighting == "samples" else torch.ones_like(n)
    return n / n.sum()


def step_to_mean(server: Params, update: Update, shared: Params) -> Params:
    """Move shared elements by the weighted mean of the participants' changes.

    `shared` holds the participants' masks; the mean runs over those that share an element, which else stays as it is.
    """
    new = {}
    for name, leaf in server.items():
        mask = shared.get(name)
        if mask is not None and not mask.any():
            new[name] = leaf
            continue
        change = update.end[name] - update.start[name]
        if mask is None or len(mask) == 1:
            mean = torch.tensordot(update.weight, change, dims=1)
        else:
            weight = update.weight.view(-1, *[1] * (change.dim() - 1)) * mask
            total = weight.sum(0)
            mean = (weight * change).sum(0) / torch.where(total > 0, total, 1)
        new[name] = leaf + mean if mask is None else torch.where(mask.any(0), leaf + mean, leaf)
    return new


def mixed(centre: Params, models: Params, weights: Tensor) -> Params:
    """Return means of `models` (k, ...) by `weights` (..., k) that sum to one, of the leaves in `centre`.

    They are taken of changes from `centre`, so that models which equal it are mixed to it bit for bit.
    """
    return {n: leaf + torch.tensordot(weights.to(leaf.dtype), models[n] - leaf, dims=1) for n, leaf in centre.items()}

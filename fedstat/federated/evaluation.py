"""Evaluation of every client's model on that client's held-out samples, stacked like training."""

from __future__ import annotations

import torch
from torch import Tensor

from fedstat.data import Samples
from fedstat.federated.losses import LossName, metrics
from fedstat.federated.network import Network, Params

#: Outputs of hidden layers alive at once, in floats: bounds the memory of evaluation.
_BLOCK = 2**22


@torch.no_grad()
def evaluate(
    network: Network, loss: LossName, params: Params, x: Tensor, y: Tensor, n: Tensor, chunk: int
) -> dict[str, Tensor]:
    """Return metrics per client, each (K,), in float64.

    Parameters
    ----------
    network, loss
        What is evaluated, and for which task.
    params : dict of Tensor, each (K, ...)
        One model per client.
    x, y : Tensor, shapes (K, n_max, ...) and (K, n_max)
        Held-out samples, padded.
    n : Tensor of int, shape (K,)
        Samples per client.
    chunk : int
        Clients evaluated at once.
    """
    width = max([shape[0] for shape in network.shapes.values() if shape] + [x[0, 0].numel()])
    block = max(1, _BLOCK // (chunk * width))
    valid = torch.arange(x.shape[1], device=x.device) < n[:, None]
    parts = []
    for first in range(0, len(n), chunk):
        rows = slice(first, first + chunk)
        weights = {name: leaf[rows] for name, leaf in params.items()}
        outputs = torch.cat([network.forward(weights, piece) for piece in x[rows].split(block, dim=1)], dim=1)
        parts.append(metrics(outputs.double(), y[rows], valid[rows], loss))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def to_tensors(samples: Samples, dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return x, y and n of `samples` on the device."""
    y = torch.from_numpy(samples.y).to(device)
    return (
        torch.from_numpy(samples.x).to(device, dtype),
        y.to(dtype) if y.is_floating_point() else y.long(),
        torch.from_numpy(samples.n).to(device),
    )

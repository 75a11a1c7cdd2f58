"""Evaluation of every client's models on that client's held-out samples, stacked like training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedstat.data import Samples
from fedstat.federated.local import Learner
from fedstat.federated.losses import LossName, metrics
from fedstat.federated.method import Predictor
from fedstat.federated.network import Params
from fedstat.federated.training import chunk_size

#: Outputs of hidden layers alive at once, in floats: bounds the memory of evaluation.
_BLOCK = 2**22
#: Stacked leaves alive at once, in bytes.
_MODELS = 2**28


HeldOut = tuple[Tensor, Tensor, Tensor]


def evaluate(
    learner: Learner,
    loss: LossName,
    models: Callable[[Tensor], dict[str, Predictor]],
    held_out: HeldOut,
    chunk: int | None = None,
) -> pd.DataFrame:
    """Return metrics of all clients, in float64, as rows (client, estimand, metric, value).

    Parameters
    ----------
    learner, loss
        What is evaluated, and for which task.
    models : callable
        Models of the clients with given ids, by the name of the estimand.
    held_out : tuple of Tensor, shapes (K, n_max, ...), (K, n_max) and (K,)
        Inputs, targets and counts of held-out samples.
    chunk : int, optional
        Clients evaluated at once; by default as many as training takes.
    """
    x, y, n = held_out
    step = max(1, _MODELS // learner.network.bytes)
    found: dict[tuple[str, str], list[Tensor]] = {}
    for first in range(0, len(n), step):
        part = slice(first, first + step)
        ids = torch.arange(first, min(first + step, len(n)), device=n.device)
        for estimand, predictor in models(ids).items():
            for metric, values in _measured(learner, loss, predictor, (x[part], y[part], n[part]), chunk).items():
                found.setdefault((estimand, metric), []).append(values)
    tables = [
        pd.DataFrame(
            {"client": np.arange(len(n)), "estimand": estimand, "metric": metric, "value": torch.cat(values).cpu()}
        )
        for (estimand, metric), values in found.items()
    ]
    return pd.concat(tables, ignore_index=True)


@torch.no_grad()
def _measured(
    learner: Learner, loss: LossName, predictor: Predictor, held_out: HeldOut, chunk: int | None
) -> dict[str, Tensor]:
    """Metrics of some clients, each (m,)."""
    x, y, n = held_out
    width = max([shape[0] for shape in learner.network.weights.values() if shape] + [x[0, 0].numel()])
    size = min(len(n), chunk or chunk_size(predictor.params))
    block = max(1, _BLOCK // (size * width))
    valid = torch.arange(x.shape[1], device=x.device) < n[:, None]

    def single(params: Params, piece: Tensor) -> Tensor:
        return predictor.outputs(learner, params, piece)

    parts = []
    for first in range(0, len(n), size):
        rows = slice(first, first + size)
        params = {name: leaf[rows] for name, leaf in predictor.params.items()}
        outputs = torch.cat([torch.vmap(single)(params, piece) for piece in x[rows].split(block, dim=1)], dim=1)
        parts.append(metrics(outputs.double(), y[rows], valid[rows], loss))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def to_tensors(samples: Samples, dtype: torch.dtype, device: torch.device) -> HeldOut:
    """Return x, y and n of `samples` on the device."""
    y = torch.from_numpy(samples.y).to(device)
    return (
        torch.from_numpy(samples.x).to(device, dtype),
        y.to(dtype) if y.is_floating_point() else y.long(),
        torch.from_numpy(samples.n).to(device),
    )

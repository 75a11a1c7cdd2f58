"""What methods for tasks of classes share: counts of labels, shifts of logits, and means of features by class."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.local import ClientData, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.state import Federation

#: How far below a sample's lowest logit that of a class lies which the client lacks: its exponential is zero.
_FAR = 1000.0


def head_outputs(method: Method, network: Network, federation: Federation) -> int:
    """Return Q, how many outputs the network's head has; without one for each class, the error names the method."""
    outputs, classes = network.shapes[network.head_leaves[0]][0], federation.clients.classes
    if classes is None or outputs < len(classes):
        raise ValueError(
            f"{type(method).__name__} needs class labels and a network with one output for each class, got {outputs} "
            f"output(s) for {'numbers' if classes is None else f'{len(classes)} classes'}."
        )
    return outputs


def all_counts(method: Method, network: Network, federation: Federation) -> Tensor:
    """Return how many training samples of each class every client has, (K, Q); errors are those of `head_outputs`."""
    outputs, train = head_outputs(method, network, federation), federation.clients.train
    counts = [np.bincount(train.client(k)[1], minlength=outputs) for k in range(len(federation.clients))]
    return torch.from_numpy(np.stack(counts))


def members(data: ClientData, outputs: int) -> Tensor:
    """Return which of one client's samples train and are of which class, a mask (n_max, Q)."""
    return (data.y[:, None] == torch.arange(outputs, device=data.y.device)) & data.valid[:, None]


def moments(learner: Learner, params: Params, data: ClientData) -> tuple[Tensor, Tensor, Tensor]:
    """Return features' sums and samples by class (Q, f), (Q,), and their squared norms' sum; in evaluation mode."""
    z, outputs = learner.network.features(params, data.x)
    member = members(data, outputs.shape[-1])
    z = torch.where(data.valid[:, None], z, 0)
    return member.to(z.dtype).T @ z, member.sum(0).to(z.dtype), z.square().sum()


def shifted(outputs: Tensor, by: Tensor) -> Tensor:
    """Add `by`, (Q,), to logits (B, Q); where it is minus infinity a logit counts as one far below the sample's others.

    Its exponential is zero all the same, and losses that look at all classes, as under label smoothing, are finite.
    """
    lacking, moved = by == -torch.inf, outputs + by
    least = torch.where(lacking, torch.inf, moved.detach()).amin(-1, keepdim=True)
    return torch.where(lacking, least - _FAR, moved)


def class_means(sums: Tensor, counts: Tensor) -> Tensor:
    """Return the mean features of each class (Q, f), zero where it has no samples."""
    return sums / counts.clamp(min=1)[:, None]

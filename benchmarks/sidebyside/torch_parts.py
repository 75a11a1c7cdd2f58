"""The networks and losses in plain torch, for the peers that are built on it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.sidebyside.workload import Weights, Workload


class Convolutions(nn.Module):
    """Two convolutions with pooling, and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 64, 5)
        self.hidden, self.head = nn.Linear(1024, 512), nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of images 28 x 28."""
        x = nn.functional.max_pool2d(self.conv1(x.unsqueeze(1)).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.head(self.hidden(x.flatten(1)).relu())


class Dense(nn.Module):
    """One hidden layer of 200 units, and one output."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(100, 200), nn.Linear(200, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit for each sample."""
        return self.head(self.hidden(x).relu()).squeeze(-1)


def module(work: Workload) -> nn.Module:
    """Build the network with the weights that all peers start from."""
    built = Dense() if work.dense else Convolutions()
    built.load_state_dict({name: torch.from_numpy(leaf) for name, leaf in work.start.items()})
    return built


def loss(work: Workload) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean loss of a batch."""
    return nn.functional.binary_cross_entropy_with_logits if work.dense else nn.functional.cross_entropy


def tensors(work: Workload) -> tuple[Tensor, Tensor]:
    """Return inputs and labels, these as floats for the logistic loss."""
    y = torch.from_numpy(work.y)
    return torch.from_numpy(work.x), y.float() if work.dense else y


def weights(built: nn.Module) -> Weights:
    """Copy a module's weights."""
    return {name: leaf.detach().numpy().copy() for name, leaf in built.named_parameters()}

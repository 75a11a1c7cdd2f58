"""Losses per sample, for outputs (..., B, Q), and which of them a task asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

LossName = Literal["cross_entropy", "logistic", "squared"]
Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Multinomial log-loss of logits (..., B, Q) against labels (..., B); returns (..., B)."""
    return -outputs.log_softmax(-1).gather(-1, y[..., None]).squeeze(-1)


def logistic(outputs: Tensor, y: Tensor) -> Tensor:
    """Binary log-loss of one logit (..., B, 1) against labels in {0, 1} (..., B); returns (..., B)."""
    return F.binary_cross_entropy_with_logits(outputs.squeeze(-1), y.to(outputs.dtype), reduction="none")


def squared(outputs: Tensor, y: Tensor) -> Tensor:
    """Half the squared error, (h - y)^2 / 2, of (..., B, 1) against targets (..., B); returns (..., B)."""
    return (outputs.squeeze(-1) - y).square() / 2


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "logistic": logistic, "squared": squared}


def choose_task(wanted: LossName | Loss | None, classes: int | None, outputs: int) -> LossName:
    """Return what the network's outputs mean: the loss that is wanted, or by default the one that the task asks for.

    The default, see `Training`, holds for a callable too, with which a regression network may have any number of
    outputs. If loss, task and network do not fit together, a ValueError says why.
    """
    usual: LossName = "squared" if classes is None else "logistic" if (classes, outputs) == (2, 1) else "cross_entropy"
    loss = wanted if isinstance(wanted, str) else usual
    if (loss == "squared") != (classes is None):
        raise ValueError(f'loss "{loss}" does not fit: targets are {"numbers" if classes is None else "class labels"}.')
    if loss != "cross_entropy" and outputs != 1 and not (loss == "squared" and callable(wanted)):
        raise ValueError(f'loss "{loss}" needs a network with 1 output, this one has {outputs}.')
    if loss == "logistic" and classes != 2:
        raise ValueError(f'loss "logistic" needs 2 classes, there are {classes}.')
    if loss == "cross_entropy" and outputs < (classes or 0):
        raise ValueError(f"{classes} classes need a network with {classes} outputs, this one has {outputs}.")
    return loss

"""Losses per sample and metrics per client, for outputs (..., B, outputs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
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


def choose_loss(wanted: LossName | None, classes: int | None, outputs: int) -> LossName:
    """Return the loss that is wanted, or by default the one that the task asks for.

    Parameters
    ----------
    wanted : str or None
        None picks squared error for regression, logistic loss for two classes and one output, else cross-entropy.
    classes : int or None
        Number of classes; None for regression.
    outputs : int
        The network's outputs per sample.

    Raises
    ------
    ValueError
        If loss, task and network do not fit together.
    """
    loss = wanted or (
        "squared" if classes is None else "logistic" if outputs == 1 and classes == 2 else "cross_entropy"
    )
    if (loss == "squared") != (classes is None):
        raise ValueError(f'loss "{loss}" does not fit: targets are {"numbers" if classes is None else "class labels"}.')
    if loss != "cross_entropy" and outputs != 1:
        raise ValueError(f'loss "{loss}" needs a network with 1 output, this one has {outputs}.')
    if loss == "logistic" and classes != 2:
        raise ValueError(f'loss "logistic" needs 2 classes, there are {classes}.')
    if loss == "cross_entropy" and outputs < (classes or 0):
        raise ValueError(f"{classes} classes need a network with {classes} outputs, this one has {outputs}.")
    return loss


def metrics(outputs: Tensor, y: Tensor, valid: Tensor, loss: LossName) -> dict[str, Tensor]:
    """Per-client metrics over the samples where `valid` is true.

    Parameters
    ----------
    outputs : Tensor, shape (K, n, outputs)
        The network's outputs.
    y : Tensor, shape (K, n)
        Labels or targets.
    valid : Tensor of bool, shape (K, n)
        False at padding.
    loss : str
        Name of the loss, which tells the task.

    Returns
    -------
    dict of Tensor, each (K,)
        For classification ``accuracy``, ``balanced_accuracy`` (mean recall over the classes that the client's
        samples contain), ``log_loss`` and ``majority_share``; for regression ``mse``. Where an output of a client is
        infinite or NaN, all of its metrics but ``majority_share`` are NaN; a loss may be infinite all the same.
    """
    n = valid.sum(1)
    known = (outputs.isfinite().all(-1) | ~valid).all(1)

    def of_outputs(values: Tensor) -> Tensor:
        return torch.where(known, values, torch.nan)

    def mean(values: Tensor) -> Tensor:
        return of_outputs(torch.where(valid, values, 0).sum(1) / n)

    per_sample = LOSSES[loss](outputs, y)
    if loss == "squared":
        return {"mse": 2 * mean(per_sample)}
    guess = (outputs.squeeze(-1) > 0).long() if loss == "logistic" else outputs.argmax(-1)
    hit = (guess == y).to(outputs.dtype)
    member = F.one_hot(y, 2 if loss == "logistic" else outputs.shape[-1]).to(outputs.dtype) * valid[..., None]
    counts = member.sum(1)
    recall = (member * hit[..., None]).sum(1) / counts.clamp(min=1)
    return {
        "accuracy": mean(hit),
        "balanced_accuracy": of_outputs(recall.sum(1) / (counts > 0).sum(1)),
        "log_loss": mean(per_sample),
        "majority_share": counts.amax(1) / n,
    }

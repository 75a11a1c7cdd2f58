"""Metrics of one client's model on that client's samples.

Every run reports `standard`. More are functions of one client's outputs (n, Q) and targets (n,), the functions of this
module or one's own:

>>> import torch, fedstat as fs
>>> def confidence(outputs, y):
...     return outputs.softmax(-1).amax(-1).mean()
>>> fs.testing.check_metric(confidence, classes=3)
>>> more = {"macro_f1": fs.metrics.macro_f1, "confidence": confidence}  # fs.federate(..., metrics=more)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedstat.federated.client.local import Learner
from fedstat.federated.client.losses import LOSSES

Metric = Callable[[Tensor, Tensor], Any]
_BINS = 15


def standard(learner: Learner, outputs: Tensor, y: Tensor, valid: Tensor) -> dict[str, Tensor]:
    """Return the metrics of every run, for many clients at once, over the samples where `valid` is true.

    Parameters
    ----------
    learner : Learner
        Tells the task and its loss.
    outputs : Tensor, shape (K, n, Q)
        The models' outputs.
    y : Tensor, shape (K, n)
        Labels or targets.
    valid : Tensor of bool, shape (K, n)
        False at padding.

    Returns
    -------
    dict of Tensor, each (K,)
        For classification ``accuracy``, ``balanced_accuracy`` (mean recall over the classes that the client's
        samples contain) and ``log_loss``; for regression with one output ``mse``; with a loss of one's own also
        ``loss``. Where an output of a client is infinite or NaN, all of its metrics are NaN; a loss may be infinite all
        the same.
    """
    n, known = valid.sum(1), finite(outputs, valid)

    def mean(values: Tensor, count: Tensor) -> Tensor:
        return torch.where(known, values.sum(1) / count, torch.nan)

    task, given = LOSSES[learner.task], {}
    if learner.losses is not task:
        losses = torch.zeros_like(valid, dtype=outputs.dtype)
        for k, mine in enumerate(valid):  # without padding, since a loss of one's own may look at all samples
            of_samples = learner.losses(outputs[k, mine].to(learner.network.dtype), y[k, mine])
            losses[k, mine] = of_samples.to(outputs.dtype)
        given = {"loss": mean(losses, n)}
    if learner.task == "squared":
        squared = {"mse": 2 * mean(torch.where(valid, task(outputs, y), 0), n)} if outputs.shape[-1] == 1 else {}
        return squared | given
    guess = (outputs.squeeze(-1) > 0).long() if learner.task == "logistic" else outputs.argmax(-1)
    hit = ((guess == y) & valid).to(outputs.dtype)
    member = F.one_hot(y, 2 if learner.task == "logistic" else outputs.shape[-1]).to(outputs.dtype) * valid[..., None]
    counts = member.sum(1)
    recall = (member * hit[..., None]).sum(1) / counts.clamp(min=1)
    return {
        "accuracy": mean(hit, n),
        "balanced_accuracy": mean(recall, (counts > 0).sum(1)),
        "log_loss": mean(torch.where(valid, task(outputs, y), 0), n),
    } | given


def own(metrics: Mapping[str, Metric], outputs: Tensor, y: Tensor, valid: Tensor) -> dict[str, Tensor]:
    """Return more metrics, client by client; arguments and missing values are those of `standard`.

    One that fails, or returns something else than a number, raises a ValueError that names it.
    """
    known = finite(outputs, valid).tolist()
    found: dict[str, list[float]] = {name: [] for name in metrics}
    for k, mine in enumerate(valid):
        for name, metric in metrics.items():
            found[name].append(_number(name, metric, outputs[k, mine], y[k, mine]) if known[k] else torch.nan)
    return {name: torch.tensor(values, dtype=torch.float64, device=y.device) for name, values in found.items()}


def finite(outputs: Tensor, valid: Tensor) -> Tensor:
    """Tell which clients' outputs are all finite, (K,)."""
    return (outputs.isfinite().all(-1) | ~valid).all(1)


def choose_metrics(wanted: Mapping[str, Metric] | Iterable[str]) -> dict[str, Metric]:
    """Return metrics by name, from a mapping, or from names of those in this module.

    An unknown name, one that every run reports already, and what is no function raise a ValueError.
    """
    if not isinstance(wanted, Mapping):
        listed = [wanted] if isinstance(wanted, str) else list(wanted)
        if unknown := [name for name in listed if name not in BUILT_IN]:
            raise ValueError(f"metrics must be names among {', '.join(BUILT_IN)}, or a mapping, got {unknown[0]!r}.")
        return {name: BUILT_IN[name] for name in listed}
    for name, metric in wanted.items():
        if not isinstance(name, str) or name in STANDARD:
            raise ValueError(f"metrics must have names of their own, got {name!r}, which every run reports.")
        if not callable(metric):
            raise ValueError(f"metrics[{name!r}] must be a function of outputs and targets, got {metric!r}.")
    return dict(wanted)


def macro_f1(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean over classes of the F1 score, over the classes that occur among labels or guesses; shapes (n, Q), (n,)."""
    p = probabilities(outputs)
    guess = F.one_hot(p.argmax(-1), p.shape[-1]).to(p.dtype)
    truth = F.one_hot(y, p.shape[-1]).to(p.dtype)
    both, either = 2 * (guess * truth).sum(0), guess.sum(0) + truth.sum(0)
    return (both / either)[either > 0].mean()


def calibration_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Expected calibration error in 15 equal bins of confidence (Guo et al. 2017, equation 3); shapes (n, Q), (n,).

    It is biased upwards where bins hold few samples, as those of small clients do.
    """
    confidence, guess = probabilities(outputs).max(-1)
    bins = (confidence * _BINS).ceil().long().clamp(1, _BINS) - 1
    gaps = (guess == y).to(confidence.dtype) - confidence
    return torch.zeros(_BINS, dtype=gaps.dtype, device=gaps.device).index_add(0, bins, gaps).abs().sum() / len(y)


def rmse(outputs: Tensor, y: Tensor) -> Tensor:
    """Root of the mean squared error; shapes (n, 1), (n,)."""
    return (outputs.squeeze(-1) - y).square().mean().sqrt()


def mae(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean absolute error; shapes (n, 1), (n,)."""
    return (outputs.squeeze(-1) - y).abs().mean()


def probabilities(outputs: Tensor) -> Tensor:
    """Probabilities of the classes, (n, Q), of logits (n, Q); of one logit, (n, 1), those of two classes."""
    if outputs.shape[-1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], -1)
    return outputs.softmax(-1)


def _number(name: str, metric: Metric, outputs: Tensor, y: Tensor) -> float:
    try:
        return float(metric(outputs, y))
    except Exception as error:  # a function of one's own may fail in any way
        shapes = f"outputs {tuple(outputs.shape)} and targets {tuple(y.shape)}"
        raise ValueError(f"metrics[{name!r}] gives no number for {shapes}: {error}") from None


BUILT_IN: dict[str, Metric] = {"macro_f1": macro_f1, "calibration_error": calibration_error, "rmse": rmse, "mae": mae}
STANDARD = ("accuracy", "balanced_accuracy", "log_loss", "majority_share", "mse", "loss")

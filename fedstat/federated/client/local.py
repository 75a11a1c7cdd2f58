"""The parts of local training: its settings, phases and batches, and what one client has at hand.

Everything here speaks of a single client; `fedstat.federated.engine.training` runs it for many at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor

from fedstat._checks import check_fields, number, whole
from fedstat.federated.client.losses import LOSSES, Loss, LossName
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import OPTIMIZERS, SGD, Optimizer
from fedstat.federated.client.schedules import Schedule


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a client trains in one round.

    Parameters
    ----------
    lr : float, or sequence of float
        Learning rate, not negative (zero is the fixed point that the laws test); one for each client if several.
    optimizer : {"sgd", "adam", "adamw"} or Optimizer
        An object such as ``fs.SGD(momentum=0.9, nesterov=True)``, or one's own (`Optimizer`). Its state starts afresh
        in every round and phase, unless a method keeps it (`Phase`).
    momentum : float
        Heavy-ball momentum of "sgd", in [0, 1).
    weight_decay : float
        Strength of the L2 penalty ``weight_decay / 2 * |w|^2``, whose gradient is added to that of all leaves that
        train, as in ``torch.optim``; not negative. It shrinks layers that the loss does not reach as well, whose
        ``grad`` in a plain loop of torch's would be None.
    clip_norm : float, optional
        Largest norm of one client's gradient, over all leaves together, before the penalty's is added; positive. As
        ``torch.nn.utils.clip_grad_norm_``.
    lr_decay : float
        Factor of all learning rates from one round to the next, in (0, 1]: round t (from 0) has ``lr * lr_decay**t``.
    schedule : callable, optional
        ``schedule(round, step)`` is one more factor of all learning rates, not negative, in round `round` (from 0) at
        step `step` (from 0) of a phase; `fedstat.schedules` has the usual ones. Neither this nor `lr_decay` counts for
        what trains beside the rounds, such as fine-tuned copies and new clients.
    batch_size : int
        Samples per step, however many. A client with fewer takes all of them in every step; an epoch's last batch
        holds what is left over.
    local_epochs : int, or sequence of int
        Passes over the client's training samples per round; one number for each client if several.
    loss : {"cross_entropy", "logistic", "squared"} or callable, optional
        A function of one's own maps outputs (B, Q) and targets (B,) to losses (B,), by torch. By default what the task
        asks for: squared error for regression, logistic loss for two classes and one output, else cross-entropy.

    Examples
    --------
    >>> import torch, fedstat as fs
    >>> def focal(outputs, y):  # Lin et al. 2017, with gamma = 2
    ...     log_p = outputs.log_softmax(-1).gather(-1, y[:, None]).squeeze(-1)
    ...     return -((1 - log_p.exp()) ** 2) * log_p
    >>> fs.testing.check_loss(focal, classes=3)
    >>> training = fs.Training(
    ...     lr=0.01, loss=focal, optimizer="adamw", clip_norm=1.0, schedule=fs.schedules.Cosine(rounds=100)
    ... )
    """

    lr: float | tuple[float, ...]
    optimizer: Literal["sgd", "adam", "adamw"] | Optimizer = "sgd"
    momentum: float = 0.0
    batch_size: int = 32
    local_epochs: int | tuple[int, ...] = 1
    loss: LossName | Loss | None = None
    weight_decay: float = 0.0
    clip_norm: float | None = None
    lr_decay: float = 1.0
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        check_fields(
            self, momentum="[0, 1)", batch_size=1, weight_decay="[0, inf)", clip_norm="(0, inf)", lr_decay="(0, 1]"
        )
        for name, check in (("lr", partial(number, interval="[0, inf)")), ("local_epochs", partial(whole, least=1))):
            object.__setattr__(self, name, _one_or_each(name, getattr(self, name), check))
        _check_choice(
            "loss",
            self.loss,
            (None, *LOSSES),
            "a function of outputs and targets",
            callable(self.loss) and not isinstance(self.loss, type),
        )
        known = isinstance(self.optimizer, Optimizer) and not isinstance(self.optimizer, type)
        _check_choice("optimizer", self.optimizer, OPTIMIZERS, "an object such as fs.SGD(momentum=0.9)", known)
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(
                f"momentum belongs to SGD, but optimizer is {self.optimizer!r} (momentum={self.momentum}); an object "
                "has its own, such as fs.SGD(momentum=0.9)."
            )
        if not (self.schedule is None or callable(self.schedule)):
            raise ValueError(
                "schedule must be a function of round and step, such as fs.schedules.Cosine(rounds=100), got "
                f"{self.schedule!r}."
            )

    @cached_property
    def steps(self) -> Optimizer:
        """The optimiser as an object."""
        if not isinstance(self.optimizer, str):
            return self.optimizer
        return SGD(self.momentum) if self.optimizer == "sgd" else OPTIMIZERS[self.optimizer]()


#: Local training of all methods, or of each by its label.
AnyTraining = Training | Mapping[str, Training]


def training_of(training: AnyTraining, label: str) -> Training:
    """Return the local training of the method with a label."""
    return training if isinstance(training, Training) else training[label]


def _one_or_each(name: str, value: Any, check: Callable[[str, Any], Any]) -> Any:
    """Check a number, or one for each client."""
    if isinstance(value, list | tuple) and len(value):
        return tuple(check(f"{name} of client {k}", one) for k, one in enumerate(value))
    return check(name, value)


def _check_choice(name: str, value: Any, words: Collection[Any], other: str, fits: bool) -> None:
    """Refuse what is neither one of some words nor fits otherwise."""
    if not (value in words if value is None or isinstance(value, str) else fits):
        listed = " or ".join(f'"{word}"' for word in words if word is not None)
        raise ValueError(f"{name} must be {listed}, or {other}, got {value!r}.")


@dataclass(frozen=True)
class Phase:
    """One stretch of local training.

    Attributes
    ----------
    train : tuple of str
        The leaves that move.
    epochs : int, optional
        Passes over the training samples; by default those of the training configuration.
    lr : float or mapping of leaf to float, optional
        Learning rate, for all leaves or for those named; by default that of the training configuration.
    first_epoch : int, optional
        The epoch whose batches come first; by default the one after the previous phase's. Two phases with the same
        value see the same batches.
    steps : int, optional
        Largest number of steps, whatever the epochs.
    name : str
        The name by which an objective tells phases apart.
    state : str, optional
        The slot that holds the optimiser's state before and after the phase, for a method that keeps it from round to
        round (its ``leaves`` have there what ``training.steps.start`` returns); by default the state starts anew.
    slot : str, optional
        The slot that holds the model of the phase, for a method with several: the objective finds its leaves under
        the network's own names. By default the model is the leaves without a slot.
    plain : bool
        Whether its steps are plain gradient steps whatever the training configuration says: no other optimiser, no
        weight decay, no clipping, and a rate that neither decays nor follows a schedule. For what is learned beside a
        model, such as shares in a mixture.

    Examples
    --------
    First the head alone, for ten epochs:

    >>> from fedstat.federated import Phase
    >>> Phase(("head.weight", "head.bias"), epochs=10, name="head").epochs
    10
    """

    train: tuple[str, ...]
    epochs: int | None = None
    lr: float | Mapping[str, float] | None = None
    first_epoch: int | None = None
    steps: int | None = None
    name: str = "train"
    state: str | None = None
    slot: str | None = None
    plain: bool = False

    def __post_init__(self) -> None:
        if self.plain is not False or not (self.epochs is self.first_epoch is self.steps is None):
            check_fields(self, epochs=0, first_epoch=0, steps=0)
        if self.lr is not None:
            object.__setattr__(self, "lr", _rates(self.lr))

    def leaf(self, name: str) -> str:
        """Return the leaf that the network has as its own leaf `name` in the phase."""
        return name if self.slot is None else f"{self.slot}/{name}"

    def model(self, params: Params, network: Network) -> Params:
        """Return one client's leaves with those of the phase's model under the network's own names."""
        return params if self.slot is None else params | {name: params[self.leaf(name)] for name in network.shapes}


def _rates(lr: float | Mapping[str, float]) -> float | dict[str, float]:
    """Return a learning rate, or one by leaf, as Python's own numbers."""
    if isinstance(lr, Mapping):
        return {leaf: number(f"lr of {leaf!r}", rate, "[0, inf)") for leaf, rate in lr.items()}
    return number("lr", lr, "[0, inf)")


@dataclass(frozen=True, eq=False)
class Batch:
    """One client's batch; rows where `valid` is false are padding.

    Attributes
    ----------
    x, y : Tensor, shapes (B, ...) and (B,)
        Inputs and targets.
    valid : Tensor of bool, shape (B,)
        False at padding.
    rows : Tensor of int, shape (B,)
        Places of the samples among the client's training samples, by which an objective finds what ``prepare``
        computed per sample.
    full : bool
        True only if every row is known to be a sample, of this client and of all that are stacked with it.
    noise : Tensor of int64, shape (), optional
        The key of what dropout draws, of each batch its own; without it dropout drops nothing.

    Examples
    --------
    The last row is padding, and counts for nothing:

    >>> import torch
    >>> from fedstat.federated import Batch
    >>> valid = torch.tensor([True, True, False])
    >>> batch = Batch(torch.ones(3, 2), torch.tensor([0, 1, 1]), valid, rows=torch.arange(3))
    >>> batch.mean(torch.tensor([1.0, 3.0, 100.0]))
    tensor(2.)
    """

    x: Tensor
    y: Tensor
    valid: Tensor
    rows: Tensor
    full: bool = False
    noise: Tensor | None = None

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of `values` (B, ...) over the samples."""
        return values.mean(0) if self.full else _mean(values, self.valid)

    @property
    def mask(self) -> Tensor | None:
        """Rows that are samples (B,); None where all are."""
        return None if self.full else self.valid


@dataclass(frozen=True, eq=False)
class ClientData:
    """All of one client's training samples, padded.

    Attributes
    ----------
    x, y : Tensor, shapes (n_max, ...) and (n_max,)
        Inputs and targets.
    valid, held_out : Tensor of bool, shape (n_max,)
        True at samples that train, and at those that the method keeps from training.

    Examples
    --------
    A mean over the samples that train, such as ``prepare`` and ``finish`` may need:

    >>> import torch
    >>> from fedstat.federated import ClientData
    >>> valid = torch.tensor([True, True, False])
    >>> data = ClientData(torch.ones(3, 2), torch.tensor([0, 1, 1]), valid, held_out=torch.zeros(3, dtype=torch.bool))
    >>> data.mean(torch.tensor([1.0, 3.0, 100.0]))
    tensor(2.)
    """

    x: Tensor
    y: Tensor
    valid: Tensor
    held_out: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of `values` (n_max, ...) over the samples that train."""
        return _mean(values, self.valid)


def _mean(values: Tensor, valid: Tensor) -> Tensor:
    """Return the mean of `values` (n, ...) over the rows where `valid` (n,) is true, zero if there is none."""
    rows = valid.view(-1, *[1] * (values.dim() - 1))
    return torch.where(rows, values, 0).sum(0) / valid.sum().clamp(min=1)


@dataclass(frozen=True, eq=False)
class Context:
    """What else one client has at hand in a phase.

    Attributes
    ----------
    received : dict of Tensor
        The leaves that the client received, before ``prepare``.
    aux : dict of Tensor
        The tensors that ``prepare`` returned beside the leaves.
    phase : str
        The phase's name; "finish" after the last one.
    rate_sum : dict of Tensor, each of shape ()
        By leaf that trained, the sum of the learning rates of all steps that the client took, with their decay and
        schedule: without momentum it is what turns a leaf's change into a mean gradient. In ``finish`` alone, else
        empty.

    Examples
    --------
    A force that pulls every leaf to the value which the client received:

    >>> import fedstat as fs
    >>> class Pulled(fs.Method):
    ...     def objective(self, learner, params, batch, context):
    ...         far = sum((params[name] - context.received[name]).square().sum() for name in learner.network.trainable)
    ...         return learner.loss(params, batch) + 0.1 * far
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> now = next(fs.rounds(Pulled(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1)))
    >>> now.number
    1
    """

    received: Params
    aux: Params
    phase: str
    rate_sum: Params = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Learner:
    """The network together with the task's loss.

    Attributes
    ----------
    network : Network
        The network, which maps leaves and inputs to outputs.
    task : {"cross_entropy", "logistic", "squared"}
        What outputs mean: logits of classes, one logit of two classes, or a number.
    losses : callable
        Loss per sample, (B,), of outputs (B, Q) and targets (B,); by default the task's own.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> import fedstat as fs
    >>> from fedstat.federated import Batch, Learner, build
    >>> network = build(fs.models.mlp(4, 3, 2), np.random.default_rng(0))
    >>> batch = Batch(torch.ones(5, 4), torch.zeros(5, dtype=torch.int64), torch.ones(5).bool(), torch.arange(5))
    >>> loss = Learner(network, "cross_entropy").loss(network.initial(), batch)
    >>> loss.shape, bool(loss > 0)
    (torch.Size([]), True)
    """

    network: Network
    task: LossName
    losses: Loss = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Take the task's loss by default."""
        if self.losses is None:
            object.__setattr__(self, "losses", LOSSES[self.task])

    def outputs(self, params: Params, batch: Batch) -> Tensor:
        """Return outputs (B, Q) in training mode: batch norm moves the statistics in `params`, dropout drops units.

        The noise is the batch's: whoever asks twice about one batch sees the same units dropped, under other leaves
        as well.
        """
        return self.network(params, batch.x, batch.mask, train=True, noise=batch.noise)

    def features(self, params: Params, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return inputs of the head (B, f) and outputs (B, Q) in training mode, as `outputs` says."""
        return self.network.features(params, batch.x, batch.mask, train=True, noise=batch.noise)

    def loss(self, params: Params, batch: Batch) -> Tensor:
        """Return the mean loss of a batch in training mode."""
        return batch.mean(self.losses(self.outputs(params, batch), batch.y))


def gradient_on_all(learner: Learner, params: Params, data: ClientData) -> Callable[[Params], Params]:
    """Return the gradient of a client's loss on all its training samples as a function of the leaves that train."""
    batch = Batch(data.x, data.y, data.valid, torch.arange(len(data.y), device=data.y.device))

    def loss(weights: Params) -> Tensor:
        statistics = {name: params[name].clone() for name in learner.network.statistics}  # a forward pass moves them
        return learner.loss(statistics | weights, batch)

    return torch.func.grad(loss)

"""The laws of losses, optimisers, metrics and schedules, each tried on a few numbers in milliseconds.

A run tries them on what is not fedstat's own before it trains, and `fedstat.testing` offers them to whoever writes such
a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import number
from fedstat.federated.attendance import Unfit
from fedstat.federated.client.losses import Loss
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import Optimizer, move, started
from fedstat.federated.client.schedules import Schedule
from fedstat.federated.engine.executor import ExecutorName
from fedstat.federated.engine.rehearsal import differ, generators, same
from fedstat.federated.metrics import Metric


class BrokenLaw(Exception):
    """Raised where a part breaks a law; `what` says what is wrong, and the remedy, as a sentence about "it".

    ``only`` is the executor under which the part keeps the law nevertheless, if there is one.
    """

    def __init__(self, law: str, what: str, only: ExecutorName | None = None) -> None:
        super().__init__(f"breaks the law '{law}': {what}")
        self.only = only


def try_loss(
    loss: Loss, outputs: Tensor, y: Tensor, others: tuple[Tensor, Tensor] | None = None, tolerance: float = 1e-8
) -> None:
    """Check that a loss is a number for each sample, with gradients; and, for stacks, of that sample alone.

    It is tried on outputs (B, Q) and targets (B,), and on `others`, where it need not be finite. `tolerance` is the
    share of the largest loss by which two ways of computing may differ. The first law that it breaks is raised.
    """
    tried = [(outputs, y)] + ([others] if others is not None else [])
    h, given = outputs.clone().requires_grad_(), y.clone()
    before, seen = generators(outputs.device), h.clone()
    values = called("loss", loss, seen, given)
    _check_losses(values, outputs, y)
    if not same(seen.detach(), outputs) or not same(given, y):
        raise BrokenLaw("untouched", "it writes to outputs or targets. Let it make new tensors.")
    if not values.isfinite().all():
        raise BrokenLaw("finite", "it must be finite where outputs are, and is not.")
    if before != generators(outputs.device) or differ(called("loss", loss, outputs, y), values, tolerance):
        raise BrokenLaw("repeat", "it differs between two identical calls. Let it draw no random numbers.")
    if not values.requires_grad:
        raise BrokenLaw("gradient", "no gradient reaches the outputs. Compute it by torch, without detach().")
    gradients = [_gradient(loss, *some) for some in tried]
    if not gradients[0].isfinite().all() or not any(gradient.abs().max() > 0 for gradient in gradients):
        raise BrokenLaw("gradient", "its gradients must be finite, and must not all be zero.")
    for h, y in tried:
        values = called("loss", loss, h, y)
        for rows in (slice(0, 1), slice(1, 4), slice(4, None)):
            some = called("loss", loss, h[rows], y[rows])
            _check_losses(some, h[rows], y[rows])
            if differ(some, values[rows], tolerance):
                what = "the loss of a sample must not depend on the others of its batch."
                raise BrokenLaw("one sample", what, "per-client")
    try:
        stacked = torch.vmap(loss)(torch.stack([outputs, outputs.flip(0)]), torch.stack([y, y.flip(0)]))
    except Exception:  # torch.vmap refuses by many kinds of errors
        what = "it does what torch.vmap cannot do, such as decisions on values."
        raise BrokenLaw("stack", what, "per-client") from None
    if differ(stacked[0], loss(outputs, y), tolerance):
        raise BrokenLaw("stack", "it must be the same under torch.vmap, and is not.", "per-client")


def _gradient(loss: Loss, outputs: Tensor, y: Tensor) -> Tensor:
    h = outputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(called("loss", loss, h, y).sum(), h)
    return gradient


def _check_losses(values: Any, outputs: Tensor, y: Tensor) -> None:
    found = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
    if found == tuple(y.shape):
        return
    if isinstance(found, str):
        remedy = "Compute it by torch."
    elif found == () and len(y) == 1:
        remedy = "Of a batch of one, .squeeze() removes all axes: name the axis, as in .squeeze(-1)."
    elif found == ():
        remedy = 'Torch\'s losses take the mean of a batch by default: pass reduction="none".'
    elif outputs.shape[-1] == 1:
        remedy = "Outputs have shape (B, 1): take outputs.squeeze(-1)."
    else:
        remedy = "Sum or average over the outputs, as in .mean(-1)."
    raise BrokenLaw(
        "shape",
        f"it must return a tensor of shape {tuple(y.shape)}, a loss for each sample, for outputs "
        f"{tuple(outputs.shape)} and targets {tuple(y.shape)}, got {found}. {remedy}",
    )


def try_optimizer(optimizer: Optimizer, params: Params, grads: Sequence[Params], tolerance: float = 1e-8) -> None:
    """Check the steps of an optimiser for one client; and, for stacks, that no client sees another.

    Leaves and gradients, step by step, are those of two clients, (2, ...). `tolerance` is the share of the largest
    weight by which two ways of computing may differ. The first law that it breaks is raised.
    """
    device = next(iter(params.values())).device
    before = generators(device)

    def ends(which: int | slice) -> Params | BrokenLaw:
        try:
            steps = [{name: g[which] for name, g in step.items()} for step in grads]
            return _moved(optimizer, {name: leaf[which] for name, leaf in params.items()}, steps)
        except BrokenLaw as broken:
            return broken

    alone, stacked, again = [ends(0), ends(1)], ends(slice(None)), ends(0)
    in_a_stack = [_row(stacked, k) for k in range(2)]
    as_one = [_row(ends(slice(k, k + 1)), 0) for k in range(2)]
    if before != generators(device):
        raise BrokenLaw("repeat", "it draws random numbers, so that a run could be neither repeated nor continued.")
    if not isinstance(alone[0], BrokenLaw) and _apart(again, alone[0], tolerance):
        raise BrokenLaw(
            "repeat",
            "its steps differ between two identical trainings. Let start() return as a state what later steps need.",
        )
    if _apart(in_a_stack[0], as_one[0], tolerance) or _apart(in_a_stack[1], as_one[1], tolerance):
        for one in alone:
            if isinstance(one, BrokenLaw):
                raise one
        raise BrokenLaw(
            "company",
            "where clients are stacked, its steps at one client depend on the others, or fail. Take norms and means "
            "over all axes but the first.",
            "per-client",
        )
    if _apart(alone[0], as_one[0], tolerance) or _apart(alone[1], as_one[1], tolerance):
        what = "its steps for a client alone, whose leaves have no client axis, are otherwise than in a stack."
        raise BrokenLaw("company", what, "stacked")


def _row(ends: Params | BrokenLaw, k: int) -> Params | BrokenLaw:
    return ends if isinstance(ends, BrokenLaw) else {name: leaf[k] for name, leaf in ends.items()}


def _apart(found: Params | BrokenLaw, wanted: Params | BrokenLaw, tolerance: float) -> bool:
    """Tell whether two trainings came to different ends, or one to none."""
    if isinstance(found, BrokenLaw) or isinstance(wanted, BrokenLaw):
        return True
    return any(differ(found[name], leaf, tolerance) for name, leaf in wanted.items())


def _moved(optimizer: Optimizer, params: Params, grads: Sequence[Params]) -> Params:
    """Return where leaves come to."""
    params = {name: leaf.clone() for name, leaf in params.items()}
    state = dict(called("start", started, optimizer, params))
    for step in grads:
        kept = {name: leaf.clone() for name, leaf in params.items()}
        found = called("step", optimizer.step, params, {name: g.clone() for name, g in step.items()}, state)
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Mapping)):
            raise BrokenLaw("shape", f"step must return directions by leaf and a divisor, got {type(found).__name__}.")
        directions, divisor = found
        if unknown := directions.keys() - kept.keys():
            raise BrokenLaw("shape", f"step returned a direction for {min(unknown)!r}, which is no leaf that trains.")
        if not isinstance(divisor, int | float | Tensor):
            raise BrokenLaw("shape", f"the divisor must be a number or a tensor, got {type(divisor).__name__}.")
        for name, direction in directions.items():
            shape = tuple(kept[name].shape)
            if not isinstance(direction, Tensor) or direction.shape != shape:
                got = tuple(direction.shape) if isinstance(direction, Tensor) else type(direction).__name__
                raise BrokenLaw("shape", f"the direction of {name!r} must have shape {shape}, got {got}.")
        for name, leaf in kept.items():
            if not same(params[name], leaf):
                raise BrokenLaw("untouched", f"step writes to {name!r}. Let it return directions; the engine moves.")
        move(params, directions, 0.01, divisor)
    return params


def try_metric(metric: Metric, outputs: Tensor, y: Tensor) -> float:
    """Check that a metric is a number that depends on no order of samples and changes nothing; return it.

    Outputs are (n, Q), targets (n,).
    """
    given = outputs.clone(), y.clone()
    value, again, turned = (
        _number(called("metric", metric, *some)) for some in (given, given, (outputs.flip(0), y.flip(0)))
    )
    if not same(given[0], outputs) or not same(given[1], y):
        raise BrokenLaw("untouched", "it must not write to outputs or targets.")
    for law, other, what in (("repeat", again, "number of the call"), ("order", turned, "order of samples")):
        if np.isfinite(value) and not abs(other - value) <= 1e-8 * max(1, abs(value)):
            raise BrokenLaw(law, f"it must not depend on the {what}, and differs by {abs(other - value):.3g}.")
    return value


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise BrokenLaw("number", f"it must return a number for one client's samples, got {got}.") from None


def try_schedule(schedule: Schedule, places: Iterable[tuple[int, int]]) -> None:
    """Check that a schedule's factors, at `places` of round and step, are finite, not negative, and always the same."""
    places = list(places)
    factors = [called("schedule", schedule, *place) for place in places]
    for (t, s), factor in zip(places, factors, strict=True):
        try:
            number("", factor, "[0, inf)")
        except ValueError:
            what = f"schedule(round, step) must be a number in [0, inf), got {factor!r} in round {t}, step {s}."
            raise BrokenLaw("factor", what) from None
    for (t, s), factor in list(zip(places, factors, strict=True))[::-1]:
        if schedule(t, s) != factor:
            raise BrokenLaw("repeat", f"the factor of round {t}, step {s} changes from call to call.")


def called(name: str, function: Any, *arguments: Any) -> Any:
    """Call what a user wrote."""
    try:
        return function(*arguments)
    except Unfit:  # which says itself what would fit
        raise
    except Exception as error:  # a function of one's own may fail in any way
        given = ", ".join(str(tuple(a.shape)) if isinstance(a, Tensor) else repr(a) for a in arguments)
        given = f" for {given}" if len(given) < 50 else ""
        raise BrokenLaw("call", f"{name} fails{given}: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def check_statistics(network: Network, models: Mapping[str, Params]) -> None:
    """Check that the running statistics of batch norm in offered models (m, ...) have moved from where they began.

    `network` is as it was before training, `models` by the name of the estimand.
    """
    initial = network.initial()
    for estimand, params in models.items():
        held = {name: params[name] for name in network.statistics if name in params}
        if held and all(bool((leaf == initial[name]).all()) for name, leaf in held.items()):
            raise BrokenLaw(
                "statistics",
                f"the model {estimand!r} is offered with the running statistics of batch norm that it began with, as "
                "it never ran forward in training. Run it forward there with learner.outputs, or take statistics from "
                "federation.statistics.",
            )

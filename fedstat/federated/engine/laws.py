"""The laws of losses, optimisers, metrics and schedules, each tried on a few numbers in milliseconds.

A run tries them on what is not fedstat's own before it trains, and `fedstat.testing` offers them to whoever writes such
a part.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import number
from fedstat.data import Clients, Samples
from fedstat.federated.aggregators import Aggregator
from fedstat.federated.attacks import Attack, poisoned, poisons
from fedstat.federated.client.losses import Loss
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import Optimizer, move, started
from fedstat.federated.client.schedules import Schedule
from fedstat.federated.compression import Compression
from fedstat.federated.engine.executor import ExecutorName
from fedstat.federated.engine.rehearsal import differ, generators, same
from fedstat.federated.mechanisms import Mechanism, released
from fedstat.federated.metrics import Metric


class BrokenLaw(Exception):
    """Raised where a part breaks a law.

    Parameters
    ----------
    law : str
        The law's name.
    what : str
        What is wrong, and the remedy, as a sentence about "it".
    only : {"per-client", "stacked"}, optional
        The executor under which the part keeps the law nevertheless.
    """

    def __init__(self, law: str, what: str, only: ExecutorName | None = None) -> None:
        super().__init__(f"breaks the law '{law}': {what}")
        self.only = only


def try_loss(
    loss: Loss, outputs: Tensor, y: Tensor, others: tuple[Tensor, Tensor] | None = None, tolerance: float = 1e-8
) -> None:
    """Check that a loss is a number for each sample, with gradients; and, for stacks, of that sample alone.

    Parameters
    ----------
    loss : callable
        Maps outputs (B, Q) and targets (B,) to losses (B,).
    outputs, y : Tensor, shapes (B, Q) and (B,)
        What to try it on.
    others : tuple of Tensor, optional
        More outputs and targets, on which it need not be finite.
    tolerance : float
        The share of the largest loss by which two ways of computing may differ.

    Raises
    ------
    BrokenLaw
        For the first law that it breaks.
    """
    tried = [(outputs, y)] + ([others] if others is not None else [])
    h, given = outputs.clone().requires_grad_(), y.clone()
    before, seen = generators(outputs.device), h.clone()
    values = _called("loss", loss, seen, given)
    _check_losses(values, outputs, y)
    if not same(seen.detach(), outputs) or not same(given, y):
        raise BrokenLaw("untouched", "it writes to outputs or targets. Let it make new tensors.")
    if not values.isfinite().all():
        raise BrokenLaw("finite", "it must be finite where outputs are, and is not.")
    if before != generators(outputs.device) or differ(_called("loss", loss, outputs, y), values, tolerance):
        raise BrokenLaw("repeat", "it differs between two identical calls. Let it draw no random numbers.")
    if not values.requires_grad:
        raise BrokenLaw("gradient", "no gradient reaches the outputs. Compute it by torch, without detach().")
    gradients = [_gradient(loss, *some) for some in tried]
    if not gradients[0].isfinite().all() or not any(gradient.abs().max() > 0 for gradient in gradients):
        raise BrokenLaw("gradient", "its gradients must be finite, and must not all be zero.")
    for h, y in tried:
        values = _called("loss", loss, h, y)
        for rows in (slice(0, 1), slice(1, 4), slice(4, None)):
            some = _called("loss", loss, h[rows], y[rows])
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
    (gradient,) = torch.autograd.grad(_called("loss", loss, h, y).sum(), h)
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


def try_aggregator(aggregator: Aggregator) -> None:
    """Check a rule by which a server combines changes on a few made-up ones.

    Raises
    ------
    BrokenLaw
        For the first law that it breaks.
    """
    rng, fewest, device = np.random.default_rng(0), getattr(aggregator, "fewest", 1), torch.device("cpu")
    for m in {max(9, fewest), max(3, fewest)}:
        changes, order = torch.from_numpy(rng.normal(size=(m, 6))), torch.from_numpy(rng.permutation(m))
        weight = torch.from_numpy(rng.dirichlet(np.ones(m)))
        given, before = (changes.clone(), weight.clone()), generators(device)
        found, still = (_called("it", aggregator, x, given[1]) for x in (given[0], torch.zeros_like(changes)))
        for one in (found, still):
            if not isinstance(one, Tensor) or one.shape != (6,):
                got = f"shape {tuple(one.shape)}" if isinstance(one, Tensor) else type(one).__name__
                raise BrokenLaw("shape", f"it must return one change, here of shape (6,), got {got}.")
            if not one.isfinite().all():
                raise BrokenLaw("finite", "of finite changes, or of zeros, it makes infinite or undefined numbers.")
        if not (torch.equal(given[0], changes) and torch.equal(given[1], weight)):
            raise BrokenLaw("untouched", "it writes into the changes or the weights that it is given.")
        if before != generators(device) or not torch.equal(found, aggregator(changes.clone(), weight.clone())):
            raise BrokenLaw("repeat", "its outcome differs between two identical calls, or it draws random numbers.")
        if (found - aggregator(changes[order], weight[order])).abs().max() > 1e-6:
            raise BrokenLaw("order", "its outcome depends on the order of the participants.")
        if still.abs().max() > 0:
            raise BrokenLaw("still", "it moves though no participant does.")


def try_attack(attack: Attack) -> None:
    """Check an attack on a few made-up changes and, if it poisons data, clients.

    Raises
    ------
    BrokenLaw
        For the first law that it breaks.
    """
    device, rng = torch.device("cpu"), np.random.default_rng(0)
    for who in ((1, 4, 5), (2,), range(6)):
        malicious = torch.tensor([k in who for k in range(6)])
        for changes in (torch.from_numpy(rng.normal(size=(6, 5))), torch.zeros(6, 5).double()):
            given, before = (changes.clone(), malicious.clone()), generators(device)
            found = _called("it", attack, *given, np.random.default_rng(1))
            again = _called("it", attack, changes.clone(), malicious.clone(), np.random.default_rng(1))
            if not isinstance(found, Tensor) or found.shape != (len(who), 5):
                got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
                raise BrokenLaw("shape", f"{len(who)} attackers must send changes of shape ({len(who)}, 5), got {got}.")
            if not found.isfinite().all():
                raise BrokenLaw("finite", "of finite changes, or of zeros, it makes infinite or undefined numbers.")
            if not (torch.equal(given[0], changes) and torch.equal(given[1], malicious)):
                raise BrokenLaw("untouched", "it writes into what it is given.")
            if before != generators(device) or not torch.equal(found, again):
                raise BrokenLaw(
                    "repeat", "it differs between two identical calls. Let it draw from the rng it is given."
                )
    if poisons(attack):
        _try_poison(attack)


def _try_poison(attack: Attack) -> None:
    """Check an attack on the training data of four clients."""
    who, rng = np.array([1, 3]), np.random.default_rng(0)
    clients = Clients(Samples.from_rows(rng.normal(size=(4, 5, 3)), rng.integers(2, size=(4, 5))), classes=(0, 1))
    kept = [(x.copy(), y.copy()) for x, y in map(clients.train.client, range(4))]
    found, again = (_called("poison", poisoned, attack, clients, who) for _ in range(2))
    for k, here in enumerate(kept):
        was, now, twice = (of.train.client(k) for of in (clients, found, again))
        for one, other, law, what in (
            (was, here, "untouched", "poison writes into the clients that it is given."),
            (now, now if k in who else here, "honest", "poison changes the data of clients that do not attack."),
            (now, twice, "repeat", "poison differs between two identical calls. Let it draw by a seed of its own."),
        ):
            if not all(map(np.array_equal, one, other)):
                raise BrokenLaw(law, what)


def try_compression(compression: Compression, draws: int = 100) -> None:
    """Check a codec on a few vectors, and what it declares of itself by the mean of some draws.

    A mean is held against what is declared with five standard errors to spare: those of its own draws, or for a bias
    the declared ones. All draws have fixed keys, so that the outcome is always the same.

    Raises
    ------
    BrokenLaw
        For the first law that it breaks.
    """
    device, unused = torch.device("cpu"), copy.deepcopy(compression)
    for place, x in enumerate(_vectors()):
        before, given = generators(device), x.copy()
        data = _called("encode()", compression.encode, given, np.random.default_rng(place))
        if not isinstance(data, bytes):
            raise BrokenLaw("shape", f"encode() must return bytes, got {type(data).__name__}.")
        came = _called("decode()", compression.decode, data, len(x))
        if not isinstance(came, np.ndarray) or came.shape != x.shape or came.dtype.kind != "f":
            got = f"{came.dtype} of shape {came.shape}" if isinstance(came, np.ndarray) else type(came).__name__
            raise BrokenLaw("shape", f"decode() must return an array of floats, here of shape {x.shape}, got {got}.")
        if not np.isfinite(came).all():
            raise BrokenLaw("finite", "of finite numbers it makes infinite or undefined ones.")
        if not np.array_equal(given, x):
            raise BrokenLaw("untouched", "it writes into the vector that it is given.")
        again = compression.encode(x.copy(), np.random.default_rng(place))
        if before != generators(device) or data != again:
            raise BrokenLaw("repeat", "its bytes differ between two identical calls. Let it draw from rng alone.")
        if not np.array_equal(unused.decode(data, len(x)), came):
            raise BrokenLaw("wire", "the server decodes what it never encoded: let all that it needs be in the bytes.")
        if not x.any() and came.any():
            raise BrokenLaw("zero", "zeros do not come back as zeros, so that what does not train would move.")
        if x.any():
            _check_declared(compression, x.astype(np.float64), draws)


def _vectors() -> Iterator[np.ndarray]:
    """Yield vectors of float32: zeros, equal ones, a single one, Gaussian ones, and a few large ones among small."""
    rng = np.random.default_rng(0)
    for d in (1, 9, 60):
        yield from (np.zeros(d, np.float32), np.ones(d, np.float32), -np.eye(d, dtype=np.float32)[d // 2])
        normal, small = rng.normal(size=(2, d)).astype(np.float32)
        yield from (normal, np.float32(1e-3) * normal, small**5, np.where(rng.random(d) < 0.5, 0, small))


def _check_declared(compression: Compression, x: np.ndarray, draws: int) -> None:
    """Check variance, contraction and the absence of bias, as far as a codec declares them."""
    laws = {law: of(len(x)) for law in ("variance", "contraction") if (of := getattr(compression, law, None))}
    if not laws:
        return
    rng = np.random.default_rng(1)
    data = [compression.encode(x.astype(np.float32), rng) for _ in range(draws)]
    found = np.stack([compression.decode(each, len(x)) for each in data]).astype(np.float64)
    errors, square = np.square(found - x).sum(1), np.square(x).sum()
    least, rounding = errors.mean() - 5 * errors.std() / draws**0.5, 1e-6 * square
    bias = np.square(found.mean(0) - x).sum()
    if "variance" in laws and bias > 25 * laws["variance"] * square / draws + 1e-6 * rounding:
        raise BrokenLaw(
            "unbiased", f"the mean of {draws} draws is {bias**0.5:.3g} away from a vector of {square**0.5:.3g}."
        )
    for law, bound in (("variance", laws.get("variance")), ("contraction", 1 - laws.get("contraction", -np.inf))):
        if bound is not None and least > bound * square + rounding:
            raise BrokenLaw(law, f"the mean squared error is {errors.mean() / square:.3g} |x|^2, declared {bound:.3g}.")


def try_mechanism(mechanism: Mechanism) -> None:
    """Check a mechanism of differential privacy on a few made-up changes, some of them as bad as can be.

    Raises
    ------
    BrokenLaw
        For the first law that it breaks.
    """
    draws, device, far = np.random.default_rng(0), torch.device("cpu"), mechanism.clip * torch.ones(6).double()

    def outcome(changes: Tensor) -> Any:
        return _called("it", released, mechanism, changes, changes.shape[-2], np.random.default_rng(1))

    for m in (1, 5):
        changes = mechanism.clip * torch.from_numpy(draws.normal(size=(2, m, 6)))
        given, before = changes.clone(), generators(device)
        found, sent = outcome(given), _called("it", mechanism.send, given, m, np.random.default_rng(1))
        for what, one, shape in (("send", sent, (2, m, 6)), ("combine", found, (2, 6))):
            if not isinstance(one, Tensor) or one.shape != shape:
                got = f"shape {tuple(one.shape)}" if isinstance(one, Tensor) else type(one).__name__
                raise BrokenLaw("shape", f"{what} must return shape {shape} for changes (2, {m}, 6), got {got}.")
            if not one.isfinite().all():
                raise BrokenLaw("finite", f"of finite changes {what} makes infinite or undefined numbers.")
        if not torch.equal(given, changes):
            raise BrokenLaw("untouched", "it writes into the changes that it is given.")
        if before != generators(device) or not torch.equal(found, outcome(given)):
            raise BrokenLaw("repeat", "its outcome differs under the same rng, or it draws from another.")
        none, most = changes[0].clone(), 1 + 1e-9
        none[0] = 0
        ends = [
            outcome(torch.cat([bad[None], none[1:]])) for bad in (far, -far, 1e9 * far, -1e9 * far, far * torch.inf)
        ]
        moved = max(float((end - outcome(none)).norm()) for end in ends) * m / mechanism.clip
        apart = max(float((a - b).norm()) for a in ends for b in ends) * m / mechanism.clip
        if not (moved <= most and apart <= 2 * most):
            raise BrokenLaw(
                "influence",
                f"one of {m} participants moves it by {moved:.3g} times clip / {m} from where zeros in its place leave "
                f"it, and by {apart:.3g} times that from where another change does; 1 and 2 are the most.",
            )


def try_optimizer(optimizer: Optimizer, params: Params, grads: Sequence[Params], tolerance: float = 1e-8) -> None:
    """Check the steps of an optimiser for one client; and, for stacks, that no client sees another.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser.
    params : dict of Tensor, each (2, ...)
        The leaves of two clients.
    grads : sequence of dict of Tensor, each (2, ...)
        Their gradients, step by step.
    tolerance : float
        The share of the largest weight by which two ways of computing may differ.

    Raises
    ------
    BrokenLaw
        For the first law that it breaks.
    """
    device = next(iter(params.values())).device
    before = generators(device)

    def ends(which: int | slice) -> Params | BrokenLaw:
        try:
            steps = [{name: g[which] for name, g in step.items()} for step in grads]
            return _moved(optimizer, {name: leaf[which] for name, leaf in params.items()}, steps)
        except BrokenLaw as broken:
            return broken

    alone, single = [ends(0), ends(1)], [ends(slice(0, 1)), ends(slice(1, 2))]
    stacked, again = ends(slice(None)), ends(0)
    if before != generators(device):
        raise BrokenLaw("repeat", "it draws random numbers, so that a run could be neither repeated nor continued.")
    if not isinstance(alone[0], BrokenLaw) and _apart(again, alone[0], tolerance):
        raise BrokenLaw(
            "repeat",
            "its steps differ between two identical trainings. Let start() return as a state what later steps need.",
        )
    in_a_stack = [_row(stacked, k) for k in range(2)]
    as_one = [_row(one, 0) for one in single]
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
    state = dict(_called("start", started, optimizer, params))
    for step in grads:
        kept = {name: leaf.clone() for name, leaf in params.items()}
        found = _called("step", optimizer.step, params, {name: g.clone() for name, g in step.items()}, state)
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


def try_metric(metric: Metric, outputs: Tensor, y: Tensor, tolerance: float = 1e-8) -> float:
    """Check that a metric is a number that depends on no order of samples and changes nothing; return it.

    Parameters
    ----------
    metric : callable
        Maps outputs (n, Q) and targets (n,) to a number.
    outputs, y : Tensor, shapes (n, Q) and (n,)
        What to try it on.
    tolerance : float
        The share of the number by which two ways of computing may differ.

    Raises
    ------
    BrokenLaw
        For the first law that it breaks.
    """
    given = outputs.clone(), y.clone()
    value, again, turned = (
        _number(_called("metric", metric, *some)) for some in (given, given, (outputs.flip(0), y.flip(0)))
    )
    if not same(given[0], outputs) or not same(given[1], y):
        raise BrokenLaw("untouched", "it must not write to outputs or targets.")
    for law, other, what in (("repeat", again, "number of the call"), ("order", turned, "order of samples")):
        if np.isfinite(value) and not abs(other - value) <= tolerance * max(1, abs(value)):
            raise BrokenLaw(law, f"it must not depend on the {what}, and differs by {abs(other - value):.3g}.")
    return value


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise BrokenLaw("number", f"it must return a number for one client's samples, got {got}.") from None


def try_schedule(schedule: Schedule, places: Iterable[tuple[int, int]]) -> None:
    """Check that a schedule gives finite factors, not negative, and the same whenever it is asked.

    Parameters
    ----------
    schedule : callable
        ``schedule(round, step)``.
    places : iterable of pairs of int
        Rounds and steps.

    Raises
    ------
    BrokenLaw
        For the first law that it breaks.
    """
    places = list(places)
    factors = [_called("schedule", schedule, *place) for place in places]
    for (t, s), factor in zip(places, factors, strict=True):
        try:
            number("", factor, "[0, inf)")
        except ValueError:
            what = f"schedule(round, step) must be a number in [0, inf), got {factor!r} in round {t}, step {s}."
            raise BrokenLaw("factor", what) from None
    for (t, s), factor in list(zip(places, factors, strict=True))[::-1]:
        if schedule(t, s) != factor:
            raise BrokenLaw("repeat", f"the factor of round {t}, step {s} changes from call to call.")


def _called(name: str, function: Any, *arguments: Any) -> Any:
    """Call what a user wrote."""
    try:
        return function(*arguments)
    except Exception as error:  # a function of one's own may fail in any way
        given = ", ".join(str(tuple(a.shape)) if isinstance(a, Tensor) else repr(a) for a in arguments)
        given = f" for {given}" if len(given) < 50 else ""
        raise BrokenLaw("call", f"{name} fails{given}: {_first_line(error)}.") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def check_statistics(network: Network, models: Mapping[str, Params]) -> None:
    """Check that the running statistics of batch norm in offered models have moved from where they began.

    Parameters
    ----------
    network : Network
        The network, as it was before training.
    models : mapping of str to dict of Tensor, each (m, ...)
        The leaves of the models, by the name of the estimand, after training.

    Raises
    ------
    BrokenLaw
        If a model has the initial ones.
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

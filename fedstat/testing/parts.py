"""The laws of what a run is put together from: optimisers, losses, metrics, schedules and executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstat.data import Clients
from fedstat.federated import Executor, Method, Optimizer, PerClient, Phase, Result, Stacked, Training, in_slot, rounds
from fedstat.federated.aggregators import Aggregator
from fedstat.federated.attacks import Attack
from fedstat.federated.attendance import Attendance
from fedstat.federated.client.losses import Loss
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.schedules import Schedule
from fedstat.federated.compression import Compression
from fedstat.federated.engine.exchange_laws import (
    try_aggregator,
    try_attack,
    try_attendance,
    try_compression,
    try_mechanism,
)
from fedstat.federated.engine.laws import BrokenLaw, try_loss, try_metric, try_optimizer, try_schedule
from fedstat.federated.mechanisms import Mechanism
from fedstat.federated.metrics import Metric
from fedstat.federated.state import Federation
from fedstat.methods import FedAvg, FedPer, FedRep, Local
from fedstat.testing.methods import NETWORK, ROUNDING, Case, run_quietly, same, search

_SLOT = "kept"
_TRAINING = Training(lr=0.1, momentum=0.5, batch_size=3, local_epochs=2)


def check_optimizer(optimizer: Optimizer, *, examples: int = 10) -> None:
    """Check the laws of an optimiser, in local training of small networks on small clients.

    ============  ====================================================================================================
    law           statement
    ============  ====================================================================================================
    ``shape``     a direction has the shape of its leaf
    ``repeat``    a client's steps are the same whenever they are taken: nothing is drawn or kept in attributes
    ``alone``     clients of unequal size trained as one stack come to what each comes to by itself: none sees another,
                  and whoever has finished its batches does not move
    ``company``   a client comes to the same whoever else takes part
    ``absent``    where a method keeps the state from round to round, that of an absent client stays as it is
    ``still``     with learning rate zero no weight moves
    ============  ====================================================================================================

    Parameters
    ----------
    optimizer : Optimizer
        Such as ``fs.SGD(momentum=0.9)``, or an object of one's own.
    examples : int
        Sets of clients tried for each law.

    Raises
    ------
    AssertionError
        If a law is broken; the message names it and the smallest set of clients found.

    Examples
    --------
    Silence is the good outcome:

    >>> import fedstat as fs
    >>> fs.testing.check_optimizer(fs.SGD(0.9), examples=1)
    """
    rng, shapes = np.random.default_rng(0), {"weight": (2, 4, 3), "bias": (2, 4), "scale": (2,)}
    drawn = [{name: torch.from_numpy(rng.normal(size=shape)) for name, shape in shapes.items()} for _ in range(4)]
    params, *grads = drawn
    _obeys(type(optimizer).__name__, try_optimizer, optimizer, params, grads)
    training = Training(lr=0.05, optimizer=optimizer, batch_size=3, local_epochs=2)
    laws = {"alone": _alone, "company": _company, "absent": _absent, "still": _still}
    for name, law in laws.items():
        search(optimizer, name, partial(law, training), examples, 2)


def check_aggregator(aggregator: Aggregator) -> None:
    """Check the laws of a rule by which a server combines changes.

    =============  ===================================================================================================
    law            statement
    =============  ===================================================================================================
    ``shape``      one change comes out, of as many numbers as each participant's has
    ``finite``     it is made of numbers, where all changes are zero, too
    ``untouched``  what is given stays as it is
    ``repeat``     it is the same whenever it is asked for: nothing is drawn
    ``order``      it does not depend on the order of the participants
    ``still``      where no participant moves, the server does not
    ``absent``     if it withstands one change of any size, then also one that is not finite
    =============  ===================================================================================================

    Parameters
    ----------
    aggregator : Aggregator
        Such as ``fs.aggregators.Median()``, or an object of one's own.

    Raises
    ------
    AssertionError
        If a law is broken; the message names it.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.testing.check_aggregator(fs.aggregators.Krum(f=2))
    """
    _obeys(type(aggregator).__name__, try_aggregator, aggregator)


def check_attack(attack: Attack) -> None:
    """Check the laws of an attack.

    =============  ===================================================================================================
    law            statement
    =============  ===================================================================================================
    ``shape``      there is a change for each attacker, of as many numbers as each participant's has
    ``finite``     they are made of numbers, also where one attacks alone, where all do, and where all changes are zero
    ``untouched``  what is given stays as it is
    ``repeat``     they are the same from a generator in the same state
    ``honest``     an attack on training data leaves those of honest clients as they are
    =============  ===================================================================================================

    Parameters
    ----------
    attack : Attack
        Such as ``fs.attacks.SignFlip(share=0.2)``, or an object of one's own.

    Raises
    ------
    AssertionError
        If a law is broken; the message names it.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.testing.check_attack(fs.attacks.ALittle(share=0.2))
    """
    _obeys(type(attack).__name__, try_attack, attack)


def check_compression(compression: Compression, *, draws: int = 1000) -> None:
    """Check the laws of a codec that compresses uploads, and what it declares of itself.

    ===============  =================================================================================================
    law              statement
    ===============  =================================================================================================
    ``shape``        a vector becomes bytes, and these a vector of as many floats
    ``finite``       these are finite
    ``untouched``    what is given stays as it is
    ``repeat``       the same generator gives the same bytes: nothing else is drawn
    ``wire``         bytes are decoded alike by whoever never encoded any
    ``zero``         zeros come back as zeros
    ``unbiased``     where it declares a variance, the mean over draws is the vector
    ``variance``     the mean squared error is at most ``variance(d)`` times the squared norm
    ``contraction``  it is at most ``1 - contraction(d)`` times the squared norm
    ===============  =================================================================================================

    Parameters
    ----------
    compression : Compression
        Such as ``fs.compression.TopK(0.01)``, or an object of one's own.
    draws : int
        How often each vector is encoded for the last three laws: a bias shows where it is larger than five standard
        errors, ``5 sqrt(variance(d) / draws)`` of the norm. Draws have fixed keys.

    Raises
    ------
    AssertionError
        If a law is broken; the message names it.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.testing.check_compression(fs.compression.QSGD(levels=4), draws=200)
    """
    _obeys(type(compression).__name__, try_compression, compression, draws)


def check_attendance(attendance: Attendance, *, clients: int = 10, examples: int = 5) -> None:
    """Check the laws of an attendance.

    ==========  ======================================================================================================
    law         statement
    ==========  ======================================================================================================
    ``shares``  one share of work for each client, in [0, 1] or NaN
    ``repeat``  they are the same whenever a round is asked for, and drawn by the generators that are given
    ==========  ======================================================================================================

    Parameters
    ----------
    attendance : Attendance
        Such as ``fs.attendance.Poisson(0.3)``, or an object of one's own.
    clients : int
        Number of clients.
    examples : int
        Seeds tried.

    Raises
    ------
    AssertionError
        If a law is broken; the message names it.
    ValueError
        If one of fedstat's own does not fit the number of clients.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.testing.check_attendance(fs.attendance.Poisson(0.3))
    """
    for seed in range(examples):
        _obeys(type(attendance).__name__, try_attendance, attendance, clients, seed)


def check_mechanism(mechanism: Mechanism) -> None:
    """Check the laws of a mechanism of differential privacy.

    =============  ===================================================================================================
    law            statement
    =============  ===================================================================================================
    ``shape``      ``send`` keeps the shape of changes (..., m, d), ``combine`` makes one (..., d) of them; m may be 0
    ``finite``     of finite changes they make numbers
    ``untouched``  what is given stays as it is
    ``repeat``     all that is random comes from `rng`
    ``influence``  under the same noise one participant, whatever it sends, moves the mean by ``clip / of`` at most from
                   where zeros in its place leave it, and by ``2 * clip / of`` from where another change does
    =============  ===================================================================================================

    How noise hides this influence is no law: `fedstat.privacy.audit` measures it.

    Parameters
    ----------
    mechanism : Mechanism
        Such as ``fs.mechanisms.Gaussian(clip=1.0, noise=1.0)``, or an object of one's own.

    Raises
    ------
    AssertionError
        If a law is broken; the message names it.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.testing.check_mechanism(fs.mechanisms.Gaussian(clip=1.0, noise=1.0))
    """
    _obeys(type(mechanism).__name__, try_mechanism, mechanism)


def check_executor(executor: Executor, *, examples: int = 10) -> None:
    """Check that an executor trains and evaluates as the built-in ones do, up to rounding.

    Parameters
    ----------
    executor : Executor
        An object with the verbs train and evaluate.
    examples : int
        Sets of clients tried.

    Raises
    ------
    AssertionError
        If models or metrics differ; the message names the smallest set of clients found.

    Examples
    --------
    One that works in the opposite order:

    >>> import fedstat as fs
    >>> class Backwards(fs.federated.PerClient):
    ...     def train(self, work, start, jobs, moves):
    ...         turned = {name: mask if len(mask) == 1 else mask.flip(0) for name, mask in moves.items()}
    ...         ends = super().train(work, {name: leaf.flip(0) for name, leaf in start.items()}, jobs[::-1], turned)
    ...         return {name: leaf.flip(0) for name, leaf in ends.items()}
    >>> fs.testing.check_executor(Backwards(), examples=3)
    """

    def law(case: Case) -> None:
        for method in (FedAvg(), FedPer(), FedRep(head_epochs=1)):
            theirs, *ours = (
                _trained(method, _TRAINING, case.clients(), case, executor=one, evaluate_at=(0, 2))
                for one in (executor, Stacked(), PerClient())
            )
            for other in ours:
                _same_clients(theirs, other)
                gap = np.abs(theirs.history["value"].to_numpy() - other.history["value"].to_numpy()).max()
                assert gap <= ROUNDING, f"metrics differ by {gap:.3g}"

    search(executor, "as the built-in ones", law, examples, 2)


def check_loss(loss: Loss, *, classes: int | None = None, outputs: int | None = None) -> None:
    """Check that a loss can train: a number for each sample, of that sample alone, with finite gradients, stacked too.

    Parameters
    ----------
    loss : callable
        Maps outputs (B, Q) and targets (B,) to losses (B,).
    classes : int, optional
        Number of classes; None for regression.
    outputs : int, optional
        Outputs per sample; by default one for each class, or one.

    Raises
    ------
    AssertionError
        If a law is broken; the message says which.

    Examples
    --------
    Silence is the good outcome:

    >>> import torch
    >>> import fedstat as fs
    >>> def squared(outputs, y):
    ...     return (outputs.softmax(-1) - torch.nn.functional.one_hot(y, 3)).square().sum(-1)
    >>> fs.testing.check_loss(squared, classes=3)
    """
    _obeys("the loss", try_loss, loss, *_outputs_and_targets(classes, outputs))


def check_metric(metric: Metric, *, classes: int | None = None, outputs: int | None = None) -> None:
    """Check that a metric is a number that depends on no order of samples and changes nothing.

    Parameters
    ----------
    metric : callable
        Maps one client's outputs (n, Q) and targets (n,) to a number.
    classes, outputs : int, optional
        As in `check_loss`.

    Raises
    ------
    AssertionError
        If a law is broken; the message says which.

    Examples
    --------
    Silence is the good outcome:

    >>> import fedstat as fs
    >>> def second_guess(outputs, y):
    ...     return (outputs.topk(2).indices == y[:, None]).any(-1).double().mean()
    >>> fs.testing.check_metric(second_guess, classes=3)
    """
    value = _obeys("the metric", try_metric, metric, *_outputs_and_targets(classes, outputs))
    assert np.isfinite(value), f"the metric must be finite where outputs are, got {value}"


def check_schedule(schedule: Schedule, *, rounds: int = 200, steps: int = 50) -> None:
    """Check that a schedule gives finite factors, not negative, and the same whenever it is asked.

    Parameters
    ----------
    schedule : callable
        ``schedule(round, step)``.
    rounds, steps : int
        How many of them are tried.

    Raises
    ------
    AssertionError
        If a law is broken; the message names round and step.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.testing.check_schedule(lambda round, step: 1 / (1 + round) ** 0.5)
    """
    _obeys("the schedule", try_schedule, schedule, [(t, s) for t in range(rounds) for s in range(steps)])


@dataclass(frozen=True, kw_only=True)
class _Keeps(Local):
    """Local training whose optimiser's state lives on from round to round."""

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start from the network's leaves, and from the optimiser's state."""
        leaves = network.initial()
        state = federation.training.steps.start({name: leaves[name] for name in network.trainable})
        return leaves | in_slot({name: leaf.to(network.dtype) for name, leaf in state.items()}, _SLOT)

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share nothing."""
        leaves = self.leaves(network, federation)
        return {name: torch.zeros(1, *[1] * leaf.dim(), dtype=torch.bool) for name, leaf in leaves.items()}

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train everything, and keep the state."""
        return (Phase(network.trainable, state=_SLOT),)


def _alone(training: Training, case: Case) -> None:
    for method in (Local(), _Keeps()):
        here, there = (
            _trained(method, training, case.clients(), case, executor=one) for one in (Stacked(), PerClient())
        )
        _same_clients(here, there)


def _company(training: Training, case: Case) -> None:
    everybody = case.clients()
    first = Clients(everybody.train.of(slice(1)), classes=everybody.classes)
    here, there = (_trained(Local(), training, clients, case) for clients in (everybody, first))
    _same_clients(here, there, only=1)


def _absent(training: Training, case: Case) -> None:
    clients, before = case.clients(), dict[str, Tensor]()
    played = rounds(_Keeps(), NETWORK, clients, training, participation=0.5, seed=case.seed, dtype="float64")
    for round in islice(played, 3):
        ((key, state),) = round.states.items()
        absent = sorted({*range(len(clients))} - {*round.updates[key].ids.tolist()})
        now = dict(state.clients)
        for name in before:
            assert torch.equal(now[name][absent], before[name][absent]), f"{name} of an absent client moved"
        before = now


def _still(training: Training, case: Case) -> None:
    state = _trained(Local(), replace(training, lr=0.0), case.clients(), case).states["it", case.seed]
    for name, leaf in state.clients.items():
        assert torch.equal(leaf, state.server[name].expand_as(leaf)), f"{name} moves with learning rate zero"


def _trained(method: Method, training: Training, clients: Clients, case: Case, **options: Any) -> Result:
    return run_quietly(method, NETWORK, clients, training, 2, case.seed, **options)


def _same_clients(here: Result, there: Result, *, only: int | None = None) -> None:
    """Compare what clients hold, and the server's leaves unless `only` so many clients count."""
    (a,), (b,) = here.states.values(), there.states.values()
    mine, theirs = ({name: leaf[:only] for name, leaf in state.clients.items()} for state in (a, b))
    same({"clients": mine}, {"clients": theirs}, ROUNDING)
    if only is None:
        same({"server": a.server}, {"server": b.server}, ROUNDING)


def _outputs_and_targets(classes: int | None, outputs: int | None) -> tuple[Tensor, Tensor]:
    """Draw outputs (12, Q) and targets (12,)."""
    rng, n = np.random.default_rng(0), 12
    h = torch.from_numpy(rng.normal(size=(n, outputs or classes or 1)))
    return h, torch.from_numpy(rng.normal(size=n) if classes is None else rng.integers(classes, size=n))


def _obeys(name: str, law: Callable[..., Any], *arguments: Any) -> Any:
    """Try a law, whose breach is an AssertionError here."""
    try:
        return law(*arguments)
    except BrokenLaw as broken:
        raise AssertionError(f"{name} {broken}") from None

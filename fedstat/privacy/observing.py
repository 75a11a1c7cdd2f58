"""What the server sees of one client in one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import check_fields, whole
from fedstat.data import Clients
from fedstat.federated.aggregators import heard
from fedstat.federated.client.local import Learner, Phase, Training
from fedstat.federated.client.network import Model, Network, Params
from fedstat.federated.client.optimizers import SGD
from fedstat.federated.client.samples import BatchOrders
from fedstat.federated.codec import decode, encode, nonzeros
from fedstat.federated.engine.training import phases_of, train
from fedstat.federated.method import Method
from fedstat.federated.plan import make_plan
from fedstat.federated.rounds import Run, loop
from fedstat.federated.state import Update


@dataclass(frozen=True, kw_only=True)
class Look:
    """Which message is looked at.

    Parameters
    ----------
    client : int
        The client.
    round : int
        The rounds that were completed before.
    batch : int
        Samples in each step on the leaves that the client sends.
    steps : int
        How many such steps it takes before it sends them.

    Examples
    --------
    Client 3's message of the third round, after one step on one sample:

    >>> import fedstat as fs
    >>> fs.privacy.Look(client=3, round=2)
    Look(client=3, round=2, batch=1, steps=1)
    """

    client: int = 0
    round: int = 0
    batch: int = 1
    steps: int = 1

    def __post_init__(self) -> None:
        check_fields(self, client=0, round=0, batch=1, steps=1)


@dataclass(frozen=True, eq=False)
class Secret:
    """What the attacker does not know: the measure of his success, and the means of controls.

    `x` and `y` are the samples behind the message, in the order of the steps; `leaves` are all of them, personal ones
    included, as they were before the first of those steps; `own` are all the client's training samples and their
    labels.
    """

    x: Tensor
    y: Tensor
    leaves: Params
    own: tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Observation:
    """What the server sees of one client in one round, and what it knows beforehand.

    Attributes
    ----------
    look : Look
        Which message this is.
    method : Method
        The method, whose objective the attacker knows.
    learner : Learner
        The network and its loss.
    phase : Phase
        The stretch of local training that moved the sent leaves.
    start : dict of Tensor
        What the client received.
    update : dict of Tensor
        What it sent back minus what it received; NaN at elements that it does not send.
    gradient : dict of Tensor
        By leaf that trains, what the update comes to per unit of learning rate: after one step exactly the gradient
        (up to rounding), after several their mean.
    guess : dict of Tensor
        All leaves as the attacker believes them: as received, and where nothing was sent the common start.
    lr, momentum, weight_decay : float
        Of local training.
    secret : Secret
        What the attacker does not know.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.from_indices(*fs.data.digits(), fs.data.iid(1797, 20))
    >>> look = fs.privacy.Look(client=3)
    >>> (seen,) = fs.privacy.observe(fs.FedAvg(), fs.models.mlp(64, 32, 10), clients, fs.Training(lr=0.1), look)
    >>> seen.lr, seen.secret.x.shape
    (0.1, torch.Size([1, 8, 8]))
    """

    look: Look
    method: Method
    learner: Learner
    phase: Phase
    start: Params
    update: Params
    gradient: Params
    guess: Params
    lr: float
    momentum: float
    weight_decay: float
    secret: Secret = field(repr=False)

    @property
    def network(self) -> Network:
        """The network."""
        return self.learner.network

    @property
    def samples(self) -> int:
        """How many samples the client used."""
        return len(self.secret.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.secret.x.shape[1:])


def observe(
    method: Method,
    model: Model,
    clients: Clients,
    training: Training,
    looks: Sequence[Look] | Look,
    *,
    seed: int = 0,
    dtype: str = "float32",
    device: str = "cpu",
) -> list[Observation]:
    """Train a method, and return what the server sees of single clients on the way.

    At each look the client's round is played apart, from the state that training has reached. Phases that move nothing
    which the client sends (FedDecomp's first, which trains tau) run in full, as training has them. Of the phase that
    moves the sent leaves the client takes ``look.steps`` steps of ``look.batch`` samples, the first of its shuffled
    samples: looks of 4 times 1 and 1 times 4 are about the same samples. Then it sends its message (under a mechanism,
    what this makes of its change), which is encoded and decoded by `fedstat.federated.codec`. Training goes on as if
    nobody had looked.

    Parameters
    ----------
    method, model, clients, training, seed, dtype, device
        As `fedstat.federate` takes them; one method, one seed.
    looks : Look or sequence of Look
        Which messages.

    Returns
    -------
    list of Observation
        In the order of `looks`.

    Raises
    ------
    ValueError
        If updates are no gradients (an optimiser other than SGD, clipping, a schedule, dropout, the momentum of
        Factorized-FL, the steps of Per-FedAvg, pFedMe and SCAFFOLD), a client has too few samples, the network takes no
        real inputs, or the method sends no leaf that trains; and as `fedstat.federate`.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.from_indices(*fs.data.digits(), fs.data.iid(1797, 20))
    >>> look = fs.privacy.Look(client=3)
    >>> (seen,) = fs.privacy.observe(fs.FedAvg(), fs.models.mlp(64, 32, 10), clients, fs.Training(lr=0.1), look)
    >>> sorted(seen.update)
    ['head.bias', 'head.weight', 'hidden.bias', 'hidden.weight']
    """
    looks = [looks] if isinstance(looks, Look) else list(looks)
    _rates(training)
    if clients.train.x.dtype.kind == "i":
        raise ValueError("clients must have real inputs or pixels, which an attack can move; got tokens.")
    for look in looks:
        if look.client >= len(clients):
            raise ValueError(f"client must be below {len(clients)}, the number of clients; got {look.client}.")
        if look.batch * look.steps > (n := int(clients.train.n[look.client])):
            raise ValueError(
                f"batch times steps must be at most {n}, the training samples of client {look.client}; got "
                f"{look.batch} times {look.steps}."
            )
    whole("seed", seed, 0)
    runs = make_plan({"it": method}, model, clients, training, seed=seed, dtype=dtype, device=device).start({})
    (run,) = runs.values()
    if type(run.method).gradient is not Method.gradient:
        raise ValueError(
            "method must step along its objective's gradient, so that updates are gradients; "
            f"{type(method).__name__} has steps of its own."
        )
    if run.network.noisy:
        raise ValueError("model must be without dropout, whose noise the attacker does not know; take its layers out.")
    found: dict[int, Observation] = {}
    rounds = loop(runs, 0, 1.0)
    for number in range(max((look.round for look in looks), default=-1) + 1):
        if number:
            next(rounds)
        found |= {i: _seen(run, look, training) for i, look in enumerate(looks) if look.round == number}
    return [found[i] for i in range(len(looks))]


def _rates(training: Training) -> tuple[float, float]:
    """Return learning rate and momentum; refuse training whose updates are no gradients."""
    steps = training.steps
    if not isinstance(steps, SGD) or steps.nesterov:
        raise ValueError(
            f'training must have optimizer "sgd", for updates of others are no gradients; got {training.optimizer!r}.'
        )
    for name in ("clip_norm", "schedule"):
        if getattr(training, name) is not None:
            raise ValueError(
                f"training must have {name}=None, so that updates are gradients; got {getattr(training, name)!r}."
            )
    if isinstance(training.lr, tuple) or training.lr == 0:
        raise ValueError(f"training must have one learning rate above zero, got lr={training.lr!r}.")
    return training.lr, steps.momentum


def _seen(run: Run, look: Look, training: Training) -> Observation:
    """Play one client's round apart, and return what is seen of it."""
    method, network, t = run.method, run.network, run.state.round
    ids = torch.tensor([look.client], device=network.device)
    jobs = run.replicate.jobs([look.client])
    received = method.receive(run.state, ids)
    # phases before the first that moves what is sent run in full, that one from its first batch on
    shared = {n for n in received if n not in run.state.shared or run.state.shared[n].any()}
    phases = phases_of(run.route, t)
    k = next((k for k, phase in enumerate(phases) if shared.intersection(phase.train)), None)
    if k is None:
        raise ValueError(f"{method} sends no leaf that trains, so that there is no gradient to look at.")
    if phases[k].state is not None:
        raise ValueError(f"training must have momentum 0, which {type(method).__name__} keeps from round to round.")
    hidden, phase = tuple(phases[:k]), replace(phases[k], epochs=1, first_epoch=0, steps=look.steps)
    before = train(run.route, received, jobs, t, phases=hidden) if hidden else received
    equipment = replace(run.equipment, training=replace(training, batch_size=look.batch, local_epochs=1))
    end = train(equipment.route(method, network, before), before, jobs, t, phases=(phase,))
    weight = torch.ones(1, dtype=network.dtype, device=network.device)
    update = Update(ids, received, end, weight, np.random.default_rng(0), network)
    if (mechanism := method.mechanism) is not None:  # what the client makes of its change before it sends it
        of, rng = len(run.replicate.clients), run.replicate.seeds.stream(*run.draws, t, look.client)
        update = heard(lambda changes, _: mechanism.send(changes, of, rng)[0], run.state, update)
    down = method.download(run.state, update)
    update, _, _ = run.compressed(t, update, down, method.upload(run.state, update))
    # what the receiver has, NaN where nothing was sent
    decoded = (decode(encode(m, 0), m, 0, nonzeros(m, 0)) for m in (down, method.upload(run.state, update)))
    start, sent = ({name: leaf.to(network.device) for name, leaf in leaves.items()} for leaves in decoded)
    moved = {name: sent[name] - start[name] for name in sent if name in start}
    guess = {name: leaf.detach().clone() for name, leaf in run.state.server.items()}
    guess |= {n: torch.where(start[n].isnan(), leaf, start[n]) for n, leaf in guess.items() if n in start}
    rate, momentum = _rates(training)
    lr = rate * training.lr_decay**t
    trains = [name for name in phase.train if name in moved]
    if not trains:
        raise ValueError(f"{method} sends no leaf that trains, so that there is no gradient to look at.")
    own = lr if phase.lr is None else phase.lr
    rates = own if isinstance(own, Mapping) else dict.fromkeys(trains, own)
    per = {name: rates[name] * weight_of_steps(momentum, look.steps) for name in trains}
    gradient = {name: -moved[name] / per[name] - training.weight_decay * start[name] for name in trains}
    return Observation(
        look=look,
        method=method,
        learner=run.route.learner,
        phase=phase,
        start=start,
        update=moved,
        gradient=gradient,
        guess=guess,
        lr=lr,
        momentum=momentum,
        weight_decay=training.weight_decay,
        secret=_secret(run, look, before),
    )


def weight_of_steps(momentum: float, steps: int) -> float:
    """Return how often a constant gradient enters the change after so many steps of heavy-ball momentum."""
    return float(sum(sum(momentum**i for i in range(s + 1)) for s in range(steps)))


def _secret(run: Run, look: Look, before: Params) -> Secret:
    """Find the samples behind the message by the engine's own keys."""
    (job,) = run.replicate.jobs([look.client])
    samples = run.route.samples
    orders = BatchOrders(look.batch, samples, run.state.round, "batches", run.method.held_out)
    places = orders.order([job], 0, [1])[0][: look.steps].reshape(-1)
    x, y = samples.row(job.row)
    x = run.network.inputs(x)
    leaves = {name: leaf[0].detach().clone() for name, leaf in before.items()}
    return Secret(x[places].clone(), y[places].clone(), leaves, (x, y.clone()))

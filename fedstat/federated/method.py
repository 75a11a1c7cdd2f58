"""The contract of a method: hyper-parameters, and pure functions over an immutable state.

Every step has FedAvg's behaviour as its default, and a method overrides the steps in which it differs. The steps that
most methods need, in the order in which the round loop (`fedstat.federated.rounds`) calls them:

====================  =============================================================================================
``parameterize``      builds the network's weights from parts
``leaves``            returns the leaves that everybody starts from
``shared``            returns masks of who holds which element, for every leaf of which clients keep something
``init``              makes the state before the first round from ``leaves`` and ``shared``
``receive``           returns the leaves that the participants of a round start from
``prepare``           changes one client's leaves before training, without gradients
``phases``            says which leaves train, for how long and at which rate
``objective``         returns the loss of one client on one batch
``finish``            changes one client's leaves after training, without gradients, or adds what is sent beside them
``download, upload``  return the messages of a round, whose bytes are counted
``aggregate``         returns the state after the round
``models``            returns the models that are evaluated at the run's own clients
``predict``           maps one client's leaves and inputs to outputs
``newcomer``          returns the models that are evaluated at clients that have never taken part
====================  =============================================================================================

Steps and class attributes that are rarely needed, each with the methods of fedstat's own that override it:

====================  =============================================================================================
``predictor``         makes models of stacked leaves (`FactorizedFL` leaves small entries out)
``pull``              adds to the objective's gradient that of a term which needs no batch (`FedProx`, `FedDyn`)
``gradient``          makes the direction of one step from gradients (`PerFedAvg` on several batches, `SCAFFOLD`)
``constrain``         puts back after a step what moved where it may not be (`APFL`, `FedALA`)
``batches``           is the number of batches that one step takes (`PerFedAvg`)
``held_out``          is the share of a client's training samples that the method keeps for its own use (`FedFOMO`)
``prelude``           returns the messages before the first round (`FedFac`)
``record``            returns the arrays that are recorded after every round (`FedFac`)
``at_once``           says what the method holds of all clients at once, in bytes (`FedFOMO`)
``taken_over``        names the slots of the server that its optimiser leaves as they were aggregated (`SCAFFOLD`)
``averages``          says, in a class with an ``aggregate`` of its own, that this averages as FedAvg's does (`FedAvg`)
``exact_uploads``     says that the server sums what clients remember, and must hear it exactly (`FedDyn`, `SCAFFOLD`)
====================  =============================================================================================

``prepare``, ``objective``, ``pull``, ``constrain``, ``finish`` and ``predict`` speak of one client; the engine
vectorises them.
Arguments come in one order: what the step works on (the state, the network or the learner), then the clients' `ids`,
then their leaves, then samples and settings, and last the federation.
"""

from __future__ import annotations

import os
import traceback
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import check_fields, warn_of_near
from fedstat.federated.aggregators import Aggregator, heard, noised
from fedstat.federated.attacks import ATTACKS
from fedstat.federated.attendance import Attended
from fedstat.federated.client.local import Batch, ClientData, Context, Learner, Phase, Training
from fedstat.federated.client.network import Model, Network, Params
from fedstat.federated.codec import Message, Selected
from fedstat.federated.compression import Compression
from fedstat.federated.means import step_to_mean
from fedstat.federated.mechanisms import Mechanism, check_mechanism
from fedstat.federated.server import ServerOptimizer, served
from fedstat.federated.slots import check_masks
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.federated.store import ClientStore

#: Folders whose files no user wrote.
_INSIDE = tuple(str(Path(file).resolve().parent) + os.sep for file in (torch.__file__, Path(__file__).parent))
#: How many leaves a message lists, and what they are.
_LISTED, _LEAVES = 8, "a dict of tensors by leaf"

Step = TypeVar("Step", bound=Callable[..., Any])
T = TypeVar("T")
Rules = Mapping[str, str | int | tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base of all methods; as it stands it is FedAvg (McMahan et al. 2017, Algorithm 1).

    Class attributes tell `fedstat.testing.check_method` how to run a method: ``example`` holds arguments that suit the
    network ``mlp(3, 5, 2)`` with the layers ``hidden`` and ``head``; ``example_model`` is another network with three
    inputs and two outputs if that one will not do; ``exempt`` names laws that do not apply, each with the reason; and
    ``fewest`` is the smallest number of clients. ``held_out`` is the share of a client's training samples that the
    engine keeps from training for the method's own use, ``batches`` the number of batches that one step takes, and
    ``taken_over`` the slots of the server that its optimiser leaves as they were aggregated. ``label`` is what runs and
    tables call the method where its papers' name cannot be a class's. A class with an ``aggregate`` of its own takes an
    aggregator or a mechanism if it says ``averages = True``: it does no more than average changes. A class that says
    ``exact_uploads = True`` takes no compression.

    Parameters
    ----------
    weighting : {"samples", "uniform"}
        Aggregation weights p_k: proportional to the participants' training samples, or equal.
    server : ServerOptimizer, optional
        How the server steps to what is aggregated, such as ``fs.server.Adam(lr=0.01)``; by default it takes that over,
        ``w <- w + sum_k p_k (w_k - w)``. The server's step eta_g of many papers is ``fs.server.SGD(lr=eta_g)``.
    aggregator : Aggregator, optional
        How participants' changes become one, such as ``fs.aggregators.Krum(f=2)``; by default their mean by p_k.
    compression : Compression, optional
        How uploads are compressed, such as ``fs.compression.TopK(0.01)``; by default numbers travel as they are.
    mechanism : Mechanism, optional
        How changes are made differentially private, such as ``fs.mechanisms.Gaussian(clip=1.0, noise=1.0)``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import fedstat as fs
    >>> from fedstat.federated import share_all_but
    >>> @dataclass(frozen=True, kw_only=True)
    ... class PrivateHead(fs.Method):
    ...     def shared(self, network, federation):
    ...         return share_all_but(network, network.layers[network.head])
    >>> fs.describe(PrivateHead(), fs.models.mlp(4, 3, 2)).table["holder"].tolist()
    ['server', 'server', 'client', 'client']
    """

    weighting: Literal["samples", "uniform"] = "samples"
    server: ServerOptimizer | None = None
    aggregator: Aggregator | None = None
    compression: Compression | None = None
    mechanism: Mechanism | None = None

    label: ClassVar[str] = ""
    example: ClassVar[Mapping[str, Any]] = {}
    example_model: ClassVar[Model | None] = None
    exempt: ClassVar[Mapping[str, str]] = {}
    fewest: ClassVar[int] = 1
    held_out: ClassVar[float] = 0.0
    batches: ClassVar[int] = 1
    taken_over: ClassVar[tuple[str, ...]] = ()
    averages: ClassVar[bool] = True
    exact_uploads: ClassVar[bool] = False
    #: What a class's own fields keep to.
    _ranges: ClassVar[Rules] = {"weighting": ("samples", "uniform")}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        warn_of_near(cls, Method)

    def __post_init__(self) -> None:
        """Check that no field hides a step, and what fields hold."""
        if hidden := [each.name for each in fields(self) if callable(getattr(Method, each.name, None))]:
            raise ValueError(
                f"{type(self).__name__} has a field {hidden[0]!r}, which is the name of a step of methods; rename it."
            )
        check_fields(self, **ChainMap(*(vars(cls).get("_ranges", {}) for cls in type(self).__mro__)))
        if self.server is not None and (isinstance(self.server, type) or not isinstance(self.server, ServerOptimizer)):
            raise ValueError(
                f"server must be an optimiser with a rate lr, such as fs.server.Adam(lr=0.01), got {self.server!r}."
            )
        wrong = isinstance(self.aggregator, (type, *ATTACKS.values()))
        if wrong or not (self.aggregator is None or callable(self.aggregator)):
            raise ValueError(f"aggregator must be a rule such as fs.aggregators.Krum(f=2), got {self.aggregator!r}.")
        if isinstance(self.compression, type) or not isinstance(self.compression, Compression | None):
            raise ValueError(f"compression must be a codec such as fs.compression.QSGD(7), got {self.compression!r}.")
        if self.mechanism is not None:
            check_mechanism(self.mechanism, self.weighting, self.aggregator, self.compression)

    def parameterize(self, network: Network, rng: np.random.Generator) -> Network:
        """Return the network with its weights built from parts; by default they stay plain."""
        return network

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Return the leaves that everybody starts from; those beyond the network's own are named ``slot/leaf``."""
        return network.initial()

    def shared(self, network: Network, federation: Federation) -> Params:
        """Return masks, each broadcastable to (K, ...), that are true where an element is shared at the start.

        Everybody shares the whole of a leaf that is not named; by default none is.
        """
        return {}

    def init(self, network: Network, federation: Federation) -> State:
        """Return the state before the first round: server and clients start alike."""
        server = returned(self, "leaves", self.leaves(network, federation), Mapping, _LEAVES)
        shared = returned(self, "shared", self.shared(network, federation), Mapping, _LEAVES)
        if not shared:
            return State(server)
        check_masks(type(self).__name__, shared, server, len(federation.clients))
        kept = {name: leaf for name, leaf in server.items() if name in shared and not shared[name].all()}
        clients = ClientStore.filled(kept, len(federation.clients)) if kept else ClientStore.empty()
        return State(server, clients, shared)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Return the leaves that clients `ids` start from, stacked (m, ...)."""
        params, own, masks = stack(state.server, len(ids)), state.clients.rows(ids), rows(state.shared, ids)
        return params | {n: torch.where(mask, params[n], own[n]) for n, mask in masks.items() if n in own}

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Return one client's leaves before training, and what its objective and ``finish`` need beside them."""
        return params, {}

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Return what trains in round `round` (from 0), one phase after the other."""
        return (Phase(network.trainable),)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return one client's loss on one batch, a scalar; a term that depends on no samples is faster as a `pull`."""
        return learner.loss(params, batch)

    def pull(self, params: Params, context: Context) -> Params:
        """Return what is added to the gradient of one client's objective at `params`, by leaf; by default nothing.

        It stands for a term of what a client minimises that depends on no samples, such as a proximal term: for
        ``mu / 2 |w - w0|^2`` it is ``mu (w - w0)``. It is part of the gradient in every respect: ``grad`` of
        ``gradient`` has it, clipping bounds the sum, the penalty of weight decay is added after that, and the optimiser
        sees all of it. Losses that are reported leave the term out, as they do that of an objective. What is returned
        for leaves that do not train in the phase has no effect.
        """
        return {}

    def gradient(
        self, grad: Callable[[Params, Batch], Params], params: Params, batches: tuple[Batch, ...], context: Context
    ) -> Params:
        """Return the direction of one step; ``grad(params, batch)`` gives all clients' gradients, pull included.

        Tensors belong to one client, or to a stack of clients along their first axis; so compute element by element.
        """
        return grad(params, batches[0])

    def constrain(self, params: Params, context: Context) -> Params:
        """Return what changes in one client's leaves after each step, without gradients, such as a projection."""
        return {}

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Return what changes in one client's leaves after training, or is uploaded beside them."""
        return {}

    def prelude(self, network: Network, clients: int) -> tuple[Message, Message]:
        """Return what all clients send and receive before the first round, K rows each; by default nothing."""
        return {}, {}

    def download(self, state: State, update: Update) -> Message:
        """Return what the participants received, m rows; by default the shared elements of ``update.start``."""
        return _shared_elements(update.start, state, update.ids)

    def upload(self, state: State, update: Update) -> Message:
        """Return what the participants sent back, m rows; by default the shared elements of ``update.end``."""
        return _shared_elements(update.end, state, update.ids)

    def aggregate(self, state: State, update: Update) -> State:
        """Return the state after a round: shared elements step to the mean, clients keep what they trained."""
        server = step_to_mean(state.server, update, rows(state.shared, update.ids))
        return replace(state, server=server, clients=keep(state.clients, update), round=state.round + 1)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Return what is evaluated at clients `ids`, by the name of the estimand; the first is the method's own.

        `federation` is None where the data are not at hand (a loaded result).
        """
        return {"personal" if state.clients else "global": self.predictor(self.receive(state, ids))}

    def predict(self, learner: Learner, params: Params, x: Tensor) -> Tensor:
        """Return outputs (B, Q) of one client's leaves."""
        return learner.network(params, x)

    def predictor(self, params: Params) -> Predictor:
        """Return the models of stacked leaves under the method's own ``predict``."""
        return Predictor(params, self.predict)

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Return models of the new clients `ids` of `federation`, by the name of the estimand.

        `start` holds the server's leaves, stacked (m, ...). By default a new client takes the shared part as it is and
        trains the personal part, from its start, alone. Personal statistics of batch norm are then those of all the
        client's training samples. A method without personal parts gives its global model.

        Raises
        ------
        ValueError
            If the method has no rule: clients differ in what they share, and a new client's share is not known.
        """
        if not state.clients:
            return {"global": self.predictor(start)}
        if any(mask.shape[0] > 1 for mask in state.shared.values()):
            raise ValueError(
                f"{type(self).__name__} has no rule for new clients here: clients share different elements, and what "
                "a new client would share is not known."
            )
        personal = {name: ~mask for name, mask in state.shared.items() if not mask.all()}
        phase = Phase(tuple(name for name in federation.network.trainable if name in personal))
        end = federation.train(self, start, ids, (phase,), state.round, moves=personal)
        if personal.keys() & set(federation.network.statistics):
            end |= federation.statistics(end, ids)
        return {
            "personal": self.predictor(
                start | {name: torch.where(mask, end[name], start[name]) for name, mask in personal.items()}
            )
        }

    def record(self, state: State) -> Mapping[str, Tensor]:
        """Return the arrays that are recorded after every round beside the metrics; by default none."""
        return {}

    def at_once(self, network: Network, clients: int) -> Mapping[str, int]:
        """Return what the method holds of all K clients at once beside their rows, in bytes; by default nothing.

        The names say what it is, as in "the affinities of all pairs of clients". A run that would need more than the
        machine has is refused before it begins.
        """
        return {}


def label_of(method: Method) -> str:
    """Return what runs and tables call a method: its class's own label, or the name of the class."""
    return vars(type(method)).get("label", type(method).__name__)


def weighed(
    method: Method, who: Attended, n: np.ndarray, start: Params, end: Params, rng: np.random.Generator, network: Network
) -> Update:
    """Return the update of those who came, weighed as the method does; all K clients have `n` (K,) training samples."""
    n, ids = n[who.ids] if method.weighting == "samples" else np.ones(len(who.ids)), torch.from_numpy(who.ids)
    weight = torch.from_numpy(n / n.sum()).to(network.device, network.dtype)
    return Update(ids.to(network.device), start, end, weight, rng, network, attended=who)


def returned(method: Method, step: str, value: T, kind: Any, what: str) -> T:
    """Return what a step of a method returned, or say what it should have been."""
    if not isinstance(value, kind):
        raise ValueError(f"{type(method).__name__}.{step} must return {what}, got {type(value).__name__}.")
    return value


class FailedStep(ValueError):
    """Raised in the place of what went wrong in a step of a method."""


@contextmanager
def naming(method: Method, step: str, when: str, leaves: Params, *, stacked: bool = False) -> Iterator[None]:
    """Let an error in a step of a method say where it happened, and what leaves the step was given.

    A `FailedStep` takes the place of the error, unless that tells of infinite numbers, files or memory.
    """
    try:
        yield
    except (FailedStep, AssertionError, FloatingPointError, MemoryError, OSError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a step of one's own may fail in any way
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_INSIDE)]
        place = f" at line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
        shapes = [f"{name} {tuple(leaf.shape)}" for name, leaf in leaves.items()]
        listed = ", ".join(shapes[:_LISTED]) + (f" and {len(shapes) - _LISTED} more" if len(shapes) > _LISTED else "")
        what = (str(error).splitlines() or [""])[0].rstrip(".")
        whose = "several clients', with a client axis first" if stacked else "one client's, without a client axis"
        raise FailedStep(
            f"{type(method).__name__}.{step} failed in {when}{place}: {type(error).__name__}: {what}. Its leaves are "
            f"{whose}: {listed}."
        ) from None


def written_out(step: Step) -> Step:
    """Mark a step that repeats `Method`'s own for the reader, so that `own_steps` does not count it."""
    vars(step)["written_out"] = True
    return step


def aggregated(method: Method, state: State, update: Update) -> State:
    """Return the state after a round: a method's step between its aggregator or mechanism and its server's optimiser.

    With fewer participants than the aggregator needs the round counts, and nothing moves.
    """
    if (rule := method.mechanism or method.aggregator) is not None:
        if len(update.ids) < getattr(rule, "fewest", 1):
            return replace(state, round=state.round + 1)
        update = heard(rule, state, update)
    after = method.aggregate(state, update)
    return after if method.server is None else served(method.server, state, after, method.taken_over)


def unattended(method: Method, state: State, update: Update) -> State:
    """Return the state after a round to which nobody came: nothing moves but by a mechanism's noise."""
    if method.mechanism is None or update.attended is None or not update.attended.of:
        return replace(state, round=state.round + 1)
    after = noised(method.mechanism, state, update, update.attended.of)
    return after if method.server is None else served(method.server, state, after, method.taken_over)


def stack(params: Params, clients: int) -> Params:
    """Give one client's leaves to K clients, (K, ...), without copies.

    Examples
    --------
    >>> import torch
    >>> from fedstat.federated import stack
    >>> stack({"w": torch.ones(2, 3)}, 5)["w"].shape
    torch.Size([5, 2, 3])
    """
    return {name: leaf.expand(clients, *leaf.shape) for name, leaf in params.items()}


def device_of(state: State) -> torch.device:
    """Return where a state's tensors live."""
    return next(iter(state.server.values())).device


def on_device(state: State, device: str) -> State:
    """Move all tensors of a state but the client store's rows."""

    def moved(params: Params) -> Params:
        return {name: leaf.to(device) for name, leaf in params.items()}

    return replace(state, server=moved(state.server), shared=moved(state.shared), memory=moved(state.memory))


def rows(stacked: Params, ids: Tensor) -> Params:
    """Return rows `ids` of a stack whose first axis may have length one, standing for every client."""
    return {name: leaf if leaf.shape[0] == 1 else leaf[ids] for name, leaf in stacked.items()}


def keep(clients: ClientStore, update: Update) -> ClientStore:
    """Write the participants' trained leaves into their rows; absentees keep theirs."""
    end = {**update.end, **update.own}
    return clients.write(update.ids, {name: end[name] for name in clients})


def _shared_elements(params: Params, state: State, ids: Tensor) -> Message:
    """Return the shared elements of `params`."""
    if not state.shared:
        return {name: params[name] for name in state.server}
    masks, message = rows(state.shared, ids), dict[str, Tensor | Selected]()
    for name in state.server:
        if name not in masks or masks[name].all():
            message[name] = params[name]
        elif masks[name].any():
            message[name] = Selected(params[name], masks[name])
    return message

"""FilterDecomp: filters are coefficients times atoms, and the server averages the two apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedstat.federated.client.local import Batch, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params, parameterize
from fedstat.federated.codec import Message, Selected
from fedstat.federated.method import Method, stack
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.parameterization import Atoms

#: Under these names the server remembers how often it has averaged the slow group, and which version each client holds.
NEWEST, VERSION = "newest", "version"


def _three_pixels() -> nn.Module:
    """Build a small network with a convolution, from three inputs to two outputs."""
    layers = (nn.Unflatten(1, (1, 1, 3)), nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 2))


@dataclass(frozen=True, kw_only=True)
class FilterDecomp(Method):
    """Filters are coefficients times atoms, averaged apart; atoms can also be personal, or travel alone.

    A filter is ``W[o, i, a, b] = sum_r alpha[r, o, i] D[a, b, r]`` with one set of atoms D per convolution. Clients
    train both factors, the server averages each, and the product of the averages also holds the coefficients of one
    client with the atoms of another. The method has three forms (filter decomposition paper):

    * global (section 4, equations 6-9): clients train all leaves, and the server averages them;
    * ``personal=True`` (section 4.2): clients also train atoms of their own, with the coefficients and all other leaves
      as they were received; these atoms never travel;
    * ``beta < 1`` (appendix A.2, Algorithm 2): atoms and head, the fast group, travel in every round, the slow group
      in rounds 0, 1/beta, 2/beta, ...; in the other rounds the server's slow group stays as it is.

    Parameters
    ----------
    atoms : int
        Atoms per convolution, m_a, at least 1 (9, the paper's choice).
    basis : {"orthonormal", "canonical"}
        Start of the atoms, see `fedstat.parameterization.Atoms`; the paper does not say ("orthonormal", ours).
    personal : bool
        Whether clients keep atoms of their own, which start as the global ones do, and with them statistics of batch
        norm (False).
    head : {"shared", "local"}
        Whether clients keep just their own atoms, the paper's words ("shared"), or their own last dense layer too.
    beta : float
        Share of rounds in which the slow group travels, one over a whole number (1; the paper also runs 1/5, 1/10).
    slow : {"all", "alpha"}
        The slow group: all leaves but atoms and head, which the saving that the paper reports needs ("all"), or the
        coefficients alone, the paper's words.
    keep_local_slow : bool
        Whether a client goes on from its own slow group until the server has a newer one, as the paper's theorem
        assumes, or drops what it trained between those rounds, as its algorithm says (False).
    weighting, server, compression
        See `Method`.

    Raises
    ------
    ValueError
        For values out of range, for a network without convolutions, and for one without a dense layer if the method
        needs a head.

    Notes
    -----
    Coefficients, global atoms and all other leaves travel up and down. With ``beta < 1`` the slow group goes up in its
    rounds only. It goes down, in whatever round, to a client that holds no copy or an older one: the aggregate of round
    0 in the client's next round, not in round 1/beta. A client present in all rounds sends, and after the first round
    receives, the fast group and on average `beta` of the slow one. A new client receives the global model and, where
    atoms are personal, trains a set of its own from its start for one round's epochs; its statistics of batch norm are
    then those of all its training samples.

    Our choices where the paper is silent: personal and global atoms belong to two alternative models, trained on the
    same batches. Under either the network sees other features, so that a client with atoms of its own also keeps
    running statistics of batch norm of its own, which its personal training moves; scale and shift are shared, and
    stand still there. 1x1 convolutions, whose filters have nothing to decompose, stay plain. Norm layers belong to
    the slow group.

    The authors' code: none was found. The paper's network has no norm layers.

    Examples
    --------
    With atoms of the clients' own beside the shared ones:

    >>> import fedstat as fs
    >>> method = fs.methods.FilterDecomp(atoms=4, personal=True)
    >>> table = fs.describe(method, fs.models.cnn(8, 10)).table
    >>> print(table.loc[table["leaf"].str.contains("conv1"), ["leaf", "shape", "holder"]].to_string(index=False))
                        leaf shape holder
          conv1.weight.alpha 4x8x1 server
          conv1.weight.atoms 3x3x4 server
                  conv1.bias     8 server
    local/conv1.weight.atoms 3x3x4 client
    """

    atoms: int = 9
    basis: Literal["orthonormal", "canonical"] = "orthonormal"
    personal: bool = False
    head: Literal["shared", "local"] = "shared"
    beta: float = 1.0
    slow: Literal["all", "alpha"] = "all"
    keep_local_slow: bool = False

    example = {"atoms": 4}
    example_model = staticmethod(_three_pixels)
    _ranges = {
        "atoms": 1, "beta": "(0, 1]", "basis": ("orthonormal", "canonical"), "head": ("shared", "local"),
        "slow": ("all", "alpha"),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head == "local" and not self.personal:
            raise ValueError(
                "head='local' belongs to personal atoms, but personal is False; set personal=True as well."
            )
        if abs(self.beta * self.period - 1) > 1e-9:
            raise ValueError(f"beta must be one over a whole number, such as 1/5, got {self.beta}.")
        if self.beta < 1 and self.server is not None:
            raise ValueError(f"server must be None where beta < 1 lets the slow group wait, got {self.server!r}.")
        if self.beta < 1 and self.keep_local_slow and self.compression is not None:
            raise ValueError(
                f"compression must be None where clients go on from their own slow group, got {self.compression!r}."
            )

    @property
    def period(self) -> int:
        """Number of rounds from one average of the slow group to the next."""
        return round(1 / self.beta)

    def parameterize(self, network: Network, rng: np.random.Generator) -> Network:
        """Build every convolution's weight from coefficients and atoms."""
        filters = {n: tuple(shape) for n, shape in network.kernels.items() if len(shape) == 4 and shape[2:] != (1, 1)}
        forms = {name: Atoms(shape, self.atoms, self.basis) for name, shape in filters.items()}
        if not forms:
            raise ValueError("the network needs a convolution (nn.Conv2d) larger than 1x1 that trains; it has none.")
        return parameterize(network, forms, rng)

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Add the personal leaves, and a client's own slow group, to the global model's."""
        start = network.initial()
        return (
            start
            | in_slot({name: start[name] for name in self._local(network)}, "local")
            | in_slot({name: start[name] for name in self._kept(network)}, "slow")
        )

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share the global model's leaves, and no other."""
        local, slow = (share_all_but(network, leaves) for leaves in (self._local(network), self._kept(network)))
        return in_slot(local, "local") | in_slot(slow, "slow")

    def init(self, network: Network, federation: Federation) -> State:
        """Remember the version of the slow group, and which one each client holds, at first none."""
        state = super().init(network, federation)
        none = torch.full((len(federation.clients),), -1, device=network.device)
        return replace(state, memory={NEWEST: torch.zeros_like(none[0]), VERSION: none} if self._slow(network) else {})

    def receive(self, state: State, ids: Tensor) -> Params:
        """Give the server's model; a client that keeps its slow group goes on from it while it is up to date."""
        params = super().receive(state, ids)
        for name, own in slot(params, "slow").items():
            params[name] = torch.where(self._outdated(state, ids, own), params[name], own)
        return params

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train the global model, then the personal leaves on the same batches."""
        return (Phase(network.trainable), self._personal(network)) if self.personal else (Phase(network.trainable),)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the global model's loss, or that of the received model with the personal leaves."""
        if context.phase != "personal":
            return learner.loss(without_slots(params), batch)
        return learner.loss(without_slots(context.received) | slot(params, "local"), batch)

    def download(self, state: State, update: Update) -> Message:
        """Send the fast group, and the slow group to clients whose copy is outdated."""
        received = {name: update.start[name] for name in self._slow(update.network)}
        slow = {name: Selected(leaf, self._outdated(state, update.ids, leaf)) for name, leaf in received.items()}
        return {**super().download(state, update), **slow}

    def upload(self, state: State, update: Update) -> Message:
        """Send the fast group; in every 1/beta-th round send all."""
        message, slow = super().upload(state, update), self._slow(update.network)
        return {name: entry for name, entry in message.items() if self._averages(state) or name not in slow}

    def aggregate(self, state: State, update: Update) -> State:
        """Average the fast group, and in every 1/beta-th round the slow one."""
        slow = {name: state.server[name] for name in self._slow(update.network)}
        known = stack(slow, len(update.ids))
        end = {**update.end, **update.own}
        own = in_slot({name: end[name] for name in self._kept(update.network)}, "slow")
        new = super().aggregate(state, replace(update, start=update.start | known, end=update.end | own))
        if not slow:
            return new
        newest, averages = state.memory[NEWEST], self._averages(state)
        memory = {NEWEST: newest + averages, VERSION: state.memory[VERSION].index_fill(0, update.ids, newest)}
        return replace(new, server=new.server | ({} if averages else slow), memory=memory)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the newest global model; before it, where there are any, the same with clients' personal leaves."""
        params = stack(without_slots(state.server), len(ids))
        found = {"global": self.predictor(params)}
        if not self.personal:
            return found
        return {"personal": self.predictor(params | slot(state.clients.rows(ids), "local")), **found}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Give the global model; where there are personal leaves, train new ones with it."""
        if not self.personal:
            return {"global": self.predictor(without_slots(start))}
        end = federation.train(self, start, ids, (self._personal(federation.network),), state.round)
        params = without_slots(start) | slot(end, "local")
        return {"personal": self.predictor(params | federation.statistics(params, ids))}

    def _local(self, network: Network) -> tuple[str, ...]:
        """Return leaves of which clients keep their own: those that they train, and the statistics of batch norm."""
        return (*self._trained(network), *network.statistics) if self.personal else ()

    def _trained(self, network: Network) -> tuple[str, ...]:
        """Return the leaves that personal training moves."""
        return (*_parts(network, "atoms"), *(network.head_leaves if self.head == "local" else ()))

    def _personal(self, network: Network) -> Phase:
        return Phase(tuple(f"local/{name}" for name in self._trained(network)), first_epoch=0, name="personal")

    def _slow(self, network: Network) -> tuple[str, ...]:
        """Return the slow group, which does not travel in all rounds; it is empty if ``beta`` is 1."""
        if self.period == 1:
            return ()
        if self.slow == "alpha":
            return _parts(network, "alpha")
        fast = {*_parts(network, "atoms"), *network.head_leaves}
        return tuple(name for name in network.shapes if name not in fast)

    def _kept(self, network: Network) -> tuple[str, ...]:
        """Return the leaves of the slow group if clients keep their own."""
        return self._slow(network) if self.keep_local_slow else ()

    def _averages(self, state: State) -> bool:
        """Tell whether this round averages the slow group."""
        return state.round % self.period == 0

    def _outdated(self, state: State, ids: Tensor, leaf: Tensor) -> Tensor:
        """Tell which clients hold an older version of a slow `leaf` (m, ...), or none; shape (m, 1, ...)."""
        return (state.memory[VERSION][ids] < state.memory[NEWEST]).view(-1, *[1] * (leaf.dim() - 1))


def _parts(network: Network, part: str) -> tuple[str, ...]:
    """Return one part of every decomposed weight."""
    return tuple(name for name in network.parts if name.endswith(f".{part}"))

"""Factorized-FL: every weight is a thin product plus a sparse matrix, and similar clients average the basis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.local import Batch, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params, parameterize
from fedstat.federated.client.optimizers import SGD
from fedstat.federated.codec import Message, Sparse
from fedstat.federated.means import mixed
from fedstat.federated.method import Method, keep, stack
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.federated.store import ClientStore
from fedstat.parameterization import Form, Rank1Sparse

#: Under these names the server remembers how clients weigh in the mean for new clients, who has sent an upload, and
#: everybody's last coefficients v of layer L-1, (K, n).
SIZE, SENT, COEFFICIENTS = "size", "sent", "v"
#: Slots of a client's momentum, and of the first values of the head in the server's memory.
VELOCITY, HEAD = "velocity", "head"
#: The parts of a reading, which the class's table describes.
ReadingPart = Literal["arrangement", "fill", "head", "norms", "mu", "momentum", "evaluation"]
#: By how much the cosine of equal vectors may miss 1.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class FactorizedFL(Method):
    """Weights are a basis times coefficients plus a sparse matrix; clients with similar coefficients average bases.

    A weight is, as a matrix, ``u v + mu``: a thin basis u, coefficients v that say how a client uses it, and a sparse
    mu for what the product cannot express (Factorized-FL paper, equation 3). Clients train all parts jointly. For
    client k the server takes, among the clients i whose last v of layer L-1, the one below the head, has ``cosine
    sigma_ki >= tau``, the mean of u with weights proportional to ``exp(epsilon sigma_ki)`` (equations 4 and 5).
    "alpha" averages u alone, "beta" averages v and mu as well, with the same weights.

    Parameters
    ----------
    reading : {"code", "text"}
        The method as the authors ran it, or as they wrote it ("code": on digits "beta" gains 3.8 points [0.9, 6.7] at
        one rate and 4.5 [-0.7, 9.8] at another, three seeds each; for "alpha" no difference is resolved):

        =====================  ==========================================  ==========================================
        ..                     "code"                                      "text"
        =====================  ==========================================  ==========================================
        arrangement            `Rank1Sparse`'s "code"                      `Rank1Sparse`'s "text"
        fill                   mu of dense weights starts filled           mu starts at zero
        head                   factorised, personal                        plain, personal
        norm layers            scale and shift go with u, statistics       personal
                               are personal
        mu                     trained like all other parts                under an L1 penalty (equation 6)
        momentum (SGD's)       lives on from round to round                new in every round
        evaluation             a client's model as it was trained          with the next round's mean
        =====================  ==========================================  ==========================================
    variant : {"alpha", "beta"}
        The parts that the server averages ("alpha", which the paper presents first).
    rank : int
        Columns of u, the paper's gamma (1, the paper's choice).
    tau : float
        Least similarity of a neighbour; if infinite a client has no neighbour but itself (0.95, as in the authors' code
        where domains differ; 0 on a single data set).
    epsilon : float
        How much more similar clients weigh, not negative (20, as in the code where domains differ; 1 on a single data
        set).
    min_neighbours : int
        Least number of clients in a mean, the client itself included: the most similar ones, whatever `tau` says (1,
        the paper's rule; the code has 4 where domains differ, else 10 or 20).
    sparsity : float
        lambda_sparsity: the weight of the text's penalty, and the threshold of `prune` (5e-4, from the code).
    prune : bool
        Whether entries of mu below `sparsity` in size count as zero where a model is evaluated and, in the text's
        reading, where mu is uploaded. Gradient steps leave hardly any entry at exactly zero, so figures of sparsity
        and of "beta"'s costs need it (True, as in the code).
    reset_head : bool
        Whether a client's head starts every round from its first value; the code does so where clients have the same
        labels, and not where labels are permuted or domains differ (False, as in the text).
    weighting : {"samples", "uniform"}
        Weights of the mean for new clients; the clients' own means do not depend on it.
    server : None
        Every client has a mean of its own, and there is no server's value to step from.

    Raises
    ------
    ValueError
        For values out of range, for a network without a layer to factorise below its head, for more neighbours than
        clients, and where a client's v is zero, so that it is similar to nothing.

    Notes
    -----
    Under "alpha" u and the v of layer L-1 travel up, and a mean of u travels down. Under "beta" u, v and the non-zero
    entries of mu travel both ways; on the way down these lie where any neighbour's do. Biases of factorised layers go
    with u. A new client has no v yet: it starts from the mean, weighted by samples, of all clients' last uploads, and
    trains its personal parts for one round's epochs; in the code's reading the mean is of v and mu as well, and it
    trains all parts.

    Our choices: the server keeps everybody's last upload, so that absent clients are neighbours, too, and a client
    starts from the newest mean; a client that has not taken part yet is nobody's neighbour, and is itself judged by the
    common start. The softmax weights stand inside the sum. Clients below `tau` are left out, where a score of zero
    would keep weight one.

    The authors' code: it computes the penalty without gradient, so that it shows in the reported loss only. It
    overwrites a client's last upload by the client's mean before it takes the means of those that follow, whose
    neighbours then depend on the clients' order; ours do not. It counts the entries of mu above `sparsity` as sent,
    though all are; here all are counted. Momentum lives on under SGD; Adam's state is new in every round.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FactorizedFL(), fs.models.mlp(4, 3, 2)).table
    >>> print(table[["leaf", "shape", "holder"]].head(4).to_string(index=False))
                leaf shape holder
     hidden.weight.u   4x1 server
     hidden.weight.v   1x3 client
    hidden.weight.mu   4x3 client
         hidden.bias     3 server
    """

    reading: Literal["code", "text"] = "code"
    variant: Literal["alpha", "beta"] = "alpha"
    rank: int = 1
    tau: float = 0.95
    epsilon: float = 20.0
    min_neighbours: int = 1
    sparsity: float = 5e-4
    prune: bool = True
    reset_head: bool = False

    label = "Factorized-FL"
    exempt = {
        "one client": "the penalty on mu is a force that plain training does not feel, also where a client is alone."
    }
    _ranges = {
        "rank": 1, "min_neighbours": 1, "epsilon": "[0, inf)", "sparsity": "[0, inf)", "variant": ("alpha", "beta"),
        "reading": ("code", "text"),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reset_head and self.reading == "text":
            raise ValueError('reset_head belongs to the authors\' code, but reading is "text"; take reading="code".')
        if self.server is not None:
            raise ValueError(f"server must be None, since clients have means of their own, got {self.server!r}.")

    def parameterize(self, network: Network, rng: np.random.Generator) -> Network:
        """Factorise every dense, recurrent and convolutional weight; the text leaves the head plain."""
        head = f"{network.head}.weight"
        if network.kernels.keys() <= {head}:
            raise ValueError("the network needs a dense or convolutional layer below its head; it has none.")
        factorised = {n: s for n, s in network.kernels.items() if n != head or self._as_code("head")}
        return parameterize(network, {name: self._form(tuple(shape)) for name, shape in factorised.items()}, rng)

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start from the parts, and in the code's reading from a momentum of zeros beside them."""
        initial = network.initial()
        if not self._keeps_momentum(federation.training):
            return initial
        return initial | in_slot({name: torch.zeros_like(initial[name]) for name in network.trainable}, VELOCITY)

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share u, or all parts, of factorised weights below the head, and the leaves that go with u."""
        below = network.shapes.keys() - set(network.head_leaves)
        norms = set(network.norm_leaves) - set(network.statistics) if self._as_code("norms") else set()
        layers = {weight.rpartition(".")[0] for weight in network.forms}
        parts = ("u",) if self.variant == "alpha" else ("u", "v", "mu")

        def travels(leaf: str) -> bool:
            owner, _, last = leaf.rpartition(".")
            return leaf in norms or (last in parts if leaf in network.parts else owner in layers)

        masks = share_all_but(network, [leaf for leaf in network.shapes if leaf not in below or not travels(leaf)])
        if self._keeps_momentum(federation.training):
            masks |= in_slot(share_all_but(network, network.trainable), VELOCITY)
        return masks

    def at_once(self, network: Network, clients: int) -> Mapping[str, int]:
        """Hold the last uploads of a client's neighbours, who may be all."""
        return {"the uploads of all clients, who may be neighbours of one,": 2 * clients * network.bytes}

    def init(self, network: Network, federation: Federation) -> State:
        """Keep all leaves of every client; remember the clients' weights, who sent an upload, and each one's last v."""
        clients = len(federation.clients)
        if self.min_neighbours > clients:
            raise ValueError(
                f"min_neighbours must be at most the number of clients, {clients}, got {self.min_neighbours}."
            )
        state = super().init(network, federation)
        n = torch.from_numpy(federation.clients.train.n).to(network.device, torch.float64)
        head = {name: state.server[name] for name in network.head_leaves if self.reset_head}
        memory = {
            SIZE: n if self.weighting == "samples" else torch.ones_like(n),
            SENT: torch.zeros(clients, dtype=torch.bool, device=network.device),
            COEFFICIENTS: _coefficients(stack(state.server, clients), network),
            **in_slot(head, HEAD),
        }
        return replace(state, clients=ClientStore.filled(state.server, clients), memory=memory)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Give each participant the leaves that it keeps, with its own mean of all clients' last uploads."""
        params, weights = state.clients.rows(ids), self._weights(state, ids)
        near = weights.any(0).nonzero()[:, 0]
        uploads, weights = state.clients.rows(near), weights[:, near]
        # from the server's leaves equal uploads do not differ, and the text's mu has zeros there
        means = mixed({name: leaf for name, leaf in state.server.items() if name not in state.shared}, uploads, weights)
        return params | means | stack(slot(state.memory, HEAD), len(ids))

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train all parts jointly."""
        return (Phase(network.trainable, state=VELOCITY if self._keeps_momentum(training) else None),)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the loss, to which the text's reading adds an L1 penalty on mu."""
        if self._as_code("mu"):
            return learner.loss(params, batch)
        size = sum(params[leaf].abs().sum() for leaf in learner.network.parts if _is_sparse(leaf))
        return learner.loss(params, batch) + self.sparsity * size

    def download(self, state: State, update: Update) -> Message:
        """Send the means; of mu send the non-zero entries."""
        return _sparse(super().download(state, update))

    def upload(self, state: State, update: Update) -> Message:
        """Send the averaged parts, and the v by which clients are compared; of mu send the non-zero entries."""
        end, v = self._uploaded(update.end), _below_the_head(update.network)
        return _sparse({**super().upload(state, replace(update, end=end)), **{name: end[name] for name in v}})

    def aggregate(self, state: State, update: Update) -> State:
        """Keep the uploads; ``receive`` takes everybody's own mean of them, ``newcomer`` that for new clients."""
        end = self._uploaded(update.end) if self.variant == "beta" else update.end
        memory = state.memory | {
            SENT: state.memory[SENT].index_fill(0, update.ids, True),
            COEFFICIENTS: state.memory[COEFFICIENTS].index_copy(0, update.ids, _coefficients(end, update.network)),
        }
        clients = keep(state.clients, replace(update, end=end))
        return replace(state, clients=clients, memory=memory, round=state.round + 1)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give each client's model, in the code's reading as it was trained, else with the newest mean."""
        found = state.clients.rows(ids) if self._as_code("evaluation") else self.receive(state, ids)
        return {"personal": self.predictor(without_slots(found))}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Train personal parts, in the code's reading all parts, from the mean of all clients' last uploads."""
        network, who = federation.network, state.memory[SENT].nonzero()[:, 0]
        own = {*network.head_leaves, *network.statistics} if self.reading == "code" else {*state.shared}
        if len(who):
            uploads, size = state.clients.rows(who), state.memory[SIZE][who]
            common = {name: leaf for name, leaf in without_slots(state.server).items() if name not in own}
            start = start | stack(mixed(common, uploads, size / size.sum()), len(ids))
        if self.reading == "text":
            return super().newcomer(state, ids, start, federation)
        return {"personal": self.predictor(without_slots(federation.one_round(self, start, ids, state.round)))}

    def predictor(self, params: Params) -> Predictor:
        """Return the models; if `prune`, small entries of mu count as zero."""
        return super().predictor(self._pruned(params))

    def _as_code(self, part: ReadingPart) -> bool:
        """Say whether a part of the method goes as in the authors' code, else as in the text."""
        return self.reading == "code"

    def _form(self, shape: tuple[int, ...]) -> Form:
        """Return the form of a factorised weight."""
        arrangement: Literal["code", "text"] = "code" if self._as_code("arrangement") else "text"
        return Rank1Sparse(shape, self.rank, arrangement, self._as_code("fill"))

    def _keeps_momentum(self, training: Training) -> bool:
        return self._as_code("momentum") and isinstance(training.steps, SGD) and training.steps.momentum > 0

    def _weights(self, state: State, ids: Tensor) -> Tensor:
        """Return the weights (m, K) of all clients in the means of clients `ids`, in float64; see the class."""
        v = state.memory[COEFFICIENTS].double()
        length = v.norm(dim=1, keepdim=True)
        if (length == 0).any():
            raise ValueError(
                f"v below the head of client {int(length[:, 0].argmin())} must not be all zero, since its cosine with "
                "that of other clients is not defined then; lower the learning rate."
            )
        direction = v / length
        own = torch.arange(len(v), device=ids.device) == ids[:, None]
        known = own | state.memory[SENT]
        cosine = torch.where(own, 1.0, direction[ids] @ direction.mT)
        # the client itself comes first, even before clients with the same v
        ranked = cosine.masked_fill(~known, -np.inf).masked_fill(own, np.inf)
        closest = ranked >= ranked.sort(descending=True).values[:, self.min_neighbours - 1, None]
        neighbours = known & (closest | (cosine >= self.tau - _ROUNDING))
        return torch.where(neighbours, self.epsilon * cosine, -np.inf).softmax(dim=1)

    def _uploaded(self, params: Params) -> Params:
        """Return a client's leaves as it uploads them."""
        return params if self._as_code("mu") else self._pruned(params)

    def _pruned(self, params: Params) -> Params:
        """Return the leaves; if `prune`, with small entries of mu set to zero."""
        small = {
            n: torch.where(p.abs() < self.sparsity, 0, p) for n, p in params.items() if self.prune and _is_sparse(n)
        }
        return params | small


def _below_the_head(network: Network) -> list[str]:
    """Return the leaves v of layer L-1, the last factorised layer below the head."""
    parts = network.parts.keys() - set(network.head_leaves)
    layers = [[leaf for leaf in layer if leaf in parts and leaf.endswith(".v")] for layer in network.layers.values()]
    return next(leaves for leaves in reversed(layers) if leaves)


def _coefficients(params: Params, network: Network) -> Tensor:
    """Return the v of layer L-1 of stacked leaves (m, ...) as one row per client, (m, n)."""
    return torch.cat([params[name].flatten(1) for name in _below_the_head(network)], dim=1)


def _is_sparse(leaf: str) -> bool:
    return leaf.endswith(".mu") and "/" not in leaf


def _sparse(message: Message) -> Message:
    """Return the message with mu as its non-zero entries."""
    return {n: Sparse(e) if _is_sparse(n) and isinstance(e, Tensor) else e for n, e in message.items()}

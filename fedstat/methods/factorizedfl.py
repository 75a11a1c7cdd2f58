"""Factorized-FL: weights are a thin product plus a sparse matrix, and similar clients share the basis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.codec import Message, Sparse
from fedstat.federated.local import Batch, Context, Learner
from fedstat.federated.method import Method, Population, Predictor, State, Update, keep, only
from fedstat.federated.network import Network, Params, parameterize
from fedstat.federated.store import ClientStore
from fedstat.parameterization import Rank1Sparse

#: Under which name the server remembers how clients weigh.
SIZE = "size"
#: By how much the cosine of equal vectors may miss 1.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class FactorizedFL(Method):
    """Weights are a basis times coefficients plus a sparse matrix; clients with similar coefficients average bases.

    Every weight but the head's is, as a matrix, ``u v + mu``: a thin basis u, coefficients v that say how a client
    uses it, and a sparse mu for what the product cannot express (Factorized-FL paper, equation 3). Clients train all
    parts jointly under an L1 penalty on mu (equation 6). For client k the server takes, among the clients i whose
    last v of layer L-1, the one below the head, has ``cosine sigma_ki >= tau``, the mean of u with weights
    proportional to ``exp(epsilon sigma_ki)`` (equations 4 and 5). "alpha" averages u alone, "beta" v and mu as well,
    with the same weights.

    Parameters
    ----------
    variant : {"alpha", "beta"}
        What is averaged ("alpha", which the paper presents first).
    rank : int
        Columns of u, the paper's gamma (1, the paper's choice).
    tau : float
        Least similarity of a neighbour; infinite for none but the client itself (0.95, the authors' code where domains
        differ; 0 on a single data set).
    epsilon : float
        How much more similar clients weigh, not negative (20, the code where domains differ; 1 on a single data set).
    min_neighbours : int
        How many clients are averaged at least, the client itself included: the most similar ones whatever `tau` says
        (1, the paper's rule; the code has 4 where domains differ, else 10 or 20).
    sparsity : float
        Weight of the L1 penalty, lambda_sparsity (5e-4, from the code).
    prune : bool
        Whether entries of mu below `sparsity` in size count as zero where a model is evaluated and where mu is
        uploaded. Gradient steps leave hardly any entry at exactly zero, so figures of sparsity and of "beta"'s costs
        need it (False: mu as it is trained).
    layout : {"spatial", "flat"}
        Arrangement of a convolution's weight as a matrix, see `fedstat.parameterization.Rank1Sparse` ("spatial", the
        paper's reading; "flat" is the code's).
    weighting : {"samples", "uniform"}
        Weights of the mean for new clients; the clients' own means do not depend on it.
    server_lr : float
        Must be 1: every client has a mean of its own, and no server's value to step from.

    Raises
    ------
    ValueError
        For values out of range, for a network without a layer to factorise below its head, for more neighbours than
        clients, and where a client's v is zero, so that it is similar to nothing.

    Notes
    -----
    "alpha" sends u and the last layer's v up, and a mean of u down. "beta" sends u, v and the non-zero entries of mu
    both ways; down these lie where any neighbour's do. Biases of factorised layers go with u. Head and norm layers,
    with their statistics, are personal. A new client has no v yet: it starts from the mean, weighted by samples, of
    what all clients uploaded last, and trains what is personal for one round's epochs.

    Our choices: the server keeps everybody's last upload, so that absent clients are neighbours, too, and a client
    starts from the newest mean; who has not taken part yet is nobody's neighbour, and is itself judged by the common
    start. The softmax weights stand inside the sum. Clients below `tau` are left out, where a score of zero would
    keep weight one. The penalty moves mu, in the code it only shows in the reported loss.
    """

    variant: Literal["alpha", "beta"] = "alpha"
    rank: int = 1
    tau: float = 0.95
    epsilon: float = 20.0
    min_neighbours: int = 1
    sparsity: float = 5e-4
    prune: bool = False
    layout: Literal["spatial", "flat"] = "spatial"

    exempt: ClassVar[Mapping[str, str]] = {
        "one client": "the penalty on mu is a force that plain training does not feel, also where a client is alone."
    }

    def __post_init__(self) -> None:
        """Check ranges."""
        super().__post_init__()
        for name, allowed in (("variant", ("alpha", "beta")), ("layout", ("spatial", "flat"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        for name in ("rank", "min_neighbours"):
            if not isinstance(getattr(self, name), Integral) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a whole number, at least 1, got {getattr(self, name)!r}.")
        for name in ("epsilon", "sparsity"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be finite and not negative, got {getattr(self, name)}.")
        if np.isnan(self.tau):
            raise ValueError("tau must be a number, infinite ones included, got nan.")
        if self.server_lr != 1:
            raise ValueError(f"server_lr must be 1, since clients have means of their own, got {self.server_lr}.")

    def parameterize(self, network: Network, rng: np.random.Generator) -> Network:
        """Factorise every dense, recurrent and convolutional weight below the head."""
        forms = {
            name: Rank1Sparse(tuple(shape), self.rank, self.layout)
            for name, shape in network.kernels.items()
            if name != f"{network.head}.weight"
        }
        if not forms:
            raise ValueError("the network needs a dense or convolutional layer below its head; it has none.")
        return parameterize(network, forms, rng)

    def shared(self, network: Network, population: Population) -> Params:
        """What travels: of factorised weights u, or all parts, and the biases of their layers."""
        layers = {weight.rpartition(".")[0] for weight in network.forms}
        parts = ("u",) if self.variant == "alpha" else ("u", "v", "mu")

        def travels(leaf: str) -> bool:
            owner, _, last = leaf.rpartition(".")
            return last in parts if leaf in network.parts else owner in layers

        return only(network, [leaf for leaf in network.shapes if not travels(leaf)])

    def init(self, network: Network, population: Population) -> State:
        """Keep all leaves of every client; remember their weights and, for the leaves v of layer L-1, who sent them."""
        clients = len(population.clients)
        if self.min_neighbours > clients:
            raise ValueError(
                f"min_neighbours must be at most the number of clients, {clients}, got {self.min_neighbours}."
            )
        state = super().init(network, population)
        coefficients = [[leaf for leaf in layer if leaf in network.parts and leaf.endswith(".v")]
                        for layer in network.layers.values()]  # fmt: skip
        last = next(leaves for leaves in reversed(coefficients) if leaves)
        nobody = torch.zeros(clients, dtype=torch.bool, device=network.device)
        n = torch.from_numpy(population.clients.train.n).to(network.device, torch.float64)
        size = n if self.weighting == "samples" else torch.ones_like(n)
        memory = {SIZE: size} | dict.fromkeys(last, nobody)
        return replace(state, clients=ClientStore.filled(state.server, clients), memory=memory)

    def receive(self, state: State, ids: Tensor) -> Params:
        """What a client keeps, with its own mean of what all clients uploaded last."""
        assert state.clients is not None
        assert state.shared is not None
        params, weights = state.clients.rows(ids), self._weights(state, ids)
        near = weights.any(0).nonzero()[:, 0]
        uploads, weights = state.clients.rows(near), weights[:, near]
        for name in (name for name, mask in state.shared.items() if mask.all()):
            # around the server's value, from which equal uploads do not differ; a zero of mu has to stay zero
            centre = torch.zeros_like(params[name][0]) if _is_sparse(name) else state.server[name]
            params[name] = centre + torch.tensordot(weights.to(centre.dtype), uploads[name] - centre, dims=1)
        return params

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """The loss, and an L1 penalty on mu."""
        size = sum(params[leaf].abs().sum() for leaf in learner.network.parts if _is_sparse(leaf))
        return learner.loss(params, batch) + self.sparsity * size

    def download(self, state: State, received: Params, ids: Tensor) -> Message:
        """The means; of mu its non-zero entries."""
        return _sparse(super().download(state, received, ids))

    def upload(self, state: State, update: Update) -> Message:
        """What is averaged, and the v by which clients are compared; of mu its non-zero entries."""
        end = self._pruned(update.end)
        return _sparse(
            {**super().upload(state, replace(update, end=end)), **{name: end[name] for name in _last(state)}}
        )

    def aggregate(self, state: State, update: Update) -> State:
        """Keep what was uploaded; everybody's own mean is taken in ``receive``, that of new clients in ``newcomer``."""
        end = self._pruned(update.end) if self.variant == "beta" else update.end
        sent = {name: state.memory[name].index_fill(0, update.ids, True) for name in _last(state)}
        clients = keep(state.clients, replace(update, end=end))
        return replace(state, clients=clients, memory=state.memory | sent, round=state.round + 1)

    def newcomer(self, state: State, population: Population) -> dict[str, Predictor]:
        """The mean of all that was uploaded; the rest trains from the start."""
        assert state.clients is not None
        assert state.shared is not None
        who = state.memory[_last(state)[0]].nonzero()[:, 0]
        if not len(who):
            return super().newcomer(state, population)
        uploads, size = state.clients.rows(who), state.memory[SIZE][who]
        mean = {
            name: leaf + torch.tensordot((size / size.sum()).to(leaf.dtype), uploads[name] - leaf, dims=1)
            for name, leaf in state.server.items()
            if state.shared[name].all()
        }
        return super().newcomer(replace(state, server=state.server | mean), population)

    def predictor(self, params: Params) -> Predictor:
        """Return models, with small entries of mu left out if `prune`."""
        return super().predictor(self._pruned(params))

    def _weights(self, state: State, ids: Tensor) -> Tensor:
        """Weights (m, K) of all clients in the means of clients `ids`, in float64; see the class."""
        assert state.clients is not None
        v = torch.cat([state.clients[name].flatten(1) for name in _last(state)], dim=1).to(ids.device).double()
        length = v.norm(dim=1, keepdim=True)
        if (length == 0).any():
            raise ValueError(
                f"{', '.join(_last(state))} of client {int(length[:, 0].argmin())} must not be all zero, since its "
                "cosine with other clients is not defined then; lower the learning rate."
            )
        direction = v / length
        own = torch.arange(len(v), device=ids.device) == ids[:, None]
        known = own | state.memory[_last(state)[0]]
        cosine = torch.where(own, 1.0, direction[ids] @ direction.mT)
        # the client itself comes first, even before clients with the same v
        ranked = cosine.masked_fill(~known, -np.inf).masked_fill(own, np.inf)
        closest = ranked >= ranked.sort(descending=True).values[:, self.min_neighbours - 1, None]
        neighbours = known & (closest | (cosine >= self.tau - _ROUNDING))
        return torch.where(neighbours, self.epsilon * cosine, -np.inf).softmax(dim=1)

    def _pruned(self, params: Params) -> Params:
        """The same leaves, small entries of mu set to zero if `prune`."""
        small = {
            n: torch.where(p.abs() < self.sparsity, 0, p) for n, p in params.items() if self.prune and _is_sparse(n)
        }
        return params | small


def _last(state: State) -> list[str]:
    """Leaves v of layer L-1."""
    return [name for name in state.memory if name != SIZE]


def _is_sparse(leaf: str) -> bool:
    return leaf.endswith(".mu")


def _sparse(message: Message) -> Message:
    """The same message, with mu as its non-zero entries."""
    return {n: Sparse(e) if _is_sparse(n) and isinstance(e, Tensor) else e for n, e in message.items()}

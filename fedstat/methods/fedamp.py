"""FedAMP: every client is pulled to a mix of all clients' models, in which similar models weigh more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedstat.federated.client.local import Context
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import in_rows
from fedstat.federated.codec import Message
from fedstat.federated.method import Method, stack
from fedstat.federated.slots import in_slot, is_statistic, share_all_but, slot
from fedstat.federated.state import Federation, Predictor, State, Update

CLOUD = "cloud"
#: Bytes of others' models, in float64, that a mix holds at once, and of weights of them.
_MEMORY = 2**28


@dataclass(frozen=True, kw_only=True)
class FedAMP(Method):
    """Every client is pulled to its own mix of all clients' models, in which similar models weigh more.

    Before training, the server mixes the newest models w_j of all K clients into

    ``u_i = sum_j xi_ij w_j``, with ``xi_ij = (alpha / scale) exp(-|w_i - w_j|^2 / scale)`` for j other than i, and
    ``xi_ii = 1 - sum_j xi_ij``,

    and client i trains on ``L_i(w) + penalty / (2 alpha) |w - u_i|^2`` (Huang et al. 2021, "Personalized Cross-Silo
    Federated Learning on Non-IID Data", Algorithm 1, equations 3 to 6).

    Parameters
    ----------
    penalty : float
        lambda, not negative; 1 in the original's experiments.
    alpha : float
        alpha_K, the server's step, positive; 1e4 in the original.
    scale : float
        sigma of the attention function ``A(x) = 1 - exp(-x / sigma)``, positive; 1e6 in the original.
    start : {"w", "u"}
        The model that a client goes on from: its own or the mix ("w"; the paper leaves that open).
    weighting
        This has no effect, since the server averages nothing.
    server, aggregator, compression, mechanism
        These are refused, since the server keeps no weights.

    Notes
    -----
    A participant receives u_i and sends w_i. With partial participation the mix still runs over all clients, with
    the models that absentees sent last (at first the common start). Distances and the pull run over the leaves that
    gradients move; running statistics are mixed, which matters for ``start="u"``, but neither compared nor pulled. The
    distance is squared, as in the paper. A new client, which has no model of its own, starts from the uniform mean of
    all clients' models and is pulled to it.

    The authors' code: none was found. PFLlib pulls by the distance itself and mixes the last participants' models
    alone, both unlike the paper; its clients start from their own models, as ours do.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> method = fs.methods.FedAMP()
    >>> result = fs.federate(method, fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), rounds=2, progress=False)
    >>> result.traffic[["round", "client", "bytes_up", "bytes_down"]].head(3)
       round  client  bytes_up  bytes_down
    0      1       0       228         228
    1      1       1       228         228
    2      1       2       228         228
    """

    penalty: float = 1.0
    alpha: float = 1e4
    scale: float = 1e6
    start: Literal["w", "u"] = "w"

    example = {"alpha": 0.15, "scale": 1.0}
    fewest = 2
    exempt = {
        "one client": "a mix of other clients' models needs other clients",
        "clones": "the law compares with a single client, which has no others to mix",
    }
    _ranges = {"penalty": "[0, inf)", "alpha": "(0, inf)", "scale": "(0, inf)", "start": ("w", "u")}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share no leaf, since every model is a client's own."""
        return share_all_but(network, network.shapes)

    def init(self, network: Network, federation: Federation) -> State:
        """Start as every method does.

        A client's weight in its own mix must not become negative: ``alpha (K - 1) / scale`` above one is a ValueError.
        """
        others = len(federation.clients) - 1
        if self.alpha * others > self.scale:
            raise ValueError(
                f"alpha must be at most scale / (K - 1) = {self.scale / others:g} for {others + 1} clients, so that "
                f"no weight is negative, got {self.alpha:g}."
            )
        return super().init(network, federation)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Give each participant its own model (or the mix, see `start`), and the mix in the slot ``cloud``."""
        own, clients = super().receive(state, ids), state.clients.clients
        step = max(1, _MEMORY // (8 * clients))
        mixes = [self._mix(state, some) for some in ids.split(step)]
        cloud = {name: torch.cat([mix[name] for mix in mixes]) for name in mixes[0]}
        return (cloud if self.start == "u" else own) | in_slot(cloud, CLOUD)

    def _mix(self, state: State, ids: Tensor) -> Params:
        """Return the mixes of some clients."""
        xi, cloud = self.attention(state, ids), dict[str, Tensor]()
        for some in _blocks(state):
            models = state.clients.rows(some, ids.device)
            for name, w0 in state.server.items():
                # weights sum to one: mixing distances from w0 is exact where all are at w0
                part = torch.tensordot(xi[:, int(some[0]) : int(some[-1]) + 1].to(w0.dtype), models[name] - w0, dims=1)
                cloud[name] = cloud[name] + part if name in cloud else part
        return {name: w0 + cloud[name] for name, w0 in state.server.items()}

    def attention(self, state: State, ids: Tensor) -> Tensor:
        """Return the weights xi of all K models in the mixes of clients `ids`, (m, K) in float64."""
        compared = [name for name in state.server if not is_statistic(name)]
        own, parts = state.clients.rows(ids), []
        for some in _blocks(state):
            models, zero = state.clients.rows(some, ids.device), torch.zeros((), dtype=torch.float64, device=ids.device)
            apart = (torch.cdist(in_rows(own[n].double()), in_rows(models[n].double())) for n in compared)
            parts.append(sum((distance.square() for distance in apart), start=zero))
        xi = self.alpha / self.scale * torch.exp(-torch.cat(parts, 1) / self.scale)
        xi = xi.scatter(1, ids[:, None], 0)
        return xi.scatter(1, ids[:, None], 1 - xi.sum(1, keepdim=True))

    def pull(self, params: Params, context: Context) -> Params:
        """Return the gradient of the squared distance from the mix, times its factor."""
        strength = self.penalty / self.alpha
        return {name: strength * (params[name] - mix) for name, mix in slot(context.received, CLOUD).items()}

    def download(self, state: State, update: Update) -> Message:
        """Send the mix."""
        return slot(update.start, CLOUD)

    def upload(self, state: State, update: Update) -> Message:
        """Send the trained model."""
        return {name: update.end[name] for name in state.server}

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the clients' own models."""
        return {"personal": self.predictor(super().receive(state, ids))}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Train the uniform mean of all clients' models, with the pull to it."""
        sums = [
            {name: leaf.sum(0) for name, leaf in state.clients.rows(some, ids.device).items()}
            for some in _blocks(state)
        ]
        clients = state.clients.clients
        mean = stack(
            {name: torch.stack([one[name] for one in sums]).sum(0) / clients for name in state.server}, len(ids)
        )
        end = federation.one_round(self, mean | in_slot(mean, CLOUD), ids, state.round)
        return {"personal": self.predictor({name: end[name] for name in mean})}


def _blocks(state: State) -> tuple[Tensor, ...]:
    """Divide all clients into as many as may be in memory at once."""
    floats = sum(leaf.numel() for leaf in state.server.values())
    return torch.arange(state.clients.clients).split(max(1, _MEMORY // (8 * floats)))

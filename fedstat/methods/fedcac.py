"""FedCAC: a client merges its critical parameters only with clients that find the same positions critical."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import torch
from torch import Tensor

from fedstat.federated.client.local import ClientData, Context, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import in_rows, inner_products
from fedstat.federated.codec import Bits, Message
from fedstat.federated.means import mixed, step_to_mean
from fedstat.federated.method import Method
from fedstat.federated.slots import in_slot, slot
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.federated.store import ClientStore

CRITICAL = "critical"


@dataclass(frozen=True, kw_only=True)
class FedCAC(Method):
    """The server averages critical parameters among clients that find the same ones critical, all others globally.

    A participant trains all weights. In each tensor, the share tau of entries with the largest sensitivity
    ``|w_end - w_start| |w_end|`` is critical to it. The server averages everything over all participants, and once
    more over each client's peers: those whose critical positions overlap with its own at least by a threshold, which
    climbs from the mean overlap (at round 0) to the largest one (at round beta). The client gets the peers' average
    at its critical entries and the global one elsewhere (Wu et al. 2023, "Bold but Cautious: Unlocking the Potential
    of Personalized Federated Learning through Cautiously Aggressive Collaboration", Algorithm 1).

    Parameters
    ----------
    tau : float
        Share of critical entries in each tensor, in [0, 1]; they are exactly ``floor(tau * size)``, and of ties the
        lower index wins (0.5, as in the original).
    beta : float
        Rounds until collaboration on critical entries ends, positive (100, as in the original, which also tunes it to
        each data set).
    weighting, server
        See `Method`; both concern the global average alone. The peers' average is uniform.

    Notes
    -----
    A trained model and its mask, one bit per weight, travel up; the merged model travels down. The server seeks peers
    among the participants of the round; absentees keep their mask and their peers' average, and take the newest global
    average around it. Running statistics are never critical. Overlaps are counts of common positions, whose order and
    equality are exact: where all overlaps are equal, empty masks included, everybody is a peer of everybody. A change
    below 100 machine epsilons of the client's largest one counts as none, since it is rounding: a bias in front of a
    batch norm has no gradient.

    A new client trains one round from the global average, which gives its mask. Its peers are found among all clients
    that ever took part, by the threshold of the last round over its own overlaps, and it joins the average of what
    the server keeps of them.

    The authors' code: there running statistics of batch norm stay with the client, of which the paper says nothing; we
    average them like the weights before them. Ties make more entries critical there, and all clients always take part.

    Examples
    --------
    Beside the leaves the clients send a bit for each element: critical to them, or not.

    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedCAC(), fs.models.mlp(40, 30, 2)).table
    >>> table.groupby("holder")["up"].sum().to_dict()
    {'message': 163, 'server': 5168}
    """

    tau: float = 0.5
    beta: float = 100.0

    _ranges = {"tau": "[0, 1]", "beta": "(0, inf)"}

    def at_once(self, network: Network, clients: int) -> Mapping[str, int]:
        """Hold every client's mask, a byte for each weight, and while some are renewed all of them again."""
        return {
            "the masks of all clients": 2 * clients * sum(network.shapes[name].numel() for name in network.trainable)
        }

    def init(self, network: Network, federation: Federation) -> State:
        """Start with no critical entry, so that everybody uses the server's model."""
        server, clients = self.leaves(network, federation), len(federation.clients)
        kept = {name: server[name] for name in network.trainable}
        shared = {name: torch.ones(clients, *leaf.shape, dtype=torch.bool) for name, leaf in kept.items()}
        return State(server, ClientStore.filled(kept, clients), shared)

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Find the critical entries of each tensor."""
        change = {n: (params[n] - context.received[n]).double().abs() for n in learner.network.trainable}
        largest = torch.stack([leaf.amax() for leaf in change.values()]).amax()
        rounding = 100 * torch.finfo(learner.network.dtype).eps * largest
        return in_slot(
            {n: self._largest(torch.where(leaf > rounding, leaf * params[n].abs(), 0)) for n, leaf in change.items()},
            CRITICAL,
        )

    def download(self, state: State, update: Update) -> Message:
        """Send the merged model, whole."""
        return update.start

    def upload(self, state: State, update: Update) -> Message:
        """Send the trained model and its mask."""
        model = {name: update.end[name] for name in state.server}
        return model | {name: Bits(mask) for name, mask in in_slot(slot(update.end, CRITICAL), CRITICAL).items()}

    def aggregate(self, state: State, update: Update) -> State:
        """Average globally, and for each participant among its peers."""
        critical = slot(update.end, CRITICAL)
        overlap = inner_products(critical, critical)
        itself = torch.eye(len(update.ids), dtype=torch.bool, device=update.ids.device)
        peers = itself | self._peers(overlap, ~itself, state.round + 1)
        mixing = peers.double() / peers.sum(1, keepdim=True)
        merged = mixed({name: state.server[name] for name in critical}, update.end, mixing)
        common = replace(update, start={name: leaf[None] for name, leaf in state.server.items()})
        masks = {name: state.shared[name].index_copy(0, update.ids, ~mask) for name, mask in critical.items()}
        return replace(
            state,
            server=step_to_mean(state.server, common, {}),
            clients=state.clients.write(update.ids, merged),
            shared=state.shared | masks,
            round=state.round + 1,
        )

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Train new clients for one round, which gives their masks, and merge their models with their peers'."""
        round = max(1, state.round)
        end = federation.one_round(self, start, ids, round)
        critical = slot(end, CRITICAL)
        theirs = {name: ~state.shared[name] for name in critical}
        served = torch.stack([in_rows(mask).any(1) for mask in theirs.values()]).any(0)
        peers = torch.stack([self._peers(row, served, round) for row in inner_products(critical, theirs)])
        kept = state.clients.rows(torch.arange(state.clients.clients, device=ids.device))
        model = dict(start)
        for name, mask in critical.items():
            total = end[name] + torch.tensordot(peers.to(end[name].dtype), kept[name], 1)
            count = 1 + peers.sum(1).view(-1, *[1] * (mask.dim() - 1))
            model[name] = torch.where(mask, total / count, start[name])
        return {"personal": self.predictor(model)}

    def _largest(self, sensitivity: Tensor) -> Tensor:
        """Return a mask that is true at the critical entries of one tensor."""
        count = int(Fraction(str(self.tau)) * sensitivity.numel())
        order = sensitivity.flatten().argsort(descending=True, stable=True)
        chosen = torch.arange(len(order), device=order.device) < count
        return torch.zeros_like(chosen).scatter(0, order, chosen).view(sensitivity.shape)

    def _peers(self, overlap: Tensor, others: Tensor, round: int) -> Tensor:
        """Return a mask that is true at those of `others` whose overlap reaches the threshold of a round.

        An overlap counts common critical positions: up to a factor the published ``1 - |M_i - M_j|_1 / (2 |M_i|_1)``.
        """
        if not others.any():
            return others
        mean, most = overlap[others].sum() / others.sum(), overlap[others].max()
        return others & (overlap - mean >= round / self.beta * (most - mean))

"""FedProto: clients share what the classes look like to them, and no weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstat.federated.client.local import Batch, ClientData, Context, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.codec import Message, Selected
from fedstat.federated.method import keep
from fedstat.federated.slots import without_slots
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.methods.classes import all_counts, class_means, moments
from fedstat.methods.local import Local

#: The prototypes of all classes, and a flag for each: 1 if anybody has sent it yet, else 0.
MEAN, KNOWN = "prototype/mean", "prototype/known"


@dataclass(frozen=True, kw_only=True)
class FedProto(Local):
    """Clients share class prototypes, the mean features of each class, by which they align their own models.

    A client trains a model of its own by the loss ``CE + penalty * mean_i mean_j (z_ij - c_{y_i j})^2``, where z are
    features (inputs of the head) and c the global prototypes, and sends the mean features of each class that it has.
    The server averages each class's prototypes over the clients that have it. A client predicts the class whose global
    prototype is nearest to the sample's features (Tan et al. 2022, "FedProto: Federated Prototype Learning across
    Heterogeneous Clients", Algorithm 1 and equations 3 to 7).

    Parameters
    ----------
    penalty : float
        lambda, the strength of the alignment, not negative (1, as in the authors' code, which has 0.1 on CIFAR-10). At
        0 the clients' models are Local's.
    weighting : {"samples", "uniform"}
        How the prototypes of a class are weighed: by the clients' samples of the class, as in the paper, or equally,
        as in the authors' code.
    server, aggregator, compression, mechanism
        These are refused, since the server keeps no weights.

    Raises
    ------
    ValueError
        If `penalty` is negative or infinite, the network has no head, or the task is not one of classes with an output
        for each.

    Notes
    -----
    Prototypes alone travel: down those of all classes that anybody has sent yet, up those of the client's own classes.
    Which these are, and how many samples they have, the server learns once, as scalars. "personal" predicts by
    prototypes and "classifier" by the client's own head; "trained", before the server averages, by the client's own
    prototypes. A new client receives the prototypes and trains a model from the common start for one round.

    Round 0 has no prototypes, hence no alignment, nor has a class that nobody has sent yet; until there are any,
    "personal" predicts by the head as well. Its logits are ``-|z - c_q|^2`` (ours), up to a term that all classes
    share; a class without a prototype counts as farther than all others. Prototypes are means over all training samples
    after local training, in evaluation mode, as in the paper's equation. The prototype of a class that no participant
    has stays as it was.

    The paper's equation 6 divides the mean that is weighed by samples once more, by the number of clients that have the
    class; that would shrink prototypes, and is left out. Its penalty is the distance between local and global
    prototypes, that of the authors' code the one above.

    The authors' code averages features as they pass by in the last epoch of local training. It looks for the nearest
    prototype among the classes of the client alone. Its counts of hits run on from client to client, and from
    predictions by the head to those by prototypes, so that the accuracies that it prints mix all of these. PFLlib and
    FL-bench average equally, over each round's participants alone; FL-bench evaluates the head.

    Examples
    --------
    What travels does not grow with the network below the head:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> method, training = fs.methods.FedProto(), fs.Training(lr=0.1)
    >>> result = fs.federate(method, fs.models.mlp(5, 8, 2), clients, training, rounds=2, progress=False)
    >>> result.traffic.groupby("round")[["bytes_up", "bytes_down"]].max().to_numpy().tolist()
    [[64, 0], [64, 64]]
    """

    penalty: float = 1.0

    exempt = {
        "one client": "features are pulled to prototypes also where a client is alone.",
        "fixed point": "prototypes, by which clients predict, are found also where no weight moves.",
    }
    _ranges = {"penalty": "[0, inf)"}

    def init(self, network: Network, federation: Federation) -> State:
        """Start without prototypes; the server remembers how many samples of each class a client has."""
        counts, weight = all_counts(self, network, federation), network.initial()[network.head_leaves[0]]
        memory = {"counts": counts, "mean": torch.zeros_like(weight), "known": torch.zeros_like(weight[:, 0])}
        return replace(super().init(network, federation), memory=memory)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Give each client its own model and the global prototypes."""
        return super().receive(state, ids) | _prototypes(state, len(ids))

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the cross-entropy; add the features' distance from the prototypes."""
        z, outputs = learner.features(params, batch)
        apart = (z - params[MEAN][batch.y]).square().mean(-1) * params[KNOWN][batch.y]
        return batch.mean(learner.losses(outputs, batch.y) + self.penalty * apart)

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Report the mean features of each class under the trained model, and which classes the client has."""
        sums, counts, _ = moments(learner, params, data)
        return {MEAN: class_means(sums, counts), KNOWN: (counts > 0).to(counts.dtype)}

    def download(self, state: State, update: Update) -> Message:
        """Send the prototypes that there are."""
        return {MEAN: Selected(update.start[MEAN], state.memory["known"][:, None] > 0)}

    def upload(self, state: State, update: Update) -> Message:
        """Send the prototypes of the client's classes."""
        return {MEAN: Selected(update.end[MEAN], state.memory["counts"][update.ids][:, :, None] > 0)}

    def aggregate(self, state: State, update: Update) -> State:
        """Average each class's prototypes over the participants that have it; clients keep their models."""
        memory = state.memory
        counts = memory["counts"][update.ids].to(memory["mean"].dtype)
        weight = counts if self.weighting == "samples" else (counts > 0).to(counts.dtype)
        total = weight.sum(0)
        sums = torch.einsum("kq,kqf->qf", weight, torch.where(counts[:, :, None] > 0, update.end[MEAN], 0))
        mean = torch.where(total[:, None] > 0, sums / total.clamp(min=1)[:, None], memory["mean"])
        known = torch.where(total > 0, 1, memory["known"])
        memory = memory | {"mean": mean, "known": known}
        return replace(state, clients=keep(state.clients, update), memory=memory, round=state.round + 1)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the clients' models, which predict by prototypes and by their heads."""
        return self._both(self.receive(state, ids))

    def predict(self, learner: Learner, params: Params, x: Tensor) -> Tensor:
        """Return logits that are highest for the class whose prototype is nearest."""
        z, outputs = learner.network.features(params, x)
        means, known = params[MEAN], params[KNOWN] > 0
        near = 2 * z @ means.T - means.square().sum(-1)  # |z|^2 - |z - c|^2
        farther = torch.where(known, near, torch.inf).amin(-1, keepdim=True) - 1
        return torch.where(known.any(), torch.where(known, near, farther), outputs)

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Let new clients train a model of their own for a round, aligned to the prototypes."""
        prototypes = _prototypes(state, len(ids))
        return self._both(federation.one_round(self, start | prototypes, ids, state.round) | prototypes)

    def _both(self, params: Params) -> dict[str, Predictor]:
        return {"personal": self.predictor(params), "classifier": Predictor(without_slots(params), super().predict)}


def _prototypes(state: State, clients: int) -> Params:
    """Return the global prototypes (m, Q, f), and which of them there are (m, Q)."""
    mean, known = state.memory["mean"], state.memory["known"]
    return {MEAN: mean.expand(clients, -1, -1), KNOWN: known.expand(clients, -1)}

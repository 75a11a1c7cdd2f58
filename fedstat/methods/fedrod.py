"""FedRoD: a generic head learns a class-balanced task, and a private head corrects it for the client."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedstat.federated.client.local import Batch, ClientData, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State
from fedstat.methods.classes import head_outputs, members, shifted


@dataclass(frozen=True, kw_only=True)
class FedRoD(Method):
    """A shared model learns a class-balanced task, a private head corrects it for the client.

    With features z and generic logits g, body and generic head minimise the balanced softmax loss, cross-entropy at
    ``g + gamma log n_k``, where n_k counts the client's training samples of each class; the private head h minimises
    the cross-entropy at ``g + h(z)``, through which no gradient reaches z and g (Chen and Chao 2022, Algorithm 1).

    Parameters
    ----------
    gamma : float
        Degree to which the loss is balanced, not negative (1, as in the original; 0 gives plain cross-entropy).
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If `gamma` is negative or infinite, the network has no head, or the task is not one of classes with an output
        for each.

    Notes
    -----
    Body and generic head travel up and down. A client predicts with both heads ("personal"); the generic head alone
    is "global". A new client trains a private head on the received model for one round's epochs.

    Both heads take their steps from the same batch at the same rate. The private head starts at zero (our choice), so
    that personal and generic model start equal. A class that a client lacks has log 0 and takes no part in its balanced
    loss; for losses that look at all classes, as under label smoothing, its logit counts as one far below the sample's
    others. Where gradients are clipped, ``clip_norm`` bounds those of both heads and the body together, so that the
    private head has a say in how far the others go. We do not offer the option of the original in which a network
    generates private heads from class shares.

    The authors' code: their repository holds none. PFLlib starts the private head as a copy of the generic one, which
    doubles the logits; Fling trains the body on both losses and predicts with the private head alone, which is not the
    paper's method.

    Examples
    --------
    The clients' second heads:

    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedRoD(), fs.models.mlp(4, 3, 2)).table
    >>> table.set_index("leaf")["holder"].to_dict()
    {'hidden.weight': 'server', 'hidden.bias': 'server', 'head.weight': 'server', 'head.bias': 'server',
     'private/head.weight': 'client', 'private/head.bias': 'client'}
    """

    gamma: float = 1.0

    exempt = {"one client": "a balanced loss and a second head make another model than joint training of the network."}
    _ranges = {"gamma": "[0, inf)"}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Add a private head of zeros to the network's leaves."""
        start = network.initial()
        return start | in_slot({name: torch.zeros_like(start[name]) for name in network.head_leaves}, "private")

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but those of the private head."""
        head_outputs(self, network, federation)
        return in_slot(share_all_but(network, network.head_leaves), "private")

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Find the log class counts of the training samples, minus infinity for a class that is missing."""
        outputs = len(params[learner.network.head_leaves[0]])
        return params, {"log_counts": members(data, outputs).sum(0).to(learner.network.dtype).log()}

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train the network and the private head together."""
        return (Phase((*network.trainable, *_private(network))),)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Add the private head's own loss to the generic model's balanced loss."""
        z, generic = learner.features(without_slots(params), batch)
        balanced = shifted(generic, self.gamma * context.aux["log_counts"]) if self.gamma else generic  # 0 * inf
        personal = generic.detach() + _correction(learner.network, params, z.detach())
        return batch.mean(learner.losses(balanced, batch.y) + learner.losses(personal, batch.y))

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the models with both heads, and the model with the generic head alone."""
        return self._both(self.receive(state, ids))

    def predict(self, learner: Learner, params: Params, x: Tensor) -> Tensor:
        """Add both heads' logits."""
        z, generic = learner.network.features(without_slots(params), x)
        return generic + _correction(learner.network, params, z)

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Train a private head on the server's model, which stands still."""
        private = _private(federation.network)
        end = federation.train(self, start, ids, (Phase(private),), state.round)
        return self._both(start | {name: end[name] for name in private})

    def _both(self, params: Params) -> dict[str, Predictor]:
        return {"personal": self.predictor(params), "global": Predictor(without_slots(params), super().predict)}


def _private(network: Network) -> tuple[str, ...]:
    return tuple(f"private/{name}" for name in network.head_leaves)


def _correction(network: Network, params: Params, z: Tensor) -> Tensor:
    """Return the private head's logits (B, Q) at features z (B, f)."""
    private = slot(params, "private")
    return F.linear(z, private[f"{network.head}.weight"], private.get(f"{network.head}.bias"))

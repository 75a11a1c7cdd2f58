"""FedPAC: clients align features to class centroids, and a quadratic programme combines their heads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.local import Batch, ClientData, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.codec import Message, Selected
from fedstat.federated.means import mixed
from fedstat.federated.method import Method
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.methods.classes import all_counts, class_means, moments

#: A flag for each class: 1 if anybody has sent its centroid yet, else 0.
KNOWN = "known"
#: The server sets weights of a combination below this to zero.
_NEGLIGIBLE = 1e-3
#: Smallest variance relative to the largest risk; it exceeds rounding, so that combinations stay unique.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class FedPAC(Method):
    """Clients align features to shared class centroids, and the server combines heads to suit each client's data.

    In a round a client fits its head to the received body for one epoch, then trains the body under it with the loss
    ``CE + penalty * mean_i mean_j (z_ij - c_{y_i j})^2``, where c are the received centroids, the features' means per
    class. The server averages the bodies and combines the heads: client i's weights minimise
    ``sum_j a_j^2 V_j + ||h_i - sum_j a_j h_j||^2`` on the simplex, where h_j stacks client j's class means times
    class shares and V_j is the variance of h_j (Xu et al. 2023, Algorithm 1 and equation 14).

    Parameters
    ----------
    penalty : float
        lambda, the strength of the alignment, not negative (1, as in the original).
    head_lr : float, optional
        Learning rate of the head (0.1, as in the original); None means that of the training configuration, which is
        the body's.
    weighting, server, compression
        See `Method`; they concern the body.

    Raises
    ------
    ValueError
        If `penalty` or `head_lr` is negative or infinite, the network has no head, or the task is not one of classes
        with an output for each.

    Notes
    -----
    Body, combined head and centroids travel down; body, head, h, V and the new centroids travel up. Class counts, by
    which the server weighs centroids, travel once as scalars. A client that sends h reveals its class shares all the
    same. A new client receives the body and fits a head at `head_lr` from the common start for one round's epochs.

    Squared distances are averaged over the features' coordinates, as in the published code, not summed. Round 0 has no
    centroids, hence no alignment; a class whose centroid nobody has sent is aligned to the client's own. Clients take
    all moments in evaluation mode. Weights below 0.001 become zero, unless all of them lie below. The server solves the
    programme as non-negative least squares of a factor of its matrix, in float64, so that it needs no clipping of
    eigenvalues; a variance has a tiny floor.

    The authors' code: where rounding makes the programme's matrix indefinite it drops eigenvalues below 0.01, and a
    client whose programme fails keeps its own head; neither can happen here. Their code prints the participants'
    accuracy before and after local training, not that of all clients after the aggregation.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedPAC(), fs.models.mlp(4, 3, 2)).table
    >>> table.set_index("leaf")["holder"].to_dict()
    {'hidden.weight': 'server', 'hidden.bias': 'server', 'head.weight': 'client', 'head.bias': 'client',
     'centroids': 'message', 'h': 'message', 'V': 'message'}
    """

    penalty: float = 1.0
    head_lr: float | None = 0.1

    example = {"head_lr": None}
    exempt = {
        "one client": "head and body take turns, and the body is pulled to centroids, also where a client is alone."
    }
    _ranges = {"penalty": "[0, inf)", "head_lr": "[0, inf)"}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share the body."""
        return share_all_but(network, network.head_leaves)

    def init(self, network: Network, federation: Federation) -> State:
        """Start without centroids; the server remembers how many samples of each class a client has."""
        counts, weight = all_counts(self, network, federation), network.initial()[network.head_leaves[0]]
        memory = {"counts": counts, "centroids": torch.zeros_like(weight), KNOWN: torch.zeros_like(weight[:, 0])}
        return replace(super().init(network, federation), memory=memory)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Give each participant the body and its own head; after round 0, also centroids (m, Q, f)."""
        params = super().receive(state, ids)
        if state.round:
            params["centroids"] = state.memory["centroids"].expand(len(ids), -1, -1)
            params[KNOWN] = state.memory[KNOWN].expand(len(ids), -1)
        return params

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Find h and V, which the server's programme needs, and the centroids to which features are aligned."""
        sums, counts, square = moments(learner, params, data)
        n = counts.sum()
        aux = {"h": sums / n, "V": (square / n - (sums / n).square().sum()) / n}
        if "centroids" in params:
            known = params[KNOWN][:, None] > 0
            aux["target"] = torch.where(known, params["centroids"], class_means(sums, counts))
        return params, aux

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train the head for one epoch, then the body."""
        head = network.head_leaves
        body = tuple(name for name in network.trainable if name not in head)
        both = (Phase(head, epochs=1, lr=self.head_lr, name="head"), Phase(body, name="body"))
        return tuple(phase for phase in both if phase.train)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the cross-entropy; for the body, add the features' distance from the centroids."""
        z, outputs = learner.features(params, batch)
        losses = learner.losses(outputs, batch.y)
        if context.phase == "body" and "target" in context.aux:
            losses = losses + self.penalty * (z - context.aux["target"][batch.y]).square().mean(-1)
        return batch.mean(losses)

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Report centroids under the trained body, and h and V under the received one."""
        sums, counts, _ = moments(learner, params, data)
        return {"centroids": class_means(sums, counts), "h": context.aux["h"], "V": context.aux["V"]}

    def download(self, state: State, update: Update) -> Message:
        """Send body, combined head and the centroids that there are."""
        message: dict[str, Tensor | Selected] = {name: leaf for name, leaf in update.start.items() if name != KNOWN}
        if KNOWN in update.start:
            message["centroids"] = Selected(update.start["centroids"], update.start[KNOWN][:, :, None] > 0)
        return message

    def upload(self, state: State, update: Update) -> Message:
        """Send body, head, centroids, h and V."""
        return {name: leaf for name, leaf in update.end.items() if name != KNOWN}

    def aggregate(self, state: State, update: Update) -> State:
        """Average bodies; average centroids by class counts; combine heads for each participant."""
        new = super().aggregate(state, update)
        h, v = (update.end[name].double().cpu().numpy() for name in ("h", "V"))
        leaf = next(iter(state.server.values()))
        weights = torch.from_numpy(head_weights(h.reshape(len(h), -1), v)).to(leaf)
        heads = mixed({name: state.server[name] for name in new.clients}, update.end, weights)
        counts = state.memory["counts"][update.ids].to(leaf.dtype)
        total = counts.sum(0)[:, None]
        mean = torch.einsum("kq,kqf->qf", counts, update.end["centroids"]) / total.clamp(min=1)
        memory = state.memory | {
            "centroids": torch.where(total > 0, mean, state.memory["centroids"]),
            KNOWN: torch.where(total[:, 0] > 0, 1, state.memory[KNOWN]),
        }
        return replace(new, clients=new.clients.write(update.ids, heads), memory=memory)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the newest body under the client's head."""
        return {"personal": self.predictor(super().receive(state, ids))}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Fit a head, at its own rate, to the server's body, which stands still."""
        head = federation.network.head_leaves
        end = federation.train(self, start, ids, (Phase(head, lr=self.head_lr),), state.round)
        return {"personal": self.predictor(start | {name: end[name] for name in head})}


def head_weights(h: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Solve every client's programme: ``min_a sum_j a_j^2 V_j + ||h_i - sum_j a_j h_j||^2`` on the simplex.

    `h` is (clients, classes * features), and row i of the result client i's. The objective is ``||R a||^2``; without
    the constraint on the sum, ``||R u||^2 + (1'u - 1)^2`` over u >= 0 has its minimum at ``u = a / (1 + ||R a||^2)``,
    where a is the minimiser on the simplex, which is thus `u` rescaled.
    """
    from scipy.optimize import nnls

    m = len(h)
    _, points = np.linalg.qr(h.T)  # columns with the same distances in at most m coordinates
    bias = np.stack([np.square(point[:, None] - points).sum(0) for point in points.T])  # (i, j)
    v = np.maximum(v, _ROUNDING * ((np.maximum(v, 0) + bias).max() or 1))
    weights = np.zeros((m, m))
    for i in range(m):
        gaps = points[:, i, None] - points  # (coordinate, j); those of all i would be m^3 numbers
        factor = np.vstack([np.diag(np.sqrt(v)), gaps]) / np.sqrt((v + bias[i]).min())
        solution, _ = nnls(np.vstack([factor, np.ones(m)]), np.eye(len(factor) + 1)[-1], maxiter=100 * m)
        solution /= solution.sum()
        kept = np.where(solution < _NEGLIGIBLE, 0, solution)
        weights[i] = kept if kept.any() else solution
    return weights / weights.sum(1, keepdims=True)

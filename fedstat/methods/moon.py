"""MOON: representations are drawn to those of the received model, and away from those of the client's last one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedstat.federated.client.local import Batch, ClientData, Context, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method, stack
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State

LAST, MET = "last", "met/last"


@dataclass(frozen=True, kw_only=True)
class MOON(Method):
    """FedAvg whose clients draw representations to the received model's, and away from their own last model's.

    To the loss of every sample a client adds ``mu`` times ``-log(e^a / (e^a + e^b))``. There ``a = cos(z, z_glob) / T``
    and ``b = cos(z, z_prev) / T``, where z, z_glob and z_prev are the sample's representations under the model that
    trains, the one that was received, and the one that the client trained when it last took part (Li et al. 2021,
    "Model-Contrastive Federated Learning", Algorithm 1).

    Parameters
    ----------
    mu : float
        Strength of the contrast, not negative (1, as in the authors' code; the paper tunes it between 0.1 and 10).
    temperature : float
        T, positive (0.5, as in the original).
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If `mu` or `temperature` is out of range, or the network has no head.

    Notes
    -----
    The whole model travels down and up; every client keeps the model that it trained last. A representation is what
    enters the last dense layer. The original puts a projection of two dense layers there; a network that has such
    layers before its last one is treated as in the original. The models that are received and kept are in evaluation
    mode, and are asked about all samples once a round. A new client gets the server's model.

    A client that takes part for the first time has no last model; the received one stands for it, as it does in the
    first round of the original. Then a equals b, the contrast is the constant log 2 and has no gradient.

    In the authors' code there is no contrast in the first round; later a client that was never chosen has random
    weights of its own for its last model. On request clients keep several earlier models.

    Examples
    --------
    A client keeps the model that it trained last, beside a flag that says whether there is one yet:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> training, model = fs.Training(lr=0.1), fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(fs.methods.MOON(), model, clients, training, rounds=1, participation=0.5, progress=False)
    >>> result.states["MOON", 0].clients["met/last"][:, 0]
    tensor([1., 0., 0., 1.])
    """

    mu: float = 1.0
    temperature: float = 0.5

    _ranges = {"mu": "[0, inf)", "temperature": "(0, inf)"}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start the model and the client's last one alike, beside a flag: 1 if the client has trained one, else 0."""
        _ = network.head  # a network without one is refused before anything runs
        flag = torch.zeros(1, dtype=network.dtype, device=network.device)
        return network.initial() | in_slot(network.initial(), LAST) | {MET: flag}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but those of the last model and the flag."""
        mine = torch.zeros(1, 1, dtype=torch.bool, device=network.device)
        return in_slot(share_all_but(network, network.shapes), LAST) | {MET: mine}

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Ask the received model and the last one for the representations of all samples."""
        received, _ = learner.network.features(without_slots(params), data.x)
        last, _ = learner.network.features(slot(params, LAST), data.x)
        return params, {"received": received, "last": torch.where(params[MET] > 0, last, received)}

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the loss with the contrast of the two models."""
        z, outputs = learner.features(params, batch)
        a, b = (F.cosine_similarity(z, context.aux[of][batch.rows], dim=-1) for of in ("received", "last"))
        contrast = F.softplus((b - a) / self.temperature)
        return batch.mean(learner.losses(outputs, batch.y) + self.mu * contrast)

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Keep the trained model as the client's last one."""
        return in_slot(without_slots(params), LAST) | {MET: torch.ones_like(params[MET])}

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the server's model to every client."""
        return {"global": self.predictor(stack(without_slots(state.server), len(ids)))}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Give new clients the server's model."""
        return self.models(state, ids)

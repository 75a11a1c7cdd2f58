"""pFedSD: the model a client trained last teaches the one it trains next."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedstat.federated.client.local import Batch, ClientData, Context, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State

TEACHER, MET = "teacher", "met/teacher"


@dataclass(frozen=True, kw_only=True)
class PFedSD(Method):
    """FedAvg whose clients distil from the model that they trained last.

    A client's personal model v is the model that it trained when it last took part. The next time it trains the shared
    model w on cross-entropy plus ``penalty T^2 KL(softmax(v(x) / T) || softmax(w(x) / T))``, and keeps the outcome as
    its new v. The first time it has no teacher and trains on cross-entropy alone (Jin et al. 2022, "Personalized Edge
    Intelligence via Federated Self-Knowledge Distillation", Algorithm 1).

    Parameters
    ----------
    penalty : float
        lambda, not negative (1, as in the authors' code).
    temperature : float
        T, positive (1, as in the authors' code).
    weighting, server, aggregator, compression, mechanism
        See `Method`. The original averages uniformly; the default here weighs by samples, as FedAvg's does.

    Notes
    -----
    The shared model travels down and up; v never leaves the client. The teacher is fixed during a round and in
    evaluation mode. The personal model of a client that was never chosen, and of a new client, is the shared model
    after one round of local training, which needs the clients' data; it is made for the evaluation and discarded. With
    one output and two classes the softmax runs over the logits (0, h).

    The authors' code: there the teacher stays in training mode, averages are uniform, and running statistics are not
    averaged but stay as they started; we average these as well and all leaves by samples, so that without distillation
    the shared model is FedAvg's. Their code reports the best round.

    Examples
    --------
    The shared model is measured, and each client's as it was trained last:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> method, training = fs.methods.PFedSD(), fs.Training(lr=0.1)
    >>> result = fs.federate(method, fs.models.mlp(5, 8, 2), clients, training, rounds=2, progress=False)
    >>> sorted(result.history["estimand"].unique())
    ['global', 'personal']
    """

    penalty: float = 1.0
    temperature: float = 1.0

    label = "pFedSD"
    exempt = {"one client": "the pull to a model's own past outputs has no counterpart in plain training"}
    _ranges = {"penalty": "[0, inf)", "temperature": "(0, inf)"}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start the shared model and the teacher alike, beside a flag: 1 if the client has a teacher yet, else 0.

        A regression, which has no class probabilities to distil, raises a ValueError.
        """
        if federation.clients.classes is None:
            raise ValueError("PFedSD distils class probabilities, and these clients' targets are numbers.")
        flag = torch.zeros(1, dtype=network.dtype, device=network.device)
        return network.initial() | in_slot(network.initial(), TEACHER) | {MET: flag}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but the teacher's and the flag."""
        mine = torch.zeros(1, 1, dtype=torch.bool, device=network.device)
        return in_slot(share_all_but(network, network.shapes), TEACHER) | {MET: mine}

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Ask the teacher about all samples once."""
        return params, {"log_p": self._log_softmax(learner.network(slot(params, TEACHER), data.x))}

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the cross-entropy, to which the divergence from the teacher is added where there is one."""
        outputs = learner.outputs(without_slots(params), batch)
        log_p, log_q = context.aux["log_p"][batch.rows], self._log_softmax(outputs)
        divergence = batch.mean((log_p.exp() * (log_p - log_q)).sum(-1))
        weight = self.penalty * self.temperature**2 * params[MET][0]
        return batch.mean(learner.losses(outputs, batch.y)) + weight * divergence

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Keep the trained model as the next teacher."""
        return in_slot(without_slots(params), TEACHER) | {MET: torch.ones_like(params[MET])}

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the models that clients trained last, and the shared one; who never took part trains for it first.

        Where the data of such clients are not at hand, a ValueError says so.
        """
        params = self.receive(state, ids)
        unmet = (params[MET] == 0).nonzero()[:, 0]
        if not len(unmet):
            return self._both(params)
        if federation is None:
            raise ValueError(
                f"client {int(ids[unmet[0]])} never took part: its personal model is trained on its data, which a "
                "loaded result does not hold."
            )
        end = self._one_round(state, ids[unmet], {name: leaf[unmet] for name, leaf in params.items()}, federation)
        return self._both({name: leaf.index_copy(0, unmet, end[name]) for name, leaf in params.items()})

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Give the shared model after one round of local training, and the shared model as it is."""
        return self._both(self._one_round(state, ids, start, federation))

    def _one_round(self, state: State, ids: Tensor, start: Params, federation: Federation) -> Params:
        """Train the shared model at clients without a teacher and keep it as theirs; the shared model stays."""
        return federation.one_round(self, start, ids, state.round) | without_slots(start)

    def _both(self, params: Params) -> dict[str, Predictor]:
        return {"personal": self.predictor(slot(params, TEACHER)), "global": self.predictor(without_slots(params))}

    def _log_softmax(self, outputs: Tensor) -> Tensor:
        """Return log-probabilities (B, Q) at the temperature; one output stands for the logits (0, h)."""
        logits = F.pad(outputs, (1, 0)) if outputs.shape[-1] == 1 else outputs
        return (logits / self.temperature).log_softmax(-1)

"""FedEM: every client is its own mixture of a few shared models."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedstat.federated.client.local import Batch, ClientData, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import slot
from fedstat.federated.state import Federation, Predictor, State

PI = "mixture/pi"
#: A new client's mixture weights have converged when its mean log-likelihood is this close to the maximum. It takes
#: this many steps at most, after which it is within log(M) / 10000 in any case.
TOLERANCE, MOST = 1e-4, 10_000


@dataclass(frozen=True, kw_only=True)
class FedEM(Method):
    """Every client mixes a few shared models by weights of its own, found by expectation-maximisation.

    A client's data come from ``sum_m pi_km p(y | x, theta_m)``. On receipt of the components theta_m it computes
    each sample's responsibilities ``q_im`` proportional to ``pi_km exp(-loss(theta_m; x_i, y_i))`` and its weights
    ``pi_km = mean_i q_im``, and then trains each component on the losses weighted by q (Marfoq et al. 2021, "Federated
    Multi-Task Learning under a Mixture of Distributions", Algorithm 1).

    Parameters
    ----------
    components : int
        M, at least 1 (3, as in the original and in the FedSplit/FedFac paper). The first component starts as every
        method's model does, the others start from draws of their own, which need a function that builds the network.
    weighting, server, aggregator, compression, mechanism
        See `Method`; the server averages components by samples, not by samples times pi.

    Notes
    -----
    All components travel down and up; the mixture weights stay. A client computes responsibilities once per round, in
    evaluation mode on all training samples, and they stay fixed while components train; the weighted losses are divided
    by the batch size, not by the sum of the weights. Batch norm counts all samples of a batch alike, and ``clip_norm``
    bounds the gradients of all components together. The prediction mixes probabilities, not logits; in regression it is
    the mixture's mean. For a new client the components stay as they are, and its weights are iterated to convergence.

    The authors' code: it averages over all clients, absentees with the old components, which shortens the step below
    full participation; we average over participants, as in FedAvg. There a new client's weights take one step at each
    evaluation.

    Examples
    --------
    Copies of the network are shared, and the client's own is how it mixes them:

    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedEM(components=2), fs.models.mlp(4, 3, 2)).table
    >>> table.loc[table["leaf"].str.contains("head.bias|mixture"), ["leaf", "shape", "holder"]]
              leaf shape  holder
    3  0/head.bias     2  server
    7  1/head.bias     2  server
    8   mixture/pi     2  client
    """

    components: int = 3

    example = {"components": 2}
    exempt = {
        "one client": "a mixture of several models is not one model, whoever trains it",
        "fixed point": "mixture weights move by expectation steps, whatever the learning rate",
    }
    _ranges = {"components": 1}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Draw the components independently, and let every client start from equal mixture weights.

        A module, which has one set of weights, raises a ValueError: draws need a function that builds the network.
        """
        draws = [network.initial()]
        if self.components > 1:
            fresh = federation.fresh(self.components - 1)
            draws += [{name: leaf[m] for name, leaf in fresh.items()} for m in range(self.components - 1)]
        pi = torch.full((self.components,), 1 / self.components, dtype=network.dtype, device=network.device)
        return {f"{m}/{name}": leaf for m, draw in enumerate(draws) for name, leaf in draw.items()} | {PI: pi}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but the mixture weights."""
        return {PI: torch.zeros(1, 1, dtype=torch.bool, device=network.device)}

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Take one expectation step: find responsibilities (n_max, M), and take their mean as the new weights."""
        q = responsibilities(self._losses(learner, params, data), params[PI])
        return params | {PI: data.mean(q)}, {"q": q}

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train all components together."""
        return (Phase(tuple(f"{m}/{name}" for m in range(self.components) for name in network.trainable)),)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Sum over components the mean loss weighted by responsibility."""
        q = context.aux["q"][batch.rows]
        outputs = [learner.outputs(slot(params, str(m)), batch) for m in range(self.components)]
        losses = torch.stack([learner.losses(h, batch.y) for h in outputs], dim=-1)
        return batch.mean((q * losses).sum(-1))

    def predict(self, learner: Learner, params: Params, x: Tensor) -> Tensor:
        """Return the mixture's log-probabilities; for one output its log-odds, in regression its mean."""
        h = torch.stack([learner.network(slot(params, str(m)), x) for m in range(self.components)])
        if learner.task == "squared":
            return torch.tensordot(params[PI], h, dims=1)
        log_pi = params[PI].log()[:, None, None]
        if learner.task == "logistic":
            return (log_pi + F.logsigmoid(h)).logsumexp(0) - (log_pi + F.logsigmoid(-h)).logsumexp(0)
        return (log_pi + h.log_softmax(-1)).logsumexp(0)

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Mix the components as they are, by the weights that fit the new clients' data best."""

        class Losses(FedEM):
            def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
                return {"losses": self._losses(learner, params, data)}

        losses = federation.train(Losses(components=self.components), start, ids, (), state.round)["losses"]
        losses, pi = losses.double(), start[PI].double()
        n = torch.from_numpy(federation.clients.train.n).to(losses.device)[:, None]
        valid = torch.arange(losses.shape[1], device=losses.device) < n
        for _ in range(MOST):
            q = torch.where(valid[..., None], responsibilities(losses, pi[:, None]), 0)
            before, pi = pi, q.sum(1) / n
            # the log-likelihood is concave: its largest directional derivative bounds what is left to gain
            if ((pi / before).nan_to_num(0).max() - 1) < TOLERANCE:
                break
        return {"personal": self.predictor(start | {PI: pi.to(start[PI].dtype)})}

    def _losses(self, learner: Learner, params: Params, data: ClientData) -> Tensor:
        """Return the loss of every sample under every component, (n_max, M), in evaluation mode."""
        outputs = [learner.network(slot(params, str(m)), data.x) for m in range(self.components)]
        return torch.stack([learner.losses(h, data.y) for h in outputs], dim=-1)


def responsibilities(losses: Tensor, pi: Tensor) -> Tensor:
    """Return each component's probability given a sample, (..., M), from losses (..., M) and mixture weights."""
    return (pi.log() - losses).softmax(-1)

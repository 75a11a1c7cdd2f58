"""APFL: every client mixes the shared model with one of its own, in a share that it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedstat.federated.client.local import Batch, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import in_slot, is_statistic, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State

PERSONAL, ALPHA = "personal", "mixture/alpha"


@dataclass(frozen=True, kw_only=True)
class APFL(Method):
    """Every client mixes the shared model with one of its own, in a share that it learns.

    Client i holds a local version w of the shared model, a model v of its own, and predicts with the mixture of their
    weights ``u = alpha v + (1 - alpha) w``. In every local step w and v move at once, on the same batch: w along the
    gradient of the loss at w, v along that of the loss at u with respect to v, which is alpha times the gradient at u.
    The server averages w (Deng, Kamani and Mahdavi 2020, "Adaptive Personalized Federated Learning", Algorithm 1).
    Where alpha is learnt, a participant first takes one step ``alpha <- alpha - lr <v - w, gradient at u>`` on the
    round's first batch, and clips it to [0, 1].

    Parameters
    ----------
    alpha : float
        Share of the client's own model, in [0, 1] (0.5, from the authors' code). Kept at 0 it makes the method
        FedAvg; kept at 1 it makes the clients' models Local's.
    adaptive : bool
        Whether clients learn alpha, each its own, from that start, as in the original's section on adaptive mixing
        (True), or keep it.
    weighting : {"samples", "uniform"}
        See `Method` ("uniform", as in the original).
    server, aggregator, compression, mechanism
        See `Method`.

    Notes
    -----
    The shared model travels down and up; v and alpha stay. The evaluated mixture is with the newest shared model. All
    models start alike. A new client copies the shared model as its own and takes part in one round; its mixture is
    again with the shared model as the server has it. There is no projection onto a bounded set, which the original's
    analysis needs.

    Running statistics of batch norm are not mixed: those of w belong to w, and each client keeps those of its mixture.
    The optimiser of the training configuration moves w, v and alpha, its weight decay shrinks alpha as well, and
    `clip_norm` bounds the gradients of w and v together.

    The authors' code: it mixes the outputs of the two models, not their weights, so that the gradient of v has the
    factor alpha there as well, and steps v after w, at the new w. It moves alpha after the first step of a round, along
    a mix of both models' gradients in place of the mixture's, and shrinks it by a penalty ``0.01 alpha^2``; by default
    alpha is fixed. It evaluates the mixture with the local version of the shared model. PFLlib steps v along the
    gradient at v itself, and puts the mixture in its place after every round.

    Examples
    --------
    Every client learns its share of the personal model, from 1/2 on:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> training, model = fs.Training(lr=0.3, local_epochs=5), fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(fs.methods.APFL(), model, clients, training, rounds=10, progress=False)
    >>> shares = result.states["APFL", 0].clients["mixture/alpha"]
    >>> shares.shape, bool((shares != 0.5).all())
    (torch.Size([4, 1]), True)
    """

    alpha: float = 0.5
    adaptive: bool = True
    weighting: Literal["samples", "uniform"] = "uniform"

    exempt = {"one client": "a mixture of two models that train at once does not move as one model does"}
    _ranges = {"alpha": "[0, 1]"}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start the shared model and the client's own alike, beside the share of the latter."""
        share = torch.full((1,), self.alpha, dtype=network.dtype, device=network.device)
        return network.initial() | in_slot(network.initial(), PERSONAL) | {ALPHA: share}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but those of the client's own model and its share."""
        mine = torch.zeros(1, 1, dtype=torch.bool, device=network.device)
        return in_slot(share_all_but(network, network.shapes), PERSONAL) | {ALPHA: mine}

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Take one step of alpha, if it is learnt; then train both models at once, from the same batch on."""
        personal = tuple(f"{PERSONAL}/{name}" for name in network.trainable)
        both = Phase((*network.trainable, *personal), first_epoch=0)
        return (Phase((ALPHA,), epochs=1, steps=1, name=ALPHA), both) if self.adaptive else (both,)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the mixture's loss, which does not move w, and in the models' phase add that of w."""
        mixture = _mixture({name: leaf.detach() if "/" not in name else leaf for name, leaf in params.items()})
        if context.phase == ALPHA:
            still = {name: mixture[name].clone() for name in learner.network.statistics}
            return learner.loss(mixture | still, batch)
        return learner.loss(without_slots(params), batch) + learner.loss(mixture, batch)

    def constrain(self, params: Params, context: Context) -> Params:
        """Clip alpha to [0, 1]."""
        return {ALPHA: params[ALPHA].clamp(0, 1)} if context.phase == ALPHA else {}

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the mixtures and the shared model."""
        return self._both(self.receive(state, ids))

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Let new clients train a copy of the shared model for a round; give their mixtures and the shared model."""
        start = start | in_slot(without_slots(start), PERSONAL)
        return self._both(federation.one_round(self, start, ids, state.round) | without_slots(start))

    def _both(self, params: Params) -> dict[str, Predictor]:
        return {
            "personal": self.predictor(torch.vmap(_mixture)(params)),
            "global": self.predictor(without_slots(params)),
        }


def _mixture(params: Params) -> Params:
    """Return the mixture of one client's two models; its running statistics are those beside the client's own model."""
    w, v, alpha = without_slots(params), slot(params, PERSONAL), params[ALPHA][0]
    return {n: v[n] if is_statistic(n) else alpha * v[n] + (1 - alpha) * w[n] for n in w}

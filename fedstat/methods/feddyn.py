"""FedDyn: every client's loss is tilted, so that all agree where the mean loss is stationary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from fedstat.federated.client.local import ClientData, Context, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.means import step_to_mean, weights_of_all
from fedstat.federated.method import Method, keep, stack
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State, Update

#: Slots of a client's gradient, as it stood when the client last took part, and of the server's mean of them.
OWN, MEAN = "g", "h"


@dataclass(frozen=True, kw_only=True)
class FedDyn(Method):
    """Clients remember their gradients, and tilt their losses so that all agree where the mean loss is stationary.

    Client k receives the model x and trains on ``L_k(w) - <g_k, w> + alpha / 2 |w - x|^2``, where g_k stands for the
    gradient of L_k at the model w_k that it trained last. Then it renews ``g_k <- g_k - alpha (w_k - x)``, which is
    that gradient if it reached the minimum. The server holds h, the mean of all clients' g_k, and goes to the mean of
    the participants' models minus ``h / alpha`` (Acar et al. 2021, "Federated Learning Based on Dynamic
    Regularization", Algorithm 1).

    Parameters
    ----------
    alpha : float
        Strength of the pull to the received model, positive (0.01, one of the three values that the original tries).
    weighting : {"samples", "uniform"}
        Weights of the clients, in the mean of the models and in h ("uniform", as in the original).
    server
        See `Method`.

    Raises
    ------
    ValueError
        If `alpha` is not positive and finite; at the start of a run, for an aggregator, as the server's step is no
        mean, and for a compression: h would drift away from the mean of the clients' gradients.

    Notes
    -----
    The model travels down and up, and nothing beside it. Every client keeps g_k and the server h, as many numbers as
    gradients move; all start at zero. Running statistics are averaged as they are. A new client gets the server's
    model.

    Where the rounds come to rest every client trains from x to x, so that g_k is its gradient there, and h, their mean,
    is zero: x is a stationary point of the mean loss, by whichever steps clients train. That mean counts clients as
    `weighting` says. The two terms are part of the gradient: momentum, Adam and clipping see them.

    In the authors' code all means are uniform; instead, a client's alpha is divided by its number of samples relative
    to the mean. Gradients are clipped at norm 10. It measures the mean of the participants' models and that of the
    models which all clients trained last, not the model that is sent. PFLlib pulls by the distance itself, not its
    square.

    Examples
    --------
    The server's h is the mean of what the clients remember:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> training, model = fs.Training(lr=0.1), fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(fs.methods.FedDyn(), model, clients, training, rounds=3, participation=0.5, progress=False)
    >>> state = result.states["FedDyn", 0]
    >>> h, own = state.memory["h/head.weight"], state.clients["g/head.weight"]
    >>> own.shape, bool((own.mean(0) - h).abs().max() < 1e-7)
    (torch.Size([4, 1, 8]), True)
    """

    alpha: float = 0.01
    weighting: Literal["samples", "uniform"] = "uniform"

    exempt = {"one client": "the pull holds a client that is alone back, and the server goes beyond its model."}
    exact_uploads = True
    _ranges = {"alpha": "(0, inf)"}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start the model, and beside it a client's gradient at zero."""
        start = network.initial()
        return start | in_slot({name: torch.zeros_like(start[name]) for name in network.trainable}, OWN)

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but those of the clients' gradients."""
        return in_slot(share_all_but(network, network.trainable), OWN)

    def init(self, network: Network, federation: Federation) -> State:
        """Start as every method does, with h at zero; the server remembers every client's share in it."""
        state = super().init(network, federation)
        share = weights_of_all(self.weighting, federation)
        return replace(state, memory={"share": share} | in_slot(slot(state.server, OWN), MEAN))

    def pull(self, params: Params, context: Context) -> Params:
        """Return the gradient of the two terms that the client's loss is given."""
        own, x = slot(context.received, OWN), context.received
        return {name: self.alpha * (params[name] - x[name]) - g for name, g in own.items()}

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Renew the client's gradient."""
        own, x = slot(context.received, OWN), context.received
        return in_slot({name: g - self.alpha * (params[name] - x[name]) for name, g in own.items()}, OWN)

    def aggregate(self, state: State, update: Update) -> State:
        """Renew h from how far the participants moved, and step to their mean model minus h over `alpha`."""
        model = step_to_mean(without_slots(state.server), update, {})
        share, h = state.memory["share"][update.ids], dict[str, torch.Tensor]()
        for name, before in slot(state.memory, MEAN).items():
            moved = torch.tensordot(share, update.end[name] - update.start[name], dims=1)
            h[name] = before - self.alpha * moved
            model[name] = model[name] - h[name] / self.alpha
        return replace(
            state,
            server=state.server | model,
            clients=keep(state.clients, update),
            memory=state.memory | in_slot(h, MEAN),
            round=state.round + 1,
        )

    def models(self, state: State, ids: torch.Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the server's model to every client."""
        return {"global": self.predictor(stack(without_slots(state.server), len(ids)))}

    def newcomer(self, state: State, ids: torch.Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Give new clients the server's model."""
        return self.models(state, ids)

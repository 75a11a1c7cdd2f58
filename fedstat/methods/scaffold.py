"""SCAFFOLD: control variates take the clients' drift out of their local steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fedstat.federated.client.local import Batch, ClientData, Context, Learner, gradient_on_all
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import SGD
from fedstat.federated.codec import Message
from fedstat.federated.means import step_to_mean, weights_of_all
from fedstat.federated.method import Method, keep, stack
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State, Update

#: Slots of the server's control and of the client's, and of its change.
SERVERS, OWN, CHANGE = "c", "c_i", "change"


@dataclass(frozen=True, kw_only=True)
class SCAFFOLD(Method):
    """Clients correct their steps by how their own gradients differ from everybody's, so that they do not drift apart.

    The server sends its model x and its control c. Client i, which keeps a control c_i of its own, takes K steps ``y <-
    y - lr (g_i(y) - c_i + c)`` from y = x, renews its control and sends y and the control's change. The server steps
    towards the mean of the models, by eta_g = ``fs.server.SGD(lr=eta_g)``, and c follows as the mean of all clients'
    controls, those of absentees as they are (Karimireddy et al. 2020, "SCAFFOLD: Stochastic Controlled Averaging for
    Federated Learning", Algorithm 1).

    Parameters
    ----------
    option : {"I", "II"}
        The new control: the gradient of the client's loss at x over all its training samples ("I"), or ``c_i - c +
        (x - y) / (K lr)``, the mean of the gradients that its steps used ("II", with which the original's experiments
        are made).
    weighting : {"samples", "uniform"}
        Weights of the clients, in the mean of the models and in c ("uniform", as in the original).
    server
        See `Method`.

    Raises
    ------
    ValueError
        If `option` is unknown; at the start of a run that trains by anything but plain gradient steps, and for a
        compression: c would drift away from the mean of the controls.

    Notes
    -----
    The model and c travel down, the model and the change of c_i up: twice FedAvg's bytes, but for running statistics,
    which have no control. All controls start at zero, so that the first round is FedAvg's. A new client gets the
    server's model.

    K is the client's own number of steps, and lr stands for the rates that these really had: under a schedule
    ``K lr`` is their sum. Weight decay is a part of g_i in the steps, hence of the controls of option II; those of
    option I leave it out, as its pull is the same for everybody. Option I computes one gradient on all samples at once,
    without dropout. With lr = 0 the controls of option II stay.

    The authors' code: none was found. PFLlib does the same, but goes on dividing by the first rate where rates decay.
    NIID-Bench starts all controls at random weights, has controls for running statistics too, and averages models by
    samples but controls uniformly.

    Examples
    --------
    Its controls travel beside the weights:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> methods, network = [fs.FedAvg(), fs.methods.SCAFFOLD()], fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(methods, network, clients, fs.Training(lr=0.1), rounds=2, progress=False)
    >>> result.traffic.groupby("method", observed=True)["bytes_up"].mean().to_dict()
    {'FedAvg': 228.0, 'SCAFFOLD': 456.0}
    """

    option: Literal["I", "II"] = "II"
    weighting: Literal["samples", "uniform"] = "uniform"

    taken_over = (SERVERS,)
    exact_uploads = True
    _ranges = {"option": ("I", "II")}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start the model, and beside it both controls at zero."""
        start = network.initial()
        zeros = {name: torch.zeros_like(start[name]) for name in network.trainable}
        return start | in_slot(zeros, SERVERS) | in_slot(zeros, OWN)

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but those of the clients' controls."""
        return in_slot(share_all_but(network, network.trainable), OWN)

    def init(self, network: Network, federation: Federation) -> State:
        """Start as every method does, if controls will be gradients: clients train by plain SGD, and clip nothing.

        The server remembers every client's share in c.
        """
        training = federation.training
        if training.steps != SGD() or training.clip_norm is not None:
            raise ValueError(
                'SCAFFOLD needs plain gradient steps, whose means its controls are: optimizer must be "sgd" without '
                f"momentum and clip_norm None, got {training.steps!r} and clip_norm={training.clip_norm}."
            )
        share = weights_of_all(self.weighting, federation)
        return replace(super().init(network, federation), memory={"share": share})

    def gradient(
        self, grad: Callable[[Params, Batch], Params], params: Params, batches: tuple[Batch, ...], context: Context
    ) -> Params:
        """Return the gradient with the client's own control taken out and the server's put in."""
        own, servers = slot(context.received, OWN), slot(context.received, SERVERS)
        return {name: g - own[name] + servers[name] for name, g in grad(params, batches[0]).items()}

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Renew the client's control, and report its change."""
        x = context.received
        own, servers = slot(x, OWN), slot(x, SERVERS)
        if self.option == "I":
            new = gradient_on_all(learner, x, data)({name: x[name] for name in own})
        else:
            new = {}
            for name, total in context.rate_sum.items():
                mean = (x[name] - params[name]) / torch.where(total > 0, total, 1)
                new[name] = torch.where(total > 0, own[name] - servers[name] + mean, own[name])
        return in_slot(new, OWN) | in_slot({name: c - own[name] for name, c in new.items()}, CHANGE)

    def upload(self, state: State, update: Update) -> Message:
        """Send the trained model, and the change of the client's control."""
        return without_slots(update.end) | in_slot(slot(update.end, CHANGE), CHANGE)

    def aggregate(self, state: State, update: Update) -> State:
        """Step to the mean model, and move c by what the participants' controls moved in the mean over all clients."""
        model = step_to_mean(without_slots(state.server), update, {})
        share, servers = state.memory["share"][update.ids], slot(state.server, SERVERS)
        moved = {n: servers[n] + torch.tensordot(share, c, dims=1) for n, c in slot(update.end, CHANGE).items()}
        server = state.server | model | in_slot(moved, SERVERS)
        return replace(state, server=server, clients=keep(state.clients, update), round=state.round + 1)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the server's model to every client."""
        return {"global": self.predictor(stack(without_slots(state.server), len(ids)))}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Give new clients the server's model."""
        return self.models(state, ids)

"""FedALA: every client learns, weight by weight, how much of the new global model it takes over."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstat.federated.client.local import Batch, ClientData, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State

#: Slots of the top layers that the client trained last and of their aggregation weights, and a flag that it has any.
OWN, WEIGHTS, MET = "own", "aggregation", "met/own"


@dataclass(frozen=True, kw_only=True)
class FedALA(Method):
    """FedAvg whose clients do not start from the global model, but from a mix of it with the model they trained last.

    In the `top` layers a client starts from ``own + (global - own) W``, element by element, with aggregation weights W
    in [0, 1] that it keeps and learns: before it trains, W takes steps ``W <- clip(W - eta dL/dW)`` on a share of its
    samples, for many epochs in the second round and for one afterwards. The layers below are the global model's. The
    server averages what clients train from there (Zhang et al. 2023, "FedALA: Adaptive Local Aggregation for
    Personalized Federated Learning", Algorithm 1).

    Parameters
    ----------
    top : int
        p, how many layers are mixed, counted from the network's end, at least 1 (1, as in the paper).
    eta : float
        Learning rate of W, not negative (1, as in the paper). At 0 the method is `FedAvg`.
    share : float
        s, the share of the samples from which W is learned, in (0, 1] (0.8, as in the paper).
    start_epochs : int
        Epochs in which W is learned in the second round, at least 1 (11, the fewest of the authors' code).
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        For values out of range, if the network has fewer layers than `top`, and, on evaluation, if the clients' data
        are not at hand.

    Notes
    -----
    The model travels down and up; W and the own layers never leave the client. W starts at one. A client that takes
    part for the first time has no model of its own and starts from the global one. What is evaluated is the mix that a
    client would start from now ("personal"), for which it learns W on the newest global model, and the global model. A
    new client takes part in one round, and mixes as in the second.

    While W is learned, a batch counts only its first samples, a share s of them; these are random, as batches are. Its
    steps are plain whatever trains the model: no momentum, weight decay or clipping, and `eta` in every round. Running
    statistics of batch norm are the global model's.

    Where the paper trains W until convergence, it has `start_epochs` here. In the paper that long first learning is the
    client's own, when it mixes for the first time; here it belongs to the second round of the run, as a phase has as
    many epochs for all clients. A client that takes part in the first two rounds has it. One whose first round is the
    second has it on two equal models, which leaves W at one, and one that is absent from the second does not have it:
    both learn W an epoch in each later round, from their second participation on.

    In the authors' code the first learning of W goes on until the last losses of ten epochs have a standard deviation
    below 0.1. The samples are a stretch of the client's data that begins at a random place, in their order. All clients
    mix in every round, whether they take part or not, so that their own model is the mix where they do not. There `top`
    counts tensors: the last one alone is the bias of the head. Statistics of batch norm are not shared. Accuracies are
    those of the mix before local training, the best round's; PFLlib's also those after it.

    Examples
    --------
    Every client learns which entries of its head to keep:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> training, model = fs.Training(lr=0.3, local_epochs=5), fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(fs.methods.FedALA(), model, clients, training, rounds=10, progress=False)
    >>> weights = result.states["FedALA", 0].clients["aggregation/head.weight"]
    >>> weights.shape, bool((weights < 1).any()), bool((weights >= 0).all())
    (torch.Size([4, 1, 8]), True, True)
    """

    top: int = 1
    eta: float = 1.0
    share: float = 0.8
    start_epochs: int = 11

    example = {"share": 1.0}  # a part of a batch depends on the client's number
    _ranges = {"top": 1, "eta": "[0, inf)", "share": "(0, 1]", "start_epochs": 1}

    def mixed(self, network: Network) -> tuple[str, ...]:
        """Return the leaves that are mixed."""
        layers = list(network.layers.values())
        if self.top > len(layers):
            raise ValueError(f"top must be at most the network's number of layers, {len(layers)}, got {self.top}.")
        return tuple(leaf for layer in layers[-self.top :] for leaf in layer if leaf in network.trainable)

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Add the client's own top layers, their weights of ones, and a flag: 1 if the client has trained, else 0."""
        start = network.initial()
        own = {name: start[name] for name in self.mixed(network)}
        ones = {name: torch.ones_like(leaf) for name, leaf in own.items()}
        flag = torch.zeros(1, dtype=network.dtype, device=network.device)
        return start | in_slot(own, OWN) | in_slot(ones, WEIGHTS) | {MET: flag}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share the model; the client's own layers, their weights and the flag stay."""
        mine = share_all_but(network, self.mixed(network))
        flag = torch.zeros(1, 1, dtype=torch.bool, device=network.device)
        return in_slot(mine, OWN) | in_slot(mine, WEIGHTS) | {MET: flag}

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Mix by the weights as they are; a client without a model of its own takes the global one for it."""
        own = {name: torch.where(params[MET] > 0, leaf, params[name]) for name, leaf in slot(params, OWN).items()}
        start = params | in_slot(own, OWN)
        return start | _mix(start, params), {}

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Learn the weights, once there is something to mix; then train the model."""
        names = tuple(f"{WEIGHTS}/{name}" for name in self.mixed(network))
        weights = Phase(
            names, self.start_epochs if round == 1 else 1, self.eta, first_epoch=0, name=WEIGHTS, plain=True
        )
        local = Phase(network.trainable, first_epoch=0)
        return (weights, local) if round else (local,)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the loss; while weights are learned, that of the mix on the batch's first samples."""
        if context.phase != WEIGHTS:
            return learner.loss(params, batch)
        still = {name: params[name].clone() for name in learner.network.statistics}
        first = torch.arange(len(batch.y), device=batch.y.device) < self.share * batch.valid.sum()
        some = batch if self.share == 1 else replace(batch, valid=batch.valid & first, full=False)
        return learner.loss(params | _mix(params, context.received) | still, some)

    def constrain(self, params: Params, context: Context) -> Params:
        """Clip the weights to [0, 1], and mix by them."""
        if context.phase != WEIGHTS:
            return {}
        clipped = in_slot({name: leaf.clamp(0, 1) for name, leaf in slot(params, WEIGHTS).items()}, WEIGHTS)
        return clipped | _mix(params | clipped, context.received)

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Keep the trained top layers as the client's own."""
        own = {name: params[name] for name in slot(params, OWN)}
        return in_slot(own, OWN) | {MET: torch.ones_like(params[MET])}

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the mix that each client would start from now, and the global model."""
        if federation is None:
            raise ValueError(
                "FedALA learns how to mix on the clients' data, which a loaded result does not hold; call federate to "
                "get the mixed models."
            )
        return self._both(self.receive(state, ids), ids, federation, state.round, state.round)

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Let new clients train the global model for a round, then mix."""
        end = federation.one_round(self, start, ids, state.round)
        return self._both(end | without_slots(start), ids, federation, state.round, 1)

    def _both(self, params: Params, ids: Tensor, federation: Federation, round: int, like: int) -> dict[str, Predictor]:
        """Learn the weights as in the round numbered `like`; give the mix and the global model."""
        weights = self.phases(federation.network, federation.training, like)[:-1]
        end = federation.train(self, params, ids, weights, round)
        return {"personal": self.predictor(without_slots(end)), "global": self.predictor(without_slots(params))}


def _mix(params: Params, received: Params) -> Params:
    """Return the mix of one client's own layers with the global ones that it received, which it is where W = 1."""
    own = slot(params, OWN)
    return {n: received[n] + (1 - w) * (own[n] - received[n]) for n, w in slot(params, WEIGHTS).items()}

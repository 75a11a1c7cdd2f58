"""Ditto: a shared model, and beside it a personal one that stays near."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedstat.federated.client.local import Context, Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State

PERSONAL = "personal"


@dataclass(frozen=True, kw_only=True)
class Ditto(Method):
    """A shared model as FedAvg trains it, and a personal one that is pulled to it.

    A participant trains a copy of the shared model w and sends it back. Then it trains its own model v on
    ``L_k(v) + (penalty / 2) |v - w|^2``, with w as received (Li et al. 2021, "Ditto: Fair and Robust Federated
    Learning Through Personalization", Algorithm 1).

    Parameters
    ----------
    penalty : float
        lambda, not negative (0.75, with which the filter decomposition paper compares; the original has 1, or the best
        of 0.1, 1 and 2 on validation data).
    personal_epochs : int, optional
        Epochs of the personal model per round, at least 1; by default as many as the shared copy's.
    weighting, server, aggregator, compression, mechanism
        See `Method`. The original averages uniformly; the default here weighs by samples, as FedAvg's does.

    Notes
    -----
    The shared model travels down and up; the personal one stays. Both train on the same batches. The pull is part of
    the gradient and so of its momentum. It acts on all leaves that gradients move, not on running statistics, of which
    each of the two models has its own. A new client copies w and trains the copy as its personal model for a round.

    The authors' code: both models take plain SGD steps on the same batches, as here. It draws participants by their
    numbers of samples and averages uniformly; we draw evenly and average by samples, so that w is FedAvg's; on request
    it chooses lambda in every step on validation samples, while ours is given.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> method = fs.methods.Ditto(penalty=0.5)
    >>> result = fs.federate(method, fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), rounds=2, progress=False)
    >>> sorted(result.history["estimand"].unique())
    ['global', 'personal']
    """

    penalty: float = 0.75
    personal_epochs: int | None = None

    exempt = {"one client": "a personal model that is pulled to the shared one does not train as if it were alone"}
    _ranges = {"penalty": "[0, inf)", "personal_epochs": 1}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start the shared model and the personal one alike."""
        return network.initial() | in_slot(network.initial(), PERSONAL)

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but those of the personal model."""
        return in_slot(share_all_but(network, network.shapes), PERSONAL)

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train the copy of the shared model, then the personal model on the same batches."""
        own, epochs = tuple(f"{PERSONAL}/{name}" for name in network.trainable), self.personal_epochs
        return Phase(network.trainable), Phase(own, epochs, first_epoch=0, name=PERSONAL, slot=PERSONAL)

    def pull(self, params: Params, context: Context) -> Params:
        """Return the pull of the personal model to the shared one as it was received."""
        if context.phase != PERSONAL:
            return {}
        v, w = slot(params, PERSONAL), context.received
        return in_slot({name: self.penalty * (v[name] - w[name]) for name in v}, PERSONAL)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the personal models and the shared one."""
        return self._both(self.receive(state, ids))

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Train a copy of the shared model as a personal one; give it and the shared model."""
        start = start | in_slot(without_slots(start), PERSONAL)
        _, personal = self.phases(federation.network, federation.training, state.round)
        return self._both(federation.train(self, start, ids, (personal,), state.round))

    def _both(self, params: Params) -> dict[str, Predictor]:
        return {"personal": self.predictor(slot(params, PERSONAL)), "global": self.predictor(without_slots(params))}

"""FedBABU: the body learns in company, for a head that nobody trains until a client uses the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedstat.federated.client.local import Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import stack
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation, Predictor, State
from fedstat.methods.fedper import FedPer
from fedstat.methods.fine_tuning import fine_tuned


@dataclass(frozen=True, kw_only=True)
class FedBABU(FedPer):
    """Clients train and share the body under one head of random weights; before use each fine-tunes a copy.

    The head keeps its first weights, which all clients have in common, through all rounds; the server averages the
    bodies that were trained under it. A client's own model is the average body with that head, fine-tuned on the
    client's samples (Oh et al. 2022, "FedBABU: Toward Enhanced Representation for Federated Image Classification",
    Algorithm 1).

    Parameters
    ----------
    fine_tune : int
        Epochs of fine-tuning, at least 1 (5, as in the authors' code).
    part : {"head", "all"}
        The part that is fine-tuned: the last dense layer, as the abstract says ("head"), or the whole model.
    layers : sequence of str, optional
        What is not trained in the rounds; by default the last dense layer. Running statistics of batch norm are
        averaged there, too.
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        For values out of range; and, on evaluation, if the clients' data are not at hand.

    Notes
    -----
    The body travels up and down; the head never does, since everybody knows its first weights. A new client gets what
    all clients have, a fine-tuned copy and the model as it is. The copy is trained with the optimiser of the rounds at
    the rate ``lr``, without decay or schedule, in batches of its own, and is discarded: rounds do not see it.

    The authors' code: participants count alike (here ``weighting="uniform"``), the head is an optimiser's group with
    rate zero, and fine-tuning trains the whole model (``part="all"``), from the round that was best on test samples and
    at a hundredth of the first round's rate.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedBABU(), fs.models.mlp(4, 3, 2)).table
    >>> print(table[["leaf", "holder", "up"]].to_string(index=False))
             leaf holder  up
    hidden.weight server  48
      hidden.bias server  12
      head.weight client   0
        head.bias client   0
    """

    fine_tune: int = 5
    part: Literal["all", "head"] = "head"

    exempt = {"one client": "the head does not train in the rounds, and a copy is fine-tuned after them."}
    _ranges = {"fine_tune": 1, "part": ("all", "head")}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share the body, and the running statistics of all layers, which move in training."""
        return share_all_but(network, [leaf for leaf in self.private(network) if leaf not in network.statistics])

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train the body."""
        private = self.private(network)
        return (Phase(tuple(name for name in network.trainable if name not in private)),)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give each client its fine-tuned copy, and the body with the head as it is."""
        start = stack(state.server, len(ids))
        tuned = fine_tuned(self, start, ids, federation, state.round, self.fine_tune, self.part)
        return tuned | {"global": self.predictor(start)}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Give new clients what all clients have."""
        return self.models(state, ids, federation)

"""FedRep: clients train first the head, then the body."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedstat.federated.client.local import Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.state import Federation, Predictor, State
from fedstat.methods.fedper import FedPer


@dataclass(frozen=True, kw_only=True)
class FedRep(FedPer):
    """FedPer whose clients fit the head first, for many epochs, and then the body, for few.

    A client fits its own head to the received body, which stands still, then moves the body under the head just
    found (Collins et al. 2021, Algorithm 1).

    Parameters
    ----------
    layers : sequence of str, optional
        The layers that count as head, see `FedPer`.
    head_epochs, body_epochs : int
        Epochs of the two parts in every round (10 and 1, as in the filter decomposition paper; the original takes 10
        and 5 on CIFAR). They replace the ``local_epochs`` of the training configuration.
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If a number of epochs is no count, or both are zero.

    Notes
    -----
    The body travels up and down. A new client receives it and fits a head from the common start in `head_epochs`.

    Each part takes the next epochs of a round's batches. A body that stands still keeps its weights, while running
    statistics of batch norm move in both parts, as in the published code. Evaluation uses the heads as the rounds left
    them; the original fits them for ten more epochs after the last round and reports the mean over the last ten rounds.

    The authors' code: there one SGD with momentum serves both parts, and decay spares biases; here the optimiser is new
    in each part, as in every phase of every method, so that nothing moves a part that stands still.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedRep(), fs.models.mlp(4, 3, 2)).table
    >>> table.set_index("leaf")["holder"].to_dict()
    {'hidden.weight': 'server', 'hidden.bias': 'server', 'head.weight': 'client', 'head.bias': 'client'}
    """

    head_epochs: int = 10
    body_epochs: int = 1

    exempt = {"one client": "head and body take turns, which is no gradient step in both at once."}
    _ranges = {"head_epochs": 0, "body_epochs": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_epochs + self.body_epochs == 0:
            raise ValueError("head_epochs and body_epochs must not both be 0, since nothing would be trained.")

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train the head, then the body."""
        private = self.private(network)
        head = tuple(name for name in network.trainable if name in private)
        body = tuple(name for name in network.trainable if name not in private)
        both = (Phase(head, self.head_epochs, name="head"), Phase(body, self.body_epochs, name="body"))
        return tuple(phase for phase in both if phase.train)

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Fit a head to the server's body, which stands still."""
        network = federation.network
        fit = tuple(p for p in self.phases(network, federation.training, state.round) if p.name == "head")
        end = federation.train(self, start, ids, fit, state.round)
        return {"personal": self.predictor(start | {name: end[name] for name in self.private(network)})}

"""FedAvg: average locally trained models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fedstat.federated.client.local import Batch, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method, stack, written_out
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.methods.fine_tuning import fine_tuned


@dataclass(frozen=True, kw_only=True)
class FedAvg(Method):
    """The server averages models that participants trained; on request each client fine-tunes the average before use.

    Participants start from the server's weights and train them locally; the server averages the outcomes with weights
    n_k / sum n_j over the participants (McMahan et al. 2017, Algorithm 1). With `fine_tune` every client then trains a
    copy of the server's model on its own samples (FedAvg + FT of the filter decomposition paper, FedAvg+ of the FedFac
    paper).

    Parameters
    ----------
    fine_tune : int
        Epochs of fine-tuning, not negative (0, which is FedAvg itself; the filter decomposition paper takes 10).
    part : {"all", "head"}
        The part that is fine-tuned: the whole model, as that paper words it ("all"), or the last dense layer alone, as
        published code for it does.
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If `fine_tune` is not a count or `part` unknown; on evaluation, if fine-tuning lacks the clients' data; and for
        a class derived from this one that keeps leaves with the clients.

    Notes
    -----
    The whole model travels up and down. A new client gets what all clients have: the server's model ("global") and,
    before it, if wanted, a fine-tuned copy of its own ("fine-tuned").

    The mean runs over the participants; the server mixes in nobody else's old model. The copy is trained with the
    optimiser of the rounds at the rate ``lr``, without decay or schedule, by the plain loss and in batches of its own,
    and is discarded: rounds do not see it.

    The authors' code: none was found. That of FedProx, which has FedAvg too, weighs participants by samples, as here;
    FedRep's fine-tunes the head for ten epochs after the last round, so that `part` has both.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.FedAvg(), fs.models.mlp(4, 3, 2)).table
    >>> table.set_index("leaf")["holder"].to_dict()
    {'hidden.weight': 'server', 'hidden.bias': 'server', 'head.weight': 'server', 'head.bias': 'server'}
    """

    fine_tune: int = 0
    part: Literal["all", "head"] = "all"

    averages = True
    _ranges = {"fine_tune": 0, "part": ("all", "head")}

    # `Method` has the same steps; they are written out here so that the algorithm can be read in one place

    @written_out
    def receive(self, state: State, ids: Tensor) -> Params:
        """Give the server's weights to every participant."""
        return stack(state.server, len(ids))

    @written_out
    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train all weights, for the epochs and at the rate of `training`."""
        return (Phase(network.trainable),)

    @written_out
    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the mean loss of a batch; each local step follows its gradient."""
        # autograd runs this line; a chain of plain layers has the same gradient in closed form (federated/route.py)
        return learner.loss(params, batch)

    def aggregate(self, state: State, update: Update) -> State:
        """Step from the server's weights to the weighted mean of the participants'."""
        change = {name: update.end[name] - update.start[name] for name in state.server}
        server = {n: leaf + torch.tensordot(update.weight, change[n], dims=1) for n, leaf in state.server.items()}
        return replace(state, server=server, round=state.round + 1)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the server's model to every client; before it, if wanted, the client's fine-tuned copy."""
        start, epochs = self.receive(state, ids), self.fine_tune
        found = {"global": self.predictor(start)}
        return fine_tuned(self, start, ids, federation, state.round, epochs, self.part) | found if epochs else found

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Give new clients what all clients have."""
        return self.models(state, ids, federation)

    def init(self, network: Network, federation: Federation) -> State:
        """Start as every method does, and refuse personal leaves, which the steps above would ignore."""
        state = super().init(network, federation)
        if state.shared:
            raise ValueError(
                f"{type(self).__name__} keeps leaves with the clients ({', '.join(state.shared)}), but is derived from "
                "FedAvg, whose steps share all of them; derive it from fedstat.Method."
            )
        return state

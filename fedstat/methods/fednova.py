"""FedNova: clients that take more steps do not count for more."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstat.federated.client.local import ClientData, Context, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import SGD
from fedstat.federated.codec import Message
from fedstat.federated.means import step_to_mean
from fedstat.federated.method import Method
from fedstat.federated.slots import is_statistic
from fedstat.federated.state import Federation, State, Update

#: Under this name a client sends the sum of its learning rates.
RATES = "nova/rates"


@dataclass(frozen=True, kw_only=True)
class FedNova(Method):
    """The server averages changes per step, and goes as many steps as clients took in the mean.

    Client k moves from x to y_k in tau_k local steps of rate lr. The server goes from x to ``x - (sum_k p_k tau_k)
    sum_k p_k (x - y_k) / tau_k`` (Wang et al. 2020, "Tackling the objective inconsistency problem in heterogeneous
    federated optimization", with the number of effective steps that they choose). Where all take as many steps it is
    `FedAvg`.

    Parameters
    ----------
    weighting, server, compression
        See `Method`.

    Raises
    ------
    ValueError
        At the start of a run that trains by anything but plain gradient steps, whose number is then no measure of how
        far a client went.

    Notes
    -----
    The model travels in both directions, and up one number beside it. Steps count by their rates, which a schedule may
    change: tau_k stands for their sum, and the rate cancels where it is constant. Running statistics are averaged as
    they are. A new client gets the server's model.

    The authors' code divides by the norm of what momentum makes of the steps as well; here momentum is refused, and so
    is their proximal term.

    Examples
    --------
    A client with twice the epochs does not pull twice as hard:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=2, d=5, units=8, samples=20, test=50, seed=0)
    >>> training = fs.Training(lr=0.1, local_epochs=(1, 2))
    >>> now = next(fs.rounds(fs.methods.FedNova(), fs.models.mlp(5, 8, 1), clients, training))
    >>> now.updates["FedNova", 0].end["nova/rates"].round(decimals=2)
    tensor([0.1000, 0.2000])
    """

    def init(self, network: Network, federation: Federation) -> State:
        """Start as every method does, if local steps are plain."""
        if federation.training.steps != SGD():
            raise ValueError(
                'FedNova counts plain gradient steps: optimizer must be "sgd" without momentum, got '
                f"{federation.training.steps!r}."
            )
        return super().init(network, federation)

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Report the sum of the rates of the client's steps."""
        return {RATES: next(iter(context.rate_sum.values()))}

    def upload(self, state: State, update: Update) -> Message:
        """Send the trained model, and the sum of its rates."""
        return {**super().upload(state, update), RATES: update.end[RATES]}

    def aggregate(self, state: State, update: Update) -> State:
        """Step by the mean change per step, as many steps as the participants took in the mean."""
        taken: Tensor = update.end[RATES]
        per_step = update.weight / torch.where(taken > 0, taken, 1) * (update.weight @ taken)
        mean = step_to_mean(state.server, update, {})
        moved = step_to_mean(state.server, replace(update, weight=per_step), {})
        server = {name: mean[name] if is_statistic(name) else leaf for name, leaf in moved.items()}
        return replace(state, server=server, round=state.round + 1)

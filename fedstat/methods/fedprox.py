"""FedProx: a pull to the received model holds local training back."""

from __future__ import annotations

from dataclasses import dataclass

from fedstat.federated.client.local import Context
from fedstat.federated.client.network import Params
from fedstat.methods.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg whose local loss pulls the weights to the received model.

    A client minimises ``L_k(w) + mu / 2 ||w - w_t||^2``, where w_t is the model that it received in this round
    (Li et al. 2020, Algorithm 2).

    Parameters
    ----------
    mu : float
        Strength of the pull (0.1, as in the filter decomposition paper; the FedFac paper tunes it between 0.001
        and 1).
    fine_tune, part
        See `FedAvg`; there is no pull in fine-tuning.
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If `mu` is negative or infinite.

    Notes
    -----
    The whole model travels up and down; a new client gets what `FedAvg` gives.

    The pull acts on all trained weights, scale and shift of norm layers included, and on no running statistics. It
    is part of the loss, so that momentum and Adam see its gradient ``mu (w - w_t)``.

    The authors' code: it has the same pull, in plain SGD, and averages by samples. There some of the participants,
    stragglers, train for fewer epochs; here all train for equally many, so that budgets are equal.

    Examples
    --------
    The stronger the force, the less the clients move away from what they received:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> model, training = fs.models.mlp(5, 8, 1), fs.Training(lr=0.3, local_epochs=5, batch_size=4)
    >>> for mu in 0.0, 0.3, 3.0:
    ...     (update,) = next(fs.rounds(fs.methods.FedProx(mu=mu), model, clients, training)).updates.values()
    ...     print(mu, round((update.end["head.weight"] - update.start["head.weight"]).norm().item(), 2))
    0.0 1.47
    0.3 0.75
    3.0 0.12
    """

    mu: float = 0.1

    exempt = {"one client": "the pull to the received model also holds back a client that is alone."}
    _ranges = {"mu": "[0, inf)"}

    def pull(self, params: Params, context: Context) -> Params:
        """Return the gradient of half of `mu` times the squared distance from the received weights."""
        return {name: self.mu * (leaf - context.received[name]) for name, leaf in params.items()}

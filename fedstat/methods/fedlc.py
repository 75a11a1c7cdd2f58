"""FedLC: margins that grow as classes get rarer at a client keep its local training from forgetting them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedstat.federated.client.local import Batch, ClientData, Context, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.state import Federation, State
from fedstat.methods.classes import head_outputs, members, shifted


@dataclass(frozen=True, kw_only=True)
class FedLC(Method):
    """FedAvg whose clients calibrate the logits in the loss by how often they see each class.

    A client with n_q training samples of class q minimises the cross-entropy at the logits ``f_q(x) - tau n_q^(-1/4)``,
    so that classes which it rarely sees need a larger margin (Zhang et al. 2022, "Federated Learning with Label
    Distribution Skew via Logits Calibration", the calibrated cross-entropy).

    Parameters
    ----------
    tau : float
        Strength of the calibration, not negative (1, as in FL-bench); at 0 the method is `FedAvg`.
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If `tau` is negative or infinite, the network has no head, or the task is not one of classes with an output
        for each.

    Notes
    -----
    The model travels down and up; class counts stay with the client. Predictions use the logits as they are. A new
    client gets the server's model.

    A class that a client lacks has an infinite margin: its probability is zero, and nothing pushes its logit down. For
    losses that look at all classes, as under label smoothing, its logit counts as one far below the sample's others.

    The paper's formula leaves the sample's own class out of the sum in the denominator. That loss is not bounded below,
    and at ``tau = 0`` no cross-entropy; here the sum runs over all classes, as the abstract's words and public codes
    have it. FL-bench reports that training by the letter of the formula collapsed.

    No code of the authors' was found. FL-bench counts a class without samples as one of 1e-8 samples, a margin of
    ``100 tau``. PFLlib calibrates all clients alike, by the class counts of all of them together.

    Examples
    --------
    Calibration changes what clients learn, and not what travels:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> methods, training = [fs.FedAvg(), fs.methods.FedLC()], fs.Training(lr=0.1)
    >>> result = fs.federate(methods, fs.models.mlp(5, 8, 2), clients, training, rounds=2, progress=False)
    >>> result.traffic.groupby("method", observed=True)["bytes_up"].mean().to_dict()
    {'FedAvg': 264.0, 'FedLC': 264.0}
    """

    tau: float = 1.0

    exempt = {"one client": "logits are calibrated by class counts also where a client is alone."}
    _ranges = {"tau": "[0, inf)"}

    def init(self, network: Network, federation: Federation) -> State:
        """Start as every method does, if the task is one of classes."""
        head_outputs(self, network, federation)
        return super().init(network, federation)

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Find the margins n_q^(-1/4) from the training samples, infinite for a class that is missing."""
        outputs = len(params[learner.network.head_leaves[0]])
        return params, {"margin": members(data, outputs).sum(0).to(learner.network.dtype) ** -0.25}

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the loss at the calibrated logits."""
        outputs = learner.outputs(params, batch)
        if self.tau:  # 0 * inf is no number
            outputs = shifted(outputs, -self.tau * context.aux["margin"])
        return batch.mean(learner.losses(outputs, batch.y))

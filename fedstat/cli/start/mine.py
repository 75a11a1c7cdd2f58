"""A method and a network of one's own. Change either, and run again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from fedstat.federated import Batch, Context, Federation, Learner, Method, Network, share_all_but
from fedstat.federated.method import Params


# What the configuration says under [model], the data say where a name is theirs: inputs, classes, channels, side.
def network(inputs: int, classes: int, width: int = 32) -> nn.Module:
    """Build a network with one hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, classes))


# A method is a frozen dataclass. It overrides the steps in which it differs from FedAvg; its fields are its options.
@dataclass(frozen=True, kw_only=True)
class MyMethod(Method):
    """Clients share all but the last layer, and keep that one small.

    Parameters
    ----------
    ridge : float
        Strength of the penalty ``ridge / 2 * |last layer|^2``.
    """

    ridge: float = 0.01
    # A law of fs.testing.check_method that does not apply, with the reason.
    exempt: ClassVar[Mapping[str, str]] = {"one client": "the ridge is a force that plain training lacks."}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Say which weights the server holds; the others stay with the clients."""
        return share_all_but(network, network.layers[network.head])

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return what a client minimises on a batch; the engine does this for all clients at once."""
        last = learner.network.layers[learner.network.head]
        return learner.loss(params, batch) + self.ridge / 2 * sum(params[leaf].square().sum() for leaf in last)

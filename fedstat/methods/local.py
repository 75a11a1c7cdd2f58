"""Local: every client trains alone."""

from __future__ import annotations

from dataclasses import dataclass

from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation


@dataclass(frozen=True, kw_only=True)
class Local(Method):
    """Training without communication: every element is personal.

    A client trains in the rounds in which it takes part, so that its budget of local steps equals that of the
    methods that it is compared with. Everybody starts from the same weights.

    Parameters
    ----------
    weighting
        Without effect, since nothing is averaged. All else that belongs to a server is refused.

    Notes
    -----
    Nothing travels. A new client trains alone from the common start, for one round.

    The authors' code: the method is nobody's. The codes of FedFOMO and FedPAC train it in the rounds of participation,
    too.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.Local(), fs.models.mlp(4, 3, 2)).table
    >>> table.set_index("leaf")["holder"].to_dict()
    {'hidden.weight': 'client', 'hidden.bias': 'client', 'head.weight': 'client', 'head.bias': 'client'}
    """

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share no leaf."""
        return share_all_but(network, network.shapes)

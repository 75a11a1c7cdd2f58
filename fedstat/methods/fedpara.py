"""FedPara and pFedPara: weights are Hadamard products of two low-rank weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstat.federated.client.network import Network, Params, parameterize
from fedstat.federated.method import Method
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation
from fedstat.models import mlp
from fedstat.parameterization import Hadamard, hadamard_rank


@dataclass(frozen=True, kw_only=True)
class FedPara(Method):
    """Weights are Hadamard products of two low-rank weights; both are averaged, or one of them is personal.

    A weight is ``W1 * W2`` elementwise, each factor ``Wi = Xi Yi'`` of rank r; a convolution's factors have a core
    ``Ti`` besides. The product has rank up to r^2, with far fewer numbers to send than a weight of that rank has.
    With ``personal=True`` (pFedPara) the weight is ``W1 * (W2 + 1)``: W1 is averaged, W2 stays with the client and
    bends the common weight to it. Clients train all factors jointly (Hyeon-Woo, Ye-Bin and Oh, "FedPara: low-rank
    Hadamard product for communication-efficient federated learning", ICLR 2022, sections 2 and 2.3).

    Parameters
    ----------
    gamma : float
        The place of the rank, in [0, 1], between the least that permits full rank and the largest that saves numbers
        (0.5, the original's for pFedPara; its large convolutional networks have 0.1 to 0.4).
    personal : bool
        Whether the method is pFedPara instead of FedPara (False).
    tanh : bool
        Whether both factors pass through tanh before they are multiplied, an option of the original (False).
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If gamma lies outside [0, 1], or the network has no dense layer to end in.

    Notes
    -----
    The factors travel up and down (under pFedPara those of W1 alone), and so do all leaves that are not factorised: the
    last dense layer, biases, norm layers, and weights so small that factors would save nothing (`hadamard_rank` returns
    None for them; in the smallest networks these are all weights, which leaves FedAvg). A new client of FedPara
    receives the global model; one of pFedPara starts from ``W2 = 0`` and trains its W2 for one round's epochs.

    Averaging the factors is not averaging the weights that they compose; that is the method, not our choice.

    The authors' code: it is a notebook with the convolution of FedPara, whose least rank we take. Its rank follows from
    the ratio of parameters that is wanted, ours from the paper's gamma; it factorises also where that saves nothing,
    where we leave a weight plain; and its factors start smaller, see `fedstat.parameterization.Hadamard`.

    Examples
    --------
    Half as many numbers travel as a full weight has:

    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedPara(gamma=0.0), fs.models.mlp(64, 64, 10)).table
    >>> print(table[["leaf", "shape", "holder"]].head(5).to_string(index=False))
                leaf shape holder
    hidden.weight.x1  64x8 server
    hidden.weight.y1  64x8 server
    hidden.weight.x2  64x8 server
    hidden.weight.y2  64x8 server
         hidden.bias    64 server
    """

    gamma: float = 0.5
    personal: bool = False
    tanh: bool = False

    example_model = mlp(3, 24, 24, 2)
    _ranges = {"gamma": "[0, 1]"}

    def parameterize(self, network: Network, rng: np.random.Generator) -> Network:
        """Factorise the dense, recurrent and convolutional weights below the head that are large enough."""
        shapes = {name: tuple(shape) for name, shape in network.kernels.items() if name != f"{network.head}.weight"}
        forms = {
            name: Hadamard(shape, self.gamma, personal=self.personal, tanh=self.tanh)
            for name, shape in shapes.items()
            if hadamard_rank(shape, self.gamma) is not None
        }
        return parameterize(network, forms, rng)

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share all leaves; under pFedPara clients keep the second pair of factors."""
        return share_all_but(network, [leaf for leaf in network.parts if leaf.endswith("2")]) if self.personal else {}

"""FedDecomp: every weight is the sum of a shared full-rank part and a personal low-rank part."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedstat._checks import whole
from fedstat.federated.client.local import Phase, Training
from fedstat.federated.client.network import Network, Params, parameterize
from fedstat.federated.method import Method
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation
from fedstat.parameterization import LowRankSum

Variant = Literal["alternating", "simultaneous", "reverse", "local", "fedavg"]


@dataclass(frozen=True, kw_only=True)
class FedDecomp(Method):
    """Weights are sums of a shared full-rank and a personal low-rank part, which clients train in turn.

    Every weight is ``sigma + tau`` with ``tau = B A`` of low rank (FedDecomp paper, equations 2 to 4). In a round a
    client first trains A and B for `lora_epochs` epochs, so that they take up what is particular to its data, then
    sigma for the epochs that are left (equations 5 and 6). The server averages sigma (equation 7, Algorithm 1); A and B
    stay with the client.

    Parameters
    ----------
    conv_ratio, dense_ratio : float
        Rank of tau over full rank, in (0, 1], in convolutions and in dense or recurrent weights: the paper's R_c and
        R_l (0.6 and 0.6, its choice on CIFAR-10; 0.8 and 0.4 on CIFAR-100 and Tiny-ImageNet).
    lora_epochs : int
        Epochs of the first phase, E_lora, at most the training's local epochs (2, from the authors' code; the paper
        does not say).
    variant : {"alternating", "simultaneous", "reverse", "local", "fedavg"}
        The method itself ("alternating"), or one of the paper's ablations. Under "simultaneous" clients train all parts
        jointly (Table 3). Under "reverse" the server averages A and B, each for itself, sigma is personal, and the two
        phases are the method's (Table 5). Under "local" and "fedavg" clients train all parts jointly, and all are
        personal or all are averaged (Table 4).
    reading : {"code", "text"}
        The source of tau's rank, arrangement, start and scale: the authors' code or the paper's text, see
        `fedstat.parameterization.LowRankSum` ("code": the text leaves the scale open, and with one by which tau learns
        as fast as sigma the method diverges at the paper's learning rate).
    weighting : {"samples", "uniform"}
        See `Method` ("uniform", as in equation 7).
    server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        For values out of range, also where a run has fewer local epochs than `lora_epochs`.

    Notes
    -----
    Sigma travels up and down, as many numbers as a whole model has, as in FedAvg. A new client receives sigma, starts
    from ``tau = 0`` and trains its A and B for one round's epochs.

    Biases and norm layers belong to sigma. The running statistics of batch norm move in both phases, since both run
    the network in training mode, and the server averages them. Under "reverse" clients train the low-rank part first,
    too.

    The authors' code: it gives the dense rank as a number (4 of 10 classes on CIFAR-10 in its notes, which is
    ``dense_ratio=0.4`` where the paper has 0.6); its momentum is new in every round, as here.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedDecomp(), fs.models.mlp(40, 30, 2)).table
    >>> print(table[["leaf", "shape", "holder"]].head(4).to_string(index=False))
                  leaf shape holder
    hidden.weight.full 30x40 server
       hidden.weight.a 18x40 client
       hidden.weight.b 30x18 client
           hidden.bias    30 server
    """

    conv_ratio: float = 0.6
    dense_ratio: float = 0.6
    lora_epochs: int = 2
    variant: Variant = "alternating"
    reading: Literal["code", "text"] = "code"
    weighting: Literal["samples", "uniform"] = "uniform"

    example = {"lora_epochs": 1}
    exempt = {"one client": "steps in the two parts, one after the other, are no gradient step in their sum."}
    _ranges = {
        "conv_ratio": "(0, 1]", "dense_ratio": "(0, 1]", "lora_epochs": 0, "variant": get_args(Variant),
        "reading": ("code", "text"),
    }  # fmt: skip

    def parameterize(self, network: Network, rng: np.random.Generator) -> Network:
        """Add a low-rank part to every dense, recurrent and convolutional weight."""
        forms = {
            name: LowRankSum(tuple(shape), self.dense_ratio if len(shape) == 2 else self.conv_ratio, self.reading)
            for name, shape in network.kernels.items()
        }
        return parameterize(network, forms, rng)

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share sigma; in the ablations share the parts that they average."""
        low_rank = _low_rank(network)
        personal: dict[str, Collection[str]] = {
            "reverse": network.shapes.keys() - low_rank,
            "local": network.shapes.keys(),
            "fedavg": (),
        }
        return share_all_but(network, personal.get(self.variant, low_rank))

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train the low-rank parts, then all other leaves; in the joint ablations train all leaves at once."""
        if self.variant not in ("alternating", "reverse"):
            return (Phase(network.trainable),)
        epochs = whole("local_epochs of FedDecomp, one for all clients,", training.local_epochs)
        if self.lora_epochs > epochs:
            raise ValueError(
                f"lora_epochs must be at most {epochs}, the training's local_epochs, got "
                f"{self.lora_epochs}; lower it, or train for more epochs."
            )
        low_rank = _low_rank(network)
        first = tuple(name for name in network.trainable if name in low_rank)
        then = tuple(name for name in network.trainable if name not in low_rank)
        return (
            Phase(first, epochs=self.lora_epochs, name="low-rank"),
            Phase(then, epochs=epochs - self.lora_epochs, name="full"),
        )


def _low_rank(network: Network) -> set[str]:
    """Return the leaves A and B."""
    return {leaf for leaf in network.parts if not leaf.endswith(".full")}

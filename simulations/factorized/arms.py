"""The methods of Factorized-FL's Table 1, with the authors' settings, and with private classifiers where it asks so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import fedstat as fs
from fedstat._checks import check_fields
from fedstat.federated.client.local import Context
from fedstat.federated.client.network import Network, Params
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation

#: Labels of Factorized-FL's arms: which parts are averaged, and whether as the authors write or as their code does.
READINGS = ("text", "code")
FACTORIZED = tuple(f"Factorized-FL {v}, {reading}" for v in ("α", "β") for reading in READINGS)
#: Those that run where labels are permuted or domains differ: nobody shares the classifier there.
PRIVATE = ("Local", "FedAvg", "FedProx", "pFedPara", *FACTORIZED)
#: In the order of the paper's table.
ARMS = (
    "Local", "FedAvg", "FedProx", "Clustered-FL", "Per-FedAvg", "FedFOMO", "pFedPara", *FACTORIZED,
)  # fmt: skip
#: The arm whose learning rate each arm has. Kin train the same form of weights: both variants of a reading of
#: Factorized-FL, and the methods that train plain weights and share them.
KIN = {
    "Local": "Local",
    **dict.fromkeys(("FedAvg", "FedProx", "Clustered-FL", "Per-FedAvg", "FedFOMO"), "FedAvg"),
    "pFedPara": "pFedPara",
    **{f"Factorized-FL {v}, {reading}": f"Factorized-FL α, {reading}" for v in ("α", "β") for reading in READINGS},
}
#: The arms that are tuned.
TUNED = tuple(dict.fromkeys(KIN.values()))


@dataclass(frozen=True, kw_only=True)
class FedProxPrivateHead(fs.methods.FedPer):
    """FedProx whose clients keep their heads.

    Parameters
    ----------
    mu : float
        Strength of the pull to what the client started the round from, as in `fedstat.methods.FedProx`; at 0 the
        method is FedPer.
    """

    mu: float = 0.01
    exempt: ClassVar[Mapping[str, str]] = {
        "one client": "the pull to the received model also holds back a client that is alone."
    }

    def __post_init__(self) -> None:
        """Check ranges."""
        super().__post_init__()
        check_fields(self, mu="[0, inf)")

    def pull(self, params: Params, context: Context) -> Params:
        """Return the gradient of half of `mu` times the squared distance from the weights at the round's start."""
        return {name: self.mu * (leaf - context.received[name]) for name, leaf in params.items()}


@dataclass(frozen=True, kw_only=True)
class FedParaPrivateHead(fs.methods.FedPara):
    """PFedPara whose clients keep their heads as well as the second pair of factors."""

    personal: bool = True

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share the first pair of factors and what is not factorised, but for the head."""
        return super().shared(network, federation) | share_all_but(network, network.head_leaves)


def factorized(variant: str, reading: str, *, domains: bool, permuted: bool, clients: int) -> fs.Method:
    """Return Factorized-FL with the authors' settings for one data set or for several domains.

    Their least numbers of neighbours are those of 20 clients: 20, 10 and 4; other numbers of clients keep the shares.
    """
    least = clients // 5 if domains else clients // 2 if permuted else clients
    return fs.methods.FactorizedFL(
        variant="alpha" if variant == "α" else "beta", reading="text" if reading == "text" else "code",
        tau=0.95 if domains else 0.0, epsilon=20.0 if domains else 1.0, min_neighbours=least, sparsity=5e-4,
        reset_head=reading == "code" and not permuted,
    )  # fmt: skip


def methods(*, domains: bool, permuted: bool, clients: int, rounds: int) -> dict[str, fs.Method]:
    """Return the arms of a cell of Table 1 by their labels.

    Where labels are permuted, FedAvg, FedProx and pFedPara keep the head with the client; Clustered-FL, Per-FedAvg and
    FedFOMO are not offered in such a form, and are left out.
    """
    found: dict[str, fs.Method] = {
        "Local": fs.Local(),
        "FedAvg": fs.methods.FedPer() if permuted else fs.FedAvg(),
        "FedProx": FedProxPrivateHead(mu=0.01) if permuted else fs.methods.FedProx(mu=0.01),
        # its public code bisects no cluster in the first 20 rounds; where there are fewer, in the first two fifths
        "Clustered-FL": fs.methods.ClusteredFL(min_rounds=min(20, 2 * rounds // 5)),
        "Per-FedAvg": fs.methods.PerFedAvg(),
        "FedFOMO": fs.methods.FedFOMO(),
        "pFedPara": FedParaPrivateHead() if permuted else fs.methods.FedPara(personal=True),
    }
    make = partial(factorized, domains=domains, permuted=permuted, clients=clients)
    found |= {f"Factorized-FL {v}, {reading}": make(v, reading) for v in ("α", "β") for reading in READINGS}
    return {arm: found[arm] for arm in (PRIVATE if permuted else ARMS)}

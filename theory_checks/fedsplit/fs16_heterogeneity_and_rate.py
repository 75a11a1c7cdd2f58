"""FS-16: the added term does not account for heterogeneity.

FS-16c: what the added term depends on.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, all_of, within
from fedstat.inference import mean_interval
from fedstat.ntk import extreme_eigenvalues, personal_gram
from theory_checks.fedsplit.designs import Design, designs, over_designs
from theory_checks.fedsplit.symbols import SYMBOLS

_CLIENTS, _SEEDS = 4, 30


def _grouped(rng: np.random.Generator, groups: int, spread: float) -> np.ndarray:
    """Draw 48 unit inputs in eight dimensions, in groups about centres, group by group."""
    x = np.repeat(rng.normal(size=(groups, 8)), 48 // groups, axis=0) + spread * rng.normal(size=(48, 8))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def _change(owner: np.ndarray, *, groups: int, spread: float, claimed: tuple[float, float]) -> Evidence:
    """Change of the added term's eigenvalue lp if clients hold what `owner` says, in place of random shares."""
    changes = []
    for seed in range(_SEEDS):
        rng = np.random.default_rng(seed)
        x = _grouped(rng, groups, spread)
        own, dealt = (extreme_eigenvalues(personal_gram(x, c))[0] for c in (owner, rng.permutation(owner)))
        changes.append((own - dealt) / dealt)
    _, low, high = mean_interval(changes)
    what = "relative change of λᵖ (the personal kernel's smallest eigenvalue), from samples dealt at random"
    return within(low, high, claimed, cases=_SEEDS, what=what)


_GROWS, _FALLS = (0.0, np.inf), (-np.inf, 0.0)
_OWN_CLUSTER = np.repeat(np.arange(_CLIENTS), 48 // _CLIENTS)
_ONE_OF_EACH = np.tile(np.arange(_CLIENTS), 48 // _CLIENTS)


def _clustered(claimed: tuple[float, float]) -> Evidence:
    return _change(_OWN_CLUSTER, groups=_CLIENTS, spread=0.5, claimed=claimed)


def _vanishes(drawn: st.SearchStrategy[Design], eta_g: float = 1.0) -> Evidence:
    """The added term against a tenth of FedAvg's; as lp >= ls (FS-04) it is never below C / eta_g times FedAvg's."""

    def sides(shared: np.ndarray, personal: np.ndarray, clients: int) -> tuple[float, float]:
        return extreme_eigenvalues(personal)[0], 0.1 * eta_g * extreme_eigenvalues(shared)[0] / clients

    return over_designs(sides, drawn, ("added term", "a tenth of FedAvg's"))


FS16 = Claim(
    id="FS-16",
    place="section 5.4, first paragraph, seventh and last sentence on Figure 9 (the fourth refers to Theorem 1, for "
    "the faster rate alone)",
    said_by="fedstat",
    words="The term ρ₂λᵖ that Theorem 1 adds accounts for what Figure 9 shows: an advantage over FedAvg that grows "
    "with heterogeneity, and vanishes where the clients' data are nearly identically distributed.",
    statement='rho_2 lambda^p "grows with heterogeneity, and" rho_2 lambda^p -> 0 "for identical distributions"',
    severity="false",
    assumptions=SYMBOLS
    + "; the paper reports both observations and does not derive them from the theorem; whether the theorem "
    "could explain them is our question; 'vanishes' is read as at most a tenth of FedAvg's own term ρ₁λˢ, η_g = 1",
    sensitivity="the half-width of the interval, a tenth of λᵖ; any added term above a tenth of FedAvg's",
    flaw="The added term is the personal kernel's smallest eigenvalue. It knows the inputs and who holds them, and no "
    "labels; as λᵖ is at least λˢ it is at least C times FedAvg's term, however alike the clients are, and it falls "
    "when the inputs of a client are alike.",
    corrected="FS-16c",
)


@FS16.reading("both")
def both_of_them() -> Evidence:
    return all_of([_clustered(_GROWS), _vanishes(designs(clients=2))])


@FS16.reading("grows: each client holds a cluster of inputs of its own", natural=False)
def grows() -> Evidence:
    return _clustered(_GROWS)


@FS16.reading("vanishes: however the samples are dealt", natural=False)
def vanishes() -> Evidence:
    return _vanishes(designs(clients=2))


@FS16.control("grows, where inputs that are nearly equal lie at different clients")
def one_of_each() -> Evidence:
    return _change(_ONE_OF_EACH, groups=12, spread=0.1, claimed=_GROWS)


@FS16.control("vanishes, for a single client whose server takes tenfold steps, η_g = 10")
def tenfold() -> Evidence:
    return _vanishes(designs(most=1), eta_g=10.0)


FS16C = Claim(
    id="FS-16c",
    place="corrected statement of FS-16",
    said_by="fedstat",
    words="The term that Theorem 1 adds does not depend on labels, and is small where a client's inputs are alike: "
    "with two unit inputs of one client at the angle θ, λᵖ is at most (π − (π − θ) cos θ)/(2π), which goes to zero "
    "with θ.",
    statement="lambda^p <= (pi - (pi - theta) cos theta) / (2 pi)",
    severity="false",
    assumptions=SYMBOLS
    + "; unit inputs; the bound is an eigenvalue of the block of the two inputs, by Cauchy's interlacing no smaller "
    "than λᵖ, and the block's smaller one for angles up to 90 degrees",
    sensitivity="an excess of 1e-13; the half-width of the interval",
)


def _nearest_pair() -> Evidence:
    def sides(shared: np.ndarray, personal: np.ndarray, clients: int) -> tuple[float, float]:
        n = len(shared) // clients
        apart = np.arange(len(shared))
        pairs = (apart[:, None] // n == apart // n) & (apart[:, None] != apart)
        # off the diagonal the kernel is cos(theta) (pi - theta) / (2 pi)
        return extreme_eigenvalues(personal)[0], float(0.5 - shared[pairs].max())

    return over_designs(
        sides, designs(n=2), ("smallest eigenvalue λᵖ of the personal kernel", "bound by the nearest pair")
    )


@FS16C.reading("the bound, for the nearest pair of inputs at one client")
def nearest_pair() -> Evidence:
    return _nearest_pair()


@FS16C.reading("each client holds a cluster of inputs of its own: λᵖ falls")
def clustered() -> Evidence:
    return _clustered(_FALLS)

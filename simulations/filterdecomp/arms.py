"""The arms of the filter-decomposition paper's figures and tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import fedstat as fs
from fedstat.methods import Ditto, FedPAC, FedPara, FedPer, FedProx, FedRep, FilterDecomp, LGFedAvg

#: Figures 2, 3a and 5. Ditto's global model is FedAvg's: it takes FedAvg's rate, and runs under one seed to show it.
GLOBAL = ("FedAvg", "FedProx", "FilterDecomp")
DITTO = "Ditto, global"
#: Table 1. Its last arm lets the head join the personal training, of which the paper does not speak.
OURS, OURS_HEAD = "FilterDecomp personal", "FilterDecomp personal, local head"
PERSONAL = (
    "Local", "FedAvg + FT", "FedProx + FT", "Ditto", "FedPer", "FedRep", "FedPAC", "LG-FedAvg", OURS, OURS_HEAD,
)  # fmt: skip
#: Appendix A.2: one over beta, and which leaves are slow.
SLOW = {
    f"FilterDecomp, β = 1/{period}, {words}": (period, group)
    for period in (5, 10)
    for group, words in (("all", "all but atoms and head slow"), ("alpha", "coefficients slow"))
}
SENDING = ("FedPara", *SLOW)
#: Arms whose learning rates are tuned apart, with the model by whose accuracy that is done.
TUNED_GLOBALLY, TUNED_PERSONALLY = (*GLOBAL, "FedPara"), PERSONAL
#: Which of an arm's models its figure or table speaks of; "global" where none is named.
ESTIMAND = {arm: "fine-tuned" if arm.endswith("+ FT") else "personal" for arm in PERSONAL}


def method(arm: str, epochs: int, atoms: int = 9) -> fs.Method:
    """Return an arm's method, with the paper's hyper-parameters.

    Parameters
    ----------
    arm : str
        Its label.
    epochs : int
        Local epochs, which are also those of fine-tuning and of FedRep's head.
    atoms : int
        FilterDecomp's m_a.
    """
    if arm in SLOW:
        period, group = SLOW[arm]
        return FilterDecomp(atoms=atoms, beta=1 / period, slow="alpha" if group == "alpha" else "all")
    every: dict[str, Callable[[], fs.Method]] = {
        "FedAvg": fs.FedAvg,
        "FedProx": partial(FedProx, mu=0.1),
        "FilterDecomp": partial(FilterDecomp, atoms=atoms),
        DITTO: partial(Ditto, penalty=0.75),
        "Local": fs.Local,
        "FedAvg + FT": partial(fs.FedAvg, fine_tune=epochs),
        "FedProx + FT": partial(FedProx, mu=0.1, fine_tune=epochs),
        "Ditto": partial(Ditto, penalty=0.75),
        "FedPer": FedPer,
        "FedRep": partial(FedRep, head_epochs=epochs, body_epochs=1),
        "FedPAC": partial(FedPAC, head_lr=None),
        "LG-FedAvg": partial(LGFedAvg, top=2),
        OURS: partial(FilterDecomp, atoms=atoms, personal=True),
        OURS_HEAD: partial(FilterDecomp, atoms=atoms, personal=True, head="local"),
        "FedPara": FedPara,
    }
    return every[arm]()


def rate_of(arm: str) -> str:
    """Return the arm whose tuned rate an arm takes."""
    if arm in SLOW:
        return "FilterDecomp"
    return "FedAvg" if arm == DITTO else arm

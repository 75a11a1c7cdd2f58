"""The arms of the bench: every method, both readings where there are two, and controls at every budget of epochs.

**Budgets.** All arms run equally many rounds. Most train one model for E epochs a round. Some train two or three (Ditto
and APFL a shared and a personal one, FilterDecomp two sets of atoms, FedEM three components), and pFedMe takes three
gradients of a batch: what they gain might be the longer training. So Local and FedAvg also run with 2E and 3E epochs,
and an arm is compared with those two of its own budget. Where a client fine-tunes the last model for E epochs, once,
the arm is compared with Local and with FedAvg + FT, which is itself compared with FedAvg. FedFac's one local round
before the first decides which units are shared and leaves no trained model; it is compared with Local and FedAvg.

**Settings.** Hyper-parameters are the methods' defaults, but for those that count epochs or rounds, for Clustered-FL's
thresholds, which are relative to the first round, and for Factorized-FL's of a single data set. If a method has one
main hyper-parameter beyond the rate, three values of it are tried: the default, one below and one above.
Hyper-parameters that decide a budget (FedEM's components, FedRep's epochs, the rounds of the slow group) stay as they
are.

FedSplit is no arm, since it must be told its shared units and no data here have true ones; FedFac finds them. The
ensemble is no method but a rule for new clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import fedstat as fs
from fedstat import methods
from fedstat.methods import Quantile

CONTROLS = ("Local", "FedAvg")
#: Groups of arms by the epochs that they train in a round, in units of E.
BUDGETS = {1: "one", 2: "two", 3: "three"}
#: Methods that are no arms, and why.
LEFT_OUT = {"FedSplit": "must be told its shared units"}
_THREE_SHARES, _STRENGTH = (0.25, 0.5, 0.75), (0.2, 1.0, 5.0)
_QUANTILES = tuple(Quantile(share) for share in _THREE_SHARES)


@dataclass(frozen=True)
class Arm:
    """A method with its budget, and the values of its main hyper-parameter that are tried.

    Attributes
    ----------
    method : Method
        With all hyper-parameters at the values that tuning starts from.
    epochs : str
        Epochs of a client in a round: a + b where parts of a model take turns, a x b for b epochs of a models, and
        (+b) for b epochs once, before the first round or before use.
    models : int
        Models that a client trains for E epochs each; the budget.
    once : bool
        Whether a client trains for E epochs once more in the run.
    local_epochs : int, optional
        The training's local epochs, if not E.
    tuned : mapping of str to tuple
        Fields that are tuned together, each with its three values; the middle one is the default.
    needs : str
        What must be there: "" for nothing, "convolutions", "norm layers", or "numbers" as inputs, which tokens are not.
    """

    method: fs.Method
    epochs: str
    models: int = 1
    once: bool = False
    local_epochs: int | None = None
    tuned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    needs: str = ""

    @property
    def settings(self) -> tuple[str, ...]:
        """The values of the main hyper-parameter that are tried beside its default, in words."""
        return tuple(_words(name, values[place]) for name, values in list(self.tuned.items())[:1] for place in (0, 2))

    def at(self, setting: str) -> fs.Method:
        """Return the method at one of its settings; "" is the default."""
        if not setting:
            return self.method
        place = 2 * self.settings.index(setting)
        return replace(self.method, **{name: values[place] for name, values in self.tuned.items()})


def _words(name: str, value: Any) -> str:
    return f"{name} = {f'quantile {value.q:g}' if isinstance(value, Quantile) else f'{value:g}'}"


def arms(epochs: int, rounds: int, clients: int, layers: tuple[str, ...], offered: tuple[str, ...]) -> dict[str, Arm]:
    """Return all arms that a network can run.

    Parameters
    ----------
    epochs : int
        E, at least 2.
    rounds : int
        Rounds of the run, of which FedCAC and Clustered-FL have thresholds.
    clients : int
        Number of clients, which bounds the weights of FedAMP's mix.
    layers : tuple of str
        Layers whose units FedFac can share or not.
    offered : tuple of str
        What is there of "convolutions", "norm layers" and "numbers".
    """
    every = {**_classics(epochs), **_others(epochs, rounds, clients), **_papers(epochs, layers)}
    return {label: arm for label, arm in every.items() if not arm.needs or arm.needs in offered}


def absent() -> dict[str, str]:
    """Return the methods that have no arm, and why; a new one waits until somebody says what it trains in a round."""
    every = arms(2, 3, 2, (), ("convolutions", "norm layers", "numbers"))
    used = {type(arm.method).__name__ for arm in every.values()}
    return {name: LEFT_OUT.get(name, "has no arm yet") for name in methods.available() if name not in used}


def controls(label: str, arm: Arm) -> dict[str, str]:
    """Return the arms that an arm is compared with, by kind: Local and FedAvg at its own budget."""
    found = {kind: kind if arm.models == 1 else f"{kind}, {arm.models}E" for kind in CONTROLS}
    if getattr(arm.method, "fine_tune", 0) and label != "FedAvg + FT":
        found["FedAvg"] = "FedAvg + FT"
    return found


def _classics(e: int) -> dict[str, Arm]:
    """Return the controls at all budgets, and what is not personal or personal by layers."""
    longer = {
        f"{kind}, {times}E": Arm(method, f"{times * e}", times, local_epochs=times * e)
        for times in (2, 3)
        for kind, method in (("Local", methods.Local()), ("FedAvg", methods.FedAvg()))
    }
    once, pull = f"{e}", {"mu": (0.02, 0.1, 0.5)}
    return {
        "Local": Arm(methods.Local(), once),
        "FedAvg": Arm(methods.FedAvg(), once),
        **longer,
        "FedAvg + FT": Arm(methods.FedAvg(fine_tune=e), f"{e} (+{e})", once=True),
        "FedProx": Arm(methods.FedProx(), once, tuned=pull),
        "FedProx + FT": Arm(methods.FedProx(fine_tune=e), f"{e} (+{e})", once=True, tuned=pull),
        "SCAFFOLD": Arm(methods.SCAFFOLD(), once),
        "FedNova": Arm(methods.FedNova(), once),
        "FedDyn": Arm(methods.FedDyn(), once, tuned={"alpha": (0.001, 0.01, 0.1)}),
        "MOON": Arm(methods.MOON(), once, tuned={"mu": _STRENGTH}),
        "FedLC": Arm(methods.FedLC(), once, tuned={"tau": _STRENGTH}),
        "FedPer": Arm(methods.FedPer(), once),
        "LG-FedAvg": Arm(methods.LGFedAvg(), once, tuned={"top": (1, 2, 3)}),
        "FedRep": Arm(methods.FedRep(head_epochs=e - 1, body_epochs=1), f"{e - 1} + 1"),
        "FedBN": Arm(methods.FedBN(), once, needs="norm layers"),
        "FedBABU": Arm(methods.FedBABU(fine_tune=e), f"{e} (+{e})", once=True),
    }


def _others(e: int, rounds: int, clients: int) -> dict[str, Arm]:
    """Return the other methods from outside the four papers."""
    once = f"{e}"
    most = methods.FedAMP.scale / (clients - 1)  # beyond it a client's weight in its own mix would be negative
    clustered = methods.ClusteredFL(relative=True, min_rounds=rounds // 3)
    return {
        "FedEM": Arm(methods.FedEM(), f"3 x {e}", 3),
        "Ditto": Arm(methods.Ditto(), f"2 x {e}", 2, tuned={"penalty": (0.15, 0.75, 3.75)}),
        "APFL": Arm(methods.APFL(), f"2 x {e}", 2, tuned={"alpha": _THREE_SHARES}),
        "pFedMe": Arm(methods.PFedMe(inner_steps=3), f"3 x {e}", 3, tuned={"penalty": (5.0, 15.0, 30.0)}),
        "FedPAC": Arm(methods.FedPAC(), f"1 + {e - 1}", local_epochs=e - 1, tuned={"penalty": _STRENGTH}),
        "FedALA": Arm(methods.FedALA(), f"1 + {e - 1}", local_epochs=e - 1, tuned={"eta": (0.1, 1.0, 10.0)}),
        "FedProto": Arm(methods.FedProto(), once, tuned={"penalty": _STRENGTH}),
        "FedRoD": Arm(methods.FedRoD(), once, tuned={"gamma": (0.5, 1.0, 2.0)}),
        "FedAMP": Arm(methods.FedAMP(), once, tuned={"alpha": (2e3, 1e4, min(5e4, most))}),
        "pFedSD": Arm(methods.PFedSD(), once, tuned={"penalty": _STRENGTH}),
        "pFedGate": Arm(methods.PFedGate(), once, tuned={"density": _THREE_SHARES}, needs="numbers"),
        "FedCAC": Arm(methods.FedCAC(beta=rounds / 2), once, tuned={"tau": _THREE_SHARES}),
        "Per-FedAvg": Arm(methods.PerFedAvg(), once, tuned={"inner_lr": (0.002, 0.01, 0.05)}),
        "FedFOMO": Arm(methods.FedFOMO(), once, tuned={"candidates": (2, 5, 10)}),
        "Clustered-FL": Arm(clustered, once, tuned={"eps1": (0.08, 0.4, 2.0)}),
        "FedPara": Arm(methods.FedPara(), once, tuned={"gamma": _THREE_SHARES}),
        "pFedPara": Arm(methods.FedPara(personal=True), once, tuned={"gamma": _THREE_SHARES}),
    }


def _papers(e: int, layers: tuple[str, ...]) -> dict[str, Arm]:
    """Return the methods of the four papers, in all readings."""
    once, turns = f"{e}", f"{e - e // 2} + {e // 2}"
    fedfac = partial(methods.FedFac, layers=layers)
    cut = {"tau": _QUANTILES}
    factorized = partial(methods.FactorizedFL, tau=0.0, epsilon=1.0)
    weigh = {"epsilon": (0.2, 1.0, 5.0)}
    decomp = partial(methods.FedDecomp, lora_epochs=e - e // 2)
    ranks = {name: (0.3, 0.6, 0.9) for name in ("conv_ratio", "dense_ratio")}
    atoms: dict[str, Any] = {"tuned": {"atoms": (6, 9, 12)}, "needs": "convolutions"}
    own = partial(methods.FilterDecomp, personal=True)
    return {
        "FedFac static": Arm(fedfac(), f"{e} (+{e})", once=True, tuned=cut),
        "FedFac dynamic": Arm(fedfac(dynamic=True), f"{e} (+{e})", once=True, tuned=cut),
        "FedFac code": Arm(fedfac(dynamic=True, reading="code"), once, tuned=cut),
        "Factorized-FL alpha, code": Arm(factorized(), once, tuned=weigh),
        "Factorized-FL alpha, text": Arm(factorized(reading="text"), once, tuned=weigh),
        "Factorized-FL beta, code": Arm(factorized(variant="beta"), once, tuned=weigh),
        "Factorized-FL beta, text": Arm(factorized(variant="beta", reading="text"), once, tuned=weigh),
        "FedDecomp code": Arm(decomp(), turns, tuned=ranks),
        "FedDecomp text": Arm(decomp(reading="text"), turns, tuned=ranks),
        "FilterDecomp global": Arm(methods.FilterDecomp(), once, **atoms),
        "FilterDecomp personal": Arm(own(), f"2 x {e}", 2, **atoms),
        "FilterDecomp personal, own head": Arm(own(head="local"), f"2 x {e}", 2, **atoms),
        "FilterDecomp fast/slow": Arm(methods.FilterDecomp(beta=0.2), once, **atoms),
        "FilterDecomp fast/slow, alpha": Arm(methods.FilterDecomp(beta=0.2, slow="alpha"), once, **atoms),
    }

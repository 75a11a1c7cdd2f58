"""The burdens: what a run with one of them is asked to do otherwise, and how they are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import fedstat as fs

Kind = Literal["none", "robustness", "compression", "absence", "privacy"]
Rule = Literal["mean", "geometric median"]
#: The kinds of burden, in the order of the chapter.
KINDS: tuple[Kind, ...] = ("robustness", "compression", "absence", "privacy")
#: The families of burdens whose limits hold together: a kind, and the server's rule.
FAMILIES: tuple[tuple[Kind, Rule], ...] = (
    ("robustness", "mean"), ("robustness", "geometric median"), ("compression", "mean"), ("absence", "mean"),
    ("privacy", "mean"),
)  # fmt: skip
#: How far "a little is enough" moves, in standard deviations: farther than the paper's rule for so few attackers, by
#: which they would hardly attack.
LITTLE = 1.5
#: Between which shares of their work slow clients do.
SLOW_WORK = (0.1, 0.5)


@dataclass(frozen=True)
class Burden:
    """One burden at one dose.

    Attributes
    ----------
    kind : str
        One of `KINDS`, or "none".
    way : str
        Within the kind: "sign flip", "a little" and "no attack"; "half", "QSGD", "top-k" and "sign"; "dropout" and
        "stragglers"; "noise".
    dose : float
        The share of clients that attack, drop out or are slow; the levels of QSGD, the share of top-k; the noise
        multiplier.
    rule : {"mean", "geometric median"}
        How the server combines changes.
    """

    kind: Kind = "none"
    way: str = ""
    dose: float = 0.0
    rule: Rule = "mean"

    @property
    def label(self) -> str:
        """The burden in the tables."""
        if self.kind == "none":
            return "no burden"
        dose = f" {self.dose:g}" if self.dose or self.way == "noise" else ""
        return f"{self.way}{dose}" + f", {self.rule}" * (self.kind == "robustness")


NONE = Burden()


def planned(burden: Burden) -> Burden:
    """Return the part of a burden that whoever trains has chosen, and can tune for.

    Codec, noise and the server's rule are chosen. Attackers and absent clients are not known beforehand: runs with
    them have the learning rate of a run without.
    """
    match burden.kind:
        case "robustness" if burden.rule != "mean":
            return replace(burden, way="no attack", dose=0.0)
        case "compression" | "privacy":
            return burden
    return NONE


def of_method(burden: Burden, clip: float) -> dict[str, Any]:
    """Return what a burden adds to a method's arguments; changes are cut to the norm `clip` where they get noise."""
    if burden.rule == "geometric median":
        return {"aggregator": fs.aggregators.GeometricMedian()}
    match burden.way:
        case "half":
            return {"compression": fs.compression.Half()}
        case "QSGD":
            return {"compression": fs.compression.QSGD(levels=int(burden.dose))}
        case "top-k":
            return {"compression": fs.compression.TopK(share=burden.dose)}
        case "sign":
            return {"compression": fs.compression.Sign()}
        case "noise":
            return {"mechanism": fs.mechanisms.Gaussian(clip=clip, noise=burden.dose)}
    return {}


def of_world(burden: Burden) -> dict[str, Any]:
    """Return what a burden adds to the arguments of a run."""
    match burden.way:
        case "sign flip":
            return {"attack": fs.attacks.SignFlip(share=burden.dose)}
        case "a little":
            return {"attack": fs.attacks.ALittle(share=burden.dose, z=LITTLE)}
        case "dropout":
            return {"participation": fs.attendance.Dropout(1.0, burden.dose)}
        case "stragglers":
            return {"participation": fs.attendance.Stragglers(1.0, slow=burden.dose, work=SLOW_WORK)}
    return {}


def burdens(
    flips: tuple[float, ...],
    little: tuple[float, ...],
    codecs: Mapping[str, float],
    dropouts: tuple[float, ...],
    slow: tuple[float, ...],
    noises: tuple[float, ...],
) -> tuple[Burden, ...]:
    """Return the burdens of these doses; every attack meets the plain mean and the geometric median."""
    rules: tuple[Rule, ...] = ("mean", "geometric median")
    attacks = [("sign flip", share) for share in flips] + [("a little", share) for share in little]
    return (
        *(Burden("robustness", way, share) for way, share in attacks),
        Burden("robustness", "no attack", 0.0, rules[1]),
        *(Burden("robustness", way, share, rules[1]) for way, share in attacks),
        *(Burden("compression", way, dose) for way, dose in codecs.items()),
        *(Burden("absence", "dropout", share) for share in dropouts),
        *(Burden("absence", "stragglers", share) for share in slow),
        *(Burden("privacy", "noise", noise) for noise in noises),
    )

"""FS-51: Λ matters most, then τ and κ, by the range of accuracies.

FS-51c: the order of Λ and τ depends on the measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from statistics import variance

from fedstat.claims import Claim, Evidence, Sides, both, compared
from theory_checks.fedsplit.printed_tables import AS_PRINTED, CIFAR100, LAST_DIGIT, Row, printed

#: What each table varies: its parameter, number and column, the least influential first.
TABLES = (("κ", 6, "contribution"), ("τ", 5, "threshold"), ("Λ", 4, "layer"))

#: Maps the accuracies of a table's row to the influence of what it varies.
Influence = Callable[[Row], Decimal | Fraction]


def _range(row: Row) -> Decimal:
    return max(row.values()) - min(row.values())


def _variance(row: Row) -> Fraction:
    return variance(map(Fraction, row.values()))


def _influences(influence: Influence, setting: str) -> list[tuple[str, Decimal | Fraction]]:
    return [(name, influence(printed(table, column, setting=setting))) for name, table, column in TABLES]


def _ordered(influence: Influence, settings: Iterable[str] = CIFAR100) -> Evidence:
    """Ask for the influences of contribution, threshold and layer in increasing order, in each setting."""
    sides = [
        Sides(setting, less, more, (f"of {lower}", f"of {upper}"))
        for setting in settings
        for (lower, less), (upper, more) in pairwise(_influences(influence, setting))
    ]
    return compared(sides, of="comparisons in Tables 4 to 6", relation="<", every=True)


def _on_average() -> Evidence:
    """Ask for the same order of the variances' means over the settings."""
    each = [[value for _, value in _influences(_variance, setting)] for setting in CIFAR100]
    means = [sum(map(Fraction, values)) / len(values) for values in zip(*each, strict=True)]
    names = [name for name, *_ in TABLES]
    sides = [
        Sides("mean variance", less, more, (f"of {lower}", f"of {upper}"))
        for (lower, less), (upper, more) in pairwise(zip(names, means, strict=True))
    ]
    return compared(sides, of="comparisons of means", relation="<", every=True)


FS51 = Claim(
    id="FS-51",
    place="section 5.3, first paragraph, second sentence, by Tables 4 to 6",
    said_by="paper",
    words="Λ has the largest influence on the accuracy of FedFac, followed by τ and then κ.",
    statement='"influence of" Lambda > "influence of" tau > "influence of" kappa',
    severity="unstated condition",
    assumptions=AS_PRINTED
    + ". The sentence tells of a preliminary exploration, and the tables illustrate what follows "
    "from it; each varies one parameter and holds the others at what is fixed or was tuned before, so that nothing is "
    "seen of how they act together. How influence is measured is not said",
    sensitivity=LAST_DIGIT,
    flaw="At S = 10 the threshold spreads accuracies more than the layer does: that the range is larger over layers "
    "there rests on the last layer alone.",
    corrected="FS-51c",
)


@FS51.reading("range over the printed grid, in every setting")
def ranges() -> Evidence:
    return _ordered(_range)


@FS51.reading("standard deviation over the printed grid, in every setting")
def spreads() -> Evidence:
    return _ordered(_variance)


@FS51.reading("variance over the printed grid, on average over the settings")
def on_average() -> Evidence:
    return _on_average()


@FS51.control("standard deviation, without S = 10")
def two_settings() -> Evidence:
    return _ordered(_variance, (s for s in CIFAR100 if s != "CIFAR-100, S = 10"))


FS51C = Claim(
    id="FS-51c",
    place="corrected statement of FS-51",
    said_by="fedstat",
    words="By its range Λ matters most and κ least in all three settings; but at S = 10 τ comes before Λ by standard "
    "deviation, and by range too if the last layer is left out.",
    statement='"range": Lambda > tau > kappa, quad S = 10: "sd"(tau) > "sd"(Lambda), quad "range"(tau) > '
    '"range"(Lambda without {15})',
    severity="false",
    assumptions=AS_PRINTED,
    sensitivity=LAST_DIGIT,
)


@FS51C.reading("Tables 4 to 6")
def corrected() -> Evidence:
    setting = "CIFAR-100, S = 10"
    thresholds, layers = printed(5, "threshold", setting=setting), printed(4, "layer", setting=setting)
    others = {layer: value for layer, value in layers.items() if layer != "15"}
    turned = [
        Sides("variance at S = 10", _variance(layers), _variance(thresholds), ("of Λ", "of τ")),
        Sides("range at S = 10 without layer 15", _range(others), _range(thresholds), ("of Λ", "of τ")),
    ]
    return both(_ordered(_range), compared(turned, of="comparisons that come out otherwise", relation="<", every=True))

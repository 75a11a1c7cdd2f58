"""The picture of the study: cost over dose, a panel for each kind of burden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedstat._tables import Tables
from simulations.burdens.compared import SHARED, burdens_of, methods_of, named, settings_of, without
from simulations.burdens.effects import ACCURACY, effects
from simulations.burdens.loads import KINDS, Burden
from simulations.effects import Effects

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Mark, its filling, and the band's shade and hatch, by method.
LOOKS = {"FedAvg": ("o", "black", "0.75", ""), "FedPer": ("s", "white", "0.92", "////")}
TITLES = {
    "robustness": "share that attacks", "compression": "codec, FedAvg’s upload (kB)",
    "absence": "share of clients", "privacy": "noise multiplier",
}  # fmt: skip
#: How codecs and absences are named at their axes.
_SHORT = {
    "half": "half",
    "QSGD": "QSGD",
    "top-k": "top-k",
    "sign": "signs",
    "dropout": "drop out",
    "stragglers": "slow",
}


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw what each burden costs FedAvg and FedPer, a row of panels for each data set."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    every, names = effects(tables), settings_of(tables)
    with style():
        figure, axes = plt.subplots(
            len(names), len(KINDS), figsize=(WIDTH, 0.8 + 1.9 * len(names)), squeeze=False, layout="constrained"
        )
        for row, name in zip(axes, names, strict=True):
            for axis, kind in zip(row, KINDS, strict=True):
                axis.axhline(0, color="0.5", lw=0.6, ls=":", zorder=0)
                some = burdens_of(tables, name, kind)
                for method in (m for m in methods_of(tables, name) if m in LOOKS):
                    _panel(axis, every, name, method, some)
                _ticks(axis, tables, name, some)
                axis.set_xlabel(TITLES[kind], fontsize=7)
                axis.tick_params(labelsize=6.5)
            row[0].set_ylabel(f"{name}: cost (points)")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, frameon=False, fontsize=7, ncol=4, loc="outside lower center")
    return {"costs": figure}


def _place(burden: Burden, some: list[Burden]) -> float:
    """Return where a burden stands at its axis: doses as they are, noise on the logarithmic scale, others in order."""
    match burden.way:
        case "a little":
            return max(b.dose for b in some if b.way == "sign flip") + 0.12
        case "sign flip" | "no attack":
            return burden.dose
        case "noise":
            least = min((b.dose for b in some if b.dose), default=1.0)
            return float(np.log10(burden.dose / least)) if burden.dose else -0.5
    return float(some.index(burden))


def _ticks(axis: Axes, tables: Tables, name: str, some: list[Burden]) -> None:
    """Name the burdens at the axis: shares, codecs with the bytes of an upload, noises."""
    up = tables["arms"].set_index(["setting", "arm"])["up"]
    told = {}
    for burden in some:
        match burden.kind:
            case "robustness":
                text = "a\nlittle" if burden.way == "a little" else f"{burden.dose:g}"
            case "compression":
                text = f"{_SHORT[burden.way]}\n{up[name, named(SHARED, burden)] / 1000:.1f}"
            case "absence":
                text = f"{burden.dose:g}\n{_SHORT[burden.way]}"
            case _:
                text = f"{burden.dose:g}"
        told[_place(burden, some)] = text
    axis.set_xticks(list(told), list(told.values()))
    axis.margins(x=0.12)


def _panel(axis: Axes, every: Effects, name: str, method: str, some: list[Burden]) -> None:
    """Draw a method's costs under a kind of burden; of one way and rule they make a curve."""
    step = 0.015 * (max((_place(b, some) for b in some), default=1.0) or 1.0) * (1 if method == SHARED else -1)
    for rule in dict.fromkeys(b.rule for b in some):
        own = [b for b in some if b.rule == rule]
        curve = [b for b in own if b.way in ("sign flip", "no attack", "noise")]
        apart = [b for b in own if b not in curve]
        shift = step * (1 if rule == "mean" else 2)
        _draw(axis, every, name, method, curve, [_place(b, some) + shift for b in curve], rule, joined=True)
        _draw(axis, every, name, method, apart, [_place(b, some) + 2 * shift for b in apart], rule, joined=False)


def _draw(
    axis: Axes, every: Effects, name: str, method: str, some: list[Burden], at: list[float], rule: str, *, joined: bool
) -> None:
    """Draw costs with their joint limits, as a band around a curve of the mean; those not judged are left out."""
    pairs = [(named(method, b), without(method, b)) for b in some]
    found = np.array([every[ACCURACY, name, *pair].estimate for pair in pairs]).reshape(-1, 3)
    known = ~np.isnan(found).any(1)
    if not known.any():
        return
    mark, fill, shade, hatch = LOOKS[method]
    line = "-" if rule == "mean" else "--"
    x, (mean, low, high) = np.array(at)[known], found[known].T
    axis.plot(
        x, mean, ls=line if joined else "none", color="black", marker=mark, mfc=fill, ms=3.5, lw=0.9,
        label=f"{method}, {rule}" if joined else None,
    )  # fmt: skip
    if joined and rule == "mean" and len(x) > 1:
        axis.fill_between(x, low, high, facecolor=shade, edgecolor="0.6", hatch=hatch, lw=0, alpha=0.6, zorder=-1)
    else:
        axis.vlines(x, low, high, color="black", lw=0.6, ls=line)

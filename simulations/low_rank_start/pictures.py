"""Pictures of the response: accuracy, divergence and length of tau over the dose, and differences to the controls."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat._tables import Tables
from simulations.effects import Effects
from simulations.estimates import half_widths, mean_of
from simulations.low_rank_start.compared import (
    Kind,
    at,
    curves_of,
    dose_of,
    kinds_of,
    points,
    ratios,
    response,
    settings_of,
    share_diverged,
)
from simulations.low_rank_start.effects import effects, where
from simulations.low_rank_start.runs import CONTROLS, Arm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Line, mark and filling of a curve.
LOOKS = {
    ("code", "start"): ("-", "o", "black", "code’s arrangement, by the start"),
    ("text", "start"): ("--", "s", "white", "text’s arrangement, by the start"),
    ("code", "output"): (":", "^", "0.6", "code’s arrangement, by the output"),
}
TITLES: dict[Kind, str] = {"paper": "paper’s rate", "tuned": "tuned rates"}


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the responses, and the differences to Local and FedAvg."""
    from fedstat.report.figures import style

    with style():
        return {"response": _response(tables), "differences": _differences(tables, effects(tables))}


def _columns(tables: Tables) -> list[tuple[str, Kind]]:
    return list(product(settings_of(tables), kinds_of(tables)))


def _spread(dose: np.ndarray, curve: Arm) -> np.ndarray:
    """Shift a curve a little, so that marks and limits of several can be told apart."""
    shift = {("code", "start"): 1.0, ("text", "start"): 1.13, ("code", "output"): 0.88}
    return dose * shift[curve.reading, curve.route]


def _logarithmic(*axes: Axes) -> None:
    """Make doses logarithmic where any is drawn: without one an axis cannot be."""
    if any(np.isfinite(axis.dataLim.minposx) for axis in axes):
        axes[0].set_xscale("log")  # the others share it


def _response(tables: Tables) -> Figure:
    """Draw accuracy, the share of seeds that diverged and the length of tau over that of sigma."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    columns = _columns(tables)
    figure, axes = plt.subplots(
        3, len(columns), figsize=(WIDTH, 5.4), sharex="col", sharey="row", squeeze=False, layout="constrained",
        height_ratios=(2.2, 1, 1.2),
    )  # fmt: skip
    for (top, middle, bottom), (setting, kind) in zip(axes.T, columns, strict=True):
        for name, hatch in zip(CONTROLS, ("////", "...."), strict=True):
            mean, low, high = mean_of(points(tables, setting, Arm(name)), within=(0, 100))
            top.axhspan(low, high, facecolor="0.92", edgecolor="0.6", hatch=hatch, lw=0, zorder=0, label=name)
            top.axhline(mean, color="0.4", lw=0.7, ls="-" if name == "Local" else "--", zorder=0)
        for curve in curves_of(kind):
            _one_curve(tables, setting, kind, curve, (top, middle, bottom))
        top.set_title(f"{setting},\n{TITLES[kind]}", fontsize=8)
        _logarithmic(top, bottom)
        if np.isfinite(bottom.dataLim.minposy):
            bottom.set_yscale("log")
        bottom.set_xlabel("dose")
        middle.set_ylim(-0.08, 1.08)
    for axis, words in zip(axes[:, 0], ("accuracy (per cent)", "share diverged", "|τ| / |σ|"), strict=True):
        axis.set_ylabel(words)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=7, ncol=3, loc="outside lower center")
    return figure


def _one_curve(tables: Tables, setting: str, kind: Kind, curve: Arm, axes: tuple[Axes, Axes, Axes]) -> None:
    """Draw a curve in the three panels of a column; a ring marks the level that is a reading."""
    line, mark, fill, label = LOOKS[curve.reading, curve.route]
    values = response(tables, setting, curve, kind)
    dose = _spread(dose_of(tables, setting)[list(values)].to_numpy(), curve)
    look: dict[str, Any] = {"color": "black", "marker": mark, "mfc": fill, "ms": 3.5, "lw": 0.9}
    top, middle, bottom = axes
    half = half_widths(values, values.shape[1])
    low, high = (values.mean() - half).clip(0, 100), (values.mean() + half).clip(0, 100)
    top.plot(dose, values.mean(), line, **look, label=label)
    top.vlines(dose, low, high, color="black", lw=0.6)
    middle.plot(dose, share_diverged(tables, setting, curve, kind), line, **look)
    ratio = ratios(tables, setting, curve, kind)
    bottom.plot(dose, ratio.mean(), line, **look)
    reading = {"code": 0.0, "text": 1.0}[curve.reading]
    if curve.route == "start" and reading in values:
        place = list(values).index(reading)
        top.plot(dose[place], values[reading].mean(), "o", color="black", mfc="none", ms=9, mew=0.8)


def _differences(tables: Tables, every: Effects) -> Figure:
    """Draw accuracy − Local and − FedAvg over doses."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    columns = _columns(tables)
    figure, axes = plt.subplots(
        2, len(columns), figsize=(WIDTH, 3.8), sharex="col", sharey="row", squeeze=False, layout="constrained"
    )
    for i, (setting, kind) in enumerate(columns):
        for curve in curves_of(kind):
            line, mark, fill, label = LOOKS[curve.reading, curve.route]
            shares = share_diverged(tables, setting, curve, kind)
            levels = list(shares.index[shares == 0])  # the others would hide what is compared
            dose = _spread(dose_of(tables, setting)[levels].to_numpy(), curve)
            for axis, control in zip(axes[:, i], CONTROLS, strict=True):
                shown = [every["accuracy", where(setting, kind), at(curve, level).label, control] for level in levels]
                mean, low, high = np.array([effect.estimate for effect in shown]).reshape(-1, 3).T  # perhaps of none
                axis.plot(
                    dose, mean, line, color="black", marker=mark, mfc=fill, ms=3.5, lw=0.9,
                    label=label,
                )  # fmt: skip
                axis.vlines(dose, low, high, color="black", lw=0.6)
        for axis in axes[:, i]:
            axis.axhline(0, color="0.5", lw=0.6)
        _logarithmic(*axes[:, i])
        axes[0, i].set_title(f"{setting},\n{TITLES[kind]}", fontsize=8)
        axes[1, i].set_xlabel("dose")
    for axis, control in zip(axes[:, 0], CONTROLS, strict=True):
        axis.set_ylabel(f"− {control} (points)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=7, ncol=3, loc="outside lower center")
    return figure

"""The privacy study's figures: PSNR of all attacks, and originals beside their reconstructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.report.figures import WIDTH, style
from simulations.estimates import mean_of
from simulations.privacy.per_seed import by_seed, rows, several, stages
from simulations.privacy.study import ARMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What stands beside a line of images.
_NOTES = {"guessing": "", "knowing": "\npersonal part\nknown", "simulating": " repeated"}
#: Who attacks, and how it is drawn.
_ATTACKERS = {"guessing": ("personal part guessed", "black"), "knowing": ("personal part known", "white")}


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the chapter's figures."""
    with style():
        lines = _lines(tables)
        of_last = [line for line in lines if line[0] == stages(tables)[-1]]
        few = [next(line for line in of_last if line[2] == kind) for kind in dict.fromkeys(line[2] for line in of_last)]
        return {"quality": _quality(tables), "images": _images(tables, lines), "few_images": _images(tables, few)}


def _quality(tables: Tables) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.6), sharey=True, sharex=True, layout="constrained")
    for axis, steps in zip(axes, (1, several(tables)), strict=True):
        wide = by_seed(rows(tables, steps=steps))
        for kind, (words, fill) in _ATTACKERS.items():
            shown = [(i, wide[arm, kind]) for i, arm in enumerate(ARMS) if (arm, kind) in wide]
            if shown:
                _points(axis, shown, 0.14 * (1 if kind == "knowing" else -1), fill, words)
        mean, low, high = mean_of(wide["FedAvg", "mean image"])
        axis.axvspan(low, high, color="0.8", lw=0)
        axis.axvline(mean, color="0.4", lw=0.8, ls="--", label="mean of the other clients’ images")
        axis.set_title("after one step on one image" if steps == 1 else f"after {steps} steps of one image each")
        axis.set_xlabel("PSNR (dB)")
        axis.set_yticks(range(len(ARMS)), list(ARMS))
    axes[0].invert_yaxis()
    handles, words = axes[0].get_legend_handles_labels()
    figure.legend(handles, words, fontsize=7, frameon=False, loc="outside lower center", ncols=3)
    return figure


def _points(axis: Axes, shown: list[tuple[int, pd.Series]], shift: float, fill: str, words: str) -> None:
    at = np.array([i for i, _ in shown]) + shift
    mean, low, high = np.array([mean_of(values) for _, values in shown]).T
    axis.errorbar(
        mean, at, xerr=[mean - low, high - mean], fmt="o", color="black", mfc=fill, ms=4, lw=0.8, elinewidth=0.7,
        label=words,
    )  # fmt: skip


def _lines(tables: Tables) -> list[tuple[int, int, str]]:
    """Return the lines of images: rounds, steps, and who attacks."""
    last, many = stages(tables)[-1], several(tables)
    looks = [(0, 1), *((stage, 1) for stage in stages(tables)), (last, many)]
    lines = [(*look, kind) for look in looks for kind in _ATTACKERS if look[0] and (look[1] == 1 or kind == "guessing")]
    lines = [(0, 1, "guessing"), *lines]
    if (tables["pictures"]["attack"] == "simulating").any():
        lines.append((last, many, "simulating"))
    return lines


def _images(tables: Tables, lines: list[tuple[int, int, str]]) -> Figure:
    """Draw originals and what is recovered of them."""
    import matplotlib.pyplot as plt

    table = tables["pictures"]
    columns = ["original", *ARMS, "random gradient", "mean image"]
    height = 0.72 * len(lines) + 0.35
    figure, axes = plt.subplots(
        len(lines), len(columns), figsize=(WIDTH, height), squeeze=False,
        gridspec_kw={"wspace": 0.08, "hspace": 0.12, "left": 0.16, "right": 0.995, "bottom": 0.01,
                     "top": 1 - 0.32 / height},
    )  # fmt: skip
    for place, (stage, steps, kind) in zip(axes, lines, strict=True):
        some = table[(table["stage"] == stage) & (table["steps"] == steps)]
        for axis, column in zip(place, columns, strict=True):
            axis.axis("off")
            special = column in ("random gradient", "mean image", "original")
            arm, attack = (
                ("FedAvg", column)
                if special
                else (column, "guessing" if (column, kind) == ("FedAvg", "knowing") else kind)
            )
            which = some[(some["arm"] == arm) & (some["attack"] == ("guessing" if column == "original" else attack))]
            if len(which):
                _draw(axis, which.iloc[0], "original" if column == "original" else "found")
        words = "untrained" if not stage else f"{stage} rounds"
        words += f"\n{steps} step{'s' * (steps > 1)}" + _NOTES[kind]
        place[0].text(-0.12, 0.5, words, transform=place[0].transAxes, ha="right", va="center", fontsize=7)
    for axis, column in zip(axes[0], columns, strict=True):
        axis.set_title(column.replace(" ", "\n"), fontsize=7, pad=2)
    return figure


def _draw(axis: Axes, row: pd.Series, which: str) -> None:
    shape = tuple(int(n) for n in str(row["shape"]).split("x"))
    image = np.frombuffer(bytes.fromhex(row[which]), np.uint8).reshape(shape).transpose(1, 2, 0)
    axis.imshow(image[..., 0] if shape[0] == 1 else image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")

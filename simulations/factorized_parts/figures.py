"""The pictures of the study of Factorized-FL's parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.effects import LEVEL, Effect
from simulations.estimates import mean_of
from simulations.factorized_parts.arms import BASES, OF_A_DOMAIN, SWITCHES
from simulations.factorized_parts.compared import Lead
from simulations.names import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Rounds at which limits are drawn; more of them make all limits wider.
_MARKED = 6
SWITCH_WORDS = {
    "fill": "mu starts filled",
    "head": "head factorised",
    "momentum": "momentum lives on",
    "evaluation": "judged as trained",
    "the rest": "arrangement, norms, penalty",
}


def similarity(tables: Tables) -> Figure:
    """Draw the cosines of u (above) and of v (below) of all pairs of clients at five rounds, under one seed."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    arm = _first_arm(tables["heat"])
    heat = tables["heat"][tables["heat"]["arm"] == arm]
    rounds = sorted(heat["round"].unique())
    with style(), plt.rc_context({"image.composite_image": False}):
        figure, axes = plt.subplots(
            2, len(rounds), figsize=(WIDTH, 2.9), sharex=True, sharey=True, layout="constrained", squeeze=False
        )
        for row, part in zip(axes, ("u", "v"), strict=True):
            off = heat[heat["client"] != heat["other"]][part]
            for axis, number in zip(row, rounds, strict=True):
                matrix = heat[heat["round"] == number].pivot(index="client", columns="other", values=part).to_numpy()
                image = axis.imshow(matrix, cmap="Greys", vmin=float(off.min()), vmax=1.0, interpolation="none")
                _domains(axis, len(matrix))
                if part == "u":
                    axis.set_title(f"round {number}")
            row[0].set_ylabel(f"{part}\nclient")
            figure.colorbar(image, ax=row, label="cosine", shrink=0.9)
        for axis in axes[1]:
            axis.set_xlabel("client")
    return figure


def _first_arm(table: pd.DataFrame) -> str:
    """Return the arm whose v stays personal, if it ran."""
    arms = list(dict.fromkeys(table["arm"]))
    return "alpha" if "alpha" in arms else str(arms[0])


def _domains(axis: Axes, clients: int) -> None:
    """Mark the domains: lines between them, and the number of each one's first client."""
    for edge in range(OF_A_DOMAIN, clients, OF_A_DOMAIN):
        axis.axhline(edge - 0.5, color="0.5", lw=0.3)
        axis.axvline(edge - 0.5, color="0.5", lw=0.3)
    ticks = list(range(0, clients, 2 * OF_A_DOMAIN))
    for side in (axis.xaxis, axis.yaxis):
        side.set_ticks(ticks, [str(t + 1) for t in ticks])


def matching(tables: Tables, chance: float) -> Figure:
    """Draw who is among the three most similar how often, and the share of the own domain by round, with limits."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    arm = _first_arm(tables["heat"])
    heat = tables["heat"][tables["heat"]["arm"] == arm].drop_duplicates(["client", "other"])
    with style(), plt.rc_context({"image.composite_image": False}):
        figure, (left, middle, right) = plt.subplots(
            1, 3, figsize=(WIDTH, 2.3), layout="constrained", width_ratios=(1.0, 1.0, 1.0)
        )
        matrix = heat.pivot(index="client", columns="other", values="frequency").to_numpy()
        image = left.imshow(matrix, cmap="Greys", vmin=0, vmax=max(float(matrix.max()), 0.3), interpolation="none")
        _domains(left, len(matrix))
        left.set(xlabel="client", ylabel="client", title=f"who is near whom, {readable(arm)}")
        figure.colorbar(image, ax=left, label="share of rounds", shrink=0.7)
        rows = tables["similarity"]
        table = rows[rows["arm"] == arm]
        lines = {"v_within": ("v within domains", "-"), "v_between": ("v between", "--")}
        lines |= {"u_within": ("u within", "-."), "u_between": ("u between", ":")}
        _curves(middle, table, lines)
        middle.set(xlabel="round", ylabel="cosine", title=f"similarity, {readable(arm)}")
        arms = list(dict.fromkeys(rows["arm"]))
        for a, dash in zip(arms, ("-", "--", "-.", ":"), strict=False):
            _curves(right, rows[rows["arm"] == a], {"nearest": (readable(str(a)), dash)}, share=len(arms))
        right.axhline(chance, color="0.6", lw=0.8)
        right.annotate(
            "chance", (0.98, chance), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=6
        )
        right.set(xlabel="round", ylabel="share of the own domain", title="the three most similar")
        for axis in (middle, right):
            axis.legend(frameon=False, fontsize=6)
    return figure


def _curves(axis: Axes, table: pd.DataFrame, lines: Mapping[str, tuple[str, str]], share: int = 1) -> None:
    """Draw means over seeds by round, with limits that hold together over the marked rounds and all lines."""
    rounds = np.sort(table["round"].unique())
    marked = np.unique(np.linspace(0, len(rounds) - 1, min(len(rounds), _MARKED)).round().astype(int))
    level = 1 - (1 - LEVEL) / (len(marked) * len(lines) * share)
    for shift, (column, (label, dash)) in enumerate(lines.items()):
        wide = table.pivot(index="seed", columns="round", values=column)
        axis.plot(rounds, wide.mean(), dash, color="black", lw=1.0, label=label)
        for place in marked:
            values = wide[rounds[place]]
            if len(values) > 1:
                _, low, high = mean_of(values, level)
                reach = [max(low, 0.0 if (table[column] >= 0).all() else -1.0), min(high, 1.0)]  # cosines and shares
                axis.plot([rounds[place] + 0.12 * shift] * 2, reach, color="0.45", lw=0.7)


def components(panels: Mapping[str, Sequence[Effect]], about: Mapping[str, str]) -> Figure:
    """Draw the differences of panels g, h, i and k as a forest."""
    labels = [f"7{panel}" for panel in panels]
    groups = [[(f"{readable(d.first)} − {readable(d.second)}", d) for d in several] for several in panels.values()]
    titles = [f"{label}: {about[panel]}" for label, panel in zip(labels, panels, strict=True)]
    return _forest(groups, titles, "difference in test accuracy, points")


def readings(several: Sequence[Effect]) -> Figure:
    """Draw what each part of the reading changes, a panel for each form of Factorized-FL."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    with style():
        figure, axes = plt.subplots(1, len(BASES), figsize=(WIDTH, 1.9), sharex=True, sharey=True, layout="constrained")
        names = [name for name in SWITCHES if any(d.first.endswith(f": {name}") for d in several)]
        for axis, base in zip(axes, BASES, strict=True):
            for height, name in enumerate(names):
                for d in several:
                    if d.first == f"{base}: {name}":
                        _interval(axis, d, height)
            axis.axvline(0, color="0.6", lw=0.6, zorder=0)
            code = "text" not in base
            axis.set_title(f"{readable(base.partition(',')[0])}, {'code: undone' if code else 'text: added'}")
        axes[0].set_yticks(range(len(names)), [SWITCH_WORDS[name] for name in names])
        axes[0].set_ylim(len(names) - 0.5, -0.5)
        figure.supxlabel("change of test accuracy, points (mean, simultaneous 95% interval)", fontsize=8)
    return figure


def leads(several: Sequence[Lead]) -> Figure:
    """Draw each form's lead over the best control, by setting."""
    settings = list(dict.fromkeys(lead.setting for lead in several))
    groups = [[(readable(lead.effect.first), lead.effect) for lead in several if lead.setting == s] for s in settings]
    words = [s if s == "domains" else f"digits, {s}" for s in settings]
    return _forest(groups, words, "test accuracy minus that of the best control, points")


def _forest(groups: Sequence[Sequence[tuple[str, Effect]]], titles: Sequence[str], label: str) -> Figure:
    """Draw intervals in groups under one another; filled marks leave out zero."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    lines = sum(len(group) + 1 for group in groups)
    with style():
        figure, axis = plt.subplots(figsize=(0.8 * WIDTH, 0.17 * lines + 0.5), layout="constrained")
        height, ticks = 0, []
        for title, group in zip(titles, groups, strict=True):
            ticks.append((height, title, True))
            for name, found in group:
                height += 1
                _interval(axis, found, height)
                ticks.append((height, name, False))
            height += 1
        axis.axvline(0, color="0.6", lw=0.6, zorder=0)
        axis.set_yticks([t[0] for t in ticks], [t[1] for t in ticks])
        for text, (_, _, bold) in zip(axis.get_yticklabels(), ticks, strict=True):
            text.set_fontweight("bold" if bold else "normal")
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(height - 0.5, -0.7)
        axis.set_xlabel(f"{label}\n(mean, simultaneous 95% interval)")
    return figure


def _interval(axis: Axes, found: Effect, height: float) -> None:
    clear = found.low > 0 or found.high < 0
    axis.plot([found.low, found.high], [height] * 2, color="0.25", lw=0.9)
    axis.plot(found.mean, height, "o", color="0.25", mfc="0.25" if clear else "white", ms=3.5)


def single(tables: Tables, wide: pd.DataFrame) -> Figure:
    """Draw one client's accuracy by model; beside its name how many of its numbers are not zero."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import style

    size = tables["sizes"].groupby("arm", sort=False)["not_zero"].mean().sort_values(ascending=False)
    marks = {"regular": "s", "code": "o", "text": "^"}
    level = 1 - (1 - LEVEL) / len(size)
    names = []
    with style():
        figure, axis = plt.subplots(figsize=(88 / 25.4, 0.7 + 0.22 * len(size)), layout="constrained")
        for row, (arm, numbers) in enumerate(size.items()):
            kind, _, sparsity = str(arm).partition(", ")
            mean, low, high = (100 * v for v in mean_of(wide[arm], level))
            axis.plot([low, high], [-row] * 2, color="0.5", lw=0.8)
            axis.plot(mean, -row, marks[kind], color="0.2", mfc="0.2" if kind == "regular" else "white", ms=4)
            names.append(f"{kind}{', λ = ' * bool(sparsity)}{sparsity}: {numbers / 1000:.1f}")
        axis.set_yticks([-row for row in range(len(size))], names)
        axis.set_title("model (thousands of numbers that are not zero)", loc="right")
        axis.set_xlabel("test accuracy, per cent")
    return figure

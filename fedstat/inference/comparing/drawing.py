"""Pictures of a comparison, readable in black and white. All take axes or make a figure, and return the axes."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedstat import _checks
from fedstat._random import stream
from fedstat.inference.comparing.bands import simultaneous_band
from fedstat.inference.comparing.tables import largest, limits, percent, row_names, shortened
from fedstat.inference.reading.scores import Scores, better, is_share, size
from fedstat.inference.settings import Ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedstat.inference.comparing.comparison import Comparison
    from fedstat.inference.intervals.design import Design

#: Rows of a forest, and methods that have a line style and a band of their own.
_ROWS, _STYLED = 45, 6
_LABEL = 36
#: Letters of clients' names that stand side by side below a picture.
_WIDE = 80
#: What marks methods in a picture.
_SIGNS = "osD^vXP<>*"
#: How lines of methods are told apart in black and white.
LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
_DRAWS = 2000


def forest(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Draw differences as `Comparison.plot` says."""
    table = comparison.differences
    table = table[np.isfinite(table["difference"])] if len(table) else table
    if not len(table):
        raise ValueError("the comparison has no differences to draw; they need two methods with two common seeds.")
    total = len(table)
    table = largest(table, _ROWS).sort_values("difference", kind="stable")
    names = [plain(name) for name in row_names(comparison, table, _LABEL)]
    ax = new_axes(ax, 1.3 + 0.2 * len(table))
    factor = 100 if comparison.scores.of_shares else 1
    if comparison.margin is not None:
        span = (-factor * comparison.margin, factor * comparison.margin)
        label = f"margin of {size(comparison.margin, comparison.scores)}"
        ax.axvspan(*span, color="0.88", linewidth=0, zorder=0, label=label)
    ax.axvline(0, color="0.4", linewidth=0.8, zorder=1)
    looks = {"different": ("o", "black"), "equivalent": ("s", "black"), "undecided": ("o", "white"),
             "no spread": ("x", "black"), "still learning": ("^", "white")}  # fmt: skip
    rows = np.arange(len(table))
    values, low, high = (factor * table[name].to_numpy(float) for name in ("difference", "low", "high"))
    ax.hlines(rows, np.where(np.isfinite(low), low, values), np.where(np.isfinite(high), high, values),
              color="black", linewidth=0.9, zorder=2)  # fmt: skip
    for outcome, (marker, face) in looks.items():
        if (of := (table["outcome"] == outcome).to_numpy()).any():
            ax.plot(values[of], rows[of], linestyle="none", marker=marker, markersize=4.7, markerfacecolor=face,
                    markeredgecolor="black", markeredgewidth=0.9, zorder=3, label=outcome)  # fmt: skip
    ax.set_yticks(rows, names)
    ax.set_ylim(-0.8, len(rows) - 0.2)
    against = f" to {_name(comparison.control)}" if comparison.control is not None else ""
    some = f"the {_ROWS} largest of {total} differences" if total > _ROWS else "difference"
    side = {1: "right", -1: "left", 0: ""}[comparison.scores.direction]
    good = f"; better at the {side}" if comparison.control is not None else f"; {side}: first is better"
    said = (f"{some}{against} in {_unit(comparison.scores, points=True)}", limits(comparison) + good * bool(side))
    ax.set_xlabel("\n".join(fill(words, 48) for words in said))
    _legend(ax, columns=3, handle=1.3)
    return ax


def curves(comparison: Comparison, ax: Axes | None = None, *, axis: str = "rounds") -> Axes:
    """Draw curves as `Comparison.curves` says."""
    from matplotlib.ticker import MaxNLocator

    scores = comparison.scores
    _checks.choice("axis", axis, ("rounds", "bytes"))
    if len(scores.rounds) < 2 or not np.isfinite(scores.curves).any():
        raise ValueError("there is no curve to draw: it needs values after two rounds. Compare histories instead.")
    if axis == "bytes" and scores.spent is None:
        raise ValueError(
            'the bytes that rounds cost are not known here; use axis="rounds", or compare what fs.federate returned.'
        )
    band = simultaneous_band(scores, comparison.level)
    x, unit = _horizontal(scores, axis)
    factor = 100 if scores.of_shares else 1
    styled = _styled(comparison)
    names = [plain(name) for name in shortened(scores.methods, _LABEL).values()]
    bottom, top = _height(factor * band.curves, 100 if scores.of_shares else np.inf)
    half = np.array([np.interp(np.arange(len(scores.rounds)), band.places, of) for of in band.half])
    limits = factor * np.stack([band.curves - half, band.curves + half])
    if scores.of_shares:
        limits = limits.clip(0, 100)
    leaves = (limits[0] < bottom) | (limits[1] > top)
    limits[:, leaves] = np.nan
    if not np.isfinite(band.half).any():
        said = "one seed: no band"
    else:
        marks = "all" if len(band.places) == len(scores.rounds) else "the marked"
        everyone = f"{len(scores.methods)} methods" if len(scores.methods) > 1 else "the method"
        said = f"band: {percent(comparison.level)} limits (Bonferroni's t) that hold together at {marks} rounds "
        said += f"and for {everyone}"
        if wide := [names[i] for i in styled if leaves[i].any()]:
            said += f"; not drawn where too wide for the picture: {', '.join(wide)}"
    said = fill(said, 76)
    lines = -(-(len(styled) + 1) // _columns([names[i] for i in styled], 3))
    ax = new_axes(ax, 2.7 + 0.17 * (lines + said.count("\n") + 1))
    ax.set_ylim(bottom, top)
    for i in range(len(scores.methods)):
        if i not in styled and np.isfinite(band.curves[i]).any():
            ax.plot(x[i], factor * band.curves[i], color="0.75", linewidth=0.7, zorder=1)
    for place, i in enumerate(styled):
        line, marker, face = LINES[place], _SIGNS[place], "white" if place % 2 else "black"
        ax.plot(x[i], factor * band.curves[i], color="black", linestyle=line, linewidth=1.1, marker=marker,
                markersize=4, markerfacecolor=face, markevery=band.places, label=names[i], zorder=3)  # fmt: skip
        if np.isfinite(limits[:, i]).any():
            ax.fill_between(x[i], *limits[:, i], color="0.5", alpha=0.13, linewidth=0, zorder=0)
            ax.plot(x[i], limits[:, i].T, color="0.35", linestyle=line, linewidth=0.5, zorder=2)
    if len(styled) < len(scores.methods):
        ax.plot([], [], color="0.75", linewidth=0.7, label=f"{len(scores.methods) - len(styled)} other methods")
    if axis == "rounds":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel(f"{unit}\n{said}")
    ax.set_ylabel(_unit(scores))
    _legend(ax, columns=3)
    return ax


def clients(
    comparison: Comparison, ax: Axes | None = None, *, method: str | None = None, against: str | None = None
) -> Axes:
    """Draw the differences of two methods at clients as `Comparison.clients` says."""
    from matplotlib.ticker import MaxNLocator

    scores = comparison.scores
    first, second = two_methods(comparison, method, against)
    gains, noise, new = client_gains(scores, first, second, comparison.design)
    sign = scores.direction or 1
    factor = 100 if scores.of_shares else 1
    order = np.argsort(gains, kind="stable")
    gains, places = factor * gains[order], np.arange(1, len(gains) + 1)
    ax = new_axes(ax, 3.0)
    width, edge = (0.8, 0.5) if len(gains) <= 200 else (1.0, 0.0)
    known = scores.direction
    for of, word, face, hatch in (
        (sign * gains > 0, "better on average" if known else "more", "0.3", ""),
        (sign * gains < 0, "worse on average" if known else "less", "white", "////"),
    ):
        if of.any():
            ax.bar(places[of], gains[of], width, facecolor=face, edgecolor="0.1", hatch=hatch, linewidth=edge, zorder=2,
                   label=f"{word} ({of.sum()})")  # fmt: skip
    if (zero := int((gains == 0).sum())) > 0:
        ax.plot([], [], " ", label=f"equal ({zero})")
    ax.axhline(0, color="black", linewidth=0.8, zorder=3)
    if noise is not None:
        draws = np.sort(factor * noise[order] * stream(0, "noise of clients").normal(size=(_DRAWS, len(gains))), axis=1)
        low, high = np.clip(np.quantile(draws, (0.025, 0.975), axis=0), -factor, factor)
        ax.fill_between(places, low, high, color="0.5", alpha=0.25, linewidth=0, zorder=4)
        ax.plot(places, low, ":", color="black", linewidth=1, label="test noise alone, at most (95%)", zorder=5)
        ax.plot(places, high, ":", color="black", linewidth=1, zorder=5)
    whose = "client of a seed" if new else "client, mean over seeds" if len(scores.seeds) > 1 else "client"
    ax.set_xlabel(f"{whose}, sorted by its difference")
    names = f"{_name(first, 24)} minus {_name(second, 24)}"
    ax.set_ylabel(f"{_unit(scores, points=True)}\n{names}" if len(names) < 34 else _unit(scores, points=True))
    if len(names) >= 34:
        ax.set_title(names, loc="left")
    ax.set_xlim(0, len(gains) + 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not new and len(gains) <= _ROWS:
        there = np.flatnonzero(np.isfinite(pair_values(scores, first, second)[0]).any(axis=0))
        labels = [_name(scores.clients[i], 24) for i in there[order]]
        ax.set_xticks(places, labels, rotation=90 if sum(map(len, labels)) > _WIDE else 0)
    _legend(ax, columns=3, handle=2)
    return ax


def by_client(table: pd.DataFrame, control: str, level: float, ax: Axes | None = None) -> Axes:
    """Draw differences of methods to the control at each client, with limits that hold together.

    Marks of differences that are shown are filled. Limits that are unusually far from zero may leave the picture.
    `table` has the rows of one metric of `Assessment.differences`, at clients.
    """
    factor = 100 if is_share(metric := table["metric"].iloc[0]) else 1
    methods, names = list(dict.fromkeys(table["method"])), list(dict.fromkeys(table["name"]))
    if len(methods) * len(names) > _ROWS * 2 or len(methods) > len(_SIGNS):
        raise ValueError(f"a picture holds at most {_ROWS * 2} differences of {len(_SIGNS)} methods; assess fewer.")
    ax = new_axes(ax, 1.2 + 0.13 * (len(methods) + 1) * len(names))
    ax.axvline(0, color="0.4", linewidth=0.8, zorder=1)
    for i, (sign, label) in enumerate(zip(_SIGNS, methods, strict=False)):
        own = table[table["method"] == label].set_index("name").loc[names]
        rows = np.arange(len(names)) + 0.8 * ((i + 0.5) / len(methods) - 0.5)
        value, low, high = (factor * own[name].to_numpy(float) for name in ("difference", "low", "high"))
        ax.hlines(rows, low, high, color="black", linewidth=0.8, zorder=2)
        ax.plot(value, rows, sign, color="black", markersize=4.5, markerfacecolor="white", label=_name(label), zorder=3)
        shown = ((low > 0) | (high < 0)) & (low < high)
        ax.plot(value[shown], rows[shown], sign, color="black", markersize=4.5, zorder=4)
    ends = factor * np.nanmax(np.abs(table[["low", "high"]].to_numpy(float)), axis=1, initial=0)
    if (ends > 0).any() and ends.max() > (most := 4 * np.median(ends[ends > 0])):
        ax.set_xlim(-most, most)
    ax.set_yticks(range(len(names)), [_name(name, 24) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    side = {1: "right", -1: "left", 0: ""}[better(metric)]
    unit = f"difference to {_name(control)} in {metric.replace('_', ' ')}{' (points)' if factor > 1 else ''}"
    ax.set_xlabel(f"{unit}{f'; better at the {side}' if side else ''}\n{percent(level)} limits that hold together; "
                  "filled where a difference is shown")  # fmt: skip
    _legend(ax, columns=4, handle=1.3)
    return ax


def client_gains(
    scores: Scores, method: str, against: str, design: Design | None = None
) -> tuple[np.ndarray, np.ndarray | None, bool]:
    """Return clients' mean differences, the sd that test noise alone may give each, and whether clients are drawn anew.

    The mean is over the seeds in which both methods have the client; where clients are drawn anew for each seed, each
    client of each seed stands for itself. For accuracies with known samples the noise of a difference is the square
    root of ``2 p (1 - p) / n``, with p the mean of both accuracies; else it is None.
    """
    a, b = pair_values(scores, method, against)
    there = ~np.isnan(a)
    n, new = scores.samples, clients_anew(scores, there, design)
    noise = None
    if scores.metric == "accuracy" and n is not None and (np.nan_to_num(n)[there] > 0).all():
        share = np.clip((a + b) / 2, 0, 1)
        noise = np.sqrt(2 * share * (1 - share) / np.where(there, n, 1))

    def of_clients(cells: np.ndarray) -> np.ndarray:
        return cells[there] if new else np.ma.masked_invalid(cells).mean(axis=0).compressed()

    return of_clients(a - b), None if noise is None else of_clients(noise), new


def pair_values(scores: Scores, method: str, against: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of two methods (S, K), NaN where one of them has none; refuse gaps that hide who gains."""
    if gaps := [label for label in (method, against) if label in scores.missing]:
        raise ValueError(
            f"{gaps[0]} has clients without a value ({scores.missing[gaps[0]]}): who gains is not known. Choose "
            "another method, or leave these clients out of all methods."
        )
    a, b = (scores.values[scores.methods.index(label)] for label in (method, against))
    there = np.isfinite(a) & np.isfinite(b)
    if not there.any():
        raise ValueError(f"{method} and {against} have no client of a common seed; compare methods that have.")
    return np.where(there, a, np.nan), np.where(there, b, np.nan)


def clients_anew(scores: Scores, there: np.ndarray, design: Design | None) -> bool:
    """Tell whether clients are drawn anew for each seed: by the design, else by the samples of those `there` (S, K)."""
    if design is not None:
        return design.clients == "new"
    n = scores.samples
    if n is None or not (there.sum(axis=0) > 1).any():
        return False
    low, high = np.where(there, n, np.inf).min(axis=0), np.where(there, n, -np.inf).max(axis=0)
    return bool((low < high).any())


def draw_ranks(ranks: Ranks, ax: Axes | None = None) -> Axes:
    """Draw mean ranks on a line, the best at the left, with a bar over each group that cannot be told apart.

    Demsar (JMLR 2006) draws them so. It takes two methods or more.
    """
    names, at = ranks.methods, ranks.mean_ranks
    short, m = shortened(names, 22), len(names)
    groups = [sorted(map(names.index, group)) for group in ranks.groups]
    half, wide = -(-m // 2), m - 1
    ax = new_axes(ax, 1.1 + 0.17 * len(groups) + 0.2 * half)
    ax.set_axis_off()
    ax.plot([1, m], [0, 0], color="black", linewidth=1)
    for rank in range(1, m + 1) if m <= 15 else sorted({1, *range(5, m, 5), m}):
        ax.plot([rank, rank], [0, 0.25], color="black", linewidth=0.8)
        ax.text(rank, 0.35, str(rank), ha="center", va="bottom", fontsize="small")
    bars = 0.55 * len(groups)
    for level, group in enumerate(groups):
        ends = at[group[0]] - 0.01 * wide, at[group[-1]] + 0.01 * wide
        ax.plot(ends, [-0.5 - 0.55 * level] * 2, color="black", linewidth=2.6, solid_capstyle="butt")
    edge = 0.06 * wide
    for place in range(m):
        left = place < half
        y = -1.1 - bars - (place if left else m - 1 - place)
        end = 1 - edge if left else m + edge
        ax.plot([at[place], at[place], end], [0, y, y], color="black", linewidth=0.7)
        ax.text(end + (-0.01 if left else 0.01) * wide, y, f"{plain(short[names[place]])} ({at[place]:.2f})",
                ha="right" if left else "left", va="center", fontsize="small")  # fmt: skip
    critical = ranks.critical_difference
    ax.plot([1, 1 + critical], [1.7, 1.7], color="black", linewidth=1)
    ax.vlines([1, 1 + critical], 1.55, 1.85, color="black", linewidth=1)
    ax.text(1, 1.95, f"critical difference {critical:.2f}", ha="left", va="bottom", fontsize="small")
    ax.set(xlim=(1 - 0.8 * wide, m + 0.8 * wide), ylim=(-1.6 - bars - half + 0.5, 2.8))
    return ax


def plain(words: str) -> str:
    """Return words whose dollar signs are not read as mathematics."""
    return words.replace("$", r"\$")


def _name(label: object, most: int = _LABEL) -> str:
    """Return one label that fits a picture."""
    return plain(shortened([label], most)[str(label)])


def new_axes(ax: Axes | None, height: float) -> Axes:
    """Return the axes, or new ones of a figure that is as wide as a line of text."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6.4, height), layout="constrained")[1]


def _legend(ax: Axes, *, columns: int, handle: float = 3.2) -> None:
    """Write the legend above the axes, where it hides nothing."""
    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i].startswith("test noise"))
    ax.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=_columns(labels, columns),
        frameon=False,
        borderaxespad=0.2,
        fontsize="small",
        handlelength=handle,
        columnspacing=1.2,
        title=ax.get_title("left") or None,
        alignment="left",
    )
    ax.set_title("", loc="left")


def _columns(labels: Sequence[str], columns: int) -> int:
    """Return how many columns of these labels a legend has room for, at most `columns`."""
    longest = max(map(len, labels))
    return 1 if longest > 34 else 2 if longest > 20 else columns


def _unit(scores: Scores, *, points: bool = False) -> str:
    metric = scores.metric.replace("_", " ")
    return f"{metric} ({'points' if points else '%'})" if scores.of_shares else metric


def _horizontal(scores: Scores, axis: str) -> tuple[np.ndarray, str]:
    """Return what curves are drawn over, shape (M, T), and its name with the unit."""
    if axis == "rounds" or scores.spent is None:
        return np.tile(scores.rounds.astype(float), (len(scores.methods), 1)), "round"
    mean = np.ma.masked_invalid(scores.spent).mean(axis=1).filled(np.nan)
    top = np.nanmax(mean, initial=0)
    unit, name = next((u, n) for u, n in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes")) if top >= u or u == 1)
    return mean / unit, f"{name} sent up and down by all clients"


def _styled(comparison: Comparison) -> list[int]:
    """Return the methods that are told apart in a picture: all, or the best ones and the control."""
    scores = comparison.scores
    everyone = [i for i in range(len(scores.methods)) if np.isfinite(scores.curves[i]).any()]
    if len(everyone) <= _STYLED:
        return everyone
    control = [] if comparison.control is None else [scores.methods.index(comparison.control)]
    ranked = [i for i in _best_first(comparison) if i not in control]
    return sorted([*ranked[: _STYLED - len(control)], *control])


def _best_first(comparison: Comparison) -> list[int]:
    """Return the methods by their means; those without one are last."""
    means = comparison.summary["mean"].to_numpy(float) * (comparison.scores.direction or 1)
    return np.argsort(-np.nan_to_num(means, nan=-np.inf), kind="stable").tolist()


def two_methods(comparison: Comparison, method: str | None, against: str | None) -> tuple[str, str]:
    """Return the labels of the two methods whose clients are compared: by default the best one and the control."""
    labels = comparison.scores.methods
    for name, value in (("method", method), ("against", against)):
        if value is not None and value not in labels:
            raise ValueError(f"{name} must be one of {', '.join(labels)}, got {value!r}.")
    second = against or comparison.control
    if second is None:
        raise ValueError(f"against must name a method, since the comparison has no control: {', '.join(labels)}.")
    if method == second:
        raise ValueError(f"method and against are both {method!r}; name two methods.")
    if method is None:
        method = next((labels[i] for i in _best_first(comparison) if labels[i] != second), None)
    if method is None:
        raise ValueError(f"there is no method to compare with {second}.")
    return method, second


def _height(shown: np.ndarray, most: float) -> tuple[float, float]:
    """Return the lower and upper end of a picture: curves decide them, with room for narrow bands."""
    known = shown[np.isfinite(shown)]
    low, high = float(known.min()), float(known.max())
    room = 0.25 * (high - low) or 0.1 * abs(high) or 1.0
    bottom = max(low - room, -0.02 * high) if low >= 0 else low - room
    return bottom, min(high + room, max(1.02 * most, high))

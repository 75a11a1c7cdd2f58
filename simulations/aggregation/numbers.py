"""What the aggregation study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.aggregation.study import GROUPS, PARTICIPANTS, STARTS, TRUTH, over_seeds
from simulations.contract import Finding
from simulations.effects import DRAWN, Effects, Question
from simulations.estimates import mean_of, times
from simulations.showing import rounded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Variances whose ratio lies between these are the same within a tenth.
ALIKE = (0.9, 1.1)
RISK, APART = "excess risk late in training", "decomposed"
#: Where the variances come from.
SOURCES = ("formula", "sampling", "training")


def at(participants: int) -> str:
    """Name a number of participants."""
    return f"{participants} participants"


def effects(tables: Tables) -> Effects:
    """Return the differences of excess risk between the aggregates, and between numbers of participants."""
    risks = 1000 * _risks(tables)
    by_number = {at(m): risks.loc[m] for m in PARTICIPANTS}
    by_aggregate = {
        words: pd.DataFrame({number: table[aggregate] for number, table in by_number.items()})
        for aggregate, words in (("FedAvg", "FedAvg"), (APART, "averages apart"))
    }
    few, many = map(at, PARTICIPANTS)
    return Effects(
        Question(words, RISK, values, {setting: [pair] for setting in values}, DRAWN, "thousandths")
        for words, values, pair in (
            ("averages apart against FedAvg", by_number, (APART, "FedAvg")),
            ("more participants", by_aggregate, (many, few)),
        )
    )


def findings(tables: Tables) -> dict[str, Finding]:
    """Return ratios of variance and of error at the largest aggregate, and differences in excess risk."""
    ratios, most = _ratios(tables), GROUPS[-1]
    found = {}
    for start, words in STARTS.items():
        for what, text in (("ratio", "variance"), ("error", "mean squared error")):
            estimate = over_seeds(ratios.loc[[(start, most, "formula")], what])
            quantity = f"{text} of the product of averages over the variance of the average, {words}, m = {most}"
            found[f"{what} {start}"] = Finding.of(quantity, estimate, border=1.0, digits=3)
    known = effects(tables)
    for m in PARTICIPANTS:
        effect = known[RISK, at(m), APART, "FedAvg"]
        found[f"risk {m}"] = Finding.of(f"excess risk apart minus FedAvg's, {m} participants", effect)
    few, many = PARTICIPANTS
    for aggregate, words in (("FedAvg", "FedAvg"), (APART, "averages apart")):
        what = f"excess risk of {words}, {many} participants minus {few}"
        found[f"more {aggregate}"] = Finding.of(what, known[RISK, words, at(many), at(few)])
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ratios of variances by size of the aggregate, and excess risks by number of participants."""
    ratios = _ratios(tables)
    rows = [
        {
            "start": words,
            "first": m == GROUPS[0],
            "m": f"{m}",
            **{source: over_seeds(ratios.loc[[(start, m, source)], "ratio"]) for source in SOURCES},
            "error": over_seeds(ratios.loc[[(start, m, "formula")], "error"]),
        }
        for start, words in STARTS.items()
        for m in GROUPS
    ]
    common = [over_seeds(ratios.loc[[("common", m, "formula")], "ratio"]) for m in GROUPS]
    risks = _risks(tables)
    late = [
        {"participants": f"{m}", **{a: times(1000, mean_of(risks.loc[m, a])) for a in ("FedAvg", "decomposed")}}
        for m in PARTICIPANTS
    ]
    return {
        "rows": rounded(rows, **dict.fromkeys((*SOURCES, "error"), 3)),
        "risks": rounded(late, FedAvg=1, decomposed=1),
        "alike": all(ALIKE[0] <= low and high <= ALIKE[1] for _, low, high in common),
        "largest": f"{GROUPS[-1]}",
        "few": f"{PARTICIPANTS[0]}",
        "many": f"{PARTICIPANTS[1]}",
    }


def _ratios(tables: Tables) -> pd.DataFrame:
    """Return variance and mean squared error of the product of averages over the variance of the average, per seed."""
    table = tables["variance"]
    found = table.assign(
        ratio=table["decomposed_variance"] / table["plain_variance"], error=table["mse"] / table["plain_variance"]
    )
    return found.set_index(["start", "clients", "source"]).sort_index()


def _risks(tables: Tables) -> pd.DataFrame:
    """Return excess risk late in training: a row per number of participants and run, a column per aggregate."""
    return tables["late"].set_index(["clients", "run", "aggregate"])["excess_risk"].unstack("aggregate")


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw bias and variance against the number of clients, and the plane of w (Figure 1b)."""
    from fedstat.report.figures import style

    with style():
        return {"variance": _variance_figure(tables["variance"]), "landscape": _landscape_figure(tables)}


def _variance_figure(table: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    scales = {"xscale": "log", "yscale": "log"}
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 2.8), layout="constrained", subplot_kw=scales)
    looks = {
        "plain_variance": ("-", "variance, average of products"),
        "decomposed_variance": ("--", "variance, product of averages"),
        "squared_bias": (":", "squared bias, product of averages"),
        "mse": ("-.", "mean squared error, product of averages"),
    }
    first = table[(table["source"] == "formula") & (table["clients"] == GROUPS[0])].set_index(["seed", "start"])
    one = table.set_index(["seed", "start"]).index.map(GROUPS[0] * first["plain_variance"]).to_numpy()
    for axis, (start, title) in zip(axes, STARTS.items(), strict=False):
        chosen = table["start"] == start
        for quantity, (line, label) in looks.items():
            _line(axis, table[chosen], (table[quantity] / one)[chosen], line, label)
            if quantity != "squared_bias":
                _marks(axis, table[chosen], (table[quantity] / one)[chosen])
        axis.set_title(title)
    axes[0].set_ylabel("in units of one client's variance")
    ratio = table["decomposed_variance"] / table["plain_variance"]
    for start, line, name, place in (
        ("common", "-", "common start", (GROUPS[-1], 1.15)),
        ("independent", "--", "independent\nrandom starts", (GROUPS[-1], 0.36)),
    ):
        chosen = table["start"] == start
        _line(axes[2], table[chosen], ratio[chosen], line, None)
        _marks(axes[2], table[chosen], ratio[chosen])
        axes[2].text(*place, name, ha="right", va="bottom", fontsize=7)
    axes[2].plot(GROUPS, [1 / m for m in GROUPS], ":", color="0.5", lw=1.2)
    axes[2].text(GROUPS[2], 0.7 / GROUPS[2], "1/m", ha="right", va="top", fontsize=7)
    axes[2].set_title("ratio of the two variances")
    for axis in axes:
        axis.set_xlabel("clients m in the aggregate")
        axis.set_xticks(GROUPS, [str(m) for m in GROUPS])
        axis.minorticks_off()
    bottom, top = axes[2].get_ylim()
    axes[2].set_ylim(bottom, 1.6 * top)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, fontsize=7)
    marks = [
        plt.Line2D([], [], color="black", lw=1, label="formula"),
        plt.Line2D([], [], color="black", marker=".", ls="", ms=3.5, label="sampling"),
        plt.Line2D([], [], color="black", marker="o", mfc="white", ls="", ms=3.5, mew=0.7, label="trained clients"),
    ]
    axes[2].legend(handles=marks, loc="lower left", frameon=False, fontsize=7, handlelength=1.2, borderaxespad=0)
    return figure


def _by_size(rows: pd.DataFrame, values: pd.Series, source: str) -> np.ndarray:
    """Return mean and limits over seeds, one column for each size of the aggregate."""
    return np.transpose([over_seeds(values[(rows["source"] == source) & (rows["clients"] == m)]) for m in GROUPS])


def _line(axis: Axes, rows: pd.DataFrame, values: pd.Series, line: str, label: str | None) -> None:
    axis.plot(GROUPS, _by_size(rows, values, "formula")[0], line, color="black", lw=1, label=label)


def _marks(axis: Axes, rows: pd.DataFrame, values: pd.Series) -> None:
    """Draw sampling as dots, and groups of trained clients as circles, with 95% intervals over seeds."""
    x = np.array(GROUPS)
    axis.plot(x / 1.05, _by_size(rows, values, "sampling")[0], ".", color="black", ms=3.5)
    mean, low, high = _by_size(rows, values, "training")
    axis.vlines(x * 1.05, low, high, color="black", lw=0.7)
    axis.plot(x * 1.05, mean, "o", color="black", mfc="white", ms=3.5, mew=0.7)


def _landscape_figure(tables: Tables) -> Figure:
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 2.9), layout="constrained")
    paths, products = tables["trajectories"], tables["products"]
    looks = {
        "FedAvg": {"ls": "-", "marker": "o", "mfc": "white", "ms": 3, "label": "w averaged"},
        "decomposed": {"ls": "--", "marker": "^", "mfc": "black", "ms": 2, "label": "α and D averaged apart"},
    }
    for axis, participants in zip(axes, PARTICIPANTS, strict=False):
        _contours(axis, (-0.4, 0.4), (0.05, 0.55), (0.01, 0.03, 0.1, 0.3, 1), labelled=slice(2, None))
        for aggregate, look in looks.items():
            path = paths[(paths["clients"] == participants) & (paths["aggregate"] == aggregate)]
            axis.plot(path["w1"], path["w2"], color="black", mec="black", lw=0.6, mew=0.5, **look)
        axis.plot(*TRUTH.weights, "x", color="black", ms=6, mew=1.2, label="least expected loss")
        axis.set_title(f"{participants} of 100 clients in each round")

    axis = axes[2]
    axis.margins(0.12)
    real = products["coefficient"] == products["atom"]
    alone, virtual = products[real], products[~real]
    grey = {"color": "0.4", "mew": 0.8, "ls": ""}
    axis.plot(virtual["w1"], virtual["w2"], marker="+", ms=5, label="virtual client", **grey)
    axis.plot(alone["w1"], alone["w2"], "v", color="black", mfc="white", ms=4.5, mew=0.8, label="local client")
    square = {"color": "black", "mfc": "none", "mew": 0.8}
    axis.plot(*alone[["w1", "w2"]].mean(skipna=False), "s", ms=7, label="average of products", **square)
    axis.plot(*products[["w1", "w2"]].mean(skipna=False), "D", color="black", ms=2.5, label="product of averages")
    _contours(axis, axis.get_xlim(), axis.get_ylim(), [0.1 * i for i in range(1, 20)])
    axis.set_title(f"{PARTICIPANTS[0]} clients after the first round")
    axes[0].set_ylabel("w₂")
    handles, labels = (x + y for x, y in zip(*(a.get_legend_handles_labels() for a in axes[1:]), strict=True))
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=7)
    return figure


def _contours(
    axis: Axes, x: tuple[float, float], y: tuple[float, float], levels: Sequence[float], labelled: slice = slice(None)
) -> None:
    """Draw lines of equal excess risk."""
    grid = np.meshgrid(np.linspace(*x, 121), np.linspace(*y, 121))
    risk = TRUTH.excess(np.stack(grid, axis=-1))
    lines = axis.contour(*grid, risk, levels=levels, colors="0.7", linewidths=0.5, zorder=1)
    axis.clabel(lines, levels[labelled], fontsize=7, fmt="%.2g")
    axis.set(xlim=x, ylim=y, xlabel="w₁")

"""What the updates study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.design import overlap_ratio
from simulations.contract import Finding
from simulations.effects import Effects, Question, once
from simulations.estimates import mean_of, means_by
from simulations.showing import rounded, total
from simulations.updates.study import ALONE, NETWORKS, NORMS, OTHERS, PARTS, SINCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Images of CIFAR-10 that the smaller scales draw from.
SUBSET = 9085
#: Distances are means over these last epochs.
LAST = 10
#: Pairs whose order the paper states; and the floor, which no distance can be expected to lie below.
ORDER = {
    "permuted - other": ("permuted", "other", "permuted labels minus another partition"),
    "domain - permuted": ("domain", "permuted", "other images minus permuted labels"),
    "other - same": ("other", "same", "another partition minus the same one in other batches"),
}
#: The data sets that the reference's model is averaged with, or compared with in Figure 4.
PARTNERS = ("other", "permuted", "domain")
#: The reading of which the chapter speaks first.
MAIN = ("all", "epoch", "sum")
#: The distance of two updates of equal length at right angles, as unrelated ones are in many dimensions.
UNRELATED = {"sum": 0.5**0.5, "reference": 2**0.5, "unit": 2**0.5}
#: How data sets are drawn: marker, line and fill.
LOOKS = {
    ALONE: ("D", "-", "black"),
    "same": ("o", ":", "white"),
    "other": ("o", "-", "white"),
    "permuted": ("s", "--", "0.6"),
    "domain": ("^", "-.", "black"),
}
#: What legends call them.
SHORT = {
    ALONE: "alone",
    "same": "same partition",
    "other": "another partition",
    "permuted": "labels permuted",
    "domain": "other images",
}
#: The factorised networks, apart and with u averaged.
HOW = {False: "apart", True: "u averaged in every epoch"}
FACTORS = ("u", "v")
DISTANCE = "distance of updates"
WHEN = {"after": "right after a mean", "between": "in the epochs between two means"}
#: Every seed draws 1,000 training and 500 test images of each data set. Two seeds have hardly any of MNIST's in common,
#: and .17 of the other images. At desk scale.
DESIGN = Design(clients="new", data="resplit", test_to_train=overlap_ratio(500, 1000, 0.17))


@once
def effects(tables: Tables) -> Effects:
    """Return the differences of distances in each reading, of distances by training and by factor, and of accuracy.

    A reading is one way to understand the paper's words, of which it means but one: each is a question of its own.
    """
    questions = []
    for reading, late in _readings(tables).items():
        pairs = {reading: [(more, less) for more, less, _ in ORDER.values()]}
        questions.append(Question(f"order of distances, {reading}", DISTANCE, {reading: late}, pairs, DESIGN))
    for where, thirds in _runs(tables).items():
        early, late = (
            {f"{part} {data}": table[part][data] for part, data in product(FACTORS, PARTNERS)} for table in thirds
        )
        by_time = {
            f"{what}, {where}": pd.DataFrame({"first third": early[what], "last third": late[what]}) for what in late
        }
        by_factor = {
            f"{data}, {where}": pd.DataFrame({part: late[f"{part} {data}"] for part in FACTORS}) for data in PARTNERS
        }
        for words, values, pair in (
            ("change of distances", by_time, ("last third", "first third")), ("v against u", by_factor, ("v", "u")),
        ):  # fmt: skip
            questions.append(
                Question(f"{words}, {where}", DISTANCE, values, {setting: [pair] for setting in values}, DESIGN)
            )
    means = {words: 100 * _reference(tables["accuracy"], when) for when, words in WHEN.items()}
    costs = {words: [(arm, ALONE) for arm in PARTNERS] for words in means}
    questions.append(Question("what averaging costs", "accuracy", means, costs, DESIGN, "points"))
    return Effects(questions)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the order of distances, how those of the factors change, and what averaging costs."""
    known = effects(tables)
    found = {}
    for reading in _readings(tables):
        for name, (more, less, words) in ORDER.items():
            what = f"distance of updates ({reading}), {words}"
            found[f"{name} {reading}"] = Finding.of(what, known[DISTANCE, reading, more, less], digits=3)
    for where in _runs(tables):
        for part, data in product(FACTORS, PARTNERS):
            effect = known[DISTANCE, f"{part} {data}, {where}", "last third", "first third"]
            what = f"distance of the updates of {part}, last minus first third of epochs, {OTHERS[data]} ({where})"
            found[f"trend {part} {data} {where}"] = Finding.of(what, effect, digits=3)
        for data in PARTNERS:
            what = f"distance of the updates of v minus that of u, last third of epochs, {OTHERS[data]} ({where})"
            found[f"v - u {data} {where}"] = Finding.of(what, known[DISTANCE, f"{data}, {where}", "v", "u"], digits=3)
    for (when, words), arm in product(WHEN.items(), PARTNERS):
        what = f"accuracy on the reference partition {words} with {OTHERS[arm]}, minus alone"
        found[f"{when} {arm}"] = Finding.of(what, known["accuracy", words, arm, ALONE], digits=1)
    return found


def _readings(tables: Tables) -> dict[str, pd.DataFrame]:
    """Return late distances of whole weights by reading: what counts, since when, and how they are normalised."""
    return {
        f"{part} {since} {norm}": _late(_distance(tables, "plain", False, part, since), norm)
        for part, since, norm in product(PARTS["plain"], SINCE, NORMS)
    }


def _runs(tables: Tables) -> dict[str, tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]]:
    """Return distances of the factors in the first and in the last third of epochs, by reading."""
    found = {}
    for (network, averaged, since), norm in product(_factorised(tables), NORMS):
        thirds = {part: _thirds(_distance(tables, network, averaged, part, since), norm) for part in FACTORS}
        early, late = ({part: both[k] for part, both in thirds.items()} for k in (0, 1))
        found[f"{network} {HOW[averaged]} {since} {norm}"] = early, late
    return found


def _reference(accuracy: pd.DataFrame, when: str, metric: str = "accuracy") -> pd.DataFrame:
    """Return the reference's metric, mean over the epochs with a mean ("after") or behind the first without one.

    One row per seed, one column per arm.
    """
    rows = accuracy[(accuracy["network"] == "plain") & (accuracy["when"] == "after")]
    every = _every(accuracy)
    due = rows["epoch"] % every == 0
    chosen = rows[due if when == "after" else ~due & (rows["epoch"] > every)]
    return means_by(chosen, "arm", metric).reindex(index=rows["seed"].unique(), columns=rows["arm"].unique())


def _every(accuracy: pd.DataFrame) -> float:
    """Return how many epochs lie between two means: the first in which a mean changed most models; NaN if none did."""
    rows = accuracy[(accuracy["network"] == "plain") & (accuracy["arm"] != ALONE)]
    before, after = (
        rows[rows["when"] == when].set_index(["arm", "epoch", "seed"])["log_loss"].sort_index()
        for when in ("before", "after")
    )
    moved = (after - before).dropna().ne(0).groupby("epoch").mean()
    return float(moved.index[moved > 0.5].min())


def _distance(tables: Tables, network: str, averaged: bool, part: str, since: str) -> pd.DataFrame:
    d = tables["distance"]
    return d[(d["network"] == network) & (d["averaged"] == averaged) & (d["part"] == part) & (d["since"] == since)]


def _late(rows: pd.DataFrame, norm: str) -> pd.DataFrame:
    """Return the mean over the last epochs: one row per seed, one column per data set."""
    late = rows[rows["epoch"] > rows["epoch"].max() - LAST]
    return means_by(late, "data", norm)


def _thirds(rows: pd.DataFrame, norm: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return means over the first and the last third of epochs, as `_late` does."""
    epochs = rows["epoch"].max()
    third = max(epochs // 3, 1)
    first, last = rows[rows["epoch"] <= third], rows[rows["epoch"] > epochs - third]
    early, late = (means_by(part, "data", norm) for part in (first, last))
    return early, late


def _factorised(tables: Tables) -> list[tuple[str, bool, str]]:
    """Return the factorised networks' runs: network, whether u was averaged, and what an update is."""
    rows = tables["distance"]
    rows = rows[rows["network"] != "plain"]
    every = rows[["network", "averaged", "since"]].drop_duplicates().itertuples(index=False)
    return [(str(network), bool(averaged), str(since)) for network, averaged, since in every]


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many readings have the paper's order, and tables of distances, trends and accuracy."""
    found, readings = findings(tables), list(_readings(tables))
    stated = [name for name in ORDER if name != "other - same"]
    pixels = config["dataset"] != "digits"
    subset = config["train"] + config["test"] <= SUBSET
    return {
        "main": " ".join(MAIN),
        "readings": len(readings),
        "ordered": sum(all(found[f"{name} {r}"].sign == "more" for name in stated) for r in readings),
        "signs": {
            name: {
                sign: sum(found[f"{name} {r}"].sign == sign for r in readings) for sign in ("more", "less", "unclear")
            }
            for name in ORDER
        },
        "trends": _counted(found),
        "distances": _distances(tables),
        "factors": _factor_rows(tables, found),
        "accuracy": _accuracy_rows(tables["accuracy"]),
        "every": total([_every(tables["accuracy"])]),
        "rates": _rates(tables["tuning"]),
        "seeds": tables["distance"]["seed"].nunique(),
        "last": min(LAST, config["epochs"]),
        "third": max(config["epochs"] // 3, 1),
        "reference": "MNIST" if pixels else "scikit-learn's digits",
        "domain": _domain(subset) if pixels else "those digits turned and inverted",
    }


def _domain(subset: bool) -> str:
    """Name the images of the other domain."""
    return f"the first {SUBSET:,} images of CIFAR-10" if subset else "CIFAR-10"


def _counted(found: Mapping[str, Finding]) -> dict[str, Any]:
    """Count the readings in which u comes closer, and those in which it does while v does not, by data set."""
    counts = {}
    for data in PARTNERS:
        keys = [key.removeprefix(f"trend u {data} ") for key in found if key.startswith(f"trend u {data} ")]
        signs = [(found[f"trend u {data} {k}"].sign, found[f"trend v {data} {k}"].sign) for k in keys]
        counts[data] = {
            "of": len(keys),
            "closer": sum(u == "less" for u, _ in signs),
            "farther": sum(u == "more" for u, _ in signs),
            "as_stated": sum(u == "less" and v != "less" for u, v in signs),
            "v_farther": sum(found[f"v - u {data} {k}"].sign == "more" for k in keys),
        }
    return counts


def _distances(tables: Tables) -> list[dict[str, Any]]:
    """Tabulate the mean distances of whole weights by reading, with their order."""
    rows = []
    for part in PARTS["plain"]:
        for since, update in SINCE.items():
            for norm, words in NORMS.items():
                late = _late(_distance(tables, "plain", False, part, since), norm)
                means = {name: mean_of(late[name]) for name in OTHERS}
                below = "" if part == "all" else ", below the classifier"
                rows.append({"update": f"{update}{below}", "norm": words, "first": norm == next(iter(NORMS)), **means})
    return rounded(rows, **dict.fromkeys(OTHERS, 3))


def _factor_rows(tables: Tables, found: Mapping[str, Finding]) -> list[dict[str, Any]]:
    """Tabulate the change of u's and of v's distance, by the main way to normalise."""
    rows = []
    for network, averaged, since in _factorised(tables):
        where = f"{network} {HOW[averaged]} {since} {MAIN[2]}"
        for data in PARTNERS:
            rows.append(
                {
                    "run": f"{NETWORKS[network]}; {HOW[averaged]}; {SINCE[since]}",  # type: ignore[index]
                    "first": data == PARTNERS[0],
                    "data": OTHERS[data],
                    **{part: found[f"trend {part} {data} {where}"].text for part in FACTORS},
                    "late": found[f"v - u {data} {where}"].text,
                }
            )
    return rows


def _accuracy_rows(accuracy: pd.DataFrame) -> list[dict[str, Any]]:
    """Tabulate the reference's metrics right after a mean."""
    rows = []
    for arm in (ALONE, *PARTNERS):
        share = {m: _reference(accuracy, "after", m)[arm] for m in ("accuracy", "balanced_accuracy", "majority_share")}
        rows.append(
            {
                "arm": "alone" if arm == ALONE else f"with {OTHERS[arm]}",
                **{m: mean_of(100 * values) for m, values in share.items()},
                "log_loss": mean_of(_reference(accuracy, "after", "log_loss")[arm]),
            }
        )
    return rounded(rows, accuracy=1, balanced_accuracy=1, majority_share=1, log_loss=2)


def _rates(tuning: pd.DataFrame) -> str:
    """Return the chosen learning rates in words."""
    chosen = tuning[tuning["chosen"]].groupby("arm", sort=False)["lr"].first()
    return ", ".join(f"{lr:g} ({NETWORKS[name]})" for name, lr in chosen.items())


# --- figures ---------------------------------------------------------------------------------------------------


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw distances of whole weights, of u and v, and the reference's accuracy, over epochs."""
    return {
        "distance": _distance_figure(tables),
        "factors": _factor_figure(tables),
        "accuracy": _accuracy_figure(tables["accuracy"]),
    }


def marked(epochs: int) -> list[int]:
    """Return the epochs at which limits are drawn, five at most."""
    return sorted({int(e) for e in np.linspace(1, epochs, min(epochs, 5)).round()})


def _curve(axis: Axes, table: pd.DataFrame, name: str, level: float) -> None:
    """Draw the mean over seeds (rows) against epochs (columns), with limits at the marked ones."""
    from matplotlib.ticker import MaxNLocator

    marker, line, fill = LOOKS[name]
    axis.plot(table.columns, table.mean(), line, color="0.25", lw=0.8)
    at = marked(int(max(table.columns)))
    at = [epoch for epoch in at if epoch in table.columns]
    mean, low, high = np.array([mean_of(table[epoch], level) for epoch in at]).T
    axis.vlines(at, low, high, color="0.25", lw=0.8)
    axis.plot(at, mean, marker, color="0.25", mfc=fill, ms=3.5, mew=0.7)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _curves(axis: Axes, rows: pd.DataFrame, norm: str, names: Sequence[str]) -> None:
    """Draw the distances of several data sets; limits hold for all curves of the panel and the marked epochs."""
    level = 1 - 0.05 / (len(names) * len(marked(int(rows["epoch"].max()))))
    for name in names:
        axis.axhline(UNRELATED[norm], color="0.6", lw=0.6, zorder=0)
        _curve(axis, rows[rows["data"] == name].pivot(index="seed", columns="epoch", values=norm), name, level)


def _legend(figure: Figure, names: Sequence[str]) -> None:
    """Name the data sets above the figure."""
    import matplotlib.pyplot as plt

    handles = [
        plt.Line2D(
            [], [], color="0.25", marker=LOOKS[n][0], ls=LOOKS[n][1], mfc=LOOKS[n][2], ms=3.5, lw=0.8, label=SHORT[n]
        )
        for n in names
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(names), frameon=False, fontsize=7)


def _distance_figure(tables: Tables) -> Figure:
    """Draw whole weights: a row for what an update is, a column for each way to normalise."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    titles = {"sum": "by the sum of lengths", "reference": "by the reference's length", "unit": "each to length one"}
    with style():
        figure, axes = plt.subplots(
            len(SINCE), len(NORMS), figsize=(WIDTH, 3.8), sharex=True, sharey="col", layout="constrained"
        )
        for row, (since, update) in zip(axes, SINCE.items(), strict=True):
            for axis, norm in zip(row, NORMS, strict=True):
                _curves(axis, _distance(tables, "plain", False, "all", since), norm, list(OTHERS))
                axis.set_ylim(bottom=0)
            row[0].set_ylabel(f"{update.removeprefix('the ')}:\nnormalised distance")
        for axis, norm in zip(axes[0], NORMS, strict=True):
            axis.set_title(titles[norm])
        figure.supxlabel("epoch", fontsize=8)
        _legend(figure, list(OTHERS))
    return figure


def _factor_figure(tables: Tables) -> Figure:
    """Draw u and v of both factorised networks, apart and with u averaged, for the change of one epoch."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    networks = [name for name in NETWORKS if name != "plain"]
    panels = [(averaged, part) for averaged in HOW for part in FACTORS]
    with style():
        figure, axes = plt.subplots(
            len(networks), len(panels), figsize=(WIDTH, 3.4), sharex=True, sharey=True, layout="constrained"
        )
        for row, network in zip(axes, networks, strict=True):
            for axis, (averaged, part) in zip(row, panels, strict=True):
                names = PARTNERS if averaged else tuple(OTHERS)
                _curves(axis, _distance(tables, network, averaged, part, "epoch"), "sum", names)
                axis.set_ylim(0, 1)
            row[0].set_ylabel("text" if network == "text" else "authors' code")
        for axis, (averaged, part) in zip(axes[0], panels, strict=True):
            axis.set_title(f"{part}, {'u averaged' if averaged else 'apart'}")
        figure.supxlabel("epoch", fontsize=8)
        figure.supylabel("distance by the sum of lengths", fontsize=8)
        _legend(figure, list(OTHERS))
    return figure


def _accuracy_figure(accuracy: pd.DataFrame) -> Figure:
    """Draw the reference's accuracy, and its difference to that alone, after every epoch."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    rows = accuracy[(accuracy["network"] == "plain") & (accuracy["when"] == "after")]
    tables = {
        arm: 100 * part.pivot(index="seed", columns="epoch", values="accuracy") for arm, part in rows.groupby("arm")
    }
    epochs, names = int(rows["epoch"].max()), (ALONE, *PARTNERS)
    step = _every(accuracy)
    every = np.arange(step, epochs + 1, step) if step > 0 else np.empty(0)
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2.5), layout="constrained")
        for axis, arms in ((left, names), (right, PARTNERS)):
            level = 1 - 0.05 / (len(arms) * len(marked(epochs)))
            for arm in arms:
                _curve(axis, tables[arm] if axis is left else tables[arm] - tables[ALONE], arm, level)
            for epoch in every:
                axis.axvline(epoch, color="0.8", lw=0.6, zorder=0)
        right.axhline(0, color="0.6", lw=0.6, zorder=0)
        left.set_ylabel("test accuracy on the\nreference partition (%)")
        right.set_ylabel("minus that alone\n(percentage points)")
        figure.supxlabel("epoch; vertical lines: a mean is taken", fontsize=8)
        _legend(figure, names)
    return figure

"""What the filters study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import PairedDifference
from simulations.contract import Finding
from simulations.estimates import difference_of, mean_of, times
from simulations.filters.study import ARMS, CONTROL, KINDS, METRICS
from simulations.showing import fixed, rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Measures of a filter, in words.
MEASURES = {
    "roughness": "roughness (1.13 for white noise)",
    "sparsity": "sparsity",
    "selectivity": "selectivity for classes",
}
#: The comparisons of an arm hold together: three measures of two kinds of filters, two similarities, and the types.
_TOGETHER = 1 - 0.05 / (len(MEASURES) * len(KINDS) + 3)


def split_arms(tables: Tables) -> list[str]:
    """Return the arms with personal filters, in their order."""
    return [arm for arm in ARMS if arm in set(tables["filters"]["arm"])]


def findings(tables: Tables) -> dict[str, Finding]:
    """Return what the paper says of the filters, for every arm, paired on seeds."""
    found: dict[str, Finding] = {}
    for arm in split_arms(tables):
        for kind, measure in product(KINDS, MEASURES):
            what = f"{arm}, {kind}, {measure}"
            found[what] = Finding.of(
                f"{what}: less FedAvg’s same filters", _to_fedavg(tables, arm, kind, measure), digits=3
            )
        likeness = _values(tables, arm, "shared", "correlation"), _values(tables, arm, "personal", "correlation")
        shared, personal = (table["value"] for table in likeness)
        found[f"{arm}, nearer"] = Finding.of(
            f"{arm}: correlation with FedAvg’s maps, shared less personal filters", _joint(shared, personal), digits=3
        )
        found[f"{arm}, kept"] = Finding.of(
            f"{arm}: correlation of shared filters’ maps with FedAvg’s, less that of FedAvg’s with the start’s",
            _joint(shared, likeness[0]["fedavg"]), digits=3,
        )  # fmt: skip
        found[f"{arm}, types"] = Finding.of(
            f"{arm}: likeness of maps across the types less within them, less the same under FedAvg",
            _types(tables, arm), digits=3,
        )  # fmt: skip
    return found | _against_random(tables)


def _against_random(tables: Tables) -> dict[str, Finding]:
    """Return personal filters' differences to FedAvg's under factor analysis less those under a random split."""
    found = {}
    for arm, measure in product(split_arms(tables), MEASURES):
        if arm != "random":
            gains = [_values(tables, one, "personal", measure) for one in (arm, "random")]
            difference = difference_of(
                *(gain["value"] - gain["fedavg"] for gain in gains), level=1 - 0.05 / len(MEASURES)
            )
            what = f"{arm}, analysis, {measure}"
            found[what] = Finding.of(f"{what}: personal less FedAvg’s, less the same at random", difference, digits=3)
    return found


def _values(tables: Tables, arm: str, kind: str, measure: str) -> pd.DataFrame:
    table = tables["filters"].set_index(["arm", "kind", "measure"]).sort_index()
    return table.loc[[(arm, kind, measure)]].set_index("seed").sort_index()


def _joint(a: pd.Series, b: pd.Series) -> PairedDifference:
    return difference_of(a, b, level=_TOGETHER)


def _to_fedavg(tables: Tables, arm: str, kind: str, measure: str) -> PairedDifference:
    table = _values(tables, arm, kind, measure)
    return _joint(table["value"], table["fedavg"])


def _types(tables: Tables, arm: str) -> PairedDifference:
    table = tables["pairs"][tables["pairs"]["arm"] == arm].set_index("seed").sort_index()
    return _joint(table["across"] - table["within"], table["fedavg across"] - table["fedavg within"])


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of measures, similarities and accuracies."""
    found = findings(tables)
    return {
        "seeds": tables["filters"]["seed"].nunique(),
        "arms": [{"arm": arm, "words": words} for arm, words in ARMS.items() if arm in config["arms"]],
        "split": split_arms(tables),
        "rows": [_row(tables, found, *key) for key in product(split_arms(tables), KINDS, MEASURES)],
        "alike": [_likeness(tables, found, arm) for arm in split_arms(tables)],
        "metrics": [_metrics(tables, arm) for arm in config["arms"]],
        "data": _data(config),
    }


def _data(config: Mapping[str, Any]) -> str:
    """Name the images that were used."""
    if config["dataset"] == "digits":
        return "scikit-learn’s handwritten digits"
    used = config["training"] + config["testing"]
    return f"{used:,} images of CIFAR-10" if used else "CIFAR-10"


def _row(tables: Tables, found: Mapping[str, Finding], arm: str, kind: str, measure: str) -> dict[str, str]:
    table = _values(tables, arm, kind, measure)
    means = {column: fixed(table[column].mean(), 3) for column in ("value", "fedavg", "start")}
    finding = found[f"{arm}, {kind}, {measure}"]
    return {
        "arm": arm,
        "kind": kind,
        "measure": MEASURES[measure],
        **means,
        "difference": finding.text,
        "correlation": fixed(_to_fedavg(tables, arm, kind, measure).correlation, 2),
    }


def _likeness(tables: Tables, found: Mapping[str, Finding], arm: str) -> dict[str, str]:
    kinds = {kind: _values(tables, arm, kind, "correlation") for kind in KINDS}
    pairs = tables["pairs"][tables["pairs"]["arm"] == arm].mean(numeric_only=True)
    return {
        "arm": arm,
        **{kind: fixed(table["value"].mean(), 3) for kind, table in kinds.items()},
        "start": fixed(np.mean([table["fedavg"].mean() for table in kinds.values()]), 3),
        "nearer": found[f"{arm}, nearer"].text,
        "across": fixed(pairs["across"], 3),
        "within": fixed(pairs["within"], 3),
        "types": found[f"{arm}, types"].text,
    }


def _metrics(tables: Tables, arm: str) -> dict[str, str]:
    table = tables["metrics"][tables["metrics"]["arm"] == arm].pivot(index="seed", columns="metric", values="value")
    shares = {name: times(100, mean_of(table[name], within=(0, 1))) for name in METRICS if name != "log_loss"}
    loss = mean_of(table["log_loss"], within=(0, float("inf")))
    return rounded([{"arm": arm, **shares, "log_loss": loss}], **dict.fromkeys(shares, 1), log_loss=3)[0]


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the feature maps of one image, and the differences to FedAvg's filters."""
    return {"maps": _maps(tables), "differences": _differences(tables)}


def _maps(tables: Tables) -> Figure:
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    maps, image = tables["maps"], tables["image"]
    columns = [name for name in maps if name.startswith("x")]
    shown = [(kind, method) for kind in KINDS for method in ("FedFac", CONTROL)]
    most = max(maps.loc[maps["kind"] == kind, "filter"].nunique() for kind in KINDS)
    with style(), plt.rc_context({"image.composite_image": False}):
        figure, axes = plt.subplots(
            4, most + 2, figsize=(WIDTH, 2.9), layout="constrained", width_ratios=[2, 0.3, *[1] * most]
        )
        for axis in axes.flat:
            axis.set_axis_off()
        first = figure.add_subplot(axes[0, 0].get_gridspec()[:, 0])
        channels = [name for name in image if name.startswith("c")]
        side = int(image["y"].max()) + 1
        pixels = image.sort_values(["y", "x"])[channels].to_numpy().reshape(side, -1, len(channels)) / 100
        first.imshow(pixels.mean(axis=2), cmap="gray", interpolation="none")
        first.set_axis_off()
        first.set_title("the image")
        for line, (kind, method) in zip(axes, shown, strict=True):
            rows = maps[(maps["kind"] == kind) & (maps["method"] == method)]
            for axis, (j, one) in zip(line[2:], rows.groupby("filter"), strict=False):
                grey = one.sort_values("y")[columns].to_numpy()
                axis.imshow(grey, cmap="gray", vmin=0, vmax=100, interpolation="none")
                axis.set_title(f"{j}" if method == "FedFac" else "", fontsize=6, pad=1)
            words = f"{kind}\nfilters" if method == "FedFac" else "the same\nin FedAvg"
            line[1].text(1.0, 0.5, words, ha="right", va="center", fontsize=6.5, transform=line[1].transAxes)
    return figure


def _differences(tables: Tables) -> Figure:
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    arms, found = split_arms(tables), findings(tables)
    with style():
        figure, axes = plt.subplots(1, len(MEASURES), figsize=(WIDTH, 1.9), sharey=True, layout="constrained")
        for axis, measure in zip(axes, MEASURES, strict=True):
            for (i, arm), (kind, marker, shift) in product(
                enumerate(arms), ((KINDS[0], "o", -0.15), (KINDS[1], "s", 0.15))
            ):
                one = found[f"{arm}, {kind}, {measure}"]
                axis.plot([one.low, one.high], [i + shift] * 2, color="black", lw=0.8)
                axis.plot(
                    one.mean, i + shift, marker, color="black", mfc="black" if kind == "personal" else "white", ms=4,
                    label=f"{kind} filters" if i == 0 else None,
                )  # fmt: skip
            axis.axvline(0, color="0.6", lw=0.6)
            axis.set_xlabel(f"{measure}: less FedAvg’s")
        axes[0].set_yticks(range(len(arms)), arms)
        axes[0].invert_yaxis()
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, fontsize=7
        )
    return figure

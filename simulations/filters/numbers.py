"""What the filters study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from simulations.contract import Finding
from simulations.effects import Effects, Question, once
from simulations.estimates import mean_of, times
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
#: Every seed deals the same images anew: 5,814 to train on, and 200 test images of which maps are taken; at desk scale.
DESIGN = Design(clients="new", data="resplit", test_to_train=200 / 5814)
CORRELATION, TYPES = "correlation of maps with FedAvg’s", "likeness of maps across the types minus within them"
#: What the gains of arms are called that are compared with a random split's.
GAIN = "{}, personal minus FedAvg’s"


def split_arms(tables: Tables) -> list[str]:
    """Return the arms with personal filters, in their order."""
    return [arm for arm in ARMS if arm in set(tables["filters"]["arm"])]


@once
def effects(tables: Tables) -> Effects:
    """Return the differences to FedAvg's filters by measure, of likenesses, and to filters that are drawn at random."""
    arms = split_arms(tables)
    against = [("FedFac", "FedAvg")]
    questions = []
    for measure in MEASURES:
        values = {
            f"{arm}, {kind}": _beside_fedavg(_values(tables, arm, kind, measure)) for arm, kind in product(arms, KINDS)
        }
        questions.append(
            Question(f"{measure} against FedAvg’s", measure, values, {name: against for name in values}, DESIGN)
        )
    alike = {arm: _correlations(tables, arm) for arm in arms}
    pairs = {arm: [("shared", "personal"), ("shared", "FedAvg and start")] for arm in arms}
    questions.append(Question("whose maps are alike", CORRELATION, alike, pairs, DESIGN))
    types = {arm: _types(tables, arm) for arm in arms}
    questions.append(Question("whether the two types differ", TYPES, types, {arm: against for arm in arms}, DESIGN))
    chosen = [(arm, "random") for arm in arms if arm != "random" and "random" in arms]
    for measure in MEASURES if chosen else ():
        both = {arm: _values(tables, arm, "personal", measure) for arm in arms}
        gains = pd.DataFrame({arm: table["value"] - table["fedavg"] for arm, table in both.items()})
        words = f"{measure} by factor analysis against a random split"
        questions.append(Question(words, GAIN.format(measure), {"": gains}, {"": chosen}, DESIGN))
    return Effects(questions)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return what the paper says of the filters, for every arm, paired on seeds."""
    known, found = effects(tables), {}
    for arm in split_arms(tables):
        for kind, measure in product(KINDS, MEASURES):
            what = f"{arm}, {kind}, {measure}"
            effect = known[measure, f"{arm}, {kind}", "FedFac", "FedAvg"]
            found[what] = Finding.of(f"{what}: minus FedAvg’s same filters", effect, digits=3)
        found[f"{arm}, nearer"] = Finding.of(
            f"{arm}: correlation with FedAvg’s maps, shared minus personal filters",
            known[CORRELATION, arm, "shared", "personal"], digits=3,
        )  # fmt: skip
        found[f"{arm}, kept"] = Finding.of(
            f"{arm}: correlation of shared filters’ maps with FedAvg’s, minus that of FedAvg’s with the start’s",
            known[CORRELATION, arm, "shared", "FedAvg and start"], digits=3,
        )  # fmt: skip
        found[f"{arm}, types"] = Finding.of(
            f"{arm}: {TYPES}, minus the same under FedAvg", known[TYPES, arm, "FedFac", "FedAvg"], digits=3
        )
        for measure in MEASURES:
            if (key := (GAIN.format(measure), "", arm, "random")) in known:
                what = f"{arm}, analysis, {measure}"
                words = f"{what}: personal minus FedAvg’s, minus the same at random"
                found[what] = Finding.of(words, known[key], digits=3)
    return found


def _beside_fedavg(table: pd.DataFrame) -> pd.DataFrame:
    return table[["value", "fedavg"]].set_axis(["FedFac", "FedAvg"], axis=1)


def _correlations(tables: Tables, arm: str) -> pd.DataFrame:
    """Return by seed how filters' maps correlate with FedAvg's, shared and personal, and FedAvg's with the start's."""
    shared, personal = (_values(tables, arm, kind, "correlation") for kind in ("shared", "personal"))
    return pd.DataFrame(
        {"shared": shared["value"], "personal": personal["value"], "FedAvg and start": shared["fedavg"]}
    )


def _values(tables: Tables, arm: str, kind: str, measure: str) -> pd.DataFrame:
    table = tables["filters"].set_index(["arm", "kind", "measure"]).sort_index()
    return table.loc[[(arm, kind, measure)]].set_index("seed").sort_index()


def _types(tables: Tables, arm: str) -> pd.DataFrame:
    table = tables["pairs"][tables["pairs"]["arm"] == arm].set_index("seed").sort_index()
    ours, theirs = table["across"] - table["within"], table["fedavg across"] - table["fedavg within"]
    return pd.DataFrame({"FedFac": ours, "FedAvg": theirs})


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of measures, similarities and accuracies."""
    found, known = findings(tables), effects(tables)
    return {
        "seeds": tables["filters"]["seed"].nunique(),
        "arms": [{"arm": arm, "words": words} for arm, words in ARMS.items() if arm in config["arms"]],
        "split": split_arms(tables),
        "rows": [_row(tables, known, *key) for key in product(split_arms(tables), KINDS, MEASURES)],
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


def _row(tables: Tables, known: Effects, arm: str, kind: str, measure: str) -> dict[str, str]:
    table = _values(tables, arm, kind, measure)
    means = {column: fixed(table[column].mean(), 3) for column in ("value", "fedavg", "start")}
    effect = known[measure, f"{arm}, {kind}", "FedFac", "FedAvg"]
    return {
        "arm": arm,
        "kind": kind,
        "measure": MEASURES[measure],
        **means,
        "difference": Finding.of("", effect, digits=3).text,
        "correlation": fixed(effect.correlation, 2),
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
            axis.set_xlabel(f"{measure} minus FedAvg’s")
        axes[0].set_yticks(range(len(arms)), arms)
        axes[0].invert_yaxis()
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, fontsize=7
        )
    return figure

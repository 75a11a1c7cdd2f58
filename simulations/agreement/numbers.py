"""What the agreement study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.agreement.effects import PAIRS, contributions, effects, of_statistic, started
from simulations.agreement.study import ARMS, KAPPA, LOOKS, PER_KAPPA, per_seed, places_of
from simulations.contract import Finding
from simulations.estimates import mean_of
from simulations.showing import rounded, setting, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The columns that name a point of the study of trained networks.
PLACES = ["p", "alpha", "samples", "noise"]
SHARE = (0.0, 1.0)
PER_CENT = (0.0, 100.0)
#: What is asked of the true parameters: statistic and parameters.
ASKED = {
    "communality": ("communality", "true"),
    "communality_permuted": ("communality", "permuted"),
    "eigenvectors": ("eigenvectors", "true"),
    "eigenvectors_permuted": ("eigenvectors", "permuted"),
    "agreement": ("agreement", "true"),
    "agreement_permuted": ("agreement", "permuted"),
}
#: Methods that choose units by themselves.
CHOSEN = ("communality", "eigenvectors", "agreement", "random")


def findings(tables: Tables) -> dict[str, Finding]:
    """Return AUC on true parameters and after training, mean over settings, and accuracy under the units found."""
    truth, differences = tables["truth"], effects(tables)
    found: dict[str, Finding] = {}
    for name, (statistic, parameters) in ASKED.items():
        values = of_statistic(truth, statistic, parameters).groupby("seed")["auc"].mean(skipna=False)
        what = f"AUC of {statistic}, {parameters} parameters, mean over the settings"
        found[name] = Finding.of(what, mean_of(values, within=SHARE), border=0.5, digits=3)
    for kappa in contributions(truth):
        at = {
            name: of_statistic(truth, name, "true", kappa).groupby("seed")["auc"].mean(skipna=False)
            for name in PER_KAPPA
        }
        for name, values in at.items():
            what = f"AUC of {name}, contribution {kappa:g}, true parameters, mean over the settings"
            found[f"{name} {kappa:g}"] = Finding.of(what, mean_of(values, within=SHARE), border=0.5, digits=3)
        what = f"AUC of communality − that of eigenvectors, contribution {kappa:g}, true parameters"
        found[f"communality − eigenvectors {kappa:g}"] = Finding.of(
            what, differences["AUC", f"contribution {kappa:g}", "communality", "eigenvectors"], digits=3
        )
    noise = tables["noise"]
    for (statistic, looked_at), words in LOOKS.items():
        for start, rows in noise[(noise["statistic"] == statistic) & (noise["looked_at"] == looked_at)].groupby(
            "start"
        ):
            values = rows.groupby("seed")["auc"].mean(skipna=False)
            what = f"AUC of {words} after a round from the {start} start, mean over settings and noise"
            found[f"{statistic} {looked_at} {start}"] = Finding.of(what, mean_of(values, within=SHARE), border=0.5)
    for p, alpha, _, start in places_of(tables["accuracy"]):
        where = started(start, p, alpha)
        for arm in CHOSEN:
            what = f"accuracy under '{arm}' − the true units, {where}"
            effect = differences["accuracy", where, arm, "true"]
            found[f"{arm} {start} {p} {alpha}"] = Finding.of(what, effect, digits=1)
        for one, other in PAIRS:
            what = f"accuracy under '{one}' − '{other}', {where}"
            effect = differences["accuracy", where, one, other]
            found[f"{one} − {other} {start} {p} {alpha}"] = Finding.of(what, effect, digits=1)
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return recovery on true parameters, its range after training, and accuracy under the units found."""
    return {
        "kappa": f"{KAPPA:g}",
        "contributions": [
            {"key": f"communality {k:g}", "eigenvectors": f"eigenvectors {k:g}", "at": f"{k:g}"}
            for k in contributions(tables["truth"])
        ],
        "by_kappa": _by_kappa(tables["truth"]),
        "resolved": _resolved(tables["noise"], "agreement", "changes", "common"),
        "gains": [
            {
                "key": f"communality − random {start} {p} {alpha}",
                "eigenvectors": f"eigenvectors − random {start} {p} {alpha}",
                "start": start,
                "setting": setting(p, alpha),
            }
            for p, alpha, _, start in places_of(tables["accuracy"])
        ],
        "truth": _truth(tables["truth"]),
        "ranges": _ranges(tables["noise"]),
        "accuracy": _accuracy(tables),
        "together": len(effects(tables).among("each arm against the true units")),
        "seeds": tables["truth"]["seed"].nunique(),
        "trained_seeds": tables["accuracy"]["seed"].nunique(),
    }


def _resolved(noise: pd.DataFrame, statistic: str, looked_at: str, start: str) -> dict[str, Any]:
    """Count the settings and noises in which an AUC is clearly below and above one half, and give its range."""
    rows = noise.query("statistic == @statistic and looked_at == @looked_at and start == @start")
    cells = [mean_of(group["auc"], within=SHARE) for _, group in rows.groupby(PLACES)]
    return {
        "below": sum(high < 0.5 for _, _, high in cells),
        "above": sum(low > 0.5 for _, low, _ in cells),
        "of": len(cells),
        "range": span([mean for mean, _, _ in cells], 2),
    }


def _truth(truth: pd.DataFrame) -> list[dict[str, Any]]:
    """Tabulate AUC beside that of permuted parameters, and units on their true side when cut at the true number."""
    rows = []
    for (p, alpha), group in truth.groupby(["p", "alpha"]):
        found = {name: of_statistic(group, *look) for name, look in ASKED.items()}
        rows.append(
            {
                "setting": setting(p, alpha),
                **{name: mean_of(values["auc"], within=SHARE) for name, values in found.items()},
                **{
                    f"{name}_cut": mean_of(100 * found[name]["true_size"], within=PER_CENT)
                    for name in ("communality", "eigenvectors", "agreement")
                },
            }
        )
    return rounded(rows, **dict.fromkeys(ASKED, 3), communality_cut=0, eigenvectors_cut=0, agreement_cut=0)


def _by_kappa(truth: pd.DataFrame) -> list[dict[str, str]]:
    """Return the range over settings of both statistics' mean AUC, by contribution."""
    rows = []
    for kappa in contributions(truth):
        means = {
            name: of_statistic(truth, name, "true", kappa).groupby(["p", "alpha"])["auc"].mean(skipna=False)
            for name in PER_KAPPA
        }
        rows.append({"at": f"{kappa:g}", **{name: span(values, 2) for name, values in means.items()}})
    return rows


def _ranges(noise: pd.DataFrame) -> list[dict[str, str]]:
    """Return the range of the mean AUC over settings and noise, by start and by what is looked at."""
    means = noise.groupby(["start", "statistic", "looked_at", *PLACES])["auc"].mean(skipna=False)
    return [
        {"start": start, "what": words, "auc": span(means[start, statistic, looked_at], 2)}
        for start in ("own", "common")
        for (statistic, looked_at), words in LOOKS.items()
    ]


def _accuracy(tables: Tables) -> list[dict[str, Any]]:
    """Tabulate accuracy, and its differences to the true units and to Local, by setting and start."""
    rows, found = [], effects(tables)
    for p, alpha, n, start in places_of(tables["accuracy"]):
        table, where = 100 * per_seed(tables, p, alpha, n, start), started(start, p, alpha)
        rows += [
            {
                "setting": f"{where}, n = {n}",
                "first": arm == next(iter(ARMS)),
                "units": words,
                "accuracy": mean_of(table[arm], within=PER_CENT),
                "true": None if arm == "true" else found["accuracy", where, arm, "true"].estimate,
                "local": None if arm == "Local" else found["accuracy", where, arm, "Local"].estimate,
            }
            for arm, words in ARMS.items()
        ]
    return rounded(rows, accuracy=1, true=2, local=2)


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw AUC on true parameters and against the start's noise, and accuracy under the units found."""
    return {
        "recovery": _recovery_figure(tables["truth"]),
        "noise": _noise_figure(tables["noise"]),
        "accuracy": _accuracy_figure(tables),
    }


def _recovery_figure(truth: pd.DataFrame) -> Figure:
    """Draw a row per statistic and a panel per share p: AUC over contributions, then of agreement and its placebo."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    kappas = contributions(truth)
    labels = [*(f"{k:g}".lstrip("0") for k in kappas), "true", "placebo"]
    places = np.array([*range(len(kappas)), len(kappas) + 0.3, len(kappas) + 1.8])
    shares = sorted(truth["p"].unique())
    with style():
        figure, axes = plt.subplots(
            len(PER_KAPPA), len(shares), figsize=(WIDTH, 4.2), sharex=True, sharey=True, squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for row, statistic in zip(axes, PER_KAPPA, strict=True):
            for axis, p in zip(row, shares, strict=True):
                _recovery_panel(axis, truth[truth["p"] == p], statistic, kappas, places)
                axis.set_xticks(places, labels)
            row[0].set_ylabel(f"{statistic}:\nAUC for the shared units")
        for axis, p in zip(axes[0], shares, strict=True):
            axis.set_title(f"p = {p:g}")
        axes[0, -1].legend(fontsize=7, frameon=False, loc=(0.35, 0.02))
        words = "contribution; right of the line: agreement of the true parameters and of the placebo"
        figure.supxlabel(words, fontsize=8)
    return figure


def _recovery_panel(
    axis: Axes, truth: pd.DataFrame, statistic: str, kappas: Sequence[float], places: np.ndarray
) -> None:
    """Draw one statistic's AUC over contributions, and agreement's, for each share of shared inputs."""
    looks = zip((-0.16, 0.0, 0.16), "os^", ("-", "--", ":"), ("white", "0.25", "0.7"), strict=True)
    for alpha, (shift, marker, line, fill) in zip(sorted(truth["alpha"].unique()), looks, strict=False):
        rows = truth[truth["alpha"] == alpha]
        kinds = [of_statistic(rows, statistic, "true", kappa) for kappa in kappas]
        kinds += [of_statistic(rows, "agreement", name) for name in ("true", "permuted")]
        mean, low, high = np.array([mean_of(kind["auc"]) for kind in kinds]).T
        at = places + shift
        axis.vlines(at, low, high, color="0.25", lw=0.8)
        axis.plot(at[: len(kappas)], mean[: len(kappas)], line, color="0.25", lw=0.8)
        axis.plot(at, mean, marker, color="0.25", mfc=fill, ms=3.5, label=f"α = {alpha:g}")
    axis.axhline(0.5, color="0.6", lw=0.6, ls="--", zorder=0)
    axis.axvline(len(kappas) - 0.4, color="0.6", lw=0.6, zorder=0)
    axis.set_ylim(0, 1.03)


def _noise_figure(noise: pd.DataFrame) -> Figure:
    """Draw one panel per setting and start: AUC against the noise of the start."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    places = places_of(noise)
    looks = dict(
        zip(
            LOOKS,
            (("o", "-", "white"), ("s", "--", "white"), ("^", ":", "0.6"), ("o", "-", "0.25"), ("s", "--", "0.25")),
            strict=True,
        )
    )
    with style():
        figure, axes = plt.subplots(
            1, len(places), figsize=(WIDTH, 2.8), sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for axis, (p, alpha, samples, start) in zip(axes.flat, places, strict=True):
            rows = noise.query("p == @p and alpha == @alpha and samples == @samples and start == @start")
            for (statistic, what), (marker, line, fill) in looks.items():
                chosen = rows[(rows["statistic"] == statistic) & (rows["looked_at"] == what)]
                points = [(level, *mean_of(values)) for level, values in chosen.groupby("noise")["auc"]]
                x, mean, low, high = map(np.array, zip(*points, strict=True))
                axis.errorbar(x, mean, [mean - low, high - mean], fmt=line + marker, color="0.25", mfc=fill, ms=3.5,
                              lw=0.8, label=LOOKS[statistic, what])  # fmt: skip
            axis.axhline(0.5, color="0.6", lw=0.6, ls="--", zorder=0)
            axis.set_title(f"{start} start\n{setting(p, alpha)}\nn = {samples}")
        axes[0, 0].set_ylim(-0.02, 1.03)
        axes[0, 0].set_ylabel("AUC for the shared units")
        figure.supxlabel("noise of the start, in standard deviations of the true weights", fontsize=8)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=7)
    return figure


def _accuracy_figure(tables: Tables) -> Figure:
    """Draw every arm's difference to the true shared units, a panel per setting and start."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    places, found = places_of(tables["accuracy"]), effects(tables)
    shown = [label for label in ARMS if label != "true"]
    with style():
        figure, axes = plt.subplots(
            1, len(places), figsize=(WIDTH, 2.3), sharey=True, squeeze=False, layout="constrained"
        )
        for axis, (p, alpha, samples, start) in zip(axes.flat, places, strict=True):
            for height, label in enumerate(shown):
                mean, low, high = found["accuracy", started(start, p, alpha), label, "true"].estimate
                axis.plot([low, high], [height] * 2, color="0.25", lw=1.0)
                fill = "0.25" if label in ("FedAvg", "Local") else "white"
                axis.plot(mean, height, "o", color="0.25", mfc=fill, ms=3.5)
            axis.axvline(0, color="0.6", lw=0.6, zorder=0)
            axis.set_title(f"{start} start\n{setting(p, alpha)}\nn = {samples}")
        axes[0, 0].set_yticks(range(len(shown)), shown)
        axes[0, 0].set_ylim(len(shown) - 0.5, -0.5)
        figure.supxlabel("test accuracy minus that under the true units, percentage points", fontsize=8)
    return figure

"""What the units study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design, clopper_pearson, interval
from simulations.contract import Finding
from simulations.effects import Effects, Question
from simulations.estimates import Estimate, mean_of
from simulations.showing import fixed, rounded
from simulations.units.study import IMAGES, NEAR_TWO, PARTITIONS, SCRIPT, STARTS, VALUES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARE = (0.0, 1.0)
POSITIVE = (0.0, float("inf"))
REAL = (-float("inf"), float("inf"))
#: What is measured of the main reading, in words, its range and the decimals wanted.
MEASURES: dict[str, tuple[str, tuple[float, float], int]] = {
    "mean_sd": ("standard deviation of a unit’s output over clients, mean over units", POSITIVE, 3),
    "high_sd": ("the same, 90% quantile over units", POSITIVE, 3),
    "median_sd": ("the same, median over units", POSITIVE, 3),
    "q50": ("entropy of a unit’s output over clients (nats), median over units", REAL, 3),
    "q25": ("the same, lower quartile over units", REAL, 3),
    "q75": ("the same, upper quartile over units", REAL, 3),
    "with_atom": ("share of units without a finite entropy", SHARE, 3),
    "dead_everywhere": ("share of units with output zero at all clients", SHARE, 3),
}
Reading = tuple[str, str, str]
#: One start, a common probe set, means over images; and the authors' script, of which entropies are hardly ever finite.
MAIN: Reading = ("common", "probe", "mean")
SCRIPTED: Reading = (SCRIPT, "own", "mean")
#: What is asked of the script.
OF_SCRIPT = ("mean_sd", "with_atom")
#: The same images are dealt to new clients under every seed, and outputs are taken of given test images.
DESIGN = Design(clients="new", data="fixed")
PEAKS = "peak of entropies"
#: Readings under which units have finite entropies, and whose intervals hold together.
READINGS: tuple[Reading, ...] = tuple(product(STARTS, IMAGES, [v for v in VALUES if v != "single, rectified"]))
_TOGETHER = 1 - 0.05 / len(READINGS)
_ALPHA = 0.05
#: A unit of this entropy (nats) has at least this standard deviation, reached by normal outputs.
_SD_AT_TWO = float(np.exp(2) / np.sqrt(2 * np.pi * np.e))
_MOST_IF_STANDARDISED = float(np.log(2 * np.pi * np.e) / 2)


def name(reading: Reading) -> str:
    """Return a reading's name in findings."""
    return ", ".join(reading)


def effects(tables: Tables) -> Effects:
    """Return the differences of one-label and iid clients by measure, by reading where each asks, and by training."""
    pair = [("one label", "iid")]
    spread = {name(r): _wide(tables, r)["high_sd"] for r in READINGS if r[2] != "mean, far"}
    gaps = {name(r): _peaks(_wide(tables, r)) for r in READINGS}
    main, wide, script = name(MAIN), _wide(tables, MAIN), _wide(tables, SCRIPTED)
    return Effects(
        [
            # the standard deviations of "mean, far" are those of "mean"
            Question("spread of outputs, by reading", "high_sd", spread, {r: pair for r in spread}, DESIGN),
            Question("distance of the peaks, by reading", PEAKS, gaps, {r: pair for r in gaps}, DESIGN),
            *(
                Question(f"{measure}, main reading", measure, {main: wide[measure]}, {main: pair}, DESIGN)
                for measure in MEASURES
                if measure != "high_sd"
            ),
            *(
                Question(
                    f"{measure}, the authors’ script",
                    measure,
                    {name(SCRIPTED): script[measure]},
                    {name(SCRIPTED): pair},
                    DESIGN,
                )
                for measure in OF_SCRIPT
            ),
            Question("training", "q50", {"iid": _by_epochs(tables)}, {"iid": [("last epochs", "first")]}, DESIGN),
        ]
    )


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the main reading's differences, and for every reading what the paper says of Figure 2."""
    found, quantity, known = {}, "", effects(tables)
    for measure, (words, _, digits) in MEASURES.items():
        quantity = quantity if words.startswith("the same") else words.partition(",")[0]
        what = f"{words.replace('the same', quantity)}: one-label minus iid clients"
        found[measure] = Finding.of(what, known[measure, name(MAIN), "one label", "iid"], digits=digits)
    for measure in OF_SCRIPT:
        what = f"{MEASURES[measure][0]}, by the authors’ script: one-label minus iid clients"
        effect = known[measure, name(SCRIPTED), "one label", "iid"]
        found[f"script, {measure}"] = Finding.of(what, effect, digits=MEASURES[measure][2])
    found["training"] = Finding.of(
        "median entropy of iid clients: last epochs minus first (nats)",
        known["q50", "iid", "last epochs", "first"],
        digits=2,
    )
    for reading in READINGS:
        found |= _of_reading(tables, known, reading)
    return found


def _of_reading(tables: Tables, known: Effects, reading: Reading) -> dict[str, Finding]:
    """Return whether iid entropies lie near or below zero, and whether one-label ones have a second, higher peak."""
    wide, words = _wide(tables, reading), ", ".join(reading)
    low = mean_of(wide["near_zero"]["iid"], _TOGETHER, within=SHARE)
    gap = known[PEAKS, words, "one label", "iid"]
    share = _rejected(wide["dip_p"]["one label"])
    found = {
        f"low, {words}": Finding.of(f"{words}: share of units near or below zero, iid clients", low, border=0.5),
        f"gap, {words}": Finding.of(
            f"{words}: uppermost peak of one-label minus main peak of iid clients (nats)", gap, border=NEAR_TWO[0],
        ),
        f"peaks, {words}": Finding.of(
            f"{words}: share of seeds in which one-label entropies are not unimodal", share, border=_ALPHA
        ),
    }  # fmt: skip
    if (key := ("high_sd", words, "one label", "iid")) in known:
        what = f"{words}: 90% quantile of the standard deviation, one-label minus iid"
        found[f"spread, {words}"] = Finding.of(what, known[key])
    return found


def _rejected(p: pd.Series) -> Estimate:
    """Return the share of seeds whose test of unimodality rejects at 5%, with exact limits (Clopper and Pearson's)."""
    rejected = int((p < _ALPHA).sum())
    return rejected / len(p), *clopper_pearson(rejected, len(p), _TOGETHER)


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of measures and readings, and counts over readings."""
    wide, found, known = _wide(tables, MAIN), findings(tables), effects(tables)
    rows = []
    for measure, (words, range_, digits) in MEASURES.items():
        values = {key: mean_of(wide[measure][partition], within=range_) for key, partition in _KEYS.items()}
        difference = known[measure, name(MAIN), "one label", "iid"].estimate
        rows += rounded([{"what": words, **values, "difference": difference}], **_same(digits))
    last = _last(tables)
    return {
        "rows": rows,
        "readings": [_row(tables, reading, found) for reading in READINGS],
        "low": _counts(found, "low"),
        "gap": _counts(found, "gap"),
        "peaks": _counts(found, "peaks"),
        "spread": _counts(found, "spread"),
        "widest_gap": fixed(max(found[f"gap, {name(r)}"].high for r in READINGS), 2),
        "near_two": fixed(100 * last.loc[last["partition"] == "one label", "near_two"].max(), 1),
        "max_sd": fixed(last.loc[last["partition"] == "one label", "max_sd"].max(), 2),
        "sd_at_two": fixed(_SD_AT_TWO, 2),
        "standardised": fixed(_MOST_IF_STANDARDISED, 2),
        "planted": _planted(tables["histogram"]),
        "atoms": fixed(100 * last.loc[last["value"] == "single, rectified", "with_atom"].min(), 0),
        "lines": {
            "starts": STARTS, "images": IMAGES, "values": VALUES,
        },
        "epochs": {"first": config["epochs"][0], "last": config["epochs"][-1]},
        "script": {key: _per_cent(_wide(tables, SCRIPTED)["with_atom"][partition]) for key, partition in _KEYS.items()},
        "with_atom": {key: fixed(100 * wide["with_atom"][partition].mean(), 0) for key, partition in _KEYS.items()},
        "seeds": len(wide),
    }  # fmt: skip


def _per_cent(shares: pd.Series) -> str:
    """Return the smallest and the largest share of any seed."""
    low, high = (f"{100 * share:.0f}" for share in (shares.min(), shares.max()))
    return low if low == high else f"{low} to {high}"


def _planted(bins: pd.DataFrame, units: int = 200, draws: int = 200) -> list[dict[str, str]]:
    """Return how often the test finds a second peak that is planted two nats above a share of iid units' entropies."""
    from diptest import diptest

    main = bins[(bins["partition"] == "iid") & (bins[["start", "images", "value"]] == MAIN).all(axis=1)]
    left, right, counts = (main[name].to_numpy() for name in ("left", "right", "units"))
    rng = np.random.default_rng(0)
    rows = []
    for share in (0.0, 0.1, 0.2, 0.3):
        found = 0
        for _ in range(draws):
            drawn = rng.choice(len(main), units, p=counts / counts.sum())
            entropy = rng.uniform(left[drawn], right[drawn])
            entropy[: round(share * units)] += 2
            found += diptest(entropy)[1] < _ALPHA
        low, high = clopper_pearson(found, draws)
        rows.append(
            {"share": fixed(100 * share, 0), "found": interval((100 * found / draws, 100 * low, 100 * high), 0)}
        )
    return rows


def _row(tables: Tables, reading: Reading, found: Mapping[str, Finding]) -> dict[str, Any]:
    wide = _wide(tables, reading)
    one, iid = (wide.xs(partition, axis=1, level="partition") for partition in ("one label", "iid"))
    return {
        "start": reading[0],
        "images": reading[1],
        "value": reading[2],
        "low": fixed(100 * iid["near_zero"].mean(), 0),
        "iid_peak": fixed(iid["main"].mean(), 1),
        "peaks": f"{fixed(one['lowest'].mean(), 1)} to {fixed(one['highest'].mean(), 1)}",
        "q95": fixed(one["q95"].mean(), 1),
        "gap": found[f"gap, {name(reading)}"].text,
        "several": int((one["modes"] > 1).sum()),
        "rejected": int((one["dip_p"] < _ALPHA).sum()),
        "rejected_iid": int((iid["dip_p"] < _ALPHA).sum()),
        "atoms": fixed(100 * one["with_atom"].mean(), 0),
    }


def _counts(found: Mapping[str, Finding], what: str) -> dict[str, int]:
    signs = [found[key].sign for reading in READINGS if (key := f"{what}, {name(reading)}") in found]
    return {"of": len(signs), **{sign: signs.count(sign) for sign in ("more", "less", "unclear")}}


_KEYS = {"iid": "iid", "one_label": "one label"}


def _same(digits: int) -> dict[str, int]:
    return dict.fromkeys((*_KEYS, "difference"), digits)


def _last(tables: Tables) -> pd.DataFrame:
    table = tables["summary"]
    return table[table["epochs"] == table["epochs"].max()]


def _wide(tables: Tables, reading: Reading) -> pd.DataFrame:
    """Return one reading's measures after the last epochs: rows are seeds, columns (measure, partition)."""
    table = _last(tables)
    start, shown, value = reading
    chosen = table[(table["start"] == start) & (table["images"] == shown) & (table["value"] == value)]
    return chosen.drop(columns=["start", "images", "value", "epochs"]).pivot(index="seed", columns="partition")


def _peaks(wide: pd.DataFrame) -> pd.DataFrame:
    """Return by seed the uppermost peak of one-label clients, and the main peak of iid clients."""
    return pd.DataFrame({"one label": wide["highest"]["one label"], "iid": wide["main"]["iid"]})


def _by_epochs(tables: Tables) -> pd.DataFrame:
    """Return by seed the median entropy of iid clients after the first and the last epochs, in the main reading."""
    table = tables["summary"].set_index(["start", "images", "value", "partition"]).sort_index().loc[(*MAIN, "iid")]
    medians = table.pivot(index="seed", columns="epochs", values="q50").sort_index(axis=1)
    return medians.iloc[:, [0, -1]].set_axis(["first", "last epochs"], axis=1)


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw heat maps of the unit outputs (the paper's Figure 1) and histograms of their entropy (its Figure 2)."""
    return {"heatmap": _heat(tables["outputs"]), "entropy": _histograms(tables["histogram"])}


def _heat(outputs: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    columns = [c for c in outputs.columns if c.startswith("client")]
    # images are embedded as they are, one pixel for every unit and client
    with style(), plt.rc_context({"image.composite_image": False}):
        figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 5.6), sharex=True, sharey=True, layout="constrained")
        drawn = {"own": "the authors’ script", "probe": "one start, a probe set"}
        for line, (shown, words) in zip(axes, drawn.items(), strict=True):
            for axis, (partition, title) in zip(line, PARTITIONS.items(), strict=True):
                rows = outputs[(outputs["partition"] == partition) & (outputs["images"] == shown)]
                matrix = rows[columns].to_numpy()
                matrix = matrix[np.argsort(-matrix.mean(axis=1), kind="stable")]
                image = axis.imshow(matrix, aspect="auto", cmap="Greys", vmin=0, vmax=100, interpolation="none")
                axis.set_title(f"{title}: {words}")
            figure.colorbar(image, ax=line, label=f"mean output (100 = {rows['top'].iloc[0]:.2g})", extend="max")
            line[0].set_ylabel("hidden unit (by mean output)")
        axes[1, 0].set_xlabel("client")
        axes[1, 1].set_xlabel("client (ordered by label)")
    return figure


def _histograms(bins: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    readings = [*product(STARTS, IMAGES), (SCRIPT, "own")]
    drawn = list(product(("mean", "single"), readings))
    with style():
        figure, axes = plt.subplots(
            2, len(readings), figsize=(WIDTH, 3.6), sharex="row", sharey="row", layout="constrained"
        )
        axes[1, -1].set_visible(False)  # the script's value is the mean
        for axis, (value, (start, shown)) in zip(axes.flat, drawn, strict=True):
            here = bins[(bins["start"] == start) & (bins["images"] == shown) & (bins["value"] == value)]
            for (partition, title), line in zip(PARTITIONS.items(), ("-", "--"), strict=True):
                some = here[here["partition"] == partition]
                if some.empty:
                    continue
                edges = [*some["left"], some["right"].iloc[-1]]
                heights = some["units"] / some["units"].sum() / (some["right"] - some["left"])
                axis.stairs(heights, edges, color="black", ls=line, lw=0.8, label=title)
            axis.axvspan(*NEAR_TWO, color="0.85", lw=0)
            axis.axvline(0, color="0.6", lw=0.6)
            words = f"{start} start, {'probe set' if shown == 'probe' else 'own images'}"
            axis.set_title("authors’ script" if start == SCRIPT else words, fontsize=6)
            axis.set_xlim(-4.5 if value == "mean" else -1.5, 2.7)
        for line, words in zip(axes, ("means over images", "single outputs"), strict=True):
            line[0].set_ylabel(f"{words}: density")
        axes[0, 0].legend(frameon=False, fontsize=6, loc="upper left")
        figure.supxlabel("entropy of a unit’s output over clients (nats)", fontsize=8)
    return figure

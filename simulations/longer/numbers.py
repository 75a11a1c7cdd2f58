"""What the study of FedDecomp trained longer, and taken apart on whole images, hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.design import overlap_ratio
from simulations.contract import Finding
from simulations.effects import Effects, Question, once
from simulations.estimates import by_run
from simulations.feddecomp.cells import CODE
from simulations.feddecomp.effects import CONTROLS, RANKS, READINGS, by_ranks, epoch_pairs, not_trained, setting
from simulations.feddecomp.numbers import accuracies, by_epochs, rates_tried
from simulations.feddecomp.papers import table_1, table_2
from simulations.feddecomp.per_seed import Layout, by_seed, layouts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The share of its images that a seed has in common with another, at most: 6,000 of 35,000 train where clients have
#: 600, 1,000 of 10,000 test. Elsewhere it is less, and limits are wider than needed.
_COMMON = 0.2
GAIN = "accuracy gained in the second half of the rounds"
#: What is compared: words and decimals by metric; by all but the last, more is better.
METRICS = {"accuracy": ("accuracy", 1), "balanced_accuracy": ("balanced accuracy", 1), "log_loss": ("log-loss", 2)}
Pair = tuple[str, str]


@once
def effects(tables: Tables) -> Effects:
    """Return all differences: between methods after all rounds, what the second half gave, and within FedDecomp."""
    long, apart = layouts(tables)
    untrained = {
        setting(layout, a, train): not_trained(tables, layout, a, train)
        for layout in (long, apart)
        for a in layout.every
        for train in layout.samples
    }
    return Effects([*_methods(tables, long), *_taken_apart(tables, apart)], untrained)


def others(layout: Layout) -> tuple[str, ...]:
    """Return the methods with which FedDecomp as its authors ran it is compared."""
    return tuple(arm for arm in layout.arms if arm not in READINGS)


def _methods(tables: Tables, layout: Layout) -> Iterator[Question]:
    """Yield FedDecomp against the others, and how many points the second half of the rounds gave each method."""
    pairs = [(CODE, other) for other in others(layout)]
    for metric, (words, _) in METRICS.items():
        wide = {a: by_seed(tables, layout, a, metric)[[CODE, *others(layout)]] for a in layout.every}
        unit = "nats" if metric == "log_loss" else "points"
        yield _asked(layout, f"FedDecomp against the other methods by {words}", wide, pairs, metric, unit)
    halves = {a: _halves(tables, layout, a) for a in layout.every}
    gains = [(arm, half(arm)) for arm in (CODE, *others(layout))]
    yield _asked(layout, "what the second half of the rounds gives", halves, gains, GAIN)
    changes = {a: pd.DataFrame({gain(arm): wide[arm] - wide[half(arm)] for arm, _ in gains}).fillna(math.inf)
               for a, wide in halves.items()}  # fmt: skip
    yield _asked(layout, "what it gives FedDecomp and the others", changes,
                 [(gain(CODE), gain(other)) for other in others(layout)], GAIN)  # fmt: skip


def half(arm: str) -> str:
    """Name an arm after half of the rounds."""
    return f"{arm}, half"


def gain(arm: str) -> str:
    """Name what an arm gained in the second half of the rounds."""
    return f"{arm}, gain"


def _halves(tables: Tables, layout: Layout, dirichlet: float) -> pd.DataFrame:
    """Return accuracy at the end and after half of the rounds by seed and arm, each over an eighth of all rounds."""
    rows = tables["curves"]
    rows = rows[(rows["world"] == layout.world) & (rows["dirichlet"] == dirichlet) & (rows["train"] == layout.train)]
    rounds = int(rows["round"].max())
    some = max(rounds // 8, 1)
    parts = {}
    for end, named in ((rounds, str), (rounds // 2, half)):
        last = rows[(rows["round"] > end - some) & (rows["round"] <= end)]
        means = last.groupby(["seed", "arm"])["accuracy"].mean(skipna=False).mul(100).reset_index()
        parts[end] = by_run(means, "arm", "accuracy").rename(columns=named)
    return pd.concat(parts.values(), axis=1)


def _taken_apart(tables: Tables, layout: Layout) -> Iterator[Question]:
    """Yield what ranks, epochs of the low-rank part and the number of images do."""
    first = by_seed(tables, layout, layout.first)
    yield _asked(layout, "ranks", {layout.first: by_ranks(first, layout)}, list(RANKS.values()))
    yield _asked(layout, "epochs of the low-rank part", {layout.first: first}, epoch_pairs(layout))
    pairs = [(arm, other) for arm in READINGS for other in CONTROLS]
    for train in layout.samples:
        wide = {layout.first: by_seed(tables, layout, layout.first, train=train)}
        yield _asked(layout, f"FedDecomp against Local and FedAvg, {train} images", wide, pairs, train=train)


def _asked(
    layout: Layout,
    words: str,
    wide: Mapping[float, pd.DataFrame],
    pairs: Sequence[Pair],
    metric: str = "accuracy",
    unit: str = "points",
    train: int | None = None,
) -> Question:
    arms = list(dict.fromkeys(arm for pair in pairs for arm in pair))
    values = {setting(layout, a, train): table[arms].dropna() for a, table in wide.items()}
    held_out = layout.train // 3
    design = Design(
        clients="new", data="resplit", test_to_train=overlap_ratio(held_out, train or layout.train, _COMMON)
    )  # fmt: skip
    return Question(f"{words} ({layout.world})", metric, values, dict.fromkeys(values, pairs), design, unit)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return what the chapter's words rest on."""
    every, (long, apart) = effects(tables), layouts(tables)
    found = {}
    for a in long.every:
        where, words = setting(long, a), f"Dirichlet {a:g}"
        for other in others(long):
            for metric, (name, digits) in METRICS.items():
                what = f"{name}, {CODE} − {other}, {words}"
                effect = every[metric, where, CODE, other]
                found[f"{metric} {other}, {a:g}"] = Finding.of(what, effect, digits=digits)
            effect = every[GAIN, where, gain(CODE), gain(other)]
            found[f"gain − {other}, {a:g}"] = Finding.of(f"{GAIN}, {CODE} − {other}, {words}", effect, digits=1)
        for arm in (CODE, *others(long)):
            found[f"gain {arm}, {a:g}"] = Finding.of(f"{GAIN}, {arm}, {words}", every[GAIN, where, arm, half(arm)],
                                                     digits=1)  # fmt: skip
    return found | _apart(every, apart)


def _apart(every: Effects, layout: Layout) -> dict[str, Finding]:
    def points(what: str, first: str, second: str, train: int | None = None) -> Finding:
        effect = every["accuracy", setting(layout, layout.first, train), first, second]
        return Finding.of(f"accuracy, {what}", effect, digits=1)

    ranks = {
        "R_l": "largest − smallest R_l", "R_c": "largest − smallest R_c",
        "order": "effect of R_l − effect of R_c, both without sign",
        "choice": "the paper’s ranks − the mean of the others",
    }  # fmt: skip
    epochs = {
        "rise": "two epochs of the low-rank part − none", "fall": "all epochs for the low-rank part − two",
        "ends": "all epochs for the low-rank part − none", "alone": "low-rank parts alone − Local",
    }  # fmt: skip
    found = {f"ranks, {name}": points(ranks[name], *pair) for name, pair in RANKS.items()}
    pairs = zip(epochs.items(), epoch_pairs(layout), strict=True)
    found |= {f"epochs, {name}": points(words, *pair) for (name, words), pair in pairs}
    for train in layout.samples:
        for arm in READINGS:
            for other in CONTROLS:
                words = f"{arm} − {other}, {train} images"
                found[f"images, {arm} − {other}, {train}"] = points(words, arm, other, train)
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chapter's tables."""
    (long, apart), (of_long, of_apart) = layouts(tables), config["experiments"]
    wide = by_seed(tables, apart, apart.first)
    return {
        "setup": of_long["setup"], "network": of_long["world"]["network"],
        "world": long.world.rpartition(",")[0], "seeds": of_long["seeds"], "tuning_seeds": of_long["tuning_seeds"],
        "tuned_at": f"{of_long['tuned_at']:g}",
        "rounds": {"long": of_long["setup"]["rounds"], "apart": of_apart["setup"]["rounds"]},
        "every": [f"{a:g}" for a in long.every], "first": f"{apart.first:g}",
        "others": list(others(long)),
        "accuracy": accuracies(tables, long, "accuracy"),
        "untrained": [
            {"dirichlet": f"{a:g}", "arm": arm, "why": words}
            for a in long.every for arm, words in not_trained(tables, long, a, long.train).items()
        ],
        "table_1": table_1(tables, long, of_long["world"]["printed"]),
        "table_2": table_2(wide, apart, of_apart["world"]["printed"]),
        "epochs": by_epochs(wide, apart),
        "samples": [str(n) for n in apart.samples],
        "tuning": {"long": rates_tried(tables["tuning"], long.world),
                   "apart": rates_tried(tables["tuning"], apart.world)},
    }  # fmt: skip


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw accuracy over rounds by concentration: means over seeds."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    long, _ = layouts(tables)
    grey, lines = "0.45", ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
    looks = {other: (grey, line) for other, line in zip(others(long), lines, strict=False)} | {CODE: ("black", "-")}
    rows = tables["curves"]
    with style():
        figure, axes = plt.subplots(1, len(long.every), figsize=(WIDTH, 2.6), sharey=True, layout="constrained")
        for axis, a in zip(axes, long.every, strict=True):
            here = rows[(rows["world"] == long.world) & (rows["dirichlet"] == a)]
            for arm, (color, line) in looks.items():
                mean = 100 * here[here["arm"] == arm].groupby("round")["accuracy"].mean()
                axis.plot(mean.index, mean, ls=line, color=color, lw=1.0, label=arm)
            axis.set_title(f"Dirichlet {a:g}")
            axis.set_xlabel("round")
        axes[0].set_ylabel("mean accuracy over clients (per cent)")
        axes[-1].legend(frameon=False, fontsize=6)
    return {"curves": figure}

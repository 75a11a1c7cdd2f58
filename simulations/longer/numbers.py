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
from simulations.estimates import by_run, mean_of
from simulations.feddecomp.cells import CODE
from simulations.feddecomp.effects import not_trained, setting
from simulations.feddecomp.numbers import PER_CENT, rates_tried
from simulations.feddecomp.papers import table_1, table_2
from simulations.feddecomp.per_seed import LOG_LOSS, Layout, by_seed, late_gains, layouts
from simulations.showing import NONE, fixed, mean_sd, rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The share of its images that a seed has in common with another: 3,000 of 35,000 train, 1,000 of 10,000 test; the
#: larger is taken for both. At other scales it is less, and limits are wider than needed.
_COMMON = 0.1
GAIN = "accuracy gained in the second half of the rounds"
#: What is compared: words, unit and decimals by metric; by all but the last, more is better.
METRICS = {
    "accuracy": ("accuracy", "points", 1),
    "balanced_accuracy": ("balanced accuracy", "points", 1),
    LOG_LOSS: ("log-loss", "nats", 2),
}
Pair = tuple[str, str]


@once
def effects(tables: Tables) -> Effects:
    """Return all differences: between methods after all rounds, what the second half gave, and within FedDecomp."""
    long, apart = layouts(tables)
    untrained = {
        setting(layout, a): not_trained(tables, layout, a, layout.train)
        for layout in (long, apart)
        for a in layout.every
    }
    return Effects([*_methods(tables, long), *_taken_apart(tables, apart)], untrained)


def others(layout: Layout) -> tuple[str, ...]:
    """Return the methods with which FedDecomp as its authors ran it is compared."""
    return tuple(arm for arm in layout.arms if arm != CODE)


def other_ranks(layout: Layout) -> list[str]:
    """Return FedDecomp with other ranks than the paper's, ascending by R_l, then R_c."""
    return [arm for arm in layout.ratios.values() if arm != CODE]


def other_epochs(layout: Layout) -> dict[int, str]:
    """Return FedDecomp with other epochs of the low-rank part than the authors' code has."""
    return {epochs: arm for epochs, arm in layout.epochs.items() if arm != CODE}


def _methods(tables: Tables, layout: Layout) -> Iterator[Question]:
    """Yield FedDecomp against the others, and how many points the second half of the rounds gave each method."""
    pairs = [(CODE, other) for other in others(layout)]
    for metric, (words, unit, _) in METRICS.items():
        wide = {a: by_seed(tables, layout, a, metric) for a in layout.every}
        yield _asked(layout, f"FedDecomp against the other methods by {words}", wide, pairs, metric, unit)
    halves = {a: by_halves(tables, layout, a) for a in layout.every}
    gains = [(arm, half(arm)) for arm in (CODE, *others(layout))]
    yield _asked(layout, "what the second half of the rounds gives", halves, gains, GAIN)
    changes = {
        a: pd.DataFrame({gain(arm): wide[arm] - wide[half(arm)] for arm, _ in gains}).fillna(math.inf)
        for a, wide in halves.items()
    }
    pairs = [(gain(CODE), gain(other)) for other in others(layout)]
    yield _asked(layout, "what it gives FedDecomp and the others", changes, pairs, GAIN)


def half(arm: str) -> str:
    """Name an arm after half of the rounds."""
    return f"{arm}, half"


def gain(arm: str) -> str:
    """Name what an arm gained in the second half of the rounds."""
    return f"{arm}, gain"


def by_halves(tables: Tables, layout: Layout, dirichlet: float) -> pd.DataFrame:
    """Return accuracy at the end and after half of the rounds by seed and arm, each over an eighth of all rounds."""
    rows = tables["curves"]
    rows = rows[(rows["world"] == layout.world) & (rows["dirichlet"] == dirichlet)]
    rounds = int(rows["round"].max())
    some = max(rounds // 8, 1)
    parts = []
    for end, named in ((rounds, str), (rounds // 2, half)):
        last = rows[(rows["round"] > end - some) & (rows["round"] <= end)]
        means = last.groupby(["seed", "arm"])["accuracy"].mean(skipna=False).mul(100).reset_index()
        parts.append(by_run(means, "arm", "accuracy").rename(columns=named))
    return pd.concat(parts, axis=1)


def _taken_apart(tables: Tables, layout: Layout) -> Iterator[Question]:
    """Yield other ranks, and other epochs of the low-rank part, each against those of the authors' code."""
    wide = {layout.first: by_seed(tables, layout, layout.first)}
    yield _asked(layout, "ranks", wide, [(arm, CODE) for arm in other_ranks(layout)])
    yield _asked(layout, "epochs of the low-rank part", wide, [(arm, CODE) for arm in other_epochs(layout).values()])


def _asked(
    layout: Layout,
    words: str,
    wide: Mapping[float, pd.DataFrame],
    pairs: Sequence[Pair],
    metric: str = "accuracy",
    unit: str = "points",
) -> Question:
    arms = list(dict.fromkeys(arm for pair in pairs for arm in pair))
    values = {setting(layout, a): table[arms] for a, table in wide.items()}
    return Question(f"{words} ({layout.world})", metric, values, dict.fromkeys(values, pairs), _design(layout), unit)


def _design(layout: Layout) -> Design:
    ratio = overlap_ratio(layout.train // 3, layout.train, _COMMON)
    return Design(clients="new", data="resplit", test_to_train=ratio)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return what the chapter's words rest on."""
    every, (long, apart) = effects(tables), layouts(tables)
    found = {}
    for a in long.every:
        where, words = setting(long, a), f"Dirichlet {a:g}"
        for other in others(long):
            for metric, (name, _, digits) in METRICS.items():
                what = f"{name}, {CODE} − {other}, {words}"
                effect = every[metric, where, CODE, other]
                found[f"{metric} {other}, {a:g}"] = Finding.of(what, effect, digits=digits)
            effect = every[GAIN, where, gain(CODE), gain(other)]
            found[f"gain − {other}, {a:g}"] = Finding.of(f"{GAIN}, {CODE} − {other}, {words}", effect, digits=1)
        for arm in (CODE, *others(long)):
            effect = every[GAIN, where, arm, half(arm)]
            found[f"gain {arm}, {a:g}"] = Finding.of(f"{GAIN}, {arm}, {words}", effect, digits=1)
    for kind, arms in (("ranks", other_ranks(apart)), ("epochs", other_epochs(apart).values())):
        for arm in arms:
            effect = every["accuracy", setting(apart, apart.first), arm, CODE]
            found[f"{kind}, {arm}"] = Finding.of(f"accuracy, {arm} − {CODE}", effect, digits=1)
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chapter's tables."""
    (long, apart), (of_long, of_apart) = layouts(tables), config["experiments"]
    return {
        "setup": of_long["setup"], "network": of_long["world"]["network"], "apart": of_long["world"]["apart"],
        "world": long.world.rpartition(",")[0], "seeds": {"long": of_long["seeds"], "apart": of_apart["seeds"]},
        "tuning_seeds": of_long["tuning_seeds"], "tuned_at": f"{of_long['tuned_at']:g}",
        "rounds": {"long": of_long["setup"]["rounds"], "apart": of_apart["setup"]["rounds"]},
        "halves": _spans(of_long["setup"]["rounds"]), "lora_epochs": of_long["setup"]["lora_epochs"],
        "every": [f"{a:g}" for a in long.every], "first": f"{apart.first:g}",
        "others": list(others(long)),
        "measures": [{"dirichlet": f"{a:g}", "share": _share(tables, long, a), "rows": _measures(tables, long, a)}
                     for a in long.every],
        "untrained": [
            {"long": layout is long, "dirichlet": f"{a:g}", "arm": arm, "why": words}
            for layout in (long, apart)
            for a in layout.every
            for arm, words in not_trained(tables, layout, a, layout.train).items()
        ],
        "table_1": table_1(tables, long, of_long["world"]["printed"], _design(long)),
        "table_2": _ranks(tables, apart, of_apart["world"]["printed"]),
        "epochs": _epochs(tables, apart),
        "absent": [str(epochs) for epochs in of_apart["lora_epochs"] if epochs not in apart.epochs],
        "tuning": rates_tried(tables["tuning"], long.world),
        "rate": rates_tried(tables["tuning"], apart.world)[0]["rate"],
    }  # fmt: skip


def _spans(rounds: int) -> list[str]:
    """Return which rounds the two halves are judged by."""
    some = max(rounds // 8, 1)
    return [f"{end - some + 1} to {end}" if some > 1 else f"{end}" for end in (rounds // 2, rounds)]


def _share(tables: Tables, layout: Layout, dirichlet: float) -> str:
    """Return how many of a client's images its most frequent class holds, per cent, mean over seeds."""
    return fixed(float(by_seed(tables, layout, dirichlet, "majority_share")[CODE].mean()), 1)


def _measures(tables: Tables, layout: Layout, dirichlet: float) -> list[dict[str, str]]:
    """Tabulate accuracy, balanced accuracy (per cent) and log-loss, 95% limits each for itself."""
    wide = {metric: by_seed(tables, layout, dirichlet, metric) for metric in METRICS}
    within = {LOG_LOSS: (0.0, math.inf)}
    rows = [
        {"arm": arm, **{m: mean_of(table[arm].dropna(), within=within.get(m, PER_CENT)) for m, table in wide.items()}}
        for arm in layout.arms
    ]
    return rounded(rows, **{metric: digits for metric, (_, _, digits) in METRICS.items()})


def _ranks(tables: Tables, layout: Layout, data: str) -> list[dict[str, str]]:
    """Tabulate the paper's Table 2 beside ours by all measures."""
    rows = table_2(by_seed(tables, layout, layout.first), layout, data)
    beside = (_other_measures(tables, layout, arm) for arm in layout.ratios.values())
    return [{**row, "arm": arm, **more} for row, arm, more in zip(rows, layout.ratios.values(), beside, strict=True)]


def _epochs(tables: Tables, layout: Layout) -> list[dict[str, str]]:
    """Tabulate all measures by epochs of the low-rank part."""
    wide = by_seed(tables, layout, layout.first)
    return [
        {"epochs": str(epochs), "arm": arm, "ours": mean_sd(wide[arm]), **_other_measures(tables, layout, arm)}
        for epochs, arm in layout.epochs.items()
    ]


def _other_measures(tables: Tables, layout: Layout, arm: str) -> dict[str, str]:
    """Return an arm's balanced accuracy and log-loss, and what the last fifth of the rounds gave, means over seeds."""
    late = late_gains(tables, layout, layout.first, layout.train)
    return {
        "balanced": fixed(float(by_seed(tables, layout, layout.first, "balanced_accuracy")[arm].mean()), 1),
        "log_loss": fixed(float(by_seed(tables, layout, layout.first, LOG_LOSS)[arm].mean()), 2),
        "late": fixed(float(late[arm].mean()), 1) if arm in late else NONE,
    }


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw accuracy over rounds, means over seeds: of methods by concentration, and of FedDecomp taken apart."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    long, apart = layouts(tables)
    lines: Sequence[Any] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
    methods = {CODE: ("black", "-"), **{o: ("0.45", line) for o, line in zip(others(long), lines, strict=False)}}
    dense = sorted({ratio for ratio, _ in apart.ratios})
    by_rank = {arm: ("black", lines[dense.index(ratio)]) for (ratio, _), arm in apart.ratios.items()}
    grey = iter(("0.45", line) for line in lines)
    by_epochs = {arm: ("black", "-") if arm == CODE else next(grey) for arm in apart.epochs.values()}
    rank_words = {arm: f"$R_l$ = {ratio:g}" for (ratio, _), arm in apart.ratios.items()}
    epoch_words = {arm: f"{epochs} epoch{'s' * (epochs != 1)}" for epochs, arm in apart.epochs.items()}
    with style():
        curves, axes = plt.subplots(1, len(long.every), figsize=(WIDTH, 2.5), sharey=True, layout="constrained")
        for axis, a in zip(axes, long.every, strict=True):
            _draw(axis, tables, long, a, methods, {}, f"Dirichlet {a:g}")
        axes[0].set_ylabel("mean accuracy over clients (per cent)")
        axes[-1].legend(frameon=False, fontsize=6)
        taken, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.5), layout="constrained")
        _draw(axes[0], tables, apart, apart.first, by_rank, rank_words, "ranks")
        _draw(axes[1], tables, apart, apart.first, by_epochs, epoch_words, "epochs of the low-rank part")
        axes[0].set_ylabel("mean accuracy over clients (per cent)")
        for axis in axes:
            axis.legend(frameon=False, fontsize=6)
    return {"curves": curves, "apart": taken}


def _draw(
    axis: Any, tables: Tables, layout: Layout, dirichlet: float, looks: Mapping[str, tuple[str, Any]],
    words: Mapping[str, str], title: str,
) -> None:  # fmt: skip
    """Draw some arms over rounds; arms of the same words have one entry in the legend."""
    rows = tables["curves"]
    rows = rows[(rows["world"] == layout.world) & (rows["dirichlet"] == dirichlet)]
    named = set()
    for arm, (color, line) in looks.items():
        mean = 100 * rows[rows["arm"] == arm].groupby("round")["accuracy"].mean()
        word = words.get(arm, arm)
        axis.plot(mean.index, mean, ls=line, color=color, lw=0.9, label=f"_{word}" if word in named else word)
        named.add(word)
    axis.set_title(title)
    axis.set_xlabel("round")

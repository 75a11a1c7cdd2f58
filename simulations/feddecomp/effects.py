"""The differences that the FedDecomp study reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.design import overlap_ratio
from simulations.effects import Effect, Effects, Question, above_all, once
from simulations.estimates import logarithms
from simulations.feddecomp.cells import CODE, QUESTION
from simulations.feddecomp.per_seed import LOG_LOSS, Layout, by_seed, late_gains, layouts, moved, spreads
from simulations.feddecomp.study import FEDAVG_LOW, LOCAL_LOW, REVERSE, SIMULTANEOUS, SPREAD, rate_arm
from simulations.trained import untrained

#: The largest difference in accuracy that counts as none, points; fixed before any run.
MARGIN = 1.0
#: Test samples of a client, and the share of its samples that a seed has in common with another: of the images at hand,
#: clients draw a part anew for every seed. At quick and smoke scale it is less.
_HELD_OUT, _COMMON = 80, 0.25
#: Images and digits have ten classes, of equal size; per cent.
CHANCE = 10.0
DISTANCE, SPREAD_LOG = "distance", "logarithm of the spread of σ"
CONTROLS, READINGS = QUESTION[:2], QUESTION[2:]
Pair = tuple[str, str]


@once
def effects(tables: Tables) -> Effects:
    """Return all differences; a setting is a world with a concentration and, where it is another, a number of samples.

    An arm that ran under few seeds is compared under these; concentrations with fewer seeds are questions of their own.
    """
    worlds = layouts(tables)
    questions = (question for layout in worlds for question in _questions(tables, layout))
    return Effects(
        questions,
        {
            setting(layout, a, train): not_trained(tables, layout, a, train)
            for layout in worlds
            for a in layout.every
            for train in layout.samples
        },
    )


def not_trained(tables: Tables, layout: Layout, dirichlet: float, train: int) -> dict[str, str]:
    """Return why arms are not trained enough to be judged."""
    accuracy, share = (by_seed(tables, layout, dirichlet, m, train) for m in ("accuracy", "majority_share"))
    gain = late_gains(tables, layout, dirichlet, train)
    of_all = ("FedAvg", FEDAVG_LOW, layout.epochs.get(0, ""), layout.warm.get(0, ""))
    return untrained(accuracy, share, of_all=of_all, chance=CHANCE, gain=gain, margin=MARGIN)


def design(train: int) -> Design:
    """Say how seeds, clients and data belong together where a client has so many training samples."""
    return Design(clients="new", data="resplit", test_to_train=overlap_ratio(_HELD_OUT, train, _COMMON))


def setting(layout: Layout, dirichlet: float, train: int | None = None) -> str:
    """Name a setting."""
    more = "" if train in (None, layout.train) else f", {train} samples a client"
    return f"{layout.world}, Dirichlet {dirichlet:g}{more}"


def above_both(found: Effects, layout: Layout, train: int | None = None) -> dict[tuple[str, float], float]:
    """Return the adjusted p of each reading, with a main concentration, that is shown to be above Local and FedAvg.

    "Above both" is asked of both readings and all main concentrations together.
    """
    asked = {
        (arm, a): [found["accuracy", setting(layout, a, train), arm, other] for other in CONTROLS]
        for arm in READINGS
        for a in layout.main
    }
    p = above_all({str(key): of for key, of in asked.items()})
    return {key: p[str(key)] for key in asked if p[str(key)] < 0.05}


def over_better(found: Effects, layout: Layout, arm: str, dirichlet: float) -> Effect:
    """Return a reading's difference to the better one of Local and FedAvg."""
    return min((found["accuracy", setting(layout, dirichlet), arm, other] for other in CONTROLS), key=_mean)


def _mean(effect: Effect) -> float:
    return effect.mean


def _questions(tables: Tables, layout: Layout) -> Iterator[Question]:
    """Yield the questions of a world."""
    wide = {a: by_seed(tables, layout, a) for a in layout.every}
    both = [(arm, other) for arm in READINGS for other in CONTROLS]
    every = [(arm, other) for arm in READINGS for other in layout.others]
    for some, words in ((layout.main, ""), (layout.further, ", further concentrations")):
        yield from _asked(layout, f"FedDecomp against Local and FedAvg{words}", {a: wide[a] for a in some}, both)
        yield from _asked(layout, f"FedDecomp against the other methods{words}", {a: wide[a] for a in some}, every)
    main = {a: wide[a] for a in layout.main}
    for metric, words, unit in ((LOG_LOSS, "log-loss", "nats"), ("balanced_accuracy", "balanced accuracy", "points")):
        measured = {a: by_seed(tables, layout, a, metric) for a in layout.main}
        yield from _asked(layout, f"FedDecomp against Local and FedAvg by {words}", measured, both, words, unit)
    for n in layout.samples:
        if n != layout.train:
            fewer = {a: by_seed(tables, layout, a, train=n) for a in layout.main}
            words = f"FedDecomp against Local and FedAvg, {n} samples a client"
            yield from _asked(layout, words, fewer, both, train=n)
    at_rate = [(rate_arm(arm), other) for arm in READINGS for other in CONTROLS]
    yield from _asked(layout, "FedDecomp at the paper's rate against Local and FedAvg", main, at_rate)
    if layout.turns:
        yield from _turns(tables, layout, main)
    if layout.doses:
        yield from _doses(tables, layout, main[layout.first])


def _turns(tables: Tables, layout: Layout, main: Mapping[float, pd.DataFrame]) -> Iterator[Question]:
    """Yield the questions of Tables 3 to 5 and Figure 6."""
    first = main[layout.first]
    yield from _asked(layout, "in turns or at once", main, [(CODE, SIMULTANEOUS)])
    yield from _asked(layout, "roles exchanged", main, [(REVERSE, CODE), (REVERSE, "Local")])
    low = [(LOCAL_LOW, "Local"), (FEDAVG_LOW, "FedAvg")]
    yield from _asked(layout, "methods with low-rank parts", {layout.first: first}, low)
    means = {arm: spreads(tables, layout, arm).mean(axis=1, skipna=False) for arm in sum(SPREAD.values(), ())}
    logs = pd.DataFrame({arm: logarithms(mean).fillna(math.inf) for arm, mean in means.items()})
    pairs = [(alternating, other) for alternating, *others in SPREAD.values() for other in others]
    yield from _asked(layout, "spread in turns or at once", {layout.first: logs}, pairs, SPREAD_LOG, "")


def _doses(tables: Tables, layout: Layout, first: pd.DataFrame) -> Iterator[Question]:
    """Yield the questions about ranks, epochs of the low-rank part and pre-trained starts."""
    yield from _asked(layout, "ranks", {layout.first: by_ranks(first, layout)}, list(RANKS.values()))
    yield from _asked(layout, "epochs of the low-rank part", {layout.first: first}, epoch_pairs(layout))
    changes, pairs = _starts(first, layout)
    yield from _asked(layout, "a pre-trained start", {layout.first: changes}, pairs)
    far = {layout.first: _distances(tables, layout)}
    yield from _asked(layout, "distances from a pre-trained start", far, distance_pairs(layout), DISTANCE, "")


def _asked(
    layout: Layout,
    words: str,
    wide: Mapping[float, pd.DataFrame],
    pairs: Sequence[Pair],
    metric: str = "accuracy",
    unit: str = "points",
    train: int | None = None,
) -> Iterator[Question]:
    """Yield a question about the pairs that ran, on the seeds that all of its arms have; none if there is no pair.

    In `wide` NaN stands where nothing ran, and infinity where a run left no number.
    """
    values, asked = {}, {}
    for a, table in wide.items():
        there = [pair for pair in pairs if set(pair) <= set(table.dropna(axis=1, how="all"))]
        if there:
            arms = list(dict.fromkeys(arm for pair in there for arm in pair))
            values[setting(layout, a, train)] = table[arms].dropna()
            asked[setting(layout, a, train)] = there
    if asked:
        yield Question(f"{words} ({layout.world})", metric, values, asked, design(train or layout.train), unit)


# --- ablations ----------------------------------------------------------------------------------------------------

#: What ranks do, two and two: from the smallest to the largest, both effects without sign, and the paper's choice.
RANKS = {
    "R_l": ("largest R_l", "smallest R_l"), "R_c": ("largest R_c", "smallest R_c"),
    "order": ("effect of R_l", "effect of R_c"), "choice": (CODE, "other ranks"),
}  # fmt: skip


def by_ranks(wide: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Return the columns of `RANKS`, on the seeds that all ranks have."""
    wide = wide[list(dict.fromkeys(layout.ratios.values()))].dropna()
    grid = pd.concat({pair: wide[arm] for pair, arm in layout.ratios.items()}, axis=1)
    found: dict[str, pd.Series] = {}
    for level, name in enumerate(("R_l", "R_c")):
        means = grid.T.groupby(level=level).mean().T
        found |= dict(zip(RANKS[name], (means.iloc[:, -1], means.iloc[:, 0]), strict=True))
        found[f"effect of {name}"] = (means.iloc[:, -1] - means.iloc[:, 0]).abs()
    found |= {CODE: wide[CODE], "other ranks": wide.drop(columns=CODE).mean(axis=1)}
    return pd.DataFrame(found).fillna(math.inf)  # the difference of two runs without a number


def epoch_pairs(layout: Layout) -> list[Pair]:
    """Return two epochs of the low-rank part against none, all against two, against none, and against Local."""
    none, two, most = (layout.epochs[e] for e in (0, 2, max(layout.epochs)))
    return [(two, none), (most, two), (most, none), (most, "Local")]


PRETRAINED, RANDOM = "change, pre-trained", "change, random start"


def start_pairs(layout: Layout) -> dict[str, Pair]:
    """Return what Table 6 asks of accuracy: change over the epochs of the low-rank part, and what the start is worth.

    From a random start as far as it has the same epochs.
    """
    most, none = max(layout.warm), min(layout.warm)
    found = {"accuracy": (layout.warm[most], layout.warm[none])}
    top = max(e for e in layout.warm if e in layout.epochs)
    if top > none and none in layout.epochs:
        found |= {
            "random start": (layout.epochs[top], layout.epochs[none]),
            "changes": (PRETRAINED, RANDOM),
            "start": (layout.warm[top], layout.epochs[top]),
        }
    return found


def _starts(wide: pd.DataFrame, layout: Layout) -> tuple[pd.DataFrame, list[Pair]]:
    """Return accuracies with the change from either start, and the pairs about which nobody has asked yet."""
    pairs = start_pairs(layout)
    if "start" in pairs:
        top, random = pairs["start"]
        none, begun = layout.warm[min(layout.warm)], pairs["random start"][1]
        wide = wide.assign(**{PRETRAINED: _change(wide, top, none), RANDOM: _change(wide, random, begun)})
    return wide, [pair for pair in pairs.values() if pair not in epoch_pairs(layout)]


def _change(wide: pd.DataFrame, a: str, b: str) -> pd.Series:
    return (wide[a] - wide[b])[wide[[a, b]].notna().all(axis=1)].fillna(math.inf)


def distance_pairs(layout: Layout) -> list[Pair]:
    """Return, for a pre-trained start, τ against σ at most epochs, and σ at most epochs against σ at fewest."""
    most, none = max(layout.warm), min(layout.warm)
    return [(_far("τ", most), _far("σ", most)), (_far("σ", most), _far("σ", none))]


def _far(part: str, epochs: int) -> str:
    return f"{part}, {epochs} epochs of the low-rank part"


def _distances(tables: Tables, layout: Layout) -> pd.DataFrame:
    far = {e: moved(tables, layout, arm) for e, arm in layout.warm.items()}
    parts = {"σ": "sigma", "τ": "tau"}
    return pd.DataFrame({_far(part, e): far[e][column].fillna(math.inf) for e in far for part, column in parts.items()})

"""What the study of Factorized-FL's Table 1 hands to its chapter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import LEVEL, Effect, Effects, to_the_better
from simulations.estimates import mean_of
from simulations.factorized.arms import ARMS, FACTORIZED, READINGS
from simulations.factorized.cells import Cell
from simulations.factorized.judged import (
    ACCURACY,
    AT_THE_END,
    EARLIER,
    LABELS,
    MARGIN,
    YARDSTICKS,
    above_both,
    agreement,
    cells,
    earlier_as_printed,
    effects,
    key,
    megabytes,
    method_of,
    of_paper,
    per_seed,
    printed_costs,
)
from simulations.factorized.pictures import drawn, title
from simulations.showing import NONE, fixed, rounded, sought

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PER_CENT = (0.0, 100.0)
#: A ratio of costs agrees with the printed one if it lies within this share of it.
CLOSE = 0.1
#: The paper's clients and rounds on one data set, for costs with its network.
PAPER_CLIENTS, PAPER_ROUNDS = 20, 50
#: How many images the complete data sets have.
COMPLETE = {"cifar10": 60_000, "tiny-imagenet": 110_000, "cifar100": 60_000, "svhn": 99_289, "digits": 1_797}
NAMES = {
    "cifar10": "CIFAR-10", "tiny-imagenet": "Tiny-ImageNet", "cifar100": "CIFAR-100", "svhn": "SVHN",
    "digits": "scikit-learn's digits",
}  # fmt: skip


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the differences that the chapter's table shows, and what permuting labels changes."""
    known, found = effects(tables), {}
    for cell in cells(tables):
        for first, second in _pairs(known, cell):
            what = f"accuracy of {first} minus {second}, {key(cell)} labels"
            effect = known[ACCURACY, key(cell), first, second]
            found[f"{first} - {second}: {key(cell)}"] = Finding.of(what, effect, digits=1)
    for effect in known.among(LABELS):
        arm = effect.first.removesuffix(", permuted")
        what = f"accuracy with permuted labels minus that with standard ones: {arm}, {effect.setting}"
        found[f"robust: {arm}, {effect.setting}"] = Finding.of(what, effect, digits=1)
    return found


def _pairs(known: Effects, cell: Cell) -> list[tuple[str, str]]:
    """Return the pairs of the chapter's table of differences that ran in a cell."""
    pairs = [(arm, yardstick) for yardstick in YARDSTICKS for arm in FACTORIZED]
    pairs += [(arm, "Local") for arm in EARLIER]
    return [pair for pair in pairs if (ACCURACY, key(cell), *pair) in known]


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return accuracies and costs beside the paper's, differences, and where the method works as its paper says."""
    run = cells(tables)
    known = effects(tables)
    leads = [
        to_the_better(known[ACCURACY, key(cell), arm, other] for other in YARDSTICKS)
        for cell, arm in product(run, FACTORIZED)
    ]
    return {
        "cells": [{"key": key(cell), "title": title(cell), "private": cell.permuted} for cell in run],
        "accuracy": [_row(tables, run, arm, "accuracy", 1) for arm in ARMS],
        "balanced": [_row(tables, run, arm, "balanced_accuracy", 1) for arm in ARMS],
        "log_loss": [_row(tables, run, arm, "log_loss", 2) for arm in ARMS],
        "majority": {key(cell): fixed(per_seed(tables, cell, "majority_share").mean().mean(), 1) for cell in run},
        "agreement": _agreements(tables, known, run),
        "differences": _differences(known, run),
        "together": _together(known),
        "robust": _robust(known, run),
        "margin": fixed(MARGIN, 0),
        "unfound": sought(leads, 1) | {"lead": fixed(float(np.max([e.high for e in leads])), 1)},
        "robust_unfound": sought([e for e in known.among(LABELS) if e.outcome(MARGIN) == "undecided"], 1),
        "last": _last(known, run),
        **_where_it_works(known, run),
        "costs": _costs(tables, run, config["clients"]),
        "close": f"{100 * CLOSE:g}%",
        "tuning": _tuning(tables),
        "rates": [f"{lr:g}" for lr in sorted(tables["tuning"]["lr"].unique())],
        "ends": sorted(tables["tuning"].loc[tables["tuning"]["end"].astype(bool), "arm"].unique()),
        "seeds": int(tables["values"]["seed"].nunique()),
        "images": _images(tables),
        "tuned_at": title(Cell(*config["tuned_at"])),
        "proof": _proof(tables, known, run, config),
    }


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw accuracy over rounds and over the bytes that travelled, a panel per cell."""
    return {"rounds": drawn(tables, "round"), "bytes": drawn(tables, "megabytes")}


def _proof(tables: Tables, known: Effects, run: Sequence[Cell], config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the experiment that the paper's claim stands or falls with: permuted labels, where rates were tuned.

    Where labels are permuted, FedAvg keeps its head with the client.
    """
    cell = Cell(*config["tuned_at"])
    if not cell.permuted or cell not in run:
        return []
    rivals = {"Local": "Local", "FedAvg": "a private head"}
    short = {arm: arm.removeprefix("Factorized-FL ") for arm in FACTORIZED}
    names = {f"{a} - {b}: {key(cell)}": f"{short[a]} minus {rivals[b]}" for a in FACTORIZED for b in rivals}
    said = of_paper(cell)["value"]
    wanted = {"Local": "Local", "FedAvg": "private head", "Factorized-FL α": "α", "Factorized-FL β": "β"}
    return [
        {
            "what": f"{config['clients']} clients of {config['samples']} images of {NAMES[cell.data]}, {title(cell)}, "
            f"{config['rounds']} rounds, {int(tables['values']['seed'].nunique())} seeds",
            "findings": list(names),
            "names": names,
            "beside": [found for reading in READINGS if (found := agreement(tables, known, cell, reading))],
            "printed": ", ".join(f"{word} {fixed(said[name], 1)}" for name, word in wanted.items() if name in said),
        }
    ]


def _row(tables: Tables, run: Sequence[Cell], arm: str, metric: str, digits: int) -> dict[str, Any]:
    """Return an arm's mean and interval in each cell and, of accuracy, what the paper printed."""
    row: dict[str, Any] = {"arm": arm}
    for cell in run:
        table, theirs = per_seed(tables, cell, metric), of_paper(cell)
        ours = NONE
        if arm in table:
            within = (0.0, float("inf")) if metric == "log_loss" else PER_CENT
            ours = rounded([{"one": mean_of(table[arm], within=within)}], one=digits)[0]["one"]
        known = metric == "accuracy" and method_of(arm) in theirs.index
        row[key(cell)] = {"ours": ours, "printed": fixed(theirs["value"][method_of(arm)], 1) if known else NONE}
    return row


def _agreements(tables: Tables, known: Effects, run: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return the three answers for each cell and reading."""
    found = []
    for cell in run:
        for reading in READINGS:
            if one := agreement(tables, known, cell, reading):
                found.append({"title": title(cell), "reading": reading, "first": reading == READINGS[0], **one})
    return found


def _together(known: Effects) -> list[dict[str, Any]]:
    """Return the questions of the chapter's table of differences, and how many intervals of each hold together."""
    together = {effect.question: effect.together for effect in known.values() if effect.metric == ACCURACY}
    shown = ("Factorized-FL", "the earlier methods")
    return [{"question": words, "of": of} for words, of in together.items() if words.startswith(shown)]


def _differences(known: Effects, run: Sequence[Cell]) -> list[dict[str, Any]]:
    """Tabulate pairs by cell, with the sign of each."""
    pairs = dict.fromkeys(pair for cell in run for pair in _pairs(known, cell))
    rows = []
    for first, second in pairs:
        row: dict[str, Any] = {"first": first, "second": second}
        for cell in run:
            effect = known.get((ACCURACY, key(cell), first, second))
            row[key(cell)] = rounded([{"one": effect and effect.estimate}], one=1)[0]["one"]
            row[f"sign {key(cell)}"] = _sign(effect) if effect else ""
        rows.append(row)
    return rows


def _last(known: Effects, run: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return by how many points each arm of Factorized-FL is above FedAvg at the last round, by cell."""
    found = [(cell, known[AT_THE_END, key(cell), arm, "FedAvg"]) for cell in run for arm in FACTORIZED]
    rows = [{"arm": e.first, "title": title(cell), "ahead": e.mean > 0, "estimate": e.estimate} for cell, e in found]
    return rounded(rows, estimate=1)


def _sign(effect: Effect) -> str:
    return "+" if effect.low > 0 else "−" if effect.high < 0 else ""


def _robust(known: Effects, run: Sequence[Cell]) -> list[dict[str, Any]]:
    """Tabulate what permuting labels changes, whether it is equivalent, different or undecided, and as printed."""
    rows = []
    for effect in known.among(LABELS):
        arm, (data, partition) = effect.first.removesuffix(", permuted"), effect.setting.split(", ")
        there, standard = (
            next(of_paper(c)["value"] for c in run if (c.data, c.partition, c.labels) == (data, partition, labels))
            for labels in ("permuted", "standard")
        )
        method = method_of(arm)
        change = there[method] - standard[method] if method in there.index else float("nan")
        rows.append(
            {"arm": arm, "partition": partition, "estimate": effect.estimate, "outcome": effect.outcome(MARGIN),
             "printed": fixed(change, 1)}
        )  # fmt: skip
    return rounded(rows, estimate=1)


def _where_it_works(known: Effects, run: Sequence[Cell]) -> dict[str, Any]:
    """Return in which cells each arm of Factorized-FL is above both yardsticks, and how often above each."""
    p = above_both(known, run)
    found = {arm: [cell for cell in run if p[arm, cell] < 1 - LEVEL] for arm in FACTORIZED}
    counts = [{"arm": arm, "cells": [title(cell) for cell in some], "of": len(run)} for arm, some in found.items()]

    def signs(pairs: Iterable[tuple[Cell, str, str]]) -> dict[str, int]:
        every = [_sign(known[ACCURACY, key(cell), a, b]) for cell, a, b in pairs]
        return {"of": len(every), "more": every.count("+"), "less": every.count("−")}

    ahead = {arm: {other: signs((cell, arm, other) for cell in run) for other in YARDSTICKS} for arm in FACTORIZED}
    permuted = [(cell, *pair) for cell in run if cell.permuted for pair in _pairs(known, cell)]
    earlier = [(cell, arm, other) for cell, arm, other in permuted if arm in EARLIER]
    above, of = earlier_as_printed()
    return {
        "works": counts,
        "claims": len(p),
        "anywhere": any(found.values()),
        "ahead": ahead,
        "earlier": signs(earlier)
        | sought([known[ACCURACY, key(cell), a, b] for cell, a, b in earlier], 1)
        | {"printed_above": above, "printed_of": of},
    }


def _costs(tables: Tables, run: Sequence[Cell], clients: int) -> list[dict[str, Any]]:
    """Tabulate printed costs, those of the authors' network by our codec and those of our runs, with ratios."""
    theirs, rows = printed_costs(), []
    ours = {cell: megabytes(tables, cell, clients) for cell in run}
    gigabytes: dict[str, float] = {}
    if "costs" in tables:
        table = tables["costs"][tables["costs"]["labels"] == "standard"]
        total = (table["up"] + table["down"]) * PAPER_CLIENTS * PAPER_ROUNDS / 1e9
        gigabytes = dict(zip(table["arm"], total, strict=True))
    for arm in ARMS[1:]:
        said, got = theirs[method_of(arm)] / theirs["FedAvg"], float("nan")
        if arm in gigabytes:
            got = gigabytes[arm] / gigabytes["FedAvg"]
        row: dict[str, Any] = {
            "arm": arm,
            "printed": fixed(theirs[method_of(arm)], 2),
            "printed_ratio": _ratio(said),
            "network": fixed(gigabytes.get(arm, float("nan")), 2),
            "network_ratio": _ratio(got),
            "agrees": NONE if got != got else "yes" if abs(got / said - 1) <= CLOSE else "no",
        }
        for cell, total_mb in ours.items():
            value = total_mb.get(arm, float("nan"))
            row[key(cell)] = {"mb": fixed(value, 1 if value < 100 else 0), "ratio": _ratio(value / total_mb["FedAvg"])}
        rows.append(row)
    return rows


def _ratio(value: float) -> str:
    return fixed(value, 3 if value < 1 else 2)


def _tuning(tables: Tables) -> list[dict[str, Any]]:
    """Tabulate validation accuracy by learning rate, and the rate chosen; nothing where rates were given."""
    tuning = tables["tuning"]
    if "accuracy" not in tuning:
        return []
    rows = []
    for arm, group in tuning.groupby("arm", sort=False):
        mean = group.groupby("lr")["accuracy"].agg(lambda a: a.mean(skipna=False))
        chosen = float(group.loc[group["chosen"], "lr"].iloc[0])
        rows.append({"arm": arm, "chosen": f"{chosen:g}", **{f"{lr:g}": fixed(100 * v, 1) for lr, v in mean.items()}})
    return rows


def _images(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return for each data set its name, how many images there are, and whether these are all."""
    return {
        str(row["data"]): {
            "name": NAMES[row["data"]],
            "images": f"{row['images']:,}",
            "all": bool(row["images"] >= COMPLETE[row["data"]]),
        }
        for row in tables["data"].to_dict("records")
    }

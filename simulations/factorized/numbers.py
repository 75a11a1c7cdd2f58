"""What the study of Factorized-FL's Table 1 hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.estimates import difference_of, mean_of
from simulations.factorized.arms import ARMS, FACTORIZED, READINGS
from simulations.factorized.cells import Cell
from simulations.factorized.judged import (
    EARLIER,
    MARGIN,
    YARDSTICKS,
    Judged,
    agreement,
    cells,
    differences,
    earlier_as_printed,
    key,
    megabytes,
    method_of,
    of_cell,
    of_paper,
    per_seed,
    printed_costs,
    robustness,
    works,
)
from simulations.factorized.pictures import drawn, title
from simulations.showing import NONE, fixed, rounded

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
    """Return each cell's differences, with intervals that hold together in it, and what permuting labels changes."""
    found = {}
    for cell in cells(tables):
        for (first, second), estimate in differences(tables, cell).estimates.items():
            what = f"accuracy of {first} less {second}, {key(cell)} labels"
            found[f"{first} less {second}: {key(cell)}"] = Finding.of(what, estimate, unit=" points", digits=1)
    for (first, _), estimate in robustness(tables).estimates.items():
        what = f"accuracy with permuted labels less with standard ones: {first}"
        found[f"robust: {first}"] = Finding.of(what, estimate, unit=" points", digits=1)
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return accuracies and costs beside the paper's, differences, and where the method works as its paper says."""
    run = cells(tables)
    judged = {key(cell): differences(tables, cell) for cell in run}
    return {
        "cells": [{"key": key(cell), "title": title(cell), "private": cell.permuted} for cell in run],
        "accuracy": [_row(tables, run, arm, "accuracy", 1) for arm in ARMS],
        "balanced": [_row(tables, run, arm, "balanced_accuracy", 1) for arm in ARMS],
        "log_loss": [_row(tables, run, arm, "log_loss", 2) for arm in ARMS],
        "majority": {key(cell): fixed(per_seed(tables, cell, "majority_share").mean().mean(), 1) for cell in run},
        "agreement": _agreements(tables, run),
        "differences": _differences(judged),
        "moderated": sum(one.moderated for one in judged.values()),
        "robust": _robust(robustness(tables), run),
        "margin": fixed(MARGIN, 0),
        "half": fixed(_half_width(judged), 1),
        "last": _last(tables, run),
        **_where_it_works(tables, run),
        "costs": _costs(tables, run, config["clients"]),
        "close": f"{100 * CLOSE:g}%",
        "tuning": _tuning(tables),
        "rates": [f"{lr:g}" for lr in sorted(tables["tuning"]["lr"].unique())],
        "ends": sorted(tables["tuning"].loc[tables["tuning"]["end"].astype(bool), "arm"].unique()),
        "seeds": int(tables["values"]["seed"].nunique()),
        "images": _images(tables),
        "tuned_at": title(Cell(*config["tuned_at"])),
        "proof": _proof(tables, run, config),
    }


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw accuracy over rounds and over the bytes that travelled, a panel per cell."""
    return {"rounds": drawn(tables, "round"), "bytes": drawn(tables, "megabytes")}


def _proof(tables: Tables, run: Sequence[Cell], config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the experiment that the paper's claim stands or falls with: permuted labels, where rates were tuned.

    Where labels are permuted, FedAvg keeps its head with the client.
    """
    cell = Cell(*config["tuned_at"])
    if not cell.permuted or cell not in run:
        return []
    rivals = {"Stand-Alone": "Local", "FedAvg": "a private head"}
    short = {arm: arm.removeprefix("Factorized-FL ") for arm in FACTORIZED}
    names = {f"{a} less {b}: {key(cell)}": f"{short[a]}, less {rivals[b]}" for a in FACTORIZED for b in rivals}
    said = of_paper(cell)["value"]
    wanted = {"Stand-Alone": "Local", "FedAvg": "private head", "Factorized-FL α": "α", "Factorized-FL β": "β"}
    return [
        {
            "what": f"{config['clients']} clients of {config['samples']} images of {NAMES[cell.data]}, {title(cell)}, "
            f"{config['rounds']} rounds, {int(tables['values']['seed'].nunique())} seeds",
            "findings": list(names),
            "names": names,
            "beside": [found for reading in READINGS if (found := agreement(tables, cell, reading))],
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


def _agreements(tables: Tables, run: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return the three answers for each cell and reading."""
    found = []
    for cell in run:
        for reading in READINGS:
            if one := agreement(tables, cell, reading):
                found.append({"title": title(cell), "reading": reading, "first": reading == READINGS[0], **one})
    return found


def _differences(judged: Mapping[str, Judged]) -> list[dict[str, Any]]:
    """Tabulate pairs by cell, with the sign of each."""
    pairs = [(arm, yardstick) for yardstick in YARDSTICKS for arm in FACTORIZED]
    pairs += [(arm, "Stand-Alone") for arm in EARLIER]
    rows = []
    for first, second in pairs:
        row: dict[str, Any] = {"first": first, "second": second}
        for cell, one in judged.items():
            estimate = one.estimates.get((first, second))
            row[cell] = NONE if estimate is None else rounded([{"one": estimate}], one=1)[0]["one"]
            row[f"sign {cell}"] = "" if estimate is None else _sign(*estimate[1:])
        rows.append(row)
    return rows


def _half_width(judged: Mapping[str, Judged]) -> float:
    """Return the median half-width, in points, of Factorized-FL's differences to both yardsticks."""
    limits = [one.estimates[arm, other] for one in judged.values() for arm in FACTORIZED for other in YARDSTICKS]
    return median((high - low) / 2 for _, low, high in limits)


def _last(tables: Tables, run: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return by how many points each arm of Factorized-FL is above FedAvg at the last round, by cell, not adjusted."""
    rows = []
    for cell in run:
        curves = of_cell(tables["curves"], cell)
        wide = 100 * curves[curves["round"] == curves["round"].max()].pivot(
            index="seed", columns="arm", values="accuracy"
        )
        for arm in FACTORIZED:
            d = difference_of(wide[arm], wide["FedAvg"])
            rows.append({"arm": arm, "title": title(cell), "ahead": d.mean > 0, "estimate": (d.mean, d.low, d.high)})
    return rounded(rows, estimate=1)


def _sign(low: float, high: float) -> str:
    return "+" if low > 0 else "−" if high < 0 else ""


def _robust(judged: Judged, run: Sequence[Cell]) -> list[dict[str, Any]]:
    """Tabulate what permuting labels changes, whether it is equivalent, different or undecided, and as printed."""
    rows = []
    said = {key(cell): of_paper(cell)["value"] for cell in run}
    for (first, second), estimate in judged.estimates.items():
        _, low, high = estimate
        outcome = "different" if _sign(low, high) else "undecided"
        if max(-low, high) < MARGIN:
            outcome = "equivalent"
        arm = next(arm for arm in ARMS if first.startswith(f"{arm}, "))
        there, standard, method = first.removeprefix(f"{arm}, "), second.removeprefix(f"{arm}, "), method_of(arm)
        change = float("nan")
        if method in said[there].index:
            change = said[there][method] - said[standard][method]
        row = {"arm": arm, "partition": there.split(", ")[1], "estimate": estimate, "outcome": outcome}
        rows.append(row | {"printed": fixed(change, 1)})
    return rounded(rows, estimate=1)


def _where_it_works(tables: Tables, run: Sequence[Cell]) -> dict[str, Any]:
    """Return in which cells each arm of Factorized-FL is above both yardsticks, and above Stand-Alone alone."""
    found = works(tables)
    counts = [{"arm": arm, "cells": [title(cell) for cell in some], "of": len(run)} for arm, some in found.items()]
    estimates = [differences(tables, cell).estimates for cell in run]
    ahead = {
        arm: {
            second: {
                "more": sum(e[arm, second][1] > 0 for e in estimates),
                "less": sum(e[arm, second][2] < 0 for e in estimates),
            }
            for second in YARDSTICKS
        }
        for arm in FACTORIZED
    }
    permuted = [e for cell, e in zip(run, estimates, strict=True) if cell.permuted]
    below = [(arm, e[arm, "Stand-Alone"]) for e in permuted for arm in EARLIER if (arm, "Stand-Alone") in e]
    return {
        "works": counts,
        "anywhere": any(found.values()),
        "ahead": ahead,
        "earlier": {
            "of": len(below),
            "above": sum(low > 0 for _, (_, low, _) in below),
            "below": sum(high < 0 for _, (_, _, high) in below),
            "printed_above": earlier_as_printed()[0],
            "printed_of": earlier_as_printed()[1],
        },
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

"""What the complexity study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedstat._tables import Tables
from simulations.complexity.study import LABELS
from simulations.contract import Finding
from simulations.effects import DRAWN, Effects, Question
from simulations.estimates import mean_of, note
from simulations.showing import fixed, rounded, total

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANGE = (-1.0, 1.0)
#: Decimals of term and loss, by labels.
DIGITS = {"linear": (3, 4), "relu": (3, 4), "random": (1, 3)}


def finest_and_coarsest(tables: Tables) -> tuple[str, str]:
    """Name the largest and the smallest number of clients."""
    clients = tables["repeats"]["clients"]
    return f"{clients.max()} clients", f"{clients.min()} clients"


def effects(tables: Tables) -> Effects:
    """Return what dealing a sample most finely does to the loss, by labels."""
    repeats = tables["repeats"].assign(clients=lambda t: t["clients"].astype(str) + " clients")
    losses = {
        str(labels): rows.pivot(index="seed", columns="clients", values="loss")
        for labels, rows in repeats.groupby("labels", sort=False)
    }
    pairs = {labels: [finest_and_coarsest(tables)] for labels in losses}
    return Effects([Question("the loss of the finest partition", "loss", losses, pairs, DRAWN)])


def findings(tables: Tables) -> dict[str, Finding]:
    """Return rank correlations of term and loss, and what dealing more finely does to the loss."""
    found, known, ends = {}, effects(tables), finest_and_coarsest(tables)
    for labels, words in LABELS.items():
        ranks = tables["ranks"].loc[tables["ranks"]["labels"] == labels, "correlation"]
        what = f"rank correlation of term and loss over partitions, {words}"
        found[f"rank {labels}"] = Finding.of(what, mean_of(ranks, within=RANGE))
        effect = known["loss", labels, *ends]
        found[f"loss {labels}"] = Finding.of(
            f"loss with {ends[0]} minus that with {ends[1]}, {words}", effect, digits=3
        )
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return term and loss by labels and partition, and how often the term says anything."""
    summary = tables["summary"].set_index(["labels", "clients", "what"]).sort_index()
    repeats = tables["repeats"].assign(below=lambda t: (t["term"] < 1).astype(float).where(t["term"].notna()))
    below = repeats.groupby(["labels", "clients"])["below"].sum(skipna=False)
    rows = [
        {
            "labels": words,
            "first": clients == min(config["clients"]),
            "clients": f"{clients}",
            "term": tuple(summary.loc[(labels, clients, "term"), ["mean", "low", "high"]]),
            "loss": tuple(summary.loc[(labels, clients, "loss"), ["mean", "low", "high"]]),
            "below": f"{fixed(below[labels, clients], 0)} of {config['seeds']}",
        }
        for labels, words in LABELS.items()
        for clients in config["clients"]
    ]
    blocks = [(term, loss, [r for r in rows if r["labels"] == LABELS[key]]) for key, (term, loss) in DIGITS.items()]
    shown = [row for term, loss, block in blocks for row in rounded(block, term=term, loss=loss)]
    ranks = {key: found for key, found in findings(tables).items() if key.startswith("rank ")}
    note(repeats["term"], repeats["loss"])
    # where the term is not known it may be below one
    counted = repeats[~(repeats["term"] >= 1)]
    excess, ratio = counted["loss"] - counted["term"], counted["loss"] / counted["term"].where(counted["term"] > 0)
    return {
        "rows": [{**row, "term": _short(row["term"]), "loss": _short(row["loss"])} for row in shown],
        "ranks": {
            key.removeprefix("rank "): f"{r.mean:g} on every sample" if r.low == r.high else r.text
            for key, r in ranks.items()
        },
        # a mark covers about a sixth of a value on either side
        "hidden": bool((tables["summary"]["high"] < 1.3 * tables["summary"]["low"]).all()),
        "labels": [{"key": labels, "words": words} for labels, words in LABELS.items()],
        "settings": len(below),
        "saying": total(below.clip(upper=1)),
        # neither none of them nor all
        "partly": total((below % config["seeds"]).clip(upper=1)),
        "counted": total(below),
        "repeats": len(repeats),
        "broken": total((excess > 0).where(excess.notna())),
        "sharpest": fixed(ratio.max(skipna=False), 2) if len(counted) else None,
    }


def _short(estimate: str) -> str:
    """Leave out limits that round to the mean."""
    mean = estimate.partition(" ")[0]
    return mean if estimate == f"{mean} [{mean}, {mean}]" else estimate


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw term and loss over the number of clients, each line named at its end."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    marks = {"linear": "o", "relu": "^", "random": "s"}
    # a log scale has no zero
    summary = tables["summary"].assign(mean=lambda t: t["mean"].where(t["mean"] > 0))
    clients = sorted(summary["clients"].unique())
    with style():
        figure, axis = plt.subplots(figsize=(WIDTH, 3.0), layout="constrained")
        axis.axhspan(1, 1e3, color="0.92", lw=0)
        for labels, mark in marks.items():
            for what, words, line, fill in (("term", "term", "-", "black"), ("loss", "loss", ":", "white")):
                rows = summary[(summary["labels"] == labels) & (summary["what"] == what)]
                bars = [(rows["mean"] - rows["low"]).clip(0), (rows["high"] - rows["mean"]).clip(0)]
                axis.errorbar(
                    rows["clients"], rows["mean"], bars, fmt=mark + line, color="black", mfc=fill, ms=4, lw=0.9
                )
                end = (1.12 * clients[-1], rows["mean"].iloc[-1])
                axis.annotate(f"{words}, {LABELS[labels]}", end, va="center", fontsize=7, annotation_clip=False)
        axis.set_xscale("log", base=2)
        axis.set_xlim(0.85 * clients[0], 3.2 * clients[-1])
        axis.set_xticks(clients, [str(c) for c in clients])
        axis.minorticks_off()
        axis.set_yscale("log")
        if summary["mean"].notna().any():
            axis.set_ylim(summary["mean"].min() / 2, 2 * summary["mean"].max())
        axis.set(xlabel="clients among whom one sample is dealt", ylabel="complexity term and measured loss")
    return {"complexity": figure}

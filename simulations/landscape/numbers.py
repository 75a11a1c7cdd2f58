"""What the study of the landscape hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import DRAWN, Effects, Question
from simulations.estimates import logarithms, mean_of, means_by
from simulations.showing import rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.95
OURS, CONTROL = "FilterDecomp", "FedAvg"
#: From this round on the paper's Figure 4a shows the lower loss for the decomposition.
TURN = 20
#: What is measured of clients: as a ratio of virtual to local clients, or as a difference.
RATIOS = {"spread": "root mean square distance from the aggregate", "farthest": "largest distance from the aggregate"}
DIFFERENCES = {"excess": "mean loss above the aggregate's", "worst": "largest loss above the aggregate's"}


def effects(tables: Tables) -> Effects:
    """Return differences in training loss, between virtual and local clients, and of projections."""
    losses, virtual, plane = _losses(tables["curves"]), _virtual(tables["close"]), tables["plane"]
    logs = {name: logarithms(virtual[name]) for name in RATIOS}
    kinds, ends = [("virtual", "local")], [("projected", "end")]
    projected = {str(arm): rows.set_index("seed")[["projected", "end"]] for arm, rows in plane.groupby("arm")}
    return Effects(
        Question(words, metric, values, dict.fromkeys(values, pairs), DRAWN, unit)
        for words, metric, values, pairs, unit in (
            ("the training loss, early and late", "training loss", losses, [(OURS, CONTROL)], "nats"),
            ("how far virtual clients lie", "logarithm", logs, kinds, ""),
            ("how bad virtual clients are", "loss", {name: virtual[name] for name in DIFFERENCES}, kinds, "nats"),
            ("what a projection loses", "loss of the last network", projected, ends, "nats"),
        )
    )


def findings(tables: Tables) -> dict[str, Finding]:
    """Return differences in training loss, what virtual clients come to beside local ones, and what the plane holds."""
    asked, curves = effects(tables), tables["curves"]
    found = {}
    for name, (first, final) in _periods(curves).items():
        words = f"training loss of {OURS} minus {CONTROL}'s, mean over rounds {first} to {final}"
        found[name] = Finding.of(words, asked["training loss", name, OURS, CONTROL], digits=4)
    for name, words in RATIOS.items():
        effect = asked["logarithm", name, "virtual", "local"]
        mean, low, high = np.exp(effect.estimate).tolist()
        found[name] = Finding.of(f"{words}, virtual over local clients", (mean, low, high), border=1.0, digits=3)
    for name, words in DIFFERENCES.items():
        effect = asked["loss", name, "virtual", "local"]
        found[name] = Finding.of(f"{words}, virtual minus local clients", effect, digits=3)
    held = tables["plane"].groupby("seed")["held"].mean(skipna=False)
    found["held"] = Finding.of("share of the way that the plane holds", mean_of(held, LEVEL), border=0.5)
    for effect in asked.among("what a projection loses"):
        words = f"loss of the last followed network's projection minus its own, {effect.setting}"
        found[f"projected {effect.setting}"] = Finding.of(words, effect, digits=3)
    return found


def _periods(curves: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return the rounds up to which the paper sees no difference in the loss, and those after."""
    last = int(curves["round"].max())
    turn = min(TURN, last // 2)
    return {"early": (1, turn), "late": (turn + 1, last)}


def _losses(curves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {
        name: means_by(curves[curves["round"].between(*rounds)], "arm", "loss")
        for name, rounds in _periods(curves).items()
    }


def _virtual(close: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return what is measured of virtual and local clients by seed, means over the close rounds, by measure."""
    rows = close[close["arm"] == OURS].groupby(["seed", "kind"])[[*RATIOS, *DIFFERENCES]].mean(skipna=False)
    return {name: rows[name].unstack("kind") for name in (*RATIOS, *DIFFERENCES)}


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return rates, and what is measured of local and virtual clients."""
    close, tuning = tables["close"], tables["tuning"]
    means = close.groupby(["arm", "kind", "seed"])[[*RATIOS, *DIFFERENCES]].mean(skipna=False)
    rows = [
        {"arm": arm, "kind": kind, "networks": f"{int(part['networks'].iloc[0])}",
         **{name: tuple(map(float, mean_of(means.loc[(arm, kind), name].to_numpy(), LEVEL)))
            for name in (*RATIOS, *DIFFERENCES)}}
        for (arm, kind), part in close.groupby(["arm", "kind"], sort=False)
    ]  # fmt: skip
    rates = tuning[tuning["chosen"]].groupby("arm")[["lr", "end"]].first()
    clients = int(config["clients"])
    return {
        "data": "images of CIFAR-10" if config["dataset"] == "cifar10" else "scikit-learn’s digits",
        "network": "the paper’s network" if config["kind"] == "alexnet" else "a small network of three convolutions",
        "rows": rounded(rows, **dict.fromkeys((*RATIOS, *DIFFERENCES), 3)),
        "rates": [{"arm": arm, "rate": f"{row['lr']:g}", "end": bool(row["end"])} for arm, row in rates.iterrows()],
        "virtual": f"{clients**2 - clients}",
        "first": f"{min(config['close'])}",
        "last": f"{max(config['close'])}",
        "seeds": f"{config['seeds']}",
        "turn": f"{_periods(tables['curves'])['early'][1]}",
        "rounds": f"{int(tables['curves']['round'].max())}",
    }


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw Figure 4a, and Figures 4b and 4c side by side."""
    from fedstat.report.figures import style
    from simulations.landscape.pictures import curves_figure, plane_figure

    with style():
        return {"curves": curves_figure(tables["curves"]), "plane": plane_figure(tables)}

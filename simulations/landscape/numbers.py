"""What the study of the landscape hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.estimates import difference_of, mean_of, means_by
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


def findings(tables: Tables) -> dict[str, Finding]:
    """Return differences in training loss, what virtual clients come to beside local ones, and what the plane holds.

    Intervals hold together for the losses (two), and for the measures of virtual clients (four).
    """
    return {**_losses(tables["curves"]), **_virtual(tables["close"]), **_held(tables["plane"])}


def _losses(curves: pd.DataFrame) -> dict[str, Finding]:
    """Compare the training losses up to the round from which the paper sees a difference, and after it."""
    found, last = {}, int(curves["round"].max())
    turn = min(TURN, last // 2)
    for name, first, final in (("early", 1, turn), ("late", turn + 1, last)):
        rows = curves[curves["round"].between(first, final)]
        table = means_by(rows, "arm", "loss")
        d = difference_of(table[OURS], table[CONTROL], level=1 - (1 - LEVEL) / 2)
        words = f"training loss of {OURS} less {CONTROL}'s, mean over rounds {first} to {final}"
        found[name] = Finding.of(words, d, unit="nats", digits=4)
    return found


def _virtual(close: pd.DataFrame) -> dict[str, Finding]:
    """Compare virtual with local clients, means over the close rounds of each seed."""
    level = 1 - (1 - LEVEL) / (len(RATIOS) + len(DIFFERENCES))
    rows = (
        close[close["arm"] == OURS]
        .groupby(["seed", "kind"])[[*RATIOS, *DIFFERENCES]]
        .mean(skipna=False)
        .unstack("kind")
        .sort_index(axis=1)
    )
    found = {}
    for name, words in RATIOS.items():
        ratio = np.log(rows[name, "virtual"] / rows[name, "local"])
        mean, low, high = np.exp(mean_of(ratio.to_numpy(), level)).tolist()
        found[name] = Finding.of(f"{words}, virtual over local clients", (mean, low, high), border=1.0, digits=3)
    for name, words in DIFFERENCES.items():
        d = difference_of(rows[name, "virtual"], rows[name, "local"], level=level)
        found[name] = Finding.of(f"{words}, virtual less local clients", d, unit="nats", digits=3)
    return found


def _held(plane: pd.DataFrame) -> dict[str, Finding]:
    held = plane.groupby("seed")["held"].mean(skipna=False)
    found = {"held": Finding.of("share of the way that the plane holds", mean_of(held, LEVEL), border=0.5)}
    for arm, rows in plane.groupby("arm"):
        d = difference_of(rows["projected"], rows["end"], level=LEVEL)
        words = f"loss of the last followed network's projection less its own, {arm}"
        found[f"projected {arm}"] = Finding.of(words, d, unit="nats", digits=3)
    return found


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
        "turn": f"{min(TURN, int(tables['curves']['round'].max()) // 2)}",
        "rounds": f"{int(tables['curves']['round'].max())}",
    }


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw Figure 4a, and Figures 4b and 4c side by side."""
    from fedstat.report.figures import style
    from simulations.landscape.pictures import curves_figure, plane_figure

    with style():
        return {"curves": curves_figure(tables["curves"]), "plane": plane_figure(tables)}

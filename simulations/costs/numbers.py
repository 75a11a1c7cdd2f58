"""What the costs study hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design, interval
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.costs.study import CONTROL
from simulations.effects import Effect, Effects, Question
from simulations.estimates import Estimate, logarithms, undefined
from simulations.published import printed
from simulations.showing import NONE, fixed, span

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Turns take the methods one after another, on the same clients with the same data.
TURNS = Design(clients="same", data="fixed")
CLOCKS = ("processor", "wall")
#: What the paper calls each arm.
PAPER = {
    "FedProx": "FedProx", "FedPer": "FedPer", "LG-FedAvg": "LG-FedAvg", "FedEM": "FedEM",
    "FedRep, half the epochs each": "FedRep", "FedRep, 10 epochs for the head, 1 for the body": "FedRep",
    "FedFac, static": "FedFac", "FedFac, dynamic": "FedFac", "FedFac, code": "FedFac",
}  # fmt: skip
#: The arms that stand beside the printed row, one for each method but FedFac, whose reading is open.
BESIDE = ("FedProx", "FedPer", "LG-FedAvg", "FedEM", "FedRep, half the epochs each", "FedFac, dynamic", "FedFac, code")


def seconds(tables: Tables, clock: str) -> pd.DataFrame:
    """Return the seconds of every turn of the first setting: turns by arms."""
    times = tables["times"]
    first = times[times["setting"] == times["setting"].iloc[0]]
    return first.pivot(index="repeat", columns="arm", values=clock)


def effects(tables: Tables) -> Effects:
    """Return differences of the logarithms of processor and wall time over turns: to FedAvg, and for the order."""
    logs = {clock: {"": logarithms(seconds(tables, clock))} for clock in CLOCKS}
    to_control = {"": [(arm, CONTROL) for arm in PAPER]}
    order = {"": list(combinations(BESIDE, 2))}
    asked = [(f"{clock} time over FedAvg’s", clock, to_control) for clock in CLOCKS]
    asked.append(("the order of the methods", "processor", order))
    return Effects(Question(words, clock, logs[clock], pairs, TURNS) for words, clock, pairs in asked)


def ratio(effect: Effect) -> Estimate:
    """Return a ratio of times and its limits: a difference of logarithms, taken back."""
    mean, low, high = np.exp(effect.estimate).tolist()
    return undefined(effect.why, mean) if effect.why else (mean, low, high)


def counts(tables: Tables) -> pd.DataFrame:
    """Return what torch counted at the first setting, by arm, over FedAvg's."""
    first = tables["counts"][tables["counts"]["setting"] == tables["counts"]["setting"].iloc[0]].set_index("arm")
    sent = first["bytes up"] + first["bytes down"]
    return pd.DataFrame(
        {
            "arithmetic": first["flops"] / first.loc[CONTROL, "flops"],
            "bytes": sent / sent[CONTROL],
            "before": (first["flops before"] - first.loc[CONTROL, "flops before"]) / first.loc[CONTROL, "flops"],
        }
    )


def row(tables: Tables) -> dict[str, float]:
    """Return the printed ratios of the row that the first setting stands beside."""
    name = str(tables["times"]["printed"].iloc[0])
    return {r["method"]: float(r["ratio"]) for r in printed("fedsplit", "table_7") if r["setting"] == name}


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the ratios of processor time, with intervals that hold together, and those of arithmetic, which is exact.

    The border is FedAvg, and for FedProx also what the paper prints.
    """
    found, theirs = {}, row(tables)
    known, exact = effects(tables), counts(tables)
    times = {arm: ratio(known["processor", "", arm, CONTROL]) for arm in PAPER}
    for arm in times:
        what = f"processor time of {arm} over FedAvg"
        found[f"time {arm}"] = Finding.of(what, times[arm], border=1.0)
        value = float(exact.loc[arm, "arithmetic"])
        value = 1.0 if abs(value - 1) < 0.002 else value  # the server's average differs by what is shared
        found[f"arithmetic {arm}"] = Finding.of(f"arithmetic of {arm} over FedAvg", (value, value, value), border=1.0)
    what = "processor time of FedProx over FedAvg, beside the printed ratio"
    found["printed FedProx"] = Finding.of(what, times["FedProx"], border=theirs["FedProx"])
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of costs, and the three answers beside the printed row."""
    known, exact, theirs = effects(tables), counts(tables), row(tables)
    every = pd.DataFrame(printed("fedsplit", "table_7")).astype({"ratio": float})
    rows = []
    for arm, name in PAPER.items():
        rows.append(
            {
                "arm": arm,
                "printed": fixed(theirs[name], 2),
                "span": span(every.loc[every["method"] == name, "ratio"], 2),
                **{clock: interval(ratio(known[clock, "", arm, CONTROL]), 2) for clock in CLOCKS},
                "arithmetic": fixed(exact.loc[arm, "arithmetic"], 2),
                "bytes": fixed(exact.loc[arm, "bytes"], 2),
                "before": fixed(exact.loc[arm, "before"], 1) if exact.loc[arm, "before"] else NONE,
            }
        )
    taken = seconds(tables, "processor")
    ours = taken / taken[CONTROL].mean()  # so that FedAvg spreads, too
    table = pd.DataFrame(
        {"value": [1.0, *(theirs[PAPER[arm]] for arm in BESIDE)], "seeds": 1}, index=[CONTROL, *BESIDE]
    )
    return {
        "rows": rows,
        "agreement": beside_printed(
            table,
            ours[list(table.index)],
            control=CONTROL,
            digits=2,
            within=(0.0, math.inf),
            difference=lambda a, b: known["processor", "", a, b],
        ),
        "row": str(tables["times"]["printed"].iloc[0]),
        "setting": str(tables["times"]["setting"].iloc[0]),
        "repeats": len(taken),
        "seconds": fixed(taken[CONTROL].mean(), 2),
        "arithmetic": {arm: fixed(exact.loc[arm, "arithmetic"], 2) for arm in PAPER},
        "theirs": {name: fixed(value, 2) for name, value in theirs.items()},
        "spans": {name: span(some["ratio"], 2) for name, some in every.groupby("method")},
        "half": fixed((1 + 1 / 3) / 2, 2),
        "others": [str(name) for name in tables["times"]["setting"].unique()[1:]],
    }


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw a line per method: the printed ratios of all settings, our time with its interval, and the arithmetic."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, NullFormatter

    from fedstat.report.figures import WIDTH, style

    known, exact = effects(tables), counts(tables)
    every = pd.DataFrame(printed("fedsplit", "table_7")).astype({"ratio": float})
    with style():
        figure, axis = plt.subplots(figsize=(WIDTH, 3.3), layout="constrained")
        for place, (arm, name) in enumerate(PAPER.items()):
            shown = every.loc[every["method"] == name, "ratio"]
            mean, low, high = ratio(known["processor", "", arm, CONTROL])
            first = place == 0
            axis.plot(shown, np.full(len(shown), place + 0.24), "|", color="0.45", ms=7, mew=0.9,
                      label="printed, a mark per setting" if first else None)  # fmt: skip
            axis.plot([low, high], [place, place], color="black", lw=1.0)
            axis.plot(mean, place, "o", color="black", ms=4, label="ours, processor time" if first else None)
            axis.plot(exact.loc[arm, "arithmetic"], place - 0.24, "D", color="black", mfc="white", ms=4,
                      label="ours, arithmetic" if first else None)  # fmt: skip
        axis.axvline(1, color="0.6", lw=0.6, zorder=0)
        axis.set_xscale("log", base=2)
        ticks = [0.5, 1, 2, 4, 8, 12]
        axis.xaxis.set_major_locator(FixedLocator(ticks))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_yticks(range(len(PAPER)), list(PAPER))
        axis.invert_yaxis()
        axis.set_xlabel("cost of a round over that of FedAvg (ratio, logarithmic)")
        figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=7)
    return {"ratios": figure}

"""What the costs study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import interval
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.costs.study import CONTROL
from simulations.estimates import Estimate, mean_of
from simulations.published import printed
from simulations.showing import NONE, fixed, span

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def ratios(tables: Tables, clock: str) -> pd.DataFrame:
    """Return the time of every arm's turn over FedAvg's of the same number: turns by arms."""
    taken = seconds(tables, clock)
    return taken.div(taken[CONTROL], axis=0)[list(PAPER)]


def ratio(values: pd.Series, level: float = 0.95) -> Estimate:
    """Return the geometric mean of ratios with its limits."""
    mean, low, high = np.exp(mean_of(np.log(values), level)).tolist()
    return mean, low, high


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
    times, exact = ratios(tables, "processor"), counts(tables)
    level = 1 - 0.05 / times.shape[1]
    for arm in times:
        what = f"processor time of {arm} over FedAvg"
        found[f"time {arm}"] = Finding.of(what, ratio(times[arm], level), border=1.0)
        value = float(exact.loc[arm, "arithmetic"])
        value = 1.0 if abs(value - 1) < 0.002 else value  # the server's average differs by what is shared
        found[f"arithmetic {arm}"] = Finding.of(f"arithmetic of {arm} over FedAvg", (value, value, value), border=1.0)
    what = "processor time of FedProx over FedAvg, beside the printed ratio"
    found["printed FedProx"] = Finding.of(what, ratio(times["FedProx"], level), border=theirs["FedProx"])
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of costs, and the three answers beside the printed row."""
    processor, wall, exact, theirs = ratios(tables, "processor"), ratios(tables, "wall"), counts(tables), row(tables)
    every = pd.DataFrame(printed("fedsplit", "table_7")).astype({"ratio": float})
    rows = []
    for arm, name in PAPER.items():
        rows.append(
            {
                "arm": arm,
                "printed": fixed(theirs[name], 2),
                "span": span(every.loc[every["method"] == name, "ratio"], 2),
                "processor": interval(ratio(processor[arm], 1 - 0.05 / len(PAPER)), 2),
                "wall": interval(ratio(wall[arm], 1 - 0.05 / len(PAPER)), 2),
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
        "agreement": beside_printed(table, ours[list(table.index)], control=CONTROL, digits=2),
        "row": str(tables["times"]["printed"].iloc[0]),
        "setting": str(tables["times"]["setting"].iloc[0]),
        "repeats": len(processor),
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

    processor, exact = ratios(tables, "processor"), counts(tables)
    every = pd.DataFrame(printed("fedsplit", "table_7")).astype({"ratio": float})
    with style():
        figure, axis = plt.subplots(figsize=(WIDTH, 3.3), layout="constrained")
        for place, (arm, name) in enumerate(PAPER.items()):
            shown = every.loc[every["method"] == name, "ratio"]
            mean, low, high = ratio(processor[arm], 1 - 0.05 / len(PAPER))
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

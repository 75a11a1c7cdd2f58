"""What the study of filter decomposition with the paper's clients hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design, TimeToTarget, to_target
from fedstat.inference.comparing.learning import late_gain
from fedstat.inference.intervals.design import overlap_ratio
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.effects import Effects, Question, once
from simulations.estimates import mean_of, means_by, missing, undefined
from simulations.filterdecomp.arms import OURS, OURS_HEAD
from simulations.filterdecomp.judged import CHANCE, LAST, SHARE, of_paper
from simulations.hundred_clients.runs import ARMS, FEDAVG, FEDPROX, FILTERDECOMP, GLOBAL_ARMS, LOCAL
from simulations.showing import NONE, fixed, rounded
from simulations.trained import untrained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Under every seed the same 10,000 images test, and four fifths of the same 50,000 train; the larger share is taken for
#: both. At desk scale.
DESIGN = Design(clients="new", data="resplit", test_to_train=overlap_ratio(10_000, 40_000))
#: The largest late gain, and the largest difference in accuracy, that counts as none, points; fixed before any run.
MARGIN = 1.0
#: Which models are compared: those of the server on the common test set, or the clients' own on their classes.
GLOBAL, OWN = "global", "own"
FINE_TUNED = "FedAvg + FT"
#: What the table of the paper calls an arm's own models, and which arms have a model of either kind.
LABELS = {arm: arm for arm in ARMS} | {FEDAVG: FINE_TUNED, FEDPROX: "FedProx + FT", FILTERDECOMP: OURS}
OF = {GLOBAL: GLOBAL_ARMS, OWN: tuple(LABELS.values())}
#: What is compared: words, unit and decimals by metric. The common test set has as many images of each class, so that
#: balanced accuracy is accuracy there.
METRICS = {
    "accuracy": ("accuracy", "points", 1),
    "balanced_accuracy": ("balanced accuracy", "points", 1),
    "log_loss": ("log-loss", "nats", 2),
}
#: Both readings of the paper's method, the methods that it is compared with, and those of them that share something.
ATOMS = (OURS_HEAD, OURS)
OTHERS = tuple(arm for arm in OF[OWN] if arm not in ATOMS)
SHARING = tuple(arm for arm in OTHERS if arm != LOCAL)


def rows_of(tables: Tables, kind: str, metric: str = "accuracy") -> pd.DataFrame:
    """Return the curves of one kind of models, shares in per cent, arms named as in the table of that kind."""
    rows = tables["curves"]
    rows = rows[(rows["metric"] == metric) & (rows["split"] == ("common" if kind == GLOBAL else "test"))]
    named = rows["arm"].replace({} if kind == GLOBAL else LABELS)
    return rows.assign(arm=named, value=rows["value"] * (1 if metric == "log_loss" else 100))


def ran(tables: Tables, kind: str) -> list[str]:
    """Return the arms with models of that kind, by their names in its table."""
    lost = tables["diverged"]["arm"]
    there = {*rows_of(tables, kind)["arm"], *(lost if kind == GLOBAL else lost.replace(LABELS))}
    return [name for name in OF[kind] if name in there]


def late_rounds(tables: Tables) -> list[int]:
    """Return the measured rounds of the last ten, or of the last tenth where these are fewer."""
    rounds = sorted(int(t) for t in tables["curves"]["round"].unique())
    return [t for t in rounds if t > rounds[-1] - min(LAST, max(1, rounds[-1] // 10))]


def by_seed(tables: Tables, kind: str, metric: str = "accuracy") -> pd.DataFrame:
    """Return one row per seed and one column per arm: the mean over what was measured of the late rounds."""
    rows = rows_of(tables, kind, metric)
    late = rows[rows["round"].isin(late_rounds(tables))]
    return means_by(late, "arm", "value").reindex(columns=ran(tables, kind))


def late_gains(tables: Tables, kind: str) -> pd.DataFrame:
    """Return the change of accuracy over the last fifth of the rounds, points, by seed and arm.

    Infinite where a curve has gaps; an arm of which less than two of these rounds were measured is left out.
    """
    found = {}
    for arm, rows in rows_of(tables, kind).groupby("arm"):
        wide = rows.pivot(index="seed", columns="round", values="value")
        rounds = wide.columns.to_numpy(int)
        if np.isfinite(late_gain(np.zeros(len(rounds)), rounds)):
            found[arm] = pd.Series(late_gain(wide.to_numpy(float), rounds), wide.index).fillna(math.inf)
    return pd.DataFrame(found)


def not_trained(tables: Tables, kind: str) -> dict[str, str]:
    """Return why arms are not trained enough to be judged."""
    accuracy, share = (by_seed(tables, kind, metric) for metric in ("accuracy", "majority_share"))
    of_all = OF[GLOBAL] if kind == GLOBAL else ()
    return untrained(accuracy, share, of_all=of_all, chance=CHANCE, gain=late_gains(tables, kind), margin=MARGIN)


@once
def effects(tables: Tables) -> Effects:
    """Return the differences of global models, and those of clients' own."""
    return Effects(_questions(tables), {kind: not_trained(tables, kind) for kind in OF})


def _questions(tables: Tables) -> Iterator[Question]:
    wide = {kind: {metric: by_seed(tables, kind, metric) for metric in METRICS} for kind in OF}

    def ask(words: str, kind: str, metric: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Question]:
        values = wide[kind][metric]
        if asked := [pair for pair in pairs if set(pair) <= set(values)]:
            name, unit, _ = METRICS[metric]
            yield Question(f"{words} by {name}", metric, {kind: values}, {kind: asked}, DESIGN, unit)

    for metric in ("accuracy", "log_loss"):
        yield from ask("FilterDecomp’s global model", GLOBAL, metric, product([FILTERDECOMP], (FEDAVG, FEDPROX)))
        yield from ask("atoms and a head of the clients’ own", OWN, metric, product([OURS_HEAD], OTHERS))
        yield from ask("atoms of the clients’ own", OWN, metric, product([OURS], (*OTHERS, OURS_HEAD)))
        yield from ask("methods that share against Local", OWN, metric, product(SHARING, [LOCAL]))
    yield from ask("the order of the methods", OWN, "accuracy", combinations(SHARING, 2))


def rounds_to_target(tables: Tables) -> TimeToTarget | None:
    """Return the rounds after which the global models reach `SHARE` of FedAvg's mean accuracy in the late ones.

    None where that accuracy is not known.
    """
    late = by_seed(tables, GLOBAL).get(FEDAVG, pd.Series(dtype=float))
    if why := missing(late.rename("FedAvg's late accuracy")):
        undefined(why)
        return None
    curves = rows_of(tables, GLOBAL).rename(columns={"arm": "method"})[["method", "seed", "round", "value"]]
    return to_target(curves, SHARE * float(late.mean()), control=FEDAVG)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return all differences but those of the order of the methods, and FilterDecomp's rounds until the target."""
    found = {}
    for e in effects(tables).values():
        if {e.first, e.second} <= set(SHARING):
            continue
        words, _, digits = METRICS[e.metric]
        found[f"{e.setting} {e.metric}: {e.first} - {e.second}"] = Finding.of(
            f"{words} of {e.setting} models, {e.first} minus {e.second}", e, digits=digits
        )
    times = rounds_to_target(tables)
    for row in [] if times is None else times.differences.to_dict("records"):
        if row["method"] == FILTERDECOMP and np.isfinite(row["low"]):
            words = f"rounds of FilterDecomp minus FedAvg's until {SHARE:.0%} of FedAvg's accuracy"
            found["rounds"] = Finding.of(words, (row["difference"], row["low"], row["high"]), unit="rounds", digits=0)
    return found


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return each arm beside what is printed of it, and what other rates are worth to FedAvg."""
    tried = 100 * tables["tuning"].groupby("lr")["accuracy"].mean()
    theirs = of_paper("table_1", config["cell"]["printed"])
    return {
        "global": _rows(tables, GLOBAL, theirs), "own": _rows(tables, OWN, theirs),
        "waiting": [arm for arm in OTHERS if arm not in ran(tables, OWN)],
        "target": _target(tables), "share": f"{SHARE:.0%}", "late": [{"round": f"{t}"} for t in late_rounds(tables)],
        "tried": [{"lr": f"{lr:g}", "accuracy": fixed(value, 1)} for lr, value in tried.items()],
        "untrained": [
            {"kind": kind, "arm": arm, "why": why} for kind in OF for arm, why in not_trained(tables, kind).items()
        ],
        "diverged": [
            {"arm": arm, "seeds": int(n)} for arm, n in tables["diverged"].groupby("arm")["seed"].count().items() if n
        ],
        "paper": _beside(tables, theirs),
    }  # fmt: skip


def _rows(tables: Tables, kind: str, theirs: pd.DataFrame) -> list[dict[str, Any]]:
    """Return an arm's metrics: means over seeds with 95% intervals, each by itself; and what is printed."""
    wide = {metric: by_seed(tables, kind, metric) for metric in (*METRICS, "majority_share")}
    most = (0.0, 100.0)
    rows = [
        {
            "arm": arm,
            **{metric: mean_of(wide[metric][arm], within=(0.0, math.inf) if metric == "log_loss" else most)
               for metric in METRICS},
            "share": fixed(float(wide["majority_share"][arm].mean(skipna=False)), 1),
            "printed": fixed(theirs["value"][arm], 1) if kind == OWN and arm in theirs.index else NONE,
        }
        for arm in ran(tables, kind)
    ]  # fmt: skip
    return rounded(rows, **{metric: digits for metric, (_, _, digits) in METRICS.items()})


def _target(tables: Tables) -> dict[str, Any]:
    """Return what the target is, and how many rounds the global models need to it, in the mean up to the last."""
    found = rounds_to_target(tables)
    if found is None:
        return {"accuracy": NONE, "rows": [], "same": False}
    rows = [
        {"arm": str(arm), "reached": f"{int(row['reached'])} of {int(row['runs'])}",
         "rounds": fixed(row["restricted mean"], 0)}
        for arm, row in found.summary.iterrows()
    ]  # fmt: skip
    times = found.runs.pivot(index="seed", columns="method", values="time")
    same = FILTERDECOMP in times and bool((times[FILTERDECOMP] == times[FEDAVG]).all())
    return {"accuracy": fixed(found.target, 1), "rows": rows, "same": same}


def _beside(tables: Tables, theirs: pd.DataFrame) -> dict[str, Any] | None:
    """Return Table 1's column beside ours, as far as it ran; None where nothing is printed or nothing ran beside."""
    ours, known = by_seed(tables, OWN), effects(tables)
    names = [name for name in theirs.index if name in ours]
    if FINE_TUNED not in names or len(names) < 2:
        return None
    return beside_printed(
        theirs.loc[names], ours, control=FINE_TUNED, difference=lambda a, b: known["accuracy", OWN, a, b]
    )


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw accuracy over rounds, global and own, the mean over seeds and their range."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    of_table = ran(tables, OWN)
    first = [arm for arm in of_table if arm in (FINE_TUNED, LABELS[FEDPROX], LOCAL, *ATOMS)]
    with style():
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(WIDTH, 2.6), layout="constrained")
        _draw(left, tables, GLOBAL, ran(tables, GLOBAL))
        _draw(middle, tables, OWN, first)
        _draw(right, tables, OWN, [arm for arm in of_table if arm not in first])
    left.set_ylabel("accuracy (per cent)")
    right.sharey(middle)
    middle.set_ylim(bottom=0)
    return {"curves": figure}


#: Line, mark and colour; a mark stands at each measurement of what is seldom measured.
_LOOKS = {
    FEDAVG: ("--", "", "black"), FEDPROX: (":", "", "0.45"), FILTERDECOMP: ("-", "", "black"),
    FINE_TUNED: ("--", "s", "black"), LABELS[FEDPROX]: ("--", "o", "0.45"), LOCAL: (":", "", "0.45"),
    OURS: ("-", "", "0.45"), OURS_HEAD: ("-", "", "black"), "Ditto": ("-", "", "black"), "FedPer": ("--", "", "black"),
    "FedRep": (":", "", "black"), "FedPAC": ("-.", "", "black"), "LG-FedAvg": ("-", "", "0.6"),
}  # fmt: skip


def _draw(axis: Axes, tables: Tables, kind: str, arms: Sequence[str]) -> None:
    rows = rows_of(tables, kind)
    for arm in arms:
        line, mark, color = _LOOKS[arm]
        wide = rows[rows["arm"] == arm].pivot(index="round", columns="seed", values="value")
        axis.fill_between(wide.index, wide.min(axis=1), wide.max(axis=1), color=color, alpha=0.12, lw=0)
        axis.plot(
            wide.index, wide.mean(axis=1, skipna=False), line, marker=mark, ms=3, mfc="white", color=color, lw=1.1,
            label=arm,
        )  # fmt: skip
    axis.set_xlabel("round")
    axis.legend(frameon=False, fontsize=6, loc="lower right")

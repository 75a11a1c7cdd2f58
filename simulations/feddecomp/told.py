"""What the FedDecomp study's sentences rest on."""

from __future__ import annotations

import math

import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.estimates import Estimate, mean_of
from simulations.feddecomp.cells import CODE, QUESTION, TEXT
from simulations.feddecomp.per_seed import (
    LOG_LOSS,
    Layout,
    beside_each_other,
    by_seed,
    joint,
    layouts,
    log_ratio,
    moved,
    over_samples,
    question,
    single,
)
from simulations.feddecomp.study import FEDAVG_LOW, LOCAL_LOW, REVERSE, SIMULTANEOUS, SPREAD, rate_arm


def findings(tables: Tables) -> dict[str, Finding]:
    """Return all findings; those of further worlds have the world's name before their keys."""
    found: dict[str, Finding] = {}
    for layout in layouts(tables):
        start = prefix(tables, layout)
        own = {
            **_question(tables, layout),
            **_paper_rate(tables, layout),
            **_table_2(tables, layout),
            **_ablations(tables, layout),
            **_figure_5(tables, layout),
            **_figure_6(tables, layout),
            **_table_6(tables, layout),
            **_samples(tables, layout),
        }
        found |= {start + key: finding for key, finding in own.items()}
    return found


def prefix(tables: Tables, layout: Layout) -> str:
    """Return what stands before the keys of a world's findings: nothing for the first."""
    return "" if layout.world == layouts(tables)[0].world else f"{layout.world}: "


def _points(what: str, estimate: Estimate) -> Finding:
    return Finding.of(f"accuracy, {what}", estimate, unit="points", digits=1)


def _question(tables: Tables, layout: Layout) -> dict[str, Finding]:
    found = {}
    for (arm, other, a), estimate in question(tables, layout).items():
        found[f"{arm} less {other}, {a:g}"] = _points(f"{arm} less {other}, Dirichlet {a:g}", estimate)
    for (arm, other, a), estimate in question(tables, layout, LOG_LOSS).items():
        what = f"log-loss, {arm} less {other}, Dirichlet {a:g}"
        found[f"log-loss {arm} less {other}, {a:g}"] = Finding.of(what, estimate, unit="nats", digits=2)
    for (arm, other, a), estimate in question(tables, layout, "balanced_accuracy").items():
        what = f"balanced accuracy, {arm} less {other}, Dirichlet {a:g}"
        found[f"balanced {arm} less {other}, {a:g}"] = Finding.of(what, estimate, unit="points", digits=1)
    return found


def _paper_rate(tables: Tables, layout: Layout) -> dict[str, Finding]:
    wide = {a: by_seed(tables, layout, a) for a in layout.main}
    keys = [(rate_arm(arm), other, a) for a in layout.main for arm in (CODE, TEXT) for other in QUESTION[:2]]
    usable = [(arm, other, a) for arm, other, a in keys if arm in wide[a] and wide[a][arm].notna().sum() > 1]
    if not usable:
        return {}
    pairs = [(f"{arm} @ {a:g}", f"{other} @ {a:g}") for arm, other, a in usable]
    estimates = joint(beside_each_other({f"{a:g}": t for a, t in wide.items()}), pairs, moderated="auto")
    return {
        f"{arm} less {other}, {a:g}": _points(f"{arm} less {other}, Dirichlet {a:g}", estimate)
        for (arm, other, a), estimate in zip(usable, estimates.values(), strict=True)
    }


def _table_2(tables: Tables, layout: Layout) -> dict[str, Finding]:
    """Return what ranks do: from the smallest to the largest, R_l against R_c, and the paper's choice."""
    wide = by_seed(tables, layout, layout.first)[list(dict.fromkeys(layout.ratios.values()))].dropna()
    grid = pd.concat({pair: wide[arm] for pair, arm in layout.ratios.items()}, axis=1)
    dense, conv = (grid.T.groupby(level=i).mean().T for i in (0, 1))
    others = wide.drop(columns=CODE)
    ends = {"R_l": (dense.iloc[:, -1], dense.iloc[:, 0]), "R_c": (conv.iloc[:, -1], conv.iloc[:, 0])}
    found = {
        f"table 2, {name}": _points(f"largest less smallest {name}", single(*pair, of=4)) for name, pair in ends.items()
    }
    of_dense, of_conv = ((a - b).abs() for a, b in ends.values())
    order = single(of_dense, of_conv, of=4)
    found["table 2, order"] = _points("effect of R_l less effect of R_c, both without sign", order)
    choice = single(wide[CODE], others.mean(axis=1), of=4)
    found["table 2, choice"] = _points("the paper’s ranks less the mean of the others", choice)
    return found


def _ablations(tables: Tables, layout: Layout) -> dict[str, Finding]:
    """Return what Tables 3 to 5 say."""
    found, at = {}, {a: by_seed(tables, layout, a) for a in layout.main}
    for a, wide in at.items():
        found[f"table 3, {a:g}"] = _points(
            f"alternating less simultaneous, Dirichlet {a:g}", single(wide[CODE], wide[SIMULTANEOUS], of=len(at))
        )
        for other in (CODE, "Local"):
            estimate = single(wide[REVERSE], wide[other], of=2 * len(at))
            found[f"table 5, {other}, {a:g}"] = _points(f"roles exchanged less {other}, Dirichlet {a:g}", estimate)
    wide = at[layout.first]
    for low, plain in ((LOCAL_LOW, "Local"), (FEDAVG_LOW, "FedAvg")):
        found[f"table 4, {plain}"] = _points(
            f"{plain} with low rank less {plain}", single(wide[low], wide[plain], of=3)
        )
    alone = wide[layout.epochs[max(layout.epochs)]]
    found["table 4, alone"] = _points("low-rank parts alone less Local", single(alone, wide["Local"], of=3))
    return found


def _figure_5(tables: Tables, layout: Layout) -> dict[str, Finding]:
    wide = by_seed(tables, layout, layout.first)
    low, usual, high = (wide[layout.epochs[e]] for e in (0, 2, max(layout.epochs)))
    return {
        "figure 5, rise": _points("two epochs of the low-rank part less none", single(usual, low, of=3)),
        "figure 5, fall": _points("all epochs for the low-rank part less two", single(high, usual, of=3)),
        "figure 5, ends": _points("all epochs for the low-rank part less none", single(high, low, of=3)),
    }


def _figure_6(tables: Tables, layout: Layout) -> dict[str, Finding]:
    """Return ratios of spreads, alternating over simultaneous; the border is one."""
    found = {}
    for reading, (alternating, *others) in SPREAD.items():
        for how, other in zip(("in all", "of σ"), others, strict=True):
            ratios = log_ratio(tables, layout, alternating, other)
            mean, low, high = (math.exp(v) for v in mean_of(ratios, 1 - 0.05 / 4))
            what = f"spread of σ, alternating over simultaneous, as many epochs {how}, {reading}"
            found[f"figure 6, {reading}, {how}"] = Finding.of(what, (mean, low, high), border=1.0, digits=3)
    return found


def _table_6(tables: Tables, layout: Layout) -> dict[str, Finding]:
    """Return how far the parts move from a pre-trained start, and what that has to do with accuracy."""
    most, none = max(layout.warm), min(layout.warm)
    far, near = (moved(tables, layout, layout.warm[e]) for e in (most, none))
    wide = by_seed(tables, layout, layout.first)
    found = {
        "table 6, order": Finding.of(
            f"pre-trained, {most} epochs of the low-rank part: distance of τ less that of σ",
            single(far["tau"], far["sigma"], of=6),
        ),
        "table 6, σ": Finding.of(
            f"pre-trained: distance of σ, {most} epochs of the low-rank part less {none}",
            single(far["sigma"], near["sigma"], of=6),
        ),
        "table 6, accuracy": _points(
            f"pre-trained, {most} epochs of the low-rank part less {none}",
            single(wide[layout.warm[most]], wide[layout.warm[none]], of=6),
        ),
    }
    top = max(e for e in layout.warm if e in layout.epochs)
    if top > none and none in layout.epochs:
        found |= _beside_random(wide, layout, top, none)
    return found


def _beside_random(wide: pd.DataFrame, layout: Layout, top: int, none: int) -> dict[str, Finding]:
    """Return the same change of accuracy from a random start, how the two differ, and what the start is worth."""
    warm, cold = (wide[arms[top]] - wide[arms[none]] for arms in (layout.warm, layout.epochs))
    what = f"{top} epochs of the low-rank part less {none}"
    return {
        "table 6, random start": _points(
            f"random start, {what}", single(wide[layout.epochs[top]], wide[layout.epochs[none]], of=6)
        ),
        "table 6, changes": _points(f"{what}, pre-trained less random start", single(warm, cold, of=6)),
        "table 6, start": _points(
            f"pre-trained less random start, {top} epochs of the low-rank part",
            single(wide[layout.warm[top]], wide[layout.epochs[top]], of=6),
        ),
    }


def _samples(tables: Tables, layout: Layout) -> dict[str, Finding]:
    if len(layout.samples) < 2:
        return {}
    return {
        f"samples, {arm} less {other}, {a:g}, {n}": _points(
            f"{arm} less {other}, Dirichlet {a:g}, {n} samples a client", estimate
        )
        for (arm, other, a, n), estimate in over_samples(tables, layout).items()
    }

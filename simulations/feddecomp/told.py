"""What the FedDecomp study's sentences rest on."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import Effects
from simulations.estimates import reason, undefined
from simulations.feddecomp.cells import CODE
from simulations.feddecomp.effects import (
    CONTROLS,
    DISTANCE,
    RANKS,
    READINGS,
    SPREAD_LOG,
    distance_pairs,
    effects,
    epoch_pairs,
    setting,
    start_pairs,
)
from simulations.feddecomp.per_seed import Layout, layouts
from simulations.feddecomp.study import FEDAVG_LOW, LOCAL_LOW, REVERSE, SIMULTANEOUS, SPREAD, rate_arm

#: Makes a finding on accuracy of what is told, and of the two that are compared.
Points = Callable[[str, str, str], Finding]


def findings(tables: Tables) -> dict[str, Finding]:
    """Return all findings; those of further worlds have the world's name before their keys."""
    found: dict[str, Finding] = {}
    every = effects(tables)
    for layout in layouts(tables):
        start = prefix(tables, layout)
        points = partial(_points, every, setting(layout, layout.first))
        own = _question(every, layout)
        if layout.turns:
            own |= _tables_3_to_5(every, layout) | _figure_6(every, layout)
        if layout.doses:
            own |= _ranks(points) | _figure_5(points, layout) | _table_6(every, points, layout)
        found |= {start + key: finding for key, finding in own.items()}
    return found


def prefix(tables: Tables, layout: Layout) -> str:
    """Return what stands before the keys of a world's findings: nothing for the first."""
    return "" if layout.world == layouts(tables)[0].world else f"{layout.world}: "


def _points(every: Effects, where: str, what: str, first: str, second: str) -> Finding:
    return Finding.of(f"accuracy, {what}", every["accuracy", where, first, second], digits=1)


def _question(every: Effects, layout: Layout) -> dict[str, Finding]:
    """Return FedDecomp − Local and − FedAvg by all metrics, at the paper's rate, and with other numbers of samples."""
    found = {}
    pairs = [(arm, other, a) for a in layout.main for arm in READINGS for other in CONTROLS]
    for arm, other, a in pairs:
        where, words = setting(layout, a), f"{arm} − {other}, Dirichlet {a:g}"
        found[f"{arm} − {other}, {a:g}"] = _points(every, where, words, arm, other)
        for metric, digits in (("log-loss", 2), ("balanced accuracy", 1)):
            effect = every[metric, where, arm, other]
            found[f"{metric} {arm} − {other}, {a:g}"] = Finding.of(f"{metric}, {words}", effect, digits=digits)
        if ("accuracy", where, rate_arm(arm), other) in every:
            words = f"{rate_arm(arm)} − {other}, Dirichlet {a:g}"
            found[f"{rate_arm(arm)} − {other}, {a:g}"] = _points(every, where, words, rate_arm(arm), other)
        for n in layout.samples if len(layout.samples) > 1 else ():
            words = f"{arm} − {other}, Dirichlet {a:g}, {n} samples a client"
            found[f"samples, {arm} − {other}, {a:g}, {n}"] = _points(every, setting(layout, a, n), words, arm, other)
    return found


def _ranks(points: Points) -> dict[str, Finding]:
    """Return what ranks do: from the smallest to the largest, R_l against R_c, and the paper's choice."""
    words = {
        "R_l": "largest − smallest R_l",
        "R_c": "largest − smallest R_c",
        "order": "effect of R_l − effect of R_c, both without sign",
        "choice": "the paper’s ranks − the mean of the others",
    }
    return {f"table 2, {name}": points(words[name], *pair) for name, pair in RANKS.items()}


def _tables_3_to_5(every: Effects, layout: Layout) -> dict[str, Finding]:
    """Return what Tables 3 to 5 say."""
    found = {}
    for a in layout.main:
        points, words = partial(_points, every, setting(layout, a)), f"Dirichlet {a:g}"
        found[f"table 3, {a:g}"] = points(f"alternating − simultaneous, {words}", CODE, SIMULTANEOUS)
        for other in (CODE, "Local"):
            found[f"table 5, {other}, {a:g}"] = points(f"roles exchanged − {other}, {words}", REVERSE, other)
    points = partial(_points, every, setting(layout, layout.first))
    for low, plain in ((LOCAL_LOW, "Local"), (FEDAVG_LOW, "FedAvg")):
        found[f"table 4, {plain}"] = points(f"{plain} with low rank − {plain}", low, plain)
    return found


def _figure_5(points: Points, layout: Layout) -> dict[str, Finding]:
    names = {
        "figure 5, rise": "two epochs of the low-rank part − none",
        "figure 5, fall": "all epochs for the low-rank part − two",
        "figure 5, ends": "all epochs for the low-rank part − none",
        "table 4, alone": "low-rank parts alone − Local",
    }
    return {key: points(names[key], *pair) for key, pair in zip(names, epoch_pairs(layout), strict=True)}


def _figure_6(every: Effects, layout: Layout) -> dict[str, Finding]:
    """Return ratios of spreads, alternating over simultaneous; the border is one."""
    found = {}
    for reading, (alternating, *others) in SPREAD.items():
        for how, other in zip(("in all", "of σ"), others, strict=True):
            estimate = every[SPREAD_LOG, setting(layout, layout.first), alternating, other].estimate
            mean, low, high = map(math.exp, estimate)
            ratio = undefined(reason(estimate), mean) if reason(estimate) else (mean, low, high)
            what = f"spread of σ, alternating over simultaneous, as many epochs {how}, {reading}"
            found[f"figure 6, {reading}, {how}"] = Finding.of(what, ratio, border=1.0, digits=3)
    return found


def _table_6(every: Effects, points: Points, layout: Layout) -> dict[str, Finding]:
    """Return how far the parts move from a pre-trained start, what that has to do with accuracy, and with the start."""
    most, none = max(layout.warm), min(layout.warm)
    top = max(e for e in layout.warm if e in layout.epochs)
    change = f"{top} epochs of the low-rank part − {none}"
    words = {
        "accuracy": f"pre-trained, {most} epochs of the low-rank part − {none}",
        "random start": f"random start, {change}",
        "changes": f"{change}, pre-trained − random start",
        "start": f"pre-trained − random start, {top} epochs of the low-rank part",
    }
    far = {
        "order": f"pre-trained, {most} epochs of the low-rank part: distance of τ − that of σ",
        "σ": f"pre-trained: distance of σ, {most} epochs of the low-rank part − {none}",
    }
    where = setting(layout, layout.first)
    return {
        **{f"table 6, {key}": points(words[key], *pair) for key, pair in start_pairs(layout).items()},
        **{
            f"table 6, {key}": Finding.of(far[key], every[DISTANCE, where, *pair])
            for key, pair in zip(far, distance_pairs(layout), strict=True)
        },
    }

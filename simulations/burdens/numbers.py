"""What the study of burdens hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fedstat._tables import Tables
from simulations.burdens.compared import (
    CHANCE,
    OF_ALL,
    SHARED,
    alone,
    bearers,
    burdens_of,
    cost,
    has,
    methods_of,
    named,
    rows_of,
    settings_of,
    without,
)
from simulations.burdens.effects import ACCURACY, COST, effects, not_trained, rule_of
from simulations.burdens.loads import FAMILIES, NONE, Burden
from simulations.burdens.pictures import figures
from simulations.contract import NOT_JUDGED, Finding
from simulations.effects import Effect
from simulations.estimates import mean_of, times
from simulations.showing import NONE as DASH
from simulations.showing import fixed, rounded, sought

__all__ = ["effects", "figures", "findings", "numbers"]

#: The personal method of which the chapter speaks first.
FIRST = "FedPer"
#: The largest cost that counts as none, points; fixed before any run.
MARGIN = 1.0
#: The largest epsilon that is taken to say anything; fixed before any run.
TELLING = 10.0


def words(burden: Burden) -> str:
    """Say a burden as readers see it."""
    share = f"{100 * burden.dose:g}%"
    told = {
        "sign flip": f"{share} flip signs", "a little": f"{share}, a little", "no attack": "no attack",
        "half": "half precision", "QSGD": f"QSGD, {burden.dose:g} levels", "top-k": f"top-k, {share}", "sign": "signs",
        "dropout": f"{share} drop out", "stragglers": f"{share} are slow", "noise": f"noise {burden.dose:g}",
    }[burden.way]  # fmt: skip
    return told + f", {burden.rule}" * (burden.kind == "robustness")


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the costs, the differences of costs to FedAvg's, and what is left of the gain over Local, in points."""
    return dict(_findings(tables))


def _findings(tables: Tables) -> Iterator[tuple[str, Finding]]:
    every = effects(tables)
    for setting in settings_of(tables):

        def of(what: str, first: str, second: str, metric: str = ACCURACY, where: str = setting) -> Finding:
            return Finding.of(f"{what}, {where}", every[metric, where, first, second], digits=1)

        for method in methods_of(tables, setting):
            yield f"plain {setting} {method} Local", of(f"{method} − Local", named(method), named("Local"))
            if method != SHARED:
                yield f"plain {setting} {method} {SHARED}", of(f"{method} − {SHARED}", named(method), named(SHARED))
        for method, burden in bearers(tables, setting):
            told, key = f"{method}, {words(burden)}", f"{setting} {method} {burden.label}"
            yield f"cost {key}", of(f"{told} − without", named(method, burden), without(method, burden))
            if method != SHARED:
                what = f"cost of {told} − cost of {SHARED}"
                yield f"beside {key}", of(what, cost(method, burden), cost(SHARED, burden), COST)
            if method not in OF_ALL:
                yield f"alone {key}", of(f"{told} − Local", named(method, burden), alone(burden))
            if burden.rule != "mean" and burden.dose and method in methods_of(tables, setting):
                what = f"{told} − under the mean"
                yield f"rule {key}", of(what, named(method, burden), named(method, rule_of(burden)))


# --- what the chapter prints -----------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return costs and their differences as tables, how many of a kind have which sign, bytes and epsilons."""
    every = settings_of(tables)
    return {
        "settings": [_setting(tables, config, name) for name in every],
        "families": [family for name in every for where in FAMILIES if (family := _family(tables, name, *where))],
        "first": FIRST,
        "telling": f"{TELLING:g}",
        "margin": f"{MARGIN:g}",
    }


def _setting(tables: Tables, config: Mapping[str, Any], name: str) -> dict[str, Any]:
    own: dict[str, Any] = next((s for s in config.get("settings", ()) if s["name"] == name), {})
    methods = methods_of(tables, name)
    kept = ("clients", "rounds", "last", "alpha", "clip", "train", "epochs", "momentum", "batch", "tuning_seeds")
    return {
        "name": name,
        **{key: own[key] for key in kept if key in own},
        "tuned": len(own.get("rates", ())) > 1,
        "seeds": int(tables["runs"].loc[tables["runs"]["setting"] == name, "seed"].nunique()),
        "methods": [{"name": method} for method in methods],
        "personal": [{"name": method} for method in methods if method != SHARED],
        "plain": _plain(tables, name),
        "honest": _honest(tables, name),
        "rows": _rows(tables, name),
        "untrained": _untrained(tables, name),
        "codecs": _codecs(tables, name),
        "epsilons": _epsilons(tables, name),
        "nova": has(tables, name, "FedNova", NONE),
        "lost": _lost(tables, name),
    }


def _plain(tables: Tables, name: str) -> list[dict[str, Any]]:
    """Tabulate what the methods reach without a burden, with the rate that they have."""
    lr = tables["arms"].set_index(["setting", "arm"])["lr"]
    rows = []
    for method in ("Local", *methods_of(tables, name), "FedNova"):
        if has(tables, name, method, NONE):
            runs = rows_of(tables, name, method)
            shares = ("accuracy", "balanced_accuracy", "majority_share")
            found = {m: times(100, mean_of(runs[m], within=(0, 1))) for m in shares}
            found["log_loss"] = mean_of(runs["log_loss"], within=(0, math.inf))
            rows.append({"method": method, "lr": f"{lr[name, named(method)]:g}", **found})
    return rounded(rows, accuracy=1, balanced_accuracy=1, majority_share=1, log_loss=2)


def _honest(tables: Tables, name: str) -> dict[str, Any]:
    """Tabulate what honest clients reach over the share that flips signs, by method and the server's rule."""
    flips = [b for b in burdens_of(tables, name, "robustness") if b.way == "sign flip"]
    met: dict[str, dict[float, Burden]] = {}
    for burden in flips:
        free = NONE if burden.rule == "mean" else Burden("robustness", "no attack", 0.0, burden.rule)
        met.setdefault(burden.rule, {0.0: free})[burden.dose] = burden
    if not met:
        return {}
    runs = tables["runs"][tables["runs"]["setting"] == name]
    # with one seed all arms of a share have the same attackers; where an arm diverged, another tells what Local reaches
    alike = next(iter(met.values())).items()
    rows = {("Local", DASH): {at: runs[runs["burden"] == b.label].groupby("seed")["local"].first() for at, b in alike}}
    for method in methods_of(tables, name):
        for rule, of in met.items():
            rows[method, rule] = {at: rows_of(tables, name, method, b)["accuracy"] for at, b in of.items()}
    shares = {at: f"{at:.0%}" for at in sorted({0.0, *(b.dose for b in flips)})}
    told = [{text: times(100, mean_of(row[at], within=(0, 1))) for at, text in shares.items()} for row in rows.values()]
    shown = rounded(told, **dict.fromkeys(shares.values(), 1))
    return {
        "shares": list(shares.values()),
        "rows": [{"method": arm, "rule": rule, "at": at} for (arm, rule), at in zip(rows, shown, strict=True)],
    }


def _rows(tables: Tables, name: str) -> list[dict[str, Any]]:
    """Tabulate costs, their differences to FedAvg's, and the first personal method − Local."""
    found, methods = effects(tables), methods_of(tables, name)
    rows = []
    for burden in burdens_of(tables, name):
        cells: dict[str, Effect] = {
            f"cost {m}": found[ACCURACY, name, named(m, burden), without(m, burden)] for m in methods
        }
        cells |= {
            f"beside {m}": found[COST, name, cost(m, burden), cost(SHARED, burden)] for m in methods if m != SHARED
        }
        if FIRST in methods:
            cells["alone"] = found[ACCURACY, name, named(FIRST, burden), alone(burden)]
        rows.append({"kind": burden.kind, "burden": words(burden), "cells": [_cell(e) for e in cells.values()]})
    return rows


def _cell(effect: Effect) -> dict[str, str]:
    finding = Finding.of("", effect, digits=0 if effect.high - effect.low > 20 else 1)
    judged = finding.sign in ("more", "less")
    return {
        "text": finding.text if finding.text == NOT_JUDGED or not effect.why else DASH,
        "shown": str(judged).lower(),
    }


def _untrained(tables: Tables, name: str) -> list[dict[str, str]]:
    """List the arms that are not judged, each once, with the reason."""
    why = not_trained(tables, name)
    plain = [(named(m), m + " without a burden") for m in (*methods_of(tables, name), "FedNova", "Local")]
    loaded = [(named(m, b), f"{m}, {words(b)}") for m, b in bearers(tables, name) if named(m) not in why]
    return [{"arm": told, "why": why[arm]} for arm, told in (*plain, *loaded) if arm in why]


def _codecs(tables: Tables, name: str) -> list[dict[str, str]]:
    """Tabulate the bytes that a client uploads in a round, and accuracy, by method: without a codec first."""
    up = tables["arms"].set_index(["setting", "arm"])["up"]
    codecs = burdens_of(tables, name, "compression")
    rows = [
        {
            "method": method, "codec": words(burden) if burden in codecs else "none",
            "up": f"{up[name, named(method, burden)]:,.0f}",
            "times": f"{up[name, named(method)] / up[name, named(method, burden)]:.2g}",
            "accuracy": times(100, mean_of(rows_of(tables, name, method, burden)["accuracy"], within=(0, 1))),
        }
        for method in methods_of(tables, name) if codecs
        for burden in (NONE, *codecs) if up[name, named(method, burden)] > 0
    ]  # fmt: skip
    return rounded(rows, accuracy=1)


def _epsilons(tables: Tables, name: str) -> list[dict[str, Any]]:
    rows = tables["account"]
    own = rows[rows["setting"] == name] if len(rows) else rows
    return [
        {
            "noise": f"{row.noise:g}", "delta": f"{row.delta:g}", "relation": str(row.relation),
            "sampling": str(row.sampling),
            "epsilon": "infinite" if math.isinf(row.epsilon) else f"{row.epsilon:,.3g}" if row.epsilon < 100
            else f"{float(f'{row.epsilon:.2g}'):,.0f}",
            "telling": bool(row.epsilon <= TELLING),
        }
        for row in own.itertuples()
    ]  # fmt: skip


def _lost(tables: Tables, name: str) -> list[dict[str, str]]:
    """List the arms of which runs diverged, with how many."""
    found = []
    for method, burden in bearers(tables, name):
        runs = rows_of(tables, name, method, burden)["accuracy"]
        if runs.isna().any():
            guess = CHANCE - 100 * rows_of(tables, name, method)["accuracy"].mean()
            told = {"count": f"{runs.isna().sum()} of {len(runs)}", "guess": fixed(guess, 0)}
            found.append({"arm": f"{method}, {words(burden)}", **told})
    return found


def _family(tables: Tables, name: str, kind: str, rule: str) -> dict[str, Any]:
    """Count the signs of a family of burdens: costs by method, and of each personal method its differences."""
    found, every = findings(tables), effects(tables)
    some, methods = [b for b in burdens_of(tables, name, kind) if b.rule == rule], methods_of(tables, name)
    personal = [m for m in methods if m != SHARED]
    if not some:
        return {}

    def signs(what: str, method: str, of: Iterable[Burden] = some) -> dict[str, Any]:
        asked = {b: found[f"{what} {name} {method} {b.label}"] for b in of}
        by_sign = {
            sign: [{"burden": words(b), "text": f.text} for b, f in asked.items() if f.sign == sign]
            for sign in ("more", "less", "unclear", "undefined")
        }
        return {"method": method, "of": len(asked) - len(by_sign["undefined"]), **by_sign}

    costs = {(m, b): every[ACCURACY, name, named(m, b), without(m, b)] for b in some for m in methods}
    beside = [every[COST, name, cost(m, b), cost(SHARED, b)] for b in some for m in personal]
    none = {b: [m for m in methods if costs[m, b].outcome(MARGIN) == "equivalent"] for b in some}
    attacked = [b for b in some if b.rule != "mean" and b.dose]
    return {
        "setting": name,
        "kind": kind,
        "rule": rule,
        "costs": [signs("cost", m) for m in methods],
        "within": {m: sum(m in some for some in none.values()) for m in methods},
        "beside": [signs("beside", m) for m in personal],
        "alone": [signs("alone", m) for m in personal],
        "helps": [signs("rule", m, attacked) for m in methods] if attacked else [],
        **sought([effect for effect in beside if effect.low < 0 < effect.high], 1),
    }

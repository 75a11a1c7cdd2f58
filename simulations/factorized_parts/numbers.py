"""What the study of Factorized-FL's parts hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import LEVEL, Effect, Effects
from simulations.estimates import mean_of, times
from simulations.factorized_parts import figures as drawn
from simulations.factorized_parts.arms import BASES, CLIENTS, OF_A_DOMAIN
from simulations.factorized_parts.compared import (
    AGAINST,
    CONTROLS,
    COSINE,
    SIMILARITIES,
    SWITCHED,
    Lead,
    against_controls,
    components,
    effects,
    leads,
    per_seed,
    settings,
)
from simulations.factorized_parts.study import DOMAIN_SETTING, METRICS, SINGLE_SETTING
from simulations.names import readable
from simulations.showing import NONE, fixed, rounded, sought

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The share of a client's domain among others, which blind matching reaches.
CHANCE = (OF_A_DOMAIN - 1) / (CLIENTS - 1)
PANELS = {"g": "components", "h": "rank", "i": "least similarity", "k": "factors and networks"}


# --- findings --------------------------------------------------------------------------------------------------


def findings(tables: Tables) -> dict[str, Finding]:
    """Return all quantities that words rest on, as far as their arms ran."""
    known = effects(tables)
    found = {
        f"control {setting}: {e.first} - {e.second}": _difference(e)
        for setting in settings(tables)
        for several in against_controls(known, setting).values()
        for e in several
    }
    found |= {f"switch {e.first}": _difference(e) for e in known.among(SWITCHED)}
    for panel, several in components(known).items():
        found |= {
            f"7{panel} {e.first} - {e.second}": _difference(e) for e in several if (e.first, e.second) not in AGAINST
        }
    found |= {f"7j {e.first}": _difference(e) for e in known.among(SINGLE_SETTING)}
    return found | _similarities(tables, known)


def _difference(e: Effect) -> Finding:
    where = e.setting if e.setting in (DOMAIN_SETTING, SINGLE_SETTING) else f"digits, {e.setting}"
    return Finding.of(f"accuracy of {readable(e.first)} minus that of {readable(e.second)}, {where}", e, digits=1)


def _similarities(tables: Tables, known: Effects) -> dict[str, Finding]:
    """Return what u and v have in common in the last round, and whom matching found in all of them."""
    table = tables["similarity"]
    arms = list(dict.fromkeys(table["arm"]))
    shares = {"nearest": "three most similar clients", "matched": "neighbours"}
    found = {}
    for arm in arms:
        for key, (words, first, second) in SIMILARITIES.items():
            what = f"{words}, {readable(arm)}, last round"
            found[f"{key} {arm}"] = Finding.of(what, known[COSINE, arm, first, second], digits=4)
        over_rounds = table[table["arm"] == arm].groupby("seed")
        for key, words in shares.items():
            share = over_rounds[key].mean(skipna=False).dropna()
            if len(share) > 1:
                found[f"{key} {arm}"] = Finding.of(
                    f"share of a client's {words} that are of its domain, {readable(arm)}, all rounds",
                    mean_of(share, 1 - (1 - LEVEL) / (len(arms) * len(shares)), within=(0.0, 1.0)), border=CHANCE,
                    digits=3,
                )  # fmt: skip
    return found


# --- numbers ---------------------------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter, who leads where, and what matching did."""
    known = effects(tables)
    every = leads(tables, known)
    behind = [lead.effect for lead in every if not lead.ahead and lead.effect.high < 0]
    unfound = [lead.effect for lead in every if not lead.ahead]
    switches = known.among(SWITCHED)
    return {
        "settings": [_setting(tables, known, setting) for setting in settings(tables)],
        "leads": [_shown_lead(lead) for lead in every],
        "ahead": [{"setting": lead.setting, "arm": readable(lead.effect.first)} for lead in every if lead.ahead],
        "behind": len(behind),
        "open": len(unfound) - len(behind),
        "unfound": sought(unfound, 1) | {"lead": fixed(max((e.high for e in unfound), default=math.nan), 1)},
        "switches": _shown(switches),
        "switches_unfound": sought([e for e in switches if _sign(e) == "unclear"], 1),
        "panels": [
            {"panel": panel, "about": PANELS[panel], "rows": _shown(some)} for panel, some in components(known).items()
        ],
        "single": _single_rows(tables, known),
        "matching": _matching(tables),
        "chance": fixed(CHANCE, 3),
        "rates": _rates(tables),
        "seeds": {s: len(per_seed(tables, s)) for s in dict.fromkeys(tables["runs"]["setting"])},
    }


def _shown_lead(lead: Lead) -> dict[str, Any]:
    shown = rounded([{"lead": lead.effect.estimate}], lead=1)[0]["lead"]
    return {"setting": lead.setting, "arm": readable(lead.effect.first), "lead": shown}


def _setting(tables: Tables, known: Effects, setting: str) -> dict[str, Any]:
    """Return the table of the arms that compete in one setting, with their differences to the controls."""
    found = against_controls(known, setting)
    wide = {metric: per_seed(tables, setting, metric) for metric in (*METRICS, "bytes_up", "bytes_down")}
    lr = tables["runs"][tables["runs"]["setting"] == setting].groupby("arm")["lr"].first()
    rows = []
    for arm in (a for a in (*CONTROLS, *BASES) if a in wide["accuracy"]):
        less: dict[str, Any] = dict.fromkeys(CONTROLS)
        less |= {e.second: e.estimate for e in found.get(arm, [])}
        rows.append(
            {
                "arm": readable(arm),
                "rate": f"{lr[arm]:g}",
                "accuracy": times(100, mean_of(wide["accuracy"][arm])),
                "balanced": times(100, mean_of(wide["balanced_accuracy"][arm])),
                "log_loss": mean_of(wide["log_loss"][arm]),
                "up": fixed(wide["bytes_up"][arm].mean() / 1000, 1),
                "down": fixed(wide["bytes_down"][arm].mean() / 1000, 1),
                **less,
            }
        )
    shown = rounded(rows, accuracy=1, balanced=1, log_loss=3)
    for row, raw in zip(shown, rows, strict=True):
        for control in CONTROLS:
            row[control] = NONE if raw[control] is None else rounded([{"x": raw[control]}], x=1)[0]["x"]
    majority = fixed(100 * float(wide["majority_share"].to_numpy().mean()), 1)
    return {"name": setting, "rows": shown, "majority": majority, "seeds": len(wide["accuracy"])}


def _shown(several: Sequence[Effect]) -> list[dict[str, Any]]:
    rows = rounded([{"difference": e.estimate} for e in several], difference=1)
    return [
        {
            "arm": readable(e.first),
            "control": readable(e.second),
            **row,
            "sign": _sign(e),
            "could": fixed(e.could_find, 1) if _sign(e) == "unclear" else "",
        }
        for e, row in zip(several, rows, strict=True)
    ]


def _sign(e: Effect) -> str:
    return "more" if e.low > 0 else "less" if e.high < 0 else "unclear"


def _single_rows(tables: Tables, known: Effects) -> list[dict[str, Any]]:
    """Return accuracy and size of one client's models; sizes are means over seeds."""
    wide = per_seed(tables, SINGLE_SETTING)
    less = {e.first: e.estimate for e in known.among(SINGLE_SETTING)}
    sizes = tables["sizes"].groupby("arm", sort=False)[["numbers", "not_zero", "mu_zero"]].mean()
    regular = float(sizes.loc["regular", "numbers"])
    rows = [
        {
            "arm": readable(str(arm)),
            "accuracy": times(100, mean_of(wide[arm])),
            "less": less.get(str(arm)),
            "numbers": f"{size['numbers']:,.0f}",
            "not_zero": f"{size['not_zero']:,.0f}",
            "share": fixed(100 * size["not_zero"] / regular, 0),
            "mu_zero": fixed(100 * size["mu_zero"], 1),
        }
        for arm, size in sizes.iterrows()
    ]
    return rounded(rows, accuracy=1, less=1)


def _matching(tables: Tables) -> list[dict[str, Any]]:
    """Return what u and v have in common in the last round, and what matching makes of it, means over seeds."""
    table = tables["similarity"]
    rows = []
    for arm in dict.fromkeys(table["arm"]):
        own = table[table["arm"] == arm]
        last = own[own["round"] == own["round"].max()].mean(numeric_only=True)
        every = own.mean(numeric_only=True)
        cosines = {name: fixed(last[name], 4) for name in ("u_within", "u_between", "v_within", "v_between")}
        shares = {name: fixed(every[name], 3) for name in ("nearest", "matched", "own", "domain")}
        rows.append({"arm": readable(str(arm)), **cosines, **shares, "neighbours": fixed(every["neighbours"], 1)})
    return rows


def _rates(tables: Tables) -> dict[str, Any]:
    """Return what the tuning chose, and where the choice lies at an end of the grid after all."""
    tuning = tables.get("tuning", pd.DataFrame())
    if not len(tuning):
        return {"rows": [], "ends": []}
    best = tuning[tuning["chosen"]].drop_duplicates(["setting", "arm"])
    ends = [f"{readable(r.arm)} ({r.setting})" for r in best.itertuples() if r.end]
    rows = [
        {"setting": r.setting, "arm": readable(r.arm), "rate": f"{r.lr:g}", "accuracy": fixed(100 * r.accuracy, 1)}
        for r in best.itertuples()
    ]
    return {"rows": rows, "ends": ends}


# --- figures ---------------------------------------------------------------------------------------------------


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw similarities and matching, the components, the mixed readings, leads, and one client's models."""
    known = effects(tables)
    found = {
        "similarity": drawn.similarity(tables),
        "matching": drawn.matching(tables, CHANCE),
        "readings": drawn.readings(known.among(SWITCHED)),
        "leads": drawn.leads(leads(tables, known)),
        "single": drawn.single(tables, per_seed(tables, SINGLE_SETTING)),
    }
    if several := components(known):
        found["components"] = drawn.components(several, PANELS)
    return found

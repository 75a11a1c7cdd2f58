"""What the study of Factorized-FL's parts hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.estimates import mean_of, times
from simulations.factorized_parts import figures as drawn
from simulations.factorized_parts.arms import BASES, CLIENTS, OF_A_DOMAIN
from simulations.factorized_parts.compared import (
    CONTROLS,
    LEVEL,
    Difference,
    Lead,
    against_controls,
    components,
    differences,
    leads,
    per_seed,
    switches,
)
from simulations.factorized_parts.study import METRICS, SINGLE_SETTING
from simulations.showing import NONE, fixed, greek, rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST_CELL = "non-iid"
#: The share of a client's domain among others, which blind matching reaches.
CHANCE = (OF_A_DOMAIN - 1) / (CLIENTS - 1)
#: What is asked of similarities in the last round: name, words, minuend, subtrahend, border and unit.
SIMILARITIES = {
    "u_over_v": ("cosine of u less that of v, clients of different domains", "u_between", "v_between"),
    "u_domain": ("cosine of u within domains less that between them", "u_within", "u_between"),
    "v_domain": ("cosine of v within domains less that between them", "v_within", "v_between"),
}
PANELS = {"g": "components", "h": "rank", "i": "least similarity", "k": "factors and networks"}


# --- findings --------------------------------------------------------------------------------------------------


def findings(tables: Tables) -> dict[str, Finding]:
    """Return all quantities that words rest on, as far as their arms ran."""
    found = {f"lead {lead.setting}: {lead.arm}": _lead(lead) for lead in leads(tables)}
    for setting, several in against_controls(tables).items():
        found |= {f"control {setting}: {d.arm} - {d.control}": _difference(d, setting) for d in several}
    found |= {f"switch {d.arm}": _difference(d, f"digits, {FIRST_CELL}") for d in switches(tables, FIRST_CELL)}
    for panel, several in components(tables).items():
        found |= {f"7{panel} {d.arm} - {d.control}": _difference(d, "domains") for d in several}
    found |= {f"7j {d.arm}": _difference(d, "one client") for d in _single(tables)}
    return found | _similarities(tables)


def _difference(d: Difference, setting: str) -> Finding:
    what = f"accuracy of {greek(d.arm)} less that of {greek(d.control)}, {setting}"
    return Finding.of(what, (d.mean, d.low, d.high), unit="points", digits=1)


def _lead(lead: Lead) -> Finding:
    what = f"accuracy of {greek(lead.arm)} less that of the best of {', '.join(lead.controls)}, {lead.setting}"
    return Finding.of(what, (lead.mean, lead.low, lead.high), unit="points", digits=1)


def _single(tables: Tables) -> list[Difference]:
    wide = per_seed(tables, SINGLE_SETTING)
    return differences(wide, [(arm, "regular") for arm in wide if arm != "regular"])


def _similarities(tables: Tables) -> dict[str, Finding]:
    """Return what u and v have in common in the last round, and whom matching found in all of them, one family."""
    table = tables["similarity"]
    arms = list(dict.fromkeys(table["arm"]))
    level = 1 - (1 - LEVEL) / (len(arms) * (len(SIMILARITIES) + 2))
    found = {}
    for arm in arms:
        rows = table[table["arm"] == arm]
        last = rows[rows["round"] == rows["round"].max()].set_index("seed")
        for key, (words, first, second) in SIMILARITIES.items():
            found[f"{key} {arm}"] = Finding.of(
                f"{words}, {greek(arm)}, last round", mean_of(last[first] - last[second], level), digits=4
            )
        over_rounds = rows.groupby("seed")
        for key, words in {"nearest": "three most similar clients", "matched": "neighbours"}.items():
            share = over_rounds[key].mean(skipna=False).dropna()
            if len(share) > 1:
                found[f"{key} {arm}"] = Finding.of(
                    f"share of a client's {words} that are of its domain, {greek(arm)}, all rounds",
                    mean_of(share, level, within=(0.0, 1.0)), border=CHANCE, digits=3,
                )  # fmt: skip
    return found


# --- numbers ---------------------------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter, who leads where, and what matching did."""
    every = list(leads(tables))
    ahead = [lead for lead in every if lead.low > 0]
    return {
        "settings": [_setting(tables, setting) for setting in against_controls(tables)],
        "leads": [_shown_lead(lead) for lead in every],
        "ahead": [{"setting": lead.setting, "arm": greek(lead.arm)} for lead in ahead],
        "behind": sum(lead.high < 0 for lead in every),
        "open": sum(lead.low <= 0 <= lead.high for lead in every),
        "switches": _switch_rows(tables),
        "panels": [_panel(panel, several) for panel, several in components(tables).items()],
        "single": _single_rows(tables),
        "matching": _matching(tables),
        "chance": fixed(CHANCE, 3),
        "rates": _rates(tables),
        "seeds": {s: len(per_seed(tables, s)) for s in dict.fromkeys(tables["runs"]["setting"])},
    }


def _shown_lead(lead: Lead) -> dict[str, Any]:
    shown = rounded([{"lead": (lead.mean, lead.low, lead.high)}], lead=1)[0]["lead"]
    return {"setting": lead.setting, "arm": greek(lead.arm), "lead": shown}


def _setting(tables: Tables, setting: str) -> dict[str, Any]:
    """Return the table of the arms that compete in one setting, with their differences to the controls."""
    found = against_controls(tables)[setting]
    wide = {metric: per_seed(tables, setting, metric) for metric in (*METRICS, "bytes_up", "bytes_down")}
    lr = tables["runs"][tables["runs"]["setting"] == setting].groupby("arm")["lr"].first()
    rows = []
    for arm in (a for a in (*CONTROLS, *BASES) if a in wide["accuracy"]):
        less: dict[str, Any] = dict.fromkeys(CONTROLS)
        less |= {d.control: (d.mean, d.low, d.high) for d in found if d.arm == arm}
        rows.append(
            {
                "arm": greek(arm),
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


def _switch_rows(tables: Tables) -> list[dict[str, Any]]:
    return _shown(switches(tables, FIRST_CELL))


def _panel(panel: str, several: Sequence[Difference]) -> dict[str, Any]:
    return {"panel": panel, "about": PANELS[panel], "rows": _shown(several)}


def _shown(several: Sequence[Difference]) -> list[dict[str, Any]]:
    rows = [{**asdict(d), "difference": (d.mean, d.low, d.high)} for d in several]
    signs = ["more" if d.low > 0 else "less" if d.high < 0 else "unclear" for d in several]
    shown = rounded(rows, difference=1)
    keys = ("arm", "control")
    return [
        {**{key: greek(row[key]) for key in keys}, "difference": row["difference"], "sign": sign}
        for row, sign in zip(shown, signs, strict=True)
    ]


def _single_rows(tables: Tables) -> list[dict[str, Any]]:
    """Return accuracy and size of one client's models; sizes are means over seeds."""
    wide = per_seed(tables, SINGLE_SETTING)
    less = {d.arm: (d.mean, d.low, d.high) for d in _single(tables)}
    sizes = tables["sizes"].groupby("arm", sort=False)[["numbers", "not_zero", "mu_zero"]].mean()
    regular = float(sizes.loc["regular", "numbers"])
    rows = [
        {
            "arm": greek(str(arm)),
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
        rows.append({"arm": greek(str(arm)), **cosines, **shares, "neighbours": fixed(every["neighbours"], 1)})
    return rows


def _rates(tables: Tables) -> dict[str, Any]:
    """Return what the tuning chose, and where the choice lies at an end of the grid after all."""
    tuning = tables.get("tuning", pd.DataFrame())
    if not len(tuning):
        return {"rows": [], "ends": []}
    best = tuning[tuning["chosen"]].drop_duplicates(["setting", "arm"])
    ends = [f"{greek(r.arm)} ({r.setting})" for r in best.itertuples() if r.end]
    rows = [
        {"setting": r.setting, "arm": greek(r.arm), "rate": f"{r.lr:g}", "accuracy": fixed(100 * r.accuracy, 1)}
        for r in best.itertuples()
    ]
    return {"rows": rows, "ends": ends}


# --- figures ---------------------------------------------------------------------------------------------------


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw similarities and matching, the components, the mixed readings, leads, and one client's models."""
    found = {
        "similarity": drawn.similarity(tables),
        "matching": drawn.matching(tables, CHANCE),
        "readings": drawn.readings(switches(tables, FIRST_CELL)),
        "leads": drawn.leads(list(leads(tables))),
        "single": drawn.single(tables, per_seed(tables, SINGLE_SETTING)),
    }
    if several := components(tables):
        found["components"] = drawn.components(several, PANELS)
    return found

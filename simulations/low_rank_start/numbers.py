"""What the study of the low-rank start hands to its chapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import clopper_pearson
from simulations.contract import Finding
from simulations.effects import Effects
from simulations.estimates import mean_of, times
from simulations.low_rank_start.compared import (
    Kind,
    at,
    best_level,
    curves_of,
    dose_of,
    inner_level,
    kinds_of,
    levels_of,
    points,
    ratios,
    response,
    runs_of,
    settings_of,
    share_diverged,
    tuned_rate,
)
from simulations.low_rank_start.effects import (
    CODE,
    LARGEST,
    MARGIN,
    OUTPUT,
    RATES,
    TEXT,
    above_both,
    candidates,
    effects,
    over_better,
    same_dose,
    step,
    steps,
    where,
)
from simulations.low_rank_start.pictures import figures
from simulations.low_rank_start.runs import CONTROLS, METRICS, Arm
from simulations.showing import NONE, fixed, rounded, sought

__all__ = ["effects", "figures", "findings", "numbers"]

#: Makes a finding of what is told, of a setting, and of the two that are compared.
Points = Callable[[str, str, str, str], Finding]


def findings(tables: Tables) -> dict[str, Finding]:
    """Return what the readings, the dose, the arrangement and the route decide, in points of accuracy."""
    every = effects(tables)

    def points_of(what: str, place: str, first: str, second: str) -> Finding:
        return Finding.of(what, every["accuracy", place, first, second], digits=1)

    found: dict[str, Finding] = {}
    for setting in settings_of(tables):
        found |= dict(_dose(tables, points_of, setting))
        found |= dict(_same_dose(tables, points_of, setting))
        found |= dict(_best(tables, points_of, setting))
    return found | dict(_between(tables, points_of))


def _dose(tables: Tables, points_of: Points, setting: str) -> Iterator[tuple[str, Finding]]:
    """Yield the text's reading − the code's, and the two steps from the code's dose to the text's."""
    words = {"first": "first dose above the code’s − the code’s", "second": "text’s dose − that dose"}
    for kind in kinds_of(tables):
        place = where(setting, kind)
        what = f"text’s reading − the code’s, {place}"
        yield f"readings {setting} {kind}", points_of(what, place, at(TEXT, 1.0).label, CODE.label)
        for name, pair in steps(tables).items():
            what = f"{words[name]}, code’s arrangement, {place}"
            yield f"{name} {setting} {kind}", points_of(what, place, *pair)


def _same_dose(tables: Tables, points_of: Points, setting: str) -> Iterator[tuple[str, Finding]]:
    """Yield route − route and arrangement − arrangement at the same dose.

    The code's arrangement keeps its factor before the product where the dose comes by the start; the text's has none.
    """
    for name, curve, words in (
        ("route", OUTPUT, "by the output − by the start"),
        ("arrangement", TEXT, "text’s arrangement − the code’s"),
    ):
        place = where(setting, "paper")
        for level, pair in same_dose(tables, setting, curve).items():
            what = f"{words} at the same dose (level {level:.3g}), {place}"
            yield f"{name} {setting} {level:.3g}", points_of(what, place, *pair)


def _best(tables: Tables, points_of: Points, setting: str) -> Iterator[tuple[str, Finding]]:
    """Yield the chosen dose and the code's − both controls, − one another, and all − the largest class."""
    place, arms = where(setting, kinds_of(tables)[-1]), candidates(tables, setting)
    words = {"best": "FedDecomp at the chosen dose", "default": "the code’s reading"}
    for name, arm in arms.items():
        for control in CONTROLS:
            what = f"{words[name]} − {control}, each at its tuned rate, {setting}"
            yield f"{name} {setting} {control}", points_of(what, place, arm, control)
    if arms["best"] != arms["default"]:
        what = f"{words['best']} − {words['default']}, each at its tuned rate, {setting}"
        yield f"best {setting} default", points_of(what, place, arms["best"], arms["default"])
    for name, arm in {**arms, **{control: control for control in CONTROLS}}.items():
        what = f"{words.get(name, name)} − the share of the client’s largest class, {setting}"
        yield f"guess {setting} {name}", points_of(what, place, arm, LARGEST)


def _between(tables: Tables, points_of: Points) -> Iterator[tuple[str, Finding]]:
    """Yield the two steps of the last setting − those of the first: is the response the same?"""
    first, last = settings_of(tables)[0], settings_of(tables)[-1]
    for kind in kinds_of(tables) if first != last else ():
        for name in steps(tables):
            what = f"{name} step of the dose: {last} − {first}, {RATES[kind]}"
            place = where("both data sets", kind)
            yield f"between {name} {kind}", points_of(what, place, step(name, last), step(name, first))


# --- what the chapter prints -----------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the doses of both readings, the responses, where divergence begins, and the chosen dose."""
    settings, every = settings_of(tables), effects(tables)
    return {
        "settings": [_setting(config, name) for name in settings],
        "tuned": len(kinds_of(tables)) > 1,
        "seeds": int(tables["runs"]["seed"].nunique()),
        "tuning_seeds": int(tables["tuning"]["seed"].nunique()),
        "doses": _doses(tables),
        "rows": [row for name in settings for row in _rows(tables, every, name)],
        "metrics": [row for name in settings for row in _metrics(tables, name)],
        "begins": [_begins(tables, name, kind) for name in settings for kind in kinds_of(tables)],
        "margin": f"{MARGIN:g}",
        "chosen": [_chosen(tables, every, name) for name in settings],
        "rates": [_rates(tables, name) for name in settings],
        "inner": [_dose_text(dose_of(tables, name)[inner_level(tables)]) for name in settings],
        "same": {name: _count(tables, name) for name in ("route", "arrangement")},
        "mechanism": [_mechanism(tables, name) for name in settings],
    }


def _setting(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in config["settings"] if s["name"] == name)
    shown = (
        "name",
        "dataset",
        "clients",
        "alpha",
        "rounds",
        "last",
        "epochs",
        "lora_epochs",
        "batch",
        "train",
        "network",
    )
    return {key: found[key] for key in shown}


def _doses(tables: Tables) -> list[dict[str, str]]:
    """Tabulate the code's dose of every weight."""
    rows = tables["doses"]
    first = rows[rows["level"] == rows["level"].min()]
    return [
        {
            "setting": row.setting, "weight": str(row.weight), "shape": str(row.shape).replace("x", " × "),
            "code_rank": str(row.code_rank), "text_rank": str(row.text_rank), "dose": _dose_text(row.own),
        }
        for row in first.itertuples()
    ]  # fmt: skip


def _dose_text(value: float) -> str:
    """Format a dose with two digits, without powers of ten."""
    return np.format_float_positional(float(f"{value:.2g}"), trim="-")


def _rows(tables: Tables, every: Effects, setting: str) -> list[dict[str, str]]:
    """Tabulate the responses: accuracy, − Local and − FedAvg, seeds that diverged, and the ratio."""
    rows, kind = [], kinds_of(tables)[-1]
    for curve in curves_of(kind):
        values, shares = response(tables, setting, curve, kind), share_diverged(tables, setting, curve, kind)
        ratio = ratios(tables, setting, curve, kind)
        for level in values:
            if curve.route == "output" and not level:
                continue  # the same runs as by the start
            arm, n = at(curve, level), len(values)
            lr = tuned_rate(tables, setting, arm) if kind == "tuned" else None
            minus = {c: every["accuracy", where(setting, kind), arm.label, c].estimate for c in CONTROLS}
            rows.append(
                {
                    "setting": setting, "kind": RATES[kind], "reading": arm.reading, "route": arm.route,
                    "level": f"{level:.3g}", "dose": _dose_text(dose_of(tables, setting)[level]),
                    "lr": NONE if lr is None else f"{lr:g}",
                    "accuracy": mean_of(values[level], within=(0, 100)),
                    **minus,
                    "diverged": f"{round(shares[level] * n)} of {n}", "ratio": _ratio_text(ratio[level]),
                }
            )  # fmt: skip
    return rounded(rows, accuracy=1, Local=1, FedAvg=1)


def _ratio_text(values: pd.Series) -> str:
    known = values.dropna()
    return NONE if known.empty else f"{known.mean():.2g}"


def _metrics(tables: Tables, setting: str) -> list[dict[str, Any]]:
    """Tabulate all metrics of the arms that are compared at tuned rates, where none of their runs diverged."""
    arms = {name: Arm(name) for name in CONTROLS}
    arms |= {"FedDecomp, code’s reading": at(CODE, 0.0), "FedDecomp, text’s reading": at(TEXT, 1.0)}
    level = best_level(tables, setting)
    if level:
        arms["FedDecomp, chosen dose"] = at(CODE, level)
    rows = []
    for name, arm in arms.items():
        runs = runs_of(tables, setting, arm)
        known = not runs["diverged"].astype(bool).any()
        found = {m: mean_of(runs[m], within=(0, np.inf if m == "log_loss" else 1)) if known else None for m in METRICS}
        shares = {m: times(100, e) if e and m != "log_loss" else e for m, e in found.items()}
        rows.append({"setting": setting, "arm": name, "lr": f"{tuned_rate(tables, setting, arm):g}", **shares})
    return rounded(rows, accuracy=1, balanced_accuracy=1, majority_share=1, log_loss=2)


def _begins(tables: Tables, setting: str, kind: Kind) -> dict[str, Any]:
    """Say for each curve at which dose training first diverged under some seed, and under how many."""
    found = []
    for curve in curves_of(kind):
        shares = share_diverged(tables, setting, curve, kind)
        n = len(runs_of(tables, setting, at(curve, 0.0), kind))
        lost = [level for level in shares.index if shares[level] > 0]
        record = {
            "reading": curve.reading,
            "route": curve.route,
            "any": bool(lost),
            "dose": "",
            "count": "",
            "below": "",
        }
        if lost:
            first = lost[0]
            low, high = clopper_pearson(round(shares[first] * n), n)
            smaller = [level for level in shares.index if level < first]
            dose = dose_of(tables, setting)
            record |= {
                "dose": _dose_text(dose[first]), "count": f"{round(shares[first] * n)} of {n}",
                "limits": f"{fixed(low, 2)} to {fixed(high, 2)}",
                "below": _dose_text(dose[smaller[-1]]) if smaller else NONE,
            }  # fmt: skip
        found.append(record)
    return {"setting": setting, "kind": RATES[kind], "curves": found}


def _chosen(tables: Tables, every: Effects, setting: str) -> dict[str, Any]:
    """Return the dose that was chosen, its rate, its accuracy on tuning and fresh seeds, and what pairing gave."""
    level, place = best_level(tables, setting), where(setting, kinds_of(tables)[-1])
    arm, best = at(CODE, level), candidates(tables, setting)["best"]
    rows = tables["tuning"]
    rows = rows[(rows["setting"] == setting) & rows["best"] & rows["chosen"]]
    better = over_better(every, place, best)
    return {
        "setting": setting, "level": f"{level:.3g}", "dose": _dose_text(dose_of(tables, setting)[level]),
        "lr": f"{tuned_rate(tables, setting, arm):g}", "validation": fixed(100 * rows["accuracy"].mean(), 1),
        "fresh": fixed(points(tables, setting, arm).mean(), 1), "default": "yes" if level == 0 else "no",
        "end": "yes" if level == levels_of(tables)[-1] else "no",
        "both": (setting, "best") in above_both(tables, every), "better": better.second, **sought([better], 1),
        **{control: fixed(every["accuracy", place, best, control].correlation, 2) for control in CONTROLS},
    }  # fmt: skip


def _rates(tables: Tables, setting: str) -> dict[str, Any]:
    """Return the tuned rates of a setting."""
    rows = [{"arm": name, "lr": f"{tuned_rate(tables, setting, Arm(name)):g}"} for name in CONTROLS]
    dose = dose_of(tables, setting)
    rows += [
        {"arm": f"dose {_dose_text(dose[level])}", "lr": f"{tuned_rate(tables, setting, at(CODE, level)):g}"}
        for level in levels_of(tables)
    ]
    return {"setting": setting, "rates": rows}


def _count(tables: Tables, name: str) -> list[dict[str, Any]]:
    """Count at how many doses two routes, or two arrangements, differ."""
    found, rows = findings(tables), []
    for setting in settings_of(tables):
        own = {key: f for key, f in found.items() if key.startswith(f"{name} {setting} ")}
        signs = [finding.sign for finding in own.values()]
        least, most = (
            (None, None) if not own or "undefined" in signs else (pick(own.values(), key=_mean) for pick in (min, max))
        )
        counts = {sign: signs.count(sign) for sign in ("more", "less", "unclear")}
        rows.append(
            {
                "setting": setting, "of": len(signs), **counts,
                "lowest": least.text if least else NONE, "highest": most.text if most else NONE,
            }
        )  # fmt: skip
    return rows


def _mean(finding: Finding) -> float:
    return finding.mean


def _mechanism(tables: Tables, setting: str) -> dict[str, str]:
    """Return the length of tau over that of sigma at the readings and at the chosen dose."""
    kind = kinds_of(tables)[-1]
    code, text = ratios(tables, setting, CODE, kind), ratios(tables, setting, TEXT, kind)
    return {
        "setting": setting, "kind": RATES[kind], "code": _ratio_text(code[0.0]), "text": _ratio_text(text[1.0]),
        "chosen": _ratio_text(code[best_level(tables, setting)]),
    }  # fmt: skip

"""What the study of the low-rank start hands to its chapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import PairedDifference, clopper_pearson
from simulations.contract import Finding
from simulations.estimates import difference_of, margin_of, mean_of, times
from simulations.low_rank_start.compared import (
    Kind,
    at,
    best_level,
    curves_of,
    dose_of,
    inner_level,
    joint_differences,
    kinds_of,
    less_controls,
    levels_of,
    points,
    ratios,
    response,
    runs_of,
    settings_of,
    share_diverged,
    tuned_rate,
)
from simulations.low_rank_start.pictures import figures as figures
from simulations.low_rank_start.runs import CONTROLS, METRICS, Arm
from simulations.showing import NONE, fixed, rounded

RATES: dict[Kind, str] = {"paper": "at the paper’s rate", "tuned": "at tuned rates"}
CODE, TEXT = Arm(reading="code"), Arm(reading="text")
OUTPUT = Arm(route="output")


def findings(tables: Tables) -> dict[str, Finding]:
    """Return what the readings, the dose, the arrangement and the route decide, in points of accuracy."""
    found: dict[str, Finding] = {}
    for setting in settings_of(tables):
        for kind in kinds_of(tables):
            found |= dict(_dose(tables, setting, kind))
        found |= dict(_same_dose(tables, setting))
        found |= dict(_best(tables, setting))
    return found | dict(_between(tables))


def _points(what: str, difference: PairedDifference) -> Finding:
    return Finding.of(what, difference, unit="points", digits=1)


def _dose(tables: Tables, setting: str, kind: Kind) -> Iterator[tuple[str, Finding]]:
    """Yield the text's reading less the code's, and the two steps from the code's dose to the text's."""
    where = f"{setting}, {RATES[kind]}"
    readings = [points(tables, setting, at(TEXT, 1.0), kind), points(tables, setting, at(CODE, 0.0), kind)]
    yield (
        f"readings {setting} {kind}",
        _points(f"text’s reading less the code’s, {where}", difference_of(*readings)),
    )
    values, inner = response(tables, setting, CODE, kind), inner_level(tables)
    both = joint_differences([(values[inner], values[0.0]), (values[1.0], values[inner])])
    for name, words, difference in zip(
        ("first", "second"), ("first dose above the code’s less the code’s", "text’s dose less that dose"), both,
        strict=True,
    ):  # fmt: skip
        yield f"{name} {setting} {kind}", _points(f"{words}, code’s arrangement, {where}", difference)


def _same_dose(tables: Tables, setting: str) -> Iterator[tuple[str, Finding]]:
    """Yield route less route and arrangement less arrangement at the same dose; each family holds together.

    The code's arrangement keeps its factor before the product where the dose comes by the start; the text's has none.
    """
    levels = levels_of(tables)
    code = response(tables, setting, CODE, "paper")
    for name, curve, words in (
        ("route", OUTPUT, "by the output less by the start"),
        ("arrangement", TEXT, "text’s arrangement less the code’s"),
    ):
        other = response(tables, setting, curve, "paper")
        moving = [level for level in levels if _moves(other[level] - code[level])]
        for level, difference in zip(moving, joint_differences([(other[v], code[v]) for v in moving]), strict=True):
            what = f"{words} at the same dose (level {level:.3g}), {setting}, at the paper’s rate"
            yield f"{name} {setting} {level:.3g}", _points(what, difference)


def _moves(values: pd.Series) -> bool:
    """Say whether a difference spreads over seeds: not where both arms diverged under all, or are the same runs."""
    return bool(values.nunique(dropna=False) > 1)


def _best(tables: Tables, setting: str) -> Iterator[tuple[str, Finding]]:
    """Yield the chosen dose and the code's less both controls, which hold together, and less one another."""
    level = best_level(tables, setting)
    arms = {"best": "FedDecomp at the chosen dose", "default": "the code’s reading"}
    values = {"best": points(tables, setting, at(CODE, level)), "default": points(tables, setting, CODE)}
    controls = {name: points(tables, setting, Arm(name)) for name in CONTROLS}
    for arm, words in arms.items():
        pairs = [(values[arm], controls[name]) for name in CONTROLS]
        for name, difference in zip(CONTROLS, joint_differences(pairs), strict=True):
            what = f"{words} less {name}, each at its tuned rate, {setting}"
            yield f"{arm} {setting} {name}", _points(what, difference)
    if level:
        what = f"FedDecomp at the chosen dose less the code’s reading, each at its tuned rate, {setting}"
        yield f"best {setting} default", _points(what, difference_of(values["best"], values["default"]))
    largest = 100 * runs_of(tables, setting, Arm("Local"))["majority_share"]
    every = {**values, **controls}
    guesses = joint_differences([(own, largest) for own in every.values()])
    for name, difference in zip(every, guesses, strict=True):
        what = f"{arms.get(name, name)} less the share of the client’s largest class, {setting}"
        yield f"guess {setting} {name}", _points(what, difference)


def _between(tables: Tables) -> Iterator[tuple[str, Finding]]:
    """Yield the two steps of the last setting less those of the first: is the response the same?

    Limits are Welch's, since the settings share nothing, and hold together over the two steps at a rate.
    """
    from scipy import stats

    settings = settings_of(tables)
    if len(settings) < 2:
        return
    inner = inner_level(tables)
    for kind in kinds_of(tables):
        first, last = (response(tables, s, CODE, kind) for s in (settings[0], settings[-1]))
        for name, high, low in (("first", inner, 0.0), ("second", 1.0, inner)):
            a, b = last[high] - last[low], first[high] - first[low]
            limits = stats.ttest_ind(a, b, equal_var=False).confidence_interval(1 - 0.05 / 2)
            what = f"{name} step of the dose: {settings[-1]} less {settings[0]}, {RATES[kind]} (Welch)"
            estimate = float(a.mean() - b.mean()), float(limits.low), float(limits.high)
            yield f"between {name} {kind}", Finding.of(what, estimate, unit="points", digits=1)


# --- what the chapter prints -----------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the doses of both readings, the responses, where divergence begins, and the chosen dose."""
    settings = settings_of(tables)
    return {
        "settings": [_setting(config, name) for name in settings],
        "tuned": len(kinds_of(tables)) > 1,
        "seeds": int(tables["runs"]["seed"].nunique()),
        "tuning_seeds": int(tables["tuning"]["seed"].nunique()),
        "doses": _doses(tables),
        "rows": [row for name in settings for row in _rows(tables, name, kinds_of(tables)[-1])],
        "metrics": [row for name in settings for row in _metrics(tables, name)],
        "begins": [_begins(tables, name, kind) for name in settings for kind in kinds_of(tables)],
        "chosen": [_chosen(tables, name) for name in settings],
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


def _rows(tables: Tables, setting: str, kind: Kind) -> list[dict[str, str]]:
    """Tabulate the responses: accuracy, less Local and less FedAvg, seeds that diverged, and the ratio."""
    rows = []
    for curve in curves_of(kind):
        values, shares = response(tables, setting, curve, kind), share_diverged(tables, setting, curve, kind)
        less, ratio = less_controls(tables, setting, curve, kind), ratios(tables, setting, curve, kind)
        for level in values:
            if curve.route == "output" and not level:
                continue  # the same runs as by the start
            arm, n = at(curve, level), len(values)
            lr = tuned_rate(tables, setting, arm) if kind == "tuned" else None
            rows.append(
                {
                    "setting": setting, "kind": RATES[kind], "reading": arm.reading, "route": arm.route,
                    "level": f"{level:.3g}", "dose": _dose_text(dose_of(tables, setting)[level]),
                    "lr": NONE if lr is None else f"{lr:g}",
                    "accuracy": mean_of(values[level], within=(0, 100)),
                    "Local": less[level, "Local"], "FedAvg": less[level, "FedAvg"],
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


def _chosen(tables: Tables, setting: str) -> dict[str, str]:
    """Return the dose that was chosen, its rate, its accuracy on tuning and fresh seeds, and what pairing gave."""
    level = best_level(tables, setting)
    arm = at(CODE, level)
    rows = tables["tuning"]
    rows = rows[(rows["setting"] == setting) & rows["best"] & rows["chosen"]]
    fresh = points(tables, setting, arm)
    paired = {name: difference_of(fresh, points(tables, setting, Arm(name))) for name in CONTROLS}
    return {
        "setting": setting, "level": f"{level:.3g}", "dose": _dose_text(dose_of(tables, setting)[level]),
        "lr": f"{tuned_rate(tables, setting, arm):g}", "validation": fixed(100 * rows["accuracy"].mean(), 1),
        "fresh": fixed(fresh.mean(), 1), "default": "yes" if level == 0 else "no",
        "end": "yes" if level == levels_of(tables)[-1] else "no", "margin": fixed(margin(tables, setting), 1),
        **{name: fixed(difference.correlation, 2) for name, difference in paired.items()},
    }  # fmt: skip


def margin(tables: Tables, setting: str) -> float:
    """Return the margin of equivalence: a tenth of the gap between FedAvg and Local, one point at most."""
    return margin_of(pd.DataFrame({name: points(tables, setting, Arm(name)) for name in CONTROLS}))


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

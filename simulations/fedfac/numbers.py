"""What the FedFac study hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.effects import Effects
from simulations.estimates import mean_of
from simulations.fedfac.effects import (
    COMPETITORS,
    DESIGN,
    LOSS,
    MARGIN,
    MASKED,
    NEW,
    NEW_CLIENTS,
    QUESTION,
    SPREAD,
    VERSIONS,
    effects,
    lead,
    not_trained,
    over,
    short,
    spreads,
    summaries,
)
from simulations.fedfac.per_seed import AGAINST, FACTOR, by_seed, groups, masked, pooled, settings_of
from simulations.fedfac.pictures import figures
from simulations.fedfac.runs import AFTERWARDS, ARMS, CURVES, RULES
from simulations.published import printed
from simulations.showing import NONE, fixed, mean_sd, rounded, sought, span

__all__ = ["effects", "figures", "findings", "numbers"]

PAPER = "fedsplit"
PER_CENT = (0.0, 100.0)


# --- findings --------------------------------------------------------------------------------------------------


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the quantities on which words rest, by group."""
    found, every = dict[str, Finding](), effects(tables)
    for group in groups(tables):
        found |= {f"{group} {key}": value for key, value in _of_group(tables, every, group).items()}
    return found


def _of_group(tables: Tables, every: Effects, group: str) -> dict[str, Finding]:
    where = over(tables, group)
    dynamic, often = "FedFac dynamic", "random split, every round"

    def told(a: str, b: str, metric: str = "accuracy", words: str = "", digits: int = 1) -> Finding:
        what = words or f"{metric}, {a} − {b}"
        return Finding.of(f"{what}, {where}", every[metric, where, a, b], digits=digits)

    found = {f"{arm} − {other}": told(arm, other) for arm, other in product(FACTOR, AGAINST)}
    found["every round"] = found[f"{dynamic} − {often}"]
    found["redrawn"] = told(often, "random split")
    found |= {f"control {other}": told(dynamic, other) for other in ("Local", "FedAvg")}
    found |= {f"log-loss {other}": told(dynamic, other, "log-loss", digits=2) for other in QUESTION}
    found["tuned"] = told(dynamic, "FedAvg+")
    settings = settings_of(tables, group)
    for setting in settings:
        what = f"training loss, mean over rounds, {dynamic} − FedAvg, {setting}"
        found[f"loss {short(setting)}"] = Finding.of(what, every[LOSS, setting, dynamic, "FedAvg"])
    if len(settings) > 1:
        first, last = settings[0], settings[-1]
        words = f"the same at {short(first)} − at {short(last)}"
        found["loss by heterogeneity"] = told(lead(first), lead(last), LOSS, words, 2)
    for other in ("FedAvg", "FedPer", "Local"):
        words = f"{SPREAD}, test noise removed, {dynamic} − {other}"
        found[f"spread {other}"] = told(dynamic, other, SPREAD, words)
    for key, other in (("new, ensemble", "LocalTrain"), ("new, tuned", "FedAvg+")):
        found[key] = told("Ensemble", other, NEW)
    words = "accuracy, personal units masked − shared units masked"
    found["masking"] = told("personal masked", "shared masked", MASKED, words)
    return found


# --- the proving experiment ------------------------------------------------------------------------------------

#: The versions of FedFac that are held against FedPer and a random split; our own statistic is none of the paper's.
PROVING = FACTOR[:3]


def _proof(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the experiment that the paper's claim stands or falls with: FedFac against FedPer and a random split."""
    main = groups(tables)[0]
    own = [cell for cell in config["cells"] if cell["name"] in settings_of(tables, main)]
    names = {
        f"{main} {arm} − {other}": f"{arm.removeprefix('FedFac ')} minus {words}"
        for other, words in {"FedPer": "FedPer", "random split": "a random split"}.items()
        for arm in PROVING
    }
    settings = ", ".join(short(cell["name"]) for cell in own)
    return [
        {
            "what": f"{own[0]['clients']} clients, {own[0]['name'].rpartition(', ')[0]}, mean of {settings}, "
            f"{own[0]['rounds']} rounds, {len(pooled(tables, main))} seeds",
            "findings": list(names),
            "names": names,
            "beside": _against_printed(tables, {**config, "cells": own}),
            "printed": _printed_gaps([cell["printed"] for cell in own]),
        }
    ]


def _against_printed(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return FedFac and FedPer of Table 2, and factor analysis and the random split of Table 8, beside ours."""

    def ours(setting: str) -> pd.DataFrame:
        return 100 * by_seed(tables, setting, "weighted_accuracy")

    second = {name: name for name in ("FedPer", "FedFac static", "FedFac dynamic")}
    eighth = {"factor analysis": "FedFac dynamic", "random split": "random split"}
    return [
        *_beside(tables, config, "table_2", second, "FedPer", ours),
        *_beside(tables, config, "table_8", eighth, "random split", ours),
    ]


def _printed_gaps(settings: Sequence[str]) -> str:
    """Say by how much the paper's FedFac is above FedPer and above a random split in these settings; "" if nowhere."""
    second = {(row["setting"], row["method"]): 100 * float(row["accuracy"]) for row in printed(PAPER, "table_2")}
    eighth = {(row["setting"], row["variant"]): 100 * float(row["accuracy"]) for row in printed(PAPER, "table_8")}
    gaps = {
        "FedPer": [second[s, "FedFac dynamic"] - second[s, "FedPer"] for s in settings if (s, "FedPer") in second],
        "a random split": [
            eighth[s, "factor analysis"] - eighth[s, "random split"] for s in settings if (s, "random split") in eighth
        ],
    }
    return ", ".join(f"dynamic minus {other}: {span(gap, 1)} points" for other, gap in gaps.items() if gap)


# --- numbers ---------------------------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter."""
    main = groups(tables)[0]
    every, found = settings_of(tables), effects(tables)
    cells = {cell["name"]: cell for cell in config["cells"]}
    return {
        "main": main,
        "groups": groups(tables),
        "settings": [{"key": s, "short": s.replace("9,085 images of ", "")} for s in every],
        "arms": [{"arm": arm, "words": words} for arm, words in ARMS.items()],
        "cells": [_cell(cells[s]) for s in every],
        "seeds": {group: len(pooled(tables, group)) for group in groups(tables)},
        "few": config["few"],
        "fine_tune": config["fine_tune"],
        "tuned_rounds": config["tuning_rounds"],
        "tuning": _tuning(tables["tuning"]),
        "accuracy": _by_setting(tables, every, "accuracy"),
        "metrics": _metrics(tables, main),
        "differences": {group: _differences(found, over(tables, group)) for group in groups(tables)},
        "printed_2": _table_2(tables, config),
        "margin": f"{MARGIN:g}",
        "counts": {arm: _counts(tables, found, main, arm) for arm in VERSIONS},
        "best": _best(tables, found, main),
        "spread": _spread(tables, main),
        "new": _new(tables, every),
        "printed_3": _table_3(tables, config),
        "masking": _masking(tables, every),
        "printed_8": _table_8(tables, config),
        "proof": _proof(tables, config),
    }


def _cell(cell: Mapping[str, Any]) -> dict[str, str]:
    return {
        "name": cell["name"], "clients": str(cell["clients"]), "rounds": str(cell["rounds"]),
        "epochs": str(cell["local_epochs"]), "batch": str(cell["batch_size"]), "network": cell["network"],
        "layers": ", ".join(cell["layers"]), "shared": str(cell["shared"]),
        "participation": f"{cell['participation']:.2g}",
    }  # fmt: skip


def _tuning(tuning: pd.DataFrame) -> list[dict[str, str]]:
    """Tabulate the chosen rates by data set and arm, with the grid that was tried."""
    rows = []
    for (dataset, arm), own in tuning.groupby(["dataset", "arm"], sort=False):
        rows.append(
            {
                "dataset": str(dataset), "arm": str(arm), "rate": f"{own.loc[own['chosen'], 'lr'].iloc[0]:g}",
                "grid": ", ".join(f"{lr:g}" for lr in sorted(own["lr"].unique())),
                "end": "yes" if bool(own.get("end", pd.Series([False])).any()) else "no",
            }
        )  # fmt: skip
    return rows


def _by_setting(tables: Tables, settings: Sequence[str], metric: str) -> list[dict[str, Any]]:
    """Tabulate mean (standard deviation over seeds) by arm and setting, and the majority class."""
    wide = {s: 100 * by_seed(tables, s, metric) for s in settings}
    rows = [
        {"arm": arm, **{s: mean_sd(table[arm]) if arm in table else NONE for s, table in wide.items()}} for arm in ARMS
    ]
    majority = {s: mean_sd(100 * by_seed(tables, s, "majority_share")["FedAvg"]) for s in settings}
    return [*rows, {"arm": "majority class", **majority}]


def _metrics(tables: Tables, group: str) -> list[dict[str, Any]]:
    """Tabulate accuracy, balanced accuracy (per cent) and log-loss, means over a group's settings."""
    wide = {metric: pooled(tables, group, metric) for metric in ("accuracy", "balanced_accuracy", "log_loss")}
    rows = [
        {
            "arm": arm,
            "accuracy": mean_of(100 * wide["accuracy"][arm].dropna(), within=PER_CENT),
            "balanced": mean_of(100 * wide["balanced_accuracy"][arm].dropna(), within=PER_CENT),
            "log_loss": mean_of(wide["log_loss"][arm].dropna()),
        }
        for arm in ARMS
    ]
    return rounded(rows, accuracy=1, balanced=1, log_loss=2)


def _differences(every: Effects, where: str) -> dict[str, Any]:
    """Tabulate all FedFac arms against all comparators, with outcome and correlation of the pairs."""
    found = [every["accuracy", where, arm, other] for arm, other in product(FACTOR, AGAINST)]
    rows = [
        {
            "arm": effect.first, "other": effect.second, "difference": effect.estimate,
            "outcome": effect.outcome(MARGIN), "correlation": fixed(effect.correlation, 2),
        }
        for effect in found
    ]  # fmt: skip
    return {"rows": rounded(rows, difference=1), "pairs": len(found), **sought(found, 1)}


def _beside(
    tables: Tables,
    config: Mapping[str, Any],
    table: str,
    names: Mapping[str, str],
    control: str,
    ours: Callable[[str], pd.DataFrame],
    design: Design = DESIGN,
) -> list[dict[str, Any]]:
    """Return a printed table beside ours, a record for each of its settings that has a cell here.

    One run behind each printed value is assumed. What has one value under all seeds has no prediction interval and is
    left out.

    Parameters
    ----------
    tables, config : mapping
        The study's.
    table : str
        Which table.
    names : mapping of str to str
        The paper's labels that are compared, and ours for them.
    control : str
        The paper's label of what the others are compared with.
    ours : callable
        Our accuracies in per cent in a setting, by seed and label.
    design : Design
        How seeds, clients and data belong together.
    """
    found = []
    for cell in config["cells"]:
        rows = [row for row in printed(PAPER, table) if row["setting"] == cell["printed"]]
        labels = [row.get("method") or row["variant"] for row in rows]
        values = pd.Series([100 * float(row["accuracy"]) for row in rows], index=labels, dtype=float)
        if values.empty:
            continue
        own = ours(cell["name"]).rename(columns={mine: theirs for theirs, mine in names.items()})
        own = own[[label for label in labels if label in names]].dropna()
        moves = [label for label in own if own[label].nunique() > 1]
        if control in moves and len(moves) > 1:
            missed = not_trained(tables, cell["name"])
            beside = beside_printed(
                pd.DataFrame({"value": values[moves], "seeds": 1}), own[moves], control=control, difference=design,
                untrained={theirs: missed[mine] for theirs, mine in names.items() if mine in missed},
            )  # fmt: skip
            found.append({"setting": cell["name"], **beside})
    return found


def _table_2(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return Table 2 beside ours, by setting: accuracies weighted by clients' samples, as the paper has them."""
    names = {arm: arm for arm in (*COMPETITORS, "FedFac static", "FedFac dynamic")}
    return _beside(tables, config, "table_2", names, "FedAvg", lambda s: 100 * by_seed(tables, s, "weighted_accuracy"))


def _counts(tables: Tables, every: Effects, group: str, arm: str) -> dict[str, Any]:
    """Count the competitors that an arm is above and below, in all settings of a group."""
    found = [every["accuracy", s, arm, other] for s in settings_of(tables, group) for other in COMPETITORS]
    more, less = [e for e in found if e.low > 0], [e for e in found if e.high < 0]
    unclear = [e for e in found if e.low <= 0 <= e.high]
    return {"of": len(found), "more": len(more), "less": len(less), "unclear": len(unclear), **sought(unclear, 1)}


def _best(tables: Tables, every: Effects, group: str) -> list[dict[str, Any]]:
    """Tabulate the paper's summary, the best ten rounds in a row, beside the last ten, in per cent."""
    best, last = (
        100 * pooled(tables, group, metric) for metric in ("weighted_accuracy, best ten rounds", "weighted_accuracy")
    )
    where = over(tables, group)
    rows = [
        {
            "arm": arm, "best": mean_of(best[arm], within=PER_CENT), "last": mean_of(last[arm], within=PER_CENT),
            "more": every["weighted accuracy", where, *summaries(arm)].estimate,
        }
        for arm in CURVES
    ]  # fmt: skip
    return rounded(rows, best=1, last=1, more=1)


def _spread(tables: Tables, group: str) -> list[dict[str, Any]]:
    """Tabulate the spread over clients in points: raw, without test noise, and what equal clients would show."""
    every = pd.concat([spreads(tables, s).assign(setting=s) for s in settings_of(tables, group)])
    mean = every.groupby(["arm", "seed"])[["raw", "shrunken", "noise only"]].mean(skipna=False)
    rows = [
        {"arm": arm, **{key: mean_of(mean.loc[arm][version], within=(0.0, math.inf)) for key, version in
                        (("raw", "raw"), ("shrunken", "shrunken"), ("noise", "noise only"))}}
        for arm in ARMS if arm in mean.index
    ]  # fmt: skip
    return rounded(rows, raw=1, shrunken=1, noise=1)


def _new(tables: Tables, settings: Sequence[str]) -> list[dict[str, Any]]:
    """Tabulate accuracy at new clients by rule and setting."""
    wide = {s: 100 * by_seed(tables, s, table="newcomers") for s in settings}
    return [
        {"rule": rule, **{s: mean_sd(table[rule]) if rule in table else NONE for s, table in wide.items()}}
        for rule in RULES.values()
    ]


def _table_3(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return Table 3 beside ours, by setting."""
    rules = (*AFTERWARDS, *AFTERWARDS.values(), "LG-FedAvg", "FedEM", "FedRep", "LocalTrain", "Ensemble")
    names = {rule: rule for rule in rules}
    wide = {s: 100 * by_seed(tables, s, table="newcomers") for s in settings_of(tables)}
    return _beside(tables, config, "table_3", names, "FedAvg", wide.__getitem__, NEW_CLIENTS)


def _masking(tables: Tables, settings: Sequence[str]) -> list[dict[str, Any]]:
    """Tabulate accuracy after the last round as it is, and with shared or personal units drawn anew."""
    rows = []
    for arm in ("FedFac dynamic", "FedFac static"):
        wide = {s: 100 * masked(tables, s, arm) for s in settings}
        for which in ("unmasked", "shared masked", "personal masked"):
            rows.append({"arm": arm, "masked": which, **{s: mean_sd(table[which]) for s, table in wide.items()}})
    return rows


def _table_8(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return Table 8 beside ours, by setting; the random split is the one drawn once."""
    names = {name: name for name in ("shared masked", "personal masked", "random split")}
    names["factor analysis"] = "FedFac dynamic"

    def ours(setting: str) -> pd.DataFrame:
        wide = by_seed(tables, setting, "weighted_accuracy")
        return 100 * wide[["FedFac dynamic", "random split"]].join(masked(tables, setting))

    return _beside(tables, config, "table_8", names, "factor analysis", ours)

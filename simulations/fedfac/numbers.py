"""What the FedFac study hands to its chapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import fairness
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.estimates import Estimate, difference_of, margin_of, mean_of, means_by, outcome_of
from simulations.fedfac.per_seed import (
    AGAINST,
    FACTOR,
    by_seed,
    groups,
    joint,
    pooled,
    settings_of,
)
from simulations.fedfac.pictures import figures
from simulations.fedfac.runs import AFTERWARDS, ARMS, CURVES, RULES
from simulations.published import printed
from simulations.showing import NONE, fixed, mean_sd, rounded, span

__all__ = ["figures", "findings", "numbers"]

PAPER = "fedsplit"
#: What the message compares FedFac with.
QUESTION = ("FedPer", "random split", "layer split")
COMPETITORS = ("FedAvg", "FedProx", "FedPer", "LG-FedAvg", "FedEM", "FedRep")
PER_CENT = (0.0, 100.0)


# --- tables by seed --------------------------------------------------------------------------------------------


def masked(
    tables: Tables, setting: str, arm: str = "FedFac dynamic", metric: str = "weighted_accuracy"
) -> pd.DataFrame:
    """Return the accuracy of masked models, by seed."""
    rows = tables["masking"]
    rows = rows[(rows["setting"] == setting) & (rows["metric"] == metric) & (rows["arm"] == arm)]
    return rows.pivot(index="seed", columns="masked", values="value")


# --- findings --------------------------------------------------------------------------------------------------


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the quantities on which words rest, by group."""
    found: dict[str, Finding] = {}
    for group in groups(tables):
        where = "mean over the partitions of CIFAR-10’s images" if group == "images" else "digits"
        found |= {f"{group} {key}": value for key, value in _of_group(tables, group, where).items()}
    return found


def _finding(what: str, estimate: Estimate, unit: str = "points", digits: int = 1) -> Finding:
    return Finding.of(what, estimate, unit=unit, digits=digits)


def _plain(a: pd.Series, b: pd.Series) -> Estimate:
    difference = difference_of(a, b)
    return difference.mean, difference.low, difference.high


def _of_group(tables: Tables, group: str, where: str) -> dict[str, Finding]:
    accuracy = 100 * pooled(tables, group)
    found = {}
    # one family, that of the table and the figure: a sentence must not resolve what they leave undecided
    for (arm, other), estimate in joint(accuracy, [(arm, other) for arm in FACTOR for other in AGAINST]).items():
        found[f"{arm} less {other}"] = _finding(f"accuracy, {arm} less {other}, {where}", estimate)
    often = "random split, every round"
    found["every round"] = found[f"FedFac dynamic less {often}"]
    found["redrawn"] = _finding(
        f"accuracy, {often} less random split, {where}", _plain(accuracy[often], accuracy["random split"])
    )
    for (_, other), estimate in joint(accuracy, [("FedFac dynamic", b) for b in ("Local", "FedAvg")]).items():
        found[f"control {other}"] = _finding(f"accuracy, FedFac dynamic less {other}, {where}", estimate)
    loss = pooled(tables, group, "log_loss")
    for (_, other), estimate in joint(loss, [("FedFac dynamic", other) for other in QUESTION]).items():
        found[f"log-loss {other}"] = _finding(f"log-loss, FedFac dynamic less {other}, {where}", estimate, "nats", 2)
    found["tuned"] = _finding(
        f"accuracy, FedFac dynamic less FedAvg+, {where}", _plain(accuracy["FedFac dynamic"], accuracy["FedAvg+"])
    )
    return (
        found
        | _curve_findings(tables, group, where)
        | _client_findings(tables, group, where)
        | _late_findings(tables, group, where)
    )


def _late_findings(tables: Tables, group: str, where: str) -> dict[str, Finding]:
    """Return what is measured after the last round: new clients, and masked units."""
    new = 100 * pooled(tables, group, table="newcomers")
    masks = 100 * pd.concat([masked(tables, s) for s in settings_of(tables, group)]).groupby("seed").mean(skipna=False)
    pairs = {"new, ensemble": ("Ensemble", "LocalTrain"), "new, tuned": ("Ensemble", "FedAvg+")}
    words = "accuracy at new clients"
    found = {key: _finding(f"{words}, {a} less {b}, {where}", _plain(new[a], new[b])) for key, (a, b) in pairs.items()}
    found["masking"] = _finding(
        f"accuracy, personal units masked less shared units masked, {where}",
        _plain(masks["personal masked"], masks["shared masked"]),
    )
    return found


def _curve_findings(tables: Tables, group: str, where: str) -> dict[str, Finding]:
    """Return differences of the training loss, averaged over all rounds, to FedAvg."""
    gaps = {}
    for setting in settings_of(tables, group):
        rows = tables["curves"]
        rows = rows[(rows["setting"] == setting) & (rows["split"] == "train")]
        wide = means_by(rows, "arm", "value")
        gaps[setting] = wide["FedFac dynamic"] - wide["FedAvg"]
    names = list(gaps)
    level = 1 - 0.05 / len(names)
    found = {}
    for setting in names:
        d = difference_of(gaps[setting], 0 * gaps[setting], level=level)
        found[f"loss {_short(setting)}"] = Finding.of(
            f"training loss, mean over rounds, FedFac dynamic less FedAvg, {setting}", d,
            unit="nats",
        )  # fmt: skip
    if len(names) > 1:
        found["loss by heterogeneity"] = _finding(
            f"the same at {_short(names[0])} less at {_short(names[-1])}", _plain(gaps[names[0]], gaps[names[-1]]),
            "nats", 2,
        )  # fmt: skip
    return found


def _short(setting: str) -> str:
    return setting.rpartition(", ")[2] or setting


def spreads(tables: Tables, setting: str) -> pd.DataFrame:
    """Return each arm's standard deviation over clients without the noise of the test, and raw, by seed."""
    rows = tables["clients"][tables["clients"]["setting"] == setting]
    found = []
    for seed, own in rows.groupby("seed"):
        for arm in (arm for arm in ARMS if arm in own and own[arm].notna().all()):
            if not np.isfinite(own[arm]).all():
                found.append({"seed": seed, "arm": arm, **dict.fromkeys(("raw", "shrunken", "noise only"), np.nan)})
                continue
            table = fairness([own[arm].to_numpy()], [own["test"].to_numpy()]).table
            sd = table[table["measure"] == "sd"].set_index("version")["mean"]
            found.append({"seed": seed, "arm": arm, **{v: 100 * sd[v] for v in ("raw", "shrunken", "noise only")}})
    return pd.DataFrame(found)


def _client_findings(tables: Tables, group: str, where: str) -> dict[str, Finding]:
    """Return the difference of the spread over clients between FedFac and FedAvg, and Local."""
    tables_ = [spreads(tables, setting) for setting in settings_of(tables, group)]
    mean = means_by(pd.concat(tables_), "arm", "shrunken")
    return {
        f"spread {other}": _finding(
            f"standard deviation over clients, test noise removed, FedFac dynamic less {other}, {where}",
            _plain(mean["FedFac dynamic"], mean[other]),
        )
        for other in ("FedAvg", "FedPer", "Local")
    }


# --- the proving experiment ------------------------------------------------------------------------------------

#: The versions of FedFac that are held against FedPer and a random split; our own statistic is none of the paper's.
PROVING = FACTOR[:3]


def _proof(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the experiment that the paper's claim stands or falls with: FedFac against FedPer and a random split."""
    main = groups(tables)[0]
    own = [cell for cell in config["cells"] if cell["name"] in settings_of(tables, main)]
    names = {
        f"{main} {arm} less {other}": f"{arm.removeprefix('FedFac ')}, less {words}"
        for other, words in {"FedPer": "FedPer", "random split": "a random split"}.items()
        for arm in PROVING
    }
    settings = ", ".join(_short(cell["name"]) for cell in own)
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
        *_beside(config, "table_2", second, "FedPer", ours),
        *_beside(config, "table_8", eighth, "random split", ours),
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
    return ", ".join(f"dynamic, less {other}: {span(gap, 1)} points" for other, gap in gaps.items() if gap)


# --- numbers ---------------------------------------------------------------------------------------------------


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter."""
    main = groups(tables)[0]
    every = settings_of(tables)
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
        "differences": {group: _differences(tables, group) for group in groups(tables)},
        "printed_2": _table_2(tables, config),
        "counts": {arm: _counts(tables, main, arm) for arm in ("FedFac dynamic", "FedFac code")},
        "best": _best(tables, main),
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


def _differences(tables: Tables, group: str) -> dict[str, Any]:
    """Tabulate all FedFac arms against all comparators, with joint limits, outcome and correlation of the pairs."""
    points = 100 * pooled(tables, group)
    pairs = [(arm, other) for arm in FACTOR for other in AGAINST]
    width = margin_of(points)
    rows = []
    for (arm, other), estimate in joint(points, pairs).items():
        a, b = points[arm], points[other]
        outcome = outcome_of(a, b, estimate, width, 0.05 / len(pairs))
        rows.append(
            {
                "arm": arm, "other": other, "difference": estimate, "outcome": outcome,
                "correlation": fixed(difference_of(a, b).correlation, 2),
            }
        )  # fmt: skip
    return {"rows": rounded(rows, difference=1), "margin": fixed(width, 1), "pairs": len(pairs)}


def _beside(
    config: Mapping[str, Any], table: str, names: Mapping[str, str], control: str, ours: Callable[[str], pd.DataFrame]
) -> list[dict[str, Any]]:
    """Return a printed table beside ours, a record for each of its settings that has a cell here.

    One run behind each printed value is assumed. What has one value under all seeds has no prediction interval and is
    left out.

    Parameters
    ----------
    config : mapping
        The study's.
    table : str
        Which table.
    names : mapping of str to str
        The paper's labels that are compared, and ours for them.
    control : str
        The paper's label of what the others are compared with.
    ours : callable
        Our accuracies in per cent in a setting, by seed and label.
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
            beside = beside_printed(pd.DataFrame({"value": values[moves], "seeds": 1}), own[moves], control=control)
            found.append({"setting": cell["name"], **beside})
    return found


def _table_2(tables: Tables, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return Table 2 beside ours, by setting: accuracies weighted by clients' samples, as the paper has them."""
    names = {arm: arm for arm in (*COMPETITORS, "FedFac static", "FedFac dynamic")}
    return _beside(config, "table_2", names, "FedAvg", lambda s: 100 * by_seed(tables, s, "weighted_accuracy"))


def _counts(tables: Tables, group: str, arm: str) -> dict[str, int]:
    """Count the competitors that an arm beats, in all settings of a group: limits joint over the competitors."""
    signs = []
    for setting in settings_of(tables, group):
        found = joint(100 * by_seed(tables, setting), [(arm, other) for other in COMPETITORS])
        signs += ["more" if low > 0 else "less" if high < 0 else "unclear" for _, low, high in found.values()]
    return {"of": len(signs), **{sign: signs.count(sign) for sign in ("more", "less", "unclear")}}


def _best(tables: Tables, group: str) -> list[dict[str, Any]]:
    """Tabulate the paper's summary, the best ten rounds in a row, beside the last ten, in per cent."""
    best, last = (
        100 * pooled(tables, group, metric) for metric in ("weighted_accuracy, best ten rounds", "weighted_accuracy")
    )
    rows = [
        {"arm": arm, "best": mean_of(best[arm], within=PER_CENT),
         "last": mean_of(last[arm], within=PER_CENT), "more": _plain(best[arm], last[arm])}
        for arm in CURVES
    ]  # fmt: skip
    return rounded(rows, best=1, last=1, more=1)


def _spread(tables: Tables, group: str) -> list[dict[str, Any]]:
    """Tabulate the spread over clients in points: raw, without test noise, and what equal clients would show."""
    every = pd.concat([spreads(tables, s).assign(setting=s) for s in settings_of(tables, group)])
    mean = every.groupby(["arm", "seed"])[["raw", "shrunken", "noise only"]].mean(skipna=False)
    rows = [
        {"arm": arm, **{key: mean_of(mean.loc[arm][version]) for key, version in
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
    return _beside(config, "table_3", names, "FedAvg", lambda s: 100 * by_seed(tables, s, table="newcomers"))


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
    names = {name: name for name in ("shared masked", "personal masked", "factor analysis", "random split")}

    def ours(setting: str) -> pd.DataFrame:
        wide = by_seed(tables, setting, "weighted_accuracy").rename(columns={"FedFac dynamic": "factor analysis"})
        return 100 * wide[["factor analysis", "random split"]].join(masked(tables, setting))

    return _beside(config, "table_8", names, "factor analysis", ours)

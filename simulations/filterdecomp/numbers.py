"""What the study of filter decomposition hands to its chapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import Effects
from simulations.estimates import mean_of
from simulations.filterdecomp import judged, pictures
from simulations.filterdecomp.arms import DITTO, GLOBAL, OURS, OURS_HEAD, PERSONAL, SENDING
from simulations.filterdecomp.judged import effects
from simulations.showing import NONE, fixed, rounded, sought

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
#: A ratio of variances between these is the same within a tenth.
ALIKE = (0.9, 1.1)
#: The arms of the proof line, with the printed name of ours.
PROOF = ("FedAvg + FT", "FedPer", OURS)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the quantities on whose sign the chapter's words rest."""
    known = effects(tables)
    found = dict(_differences(known, judged.PERSONAL_ACCURACY, "{} - {}: {}")) | _curves(tables, known)
    return found | _figure_3(tables, known) | _variance_ratios(tables, known) | _sending(tables, known)


def _differences(known: Effects, metric: str, name: str) -> Iterator[tuple[str, Finding]]:
    """Yield the differences of a metric that do not ask for the order of methods alone."""
    for e in known.values():
        if e.metric == metric and not e.question.startswith("the order"):
            words = f"{metric} of {e.first} minus {e.second}, {e.setting}"
            if e.second == judged.ATOMS:
                words = f"{metric} with {e.first} atoms minus {e.second}, {e.setting}"
            key = (
                f"atoms {e.first}: {e.setting}"
                if e.second == judged.ATOMS
                else name.format(e.first, e.second, e.setting)
            )
            yield key, Finding.of(words, e, digits=1)


def _curves(tables: Tables, known: Effects) -> dict[str, Finding]:
    found = dict(_differences(known, judged.LATE_ACCURACY, "global, {} - {}: {}"))
    for cell in judged.curve_cells(tables):
        where, times = judged.short(cell), judged.rounds_to_target(tables, cell)
        for row in [] if times is None else times.differences.to_dict("records"):
            if row["method"] == "FilterDecomp" and np.isfinite(row["low"]):
                what = f"rounds of FilterDecomp minus FedAvg's until {judged.SHARE:.0%} of FedAvg's accuracy, {where}"
                found[f"rounds: {where}"] = Finding.of(
                    what, (row["difference"], row["low"], row["high"]), unit="rounds", digits=1
                )
    return found


def _figure_3(tables: Tables, known: Effects) -> dict[str, Finding]:
    found = {}
    for shown, varied in judged.VARIED.items():
        name = varied.removeprefix("local ")
        for at in judged.both_at(tables, shown):
            what = f"global accuracy of FilterDecomp minus FedAvg, {at}"
            found[f"{name} {at.split()[0]}"] = Finding.of(what, known[shown, at, "FilterDecomp", "FedAvg"], digits=1)
        if pair := judged.turn(tables, shown):
            for arm in ("FedAvg", "FilterDecomp"):
                what = f"global accuracy of {arm} with {pair[0]} minus that with {pair[1]}"
                found[f"more {name}: {arm}"] = Finding.of(what, known[shown, arm, *pair], digits=1)
    return found


def _variance_ratios(tables: Tables, known: Effects) -> dict[str, Finding]:
    found = {}
    for m in _sizes(tables):
        for key, metric, what in (
            ("variance", judged.VARIANCE, "variance"),
            ("error", judged.ERROR, "mean squared error"),
        ):
            words = f"{what} of the product of averages over the variance of the average, the same clients"
            ratio = judged.geometric(known[metric, judged.at_layer(m, None), judged.PRODUCT, judged.AVERAGE])
            found[f"{key} {m}"] = Finding.of(f"{words}, {m} participants", ratio, border=1.0, digits=4)
    for key, metric, of in (("own", judged.OWN, ""), ("own, relative", judged.RELATIVE, ", relative to its size")):
        what = f"variance of FilterDecomp's aggregate over FedAvg's, each on its own way{of}"
        ratio = judged.geometric(known[metric, judged.at_layer(_sizes(tables)[0], None), "FilterDecomp", "FedAvg"])
        found[key] = Finding.of(what, ratio, border=1.0, digits=2)
    return found


def _sending(tables: Tables, known: Effects) -> dict[str, Finding]:
    found = {}
    for arm in _senders(tables):
        both = {
            "rounds": judged.at_equal_rounds(known, tables, arm),
            "numbers": known[judged.EQUAL_NUMBERS, "", arm, "FedAvg"],
        }
        for kind, effect in both.items():
            words = f"global accuracy of {arm} minus FedAvg, equal {kind}{' sent' * (kind == 'numbers')}"
            found[f"{kind}, {arm} - FedAvg"] = Finding.of(words, effect, digits=1)
    return found


def _senders(tables: Tables) -> list[str]:
    """Return FilterDecomp and the arms that send fewer numbers, as far as they ran."""
    late = judged.late_accuracy(judged.sending(tables))
    return [arm for arm in ("FilterDecomp", *SENDING) if arm in late]


def _sizes(tables: Tables) -> list[int]:
    """Return the numbers of participants of Figure 3b, the one that is averaged first."""
    return [int(m) for m in dict.fromkeys(tables["spread"]["clients"])]


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the chapter prints."""
    cells, own = judged.table_cells(tables), judged.curve_cells(tables)
    known, words = effects(tables), findings(tables)

    personal = known.among("personal filters against the other methods")
    return {
        "cells": [{"key": judged.short(c), "seeds": len(judged.by_seed(tables, "Table 1", c).dropna())} for c in cells],
        "personal": [_row(tables, "Table 1", cells, arm) for arm in PERSONAL],
        "agreement": _agreements(tables, known, cells),
        "atoms": _atoms(tables, cells),
        "others": [arm for arm in PERSONAL if arm not in (OURS, OURS_HEAD)],
        "curve_cells": [{"key": judged.short(c), "shown": judged.figure_of(tables, c)} for c in own],
        "curve_seeds": int(judged.curves(tables, own[0])["seed"].nunique()),
        "global": [_row(tables, "", own, arm) for arm in GLOBAL],
        "targets": [_target(tables, cell) for cell in own],
        "ditto": _ditto(tables),
        "place": judged.short(judged.place(tables)),
        "epochs": _figure_3_rows(tables, "Figure 3a", GLOBAL),
        "participants": _figure_3_rows(tables, "Figure 3c", ("FedAvg", "FilterDecomp")),
        "variances": _variances(tables, known),
        "unfound": sought([e for e in personal if e.low <= 0 <= e.high], 1),
        "alike": all(ALIKE[0] <= words[f"variance {m}"].low and words[f"variance {m}"].high <= ALIKE[1]
                     for m in _sizes(tables)),
        "averaged": _sizes(tables)[0],
        "sending": _sent(tables),
        "sending_seeds": int(judged.sending(tables)["seed"].nunique()),
        "counts": _counts(tables),
        "private": _private(tables),
        "diverged": [{"shown": r["shown"], "cell": judged.short(r["cell"]), "arm": r["arm"], "seeds": int(r["seed"])}
                     for r in tables["diverged"].groupby(["shown", "cell", "arm"])["seed"].count().reset_index()
                     .to_dict("records")],
        "tuning": _tuning(tables),
        "ends": _ends(tables["tuning"]),
        "share": f"{judged.SHARE:.0%}",
        "proof": _proof(tables, known, config, words),
    }  # fmt: skip


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw Figures 2 and 5, 3a and 3c, 3b, the tables' differences, and accuracy over transmitted numbers."""
    return pictures.figures(tables)


def _row(tables: Tables, shown: str, cells: Sequence[str], arm: str) -> dict[str, Any]:
    """Return an arm's metrics by cell: means over seeds with 95% intervals, each by itself; and what is printed."""
    row: dict[str, Any] = {"arm": arm}
    for cell in cells:
        figure = shown or judged.figure_of(tables, cell)
        found = {}
        for metric in METRICS:
            wide = judged.by_seed(tables, figure, cell, metric)
            most = (0.0, float("inf")) if metric == "log_loss" else (0.0, 100.0)
            known = wide[arm].dropna() if arm in wide else []
            estimate = mean_of(known, within=most) if len(known) > 1 else None
            found[metric] = rounded([{"one": estimate}], one=2 if metric == "log_loss" else 1)[0]["one"]
        said = judged.of_paper("table_1", cell)["value"] if shown else {}
        found["printed"] = fixed(said[arm], 1) if arm in said else NONE
        row[judged.short(cell)] = found
    return row


def _agreements(tables: Tables, known: Effects, cells: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for cell in cells:
        for table, one in (
            ("Table 1", judged.agreement(tables, known, cell)),
            ("Table 2", judged.atoms_agreement(tables, known, cell)),
        ):
            if one is not None:
                found.append({"table": table, "cell": judged.short(cell), **one})
    return found


def _atoms(tables: Tables, cells: Sequence[str]) -> list[dict[str, Any]]:
    """Tabulate accuracy by number of atoms and cell, its difference to nine, the printed value, what a client keeps."""
    rows = []
    kept = tables["counts"][tables["counts"]["arm"] == OURS].groupby("atoms")["private"].first()
    for m in sorted({m for cell in cells for m in judged.atoms_by_seed(tables, cell)}):
        row: dict[str, Any] = {"atoms": f"{m}", "private": f"{int(kept[m]):,}"}
        for cell in cells:
            wide, said = judged.atoms_by_seed(tables, cell), judged.of_paper("table_2", cell)["value"]
            shown = {"one": mean_of(wide[m], within=(0.0, 100.0)) if m in wide else None}
            row[judged.short(cell)] = {
                "ours": rounded([shown], one=1)[0]["one"],
                "printed": fixed(said[str(m)], 1) if str(m) in said else NONE,
                "seeds": len(wide),
            }
        rows.append(row)
    return rows


def _target(tables: Tables, cell: str) -> dict[str, Any]:
    """Return the rounds that the global models need to the target, in the mean up to the last round."""
    found = judged.rounds_to_target(tables, cell)
    if found is None:
        unknown = {arm: {"reached": NONE, "rounds": NONE} for arm in judged.GLOBAL}
        return {"cell": judged.short(cell), "target": NONE, **unknown}
    arms = {
        str(arm): {
            "reached": f"{int(row['reached'])} of {int(row['runs'])}",
            "rounds": fixed(row["restricted mean"], 1),
        }
        for arm, row in found.summary.iterrows()
    }
    return {"cell": judged.short(cell), "target": fixed(found.target, 1), **arms}


def _ditto(tables: Tables) -> dict[str, Any]:
    """Return the largest difference of Ditto's global accuracy from FedAvg's in any measured round, in points."""
    rows = tables["curves"][tables["curves"]["arm"].isin([DITTO, "FedAvg"])]
    rows = rows[rows["shown"].isin(["Figure 2", "Figure 5"])]
    wide = rows.pivot_table(index=["cell", "seed", "round"], columns="arm", values="accuracy")
    if not {DITTO, "FedAvg"} <= set(wide):
        return {"runs": 0, "largest": NONE, "equal": True}
    known = (wide[DITTO] - wide["FedAvg"]).dropna()
    runs = known.reset_index()[["cell", "seed"]].drop_duplicates()
    return {"runs": len(runs), "largest": fixed(100 * known.abs().max(), 2), "equal": bool((known == 0).all())}


def _figure_3_rows(tables: Tables, shown: str, arms: Sequence[str]) -> list[dict[str, Any]]:
    wide = {arm: judged.figure_3(tables, shown, arm) for arm in arms}
    return [
        {
            "at": f"{x}",
            **{
                arm: rounded([{"one": mean_of(t[x], within=(0.0, 100.0)) if x in t else None}], one=1)[0]["one"]
                for arm, t in wide.items()
            },
        }
        for x in sorted({x for table in wide.values() for x in table})
    ]


def _variances(tables: Tables, known: Effects) -> list[dict[str, Any]]:
    """Tabulate the ratio of variances and of errors of the same trained clients, by layer and number of clients."""
    rows = []
    layers: list[str | None] = [*sorted(tables["spread"]["layer"].unique()), None]
    for m in sorted(_sizes(tables)):
        for layer in layers:
            rows.append(
                {
                    "participants": f"{m}",
                    "layer": layer or "all",
                    **{
                        name: judged.geometric(known[metric, judged.at_layer(m, layer), judged.PRODUCT, judged.AVERAGE])
                        for name, metric in (("variance", judged.VARIANCE), ("error", judged.ERROR))
                    },
                }
            )
    return rounded(rows, variance=5, error=5)


def _sent(tables: Tables) -> list[dict[str, Any]]:
    """Tabulate what travelled and how accurate the global model is, at equal rounds and at equal numbers."""
    rows = judged.sending(tables)
    total = rows.groupby(["seed", "arm"])["numbers"].max().groupby("arm").mean()
    late, equal = judged.late_accuracy(rows), judged.at_equal_numbers(rows)
    found = [
        {
            "arm": arm,
            "numbers": fixed(total[arm] / 1e6, 2),
            "share": fixed(total[arm] / total["FedAvg"], 2),
            "late": mean_of(late[arm], within=(0.0, 100.0)),
            "equal": mean_of(equal[arm], within=(0.0, 100.0)),
        }
        for arm in ("FedAvg", *_senders(tables))
    ]
    return rounded(found, late=1, equal=1)


def _counts(tables: Tables) -> list[dict[str, Any]]:
    """Tabulate the numbers that a client keeps, and what a participant sends and receives in a round."""
    rows = tables["counts"]
    rows = rows[rows["shown"].isin(["Table 1", "Figure 2", "A.2"]) & (rows["cell"] == judged.place(tables))]
    mean = rows.groupby("arm", sort=False)[["private", "up", "down"]].mean()
    return [
        {"arm": arm, **{name: f"{value:,.0f}" for name, value in row.items()}}
        for arm, row in mean.to_dict("index").items()
    ]


def _private(tables: Tables) -> dict[str, str]:
    """Return how many numbers a client keeps for itself under some arms, and how many the model has."""
    table = tables["counts"][tables["counts"]["shown"] == "Table 1"].groupby("arm")["private"].first()
    return {"ours": f"{table[OURS]:,}", "head": f"{table[OURS_HEAD]:,}", "fedper": f"{table['FedPer']:,}",
            "all": f"{table['Local']:,}"}  # fmt: skip


def _tuning(tables: Tables) -> list[dict[str, Any]]:
    """Tabulate the chosen rates by arm and cell."""
    chosen = tables["tuning"][tables["tuning"]["chosen"].astype(bool)]
    rates = chosen.groupby(["arm", "cell"], sort=False)["lr"].first().unstack("cell")
    return [
        {"arm": arm, **{judged.short(c): NONE if lr != lr else f"{lr:g}" for c, lr in row.items()}}
        for arm, row in rates.to_dict("index").items()
    ]


def _ends(tuning: pd.DataFrame) -> list[str]:
    """Return the arms whose rate stayed at an end of its grid."""
    ends = tuning[tuning["end"].astype(bool)]
    return [f"{arm} ({judged.short(cell)})" for arm, cell in ends.groupby(["arm", "cell"], sort=False).groups]


def _proof(
    tables: Tables, known: Effects, config: Mapping[str, Any], words: Mapping[str, Finding]
) -> list[dict[str, Any]]:
    """Return the proof line: personal atoms against fine-tuning and a private head, in the first cell."""
    cell = judged.table_cells(tables)[0]
    where, said = judged.short(cell), judged.of_paper("table_1", cell)
    kept, size = _private(tables), config["size"]
    clients = next(c["clients"] for c in config["cells"] if c["name"] == cell)
    what = (
        f"personal filter atoms, {kept['ours']} private numbers a client (a private head of FedPer: {kept['fedper']}), "
        f"{cell}: {clients} clients, {round(size['participants'] * clients)} in a round, {size['epochs']} local "
        f"epochs, {config['rounds']} rounds, {len(judged.by_seed(tables, 'Table 1', cell).dropna())} seeds"
    )
    printed = "no values"
    if not said.empty:
        printed = (
            f"{fixed(said['value'][OURS], 2)} per cent beside {fixed(said['value']['FedAvg + FT'], 2)} of FedAvg with "
            f"fine-tuning and {fixed(said['value']['FedPer'], 2)} of FedPer"
        )
    names = {f"{OURS} - {other}: {where}": f"minus {other}" for other in PROOF if other != OURS}
    return [
        {"what": what, "findings": [key for key in names if key in words], "names": names, "printed": printed,
         "beside": judged.agreement(tables, known, cell, PROOF)}
    ]  # fmt: skip

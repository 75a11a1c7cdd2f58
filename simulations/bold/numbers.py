"""What the study of bold faces hands to its chapter and to its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from fedstat._tables import Tables
from simulations.bold.study import ANSWERS, NOT_STATED, PLAN, READINGS
from simulations.contract import Finding
from simulations.estimates import Estimate, missing, note, undefined
from simulations.showing import fixed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAIN = "{} runs, {}".format(*READINGS[0])
#: Kinds of tables, by what they say of runs and of what stands beside a mean.
KINDS = {
    "runs and a standard deviation or interval": "stated & spread in ('sd', 'ci')",
    "runs, not what stands beside means": "stated & spread == 'not stated'",
    "a standard deviation, not the runs": "~stated & spread == 'sd'",
    "neither": "~stated & spread == 'not stated'",
    "deviations over clients": "spread == 'clients'",
    "no deviations": "spread == 'none'",
}
#: The day on which the tables of the plan entered; later ones entered when answers were known.
PLANNED = "2026-11-26"
SPREADS = {"sd": "deviation", "se": "error"}
_FEWEST = 5  # papers for limits


def share(counts: pd.DataFrame) -> Estimate:
    """Return which part of the bold faces with deviations stands, with limits that take papers as the sample.

    A ratio of sums over papers, linearised (Cochran, Sampling Techniques, 3rd edition, section 6.4), with Student's t.
    """
    of = counts.groupby("paper")[list(ANSWERS)].agg(lambda values: values.sum(skipna=False))
    if why := missing(*(of[name] for name in ANSWERS)):
        return undefined(why)
    faces = of[[name for name in ANSWERS if name != "order only"]].sum(axis=1)
    stand, faces = of["stands"][faces > 0], faces[faces > 0]
    if faces.empty:
        return undefined("no table has deviations")
    ratio, papers = float(stand.sum() / faces.sum()), len(faces)
    if papers < _FEWEST:
        return undefined(f"fewer than {_FEWEST} papers", ratio)
    residual = float(((stand - ratio * faces) ** 2).sum())
    if residual == 0:
        return undefined("all papers are alike", ratio)
    error = np.sqrt(papers / (papers - 1) * residual) / faces.sum()
    half = stats.t.isf((1 - PLAN.level) / 2, papers - 1) * error
    return ratio, max(ratio - half, 0.0), min(ratio + half, 1.0)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the share of bold faces that stand, in each reading of what tables leave open."""
    counts, found = tables["counts"], {}
    for runs, spread in READINGS:
        own = counts[counts["reading"] == f"{runs} runs, {spread}"]
        what = f"bold faces that stand, {runs} runs and a standard {SPREADS[spread]} where tables do not say"
        found[f"{runs} {spread}"] = Finding.of(what, share(own), 100.0, "%", 0, border=50.0)
    return found


def _told(counts: pd.DataFrame) -> dict[str, str]:
    """Return counts of tables, papers and answers as text."""
    note(*(counts[name] for name in ANSWERS))
    sums = {name: float(counts[name].sum(skipna=False)) for name in ANSWERS}
    return {
        "papers": str(counts["paper"].nunique()),
        "tables": str(len(counts)),
        "faces": fixed(sum(sums.values()), 0),
        "judged": fixed(sum(sums.values()) - sums["order only"], 0),
        "stand": fixed(sums["stands"], 0),
        "open": fixed(sums["not told apart"] + sums["not the best printed"], 0),
        "contradicted": fixed(sums["contradicted"], 0),
        "order": fixed(sums["order only"], 0),
    }


def _needed(faces: pd.DataFrame) -> str:
    """Return the runs that a table's bold faces need where they are not told apart: the fewest and the most."""
    asked = sorted(np.where(faces["needed"] < 0, np.inf, faces["needed"])[faces["needed"] != 0])
    words = ["more than 10,000" if np.isinf(n) else f"{n:,.0f}" for n in asked]
    return "–" if not words else words[0] if words[0] == words[-1] else f"{words[0]} to {words[-1]}"


def _by_table(tables: Tables) -> list[dict[str, str]]:
    main = tables["counts"][tables["counts"]["reading"] == MAIN].set_index("file")
    rows = []
    for entry in tables["tables"].to_dict("records"):
        own = tables["faces"][tables["faces"]["file"] == entry["file"]]
        counted = _told(main.loc[[entry["file"]]]) if entry["file"] in main.index else {}
        rows.append({**{key: str(value) for key, value in entry.items()}, **counted, "needed": _needed(own)})
    return rows


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts of all, by kind of table, by number of runs, by table, and of FLamby's data sets."""
    counts = tables["counts"][tables["counts"]["reading"] == MAIN]
    by = counts.assign(stated=counts["runs"] != NOT_STATED)
    kinds = [{"kind": kind, **_told(by.query(query))} for kind, query in KINDS.items()]
    with_deviations = counts[counts["spread"].isin(["sd", "ci", NOT_STATED])]
    runs = [{"runs": str(n), **_told(some)} for n, some in with_deviations.groupby("runs")]
    planned = tables["tables"].query("entered == @PLANNED")["file"]
    faces, looked, beds = tables["faces"], tables["looked"], tables["hospitals"]
    note(beds["ahead"])
    alike = {design: int((some["answer"] == "stands").sum()) for design, some in beds.groupby("design")}
    among = {design: int(some["among"].fillna("").map(_count).sum()) for design, some in beds.groupby("design")}
    return {
        "all": _told(counts),
        "planned": _told(counts[counts["file"].isin(planned)]),
        "kinds": kinds,
        "runs": sorted(runs, key=lambda row: (not row["runs"].isdigit(), row["runs"].zfill(9))),
        "rows": _by_table(tables),
        "unmarked": str((faces["type"] == "unmarked").sum()),
        "seen": _seen(faces),
        "outdone": str((faces["best"] != "best").sum()),
        "behind": str(((faces["answer"] == "order only") & (faces["best"] != "best")).sum()),
        "needed": _quartiles(faces["needed"]),
        "looked": {"for": str(len(looked)), "none": str((~looked["paper"].isin(tables["tables"]["paper"])).sum())},
        "hospitals": [
            {**{key: str(value) for key, value in row.items()}, "ahead": fixed(row["ahead"], 3)}
            for row in beds.fillna({"among": ""}).to_dict("records")
        ],
        "beds": {
            design: {"data": str(len(some)), "stand": str(alike[design]), "among": str(among[design])}
            for design, some in beds.groupby("design")
        },
    }


def _seen(faces: pd.DataFrame) -> dict[str, str]:
    """Return how many faces with deviations stand, of those seen in bold and of best values without bold type."""
    judged = faces[faces["answer"] != "order only"]
    unmarked, stand = judged["type"] == "unmarked", judged["answer"] == "stands"
    found = {
        "bold_judged": ~unmarked, "bold_stand": ~unmarked & stand,
        "unmarked_judged": unmarked, "unmarked_stand": unmarked & stand,
    }  # fmt: skip
    return {name: str(int(own.sum())) for name, own in found.items()}


def _count(among: str) -> int:
    return len(list(filter(None, among.split("; "))))


def _quartiles(needed: pd.Series) -> dict[str, str]:
    """Return quartiles of the runs that faces need which are not told apart; more than 10,000 counts as more."""
    asked = np.where(needed < 0, np.inf, needed)[needed != 0]
    at = np.quantile(asked, [0.25, 0.5, 0.75], method="inverted_cdf") if len(asked) else [np.nan] * 3
    return dict(zip(("first", "median", "third"), (fixed(float(value), 0) for value in at), strict=True))


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw, for each table with deviations, how many of its bold faces stand."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    counts = tables["counts"][tables["counts"]["reading"] == MAIN].set_index("file")
    places = tables["tables"].set_index("file")["place"]
    shown = counts[counts["spread"].isin(["sd", "ci", NOT_STATED]) & (counts[list(ANSWERS[:4])].sum(axis=1) > 0)]
    labels = [f"{row['paper']}, {places.get(file, '')} ({row['runs']})" for file, row in shown.iterrows()]
    with style():
        figure, axis = plt.subplots(figsize=(WIDTH, 0.8 + 0.2 * len(shown)), layout="constrained")
        start = np.zeros(len(shown))
        for answer, color in (("stands", "0.15"), ("not told apart", "0.75")):
            width = shown[answer].fillna(0).to_numpy()
            axis.barh(labels, width, left=start, color=color, height=0.7, label=answer)
            start = start + width
        axis.invert_yaxis()
        axis.set_xlabel("bold faces of a table (behind its name: runs)")
        figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=7)
    return {"tables": figure}

"""Ask how many bold faces of published tables stand, by the plan in ``plan.toml``, written before the answers.

Amendment of 28 November 2026, when the answers of 34 tables were known: four more tables enter by the same rule, two of
PFLlib's and two of Flower's baselines. ``entered`` in ``tables.csv`` tells them from those of the plan, and counts are
given without them too. A table may print half-widths of 95% intervals ("ci"), which state what stands beside means.

Tables are files of numbers in `simulations.published`. Each is judged by `fedstat.compare_printed` alone. What a table
does not say, over how many runs its means are and what stands beside them, is taken in each of four readings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import fedstat as fs
from fedstat._tables import Tables
from fedstat.inference import AnalysisPlan
from simulations.contract import About
from simulations.parts import SECOND_LOOK
from simulations.published import printed

ABOUT = About(
    "Which bold faces of published tables stand",
    "",
    "printed tables of the literature",
    order=110,
    times=dict.fromkeys(("smoke", "quick", "paper"), "half a minute"),
)
PLAN = AnalysisPlan.read(Path(__file__).parent / "plan.toml")
#: Of what a table leaves open, the number of runs and what is printed beside means: all readings, the main one first.
READINGS = tuple(product((3, 5), ("sd", "se")))
NOT_STATED = "not stated"
ANSWERS = ("stands", "not told apart", "not the best printed", "contradicted", "order only")


@dataclass(frozen=True)
class Scale:
    """Size of the study: nothing is drawn, so that all scales are one, and `shift` moves nothing."""

    shift: int = 0


SCALES = {"smoke": Scale(SECOND_LOOK), "quick": Scale(SECOND_LOOK), "paper": Scale()}


def entries() -> pd.DataFrame:
    """Return what is known of each table: paper, place, runs, spread, whether bold type was kept, and its source."""
    return pd.DataFrame(printed("", "tables"))


def cells(file: str) -> pd.DataFrame:
    """Return a table's values as they are printed: setting, method, mean; sd, runs and bold where there are any."""
    rows = pd.DataFrame(printed(*file.split("/")))
    if file == "factorized_fl/table_1_bottom":  # a column for each domain; the average repeats them
        domains = [name.removesuffix("_sd") for name in rows if name.endswith("_sd") and name != "average_sd"]
        parts = [rows[["method", name, f"{name}_sd"]].set_axis(["method", "mean", "sd"], axis=1) for name in domains]
        rows = pd.concat(parts, keys=domains, names=["setting"]).reset_index("setting")
    elif "setting" not in rows:  # other columns before the method and behind it make the setting
        keys = [name for name in rows if name not in ("method", "accuracy", "sd", "cost")]
        rows = rows.assign(setting=rows[keys].agg(", ".join, axis=1))
    rows = rows.rename(columns={"accuracy": "mean"})
    if file.startswith("factorized_fl/"):  # its text keeps the bold type, and sets the best of each setting in it
        best = rows.groupby("setting")["mean"].transform(lambda means: means.astype(float).max())
        rows["bold"] = (rows["mean"].astype(float) == best).astype(int).astype(str)
    return rows[[name for name in ("setting", "method", "mean", "sd", "runs", "bold") if name in rows]]


def judged(rows: pd.DataFrame, runs: int, spread: str) -> pd.DataFrame:
    """Return a row for each bold face: its answer, the methods among which the best may be, and the runs it needs.

    Needed runs are those that tell the last of these methods apart: 0 where none are needed or nothing is known, -1 for
    more than 10,000.
    """
    columns = rows.drop(columns="sd") if spread == "none" and "sd" in rows else rows
    lines = [columns.columns, ["---"] * columns.shape[1], *columns.to_numpy()]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    table = fs.read_printed(text, runs=runs, spread=spread)  # type: ignore[arg-type]
    found = fs.compare_printed(table, level=PLAN.level)
    marked = table.cells.groupby("setting")["bold"].any()
    means = table.cells.set_index(["setting", "method"])["mean"]
    out = []
    for row in found.bold.to_dict("records"):
        own = found.differences.query("setting == @row['setting'] and bold == @row['method']").set_index("method")
        runs_needed = own.loc[list(row["among"]), "runs"]
        needed = 0 if runs_needed.empty else -1 if runs_needed.isna().any() else int(runs_needed.max())
        best = means[row["setting"], row["method"]] >= means[row["setting"]].max()
        out.append(
            {
                "setting": row["setting"],
                "method": row["method"],
                "type": "bold" if marked[row["setting"]] else "unmarked",
                "best": "best" if best else "not the best",
                "answer": row["answer"],
                "among": "; ".join(row["among"]),
                "needed": needed,
            }
        )
    return pd.DataFrame(out)


def readings(entry: pd.Series) -> Iterator[tuple[str, int, str]]:
    """Yield each reading's name, and the runs and spread that a table has in it; what it states is in all of them.

    Of a table whose methods differ in runs, "2 to 6", its own column of runs holds.
    """
    for runs, spread in READINGS:
        stated = {NOT_STATED: spread, "clients": "none"}.get(entry["spread"], entry["spread"])
        yield f"{runs} runs, {spread}", int(entry["runs"]) if entry["runs"].isdigit() else runs, stated


def literature() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return all bold faces in the main reading, and counts of answers by paper, kind of table and reading."""
    faces, counts = [], []
    for _, entry in entries().iterrows():
        rows, known = cells(entry["file"]), dict[tuple[int, str], pd.DataFrame]()
        for number, (reading, runs, spread) in enumerate(readings(entry)):
            if (runs, spread) not in known:
                known[runs, spread] = judged(rows, runs, spread)
            found = known[runs, spread]
            if number == 0:
                faces.append(found.assign(file=entry["file"]))
            of = found["answer"].value_counts().reindex(ANSWERS, fill_value=0).astype(float)
            known_of = entry[["paper", "file", "runs", "spread"]].to_dict()
            counts.append({**known_of, "reading": reading, **of})
    return pd.concat(faces, ignore_index=True), pd.DataFrame(counts)


def hospitals() -> pd.DataFrame:
    """Return what becomes of the best method on each of FLamby's data sets: as if printed, and paired on seeds."""
    runs = pd.DataFrame(printed("flamby", "runs")).replace({"": np.nan, "Scaffold": "SCAFFOLD"})
    runs = runs.astype({"score": float})
    out = []
    for data, some in runs.groupby("data", sort=False):
        wide = some.pivot(index="seed", columns="method", values="score").dropna(axis=1)
        shown = pd.DataFrame({"mean": wide.mean(), "sd": wide.std()}).map("{:.3f}".format)
        rows = shown.rename_axis("method").reset_index()[["method", "mean", "sd"]]
        alone = judged(rows.assign(setting=data)[["setting", "method", "mean", "sd"]], len(wide), "sd").iloc[0]
        best = alone["method"]
        ahead = wide[best].mean() - wide.drop(columns=best).mean().max()
        open_ = [other for other in wide if other != best and not _low(wide[best] - wide[other]) > 0]
        paired = {"answer": "not told apart" if open_ else "stands", "among": "; ".join(open_)}
        for design, found in (("as printed", alone), ("paired on seeds", paired)):
            out.append({"data": data, "design": design, "method": best, "methods": wide.shape[1], "runs": len(wide),
                        "ahead": ahead, "answer": found["answer"], "among": found["among"]})  # fmt: skip
    return pd.DataFrame(out)


def _low(differences: pd.Series) -> float:
    return float(stats.ttest_1samp(differences, 0).confidence_interval(PLAN.level).low)


def run(scale: Scale, out: Path) -> Tables:
    """Judge every table."""
    faces, counts = literature()
    looked = pd.DataFrame(printed("", "looked_for"))
    return {"tables": entries(), "looked": looked, "faces": faces, "counts": counts, "hospitals": hospitals()}

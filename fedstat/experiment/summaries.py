"""What a run amounts to: the primary summary, the papers' own ones under their names, new clients, a line per client.

The primary summary is the mean over clients and the last rounds, compared between methods by `fedstat.compare`. The
papers print other numbers; those that are a maximum over rounds are taken on the samples that choose the round, and
are marked. No mean passes over values that are missing: there is none then, and a note counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedstat.inference import Comparison, count_missing, primary_rows, primary_summary
from fedstat.inference.reading.missing import complete_mean

WINDOW = 10  # rounds that the FedFac paper averages


@dataclass(frozen=True)
class _Paper:
    """One paper's summary: how clients are averaged, and which consecutive rounds count: the best ones or the last."""

    name: str
    weighted: bool
    window: int
    optimistic: bool

    def rounds(self, curve: pd.Series) -> list[int]:
        """Return the rounds that count; none where one of them was not evaluated."""
        every = range(int(curve.index[0]), int(curve.index[-1]) + 1)
        means = curve.reindex(every).rolling(self.window).mean().dropna()
        if means.empty or not (self.optimistic or every[-1] in means.index):
            return []
        end = int(means.idxmax()) if self.optimistic else every[-1]
        return list(range(end - self.window + 1, end + 1))


PAPERS = (
    _Paper(f"FedFac: best {WINDOW} consecutive rounds, by samples", weighted=True, window=WINDOW, optimistic=True),
    _Paper(f"FedFac: last {WINDOW} rounds, by samples", weighted=True, window=WINDOW, optimistic=False),
    _Paper("FedFac: best round, by samples", weighted=True, window=1, optimistic=True),
    _Paper("FedDecomp, Factorized-FL: best round", weighted=False, window=1, optimistic=True),
    _Paper("FilterDecomp (personal), Factorized-FL: last round", weighted=False, window=1, optimistic=False),
)
GLOBAL = "FilterDecomp (global): last round, all official test samples"


@dataclass(frozen=True, eq=False)
class Summary:
    """A run in numbers; ``print`` it, or write `table`.

    `comparison` is the primary summary, with differences paired on seeds. `beside` has the same rounds in the other
    metrics and the megabytes that travelled, a row for each method; `missing` says in words, by method and metric, how
    many of its values are missing. `papers` are the papers' summaries; `papers` and `newcomers` give mean and sd over
    seeds. `notes` must be known to read the numbers, and `stamp` says what is wrong with the data, empty if nothing.
    """

    comparison: Comparison
    beside: pd.DataFrame
    missing: Mapping[tuple[str, str], str]
    papers: pd.DataFrame
    newcomers: pd.DataFrame | None
    notes: tuple[str, ...]
    stamp: str

    def __str__(self) -> str:
        spread = "; standard deviations in summary.csv" if self.comparison.summary["seeds"].max() > 1 else ""
        parts = [
            str(self.comparison),
            "the same models in other metrics, and megabytes sent in a run, mean over seeds\n" + _text(self.beside),
        ]
        if len(self.papers):
            wide = self.papers.assign(summary=self.papers["summary"] + np.where(self.papers["optimistic"], " *", ""))
            order = {"index": list(dict.fromkeys(wide["summary"])), "columns": list(dict.fromkeys(wide["method"]))}
            shown = wide.pivot(index="summary", columns="method", values="mean").reindex(**order)
            parts.append(f"accuracy as the papers summarise it, mean over seeds{spread}\n{_text(shown)}")
            chosen = wide.dropna(subset="chosen on validation")
            if len(chosen):
                values = chosen.pivot(index="summary", columns="method", values="chosen on validation")
                order["index"] = [name for name in order["index"] if name in values.index]
                parts.append("* with rounds chosen on validation samples instead\n" + _text(values.reindex(**order)))
        if self.newcomers is not None:
            whose = ["method", "estimand"]
            wide = self.newcomers.pivot_table(index=whose, columns="metric", values="mean", sort=False, observed=True)
            count = self.newcomers["clients"].iloc[0]
            title = f"new clients, after training: mean over {count} for each seed, and over seeds{spread}"
            parts.append(f"{title}\n{_text(wide)}")
        parts.append("\n".join(f"note: {note}" for note in self.notes))
        return (f"{self.stamp}\n\n" if self.stamp else "") + "\n\n".join(parts)

    def table(self) -> pd.DataFrame:
        """Return all numbers, one per row, with what they are."""
        primary = self.comparison.summary
        if self.comparison.control is not None and len(self.comparison.differences):
            primary = primary.join(self.comparison.differences.set_index("method").add_suffix(" (difference)"))
        what, _, _ = self.comparison.estimand.partition(";")
        metric, _, rest = what.partition(" ")
        primary = primary.rename_axis("method").reset_index()
        beside = self.beside.rename_axis("method").reset_index().melt("method", var_name="metric", value_name="mean")
        of = beside["metric"].map(lambda name: "all rounds, up and down" if name == "megabytes" else f"{name} {rest}")
        tables = [
            primary.assign(summary="primary", metric=metric, estimand=what),
            beside.assign(
                summary="beside the primary",
                estimand=of,
                missing=[self.missing.get(of) for of in zip(beside["method"], beside["metric"], strict=True)],
            ),
            self.papers.assign(metric="accuracy"),
        ]
        if self.newcomers is not None:
            tables.append(self.newcomers.assign(summary="new clients"))
        # an all-empty column has no type to agree on
        joined = pd.concat([t.dropna(axis="columns", how="all") for t in tables if len(t)], ignore_index=True)
        first = [
            c for c in ("summary", "metric", "method", "estimand", "mean", "sd over seeds", "seeds") if c in joined
        ]
        joined = joined[[*first, *(c for c in joined if c not in first)]]
        joined = joined.astype({c: "Int64" for c in ("seeds", "pairs", "clients") if c in joined})
        return joined.assign(data=self.stamp) if self.stamp else joined


def summarise(
    history: pd.DataFrame,
    traffic: pd.DataFrame,
    sizes: Mapping[int, np.ndarray],
    test_sizes: np.ndarray,
    comparison: Comparison,
    *,
    last: int,
    newcomers: pd.DataFrame | None = None,
    tuned: str = "",
    notes: tuple[str, ...] = (),
    lossy: str = "",
) -> Summary:
    """Summarise a run of which `comparison`, over the `last` rounds, is the primary summary.

    `sizes` are the training samples of each client by seed, (clients,) each; `test_sizes` the test samples of each
    client that is measured, under any seed. `tuned` says how parameters were chosen (empty if that is not known),
    `notes` what else must be known, and `lossy` how the data differ from the original's.
    """
    test = history[(history["split"] == "test") & (history["round"] > 0)]
    labels = list(dict.fromkeys(test["method"]))
    metrics = [metric for metric in dict.fromkeys(test["metric"]) if metric != comparison.scores.metric]
    models = dict(zip(comparison.scores.methods, comparison.scores.models, strict=True))
    beside = {
        metric: primary_summary(test, metric, last=last, estimand=models).mean(skipna=False) for metric in metrics
    }
    found = {metric: count_missing(primary_rows(test, metric, last=last, estimand=models)) for metric in metrics}
    missing = {(method, metric): words for metric, of in found.items() for method, words in of.items()}
    both = traffic.assign(bytes=traffic["bytes_up"] + traffic["bytes_down"])
    runs = pd.MultiIndex.from_frame(test[["method", "seed"]].astype({"method": object}).drop_duplicates())
    sent = both.astype({"method": object}).groupby(["method", "seed"])["bytes"].sum().reindex(runs, fill_value=0)
    beside["megabytes"] = sent.groupby("method").mean() / 1e6
    # the papers' summaries are of last or best rounds, which runs that stop early do not have in common
    summed = not comparison.estimand.startswith("mse") and "kept" not in history
    papers = [*_papers(history, sizes, models), *_global(history)] if summed else []
    how_long = "each until its patience or the rounds ended" if "kept" in history else "for the same rounds"
    chosen = tuned or "whether they were tuned is not known here"
    said = [f"all methods ran with the settings given, {how_long}; {chosen}."]
    if papers:
        few, most = int(test_sizes.min()), int(test_sizes.max())
        said.append(
            f"a client has {few if few == most else f'{few} to {most}'} test samples, so its own accuracy has a "
            f"standard error of up to {50 / np.sqrt(few):.0f} points: clients.csv shows noise as well as clients."
        )
    said += [f"{method}, beside the primary summary: {words}." for (method, _), words in missing.items()]
    told = {str(row["method"]): row["missing"] for row in papers if row["missing"]}
    said += [f"{method}, as the papers summarise it: {words}." for method, words in told.items()]
    new = None if newcomers is None else _new(newcomers)
    if new is not None:
        gaps = new[["method", "missing"]].dropna().drop_duplicates()
        said += [f"{method}, new clients: {words}." for method, words in gaps.to_numpy()]
    if any(row["optimistic"] for row in papers):
        said.append("* is a maximum over rounds, taken on the test samples themselves: optimistic.")
    return Summary(
        comparison,
        pd.DataFrame(beside).reindex(labels),
        missing,
        pd.DataFrame(papers),
        new,
        (*said, *notes),
        f"LOSSY DATA: {lossy}" if lossy else "",
    )


def per_client(
    history: pd.DataFrame, traffic: pd.DataFrame, names: Mapping[int, pd.DataFrame], last: int
) -> pd.DataFrame:
    """Return one row per seed, client, method and model: means over the last rounds, and the bytes of all rounds.

    `names` are tables of what is known of each seed's clients, a row for each. Of runs that stopped early, the round
    that each kept stands for the last ones.
    """
    key = ["seed", "client", "method"]
    rows = history[history["split"] == "test"]
    rows = rows[rows["kept"]] if "kept" in rows else rows[rows["round"] > rows["round"].max() - last]
    marked = rows.assign(value=rows["value"].where(np.isfinite(rows["value"]), np.inf))  # a mean would pass over NaN
    values = marked.pivot_table(
        index=[*key, "estimand"], columns="metric", values="value", aggfunc="mean", observed=True, sort=False
    ).replace(np.inf, np.nan)
    sent = traffic.groupby(key, observed=True)[["bytes_up", "bytes_down"]].sum()
    table = values.reset_index().astype({"method": object, "estimand": object})
    table = table.merge(sent.reset_index().astype({"method": object}), how="left", on=key)
    known = pd.concat([one.assign(seed=seed, client=range(len(one))) for seed, one in names.items()])
    table = known.merge(table, on=["seed", "client"])
    return table[[*key, *(c for c in table if c not in key)]].fillna({"bytes_up": 0, "bytes_down": 0})


def _papers(
    history: pd.DataFrame, sizes: Mapping[int, np.ndarray], models: Mapping[str, str]
) -> list[dict[str, object]]:
    """One row per paper's summary and method; those that need rounds that were not evaluated are left out."""
    found = []
    test = history[(history["split"] == "test") & (history["round"] > 0)]
    missing = count_missing(primary_rows(test, "accuracy", last=int(test["round"].max()), estimand=models))
    for paper in PAPERS:
        weights = sizes if paper.weighted else None
        curves = {split: _curves(history, split, models, weights) for split in ("test", "validation")}
        for method, seeds in curves["test"].items():
            rounds = {seed: paper.rounds(curve.fillna(0)) for seed, curve in seeds.items()}
            if not all(rounds.values()):
                continue
            values = [_mean(seeds[seed], chosen, paper) for seed, chosen in rounds.items()]
            # where all evaluated rounds count there was nothing to choose
            optimistic = paper.optimistic and any(len(rounds[seed]) < len(curve) for seed, curve in seeds.items())
            fresh = np.nan
            if optimistic and (known := curves["validation"].get(method)):
                picked = [seeds[seed][paper.rounds(curve.fillna(0))] for seed, curve in known.items()]
                gaps = any(curve.isna().any() for curve in known.values())
                fresh = np.nan if gaps else float(np.mean([values.mean(skipna=False) for values in picked]))
            found.append(_row(paper.name, method, values, optimistic, fresh, missing.get(method)))
    return found


def _mean(curve: pd.Series, chosen: list[int], paper: _Paper) -> float:
    """Mean of the chosen rounds; NaN where one of them is missing, or one that might have been the best."""
    needed = curve if paper.optimistic else curve[chosen]
    return float(curve[chosen].mean()) if needed.notna().all() else np.nan


def _global(history: pd.DataFrame) -> list[dict[str, object]]:
    """Return rows with the accuracy of global models on the whole official test part, after the last round."""
    rows = history[
        (history["split"] == "common") & (history["metric"] == "accuracy") & (history["estimand"] == "global")
    ]
    rows = rows[rows["round"] == history["round"].max()]
    missing = count_missing(rows)
    return [
        _row(GLOBAL, str(method), list(of["value"]), False, np.nan, missing.get(str(method)))
        for method, of in rows.groupby("method", observed=True, sort=False)
    ]


def _row(
    summary: str, method: str, values: list[float], optimistic: bool, fresh: float, missing: str | None
) -> dict[str, object]:
    return {
        "summary": summary,
        "method": method,
        "estimand": "global model, official test part"
        if summary == GLOBAL
        else "each client's model on its test samples",
        "mean": float(np.mean(values)),
        "sd over seeds": float(np.std(values, ddof=1)) if len(values) > 1 else np.nan,
        "seeds": len(values),
        "optimistic": optimistic,
        "chosen on validation": fresh,
        "missing": missing if np.isnan(values).any() else None,
    }


def _curves(
    history: pd.DataFrame, split: str, models: Mapping[str, str], sizes: Mapping[int, np.ndarray] | None
) -> dict[str, dict[int, pd.Series]]:
    """Mean accuracy over clients by round, for each method and seed; by their samples where `sizes` are given."""
    rows = history[(history["split"] == split) & (history["metric"] == "accuracy") & (history["round"] > 0)]
    found: dict[str, dict[int, pd.Series]] = {}
    for (method, seed), one in rows.groupby(["method", "seed"], observed=True, sort=False):
        own = one[one["estimand"] == models[str(method)]]
        table = own.pivot(index="round", columns="client", values="value")
        weights = np.ones(table.shape[1]) if sizes is None else sizes[seed][table.columns]
        found.setdefault(str(method), {})[seed] = table @ (weights / weights.sum())
    return found


def _new(table: pd.DataFrame) -> pd.DataFrame:
    """Means over new clients, then over seeds."""
    by = ["method", "estimand", "metric"]
    seeds = complete_mean(table, [*by, "seed"], sort=False).reset_index()
    mean = complete_mean(seeds, by, sort=False)
    each = seeds.groupby(by, observed=True, sort=False)["value"]
    found = pd.DataFrame({"mean": mean, "sd over seeds": each.std().where(mean.notna()), "seeds": each.size()})
    missing = {m: count_missing(rows) for m, rows in table.groupby("metric", observed=True)}
    found = found.reset_index().assign(clients=table["client"].nunique())
    gaps = found["mean"].isna()
    words = [
        missing[m].get(k) if gap else None for k, m, gap in zip(found["method"], found["metric"], gaps, strict=True)
    ]
    return found.assign(missing=words)


def _text(table: pd.DataFrame) -> str:
    return table.rename_axis(None, axis=1).to_string(float_format="%.4f", na_rep="-", index_names=False)

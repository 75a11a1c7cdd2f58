"""Typeset a report of anybody's runs: what may be concluded, and what that rests on."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedstat import __version__
from fedstat._account import said
from fedstat._files import check_writable
from fedstat._in_words import attacked, counted, part
from fedstat.inference import AnalysisPlan, Assessment, Comparison, assess, compare, read_results
from fedstat.inference.comparing.tables import Table, differences_table, fixed, joined, summary_table
from fedstat.inference.formatting import listed
from fedstat.inference.predictions.printing import tables
from fedstat.inference.reading.formats.fedstat import NEW_CLIENTS, for_new_clients
from fedstat.inference.reading.joining import with_bytes
from fedstat.report.document import typeset
from fedstat.report.figures import style, write_svg
from fedstat.report.sources import (
    Source,
    fingerprints_of,
    held_out,
    methods_of,
    network_of,
    read_source,
    settings_of,
    sizes_of,
    traffic_of,
)

TEMPLATE = Path(__file__).parent / "runs.typ"
#: Rows of differences that are printed.
_ROWS = 60
_PREDICTED = "Predictions sample by sample"
#: Behind what a long word may break.
_BREAKS = re.compile(r"[-/_.,=:]|[^-/_.,=:]{20}")
#: Measures of inequality over clients that are printed, and whether they are told in points.
_MEASURES = {"sd": True, "worst decile": True, "Gini": False, "share that loses": True, "share that ties": True}


def report_runs(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    columns: Mapping[str, str | None] | None = None,
    plan: str | Path | None = None,
    title: str | None = None,
    event: str | None = None,
    day: date | None = None,
    **how: Any,
) -> Comparison:
    """Compare runs and write a report of them, as a PDF or a web page; return the comparison that it prints.

    Runs are folders of ``fedstat run`` or of ``Result.save``, or files that `fedstat.compare` takes; of files the
    report has fewer sections, and says which. `out` ends in ``.pdf`` or ``.html``. The same runs and arguments give the
    same bytes; `day`, which the report bears, is by default today. `columns` is as in `fedstat.read_results`, `plan` a
    file to hold the result against, `event` as in `fedstat.assess`, and `how` are other arguments of `fedstat.compare`.
    """
    target = Path(out)
    _check_target(target)
    if not runs:
        raise ValueError("runs must name at least one run folder or table.")
    sources = [read_source(Path(run), columns) for run in runs]
    results = {str(run): read_results(run, columns=columns) if columns else str(run) for run in runs}
    if len(results) < len(runs):
        raise ValueError("runs name one place twice; name each once.")
    read = None if plan is None else AnalysisPlan.read(Path(plan))
    comparison = compare(results, plan=read, **how)
    comparison = replace(comparison, scores=with_bytes(comparison.scores, [source.traffic for source in sources]))
    options = _options(columns or {}, {"title": title, "event": event, "plan": plan, **how})
    command = shlex.join(["fedstat", "report", *map(str, runs), "--out", str(out), *options])
    failed = list[str]()
    assessed = _assessed(runs, sources, comparison, event, how, failed)
    if event is not None and assessed is None:
        raise ValueError(f"event must be left out unless a single run keeps its predictions, got {event!r}.")
    later = _assessed(runs, sources, comparison, event, how, failed, new_clients=True)
    with tempfile.TemporaryDirectory() as place:
        names, labels = _names(comparison, sources), comparison.scores.methods
        figures, absent = _figures(comparison, names, assessed, Path(place))
        seed, picture = next((source.picture for source in sources if source.picture is not None), ("", None))
        files = figures if picture is None else figures | {"partition.svg": picture}
        data = {
            "title": title or (listed(labels) if len(labels) < 5 else f"A comparison of {len(labels)} methods"),
            "names": [source.name for source in sources],
            "conclusions": list(comparison.conclusions),
            "generalises": comparison.generalises,
            "estimand": _sentence(comparison.estimand),
            "notes": [note for note in comparison.notes if not any(s.tuned and s.tuned in note for s in sources)],
            "metric": comparison.scores.metric.replace("_", " "),
            "control": comparison.control,
            "figures": sorted(files),
            "picture_seed": str(seed),
            **_tables(comparison, names, sources),
            "predictions": None if assessed is None else _told(assessed),
            "new_clients": None if later is None else _told(later),
            "to_paste": _to_paste(comparison, sources, assessed),
            "command": command,
            "version": __version__,
        }
        data["left_out"] = [*absent, *failed, *_left_out(data, *failed)]
        typeset(TEMPLATE, _soft(data), files, target, day=day or date.today())
    return comparison


def _options(columns: Mapping[str, str | None], asked: Mapping[str, Any]) -> list[str]:
    """Return the options of the command line that ask for the same report."""
    options: list[tuple[str, Any]] = []
    for theirs, ours in columns.items():
        if ours in ("method", "seed", "client", "round", "value"):
            options.append((ours, theirs))
        elif ours is not None:
            options += [("value", theirs), ("metric", ours)]
    given, names = dict(options), ("metric", "margin", "last", "split", "level", "plan", "title", "event")
    options += [(name, asked[name]) for name in names if name not in given and asked.get(name) is not None]
    estimand, across, control = asked.get("estimand"), asked.get("across", ()), asked.get("control", "auto") or ()
    controls = [control] if isinstance(control, str) else control
    options += [("control", one) for one in controls if one != "auto"]
    each = [f"{label}={model}" for label, model in estimand.items()] if isinstance(estimand, Mapping) else [estimand]
    options += [("estimand", one) for one in each if one is not None]
    options += [("across", one) for one in ([across] if isinstance(across, str) else across)]
    flags = {"--separate": not asked.get("simultaneous", True), "--all-pairs": asked.get("control", "") is None}
    words = [word for name, value in options for word in (f"--{name}", str(value))]
    return words + [flag for flag, on in flags.items() if on]


def _check_target(target: Path) -> None:
    """Refuse a place where nothing can be written, before anything is computed."""
    if target.suffix not in (".pdf", ".html"):
        raise ValueError(f"--out must end in .pdf or .html, got {target}.")
    if not target.parent.is_dir():
        raise ValueError(f"--out {target} cannot be written: there is no folder {target.parent}.")
    if target.is_dir():
        raise ValueError(f"--out {target} is a folder; name a file.")
    check_writable(f"--out {target}", target.parent)


def _assessed(
    runs: Sequence[str | Path],
    sources: Sequence[Source],
    comparison: Comparison,
    event: str | None,
    how: Mapping[str, Any],
    failed: list[str],
    new_clients: bool = False,
) -> Assessment | None:
    """Assess the predictions of a run that keeps them, and that stands alone, or those for its new clients.

    Why that fails, unless there is an `event` that may be at fault, goes to `failed`.
    """
    if len(runs) > 1 or not sources[0].predicts or (new_clients and not (Path(runs[0]) / NEW_CLIENTS).exists()):
        return None
    control = _reference(comparison)
    given: dict[str, Any] = {"level": comparison.level, "event": event}
    try:
        if new_clients:  # which are offered other models than those that took part have, and some methods offer none
            offered = set(pd.read_parquet(for_new_clients(Path(runs[0])), columns=["method"])["method"])
            given |= {"control": control if control in offered else None, "new_clients": True}
        else:
            given |= {"control": control, "estimand": how.get("estimand"), "split": how.get("split")}
        return assess(runs[0], **given)
    except ValueError as error:
        if event is not None:
            raise
        failed.append(f"{'Predictions for new clients' if new_clients else _PREDICTED}: {error}")
        return None


def _told(assessed: Assessment) -> dict[str, Any]:
    """Return what is printed of predictions."""
    return {
        "conclusions": [_sentence(words) for words in assessed.conclusions],
        "tables": [_cells(joined(table)) for table in tables(assessed, _ROWS, "calibration_slope")],
        "notes": list(assessed.notes),
        "control": assessed.control,
    }


def _to_paste(comparison: Comparison, sources: Sequence[Source], assessed: Assessment | None) -> list[str]:
    """Return two paragraphs on one run, for whoever writes about it: what was done, and what left the clients."""
    config, clients, traffic = sources[0].config, sources[0].clients, sources[0].traffic
    if len(sources) > 1 or config is None or clients is None or traffic is None:
        return []
    sizes = clients.groupby("seed")["train"].agg(["size", "sum"])
    held, samples = (" to ".join(f"{n:,}" for n in sorted({of.min(), of.max()})) for _, of in sizes.items())
    seeds, methods, share = len(config["seeds"]), comparison.scores.methods, config["participation"]
    stops = bool(config["stop"])
    rounds = "up to " * stops + counted(config["rounds_asked" if stops else "rounds"], "round")
    drawn = f"each with {100 * share:g}% of the clients," if isinstance(share, float) else f"attended by {part(share)},"
    done = (
        f"{held} clients hold {samples} training samples.{held_out(sources[0])} {listed(methods)} "
        f"{'were' if len(methods) > 1 else 'was'} "
        f"trained for {rounds}{'' if share == 1 else f', {drawn}'} under {'each of ' * (seeds > 1)}"
        f"{counted(seeds, 'seed')}{', each run until its patience ended' * stops}, with fedstat {__version__}. "
        f"{network_of(sources[0])} {_tuned(sources[0])} "
    )
    measure, _, reported = comparison.estimand.rstrip(".").partition("; ")
    done += f"{'Methods are compared by' if reported else 'What is measured is'} the {measure}"
    done += f": {reported.replace('paired on seeds, ', 'paired on seeds, with ')}" * bool(reported)
    done += f". {comparison.generalises}"
    if assessed is not None:
        metrics = listed(
            {"auc": "AUC", "brier": "Brier score"}.get(name) or name.replace("_", " ")
            for name in assessed.pooled["metric"].unique()
        )
        over = "patients and trainings" if len(assessed.predictions.seeds) > 1 else "patients"
        done += (
            f" Of what the final models predict for each patient, {metrics} are given over all patients and at each "
            f"client, with {100 * assessed.level:g}% intervals over {over}"
        )
        done += f"; those of differences to {assessed.control} hold together for each metric" * bool(assessed.control)
        done += "."
    done += "".join(f" {_sentence(words)}." for words in attacked(config))
    silent = [label for label in methods if label not in set(traffic[traffic["bytes_up"] > 0]["method"])]
    left = "Samples stayed with their clients. Models or parts of them travelled between clients and a server"
    left += f", but under {listed(silent)} nothing travelled" if silent else ""
    if (sources[0].experiment or {}).get("data", {}).get("prepare"):
        data = (sources[0].experiment or {})["data"]
        what = "what prepares the inputs, which all training samples together teach, was"
        if data["prepare"] == "standard":
            what = "medians, means and deviations of the inputs, and the words of text columns if there are any, were"
        left += f"; {what} shared before" * (data.get("fit_on", "pooled") == "pooled")
    hidden = "; ".join(said(config)) or "no noise was added, and no privacy is guaranteed"
    return [done, f"{left}. What travels can tell of samples: {hidden}."]


def _names(comparison: Comparison, sources: Sequence[Source]) -> list[str] | None:
    """Return the names of the clients, where they are the same under all seeds."""
    known = next((source.clients for source in sources if source.clients is not None), None)
    if known is None or "name" not in known or comparison.design is None or comparison.design.clients == "new":
        return None
    named = known.groupby("client")["name"].first()
    names = [str(named.get(client, client)) for client in comparison.scores.clients]
    return names if len({*names}) == len(names) else None


def _figures(
    comparison: Comparison, names: list[str] | None, assessed: Assessment | None, folder: Path
) -> tuple[dict[str, Path], list[str]]:
    """Draw what can be drawn, and say what cannot be."""
    draw: dict[str, tuple[Callable[[], Axes], str]] = {
        "curves": (comparison.curves, "Curves: they need values after two rounds."),
        "bytes": (lambda: comparison.curves(axis="bytes"), ""),
        "forest": (comparison.plot, "Differences: they need two methods with two common seeds, and no missing values."),
        "clients": (lambda: named.clients(against=_reference(comparison)), ""),
    }
    named = comparison
    if names is not None:
        named = replace(comparison, scores=replace(comparison.scores, clients=tuple(names)))
    if assessed is not None:
        draw["clients"] = (assessed.plot_clients, "Differences at each client: {}")
    if len(comparison.scores.clients) < 2:
        del draw["clients"]
    if assessed is not None and assessed.predictions.kind == "two classes":
        why = "Calibration, ROC and decision curves: {}"
        draw |= {"calibration": (assessed.plot_calibration, why), "roc": (assessed.plot_roc, "")}
        draw["decision"] = (assessed.plot_decision, "")
    files, absent = {}, []
    for name, (drawn, otherwise) in draw.items():
        with style():
            try:
                drawn()
            except ValueError as error:
                absent += [otherwise.format(error)] if otherwise else []
                continue
            figure, path = plt.gcf(), folder / f"{name}.svg"
            write_svg(figure, path)
            plt.close(figure)
            files[path.name] = path
    return files, absent


def _reference(comparison: Comparison) -> str:
    """Return the method against which clients gain or lose."""
    labels = comparison.scores.methods
    return comparison.control or next((name for name in ("Local", "FedAvg") if name in labels), labels[0])


def _tables(comparison: Comparison, names: list[str] | None, sources: Sequence[Source]) -> dict[str, Any]:
    """Return the tables of the report, each with its header, or None where there is nothing to show."""
    header, prints = fingerprints_of(sources)
    fairness, judged, said = _fairness(comparison, names)
    clients = next((source.clients for source in sources if source.clients is not None), None)
    environments = []
    for source in sources:
        if (here := source.environment) is not None:
            packages = ", ".join(f"{name} {version}" for name, version in here["packages"].items())
            revision = f", revision {here['revision']}" if here.get("revision") else ""
            machine = f"{here['system']}, {here['device']}, {counted(here['threads'], 'thread')}"
            environments.append([source.name, f"Python {here['python']}, {packages}{revision}", machine])
    differences = joined(differences_table(comparison, _ROWS)) if len(comparison.differences) else None
    return {
        "summary": _cells(joined(summary_table(comparison))),
        "differences": None if differences is None else _cells(differences.without(["p (sign flips)", "p (t)"])),
        "methods": _given(["method", "class", "hyper-parameters"], methods_of(sources)),
        "settings": _given(["setting", "value"], settings_of(sources)),
        "tuned": list(dict.fromkeys(_tuned(source) for source in sources if source.config)),
        "sizes": _given(
            ["split", "samples of all", "least", "median", "most"], [] if clients is None else sizes_of(clients)
        ),
        "gaps": list(dict.fromkeys(line for source in sources for line in source.gaps)),
        "traffic": _given(
            ["method", "MB up in a run", "MB down in a run", "kB up, a participant in a round"], traffic_of(sources)
        ),
        "fairness": fairness,
        "judged": judged,
        "fairness_notes": said,
        "reference": _reference(comparison),
        "fingerprints": _given(header, prints),
        "environments": _given(["run", "versions", "machine"], environments),
        "experiments": [[source.name, source.text] for source in sources if source.text],
    }


def _tuned(source: Source) -> str:
    return f"{_sentence(source.tuned)}." if source.tuned else "Whether methods were tuned is not known here."


def _sentence(words: str) -> str:
    """Begin a sentence with a capital letter, and abbreviations of metrics with several."""
    first, space, rest = words.partition(" ")
    first = first.upper() if first in ("mse", "rmse", "mae", "auc", "f1") else first[:1].upper() + first[1:]
    return f"{first}{space}{rest}"


def _cells(table: Table) -> dict[str, Any]:
    words = [name in table.words for name in table.header]
    # an interval stays on one line
    rows = [
        [cell if word else cell.replace(" ", "\u00a0") for cell, word in zip(row, words, strict=True)]
        for row in table.rows
    ]
    return {"title": _sentence(table.title), "header": list(table.header), "rows": rows, "words": words}


def _given(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Any] | None:
    """Return a table of words; columns whose cells are all numbers stand at the right."""
    if not rows:
        return None
    numbers = set("0123456789., to−–%[]")
    words = frozenset(name for i, name in enumerate(header) if not all(set(row[i]) <= numbers for row in rows))
    return _cells(Table("", tuple(header), tuple(map(tuple, rows)), words, ()))


def _fairness(comparison: Comparison, names: list[str] | None) -> tuple[dict[str, Any] | None, str, list[str]]:
    """Return how unequal clients fare under each method, beside what test noise alone would show.

    Then come a sentence on which of the clients that have `names` are said to gain or to lose, and notes.
    """
    from fedstat.inference.client_fairness import fairness

    scores = comparison.scores
    if scores.metric != "accuracy" or scores.samples is None or len(scores.clients) < 2:
        return None, "", []
    reference = scores.values[scores.methods.index(_reference(comparison))]
    rows, notes, judged, rule = [], dict[str, list[str]](), list[str](), ""
    for label, values in zip(scores.methods, scores.values, strict=True):
        there = np.isfinite(values) & np.isfinite(reference) & (np.nan_to_num(scores.samples) > 0)
        own = label == _reference(comparison)
        try:
            found = fairness(
                np.where(there, values, np.nan),
                np.where(there, scores.samples, 0),
                reference=None if own else np.where(there, reference, np.nan),
                clients=names if there.any(axis=0).all() else None,
                fresh_tests=comparison.design is not None and comparison.design.data == "drawn",
                level=comparison.level,
            )
        except ValueError:  # a method without two clients in a seed has no spread over clients
            continue
        table, first, told = found.table.set_index(["measure", "version"]), label, list(found.notes)
        if found.clients is not None:
            rule = told.pop()  # on clients by name
            for outcome, who in found.clients.groupby("outcome", sort=False)["client"]:
                if outcome != "undecided":
                    judged.append(f"{listed(who)} {outcome if len(who) == 1 else outcome[:-1]} under {label}")
        for note in told:
            notes.setdefault(note, []).append(label)
        for measure, points in _MEASURES.items():
            if (measure, "raw") in table.index:
                rows.append([first, measure, *_versions(table, measure, points)])
                first = ""
    said = f"Against {_reference(comparison)}: {'; '.join(judged) or 'no client is said to gain or to lose'}. {rule}"
    shown = sum(bool(row[0]) for row in rows)
    each = [note if len(labels) == shown else f"{listed(labels)}: {note}" for note, labels in notes.items()]
    return _given(["method", "measure", "raw", "shrunken", "noise only"], rows), said * bool(rule), each


def _versions(table: pd.DataFrame, measure: str, points: bool) -> list[str]:
    """Return the raw value, the shrunken one with its limits, and what test noise gives alone."""
    factor, places = (100, 1) if points else (1, 3)
    rows = factor * table.loc[measure, ["mean", "low", "high"]].reindex(["raw", "shrunken", "noise only"])
    raw, shrunken, noise = (fixed(value, places) for value in rows["mean"])
    low, high = (fixed(value, places) for value in rows.loc["shrunken", ["low", "high"]])
    return [raw, shrunken if low == "–" else f"{shrunken} [{low}, {high}]", noise]


def _left_out(data: Mapping[str, Any], *told: str) -> list[str]:
    """Say which sections have nothing to show, and why, but for what was `told` before."""
    said = {
        "methods": "Settings of methods and training: the tables do not name them.",
        "predictions": f"{_PREDICTED}: of one run that keeps them (predictions = true); fedstat assess takes tables.",
        "sizes": "Who holds what: the number of samples of each client is not known.",
        "fairness": "Inequality over clients: it needs accuracies and the number of test samples of each client.",
        "traffic": "Traffic: the bytes that travelled are not known.",
        "fingerprints": "Hashes of the data: only runs of fedstat carry them.",
    }
    found = [words for name, words in said.items() if data[name] is None and not (name == "predictions" and told)]
    if "partition.svg" not in data["figures"]:
        found.append(
            "A picture of who holds which classes: only folders of fedstat run hold one, if outcomes are classes."
        )
    if "clients.svg" not in data["figures"] and data["fairness"] is None:
        found.append("Clients: what each of them gains or loses is not known.")
    return [*dict.fromkeys(found), "Costs: runs do not record seconds and memory."]


def _soft(value: Any) -> Any:
    """Let long words break in lines: a space of no width follows their signs and every twentieth letter."""
    if isinstance(value, Mapping):
        return {name: one if name in ("figures", "words") else _soft(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_soft(one) for one in value]
    if isinstance(value, str):
        return re.sub(r"\S{25,}", lambda word: _BREAKS.sub("\\g<0>\u200b", word[0]), value)
    return value

"""From results, run folders and tables to the numbers that are compared; what cannot be compared is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat._checks import whole
from fedstat.inference.analysis_plan import AnalysisPlan
from fedstat.inference.formats.tidy import COLUMNS, shares_reduced
from fedstat.inference.reading import Opened, open_results
from fedstat.inference.reduction import Reduced, reduce, survey
from fedstat.inference.sameness import check_same
from fedstat.inference.scores import Scores
from fedstat.inference.spending import bytes_spent

if TYPE_CHECKING:
    import pandas as pd

Estimand = str | Mapping[str, str] | None
Windows = tuple[int, ...] | None
#: Which of a method's models is measured where nobody chooses.
_MODELS = ("personal", "fine-tuned", "global")
SPLITS = ("test", "validation", "train")


@dataclass(frozen=True, eq=False)
class Gathered:
    """Scores, and what is known of the runs that they come from.

    Attributes
    ----------
    scores : Scores
        The numbers.
    configs : mapping of str to mapping
        The configurations of runs that carry one, by the run's name.
    clients : DataFrame or None
        Samples of each client under each seed, as far as runs tell.
    notes : tuple of str
        Differences between the runs that are allowed, and what is not known.
    kept : bool
        Whether each run counts in the round that it kept.
    plans : frozenset of str
        The digests of the plans that the runs began with, "" of a run without.
    """

    scores: Scores
    configs: Mapping[str, Mapping[str, Any]]
    clients: pd.DataFrame | None
    notes: tuple[str, ...]
    kept: bool
    plans: frozenset[str]


def gather(
    runs: Mapping[str, Run],
    metric: str | None,
    split: str | None,
    last: int,
    estimand: Estimand,
    across: Sequence[str],
) -> Gathered:
    """Reduce runs to what is compared; arguments and errors are those of `fedstat.compare`."""
    configs = {name: run.config for name, run in runs.items() if run.config is not None}
    notes = check_same(configs, across)
    split = _chosen_split(runs, split)
    metric = _chosen_metric(runs, metric, split)
    kept = {name: run.kept for name, run in runs.items()}
    if len(set(kept.values())) > 1:
        stopped = ", ".join(name for name, of in kept.items() if of)
        raise ValueError(
            f"{stopped} stopped early, and other runs did not: kept rounds and last rounds are different summaries."
        )
    parts = {}
    for name, run in runs.items():
        # the state before training, round 0, is no part of a summary
        most = max(1, min(whole("last", last, 1), int(run.rounds[metric, split][-1])))
        found = reduce(run.batches, metric, split, last=most, known=run.rounds)
        shares = shares_reduced(found, name)
        if shares is not found:
            notes.append(f"{name}: values of {metric} are in percent and divided by 100; a margin of 0.01 is a point.")
        parts[name] = _chosen(shares, estimand, name)
    labels = _labels(parts, across)
    windows = None if any(kept.values()) else _window(parts, labels, last, across)
    if windows is None and not any(kept.values()):
        notes += [_own_rounds(part, last, name) for name, part in parts.items()]
    said = dict.fromkeys(note for run in runs.values() for note in run.notes)
    notes += [f"{_few(name for name, run in runs.items() if note in run.notes)}: {note}." for note in said]
    anonymous = [name for name in runs if name not in configs]
    if anonymous and len(runs) > 1:
        notes.append(
            f"{_few(anonymous)} carr{'ies' if len(anonymous) == 1 else 'y'} no fingerprints: whether data and "
            "participants were the same under each seed is not known here."
        )
    scores = _joined(parts, labels, metric, split, windows)
    clients = _clients(runs)
    return Gathered(
        _with_bytes(_with_samples(scores, clients), runs, labels),
        configs,
        clients,
        tuple(notes),
        any(kept.values()),
        frozenset(str((run.config or {}).get("plan", "")) for run in runs.values()),
    )


def _few(names: Iterable[str]) -> str:
    """Name results, of many the first and the last."""
    found = list(names)
    return ", ".join(found) if len(found) < 4 else f"{found[0]} to {found[-1]} ({len(found)} results)"


@dataclass(frozen=True, eq=False)
class Run:
    """One of the results that are compared.

    Attributes
    ----------
    batches : iterable of DataFrame or pyarrow.RecordBatch
        The rows of its history; it can be passed over several times.
    rounds : mapping of (metric, split) to ndarray of int
        Which rounds were evaluated.
    config : mapping or None
        The configuration of a fedstat run.
    clients : DataFrame or None
        Samples of each client under each seed.
    plan : AnalysisPlan or None
        What was planned.
    kept : bool
        Whether each run counts in the round that it kept.
    notes : tuple of str
        What was assumed in reading it.
    traffic : DataFrame or None
        The bytes of each participant of each round, where the run is in memory.
    """

    batches: Iterable[Any]
    rounds: Mapping[tuple[str, str], np.ndarray]
    config: Mapping[str, Any] | None = None
    clients: pd.DataFrame | None = None
    plan: AnalysisPlan | None = None
    kept: bool = False
    notes: tuple[str, ...] = ()
    traffic: pd.DataFrame | None = None


def read_runs(results: Any) -> dict[str, Run]:
    """Name each of the results, and open those that are files."""
    if isinstance(results, Mapping):
        named = dict(results)
    else:
        listed = list(results) if isinstance(results, list | tuple) else [results]
        names = [str(one) if isinstance(one, str | Path) else f"result {i}" for i, one in enumerate(listed, 1)]
        named = dict(zip(names, listed, strict=True))
        if len(named) < len(listed):
            raise ValueError("results name one file twice; name each once.")
    if not named:
        raise ValueError("results must hold at least one result.")
    return {str(name): _opened(one, str(name)) for name, one in named.items()}


def _opened(one: Any, name: str) -> Run:
    """Open one result, whatever it is."""
    table = hasattr(one, "columns")
    if isinstance(one, str | Path) or (table and not set(COLUMNS) <= set(one.columns)):
        one = open_results(one)
    elif not table and not (hasattr(one, "history") and hasattr(one, "config")):
        raise ValueError(
            f"results must be results of fs.federate, run folders, files or tables, got {type(one).__name__}."
        )
    batches = one if isinstance(one, Opened) else [one if table else one.history]
    known = one.survey() if isinstance(one, Opened) else survey(batches)
    if not known:
        raise ValueError(f"results must hold evaluations, but {name} has none.")
    first = next(iter(batches))
    names = first.schema.names if hasattr(first, "schema") else first.columns
    plan, notes = getattr(one, "plan", None), getattr(one, "notes", ())
    return Run(
        batches,
        known,
        getattr(one, "config", None),
        getattr(one, "clients", None),
        AnalysisPlan.read(plan) if isinstance(plan, Path) else plan,
        "kept" in names,
        tuple(notes),
        getattr(one, "traffic", None),
    )


def _chosen_split(runs: Mapping[str, Run], split: str | None) -> str:
    """Return the split that is measured on: by default of the clients' test samples, else validation, else training."""
    there = {name: {of for _, of in run.rounds} for name, run in runs.items()}
    wanted = {name: split or next((one for one in SPLITS if one in found), None) for name, found in there.items()}
    for name, one in wanted.items():
        if one not in there[name]:
            known = ", ".join(sorted(there[name]))
            raise ValueError(f"results must hold evaluations, but {name} has none of split {one!r}; it has {known}.")
    if len(set(wanted.values())) > 1:
        each = ", ".join(f"{name}: {one}" for name, one in wanted.items())
        raise ValueError(f"results must be measured on one split, got {each}; choose one that all have with split=.")
    return str(next(iter(wanted.values())))


def _chosen_metric(runs: Mapping[str, Run], metric: str | None, split: str) -> str:
    """Return the metric compared: by default accuracy, else mse, else the only one that all runs have."""
    there = {name: [one for one, of in run.rounds if of == split] for name, run in runs.items()}
    common = [one for one in next(iter(there.values())) if all(one in found for found in there.values())]
    if metric is None:
        metric = next((one for one in ("accuracy", "mse") if one in common), common[0] if len(common) == 1 else None)
        if metric is None:
            known = ", ".join(common) or "; ".join(f"{name}: {', '.join(found)}" for name, found in there.items())
            raise ValueError(f"results have no metric in common that is the usual one; choose with metric=. {known}.")
    for name, found in there.items():
        if metric not in found:
            known = ", ".join(found)
            raise ValueError(f"metric {metric!r} is not in the history of {name}, split {split!r}; it has {known}.")
    return metric


@dataclass(frozen=True, eq=False)
class _Part:
    """One run's reduced numbers, a row for each method: the model of it that is chosen."""

    reduced: Reduced
    rows: Mapping[str, int]


def _chosen(reduced: Reduced, estimand: Estimand, name: str) -> _Part:
    """Choose one model of each method, by name, never by the order of rows."""
    models: dict[str, dict[str, int]] = {}
    for i, (label, model) in enumerate(reduced.methods):
        models.setdefault(label, {})[model] = i
    rows = {}
    for label, found in models.items():
        wanted = estimand.get(label) if isinstance(estimand, Mapping) else estimand
        if wanted is None:
            wanted = usual_model(found)
        elif wanted not in found:
            raise ValueError(
                f"estimand of {label} must be one of {', '.join(sorted(found))} in {name}, got {wanted!r}."
            )
        rows[label] = found[wanted]
    return _Part(reduced, rows)


def usual_model(models: Iterable[str]) -> str:
    """Return which of a method's models is measured where nobody chooses."""
    found = sorted(models)
    return next((model for model in _MODELS if model in found), found[0])


def _labels(parts: Mapping[str, _Part], across: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the label of each run's methods; the same method under other seeds is one method."""
    held: dict[str, dict[str, set[int]]] = {}
    for name, part in parts.items():
        for label, i in part.rows.items():
            there = np.isfinite(part.reduced.values[i]).any(axis=1) | (part.reduced.missing[i] > 0)
            held.setdefault(label, {})[name] = {int(s) for s in np.asarray(part.reduced.seeds)[there]}
    found = {}
    for label, runs in held.items():
        seeds = [seed for of in runs.values() for seed in of]
        if len(runs) > 1 and not across and len(set(seeds)) < len(seeds):
            raise ValueError(
                f"{label} ran under the same seed in {' and in '.join(runs)}: rename one, by compare({{name: result}}) "
                "for different data, or leave one out."
            )
        for name in runs:
            found[name, label] = f"{label} ({name})" if len(runs) > 1 and across else label
    return found


def _window(
    parts: Mapping[str, _Part], labels: Mapping[tuple[str, str], str], last: int, across: Sequence[str]
) -> Windows:
    """Return the rounds that all runs average over, None where each result may have its own.

    Raises
    ------
    ValueError
        If runs end after different rounds or were evaluated after others, and may not.
    """
    for part in parts.values() if "rounds" in across else [None]:
        some = parts if part is None else {"": part}
        ends = {
            (label, int(seed)): int(end)
            for one in some.values()
            for label, i in one.rows.items()
            for seed, end in zip(one.reduced.seeds, one.reduced.last_round[i], strict=True)
            if end >= 0
        }
        most = max(ends.values())
        if early := {key: end for key, end in ends.items() if end < most}:
            (label, seed), end = min(early.items(), key=lambda item: item[1])
            more = f" (and {len(early) - 1} more)" if len(early) > 1 else ""
            raise ValueError(
                f"runs must end after the same round, but {label} under seed {seed}{more} ends after round {end}, "
                f"others after round {most}. Continue what ends early, or leave it out; results given apart are "
                'compared over their own last rounds with across="rounds".'
            )
    windows = {_last_rounds(part, last) for part in parts.values()}
    if len(windows) > 1 and "rounds" not in across:
        each = "; ".join(", ".join(map(str, rounds)) for rounds in sorted(windows))
        raise ValueError(
            f"runs must be evaluated after the same rounds, got {each} within the last {last}. Choose last= so that "
            'they agree, or name the difference with across="rounds".'
        )
    return windows.pop() if len(windows) == 1 else None


def _last_rounds(part: _Part, last: int) -> tuple[int, ...]:
    """Return the evaluated rounds that count; round 0, the state before training, where there is nothing else."""
    rounds = part.reduced.rounds
    return tuple(int(r) for r in rounds if r > rounds[-1] - last and (r > 0 or rounds[-1] == 0))


def _own_rounds(part: _Part, last: int, name: str) -> str:
    """Say over which rounds of its own a result averages."""
    own = _last_rounds(part, last)
    learning = len(own) > 1 and len(own) == (part.reduced.rounds > 0).sum()
    which = f"rounds {own[0]} to {own[-1]}" if len(own) > 1 else f"round {own[0]}"
    all_of_it = ", all that were evaluated: a mean of learning, not of where the methods end"
    return f"{name} counts by its {which}{all_of_it if learning else ''}."


def _joined(
    parts: Mapping[str, _Part], labels: Mapping[tuple[str, str], str], metric: str, split: str, windows: Windows
) -> Scores:
    """Put the runs side by side."""
    seeds = sorted({int(s) for part in parts.values() for s in part.reduced.seeds})
    clients = _union(part.reduced.clients for part in parts.values())
    rounds = np.unique(np.concatenate([part.reduced.rounds for part in parts.values()]))
    methods = list(dict.fromkeys(labels.values()))
    shape = (len(methods), len(seeds))
    values, counts = np.full((*shape, len(clients)), np.nan), np.zeros((*shape, len(clients)), int)
    curves, wrong = np.full((*shape, len(rounds)), np.nan), np.zeros(shape, int)
    models: dict[str, str] = {}
    for name, part in parts.items():
        own = part.reduced
        places = {one: k for k, one in enumerate(clients)}
        k, t = [places[one] for one in _plain(own.clients, clients)], np.searchsorted(rounds, own.rounds)
        for label, i in part.rows.items():
            m, ran = methods.index(labels[name, label]), own.last_round[i] >= 0
            s = np.searchsorted(seeds, own.seeds[ran])
            values[m][np.ix_(s, k)], counts[m][np.ix_(s, k)] = own.values[i][ran], own.counts[i][ran]
            curves[m][np.ix_(s, t)], wrong[m, s] = own.curves[i][ran], own.missing[i][ran]
            model = own.methods[i][1]
            if models.setdefault(methods[m], model) != model:
                raise ValueError(
                    f"{methods[m]} is measured by its {models[methods[m]]} model in one result and by its {model} "
                    "model in another; choose one with estimand=."
                )
    there: np.ndarray = np.asarray((counts > 0).any(axis=0))
    # what every client of a run should have: as many values as others have in the same rounds
    due = counts.max(axis=2) if windows is None else np.broadcast_to(counts.max(axis=(0, 2)), shape)
    absent = np.where(counts.any(axis=2, keepdims=True) & there, due[..., None] - counts, 0)
    values = np.where(absent > 0, np.nan, values)
    missing = {
        label: _gaps(wrong[m], absent[m], counts[m], values[m], there, metric, seeds, clients)
        for m, label in enumerate(methods)
        if wrong[m].any() or absent[m].any()
    }
    return Scores(
        metric=metric,
        split=split,
        methods=tuple(methods),
        models=tuple(models[label] for label in methods),
        seeds=tuple(seeds),
        clients=tuple(clients),
        values=values,
        there=there,
        ran=np.asarray(counts.any(axis=2)),
        samples=None,
        rounds=rounds,
        curves=curves,
        averaged=windows or (),
        missing=missing,
    )


def _union(ids: Iterable[np.ndarray]) -> list[Any]:
    """Return all clients in ascending order; as text where some have names."""
    found = {one for of in ids for one in of.tolist()}
    return sorted(found) if all(isinstance(one, int) for one in found) else sorted(map(str, found))


def _plain(ids: np.ndarray, clients: Sequence[Any]) -> list[Any]:
    return list(map(str, ids.tolist())) if isinstance(clients[0], str) else list(ids.tolist())


def _gaps(
    wrong: np.ndarray,
    absent: np.ndarray,
    counts: np.ndarray,
    values: np.ndarray,
    there: np.ndarray,
    metric: str,
    seeds: Sequence[int],
    clients: Sequence[Any],
) -> str:
    """Say in words how many values of a method are infinite, NaN or absent."""
    words = [f"{wrong.sum()} infinite or NaN"] * bool(wrong.any()) + [f"{absent.sum()} absent"] * bool(absent.any())
    ran = counts.any(axis=1, keepdims=True)
    s, k = np.argwhere(ran & there & ~np.isfinite(values))[0]
    return (
        f"{wrong.sum() + absent.sum()} of {counts.sum() + absent.sum()} values of {metric} are missing "
        f"({', '.join(words)}), the first at client {clients[k]} under seed {seeds[s]}"
    )


def _clients(runs: Mapping[str, Run]) -> pd.DataFrame | None:
    """Return what is known of the clients, a row for each seed and client; None where runs tell other things."""
    import pandas as pd

    known = [run.clients for run in runs.values() if run.clients is not None and set(SPLITS) & set(run.clients)]
    if not known:
        return None
    found = pd.concat(known)
    found = found.drop_duplicates(["seed", "client", *(name for name in SPLITS if name in found)])
    return None if found.duplicated(["seed", "client"]).any() else found


def _with_bytes(scores: Scores, runs: Mapping[str, Run], labels: Mapping[tuple[str, str], str]) -> Scores:
    """Add the bytes that rounds cost, from runs in memory whose methods keep their labels."""
    import pandas as pd

    renamed = {name for (name, label), of in labels.items() if label != of}
    known = [run.traffic for name, run in runs.items() if run.traffic is not None and name not in renamed]
    if not known:
        return scores
    spent = bytes_spent(pd.concat([one.astype({"method": object}) for one in known], ignore_index=True), scores)
    return replace(scores, spent={"bytes": spent}) if (spent > 0).any() else scores


def _with_samples(scores: Scores, clients: pd.DataFrame | None) -> Scores:
    """Add the number of samples of each client on which the metric was measured."""
    if clients is None or scores.split not in clients:
        return scores
    table = clients.pivot(index="seed", columns="client", values=scores.split)
    samples = table.reindex(index=list(scores.seeds), columns=list(scores.clients)).to_numpy(float)
    known = np.isfinite(np.where(scores.there, samples, 0)).all()
    return replace(scores, samples=np.nan_to_num(samples)) if known else scores

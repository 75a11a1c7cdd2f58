"""From runs to the numbers that are compared; what cannot be compared is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedstat._checks import whole
from fedstat.inference.reading.choosing import Estimand, choose_metric, choose_models, choose_split
from fedstat.inference.reading.formats.tidy import shares_reduced
from fedstat.inference.reading.honest import honest_in_all
from fedstat.inference.reading.joining import Windows, joined, with_bytes, with_samples
from fedstat.inference.reading.opening import Entry
from fedstat.inference.reading.reduction import Reduced, reduce
from fedstat.inference.reading.sameness import check_same
from fedstat.inference.reading.scores import SPLITS, Scores


@dataclass(frozen=True, eq=False)
class Gathered:
    """Scores, and what is known of the runs that they come from.

    `configs` (of runs that carry one) and `measured` are by the run's name; the latter is what a value is, as the
    format of the run says it. `clients` are samples of each client under each seed, as far as runs tell. `notes` are
    differences between the runs that are allowed, and what is not known. `kept` says that each run counts in the round
    that it kept. `majority` is, beside accuracies, the share of each client's most frequent class, where all runs tell
    it.
    """

    scores: Scores
    configs: Mapping[str, Mapping[str, Any]]
    clients: pd.DataFrame | None
    notes: tuple[str, ...]
    measured: Mapping[str, str | None]
    kept: bool
    majority: Scores | None


def gather(
    runs: Mapping[str, Entry],
    metric: str | None,
    split: str | None,
    last: int,
    estimand: Estimand,
    across: Sequence[str],
) -> Gathered:
    """Reduce runs to what is compared; arguments and errors are those of `fedstat.compare`."""
    configs = {name: run.config for name, run in runs.items() if run.config is not None}
    notes = check_same(configs, across)
    runs, told_honest = honest_in_all(runs)
    notes += told_honest
    if len({setting for run in runs.values() for setting in run.settings}) > 1:
        told = "; ".join(f"{name}: {', '.join(sorted(run.settings))}" for name, run in runs.items() if run.settings)
        raise ValueError(
            f"results are of several data sets or settings ({told}), and differences of methods mean something within "
            "one. Compare each on its own; fs.inference.ranks takes several."
        )
    split = choose_split(runs, split)
    metric = choose_metric(runs, metric, split)
    stopped = [name for name, run in runs.items() if run.kept]
    if stopped and len(stopped) < len(runs):
        raise ValueError(
            f"{', '.join(stopped)} stopped early, and other runs did not: kept rounds and last rounds are different "
            "summaries."
        )
    parts, majority = {}, {}
    for name, run in runs.items():
        # the state before training, round 0, is no part of a summary
        most = max(1, min(whole("last", last, 1), int(run.rounds[metric, split][-1])))
        found = reduce(run.batches, metric, split, last=most, known=run.rounds)
        shares = shares_reduced(found, name)
        if shares is not found:
            notes.append(f"{name}: values of {metric} are in percent and divided by 100; a margin of 0.01 is a point.")
        parts[name] = choose_models(shares, estimand, name, own=run.config is not None)
        if metric == "accuracy" and ("majority_share", split) in run.rounds:
            share = reduce(run.batches, "majority_share", split, last=most, known=run.rounds)
            majority[name] = choose_models(share, estimand, name, own=run.config is not None)
    labels = _labels(parts, across)
    windows = None if stopped else _window(parts, last, across)
    if windows is None and not stopped:
        notes += [_own_rounds(part, last, name) for name, part in parts.items()]
    said = dict.fromkeys(note for run in runs.values() for note in run.notes)
    notes += [f"{few(name for name, run in runs.items() if note in run.notes)}: {note}." for note in said]
    anonymous = [name for name in runs if name not in configs]
    if anonymous and len(runs) > 1:
        notes.append(
            f"{few(anonymous)} carr{'ies' if len(anonymous) == 1 else 'y'} no fingerprints: whether data and "
            "participants were the same under each seed is not known here."
        )
    scores = joined(parts, labels, metric, split, windows)
    beside = joined(majority, labels, "majority_share", split, windows) if len(majority) == len(parts) else None
    clients = _clients(runs)
    renamed = {name for (name, label), of in labels.items() if label != of}
    return Gathered(
        with_bytes(with_samples(scores, clients), [run.traffic for name, run in runs.items() if name not in renamed]),
        configs,
        clients,
        tuple(notes),
        {name: run.measured for name, run in runs.items()},
        bool(stopped),
        beside,
    )


def few(names: Iterable[str]) -> str:
    """Name results, of many the first and the last."""
    found = list(names)
    return ", ".join(found) if len(found) < 4 else f"{found[0]} to {found[-1]} ({len(found)} results)"


def _labels(parts: Mapping[str, Reduced], across: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the label of each run's methods; the same method under other seeds is one method."""
    held: dict[str, dict[str, set[int]]] = {}
    for name, part in parts.items():
        for i, (label, _) in enumerate(part.methods):
            there = np.isfinite(part.values[i]).any(axis=1) | (part.missing[i] > 0)
            held.setdefault(label, {})[name] = {int(s) for s in part.seeds[there]}
    found = dict[tuple[str, str], str]()
    for label, runs in held.items():
        seeds = [seed for of in runs.values() for seed in of]
        if len(runs) > 1 and not across and len(set(seeds)) < len(seeds):
            raise ValueError(
                f"{label} ran under the same seed in {' and in '.join(runs)}: give one of them another label, or leave "
                'it out; runs on different data go together with across="data".'
            )
        found |= {(name, label): f"{label} ({name})" if len(runs) > 1 and across else label for name in runs}
    return found


def _window(parts: Mapping[str, Reduced], last: int, across: Sequence[str]) -> Windows:
    """Return the rounds that all runs average over, None where each may have its own; refuse runs that differ."""
    groups = [[part] for part in parts.values()] if "rounds" in across else [list(parts.values())]
    for group in groups:
        ends = {
            (label, int(seed)): int(end)
            for one in group
            for (label, _), ends_of in zip(one.methods, one.last_round, strict=True)
            for seed, end in zip(one.seeds, ends_of, strict=True)
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


def _last_rounds(part: Reduced, last: int) -> tuple[int, ...]:
    """Return the evaluated rounds that count; round 0, the state before training, where there is nothing else."""
    rounds = part.rounds
    return tuple(int(r) for r in rounds if r > rounds[-1] - last and (r > 0 or rounds[-1] == 0))


def _own_rounds(part: Reduced, last: int, name: str) -> str:
    """Say over which rounds of its own a result averages."""
    own = _last_rounds(part, last)
    learning = len(own) > 1 and len(own) == (part.rounds > 0).sum()
    which = f"rounds {own[0]} to {own[-1]}" if len(own) > 1 else f"round {own[0]}"
    all_of_it = ", all that were evaluated: a mean of learning, not of where the methods end"
    return f"{name} counts by its {which}{all_of_it if learning else ''}."


def _clients(runs: Mapping[str, Entry]) -> pd.DataFrame | None:
    """Return what is known of the clients, a row for each seed and client; None where runs tell other things."""
    known = [run.clients for run in runs.values() if run.clients is not None and set(SPLITS) & set(run.clients)]
    if not known:
        return None
    found = pd.concat(known)
    found = found.drop_duplicates(["seed", "client", *(name for name in SPLITS if name in found)])
    return None if found.duplicated(["seed", "client"]).any() else found

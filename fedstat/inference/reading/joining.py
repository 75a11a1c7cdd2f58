"""Put runs side by side as scores, and count what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat.inference.reading.choosing import Part
from fedstat.inference.reading.scores import Scores

if TYPE_CHECKING:
    import pandas as pd

#: The rounds that all runs average over; None where each run has its own.
Windows = tuple[int, ...] | None


def joined(
    parts: Mapping[str, Part], labels: Mapping[tuple[str, str], str], metric: str, split: str, windows: Windows
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


def with_samples(scores: Scores, clients: pd.DataFrame | None) -> Scores:
    """Add the number of samples of each client on which the metric was measured."""
    if clients is None or scores.split not in clients:
        return scores
    table = clients.pivot(index="seed", columns="client", values=scores.split)
    samples = table.reindex(index=list(scores.seeds), columns=list(scores.clients)).to_numpy(float)
    known = np.isfinite(np.where(scores.there, samples, 0)).all()
    return replace(scores, samples=np.nan_to_num(samples)) if known else scores

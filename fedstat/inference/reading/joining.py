"""Put runs side by side as scores, count what is missing, and add what clients held and rounds cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fedstat.inference.reading.formats.tidy import RUN
from fedstat.inference.reading.reduction import Reduced
from fedstat.inference.reading.scores import Scores

#: The rounds that all runs average over; None where each run has its own.
Windows = tuple[int, ...] | None


def joined(
    parts: Mapping[str, Reduced], labels: Mapping[tuple[str, str], str], metric: str, split: str, windows: Windows
) -> Scores:
    """Put the runs side by side."""
    seeds = sorted({int(s) for part in parts.values() for s in part.seeds})
    known: set[Any] = {one for part in parts.values() for one in part.clients.tolist()}
    clients = sorted(known if all(isinstance(one, int) for one in known) else map(str, known))
    rounds = np.unique(np.concatenate([part.rounds for part in parts.values()]))
    methods = list(dict.fromkeys(labels.values()))
    shape = (len(methods), len(seeds))
    values, counts = np.full((*shape, len(clients)), np.nan), np.zeros((*shape, len(clients)), int)
    curves, wrong = np.full((*shape, len(rounds)), np.nan), np.zeros(shape, int)
    models, places = dict[str, str](), {one: k for k, one in enumerate(clients)}
    for name, own in parts.items():
        k, t = [places[type(clients[0])(one)] for one in own.clients.tolist()], np.searchsorted(rounds, own.rounds)
        for i, (label, model) in enumerate(own.methods):
            m, held = methods.index(labels[name, label]), own.last_round[i] >= 0
            s = np.searchsorted(seeds, own.seeds[held])
            values[m][np.ix_(s, k)], counts[m][np.ix_(s, k)] = own.values[i][held], own.counts[i][held]
            curves[m][np.ix_(s, t)], wrong[m, s] = own.curves[i][held], own.missing[i][held]
            if models.setdefault(methods[m], model) != model:
                raise ValueError(
                    f"{methods[m]} is measured by its {models[methods[m]]} model in one result and by its {model} "
                    "model in another; choose one with estimand=."
                )
    ran, there = np.asarray(counts.any(axis=2)), np.asarray(counts.any(axis=0))
    # what every client of a run should have: as many values as others have in the same rounds
    due = counts.max(axis=2) if windows is None else np.broadcast_to(counts.max(axis=(0, 2)), shape)
    absent = np.where(ran[..., None] & there, due[..., None] - counts, 0)
    values = np.where(absent > 0, np.nan, values)
    if clients == [RUN]:  # a run without its one number is no run, unless its method has none
        gone = ran & ~np.isfinite(values[..., 0]) & np.isfinite(values).any(axis=(1, 2))[:, None]
        ran, wrong, absent = ran & ~gone, np.where(gone, 0, wrong), np.where(gone[..., None], 0, absent)
        values[gone], curves[gone] = np.nan, np.nan
    missing = dict[str, str]()
    for m, label in enumerate(methods):
        counted = {"infinite or NaN": wrong[m].sum(), "absent": absent[m].sum()}
        if gaps := sum(counted.values()):
            s, k = np.argwhere(ran[m][:, None] & there & ~np.isfinite(values[m]))[0]
            missing[label] = (
                f"{gaps} of {counts[m].sum() + absent[m].sum()} values of {metric} are missing "
                f"({', '.join(f'{n} {word}' for word, n in counted.items() if n)}), the first at client {clients[k]} "
                f"under seed {seeds[s]}"
            )
    return Scores(
        metric=metric,
        split=split,
        methods=tuple(methods),
        models=tuple(models[label] for label in methods),
        seeds=tuple(seeds),
        clients=tuple(clients),
        values=values,
        there=there,
        ran=ran,
        samples=None,
        rounds=rounds,
        curves=curves,
        averaged=windows or (),
        missing=missing,
    )


def with_samples(scores: Scores, clients: pd.DataFrame | None) -> Scores:
    """Add the number of samples of each client on which the metric was measured."""
    if clients is None or scores.split not in clients:
        return scores
    table = clients.pivot(index="seed", columns="client", values=scores.split)
    samples = table.reindex(index=list(scores.seeds), columns=list(scores.clients)).to_numpy(float)
    known = np.isfinite(np.where(scores.there, samples, 0)).all()
    return replace(scores, samples=np.nan_to_num(samples)) if known else scores


def with_bytes(scores: Scores, traffic: Iterable[pd.DataFrame | None]) -> Scores:
    """Add the bytes that rounds cost, as far as the tables of runs tell and the scores do not.

    Methods have NaN under seeds of which no table has a row; but 0 if all runs have tables: then nobody took part.
    """
    tables = [*traffic]
    known = [table.astype({"method": object}) for table in tables if table is not None]
    if not known or scores.spent is not None:
        return scores
    table = pd.concat(known, ignore_index=True)
    by_run = (table["bytes_up"] + table["bytes_down"]).groupby([table[of] for of in ("method", "seed", "round")]).sum()
    so_far = by_run.unstack("round", fill_value=0).cumsum(axis=1).reindex(columns=scores.rounds, method="ffill")
    runs = pd.MultiIndex.from_product([scores.methods, scores.seeds])
    spent = so_far.fillna(0).reindex(runs).to_numpy(float).reshape(len(scores.methods), len(scores.seeds), -1)
    if len(known) == len(tables):
        told = scores.ran & np.isin(scores.methods, table["method"].unique())[:, None]
        spent = np.where(np.isnan(spent) & told[..., None], 0, spent)
    return replace(scores, spent=spent) if (spent > 0).any() else scores

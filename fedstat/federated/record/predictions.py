"""Predictions sample by sample: what statistics over samples, such as patients, rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedstat.data import Clients
from fedstat.federated.client.losses import LossName
from fedstat.federated.client.network import products
from fedstat.federated.metrics import probabilities
from fedstat.federated.replicate import Replicate
from fedstat.federated.rounds import Key, Run, predict
from fedstat.federated.route import Route
from fedstat.federated.state import Predictor, State


def check_outputs(task: LossName, outputs: int) -> None:
    """Refuse networks whose outputs have no table of predictions."""
    if task == "squared" and outputs != 1:
        raise ValueError(f"predictions of a regression need a network with 1 output, this one has {outputs}.")


def kept_splits(config: Mapping[str, Any], run: Run) -> list[str]:
    """Return the clients' splits of which predictions are kept: those on which models are measured."""
    also = {config["stop"].get("split"), *["validation"] * config["validate"]}
    return [split for split in run.replicate.clients.splits if split == run.replicate.split or split in also]


def tabulate(run: Run, state: State, *splits: str) -> pd.DataFrame:
    """Return what honest clients' models predict for all samples of some splits, as `Result.predictions` has it."""
    tables = [predicted(run.key, run.route, partial(run.models, state, one), run.replicate, one) for one in splits]
    table = pd.concat(tables, ignore_index=True)
    return table[~table["client"].isin(run.replicate.attackers)].reset_index(drop=True)


def predicted(
    key: Key, route: Route, models: Callable[[Tensor], Mapping[str, Predictor]], replicate: Replicate, split: str
) -> pd.DataFrame:
    """Return what models of the clients with given ids predict for all samples of one split, by name of the model."""
    clients, found = replicate.clients, dict[str, list[Tensor]]()
    with products(tf32=route.tf32):
        for estimand, outputs, _, valid in predict(route, models, replicate.held_out(split), np.arange(len(clients))):
            found.setdefault(estimand, []).append(outputs[valid].cpu())
    samples = clients.splits[split]
    client = samples.owners
    sample = np.arange(len(client)) - samples.start[client] if samples.row is None else samples.row
    who = {"client": client, "name": np.array(clients.names, dtype=object)[client], "sample": sample}
    tables = []
    for estimand, parts in found.items():
        told = _told(route.learner.task, clients, client, samples.y, torch.cat(parts))
        what = {"estimand": estimand, "split": split}
        tables.append(pd.DataFrame({"method": key[0], "seed": key[1], **what, **who, **told}))
    return pd.concat(tables, ignore_index=True)


def _told(task: LossName, clients: Clients, client: np.ndarray, y: np.ndarray, outputs: Tensor) -> dict[str, Any]:
    """Return outcomes and predictions by column, of targets (N,) and outputs (N, Q) of the samples of some clients."""
    check_outputs(task, outputs.shape[1])
    if task == "squared":
        return {"outcome": y.astype(np.float64), "value": outputs.squeeze(-1).numpy()}
    assert clients.classes is not None
    p = probabilities(outputs).numpy()
    if clients.labels is not None:  # from the client's names of the classes back to those of the data
        p = np.take_along_axis(p, clients.labels[client], axis=1)
        y = np.argsort(clients.labels, axis=1)[client, y]
    if p.shape[1] == 2:
        return {"outcome": y.astype(np.int64), "probability": p[:, 1]}
    numbered = all(isinstance(name, Integral) for name in clients.classes)
    names = [int(name) if numbered else str(name) for name in clients.classes]
    beyond = [f"output {q}" for q in range(len(names), p.shape[1])]  # a network may have more outputs than classes
    return {"outcome": np.array(names)[y], **{f"p_{name}": p[:, q] for q, name in enumerate([*names, *beyond])}}

"""The arms of the FedFac study, and what is measured of each run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.federated.client.network import Params
from fedstat.federated.state import Predictor, State
from fedstat.inference import primary_rows
from fedstat.methods import FedEM, FedPer, FedProx, FedRep, LGFedAvg
from simulations.fedfac.cells import Cell, network, populate
from simulations.parts import complete

#: Rounds that the primary summary averages.
LAST = 10
#: Training samples of a client on which the training loss is measured, at most.
PROBE = 40
METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")

ARMS = {
    "Local": "everything personal",
    "FedAvg": "everything shared",
    "FedAvg+": "FedAvg’s model, fine-tuned by every client after the last round",
    "FedProx": "everything shared, pull μ = 0.01",
    "FedProx+": "FedProx’s model, fine-tuned likewise",
    "FedPer": "the head is personal",
    "LG-FedAvg": "the two dense layers are shared",
    "FedEM": "three shared networks, mixed by each client",
    "FedRep": "the head is personal, and trained first",
    "FedFac static": "factor analysis of weights, once, before the first round",
    "FedFac dynamic": "factor analysis of weights in every round",
    "FedFac code": "as the authors ran it: squares in eigenvectors of weights, in every round",
    "FedFac agreement": "agreement of changes over clients, once",
    "random split": "as many units, drawn once",
    "random split, every round": "as many units, drawn in every round",
    "layer split": "the layer is personal as a whole (FedFac with an infinite cut)",
}
#: Arms that are read off another arm's runs after the last round.
AFTERWARDS = {"FedAvg+": "FedAvg", "FedProx+": "FedProx"}
#: Arms that bear on the question of factor analysis; they have more seeds than the others.
CORE = (
    "Local", "FedAvg", "FedPer", "FedFac static", "FedFac dynamic", "FedFac code", "FedFac agreement", "random split",
    "random split, every round", "layer split",
)  # fmt: skip
OTHERS = ("FedProx", "LG-FedAvg", "FedEM", "FedRep")
#: Arms whose learning rate is tuned. Others take that of their family: what shares models takes FedAvg's, what splits
#: by layers FedPer's, and what splits FedFac's layers that of its static version.
TUNED = ("Local", "FedAvg", "FedPer", "FedFac static")
FAMILY = {
    "FedProx": "FedAvg",
    "FedEM": "FedAvg",
    "LG-FedAvg": "FedPer",
    "FedRep": "FedPer",
    **{arm: "FedFac static" for arm in ARMS if arm.startswith(("FedFac", "random split", "layer split"))},
}
#: Arms that are evaluated after every round, on training samples too.
CURVES = ("FedAvg", "FedFac static", "FedFac dynamic")
#: Rules for new clients, by arm and estimand; FedPer's rule is ours, the paper names none.
RULES = {
    ("FedAvg", "global"): "FedAvg", ("FedAvg", "fine-tuned"): "FedAvg+",
    ("FedProx", "global"): "FedProx", ("FedProx", "fine-tuned"): "FedProx+",
    ("FedPer", "personal"): "FedPer", ("LG-FedAvg", "ensemble"): "LG-FedAvg",
    ("FedEM", "personal"): "FedEM", ("FedRep", "personal"): "FedRep",
    ("FedFac dynamic", "personal"): "LocalTrain", ("FedFac dynamic", "ensemble"): "Ensemble",
    ("FedFac static", "personal"): "LocalTrain, static", ("FedFac static", "ensemble"): "Ensemble, static",
    ("Local", "personal"): "Local",
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One seed of a cell.

    Attributes
    ----------
    cell : Cell
        What is learnt.
    seed : int
        The master seed.
    arms : tuple of str
        The arms that run, with what is read off them after the last round.
    rates : mapping of str to float
        The learning rate of each tuned arm.
    new : float
        Share of the clients that come later.
    fine_tune : int
        Epochs in which a model is fitted to a client after training: in fine-tuning, and at new clients.
    head_epochs : int
        FedRep's.
    device : str
        Torch device.
    """

    cell: Cell
    seed: int
    arms: tuple[str, ...]
    rates: Mapping[str, float]
    new: float
    fine_tune: int
    head_epochs: int
    device: str


# --- the arms --------------------------------------------------------------------------------------------------


def random_units(federation: fs.Federation, layers: Sequence[str], shared: int) -> dict[str, np.ndarray]:
    """Draw as many shared units of each layer as FedFac has, without looking at anything."""
    net = federation.network
    units = {layer: net.shapes[net.incoming(layer)[0]][0] for layer in layers}
    return {layer: federation.rng.permutation(n) < shared for layer, n in units.items()}


def random_statistic(stacked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a statistic that knows nothing of the units."""
    return np.asarray(rng.random(stacked.shape[1]))


def arms(cell: Cell, head_epochs: int) -> dict[str, fs.Method]:
    """Return the arms that train."""
    fedfac = partial(fs.FedFac, layers=cell.layers, kappa=cell.kappa, tau=fs.Count(cell.shared))
    layers, quantile, kappa = cell.code
    cut = np.inf if quantile is None else fs.Quantile(quantile)
    body_epochs = cell.local_epochs - head_epochs if head_epochs < cell.local_epochs else 1
    return {
        "Local": fs.Local(),
        "FedAvg": fs.FedAvg(),
        "FedProx": FedProx(mu=0.01),
        "FedPer": FedPer(),
        "LG-FedAvg": LGFedAvg(top=2),
        "FedEM": FedEM(),
        "FedRep": FedRep(head_epochs=head_epochs, body_epochs=body_epochs),
        "FedFac static": fedfac(),
        "FedFac dynamic": fedfac(dynamic=True),
        "FedFac code": fs.FedFac(layers=layers, kappa=kappa, tau=cut, dynamic=True, reading="code"),
        "FedFac agreement": fedfac(statistic="agreement"),
        "random split": fs.FedSplit(
            shared_units=partial(random_units, layers=cell.layers, shared=cell.shared), weighting="samples"
        ),
        "random split, every round": fedfac(dynamic=True, statistic=random_statistic),
        "layer split": fedfac(tau=np.inf),
    }


@dataclass(frozen=True, kw_only=True)
class Masked(fs.FedFac):
    """FedFac whose trained models are offered with shared or personal units of the layers drawn anew."""

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: fs.Federation) -> dict[str, Predictor]:
        """Give the clients `ids`, who are those that trained, their models: as they are, and masked.

        Fresh units follow the law of initial weights: one draw for all clients where shared units are replaced, and
        one for each client where personal units are. What other layers hold stays as it was trained.
        """
        received, fresh = self.receive(state, ids), federation.fresh()
        models = {"unmasked": self.predictor(received)}
        for which in ("shared", "personal"):
            params = dict(received)
            for name, shared in state.shared.items():
                drawn = fresh[name][:1].expand_as(fresh[name]) if which == "shared" else fresh[name]
                hit = shared if which == "shared" else ~shared
                params[name] = torch.where(hit, drawn.to(received[name].device), received[name])
            models[f"{which} masked"] = self.predictor(params)
        return models


# --- the runs --------------------------------------------------------------------------------------------------


def training(cell: Cell, lr: float) -> fs.Training:
    """Return what a client does in a round."""
    return fs.Training(
        lr=lr, optimizer="adam", batch_size=cell.batch_size, local_epochs=cell.local_epochs,
        weight_decay=cell.weight_decay,
    )  # fmt: skip


def federate(
    cell: Cell,
    device: str,
    methods: Mapping[str, fs.Method],
    clients: Any,
    lr: float,
    seeds: Any,
    rounds: int,
    **more: Any,
) -> fs.Result:
    """Run methods of a cell at one learning rate."""
    result = fs.federate(
        methods, network(cell), clients, training(cell, lr), rounds=rounds, participation=cell.participation,
        seed=seeds, device=device, progress=False, **more,
    )  # fmt: skip
    return complete(result)


def last_rounds(rounds: int) -> range:
    """Return the rounds that the primary summary averages."""
    return range(max(1, rounds - LAST + 1), rounds + 1)


def with_probe(clients: Clients) -> Clients:
    """Put some of each client's training samples in the place of its validation samples, to measure training loss."""
    return replace(clients, validation=clients.train.of(most=PROBE))


def one_seed(job: Job) -> Tables:
    """Run some arms under a seed; return what every figure and table is made of."""
    cell, seed = job.cell, job.seed
    clients, new = populate(cell, seed, job.new)
    every = arms(cell, job.head_epochs)
    methods = {arm: every[arm] for arm in job.arms}
    where = {"setting": cell.name, "seed": seed}
    found: dict[str, list[pd.DataFrame]] = {}

    def group(arm: str) -> tuple[float, bool]:
        return job.rates[FAMILY.get(arm, arm)], arm in CURVES

    for (lr, curves), labels in itertools.groupby(sorted(methods, key=group), key=group):
        some = {arm: methods[arm] for arm in labels}
        at = range(1, cell.rounds + 1) if curves else last_rounds(cell.rounds)
        data = with_probe(clients) if curves else clients
        result = federate(cell, job.device, some, data, lr, [seed], cell.rounds, evaluate_at=at, validate=curves)
        for name, table in _tables(job, result, clients, new, curves).items():
            found.setdefault(name, []).append(table)
    return {name: pd.concat(tables, ignore_index=True).assign(**where) for name, tables in found.items()}


def _tables(job: Job, result: fs.Result, clients: Clients, new: Clients, curves: bool) -> Tables:
    """Return the tables of some arms of one seed."""
    assert clients.test is not None
    n = clients.test.n
    history = result.history[result.history["split"] == "test"]
    by_client = pd.concat([primary_rows(history, metric, last=LAST) for metric in METRICS])
    means = by_client.groupby(["method", "metric", "client"], observed=True)["value"].mean().reset_index()
    tables = [_summary(means, n)]
    after = _afterwards(job, result, clients)
    if after is not None:
        tables.append(_summary(after, n))
        means = pd.concat([means.astype({"method": str, "metric": str}), after])
    accuracy = means[means["metric"] == "accuracy"].astype({"method": str})
    out = {
        "clients": accuracy.rename(columns={"method": "arm"})[["arm", "client", "value"]].assign(
            test=lambda t: n[t["client"].to_numpy()]
        ),
        "newcomers": _newcomers(job, result, new),
    }
    if curves:
        out["curves"] = _curves(result.history)
        tables.append(_best(history, n))
    if masked := [arm for arm in result.methods if arm in ("FedFac static", "FedFac dynamic")]:
        out["masking"] = _masking(job, result, masked, clients)
    out["accuracy"] = pd.concat(tables, ignore_index=True)
    return out


def _summary(means: pd.DataFrame, n: np.ndarray) -> pd.DataFrame:
    """Return means over clients (method, metric, client, value), which count alike; and as the paper weighs them."""
    alike = means.groupby(["method", "metric"], observed=True)["value"].mean().reset_index()
    rows = means[means["metric"] == "accuracy"]
    shares = rows["value"] * n[rows["client"].to_numpy()] / n.sum()
    weighted = shares.groupby(rows["method"], observed=True).sum().rename("value").reset_index()
    both = [table.astype({"method": str}) for table in (alike, weighted.assign(metric="weighted_accuracy"))]
    joined = pd.concat([table.astype({"metric": str}) for table in both], ignore_index=True)
    return joined.rename(columns={"method": "arm"})[["arm", "metric", "value"]]


def _best(history: pd.DataFrame, n: np.ndarray) -> pd.DataFrame:
    """Return the paper's summary, the best mean over ten consecutive rounds, of accuracies weighted by samples."""
    rows = history[history["metric"] == "accuracy"]
    share = rows["value"] * n[rows["client"].to_numpy()] / n.sum()
    by_round = share.groupby([rows["method"].astype(str), rows["round"]]).sum().unstack(0)
    best = by_round.rolling(min(LAST, len(by_round))).mean().max()
    return pd.DataFrame({"arm": best.index, "metric": "weighted_accuracy, best ten rounds", "value": best.to_numpy()})


def _curves(history: pd.DataFrame) -> pd.DataFrame:
    """Return the training loss (on the probe) and the test loss by round, means over clients."""
    rows = history[history["metric"] == "log_loss"]
    means = rows.groupby([rows["method"].astype(str), "round", rows["split"].astype(str)])["value"].mean()
    named = means.rename_axis(["arm", "round", "split"]).reset_index()
    return named.assign(split=named["split"].replace({"validation": "train"}))


def _afterwards(job: Job, result: fs.Result, clients: Clients) -> pd.DataFrame | None:
    """Let every client fine-tune the last global model, and evaluate that; None without such arms."""
    chosen = {base: after for after, base in AFTERWARDS.items() if base in result.methods}
    if not chosen:
        return None
    tuned = {}
    for arm in chosen:
        method = result.methods[arm]
        assert isinstance(method, fs.FedAvg)
        tuned[arm] = replace(method, fine_tune=job.fine_tune)
    table = fs.newcomers(_only(result, tuned), replace(clients, validation=None), device=job.device)
    table = table[table["estimand"] == "fine-tuned"]
    return table.assign(method=table["method"].map(chosen))[["method", "metric", "client", "value"]]


def _only(result: fs.Result, methods: Mapping[str, fs.Method]) -> fs.Result:
    """Return the runs of some methods, under other settings of theirs."""
    return replace(result, methods=methods, states={key: s for key, s in result.states.items() if key[0] in methods})


def _newcomers(job: Job, result: fs.Result, new: Clients) -> pd.DataFrame:
    """Offer new clients what every rule gives; what trains at them trains for equally many epochs."""
    methods = {arm: method for arm, method in result.methods.items() if any(arm == rule[0] for rule in RULES)}
    columns = ["arm", "rule", "metric", "value"]
    if not methods:
        return pd.DataFrame({name: pd.Series(dtype=object if name != "value" else float) for name in columns})
    epochs = job.fine_tune
    for arm, method in methods.items():
        if isinstance(method, fs.FedAvg):
            methods[arm] = replace(method, fine_tune=epochs)
        elif isinstance(method, FedRep):
            methods[arm] = replace(method, head_epochs=epochs)
    assert isinstance(result.training, fs.Training)
    known = _only(replace(result, training=replace(result.training, local_epochs=epochs)), methods)
    table = fs.newcomers(known, new, device=job.device).rename(columns={"method": "arm"})
    table = table.astype({"arm": str, "estimand": str, "metric": str})
    means = table.groupby(["arm", "estimand", "metric"])["value"].mean().reset_index()
    means["rule"] = [RULES.get(key, "") for key in zip(means["arm"], means["estimand"], strict=True)]
    return means.loc[means["rule"] != "", columns]


def _masking(job: Job, result: fs.Result, labels: Sequence[str], clients: Clients) -> pd.DataFrame:
    """Evaluate FedFac's trained models with units drawn anew."""
    assert clients.test is not None
    masks = {}
    for arm in labels:
        m = result.methods[arm]
        assert isinstance(m, fs.FedFac)
        masks[arm] = Masked(layers=m.layers, kappa=m.kappa, tau=m.tau, dynamic=m.dynamic)
    table = fs.newcomers(_only(result, masks), replace(clients, validation=None), device=job.device)
    parts = []
    for estimand, rows in table.groupby(table["estimand"].astype(str)):
        parts.append(_summary(rows[["method", "metric", "client", "value"]], clients.test.n).assign(masked=estimand))
    return pd.concat(parts, ignore_index=True)

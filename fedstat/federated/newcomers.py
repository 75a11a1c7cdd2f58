"""New clients: what a trained method offers to those who never took part, by its own rule."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedstat._checks import whole
from fedstat.data import Clients
from fedstat.federated.client.local import training_of
from fedstat.federated.client.network import TF32, Network, check_device, floating, products
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.engine.rehearsal import outputs_of
from fedstat.federated.fingerprint import plain
from fedstat.federated.history import COLUMNS
from fedstat.federated.method import on_device, stack
from fedstat.federated.record.predictions import predicted
from fedstat.federated.record.result import Result
from fedstat.federated.replicate import make_replicate
from fedstat.federated.rounds import Key, evaluate, make_federation
from fedstat.federated.route import Equipment
from fedstat.federated.state import Predictor


def newcomers(
    result: Result, clients: Clients, *, predictions: bool = False, device: str = "cpu", chunk: int | None = None
) -> pd.DataFrame:
    """Give new clients the models that each method of a run offers them, and evaluate these.

    Parameters
    ----------
    result : Result
        A finished run; its states stay as they are.
    clients : Clients
        The new clients, with training samples (some rules train) and, to be evaluated on, test samples.
    predictions : bool
        Return what the models predict for each test sample, in place of metrics.
    device : str
        Torch device.
    chunk : int, optional
        As in `federate`.

    Returns
    -------
    DataFrame
        Tidy as ``result.history``: method, seed, round, client (the position among the new clients), estimand, split,
        metric, value. Estimands are the rule's, such as "personal" for what trains on the new client's own samples
        and "ensemble" for an average of the old clients' models. Predictions are as `Result.predictions` has them,
        which `fedstat.assess` takes.

    Raises
    ------
    ValueError
        If a method has no rule for new clients, the network or a method of the result is unknown, the new clients have
        other inputs or classes, or learning rates or epochs belong to the run's clients one by one.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> methods, network = [fs.FedAvg(), fs.methods.Ditto()], fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(methods, network, clients, fs.Training(lr=0.1), rounds=3, progress=False)
    >>> unseen = fs.data.relu_mixture(clients=2, d=5, units=8, samples=20, test=50, seed=1)
    >>> offered = fs.newcomers(result, unseen)
    >>> sorted(offered["estimand"].unique())
    ['global', 'personal']
    """
    if not isinstance(result, Result):
        raise ValueError(f"result must be a Result, as fs.federate and fs.load return it, got {type(result).__name__}.")
    if not isinstance(clients, Clients):
        raise ValueError(f"clients must be Clients, as fs.data.from_arrays makes them, got {type(clients).__name__}.")
    check_device(device)
    chunk = None if chunk is None else whole("chunk", chunk, 1)
    dtype = result.config["dtype"]
    if result.training is None:
        raise ValueError("this result does not know its loss, optimiser or schedule; load it with training=...")
    samples = StackedSamples.stack([clients.train], floating(dtype), device)
    tables = []
    for key in result.states:
        training = training_of(result.training, key[0])
        for name in ("lr", "local_epochs"):
            if isinstance(getattr(training, name), tuple):
                raise ValueError(
                    f"{key[0]!r} has one {name} for each client of the run, and none for new clients; give them one by "
                    "dataclasses.replace(result, training=fs.Training(...))."
                )
        equipment = Equipment(result.config["loss"], training, samples, result.config["executor"], chunk, dtype == TF32)
        if result.model is None or key[0] not in result.methods:
            result.network(key)  # says what is missing
        assert result.model is not None
        seeds = Seeds.of_run(result.config, key[1])
        replicate = make_replicate(clients, result.model, seeds, dtype, device)
        _check_fit(result, key, clients, replicate.network)
        method, state = result.methods[key[0]], on_device(result.final(key), device)
        federation = make_federation(method, replicate, equipment)
        ids = torch.arange(len(clients), device=device)
        with products(tf32=equipment.tf32):
            models = method.newcomer(state, ids, stack(state.server, len(ids)), federation)

        def rows(ids: Tensor, models: dict[str, Predictor] = models) -> dict[str, Predictor]:
            return {name: predictor.of(ids) for name, predictor in models.items()}

        route = equipment.route(method, federation.network, stack(state.server, 1))
        if predictions:
            tables.append(predicted(key, route, rows, replicate, replicate.split))
        else:
            table = evaluate(route, rows, replicate.held_out(replicate.split), {})
            told = table.assign(method=key[0], seed=key[1], round=state.round, split=replicate.split)
            tables.append(told[list(COLUMNS)].astype({"client": np.int64}))
    return pd.concat(tables, ignore_index=True)


def _check_fit(result: Result, key: Key, clients: Clients, network: Network) -> None:
    """Refuse new clients with other classes or inputs than the network was trained on."""
    classes, known = plain(clients.classes or ()), result.config["classes"][str(key[1])]
    if classes != known:
        near = classes and {*classes} <= {*known}
        remedy = f" fs.data.from_indices(..., classes={known}) keeps them, for targets that are positions in that list."
        raise ValueError(f"the new clients have classes {classes}, the run had {known}.{remedy if near else ''}")
    outputs_of(network, clients.train, f"the network of {key[0]!r}")

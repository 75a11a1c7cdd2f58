"""Evaluation of every client's models on that client's held-out samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedstat.federated.client.network import products
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.engine.cost import evaluation_bytes
from fedstat.federated.method import Predictor
from fedstat.federated.metrics import Metric, own, standard
from fedstat.federated.route import Route

#: Stacked leaves (on a GPU more, `evaluation_bytes`), and padded inputs, alive at once, in bytes.
_MODELS = _INPUTS = 2**28


def evaluate(
    route: Route,
    models: Callable[[Tensor], Mapping[str, Predictor]],
    held_out: StackedSamples,
    metrics: Mapping[str, Metric],
    clients: np.ndarray | None = None,
) -> pd.DataFrame:
    """Return metrics of all clients, in float64, as rows (client, estimand, metric, value).

    Parameters
    ----------
    route : Route
        The network with its task, and what does the work.
    models : callable
        Models of the clients with given ids, by the name of the estimand.
    held_out : StackedSamples
        The held-out samples.
    metrics : mapping of str to callable
        What is measured beside the standard metrics.
    clients : ndarray of int, optional
        Whose samples are used, for one model each; by default all clients'.
    """
    rows = np.arange(len(held_out.n)) if clients is None else clients
    learner, found = route.learner, dict[tuple[str, str], list[Tensor]]()
    with products(tf32=route.tf32):
        for part, most in _parts(held_out, rows, learner.network.bytes):
            x, y = held_out.padded(rows[part], most)
            ids = torch.arange(part.start, part.stop, device=held_out.device)
            n = torch.from_numpy(held_out.n[rows[part]]).to(held_out.device)
            valid = torch.arange(most, device=held_out.device) < n[:, None]
            for estimand, predictor in models(ids).items():
                outputs = route.executor.evaluate(learner, predictor, x, n).double()
                measured = standard(learner, outputs, y, valid) | own(metrics, outputs, y, valid)
                for metric, values in measured.items():
                    found.setdefault((estimand, metric), []).append(values)
    tables = [
        pd.DataFrame(
            {"client": np.arange(len(rows)), "estimand": estimand, "metric": metric, "value": torch.cat(values).cpu()}
        )
        for (estimand, metric), values in found.items()
    ]
    return pd.concat(tables, ignore_index=True)


def _parts(held_out: StackedSamples, rows: np.ndarray, model: int) -> Iterator[tuple[slice, int]]:
    """Yield the rows that are evaluated at once, and the samples that they are padded to.

    Padding has one length, whatever the parts, as long as all of it is little; sums then round alike.
    """
    models = evaluation_bytes(held_out.device, _MODELS)
    step, each = max(1, models // model), max(1, held_out.sample[0].nbytes)
    if (held_out.n == held_out.n_max).all() or len(rows) * held_out.n_max * each <= _INPUTS:
        for first in range(0, len(rows), step):
            yield slice(first, min(first + step, len(rows))), held_out.n_max
        return
    first, n = 0, held_out.n[rows].tolist()
    while first < len(n):
        last, most = first + 1, n[first]
        while last < min(first + step, len(n)) and (last + 1 - first) * max(most, n[last]) * each <= _INPUTS:
            most, last = max(most, n[last]), last + 1
        yield slice(first, last), most
        first = last

"""The ensemble of all clients' models, offered to new clients without training."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from fedstat.federated.client.local import Learner
from fedstat.federated.client.network import Params
from fedstat.federated.method import Method, device_of
from fedstat.federated.state import Predictor, State


def ensemble(method: Method, state: State, newcomers: int, *, of: str = "probabilities") -> Predictor:
    """Return a predictor that averages over the models of all clients, with a row for each newcomer, all alike.

    It averages probabilities, or outputs, which for regression are the same. If clients keep nothing, there is a single
    model and no ensemble: a ValueError.
    """
    if not state.clients:
        raise ValueError(f"{type(method).__name__} keeps no model per client; an ensemble needs several.")
    members = method.receive(state, torch.arange(state.clients.clients, device=device_of(state)))

    def outputs(learner: Learner, params: Params, x: Tensor) -> Tensor:
        count = len(next(iter(params.values())))
        each = torch.stack([
            method.predict(learner, {name: leaf[k] for name, leaf in params.items()}, x) for k in range(count)
        ])  # fmt: skip
        if of == "outputs" or learner.task == "squared":
            return each.mean(0)
        if learner.task == "logistic":  # the log-odds of the mean probability, without saturation
            return logsigmoid(each).logsumexp(0) - logsigmoid(-each).logsumexp(0)
        return each.log_softmax(-1).logsumexp(0) - math.log(count)

    return Predictor({name: leaf.expand(newcomers, *leaf.shape) for name, leaf in members.items()}, outputs)

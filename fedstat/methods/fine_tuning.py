"""Copies of the server's model that clients fine-tune before they use it."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from fedstat.federated.client.local import Phase
from fedstat.federated.client.network import Params
from fedstat.federated.method import Method
from fedstat.federated.state import Federation, Predictor


def fine_tuned(
    method: Method,
    start: Params,
    ids: Tensor,
    federation: Federation | None,
    round: int,
    epochs: int,
    part: Literal["all", "head"],
) -> dict[str, Predictor]:
    """Train a copy of each client's model on its samples, by the plain loss and batches of its own.

    Models `start`, (clients, ...), are trained as a whole, or their head, the last dense layer.
    """
    if federation is None:
        raise ValueError(
            f"fine_tune={epochs} trains on the clients' data, which a loaded result does not hold; call "
            "federate to get the fine-tuned models."
        )
    network = federation.network
    tuned = network.layers[network.head] if part == "head" else tuple(network.shapes)
    phase = Phase(tuple(name for name in network.trainable if name in tuned), epochs=epochs)
    end = federation.train(Method(), start, ids, (phase,), round)
    return {"fine-tuned": method.predictor(start | {name: end[name] for name in tuned})}

"""Compare FedAvg and FedProx with other packages, round by round: ``python benchmarks/peers.py [--out FILE.json]``.

All packages train the same clients of unequal sizes from the same initial weights on the same batches, for three rounds
in float64. After each round the script compares the global models, and fails if they differ by more than `TOLERANCE`.
Weights moved by 0.04 to 0.13 a round; the models of the versions below (with torch 2.13.0 and numpy 2.4.6) differed by
at most 2e-16, that is by rounding: ``reports/results/peers/peers.json``.

fedjax 0.0.17 on jax 0.10.2
    Its FedAvg and FedProx as they are. They run on this jax once ``jax.tree_map``, which it dropped, is put back.
    Its batches are always full, those that end a pass are filled up from the next one, where ours hold what is left
    over; so small batches are handed to it ready-made. Where the batch is a whole number of passes over each client's
    samples, its own shuffled batches serve.
flwr 1.41.0
    Its FedAvg is what the server does; a client's training is the user's, here plain torch with ``torch.optim``.

The peers want an environment of their own: flwr asks for older releases of typer and rich than ``constraints.txt``
names, and replaces them there. flwr's simulation engine (ray) is not needed::

    python -m venv peers
    peers/bin/pip install -e '.[test]' -c constraints.txt
    peers/bin/pip install fedjax==0.0.17 jax==0.10.2 flwr==1.41.0
    peers/bin/python benchmarks/peers.py
    peers/bin/python -m pytest -n0 tests/federated/engine/test_peers.py
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import fedstat as fs
from fedstat._random import stream
from fedstat.data import Clients
from fedstat.federated.client.network import build

Weights = dict[str, np.ndarray]

SIZES = (2, 4, 6, 12)
INPUTS, HIDDEN, CLASSES = 6, 8, 3
LR, MU, EPOCHS, ROUNDS, SEED = 0.2, 0.5, 3, 3, 0
#: All samples in each step (fedjax fills batches, so a multiple of all sizes); and batches with a smaller last one.
BATCHES = {"full": 12, "small": 5}
TOLERANCE = 1e-13


def make_clients() -> Clients:
    """Draw clients whose inputs and labels differ in distribution, so that their local models drift apart."""
    rng = np.random.default_rng(1)
    parts = [(rng.normal(k / 2, 1, (n, INPUTS)), (rng.integers(2, size=n) + k) % CLASSES) for k, n in enumerate(SIZES)]
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return fs.data.from_arrays(x, y, np.repeat(np.arange(len(SIZES)), SIZES), test=0.0)


def network() -> nn.Module:
    """Build the initial model, a dense layer of ReLU units and a softmax head."""
    return build(fs.models.mlp(INPUTS, HIDDEN, CLASSES), np.random.default_rng(2), torch.float64).module


def weights(module: nn.Module) -> Weights:
    """Copy a module's weights."""
    return {name: leaf.detach().numpy().copy() for name, leaf in module.named_parameters()}


def batches(batch_size: int, round: int, client: int) -> Iterator[np.ndarray]:
    """Return the samples of each local step as fedstat draws them: every epoch is a permutation, cut into batches."""
    places = np.tile(np.arange(SIZES[client]), (EPOCHS, 1))
    for epoch in stream(SEED, "batches", round, client).permuted(places, axis=1):
        yield from (epoch[first : first + batch_size] for first in range(0, len(epoch), batch_size))


def fedstat_rounds(method: fs.Method, batch_size: int) -> list[Weights]:
    """Return the server's weights after each round of `fedstat.federate`."""
    training = fs.Training(lr=LR, batch_size=batch_size, local_epochs=EPOCHS)
    result, models = None, []
    for t in range(ROUNDS):
        result = fs.federate(
            method, network(), make_clients(), training, rounds=t + 1, seed=SEED, evaluate_at=(), dtype="float64",
            resume=result, progress=False,
        )  # fmt: skip
        (state,) = result.states.values()
        models.append({name: leaf.numpy() for name, leaf in state.server.items()})
    return models


def fedjax_rounds(mu: float | None, batch_size: int) -> list[Weights]:
    """Return the server's weights after each round of fedjax's FedProx, or of its FedAvg if `mu` is None."""
    import jax  # type: ignore[import-not-found]

    jax.tree_map = jax.tree_util.tree_map
    jax.config.update("jax_enable_x64", True)
    import fedjax  # type: ignore[import-not-found]

    Example = dict[str, np.ndarray]

    def losses(params: Any, batch: Any, key: Any) -> Any:
        hidden = jax.nn.relu(batch["x"] @ params["hidden.weight"].T + params["hidden.bias"])
        logits = hidden @ params["head.weight"].T + params["head.bias"]
        return -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), batch["y"][:, None], axis=1)[:, 0]

    class ReadyMade(fedjax.ClientDataset):
        """A client's samples with the batches of one round."""

        def __init__(self, examples: Example, steps: Iterator[np.ndarray]) -> None:
            super().__init__(examples)
            self.steps = [{name: values[rows] for name, values in examples.items()} for rows in steps]

        def shuffle_repeat_batch(self, hparams: Any) -> list[Example]:
            return self.steps

    own = fedjax.ShuffleRepeatBatchHParams(batch_size=batch_size, num_epochs=None, num_steps=EPOCHS, seed=0)
    local, server = fedjax.optimizers.sgd(LR), fedjax.optimizers.sgd(1.0)
    if mu is None:
        gradient = jax.grad(lambda params, batch, key: losses(params, batch, key).mean())
        algorithm = fedjax.algorithms.fed_avg.federated_averaging(gradient, local, server, own)
    else:
        algorithm = fedjax.algorithms.fed_prox.fed_prox(losses, local, server, own, mu)

    samples, models = make_clients().train, []
    state = algorithm.init(weights(network()))
    for t in range(ROUNDS):
        clients = []
        for k in range(len(SIZES)):
            examples = dict(zip("xy", samples.client(k), strict=True))
            ready = ReadyMade(examples, batches(batch_size, t, k))
            data = fedjax.ClientDataset(examples) if batch_size == BATCHES["full"] else ready
            clients.append((str(k), data, jax.random.PRNGKey(k)))
        state, _ = algorithm.apply(state, clients)
        models.append({name: np.array(leaf) for name, leaf in state.params.items()})
    return models


def flwr_rounds(batch_size: int) -> list[Weights]:
    """Return the server's weights after each round of flwr's FedAvg over clients that train in plain torch."""
    from flwr.app import ArrayRecord, Message, MessageType, Metadata, MetricRecord, RecordDict  # type: ignore[import-not-found]
    from flwr.serverapp.strategy import FedAvg  # type: ignore[import-not-found]

    def reply(client: int, record: RecordDict) -> Message:
        addressed = {"src_node_id": client, "dst_node_id": 0, "created_at": 0.0, "ttl": 1.0}
        unused = {"run_id": 0, "message_id": "", "reply_to_message_id": "", "group_id": ""}
        return Message(metadata=Metadata(message_type=MessageType.TRAIN, **addressed, **unused), content=record)

    logging.getLogger("flwr").setLevel(logging.WARNING)
    strategy, server, samples, models = FedAvg(), network(), make_clients().train, []
    for t in range(ROUNDS):
        replies = []
        for k, n in enumerate(SIZES):
            local = copy.deepcopy(server)
            optimizer = torch.optim.SGD(local.parameters(), lr=LR)
            x, y = map(torch.from_numpy, samples.client(k))
            for rows in batches(batch_size, t, k):
                optimizer.zero_grad()
                nn.functional.cross_entropy(local(x[rows]), y[rows]).backward()
                optimizer.step()
            record = {"arrays": ArrayRecord(local.state_dict()), "metrics": MetricRecord({"num-examples": n})}
            replies.append(reply(k, RecordDict(record)))
        arrays, _ = strategy.aggregate_train(t + 1, replies)
        server.load_state_dict(arrays.to_torch_state_dict())
        models.append(weights(server))
    return models


def distance(a: Weights, b: Weights) -> float:
    """Return the largest absolute difference of two models.

    Raises
    ------
    ValueError
        If they do not have the same leaves, of the same shapes, in float64.
    """
    shapes = [{name: (leaf.shape, str(leaf.dtype)) for name, leaf in model.items()} for model in (a, b)]
    if shapes[0] != shapes[1] or any(dtype != "float64" for _, dtype in shapes[0].values()):
        raise ValueError(f"a and b must be float64 models of one network, got {shapes[0]} and {shapes[1]}.")
    return float(np.abs(np.concatenate([(a[name] - b[name]).ravel() for name in a])).max())


def comparisons() -> Iterator[dict[str, Any]]:
    """Yield, for every peer, method, kind of batches and round, our step's size and the distance of the two models."""
    for kind, batch_size in BATCHES.items():
        averaged = fedstat_rounds(fs.FedAvg(), batch_size)
        pulled = fedstat_rounds(fs.methods.FedProx(mu=MU), batch_size)
        runs = [
            ("fedjax", "FedAvg", averaged, fedjax_rounds(None, batch_size)),
            ("fedjax", "FedProx", pulled, fedjax_rounds(MU, batch_size)),
            ("flwr", "FedAvg", averaged, flwr_rounds(batch_size)),
        ]
        for peer, method, ours, theirs in runs:
            before: Sequence[Weights] = [weights(network()), *ours]
            for t in range(ROUNDS):
                step, difference = distance(ours[t], before[t]), distance(ours[t], theirs[t])
                where = {"peer": peer, "method": method, "batches": kind, "round": t + 1}
                yield {**where, "step": step, "difference": difference}


def main() -> None:
    """Print the comparisons, write them if a file is named, and fail if a difference exceeds the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the table and the versions there, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = list(comparisons())
    print(f"{'peer':<8}{'method':<9}{'batches':<9}{'round':>5}  {'largest step':>12}  {'difference':>10}")
    for row in rows:
        where = f"{row['peer']:<8}{row['method']:<9}{row['batches']:<9}{row['round']:>5}"
        print(f"{where}  {row['step']:>12.3f}  {row['difference']:>10.1e}")
    versions = {name: version(name) for name in ("fedstat", "fedjax", "jax", "flwr", "torch", "numpy")}
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    if options.out is not None:
        setting = {"sizes": SIZES, "lr": LR, "mu": MU, "epochs": EPOCHS, "batch_size": BATCHES, "dtype": "float64"}
        stamped = {"date": str(date.today()), "versions": versions, "tolerance": TOLERANCE, **setting, "rows": rows}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(stamped, indent=1) + "\n")
    if not all(row["difference"] <= TOLERANCE for row in rows):
        sys.exit(f"models differ by more than {TOLERANCE:.0e}.")


if __name__ == "__main__":
    main()

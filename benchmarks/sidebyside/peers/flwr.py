"""flwr's simulation on Ray with its FedAvg: one actor for each thread; a client trains as in ``plain``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.sidebyside.torch_parts import loss, module, tensors, weights
from benchmarks.sidebyside.workload import BATCH, LR, Turns, Workload

PACKAGES = ("flwr", "ray", "torch")
_KEPT: dict[Path, tuple[Workload, list[TensorDataset], torch.nn.Module]] = {}


def _kept(name: str, file: Path) -> tuple[Workload, list[TensorDataset], torch.nn.Module]:
    """Read the arrays once in each actor."""
    if file not in _KEPT:
        torch.set_num_threads(1)
        work = Workload.read(name, file)
        _KEPT[file] = work, [TensorDataset(x, y) for x, y in zip(*tensors(work), strict=True)], module(work)
    return _KEPT[file]


def train(message: Any, context: Any) -> Any:
    """Train the client that the message names."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict  # type: ignore[import-not-found]

    asked = message.content["config"]
    work, data, model = _kept(asked["name"], Path(asked["file"]))
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer, criterion = torch.optim.SGD(model.parameters(), lr=LR), loss(work)
    for _ in range(work.sizes.epochs):
        for x, y in DataLoader(data[asked["client"]], batch_size=BATCH, shuffle=True):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": work.x.shape[1]})}
    return Message(content=RecordDict(content), reply_to=message)


def run(work: Workload, turns: Turns) -> None:
    """Train until the driver has enough."""
    os.environ.update(RAY_DEDUP_LOGS="0", FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")
    import flwr.simulation  # type: ignore[import-not-found]
    from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
    from flwr.clientapp import ClientApp  # type: ignore[import-not-found]
    from flwr.serverapp import ServerApp  # type: ignore[import-not-found]
    from flwr.serverapp.strategy import FedAvg  # type: ignore[import-not-found]

    client, server, strategy, built = ClientApp(), ServerApp(), FedAvg(), module(work)
    client.train()(train)

    @server.main()
    def main(grid: Any, context: Any) -> None:
        while turns.more(lambda: weights(built)):
            nodes, chosen = sorted(grid.get_node_ids()), work.chosen[turns.rounds].tolist()
            arrays, messages = ArrayRecord(built.state_dict()), []
            for node, k in zip(nodes, chosen, strict=False):
                config = ConfigRecord({"client": k, "name": work.name, "file": str(work.file)})
                content = RecordDict({"arrays": arrays, "config": config})
                messages.append(Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node))
            replies = list(grid.send_and_receive(messages))
            if len(replies) != len(chosen):
                raise RuntimeError(f"{len(replies)} of {len(chosen)} clients answered.")
            averaged, _ = strategy.aggregate_train(turns.rounds + 1, replies)
            built.load_state_dict(averaged.to_torch_state_dict())

    threads = int(os.environ["OMP_NUM_THREADS"])
    flwr.simulation.run_simulation(
        server, client, num_supernodes=len(np.unique(work.chosen[0])),
        backend_config={"init_args": {"num_cpus": threads}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )  # fmt: skip

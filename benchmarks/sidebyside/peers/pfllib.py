"""PFLlib's FedAvg: its server's and clients' own steps, fed from arrays where it would read files in every round.

PFLlib is not on PyPI: ``--pfllib`` names a checkout. Its clients skip a last batch that is not full; there is none
here.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from benchmarks.sidebyside.torch_parts import loss, module, tensors, weights
from benchmarks.sidebyside.workload import BATCH, LR, Turns, Workload

PACKAGES = ("torch",)


def run(work: Workload, turns: Turns, checkout: Path) -> None:
    """Train until the driver has enough."""
    sys.path.insert(0, str(checkout / "system"))
    from flcore.clients import clientbase  # type: ignore[import-not-found]
    from flcore.servers import serverbase
    from flcore.servers.serveravg import FedAvg  # type: ignore[import-not-found]

    samples = [list(zip(x, y, strict=True)) for x, y in zip(*tensors(work), strict=True)]

    def read(dataset: str, client: int, is_train: bool = True, few_shot: int = 0) -> list[Any]:
        return samples[client]

    clientbase.read_client_data = serverbase.read_client_data = read
    sizes = work.sizes
    server = FedAvg(Namespace(
        model=module(work), algorithm="FedAvg", dataset="arrays", device="cpu", save_folder_name="",
        num_classes=max(2, sizes.outputs), batch_size=BATCH, local_learning_rate=LR, local_epochs=sizes.epochs,
        few_shot=0, learning_rate_decay=False, learning_rate_decay_gamma=1.0, global_rounds=0,
        num_clients=sizes.clients, join_ratio=sizes.chosen / sizes.clients, random_join_ratio=False, time_select=False,
        goal="", time_threthold=float("inf"), top_cnt=0, auto_break=False, eval_gap=1, client_drop_rate=0.0,
        train_slow_rate=0.0, send_slow_rate=0.0, dlg_eval=False, dlg_gap=1, batch_num_per_client=0, num_new_clients=0,
        fine_tuning_epoch_new=0,
    ), 0)  # fmt: skip
    for client in server.clients:
        client.loss = loss(work)
    torch.manual_seed(0)
    while turns.more(lambda: weights(server.global_model)):
        server.selected_clients = [server.clients[k] for k in work.chosen[turns.rounds]]
        server.send_models()
        for client in server.selected_clients:
            client.train()
        server.receive_models()
        server.aggregate_parameters()

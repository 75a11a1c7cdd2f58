"""The usual research code: a module, an optimiser and a DataLoader for each client, one client after the other."""

from __future__ import annotations

import copy

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.sidebyside.torch_parts import loss, module, tensors, weights
from benchmarks.sidebyside.workload import BATCH, LR, Turns, Workload

PACKAGES = ("torch",)


def run(work: Workload, turns: Turns) -> None:
    """Train until the driver has enough."""
    server, criterion = module(work), loss(work)
    models = [copy.deepcopy(server) for _ in range(work.sizes.clients)]
    data = [TensorDataset(x, y) for x, y in zip(*tensors(work), strict=True)]
    torch.manual_seed(0)
    while turns.more(lambda: weights(server)):
        chosen = work.chosen[turns.rounds]
        for k in chosen:
            model = models[k]
            model.load_state_dict(server.state_dict())
            optimizer = torch.optim.SGD(model.parameters(), lr=LR)
            for _ in range(work.sizes.epochs):
                for x, y in DataLoader(data[k], batch_size=BATCH, shuffle=True):
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
        with torch.no_grad():
            for name, leaf in server.named_parameters():
                leaf.copy_(torch.stack([models[k].get_parameter(name) for k in chosen]).mean(0))

"""Not a peer but a yardstick: products of two matrices of 1024 x 1024 in float32."""

from __future__ import annotations

import torch

from benchmarks.sidebyside.workload import Turns, Workload

PACKAGES = ("torch",)
PRODUCTS = 20


def run(work: Workload, turns: Turns) -> None:
    """Multiply, so often in each turn."""
    matrix = torch.rand(1024, 1024)
    while turns.more(dict):
        for _ in range(PRODUCTS):
            matrix @ matrix

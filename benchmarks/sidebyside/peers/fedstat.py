"""fedstat's round loop, at its defaults."""

from __future__ import annotations

import fedstat as fs
from benchmarks.sidebyside.torch_parts import module, weights
from benchmarks.sidebyside.workload import BATCH, LR, Turns, Weights, Workload
from fedstat.data import Clients, Samples

PACKAGES = ("fedstat", "torch")


def run(work: Workload, turns: Turns) -> None:
    """Train until the driver has enough."""
    sizes, start = work.sizes, module(work)
    held = Clients(Samples.from_rows(work.x, work.y), classes=tuple(range(max(2, sizes.outputs))))
    build = fs.models.mlp(100, 200, 1) if work.dense else fs.models.two_conv(10)
    network = build()
    network.load_state_dict(start.state_dict())
    training = fs.Training(lr=LR, batch_size=BATCH, local_epochs=sizes.epochs)
    last: Weights = weights(start)
    loop = fs.rounds(fs.FedAvg(), network, held, training, participation=sizes.chosen / sizes.clients)

    def kept() -> Weights:
        return last

    while turns.more(kept):
        (state,) = next(loop).states.values()
        last = {name: leaf.numpy() for name, leaf in state.server.items()}

"""pfl's simulated backend with FederatedAveraging. It does not shuffle between epochs, which favours it slightly."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import torch

from benchmarks.sidebyside.torch_parts import loss, module, tensors, weights
from benchmarks.sidebyside.workload import BATCH, LR, Turns, Workload

PACKAGES = ("pfl", "torch")


def run(work: Workload, turns: Turns) -> None:
    """Train until the driver has enough."""
    warnings.simplefilter("ignore")
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    server, criterion = module(work), loss(work)

    class Wanted(TrainingProcessCallback):  # type: ignore[misc]
        def on_train_begin(self, *, model: Any) -> Metrics:
            turns.more(lambda: weights(server))
            return Metrics()

        def after_central_iteration(
            self, aggregate_metrics: Any, model: Any, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            return not turns.more(lambda: weights(server)), Metrics()

    server.loss = lambda x, y, **_: criterion(server(x), y)
    server.metrics = lambda *_, **__: {}
    data = {k: PyTorchTensorDataset((x, y), user_id=k) for k, (x, y) in enumerate(zip(*tensors(work), strict=True))}
    users = FederatedDataset(data.__getitem__, MinimizeReuseUserSampler(work.chosen.ravel().tolist()))
    asyncio.set_event_loop(asyncio.new_event_loop())
    FederatedAveraging().run(
        # it evaluates in its first round, which is not timed, and then never again
        NNAlgorithmParams(len(work.chosen) + 1, 10**9, work.sizes.chosen, None),
        SimulatedBackend(users, users),
        PyTorchModel(server, torch.optim.SGD, torch.optim.SGD(server.parameters(), lr=1.0)),
        NNTrainHyperParams(local_num_epochs=work.sizes.epochs, local_learning_rate=LR, local_batch_size=BATCH),
        callbacks=[Wanted()],
    )

"""fedjax's federated averaging, its steps jitted. It runs on this jax once ``jax.tree_map``, since dropped, is back."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.sidebyside.workload import BATCH, LR, Turns, Weights, Workload

PACKAGES = ("fedjax", "jax")


def run(work: Workload, turns: Turns) -> None:
    """Train until the driver has enough."""
    import jax  # type: ignore[import-not-found]

    jax.tree_map = jax.tree_util.tree_map
    import fedjax  # type: ignore[import-not-found]

    def dense(params: Any, x: Any) -> Any:
        hidden = jax.nn.relu(x @ params["hidden.weight"].T + params["hidden.bias"])
        return hidden @ params["head.weight"].T + params["head.bias"]

    def conv(params: Any, name: str, x: Any) -> Any:
        out = jax.lax.conv(x, params[f"{name}.weight"], (1, 1), "VALID") + params[f"{name}.bias"][:, None, None]
        window = (1, 1, 2, 2)
        return jax.lax.reduce_window(jax.nn.relu(out), -np.inf, jax.lax.max, window, window, "VALID")

    def logits(params: Any, x: Any) -> Any:
        if not work.dense:
            x = conv(params, "conv2", conv(params, "conv1", x[:, None])).reshape(len(x), -1)
        return dense(params, x)

    def mean_loss(params: Any, batch: Any, key: Any) -> Any:
        out, y = logits(params, batch["x"]), batch["y"]
        if work.dense:
            return (jax.nn.softplus(out[:, 0]) - y * out[:, 0]).mean()
        return -jax.numpy.take_along_axis(jax.nn.log_softmax(out), y[:, None], axis=1).mean()

    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(mean_loss),
        fedjax.optimizers.sgd(LR),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=work.sizes.epochs),
    )
    data = [fedjax.ClientDataset({"x": x, "y": y}) for x, y in zip(work.x, work.y, strict=True)]
    state = algorithm.init({name: jax.numpy.asarray(leaf) for name, leaf in work.start.items()})

    def kept() -> Weights:
        return {name: np.asarray(leaf) for name, leaf in state.params.items()}

    while turns.more(kept):
        t = turns.rounds
        clients = [(str(k), data[k], jax.random.PRNGKey(t * len(data) + k)) for k in work.chosen[t].tolist()]
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)

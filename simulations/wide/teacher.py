"""A regression task that FedSplit's two-layer network can realise (FedSplit paper, model (4))."""

from __future__ import annotations

import numpy as np

from fedstat._random import stream
from fedstat.data import Samples

#: Units that all clients have in common, and as many of each client's own.
_UNITS = 5


def taught(clients: int, samples: int, d: int, seed: int = 0) -> Samples:
    """Draw samples whose targets come from a two-layer ReLU network with shared and personal units.

    Inputs are uniform in the unit ball, alike at all clients, so that norms are at most one as the theory has it. The
    output at client c is ``(sum_q a_q relu(w_cq . x) + sum_r a_r relu(w_r . x)) / sqrt(5)`` with weights from N(0, I)
    and signs a.
    """
    rng = stream(seed, "data")
    shared, personal = rng.normal(size=(_UNITS, d)), rng.normal(size=(clients, _UNITS, d))
    shared_signs, personal_signs = rng.choice([-1.0, 1.0], size=(2, _UNITS))
    direction = rng.normal(size=(clients, samples, d))
    radius = rng.random((clients, samples, 1)) ** (1 / d)
    x = direction / np.linalg.norm(direction, axis=2, keepdims=True) * radius
    y = np.maximum(x @ shared.T, 0) @ shared_signs / np.sqrt(_UNITS)
    y += np.stack([np.maximum(own @ w.T, 0) @ personal_signs for own, w in zip(x, personal, strict=True)]) / np.sqrt(
        _UNITS
    )
    return Samples.from_rows(x.astype(np.float32), y.astype(np.float32))

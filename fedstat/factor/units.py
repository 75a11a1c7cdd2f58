"""A layer's units as the columns of a table."""

from __future__ import annotations

import math

import numpy as np


def units_as_columns(weights: np.ndarray) -> np.ndarray:
    """Reshape weights stacked over clients so that every unit is a column (the FedFac paper's Figure 4).

    Parameters
    ----------
    weights : ndarray, shape (K, units, ...)
        Incoming weights at K clients; of a single network, ``weights[None]``.

    Returns
    -------
    ndarray, shape (K * fan_in, units)
        Clients below one another; within a client, the coordinates of a unit's flattened incoming weights.
    """
    clients, units, *incoming = weights.shape
    fan_in = math.prod(incoming)
    return weights.reshape(clients, units, fan_in).transpose(0, 2, 1).reshape(clients * fan_in, units)

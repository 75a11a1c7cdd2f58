"""Make a layer's units the columns of a table."""

from __future__ import annotations

import numpy as np


def units_as_columns(weights: np.ndarray) -> np.ndarray:
    """Reshape weights stacked over clients so that every unit is a column (the FedFac paper's Figure 4).

    Parameters
    ----------
    weights : ndarray, shape (K, units, ...)
        Incoming weights at K clients; for a single network pass ``weights[None]``.

    Returns
    -------
    ndarray, shape (K * fan_in, units)
        The rows are the clients' rows below one another; a client's rows are the flattened incoming weights'
        coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import units_as_columns
    >>> weights = np.arange(24).reshape(2, 3, 4)  # 2 clients, 3 units, fan-in 4
    >>> units_as_columns(weights).shape
    (8, 3)
    >>> units_as_columns(weights)[:, 0]  # the first unit's weights at both clients
    array([ 0,  1,  2,  3, 12, 13, 14, 15])
    """
    return np.moveaxis(weights, 1, -1).reshape(-1, weights.shape[1])

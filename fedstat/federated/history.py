"""The columns of the tidy tables of a run, and their types."""

from __future__ import annotations

import numpy as np

TEXT = ("method", "estimand", "split", "metric")
COLUMNS = ("method", "seed", "round", "client", "estimand", "split", "metric", "value")
DTYPES = {name: "category" if name in TEXT else np.float64 if name == "value" else np.int64 for name in COLUMNS}
TRAFFIC_DTYPES = {
    "method": "category",
    **dict.fromkeys(("seed", "round", "client", "bytes_up", "bytes_down"), np.int64),
}

#: Columns that every table of predictions has; what follows them depends on the task.
PREDICTION_COLUMNS = ("method", "seed", "estimand", "split", "client", "name", "sample", "outcome")

CLIENT_DTYPES = {
    **dict.fromkeys(("seed", "client"), np.int64),
    "name": "str",
    **dict.fromkeys(("train", "validation", "test"), np.int64),
}

"""The paper's data sets (its Table 1)."""

from __future__ import annotations

from typing import NamedTuple

from simulations.published import printed


class DataSet(NamedTuple):
    """A data set, its clients, and the samples that they train on together."""

    name: str
    clients: int
    training: int


def data_sets() -> list[DataSet]:
    """Return the data sets in the order of Table 1, whose samples are 80% for training (section 5.1)."""
    rows = printed("fedsplit", "table_1")
    return [DataSet(row["data"], int(row["clients"]), int(row["samples"]) * 4 // 5) for row in rows]

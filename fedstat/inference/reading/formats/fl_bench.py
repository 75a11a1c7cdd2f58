"""FL-bench's results, files ``out/METHOD/DATASET/DATE/metrics.csv``.

Source: https://github.com/KarhouTam/FL-bench at 06e658bca5af6ce732e25bb7c0f8be321e14a85e (9 October 2025).

- ``src/server/fedavg.py``: `save_metrics_stats` writes a column ``accuracy_SPLIT_STAGE`` for every split (train, val,
  test) that was measured and both stages, before and after local training, with the round from 0 as index ``epoch``.
  `display_metrics` fills them in every round from the samples of the clients that took part in it.
- ``src/utils/metrics.py``: accuracies are in percent.
- ``main.py``: the folder ``./out/${method}/${dataset.name}/${now:%Y-%m-%d-%H-%M-%S}`` is Hydra's, which leaves the
  configuration in ``.hydra/config.yaml``; ``config/defaults.yaml`` has the seed as ``common.seed``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedstat.inference.reading.formats.runs import SPLIT_OF, first_line
from fedstat.inference.reading.formats.tidy import Content, rows

_COLUMN = re.compile(r"(accuracy|(?:micro|macro)_(?:precision|recall))_(train|val|test)_(before|after)")
_NOTE = (
    "FL-bench writes one number for each run and round, over the samples of the clients that took part in the round: "
    "client -1. The others are in no number, and with a participation below 1 the clients change from round to round"
)
_MEASURED = (
    "the {model}, one number over the {split} samples of the clients that took part in each round, mean over {when}"
)


def wrote(path: Path) -> bool:
    """Tell whether a CSV file has the columns of FL-bench."""
    names = first_line(path)
    return names[:1] == ["epoch"] and len(names) > 1 and all(map(_COLUMN.fullmatch, names[1:]))


def read(path: Path, given: Mapping[str, Any]) -> Content:
    """Read one ``metrics.csv``; `given` may hold the method, and the seed of a run whose folder does not tell it."""
    if not wrote(path):
        raise ValueError(f"{path} has no columns epoch, accuracy_test_before and the like, as FL-bench writes them.")
    try:
        table = pd.read_csv(path, dtype=float)
        epochs = table.pop(table.columns[0])
        if not (epochs == np.arange(len(epochs))).all() or not all(map(_COLUMN.fullmatch, table)):
            raise ValueError("its rows are not the epochs 0, 1, ... of accuracies")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if table.empty:
        raise ValueError(f"{path} is empty: it has no rows.")
    folder = path.resolve().parent
    notes = [_NOTE]
    config = folder / ".hydra" / "config.yaml"
    text = config.read_text(encoding="utf-8") if config.is_file() else ""
    seeded = re.search(r"^common:\n(?:[ \t]+.*\n)*?[ \t]+seed:[ \t]*(\d+)[ \t]*$", text, re.MULTILINE)
    if seeded is None:
        if "seed" not in given:
            raise ValueError(
                f"{path} has no {config.relative_to(folder)} with common.seed beside it; give the folder out/, or "
                "fs.read_results({'LABEL': [FILES]}), so that runs are numbered in their order."
            )
        notes.append("runs of FL-bench without .hydra/config.yaml have the seeds 0, 1, ... in the order of their dates")
    seed = given["seed"] if seeded is None else int(seeded[1])
    method, setting = str(given.get("method", folder.parent.parent.name)), folder.parent.name
    tables = []
    for name in table:
        metric, split, stage = _COLUMN.fullmatch(str(name)).groups()  # type: ignore[union-attr]
        model, values = f"{stage} local training", table[name] / 100
        own = rows(method, seed, epochs + 1, metric, values, split=SPLIT_OF[split], estimand=model)
        tables.append(own.assign(setting=setting))
    return Content(tables, notes, _MEASURED)

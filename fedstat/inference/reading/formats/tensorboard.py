"""TensorBoard's download, files ``run-RUN-tag-TAG.csv`` with the columns Wall time, Step and Value.

Source: https://github.com/tensorflow/tensorboard at 70b76c922822dcccc3e8d7e5dd89860948690357 (30 June 2026).

- ``tensorboard/plugins/scalar/scalars_plugin.py``: `scalars_impl` writes the columns. It hands out a sample of a long
  series, 1,000 steps by default (``--samples_per_plugin``).
- ``tensorboard/components/tf_dashboard_common/tf-downloader.ts``: the file's name. A browser puts ``_`` where a run
  or a tag has a slash, and ``(1)`` behind a name that was there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedstat.inference.reading.formats.runs import NOTE, ONE, named, text_table, wide
from fedstat.inference.reading.formats.tidy import Content

_NAMES = ["Wall time", "Step", "Value"]


def wrote(names: Sequence[str]) -> bool:
    """Tell whether a table's columns are those of TensorBoard."""
    return list(names) == _NAMES


def read(path: Path, given: Mapping[str, Any]) -> Content:
    """Read one file; `given` may hold the method, the seed and the metric of a file that is named otherwise."""
    table = text_table(path, "TensorBoard")
    if not wrote(list(table)):
        raise ValueError(f"{path} has no columns {', '.join(_NAMES)}, as TensorBoard writes them.")
    place = re.fullmatch(r"run-(.*)-tag-(.+?)(?: ?\(\d+\))?", path.stem)
    tag = place[2] if place else given.get("metric")
    if tag is None:
        raise ValueError(f"{path} is not named run-RUN-tag-TAG.csv; name it so, or give metric='accuracy' or the like.")
    run = named([place[1] if place else path.stem], given, path)[0]
    history, _ = wide(table, "Step", {"Value": (run, tag)}, path)
    return Content(history, (ONE, NOTE, "TensorBoard hands out a sample of the steps where they are more than 1,000"))

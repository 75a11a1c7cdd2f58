"""Results out of wandb: the CSV of a panel, and the history of one run as CSV or JSON lines.

- A panel's "Export CSV" (https://docs.wandb.ai/guides/app/features/panels/): the panel's horizontal axis ("Step", or
  the metric that was chosen for it), and for each run the columns ``RUN - METRIC``, ``RUN - METRIC__MIN`` and
  ``RUN - METRIC__MAX``; with another axis than Step a column ``RUN - _step`` and its two likewise. In a grouped panel
  the run is called ``Group: NAME``. All cells are quoted, those of steps that a run did not log are empty.
- ``Run.history()`` as ``to_csv`` writes it, and ``Run.scan_history()`` as lines of JSON
  (https://docs.wandb.ai/ref/python/public-api/): a row for each call of ``wandb.log`` with ``_step``, ``_runtime``,
  ``_timestamp`` and all that was logged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedstat.inference.reading.formats.json_lines import LINES, objects
from fedstat.inference.reading.formats.runs import NOTE, ONE, named, text_table, wide
from fedstat.inference.reading.formats.tables import variant
from fedstat.inference.reading.formats.tidy import Content

_RANGE = ("__MIN", "__MAX")


def wrote(names: Sequence[str]) -> bool:
    """Tell whether columns are those of a panel or of a run's history."""
    return "_step" in names or any(" - " in name and name.endswith(_RANGE) for name in names)


def read(path: Path, given: Mapping[str, Any]) -> Content:
    """Read one file; `given` may hold the method of all its runs, and the seed of the only one.

    A grouped panel is refused, since means over runs are no runs.
    """
    if path.name.lower().endswith(LINES):
        logged = [{name: str(value) for name, value in of.items() if value is not None} for of in objects(path)]
        table = pd.DataFrame(logged, dtype=str).fillna("")
    else:
        table = text_table(path, "wandb")
    if not wrote(list(table)):
        raise ValueError(f"{path} has no column '_step' of a run's history, nor 'RUN - METRIC__MIN' of a panel.")
    notes, names = [ONE, NOTE], [name for name in table if not name.startswith(("_", "Unnamed: "))]
    if "_step" in table:
        rounds = [name for name in names if variant(name) == "round"]
        step = "round" if "round" in rounds else [*rounds, "_step"][0]
        run = named([path.stem], given, path)[0]
        columns = {name: (run, name) for name in names if name != step}
    else:
        step = names[0]
        pairs = {name: name.rpartition(" - ")[::2] for name in names[1:] if not name.endswith(_RANGE)}
        pairs = {name: (run, metric) for name, (run, metric) in pairs.items() if run and not metric.startswith("_")}
        runs = list(dict.fromkeys(run for run, _ in pairs.values()))
        if grouped := [run for run in runs if run.startswith("Group: ")]:
            raise ValueError(
                f"{path} holds means over the runs of {grouped[0]!r}; turn grouping off in wandb and export the runs."
            )
        of = dict(zip(runs, named(runs, given, path), strict=True))
        columns = {name: (of[run], metric) for name, (run, metric) in pairs.items()}
        if any((table[name] != table[f"{name}{end}"]).any() for name in pairs for end in _RANGE if name + end in table):
            notes.append("wandb drew several steps as one point of the panel: a value is their mean")
    history, others = wide(table, step, columns, path)
    notes += [f"rounds are the column {step!r} of wandb"] + [f"columns not read: {', '.join(others)}"] * bool(others)
    return Content(history, tuple(notes))

"""Open what is compared: results, run folders, files and tables, each with what it carries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedstat._account import said
from fedstat._in_words import attacked
from fedstat.inference.analysis_plan import AnalysisPlan
from fedstat.inference.reading.read import Opened, open_results
from fedstat.inference.reading.reduction import names_of, survey


@dataclass(frozen=True, eq=False)
class Entry:
    """One of the results that are compared; `batches` are the rows of its history and can be passed over several times.

    `rounds` are those evaluated of each (metric, split). Runs of fedstat have `config`; `clients` are samples of each
    client under each seed. `kept` says that each run counts in the round that it kept. `notes` tell what was assumed in
    reading it, who attacks, and what differential privacy it comes to. `measured` is that of `Content` in
    ``formats/tidy.py``, and `settings` are the data sets or settings that rows name. `traffic` holds the bytes of each
    participant of each round, where the run is in memory. `evaluation` is what an experiment of ``fedstat run`` says of
    its evaluation.
    """

    batches: Iterable[Any]
    rounds: Mapping[tuple[str, str], np.ndarray]
    config: Mapping[str, Any] | None = None
    clients: pd.DataFrame | None = None
    plan: AnalysisPlan | None = None
    kept: bool = False
    notes: tuple[str, ...] = ()
    measured: str | None = None
    settings: frozenset[str] = frozenset()
    traffic: pd.DataFrame | None = None
    evaluation: Mapping[str, Any] = field(default_factory=dict)


def read_runs(results: Any) -> dict[str, Entry]:
    """Name each of the results, and open those that are files."""
    if isinstance(results, Mapping):
        named = dict(results)
    else:
        listed = list(results) if isinstance(results, list | tuple) else [results]
        names = [str(one) if isinstance(one, str | Path) else f"result {i}" for i, one in enumerate(listed, 1)]
        named = dict(zip(names, listed, strict=True))
        if len(named) < len(listed):
            raise ValueError("results name one file twice; name each once.")
    if not named:
        raise ValueError("results must hold at least one result.")
    return {str(name): _opened(one, str(name)) for name, one in named.items()}


def _opened(one: Any, name: str) -> Entry:
    """Open one result, whatever it is."""
    if isinstance(one, str | Path) or hasattr(one, "columns"):
        one = open_results(one)
    elif not (hasattr(one, "history") and hasattr(one, "config")):
        raise ValueError(
            f"results must be results of fs.federate, run folders, files or tables, got {type(one).__name__}."
        )
    batches = one if isinstance(one, Opened) else [one.history]
    known = one.survey() if isinstance(one, Opened) else survey(batches)
    if not known:
        raise ValueError(f"results must hold evaluations, but {name} has none.")
    plan, config = getattr(one, "plan", None), one.config or {}
    carried = ("clients", "measured", "traffic", "evaluation")
    return Entry(
        batches,
        known,
        one.config,
        plan=AnalysisPlan.read(plan) if isinstance(plan, Path) else plan,
        kept="kept" in names_of(next(iter(batches))),
        notes=(*getattr(one, "notes", ()), *attacked(config), *said(config)),
        settings=_settings(batches),
        **{name: getattr(one, name) for name in carried if hasattr(one, name)},
    )


def _settings(batches: Iterable[Any]) -> frozenset[str]:
    found = set[str]()
    for batch in batches:
        if "setting" not in names_of(batch):
            break
        found |= {str(value) for value in batch["setting"].unique()}
    return frozenset(found)

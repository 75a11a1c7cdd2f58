"""The tidy history that every format is read into, and the checks that all of them pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedstat.inference.reading.reduction import Reduced
from fedstat.inference.reading.scores import SHARES, is_share

TEXT = ("method", "estimand", "split", "metric", "setting")
WHOLE = ("seed", "round", "client", "samples")
COLUMNS = ("method", "seed", "round", "client", "estimand", "split", "metric", "value")
#: Columns that a history may have besides.
BESIDE = ("samples", "kept", "setting")
#: The client of a row that measures the run as a whole, as in fedstat's rows of the common test set.
RUN = -1
#: The estimand of a row whose file does not name it.
UNNAMED = "not named"
#: Metrics by whose names a column is known to hold values.
METRICS = (*SHARES, "log_loss", "loss", "mse", "rmse", "mae", "r2", "brier", "perplexity")


@dataclass(frozen=True, eq=False)
class Content:
    """What a reader found in one file; `batches` hold its rows and can be passed over several times.

    A reader that knows which of a method's models is meant gives it fedstat's name for it, such as "personal"; under
    other names several models of a method make `fedstat.compare` ask. `notes` say what was assumed and what was not
    read, of which `unread` are the columns. `measured` says what a value is, to be read after "accuracy of", with
    {model}, {split} and {when} where these are to be named; by default each client's own number, or one for the run
    where all rows are of client -1.
    """

    batches: Iterable[Any]
    notes: Sequence[str]
    measured: str | None = None
    unread: Sequence[str] = ()


def rows(
    method: Any, seed: Any, rounds: Any, metric: str, values: Any, *, split: Any, estimand: str = UNNAMED
) -> pd.DataFrame:
    """Return the tidy rows of one metric of runs that were measured as a whole, a row for each of the rounds."""
    cells = (method, seed, np.asarray(rounds, np.int64), RUN, estimand, split, metric, np.asarray(values, float))
    return pd.DataFrame(dict(zip(COLUMNS, cells, strict=True)))


def whole(batches: Iterable[Any]) -> pd.DataFrame:
    """Return batches as one table in memory, without rows if there are none."""
    found = list(batches)
    if found and not isinstance(found[0], pd.DataFrame):
        return pa.Table.from_batches(found).unify_dictionaries().to_pandas()
    return pd.concat(found or [pd.DataFrame(columns=list(COLUMNS))], ignore_index=True)


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns of a history in their order and types: text as categories, int64, float64."""
    names = [*COLUMNS, *(name for name in BESIDE if name in table)]
    types = {name: "category" if name in TEXT else np.int64 if name in WHOLE else float for name in names}
    if "kept" in table:
        types["kept"] = bool
    return table[names].astype(types)


def refuse_repeats(table: pd.DataFrame, source: str, unread: Sequence[str] = ()) -> None:
    """Refuse a table that holds the same measurement twice; the error shows the first repeat and the columns unread."""
    keys = [name for name in ("setting", *COLUMNS[:-1]) if name in table]
    repeated = table.duplicated(keys)
    if repeated.any():
        first = table[repeated].iloc[0]
        shown = ", ".join(f"{name} {first[name]}" for name in keys)
        remedy = (
            f"If one of the columns {', '.join(unread)} tells them apart, map it: columns={{{unread[0]!r}: 'setting'}}."
            if unread
            else "Leave the repeated rows out, or give different runs different seeds or methods."
        )
        raise ValueError(f"{source} has {repeated.sum()} repeated rows, the first with {shown}. {remedy}")


def as_shares(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a table with its shares in [0, 1], and in words what was taken to be percent.

    A metric that lies in [0, 1] by its nature is read as percent if it has values above 1, none in (0, 1], and not only
    whole ones, which may be counts. Where shares and percent are mixed, percent cannot be told from counts, or a value
    lies outside [0, 100], the table is refused.
    """
    notes, value = [], table["value"].to_numpy(copy=True)
    for metric in [name for name in table["metric"].cat.categories if is_share(name)]:
        own = (table["metric"] == metric).to_numpy() & np.isfinite(value)
        one = table.iloc[int(np.argmax(own & (value > 0) & (value <= 1)))]
        first = f", the first {one['value']:g} of {one['method']} under seed {one['seed']}"
        if _in_percent(value[own], value[own], metric, source, first):
            notes.append(
                f"values of {metric} above 1, up to {value[own].max():g}: all are read as percent and divided by 100"
            )
            value[own] /= 100
    return (table.assign(value=value), tuple(notes)) if notes else (table, ())


def shares_reduced(reduced: Reduced, source: str) -> Reduced:
    """Do as `as_shares` for a table that was reduced; single values in percent are seen through their means only."""
    means = np.concatenate([reduced.values.ravel(), reduced.curves.ravel()])
    sums = means * np.concatenate([reduced.counts.ravel(), reduced.present.ravel()])
    known = np.isfinite(means)
    if not is_share(reduced.metric) or not _in_percent(means[known], sums[known], reduced.metric, source):
        return reduced
    return replace(reduced, values=reduced.values / 100, curves=reduced.curves / 100)


def _in_percent(values: np.ndarray, sums: np.ndarray, metric: str, source: str, first: str = "") -> bool:
    """Tell whether values, or means of them with these sums, are in percent; refuse what may be something else."""
    if not len(values) or ((low := values.min()) >= 0 and values.max() <= 1 + 1e-6):  # single precision rounds
        return False
    high = values.max()
    remedy = f"Divide percent by 100, or write columns={{NAME: '{metric} %'}} if the whole column NAME is in percent."
    if (np.abs(sums - sums.round()) < 1e-6).all():
        raise ValueError(
            f"{source} has values of {metric} up to {high:g}, and all single values are whole: counts and percent "
            f"cannot be told apart. Divide counts by the number of samples. {remedy}"
        )
    if low < 0 or high > 100:
        raise ValueError(f"{source} has values of {metric} from {low:g} to {high:g}; shares lie in [0, 1].")
    if ((values > 0) & (values <= 1)).any():
        raise ValueError(
            f"{source} has values of {metric} up to {high:g} and others in (0, 1]{first}: shares and percent cannot be "
            f"told apart. {remedy}"
        )
    return True

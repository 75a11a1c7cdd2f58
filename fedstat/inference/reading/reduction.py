"""Reduce a tidy history, which may be larger than memory, to what comparisons need."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedstat._checks import whole
from fedstat.inference.reading.scores import usual_metric, usual_split

#: Above so many cells (run, round, client) repeated rows are found by their number only, not one by one.
_CELLS = 2**30


@dataclass(frozen=True, eq=False)
class Reduced:
    """One metric of M methods under S seeds on K clients over T rounds.

    A run is a method's estimand under a seed. Its window is the rounds that its summary averages.

    Attributes
    ----------
    methods : tuple of (label, estimand), M of them
        In the order of their first rows.
    seeds : ndarray of int, shape (S,)
        Ascending.
    clients : ndarray, shape (K,)
        Numbers, or names where the table has names, ascending; -1 is the number of a run as a whole.
    rounds : ndarray of int, shape (T,)
        All rounds in which some run was evaluated, ascending.
    values : ndarray, shape (M, S, K)
        Mean of each client over the window. NaN if a value in the window is not finite, or if there is none.
    counts : ndarray of int, shape (M, S, K)
        How many evaluated rounds of the client lie in the window; 0 where a client is absent.
    missing : ndarray of int, shape (M, S)
        How many values in the window are infinite or NaN.
    curves : ndarray, shape (M, S, T)
        Mean over clients in each round, NaN where none was evaluated or a value is not finite.
    present : ndarray of int, shape (M, S, T)
        How many clients were evaluated.
    last_round : ndarray of int, shape (M, S)
        The last evaluated round of each run, -1 where there is no such run.
    metric, split : str
        What was reduced.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import read_results, reduce
    >>> table = pd.DataFrame({"method": "FedAvg", "seed": 0, "round": [0, 0, 1, 1], "client": [0, 1, 0, 1],
    ...     "accuracy": [0.5, 0.5, 0.8, 0.6]})
    >>> found = reduce([read_results(table).history], last=1)
    >>> found.values[0, 0], found.curves[0, 0]  # by client in the last round; by round over clients
    (array([0.8, 0.6]), array([0.5, 0.7]))
    """

    methods: tuple[tuple[str, str], ...]
    seeds: np.ndarray
    clients: np.ndarray
    rounds: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    missing: np.ndarray
    curves: np.ndarray
    present: np.ndarray
    last_round: np.ndarray
    metric: str
    split: str


def survey(batches: Iterable[Any]) -> dict[tuple[str, str], np.ndarray]:
    """Return the evaluated rounds, ascending, of every (metric, split) of a tidy history, in the order of first rows.

    Batches are as `reduce` takes them; of their columns metric, split and round are read.
    """
    metrics, splits = _Index(), _Index()
    found: dict[tuple[Hashable, Hashable], set[int]] = {}
    for batch in batches:
        m, s = metrics.codes(batch, "metric"), splits.codes(batch, "split")
        rounds, names = _numbers(batch, "round"), list(product(metrics, splits))
        pairs, pair = _distinct(m * len(splits) + s)
        for place, one in enumerate(pairs.tolist()):
            own = _distinct(rounds if len(pairs) == 1 else rounds[pair == place])[0]
            found.setdefault(names[one], set()).update(own.tolist())
    return {(str(m), str(s)): np.array(sorted(rounds), np.int64) for (m, s), rounds in found.items()}


def reduce(
    batches: Iterable[Any],
    metric: str | None = None,
    split: str | None = None,
    *,
    last: int = 10,
    known: Mapping[tuple[str, str], np.ndarray] | None = None,
) -> Reduced:
    """Reduce one metric of a tidy history to windows by client and curves by round, in two passes over its rows.

    All rows go through integer codes and `numpy.bincount`, so that a table of any length costs the memory of one
    batch and of the reduced arrays, and one byte for each run, round and client.

    Parameters
    ----------
    batches : iterable of DataFrame or pyarrow.RecordBatch
        The rows of a tidy history, in any order: method, seed, round, client, estimand, split, metric, value, and
        perhaps kept. They are passed over twice: a list or another object that starts anew, and no generator.
    metric : str, optional
        By default accuracy, else mse, else the only metric.
    split : str, optional
        The samples measured on; by default the clients' own test samples, else validation, else training samples.
    last : int
        The window of every run: all evaluated rounds above L - last, where L is the last round of the table. If the
        table has a column ``kept``, the window is the kept rounds instead.
    known : mapping, optional
        The evaluated rounds of every (metric, split), where they are known, so that rows are passed over once only.

    Raises
    ------
    ValueError
        If metric or split is not in the table, or not given where there are several; if a row repeats (same method,
        estimand, seed, round and client); if a name or number of a row is missing; if `batches` is a generator.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import read_results, reduce
    >>> table = pd.DataFrame({"method": "FedAvg", "seed": 0, "client": [0, 1] * 3, "round": [0, 0, 1, 1, 2, 2],
    ...     "accuracy": [0.1, 0.2, 0.5, 0.7, 0.7, 0.9]})
    >>> found = reduce([read_results(table).history], "accuracy", last=2)
    >>> found.values[0, 0]  # each client's mean over the last two rounds
    array([0.6, 0.8])
    >>> found.curves[0, 0].round(2)
    array([0.15, 0.6 , 0.8 ])
    """
    whole("last", last, 1)
    if known is None and isinstance(batches, Iterator):
        raise ValueError("batches is passed over twice, got a generator; give a list, or an object that starts anew.")
    known = survey(batches) if known is None else known
    metric, split = _chosen(known, metric, split)
    rounds = known[metric, split]
    first = int(np.searchsorted(rounds, rounds[-1] - last, side="right"))
    index = {name: _Index() for name in ("method", "estimand", "seed", "client")}
    runs, sums, there = _Index(), _Sums(len(rounds)), set[int]()
    for batch in batches:
        rows = _where(batch, "metric", metric) & _where(batch, "split", split)
        if not np.any(rows):
            continue
        rows = slice(None) if np.all(rows) else rows
        m, e, s, k = (numbers.codes(batch, name)[rows] for name, numbers in index.items())
        there.update(np.flatnonzero(np.bincount(k)).tolist())
        run = _run_numbers(runs, (m, e, s), (len(index["estimand"]), len(index["seed"])))
        seen, t = _distinct(_numbers(batch, "round")[rows])
        t = np.searchsorted(rounds, seen)[t]
        window = np.asarray(batch["kept"], bool)[rows] if "kept" in names_of(batch) else t >= first
        sums.add(run, t, k, np.asarray(_column(batch, "value"), float)[rows], window)
    if wrong := [one for one in index["seed"] if not isinstance(one, int | np.integer)]:
        raise ValueError(f"column 'seed' must hold whole numbers, got {wrong[0]!r}. Number the seeds.")
    sums.refuse_repeats(len(rounds) - first, getattr(batches, "repeated", str))
    labels = {name: list(numbers) for name, numbers in index.items()}
    return _arranged(sums, list(runs), labels, there, rounds, metric, split)


def _where(batch: Any, name: str, label: str) -> Any:
    """Return in which rows a column has a label, shape (n,), or in one word where all rows are alike."""
    labels, codes = _coded(batch, name)
    if label not in labels or len(labels) == 1:
        return np.bool_(label in labels and len(codes) > 0)
    return codes == labels.index(label)


def _run_numbers(runs: _Index, codes: Sequence[np.ndarray], sizes: tuple[int, int]) -> np.ndarray:
    """Return the number of each row's run, shape (n,), from the numbers of its method, estimand and seed."""
    (m, e, s), (n_e, n_s) = codes, sizes
    cells, cell = _distinct((m * n_e + e) * n_s + s)
    triples = [(code // (n_e * n_s), code // n_s % n_e, code % n_s) for code in cells.tolist()]
    if any(triple not in runs for triple in triples):  # new runs are numbered in the order of their first rows
        for i in pd.unique(cell):
            runs.setdefault(triples[i], len(runs))
    return np.array([runs[triple] for triple in triples])[cell]


def _chosen(known: Mapping[tuple[str, str], Any], metric: str | None, split: str | None) -> tuple[str, str]:
    """Return metric and split to reduce, by default as `reduce` says."""
    metrics = list(dict.fromkeys(name for name, _ in known))
    if not known:
        raise ValueError("the history has no rows.")
    metric = usual_metric(metrics) if metric is None else metric
    if metric not in metrics:
        raise ValueError(f"metric must be one of {', '.join(metrics)}, got {metric!r}.")
    splits = [s for m, s in known if m == metric]
    if split is None:
        split = usual_split(splits) or (splits[0] if len(splits) == 1 else None)
    if split not in splits:
        raise ValueError(f"split must be one of {', '.join(splits)} for {metric}, got {split!r}.")
    return metric, split


class _Index(dict[Any, int]):
    """The numbers 0, 1, ... of labels, in the order in which they are first asked for."""

    def __missing__(self, label: Any) -> int:
        self[label] = len(self)
        return self[label]

    def codes(self, batch: Any, name: str) -> np.ndarray:
        """Return the numbers of the labels in a column of a batch, row by row."""
        labels, codes = _coded(batch, name)
        numbers = np.array([self[label] for label in labels], np.int64)
        same = np.array_equal(numbers, np.arange(len(numbers)))
        return codes.astype(np.int64, copy=False) if same else numbers[codes]


class _Sums:
    """Sums over the rows that were read: by run and round, and by run and client within the window.

    Each holds three numbers: the sum of values, how many there are, and how many of them are not finite.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds, self.rows = rounds, 0
        self.by_round, self.by_client = np.zeros((3, 0, rounds)), np.zeros((3, 0, 0))
        self.seen: np.ndarray | None = np.zeros((0, rounds, 0), bool)

    def add(self, run: np.ndarray, t: np.ndarray, k: np.ndarray, value: np.ndarray, window: np.ndarray) -> None:
        """Add rows, given by the numbers of their run, round and client."""
        self.rows += len(run)
        runs, clients = int(run.max()) + 1, int(k.max()) + 1
        self.by_round = _added(self.by_round, run, t, value, (runs, self.rounds))
        if window.any():
            own = slice(None) if window.all() else window
            self.by_client = _added(self.by_client, run[own], k[own], value[own], (runs, clients))
        if self.seen is None:
            return
        if max(runs, len(self.seen)) * self.rounds * max(clients, self.seen.shape[2]) > _CELLS:
            self.seen = None
            return
        self.seen = _grown(self.seen, (runs, self.rounds, clients))
        self.seen.reshape(-1)[(run * self.rounds + t) * self.seen.shape[2] + k] = True

    def refuse_repeats(self, window: int, told: Callable[[], str]) -> None:
        """Refuse a table in which the same cell was measured twice; `told` names the first, and says what to do."""
        if self.seen is not None:
            repeats = self.rows - int(self.seen.sum())
        else:
            repeats = int(np.maximum(self.by_client[1] - window, 0).sum())
        if repeats:
            raise ValueError(
                f"{repeats} of {self.rows} rows repeat an earlier row's method, estimand, seed, round and client"
                f"{told() or '; leave repeated rows out'}, and compare different settings each on their own."
            )


def _added(
    sums: np.ndarray, run: np.ndarray, column: np.ndarray, value: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Return sums, as those of `_Sums`, to whose cells (run, column) values were added."""
    sums = _grown(sums, (3, *shape))
    cell = run * sums.shape[2]
    cell += column
    low = int(cell.min())
    cell -= low
    finite = np.isfinite(value)
    for of, weights in zip(sums.reshape(3, -1), (value, None, *([] if finite.all() else [~finite])), strict=False):
        found = np.bincount(cell, weights)
        with np.errstate(invalid="ignore"):  # inf - inf
            of[low : low + len(found)] += found
    return sums


def _arranged(
    sums: _Sums,
    runs: Sequence[tuple[int, int, int]],
    labels: Mapping[str, list[Any]],
    there: set[int],
    rounds: np.ndarray,
    metric: str,
    split: str,
) -> Reduced:
    """Arrange sums by run as arrays by method, seed and round or client; `there` are the clients that were measured."""
    methods = list(dict.fromkeys(run[:2] for run in runs))
    seeds, clients = sorted({labels["seed"][run[2]] for run in runs}), labels["client"]
    order = sorted(there, key=clients.__getitem__)
    m = np.array([methods.index(run[:2]) for run in runs])
    s = np.searchsorted(seeds, [labels["seed"][run[2]] for run in runs])

    def arrays(of: np.ndarray, columns: Sequence[int], width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        placed = np.zeros((3, len(methods), len(seeds), len(columns)))
        placed[:, m, s] = _grown(of, (3, len(runs), width))[:, : len(runs)][..., columns]
        total, counts, gaps = placed
        return total, counts.astype(np.int64), gaps.astype(np.int64)

    total, counts, window_gaps = arrays(sums.by_client, order, len(clients))
    by_round, present, gaps = arrays(sums.by_round, range(len(rounds)), len(rounds))
    evaluated = present > 0
    final = len(rounds) - 1 - np.argmax(evaluated[..., ::-1], axis=-1)
    return Reduced(
        tuple((str(labels["method"][i]), str(labels["estimand"][j])) for i, j in methods),
        np.array(seeds),
        np.array([clients[i] for i in order]),
        rounds,
        _means(total, counts, window_gaps),
        counts,
        window_gaps.sum(-1),
        _means(by_round, present, gaps),
        present,
        np.where(evaluated.any(-1), rounds[final], -1),
        metric,
        split,
    )


def _means(total: np.ndarray, counts: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    return np.divide(total, counts, out=np.full(total.shape, np.nan), where=(counts > 0) & (gaps == 0))


def _grown(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array if it holds `shape`, else a larger one with its content; axes double, so that this is rare."""
    if all(have >= need for have, need in zip(array.shape, shape, strict=True)):
        return array
    larger = [h if h >= n else max(n, 2 * h) for h, n in zip(array.shape, shape, strict=True)]
    grown = np.zeros(larger, array.dtype)
    grown[tuple(slice(0, h) for h in array.shape)] = array
    return grown


def _distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Do as `numpy.unique` with inverse, for whole numbers, without sorting where they lie close together."""
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if low == high:
        return values[:1], np.zeros(len(values), np.int64)
    if high - low > 2 * len(values) + 1000:
        return np.unique(values, return_inverse=True)
    shifted = values - low
    seen = np.zeros(high - low + 1, bool)
    seen[shifted[np.flatnonzero(shifted[1:] != shifted[:-1])]] = True  # writing one place over and over is slow
    seen[shifted[-1]] = True
    return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[shifted]


def names_of(batch: Any) -> Sequence[str]:
    """Return the names of the columns of a DataFrame or a RecordBatch."""
    return list(batch.schema.names if hasattr(batch, "schema") else batch.columns)


def _column(batch: Any, name: str) -> Any:
    """Return a column of a DataFrame or a RecordBatch."""
    if name not in (names := names_of(batch)):
        raise ValueError(f"the history lacks the column {name!r}; it has {', '.join(map(str, names))}.")
    return batch[name]


def _coded(batch: Any, name: str) -> tuple[list[Any], np.ndarray]:
    """Return the labels of a column and the place of each row's label among them."""
    column = _column(batch, name)
    if isinstance(column, pa.Array) and not pa.types.is_primitive(column.type):
        column = column.dictionary_encode().to_pandas()
    if isinstance(column, pa.Array) or (isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf"):
        labels, codes = _distinct(_numbers(batch, name))
        return labels.tolist(), codes
    if isinstance(column.dtype, pd.CategoricalDtype):
        found, codes = column.cat.categories, np.asarray(column.cat.codes)
    else:
        codes, found = pd.factorize(column)
    if (codes < 0).any():
        raise ValueError(f"column {name!r} has {(codes < 0).sum()} empty places; fill them or leave these rows out.")
    return list(found), codes


def _numbers(batch: Any, name: str) -> np.ndarray:
    """Return a column of whole numbers, shape (n,)."""
    found = np.asarray(_column(batch, name))
    if not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"column {name!r} must hold whole numbers, got {found.dtype}.")
    return found.astype(np.int64, copy=False)

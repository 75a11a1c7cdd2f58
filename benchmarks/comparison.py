"""Time and memory of comparing a large table: ``python benchmarks/comparison.py``.

A parquet file of 30 methods, 20 seeds, 1,000 clients and 100 rounds, 60 million values, is compared against one method
and over all pairs, from the start of Python to the printed text. The aim is 10 seconds and 2 GiB.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TEXT = ("method", "estimand", "split", "metric")


def write(path: Path, methods: int, seeds: int, clients: int, rounds: int, order: str, text: str) -> None:
    """Write a tidy history, a row group for each million of rows, in the order in which runs write it or at random."""
    rng = np.random.default_rng(0)
    total, size = methods * seeds * rounds * clients, 1_000_000
    label = pa.array([f"method {i}" for i in range(methods)])
    constant = {"estimand": "personal", "split": "test", "metric": "accuracy"}
    coded = pa.dictionary(pa.int32(), pa.string())
    kind = {"dictionary": coded, "string": pa.string()}[text]
    numbers = {name: pa.int64() for name in ("seed", "round", "client")}
    types = {"method": kind, **numbers, **dict.fromkeys(constant, kind), "value": pa.float64()}
    with pq.ParquetWriter(path, pa.schema(list(types.items()))) as writer:
        for start in range(0, total, size):
            row = np.arange(start, min(start + size, total))
            if order == "random":  # a bijection of the rows, so that no row repeats
                row = row * 7_368_787 % total
            rest, client = np.divmod(row, clients)
            rest, turn = np.divmod(rest, rounds)
            method, seed = np.divmod(rest, seeds)
            columns = {
                "method": pa.DictionaryArray.from_arrays(pa.array(method, pa.int32()), label),
                "seed": pa.array(seed),
                "round": pa.array(turn + 1),
                "client": pa.array(client),
                **{name: pa.array([one]).take(pa.array(np.zeros(len(row), int))) for name, one in constant.items()},
                "value": pa.array(np.round(rng.normal(0.8, 0.1, len(row)).clip(0, 1), 3)),
            }
            arrays = [column.cast(types[name]) for name, column in columns.items()]
            writer.write_batch(pa.record_batch(arrays, schema=writer.schema))


def measure(path: Path, control: str | None) -> None:
    """Print the seconds and the peak memory of this process, which compares the methods of the file."""
    start, used = time.perf_counter(), time.process_time()
    import fedstat as fs

    text = str(fs.compare(path, control=control))
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts in KiB
    what = "all pairs" if control is None else "a control"
    print(f"{what}: {seconds:.1f} s, {cpu:.1f} s of CPU, peak {peak:.2f} GiB, {len(text.splitlines())} lines")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=Path, help="compare the methods of this file, and print what it costs")
    parser.add_argument("--all-pairs", action="store_true")
    parser.add_argument("--clients", type=int, default=1000)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure, None if given.all_pairs else "auto")
        sys.exit()
    for order, text in (("runs", "dictionary"), ("runs", "string"), ("random", "dictionary")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "history.parquet"
            write(path, 30, 20, given.clients, 100, order, text)
            print(f"{order} order, {text} columns, {path.stat().st_size / 2**20:.0f} MiB", flush=True)
            for more in ([], ["--all-pairs"]):
                subprocess.run([sys.executable, __file__, "--measure", path, *more], check=True)

"""Time and memory of reading a large table for a comparison: ``python benchmarks/comparison.py``.

A parquet file of 30 methods, 20 seeds, 1,000 clients and 100 rounds, 60 million values, is reduced to what
`fedstat.compare` needs. The aim is 10 seconds and 2 GiB.
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


def measure(path: Path) -> None:
    """Print the seconds and the peak memory of this process, which reduces the file."""
    start, used = time.perf_counter(), time.process_time()
    from fedstat.inference.reading import reduce_file

    reduced = reduce_file(path)
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts in KiB
    print(f"{seconds:.1f} s, {cpu:.1f} s of CPU, peak {peak:.2f} GiB, values {reduced.values.shape}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=Path, help="reduce this file, and print what it costs")
    parser.add_argument("--clients", type=int, default=1000)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure)
        sys.exit()
    for order, text in (("runs", "dictionary"), ("runs", "string"), ("random", "dictionary")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "history.parquet"
            write(path, 30, 20, given.clients, 100, order, text)
            print(f"{order} order, {text} columns, {path.stat().st_size / 2**20:.0f} MiB: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, "--measure", path], check=True)

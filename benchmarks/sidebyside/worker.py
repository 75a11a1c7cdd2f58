"""One peer in a process of its own: ``python -m benchmarks.sidebyside.worker PEER WORKLOAD FILE [CHECKOUT]``."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from benchmarks.sidebyside.workload import Turns, Workload

if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):  # JAX and Ray take what cores there are
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ["OMP_NUM_THREADS"])])
    peer, name, file, *rest = sys.argv[1:]
    module = import_module(f"benchmarks.sidebyside.peers.{peer}")
    turns = Turns({package: version(package) for package in module.PACKAGES})
    module.run(Workload.read(name, Path(file)), turns, *map(Path, rest))

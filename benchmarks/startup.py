"""Time until something happens: ``python -m benchmarks.startup [--against CHECKOUT] [--turns 6]``.

It times ``import fedstat``, ``fedstat --help``, and ``fedstat run`` on digits up to the first round of training, each
in a fresh interpreter; with a second checkout, in turns with it. Printed are medians of wall and processor seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[1]
RUN = """
import os, sys
import fedstat as fs
from fedstat.cli import app
def begins(*given, **named):
    if "folder" in named:
        os._exit(0)  # training begins
    from fedstat.federated import federate
    return federate(*given, **named)
fs.federate = begins
app(["run", sys.argv[1], "--out", sys.argv[2]])
"""
PROGRAMS = {
    "import fedstat": "import fedstat",
    "fedstat --help": "from fedstat.cli import app\napp(['--help'])",
    "fedstat run, to its first round": RUN,
}


def once(program: str, checkout: Path) -> tuple[float, float]:
    """Run a program; return its wall and processor seconds."""
    config = checkout / "simulations/configs/digits.toml"
    with tempfile.TemporaryDirectory() as folder:
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", program, config, Path(folder) / "out"]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        subprocess.run(command, check=True, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Let the checkouts take turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout of the project")
    parser.add_argument("--turns", type=int, default=6)
    options = parser.parse_args()
    checkouts = {"this": HERE} | ({"other": options.against.resolve()} if options.against else {})
    for name, program in PROGRAMS.items():
        times: dict[str, list[tuple[float, float]]] = {side: [] for side in checkouts}
        for _ in range(options.turns + 1):
            for side, checkout in checkouts.items():
                times[side].append(once(program, checkout))
        for side, own in times.items():
            wall, cpu = zip(*own[1:], strict=True)  # the first fills the cache of files
            print(
                f"{name} ({side}): {statistics.median(wall):.2f} s, {statistics.median(cpu):.2f} s of processor time "
                f"({min(cpu):.2f} to {max(cpu):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()

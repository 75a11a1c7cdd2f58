"""The driver's end of the pipes, and what the system knows of a process and its children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.memory import tree

ROOT = Path(__file__).parents[2]
_TICK = os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    """Return the processor time that a process has used; 0 if it has ended."""
    with suppress(OSError):
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return 0


def _peak(pid: int) -> int:
    """Return the largest resident memory of a process in bytes."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def busy() -> float:
    """Return the processor seconds that the machine has used so far, all processes together."""
    user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + sum(rest[:2])) / _TICK


class Peer:
    """A peer's process.

    Parameters
    ----------
    name, workload : str
    file : path
        The arrays.
    python : str
        The interpreter.
    threads : int
    more : sequence of path
        What the peer's `run` needs beside.
    """

    def __init__(
        self, name: str, workload: str, file: Path, python: str, threads: int, more: Sequence[Path] = ()
    ) -> None:
        self.name, self.log = name, file.with_name(f"{name}.log")
        counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        command = [python, "-m", "benchmarks.sidebyside.worker", name, workload, file, *more]
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=file.parent,
                env={**os.environ, **counts, "PYTHONPATH": paths},
            )  # fmt: skip

    def answer(self) -> dict[str, Any]:
        """Wait for a line of the peer's.

        Raises
        ------
        RuntimeError
            If it has ended, with the last lines that it printed.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError("\n".join(self.log.read_text(errors="replace").splitlines()[-8:]))
        return dict(json.loads(line))

    def ask(self, command: str) -> dict[str, Any]:
        """Send a line, and wait for the answer."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            print(command, file=self._process.stdin, flush=True)
        return self.answer()

    def round(self) -> dict[str, float]:
        """Let it train one round; return its seconds, its processor seconds, and cores that others used meanwhile."""
        children, before = [sum(map(_ticks, tree(self._process.pid)[1:]))], busy()
        taken = self.ask("round")
        children.append(sum(map(_ticks, tree(self._process.pid)[1:])))
        cpu = taken["cpu"] + (children[1] - children[0]) / _TICK
        return {"seconds": taken["seconds"], "cpu": cpu, "others": max(0.0, busy() - before - cpu) / taken["seconds"]}

    def peak(self) -> int:
        """Return its largest resident memory in bytes, that of all its processes added up."""
        return sum(map(_peak, tree(self._process.pid)))

    def quit(self) -> None:
        """End it, and its children."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            print("quit", file=self._process.stdin, flush=True)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            print(f"{self.name} does not end and is killed", file=sys.stderr)
            self._process.kill()

"""The script that tries faults finds that nothing is lost, and can find the opposite."""

import re
import subprocess
import sys
from collections import Counter

import pytest

faults = pytest.importorskip("benchmarks.faults", reason="faults are tried on Linux", exc_type=ImportError)


@pytest.mark.slow
def test_nothing_finished_is_lost_and_nothing_damaged_is_read_in_silence():
    # in a process of its own: it forks, and other tests may have left threads in this one
    done = subprocess.run([sys.executable, "-m", "benchmarks.faults", "--short"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("experiment.toml", "config.toml", "manifest.json", "state.safetensors", "index.json", "plan.toml"):
        assert re.search(rf"{name}` \| [3-9] \| [2-9] \| \d \| 0 \|", done.stdout), name
    assert "continued to the same bytes" in done.stdout


def test_silence_would_be_noticed(tmp_path):
    file = tmp_path / "it.csv"
    file.write_bytes(b"1,2,3\n")
    readers = {"careless": lambda out: (out / "it.csv").read_text()}
    intact = {"careless": "1,2,3\n"}
    assert faults._outcome(file, "flipped", intact, readers, tmp_path).startswith("harmless")
    for kind, left in faults.damages(file.read_bytes(), 2, file.name):
        if left is None:
            continue
        file.write_bytes(left)
        assert faults._outcome(file, kind, intact, readers, tmp_path).startswith("silent")

    def misleading(out):
        raise ValueError("something is wrong")

    said = faults._outcome(file, "flipped", intact, {"careless": misleading}, tmp_path)
    assert said.startswith("silent: careless names another file")
    row = faults.Row("killed", "so")
    row.note("lost", "a round")
    assert row.bad == ["killed: a round"]
    assert "| killed | so | lost: 1 |" in faults.table([row], [("a", Counter({"silent: x": 2}))])

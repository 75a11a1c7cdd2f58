"""The script that tries faults finds that nothing is lost, and can find the opposite."""

from collections import Counter

import pytest

faults = pytest.importorskip("benchmarks.faults", reason="faults are tried on Linux", exc_type=ImportError)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_finished_is_lost_and_nothing_damaged_is_read_in_silence(tmp_path):
    rows, files = faults.tried(tmp_path, short=True)
    assert not [line for row in rows for line in row.bad]
    tried = {name.split("/")[-1] for name, seen in files if sum(seen.values()) >= 3}
    assert {"experiment.toml", "config.toml", "manifest.json", "state.safetensors", "index.json", "plan.toml"} <= tried
    assert sum(seen["refused, the file named"] for _, seen in files) > 20
    assert {row.fault for row in rows} == {"killed", "disk full", "damaged"}


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

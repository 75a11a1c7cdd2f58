"""What is imported, and done, before a command has anything to show for it: counts, which no machine changes."""

import subprocess
import sys

import pytest

HEAVY = {
    "hypothesis", "matplotlib", "mpmath", "scipy.cluster", "scipy.optimize", "scipy.signal", "scipy.stats", "sklearn",
    "statsmodels", "sympy", "torch._dynamo", "torch._inductor", "typst",
}  # fmt: skip

CONFIG = """
rounds = 2
[data]
name = "digits"
[partition]
kind = "dirichlet"
clients = 5
alpha = 1.0
test = 0.25
[model]
name = "mlp"
widths = [8]
[method.FedAvg]
[method.FedPer]
[training]
lr = 0.1
batch_size = 20
"""


def python(program, *arguments):
    """Run a program in a fresh interpreter; return what it prints on its last line."""
    command = [sys.executable, "-c", f"import sys\n{program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    "program",
    ["import fedstat", "from fedstat.cli import app\napp(['--help'], standalone_mode=False)"],
    ids=["import fedstat", "fedstat --help"],
)
def test_neither_the_import_nor_the_help_loads_a_library(program):
    libraries = HEAVY | {"numpy", "pandas", "pydantic", "pyarrow", "scipy", "torch"}
    assert not libraries & set(python(f"{program}\nprint('loaded', *sys.modules)"))


def test_a_run_loads_no_heavy_library_and_rehearses_five_rounds_before_its_first(tmp_path):
    """`fedstat run` is stopped as training begins."""
    config = tmp_path / "digits.toml"
    config.write_text(CONFIG, encoding="utf-8")
    program = """
import fedstat as fs
import fedstat.federated.rounds
from fedstat.cli import app
rounds = sys.modules["fedstat.federated.rounds"]
play, played = rounds._play, []
rounds._play = lambda *given: played.append(1) or play(*given)
def begins(*given, **named):
    print(len(played), *sys.modules)
    raise SystemExit
fs.federate = begins
app(["run", sys.argv[1], "--out", sys.argv[2]])
"""
    count, *loaded = python(program, str(config), str(tmp_path / "out"))
    assert int(count) == 5
    assert {"torch", "pandas"} <= set(loaded)
    assert not HEAVY & set(loaded)
    assert not list((tmp_path / "out").glob("*.svg"))

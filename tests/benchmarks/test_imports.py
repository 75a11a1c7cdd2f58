"""What the benchmarks take from fedstat exists, whether or not what else they compare is installed."""

import ast
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("script", sorted(str(path.relative_to(BENCHMARKS)) for path in BENCHMARKS.rglob("*.py")))
def test_what_a_benchmark_takes_from_the_library_exists(script):
    for node in ast.walk(ast.parse((BENCHMARKS / script).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("fedstat", "simulations"):
            exec(ast.unparse(node), {})  # an ImportError says what is missing

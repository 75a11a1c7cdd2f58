"""What is printed must not depend on the processor: tests, ledger and report under other instruction sets.

Libraries choose their kernels by the processor, and with them the last digits. Environment variables make them choose
as on another one. Here the quick lane of the tests, all examples, the ledger and the report's numbers are done under
each setting; what fails, and what the report prints otherwise than on this machine, is listed.

    python benchmarks/arithmetic.py                   # all lanes, all settings: about an hour on two cores
    python benchmarks/arithmetic.py --lanes report --settings "OpenBLAS Zen"
    python benchmarks/arithmetic.py --settings another  # one that this machine does not use by itself, as CI does

It needs what the tests need, and ends with a table and, if anything differs, exit status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: What the environment says under each setting.
SETTINGS: dict[str, dict[str, str]] = {
    "this machine": {},
    "torch plain": {"ATEN_CPU_CAPABILITY": "default"},
    "torch AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "OpenBLAS Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "OpenBLAS SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "OpenBLAS Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "MKL compatible": {"MKL_CBWR": "COMPATIBLE"},
    "MKL AVX2": {"MKL_CBWR": "AVX2"},
    "NumPy without AVX": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"},
    "one thread": dict.fromkeys(THREADS, "1"),
    "two threads": dict.fromkeys(THREADS, "2"),
    # all at once, as on a machine of another kind
    "another": {
        "ATEN_CPU_CAPABILITY": "default",
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_CBWR": "COMPATIBLE",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    },
}
PYTEST = ["-m", "pytest", "-q", "--no-header", "-rfE", "--tb=short", "-o", "filterwarnings=default"]
#: Claims are judged by the ledger's lane, and studies print nothing that is compared.
EXAMPLES = "not judge and not studies_run"
#: What Python is given for each lane.
LANES: dict[str, list[str]] = {
    "quick": PYTEST,
    "examples": [*PYTEST, "tests/docs/test_docstrings.py", "tests/docs/test_readme.py", "-m", "", "-k", EXAMPLES],
    "ledger": [*PYTEST, "theory_checks", "-m", ""],
    "report": [__file__, "--print-report"],
}


def numbers() -> dict[str, str]:
    """Return all that the report prints, made from the committed tables, by where it stands."""
    sys.path.insert(0, str(ROOT))
    from reports.content import content
    from simulations.studies import in_order

    with tempfile.TemporaryDirectory() as shown:
        made = content("committed", None, Path(shown), in_order(), True, {})
    assert not made.failed, made.failed
    return {where: text for where, text in leaves(made.data) if not where.startswith(".environment")}


def leaves(content: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield each plain value inside, as text, with where it stands."""
    if isinstance(content, dict | list | tuple):
        for key, inner in content.items() if isinstance(content, dict) else enumerate(content):
            yield from leaves(inner, f"{where}.{key}")
    else:
        yield where, str(content)


def differences(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Return what is printed otherwise, a line each."""
    return [
        f"{where}: {first.get(where)} | {second.get(where)}"
        for where in {**first, **second}
        if first.get(where) != second.get(where)
    ]


def main() -> int:
    """Do the lanes under the settings; print what fails or differs, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", nargs="+", choices=LANES, default=list(LANES))
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--print-report", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.print_report:
        print(json.dumps(numbers()))
        return 0
    pool, own = ThreadPoolExecutor(), None
    table = []
    for setting in options.settings:
        for lane in options.lanes:
            start = time.perf_counter()
            if lane == "report" and own is None:
                own = pool.submit(_python, lane, {})  # on another core, since a report is told on one
            done = _python(lane, SETTINGS[setting])
            if own is not None and lane == "report" and not done.returncode:
                found = differences(json.loads(own.result().stdout), json.loads(done.stdout))
            else:
                found = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.MULTILINE)
                found += [done.stderr[-2000:]] if done.returncode and not found else []
            print(f"{setting}, {lane}: {len(found) or 'nothing'} differs", *found, sep="\n  ", flush=True)
            table.append((setting, lane, len(found), time.perf_counter() - start))
    print(f"\n{'setting':20} {'lane':10} {'differ':>6} {'seconds':>8}")
    for setting, lane, count, seconds in table:
        print(f"{setting:20} {lane:10} {count:6} {seconds:8.0f}")
    return int(any(count for _, _, count, _ in table))


def _python(lane: str, setting: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *LANES[lane]], cwd=ROOT, env={**os.environ, **setting}, capture_output=True, text=True
    )


if __name__ == "__main__":
    sys.exit(main())

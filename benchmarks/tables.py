"""Write what a benchmark measured as CSV, and as a table into the page of the documentation that shows it."""

from __future__ import annotations

import platform
import re
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import torch

DOCS = Path(__file__).parents[1] / "docs"


def publish(name: str, table: pd.DataFrame, page: str, notes: str = "") -> None:
    """Write ``docs/tables/NAME.csv``, and the same between the marks of `name` on a page.

    The marks are the lines ``<!-- NAME -->`` and ``<!-- end of NAME -->``.
    """
    (DOCS / "tables").mkdir(exist_ok=True)
    table.to_csv(DOCS / "tables" / f"{name}.csv", index=False)
    rows = [[_plain(value) for value in row] for row in table.itertuples(index=False)]
    numbers = [all(cell[:1] in "0123456789" for cell in column) for column in zip(*rows, strict=True)]
    heads = [[*map(str, table.columns)], ["---:" if right else "---" for right in numbers]]
    lines = ["| " + " | ".join(row) + " |" for row in [*heads, *rows]]
    body = "\n".join([*lines, "", notes]).rstrip()
    file, marks = DOCS / page, (f"<!-- {name} -->", f"<!-- end of {name} -->")
    text, count = re.subn(
        f"({marks[0]}\n).*?({marks[1]})", lambda m: f"{m[1]}\n{body}\n\n{m[2]}", file.read_text(), flags=re.DOTALL
    )
    if not count:
        raise SystemExit(f"{file} has no lines {marks[0]} and {marks[1]}.")
    file.write_text(text)


def setting() -> str:
    """Say in words under what a benchmark ran."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("fedstat", "torch", "numpy", "pandas", "pyarrow"))
    threads = torch.get_num_threads()
    return f"Python {platform.python_version()}, {packages}; {threads} thread{'s' * (threads != 1)}."


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)

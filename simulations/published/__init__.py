"""The numbers that the papers' tables print, one CSV file per table, in a folder for each paper."""

from __future__ import annotations

import csv
from pathlib import Path


def printed(paper: str, table: str) -> list[dict[str, str]]:
    """Return the rows of a table, values as printed.

    Parameters
    ----------
    paper : str
        The paper's folder, such as ``"fedsplit"``.
    table : str
        Name of the file in it, such as ``"table_2"``.
    """
    with (Path(__file__).parent / paper / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))

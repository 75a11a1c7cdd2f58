"""The tables that studies left behind, for claims about training."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedstat._tables import Tables, read_tables


class _Noted(dict[str, pd.DataFrame]):
    """A study's tables, which know the one that was asked for last."""

    last = ""

    def __getitem__(self, name: str) -> pd.DataFrame:
        self.last = name
        return super().__getitem__(name)


class Studies:
    """Read the tables of studies when a check asks for them: ``studies["wide"]["networks"]``.

    Parameters
    ----------
    folder : Path or None
        Holds one folder of tables per study; None has no studies.

    Examples
    --------
    A check asks for a study's tables by name, and who judges is told what is missing:

    >>> from pathlib import Path
    >>> from fedstat.claims import Studies
    >>> try:
    ...     losses = Studies(Path("results"))["wide"]["networks"]["loss"]
    ... except FileNotFoundError as error:
    ...     print(error)
    results has no 'wide'; a folder with the tables of the study 'wide' is needed
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._read: dict[str, _Noted] = {}
        self._last = ""

    def __getitem__(self, study: str) -> Tables:
        """Return a study's tables by name; FileNotFoundError says that there are none."""
        if study not in self._read:
            if self.folder is None or not (self.folder / study).is_dir():
                where = "no folder of tables was given" if self.folder is None else f"{self.folder} has no {study!r}"
                raise FileNotFoundError(f"{where}; a folder with the tables of the study {study!r} is needed")
            self._read[study] = _Noted(read_tables(self.folder / study))
        self._last = study
        return self._read[study]

    def around(self, error: BaseException) -> str:
        """Name the table, or the folder, in which a check that failed missed a column or a table."""
        if not self._last or not isinstance(error, (KeyError, NameError)):  # pandas: an unknown name in a query
            return ""
        assert self.folder is not None
        tables, folder = self._read[self._last], self.folder / self._last
        if tables.last not in tables:
            return f"{folder} has the tables {', '.join(tables)}"
        return f"{folder / tables.last}.csv has the columns {', '.join(map(str, tables[tables.last].columns))}"

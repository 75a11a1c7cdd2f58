"""A run's tables, which grow with it: their last rows in memory, those before in files where the run has a folder.

Rows come round by round. When those in memory are `SEGMENT` or more at the end of a round they become a file, a
segment, which is never written again: later checkpoints link to it. So a checkpoint costs the rows that are new, a run
holds no more than the rows of a segment, and where segments end does not depend on who wrote them or how often.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from fedstat._files import complete_folder, link, reach_disk, sha256
from fedstat.federated.history import TEXT
from fedstat.inference.reading.formats.fedstat import marked

#: Rows that a run with a folder holds in memory before it writes them into a segment.
SEGMENT = 2**18
#: Tables of single rounds that are kept apart before they are joined.
_PIECES = 256
#: How often to look for a file whose folder another process replaces meanwhile.
_TRIES = 100


@dataclass(frozen=True)
class Segment:
    """A file of rows, at the path `name` in the folder of a run, or in another one that holds files of a run."""

    folder: Path
    name: str
    sha256: str
    rows: int

    @classmethod
    def write(cls, table: pd.DataFrame, folder: Path, name: str) -> Segment:
        """Write a table into a new file."""
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        table.to_parquet(file, index=False)
        return cls(folder, name, sha256(file), len(table))

    def read(self, dtypes: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return the rows; by default all columns as they are, else some with their types.

        A file that is another one by now, or gone, raises a ValueError.
        """
        content = b""
        for left in reversed(range(_TRIES)):
            try:
                content = (complete_folder(self.folder) / self.name).read_bytes()
                break
            except FileNotFoundError:  # a writer may be between two renames
                if not left:
                    raise ValueError(f"{self._path} is gone: {self._remedy}") from None
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise ValueError(f"{self._path} is damaged, or has been replaced: {self._remedy}")
        table = pd.read_parquet(io.BytesIO(content))
        return table if dtypes is None else table[list(dtypes)].astype(dtypes)

    def put(self, folder: Path, name: str | None = None) -> Segment:
        """Link, or copy, the file into another folder, by default to the same place there, and return it there."""
        source, there = complete_folder(self.folder) / self.name, replace(self, folder=folder, name=name or self.name)
        if not source.exists():
            raise ValueError(f"{self._path} is gone: {self._remedy}")
        there._path.parent.mkdir(exist_ok=True)
        link(source, there._path)
        return there

    @property
    def _path(self) -> Path:
        return self.folder / self.name

    @property
    def _remedy(self) -> str:
        return "the run was changed after this result was made; load it again with fs.load, or put back what was there."


@dataclass(frozen=True, eq=False)
class Rows:
    """A table of a run as it stands: the first rows in files, those of `tail` in memory.

    Where a rule keeps one round of each run, `kept` has it by (label, seed), and a column of the table marks it.
    """

    dtypes: Mapping[str, Any]
    segments: tuple[Segment, ...] = ()
    tail: tuple[pd.DataFrame, ...] = ()
    kept: Mapping[tuple[str, int], int] | None = None

    @classmethod
    def of(cls, table: pd.DataFrame, dtypes: Mapping[str, Any]) -> Rows:
        """Return the rows of a table in memory."""
        kept = None
        if "kept" in table:
            found = table.loc[table["kept"], ["method", "seed", "round"]].drop_duplicates()
            kept = {(str(m), int(s)): int(t) for m, s, t in found.itertuples(index=False)}
        return cls(dtypes, (), (table[list(dtypes)],), kept)

    @classmethod
    def found(
        cls, dtypes: Mapping[str, Any], files: Sequence[Segment], kept: Mapping[tuple[str, int], int] | None
    ) -> Rows:
        """Return the rows of a run's files; those of the last one come into memory if more may join them."""
        if files[-1].rows >= SEGMENT:
            return cls(dtypes, tuple(files), (), kept)
        return cls(dtypes, tuple(files[:-1]), (files[-1].read(dtypes),), kept)

    def __len__(self) -> int:
        return sum(segment.rows for segment in self.segments) + sum(map(len, self.tail))

    def parts(self) -> Iterator[pd.DataFrame]:
        """Yield the table in parts, one after the other, each of whole rounds."""
        for segment in self.segments:
            yield self._marked(segment.read(self.dtypes))
        yield self._marked(joined(self.tail, self.dtypes))

    @cached_property
    def table(self) -> pd.DataFrame:
        """The whole table in memory."""
        marked = None if self.kept is None else {"kept": bool}
        return joined(list(self.parts()), {**self.dtypes, **(marked or {})})

    def write(self, folder: Path, name: str) -> tuple[Segment, ...]:
        """Write all rows into a run's new folder, and return the files; what lies in files already is linked."""
        full, rest = divided(joined(self.tail, self.dtypes))
        known = [segment.put(folder) for segment in self.segments]
        fresh = [*full, *([rest] if len(rest) or not (known or full) else [])]
        return (*known, *(Segment.write(t, folder, named(name, i)) for i, t in enumerate(fresh, len(known))))

    def _marked(self, table: pd.DataFrame) -> pd.DataFrame:
        return table if self.kept is None else marked(table, self.kept)


@dataclass(eq=False)
class Growing:
    """A table of a run, in the folder `name` in that of the run, to which every round adds rows to those of `before`.

    The folder `aside`, made when it is needed, takes segments that no checkpoint holds yet; without it all new rows
    stay in memory.
    """

    name: str
    before: InitVar[Rows]
    aside: Path | None

    def __post_init__(self, before: Rows) -> None:
        self.dtypes, self.segments, self.blocks = before.dtypes, list(before.segments), list(before.tail)

    def add(self, table: pd.DataFrame) -> None:
        """Add the rows of a round."""
        self.blocks.append(joined([table], self.dtypes))
        if len(self.blocks) >= _PIECES:  # many small tables would keep memory in pieces
            self._join()
        if self.aside is not None and sum(map(len, self.blocks)) >= SEGMENT:
            self._seal(self.aside)

    def rows(self, kept: Mapping[tuple[str, int], int] | None = None) -> Rows:
        """Return the table as it stands."""
        self._join()
        return Rows(self.dtypes, tuple(self.segments), tuple(self.blocks), kept)

    def saved(self, files: Sequence[Segment]) -> None:
        """Take note of the files of a checkpoint, which holds all rows."""
        for segment in self.segments:
            if segment.folder == self.aside:
                (segment.folder / segment.name).unlink()
        self.segments = list(files[: len(self.segments)])

    def _join(self) -> None:
        if len(self.blocks) > 1:
            self.blocks = [joined(self.blocks, self.dtypes)]

    def _seal(self, aside: Path) -> None:
        """Write what fills segments."""
        full, rest = divided(joined(self.blocks, self.dtypes))
        try:
            for table in full:
                aside.mkdir(parents=True, exist_ok=True)
                segment = Segment.write(table, aside, named(self.name, len(self.segments)))
                reach_disk(aside / segment.name)  # a checkpoint that links to it takes that for granted
                self.segments.append(segment)
        except OSError as error:
            raise OSError(
                f"rows of {self.name} could not be written in {aside}: {error}. The last checkpoint, if there is "
                "one, stays; make room or mend the folder, and continue from it with resume=fs.load(folder)."
            ) from error
        self.blocks = [rest] if len(rest) else []


def named(table: str, number: int) -> str:
    """Return the name of a segment in a run's folder."""
    return f"{table}/{number:05}.parquet"


def divided(table: pd.DataFrame) -> tuple[list[pd.DataFrame], pd.DataFrame]:
    """Cut a table after the first rounds that fill segments; return these, and the rest."""
    ends = [*(np.flatnonzero(np.diff(table["round"])) + 1), len(table)] if len(table) >= SEGMENT else []
    full, first = [], 0
    while (place := int(np.searchsorted(ends, first + SEGMENT))) < len(ends):
        full.append(_trimmed(table.iloc[first : ends[place]]))
        first = int(ends[place])
    return full, _trimmed(table.iloc[first:]) if first else table


def joined(tables: Sequence[pd.DataFrame], dtypes: Mapping[str, Any]) -> pd.DataFrame:
    """Append tables to each other; text becomes categories, in alphabetical order."""
    # labels of an empty table are of no type that joins others
    filled = [table for table in tables if len(table)] or [_empty(tuple(dtypes.items()))]
    text = [name for name in dtypes if name in TEXT]
    if len(filled) == 1 and all(isinstance(filled[0][name].dtype, pd.CategoricalDtype) for name in text):
        return filled[0][list(dtypes)]
    return pd.DataFrame(
        {
            name: union_categoricals([_coded(table[name]) for table in filled], sort_categories=True)
            if name in text
            else np.concatenate([table[name] for table in filled])
            for name in dtypes
        }
    )


@cache
def _empty(dtypes: tuple[tuple[str, Any], ...]) -> pd.DataFrame:
    """Return a table without rows; pandas takes milliseconds to make one, and a run asks for several."""
    return pd.DataFrame(columns=[name for name, _ in dtypes]).astype(dict(dtypes))


def _coded(text: pd.Series) -> pd.Series | pd.Categorical:
    """Return categories in order; a cast takes three times as long."""
    return text if text.dtype == "category" else pd.Categorical.from_codes(*pd.factorize(text.to_numpy("O"), sort=True))


def _trimmed(table: pd.DataFrame) -> pd.DataFrame:
    """Number a piece's rows from 0, and drop categories that it does not hold."""
    table = table.reset_index(drop=True)
    return table.assign(
        **{n: table[n].cat.remove_unused_categories() for n in table if isinstance(table[n].dtype, pd.CategoricalDtype)}
    )

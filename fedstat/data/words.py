"""A column for each word of a column of text, the same columns under all seeds and at all clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin

#: Columns that are made of one column of text at most; rarer words have none.
MOST = 32
#: The word of a cell in which nothing stands.
NONE = "(none)"


def filled(table: pd.DataFrame) -> pd.DataFrame:
    """Return columns of text in which every cell holds a word, that of 1.0 being 1: gaps make whole numbers floats."""
    words = table.astype(object).map(lambda cell: f"{cell:.0f}" if isinstance(cell, float) and cell % 1 == 0 else cell)
    return words.where(table.notna(), NONE).astype(str)


class Words(TransformerMixin, BaseEstimator):
    """Indicators of words; one that no training sample has is left out, as are rare ones: its columns are all 0.

    `words` are those of each column that have an indicator. They are chosen before, since all clients and seeds share
    one network; whether a word is known is learnt.
    """

    def __init__(self, words: Sequence[Sequence[str]]) -> None:
        self.words = words

    @classmethod
    def of(cls, table: pd.DataFrame) -> Words:
        """Return a transformer for columns of text; of more than `MOST` words of a column the most frequent count."""
        counts = (column.value_counts().sort_index() for _, column in filled(table).items())
        return cls([sorted(count.nlargest(MOST).index) for count in counts])

    def _indicators(self, table: pd.DataFrame) -> np.ndarray:
        pairs = zip(filled(table).to_numpy().T, self.words, strict=True)
        return np.concatenate([column[:, None] == np.array(words, dtype=object) for column, words in pairs], axis=1)

    def fit(self, table: pd.DataFrame, y: Any = None) -> Words:
        """Learn which words occur."""
        self.known_ = np.asarray(self._indicators(table).any(axis=0))
        return self

    def transform(self, table: pd.DataFrame) -> np.ndarray:
        """Return the indicators, shape (samples, words of all columns)."""
        return (self._indicators(table) & self.known_).astype(np.float64)

    def known(self) -> list[list[str]]:
        """Return the words of each column that count."""
        known = iter(self.known_.tolist())
        return [[word for word in words if next(known)] for words in self.words]

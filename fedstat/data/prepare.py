"""Bring inputs into shape by what training samples teach: scaling, imputation, any transformer of scikit-learn's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np

from fedstat._checks import choice
from fedstat._mapped import is_mapped

#: On whose training samples a transformer is fitted: all clients' together, each client's own, or nobody's any more.
FitOn = Literal["pooled", "client", "fitted"]

_WORDS = {
    "pooled": "fitted on all clients' training samples together",
    "client": "fitted on each client's own training samples",
    "fitted": "fitted before",
}


def transformer_of(prepare: Any, x: Any = None) -> Any:
    """Return the transformer that is meant, which is "standard" for the columns of `x`.

    It fills missing numbers with medians and standardises; of text it makes a column for each word, see `words.Words`.
    """
    if isinstance(prepare, str) and prepare == "standard":
        from pandas.api.types import infer_dtype
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        # a column that is empty at one client stays, since all clients share one network
        numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
        if not (text := text_columns(x)):
            return numbers
        from fedstat.data.words import Words

        for name in text:
            if (kind := infer_dtype(x[name])) not in ("string", "boolean", "categorical", "empty"):
                raise ValueError(
                    f"column {name!r} holds values of kind {kind}. Write numbers, or text if words are meant."
                )
        return ColumnTransformer([("words", Words.of(x[text]), text)], remainder=numbers)
    if isinstance(prepare, type) or not (hasattr(prepare, "fit") and hasattr(prepare, "transform")):
        raise ValueError(
            f'prepare must be "standard" or a transformer such as StandardScaler() of scikit-learn, got {prepare!r}.'
        )
    return prepare


def text_columns(x: Any) -> list[str]:
    """Return the columns of a data frame that hold no numbers; arrays have none."""
    from pandas.api.types import is_numeric_dtype

    return [name for name in getattr(x, "columns", ()) if not is_numeric_dtype(x[name])]


def prepared(
    x: Any, y: np.ndarray, rows: Mapping[str, Sequence[np.ndarray]], prepare: Any, fit_on: FitOn
) -> tuple[np.ndarray, np.ndarray, dict[str, list[np.ndarray]], Any, str, dict[str, np.ndarray]]:
    """Fit a transformer on training samples, and transform all samples that clients hold.

    `rows` are the sample numbers of each client by split; "train" is what is learnt from. `prepare` and `fit_on` are as
    `fedstat.data.from_arrays` has them. Return inputs and targets of the samples that are held, their new numbers by
    split and client, the fitted transformer (None if every client has its own), what was done, in words, and by split a
    hash of each input as it was given.
    """
    import pandas as pd
    from sklearn.base import clone

    choice("fit_on", fit_on, _WORDS)
    if is_mapped(x):
        raise ValueError("prepare would read all of x at once, which is mapped from a file. Store x prepared.")
    transformer, held = transformer_of(prepare, x), getattr(x, "iloc", x)
    order = {split: np.concatenate(parts) for split, parts in rows.items()}
    if fit_on == "client":
        kept = None
        own = [_fit(clone(transformer), held, y, part, f"client {k}") for k, part in enumerate(rows["train"])]
        blocks = [_apply(own[k], held, part, f"client {k}") for parts in rows.values() for k, part in enumerate(parts)]
    else:
        kept = transformer if fit_on == "fitted" else _fit(clone(transformer), held, y, order["train"], "all clients")
        blocks = [_apply(kept, held, index, "all clients") for index in order.values()]
    if len(widths := sorted({block.shape[1] for block in blocks})) > 1:
        raise ValueError(
            f"prepare makes {widths[0]} to {widths[-1]} columns, by client, and all clients share one network. Name "
            'the categories in the transformer, or use fit_on="pooled".'
        )
    ends = np.cumsum([len(part) for parts in rows.values() for part in parts])
    numbers = iter(np.split(np.arange(ends[-1]), ends[:-1]))
    numbered = {split: [next(numbers) for _ in parts] for split, parts in rows.items()}
    name = "medians for missing values, standardised columns" if isinstance(prepare, str) else str(transformer)
    if isinstance(prepare, str) and (text := text_columns(x)):
        name += f", a column for each word of {', '.join(text)}"
    told = f"{' '.join(name.split())}, {_WORDS[fit_on]}"
    table = x if hasattr(x, "iloc") else pd.DataFrame(np.asarray(x).reshape(len(x), -1))
    hashes = pd.util.hash_pandas_object(table, index=False).to_numpy(np.uint64)  # equal in all processes
    given = {split: hashes[index] for split, index in order.items()}
    return np.concatenate(blocks), y[np.concatenate([*order.values()])], numbered, kept, told, given


def _fit(transformer: Any, held: Any, y: np.ndarray, index: np.ndarray, whose: str) -> Any:
    try:
        return transformer.fit(held[index], y[index])
    except (ValueError, TypeError) as error:
        raise ValueError(f"prepare cannot be fitted on the training samples of {whose}: {error}") from None


def _apply(transformer: Any, held: Any, index: np.ndarray, whose: str) -> np.ndarray:
    """Return transformed samples, shape (n, d), all finite."""
    from scipy import sparse

    try:
        found = transformer.transform(held[index])
    except (ValueError, TypeError) as error:
        raise ValueError(f"prepare cannot transform the samples of {whose}: {error}") from None
    found = np.asarray(cast(Any, found).toarray() if sparse.issparse(found) else found)
    if found.ndim != 2 or len(found) != len(index) or found.dtype.kind not in "biuf":
        raise ValueError(
            f"prepare must make numbers of shape ({len(index)}, columns), got {found.dtype} of shape {found.shape}."
        )
    found = found.astype(found.dtype if found.dtype.kind == "f" else np.float32, copy=False)
    if not (finite := np.isfinite(found).all(axis=0)).all():
        raise ValueError(
            f"prepare leaves missing or infinite numbers in column {finite.argmin()} of {whose}. Impute them, as "
            'prepare="standard" does.'
        )
    return found

"""Refuse masked values, whose mask would be lost."""

from __future__ import annotations

from typing import Any

import numpy as np


def unmasked(name: str, values: Any) -> np.ndarray:
    """Return values as an array without a mask.

    Raises
    ------
    ValueError
        If a value is masked.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        where = np.argwhere(np.ma.getmaskarray(values))[0].tolist()
        raise ValueError(
            f"{name} is masked at {where} (of {np.ma.count_masked(values)} places), and a mask would be lost. Drop "
            f"or impute such samples first; {name}.filled(value) says what stands there."
        )
    return np.asarray(values)

"""Heart disease at four hospitals: what the examination says, and whether a coronary artery is narrowed.

A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano, "Heart Disease", UCI Machine Learning Repository (1988), CC BY 4.0;
described in Detrano et al., American Journal of Cardiology 64 (1989), 304-310.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedstat.data.datasets.base import Dataset, Source

_HOSPITALS = {
    "Cleveland": "processed.cleveland.data",
    "Hungary": "processed.hungarian.data",
    "Switzerland": "processed.switzerland.data",
    "VA Long Beach": "processed.va.data",
}
#: The inputs, by UCI's names and in its order; the diagnosis is the last field, 0 for none.
_INPUTS = ["age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach",
           "exang", "oldpeak", "slope", "ca", "thal"]  # fmt: skip
#: What the codes of categories mean.
_WORDS = {
    "cp": {1: "typical angina", 2: "atypical angina", 3: "non-anginal pain", 4: "asymptomatic"},
    "restecg": {0: "normal", 1: "ST-T abnormality", 2: "left ventricular hypertrophy"},
    "slope": {1: "upsloping", 2: "flat", 3: "downsloping"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}


def _patients(path: Path) -> np.ndarray:
    """Return the 14 fields of every patient, NaN where one is missing."""
    try:
        lines = path.read_text(encoding="ascii").split()
        rows = [[np.nan if field == "?" else float(field) for field in line.split(",")] for line in lines]
        table = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
    except ValueError as error:
        raise ValueError(f"{path} should hold a line of numbers and question marks for each patient: {error}") from None
    if len(table) == 0 or table.shape[1] != len(_INPUTS) + 1:
        raise ValueError(f"{path} should have {len(_INPUTS) + 1} fields for each patient, and has {table.shape}.")
    if np.isinf(table).any() or not np.isin(table[:, -1], range(5)).all():
        raise ValueError(f"{path}: numbers should be finite, and the diagnosis, the last of a line, from 0 to 4.")
    for name, words in _WORDS.items():
        column = table[:, _INPUTS.index(name)]
        if (strange := column[~np.isnan(column) & ~np.isin(column, list(words))]).size:
            raise ValueError(f"{path}: {name} should be one of {', '.join(map(str, words))}, got {strange[0]:g}.")
    return table


def _find(folder: Path) -> list[Path]:
    paths = [folder / name for name in _HOSPITALS.values()]
    return paths if all(path.is_file() for path in paths) else []


def _read(folder: Path) -> Dataset:
    """Read all four; nobody has a cholesterol or a blood pressure of 0, which stands for a missing one."""
    import pandas as pd

    tables = [_patients(path) for path in _find(folder)]
    whole = np.concatenate(tables)
    x: Any = pd.DataFrame(whole[:, :-1], columns=_INPUTS)
    x[["trestbps", "chol"]] = x[["trestbps", "chol"]].replace(0, np.nan)
    for name, words in _WORDS.items():
        x[name] = x[name].map(words).astype(object)
    hospital = np.repeat(list(_HOSPITALS), [len(table) for table in tables])
    y = (whole[:, -1] > 0).astype(np.int64)
    return Dataset(
        "heart-disease", x, y, ("no disease", "disease"), np.zeros(len(y), dtype=bool), {"hospital": hospital}
    )


SOURCE = Source(
    name="heart-disease",
    about='920 patients of 4 hospitals, 13 inputs with gaps and words (prepare = "standard"), disease or none',
    folder="heart",
    find=_find,
    read=_read,
    note="Janosi, Steinbrunn, Pfisterer and Detrano (1988), UCI Machine Learning Repository, doi.org/10.24432/C52P4X, "
    "CC BY 4.0.",
)

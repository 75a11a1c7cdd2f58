"""Check arguments before anything runs: an error names the argument, its value and what would be right.

NumPy scalars, and arrays and tensors without axes, count as the Python values that they hold.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from inspect import isfunction
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

#: So few different values are no case numbers.
FEW = 10
#: How a column of case numbers is named.
CASE_NUMBER = re.compile(
    r"(?i:(^|[\W_])(id|nr|no|num|number|key|mrn|case|record|patient|subject|person)$"
    r"|(case|record|patient|subject|person|pt|subj)[\W_]?(id|nr|no|num|number|key|code)$"
    r"|^(row|rownames|index|unnamed: \d+)$)|[a-z]I[Dd]$"
)
_EVERY = "[-inf, inf]"


def number(name: str, value: Any, interval: str = _EVERY, also: str = "") -> float:
    """Return a number in an interval such as ``"[0, inf)"`` as a float; errors say what `also` may stand.

    Text, truth values and NaN are no numbers.
    """
    low, high = map(float, interval[1:-1].split(","))
    plain = _python(value)
    if isinstance(plain, Real) and not isinstance(plain, bool):
        try:
            real = float(plain)
        except OverflowError:  # a whole number above all floats
            real = float("nan")
        if low < real < high or (real == low and interval[0] == "[") or (real == high and interval[-1] == "]"):
            return real
    within, others = f" in {interval}" * (interval != _EVERY), f" or {also}" * bool(also)
    raise ValueError(f"{name} must be a number{within}{others}, got {plain!r}.")


def whole(name: str, value: Any, least: int | None = None) -> int:
    """Return a whole number that is at least `least` as an int; truth values are none."""
    plain = _python(value)
    if isinstance(plain, Integral) and not isinstance(plain, bool) and (least is None or int(plain) >= least):
        return int(plain)
    raise ValueError(f"{name} must be a whole number{'' if least is None else f', at least {least}'}, got {plain!r}.")


def check_level(level: Any) -> float:
    """Return a confidence level in (0, 1) as a float; the error on per cent such as 95 says what to write."""
    try:
        return number("level", level, "(0, 1)")
    except ValueError as error:
        per_cent = isinstance(level, int | float) and 1 < level < 100
        raise ValueError(f"{error} For {level:g}% write {level / 100:g}." if per_cent else f"{error}") from None


def choice(name: str, value: Any, words: Collection[str]) -> None:
    """Refuse what is none of some words."""
    if not (isinstance(value, str) and value in words):
        quoted = [f'"{word}"' for word in words]
        listed = " or ".join(quoted) if len(quoted) < 4 else f"one of {', '.join(quoted)}"
        raise ValueError(f"{name} must be {listed}, got {value!r}.")


def array(name: str, value: Any, shape: Sequence[int | str]) -> np.ndarray:
    """Return finite numbers of a shape such as ``("samples", 3)`` as float64; equal words stand for equal lengths.

    An empty array is refused, too.
    """
    found, lengths = np.asarray(value, dtype=np.float64), dict[int | str, int]()
    fits = len(shape) == found.ndim and found.size > 0
    for side, length in zip(shape, found.shape, strict=False):
        fits = fits and lengths.setdefault(side, length if isinstance(side, str) else side) == length
    if not fits:
        wanted = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise ValueError(f"{name} must have shape {wanted} and not be empty, got shape {found.shape}.")
    if not np.isfinite(found).all():
        place = np.argwhere(~np.isfinite(found))[0].tolist()
        raise ValueError(f"{name} must be finite, but holds {found[*place]} at {place} (counted from 0).")
    return found


def unmasked(name: str, values: Any) -> np.ndarray:
    """Return values as an array; masked ones are refused, since their mask would be lost."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        where = np.argwhere(np.ma.getmaskarray(values))[0].tolist()
        raise ValueError(
            f"{name} is masked at {where} (of {np.ma.count_masked(values)} places), and a mask would be lost. Drop "
            f"or impute such samples first; {name}.filled(value) says what stands there."
        )
    if hasattr(type(values), "__getitem__") and not isinstance(values, Sequence) and not hasattr(values, "__array__"):
        raise ValueError(  # numpy would ask such a data set for samples without end
            f"{name} must be an array, got a {type(values).__name__}. Stack its samples first, such as "
            "np.stack([data[i][0] for i in range(len(data))])."
        )
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array, but its samples differ in shape. Pad or crop them first.") from None


def local(name: str, path: str | Path) -> Path:
    """Return the path of a file on this machine; refuse an address such as ``https://...``.

    Some libraries would fetch it, and nobody would have checked what came.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):  # two letters at least: C:/ is a drive
        raise ValueError(f"{name} must be a path on this machine, got the address {str(path)!r}; download it first.")
    return Path(path)


def meant(word: str, known: Iterable[str]) -> str:
    """Return the known word that is nearest as `` (did you mean it?)``, empty if none is near."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def warn_of_near(cls: type, base: type) -> None:
    """Warn of public functions of a class that override none of its base's, but have nearly the name of one."""
    steps = [name for name, value in vars(base).items() if isfunction(value) and not name.startswith("_")]
    for name, value in vars(cls).items():
        near = difflib.get_close_matches(name, steps, 1, cutoff=0.85)
        if near and name not in steps and isfunction(value) and not name.startswith("_"):
            warnings.warn(
                f"{cls.__name__}.{name} is no step of methods; {near[0]} is one. Give it that name if it is meant to "
                "override the step, else another one.",
                stacklevel=3,
            )


@contextmanager
def naming(where: object) -> Iterator[None]:
    """Let the message of a ValueError in the block begin with where the fault lies, such as a file."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def names(name: str, value: Any) -> None:
    """Refuse what is no collection of names, such as one name alone."""
    if isinstance(value, str) or not (isinstance(value, Collection) and all(isinstance(one, str) for one in value)):
        raise ValueError(f'{name} must be a sequence of names such as ["hidden"], got {value!r}.')


def check_fields(of: Any, **rules: str | int | tuple[str, ...]) -> None:
    """Check a frozen dataclass: fields annotated as float, int or bool hold such values, and all keep to `rules`.

    A rule is the interval of a number, the smallest whole number, or the words of a text. None is allowed where the
    annotation or the default says so. Numbers become Python's own.
    """
    for field in fields(of):
        name, value, rule = field.name, getattr(of, field.name), rules.get(field.name)
        annotation = field.type.__name__ if isinstance(field.type, type) else str(field.type)
        kind, _, other = annotation.partition(" | ")
        if value is None and (other.endswith("None") or field.default is None):
            continue
        if isinstance(rule, tuple):
            choice(name, value, rule)
        elif kind == "float" and other in ("", "None"):
            object.__setattr__(of, name, number(name, value, _EVERY if rule is None else str(rule)))
        elif kind == "int" and other in ("", "None"):
            object.__setattr__(of, name, whole(name, value, None if rule is None else int(rule)))
        elif kind == "bool":
            if not isinstance(_python(value), bool):
                raise ValueError(f"{name} must be True or False, got {value!r}.")
            object.__setattr__(of, name, _python(value))


def _python(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 else value

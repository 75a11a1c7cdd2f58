"""Make a dataclass of a table, and say in one sentence each what does not fit."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedstat._checks import meant
from fedstat.experiment.dealing import KINDS

T = TypeVar("T")
Table = Mapping[str, Any]

#: What may stand instead of a known name.
OWN = 'or one\'s own, as "mine.py:Name"'
_STRICT = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "text",
    **dict.fromkeys(("list", "tuple", "sequence"), "a list"),
    **dict.fromkeys(("dataclass", "dict", "mapping", "model"), "a table"),
    "too": "a list that is not empty",
}


def looked_up(key: str, find: Callable[[Any], T], what: Any) -> T:
    """Return what is found by a function; errors name the key, in one line."""
    try:
        return find(what)
    except (ValueError, TypeError, NameError) as error:
        raise ValueError(f"{key}: {one_line(error)}") from None


def validated(
    cls: type[T], table: Table, key: str, beside: Iterable[str] = (), tables: Mapping[str, type | None] | None = None
) -> T:
    """Make a dataclass of the table at a key; the ValueError has a line for each value that does not fit.

    `beside` are keys of the table that were taken out before. `tables` are those inside, each with its class, or None
    where the keys are known by other means.
    """
    try:
        (made,) = TypeAdapter(tuple[cls], config=_STRICT).validate_json(json.dumps([table], default=_no_text))  # type: ignore[valid-type]
        return made
    except ValidationError as error:
        raise ValueError("\n".join(_sentences(error, cls, table, key, beside, tables or {}))) from None
    except Exception as error:  # a class of one's own may fail in any way
        raise ValueError(f"{key}: {type(error).__name__}: {one_line(error)}") from None


def _no_text(value: Any) -> dict[str, str]:
    """Keep dates from passing for text."""
    return {type(value).__name__: str(value)}


def _sentences(
    error: ValidationError, cls: Any, table: Table, key: str, beside: Iterable[str], tables: Mapping[str, Any]
) -> list[str]:
    """One sentence for each value that pydantic refused."""
    places: dict[tuple[tuple[Any, ...], bool], list[Any]] = {}
    for one in error.errors():
        places.setdefault(_place(one, table), []).append(one)
    found = []
    for (path, alternative), errors in places.items():
        above, where = (".".join(filter(None, [key, *map(toml_key, map(str, of))])) for of in (path[:-1], path))
        kinds = {one["type"]: one for one in errors}
        if "told" in kinds:
            found += kinds["told"]["ctx"]["said"].splitlines()
        elif "value_error" in kinds:
            found.append(f"{where}: {one_line(kinds['value_error']['ctx']['error'])}".removeprefix(": "))
        elif "union_tag_not_found" in kinds:
            found.append(f"{where}.kind is missing; it is one of {quoted_names(KINDS)}.")
        elif "union_tag_invalid" in kinds:
            found.append(no_such(f"{where}.kind", reduce(getitem, (*path, "kind"), table), KINDS))
        elif kinds.keys() == {"missing"} and not alternative:
            # tables that name something take any other key
            held = reduce(getitem, path[:-1], table) if path[-1] == "name" else ()
            near = next((f"; {above} holds {one} (did you mean name?)" for one in held if meant(one, ["name"])), "")
            found.append(f"[{where}] is missing." if where in tables else f"{where} is missing{near}.")
        elif kinds.keys() == {"unexpected_keyword_argument"} and not alternative:
            names = list(dict.fromkeys([*beside, *_keys(cls, table, path[:-1], tables)]))
            of = f"[{above}]" if above else "the file"
            found.append(f"there is no key {where}{meant(str(path[-1]), names)}; {of} may hold {', '.join(names)}.")
        else:
            value = reduce(getitem, path, table)
            wanted = dict.fromkeys(filter(None, map(_wanted, errors)))
            found.append(f"{where or 'the table'} must be {' or '.join(wanted)}, got {shown(value)}.")
    return found


def _keys(cls: Any, table: Table, path: Sequence[str], tables: Mapping[str, Any]) -> list[str]:
    """Return what a table may hold: that of a class, or one inside a file."""
    held = (tables[path[0]] or KINDS[table["partition"]["kind"]]) if tables and path else cls
    return list(inspect.signature(held).parameters)


def _place(error: Any, table: Table) -> tuple[tuple[Any, ...], bool]:
    """Return the place of an error in the table, and whether another type of value would have avoided it."""
    # what is not in the table is an alternative's name
    path: tuple[Any, ...] = ()
    found: Any = table
    for depth, step in enumerate(error["loc"][1:], 2):
        if error["type"] in ("missing", "unexpected_keyword_argument") and depth == len(error["loc"]):
            return (*path, step), False
        if path == ("partition",) and found.get("kind") == step:  # pydantic names the kind on the way to its keys
            continue
        if not (step in found if isinstance(found, dict) else isinstance(found, list) and isinstance(step, int)):
            return path, True
        path, found = (*path, step), found[step]
    return path, False


def _wanted(error: Any) -> str:
    """Say which value would have been right."""
    kind = error["type"]
    if kind == "missing":
        return f"a table with {error['loc'][-1]}"
    if kind == "needs_python_object":
        return OWN.removeprefix("or ")
    if kind == "literal_error":
        return error["ctx"]["expected"].replace("'", '"')
    if kind in ("unexpected_keyword_argument", "callable_type", "is_instance_of"):
        return ""
    if kind.endswith(("_type", "_from_float", "_short", "_number")) and (word := _WORDS.get(kind.split("_")[0])):
        return word
    return error["msg"].removeprefix("Input should be ").lower()


def no_such(key: str, value: Any, known: Iterable[str], also: str = "") -> str:
    """Say that a value is none of the known ones, which might be meant, and what `also` may stand."""
    close = meant(value, known) if isinstance(value, str) else ""
    return f"{key} must be one of {quoted_names(known)}{also and '; '}{also}; got {shown(value)}{close}."


def quoted_names(names: Iterable[str]) -> str:
    """List names, each in quotes."""
    return ", ".join(f'"{name}"' for name in names)


def shown(value: Any) -> str:
    """Show a value as a file would hold it, and of a long one the beginning."""
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):
        return "something huge"
    return text if len(text) <= 80 else f"{text[:77]}..."


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    return " ".join(str(error).split())


def toml_key(key: str) -> str:
    """Write a key as TOML does: in quotes where it is no bare word."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)

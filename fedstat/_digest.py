"""One hash for anything: samples, modules, objects, and what a user's own functions and classes do.

Two processes hash equal things equally: no address, no order of a set and no name of a file enters. A user's own code
enters as bytecode, since code at a prompt has nothing else. Line numbers, comments and docstrings therefore do not
count (docstrings of functions inside others do), while Python's version does. With the bytecode enter its constants,
its defaults, its enclosed variables, and whatever it looks up by name in its own module or in other modules of the
user. Code of Python, of installed packages and of fedstat enters by its name alone, and so does a module that is
imported inside a function.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedstat._mapped import Mapped

#: Attributes of every class that say nothing of what it does; pickling an object writes ``__slotnames__``.
_ASIDE = {"__module__", "__doc__", "__slotnames__", "__firstlineno__", "__static_attributes__"}
_ASIDE |= {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
#: Attributes of every module of torch.
_MODULE = vars(nn.Module()).keys()


def digest(value: Any) -> str:
    """Return a value's hash as 16 hexadecimal digits; an object without readable content counts by its type alone."""
    head: bytes
    parts: Sequence[Any]
    hashed, todo = hashlib.sha256(), [value]
    seen: dict[int, tuple[int, Any]] = {}  # by id, which another object may take once this one is gone
    while todo:
        item = todo.pop()
        if id(item) in seen:
            head, parts = f"again {seen[id(item)][0]}".encode(), ()
        else:
            try:
                head, parts = _anatomy(item)
            except Exception:  # objects may do anything when they are looked at
                head, parts = f"object {_name(type(item))}".encode(), ()
            if parts and not isinstance(item, tuple | frozenset):  # constants may be one object or two equal ones
                seen[id(item)] = len(seen), item
        hashed.update(f"{len(head)} {len(parts)} ".encode() + head)
        todo.extend(reversed(parts))
    return hashed.hexdigest()[:16]


def _attributes(item: Any) -> dict[str, Any]:
    """Return an object's own attributes, without its cached properties."""
    cached = {n for cls in type(item).__mro__ for n, v in vars(cls).items() if isinstance(v, functools.cached_property)}
    return {name: value for name, value in getattr(item, "__dict__", {}).items() if name not in cached}


def decisive(module: nn.Module) -> dict[str, Any]:
    """Return what sets a module of torch apart from others of its class, apart from its tensors and children."""
    attributes = _attributes(module)
    hooks = {name: [*attributes.get(name, {}).values()] for name in ("_forward_hooks", "_forward_pre_hooks")}
    return {name: value for name, value in attributes.items() if name not in _MODULE} | hooks


def _anatomy(item: Any) -> tuple[bytes, Sequence[Any]]:
    """Return what an object is by itself, in bytes, and the parts that it is made of."""
    kind = _name(type(item)).encode()
    match item:
        case None | bool() | int() | float() | complex() | str() | bytes() if not isinstance(item, np.generic):
            return kind + repr(item).encode(errors="surrogatepass"), ()
        case Mapped():
            return _anatomy(np.asarray(item))
        case np.ndarray() | np.generic() if not item.dtype.hasobject:
            return f"array {item.dtype.str} {item.shape} ".encode() + item.tobytes(), ()
        case np.ndarray():
            return f"array {item.shape}".encode(), item.ravel().tolist()
        case Tensor():
            content = item.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            return f"tensor {item.dtype} {tuple(item.shape)} ".encode() + content.tobytes(), ()
        case dict() | MappingProxyType():
            return kind, [part for pair in item.items() for part in pair]
        case list() | tuple():
            return kind, item
        case set() | frozenset():
            return kind, sorted(map(digest, item))
        case functools.partial():
            return kind, (item.func, item.args, item.keywords)
        case MethodType():
            return kind, (item.__func__, item.__self__)
        case FunctionType():
            return _function(item)
        case type():
            return _class(item)
        case ModuleType():
            return f"module {item.__name__}".encode(), ()
        case property():
            return kind, (item.fget, item.fset, item.fdel)
        case staticmethod() | classmethod():
            return kind, (item.__func__,)
        case nn.Module():
            held = _attributes(item)
            return b"layers", (type(item), decisive(item), held["_parameters"], held["_buffers"], held["_modules"])
        case _ if is_dataclass(item):
            return b"dataclass", (type(item), {f.name: getattr(item, f.name) for f in fields(item)})
        case _ if _is_own(type(item).__module__):
            return b"object", (type(item), _attributes(item))
    inside = [v for n, v in _attributes(item).items() if n == "__wrapped__"]  # of functools.cache and its like
    if callable(item) or isinstance(item, torch.dtype) or type(item).__hash__ is not object.__hash__:  # it is a value
        kind += re.sub("0x[0-9a-f]+", "", repr(item)).encode(errors="surrogatepass")
    return kind, inside


def _function(function: FunctionType) -> tuple[bytes, Sequence[Any]]:
    enclosed = [_content(cell) for cell in function.__closure__ or ()]
    kept = (function.__defaults__, function.__kwdefaults__, enclosed)
    scope = function.__globals__
    if not _is_own(str(scope.get("__name__"))):
        return f"function {_name(function)}".encode(), kept
    return b"function", (*kept, *_code(function.__code__, scope, function.__doc__))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put there yet
        return None


def _code(code: CodeType, scope: Mapping[str, Any], doc: str | None = None) -> list[Any]:
    """Return what a piece of code does, and what it looks up in its module."""
    constants = [_code(c, scope) if isinstance(c, CodeType) else c for c in code.co_consts if doc is None or c != doc]
    loaded = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    names = sorted(name for name in loaded & scope.keys() if not name.startswith("__"))  # __name__, __file__
    reached = {name: _reached(scope[name], code.co_names) for name in names}
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return [code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames, counts, constants, reached]


def _reached(value: Any, names: Sequence[str]) -> Any:
    """Return what some code may take by name from a module of the user; any other value comes back as it is."""
    if not isinstance(value, ModuleType) or not _is_own(value.__name__):
        return value
    content = vars(value)
    return {name: _reached(content[name], [n for n in names if n != name]) for name in names if name in content}


def _class(cls: type) -> tuple[bytes, Sequence[Any]]:
    if not _is_own(cls.__module__):
        return f"class {_name(cls)}".encode(), ()
    return b"class", (cls.__bases__, {name: v for name, v in sorted(vars(cls).items()) if name not in _ASIDE})


def _name(item: type | FunctionType) -> str:
    return f"{item.__module__}.{item.__qualname__}"


def _is_own(module: str) -> bool:
    """Tell whether a module is the user's own: neither Python's, nor installed, nor fedstat's."""
    top = module.partition(".")[0]
    if top in ("__main__", "fedstat") or top in sys.stdlib_module_names:
        return top == "__main__"
    file = getattr(sys.modules.get(module) or sys.modules.get(top), "__file__", None)
    return not {"site-packages", "dist-packages"} & set(Path(file or "").parts)

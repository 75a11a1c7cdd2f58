"""Read Python's pickle format as data: nothing that a file names is ever imported or called.

The opcodes that arrays and plain values need are interpreted here; any other opcode is refused. A name such as
``numpy.core.multiarray _reconstruct`` is only a text here, to which this reader has an answer.
"""

from __future__ import annotations

import math
import pickletools
import re
from collections.abc import Collection
from typing import Any

import numpy as np

_VALUES = {
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "GLOBAL"),
}
_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": _MARK}
_OPCODES = 1 << 21  # CIFAR's largest file has some 200,000; an empty dictionary is one byte there and 64 here


class Attributes(dict[Any, Any]):
    """The attributes of an object, which itself is never made."""


def read_pickled(raw: bytes, name: str, classes: Collection[str] = ()) -> Any:
    """Return the lists, dicts, tuples, numbers, strings, bytes and arrays of a pickle.

    Protocols 2 to 4 are read, and 5 without arrays. Strings of Python 2 are bytes. Arrays hold numbers, or any of the
    other things; they take no more memory than the file does, but for the addresses of what they hold. Objects of
    `classes`, each a module and a name with a space between, are returned as their `Attributes`. Anything else is a
    ValueError that blames the file `name`.
    """
    try:
        return _build(raw, classes)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{name} is no pickle of arrays and plain values: {str(error)[:200]}.") from None


def _build(raw: bytes, classes: Collection[str]) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    room = len(raw)  # a pickle may use one long string for many arrays

    def last(count: int) -> list[Any]:
        values = [_plain(value) for value in stack[-count:]]
        del stack[-count:]
        return values

    def since_mark() -> list[Any]:
        start = len(stack) - 1
        while stack[start] is not _MARK:
            start -= 1
            if start < 0:
                raise ValueError("a mark is missing")
        values = stack[start + 1 :]
        del stack[start:]
        return values

    argument: Any
    for number, (opcode, argument, position) in enumerate(pickletools.genops(raw)):
        if number >= _OPCODES:
            raise ValueError(f"it has more than {_OPCODES:,} opcodes")
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "STOP":
                return _plain(stack.pop())
            case kind if kind in _VALUES:
                stack.append(argument)
            case kind if kind in _CONSTANTS:
                stack.append(_CONSTANTS[kind])
            case "BINSTRING" | "SHORT_BINSTRING":
                stack.append(argument.encode("latin-1"))
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "TUPLE":
                stack.append(tuple(since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(last(int(opcode.name[-1]))))
            case "APPEND" | "APPENDS":
                values = last(1) if opcode.name == "APPEND" else since_mark()
                _top(stack, list).extend(values)
            case "SETITEM" | "SETITEMS":
                values = last(2) if opcode.name == "SETITEM" else since_mark()
                _top(stack, dict).update(zip(map(_key, values[::2]), values[1::2], strict=True))
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = _plain(stack[-1])
            case "MEMOIZE":
                memo[len(memo)] = _plain(stack[-1])
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                stack.append(f"{module} {attribute}")
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append(_call(function, arguments))
            case "NEWOBJ":
                arguments, function = stack.pop(), stack.pop()
                if arguments != () or not isinstance(function, str) or function not in classes:
                    raise ValueError(f"it holds an object of {str(function)[:80]!r}")
                stack.append(Attributes())
            case "BUILD":
                state = stack.pop()
                room -= _restore(stack[-1], state, room)
            case other:
                raise ValueError(f"opcode {other} at byte {position} is not needed for data")
    raise ValueError("it does not end")


def _call(function: Any, arguments: Any) -> Any:
    """Answer the calls by which a pickle makes an array or a number of numpy's."""
    if not (isinstance(function, str) and isinstance(arguments, tuple)):
        raise ValueError("it calls what has no name")
    if function in ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct"):
        if arguments == ("numpy ndarray", (0,), b"b"):
            return np.empty(0, np.int8)
    elif function in ("numpy.core.multiarray scalar", "numpy._core.multiarray scalar"):
        dtype, value = arguments
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and isinstance(value, bytes):
            (number,) = np.frombuffer(value, dtype)
            return number
    elif function == "numpy dtype" and arguments[1:] == (False, True):
        code = arguments[0].decode("ascii") if isinstance(arguments[0], bytes) else arguments[0]
        if re.fullmatch("b1|[iu][1248]|f[248]|O8", code):
            return np.dtype(code, copy=True)
    raise ValueError(f"it calls {function[:80]!r} for something other than an array of numbers")


def _restore(target: Any, state: Any, room: int) -> int:
    """Give a data type its byte order, an array or an object its values; return how many bytes the values take."""
    if type(target) is Attributes and type(state) is dict:
        target.update(state)
        return 0
    if isinstance(target, np.dtype):
        _, order, *rest = state
        order = order.decode("ascii") if isinstance(order, bytes) else order
        if order not in ("<", ">", "|") or rest != [None, None, None, -1, -1, 63 * (target.kind == "O")]:
            raise ValueError("a data type is not one of plain numbers")
        target.__setstate__((3, order, *rest))  # type: ignore[attr-defined]
        return 0
    if not isinstance(target, np.ndarray) or target.size:
        raise ValueError(f"it restores {type(target).__name__}, which is no empty array")
    _, shape, dtype, fortran, values = state
    whole = isinstance(shape, tuple) and len(shape) <= 8 and all(type(n) is int and 0 <= n < 2**48 for n in shape)
    if not (whole and type(fortran) is bool):
        raise ValueError("an array has no shape")
    if not isinstance(dtype, np.dtype) or type(values) is not (list if dtype.kind == "O" else bytes):
        raise ValueError("an array holds no plain numbers")
    if math.prod(shape) * (1 if dtype.kind == "O" else dtype.itemsize) != len(values):
        raise ValueError(f"an array of shape {shape} has {len(values):,} {'values' if dtype.kind == 'O' else 'bytes'}")
    if len(values) > room:
        raise ValueError("its arrays are larger than the file")
    target.__setstate__((1, shape, dtype, fortran, values))  # type: ignore[arg-type]
    return len(values)


def _plain(value: Any) -> Any:
    if value is _MARK:
        raise ValueError("a mark is misplaced")
    return value


def _top(stack: list[Any], kind: type) -> Any:
    if type(stack[-1]) is not kind:
        raise ValueError(f"it adds to {type(stack[-1]).__name__} as if to {kind.__name__}")
    return stack[-1]


def _key(key: Any) -> str | bytes | int:
    if type(key) not in (str, bytes, int):
        raise ValueError(f"a key is of type {type(key).__name__}")
    return key

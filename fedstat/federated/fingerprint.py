"""Describe and hash what must stay the same for a run to be continued, and say in words what differs.

One hash, `digest`, is for anything: samples, modules, objects, and what a user's own functions and classes do. Two
processes hash equal things equally: no address, no order of a set and no name of a file enters. A user's own code
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
import json
import re
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, NoneType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedstat._mapped import Mapped, in_blocks
from fedstat.data import Clients, Samples
from fedstat.federated.client.convolution import ProductConv2d
from fedstat.federated.client.network import Network

#: The parts that are hashed for every seed, in the words of an error.
_PARTS = {
    "train": "training samples",
    "validation": "validation samples",
    "test": "test samples",
    "common": "common test samples",
    "names": "names or classes of clients",
    "truth": "truth about the clients",
    "network": "layers, or code of the network,",
    "weights": "initial weights",
}

#: How many hashes of inputs make a sketch of the data.
_SKETCH = 8
#: What is compared in another way, and what may differ between a run and the one that continues it.
_ASIDE = {
    "fingerprint", "code", "training_code", "attendance_code", "python", "device", "rounds", "rounds_asked", "finished",
    "evaluated", "predictions",
}  # fmt: skip

#: Attributes of every class that say nothing of what it does; pickling an object writes ``__slotnames__``.
_SILENT = {"__module__", "__doc__", "__slotnames__", "__firstlineno__", "__static_attributes__"}
_SILENT |= {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
#: Attributes of every module of torch.
_MODULE = vars(nn.Module()).keys()


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, partials and functions into plain values that name them; None is dropped."""
    if isinstance(value, functools.partial):
        return {"factory": plain(value.func), "args": [plain(a) for a in value.args], **plain(value.keywords)}
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {"type": _name(type(value)), **plain({f.name: getattr(value, f.name) for f in fields(value)})}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return plain(value.tolist())
    if isinstance(value, Set):
        return sorted(plain(v) for v in value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(v) for v in value]
    if isinstance(value, nn.Module):
        return f"module {type(value).__name__}"
    if callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return value if isinstance(value, str | int | float) else repr(value)


def of_clients(clients: Clients) -> dict[str, str]:
    """Hash every split that exists, and the clients' names, classes and truth; say whose samples prepared the inputs.

    By ``pool``, ``train_pool``, ``held`` and ``sketch`` (the eight smallest hashes of single inputs) one knows data
    that are dealt or split anew from new data. Inputs count as they were given, whatever prepared them.
    """
    hashes = {
        name: clients.given[name] if name in clients.given else _hashes(of) for name, of in clients.splits.items()
    }
    sums = {name: np.add.reduceat(hashes[name], of.start) for name, of in clients.splits.items()}  # by client
    held = np.sum(list(sums.values()), axis=0, dtype=np.uint64)
    ordered = np.sort(np.concatenate(list(hashes.values())))
    least = ordered[np.append(True, np.diff(ordered) > 0)][:_SKETCH]  # many times faster than np.unique
    return {
        **{name: _of_samples(of) for name, of in clients.all_splits.items()},
        **({} if clients.truth is None else {"truth": digest(clients.truth)}),
        "fit_on": clients.fit_on,
        "names": digest((json.dumps(list(clients.names)), clients.classes, clients.labels)),
        "pool": f"{int(held.sum(dtype=np.uint64)):016x}",
        "train_pool": f"{int(sums['train'].sum(dtype=np.uint64)):016x}",
        "held": digest(held),
        "sketch": " ".join(f"{int(one):016x}" for one in least),
    }


def _of_samples(samples: Samples) -> str:
    """Hash all samples, client after client."""
    x, y = samples.x, samples.y
    hashed = hashlib.sha256(f"{x.dtype.str} {x.shape[1:]} {y.dtype.str} ".encode())
    hashed.update(samples.n.astype(np.int64).tobytes())
    for _, block in in_blocks(x):
        hashed.update(np.ascontiguousarray(block).data)
    hashed.update(np.ascontiguousarray(y).data)
    return hashed.hexdigest()[:16]


def _hashes(samples: Samples) -> np.ndarray:
    """Return a hash of each input, client after client, equal in all processes."""
    width = int(np.prod(samples.x.shape[1:])) * samples.x.dtype.itemsize
    words, hashes = -(-width // 8), []
    factors = np.random.default_rng(0).integers(1, 2**63, words, dtype=np.uint64) | np.uint64(1)
    for _, block in in_blocks(samples.x):
        rows = np.ascontiguousarray(block).reshape(len(block), -1).view(np.uint8)
        mixed = np.pad(rows, ((0, 0), (0, 8 * words - width))).view(np.uint64) @ factors
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        hashes.append(mixed ^ (mixed >> np.uint64(32)))
    return np.concatenate(hashes)


def of_network(network: Network) -> dict[str, str]:
    """Hash a network's structure and code, and its initial values: the same on a GPU, which computes otherwise."""
    layers = [
        (name, nn.Conv2d if type(layer) is ProductConv2d else type(layer), decisive(layer),
         [(n, p.requires_grad) for n, p in layer.named_parameters(recurse=False)])
        for name, layer in network.module.named_modules(remove_duplicate=False)
    ]  # fmt: skip
    tensors = {**dict(network.module.named_parameters()), **dict(network.module.named_buffers())}
    shapes = {name: (str(tensor.dtype), tuple(tensor.shape)) for name, tensor in tensors.items()}
    return {"network": digest((layers, shapes)), "weights": digest(tensors)}


def of_seeds(config: Mapping[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """Return the part of a run's configuration that speaks of some of its seeds."""
    tables = {name: {str(s): config[name][str(s)] for s in seeds} for name in ("classes", "clients", "fingerprint")}
    return {**config, **tables, "seeds": list(seeds)}


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """List in words how the configuration of a saved run, `there`, differs from the one `here`, key by key."""
    names = [name for name in dict.fromkeys([*here, "attack"]) if name not in _ASIDE]  # not every run has an attack
    different = [one for name in names for one in _values(there.get(name), here.get(name), name)]
    coded: list[str] = []
    prints, mine = _table(there, "fingerprint"), here["fingerprint"]
    both = {seed: _table(prints, seed) for seed in mine if seed in prints}  # seeds that differ are listed already
    for part, what in _PARTS.items():
        pairs = {seed: (before.get(part), mine[seed].get(part)) for seed, before in both.items()}
        seeds = [seed for seed, (a, b) in pairs.items() if a != b]
        if part == "weights":  # other layers have other weights anyway
            seeds = [seed for seed in seeds if both[seed].get("network") == mine[seed]["network"]]
        if seeds:
            without, only = (all(pairs[seed][i] is None for seed in seeds) for i in (0, 1))
            which = f"{what} of seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"
            word = f"no {which}" if without else f"{which} (none here)" if only else f"other {which}"
            (coded if part == "network" else different).append(word)
    codes, specs = _table(there, "code"), _table(there, "methods")
    for label, code in here["code"].items():
        if codes.get(label) != code and specs.get(label) == here["methods"][label]:
            coded.append(f"other code of the method {label!r}")
    if there.get("training_code") != here["training_code"] and there.get("training") == here["training"]:
        coded.append("other code of the loss, the optimiser or the schedule")
    pair = [config.get("attendance_code") for config in (there, here)]
    if pair[0] != pair[1] and there.get("participation") == here["participation"]:
        coded.append("other code of the attendance")
    return different + coded + (_values(there.get("python"), here["python"], "python") if coded else [])


def _values(there: Any, here: Any, name: str) -> list[str]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        keys = dict.fromkeys([*there, *here])
        return [one for key in keys for one in _values(there.get(key), here.get(key), f"{name}.{key}")]
    if there == here:
        return []
    return [f"{name} = {_shown(there)} ({_shown(here)} here)"]


def _shown(value: Any) -> str:
    return "nothing" if value is None else reprlib.repr(value)


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}


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
    hooks = {name: [*getattr(module, name).values()] for name in ("_forward_hooks", "_forward_pre_hooks")}
    return {name: value for name, value in _attributes(module).items() if name not in _MODULE} | hooks


def _anatomy(item: Any) -> tuple[bytes, Sequence[Any]]:
    """Return what an object is by itself, in bytes, and the parts that it is made of."""
    for classes, anatomy in _ANATOMY.items():
        if isinstance(item, classes):
            return anatomy(item)
    if is_dataclass(item):
        return b"dataclass", (type(item), {f.name: getattr(item, f.name) for f in fields(item)})
    if _is_own(type(item).__module__):
        return b"object", (type(item), _attributes(item))
    inside = [v for n, v in _attributes(item).items() if n == "__wrapped__"]  # of functools.cache and its like
    if callable(item) or isinstance(item, torch.dtype) or type(item).__hash__ is not object.__hash__:  # it is a value
        return _kind(item, re.sub("0x[0-9a-f]+", "", repr(item))), inside
    return _kind(item), inside


def _kind(item: Any, value: str = "") -> bytes:
    return f"{_name(type(item))}{value}".encode(errors="surrogatepass")


def _array(item: Any) -> tuple[bytes, Sequence[Any]]:
    array = np.asarray(item)
    if array.dtype.hasobject:
        return f"array {array.shape}".encode(), array.ravel().tolist()
    return f"array {array.dtype.str} {array.shape} ".encode() + array.tobytes(), ()


def _tensor(item: Tensor) -> tuple[bytes, Sequence[Any]]:
    content = item.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"tensor {item.dtype} {tuple(item.shape)} ".encode() + content.tobytes(), ()


def _class(item: type) -> tuple[bytes, Sequence[Any]]:
    if not _is_own(item.__module__):
        return f"class {_name(item)}".encode(), ()
    return b"class", (item.__bases__, {name: of for name, of in sorted(vars(item).items()) if name not in _SILENT})


def _function(function: FunctionType) -> tuple[bytes, Sequence[Any]]:
    enclosed = [_content(cell) for cell in function.__closure__ or ()]
    kept = (function.__defaults__, function.__kwdefaults__, enclosed)
    scope = function.__globals__
    if not _is_own(str(scope.get("__name__"))):
        return f"function {_name(function)}".encode(), kept
    return b"function", (*kept, *_code(function.__code__, scope, function.__doc__))


#: The anatomy of objects by their classes, of which the first one counts.
_ANATOMY: dict[Any, Callable[[Any], tuple[bytes, Sequence[Any]]]] = {
    (dict, MappingProxyType): lambda pairs: (_kind(pairs), [part for pair in pairs.items() for part in pair]),
    (list, tuple): lambda items: (_kind(items), items),
    (set, frozenset): lambda items: (_kind(items), sorted(map(digest, items))),
    functools.partial: lambda item: (_kind(item), (item.func, item.args, item.keywords)),
    MethodType: lambda method: (_kind(method), (method.__func__, method.__self__)),
    property: lambda item: (_kind(item), (item.fget, item.fset, item.fdel)),
    (staticmethod, classmethod): lambda method: (_kind(method), (method.__func__,)),
    (np.ndarray, np.generic, Mapped): _array,
    (int, float, complex, str, bytes, NoneType): lambda value: (_kind(value, repr(value)), ()),
    Tensor: _tensor,
    FunctionType: _function,
    type: _class,
    ModuleType: lambda module: (f"module {module.__name__}".encode(), ()),
    nn.Module: lambda one: (b"layers", (type(one), decisive(one), one._parameters, one._buffers, one._modules)),
}


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


def _name(item: type | FunctionType) -> str:
    return f"{item.__module__}.{item.__qualname__}"


def _is_own(module: str) -> bool:
    """Tell whether a module is the user's own: neither Python's, nor installed, nor fedstat's."""
    top = module.partition(".")[0]
    if top in ("__main__", "fedstat") or top in sys.stdlib_module_names:
        return top == "__main__"
    file = getattr(sys.modules.get(module) or sys.modules.get(top), "__file__", None)
    return not {"site-packages", "dist-packages"} & set(Path(file or "").parts)

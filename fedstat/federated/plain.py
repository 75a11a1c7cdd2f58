"""Describe a run's configuration in plain values, as TOML can hold it, and rebuild fedstat's own objects from them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from fedstat.federated.client import optimizers, schedules
from fedstat.federated.client.local import AnyTraining, Training
from fedstat.federated.client.network import Model


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, partials and functions into plain values that name them; None is dropped."""
    if isinstance(value, functools.partial):
        return {"factory": plain(value.func), "args": [plain(a) for a in value.args], **plain(value.keywords)}
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        items = {f.name: getattr(value, f.name) for f in fields(value)}
        return {"type": f"{type(value).__module__}.{type(value).__qualname__}", **plain(items)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, np.ndarray | Tensor):
        return value.tolist()
    if isinstance(value, Set):
        return sorted(plain(v) for v in value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(v) for v in value]
    if isinstance(value, nn.Module):
        return f"module {type(value).__name__}"
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float) else repr(value)


def revived_method(spec: Any) -> Any:
    """Rebuild a method of fedstat from its description; None for a user's method, or if arguments were functions."""
    if isinstance(spec, Mapping) and "type" in spec:
        module, _, name = str(spec["type"]).rpartition(".")
        if not f"{module}.".startswith("fedstat.methods."):
            return None
        try:
            cls = getattr(importlib.import_module(module), name)
            if not (isinstance(cls, type) and is_dataclass(cls) and cls.__module__ == module):
                return None  # nothing but the methods and their arguments is ever called
            return cls(**{f.name: revived_method(spec.get(f.name)) for f in fields(cls)})
        except (ImportError, AttributeError, TypeError, ValueError):
            return None
    if isinstance(spec, Mapping):
        return {k: revived_method(v) for k, v in spec.items()}
    return spec


def revived_training(spec: Any) -> AnyTraining | None:
    """Rebuild local training from its description; None if a loss, optimiser or schedule is not fedstat's own."""
    if not isinstance(spec, Mapping) or isinstance(spec.get("type"), str):
        return _revived_training(spec)
    made = {label: _revived_training(one) for label, one in spec.items()}
    known = {label: one for label, one in made.items() if one is not None}
    return known if len(known) == len(made) else None


def _revived_training(spec: Any) -> Training | None:
    if not isinstance(spec, Mapping):
        return None
    known: dict[str, Any] = {
        cls.__qualname__: cls
        for cls in (*vars(optimizers).values(), *vars(schedules).values())
        if isinstance(cls, type) and is_dataclass(cls)
    }

    def made(value: Any) -> Any:
        if isinstance(value, Mapping) and value["type"].startswith("fedstat.federated."):
            # nothing but the optimisers and schedules is ever called, wherever they lay when the run was made
            return known[value["type"].rpartition(".")[2]](
                **{name: made(v) for name, v in value.items() if name != "type"}
            )
        return tuple(value) if isinstance(value, list) else value

    try:
        return Training(**{name: made(value) for name, value in spec.items() if name != "type"})
    except (KeyError, TypeError, ValueError):
        return None


def revived_factory(spec: Any) -> Model | None:
    """Rebuild a factory of `fedstat.models` from its description; None for anything else."""
    if not isinstance(spec, Mapping):
        return None
    module, _, name = str(spec.get("factory", "")).rpartition(".")
    if not module.startswith("fedstat.models."):
        return None
    keywords = {k: v for k, v in spec.items() if k not in ("factory", "args")}
    try:
        network = getattr(importlib.import_module(module), name)
        if isinstance(network, type) and issubclass(network, nn.Module) and network.__module__ == module:
            return functools.partial(network, *spec.get("args", ()), **keywords)
    except (ImportError, AttributeError, TypeError, ValueError):
        pass
    return None  # nothing but the networks and their arguments is ever called

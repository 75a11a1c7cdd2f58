"""Rebuild methods, training and networks of fedstat from the plain values that describe them in a run."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import nn

from fedstat.federated import aggregators, attacks, attendance, compression, mechanisms, server
from fedstat.federated.client import optimizers, schedules
from fedstat.federated.client.local import AnyTraining, Training
from fedstat.federated.client.network import Model

#: Where arguments of a run lie whose descriptions are rebuilt, beside methods.
_MODULES = {module.__name__ for module in (server, aggregators, attacks, attendance, compression, mechanisms)}


def revived_method(spec: Any) -> Any:
    """Rebuild a method, attack or attendance from its description; None for a user's, and where functions are given."""
    if isinstance(spec, Mapping) and "type" in spec:
        module, _, name = str(spec["type"]).rpartition(".")
        if not f"{module}.".startswith("fedstat.methods.") and module not in _MODULES:
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

"""Traces that a forward pass leaves: layers called, random numbers drawn, tensors changed; and which layer did it."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Watch(ExitStack):
    """Follows the calls of a module's layers: those begun, those under way, and those done, inner ones first."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.running: list[tuple[str, list[Tensor], tuple[Any, ...]]] = []
        self.done: list[tuple[str, list[Tensor], list[Tensor], bool]] = []
        device = next(module.parameters()).device

        def before(name: str) -> Callable[..., None]:
            def begin(_: nn.Module, inputs: tuple[Any, ...]) -> None:
                self.begun.append(name)
                self.running.append((name, _tensors(inputs), generators(device)))

            return begin

        def after(_: nn.Module, __: object, outputs: Any) -> None:
            name, inputs, state = self.running.pop()
            self.done.append((name, inputs, _tensors(outputs), state != generators(device)))

        for name, layer in module.named_modules():
            self.enter_context(layer.register_forward_pre_hook(before(name)))
            self.enter_context(layer.register_forward_hook(after))


def _tensors(values: Any) -> list[Tensor]:
    """Copy the tensors among a layer's inputs or outputs, however nested in tuples and lists."""
    if isinstance(values, Tensor):
        return [values.detach().clone()]
    return [t for value in values for t in _tensors(value)] if isinstance(values, tuple | list) else []


def layer_called(name: str) -> str:
    """Name a layer in a sentence; "" is the module itself."""
    return f"layer {name!r}" if name else "its own forward pass"


def first_difference(module: nn.Module, here: Tensor, there: Tensor) -> str:
    """Find the innermost layer whose outputs differ for equal inputs in two calls, the second on fewer samples."""
    calls = []
    for x in (here, there):
        with Watch(module) as watch:
            module(x.clone())
        calls.append(watch.done)

    def apart(some: list[Tensor], others: list[Tensor]) -> bool:
        pairs = [(a[: len(b)] if a.ndim and b.ndim else a, b) for a, b in zip(some, others, strict=False)]
        return any(a.shape == b.shape and differ(a, b, 1e-6) for a, b in pairs)

    for (name, inputs, outputs, _), (_, others, results, _) in zip(*calls, strict=False):
        if apart(outputs, results) and not apart(inputs, others):
            return layer_called(name)
    return layer_called("")


def draws_of(module: nn.Module, x: Tensor) -> str:
    """Say where random numbers are drawn."""
    device = x.device
    functions: list[str] = []

    class Draws(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            before = generators(device)
            result = function(*args, **(kwargs or {}))
            if before != generators(device):
                functions.append(getattr(function, "__name__", str(function)))
            return result

    module.train()
    with Draws(), Watch(module) as watch:
        module(x.clone())
    where = next((name for name, *_, drew in watch.done if drew), "")
    by = f" ({', '.join(dict.fromkeys(functions))})" if functions else ""
    return (
        f"{layer_called(where)} draws random numbers{by}, so that a run could be neither repeated nor continued. Make "
        "a dropout a layer (nn.Dropout), which then draws from the run's seed, and do without other noise."
    )


def generators(device: torch.device) -> tuple[Any, ...]:
    """Return the state of all global generators."""
    states = [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])
    _, keys, *rest = np.random.get_state()  # noqa: NPY002
    return (random.getstate(), np.asarray(keys).tobytes(), *rest, *(state.numpy().tobytes() for state in states))


def same(here: Tensor, there: Tensor) -> bool:
    """Tell whether two tensors are equal; NaN equals NaN."""
    if here.shape != there.shape:
        return False
    return torch.equal(here, there) or bool(((here == there) | ((here != here) & (there != there))).all())


def differ(found: Tensor, wanted: Tensor, tolerance: float, least: float = 0.0) -> bool:
    """Tell whether two tensors differ by more than a share of the largest number, which counts as `least` at least."""
    if found.shape != wanted.shape:
        return True
    if not found.numel():
        return False
    found, wanted = found.detach().double(), wanted.detach().double()
    largest = float(torch.where(wanted.isfinite(), wanted, 0).abs().max())
    return not torch.allclose(found, wanted, rtol=0, atol=tolerance * max(least, largest), equal_nan=True)

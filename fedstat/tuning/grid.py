"""What tuning chooses from: values of a method's parameters and of local training, and the order of the choices."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from fedstat._checks import meant
from fedstat.federated.client.local import Training
from fedstat.federated.fingerprint import digest
from fedstat.federated.method import Method

#: What makes a method from values: a class, a function or partial with parameters by name, or a method to be changed.
Maker = Callable[..., Method] | Method
#: The ratios between neighbours count as equal if they differ by this factor at most: in 1, 3, 10 but not in 1, 2, 5.
_ALIKE = 1.2


@dataclass(frozen=True, eq=False)
class Trial:
    """One assignment of values to all parameters of the grid, with the method and the local training that it means."""

    values: Mapping[str, Any]
    method: Method
    training: Training

    @property
    def label(self) -> str:
        """The values in words, by which the trial is known in tables."""
        return assigned(self.values)


@dataclass(frozen=True, eq=False)
class Grid:
    """All that can be chosen.

    `steps` are parameters that are chosen together, step by step; before its own step a parameter is held at its value
    of `start`. `factors` are ratios of the two smallest values, of those whose values are in equal ratios.
    """

    maker: Maker
    training: Training
    values: Mapping[str, tuple[Any, ...]]
    steps: tuple[tuple[str, ...], ...]
    start: Mapping[str, Any]
    factors: Mapping[str, float]

    @classmethod
    def of(
        cls,
        maker: Maker,
        training: Training,
        values: Mapping[str, Iterable[Any]],
        order: Sequence[str | Sequence[str]] | None,
        start: Mapping[str, Any] | None,
    ) -> Grid:
        """Check arguments that are those of `fedstat.tune`; it raises its errors."""
        if not isinstance(maker, Method) and not callable(maker):
            raise ValueError(f"method must be one Method, its class or a function that makes one, got {maker!r}.")
        if not isinstance(training, Training):
            raise ValueError(f"training must be a fedstat Training, got {training!r}.")
        if not isinstance(values, Mapping) or not values:
            raise ValueError(f'grid must map parameters to values, such as {{"mu": [0.01, 0.1, 1]}}, got {values!r}.')
        for name in values:  # an unknown one is told before what its values lack
            place_of(maker, name)
        listed = {name: _values(name, some) for name, some in values.items()}
        begin = {name: _start(maker, training, name, some[0]) for name, some in listed.items()}
        if unknown := sorted(set(start or {}) - set(listed)):
            raise ValueError(f"start names {unknown[0]!r}, which the grid does not hold; set it in the method itself.")
        factors = {name: factor for name, some in listed.items() if (factor := _factor(some))}
        made = cls(maker, training, listed, _steps(order, listed), begin | dict(start or {}), factors)
        for name, some in listed.items():  # what a method refuses is refused before anything runs
            for value in some:
                made.trial({**made.start, name: value})
        return made

    def trial(self, values: Mapping[str, Any]) -> Trial:
        """Make the method and the training of an assignment."""
        split: dict[str, dict[str, Any]] = {"method": {}, "training": {}}
        for name, value in values.items():
            whose, own = place_of(self.maker, name)
            split[whose][own] = value
        make = partial(replace, self.maker) if isinstance(self.maker, Method) else self.maker
        method = make(**split["method"])
        if not isinstance(method, Method):
            raise ValueError(f"method must make a fedstat Method of the grid's values, got {method!r}.")
        return Trial(dict(values), method, replace(self.training, **split["training"]))

    def trials(self, step: Sequence[str], held: Mapping[str, Any]) -> list[Trial]:
        """Return a step's trials: every combination of its parameters' values, the others as they are held."""
        combined = product(*(self.values[name] for name in step))
        return [self.trial({**held, **dict(zip(step, values, strict=True))}) for values in combined]

    def grown(self, step: Iterable[str], chosen: Mapping[str, Any]) -> Grid:
        """Return the grid with a value more wherever a choice of this step is an end of values in equal ratios.

        The value beyond an end lies there by the parameter's factor, floats to two digits. One that the method or the
        training refuses is left out, and so is a fraction among whole numbers.
        """
        values = dict(self.values)
        for name in self.ends({name: chosen[name] for name in step if name in self.factors}):
            some, end, factor = values[name], chosen[name], self.factors[name]
            exact = end * factor if end == max(some) else end / factor
            beyond = float(f"{exact:.2g}") if isinstance(end, float) else round(exact)
            try:
                self.trial({**chosen, name: beyond})
            except ValueError:
                continue
            if beyond not in some and (isinstance(end, float) or abs(beyond - exact) < 1e-9 * exact):
                values[name] = (beyond, *some) if end == some[0] else (*some, beyond)
        return replace(self, values=values)

    def ends(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the chosen values that are an end of an ordered grid."""
        found = {}
        for name, value in values.items():
            numbers = [rank(one) for one in self.values[name]]
            if None not in numbers and rank(value) in (min(numbers), max(numbers)):  # type: ignore[type-var]
                found[name] = value
        return found


def assigned(values: Mapping[str, Any]) -> str:
    """Say values by their names."""
    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())


def shown(value: Any) -> str:
    """Say a value in words, in a line."""
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    return getattr(value, "__qualname__", None) or repr(value)


def rank(value: Any) -> float | None:
    """Return the number by which a value is ordered: its own, or that of an object with one, such as a quantile."""
    if is_dataclass(value) and len(fields(value)) == 1:
        value = getattr(value, fields(value)[0].name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _values(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """List a parameter's values, which must be several and different."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise ValueError(f"grid[{name!r}] must list values, such as [0.01, 0.1, 1], got {values!r}.")
    listed = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    if len(listed) < 2:
        what = f"one value, {shown(listed[0])}" if listed else "no value"
        raise ValueError(f"grid[{name!r}] holds {what}: nothing is chosen there. Give the method its value instead.")
    hashes = [digest(value) for value in listed]
    if twice := [value for value, one in zip(listed, hashes, strict=True) if hashes.count(one) > 1]:
        raise ValueError(f"grid[{name!r}] holds {shown(twice[0])} twice.")
    if len({shown(value) for value in listed}) < len(listed):
        raise ValueError(f"grid[{name!r}] holds values that read alike, {listed!r}; give them names of their own.")
    return listed


def _factor(values: Iterable[Any]) -> float | None:
    """Return the ratio of the two smallest of positive numbers in equal ratios; None for other values."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) and value > 0 for value in values):
        return None
    ratios = [high / low for low, high in pairwise(sorted(values))]
    return ratios[0] if max(ratios) <= _ALIKE * min(ratios) else None


def _steps(order: Sequence[str | Sequence[str]] | None, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the steps of an order, which must name every parameter once."""
    if order is None:
        return (tuple(names),)
    if isinstance(order, str):
        raise ValueError(f"order must be a sequence of parameters, such as ({order!r},), got {order!r}.")
    steps = tuple((one,) if isinstance(one, str) else tuple(one) for one in order)
    named = [name for step in steps for name in step]
    if missing := [name for name in names if name not in named]:
        raise ValueError(f"order misses {', '.join(missing)}; name every parameter of the grid once.")
    if wrong := [name for name in named if name not in names or named.count(name) > 1]:
        raise ValueError(f"order names {wrong[0]!r}, which the grid lacks or the order names twice.")
    if () in steps:
        raise ValueError(f"order holds an empty step: {order!r}.")
    return steps


def place_of(maker: Maker, name: str) -> tuple[str, str]:
    """Return whose parameter a name of the grid means, "method" or "training", and its own name; ValueError if none."""
    own, free = _parameters(maker)
    trained = [field.name for field in fields(Training)]
    whose, _, rest = name.partition(".")
    if whose == "method" and (rest in own or (free and rest)):
        return "method", rest
    if whose == "training" and rest in trained:
        return "training", rest
    if name in own and name in trained:
        raise ValueError(f"grid: both the method and the training have {name!r}; say method.{name} or training.{name}.")
    if name in own or name in trained:
        return ("method" if name in own else "training"), name
    if free and name.isidentifier():
        return "method", name
    raise ValueError(
        f"grid: there is no parameter {name!r}{meant(name, [*own, *trained])}; the method has "
        f"{', '.join(own) or 'none'}, the training {', '.join(trained)}."
    )


def _start(maker: Maker, training: Training, name: str, first: Any) -> Any:
    """Return a parameter's value before its step: the method's or training's, or the first of the grid without one."""
    whose, own = place_of(maker, name)
    if whose == "training":
        return getattr(training, own)
    default = _parameters(maker)[0].get(own, MISSING)
    return first if default is MISSING else default


def _parameters(maker: Maker) -> tuple[dict[str, Any], bool]:
    """Return what a maker can be told, with the values that hold otherwise, and whether it takes any other name."""
    if isinstance(maker, Method):
        return {field.name: getattr(maker, field.name) for field in fields(maker) if field.init}, False
    if isinstance(maker, partial):
        own, free = _parameters(maker.func)
        return own | dict(maker.keywords), free
    if isinstance(maker, type) and is_dataclass(maker):
        made = {f.name: f.default_factory() for f in fields(maker) if f.default_factory is not MISSING}
        return {f.name: made.get(f.name, f.default) for f in fields(maker) if f.init}, False
    try:
        signature = inspect.signature(maker).parameters.values()
    except (ValueError, TypeError):  # some callables do not tell
        return {}, True
    named = [p for p in signature if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    free = any(p.kind is p.VAR_KEYWORD for p in signature)
    return {p.name: MISSING if p.default is p.empty else p.default for p in named}, free

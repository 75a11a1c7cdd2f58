"""What the names and options of a configuration stand for: methods and their parts, attacks, attendances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import fedstat as fs
from fedstat._checks import number
from fedstat._user_code import load_object
from fedstat.experiment.config import Choice
from fedstat.experiment.validation import OWN, looked_up, no_such, one_line, validated
from fedstat.federated import Method
from fedstat.federated.aggregators import AGGREGATORS, Krum
from fedstat.federated.attacks import ATTACKS, Attack, check_attack
from fedstat.federated.attendance import ATTENDANCES, Attendance
from fedstat.federated.compression import COMPRESSIONS
from fedstat.federated.mechanisms import MECHANISMS
from fedstat.federated.server import SERVER_OPTIMIZERS

#: Options of methods that name an object.
OF_METHODS: dict[str, Mapping[str, Any]] = {
    "server": SERVER_OPTIMIZERS,
    "aggregator": {"mean": None, **AGGREGATORS, "multi-krum": Krum},
    "compression": COMPRESSIONS,
    "mechanism": MECHANISMS,
}


def make_method(choice: Choice, key: str = "method") -> Method:
    """Return the method that a choice names, with its options; errors begin with `key`."""
    if ":" in choice.name:
        found = looked_up(key, fs.methods.find, choice.name)
    else:
        try:
            found = fs.methods.find(choice.name)
        except ValueError:
            raise ValueError(no_such(f"{key}.name", choice.name, fs.methods.available(), OWN)) from None
    options = dict(choice.options)
    given = {part: options.pop(part) for part in OF_METHODS if part in options}
    method = validated(found, options, key, ("name", *OF_METHODS, "training", "grid"))
    made = {}
    for part, one in given.items():
        named = validated(Choice, {"name": one} if isinstance(one, str) else one, f"{key}.{part}")
        if named.name == "multi-krum" and "kept" not in named.options:
            raise ValueError(f'{key}.{part}.kept is missing; say how many changes are averaged, or take "krum".')
        made[part] = made_of(named, f"{key}.{part}", OF_METHODS[part])
    try:
        return replace(method, **made)
    except ValueError as error:  # begins with the name of a field
        raise ValueError(f"{key}.{one_line(error)}") from None


def make_attack(choice: Choice) -> Attack:
    """Return the attack that a choice names, with its options."""
    made: Attack = made_of(choice, "attack", ATTACKS)
    check_attack(made)
    return made


def participation(value: Any, key: str = "participation") -> float | Attendance:
    """Return the share of clients that a configuration names, or the attendance; errors begin with `key`."""
    if not isinstance(value, Mapping):
        return number(key, value, "(0, 1]")
    choice, inner = validated(Choice, value, key), {}
    if isinstance(base := choice.options.get("participation"), Mapping):
        inner["participation"] = participation(base, f"{key}.participation")
        choice = choice.given({**choice.options, "participation": 1.0})
    made = made_of(choice, key, ATTENDANCES)
    return replace(made, **inner) if inner else made


def made_of(choice: Choice, key: str, known: Mapping[str, Any]) -> Any:
    """Return what a choice names: an object as it is, or a class with its options."""
    if ":" not in choice.name and choice.name not in known:
        raise ValueError(no_such(f"{key}.name", choice.name, known, OWN))
    found = looked_up(key, load_object, choice.name) if ":" in choice.name else known[choice.name]
    if isinstance(found, type):
        return validated(found, choice.options, key, ("name",))
    if choice.options:
        raise ValueError(
            f"{key}: {choice.name} is no class, and takes no options such as {next(iter(choice.options))}."
        )
    return found

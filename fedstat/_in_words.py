"""Numbers of things in words; attacks and attendances as a run's configuration describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def counted(count: int, noun: str) -> str:
    """Count things in words: ``1 factor``, ``2 factors``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def part(spec: Any) -> str:
    """Write a part of a run as its call, such as ``Dropout(participation=1.0)``, or as the name of a function."""
    return spec.rpartition(".")[2] if isinstance(spec, str) else _value(spec)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name}={_value(one)}" for name, one in value.items() if name != "type")
        return f"{str(value.get('type', '')).rpartition('.')[2]}({inner})"
    if isinstance(value, list | tuple):
        shown = [_value(one) for one in value]
        return f"({', '.join(shown if len(shown) <= 4 else [shown[0], '...', shown[-1]])})"
    return str(value)


def attacked(config: Mapping[str, Any]) -> list[str]:
    """Say of an attacked run who attacks, and that the others are measured; nothing where nobody attacks."""
    from fedstat._random import share_of  # it loads numpy, which the help of commands does without

    what, held = config.get("attack", {}).get("what"), config.get("clients", {}).values()
    if not what or what.get("share") == 0:
        return []
    if "share" in what:
        pairs = sorted({(share_of(int(k), what["share"]), int(k)) for k in held})
        who = " or ".join(f"{count} of {clients}" for count, clients in pairs)
        who += " clients attacks" if pairs[-1][0] == 1 else " clients attack"
    else:
        who = "some clients attack"  # a share that is computed is no part of a configuration
    drawn = "drawn by each seed, so that other clients are honest in each"
    if len(config["seeds"]) == 1:
        drawn = "drawn by the seed"
    elif "participants" not in config["vary"]:
        drawn = "drawn once for all seeds"
    return [f"{who} by {part(what)}, {drawn}; values are those of the honest clients alone"]

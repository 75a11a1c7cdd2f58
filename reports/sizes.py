"""How large our runs are beside the papers': the committed configuration, and the paper scale of the same study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from simulations.names import NETWORKS
from simulations.showing import NONE
from simulations.studies import study

#: Where a configuration has what a size is told by, the first place that there is. Of stages, rounds at which a run is
#: looked at, the last counts.
PLACES = {
    "clients": ("clients",),
    "samples": ("samples", "train", "most"),
    "rounds": ("rounds", "stages"),
    "epochs": ("local_epochs", "epochs"),
    "network": ("network",),
}


def sizes(name: str, config: Mapping[str, Any]) -> dict[str, dict[str, str]] | None:
    """Return the sizes of a study's committed runs and those of its paper scale; None where both are one.

    Parameters
    ----------
    name : str
        Which study.
    config : mapping
        The configuration of the committed tables.

    Returns
    -------
    dict or None
        For ``ours`` and ``paper`` the words for clients, samples of a client, rounds, epochs and network, of the first
        experiment if there are several.
    """
    if config["scale"] == "paper":
        return None
    found = {"ours": config, "paper": asdict(study(name).SCALES["paper"])}
    return {whose: {what: _first(held, keys) for what, keys in PLACES.items()} for whose, held in found.items()}


def _first(held: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """Return in words the first value under one of some keys, however deep, that is a number or a name."""
    for key in keys:
        for value in _under(held, key):
            last = value[-1] if key == "stages" else value
            if isinstance(last, (int, str)):
                return NETWORKS.get(str(last), str(last))
    return NONE


def _under(held: Any, key: str) -> Iterator[Any]:
    """Yield what stands under a key, from the outside to the inside; of a list the first entry counts."""
    if isinstance(held, (list, tuple)) and held:
        yield from _under(held[0], key)
    elif isinstance(held, Mapping):
        if key in held:
            yield held[key]
        for value in held.values():
            yield from _under(value, key)

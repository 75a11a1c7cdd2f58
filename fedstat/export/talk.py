"""What every way of carrying packets needs: who is who, the questions before the first round, what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd

from fedstat.export.packet import Packet, Refused, number
from fedstat.export.server import Packets, Server


def begin(server: Server, hellos: Packets, ask: Callable[[Packets], Packets]) -> None:
    """Let a server ask all that it needs before the first round."""
    opening = server.opening(hellos)
    try:
        packets = next(opening)
        while True:
            packets = opening.send(ask(packets))
    except StopIteration:
        return


def introduced(hellos: Iterable[tuple[Any, Packet]], clients: int) -> dict[int, tuple[Any, Packet]]:
    """Return who is which client, by number.

    Raises
    ------
    Refused
        If two say that they are the same client.
    """
    found: dict[int, tuple[Any, Packet]] = {}
    for who, packet in hellos:
        k = number(packet, "number", 0, clients - 1)
        if k in found:
            raise Refused(f"two clients say that they are client {k}; give each a number of its own.")
        found[k] = who, packet
    return found


def measured(answers: Packets, round: int) -> pd.DataFrame:
    """Tabulate what clients measured: round, client, estimand, metric, value."""

    def lines() -> Iterator[tuple[int, int, str, str, float]]:
        for k, packet in sorted(answers.items()):
            for name, value in packet.numbers.items():
                estimand, slash, metric = name.partition("/")
                if slash:
                    yield round, k, estimand, metric, float(value)

    return pd.DataFrame(lines(), columns=["round", "client", "estimand", "metric", "value"])

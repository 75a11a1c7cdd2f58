"""What every way of carrying packets needs: who is who, the questions before the first round, what cannot be read."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np

from fedstat._in_words import counted
from fedstat.export.packet import Ask, Packet, Refused, number, question
from fedstat.export.server import Packets, Replies, Server

Place = TypeVar("Place")

#: The first question to everybody, who forgets what an earlier run left.
HELLO = question(Ask.HELLO, 0)


class Over(Exception):
    """Raised where a run ends before its last round; what there is by then is returned."""


@contextmanager
def until_over(server: Server) -> Iterator[None]:
    """Let a run that is `Over` or interrupted end early, with a warning in place of the error."""
    main = threading.current_thread() is threading.main_thread()  # no other may set what a signal does
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if main else None  # Flower ends the process
    try:
        yield
    except (Over, KeyboardInterrupt) as end:
        words = f"the run ended early, after {counted(server.round, 'round')}: {str(end) or 'it was interrupted'}."
        warnings.warn(words, RuntimeWarning, 2)
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


def read(decode: Callable[..., Packet], *carried: Any) -> Packet | Refused:
    """Return the packet in what was carried, or why there is none."""
    try:
        return decode(*carried)
    except Refused as error:
        return error


def decoded(arrays: Mapping[str, Callable[[], np.ndarray]], numbers: Mapping[str, Any]) -> Packet:
    """Return the packet of arrays, which are read here, and of numbers; refuse what cannot be read or is no number."""
    found = {}
    for name, array in arrays.items():
        try:
            found[name] = array()
        except Exception as error:  # any bytes may lie there
            raise Refused(f"array {name!r} is none: {error}") from None
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"number {name!r} must be one number, got {value!r}.")
    return Packet(found, dict(numbers))


def begin(server: Server, hellos: Replies, ask: Callable[[Packets], Replies]) -> None:
    """Let a server ask all that it needs before the first round."""
    opening = server.opening(hellos)
    with suppress(StopIteration):
        packets = next(opening)
        while True:
            packets = opening.send(ask(packets))


def meet(
    server: Server, there: Iterable[Place], ask: Callable[[Mapping[int, Place], Packets], Replies]
) -> dict[int, Place]:
    """Learn which place is which client, by number, and begin the run; refuse two who say the same number."""
    asked = dict(enumerate(there))
    places, hellos = dict[int, Place](), dict[int, Packet]()
    for i, hello in ask(asked, dict.fromkeys(asked, HELLO)).items():
        if isinstance(hello, Refused):
            raise hello
        k = number(hello, "number", 0, server.clients - 1)
        if k in places:
            raise Refused(f"two clients say that they are client {k}; give each a number of its own.")
        places[k], hellos[k] = asked[i], hello
    begin(server, hellos, partial(ask, places))
    return places


def welcome_back(
    server: Server,
    places: dict[int, Place],
    there: Collection[Place],
    ask: Callable[[Mapping[int, Place], Packets], Replies],
) -> None:
    """Let clients whose connection broke take their places again; a place whose connection holds is not given away."""
    new = dict(enumerate(place for place in there if place not in places.values()))
    for i, reply in ask(new, dict.fromkeys(new, question(Ask.RETURN, server.round))).items():
        try:
            k = server.returned(reply)
        except Refused as error:
            warnings.warn(f"a connection that is no client of this run is passed over: {error}", RuntimeWarning, 2)
            continue
        if places[k] not in there:
            places[k] = new[i]

"""Decide when a run saves itself: after a number of rounds or seconds, and before SIGTERM ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

#: If time decides: least and largest number of seconds between two checkpoints, and the share that saving may take.
LEAST, MOST, SHARE = 10.0, 600.0, 0.05


class Checkpoints:
    """Which rounds of a run are saved: one in `every`, or by default as time decides.

    The first checkpoint is then due 10 seconds after this object was made, the next when 20 times as long has passed as
    saving took, but after 10 seconds at least and 10 minutes at most. `clock` returns seconds since some fixed moment.
    """

    def __init__(self, every: int | None = None, clock: Callable[[], float] = perf_counter) -> None:
        self.every, self.clock, self.wait = every, clock, LEAST
        self.since = clock()

    def due(self, done: int) -> bool:
        """Tell whether to save now that `done` rounds are finished."""
        if self.every is not None:
            return done % self.every == 0
        return self.clock() - self.since >= self.wait

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Measure how long saving takes."""
        begun = self.clock()
        yield
        self.since = self.clock()
        self.wait = min(max(LEAST, (self.since - begun) / SHARE), MOST)


class Terminated(SystemExit):
    """Raised when SIGTERM ends a run, after its last finished round was saved.

    If no code catches it the process ends with status 143, as if SIGTERM had ended it at once.

    Examples
    --------
    >>> from fedstat.federated import Terminated
    >>> try:
    ...     raise Terminated("ended after round 7; the same call continues it")
    ... except Terminated as end:
    ...     print(end, end.code)
    ended after round 7; the same call continues it 143
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 128 + signal.SIGTERM


@contextmanager
def sigterm_waits() -> Iterator[Callable[[], bool]]:
    """Let SIGTERM wait while the block runs; yield a function that tells the block whether it came.

    The earlier handler receives a second one, and one that came while the block was ending anyway.
    """
    before = signal.getsignal(signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    if not main or before in (signal.SIG_IGN, None):  # None: a handler that is not Python's
        yield lambda: False
        return
    came = False

    def note(*_: Any) -> None:
        nonlocal came
        if came:
            signal.signal(signal.SIGTERM, before)
            signal.raise_signal(signal.SIGTERM)
        came = True

    signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGTERM, before)
    if came:
        signal.raise_signal(signal.SIGTERM)

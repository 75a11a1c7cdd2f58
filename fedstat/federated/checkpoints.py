"""When a run saves itself: every so many rounds or seconds, and before SIGTERM ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

#: By time: seconds between two checkpoints, at least and at most; in between, the share of the time that saving takes.
LEAST, MOST, SHARE = 10.0, 600.0, 0.05


class Checkpoints:
    """Which rounds of a run are saved.

    Parameters
    ----------
    every : int, optional
        Rounds between checkpoints. By default they go by time: the first is due 10 seconds after this object was made,
        the next when 20 times as long has passed as saving took, but at least 10 seconds and at most 10 minutes.
    clock : callable
        Seconds since some moment.
    """

    def __init__(self, every: int | None = None, clock: Callable[[], float] = perf_counter) -> None:
        self.every, self.clock, self.wait = every, clock, LEAST
        self.since = clock()

    def due(self, done: int) -> bool:
        """Whether to save now that `done` rounds are finished."""
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
    """SIGTERM ended a run after its last finished round was saved.

    Where nobody catches it the process ends with status 143, as one that SIGTERM ends at once.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 128 + signal.SIGTERM


@contextmanager
def sigterm_waits(wanted: bool) -> Iterator[Callable[[], bool]]:
    """Let SIGTERM wait while the block runs; yield a function that tells whether it came, for the block to end itself.

    A second SIGTERM, and one that came when the block was ending anyway, go to who handled it before. Nothing changes
    if it is not `wanted`, outside the main thread, and where SIGTERM is ignored.
    """
    before = signal.getsignal(signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    if not wanted or not main or before in (signal.SIG_IGN, None):  # None: a handler that is not Python's
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

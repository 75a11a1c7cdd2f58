"""How much memory this process may plan with, and sizes in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

#: Where Linux says how much memory a container may use.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_GPU_SHARE: ContextVar[float] = ContextVar("gpu_share", default=1.0)


def machine_memory() -> int | None:
    """Return the bytes of memory of this machine, or of its container; None where the system does not tell."""
    found = []
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _LIMITS:
        with suppress(ValueError, OSError):
            found.append(int(Path(file).read_text()))
    return min(found, default=None)


@contextmanager
def sharing_gpu(share: float) -> Iterator[None]:
    """Plan with a share of a GPU's memory within the block; a share of more than one GPU is one."""
    token = _GPU_SHARE.set(min(1.0, share))
    try:
        yield
    finally:
        _GPU_SHARE.reset(token)


def gpu_share() -> float:
    """Return the share of a GPU's memory that may be planned with here, 1 where nobody else computes on it."""
    return _GPU_SHARE.get()


def in_words(size: float) -> str:
    """Write a number of bytes, such as "3.2 GB"."""
    power = min(4, max(0, len(f"{size:.0f}") - 1) // 3)
    return f"{size / 1000**power:,.4g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"

"""How much memory this process may use, and sizes in words."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: Where Linux says how much memory a container may use.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int | None:
    """Return the bytes of memory of this machine, or of its container; None where the system does not tell."""
    found = []
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _LIMITS:
        with suppress(ValueError, OSError):
            found.append(int(Path(file).read_text()))
    return min(found, default=None)


def in_words(size: float) -> str:
    """Write a number of bytes, such as "3.2 GB"."""
    power = min(4, max(0, len(f"{size:.0f}") - 1) // 3)
    return f"{size / 1000**power:,.4g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"

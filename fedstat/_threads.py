"""Limit BLAS threads: a second one slows small matrices down."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any


@functools.cache
def _blas() -> Any:
    """Find the BLAS libraries of this process, once: that costs more than a small eigendecomposition."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread(p: int = 0) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread if the order `p` is below 1500, where a second one only waits; by default always."""
    return _blas().limit(limits=1, user_api="blas") if p < 1500 else nullcontext()

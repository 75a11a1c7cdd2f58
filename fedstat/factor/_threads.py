"""BLAS threads: a second one slows small matrices down."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any


@functools.cache
def _blas() -> Any:
    """The BLAS libraries of this process; finding them costs more than a small eigendecomposition."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread(p: int = 0) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread: below order `p` = 1500, the default among them, a second one only waits."""
    return _blas().limit(limits=1, user_api="blas") if p < 1500 else nullcontext()

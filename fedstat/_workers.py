"""Run jobs on all cores, in worker processes with one thread each."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

from fedstat._progress import progress_bar

T = TypeVar("T")
#: The arguments of `warnings.showwarning`.
Said = tuple[str, type[Warning], str, int]

_kept: list[ProcessPoolExecutor] = []


@contextmanager
def kept_workers() -> Iterator[None]:
    """Let every `run_jobs` inside have the same workers, since starting them anew takes seconds each time."""
    with _started(os.cpu_count() or 1) as pool:
        _kept.append(pool)
        try:
            yield
        finally:
            _kept.remove(pool)


@contextmanager
def _workers(most: int) -> Iterator[ProcessPoolExecutor]:
    """Offer the workers that are kept, or some for now."""
    if _kept:
        yield _kept[-1]
    else:
        with _started(min(most, os.cpu_count() or 1)) as pool:
            yield pool


def _started(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=start_worker)


def run_jobs(what: str, jobs: Sequence[Callable[[], T]], *, done: int = 0, few: int = 1) -> list[T]:
    """Run jobs side by side and return what they return, in their order.

    Networks of the studies' size gain little from a second thread, and twice the jobs are done in the same time. A
    warning that several jobs give is shown once for each of them, by this process's own display.

    Parameters
    ----------
    what : str
        Stands before the progress bar.
    jobs : sequence of callables
        Importable, with arguments that can be pickled.
    done : int
        Jobs that were done before; the bar counts them.
    few : int
        Fewer jobs than this run in this process, since starting workers takes seconds.

    Raises
    ------
    Exception
        That of the first job that fails; jobs that have not begun are dropped then.
    """
    with progress_bar(what, done + len(jobs)) as advance:
        advance(steps=done)
        if len(jobs) < few:
            return [_advanced(job(), advance) for job in jobs]
        if not jobs:
            return []
        with _workers(len(jobs)) as pool:
            waiting = [pool.submit(_heard, job) for job in jobs]
            try:
                for finished in as_completed(waiting):
                    for said in finished.result()[1]:
                        warnings.showwarning(*said)
                    advance()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return [finished.result()[0] for finished in waiting]


def _advanced(result: T, advance: Callable[..., None]) -> T:
    advance()
    return result


def _heard(job: Callable[[], T]) -> tuple[T, list[Said]]:
    """Return what a job returns, and the warnings that it gave."""
    said: dict[Said, None] = {}

    def hear(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        said[str(message), category, filename, lineno] = None

    with warnings.catch_warnings():
        warnings.showwarning = hear
        return job(), list(said)


def start_worker() -> None:
    """Give this worker one core, and let it end with its parent even if that is killed."""
    from threadpoolctl import threadpool_limits

    threading.Thread(target=_leave_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later, torch among them
    threadpool_limits(limits=1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

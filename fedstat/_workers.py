"""Run jobs on all cores, in worker processes with one thread each."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from fedstat._progress import progress_bar

T = TypeVar("T")
#: The arguments of `warnings.showwarning`.
Said = tuple[str, type[Warning], str, int]


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
        That of the first job that fails; jobs that have not begun are dropped then. ChildProcessError if a worker
        process is killed.
    """
    with progress_bar(what, done + len(jobs)) as advance:
        advance(steps=done)
        if len(jobs) < few:
            return [_advanced(job(), advance) for job in jobs]
        if not jobs:
            return []
        spawn = multiprocessing.get_context("spawn")
        workers = min(len(jobs), os.cpu_count() or 1)
        with ProcessPoolExecutor(workers, mp_context=spawn, initializer=start_worker) as pool:
            waiting = [pool.submit(_heard, job) for job in jobs]
            try:
                for finished in as_completed(waiting):
                    for said in finished.result()[1]:
                        warnings.showwarning(*said)
                    advance()
            except BrokenProcessPool:
                raise ChildProcessError(
                    f"{what}: a worker process was killed, perhaps for want of memory. Start again: what was stored "
                    "before is kept."
                ) from None
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

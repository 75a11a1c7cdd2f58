"""Run jobs on all cores, in worker processes with one thread each; or on all machines of a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal, TypeVar, get_args

from fedstat._memory import sharing_gpu
from fedstat._progress import progress_bar
from fedstat._user_code import OWN

T = TypeVar("T")
#: The arguments of `warnings.showwarning`.
Said = tuple[str, type[Warning], str, int]
#: Who runs jobs.
Where = Literal["processes", "ray"]
WHERE: tuple[Where, ...] = get_args(Where)
#: How often Ray does a task again whose worker was killed.
RETRIES = 10
_PLACE: ContextVar[tuple[Where, float]] = ContextVar("place", default=("processes", 1.0))

_kept: list[ProcessPoolExecutor] = []


@contextmanager
def kept_workers() -> Iterator[None]:
    """Let every `run_jobs` inside have the same workers, since starting them anew takes seconds each time.

    Where jobs fail, those that come later have new ones.
    """
    _kept.append(_started(os.cpu_count() or 1))
    try:
        yield
    finally:
        _kept.pop().shutdown()


def _started(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=start_worker)


@contextmanager
def workers(where: Where, gpus: float = 1.0) -> Iterator[None]:
    """Let `run_jobs` use these workers within the block: processes of this machine, or tasks of a Ray cluster.

    A task has one core, and `gpus` if its job needs one. Without a cluster at hand, one is started on this machine; on
    other machines the same code and data must lie in the same places.
    """
    token = _PLACE.set((where, gpus))
    try:
        yield
    finally:
        _PLACE.reset(token)


def run_jobs(
    what: str,
    jobs: Sequence[Callable[[], T]],
    *,
    done: int = 0,
    few: int = 1,
    gpu: bool = False,
    keep: Callable[[int, T], None] = lambda k, result: None,
) -> list[T]:
    """Run jobs side by side and return what they return, in their order.

    Jobs are importable, with arguments that can be pickled. Fewer than `few` run in this process, since starting
    workers takes seconds; those that need a `gpu` run one by one on this machine, since workers would share it. The
    progress bar counts the jobs `done` before. `keep` gets a job's number and result, in this process, once it is done.

    The error of the first job that fails is raised; jobs that have not begun are dropped then, those on a Ray cluster
    when this process ends. A killed worker is a ChildProcessError. A warning that several jobs give is shown for each.
    """
    (where, gpus), results = _PLACE.get(), dict[int, T]()

    def finish(k: int, result: T, said: Sequence[Said] = ()) -> None:
        for words in said:
            warnings.showwarning(*words)
        results[k] = result
        keep(k, result)
        advance()

    with progress_bar(what, done + len(jobs)) as advance:
        advance(steps=done)
        if where == "ray" and jobs:
            _run_by_ray(jobs, gpus if gpu else 0, finish)
        elif gpu or len(jobs) < few:
            for k, job in enumerate(jobs):
                finish(k, job())
        elif jobs:
            _run_by_processes(what, jobs, finish)
    return [results[k] for k in range(len(jobs))]


def _run_by_processes(what: str, jobs: Sequence[Callable[[], T]], finish: Callable[[int, T, list[Said]], None]) -> None:
    with nullcontext(_kept[-1]) if _kept else _started(min(len(jobs), os.cpu_count() or 1)) as pool:
        waiting = {pool.submit(_heard, job): k for k, job in enumerate(jobs)}
        try:
            for finished in as_completed(waiting):
                finish(waiting[finished], *finished.result())
        except BaseException as error:
            pool.shutdown(cancel_futures=True)
            if _kept:
                _kept[-1] = _started(os.cpu_count() or 1)
            if isinstance(error, BrokenProcessPool):
                raise ChildProcessError(
                    f"{what}: a worker process was killed, perhaps for want of memory. Start again: what was stored "
                    "before is kept."
                ) from None
            raise


def _run_by_ray(jobs: Sequence[Callable[[], T]], gpus: float, finish: Callable[[int, T, list[Said]], None]) -> None:
    """Run jobs as tasks; one whose worker was killed is done again."""
    ray = connected()
    task = ray.remote(max_calls=0, max_retries=RETRIES)(_alone).options(num_cpus=1, num_gpus=gpus)
    waiting = {task.remote(job, gpus): k for k, job in enumerate(jobs)}
    try:
        while waiting:
            (finished,), _ = ray.wait(list(waiting))
            finish(waiting.pop(finished), *ray.get(finished))
    except ray.exceptions.RayTaskError as error:
        # no ray.cancel of the others: where it meets a task's end, Ray aborts this process (ray-project/ray#54785)
        raise error.cause from None


def connected() -> Any:
    """Return the module ray, connected to its cluster; own code that was loaded from files goes with what uses it."""
    try:
        import ray
    except ImportError:
        raise ImportError("the executor ray needs Ray: pip install 'fedstat[ray]'.") from None
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is to be sent anywhere
        ray.init()
    for name, module in list(sys.modules.items()):
        if name.startswith(OWN):
            ray.cloudpickle.register_pickle_by_value(module)
    return ray


def _alone(job: Callable[[], T], gpus: float) -> tuple[T, list[Said]]:
    """Do as `_heard`, with one thread and a share of a GPU, in a worker that others started."""
    _take_one_thread()
    with sharing_gpu(gpus):
        return _heard(job)


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
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _take_one_thread()


def _take_one_thread() -> None:
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later, torch among them
    threadpool_limits(limits=1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

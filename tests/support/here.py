"""Jobs of studies without workers."""

import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fedstat import _workers


@contextmanager
def jobs_here() -> Iterator[None]:
    """Let `run_jobs` run in this process, which is ready, what it gives to workers, and pickle it as for them."""

    def run(what, jobs, finish):
        for k, job in enumerate(jobs):
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # workers know nothing of the tests' filters
                answer = _workers._heard(pickle.loads(pickle.dumps(job)))
            finish(k, *pickle.loads(pickle.dumps(answer)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_workers, "_run_by_processes", run)
        yield

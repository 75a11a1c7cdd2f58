"""Jobs for workers, which load next to nothing."""

import os
import time
import warnings


def meet(folder, k):
    """Come back when somebody else has come; say which GPU and how many threads one was given, and who one is."""
    warnings.warn("the same for all", stacklevel=1)
    (folder / str(k)).touch()
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(list(folder.iterdir())) == 2
    return os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("OMP_NUM_THREADS"), os.getpid()


def fail():
    """Fail."""
    raise ArithmeticError("from a job")

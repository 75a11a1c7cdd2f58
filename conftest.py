"""What all tests share: Hypothesis repeats itself, torch uses one thread per process, small selections no workers."""

import gc
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
torch.set_num_threads(1)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run named files of the quick lane in this process: workers would take longer to start than they save."""
    files = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    return 0 if config.option.markexpr == "not slow" and all(map(Path.is_file, files)) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage while tests are read, which leave none, nor among what was read afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    """Leave no figure to the tests that follow: matplotlib warns of many."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(params=[2, pytest.param(5, marks=pytest.mark.slow)], ids=["few", "many"])
def examples(request: pytest.FixtureRequest) -> int:
    """Populations on which each law of a method is tried."""
    return request.param


@pytest.fixture(scope="module")
def made_up_data() -> Iterator[None]:
    """Let made-up files bear the names of published ones, whose sizes and hashes they do not have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedstat.data.datasets.check_found", lambda source, folder: None)
        yield

"""What all tests share: Hypothesis repeats itself, torch uses one thread per process, small selections no workers."""

import gc
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

#: Populations on which the quick lane tries each law of a method.
FEW = 2

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
torch.set_num_threads(1)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run named files of the quick lane in this process: workers would take longer to start than they save."""
    files = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    return 0 if config.option.markexpr == "not slow" and all(map(Path.is_file, files)) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests, which are kept to the end, without looking for garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out laws on few populations that are slow anyway: they are tried on many, which begin with these."""
    again = {item for item in items if item.get_closest_marker("slow") and _examples(item) == FEW}
    config.hook.pytest_deselected(items=[*again])
    items[:] = [item for item in items if item not in again]


def _examples(item: pytest.Item) -> int | None:
    """Return on how many populations a test tries a law."""
    return item.callspec.params.get("examples") if hasattr(item, "callspec") else None


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    """Leave no figure to the tests that follow: matplotlib warns of many."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(params=[FEW, pytest.param(5, marks=pytest.mark.slow)], ids=["few", "many"])
def examples(request: pytest.FixtureRequest) -> int:
    """Populations on which each law of a method is tried."""
    return request.param


@pytest.fixture(scope="module")
def made_up_data() -> Iterator[None]:
    """Let made-up files bear the names of published ones, whose sizes and hashes they do not have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedstat.data.datasets.check_found", lambda source, folder: None)
        yield

"""Load an object from a user's Python file, named like ``mine.py:MyMethod``."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: How the names of modules begin that were loaded so.
OWN = "fedstat_file_"
#: How `load_object` ends its refusal inside `no_user_code`.
NOT_RUN = "is Python code, which is not run now."
_forbidden = False


@contextmanager
def no_user_code() -> Iterator[None]:
    """Let `load_object` run no file while the block lasts."""
    global _forbidden
    before, _forbidden = _forbidden, True
    try:
        yield
    finally:
        _forbidden = before


def load_object(name: str) -> Any:
    """Run a Python file and return the object that has the name after the colon.

    Whatever goes wrong is a ValueError, and so is any call inside `no_user_code`.
    """
    if _forbidden:
        raise ValueError(f"{name} {NOT_RUN}")
    file, _, wanted = name.rpartition(":")
    path = Path(file)
    spec = importlib.util.spec_from_file_location(f"{OWN}{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        if path.suffix == ".py" and not path.exists():
            raise ValueError(f"{file} does not exist.")
        raise ValueError(f"{file!r} is no Python file; {name!r} should read like mine.py:Name.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"{file}{where} cannot be run: {type(error).__name__}: {str(error).rstrip('.')}.") from error
    if not hasattr(module, wanted):
        raise ValueError(f"{file} defines nothing called {wanted!r}.")
    return getattr(module, wanted)

"""Help that ends in examples, and errors as sentences that say what to type next."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

#: What click raises where a command is called wrongly; later versions of typer have a click of their own.
_UsageError: Any = typer.BadParameter.__base__
#: What messages say of a path that will not do, with the path as a group.
_ABSENT = re.compile(r"(?:^|')(?:[\w.]+: )*([^'\n]+?)'? does not exist(?=[.;]|$)")
_FOLDER = re.compile(r"[Ff]ile '(.+)' is a directory")
_NO_RESULTS = re.compile(r"^(.+?) holds no results that can be read")
_NO_COLUMN = re.compile(r"^(.+?) has no column ")


def taught(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the help of a command and its epilog, the examples of the docstring: help ends in what can be typed."""
    words, _, examples = (inspect.getdoc(function) or "").partition("\n\nExample")
    heading, *lines = (line.strip() for line in examples.splitlines() if line.strip("\b \n"))
    plain = words.replace("[", r"\[")  # of which rich would make markup
    return {"help": plain, "epilog": "\n\n".join([f"Example{heading}", *lines])}


class Sentences(TyperGroup):
    """Commands that print errors as sentences, not as tracebacks."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is named, and say of errors what would help."""
        try:
            return super().invoke(ctx)
        except _UsageError as told:
            if "Did you mean" in told.message and hasattr(told, "possibilities"):
                told.possibilities = None  # typer has suggested already what click will suggest
            told.message = _example(told) if hasattr(told, "param_type") else remedied(told.message)
            raise
        except BrokenPipeError:  # `| head` has read enough and closed the pipe
            raise
        except (ValueError, OSError, ImportError, MemoryError) as error:  # the last of an extra that is not installed
            said = str(error) or "there is not enough memory for it."  # of a MemoryError without words
            if isinstance(error, OSError) and error.filename and error.strerror:  # the system's words
                absent = isinstance(error, FileNotFoundError)
                said = f"{error.filename} does not exist." if absent else f"{error.filename}: {error.strerror}."
            typer.echo(f"error: {remedied(said)}", err=True)
            try:
                if sys.stdout is not None:  # closed by the shell
                    sys.stdout.flush()
            except OSError:  # a full disk: what is left must not be written at exit either
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None


def remedied(message: str) -> str:
    """Return a message with what to type instead, where that can be told from the paths that are there."""
    if (found := _ABSENT.search(message)) and not Path(found[1]).exists():
        end = near(Path(found[1]))
        return f"{message.rstrip('.')}{end}{'.' * (not end.endswith('?'))}"
    if found := _FOLDER.search(message):
        inside = sorted(map(str, Path(found[1]).glob("*.toml")))
        return f"{message.rstrip('.')}{'; name a file in it: ' * bool(inside)}{', '.join(inside[:5])}."
    if found := _NO_RESULTS.search(message):
        runs = sorted(str(file.parent) for file in Path(found[1]).glob("*/experiment.toml"))
        return f"{message.rstrip('.')}{'; there are runs in it: ' * bool(runs)}{', '.join(runs[:5])}."
    if (found := _NO_COLUMN.search(message)) and (run := Path(found[1]).parent / "experiment.toml").is_file():
        return f"{found[1]} is a summary of the run in {run.parent}; name the folder: `fedstat compare {run.parent}`."
    return message


def _example(missing: Any) -> str:
    """Return how the command that lacks something is called."""
    _, _, examples = (getattr(missing.ctx and missing.ctx.command, "epilog", None) or "").partition("\n\n")
    return f"For example: {examples.splitlines()[0]}" if examples else str(missing.message)


def near(path: Path) -> str:
    """Say which existing files the writer of a path may have meant, or which folder on its way is missing."""
    there = [place.is_dir() for place in path.parents]
    if not there[0]:
        missing = path.parents[there.index(True) - 1]
        return f", nor does the folder {missing}{near(missing)}"
    folder = path.parent
    try:
        names = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    except OSError:
        return ""
    fitting = [name for name in names if path.suffix and name.endswith(path.suffix)]
    close = difflib.get_close_matches(path.name, names, 3) or fitting[:5]
    return f"; did you mean {' or '.join(str(path.with_name(name)) for name in close)}?" if close else ""

"""Help that ends in examples, and errors as sentences that say what to type next."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from click.exceptions import UsageError
from typer.core import TyperGroup

#: How the messages of click begin or end that tell of a path which is not there.
_ABSENT = re.compile(r"(?:File|Directory|Path|Folder) '(.+)' does not exist")


def taught(function: Callable[..., Any]) -> dict[str, str]:
    """Return the help of a command and its epilog, the examples of the docstring: help ends in what can be typed."""
    words, _, examples = (inspect.getdoc(function) or "").partition("\n\nExample")
    heading, *lines = (line.strip() for line in examples.splitlines() if line.strip("\b \n"))
    return {"help": words, "epilog": "\n\n".join([f"Example{heading}", *lines])}


class Sentences(TyperGroup):
    """Commands that print errors as sentences, not as tracebacks."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is named, and say of errors what would help."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            if absent := _ABSENT.search(error.message):
                error.message = f"{error.message.rstrip('.')}{near(Path(absent[1]))}."
            raise
        except BrokenPipeError:  # `| head` has read enough and closed the pipe
            raise
        except (ValueError, OSError, ImportError) as error:  # the last of an extra that is not installed
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None


def near(path: Path, ends: tuple[str, ...] = ()) -> str:
    """Say which existing files the writer of a path may have meant; empty if there is none.

    Parameters
    ----------
    path : Path
        What is not there.
    ends : tuple of str
        What names of files must end in; by default as the path does.
    """
    folder = next(place for place in (path.parent, *path.absolute().parents) if place.is_dir())
    if folder != path.parent:
        return f"; there is no folder {path.parent}"
    wanted = ends or ((path.suffix,) if path.suffix else ("",))
    try:
        names = sorted(file.name for file in folder.iterdir() if not file.name.startswith(".")) if folder else []
    except OSError:
        return ""
    fitting = [name for name in names if name.endswith(wanted)]
    close = difflib.get_close_matches(path.name, names, 3) or fitting[:5]
    return f"; there is {', '.join(str(path.with_name(name)) for name in close)}" if close else ""

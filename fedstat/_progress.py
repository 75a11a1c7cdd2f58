"""Show progress bars on standard error if it is a terminal, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text


class _Noted(Progress):
    """A bar with a note on the line below it."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        yield from (Text(task.fields["note"], style="dim") for task in self.tasks if task.fields["note"])


@contextmanager
def progress_bar(what: str, total: int, show: bool | None = None) -> Iterator[Callable[..., None]]:
    """Yield a function that advances the bar by one step, or by `steps`, and shows what its `note` returns below it.

    Without a terminal on standard error there is no bar, and no notes are made.
    """
    visible = sys.stderr.isatty() if show is None else show
    bar = _Noted(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not visible,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total, note="")

        def advance(note: Callable[[], str] = str, steps: int = 1) -> None:
            if visible:
                bar.update(task, advance=steps, note=note())

        yield advance

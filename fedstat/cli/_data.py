"""``fedstat data``: which real data sets are there, and fetching them."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedstat.data.datasets.base import Source
    from fedstat.data.datasets.fetch import Show

data = typer.Typer(
    help="Real data sets: which are there, and fetching them.\n\nThey lie under one root, each in its own folder: "
    "FEDSTAT_DATA if it is set, else the platform's cache folder.",
    no_args_is_help=True,
)


@data.command("list")
def show() -> None:
    """Say which data sets are there, where, how large, and under which terms."""
    from fedstat.data.datasets import available, data_root

    root = data_root()
    typer.echo(f"data root: {root}")
    for name, source in available().items():
        paths = source.find(root / source.folder)
        typer.echo(f"\n{name:<16} {_state(source, root, paths)}")
        width = max(shutil.get_terminal_size().columns, 60) - 17
        more = f" and {len(paths) - 4} more" if len(paths) > 4 else ""
        for text in (", ".join(path.name for path in paths[:4]) + more, source.about, source.note):
            for line in textwrap.wrap(text, width, break_on_hyphens=False):
                typer.echo(f"{'':<16} {line}")


def _state(source: Source, root: Path, paths: list[Path]) -> str:
    from rich.filesize import decimal

    if paths:
        files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
        return f"{decimal(sum(file.stat().st_size for file in files))} in {paths[0].parent}"
    if not source.downloads:
        return f"not in {root / source.folder}"
    size = sum(download.size or 0 for download in source.downloads)
    return f"not there; `fedstat data fetch {source.name}` gets it" + (f" ({decimal(size)})" if size else "")


@data.command()
def fetch(name: Annotated[str, typer.Argument(help="As `fedstat data list` prints it.")]) -> None:
    """Download a data set from its official address.

    Goes on where an earlier download broke off, checks size and checksum,
    and keeps nothing that is not the published file. Archives are read in
    place and need no unpacking.
    """
    from fedstat.data.datasets import available, data_root
    from fedstat.data.datasets.fetch import fetch as fetch_source

    sources = available()
    if name not in sources:
        raise ValueError(f"there is no data set {name!r}; fedstat reads {', '.join(sources)}.")
    with _progress() as progress:
        folder = fetch_source(sources[name], data_root(), show=progress)
    typer.echo(f"{name} is in {folder}. {sources[name].note}")


@contextmanager
def _progress() -> Iterator[Show | None]:
    """A bar for each file, where somebody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    name = TextColumn("{task.description}")
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        tasks = {}

        def show(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=done)

        yield show

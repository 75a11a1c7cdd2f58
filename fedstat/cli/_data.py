"""``fedstat data``: list the real data sets, and fetch them."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedstat.cli._sentences import taught

if TYPE_CHECKING:
    from fedstat.data.datasets.base import Source
    from fedstat.data.datasets.fetch import Show

data = typer.Typer(
    help="List the real data sets, and fetch them.\n\nThey lie under one root, each in its own folder: "
    "FEDSTAT_DATA if it is set, else the platform's cache folder.",
    epilog="Examples:\n\nfedstat data list\n\nfedstat data fetch cifar10",
    no_args_is_help=True,
)


def show(name: Annotated[str | None, typer.Argument(help="One data set: its files and terms.")] = None) -> None:
    """Say which data sets are there, where, how large, and under which terms.

    Examples:

    \b
    fedstat data list
    fedstat data list digits
    """
    from fedstat.data.datasets import available, data_root

    root = data_root()
    if name is not None:
        source = _source(name)
        typer.echo(f"{name}: {source.about}")
        _block(_state(source, root), indent=2)
        _block(source.note, indent=2)
        return
    typer.echo(f"data root: {root}{'' if root.is_dir() else ' (there is no such folder)'}\n")
    for source in available().values():
        size = _size(source.find(root / source.folder)) or "-"
        _block(source.about, indent=28, first=f"{source.name:<16}{size:>10}  ")
    typer.echo("\n`fedstat data list NAME` names the files and terms of one, or how to get it.")


def _source(name: str) -> Source:
    from fedstat._checks import meant
    from fedstat.data.datasets import available

    sources = available()
    if name not in sources:
        raise ValueError(f"there is no data set {name!r}{meant(name, sources)}. `fedstat data list` names all.")
    return sources[name]


def _block(text: str, *, indent: int, first: str | None = None) -> None:
    """Print a text as wide as the terminal, at most 100 characters."""
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    lead = " " * indent
    for line in textwrap.wrap(
        text, width, initial_indent=first or lead, subsequent_indent=lead, break_on_hyphens=False
    ):
        typer.echo(line)


def _state(source: Source, root: Path) -> str:
    from rich.filesize import decimal

    folder = root / source.folder
    if paths := source.find(folder):
        more = f" and {len(paths) - 4} more" if len(paths) > 4 else ""
        return f"{_size(paths)} in {paths[0].parent}: {', '.join(path.name for path in paths[:4])}{more}"
    if not source.downloads:
        return f"not in {folder}"
    size = sum(download.size or 0 for download in source.downloads)
    files = ", ".join(download.file for download in source.downloads)
    of = f", {decimal(size)}" if size else ""
    return f"not in {folder}; `fedstat data fetch {source.name}` gets it ({files}{of})"


def _size(paths: list[Path]) -> str:
    """Return how large the files are together, empty if there are none."""
    from rich.filesize import decimal

    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return decimal(sum(file.stat().st_size for file in files if file.is_file())) if files else ""


def fetch(name: Annotated[str, typer.Argument(help="As `fedstat data list` prints it.")]) -> None:
    """Download a data set from its official address.

    Goes on where an earlier download broke off, checks size and checksum,
    and keeps nothing that is not the published file. Archives are read in
    place and need no unpacking.

    Example:

    \b
    fedstat data fetch cifar10
    """
    from fedstat.data.datasets import data_root
    from fedstat.data.datasets.fetch import fetch as fetch_source

    source = _source(name)
    with _progress() as progress:
        folder = fetch_source(source, data_root(), show=progress)
    typer.echo(f"{name} is in {folder}. {source.note}")


@contextmanager
def _progress() -> Iterator[Show | None]:
    """Show a bar for each file on a terminal."""
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


data.command("list", **taught(show))(show)
data.command(**taught(fetch))(fetch)

"""Real data sets, one file each: a file in this folder that makes a `Source` is all that a data set needs.

The data sets lie under one root, each in its own folder, as downloaded: archives are read in place.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from pathlib import Path

from fedstat.data.datasets.base import Dataset, Download, Source
from fedstat.data.datasets.digits import digits
from fedstat.data.datasets.published import check_found


def available() -> dict[str, Source]:
    """Return the data sets that fedstat can read, by name."""
    modules = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
    sources = [value for module in modules for value in vars(module).values() if isinstance(value, Source)]
    return {source.name: source for source in sorted(sources, key=lambda source: source.name)}


def data_root() -> Path:
    """Return the folder under which data sets lie: ``FEDSTAT_DATA``, else the platform's cache folder."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("FEDSTAT_DATA")
    return Path(chosen) if chosen else user_cache_path("fedstat")


def present(root: str | Path | None = None) -> dict[str, list[Path]]:
    """Return the data sets whose files are there, by name, each with the files that `read` would use, best first."""
    root = data_root() if root is None else Path(root)
    found = {name: source.find(root / source.folder) for name, source in available().items()}
    return {name: paths for name, paths in found.items() if paths}


def read(name: str, root: str | Path | None = None) -> Dataset:
    """Read a data set.

    Parameters
    ----------
    name : str
        As in `available`.
    root : path, optional
        Where the folders of the data sets lie; by default `data_root`.

    Raises
    ------
    ValueError
        If there is no data set of that name, or its files are damaged: those that bear the name of a published file
        are checked against its size and SHA-256, once in a process.
    FileNotFoundError
        If its files are not there.
    """
    source = check_present(name, root)
    folder = (data_root() if root is None else Path(root)) / source.folder
    check_found(source, folder)
    return source.read(folder)


def check_present(name: str, root: str | Path | None = None) -> Source:
    """Return a data set's source if its files are there; errors as those of `read`."""
    root = data_root() if root is None else Path(root)
    sources = available()
    if name not in sources:
        raise ValueError(f"there is no data set {name!r}; fedstat reads {', '.join(sources)}.")
    source = sources[name]
    if not source.find(root / source.folder):
        wanted = f" ({', '.join(download.file for download in source.downloads)})" if source.downloads else ""
        remedy = f"`fedstat data fetch {name}` downloads it" if source.downloads else source.note
        raise FileNotFoundError(
            f"{name} is not in {root / source.folder}{wanted}. Under {root} there are {', '.join(present(root))}. "
            f"{remedy}; FEDSTAT_DATA names another root."
        )
    return source


__all__ = ["Dataset", "Download", "Source", "available", "check_present", "data_root", "digits", "present", "read"]

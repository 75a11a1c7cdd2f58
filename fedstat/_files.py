"""Outputs appear whole or not at all, whatever ends the process that writes them.

A writer writes beside the output's place under a hidden name (``.NAME.new``), waits until that has reached the disk,
and then renames it. A folder cannot be renamed over another one: the old one is moved to ``.NAME.old`` for the moment
between two renames, and `complete_folder` finds it there if the process was killed in that moment. The next writer
puts it back and removes what the killed writer left. A lock (``.NAME.lock``), which ends with its process, keeps
writers apart.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where two writers of one output are not kept apart
    fcntl = None  # type: ignore[assignment]


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces it when the block succeeds."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file.")
    path = Path(path).resolve()  # the file that a link points to is replaced, and not the link
    with locked(path, wait=True):
        new = path.with_name(f".{path.stem}.new{path.suffix}")
        new.unlink(missing_ok=True)
        try:
            yield new
            reach_disk(new)
            os.replace(new, path)
        except OSError as error:
            if error.filename is None:  # a full disk, say: whoever reads the message should know which
                error.strerror = error.strerror or str(error)  # some libraries give words alone
                error.filename = str(path)
            raise
        finally:
            new.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a file of text, in UTF-8, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that replaces it when the block succeeds."""
    path = Path(path).resolve()
    with locked(path, wait=True), replaced(path) as new:
        yield new


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Do as `atomic_folder`, for a caller that holds the lock of `path`."""
    new, old = _beside(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path)
    try:
        new.mkdir()
        yield new
        # hard-linked files reached the disk with the folder before; disks take many small files together in one step
        fresh = [file for file in new.rglob("*") if file.is_dir() or file.stat().st_nlink == 1]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(reach_disk, [*fresh, new]))
        if path.exists():
            os.replace(path, old)
        os.replace(new, path)
        reach_disk(path.parent)
    finally:
        recover(path)


def check_writable(what: str, folder: Path) -> None:
    """Refuse a folder in which nothing can be made, or that cannot be made, before hours are spent on its content."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        tempfile.TemporaryDirectory(prefix=".fedstat-", dir=nearest).cleanup()
    except OSError as error:
        raise ValueError(
            f"{what} cannot be written: nothing can be made in {nearest} ({error.strerror}); choose another folder."
        ) from None


def check_not_read(what: str, out: Path | None, *read: Path | None) -> None:
    """Refuse to write over a file that is read."""
    for path in read:
        if out is not None and path is not None and out.exists() and path.exists() and out.samefile(path):
            raise ValueError(f"{what} must name another file than {path}, which is read, got {out}.")


def link(old: Path, new: Path) -> None:
    """Give a file a second name, or copy it where links are impossible."""
    try:
        os.link(old, new)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(old, new)


def sha256(file: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def recover(path: Path) -> None:
    """Put back a folder that was moved aside and remove what a killed writer left; the caller holds the lock."""
    new, old = _beside(path)
    if new.exists():
        shutil.rmtree(new)
    if old.exists():
        # removing takes time, so a superseded folder first gets a name that nobody reads
        os.replace(old, new if path.exists() else path)
    if new.exists():
        shutil.rmtree(new)


def complete_folder(path: str | Path) -> Path:
    """Return where the complete folder `path` lies: under its hidden name while its writer is between two renames."""
    path = Path(path)
    _, old = _beside(path.resolve())
    return old if old.exists() and not path.exists() else path


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other writers from `path` until the block, or this process, ends.

    Where another writer holds the lock, BlockingIOError is raised, unless `wait` is true.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    handle = _acquire(lock, wait)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _acquire(lock: Path, wait: bool) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:  # some network file systems know no locks
            return handle
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
        os.close(handle)  # its last holder removed the file meanwhile, so that this lock would keep nobody away


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")


def reach_disk(path: Path) -> None:
    """Wait until a file or folder would survive a loss of power."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if path.is_dir() else nullcontext():  # some file systems cannot do it for folders
            os.fsync(handle)
    finally:
        os.close(handle)

"""Download data sets from their official addresses: a broken download goes on, and only a checked, whole file is kept.

The bytes that have arrived lie in ``NAME.part`` until the file is complete; ``NAME.tag`` beside it says which version
of the file they are of, so that pieces of two versions are never joined. Where no checksum of the file is published,
``NAME.sha256`` keeps that of what arrived, and every later reading is held to it.
"""

from __future__ import annotations

import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fedstat._files import locked
from fedstat.data.datasets.base import Download, Source
from fedstat.data.datasets.published import check_file, note

_SECONDS = 30  # that the server may take to answer
_PIECE = 2**18
_MOST = 2**32  # bytes at most of a file of unknown size
Show = Callable[[str, int, int | None], None]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow the server to other addresses, but never from https to an address that others on the way could forge."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if not newurl.startswith("https://" if req.full_url.startswith("https://") else ("https://", "http://")):
            raise OSError(f"{req.full_url} is redirected to {newurl[:200]}, which is not safe.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_Redirects)


def fetch(source: Source, root: str | Path, *, show: Show | None = None) -> Path:
    """Download the files of a data set that are not there yet to its folder under `root`, and return the folder.

    Archives stay as they are: the readers read them in place, and nothing in them can name a place outside. `show` gets
    the file, the bytes so far and in all (None where that is unknown). A file that is not the published one is a
    ValueError and is not kept. Where the connection breaks off, which is an OSError, the next call goes on from there.
    """
    if not source.downloads:
        raise ValueError(f"{source.name} cannot be fetched. {source.note}")
    folder = Path(root) / source.folder
    for download in source.downloads:
        path = folder / download.file
        if path.exists():
            check_file(download, path, f"Remove {path} to fetch it anew.")
            continue
        try:
            with locked(path):
                _fetch(download, path, show or (lambda file, done, total: None))
        except BlockingIOError:
            raise OSError(f"another process is fetching {path}.") from None
    return folder


def _fetch(download: Download, path: Path, show: Show) -> None:
    part, tag = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.tag")
    try:
        _receive(download, part, tag, show)
        check_file(download, part, "Nothing was kept; try again later.")
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the server's file ends before the bytes that were asked for: it has changed
            part.unlink(missing_ok=True)
        raise OSError(f"{download.url}: the server answers {error.code} {error.reason}.") from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        raise OSError(f"no network, or the server cannot be reached: {reason} ({download.url}).") from None
    except ValueError:
        part.unlink(missing_ok=True)
        tag.unlink(missing_ok=True)
        raise
    if download.sha256 is None:
        note(path, of=part)  # before the file is there: what it notes is then of this file or of none
    os.replace(part, path)
    tag.unlink(missing_ok=True)


def _receive(download: Download, part: Path, tag: Path, show: Show) -> None:
    """Download what `part` still lacks."""
    done = part.stat().st_size if part.exists() else 0
    if done == download.size:
        return
    request = urllib.request.Request(download.url, headers={"User-Agent": "fedstat", "Accept-Encoding": "identity"})
    if done and tag.exists() and (version := tag.read_text()):
        request.add_header("Range", f"bytes={done}-")
        request.add_header("If-Range", version)
    with _OPENER.open(request, timeout=_SECONDS) as response:
        if response.status != 206:  # the server sends the whole file: it knows no ranges, or the file changed
            done = 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            raise ValueError(f"{download.url}: the server sent other bytes than were asked for. Fetch again.")
        total = download.size if response.length is None else done + response.length
        if download.size not in (None, total):
            raise ValueError(f"{download.url} has {total:,} bytes, and {download.size:,} are published.")
        if total is None and not response.chunked:
            raise ValueError(f"{download.url}: the server does not say how much there is. Fetch it by other means.")
        if total is not None and (free := shutil.disk_usage(part.parent).free) < total - done:
            raise OSError(f"{part.parent} has {free:,} bytes free, and {download.file} needs {total - done:,} more.")
        whole = False
        with (
            part.open("ab" if done else "wb") as file,
            suppress(http.client.HTTPException, ConnectionError, TimeoutError),
        ):
            tag.write_text(_version(response.headers))
            while piece := response.read(_PIECE):
                file.write(piece)
                done += len(piece)
                show(download.file, done, total)
                if done > (most := _MOST if total is None else total):
                    raise ValueError(f"{download.url} sends more than the {most:,} bytes that it may have.")
            whole = total in (None, done)
    if not whole:
        of = f" of {total:,}" if total else ""
        raise OSError(f"{download.url} broke off after {done:,}{of} bytes. Fetch again to go on from there.")


def _version(headers: http.client.HTTPMessage) -> str:
    """Return the server's name for this version of the file, empty if it gives none."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")

"""Fetching data sets from a server on this machine that breaks off, forgets ranges, lies and is not there."""

import hashlib
import io
import re
import shutil
import socket
import tarfile
import threading
import urllib.request
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from typer.testing import CliRunner

from fedstat._files import locked
from fedstat.cli import app
from fedstat.data import datasets
from fedstat.data.datasets import Download, Source, archive, mnist
from fedstat.data.datasets.archive import safe_members
from fedstat.data.datasets.fetch import _Redirects, fetch
from tests.support import dataset_files as made

CONTENT = np.random.default_rng(0).bytes(700_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Replicate:
    """What the server does, and what it was asked for."""

    content: bytes = CONTENT
    etag: str | None = '"1"'
    ranges: bool = True
    breaks_after: int | None = None
    status: int | None = None
    length: bool = True
    moved: str | None = None
    url: str = ""
    asked: list[str | None] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    def __init__(self, site, *args):
        self.site = site
        super().__init__(*args)

    def log_message(self, *args):
        pass

    def do_GET(self):
        site, wanted = self.site, self.headers.get("Range")
        site.asked.append(wanted)
        if site.status:
            return self.send_error(site.status)
        if site.moved and self.path != "/there":
            self.send_response(302)
            self.send_header("Location", site.moved)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        start = 0
        if wanted and site.ranges and self.headers.get("If-Range") in (None, site.etag):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        body = site.content[start:]
        if start >= len(site.content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
        if site.etag:
            self.send_header("ETag", site.etag)
        if site.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if site.breaks_after is None else body[: site.breaks_after])


@contextmanager
def serving(**options):
    site = Replicate(**options)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, site))
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/file.bin"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def source(url, *, size=700_000, sha256=SHA256):
    download = Download(url, "file.bin", size, sha256)
    return Source("toy", "a file", "toy", lambda folder: [], lambda folder: None, (download,), "No terms.")


def files(root):
    """Names of all files but the hash that is noted where none is published."""
    return {path.name for path in root.rglob("*") if path.is_file() and path.suffix != ".sha256"}


def test_a_file_arrives_and_is_not_fetched_twice(tmp_path):
    seen = []
    with serving() as site:
        for _ in range(2):
            folder = fetch(source(site.url), tmp_path, show=lambda *shown: seen.append(shown))
    assert (folder / "file.bin").read_bytes() == CONTENT
    assert files(tmp_path) == {"file.bin"}
    assert site.asked == [None]
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


@pytest.mark.parametrize(("known", "length"), [(True, True), (True, False), (False, True)])
def test_a_download_goes_on_where_it_broke_off(tmp_path, known, length):
    wanted = partial(source) if known else partial(source, size=None, sha256=None)
    with serving(breaks_after=300_000, length=length) as site:
        with pytest.raises(OSError, match=r"broke off after 300,000 of 700,000 bytes. Fetch again"):
            fetch(wanted(site.url), tmp_path)
        assert files(tmp_path) == {"file.bin.part", "file.bin.tag"}
        site.breaks_after = None
        fetch(wanted(site.url), tmp_path)
    assert site.asked == [None, "bytes=300000-"]
    assert (tmp_path / "toy/file.bin").read_bytes() == CONTENT
    assert files(tmp_path) == {"file.bin"}


@pytest.mark.parametrize(
    "change",
    [
        {"ranges": False},  # a server that does not know ranges
        {"etag": '"2"', "content": CONTENT[::-1]},  # another version of the file: nothing is glued
        {"etag": 'W/"2"', "content": CONTENT[::-1]},
    ],
)
def test_a_download_starts_anew_where_it_cannot_go_on(tmp_path, change):
    with serving(breaks_after=300_000) as site:
        with pytest.raises(OSError, match="broke off"):
            fetch(source(site.url), tmp_path)
        vars(site).update(change, breaks_after=None)
        fetch(source(site.url, sha256=hashlib.sha256(site.content).hexdigest()), tmp_path)
    assert site.asked == [None, "bytes=300000-"]
    assert (tmp_path / "toy/file.bin").read_bytes() == site.content


def test_a_server_that_names_no_version_is_asked_for_the_whole(tmp_path):
    with serving(breaks_after=300_000, etag=None) as site:
        with pytest.raises(OSError, match="broke off"):
            fetch(source(site.url), tmp_path)
        site.breaks_after = None
        fetch(source(site.url), tmp_path)
    assert site.asked == [None, None]
    assert (tmp_path / "toy/file.bin").read_bytes() == CONTENT


def test_a_shorter_version_is_fetched_whole_in_the_end(tmp_path):
    with serving(breaks_after=300_000) as site:
        for content, message in ((CONTENT, "broke off"), (CONTENT[:200_000], "416")):
            site.content = content
            with pytest.raises(OSError, match=message):
                fetch(source(site.url, size=None, sha256=None), tmp_path)
        fetch(source(site.url, size=None, sha256=None), tmp_path)
    assert (tmp_path / "toy/file.bin").read_bytes() == CONTENT[:200_000]


def test_redirects_lead_to_no_worse_place(tmp_path):
    with serving(moved="/there") as site:
        fetch(source(site.url), tmp_path / "good")
        assert (tmp_path / "good/toy/file.bin").read_bytes() == CONTENT
        for site.moved in ("ftp://127.0.0.1/x", "file:///etc/passwd"):  # urllib itself refuses the second
            with pytest.raises(OSError, match=f"to (url ')?{site.moved}.* not (safe|allowed)"):
                fetch(source(site.url), tmp_path / "bad")
    assert files(tmp_path / "bad") == set()
    secure = urllib.request.Request("https://127.0.0.1/file.bin")  # of which a test has no certificate
    with pytest.raises(OSError, match=r"is redirected to http://127.0.0.1/x, which is not safe"):
        _Redirects().redirect_request(secure, None, 302, "Found", {}, "http://127.0.0.1/x")


def test_what_has_no_known_end_is_refused(tmp_path):
    with serving(length=False) as site, pytest.raises(ValueError, match="does not say how much there is"):
        fetch(source(site.url, size=None, sha256=None), tmp_path)
    assert files(tmp_path) == set()


IDX = dict(zip([download.file for download in mnist.SOURCE.downloads],
               [made.idx(made.pixels(3, 28, 28)), made.idx(np.uint8([1, 2, 3]))] * 2, strict=True))  # fmt: skip
EMNIST = {
    f"gzip/emnist-{split}-{part}-{kind}-ubyte.gz": made.idx(array)
    for split in ("balanced", "letters", "mnist")
    for part in ("train", "test")
    for kind, array in (("images-idx3", made.pixels(2, 28, 28)), ("labels-idx1", np.uint8([1, 2])))
}
PAGE = {"cifar-10-batches-bin/": b"", "cifar-10-batches-bin/readme.html": b"<HTML>"}
META = {"cifar-100-python/": b"", "cifar-100-python/file.txt~": b"", "cifar-100-python/meta": b"\x80\x02}."}
HOUSES = made.mat(made.pixels(2, 3, 32, 32), np.array([1, 0]))
OFFICIAL = {  # files as they are published, and the number of samples in them
    "mnist": (IDX, 6),
    "fashion-mnist": (IDX, 6),
    "emnist": ({"gzip.zip": made.zipped({"gzip/": b""} | EMNIST | {"__MACOSX/gzip/._x": b""})}, 4),
    "cifar10": ({"cifar-10-binary.tar.gz": made.tar(PAGE | made.cifar10_files(made.binary_batch)[0])}, 18),
    "cifar100": ({"cifar-100-python.tar.gz": made.tar(META | made.cifar100_files(made.python2_batch)[0])}, 5),
    "svhn": ({"train_32x32.mat": HOUSES, "test_32x32.mat": HOUSES}, 4),
    "tiny-imagenet": ({"tiny-imagenet-200.zip": made.zipped({"tiny-imagenet-200/": b""} | made.tiny_files())}, 4),
    "shakespeare": ({"1994-01-100.zip": made.zipped({"100.txt": made.PLAYS})}, 53),
    "heart-disease": (made.HEART, 8),
    "tinyshakespeare": ({"input.txt": f"A:\n{made.LINE}\n{made.LINE}\n".encode()}, 48),
}


@pytest.mark.usefixtures("made_up_data")
@pytest.mark.parametrize("name", OFFICIAL)
def test_what_is_fetched_can_be_read(tmp_path, name):
    contents, samples = OFFICIAL[name]
    each = datasets.available()[name]
    with ExitStack() as servers:
        downloads = []
        for download in each.downloads:
            content = contents[download.file]
            site = servers.enter_context(serving(content=content))
            sha256 = hashlib.sha256(content).hexdigest()
            downloads.append(replace(download, url=site.url, size=len(content), sha256=sha256))
        fetch(replace(each, downloads=tuple(downloads)), tmp_path)
    assert files(tmp_path) == set(contents)
    assert len(datasets.read(name, tmp_path).y) == samples


def test_all_that_is_offered_is_fetched_above():
    offered = {name for name, each in datasets.available().items() if each.downloads}
    assert {name for name in offered if not name.startswith("emnist-")} == set(OFFICIAL)


def test_what_is_not_the_published_file_is_not_kept(tmp_path):
    with serving() as site:
        with pytest.raises(ValueError, match=f"has the SHA-256 {SHA256}, where {'0' * 64} is published") as caught:
            fetch(source(site.url, sha256="0" * 64), tmp_path)
        assert "Nothing was kept" in str(caught.value)
        with pytest.raises(ValueError, match="has 700,000 bytes, and 5 are published"):
            fetch(source(site.url, size=5), tmp_path)
        site.length = False
        with pytest.raises(ValueError, match="sends more than the 5 bytes"):
            fetch(source(site.url, size=5), tmp_path)
    assert files(tmp_path) == set()
    own = tmp_path / "toy/file.bin"
    own.write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"has 4 bytes, where 700,000 are published. Remove"):
        fetch(source("http://127.0.0.1/"), tmp_path)
    assert own.read_bytes() == b"mine"


def test_no_network_no_file_no_space_no_address(tmp_path, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/file.bin"
    with pytest.raises(OSError, match=r"no network, or the server cannot be reached: .*refused.* \(http"):
        fetch(source(url), tmp_path)
    with serving(status=404) as site, pytest.raises(OSError, match=r"file.bin: the server answers 404 Not Found"):
        fetch(source(site.url), tmp_path)
    with serving() as site, monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(100, 0, 100))
        with pytest.raises(OSError, match=r"has 100 bytes free, and file.bin needs 700,000 more"):
            fetch(source(site.url), tmp_path)
    with pytest.raises(ValueError, match=r"toy cannot be fetched. No terms"):
        fetch(replace(source(url), downloads=()), tmp_path)
    with locked(tmp_path / "toy/file.bin"), pytest.raises(OSError, match="another process is fetching"):
        fetch(source(url), tmp_path)
    assert files(tmp_path) == set()


def packed(kind, name, *, link=None, content=b"content"):
    """An archive of one file, or of a link."""
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if link else 0o100644) << 16
            out.writestr(info, link or content)
    else:
        with tarfile.open(fileobj=file, mode="w:gz") as out:
            info = tarfile.TarInfo(name)
            info.size = 0 if link else len(content)
            info.type, info.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
            out.addfile(info, None if link else io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize(
    ("name", "link"), [("../out", None), ("/tmp/out", None), ("a/../../out", None), ("in", "../x")]
)
def test_a_fetched_archive_reaches_no_place_outside(tmp_path, kind, name, link):
    content = packed(kind, name, link=link)
    with serving(content=content) as site:
        fetch(source(site.url, size=None, sha256=None), tmp_path / "root")
    with pytest.raises(ValueError, match=r"outside its folder|no plain file"):
        list(safe_members(tmp_path / "root/toy/file.bin"))
    assert files(tmp_path) == {"file.bin"}


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_fetched_bomb_is_not_unpacked(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(archive, "MEMBER_BYTES", 100_000)
    with serving(content=packed(kind, "a", content=bytes(10**6))) as site:
        fetch(source(site.url, size=None, sha256=None), tmp_path)
    with pytest.raises(ValueError, match="grows too large at 'a'"):
        list(safe_members(tmp_path / "toy/file.bin"))


def test_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSTAT_DATA", str(tmp_path))
    run = partial(CliRunner().invoke, app)
    images = b"\x00\x00\x08\x03" + np.array([2, 28, 28], ">u4").tobytes() + bytes(2 * 28 * 28)
    labels = b"\x00\x00\x08\x01" + np.array([2], ">u4").tobytes() + b"\x01\x02"
    listed = run(["data", "list"])
    assert listed.exit_code == 0
    assert f"data root: {tmp_path}" in listed.output
    assert re.search(r"\nmnist +-  70,000 handwritten digits", listed.output)
    assert max(map(len, listed.output.splitlines())) <= 80 or len(str(tmp_path)) > 60
    told = " ".join(run(["data", "list", "mnist"]).output.split())
    assert "`fedstat data fetch mnist` gets it" in told
    assert "t10k-labels-idx1-ubyte.gz, 11.6 MB)" in told
    with serving(content=images) as first, serving(content=labels) as second:
        downloads = [
            Download(site.url, each.file, len(site.content), hashlib.sha256(site.content).hexdigest())
            for each, site in zip(mnist.SOURCE.downloads, [first, second] * 2, strict=True)
        ]
        monkeypatch.setattr(mnist, "SOURCE", replace(mnist.SOURCE, downloads=tuple(downloads)))
        fetched = run(["data", "fetch", "mnist"])
    assert fetched.output.startswith(f"mnist is in {tmp_path / 'mnist'}")
    assert re.search(r"\nmnist +3.2 kB  70,000", run(["data", "list"]).output)
    assert f"3.2 kB in {tmp_path / 'mnist'}: train" in " ".join(run(["data", "list", "mnist"]).output.split())
    np.testing.assert_array_equal(datasets.read("mnist").y, [1, 2, 1, 2])
    unknown = run(["data", "fetch", "mnits"])
    assert unknown.exit_code == 1
    assert "error: there is no data set 'mnits' (did you mean mnist?)." in unknown.output

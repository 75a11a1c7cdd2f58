"""What SECURITY.md promises: nothing unpickled, nothing fetched or damaged in silence, code announced."""

import ast
import gzip
import hashlib
import os
import shutil
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedstat as fs
from fedstat._sealed import seal, unseal
from fedstat._tables import read_tables
from fedstat.cli import app
from fedstat.data import datasets
from fedstat.data.datasets import Download, Source, published
from fedstat.factor import ConstantColumnWarning, Moments, PrincipalAxis
from fedstat.factor.files import read_table
from fedstat.inference import AnalysisPlan
from simulations.parts import Part, run_parts
from simulations.tables import write_tables
from tests.support.clients import vector_clients
from tests.support.experiments import changed

ROOT = Path(__file__).parents[1]


# ---- what the source does not hold ---------------------------------------------------------------------------------


#: Calls that can run code, or send some to others, by the last parts of their names.
RUNS = {
    "pickle.load", "pickle.loads", "pickle.Unpickler", "cPickle.load", "dill.load", "dill.loads", "joblib.load",
    "cloudpickle.load", "cloudpickle.loads", "marshal.load", "marshal.loads", "shelve.open", "torch.load",
    "jit.load", "hub.load", "np.load", "numpy.load", "pd.read_pickle", "pandas.read_pickle", "yaml.load",
    "yaml.unsafe_load", "eval", "exec", "os.system", "os.popen",
}  # fmt: skip
IMPORTS = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}


def name_of(node):
    """``a.b.c`` as text, "" for anything but names and attributes."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{name_of(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def suspicious(tree):
    """Yield the line and the reason of every call that could run what a file or a message holds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.split(".")[0] in IMPORTS)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in IMPORTS and not node.level:
            yield node.lineno, node.module
        elif isinstance(node, ast.Call):
            called = name_of(node.func)
            if called in RUNS or ".".join(called.split(".")[-2:]) in RUNS:
                yield node.lineno, called
            for given in node.keywords:
                off = isinstance(given.value, ast.Constant) and given.value.value is False
                if given.arg in ("allow_pickle", "shell", "trust_remote_code") and not off:
                    yield node.lineno, f"{called}({given.arg}=...)"


@pytest.mark.parametrize("package", ["fedstat", "simulations", "theory_checks", "reports"])
def test_nothing_is_unpickled_evaluated_or_handed_to_a_shell(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    found = [f"{f}:{line} {what}" for f in files for line, what in suspicious(ast.parse(f.read_bytes()))]
    assert not found


@pytest.mark.parametrize(
    "code",
    ["import pickle", "from joblib import load", "torch.load(f)", "numpy.load(f)", "eval(text)", "exec(text)",
     "np.savez(f, allow_pickle=True)", "run(c, shell=flag)", "yaml.load(f)"],
)  # fmt: skip
def test_the_search_above_finds(code):
    assert list(suspicious(ast.parse(code)))


#: Where the network is used, and where modules are run or found by a name.
ALLOWED = {
    "urlopen": set(),
    "build_opener": {"fedstat/data/datasets/fetch.py"},
    "exec_module": {"fedstat/_user_code.py"},
    "import_module": {
        "fedstat/claims/files.py",  # files of claims that a user names
        "fedstat/data/datasets/__init__.py", "fedstat/methods/__init__.py", "fedstat/federated/revival.py",  # our own
        "simulations/studies.py",
    },
    "subprocess": {"fedstat/_environment.py"},  # asks git for the revision
}  # fmt: skip


def test_the_network_and_code_by_name_are_where_security_says():
    found = {word: set() for word in ALLOWED}
    for file in [f for top in ("fedstat", "simulations", "reports") for f in (ROOT / top).rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_bytes())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [name_of(node.func)] if isinstance(node, ast.Call) else []
            for word in ALLOWED:
                if any(word in name.split(".") for name in names):
                    found[word].add(file.relative_to(ROOT).as_posix())
    assert found == ALLOWED


# ---- what a dry run runs -------------------------------------------------------------------------------------------


MINE = """
from pathlib import Path
Path(__file__).with_name("ran").write_text("")
import fedstat as fs
class Mine(fs.FedAvg): ...
def net(inputs, classes): return fs.models.mlp(inputs, 3, classes)
def guess(outputs, y): return 0.5
class Alone(fs.executor.PerClient if hasattr(fs, "executor") else object): ...
"""


@pytest.mark.parametrize(
    "named",
    [
        {"method": {"mine.py:Mine": {}}},
        {"method": {"a": {"name": "mine.py:Mine"}}},
        {"model": {"name": "mine.py:net"}},
        {"training__loss": "mine.py:net"},
        {"training__optimizer": {"name": "mine.py:net", "beta": 1}},
        {"training__schedule": "mine.py:net"},
        {"evaluation": {"metrics": ["macro_f1", "mine.py:guess"]}},
        {"executor": "mine.py:Alone"},
        {"data": {"name": "digits", "prepare": "mine.py:net"}},
    ],
    ids=lambda named: next(iter(named)),
)
def test_a_dry_run_lists_code_and_runs_none(tmp_path, named):
    import tomli_w

    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "it.toml").write_text(tomli_w.dumps(changed(**named)))
    done = CliRunner().invoke(app, ["run", str(tmp_path / "it.toml"), "--dry-run", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert f"{tmp_path / 'mine.py'}:" in done.output
    assert hashlib.sha256(MINE.encode()).hexdigest() in done.output
    assert "Nothing of it was run" in done.output
    assert "3 rounds, 1 method, 1 seed; time and memory cannot be told without that code" in done.output
    assert ("seed 0: 4 clients" in done.output) == ("data" not in named)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.py", "it.toml"}
    (tmp_path / "it.toml").write_text(tomli_w.dumps(changed(**named) | {"rounds": 0}))
    wrong = CliRunner().invoke(app, ["run", str(tmp_path / "it.toml"), "--dry-run"])
    assert wrong.exit_code == 1
    assert "rounds" in wrong.stderr
    assert "not run now" not in wrong.stderr


# ---- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/a.csv", "https://x.org/a.csv", "s3://b/a.csv", "file:///a.csv"]
)
@pytest.mark.parametrize("read", [fs.data.from_csv, fs.read_results, read_table], ids=["from_csv", "results", "factor"])
def test_addresses_are_refused(address, read):
    with pytest.raises(ValueError, match=r"path must be a path on this machine, got the address '.*'; download it"):
        read(address)


# ---- files of data sets --------------------------------------------------------------------------------------------


CONTENT = b"published"


def source(**known):
    download = Download("https://x.org/file.gz", "file.gz", **known)
    return Source("toy", "", "toy", lambda folder: sorted(folder.glob("file*")), lambda folder: "read", (download,))


def test_a_file_that_is_not_the_published_one_is_refused_when_it_is_read(tmp_path, monkeypatch):
    known = source(size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(datasets, "available", lambda: {"toy": known})
    file = tmp_path / "toy" / "file.gz"
    file.parent.mkdir()
    file.write_bytes(CONTENT)
    assert datasets.read("toy", tmp_path) == "read"
    monkeypatch.setattr(published, "sha256", lambda path: pytest.fail("it is checked once in a process"))
    assert datasets.read("toy", tmp_path) == "read"
    monkeypatch.undo()
    monkeypatch.setattr(datasets, "available", lambda: {"toy": known})
    for damaged, message in ((b"publishes", "has the SHA-256 .* is published"), (b"publish", "has 7 bytes, where 9")):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{file} {message}.*fedstat data fetch toy"):
            datasets.read("toy", tmp_path)
    file.rename(tmp_path / "toy" / "file-mine.gz")  # what has another name is one's own
    assert datasets.read("toy", tmp_path) == "read"


def test_what_was_packed_anew_is_known_by_its_content(tmp_path, monkeypatch):
    known = source(size=5, sha256="0" * 64, unpacked=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(datasets, "available", lambda: {"toy": known})
    file = tmp_path / "toy" / "file.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress(CONTENT))
    assert datasets.read("toy", tmp_path) == "read"
    for damaged in (gzip.compress(b"publishes"), gzip.compress(CONTENT)[:-1], b""):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{file} has "):
            datasets.read("toy", tmp_path)


def test_where_nothing_is_published_the_first_arrival_counts(tmp_path, monkeypatch):
    known = source()
    monkeypatch.setattr(datasets, "available", lambda: {"toy": known})
    file = tmp_path / "toy" / "file.gz"
    file.parent.mkdir()
    (tmp_path / "part").write_bytes(CONTENT)
    published.note(file, of=tmp_path / "part")
    file.write_bytes(CONTENT)
    assert datasets.read("toy", tmp_path) == "read"
    file.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"is in .*file\.gz\.sha256"):
        datasets.read("toy", tmp_path)


def test_every_download_but_shakespeares_is_known_by_its_hash_and_one_alone_comes_over_http():
    downloads = [(name, each) for name, of in datasets.available().items() for each in of.downloads]
    assert {name for name, each in downloads if each.sha256 is None} == {"shakespeare"}
    assert {name for name, each in downloads if not each.url.startswith("https://")} == {"svhn"}


@pytest.mark.parametrize("name", ["mnist", "tinyshakespeare"])
def test_the_published_hashes_are_those_of_the_real_files(name, tmp_path):
    root, of = Path(os.environ.get("FEDSTAT_DATA", "nowhere")), datasets.available()[name]
    files = {"input.txt": "tinyshakespeare_input.txt"}
    for download in of.downloads:
        real = root / of.folder / files.get(download.file, download.file)
        if not real.is_file():
            pytest.skip(f"FEDSTAT_DATA holds no {real.name}")
        copy = tmp_path / download.file
        shutil.copy(real, copy)
        published.check_file(download, copy, "")
        if download.unpacked:
            published.check_file(replace(download, size=1), copy, "")


def test_a_file_that_was_packed_anew_and_damaged_is_refused_by_name(tmp_path):
    file, packed = tmp_path / "file.gz", bytearray(gzip.compress(bytes(range(256)) * 100))
    packed[20:40] = b"\xff" * 20
    file.write_bytes(packed)
    with pytest.raises(ValueError, match=r"file\.gz has .* bytes, where 1 are published"):
        published.check_file(Download("https://example.org/file.gz", "file.gz", 1, unpacked="0" * 64), file, "")


# ---- text and tables -----------------------------------------------------------------------------------------------


def test_a_byte_order_mark_is_no_part_of_a_configuration(tmp_path):
    import tomli_w

    (tmp_path / "it.toml").write_text(tomli_w.dumps(changed()), encoding="utf-8-sig")
    assert fs.experiment.read(tmp_path / "it.toml").rounds == changed()["rounds"]
    (tmp_path / "plan.toml").write_text('arms = ["A", "B"]\n', encoding="utf-8-sig")
    assert AnalysisPlan.read(tmp_path / "plan.toml").arms == ("A", "B")


@pytest.mark.parametrize("markup", [False, True])
def test_a_sealed_text_is_read_whole_or_not_at_all(tmp_path, markup):
    file, text = tmp_path / "it", "rounds = 3\nä = 'ö'\n"
    content = seal(text, markup=markup)
    file.write_bytes(content)
    assert unseal(file) == text
    damaged = [content[:n] for n in range(len(content))]
    damaged += [content[:i] + bytes([content[i] ^ 1 << i % 8]) + content[i + 1 :] for i in range(len(content))]
    for one in [*damaged, content + b"\n", content + content]:
        file.write_bytes(one)
        with pytest.raises(ValueError, match=r"it is damaged or was changed"):
            unseal(file)


def test_a_column_whose_spread_is_lost_in_its_level_is_named():
    x = np.random.default_rng(0).normal(size=(50, 5))
    x[:, 1:] += x[:, :1]
    level = x.copy()
    level[:, 2] = 1e3 + 1e-10 * x[:, 2]
    named = pd.DataFrame(level, columns=list("abcde"))
    with pytest.warns(ConstantColumnWarning, match=r"^column c: left out as constant"):
        fit = PrincipalAxis(1).fit(named)
    assert fit.constant_.tolist() == [2]
    with pytest.warns(ConstantColumnWarning, match=r"^column 2: left out"):
        PrincipalAxis(1).fit_moments(Moments.of(level[:20]) + Moments.of(level[20:]))
    level[:, 2] = 1e3  # exactly constant: nothing is lost
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstantColumnWarning)
        assert PrincipalAxis(1).fit(level).constant_.tolist() == [2]
        assert not PrincipalAxis(1).fit(x).constant_.size


@dataclass(frozen=True)
class Config:
    device: str = "this process"


def computed():
    return {"numbers": pd.DataFrame({"a": [1.5]})}


def test_a_table_of_an_earlier_writing_does_not_stay(tmp_path):
    new, old = computed(), {"old": pd.DataFrame({"b": [2]})}
    (tmp_path / "own.csv").write_text("a note of somebody")
    write_tables(tmp_path, new | old, {})
    write_tables(tmp_path, new, {})
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == ["numbers.csv", "own.csv"]
    assert read_tables(tmp_path).keys() == {"numbers"}


def test_an_emptied_part_of_the_cache_is_computed_again(tmp_path, capsys):
    part = Part("one", Config(), computed)
    assert run_parts([part], tmp_path, "parts")["numbers"]["a"].tolist() == [1.5]
    folder = part.folder(tmp_path)
    for emptied in ("{}", None):
        for file in folder.iterdir():
            file.unlink()
        if emptied:
            (folder / "manifest.json").write_text(emptied)
        assert run_parts([part], tmp_path, "parts")["numbers"]["a"].tolist() == [1.5]
        assert "one is computed again" in capsys.readouterr().err


# ---- saved runs, read by others than fedstat.load -----------------------------------------------------------------


def test_what_clients_keep_is_checked_where_it_is_analysed(tmp_path):
    fs.federate(fs.Local(), fs.models.mlp(3, 6, 2), vector_clients(4), fs.Training(lr=0.1), rounds=1, seed=0,
                folder=tmp_path / "run", progress=False)  # fmt: skip
    index = tmp_path / "run" / "clients" / "0" / "index.json"
    row = sorted(index.parent.glob("*.safetensors"))[0]
    layer = "hidden.weight"
    read_table(index, layer=layer)
    read_table(row, layer=layer)
    content = bytearray(row.read_bytes())
    content[-1] ^= 1
    row.unlink()  # it may be a link
    row.write_bytes(content)
    for path in (index, row):
        with pytest.raises(ValueError, match=f"{row.name} is damaged"):
            read_table(path, layer=layer)
    state = tmp_path / "run" / "state.safetensors"
    state.write_bytes(state.read_bytes() + b" ")
    with pytest.raises(ValueError, match=r"state.safetensors is damaged"):
        read_table(state)

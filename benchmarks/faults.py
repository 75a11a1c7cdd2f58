"""Do to runs what machines do to them, and count the outcomes: ``python -m benchmarks.faults [--short] [--update]``.

Kills, a full disk, folders that may not be written, damaged files, two writers, a clock set back and lost workers.
``--update`` writes the table into ``docs/reliability.md``; ``--short`` tries less of everything. It exits with status 1
if anything finished was lost, or anything damaged was read without a word. Linux only; as root, disks of a chosen size
are mounted. ``LIBFAKETIME`` names Debian's libfaketime.so.1, without which clocks are replaced inside Python.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import fedstat as fs
from benchmarks.memory import tree
from fedstat._files import complete_folder
from fedstat._random import stream
from fedstat._tables import read_tables
from fedstat.data import Partition
from fedstat.experiment.run import run
from fedstat.factor.files import read_table
from fedstat.inference import AnalysisPlan
from fedstat.report.sources import read_source
from simulations.parts import Part, run_parts
from simulations.tables import write_tables

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
MARKS = ("<!-- faults -->\n", "<!-- end of faults -->\n")
ROUNDS = 10
CONFIG = """
rounds = {rounds}
seed = 3
participation = 0.5
checkpoint = 1
[data]
name = "digits"
[partition]
kind = "dirichlet"
clients = 6
alpha = 0.5
new_clients = 0.3
[model]
name = "mlp"
widths = [8]
[method.FedAvg]
[method.FedPer]
[method.FedFac]
layers = ["hidden"]
kappa = 0.5
dynamic = true
[training]
lr = 0.1
batch_size = 50
[evaluation]
last = 2
[plan]
control = "FedAvg"
metric = "accuracy"
"""


@dataclass
class Row:
    """A line of the table: a fault, how it was made, and how often each outcome was seen."""

    fault: str
    how: str
    seen: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)

    def note(self, outcome: str, wrong: str = "") -> None:
        """Count an outcome; `wrong` says what must not happen."""
        self.seen[outcome] += 1
        if wrong:
            self.bad.append(f"{self.fault}: {wrong}")


# ---- a run, in a child that may be killed ---------------------------------------------------------------------------


def go_on(config: Path, folder: Path, rounds: int = ROUNDS) -> None:
    """Start the run, or continue what lies there: what a user does after a crash."""
    changes = {"rounds": rounds}
    run(fs.experiment.read(config, changes), folder, resume=True, progress=False)


def child(work: Callable[[], Any]) -> tuple[int, int]:
    """Do `work` in a process of its own; return its number, and where its answer can be read."""
    out, into = os.pipe()
    pid = os.fork()
    if pid:
        os.close(into)
        return pid, out
    os.fsync = lambda handle: None  # type: ignore[assignment]  # a kill is no loss of power
    os.setpgid(0, 0)
    try:
        answer: Any = {"value": work()}
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(into, "w") as file:
        json.dump(answer, file)
    os._exit(0)


def answer_of(started: tuple[int, int]) -> dict[str, Any]:
    """Wait for a child and return its answer, empty if it was killed."""
    pid, out = started
    with os.fdopen(out) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return dict(json.loads(text)) if text else {}


def done(work: Callable[[], Any]) -> dict[str, Any]:
    """Do `work` in a child to its end."""
    return answer_of(child(work))


def rounds_in(folder: Path) -> int:
    """Return how many rounds are saved; a run that cannot be loaded is an error."""
    place = complete_folder(folder / "run")
    return int(fs.load(place).config["rounds"]) if place.exists() else 0


def saved_rounds(folder: Path) -> int:
    """Return how many rounds a folder says that it holds, without checking them: the parent must stay light."""
    with suppress(OSError, ValueError):
        return int(tomllib.loads((complete_folder(folder / "run") / "config.toml").read_text())["rounds"])
    return 0


def contents(folder: Path) -> dict[str, str]:
    """Return the hash of every file; where it was computed, and by which revision of the code, may differ."""
    found = {}
    for file in (p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")):
        content = file.read_bytes()
        if file.name == "manifest.json":
            listed = json.loads(content)
            listed["sha256"].pop("environment.json", None)
            content = json.dumps(listed).encode()
        if file.name != "environment.json":
            found[file.relative_to(folder).as_posix()] = hashlib.sha256(content).hexdigest()
    return found


def finished(row: Row, config: Path, folder: Path, whole: Mapping[str, str]) -> None:
    """Continue a run to its end and compare every byte with the run that nothing happened to."""
    answer, now = done(partial(go_on, config, folder)), contents(folder)
    if "error" in answer:
        row.note("not continued", f"{folder.name} cannot be continued: {answer['error']}")
    elif differing := {name for name in whole.keys() | now.keys() if whole.get(name) != now.get(name)}:
        row.note("other bytes", f"{folder.name} ends with other bytes in {sorted(differing)}")
    else:
        row.note("continued to the same bytes")


# ---- faults of the machine ------------------------------------------------------------------------------------------


def kills(config: Path, place: Path, whole: Mapping[str, str], tries: int) -> Row:
    """Kill a run at random moments, over and over, and continue it each time."""
    row = Row("killed", "SIGKILL at random moments of a run that saves every round")
    moments, folder, before, number = stream(0, "kills"), place / "killed", 0, 0
    begun = time.perf_counter()
    done(partial(go_on, config, place / "paced"))
    pace = (time.perf_counter() - begun) / ROUNDS
    for number in range(tries):
        started = child(partial(go_on, config, folder))
        time.sleep(moments.uniform(0.2, 4) * pace)
        with suppress(ProcessLookupError):
            os.kill(started[0], signal.SIGKILL)
        ended = answer_of(started)
        row.note("run was over" if ended else "killed", ended.get("error", ""))
        answer = done(partial(rounds_in, folder))
        now = answer.get("value", -1)
        row.note(
            "can be loaded" if now >= before else "lost", "" if now >= before else f"after kill {number}: {answer}"
        )
        before = max(now, before)
        if ended or before == ROUNDS:
            finished(row, config, folder, whole)
            shutil.rmtree(folder)
            before = 0
    finished(row, config, folder, whole)
    return row


@contextmanager
def disk(place: Path, kilobytes: int) -> Iterator[Path | None]:
    """Mount a disk of that size in memory; None where that is not allowed."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


def limited(config: Path, folder: Path, rounds: int, room: int) -> None:
    """Continue a run while no file may grow beyond `room` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    go_on(config, folder, rounds)


def full(config: Path, place: Path, whole: Mapping[str, str], tries: int) -> list[Row]:
    """Let the disk, or the largest file that may be written, be too small for the next checkpoint."""
    pages = sum(-(-file.stat().st_size // 4096) for file in (place / "half").rglob("*") if file.is_file())
    rows = [Row("disk full", "a disk in memory (tmpfs) with too little room"), Row("disk full", "RLIMIT_FSIZE")]
    for i in range(tries):
        with disk(place / f"disk{i}", 4 * pages + 24 + 12 * i) as mounted:
            if mounted is None:
                rows[0].note("not allowed here")
                break
            shutil.copytree(place / "half", mounted / "run", copy_function=shutil.copy)
            refused(rows[0], partial(go_on, config, mounted / "run"), mounted / "run", "No space left")
            shutil.copytree(mounted / "run", place / f"moved{i}")
        finished(rows[0], config, place / f"moved{i}", whole)
    for i in range(tries):
        folder = Path(shutil.copytree(place / "half", place / f"limited{i}"))
        work = partial(limited, config, folder, ROUNDS, 3**i * 100)
        refused(rows[1], work, folder, "File too large")
        finished(rows[1], config, folder, whole)
    return rows


def refused(row: Row, work: Callable[[], Any], folder: Path, reason: str) -> None:
    """Do what must fail; what was saved must stay, and can be read."""
    before, answer = saved_rounds(folder), done(work)
    words = answer.get("error", "")
    if not words and saved_rounds(folder) == ROUNDS:
        row.note("there was room")
        return
    told = reason in words and str(folder) in words
    row.note(
        "refused with a reason" if told else "other error", "" if told else f"{folder.name}: {words or 'no error'}"
    )
    kept = done(partial(rounds_in, folder))
    ok = kept.get("value", -1) >= before
    row.note("what was saved can be loaded" if ok else "lost", "" if ok else f"{folder.name}: {kept}")


def unwritable(config: Path, place: Path, whole: Mapping[str, str]) -> Row:
    """Take the right to write, by permissions (as another user, where this is root) and by a read-only disk."""
    row = Row("read-only", "permissions, as a user without rights; a disk mounted read-only")
    folder = Path(shutil.copytree(place / "half", place / "closed"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)

    def as_nobody() -> None:
        go_on(config, place / "scratch", 1)  # imports all that it needs while it may still read it
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        go_on(config, folder)

    before = contents(folder)
    refused(row, as_nobody, folder, "ermission")
    row.note(
        "nothing was changed" if contents(folder) == before else "changed", "" if contents(folder) == before else "x"
    )
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    finished(row, config, folder, whole)
    with disk(place / "frozen", 65536) as mounted:
        if mounted is None:
            return row
        shutil.copytree(place / "half", mounted / "run")
        before = contents(mounted)
        subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
        refused(row, partial(go_on, config, mounted / "run"), mounted / "run", "Read-only file system")
        same = contents(mounted) == before
        row.note("nothing was changed" if same else "changed", "" if same else "a read-only disk was changed")
    return row


def writers(config: Path, place: Path, whole: Mapping[str, str], tries: int) -> Row:
    """Start a second writer while a first one runs."""
    row = Row("two writers", "a second process starts while a first one runs")
    for i in range(tries):
        folder = place / f"shared{i}"
        first = child(partial(go_on, config, folder))
        while not saved_rounds(folder):
            time.sleep(0.01)
        second = done(partial(go_on, config, folder))
        words = second.get("error", "")
        ok = "is being written by another process; nothing was written" in words
        over = saved_rounds(folder) == ROUNDS
        row.note("refused" if ok else "first was done", "" if ok or over else f"both wrote: {words or 'no error'}")
        answer_of(first)
        finished(row, config, folder, whole)
    return row


def clock(config: Path, place: Path, whole: Mapping[str, str], tries: int) -> Row:
    """Continue runs while the clock shows earlier days."""
    library = os.environ.get("LIBFAKETIME", "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
    faked = Path(library).is_file()
    row = Row("clock set back", f"by days, {'libfaketime' if faked else 'the clocks of Python replaced'}")
    for i in range(tries):
        folder = Path(shutil.copytree(place / "half", place / f"early{i}"))
        code = f"from benchmarks.faults import *; go_on(Path({str(config)!r}), Path({str(folder)!r}), {ROUNDS - 2 + i})"
        days = (2, 400, 1)[i % 3]
        if faked:
            shown = {"LD_PRELOAD": library, "FAKETIME": f"-{days}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
            ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, **shown}, capture_output=True)
            words = ended.stderr.decode()[-300:] if ended.returncode else ""
        else:
            words = done(partial(_yesterday, config, folder, days)).get("error", "")
        row.note("continued" if not words else "failed", words)
        finished(row, config, folder, whole)
    return row


def _yesterday(config: Path, folder: Path, days: int) -> None:
    real = time.time
    time.time = lambda: real() - days * 86_400  # type: ignore[assignment]
    go_on(config, folder, ROUNDS - 1)


# ---- damaged files --------------------------------------------------------------------------------------------------


def damages(content: bytes, flips: int, name: str) -> Iterator[tuple[str, bytes | None]]:
    """Yield what may be left of a file: nothing, its beginning, more than it, or as much with a bit flipped."""
    if not name.endswith(".svg"):  # a report without the picture says that there is none
        yield "missing", None
    lengths = {0, len(content) // 3, 2 * len(content) // 3, max(0, len(content) - 1)} - {len(content)}
    for length in sorted(lengths)[-flips:]:
        yield "truncated", content[:length]
    yield "longer", content + b"\0"
    places = stream(0, "flips", int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)).integers(0, len(content), flips)
    for at in places.tolist() if content else ():
        yield "flipped", content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


def _digest(*values: Any) -> str:
    hashed = hashlib.sha256()
    for value in values:
        if isinstance(value, pd.DataFrame):
            value = value.to_csv(index=False)
        elif isinstance(value, Mapping):
            value = [(str(name), _digest(value[name])) for name in value]
        elif isinstance(value, torch.Tensor | np.ndarray):
            value = np.asarray(value).tobytes()
        hashed.update(value if isinstance(value, bytes) else repr(value).encode())
    return hashed.hexdigest()


def _loaded(out: Path) -> str:
    found = fs.load(out / "run")
    states = [(s.server, s.shared, s.memory, dict(s.clients), s.round) for s in (*found.states.values(),)]
    tables = (found.history, found.traffic, found.clients)
    return _digest(*tables, found.config, found.records, found.plan, *(part for state in states for part in state))


def _measured(out: Path) -> str:
    found = fs.read_results(out)
    return _digest(found.history, found.config, found.clients, found.plan and AnalysisPlan.read(found.plan).digest)


def _told(out: Path) -> str:
    found = read_source(out)
    return _digest(found.config, found.experiment, found.environment, found.text, found.clients, found.traffic,
                   found.picture and found.picture[1].read_bytes())  # fmt: skip


def _analysed(file: Path, out: Path) -> str:
    layer = None if file.name == "state.safetensors" else "hidden.weight"
    return _digest(read_table(file, layer=layer or "0/server/hidden.weight").values)


def _resumed(config: Path, whole: Mapping[str, str], out: Path) -> str:
    copy = Path(tempfile.mkdtemp(dir=out.parent)) / "copy"
    try:
        shutil.copytree(out, copy)
        go_on(config, copy)
        dealt = {file.name: Partition.load(file).fingerprint for file in sorted(copy.glob("partition-*.npz"))}
        return _digest({name: hashed for name, hashed in contents(copy).items() if name not in dealt}, dealt)
    except Exception as error:
        raise type(error)(str(error).replace(str(copy), str(out))) from None
    finally:
        shutil.rmtree(copy.parent)


def damaged(config: Path, out: Path, whole: Mapping[str, str], flips: int, few: int) -> list[tuple[str, Counter[str]]]:
    """Damage every file of a run's folder in every way, and read it by all that read runs.

    Returns what was seen of each file; "silent" is what must not be. Of the files of clients' rows `few` are tried.
    """
    found: list[tuple[str, Counter[str]]] = []
    readers: dict[str, Callable[[Path], str]] = {"load": _loaded, "read_results": _measured, "report": _told}
    files = sorted(p for p in out.rglob("*") if p.is_file())
    rows = [p for p in files if p.parent.parent.name == "clients" and p.suffix == ".safetensors"]
    for file in [p for p in files if p not in rows[few:]]:
        using = dict(readers)
        if file.parent == out and file.suffix in (".toml", ".npz", ".json"):
            using["--resume"] = partial(_resumed, config, whole)
        if "clients" in file.parts or file.name == "state.safetensors":
            used = rows[0] if file in rows else file
            using["factor"] = partial(_analysed, file if file in rows else used)
        content, seen = file.read_bytes(), Counter[str]()
        intact = {name: reader(out) for name, reader in using.items() if not _fails(reader, out)}
        for kind, left in damages(content, flips, file.name):
            file.unlink()  # it may be a link to a file of another checkpoint
            if left is not None:
                file.write_bytes(left)
            seen[_outcome(file, kind, intact, using, out)] += 1
            file.unlink(missing_ok=True)
            file.write_bytes(content)
        found.append((file.relative_to(out).as_posix(), seen))
    return found


def _fails(reader: Callable[[Path], str], out: Path) -> bool:
    try:
        reader(out)
    except ValueError:
        return True
    return False


def _outcome(file: Path, kind: str, intact: Mapping[str, str], using: Mapping[str, Any], out: Path) -> str:
    """Read a folder in which a file is damaged; say how all readers together took it."""
    told = 0
    for name, expected in intact.items():
        try:
            if using[name](out) != expected:
                return f"silent: {name} read it {kind}"
        except (ValueError, OSError) as error:
            if file.name not in str(error):
                return f"silent: {name} names another file ({kind}): {str(error)[:200]}"
            told += 1
        except Exception as error:
            return f"silent: {name} failed ({kind}): {type(error).__name__}: {str(error)[:200]}"
    return "refused, the file named" if told else "harmless: nobody reads what was damaged"


# ---- studies --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Config:
    device: str = "this process"


def _computed() -> dict[str, pd.DataFrame]:
    return {"numbers": pd.DataFrame({"a": np.arange(40) / 7})}


def caches(place: Path, flips: int) -> Row:
    """Damage the cached part of a study, and the tables that it leaves."""
    row = Row("damaged", "every file of a study's cache and of its tables: missing, cut, longer, a bit flipped")
    part, tables = Part("one", _Config(), _computed), place / "tables"
    expected = run_parts([part], place, "parts")["numbers"]
    write_tables(tables, _computed(), {})
    stored = _digest(read_tables(tables)["numbers"])
    sys.stderr.flush()
    for folder in (part.folder(place), tables):
        for file in sorted(p for p in folder.iterdir() if p.is_file()):
            content = file.read_bytes()
            for kind, left in damages(content, flips, file.name):
                file.unlink()
                if left is not None:
                    file.write_bytes(left)
                try:
                    if folder == tables:
                        same = _digest(read_tables(tables)["numbers"]) == stored
                        row.note(
                            "harmless" if same else "silent", "" if same else f"{file.name}, {kind}, read in silence"
                        )
                    else:
                        same = run_parts([part], place, "parts")["numbers"].equals(expected)
                        row.note("made again" if same else "silent", "" if same else f"{file.name}, {kind}")
                except (ValueError, OSError) as error:
                    named = file.name in str(error)
                    row.note("refused, the file named" if named else "other", "" if named else f"{file.name}: {error}")
                file.unlink(missing_ok=True)
                file.write_bytes(content)
    return row


def workers(place: Path, study: str, tries: int) -> Row:
    """Kill one worker process of a study, or all of it, at random moments; start it again to the end."""
    row = Row("worker lost", f"one process of `python -m simulations {study} --scale smoke` killed at a random moment")
    command = [sys.executable, "-m", "simulations", study, "--scale", "smoke", "--out"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    subprocess.run([*command, str(place / "never")], check=True, **quiet)  # type: ignore[call-overload]
    expected, moments = read_tables(place / "never" / study), stream(0, "workers")
    for i in range(tries):
        out = place / f"workers{i}"
        process = subprocess.Popen([*command, str(out)], **quiet)  # type: ignore[call-overload]
        while process.poll() is None and not (found := [p for p in tree(process.pid)[1:] if _works(p)]):
            time.sleep(0.1)
        time.sleep(moments.uniform(0, 4))
        with suppress(ProcessLookupError):
            os.kill(int(moments.choice(found)), signal.SIGKILL)
        words = process.communicate()[1].decode()
        told = process.returncode != 0 and "Traceback" not in words and "worker" in words
        row.note(
            "it says so and stops" if told else "it was over before", "" if told or not process.returncode else words
        )
        subprocess.run([*command, str(out)], check=True, **quiet)  # type: ignore[call-overload]
        now = read_tables(out / study)
        same = now.keys() == expected.keys() and all(now[name].equals(expected[name]) for name in now)
        row.note("same tables when started again" if same else "other tables", "" if same else f"{study} differs")
    return row


def _works(pid: int) -> bool:
    with suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


# ---- the table ------------------------------------------------------------------------------------------------------


def tried(place: Path, short: bool) -> tuple[list[Row], list[tuple[str, Counter[str]]]]:
    """Try all faults in a folder; return the rows of the table, and what was seen of each damaged file."""
    place.chmod(0o755)
    config = place / "it.toml"
    config.write_text(CONFIG.format(rounds=ROUNDS))
    for name, rounds in (("whole", ROUNDS), ("half", ROUNDS - 4)):
        if "error" in (answer := done(partial(go_on, config, place / name, rounds))):
            raise RuntimeError(answer["error"])
    whole = contents(place / "whole")
    rows = [kills(config, place, whole, 2 if short else 12), *full(config, place, whole, 1 if short else 4)]
    if not short:
        rows += [unwritable(config, place, whole), writers(config, place, whole, 3)]
        rows += [clock(config, place, whole, 2), workers(place, "aggregation", 2)]
    each = done(partial(damaged, config, place / "whole", whole, 1 if short else 4, 1 if short else 2))
    if "error" in each:
        raise RuntimeError(each["error"])
    files = [(name, Counter(seen)) for name, seen in each["value"]]
    row = Row("damaged", "every file of a run's folder: missing, cut at four places, longer, single bits flipped")
    for name, seen in files:
        for outcome, times in seen.items():
            silent = outcome.startswith("silent")
            row.seen["read in silence" if silent else outcome] += times
            row.bad += [f"{name}: {outcome}"] * silent
    answer = done(lambda: [vars(caches(place, 1 if short else 4))[key] for key in ("fault", "how", "seen", "bad")])
    if "error" in answer:
        raise RuntimeError(answer["error"])
    fault, how, counted, bad = answer["value"]
    return [*rows, row, Row(fault, how, Counter(counted), bad)], files


def table(rows: list[Row], files: list[tuple[str, Counter[str]]]) -> str:
    """Write both tables as Markdown."""
    lines = ["| fault | how | outcomes, and how often |", "| --- | --- | --- |"]
    for row in rows:
        outcomes = "; ".join(f"{outcome}: {times}" for outcome, times in row.seen.most_common())
        lines.append(f"| {row.fault} | {row.how} | {outcomes} |")
    lines += ["", "| damaged file | tries | refused, the file named | harmless | read in silence |",
              "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for name, seen in files:
        told = seen["refused, the file named"]
        harmless = sum(times for outcome, times in seen.items() if outcome.startswith("harmless"))
        total = sum(seen.values())
        lines.append(f"| `{name}` | {total} | {told} | {harmless} | {total - told - harmless} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Try all faults, print the tables, and fail if anything was lost or read in silence."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="less of everything, for tests")
    parser.add_argument("--update", action="store_true", help="write the tables into docs/reliability.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="fedstat-faults-") as place:
        rows, files = tried(Path(place), options.short)
    text = table(rows, files)
    print(text)
    if options.update:
        page = PAGE.read_text(encoding="utf-8")
        head, _, rest = page.partition(MARKS[0])
        PAGE.write_text(f"{head}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8")
    wrong = [line for row in rows for line in row.bad]
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()

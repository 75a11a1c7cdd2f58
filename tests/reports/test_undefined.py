"""Chapters of tables with holes: what cannot be computed is undefined, with a reason; never an error or a number."""

import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import typst
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from fedstat._tables import Tables, read_tables
from fedstat._workers import kept_workers
from fedstat.report.document import STYLE
from simulations import NAMES
from simulations.studies import chapter, draw, simulate, tell
from simulations.tables import write_tables

pytestmark = pytest.mark.slow

#: Columns that say which run a row is of, by their names; the others hold what was measured.
KEYS = {
    "p", "alpha", "lr", "noise", "contribution", "quantile", "first", "second", "dirichlet", "level", "left", "right",
    "x", "y", "test_to_train", "code_rank", "text_rank", "chosen", "end", "used", "own", "best", "averaged", "each",
}  # fmt: skip
#: The same for single tables; what Local reaches stands in several rows of a seed.
KEYS_OF = {
    ("burdens", "runs"): {"dose", "local"},
    ("burdens", "account"): {"noise", "clip"},
    ("agreement", "truth"): {"kappa"},
    ("tuning", "trials"): {"tau", "kappa"},
}
#: Text that is an estimate with limits.
ESTIMATE = re.compile(r"−?\d[\d.]* \[−?\d[\d.]*, −?\d[\d.]*\]")
MAIN = '#import "style.typ": *\n#import "chapter.typ": *\n#let d = json("data.json")\n#message(d)\n#chapter(d)\n'


def values_of(study: str, tables: Tables) -> list[tuple[str, str]]:
    """Return table and name of all columns that hold what was measured and can be NaN."""
    return [
        (name, column)
        for name, table in tables.items()
        for column in table
        if len(table) and table[column].dtype == float and column not in KEYS | KEYS_OF.get((study, name), set())
    ]


def groups_of(tables: Tables) -> list[tuple[str, object]]:
    """Return the columns that name arms and the like, each with one of its labels."""
    return sorted(
        {
            (column, label)
            for table in tables.values()
            for column in table.select_dtypes(["object", "str"])
            for label in table[column].dropna()
            if column not in ("original", "found", "shape")
        },
        key=str,
    )


@dataclass(frozen=True)
class Holes:
    """What is missing, in words, and the tables without it."""

    words: str
    tables: Tables = field(repr=False)


@st.composite
def holes(draw: st.DrawFn, study: str, tables: Tables) -> Holes:
    """Draw what is missing."""
    changed = {name: table.copy() for name, table in tables.items()}
    kinds = ["cells", "group", "constant", "one seed", "no events"]
    if not groups_of(tables):
        kinds.remove("group")
    kind = draw(st.sampled_from(kinds))
    if kind in ("cells", "constant"):
        name, column = draw(st.sampled_from(values_of(study, tables)))
        table = changed[name]
        if kind == "constant":
            value = draw(st.sampled_from([0.0, float(table[column].iloc[0])]))
            table[column] = value
            return Holes(f"{name}.{column} is {value}", changed)
        rows = sorted(draw(st.sets(st.integers(0, len(table) - 1), min_size=1, max_size=3)))
        if draw(st.booleans()):
            rows = list(range(len(table)))
        table.loc[table.index[rows], column] = np.nan
        return Holes(f"{name}.{column} is NaN in rows {rows[:3]} ({len(rows)} of {len(table)})", changed)
    if kind == "group":
        column, label = draw(st.sampled_from(groups_of(tables)))
        for name, table in changed.items():
            if column in table:
                values = [held for where, held in values_of(study, tables) if where == name]
                table.loc[table[column] == label, values] = np.nan
        return Holes(f"all values of {column} = {label} are NaN", changed)
    if kind == "one seed":
        for name, table in changed.items():
            if "seed" in table and len(table):
                labels = [c for c in table if c in KEYS or table[c].dtype in ("object", "str")]
                first = table.groupby(labels, dropna=False)["seed"].transform("min") if labels else table["seed"].min()
                changed[name] = table[table["seed"] == first].reset_index(drop=True)
        return Holes("one seed", changed)
    for table in changed.values():
        for column in table.select_dtypes("bool"):
            if column not in KEYS:
                table[column] = False
    return Holes("no events", changed)


def written(study: str, tables: Tables, config: dict[str, object], folder: Path) -> tuple[dict[str, object], dict]:
    """Draw a chapter with its figures and typeset it alone; return its numbers and findings."""
    shutil.rmtree(folder, ignore_errors=True)
    write_tables(folder, tables, config)
    kept, numbers, findings = tell(study, folder)
    pictures = draw(study, kept, folder)
    data = numbers | {
        "name": study,
        "figures": {stem: f"/{path.name}" for stem, path in pictures.items()},
        "findings": {key: finding.record() for key, finding in findings.items()},
    }
    for source in STYLE:
        shutil.copy(source, folder)
    shutil.copy(chapter(study), folder / "chapter.typ")
    (folder / "data.json").write_text(json.dumps(data, allow_nan=False), encoding="utf-8")
    (folder / "main.typ").write_text(MAIN, encoding="utf-8")
    typst.compile(str(folder / "main.typ"), sys_inputs={"format": "pdf"}, ignore_system_fonts=True)
    return numbers, findings


def printed(content: object, path: str = "") -> dict[str, str]:
    """Return all text inside the numbers of a chapter, by where it stands; arms and burdens have their names there."""
    if isinstance(content, dict):
        return {k: v for key, inner in content.items() for k, v in printed(inner, f"{path}.{key}").items()}
    if isinstance(content, list | tuple):
        named = [inner if isinstance(inner, dict) else {} for inner in content]
        names = [inner.get("arm", inner.get("burden", key)) for key, inner in enumerate(named)]
        pairs = zip(names, content, strict=True)
        return {k: v for name, inner in pairs for k, v in printed(inner, f"{path}[{name}]").items()}
    return {path: content} if isinstance(content, str) else {}


def same(one: str, other: str) -> bool:
    """Tell whether two texts hold the same numbers, in the digits that both show."""
    numbers = [re.findall(r"−?\d+(?:\.\d+)?", text) for text in (one, other)]
    if len(numbers[0]) != len(numbers[1]):
        return False
    digits = min(len(n.partition(".")[2]) for side in numbers for n in side)
    values = [[float(n.replace("−", "-")) for n in side] for side in numbers]
    return all(abs(a - b) <= 1.01 * 10.0**-digits for a, b in zip(*values, strict=True))


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Start the workers of the studies once."""
    with kept_workers():
        yield


# both tests of a study go to one process, which runs it once
@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in NAMES])
def smoke(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Tables, dict]:
    """Return a study's name, its tables at smoke scale, and how they were made."""
    out = tmp_path_factory.mktemp(request.param)
    simulate(request.param, "smoke", out)
    config = json.loads((out / request.param / "config.json").read_text())
    return request.param, read_tables(out / request.param), config


def test_a_chapter_stands_whatever_is_missing(smoke: tuple[str, Tables, dict], tmp_path: Path) -> None:
    study, tables, config = smoke

    @settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: DataObject) -> None:
        missing = data.draw(holes(study, tables))
        _, findings = written(study, missing.tables, config, tmp_path / "chapter")
        for key, finding in findings.items():
            if finding.sign == "undefined":
                assert finding.why, f"{missing.words}: {key} is undefined, and nothing says why"

    check()


def test_what_rests_on_a_missing_value_is_undefined(smoke: tuple[str, Tables, dict], tmp_path: Path) -> None:
    """A value is changed, then taken away: what the change moves must be undefined without it."""
    study, tables, config = smoke

    def told(changed: Tables) -> tuple[dict[str, str], dict]:
        write_tables(tmp_path / "told", changed, config)
        _, numbers, findings = tell(study, tmp_path / "told")
        return printed(numbers), findings

    before, first = told(tables)

    @settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: DataObject) -> None:
        name, column = data.draw(st.sampled_from(values_of(study, tables)))
        row = data.draw(st.integers(0, len(tables[name]) - 1))
        variants = []
        for value in (tables[name][column].iloc[row] * 0.99 + 0.001, math.nan):
            table = tables[name].copy()
            table.loc[table.index[row], column] = value
            variants.append(told({**tables, name: table}))
        (moved, second), (after, third) = variants
        where = f"{name}.{column} in row {row}"
        for key in first.keys() & second.keys() & third.keys():
            if first[key].mean != second[key].mean:
                assert third[key].sign == "undefined", f"{key} rests on {where} and is a number without it"
        for key in before.keys() & moved.keys() & after.keys():
            if ESTIMATE.search(before[key]) and not same(before[key], moved[key]):
                assert not ESTIMATE.fullmatch(after[key]), f"{key} rests on {where} and is {after[key]} without it"

    check()

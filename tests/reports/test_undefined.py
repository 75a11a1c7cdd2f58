"""Chapters of tables with holes: what cannot be computed is undefined, with a reason; never an error or a number."""

import json
import math
import random
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typst

from fedstat._tables import Tables, read_tables
from fedstat.report.document import STYLE
from simulations import NAMES
from simulations.contract import Finding
from simulations.studies import WORDS, chapter, draw, simulate, study, tell
from simulations.tables import read_config, write_tables
from tests.support.here import jobs_here
from theory_checks import COMMITTED

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
#: Where limits, not means, rest on the variances of all methods.
MODERATED = {"split": ".differences["}
#: Text that is an estimate with limits.
ESTIMATE = re.compile(r"−?\d[\d.]* \[−?\d[\d.]*, −?\d[\d.]*\]")
MAIN = '#import "words.typ": *\n#import "chapter.typ": *\n#let d = json("data.json")\n#message(d)\n#chapter(d)\n'


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


def holes(study: str, tables: Tables) -> Holes:
    """Draw what is missing, of a kind that is another in the next study: cells, an arm, differences, seeds, events."""
    drawn, changed = random.Random(f"{study}, holes"), {name: table.copy() for name, table in tables.items()}
    events = [(name, c) for name, table in tables.items() for c in table.select_dtypes("bool") if c not in KEYS]
    able = {"cells": True, "group": groups_of(tables), "constant": True, "one seed": True, "no events": events}
    kinds = [kind for kind, possible in able.items() if possible]
    kind = kinds[NAMES.index(study) % len(kinds)]
    if kind in ("cells", "constant"):
        name, column = drawn.choice(values_of(study, tables))
        table = changed[name]
        if kind == "constant":
            value = drawn.choice([0.0, float(table[column].iloc[0])])
            table[column] = value
            return Holes(f"{name}.{column} is {value}", changed)
        table[column] = np.nan
        return Holes(f"{name}.{column} is NaN", changed)
    if kind == "group":
        column, label = drawn.choice(groups_of(tables))
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
    for name, column in events:
        changed[name][column] = False
    return Holes("no events", changed)


@dataclass(frozen=True)
class Told:
    """What the chapter of some tables is made of, and where it can be written."""

    study: str
    folder: Path
    tables: Tables = field(repr=False)
    numbers: dict[str, Any] = field(repr=False)
    findings: dict[str, Finding] = field(repr=False)

    @classmethod
    def of(cls, study: str, tables: Tables, config: dict[str, object], folder: Path) -> "Told":
        """Tell tables anew."""
        shutil.rmtree(folder, ignore_errors=True)
        write_tables(folder, tables, config)
        return cls(study, folder, *tell(study, folder))

    def drawn(self) -> dict[str, Path]:
        """Draw the figures."""
        return draw(self.study, self.tables, self.folder)

    def typeset(self, pictures: dict[str, Path]) -> None:
        """Typeset the chapter alone with these figures."""
        data = self.numbers | {
            "name": self.study,
            "figures": {stem: f"/{path.name}" for stem, path in pictures.items()},
            "findings": {key: finding.record() for key, finding in self.findings.items()},
        }
        for source in (*STYLE, WORDS):
            shutil.copy(source, self.folder)
        shutil.copy(chapter(self.study), self.folder / "chapter.typ")
        (self.folder / "data.json").write_text(json.dumps(data, allow_nan=False), encoding="utf-8")
        (self.folder / "main.typ").write_text(MAIN, encoding="utf-8")
        typst.compile(str(self.folder / "main.typ"), sys_inputs={"format": "pdf"}, ignore_system_fonts=True)


def emptied(picture: Path, folder: Path) -> Path:
    """Write an empty picture of the same size and name."""
    opening = re.search(r"<svg\b[^>]*>", picture.read_text(encoding="utf-8"))
    assert opening
    (folder / picture.name).write_text(f"{opening[0]}</svg>", encoding="utf-8")
    return folder / picture.name


def says_why(told: Told, words: str) -> None:
    """Let no finding be undefined without a reason."""
    for key, finding in told.findings.items():
        if finding.sign == "undefined":
            assert finding.why, f"{words}: {key} is undefined, and nothing says why"


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


# both tests of a study go to one process, which runs it once
@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in NAMES])
def smoke(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Tables, dict]:
    """Return a study's name, its tables at smoke scale, and how they were made; committed ones if there is one scale.

    That these come out again is tested with their study.
    """
    folder, scales = COMMITTED / request.param, study(request.param).SCALES
    if replace(scales["smoke"], shift=0) != scales["paper"]:
        out = tmp_path_factory.mktemp(request.param)
        with jobs_here():
            simulate(request.param, "smoke", out)
        folder = out / request.param
    return request.param, read_tables(folder), read_config(folder)


@dataclass(frozen=True)
class Changed:
    """What tables tell as they are, with some values `moved` a little, and with these `taken` away; and which."""

    words: str
    first: Told
    moved: Told
    taken: Told


@pytest.fixture(scope="module")
def changed(smoke: tuple[str, Tables, dict], tmp_path_factory: pytest.TempPathFactory) -> Changed:
    """Change a value in each table."""
    study, tables, config = smoke
    drawn, every = random.Random(study), values_of(study, tables)
    moved, taken, words = dict(tables), dict(tables), []
    for name in sorted({name for name, _ in every}):
        column = drawn.choice([column for of, column in every if of == name])
        row = drawn.randrange(len(tables[name]))
        words.append(f"{name}.{column} in row {row}")
        for other, value in ((moved, tables[name][column].iloc[row] * 0.99 + 0.001), (taken, math.nan)):
            other[name] = tables[name].copy()
            other[name].loc[other[name].index[row], column] = value
    out = tmp_path_factory.mktemp("changed")
    told = (Told.of(study, some, config, out / str(k)) for k, some in enumerate((tables, moved, taken)))
    return Changed(", ".join(words), *told)


def test_a_chapter_stands_whatever_is_missing(
    smoke: tuple[str, Tables, dict], changed: Changed, tmp_path: Path
) -> None:
    """Of one kind of holes in each study figures are drawn; where single values are missing, empty ones stand."""
    study, tables, config = smoke
    missing = holes(study, tables)
    told = Told.of(study, missing.tables, config, tmp_path)
    says_why(told, missing.words)
    says_why(changed.taken, changed.words)
    pictures = told.drawn()
    told.typeset(pictures)
    changed.taken.typeset({stem: emptied(path, changed.taken.folder) for stem, path in pictures.items()})


def test_what_rests_on_a_missing_value_is_undefined(changed: Changed) -> None:
    """Values are changed, then taken away: what the change moves must be undefined without them."""
    first, second, third = changed.first.findings, changed.moved.findings, changed.taken.findings
    for key in first.keys() & second.keys() & third.keys():
        if first[key].mean != second[key].mean:
            assert third[key].sign == "undefined", f"{key} rests on {changed.words} and is a number without"
    before, moved, after = (printed(told.numbers) for told in (changed.first, changed.moved, changed.taken))
    for key in before.keys() & moved.keys() & after.keys():
        texts = before[key], moved[key]
        if key.startswith(MODERATED.get(changed.first.study, "no moderation")):
            texts = before[key].partition(" ")[0], moved[key].partition(" ")[0]
        if ESTIMATE.search(before[key]) and not same(*texts):
            assert not ESTIMATE.fullmatch(after[key]), f"{key} rests on {changed.words} and is {after[key]} without"

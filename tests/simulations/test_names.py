"""One name for one thing: whatever readers see calls methods and parameters as the registry does."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import fedstat as fs
from simulations.names import METHODS, SYMBOLS, readable
from theory_checks import COMMITTED

ROOT = Path(__file__).parents[2]
PROSE = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/own/*.md")),
    *sorted(ROOT.glob("reports/*.typ")),
    *sorted(ROOT.glob("simulations/*/chapter.typ")),
]
LEDGER = ROOT / "theory_checks" / "ledger.json"
#: Names of methods that are words, too.
ORDINARY = {"local"}
#: What is no prose: code, links, strings by which templates look things up.
CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|\"[a-z_]+\"", re.DOTALL)
#: What has another name here, or is said otherwise.
WRONG = re.compile(
    r"\bstand-?alone\b(?!_)|[πβ] = 0?\.\d|Dirichlet[ ,(]+(?:[a-z]+ )?[αβπ]|\bnot measurably\b|\bone less (?:the|a)\b|"
    r"\bsays something \(|\bnatural reading of the authors\b",
    re.IGNORECASE,
)


def spelled(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())


NAMES = {spelled(name): METHODS.get(name, name) for name in fs.methods.available() if spelled(name) not in ORDINARY}


def wrong(words):
    """Return the names of methods that are spelt otherwise than in the registry, and words that are not used."""
    tokens = re.findall(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*", words)
    named = [token for token in tokens if not token.islower()]  # identifiers are in small letters
    misspelt = [token for token in named if NAMES.get(spelled(token), token) != token]
    return misspelt + [found[0] for found in WRONG.finditer(words)]


def test_wrong_names_are_noticed():
    words = "PerFedAvg, FedFomo and Stand-Alone at Dirichlet, π = 0.1 not measurably differ"
    assert wrong(words) == ["PerFedAvg", "FedFomo", "Stand-Alone", "Dirichlet, π", "not measurably"]
    assert wrong("Per-FedAvg, FedFOMO and Local at Dirichlet 0.1, p = 0.5, α = 0.4; a local step") == []


def test_runs_and_lookups_call_methods_as_readers_do():
    class Mine(fs.methods.PerFedAvg):
        pass

    setting = fs.models.mlp(2, 3, 1), fs.data.relu_mixture(clients=2, d=2, units=3, samples=4, test=4, seed=0)
    result = fs.federate([fs.methods.PerFedAvg(), Mine()], *setting, fs.Training(lr=0.1), rounds=1, progress=False)
    assert list(result.states) == [("Per-FedAvg", 0), ("Mine", 0)]
    assert fs.methods.find("Per-FedAvg") is fs.methods.find("PerFedAvg") is fs.methods.PerFedAvg
    assert METHODS["PFedSD"] == "pFedSD"
    assert readable("PerFedAvg alpha, code") == "Per-FedAvg α, code"
    assert len(set(SYMBOLS.values())) == len(SYMBOLS)


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_chapters(path):
    assert wrong(CODE.sub(" ", path.read_text(encoding="utf-8"))) == []


def test_claims():
    said = strings(json.loads(LEDGER.read_text(encoding="utf-8")))
    assert wrong(" ".join(said)) == []


def strings(value):
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return [words for entry in value for words in strings(entry)]
    return [value] if isinstance(value, str) else []


def test_arms_and_settings_of_committed_tables():
    """Figures and tables have their labels from here; what is quoted of published tables keeps its spelling."""
    quoted = {COMMITTED / "bold" / "faces.csv"}
    for path in sorted({*COMMITTED.glob("*/*.csv")} - quoted):
        table = pd.read_csv(path)
        labels = {str(v) for name in {"arm", "setting", "method"} & {*table} for v in table[name].unique()}
        assert wrong("; ".join(map(readable, labels))) == [], path


@pytest.mark.parametrize("path", sorted(ROOT.glob("simulations/*/chapter.typ")), ids=lambda path: path.parent.name)
def test_kappa_means_one_thing_a_chapter(path):
    """The share of variance that factors contribute in FedFac's paper, or Cohen's measure of agreement."""
    words = path.read_text(encoding="utf-8")
    assert not ("Cohen" in words and "κ = " in words)

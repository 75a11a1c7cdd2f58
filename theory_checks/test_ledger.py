"""Every claim's verdict equals the committed ledger; mutants are refuted, controls stand (`judge` sees to both)."""

import ast
import re

import pytest

from fedstat.claims import Studies, as_object, judge, judge_all, read_claims, read_ledger
from fedstat.claims.evidence import FAVOURABLE
from theory_checks import COMMITTED, FOLDER, LEDGER

CLAIMS = read_claims(FOLDER)
#: One claim of each folder, judged in a moment: the others wait for the slow lane.
QUICK = ("FS-21", "FD-01", "DC-12", "FF-12", "CL-01")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CLAIMS])
def test_verdict_equals_the_ledger(name):
    judged, committed = as_object(judge(CLAIMS[name], Studies(COMMITTED))), read_ledger(LEDGER)[name]
    decided = ("verdict", "saved_by", "readings", "conditions", "severity", "said_by")
    assert {key: judged[key] for key in decided} == {key: committed[key] for key in decided}


def test_the_ledger_holds_exactly_the_declared_claims():
    assert set(read_ledger(LEDGER)) == set(CLAIMS)


def test_claims_of_the_four_papers_say_where_to_read_them():
    four = {name: claim for name, claim in CLAIMS.items() if claim.file.parent.name != "classics"}
    assert not [name for name, claim in four.items() if not claim.link]


def test_a_file_holds_one_claim_and_its_correction():
    for name, claim in CLAIMS.items():
        number, _, says = claim.file.stem.partition("_")
        assert number == name.removesuffix("c").replace("-", "").lower()
        assert says


def test_what_does_not_stand_says_why_and_has_a_corrected_statement_that_does():
    ledger = read_ledger(LEDGER)
    for name, entry in ledger.items():
        if entry["verdict"] in ("refuted", "needs-a-condition"):
            assert CLAIMS[name].flaw, name
            assert entry["corrected"], name
        if entry["corrected"]:
            assert ledger[entry["corrected"]]["verdict"] in FAVOURABLE, name


def test_all_of_the_papers_claims_are_there():
    numbers = {
        "FS": range(1, 54),
        "FD": {*range(1, 46)} - {15, 17},  # numbers that the list of claims skips
        "DC": range(1, 15),
        "FF": range(1, 15),
        "CL": {*range(1, 9), 11, 12, 14, 16, 18, 22, 30, 32, 33, 40, 41, 55, *range(70, 73), *range(80, 100)},
    }
    assert {f"{paper}-{n:02d}" for paper, of in numbers.items() for n in of} <= set(CLAIMS)


def test_verdicts_come_from_the_constructors_alone():
    for file in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called != "Evidence", f"{file}:{node.lineno}"
                assert called not in ("replace", "dataclasses.replace") or "verdict" not in ast.unparse(node), file


#: What belongs in programs and not before readers: objects as Python prints them, Typst, letters spelled out.
RAW = re.compile(
    r"Fraction\(|Decimal\(|array\(|np\.|<[a-z_.]+ object|\[\(|\(\(|\bNone\b|\bTrue\b|\bFalse\b|chevron|\bquad\b|"
    r"\b(alpha|beta|gamma|delta|epsilon|eta|theta|kappa|lambda|mu|nu|rho|sigma|tau)(_|\b)|__"
)


def test_what_is_printed_is_for_readers():
    for name, entry in read_ledger(LEDGER).items():
        claim = CLAIMS[name]
        written = [claim.words, claim.place, claim.flaw, claim.assumptions, claim.sensitivity]
        for part in ("evidence", "counterexamples", "mutants", "controls"):
            written += [*entry[part], *entry[part].values()]
        written += [mutant for made in entry["made"].values() for mutant in made]
        found = [(words, raw[0]) for words in written if (raw := RAW.search(words))]
        assert not found, (name, found)


@pytest.mark.slow
def test_many_claims_at_once_are_judged_as_one_by_one():
    together = judge_all(FOLDER, QUICK, studies=COMMITTED)
    for name, judgement in zip(QUICK, together, strict=True):
        assert as_object(judgement) == as_object(judge(CLAIMS[name], Studies(COMMITTED)))


def test_patience_is_passed_on():
    (few,), (many,) = (judge_all(FOLDER, ["FF-08c"], cases=n) for n in (7, 60))
    assert few.main.cases <= 7 < many.main.cases

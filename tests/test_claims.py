"""The machinery of judgement: every verdict can be reached, and a check that cannot fail is refused."""

import json

import pytest
from hypothesis import strategies as st

from fedstat.claims import (
    Claim,
    Evidence,
    Reading,
    all_of,
    as_object,
    enumeration,
    judge,
    missing,
    not_checkable,
    only_if,
    probability,
    read_ledger,
    search,
    searching,
    table,
    within,
    write_ledger,
)

INFINITY = float("inf")


def test_enumeration():
    squares = enumeration(range(20), lambda n: n * n >= n, of="integers below 20")
    assert (squares.verdict, squares.cases) == ("holds", 20)
    doubles = enumeration(range(20), lambda n: n * n <= 2 * n, of="integers below 20")
    assert (doubles.verdict, doubles.cases, doubles.counterexample) == ("refuted", 4, "3")
    with pytest.raises(ValueError, match="an enumeration of nothing"):
        enumeration([], bool, of="nothing")


def test_search_reports_the_sharpest_ratio_and_shrinks():
    pairs = st.tuples(st.integers(0, 100), st.integers(0, 100))
    mean = search(pairs, lambda p: ((p[0] * p[1]) ** 0.5, (p[0] + p[1]) / 2), tolerance=1e-12)
    assert mean.verdict == "holds-on-cases"
    assert mean.margin == pytest.approx(1.0)
    false = search(st.integers(0, 1000), lambda n: (n, 100.5))
    assert (false.verdict, false.counterexample) == ("refuted", "101")
    unequal = search(st.integers(0, 9), lambda n: (n, min(n, 7)), relation="==")
    assert (unequal.verdict, unequal.counterexample) == ("refuted", "8")


def test_search_takes_nan_for_a_failure_and_lets_other_errors_through():
    assert search(st.just(0), lambda n: (float("nan"), 1.0)).verdict == "refuted"

    def broken(n):
        raise AssertionError("the check itself")

    with pytest.raises(AssertionError, match="the check itself"):
        search(st.just(0), broken)


def test_search_repeats_itself():
    draws = [search(st.floats(0, 1), lambda x: (x * (1 - x), 0.25)).margin for _ in range(2)]
    assert draws[0] == draws[1]


def test_probability_needs_enough_successes():
    judged = {n: probability(n, n, at_least=0.95, what="repeats").verdict for n in (20, 58, 59)}
    assert judged == {20: "undecided", 58: "undecided", 59: "supported"}
    assert "59 successes in a row" in probability(20, 20, at_least=0.95, what="repeats").summary
    assert probability(50, 100, at_least=0.95, what="repeats").verdict == "refuted"
    assert probability(5, 5, at_least=1.0, what="repeats").verdict == "undecided"


def test_within_has_three_outcomes():
    verdicts = [within(a, b, (0.0, INFINITY), cases=5, what="x").verdict for a, b in ((1, 2), (-2, -1), (-1, 1))]
    assert verdicts == ["supported", "refuted", "undecided"]
    # half-width 1, border 0.25 away from the estimate: sixteen times the cases bring the border outside
    assert "80 seeds in place of 5" in within(-0.75, 1.25, (0.0, INFINITY), cases=5, what="x").summary


def test_what_cannot_be_decided_says_why():
    assert (missing("a method").verdict, missing("a method").summary) == ("undecided", "missing: a method")
    assert not_checkable("no source").verdict == "not-checkable"


def test_patience_overrides_every_searchs_own_number():
    def cases():
        return search(st.integers(), lambda n: (0.0, 1.0), examples=20).cases

    with searching(50):
        assert cases() == 50
    with searching(None):
        assert cases() == 20


def test_ordinal_words_of_counterexamples():
    words = [enumeration(range(30), lambda n, k=k: n != k, of="n").summary for k in (0, 1, 2, 3, 10, 20, 21, 22)]
    assert [w.split()[3] for w in words] == ["first", "second", "third", "4th", "11th", "21st", "22nd", "23rd"]


def test_conjunction_and_condition():
    holds, supported = Evidence("holds", "a", 1), Evidence("supported", "b", 1, 0.5)
    refuted, undecided = Evidence("refuted", "c", 1, -2.0), Evidence("undecided", "d", 1, -0.1)
    assert all_of([holds, supported]).verdict == "supported"
    assert all_of([holds, undecided]).verdict == "undecided"
    worst = all_of([Evidence("refuted", "mild", 1, -0.5), undecided, refuted])
    assert worst.verdict == "refuted"
    assert worst.summary.endswith("decided by c")
    few, many = (Evidence("undecided", f"{n}", 1, -0.1, needed=n) for n in (19, 274))
    assert all_of([few, many]).summary.endswith("decided by 274")
    blunt, sharp = Evidence("holds-on-cases", "blunt", 1, 0.1), Evidence("holds-on-cases", "sharp", 1, 0.99)
    assert all_of([blunt, sharp]).margin == 0.99
    with pytest.raises(ValueError, match="needs parts with plain verdicts"):
        all_of([])
    assert only_if("x > 0", holds, refuted).verdict == "holds-only-if"
    assert only_if("x > 0", refuted, refuted).verdict == "refuted"
    assert only_if("x > 0", refuted, holds).verdict == "refuted"
    assert only_if("x > 0", holds, holds).verdict == "holds"


def claim(*readings, mutant="no variant of it is false", nearest=True):
    return Claim(
        id="X-1", paper="P", place="1", statement="x >= 0", words="Words.", readings=readings, mutant=mutant,
        sensitivity="anything", nearest=nearest,
    )  # fmt: skip


def test_the_verdict_is_that_of_the_reading_nearest_the_letter():
    good, bad = Reading("good", lambda: Evidence("holds", "a", 1)), Reading("bad", lambda: Evidence("refuted", "b", 1))
    assert judge(claim(good, bad)).verdict == "holds"
    assert judge(claim(bad, good)).verdict == "refuted"
    assert judge(claim(bad, good, nearest=False)).verdict == "ambiguous"
    assert judge(claim(good, good, nearest=False)).verdict == "holds"


def test_a_check_that_cannot_fail_is_refused():
    good = Reading("good", lambda: Evidence("holds", "a", 1))
    with pytest.raises(AssertionError, match="the mutant of X-1 came out holds"):
        judge(claim(good, mutant=good.check))
    assert judge(claim(good, mutant=good.check), with_mutant=False).verdict == "holds"


def test_ledger_on_disk_and_on_screen(tmp_path):
    judged = judge(claim(Reading("r", lambda: Evidence("refuted", "1 exceeds 0", 3, 2.0, "x = 1"))))
    write_ledger([judged], tmp_path / "ledger.json")
    assert read_ledger(tmp_path / "ledger.json")["X-1"] == json.loads(json.dumps(as_object(judged)))
    assert set(as_object(judged)) == {"id", "verdict", "readings", "cases", "margin", "evidence", "corrected"}
    assert "X-1     refuted" in table([judged])
    assert "counterexample: x = 1" in table([judged])

"""The machinery of judgement: every verdict can be reached, and a check that cannot fail is refused."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sympy
from hypothesis import strategies as st

from fedstat.claims import (
    Claim,
    ClaimError,
    Evidence,
    Sides,
    Studies,
    all_of,
    any_of,
    as_object,
    both,
    compared,
    count,
    enumeration,
    identity,
    inclusions,
    judge,
    missing,
    not_checkable,
    plain,
    probability,
    read_ledger,
    remark,
    sampled,
    search,
    table,
    within,
    write_ledger,
)
from fedstat.claims.counterexample import searching
from fedstat.claims.mutation import in_words
from fedstat.inference import clopper_pearson
from simulations.tables import write_tables

INFINITY = float("inf")


def test_enumeration():
    squares = enumeration(range(20), lambda n: n * n >= n, of="integers below 20")
    assert (squares.verdict, squares.cases) == ("holds", 20)
    doubles = enumeration(range(20), lambda n: n * n <= 2 * n, of="integers below 20")
    assert (doubles.verdict, doubles.cases, doubles.counterexample) == ("refuted", 20, "3")
    with pytest.raises(ValueError, match="an enumeration of nothing"):
        enumeration([], bool, of="nothing")


def test_a_sample_of_an_infinite_family_proves_nothing():
    assert sampled(range(10**4), lambda n: n >= 0, of="integers").verdict == "holds-on-cases"
    assert sampled(range(9), lambda n: n < 8, of="integers", show=lambda n: f"n = {n}").counterexample == "n = 8"


def test_sides_are_compared_exactly_and_named():
    third = Fraction(1, 3)
    cases = [Sides(f"n = {n}", third, Fraction(1, n), ("share", "limit")) for n in (1, 2, 3)]
    assert compared(cases, of="numbers").verdict == "holds-on-cases"
    assert compared(cases, of="numbers", every=True).verdict == "holds"
    assert compared(cases, of="numbers").margin == 1.0
    with pytest.raises(ValueError, match='relation must be "<=" or "<" or "==", got \'=<\''):
        compared(cases, of="numbers", relation="=<")
    strict = compared(cases, of="numbers", relation="<")
    assert (strict.verdict, strict.counterexample) == ("refuted", "n = 3: share 1/3, limit 1/3")
    assert compared(cases, of="numbers", relation="==").counterexample == "n = 1: share 1/3, limit 1"


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (0.1 + 0.2, 0.3, "found 0.3, claimed 0.3, 5.55112e−17 apart"),
        (Fraction(1, 3) + Fraction(3, 10**10), Fraction(1, 3), "found 0.333333, claimed 1/3, 3e−10 apart"),
        (1.000004, 0.9999996, "found 1, claimed 1, 4.4e−06 apart"),
        (2, Fraction(1, 3), "found 2, claimed 1/3"),
        (10**400 + 1, 10**400, "found 1e+400, claimed 1e+400, 1 apart"),
    ],
)
def test_sides_that_look_alike_say_how_far_they_are_apart(left, right, told):
    assert compared([Sides("x", left, right)], of="numbers").counterexample == f"x: {told}"


def test_an_equality_needs_exact_sides():
    """In floats 0.1 + 0.2 is not 0.3, in fractions it is."""
    w = sympy.Symbol("w")
    tenth = Fraction(1, 10)
    assert compared([Sides("sum", tenth + 2 * tenth, 3 * tenth)], of="sums", relation="==").verdict == "holds-on-cases"
    assert identity([Sides("sum", tenth * 3 * w, 3 * tenth * w)], of="sums").verdict == "holds"
    for check, case in (
        (lambda cases, of: compared(cases, of=of, relation="=="), Sides("sum", 0.1 + 0.2, Fraction(3, 10))),
        (lambda cases, of: compared(cases, of=of, relation="=="), Sides("sum", 0, {"one": 1, "rest": np.float32(0.5)})),
        (identity, Sides("sum", 0.1 * 3 * w, 3 * tenth * w)),
    ):
        with pytest.raises(ValueError, match=r"must be exact, got .* \(sum\); write 0.1 as Fraction\(1, 10\)"):
            check([case], of="sums")


def test_an_identity_with_irrational_constants_is_refused():
    w, x = sympy.symbols("w x")
    root = sympy.sqrt(2)
    for left, right in (
        (w * sympy.sqrt(3 + 2 * root), w * (1 + root)),
        (sympy.sin(1) ** 2 + sympy.cos(1) ** 2, 1),
        (sympy.log(6), sympy.log(2) + sympy.log(3)),
        (sympy.pi * w, w),
    ):
        with pytest.raises(ValueError, match=r"rational expressions, constants included, got .* \(a\)"):
            identity([Sides("a", left, right)], of="constants")
    assert identity([Sides("a", root**2 * w, 2 * w)], of="constants").verdict == "holds"
    found = identity([Sides("a", w, w + x)], of="symbols")  # w falls out of the difference
    assert found.counterexample == "a, w = 0, x = 1: found 0, claimed 1"


def test_a_client_takes_part_with_a_probability():
    assert sum(p for p, _ in inclusions([0, Fraction(1, 3), 1])) == 1
    for wrong in (Fraction(3, 2), -1):
        with pytest.raises(ValueError, match=r"chances\[1\] must be a number in \[0, 1\], got "):
            inclusions([1, wrong])


def test_search_names_its_sides():
    false = search(st.integers(0, 1000), lambda n: (n, 100.5), names=("rounds", "limit"))
    assert false.summary == "rounds 101 exceeds limit 100.5 in the smallest counterexample"


def test_search_reports_the_sharpest_ratio_and_shrinks():
    pairs = st.tuples(st.integers(0, 100), st.integers(0, 100))
    mean = search(pairs, lambda p: ((p[0] * p[1]) ** 0.5, (p[0] + p[1]) / 2), tolerance=1e-12)
    assert mean.verdict == "holds-on-cases"
    assert mean.margin == pytest.approx(1.0)
    false = search(st.integers(0, 1000), lambda n: (n, 100.5))
    assert (false.verdict, false.counterexample) == ("refuted", "101")
    with pytest.raises(ValueError, match='relation must be "<=" or "==", got \'<\''):
        search(pairs, lambda p: p, relation="<")
    unequal = search(st.integers(0, 9), lambda n: (n, min(n, 7)), relation="==")
    assert (unequal.verdict, unequal.counterexample) == ("refuted", "8")


def test_search_takes_nan_for_a_failure_and_lets_other_errors_through():
    assert search(st.just(0), lambda n: (float("nan"), 1.0)).verdict == "refuted"

    def broken(n):
        raise AssertionError("the check itself")

    with pytest.raises(AssertionError, match="the check itself"):
        search(st.just(0), broken)


@pytest.mark.parametrize(
    ("sides", "relation", "summary", "margin"),
    [
        ((-3, -2), "<=", "no counterexample in 1 cases", None),
        ((-INFINITY, 5.0), "<=", "no counterexample in 1 cases", None),
        ((5.0, INFINITY), "<=", "no counterexample in 1 cases; largest ratio of the two sides 0", 0.0),
        ((INFINITY, INFINITY), "<=", "no counterexample in 1 cases", None),
        ((INFINITY, INFINITY), "==", "no counterexample in 1 cases", None),
        ((INFINITY, 5.0), "<=", "found inf exceeds claimed 5 in the smallest counterexample", None),
        ((float("nan"), 1.0), "==", "found – differs from claimed 1 by – in the smallest counterexample", None),
        ((Fraction(10**400), 1), "<=", "found 1e+400 exceeds claimed 1 in the smallest counterexample", None),
        ((-(10**400), 0), "==", "found −1e+400 differs from claimed 0 by 1e+400 in the smallest counterexample", None),
        ((1, 10**400), "<=", "no counterexample in 1 cases; largest ratio of the two sides 0", 0.0),
    ],
)
def test_search_forms_ratios_only_where_there_are_finite_ones(sides, relation, summary, margin):
    found = search(st.just(0), lambda _: sides, relation=relation)
    assert (found.summary, found.margin) == (summary, margin)


def test_search_repeats_itself():
    draws = [search(st.floats(0, 1), lambda x: (x * (1 - x), 0.25)).margin for _ in range(2)]
    assert draws[0] == draws[1]


def test_probability_needs_enough_successes():
    judged = {n: probability(n, n, at_least=0.95, what="repeats").verdict for n in (20, 58, 59)}
    assert judged == {20: "undecided", 58: "undecided", 59: "supported"}
    assert "59 successes in a row" in probability(20, 20, at_least=0.95, what="repeats").summary
    assert probability(50, 100, at_least=0.95, what="repeats").verdict == "refuted"
    assert probability(5, 5, at_least=1.0, what="repeats").verdict == "undecided"
    assert "; " not in probability(0, 5, at_least=0, what="repeats").summary
    needed = next(k for k in range(1, 9) if clopper_pearson(k, k, 0.9)[0] > 0.5)
    for claimed in np.arange(0.5, 0.99, 0.0017):
        needed = next(k for k in range(needed, 999) if clopper_pearson(k, k, 0.9)[0] > claimed)
        found = probability(needed - 1, needed - 1, at_least=claimed, what="repeats").summary
        assert found.endswith(f"; {needed} successes in a row would decide for it")
    assert "; 2995731 successes" in probability(9, 9, at_least=1 - 1e-6, what="repeats").summary
    for wrong in (95, 1.5, -0.5, float("nan")):
        with pytest.raises(ValueError, match=rf"at_least must be a number in \[0, 1\], got {wrong}\."):
            probability(20, 20, at_least=wrong, what="repeats")


def test_within_has_three_outcomes():
    verdicts = [within(a, b, (0.0, INFINITY), cases=5, what="x").verdict for a, b in ((1, 2), (-2, -1), (-1, 1))]
    assert verdicts == ["supported", "refuted", "undecided"]
    borders = [within(a, b, (0.0, 2.0), cases=5, what="x").verdict for a, b in ((0, 2), (-1, 0), (2, 3))]
    assert borders == ["supported", "undecided", "undecided"]  # the region's ends belong to it
    for low, high, region in ((3, 1, (0.0, 2.0)), (1, 3, (2.0, 0.0))):
        with pytest.raises(ValueError, match="low and high, and both ends of region, must be in order, got"):
            within(low, high, region, cases=5, what="x")
    for low, high in ((-INFINITY, 5), (5, INFINITY), (-INFINITY, INFINITY)):
        found = within(low, high, (0.0, 10.0), cases=5, what="x")
        assert (found.verdict, found.needed) == ("undecided", None)
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


def test_the_simplest_of_several_counterexamples_is_told():
    numbers = [-1000, *range(50, 70), 7, *range(100, 200)]
    found = enumeration(numbers, lambda n: n < 0, of="numbers", show=lambda n: f"n = {n}")
    assert (found.counterexample, found.cases) == ("n = 7", 22)


def test_conjunction_and_disjunction():
    holds, supported = Evidence("holds", "a", 1), Evidence("supported", "b", 1, 0.5)
    refuted, undecided = Evidence("refuted", "c", 1, -2.0), Evidence("undecided", "d", 1, -0.1)
    assert all_of([holds, supported]).verdict == "supported"
    assert all_of([holds, undecided]).verdict == "undecided"
    worst = all_of([Evidence("refuted", "mild", 1, -0.5), undecided, refuted])
    assert worst.verdict == "refuted"
    assert worst.summary == "of 3 parts 2 fail, 1 is undecided; c"
    few, many = (Evidence("undecided", f"{n}", 1, -0.1, needed=n) for n in (19, 274))
    assert all_of([few, many]).summary.endswith("; 274")
    blunt, sharp = Evidence("holds-on-cases", "blunt", 1, 0.1), Evidence("holds-on-cases", "sharp", 1, 0.99)
    assert all_of([blunt, sharp]).margin == 0.99
    with pytest.raises(ValueError, match="with plain verdicts"):
        all_of([])
    heard = both(holds, supported)
    assert (heard.verdict, heard.summary, heard.margin, heard.cases) == ("supported", "a; b", 0.5, 2)
    assert both(holds, refuted).verdict == "refuted"
    assert any_of([refuted, undecided, supported]).summary == "b"
    assert any_of([refuted, refuted]).summary == "c; c"
    with pytest.raises(ValueError, match="with plain verdicts"):
        any_of([holds, not_checkable("why")])


FOUND = {
    "good": Evidence("holds", "a", 1),
    "bad": Evidence("refuted", "b", 1, 2.0, "x = 1"),
    "open": Evidence("undecided", "c", 1),
    "dark": Evidence("not-checkable", "d", 1),
    "tried": Evidence("holds-on-cases", "e", 1),
}


def claim(*readings, conditions=(), mutant="bad", controls=("good",), natural=True, **fields):
    """Return a claim whose readings, conditions, mutant and controls come out as named."""
    words = {"place": "1", "said_by": "paper", "words": "Words.", "statement": "x >= 0", "sensitivity": "anything"}
    made = Claim(id="X-1", **{"severity": "misprint", **words, **fields})
    for number, name in enumerate(readings):
        made.reading(f"{name} {number}", natural=natural or number == 0)(lambda name=name: FOUND[name])
    for name in conditions:
        made.condition(f"if {name}")(lambda name=name: FOUND[name])
    if mutant:
        made.mutant("broken")(lambda: FOUND[mutant])
    for name in controls:
        made.control(name)(lambda name=name: FOUND[name])
    return made


@pytest.mark.parametrize(
    ("readings", "conditions", "verdict", "saved_by"),
    [
        (["good"], [], "holds", None),
        (["good", "open"], [], "holds", None),
        (["good", "bad"], [], "holds-in-a-reading", "good 0"),
        (["bad", "open", "good"], [], "holds-in-a-reading", "good 2"),
        (["bad", "good"], ["good"], "holds-in-a-reading", "good 1"),
        (["bad"], ["bad", "good"], "needs-a-condition", "if good"),
        (["bad", "bad"], ["open"], "refuted", None),
        (["bad", "open"], ["good"], "undecided", None),
        (["open", "good"], [], "undecided", None),
        (["dark"], ["good"], "not-checkable", None),
    ],
)
def test_a_verdict_follows_what_the_words_may_mean(readings, conditions, verdict, saved_by):
    judged = judge(claim(*readings, conditions=conditions))
    assert (judged.verdict, judged.saved_by) == (verdict, saved_by)


@pytest.mark.parametrize(
    ("readings", "verdict"),
    [
        (["bad", "good"], "ambiguous"),
        (["open", "tried", "bad"], "ambiguous"),
        (["good", "good"], "holds"),
        (["good", "tried"], "holds-on-cases"),
        (["good", "open"], "undecided"),
        (["open", "bad"], "undecided"),
        (["bad", "open"], "undecided"),
        (["good", "dark"], "not-checkable"),
        (["bad", "bad"], "refuted"),
    ],
)
def test_of_readings_of_which_none_is_nearest_the_weakest_decides_unless_they_contradict(readings, verdict):
    assert judge(claim(*readings, nearest=False)).verdict == verdict


def test_readings_that_nobody_means():
    assert judge(claim("bad", "good", natural=False)).verdict == "refuted"
    assert judge(claim("good", "bad", natural=False)).verdict == "holds"


@pytest.mark.parametrize("name", ["good", "open", "dark", "tried"])
def test_a_mutant_that_is_not_refuted_raises(name):
    e = FOUND[name]
    with pytest.raises(ClaimError, match=f"its mutant 'broken' came out {e.verdict}, it must be refuted: {e.summary}"):
        judge(claim("good", mutant=name))
    assert judge(claim("good", mutant=name), with_mutant=False).verdict == "holds"


def test_readings_that_hide_each_other_or_that_nobody_means_are_refused():
    twice, beside, strange = claim("bad"), claim("good", conditions=["good"]), claim()
    twice.reading("bad 0")(lambda: FOUND["good"])
    beside.condition("good 0")(lambda: FOUND["bad"])
    strange.reading("strange", natural=False)(lambda: FOUND["good"])
    for made, words in (
        (twice, "X-1: two of its checks have one name: bad 0, bad 0"),
        (beside, "X-1: two of its checks have one name: good 0, good 0, if good"),
        (strange, "X-1: it has no natural reading; add a check"),
    ):
        with pytest.raises(ClaimError, match=words):
            judge(made)


@pytest.mark.parametrize("verdict", ["proven", "ambiguous", None])
def test_a_check_finds_one_of_six_verdicts(verdict):
    with pytest.raises(ValueError, match=rf'verdict must be one of "holds", .* "not-checkable", got {verdict!r}'):
        Evidence(verdict, "a", 1)


@pytest.mark.parametrize(
    ("readings", "natural", "cited"),
    [
        (["good", "bad"], False, "'' holds.\na.\n"),
        (["bad", "good"], False, "'' is refuted.\nCounterexample: x = 1.\n"),
        (["good", "bad"], True, "'' is true in one reading: good 0.\nCounterexample: x = 1.\n"),
    ],
)
def test_a_counterexample_is_cited_against_what_does_not_stand(readings, natural, cited):
    assert cited in remark(judge(claim(*readings, natural=natural)), {})


def test_a_check_that_cannot_fail_or_cannot_pass_is_refused():
    with pytest.raises(ClaimError, match="X-1: its control 'open' came out undecided, it must stand: c"):
        judge(claim("bad", controls=["open"]))
    refused = r"X-1: it came out refuted and has no control; add @NAME\.control.*\. What refutes it: x = 1\.$"
    with pytest.raises(ClaimError, match=refused):
        judge(claim("bad", controls=()))
    assert judge(claim("good", controls=())).verdict == "holds"
    with pytest.raises(ClaimError, match=r"nothing shows that its check can fail; .* under @NAME\.mutant"):
        judge(claim("good", mutant=None))


def optimum(sides):
    """Return the claim that FedAvg reaches the optimum at a rate of 1/T^9, with a check of something else."""
    made = claim(mutant=None, words="FedAvg reaches the optimum at 1/T^9.")
    made.reading("as printed")(lambda: compared([Sides(f"n = {n}", *sides(n)) for n in range(9)], of="numbers"))
    return made


def test_a_check_that_has_nothing_to_do_with_its_claim_is_refused():
    with pytest.raises(ClaimError, match="its check 'as printed' sees nothing of the statement: refuted: the relation"):
        judge(optimum(lambda n: (0, n * n)))
    with pytest.raises(ClaimError, match="nothing shows that its check can fail"):
        made = claim(mutant=None)
        made.reading("as printed")(lambda: sampled(range(9), lambda n: n * n >= 0, of="numbers"))
        judge(made)
    assert judge(optimum(lambda n: (n, n * n))).verdict == "holds-on-cases"


@pytest.mark.parametrize("mutant", [None, "n for n + 1"])
def test_a_right_side_of_zero_has_no_mutants_and_needs_one_of_ones_own(mutant):
    """Sums from 1 to n against n (n + 1) / 2, and n against n^2, with the right side taken to the left."""
    n = sympy.Symbol("n")

    def excess(i, k):
        return sum(range(i + 1)) - i * (i + k) // 2, 0

    checks = {
        "==": lambda k: compared([Sides(str(i), *excess(i, k)) for i in range(9)], of="sums", relation="=="),
        "<=": lambda k: compared([Sides(str(i), i * (k + 1) - 1 - i * i, 0) for i in range(9)], of="sums"),
        "search": lambda k: search(st.integers(0, 9), lambda i: excess(i, k), relation="=="),
        "identity": lambda k: identity([Sides("n", (n + 1) ** 2 - n * n - 2 * n - k, 0)], of="squares"),
        "nothing": lambda k: identity([Sides("n", 0, (n + 1) ** 2 - n * n - 2 * n - k)], of="squares"),
    }
    for name, check in checks.items():
        made = claim(mutant=None)
        made.reading(name)(lambda check=check: check(1))
        if mutant:
            made.mutant(mutant)(lambda check=check: check(2))
            assert judge(made).verdict in ("holds", "holds-on-cases")
        else:
            with pytest.raises(ClaimError, match=r"nothing shows that its check can fail; .* sides that are not zero"):
                judge(made)


def test_mutants_are_made_from_the_two_sides():
    """2 n <= n^2 + 1, by both constructors; only where both summands count does a check see the loss of each."""
    cases = {n: (2 * n, {"square": n * n, "constant": 1}) for n in range(6)}
    of_all = compared([Sides(str(n), *sides) for n, sides in cases.items()], of="numbers").made
    searched = search(st.sampled_from(range(6)), cases.__getitem__).made
    assert of_all == searched
    assert all(of_all.values())
    large = compared([Sides(str(n), *cases[n]) for n in (4, 5)], of="numbers")
    assert large.margin == pytest.approx(8 / 17)
    unseen = [name for name, seen in large.made.items() if not seen]
    assert unseen == ["the right side a tenth smaller", "the right side a third smaller", "the right side halved",
                      "without the constant"]  # fmt: skip
    assert in_words(large.made) == (
        "refuted: the right side cut to a thousandth, the relation turned, without the square; "
        "not noticed: without the constant"
    )
    identity = compared([Sides("n = 3", {"square": 9, "nothing": 0}, 9)], of="numbers", relation="==").made
    assert identity == {"the right side a tenth larger": True, "without the square": True, "without the nothing": False}
    joined = all_of([large, compared([Sides("1", *cases[1])], of="numbers")])
    assert all(joined.made.values())
    assert within(0.9, 1.05, (0.8, 1.2), cases=5, what="x").made["the quantity times 1.5"]
    assert not within(0.9, 1.05, (0.8, 1.2), cases=5, what="x").made["the quantity times 1.1"]


def test_ledger_on_disk_and_on_screen(tmp_path):
    judged = judge(claim("bad"))
    write_ledger([judged], tmp_path / "ledger.json")
    assert read_ledger(tmp_path / "ledger.json")["X-1"] == json.loads(json.dumps(as_object(judged)))
    assert "X-1     × refuted" in table([judged])
    assert "b: x = 1" in table([judged])


def test_the_papers_own_statements_are_counted_first():
    made = [claim("bad"), claim("bad", severity="false"), claim("good"), claim("open"), claim("bad", "good")]
    made += [claim("bad", conditions=["good"]), claim("good", said_by="us")]
    assert count([judge(one) for one in made]).splitlines() == [
        "6 statements of the papers: 1 proven; 1 true in one reading, false in another; 1 true on a condition that is "
        "not stated; 2 refuted (1 misprint, 1 false); 1 undecided.",
        "1 statement worded by others: 1 proven.",
    ]


def test_statements_are_written_plainly():
    written = {
        "norm(h(t) - y)^2 <= (1 - rho_1 lambda^s / 2)^t": "‖h(t) − y‖² ≤ (1 − ρ_1 λ^s / 2)^t",
        'hat(w)^(-1) in RR quad "for all" k': "ŵ⁻¹ ∈ ℝ for all k",
        "sqrt(C / n dot y^top H y) => chevron.l a, b chevron.r": "√(C / n · yᵀ H y) ⇒ ⟨ a, b ⟩",
    }
    assert {statement: plain(statement) for statement in written} == written


def test_a_reading_that_raises_names_file_table_and_column(tmp_path):
    write_tables(tmp_path / "wide", {"networks": pd.DataFrame({"width": [1], "seed": [0]})}, {})
    made = claim("good")
    made.file = Path("mine.py")
    made.reading("below the bound")(lambda studies: studies["wide"]["networks"]["below"])
    with pytest.raises(ClaimError) as error:
        judge(made, Studies(tmp_path))
    message = str(error.value)
    assert message.startswith("mine.py: X-1: its reading 'below the bound' raised KeyError: 'below'; ")
    assert message.endswith(f"{tmp_path / 'wide' / 'networks'}.csv has the columns width, seed.")
    with pytest.raises(ClaimError, match="no folder of tables was given"):
        judge(made)

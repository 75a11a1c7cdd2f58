"""Every claim's verdict equals the committed ledger, and every mutant is refuted (`judge` asserts it)."""

import pytest

from fedstat.claims import as_object, judge, read_ledger
from theory_checks import LEDGER, all_claims

CLAIMS = {claim.id: claim for claim in all_claims()}


@pytest.mark.parametrize("name", CLAIMS)
def test_verdict_equals_the_ledger(name):
    judged, committed = as_object(judge(CLAIMS[name])), read_ledger(LEDGER)[name]
    assert (judged["verdict"], judged["readings"]) == (committed["verdict"], committed["readings"])


def test_the_ledger_holds_exactly_the_declared_claims():
    assert set(read_ledger(LEDGER)) == set(CLAIMS)


def test_corrected_statements_exist_and_stand():
    ledger = read_ledger(LEDGER)
    for entry in ledger.values():
        if entry["corrected"]:
            assert ledger[entry["corrected"]]["verdict"] in ("holds", "holds-on-cases", "supported")

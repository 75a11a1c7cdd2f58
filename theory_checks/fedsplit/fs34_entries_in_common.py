"""FS-34: entries that Tables 4 to 6 have in common."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from fedstat.claims import Claim, Evidence, Sides, enumeration
from theory_checks.fedsplit.printed_tables import AS_PRINTED, CIFAR100, LAST_DIGIT, Row, printed

#: Table 4 with layer 15 split, threshold 50%, contribution 0.85.
LAYER_15 = printed(4, layer="15")
DYNAMIC = printed(2, method="FedFac dynamic")
FACTOR_ANALYSIS = printed(8, variant="factor analysis")


def _pairs(label: str, left: Row, right: Row, names: tuple[str, str]) -> list[Sides]:
    return [Sides(f"{label}{where}", left[where], right[where], names) for where in left]


def _best(table: int, by: str) -> Row:
    return {where: max(printed(table, by, setting=where).values()) for where in CIFAR100}


def _tables_4_and_5(layer_15: Row = LAYER_15) -> list[Sides]:
    """Return the pairs for layer 15, threshold 50%, contribution 0.85."""
    return _pairs("", layer_15, printed(5, threshold="50%"), ("Table 4", "Table 5"))


def _tables_5_and_6() -> list[Sides]:
    """Return the pairs for layer 15, the best threshold, contribution 0.85."""
    return _pairs("best threshold, ", _best(5, "threshold"), printed(6, contribution="0.85"), ("Table 5", "Table 6"))


def _table_2_and_tuned() -> list[Sides]:
    """Return the pairs for dynamic FedFac as tuned."""
    tuned = {where: max(_best(5, "threshold")[where], _best(6, "contribution")[where]) for where in CIFAR100}
    return _pairs("", {where: DYNAMIC[where] for where in CIFAR100}, tuned, ("Table 2", "best of Tables 5 and 6"))


def _tables_2_and_8(right: Row = FACTOR_ANALYSIS) -> list[Sides]:
    return _pairs("", DYNAMIC, right, ("Table 2", "Table 8"))


def _gap(pair: Sides) -> Decimal:
    gap: Decimal = abs(pair.left - pair.right)
    return gap


def _agree(pairs: Sequence[Sides], up_to: str = "0") -> Evidence:
    largest = max(pairs, key=_gap)
    of = f"coinciding entries (largest difference {_gap(largest)}, {largest.case})"
    return enumeration(pairs, lambda pair: _gap(pair) <= Decimal(up_to), of=of)


FS34 = Claim(
    id="FS-34",
    place="section 5.3, captions of Tables 4 to 6",
    said_by="fedstat",
    words="Tables 4, 5 and 6 agree where their captions name the same setting.",
    statement='A_"Table 4" = A_"Table 5" = A_"Table 6" " where " Lambda, tau, kappa " coincide"',
    severity="misprint",
    assumptions="one setting printed in two tables should show one number, or numbers that differ as repeated runs do; "
    "Table 4's threshold of 50 is read as the 50% quantile",
    sensitivity=LAST_DIGIT,
    flaw="Tables 5 and 6 seem to come from other settings or runs than their captions say: the best entries of "
    "Table 5, captioned κ = 0.85, stand in Table 6 under κ = 0.9 and 0.75.",
    corrected="FS-34c",
)


@FS34.reading("Tables 4, 5 and 6")
def tables_4_to_6() -> Evidence:
    return _agree(_tables_4_and_5() + _tables_5_and_6())


@FS34.reading("Tables 4, 5 and 6, up to 0.02 as between repeated runs")
def up_to_noise() -> Evidence:
    return _agree(_tables_4_and_5() + _tables_5_and_6(), "0.02")


@FS34.reading("Table 2 and the best of Tables 5 and 6")
def tuned() -> Evidence:
    return _agree(_table_2_and_tuned())


@FS34.reading("Tables 2 and 8")
def ablation() -> Evidence:
    return _agree(_tables_2_and_8())


def _without_the_slip(pairs: Sequence[Sides]) -> list[Sides]:
    return [pair for pair in pairs if pair.case != "CIFAR-100, S = 5"]


@FS34.mutant("Table 8's other row, with the shared units masked, without CIFAR-100 at S = 5")
def another_row() -> Evidence:
    return _agree(_without_the_slip(_tables_2_and_8(printed(8, variant="shared masked"))))


@FS34.control("Tables 2 and 8, without CIFAR-100 at S = 5")
def seven_entries() -> Evidence:
    return _agree(_without_the_slip(_tables_2_and_8()))


def _disagree(pairs: Sequence[Sides]) -> Evidence:
    """Ask for a difference of 0.2307 in one entry, and of at most 0.0154 in all others: read off the tables."""

    def holds(pair: Sides) -> bool:
        if pair.case == "CIFAR-100, S = 10":
            return _gap(pair) == Decimal("0.2307")
        return _gap(pair) <= Decimal("0.0154")

    return enumeration(pairs, holds, of="coinciding entries of Tables 4 to 6")


def _same_best() -> Evidence:
    """Ask whether the best entries of Table 5 are those of Table 6, where none stands under kappa = 0.85."""
    pairs = _pairs("", _best(5, "threshold"), _best(6, "contribution"), ("Table 5", "Table 6"))
    elsewhere = printed(6, contribution="0.85").values()
    return enumeration(
        pairs,
        lambda pair: pair.left == pair.right and pair.left not in elsewhere,
        of="best entries of Tables 5 and 6",
    )


FS34C = Claim(
    id="FS-34c",
    place="corrected statement of FS-34",
    said_by="fedstat",
    words="Coinciding entries of Tables 4 to 6 differ by 0.2307 (0.6561, 0.4254; S = 10) and else by 0.0154 at most.",
    statement='abs(A_"Table 4" - A_"Table 5") = 0.2307 " at " S = 10, quad abs(Delta A) <= 0.0154 " elsewhere"',
    severity="false",
    assumptions=AS_PRINTED,
    sensitivity=LAST_DIGIT,
)


@FS34C.reading("differences of coinciding entries")
def differences() -> Evidence:
    return _disagree(_tables_4_and_5() + _tables_5_and_6())


@FS34C.reading("best entries equal, under another κ than captioned")
def best_entries() -> Evidence:
    return _same_best()


@FS34C.mutant("0.6950 in place of 0.6822 in Table 4 at S = 5")
def one_number_changed() -> Evidence:
    return _disagree(_tables_4_and_5(LAYER_15 | {"CIFAR-100, S = 5": Decimal("0.6950")}))

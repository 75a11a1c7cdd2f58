"""FS-32: the dynamic version is not always the better one.

FS-32c: how the dynamic and the static version compare.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from fedstat.claims import Claim, Evidence, Sides, both, compared
from theory_checks.fedsplit.printed_tables import AS_PRINTED, LAST_DIGIT, Row, printed

STATIC, DYNAMIC = (printed(2, method=f"FedFac {name}") for name in ("static", "dynamic"))


def _ahead(relation: Literal["<", "<="], dynamic: Row = DYNAMIC) -> Evidence:
    sides = (Sides(where, STATIC[where], dynamic[where], ("static", "dynamic")) for where in dynamic)
    return compared(sides, of="settings of Table 2", relation=relation, every=True)


FS32 = Claim(
    id="FS-32",
    place="section 5.2, first paragraph, fifth sentence, and Table 2",
    said_by="paper",
    words="The dynamic version always performs better than the static one.",
    statement='A_"dynamic" > A_"static"',
    severity="false",
    assumptions=AS_PRINTED,
    sensitivity=LAST_DIGIT,
    flaw="Table 2 has one setting where the static version is ahead, by 0.0002, and one with equal accuracies.",
    corrected="FS-32c",
)


@FS32.reading("better in every setting")
def better() -> Evidence:
    return _ahead("<")


@FS32.reading("never worse")
def never_worse() -> Evidence:
    return _ahead("<=")


@FS32.control("the settings without CIFAR-10 at Dirichlet 0.1 and CIFAR-100 at S = 5")
def six_settings() -> Evidence:
    left_out = ("CIFAR-10, Dirichlet 0.1", "CIFAR-100, S = 5")
    return _ahead("<", {where: value for where, value in DYNAMIC.items() if where not in left_out})


FS32C = Claim(
    id="FS-32c",
    place="corrected statement of FS-32",
    said_by="fedstat",
    words="In Table 2 the dynamic version is at least as good in seven of eight settings, and 0.0002 behind in the "
    "other.",
    statement='A_"dynamic" >= A_"static" " in 7 of 8 settings, and " A_"dynamic" >= A_"static" - 0.0002 " in all"',
    severity="false",
    assumptions=AS_PRINTED,
    sensitivity=LAST_DIGIT,
)


@FS32C.reading("Table 2")
def table_2() -> Evidence:
    behind = sum(DYNAMIC[where] < STATIC[where] for where in DYNAMIC)
    sides = [
        Sides(where, STATIC[where], {"dynamic version": DYNAMIC[where], "allowance": Decimal("0.0002")})
        for where in DYNAMIC
    ]
    return both(
        compared(sides, of="settings of Table 2", every=True),
        compared([Sides("settings behind", behind, 1)], of="numbers of settings behind", relation="==", every=True),
    )

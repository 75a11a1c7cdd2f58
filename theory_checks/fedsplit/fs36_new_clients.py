"""FS-36: for new clients Ensemble beats local training."""

from __future__ import annotations

from collections.abc import Sequence

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.fedsplit.printed_tables import AS_PRINTED, LAST_DIGIT, printed

#: Accuracy of new clients on CIFAR-10, by method.
NEW_CLIENTS = {
    f"Dirichlet {value}": printed(3, "method", setting=f"CIFAR-10, Dirichlet {value}") for value in ("0.1", "0.5", "1")
}


def _ensemble(best_in: Sequence[str]) -> Evidence:
    """Compare Ensemble with LocalTrain everywhere, and with every other method in the settings `best_in`."""
    sides = [
        Sides(where, value, row["Ensemble"], (name, "Ensemble"))
        for where, row in NEW_CLIENTS.items()
        for name, value in row.items()
        if name == "LocalTrain" or (where in best_in and name != "Ensemble")
    ]
    return compared(sides, of="comparisons of Table 3", relation="<", every=True)


FS36 = Claim(
    id="FS-36",
    place="section 5.2, third paragraph, the two sentences before the last, and Table 3",
    said_by="paper",
    words="For new clients Ensemble beats LocalTrain, and at Dirichlet 0.5 and 1 all other methods.",
    statement='A_"Ensemble" > A_"LocalTrain", quad A_"Ensemble" = max A " at Dirichlet 0.5 and 1"',
    severity="false",
    assumptions=AS_PRINTED,
    sensitivity=LAST_DIGIT,
)


@FS36.reading("Table 3")
def table_3() -> Evidence:
    return _ensemble(("Dirichlet 0.5", "Dirichlet 1"))


@FS36.mutant("best for Dirichlet 0.1 too")
def best_everywhere() -> Evidence:
    return _ensemble(tuple(NEW_CLIENTS))

"""FS-47: the code's statistic does not say which units agree.

FS-47c: the code's statistic is blind to agreement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Studies, both, sampled
from fedstat.inference import number
from theory_checks.fedsplit.factor_models import unit_squares
from theory_checks.fedsplit.recovery import rows_of
from theory_checks.fedsplit.stacks import FAVOURABLE, invariant, marks

#: Eigenvectors computed from rearranged rows may order units otherwise that are equal up to rounding.
ROUNDING = 1e-3

FS47 = Claim(
    id="FS-47",
    place="section 4.1, paragraph after the iteration, the sentences on a higher and on a smaller ν, with the "
    "statistic of the authors' public code",
    said_by="fedstat",
    words="The statistic of the authors' code is larger for units that agree across clients than for others.",
    statement='s_i > s_j " for all shared" i " and client-specific" j',
    severity="false",
    assumptions="a unit is shared where its weights agree at all clients; one leading eigenvector. In both stacks R is "
    "the same matrix, and the statistic sees nothing else",
    sensitivity="two stacks of 8 rows and 4 units, one for the statement and one against it",
    flaw="R pools the rows of all clients, and its eigenvectors say which units move together. Whether a unit agrees "
    "across clients does not enter.",
    corrected="FS-47c",
)


@FS47.reading("the leading unit eigenvector")
def leading_eigenvector() -> Evidence:
    return marks(unit_squares)


@FS47.control("the stack in which the shared units move together")
def shared_together() -> Evidence:
    return marks(unit_squares, FAVOURABLE)


class _Pair(NamedTuple):
    """AUC of the true parameters of one seed, and after each client's inputs were permuted."""

    p: float
    alpha: float
    kappa: float
    seed: int
    before: float
    after: float

    def __str__(self) -> str:
        where = f"p = {self.p:g}, α = {self.alpha:g}, seed {self.seed}"
        kappa = "" if self.kappa != self.kappa else f", κ = {self.kappa:g}"
        return f"{where}{kappa}: AUC {number(self.before)}, after the permutation {number(self.after)}"


def _pairs(studies: Studies, statistic: str) -> Iterator[_Pair]:
    by = ["p", "alpha", "kappa", "seed"]
    before, after = (rows_of(studies["agreement"], statistic, name) for name in ("true", "permuted"))
    both = before.merge(after, on=by, suffixes=("", "_permuted"))  # NaN meets NaN where there is no kappa
    for row in both[[*by, "auc", "auc_permuted"]].itertuples(index=False):
        yield _Pair(*row)


def _unmoved(studies: Studies, statistic: str) -> Evidence:
    """Ask whether the AUC stays when the inputs are permuted within each client, alike for all units.

    Whatever the units of two clients had in common is gone then; by the first reading no statistic of R can notice.
    """
    return sampled(
        _pairs(studies, statistic),
        lambda pair: abs(pair.after - pair.before) <= ROUNDING,
        of="settings, contributions and seeds of the generator",
    )


FS47C = Claim(
    id="FS-47c",
    place="corrected statement of FS-47",
    said_by="fedstat",
    words="The statistic does not change when rows are rearranged within or across clients, in the same way for all "
    "units: it ranks units as before even where nothing is left for clients to agree about.",
    statement='s(P Z) = s(Z) " for every permutation" P " of the rows"',
    severity="false",
    sensitivity="a correlation or a value of the statistic off by 1e-6; on the generator an AUC off by 0.001",
)


@FS47C.reading("any rearrangement, and the inputs of the generator's true parameters permuted within each client")
def any_rearrangement(studies: Studies) -> Evidence:
    return both(invariant(unit_squares, slice(None), "s"), _unmoved(studies, "eigenvectors"))


@FS47C.mutant("the first unit's rows rearranged alone")
def one_unit_alone() -> Evidence:
    return invariant(unit_squares, slice(1), "s")


@FS47C.mutant("agreement over clients in place of the statistic")
def agreement_over_clients(studies: Studies) -> Evidence:
    return _unmoved(studies, "agreement")

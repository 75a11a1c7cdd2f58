"""FS-27: a high communality does not mean that clients agree.

FS-27c: ν stays the same however far clients agree.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from fedstat.claims import Claim, Evidence, both, enumeration
from theory_checks.fedsplit.factor_models import correlations, principal_axis, printed_loop
from theory_checks.fedsplit.stacks import FAVOURABLE, PERSONAL_TOGETHER, invariant, marks


def _any_agreement() -> Evidence:
    """Find, for each agreement of a unit's weights at two clients, a stack with that agreement and the same R.

    The second client's rows are rearranged alike for all units. The last unit, (1, 1, -1, -1) at both clients to
    begin with, then has a correlation of 1, 0 or -1 between the clients.
    """
    original = correlations(PERSONAL_TOGETHER.columns())

    def holds(agreement: int) -> bool:
        for order in permutations(range(4)):
            second = tuple(tuple(block[i] for i in order) for block in PERSONAL_TOGETHER.second)
            stack = PERSONAL_TOGETHER._replace(second=second)
            if np.dot(stack.first[-1], second[-1]) == 4 * agreement:
                return bool((correlations(stack.columns()) == original).all())
        return False

    return enumeration((1, 0, -1), holds, of="agreements 1, 0 and −1 of one unit at two clients")


FS27 = Claim(
    id="FS-27",
    place="section 4.1, paragraph after the iteration, the sentences on a higher and on a smaller ν",
    said_by="paper",
    words="A higher ν means that a unit is more likely to be shared by all clients, a smaller one that it is more "
    "client-specific.",
    statement='nu_i > nu_j " for all shared" i " and client-specific" j',
    severity="false",
    assumptions="a unit is shared where its weights agree at all clients; one factor, as a contribution of 0.5 "
    "chooses. 'More likely' asks for some relation; in both stacks R, all that ν sees, is the same, so ν by itself "
    "tells nothing of agreement. On one generator it may still go along with sharing: FS-28",
    sensitivity="two stacks of 8 rows and 4 units, one for the statement and one against it",
    flaw="R pools the rows of all clients, so ν tells how far a unit moves together with other units of its layer. "
    "Whether it agrees across clients does not enter.",
    corrected="FS-27c",
)


@FS27.reading("communality with one factor")
def communality() -> Evidence:
    return marks(principal_axis)


@FS27.reading("one principal component, as the printed loop gives")
def principal_component() -> Evidence:
    return marks(printed_loop)


@FS27.control("the stack in which the shared units move together")
def shared_together() -> Evidence:
    return marks(principal_axis, FAVOURABLE)


FS27C = Claim(
    id="FS-27c",
    place="corrected statement of FS-27",
    said_by="fedstat",
    words="ν does not change when rows are rearranged within or across clients, in the same way for all units, "
    "although that changes how far clients agree.",
    statement='nu(P Z) = nu(Z) " for every permutation" P " of the rows"',
    severity="false",
    sensitivity="a correlation or a value of ν off by 1e-6",
)


@FS27C.reading("any rearrangement, and the same ν with any agreement")
def any_rearrangement() -> Evidence:
    return both(invariant(principal_axis, slice(None), "ν"), _any_agreement())


@FS27C.mutant("the first unit's rows rearranged alone")
def one_unit_alone() -> Evidence:
    return invariant(principal_axis, slice(1), "ν")

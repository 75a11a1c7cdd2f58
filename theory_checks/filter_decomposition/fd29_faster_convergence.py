"""FD-29: virtual clients do not explain faster convergence.

FD-29c: the sampling error is exactly FedAvg's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from fedstat.claims import Claim, Evidence, Sides, both, compared
from theory_checks.filter_decomposition.any_draw import errors, independent
from theory_checks.filter_decomposition.drawn_clients import (
    LARGEST,
    SMALL_POPULATIONS,
    Drawn,
    Pair,
    Sizes,
    populations,
    sizes_up_to,
)
from theory_checks.filter_decomposition.exact_laws import sided

FD29 = Claim(
    id="FD-29",
    place="section 5, Remark 5.7, last but one sentence",
    said_by="paper",
    words="Virtual clients make convergence faster, by making the sampling error of the averaged model smaller than "
    "FedAvg's.",
    statement="EE norm(w'_S - hat(w))^2 < EE norm(w_S - hat(w))^2, quad w = (alpha, D, theta_h)",
    severity="false",
    assumptions="more than one client drawn and fewer than all, and clients that differ; w′ is the average with "
    "virtual clients, w FedAvg's, and S the drawn clients",
    sensitivity="any case in which the error is not smaller",
    flaw="The theorem's w holds coefficients, atoms and head, each averaged entry by entry: in these coordinates there "
    "are no products and no virtual clients, and the sampling error is exactly FedAvg's, (31). That one of two upper "
    "bounds is the smaller says nothing about speed, and the smaller one rests on (33), which does not hold (FD-25).",
    corrected="FD-29c",
)

VECTORS = ("error of (α, D)", "of FedAvg, by (31)")
FILTERS = ("error of the filter αD", "of FedAvg")


def vectors(fewest: int) -> Iterator[Drawn]:
    """Yield clients that differ, so many or more of them drawn and not all."""
    return (c for c in populations(4) if fewest <= c.m < len(c.clients) and c.entry_by_entry()[1] > 0)


@dataclass(frozen=True)
class Bound:
    """The printed bound's bracket without its common terms, for G = 1: ``8 (E - 1)^2 + 4 factor (E - 1)^2``."""

    sizes: Sizes
    local_steps: int

    def __str__(self) -> str:
        return f"{self.sizes}, E = {self.local_steps}"

    def value(self, factor: Fraction) -> Fraction:
        """Return the bound with this factor of the sampling term."""
        return (8 + 4 * factor) * (self.local_steps - 1) ** 2


@FD29.reading("the sampling error in Theorem 5.4's own coordinates, w = (α, D, head)")
def own_coordinates() -> Evidence:
    return compared(sided(vectors(2), Drawn.entry_by_entry, VECTORS), of=SMALL_POPULATIONS, relation="<")


@FD29.reading(
    "the printed bounds alone, with fewer clients drawn than there are and at least two local steps", natural=False
)
def printed_bounds() -> Evidence:
    """Compare the bounds; they differ by their sampling factors, of which by FD-28c the printed one is the smaller.

    ``printed = f (M + m) / (m M^2 (M + 1))``, at most ``f / M^2`` and less than f, for all m < M; any E > 1 will do.
    """
    cases = (Bound(s, steps) for s in sizes_up_to(LARGEST) if s.m < s.M for steps in (2, 5, 10))
    names = ("bound with virtual clients", "without")
    return compared(
        sided(cases, lambda b: (b.value(b.sizes.printed), b.value(b.sizes.f)), names),
        of=f"sizes m < M ≤ {LARGEST} with E of 2, 5 and 10",
        relation="<",
    )


@FD29.control("the filter αD of independent clients, fewer than half of them drawn, on average (FD-26c)")
def of_the_filter() -> Evidence:
    cases = independent((5, 7), lambda m, size: 1 < m < size / 2)
    sides = (Sides(str(case), *case.average(errors), FILTERS) for case in cases)
    return compared(sides, of="laws of independent coefficients and atoms", relation="<")


FD29C = Claim(
    id="FD-29c",
    place="corrected statement of FD-29",
    said_by="fedstat",
    words="In the theorem's setting the sampling error is exactly FedAvg's; for m of at least 2 the printed bound "
    "would shrink by less than a fifth.",
    statement="EE norm(w'_S - hat(w))^2 = EE norm(w_S - hat(w))^2, quad (R - R')/(B + R) <= f/(2 + f) < 1/5 "
    '" for" m >= 2',
    severity="false",
    assumptions="w′ is the average with virtual clients, w FedAvg's; m at least 2 for the share of the bound; R and R′ "
    "are the sampling terms of the printed bound without and with virtual clients, B is its local term, "
    "f = (M − m)/(m(M − 1)); the derivation holds for any number of clients",
    sensitivity="any difference of the errors; a tenth of the saving, which is largest for m = 2 and many clients",
)


@FD29C.reading("error and bound")
def error_and_share() -> Evidence:
    """Compare the errors, and the saved share of the bound.

    Averages are linear, so (31) holds for the vector (alpha, D, head) as for any other. In the bound's bracket the
    sampling term with factor f stands beside ``8 (E - 1)^2 G^2`` and terms that are not negative; dropping it
    altogether would save at most ``4 f / (8 + 4 f) = f / (2 + f)``, which is less than 1/5 because
    ``f = (M - m) / (m (M - 1)) < 1/2`` for m >= 2, and tends to 1/5 for m = 2 and many clients.
    """

    def share(s: Sizes) -> Pair:
        bound = Bound(s, 2)
        return 1 - bound.value(s.printed) / bound.value(s.f), s.f / (2 + s.f)

    cases = [s for s in sizes_up_to(LARGEST, fewest=2) if s.m < s.M]
    of = f"sizes 1 < m < M ≤ {LARGEST}"
    fifths = sided(cases, lambda s: (share(s)[1], Fraction(1, 5)), ("f/(2 + f)", "claimed"))
    return both(
        compared(sided(vectors(1), Drawn.entry_by_entry, VECTORS), of=SMALL_POPULATIONS, relation="=="),
        compared(sided(cases, share, ("saved share of the bound", "f/(2 + f)")), of=of),
        compared(fifths, of=of, relation="<"),
    )

"""FS-52: a share of eigenvalues does not give the number of factors.

FS-52c: how many components the rule takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, product
from math import ceil
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, any_of, compared
from theory_checks.fedsplit.factor_models import groups

#: The paper's grid of contributions.
KAPPAS = tuple(Fraction(percent, 100) for percent in (50, 75, 85, 90, 95))


class Model(NamedTuple):
    """Uncorrelated groups of units, each with one common factor: sizes, and the equal correlations inside."""

    sizes: tuple[int, ...]
    correlations: tuple[Fraction, ...]

    def eigenvalues(self) -> list[Fraction]:
        """Return the eigenvalues of R, largest first.

        A group of p units has the block (1 - b) I + b 11': 1 + (p - 1) b on the vector of ones, 1 - b on the p - 1
        directions orthogonal to it.
        """
        found = [
            value
            for p, b in zip(self.sizes, self.correlations, strict=True)
            for value in (1 + (p - 1) * b, *[1 - b] * (p - 1))
        ]
        return sorted(found, reverse=True)

    def chosen(self, kappa: Fraction) -> int:
        """Return the least number of eigenvalues whose share reaches kappa."""
        shares = accumulate(self.eigenvalues())
        return next(m for m, reached in enumerate(shares, 1) if reached >= kappa * sum(self.sizes))

    def __str__(self) -> str:
        parts = (f"{p} units with correlations {b}" for p, b in zip(self.sizes, self.correlations, strict=True))
        return " and ".join(parts) + (", none between the groups" if len(self.sizes) > 1 else "")


def _models() -> Iterator[Model]:
    """Yield models with one factor and with two, identified by three units or more for each."""
    for p, b in product(range(3, 7), (Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3))):
        yield Model((p,), (b,))
    yield from (Model(*case) for case in groups())


def _finds(kappas: Sequence[Fraction], models: Iterable[Model], fewer: int = 0) -> Evidence:
    """Compare the number that the rule chooses, or so many fewer, with the model's number of factors."""
    names = ("the rule takes", "the model has")
    sides = (
        Sides(f"{model}, κ = {float(kappa):g}", model.chosen(kappa) - fewer, len(model.sizes), names)
        for model, kappa in product(models, kappas)
    )
    tried = f"κ = {float(kappas[0]):g}" if len(kappas) == 1 else "several κ"
    return compared(sides, of=f"models of one or two factors with {tried}", relation="==")


def _below(kappas: Iterable[Fraction]) -> Evidence:
    """Ask for fewer factors than units."""
    names = ("the rule takes", "units")
    sides = (
        Sides(f"{model}, κ = {float(kappa):g}", model.chosen(kappa), sum(model.sizes), names)
        for model, kappa in product(_models(), kappas)
    )
    return compared(sides, of="models of one or two factors and contributions", relation="<")


FS52 = Claim(
    id="FS-52",
    place="section 4.1, paragraph before equation (7), the two sentences on the cumulative contribution rate",
    said_by="paper",
    words="The least number of components whose share of the eigenvalues reaches κ is the appropriate number of common "
    "factors.",
    statement='G = min {m: sum_(j=1)^m gamma_j >= kappa sum_(j=1)^d gamma_j} " is the number of factors in " '
    "cal(K) = A F + epsilon",
    severity="false",
    assumptions="κ is one of the paper's grid, and chosen before; R is the exact correlation matrix of a factor model. "
    "For some κ the rule gives any number that is wanted, so that a κ which depends on the answer is no reading",
    sensitivity="one factor too many or too few",
    flaw="A share of the eigenvalues counts specific variance like common variance. Where units have much that is "
    "specific the rule must add components until κ is reached, and their number grows with that of the units, whatever "
    "the number of factors.",
    corrected="FS-52c",
)


@FS52.reading("the number of factors that the model has, for every κ of the grid")
def every_kappa() -> Evidence:
    return _finds(KAPPAS, _models())


@FS52.reading("the number of factors that the model has, for some κ of the grid")
def some_kappa() -> Evidence:
    return any_of([_finds((kappa,), _models()) for kappa in KAPPAS])


@FS52.reading("one component fewer, as the authors' code takes, for some κ of the grid")
def authors_code() -> Evidence:
    return any_of([_finds((kappa,), _models(), fewer=1) for kappa in KAPPAS])


@FS52.reading("a number below that of the units, as model (6) demands, for every κ of the grid")
def fewer_than_units() -> Evidence:
    return _below(KAPPAS)


@FS52.control("the number of factors, for κ up to 0.9, where the units of one factor have correlations of 9/10")
def little_specific() -> Evidence:
    return _finds(KAPPAS[:-1], (Model((p,), (Fraction(9, 10),)) for p in range(3, 12)))


@FS52.control("a number below that of the units, for κ of 0.5")
def small_kappa() -> Evidence:
    return _below(KAPPAS[:1])


def _equal_correlations() -> Evidence:
    """Compare the rule with the closed form, for equal correlations b among d units.

    The first m eigenvalues have the share b + (1 - b) m / d: 1 + (d - 1) b + (m - 1)(1 - b) = d b + (1 - b) m. So kappa
    is reached as soon as m >= d (kappa - b) / (1 - b).
    """
    correlations = [Fraction(0), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), Fraction(9, 10)]
    sides = (
        Sides(
            f"{Model((d,), (b,))}, κ = {float(kappa):g}",
            Model((d,), (b,)).chosen(kappa),
            max(1, ceil(d * (kappa - b) / (1 - b))),
            ("the rule takes", "closed form"),
        )
        for d, b, kappa in product((*range(2, 13), 20, 100), correlations, KAPPAS)
    )
    return compared(sides, of="numbers of units, correlations and contributions", relation="==")


FS52C = Claim(
    id="FS-52c",
    place="corrected statement of FS-52",
    said_by="fedstat",
    words="Where units have equal correlations b, hence one common factor or none, the rule takes (κ − b)/(1 − b) "
    "times as many components as there are units, rounded up, and one component where κ is at most b.",
    statement="R = (1 - b) I + b bb(1) bb(1)^top => G = max(1, ceil(d (kappa - b) \\/ (1 - b)))",
    severity="false",
    assumptions="0 ≤ b < 1",
    sensitivity="one component too many or too few",
)


@FS52C.reading("2 to 12, 20 and 100 units")
def corrected() -> Evidence:
    return _equal_correlations()

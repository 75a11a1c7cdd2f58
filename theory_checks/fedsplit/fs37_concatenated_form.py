"""FS-37: the concatenated form is model (4) but for its scales.

FS-37c: the concatenated form with its own scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import isqrt
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared, enumeration
from theory_checks.fedsplit.factor_models import row


class Net(NamedTuple):
    """Output weights of a network whose hidden units all have weight 1, at the input 1."""

    personal: tuple[int, ...]
    shared: tuple[int, ...]

    def printed(self) -> Fraction:
        """Return equation (4) with one vector a: its first entries serve both sums."""
        a = self.personal + self.shared
        return self.weighted(a[: len(self.personal)], a[: len(self.shared)])

    def two_vectors(self) -> Fraction:
        """Return equation (4) with a vector for each sum."""
        return self.weighted(self.personal, self.shared)

    @staticmethod
    def weighted(personal: Sequence[int], shared: Sequence[int]) -> Fraction:
        """Return both sums with their scales; the numbers of units are squares."""
        return Fraction(sum(personal), isqrt(len(personal))) + Fraction(sum(shared), isqrt(len(shared)))

    def concatenated(self) -> int:
        """Return a' (relu(W^p x), relu(W^s x))."""
        return sum(self.personal + self.shared)

    def __str__(self) -> str:
        return (
            f"x = 1, all hidden weights 1, a = {row(self.personal)} for the personal and {row(self.shared)} for the "
            f"shared units: the concatenated form gives {self.concatenated()}, equation (4) {self.printed()} with "
            f"one vector a and {self.two_vectors()} with two"
        ).replace("-", "−")


_SIZES = ((1, 1), (1, 4), (4, 1))


def _forms(model: Callable[[Net], Fraction], sizes: Iterable[tuple[int, int]] = _SIZES) -> Evidence:
    nets = (Net(a[:m], a[m:]) for m, n in sizes for a in product((1, -1), repeat=m + n))
    sides = (Sides(str(net), model(net), net.concatenated(), ("equation (4)", "concatenated form")) for net in nets)
    return compared(sides, of="networks with 1 or 4 units of each kind", relation="==")


def _identity(swapped: bool) -> Evidence:
    """Expand (4) with two vectors minus the concatenated form with scaled output weights, for any hidden outputs.

    With a = (a^p / sqrt(m1), a^s / sqrt(m2)) the concatenated form is sum_q a^p_q phi_q / sqrt(m1)
    + sum_r a^s_r psi_r / sqrt(m2), where phi and psi are the hidden outputs: equation (4), term by term. A further
    unit adds one and the same term to both sides, so that small sizes stand for all.
    """
    import sympy

    def holds(sizes: tuple[int, ...]) -> bool:
        a, phi, b, psi = (
            sympy.symbols(f"{letter}1:{m + 1}")
            for letter, m in zip(("a", "f", "b", "g"), (*sizes[:1] * 2, *sizes[1:] * 2), strict=True)
        )
        roots = [sympy.sqrt(m) for m in sizes]
        personal, shared = (sum(u * v for u, v in zip(*pair, strict=True)) for pair in ((a, phi), (b, psi)))
        model = personal / roots[0] + shared / roots[1]
        scales = roots[::-1] if swapped else roots
        head = [v / scales[0] for v in a] + [v / scales[1] for v in b]
        form = sum(u * v for u, v in zip(head, (*phi, *psi), strict=True))
        return bool(sympy.expand(model - form) == 0)

    def show(sizes: tuple[int, ...]) -> str:
        return f"{sizes[0]} personal and {sizes[1]} shared units"

    of = "pairs of sizes from 1 to 4, as polynomial identities"
    return enumeration(product(range(1, 5), repeat=2), holds, of=of, show=show)


FS37 = Claim(
    id="FS-37",
    place="section 3.2, second paragraph, third and fourth sentences",
    said_by="paper",
    words="The concatenated form of a client's model equals model (4).",
    statement="1/sqrt(m_1) sum_q a_q sigma(w_q^p dot x) + 1/sqrt(m_2) sum_r a_r sigma(w_r^s dot x) "
    "= a^top vec(sigma(W^p x), sigma(W^s x))",
    severity="misprint",
    assumptions="x belongs to one client, so that the indicator leaves that client's personal units",
    sensitivity="any difference, in exact arithmetic",
    flaw="Equation (4) scales its sums by 1/√m₁ and 1/√m₂ and lets both indices begin at the first entry of a; the "
    "concatenated form has no scales and separate entries.",
    corrected="FS-37c",
)


@FS37.reading("one vector a with overlapping indices, as printed")
def one_vector() -> Evidence:
    return _forms(Net.printed)


@FS37.reading("two vectors, a = (aᵖ, aˢ)")
def two_vectors() -> Evidence:
    return _forms(Net.two_vectors)


@FS37.reading("two vectors, whose scales 1/√m₁ and 1/√m₂ the concatenated form's a carries")
def two_vectors_with_scales() -> Evidence:
    return _identity(swapped=False)


@FS37.mutant("two vectors, whose scales are swapped")
def swapped() -> Evidence:
    return _identity(swapped=True)


@FS37.control("two vectors, one unit of each kind, where all scales are one")
def one_of_each() -> Evidence:
    return _forms(Net.two_vectors, [(1, 1)])


FS37C = Claim(
    id="FS-37c",
    place="corrected statement of FS-37",
    said_by="fedstat",
    words="With separate output weights that carry their scales the concatenated form equals model (4).",
    statement="a = (a^p \\/ sqrt(m_1), a^s \\/ sqrt(m_2)) => 1/sqrt(m_1) sum_q a_q^p sigma(w_q^p dot x) "
    "+ 1/sqrt(m_2) sum_r a_r^s sigma(w_r^s dot x) = a^top vec(sigma(W^p x), sigma(W^s x))",
    severity="false",
    assumptions="x belongs to one client, so that the indicator leaves that client's personal units; a further unit "
    "adds the same term to both sides, so that sizes up to 4 stand for all",
    sensitivity="any difference of the two polynomials",
)


@FS37C.reading("two vectors with their scales")
def corrected() -> Evidence:
    return _identity(swapped=False)


@FS37C.mutant("the two scales swapped")
def scales_swapped() -> Evidence:
    return _identity(swapped=True)

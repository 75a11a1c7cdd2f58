"""FD-35: nine atoms a layer have a few hundred parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, both, compared
from theory_checks.filter_decomposition.papers_network import ATOMS, CHANNELS, TAPS

FD35 = Claim(
    id="FD-35",
    place="appendix A.2, first sentence",
    said_by="paper",
    words="The filter atoms are typically a few hundred parameters.",
    statement='k_a^2 m_a = "a few hundred"',
    severity="false",
    assumptions="three convolutions with 3 × 3 filters (the kernel size k_a is not stated), m_a atoms each; 'a few "
    "hundred' is read as 200 to 999",
    sensitivity="one parameter at the limits 200 and 999",
    flaw="The sentence gives the shape of one layer's atoms, which with 9 atoms of 3 × 3 are 81 numbers. Three layers "
    "together have a few hundred, with 3 or 6 atoms not even these.",
)


class Atoms(NamedTuple):
    """Kernel sizes of the decomposed layers, and atoms in each."""

    kernels: tuple[int, ...]
    atoms: int

    @property
    def parameters(self) -> int:
        """k_a^2 m_a over the layers."""
        return sum(k**2 * self.atoms for k in self.kernels)

    def __str__(self) -> str:
        filters = ", ".join(f"{k} × {k}" for k in self.kernels)
        return f"filters of {filters}, m_a = {self.atoms}"


#: Kernel sizes of the paper's network.
KERNELS = (math.isqrt(TAPS),) * len(CHANNELS)


def few_hundred(cases: Sequence[Atoms]) -> Evidence:
    low = (Sides(str(a), 200, a.parameters, ("least of a few hundred", "number")) for a in cases)
    high = (Sides(str(a), a.parameters, 999, ("number", "most of a few hundred")) for a in cases)
    return both(compared(low, of="networks", every=True), compared(high, of="networks", every=True))


@FD35.reading("the paper's network with 9 atoms in a layer")
def whole_network() -> Evidence:
    return few_hundred([Atoms(KERNELS, ATOMS)])


@FD35.reading("one layer of it, as the notation has it")
def one_layer() -> Evidence:
    return few_hundred([Atoms(KERNELS[:1], ATOMS)])


@FD35.reading("the paper's network, with every number of atoms in Table 2", natural=False)
def every_number() -> Evidence:
    return few_hundred([Atoms(KERNELS, m) for m in (9, 12, 6, 3)])


@FD35.mutant("the kernel sizes of the original AlexNet, 11, 5 and 3")
def original_kernels() -> Evidence:
    return few_hundred([Atoms((11, 5, 3), ATOMS)])

"""FD-35: how many parameters the atoms have."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, enumeration
from theory_checks.filter_decomposition.papers_network import ATOMS, CHANNELS, TAPS

FD35 = Claim(
    id="FD-35",
    place="appendix A.2, first sentence",
    said_by="paper",
    words="The filter atoms are typically a few hundred parameters.",
    statement='k_a^2 m_a = "a few hundred"',
    severity="misprint",
    assumptions="three convolutions with 3 × 3 filters (the kernel size k_a is not stated), m_a atoms each; 'a few "
    "hundred' is read as 200 to 999",
    sensitivity="one parameter at the limits 200 and 999",
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
        return f"filters of {filters}, m_a = {self.atoms}: {self.parameters} parameters"


#: Kernel sizes of the paper's network.
KERNELS = (math.isqrt(TAPS),) * len(CHANNELS)


def few_hundred(cases: Iterable[Atoms]) -> Evidence:
    return enumeration(cases, lambda a: 200 <= a.parameters < 1000, of="networks")


@FD35.reading("the paper's network with 9 atoms in a layer")
def whole_network() -> Evidence:
    return few_hundred([Atoms(KERNELS, ATOMS)])


@FD35.reading("one layer of it", natural=False)
def one_layer() -> Evidence:
    return few_hundred([Atoms(KERNELS[:1], ATOMS)])


@FD35.reading("the paper's network, with every number of atoms in Table 2", natural=False)
def every_number() -> Evidence:
    return few_hundred([Atoms(KERNELS, m) for m in (9, 12, 6, 3)])


@FD35.mutant("the kernel sizes of the original AlexNet, 11, 5 and 3")
def original_kernels() -> Evidence:
    return few_hundred([Atoms((11, 5, 3), ATOMS)])

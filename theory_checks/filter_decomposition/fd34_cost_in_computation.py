"""FD-34: what the decomposition costs in computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from fedstat.claims import Claim, Evidence, enumeration
from theory_checks.filter_decomposition.papers_network import ATOMS, CHANNELS, TAPS

FD34 = Claim(
    id="FD-34",
    place="section 4, 'Global Reconstruction', last but one sentence",
    said_by="paper",
    words="The step that reconstructs the filters comes with the network's design, without additional computation.",
    statement='"output"("two convolutions") = "output"("composed filter"), quad "products of weights" = 0',
    severity="unstated condition",
    assumptions="multiplications of the forward pass per output position; whether the passes cost more than those of "
    "the plain network, of which the sentence does not speak, is asked besides; c′ input and c output channels, "
    "filters of k × k entries, m_a atoms, as the paper has them; as in its section 4 a layer is two convolutions, one "
    "with the atoms and one with 1 × 1 filters, the coefficients",
    sensitivity="one multiplication",
    flaw="What the step saves the clients spend in every pass: two convolutions with 9 atoms and 3 × 3 filters cost "
    "1 + 9/c of one.",
    corrected="FD-34c",
)


class Layer(NamedTuple):
    """A convolution from c' input to c output channels with k x k filters, decomposed over m_a atoms."""

    inputs: int
    outputs: int
    kernel: int
    atoms: int

    @property
    def plain(self) -> int:
        """Multiplications per output position."""
        return self.kernel**2 * self.inputs * self.outputs

    @property
    def two_stage(self) -> int:
        """Atoms on every input channel, then a 1 x 1 convolution."""
        return self.atoms * self.kernel**2 * self.inputs + self.atoms * self.inputs * self.outputs

    @property
    def forming(self) -> int:
        """To multiply coefficients and atoms into a filter, per pass."""
        return self.atoms * self.kernel**2 * self.inputs * self.outputs

    @property
    def ratio(self) -> Fraction:
        """Two-stage multiplications over plain ones."""
        return Fraction(self.two_stage, self.plain)

    def __str__(self) -> str:
        return (
            f"c′ = {self.inputs} to c = {self.outputs} channels, k = {self.kernel}, m_a = {self.atoms}: per output "
            f"position {self.two_stage} multiplications in two convolutions against {self.plain} in one; "
            f"{self.forming} per pass to form the filter"
        )


class Counted:
    """A number that counts the multiplications it takes part in, and those of two weights of the network."""

    multiplications = 0
    of_weights = 0

    def __init__(self, value: int, *, weight: bool = False) -> None:
        self.value, self.weight = value, weight

    def __mul__(self, other: Counted) -> Counted:
        Counted.multiplications += 1
        Counted.of_weights += self.weight and other.weight
        return Counted(self.value * other.value, weight=self.weight and other.weight)

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.value + other.value, weight=self.weight and other.weight)


def total_of(values: Iterable[Counted]) -> Counted:
    total = Counted(0)
    for value in values:
        total = total + value
    return total


def spent(compute: Callable[[], Any]) -> tuple[Any, int]:
    before = Counted.multiplications
    return compute(), Counted.multiplications - before


class Passes(NamedTuple):
    """One output position computed both ways: outputs, multiplications, and those of weights with weights."""

    layer: Layer
    plain: list[int]
    staged: list[int]
    forming: int
    once: int
    twice: int
    weights_in_stages: int

    def __str__(self) -> str:
        return f"{self.layer}; counted {self.twice} against {self.once}, and {self.forming}"


def passes(layer: Layer) -> Passes:
    """Compute one output position by the composed filter and in two stages."""
    c, out, m, taps = range(layer.inputs), range(layer.outputs), range(layer.atoms), range(layer.kernel**2)
    patch = [[Counted(i + 2 * t + 1) for t in taps] for i in c]
    atoms = [[Counted(r - t, weight=True) for t in taps] for r in m]
    coefficients = [[[Counted(r + 3 * i - o, weight=True) for i in c] for o in out] for r in m]

    def form() -> Any:
        return [[[total_of(coefficients[r][o][i] * atoms[r][t] for r in m) for t in taps] for i in c] for o in out]

    def two_stages() -> list[int]:
        responses = [[total_of(atoms[r][t] * patch[i][t] for t in taps) for i in c] for r in m]
        return [total_of(coefficients[r][o][i] * responses[r][i] for r in m for i in c).value for o in out]

    formed, forming = spent(form)
    plain, once = spent(lambda: [total_of(formed[o][i][t] * patch[i][t] for i in c for t in taps).value for o in out])
    before = Counted.of_weights
    staged, twice = spent(two_stages)
    return Passes(layer, plain, staged, forming, once, twice, Counted.of_weights - before)


def papers_layers(*, atoms: int = ATOMS, taps: int = TAPS) -> list[Layer]:
    return [Layer(a, b, math.isqrt(taps), atoms) for a, b in CHANNELS]


def no_more(layers: Iterable[Layer]) -> Evidence:
    """Compare two convolutions with a plain one."""
    return enumeration(layers, lambda layer: layer.two_stage <= layer.plain, of="layers of the paper's network")


#: Layers small enough to be computed number by number.
SMALL = tuple(Layer(a, b, k, m) for m, k, a, b in product((1, 3, 9), (1, 3), (1, 2), (1, 4)))


def reconstructed_free(spent_on_weights: Callable[[Passes], int]) -> Evidence:
    """Two stages give the plain convolution's outputs without multiplying a coefficient by an atom's entry.

    For all sizes, ``sum_(i, r) alpha_roi sum_t D_rt x_it = sum_(i, t) (sum_r alpha_roi D_rt) x_it``.
    """
    return enumeration(
        map(passes, SMALL),
        lambda p: p.staged == p.plain and spent_on_weights(p) == 0,
        of="sizes, one output position computed both ways",
    )


@FD34.reading("two convolutions, as section 4 has them, with which the filter is never formed")
def never_formed() -> Evidence:
    return reconstructed_free(lambda p: p.weights_in_stages)


@FD34.reading("the passes too, against the plain network, with the paper's layers and 9 atoms", natural=False)
def papers_passes() -> Evidence:
    return no_more(papers_layers())


@FD34.mutant("one convolution, its filter composed in every pass")
def composed_filter() -> Evidence:
    return reconstructed_free(lambda p: p.forming)


@FD34.control("the passes too, with 6 atoms, as in a row of the paper's Table 2")
def six_atoms() -> Evidence:
    return no_more(papers_layers(atoms=6))


FD34C = Claim(
    id="FD-34c",
    place="corrected statement of FD-34",
    said_by="fedstat",
    words="Two convolutions cost m_a/c + m_a/k² times the plain one; to form the filter costs m_a k² c′ c "
    "multiplications per pass.",
    statement='"two stages"/"one" = m_a/c + m_a/k^2, quad "forming the filter" = m_a k^2 c\' c',
    severity="false",
    assumptions="m_a atoms of k × k entries, c′ input and c output channels; multiplications of the forward pass, per "
    "output position; sizes that are not tried are counted alike",
    sensitivity="one multiplication",
)


def counted_ratio(ratio: Callable[[Layer], Fraction]) -> Evidence:
    """Compute one output position both ways, with numbers that count their multiplications.

    Two stages: m_a atoms on c' input channels (m_a k^2 c'), then c sums over m_a c' responses (m_a c' c); plain:
    k^2 c' c. The quotient is ``m_a/c + m_a/k^2``. Forming the filter takes ``m_a k^2 c' c`` and no output position.
    """

    def holds(p: Passes) -> bool:
        layer = p.layer
        counted = Fraction(p.twice, p.once) == ratio(layer) == layer.ratio
        return p.plain == p.staged and counted and p.forming == layer.forming

    return enumeration(map(passes, SMALL), holds, of="sizes, one output position computed both ways")


@FD34C.reading("multiplications counted")
def counted_multiplications() -> Evidence:
    return counted_ratio(lambda layer: Fraction(layer.atoms, layer.kernel**2) + Fraction(layer.atoms, layer.outputs))


@FD34C.mutant("the convolution with the atoms forgotten")
def without_atoms() -> Evidence:
    return counted_ratio(lambda layer: Fraction(layer.atoms, layer.kernel**2))

"""FD-34: reconstruction is free only if the filter is never formed.

FD-34c: what the decomposition costs in a pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared, sampled
from theory_checks.filter_decomposition.papers_network import ATOMS, CHANNELS, TAPS

FD34 = Claim(
    id="FD-34",
    place="section 4, 'Global Reconstruction', last but one sentence",
    said_by="paper",
    words="The step that reconstructs the filters comes with the network's design, without additional computation.",
    statement='"output"("two convolutions") = "output"("composed filter"), quad "products of weights" = 0',
    severity="unstated condition",
    assumptions="multiplications of the forward pass per output position; c′ input and c output channels, "
    "filters of k × k entries, m_a atoms, as the paper has them; as in its section 4 a layer is two convolutions, one "
    "with the atoms and one with 1 × 1 filters, the coefficients",
    sensitivity="one multiplication of weights; in the passes a tenth of the plain network's",
    flaw="What the step saves the clients spend in every pass: two convolutions with 9 atoms and 3 × 3 filters cost "
    "1 + 9/c of one. The passes are no dearer only with fewer atoms than entries in a filter, such as the 6 of a row "
    "of Table 2.",
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

    def __str__(self) -> str:
        return f"c′ = {self.inputs} to c = {self.outputs} channels, k = {self.kernel}, m_a = {self.atoms}, one position"


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
        return str(self.layer)


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


def no_more(layers: Iterable[Layer]) -> Evidence:
    """Compare two convolutions with a plain one."""
    names = ("multiplications in two convolutions", "in one")
    sides = (Sides(str(layer), layer.two_stage, layer.plain, names) for layer in layers)
    return compared(sides, of="layers of the paper's network", every=True)


#: Layers small enough to be computed number by number.
SMALL = tuple(Layer(a, b, k, m) for m, k, a, b in product((1, 3, 9), (1, 3), (1, 2), (1, 4)))


def reconstructed_free(spent_on_weights: Callable[[Passes], int]) -> Evidence:
    """Two stages give the plain convolution's outputs without multiplying a coefficient by an atom's entry.

    For all sizes, ``sum_(i, r) alpha_roi sum_t D_rt x_it = sum_(i, t) (sum_r alpha_roi D_rt) x_it``.
    """
    return sampled(
        map(passes, SMALL),
        lambda p: p.staged == p.plain and spent_on_weights(p) == 0,
        of="sizes, one output position computed both ways",
    )


@FD34.reading("two convolutions, as section 4 has them, with which the filter is never formed")
def never_formed() -> Evidence:
    return reconstructed_free(lambda p: p.weights_in_stages)


@FD34.reading("the passes of the network so designed, against those of the plain network, with 9 atoms as in the paper")
def papers_passes() -> Evidence:
    return no_more(Layer(a, b, math.isqrt(TAPS), ATOMS) for a, b in CHANNELS)


@FD34.mutant("one convolution, its filter composed in every pass")
def composed_filter() -> Evidence:
    return reconstructed_free(lambda p: p.forming)


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


@FD34C.reading("multiplications counted")
def counted_multiplications() -> Evidence:
    """Compute one output position both ways, with numbers that count their multiplications.

    Two stages: m_a atoms on c' input channels (m_a k^2 c'), then c sums over m_a c' responses (m_a c' c); plain:
    k^2 c' c. The quotient is ``m_a/c + m_a/k^2``. Forming the filter takes ``m_a k^2 c' c`` and no output position.
    """

    def compare() -> Iterator[Sides]:
        for p in map(passes, SMALL):
            m, k2, c, out = p.layer.atoms, p.layer.kernel**2, p.layer.inputs, p.layer.outputs
            quotient = {"convolution with the atoms": Fraction(m, out), "sums of responses": Fraction(m, k2)}
            yield Sides(str(p), Fraction(p.twice, p.once), quotient, ("two stages over one", "by the formula"))
            yield Sides(str(p), p.twice, p.layer.two_stage, ("counted in two stages", "by the formula"))
            yield Sides(str(p), p.forming, m * k2 * c * out, ("counted to form the filter", "by the formula"))

    return compared(compare(), of="counts for small sizes", relation="==")

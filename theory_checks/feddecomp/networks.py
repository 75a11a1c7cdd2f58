"""The networks of the experiments, and what their parts count in parameters (section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from fedstat.claims import Evidence, Sides, all_of, compared

Ratios = tuple[Fraction, Fraction]


class Layer(NamedTuple):
    """Shape of one layer's weights; a dense layer has no kernel. The first layer needs no gradient of its input."""

    inputs: int
    outputs: int
    kernel: int | None
    first: bool = False

    def __str__(self) -> str:
        kind = f"{self.kernel} by {self.kernel} convolution" if self.kernel else "dense layer"
        return f"{kind} of {self.inputs} by {self.outputs}"

    def rank(self, ratio: Fraction) -> int:
        """Return the rank of the low-rank part, equations (3) and (4), rounded down and one at least."""
        return max(1, math.floor(ratio * min(self.inputs, self.outputs) * (self.kernel or 1)))


def resnet(widths: tuple[int, ...], classes: int) -> tuple[Layer, ...]:
    """Return the layers: a 7 x 7 convolution, a block for each width, 1 x 1 shortcuts between widths, a dense head."""
    layers, width = [Layer(3, 64, 7, first=True)], 64
    for w in widths:
        layers += [Layer(width, w, 3), Layer(w, w, 3)] + [Layer(width, w, 1)] * (w != width)
        width = w
    return (*layers, Layer(width, classes, None))


#: Networks with the optimal (R_c, R_l) of section 4.3, at which the main results are reported.
SETTINGS: Mapping[str, tuple[tuple[Layer, ...], Ratios]] = {
    "ResNet-8, CIFAR-10": (resnet((64, 128, 256), 10), (Fraction(3, 5), Fraction(3, 5))),
    "ResNet-10, CIFAR-100": (resnet((64, 128, 256, 512), 100), (Fraction(4, 5), Fraction(2, 5))),
    "ResNet-10, Tiny ImageNet": (resnet((64, 128, 256, 512), 200), (Fraction(4, 5), Fraction(2, 5))),
}
NETWORKS = (
    "the networks are ResNets with a 7 by 7 convolution, one basic block for each of the widths 64, 128, 256 (and "
    "512), 1 by 1 shortcuts and a dense head; biases and batch normalisation, below one per cent of the parameters, "
    "are left out; ranks are rounded down"
)


class Parameters(NamedTuple):
    """Parameters of the full-rank and of the low-rank parts of a network."""

    network: str
    ratios: Ratios
    sigma: int
    tau: int

    def __str__(self) -> str:
        conv, dense = (f"{float(100 * ratio):g}%" for ratio in self.ratios)
        return f"{self.network}, R_c = {conv}, R_l = {dense}, {self.tau:,} parameters in τ and {self.sigma:,} in σ"

    @property
    def share(self) -> Fraction:
        """Parameters of tau over those of sigma."""
        return Fraction(self.tau, self.sigma)


def parameters(ratios: Ratios | None = None) -> Iterator[Parameters]:
    """Yield the networks' parameters, at the paper's own ratios or at those given."""
    for name, (layers, own) in SETTINGS.items():
        conv, dense = ratios or own
        sigma = tau = 0
        for layer in layers:
            width = layer.kernel or 1
            sigma += layer.inputs * layer.outputs * width**2
            tau += layer.rank(dense if layer.kernel is None else conv) * (layer.inputs + layer.outputs) * width
        yield Parameters(name, (conv, dense), sigma, tau)


class LayerCost(NamedTuple):
    """Parameters of the factors B and A of one layer's low-rank part and of its full part, as entries of arrays."""

    layer: Layer
    ratio: Fraction
    b: int
    a: int
    sigma: int

    def __str__(self) -> str:
        return f"{self.layer}, R = {self.ratio}"


def layer_costs() -> Iterator[LayerCost]:
    """Yield small layers with every ratio in twentieths that gives a whole rank."""
    for i, o, k, twentieths in product(range(1, 9), range(1, 9), (None, 1, 2, 3), range(1, 21)):
        ratio, width = Fraction(twentieths, 20), k or 1
        if (ratio * min(i, o) * width).denominator == 1:
            r = int(ratio * min(i, o) * width)
            b, a, sigma = (np.empty(shape).size for shape in ((i * width, r), (r, o * width), (i, o, width, width)))
            yield LayerCost(Layer(i, o, k), ratio, b, a, sigma)


def parameter_formula(*, memory: bool) -> Evidence:
    """Compare the parameters of tau, or of both parts, with the formula, and those of tau with its two limits.

    With r = R m and m = min(I, O), M = max(I, O): r (I + O) / (I O) = R m (m + M) / (m M) = R (1 + m / M), and a
    convolution has the same quotient, r K (I + O) / (I O K^2) with r = R m K. Since 0 < m / M <= 1 it lies above R
    and is at most 2 R.
    """
    of, costs = "layers up to 8 by 8 with ratios in twentieths and a whole rank", list(layer_costs())

    def formula(case: LayerCost) -> Sides:
        i, o, _, _ = case.layer
        full, share = {"full-rank part": case.sigma} if memory else {}, case.ratio * case.sigma
        counted = full | {"factor B": case.b, "factor A": case.a}
        claimed = full | {"share R": share, "share R min(I, O) / max(I, O)": share * Fraction(min(i, o), max(i, o))}
        return Sides(str(case), counted, claimed, names=("parameters counted", "by the formula"))

    names = ("parameters in τ", "at most")
    above = [Sides(str(case), case.b + case.a, 2 * case.ratio * case.sigma, names=names) for case in costs]
    below = [
        Sides(str(case), case.ratio * case.sigma, case.b + case.a, names=("more than", names[0])) for case in costs
    ]
    return all_of(
        [
            compared(map(formula, costs), of=of, relation="=="),
            compared(above, of=of),
            compared(below, of=of, relation="<"),
        ]
    )

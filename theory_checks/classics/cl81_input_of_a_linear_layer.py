"""CL-81: a linear layer with a bias gives its input away.

CL-81c: which ratio gives the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

from fedstat.claims import Claim, Evidence, Sides, exact, identity, sampled

CL81 = Claim(
    id="CL-81",
    place="Geiping, Bauermeister, Dröge and Moeller, Inverting gradients: How easy is it to break privacy in federated "
    "learning? (NeurIPS 2020), abstract; arXiv:2003.14053",
    said_by="paper",
    words="Any input to a fully connected layer can be reconstructed from its gradient, independent of the remaining "
    "architecture.",
    statement="nabla_(W, b) cal(L) (x) = nabla_(W, b) cal(L) (x') ==> x = x'",
    severity="unstated condition",
    assumptions="the weights are known, the label is not; one layer with the squared error of its outputs, tried on "
    "inputs and labels from a grid; of the paper only the abstract could be read: its Proposition 3.1 is quoted as "
    "asking for a bias",
    sensitivity="any two inputs with the same gradient, exact",
    flaw="Without a bias the gradient is the input times a number that nobody knows, and where the loss does not "
    "depend on the outputs, as at a label that is met, it is zero whatever the input.",
    corrected="CL-81c",
)

_Vector = tuple[Fraction, ...]
#: Samples: an input and a label for each output.
_Batch = tuple[tuple[_Vector, _Vector], ...]
#: Weights of layers with one input and one output, and with two of each.
_LAYERS = (((1,),), ((1, 2), (3, -1)))


def _gradient(batch: _Batch, weights: tuple[tuple[int, ...], ...], bias: bool) -> tuple[Fraction, ...]:
    """Return the gradient by the weights, row by row, and by the bias, at a bias of zero, averaged over a batch."""
    found = [Fraction(0)] * (len(weights) * (len(weights[0]) + bias))
    for x, label in batch:
        entries: list[Fraction] = []
        for row, target in zip(weights, label, strict=True):
            by_output = sum((w * v for w, v in zip(row, x, strict=True)), Fraction(0)) - target
            entries += [by_output * v for v in x] + [by_output] * bias
        found = [a + b / len(batch) for a, b in zip(found, entries, strict=True)]
    return tuple(found)


def _told(bias: bool, size: int = 1, reached: bool = True) -> Evidence:
    """Whether all batches with the same gradient have the same inputs; `reached` keeps labels that are met."""

    def cases() -> Iterator[tuple[_Batch, _Batch]]:
        for weights in _LAYERS if size == 1 else _LAYERS[:1]:
            first: dict[tuple[Fraction, ...], _Batch] = {}
            inputs, outputs = len(weights[0]), len(weights)
            values = [Fraction(n, 2) for n in range(-4, 5)] if inputs == 1 else [Fraction(n) for n in range(-1, 2)]
            samples = list(product(product(values, repeat=inputs), product(values, repeat=outputs)))
            for batch in combinations_with_replacement(samples, size):
                gradient = _gradient(batch, weights, bias)
                if reached or any(_gradient(batch, weights, True)):
                    yield first.setdefault(gradient, batch), batch

    def inputs(batch: _Batch) -> list[_Vector]:
        return sorted(x for x, _ in batch)

    def show(case: tuple[_Batch, _Batch]) -> str:
        told = [" and ".join(f"input {_listed(x)}, label {_listed(label)}" for x, label in batch) for batch in case]
        return f"the same gradient: {told[0]}; {told[1]}"

    return sampled(cases(), lambda case: inputs(case[0]) == inputs(case[1]), of="batches", show=show)


def _listed(values: _Vector) -> str:
    return exact(values[0]) if len(values) == 1 else f"({', '.join(map(exact, values))})"


@CL81.reading("any fully connected layer")
def any_layer() -> Evidence:
    return _told(bias=False)


@CL81.reading("a layer with a bias")
def with_bias() -> Evidence:
    return _told(bias=True)


@CL81.reading("both inputs of a batch of two, a layer with a bias, a gradient that is not zero", natural=False)
def batch_of_two() -> Evidence:
    return _told(bias=True, size=2, reached=False)


@CL81.condition("a layer with a bias, and a loss that depends on an output")
def bias_and_gradient() -> Evidence:
    return _told(bias=True, reached=False)


@CL81.mutant("a layer without a bias, gradients that are not zero")
def no_bias() -> Evidence:
    return _told(bias=False, reached=False)


CL81C = Claim(
    id="CL-81c",
    place="corrected statement of CL-81; for a single neuron also Phong, Aono, Hayashi, Wang and Moriai, "
    "Privacy-preserving deep learning via additively homomorphic encryption (2018), doi:10.1109/TIFS.2017.2787987",
    said_by="fedstat",
    words="The gradient by a weight is the input times the gradient by its output's bias: where that is not zero the "
    "input is their ratio, and for a batch the ratio is a mean of the inputs by those derivatives.",
    statement="(partial cal(L))/(partial W_(j k)) = sum_i x_(i k) (partial cal(L))/(partial y_(i j)), quad "
    "(partial cal(L))/(partial b_j) = sum_i (partial cal(L))/(partial y_(i j))",
    severity="false",
    assumptions="two inputs, two outputs, batches of one to three, and a rest of the network that sums the outputs, "
    "their squares or their products, with a squared error",
    sensitivity="any difference, as polynomials",
)


def _ratios(sizes: range) -> Evidence:
    """Compare derivatives of the batch's loss by weights with the inputs times those by outputs, found without them."""
    import sympy

    def cases() -> Iterator[Sides]:
        weights, bias = sympy.symbols("W1:5"), sympy.symbols("b1:3")
        rests = {"sum": lambda y, z: y + z, "squares": lambda y, z: y**2 + z**2, "product": lambda y, z: y * z}
        for (name, rest), size in product(rests.items(), sizes):
            loss, shifts, inputs = 0, list[Any](), list[Any]()
            for own in "xuv"[:size]:
                x, moved, label = (sympy.symbols(f"{own}{part}") for part in ("1:3", "_moved1:3", "_label"))
                y = [weights[2 * j] * x[0] + weights[2 * j + 1] * x[1] + bias[j] + moved[j] for j in (0, 1)]
                loss, shifts, inputs = loss + (rest(*y) - label) ** 2, [*shifts, moved], [*inputs, x]
            still = dict.fromkeys((d for moved in shifts for d in moved), 0)
            for j, k in product((0, 1), repeat=2):
                parts = {
                    f"sample {i + 1}": x[k] * sympy.diff(loss, moved[j]).subs(still)
                    for i, (x, moved) in enumerate(zip(inputs, shifts, strict=True))
                }
                found = sympy.diff(loss, weights[2 * j + k]).subs(still)
                yield Sides(f"the {name} of the outputs, batch of {size}", found, parts, names=("by weight", "claimed"))
                if size == 1:
                    by_bias = {"input times derivative by bias": inputs[0][k] * sympy.diff(loss, bias[j]).subs(still)}
                    yield Sides(f"the {name}, one sample", found, by_bias, names=("by weight", "claimed"))

    return identity(cases(), of="derivatives by weights")


@CL81C.reading("any weights, inputs and labels")
def weighted_means() -> Evidence:
    return _ratios(range(1, 4))

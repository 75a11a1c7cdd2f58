"""FF-10: a kernel is a product of u and v, with the printed counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import numpy as np

from fedstat.claims import Claim, Evidence, Sides, both, compared, sampled
from theory_checks.factorized_fl.network import NETWORK_READ, Convolution, bases, coefficients, head, kernels, norms
from theory_checks.factorized_fl.tables import Figures, half_unit

FF10 = Claim(
    id="FF-10",
    place="section 4.1, equation (3); section 5.2, 'Effect of kernel factorization', eighth sentence",
    said_by="paper",
    words="A kernel is a reshaped product of u and v, and the printed counts of 0.27 and 2.574 million follow.",
    statement="W = pi(u v^top + mu), quad u in RR^(F^2), quad v in RR^(I O), quad abs(u) + abs(v) = F^2 + I O",
    severity="misprint",
    assumptions=f"μ is left out of 0.27 million, as the text says; {NETWORK_READ}",
    sensitivity="one entry of a kernel; half a unit of the last printed digit, which hides the 88 numbers of u",
    flaw="The 2.574 million include the dense head and the numbers of batch normalisation, the 0.27 million do not: "
    "counted alike they would be 0.28.",
)

_Pairing = Callable[[Convolution], tuple[int, int]]


def _kernel_entries(pairing: _Pairing) -> Evidence:
    """Equation (3) gives a kernel of shape F x F x I x O whose every entry is one product of entries of u and v."""

    def holds(layer: Convolution) -> bool:
        rows, columns = pairing(layer)
        u, v = np.arange(1, rows + 1), 100 * np.arange(1, columns + 1)
        kernel = np.outer(u, v).reshape(layer.kernel, layer.kernel, layer.inputs, layer.outputs)
        return all(
            kernel[a, b, i, o] == 100 * (a * layer.kernel + b + 1) * (i * layer.outputs + o + 1)
            for a, b, i, o in np.ndindex(kernel.shape)
        )

    small = (Convolution(i, o, f) for f in (1, 2, 3) for i in (1, 2, 3) for o in (1, 2, 3))
    return sampled(
        small,
        holds,
        of="convolutions up to 3 by 3 with up to 3 channels",
        show=lambda layer: f"{layer.inputs} channels in, {layer.outputs} out, filters of width {layer.kernel}",
    )


def _counts(counts: Mapping[str, tuple[Mapping[str, int], str]]) -> Evidence:
    """Judge whether numbers of parameters, counted part by part, round to the printed millions."""

    def limits() -> Iterator[Sides]:
        for what, (parts, millions) in counts.items():
            printed, half = Fraction(millions) * 10**6, half_unit(millions) * 10**6
            case = f"{what}: counted {sum(parts.values()):,}, printed {millions} million"
            yield Figures(case, printed - half, parts, names=("at least", "counted"))
            yield Figures(case, sum(parts.values()), printed + half, names=("counted", "at most"))

    return compared(limits(), of="limits of printed counts", every=True)


def _spatial(layer: Convolution) -> tuple[int, int]:
    return layer.kernel**2, layer.inputs * layer.outputs


def _factorisation(pairing: _Pairing, more: Mapping[str, int]) -> Evidence:
    rest = {"head": head(), "norms": norms()}
    vectors = {"vectors u": bases(), "vectors v": coefficients(), **more}
    counts = {", ".join(vectors): (vectors, "0.27"), "whole model": ({"kernels": kernels(), **rest}, "2.574")}
    return both(_kernel_entries(pairing), _counts(counts))


@FF10.reading("0.27 million are u and v")
def vectors_alone() -> Evidence:
    return _factorisation(_spatial, {})


@FF10.reading("0.27 million are u, v, the head and batch normalisation, as 2.574 million are the whole model")
def vectors_head_and_norms() -> Evidence:
    return _factorisation(_spatial, {"head": head(), "norms": norms()})


@FF10.mutant("u of length I F and v of length O F, a pairing that the text advises against")
def mixed() -> Evidence:
    return _factorisation(lambda layer: (layer.inputs * layer.kernel, layer.outputs * layer.kernel), {})

"""FS-19: more clients make the complexity term larger, on average.

FS-19c: how much more clients can raise the complexity term.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, all_of, search, within
from fedstat.inference import mean_interval
from fedstat.ntk import infinite_gram, personal_gram
from fedstat.theory.generalisation import complexity_term
from theory_checks.fedsplit.designs import Design, labelled
from theory_checks.fedsplit.growth import on_a_sphere

#: Clients, and half of the samples at each.
_SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 3))


def _orthonormal() -> st.SearchStrategy[Design]:
    """Draw designs with orthonormal inputs, an even number at each client."""

    def of_size(shape: tuple[int, int]) -> Design:
        size = 2 * shape[0] * shape[1]
        directions = tuple(tuple(int(i == j) for j in range(size)) for i in range(size))
        return Design(shape[0], directions, tuple((-1.0) ** i for i in range(size)))

    return _SHAPES.map(of_size)


def _finer(
    claimed: Callable[[float, int], float], *, upwards: bool, k: int = 2, drawn: st.SearchStrategy[Design] | None = None
) -> Evidence:
    """One sample, dealt to C clients and then, each client's share divided in k, to k C."""

    def sides(case: Design) -> tuple[float, float]:
        y = np.array(case.labels)
        coarse, fine = (complexity_term(*case.kernels(c), y, c) for c in (case.clients, k * case.clients))
        return (claimed(coarse, k), fine) if upwards else (fine, claimed(coarse, k))

    names = ("claimed at least", "found") if upwards else ("found", "claimed at most")
    cases = labelled(n=k) if drawn is None else drawn
    return search(cases, sides, tolerance=1e-9, examples=200 // k, names=names)


def _on_average() -> Evidence:
    """The mean logarithm of the term's growth over independent samples of 64, for each doubling of C up to eight."""
    sizes = (1, 2, 4, 8)
    found: dict[tuple[str, int], list[float]] = {}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, a = on_a_sphere(rng, 64, 6), rng.normal(size=6)
        smooth, flips = (1 + x @ a / np.linalg.norm(a)) / 2, rng.integers(0, 2, size=64).astype(float)
        for name, y in (("linear in the inputs", smooth), ("by coin flips", flips)):
            kernels = [(infinite_gram(x), personal_gram(x, np.arange(64) % 8 % c)) for c in sizes]
            terms = [complexity_term(*k, y, c) for k, c in zip(kernels, sizes, strict=True)]
            for c, growth in zip(sizes[1:], np.diff(np.log(terms)), strict=True):
                found.setdefault((name, c), []).append(float(growth))
    level, parts = 1 - 0.05 / len(found), []
    for (name, c), growths in found.items():
        _, low, high = mean_interval(growths, level)
        what = f"mean logarithm of the term's growth from {c // 2} to {c} clients, labels {name}"
        parts.append(within(low, high, (0.0, np.inf), cases=len(growths), what=what, level=level))
    return all_of(parts)


FS19 = Claim(
    id="FS-19",
    place="section 3.3, paragraph after Theorem 2, fourth sentence",
    said_by="paper",
    words="At fixed total sample size more clients make the complexity term larger.",
    statement='C -> 2 C " at fixed " N quad => quad C / n dot y^top (H^s + H^p)^(-1) y " grows"',
    severity="unstated condition",
    assumptions="one sample is dealt ever more finely, so that nothing but the partition changes",
    sensitivity="an excess of 1e-9; half-widths of the intervals of some per cent",
    flaw="The factor C/n grows, but the personal kernel changes with the partition too: near-parallel inputs with "
    "different labels are cheap to fit once they sit at different clients.",
    corrected="FS-19c",
)


@FS19.reading("every sample, each client's share divided in two")
def every_sample() -> Evidence:
    return _finer(lambda coarse, k: coarse, upwards=True)


@FS19.reading("on average over independent samples")
def on_average() -> Evidence:
    return _on_average()


@FS19.control("orthonormal inputs")
def orthonormal() -> Evidence:
    return _finer(lambda coarse, k: coarse, upwards=True, drawn=_orthonormal())


FS19C = Claim(
    id="FS-19c",
    place="corrected statement of FS-19",
    said_by="fedstat",
    words="Dividing every client in k makes the complexity term at most k√k times as large; it may also fall.",
    statement='C -> k C " at fixed " N quad => quad "term" -> "at most" k^(3/2) dot "term"',
    severity="false",
    assumptions="the coarse personal kernel is at most k times the fine one as a quadratic form (Cauchy's inequality "
    "for a sum of k parts), so the inverse of the kernels' sum is at least 1/k of the fine one's; C/n gives k²",
    sensitivity="an excess of 1e-9",
)


@FS19C.reading("each client's samples divided in two")
def in_two() -> Evidence:
    return _finer(lambda coarse, k: k**1.5 * coarse, upwards=False)


@FS19C.reading("each client's samples divided in three")
def in_three() -> Evidence:
    return _finer(lambda coarse, k: k**1.5 * coarse, upwards=False, k=3)

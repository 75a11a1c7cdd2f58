"""FS-01: the closed form of the shared kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import infinite_gram
from theory_checks.fedsplit.designs import listed
from theory_checks.fedsplit.populations import expectation, inputs

_pairs = st.integers(1, 4).flatmap(lambda d: st.tuples(inputs(d), inputs(d)))


def _of_angle(x: np.ndarray, y: np.ndarray) -> float:
    return float(infinite_gram(np.stack([x, y]))[0, 1])


def _of_inner_product(x: np.ndarray, y: np.ndarray) -> float:
    """Return the closed form with the arc-cosine of the inner product itself."""
    return float(x @ y * (np.pi - np.arccos(np.clip(x @ y, -1, 1))) / (2 * np.pi))


def _closed_form(formula: Callable[[np.ndarray, np.ndarray], float], *, below_one: bool = False) -> Evidence:
    def sides(case: tuple[tuple[float, ...], tuple[float, ...]]) -> tuple[float, float]:
        x, y = (np.array(v) for v in case)
        if below_one:
            x, y = (v / max(1.0, 1.01 * float(np.linalg.norm(v))) for v in (x, y))
        return formula(x, y), expectation(x, y)

    return search(
        _pairs,
        sides,
        relation="==",
        tolerance=1e-10,
        examples=150,
        names=("closed form", "expectation by quadrature"),
        show=lambda case: f"inputs ({listed(case[0])}) and ({listed(case[1])})",
    )


FS01 = Claim(
    id="FS-01",
    place="section 3.3, Definition 1, first formula",
    said_by="fedstat",
    words="The expectation that defines the shared kernel is x_i·x_j (π − θ_ij) / (2π), with θ_ij the angle between "
    "the two inputs.",
    statement="EE[x_i dot x_j bb(1){w dot x_i >= 0, w dot x_j >= 0}] = (x_i dot x_j) (pi - theta_(i j)) / (2 pi)",
    severity="false",
    assumptions="the paper prints the expectation; the closed form is the one that its sources use",
    sensitivity="an entry off by 1e-10",
)


@FS01.reading("angle between the inputs")
def of_angle() -> Evidence:
    return _closed_form(_of_angle)


@FS01.reading("angle between the inputs, norms below one")
def below_one() -> Evidence:
    return _closed_form(_of_angle, below_one=True)


@FS01.reading("angle as arc-cosine of the inner product, without division by the norms", natural=False)
def of_inner_product() -> Evidence:
    return _closed_form(_of_inner_product)

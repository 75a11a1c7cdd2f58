"""FedSplit's statements about kernels (FedSplit/FedFac paper, section 3.3)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, Reading, search, within
from fedstat.ntk import extreme_eigenvalues, finite_gram, infinite_gram, personal_gram
from theory_checks.fedsplit import PAPER

_grid = st.integers(-4, 4).map(lambda i: i / 4)


def _vectors(dimension: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.tuples(*[_grid] * dimension).filter(any)


_pairs = st.integers(1, 4).flatmap(lambda d: st.tuples(_vectors(d), _vectors(d)))


# --- FS-01 -----------------------------------------------------------------------------------------------------


def _expectation(x: np.ndarray, y: np.ndarray) -> float:
    """E[x.y 1{w.x >= 0, w.y >= 0}] by quadrature: condition on w.x = s |x| and integrate s over (0, inf).

    Given s, w.y is normal with mean ``s rho |y|`` and standard deviation ``|y| sqrt(1 - rho^2)``; no angle is
    formed, so this shares nothing with the closed form.
    """
    import mpmath

    a, b = [mpmath.mpf(v) for v in x], [mpmath.mpf(v) for v in y]
    product = mpmath.fdot(a, b)
    rho = product / mpmath.sqrt(mpmath.fdot(a, a) * mpmath.fdot(b, b))
    rest = 1 - rho**2
    if rest < mpmath.mpf(10) ** -12:
        return float(product * (mpmath.mpf(1) / 2 if rho > 0 else 0))
    slope = rho / mpmath.sqrt(rest)
    orthant = mpmath.quad(lambda s: mpmath.npdf(s) * mpmath.ncdf(slope * s), [0, 1, 3, 6, 12])
    return float(product * orthant)


def _normalised(x: np.ndarray, y: np.ndarray) -> float:
    return float(infinite_gram(np.stack([x, y]))[0, 1])


def _raw(x: np.ndarray, y: np.ndarray) -> float:
    """The closed form with the arc-cosine of the inner product itself."""
    return float(x @ y * (np.pi - np.arccos(np.clip(x @ y, -1, 1))) / (2 * np.pi))


def _closed_form(formula: object, *, below_one: bool = False) -> Evidence:
    def sides(case: tuple[tuple[float, ...], tuple[float, ...]]) -> tuple[float, float]:
        x, y = (np.array(v) for v in case)
        if below_one:
            x, y = (v / max(1.0, 1.01 * np.linalg.norm(v)) for v in (x, y))
        return formula(x, y), _expectation(x, y)  # type: ignore[operator]

    return search(
        _pairs,
        sides,
        relation="==",
        tolerance=1e-10,
        examples=150,
        show=lambda case: f"x = {case[0]}, y = {case[1]}",
    )


FS01 = Claim(
    id="FS-01",
    paper=PAPER,
    place="section 3.3, Definition 1",
    statement="H^s_(i j) = (x_i dot x_j) (pi - theta_(i j)) / (2 pi)",
    words="The closed form with the angle between the inputs evaluates the shared kernel's expectation.",
    readings=(
        Reading("angle between the inputs", lambda: _closed_form(_normalised)),
        Reading("angle between the inputs, norms below one", lambda: _closed_form(_normalised, below_one=True)),
        Reading("angle as arc-cosine of the raw inner product", lambda: _closed_form(_raw)),
    ),
    mutant=lambda: _closed_form(lambda x, y: _normalised(x, y) + 1e-9 * float(x @ y)),
    sensitivity="an entry off by 1e-10",
)


# --- FS-03 -----------------------------------------------------------------------------------------------------


_populations = st.tuples(st.integers(1, 4), st.integers(1, 3)).flatmap(
    lambda shape: st.tuples(
        st.lists(_vectors(shape[1]), min_size=shape[0], max_size=shape[0]),
        st.lists(st.integers(0, 2), min_size=shape[0], max_size=shape[0]),
    )
)


def _blocks(kernel: object) -> Evidence:
    """Definition 1, entry by entry and by quadrature with the indicator of the same client, against the blocks."""

    def sides(case: tuple[list[tuple[float, ...]], list[int]]) -> tuple[float, float]:
        x, client = np.array(case[0]), np.array(case[1])
        defined = np.array(
            [
                [_expectation(a, b) if i == j else 0.0 for b, j in zip(x, client, strict=True)]
                for a, i in zip(x, client, strict=True)
            ]
        )
        blocks = kernel(x, client)  # type: ignore[operator]
        return float(np.abs(blocks - defined).max()), 0.0

    return search(_populations, sides, relation="==", tolerance=1e-10, examples=60, show=_design)


def _design(case: tuple[list[tuple[float, ...]], list[int]]) -> str:
    return f"inputs {case[0]} at clients {case[1]}"


FS03 = Claim(
    id="FS-03",
    paper=PAPER,
    place="section 3.3, after Definition 1",
    statement='H^p = op("blockdiag")(H^s_(S_1), dots, H^s_(S_C))',
    words="The personal kernel consists of the clients' diagonal blocks of the shared kernel.",
    readings=(Reading("indicator of the same client", lambda: _blocks(personal_gram)),),
    mutant=lambda: _blocks(lambda x, client: infinite_gram(x)),
    sensitivity="an entry off by 1e-10",
    assumptions="the indicator in Definition 1 means 'the same client' (FS-02 judges its letter)",
)


# --- FS-04 -----------------------------------------------------------------------------------------------------

_designs = st.tuples(st.integers(2, 8), st.integers(2, 4), st.integers(1, 5)).flatmap(
    lambda shape: st.tuples(
        st.lists(_vectors(shape[1]), min_size=shape[0], max_size=shape[0]),
        st.lists(st.integers(0, shape[2] - 1), min_size=shape[0], max_size=shape[0]),
    )
)


def _spectra(compare: object) -> Evidence:
    def sides(case: tuple[list[tuple[float, ...]], list[int]]) -> tuple[float, float]:
        x, client = np.array(case[0]), np.array(case[1])
        return compare(extreme_eigenvalues(infinite_gram(x)), extreme_eigenvalues(personal_gram(x, client)))  # type: ignore[operator]

    return search(_designs, sides, tolerance=1e-12, examples=300, show=_design)


def _conditions(s: tuple[float, float], p: tuple[float, float]) -> tuple[float, float]:
    # written without division, so that singular kernels are covered: p_max s_min <= s_max p_min
    return p[1] * max(s[0], 0.0), s[1] * max(p[0], 0.0)


FS04 = Claim(
    id="FS-04",
    paper=PAPER,
    place="section 3.3, after Definition 1",
    statement="lambda_min (H^p) >= lambda_min (H^s)",
    words="The personal kernel's smallest eigenvalue is at least the shared kernel's.",
    readings=(
        Reading("smallest eigenvalue", lambda: _spectra(lambda s, p: (s[0], max(p[0], 0.0)))),
        Reading("largest eigenvalue, at most the shared one", lambda: _spectra(lambda s, p: (p[1], s[1]))),
        Reading("condition number, at most the shared one", lambda: _spectra(_conditions)),
    ),
    mutant=lambda: _spectra(lambda s, p: (p[0], max(s[0], 0.0))),
    sensitivity="an excess of 1e-12 in the searched designs (up to 8 samples, entries in quarters)",
    assumptions="none needed: the blocks are principal submatrices, and Cauchy interlacing applies",
)


# --- FS-07 -----------------------------------------------------------------------------------------------------

_WIDTHS = (64, 256, 1024, 4096)
_REPEATS = 400


def _concentration(exact: object) -> Evidence:
    """Mean squared Frobenius distance times m, over its exact value, with a 99% interval over all repeats.

    An entry of the finite-width matrix is ``x_i . x_j`` times a mean of m independent indicators with
    probability q = (pi - theta) / (2 pi). So ``E |H(m) - H|_F^2 = (1/m) sum_ij (x_i . x_j)^2 q_ij (1 - q_ij)``.
    """
    from scipy import stats

    rng = np.random.default_rng(7)
    x = rng.normal(size=(12, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    inner, limit = x @ x.T, infinite_gram(x)
    constant = float((inner**2 * exact(limit / inner)).sum())  # type: ignore[operator]
    ratios = np.array(
        [
            [m * ((finite_gram(x, rng.normal(size=(m, 5))) - limit) ** 2).sum() / constant for _ in range(_REPEATS)]
            for m in _WIDTHS
        ]
    )
    means = ratios.mean(axis=1)
    errors = ratios.std(axis=1, ddof=1) / np.sqrt(_REPEATS)
    # a constant ratio over widths is the rate m^(-1/2); Bonferroni over the widths keeps 99% jointly
    z = stats.norm.isf(0.005 / len(_WIDTHS))
    low, high = float((means - z * errors).min()), float((means + z * errors).max())
    what = f"measured over exact constant (m E|H(m) − H|² = {constant:.4g}), widths {_WIDTHS[0]} to {_WIDTHS[-1]}"
    return within(low, high, (0.75, 1.25), cases=ratios.size, what=what, level=0.99)


FS07 = Claim(
    id="FS-07",
    paper=PAPER,
    place="section 3.3, after Definition 2",
    statement="EE norm(H(m) - H)_F^2 = 1/m sum_(i j) (x_i dot x_j)^2 q_(i j) (1 - q_(i j))",
    words="Finite-width kernels approach the limit like one over the square root of the width, with an exact constant.",
    readings=(
        Reading(
            "mean squared Frobenius distance, within 25% of the exact value",
            lambda: _concentration(lambda q: q * (1 - q)),
        ),
    ),
    mutant=lambda: _concentration(lambda q: q),
    sensitivity="a constant off by about 35%, or another rate that moves the ratio so far over a factor of 64 in width",
)


def claims(results: Path) -> tuple[Claim, ...]:
    """Return the claims; they are exact or repeated here, and read no tables."""
    return (FS01, FS03, FS04, FS07)

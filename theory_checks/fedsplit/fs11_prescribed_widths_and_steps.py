"""FS-11: whether the prescribed widths and steps can be used.

FS-11c: how fast the prescribed widths and rounds grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, not_checkable, search
from fedstat.inference import number
from fedstat.ntk import extreme_eigenvalues, infinite_gram, personal_gram
from fedstat.theory.convergence import prescribed_step
from theory_checks.fedsplit.data_sets import data_sets
from theory_checks.fedsplit.designs import Design, designs
from theory_checks.fedsplit.symbols import SYMBOLS

#: Hidden units that a large machine holds.
_UNITS = 10**9
_DELTA = 0.05


def _largest_constant(samples: int) -> float:
    """Return the largest hidden constant by which the prescribed shared width stays within a large machine.

    The diagonal of the shared kernel is at most 1/2, so ls <= 1/2 and ``ls^-4 N^4 log(N / delta)`` is at least
    ``16 N^4 log(N / delta)``.
    """
    return _UNITS / (16 * samples**4 * math.log(samples / _DELTA))


FS11 = Claim(
    id="FS-11",
    place="section 3.3, Theorem 1, third and fourth sentence: widths m₁, m₂ and step size η_l",
    said_by="fedstat",
    words="The widths and step sizes that Theorem 1 prescribes can be used in practice.",
    statement="m_2 = Omega((lambda^s)^(-4) N^4 log(N/delta)), quad eta_l = O((lambda^s + lambda^p) / "
    "(gamma^s gamma^p G N^2))",
    severity="unstated condition",
    assumptions=SYMBOLS + "; the paper does not say 'in practice'; we ask",
    sensitivity="none: the constants behind Ω and O are not given",
    corrected="FS-11c",
)


@FS11.reading("at most a thousand million units on the paper's data sets")
def in_practice() -> Evidence:
    needed = [f"{number(_largest_constant(d.training), 2)} ({d.name})" for d in data_sets()]
    return not_checkable(
        "the constants behind Ω and O are not given; for at most a thousand million units at δ = 0.05, and the best of "
        f"inputs, the one of m₂ would have to be at most {', '.join(needed)}"
    )


FS11C = Claim(
    id="FS-11c",
    place="what can be said in place of FS-11",
    said_by="fedstat",
    words="Whatever the hidden constants are, doubling every client's sample makes the prescribed width m₂ grow at "
    "least 16-fold, and the rounds until the guarantee halves at least 4-fold.",
    statement='N -> 2 N quad => quad m_2 -> 16 m_2 "or more", quad 1 / (rho_1 lambda^s + rho_2 lambda^p) -> '
    '4 / (rho_1 lambda^s + rho_2 lambda^p) "or more"',
    severity="false",
    assumptions=SYMBOLS
    + "; the new samples come on top of the old ones, at the same clients; then smallest eigenvalues do not "
    "grow and condition numbers do not fall, by Cauchy's interlacing; δ, G and η_g stay",
    sensitivity="an excess of one part in a thousand million",
)


#: Designs with an even number of samples at each client.
_EVEN: st.SearchStrategy[Design] = designs(n=2).filter(lambda case: len(case.directions) // case.clients % 2 == 0)


def _doubled(quantity: Callable[[np.ndarray, np.ndarray, int], float], factor: float) -> Evidence:
    """Search designs with pairs of samples at each client: all of them against the first halves."""

    def sides(case: Design) -> tuple[float, float]:
        x = np.array(case.directions, dtype=float)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        owner = np.arange(len(x)) // (len(x) // case.clients)
        half = np.arange(len(x)) % (len(x) // case.clients) < len(x) // case.clients // 2
        few, all_ = (
            quantity(infinite_gram(x[rows]), personal_gram(x[rows], owner[rows]), case.clients)
            for rows in (half, np.ones(len(x), dtype=bool))
        )
        return factor, all_ / few

    names = ("growth claimed at least", "found")
    return search(_EVEN, sides, tolerance=1e-9, examples=100, names=names)


def _width(shared: np.ndarray, personal: np.ndarray, clients: int) -> float:
    n = len(shared)
    return float(extreme_eigenvalues(shared)[0] ** -4 * n**4 * math.log(n / _DELTA))


def _rounds(shared: np.ndarray, personal: np.ndarray, clients: int) -> float:
    low, low_p = extreme_eigenvalues(shared)[0], extreme_eigenvalues(personal)[0]
    return 1 / (prescribed_step(shared, personal, local_steps=1) * (low / clients + low_p))


@FS11C.reading("widths, at least 16-fold")
def widths() -> Evidence:
    return _doubled(_width, 16.0)


@FS11C.reading("rounds, at least 4-fold")
def rounds() -> Evidence:
    return _doubled(_rounds, 4.0)

"""FS-17: the complexity term is above one unless clients hold much data.

FS-17c: how small the complexity term can get.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, Sides, compared, search, within
from fedstat.inference import mean_interval
from fedstat.ntk import infinite_gram, personal_gram
from fedstat.theory.generalisation import complexity_term
from theory_checks.fedsplit.data_sets import DataSet, data_sets
from theory_checks.fedsplit.designs import Design, labelled
from theory_checks.fedsplit.growth import on_a_sphere

_NAMES = ("least value of the term", "claimed below")


def _least(clients: int, samples: int, square: float) -> float:
    """Return the least value of the term, by FS-17c, for labels of this mean square and inputs in the unit ball."""
    return 2 * clients * math.sqrt(2 * square / (samples + samples / clients))


def _at_best(sets: list[DataSet]) -> Evidence:
    """Compare the least value that the term can have on the paper's data sets with one; half of the labels are one."""
    cases = [
        Sides(f"{d.name} (C = {d.clients}, N = {d.training})", _least(d.clients, d.training, 0.5), 1.0, _NAMES)
        for d in sets
    ]
    return compared(cases, relation="<", every=True, of="data sets of the paper")


def _smooth() -> Evidence:
    """The term for 1024 inputs on the unit sphere in six dimensions, labels (1 + a . x) / 2, dealt to four clients."""
    terms = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, a = on_a_sphere(rng, 1024, 6), rng.normal(size=6)
        kernels = infinite_gram(x), personal_gram(x, np.arange(1024) % 4)
        terms.append(complexity_term(*kernels, (1 + x @ a / np.linalg.norm(a)) / 2, 4))
    _, low, high = mean_interval(terms)
    return within(low, high, (0.0, 1.0), cases=len(terms), what="term for four clients")


FS17 = Claim(
    id="FS-17",
    place="section 3.3, Theorem 2, first term of the displayed bound",
    said_by="fedstat",
    words="The complexity term 2 √(C/n · y′(Hˢ + Hᵖ)⁻¹y) is a usable bound for a loss between zero and one: it is "
    "below one.",
    statement="2 sqrt(C / n dot y^top (H^s + H^p)^(-1) y) < 1",
    severity="false",
    assumptions="the paper does not say 'usable'; labels in [0, 1], as Theorem 2 has them, inputs in the unit ball, "
    "clients of equal size; on the paper's data sets half of the labels are taken to be one, and the rest zero",
    sensitivity="a least value of one or more on any of the data sets",
    flaw="The term carries a factor of C, since the sum over all N labels is divided by n = N/C and multiplied by C. "
    "With m the mean square of the labels it is above one unless each client holds more than 8mC²/(C + 1) samples.",
    corrected="FS-17c",
)


@FS17.reading("the least value that it can have on the paper's own data sets")
def at_best() -> Evidence:
    return _at_best(data_sets())


@FS17.control("data sets without FEMNIST")
def without_femnist() -> Evidence:
    return _at_best([d for d in data_sets() if d.name != "FEMNIST"])


@FS17.control("four clients with 256 samples each, unit inputs in six dimensions, labels linear in them")
def four_clients() -> Evidence:
    return _smooth()


FS17C = Claim(
    id="FS-17c",
    place="corrected statement of FS-17",
    said_by="fedstat",
    words="With m the mean square of the labels the term is at least 2C √(2m/(N + n)), which equal inputs attain; "
    "so the bound is vacuous unless n exceeds 8mC²/(C + 1).",
    statement="norm(x_i) <= 1 => 2 sqrt(C / n dot y^top (H^s + H^p)^(-1) y) >= "
    "2 C sqrt((2 m) / (N + n)), quad m = 1/N sum_i y_i^2",
    severity="false",
    assumptions="clients of equal size; else n is the largest",
    sensitivity="an excess of 1e-12",
)


def _square(labels: tuple[float, ...]) -> float:
    return sum(y * y for y in labels) / len(labels)


def _lower_bound() -> Evidence:
    """Inputs in the unit ball, equal clients, m the labels' mean square: ``term >= 2 C sqrt(2 m / (N + n))``.

    ``y' K^{-1} y >= |y|^2 / lmax(K)`` with ``K = H_s + H_p`` and ``|y|^2 = N m``. The diagonals are ``|x_i|^2 / 2``, at
    most 1/2; so ``lmax(H_s) <= trace = N / 2``, and ``lmax(H_p)``, the largest over the clients' blocks, is at most
    ``n / 2``. Hence ``lmax(K) <= (N + n) / 2`` and ``(C / n) y' K^{-1} y >= 2 m C^2 / (N + n)``. It is
    below one fourth, and the term below one, only if ``n = N / C > 8 m C^2 / (C + 1)``.
    """

    def sides(case: Design) -> tuple[float, float]:
        least = _least(case.clients, len(case.labels), _square(case.labels))
        found = complexity_term(*case.kernels(), np.array(case.labels), case.clients)
        return least, found

    drawn = labelled(labels=(1, 0, 0.5))
    return search(drawn, sides, tolerance=1e-12, examples=100, names=("lower bound", "term"))


def _attained() -> Evidence:
    """One input, repeated, with one label: both kernels are constant within their blocks, y is the top eigenvector."""

    def sides(case: tuple[int, int, float]) -> tuple[float, float]:
        clients, n, label = case
        owner = np.repeat(np.arange(clients), n)
        shared = np.full((clients * n, clients * n), 0.5)
        personal = np.where(owner[:, None] == owner, 0.5, 0.0)
        labels = np.full(clients * n, label)
        return complexity_term(shared, personal, labels, clients), _least(clients, clients * n, label**2)

    sizes = st.tuples(st.integers(1, 5), st.integers(1, 12), st.sampled_from([1.0, 0.5, 0.25]))
    names = ("term", "lower bound")
    return search(
        sizes,
        sides,
        relation="==",
        tolerance=1e-9,
        examples=60,
        names=names,
        show=lambda c: f"C = {c[0]}, n = {c[1]}, labels {c[2]:g}",
    )


@FS17C.reading("the lower bound, labels of 0, 1/2 and 1")
def lower_bound() -> Evidence:
    return _lower_bound()


@FS17C.reading("equal inputs with equal labels attain it, for every number of clients")
def attained() -> Evidence:
    return _attained()

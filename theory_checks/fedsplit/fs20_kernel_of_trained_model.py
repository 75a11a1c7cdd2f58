"""FS-20: the plain sum of two kernels is not the trained model's.

FS-20c: the kernel of the trained model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import infinite_gram, personal_gram
from theory_checks.fedsplit.designs import Design, labelled, listed

#: Directions in the plane well apart from each other.
_APART = [v for v in itertools.product(range(3), range(-2, 3)) if math.gcd(*v) == 1 and (v[0] > 0 or v[1] > 0)]
_ROUNDS = 2**14


class _Fit(NamedTuple):
    """A sample, a new input at its first client, and the global step size."""

    sample: Design
    new: tuple[int, ...]
    eta_g: int


def _fits(eta_g: Callable[[int], int], clients: int = 1) -> st.SearchStrategy[_Fit]:
    return st.tuples(labelled(clients, pool=_APART, largest=2), st.sampled_from(_APART)).map(
        lambda case: _Fit(case[0], case[1], eta_g(case[0].clients))
    )


def _trained_kernel(
    fits: st.SearchStrategy[_Fit], weight: Callable[[int, int], float], local_steps: int = 1
) -> Evidence:
    """FedSplit's limit trained to the end from zero against regression with a weighted sum of kernels.

    Training keeps one shared function and one personal function per client, each a sum of kernels at the sample. In a
    round client c sums its residuals over local steps to R_c, which moves its personal function by ``-s k_p' R_c``;
    the server moves the shared one by the mean over clients of ``-s k_s' R_c``, times eta_g. So both functions'
    coefficients move along one vector, the shared ones eta_g / C times as far, in every round: the trained function
    lies in the span of ``eta_g / C k_s + k_p``, and where it fits the sample it is regression with that kernel.
    """

    def sides(case: _Fit) -> tuple[float, float]:
        sample, clients = case.sample, case.sample.clients
        x = np.array([*sample.directions, case.new], dtype=float)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        owner = np.append(np.arange(len(x) - 1) // ((len(x) - 1) // clients), 0)
        shared, personal = infinite_gram(x), personal_gram(x, owner)
        y = np.array(sample.labels, dtype=float)
        n, largest = len(y), float(np.linalg.eigvalsh(case.eta_g / clients * shared + personal)[-1])
        step = 1 / (local_steps * largest)
        # one round as a linear map of (shared coefficients, personal coefficients, 1), iterated by squaring
        own = np.where(owner[:-1, None] == owner[:-1], (shared + personal)[:-1, :-1], 0.0)
        summed = sum(np.linalg.matrix_power(np.eye(n) - step * own, g) for g in range(local_steps))
        residual = summed @ np.hstack([shared[:-1, :-1], personal[:-1, :-1], -y[:, None]])
        moves = np.vstack([case.eta_g / clients * residual, residual, np.zeros((1, 2 * n + 1))])
        trained = np.linalg.matrix_power(np.eye(2 * n + 1) - step * moves, _ROUNDS)[:-1, -1]
        predicted = shared[-1, :-1] @ trained[:n] + personal[-1, :-1] @ trained[n:]
        kernel = weight(case.eta_g, clients) * shared + personal
        return float(predicted), float(kernel[-1, :-1] @ np.linalg.solve(kernel[:-1, :-1], y))

    def show(case: _Fit) -> str:
        return f"{case.sample}, new input along ({listed(case.new)}), η_g = {case.eta_g}"

    names = ("trained model's prediction", "the kernel's")
    return search(fits, sides, relation="==", tolerance=1e-8, examples=100, names=names, show=show)


def _one(clients: int) -> int:
    return 1


def _equal(eta_g: int, clients: int) -> float:
    return 1.0


def _by_rate(eta_g: int, clients: int) -> float:
    return eta_g / clients


FS20 = Claim(
    id="FS-20",
    place="section 3.3, Theorem 2, displayed bound: the kernel of its complexity measure",
    said_by="fedstat",
    words="The sum of the two kernels, equally weighted, is the kernel of the trained model.",
    statement="h_infinity (x) = k(x)^top (H^s + H^p)^(-1) y",
    severity="unstated condition",
    assumptions="the paper uses the sum in its bound and does not say more of it; G = 1, steps that converge, all "
    "clients take part, start at zero",
    sensitivity="a prediction off by 1e-8",
    flaw="Averaging over C clients divides the shared units' moves by C; so shared and personal units learn at rates "
    "of η_g/C to one, and the trained function weighs their kernels so.",
    corrected="FS-20c",
)


@FS20.reading("η_g = 1, the server averages, two clients or more")
def averaged() -> Evidence:
    return _trained_kernel(_fits(_one, clients=2), _equal)


@FS20.condition("η_g = C, the server adds the clients' updates up")
def added_up() -> Evidence:
    return _trained_kernel(_fits(lambda clients: clients), _equal)


@FS20.control("a single client")
def single_client() -> Evidence:
    return _trained_kernel(_fits(_one).filter(lambda fit: fit.sample.clients == 1), _equal)


FS20C = Claim(
    id="FS-20c",
    place="corrected statement of FS-20",
    said_by="fedstat",
    words="The kernel of the trained model is the shared one times η_g/C, plus the personal one.",
    statement="h_infinity (x) = k(x)^top (eta_g / C H^s + H^p)^(-1) y",
    severity="false",
    assumptions="steps that converge, all clients take part, start at zero",
    sensitivity="a prediction off by 1e-8",
)


@FS20C.reading("η_g = 1")
def corrected_one() -> Evidence:
    return _trained_kernel(_fits(_one), _by_rate)


@FS20C.reading("η_g = 3")
def corrected_three() -> Evidence:
    return _trained_kernel(_fits(lambda clients: 3), _by_rate)


@FS20C.reading("η_g = 1, G = 5 local steps")
def corrected_five_steps() -> Evidence:
    return _trained_kernel(_fits(_one), _by_rate, local_steps=5)


@FS20C.mutant("without the division by C")
def undivided() -> Evidence:
    return _trained_kernel(_fits(_one), lambda eta_g, clients: eta_g)

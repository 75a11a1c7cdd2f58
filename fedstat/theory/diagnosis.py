"""Apply FedSplit's two theorems to a user's own clients, in one call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstat._checks import array, whole
from fedstat.ntk import extreme_eigenvalues, infinite_gram, personal_gram
from fedstat.ntk.gram import labels
from fedstat.theory.convergence import convergence_factor, limit_trajectory
from fedstat.theory.generalisation import complexity_term


@dataclass(frozen=True)
class Diagnosis:
    """The kernels' spectra and what the theorems conclude from them; `str` says it in words.

    Attributes
    ----------
    samples, clients : int
        N and C.
    smallest_shared, smallest_personal : float
        Smallest eigenvalues ls and lp of the limit kernels.
    condition_shared, condition_personal : float
        Condition numbers; infinite for a singular kernel.
    eta_g, eta_l : float
        The step sizes used.
    local_steps, rounds : int
        G, and the number of rounds over which the exact factors are averaged.
    claimed_factor : float
        Theorem 1's factor per round for the squared residual.
    exact_factor, exact_factor_mean : float
        Geometric mean of the factors per round of the exact linear limit, from zero predictions: for updates
        without 1/n, and with the mean over a client's samples; NaN if all labels are zero, so that nothing is left.
    slowest_factor, slowest_factor_mean : float
        The same means from the start whose residual falls most slowly; the theorem's factor is meant to cover it.
    complexity : float
        Theorem 2's complexity term.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.theory import diagnose
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> found = diagnose(x, client=np.array([0, 1]), y=np.array([1.0, -1.0]), eta_l=0.5)
    >>> found.smallest_shared, found.smallest_personal, round(found.claimed_factor, 3)
    (0.5, 0.5, 0.812)

    The theorem claims that a round leaves ``1 - (1/8 + 1/4) / 2`` of the squared residual.
    """

    samples: int
    clients: int
    smallest_shared: float
    smallest_personal: float
    condition_shared: float
    condition_personal: float
    eta_g: float
    eta_l: float
    local_steps: int
    rounds: int
    claimed_factor: float
    exact_factor: float
    exact_factor_mean: float
    slowest_factor: float
    slowest_factor_mean: float
    complexity: float

    @property
    def vacuous(self) -> bool:
        """Whether Theorem 2 says nothing about a loss in [0, 1]."""
        return not self.complexity < 1

    def __str__(self) -> str:
        def against(convention: str, exact: float, slowest: float) -> str:
            word = "within the claim" if np.fmax(exact, slowest) <= self.claimed_factor else "slower than claimed"
            own = "" if np.isnan(exact) else f"{exact:.6g} from these labels, "
            return f"  {convention:<21}{own}{slowest:.6g} from the slowest start: {word}"

        lines = [
            f"{self.samples} samples at {self.clients} clients",
            f"smallest eigenvalues   shared {self.smallest_shared:.4g}, personal {self.smallest_personal:.4g}",
            f"condition numbers      shared {self.condition_shared:.4g}, personal {self.condition_personal:.4g}",
            f"factor per round, with eta_g = {self.eta_g:g}, eta_l = {self.eta_l:.3g}, G = {self.local_steps}",
            f"  claimed              {self.claimed_factor:.6g}",
            against("exact, without 1/n", self.exact_factor, self.slowest_factor),
            against("exact, with 1/n", self.exact_factor_mean, self.slowest_factor_mean),
            f"complexity term        {self.complexity:.4g}; vacuous: "
            + ("yes, a loss in [0, 1] is never above one" if self.vacuous else "no"),
        ]
        if np.isinf(self.condition_shared):
            why = "zero inputs, positive multiples of one another, or opposites in linearly dependent directions"
            lines.insert(3, f"the shared kernel is singular ({why}): Theorem 1 promises nothing")
        return "\n".join(lines)


def diagnose(
    x: np.ndarray,
    client: np.ndarray,
    y: np.ndarray,
    *,
    eta_g: float = 1.0,
    eta_l: float | None = None,
    local_steps: int = 1,
    rounds: int = 100,
) -> Diagnosis:
    """Apply FedSplit's theorems to the user's own clients.

    Parameters
    ----------
    x : ndarray, shape (N, d)
        Inputs; the theorems assume norms of at most one.
    client : ndarray, shape (N,)
        The client that holds each sample, in any order; clients may differ in size.
    y : ndarray, shape (N,)
        Labels as numbers.
    eta_g, local_steps, rounds
        Global step size, local steps per round, and rounds of the exact trajectory.
    eta_l : float, optional
        Local step size without 1/n; by default one over the largest eigenvalue of the sum of the kernels. Twice that is
        still stable locally.

    Raises
    ------
    ValueError
        If lengths do not fit, numbers are not finite, or all inputs are zero.

    References
    ----------
    FedSplit, Theorems 1 and 2.

    Examples
    --------
    Unit inputs of two clients that do not overlap, so that both kernels are half the identity:

    >>> import numpy as np
    >>> from fedstat.theory import diagnose
    >>> x = np.eye(6)
    >>> y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    >>> print(diagnose(x, client=np.array([0, 0, 0, 1, 1, 1]), y=y, rounds=20))
    6 samples at 2 clients
    smallest eigenvalues   shared 0.5, personal 0.5
    condition numbers      shared 1, personal 1
    factor per round, with eta_g = 1, eta_l = 1, G = 1
      claimed              0.625
      exact, without 1/n   0.0625 from these labels, 0.0625 from the slowest start: within the claim
      exact, with 1/n      0.5625 from these labels, 0.5625 from the slowest start: within the claim
    complexity term        4; vacuous: yes, a loss in [0, 1] is never above one
    """
    whole("rounds", rounds, 1)
    x = array("x", x, ("samples", "inputs"))
    y, client = array("y", y, (len(x),)), labels(client, len(x))
    order = np.argsort(client, kind="stable")
    x, y = x[order], y[order]
    _, starts, sizes = np.unique(client[order], return_index=True, return_counts=True)
    shared, personal = infinite_gram(x), personal_gram(x, client[order])
    (low_s, high_s), (low_p, high_p) = extreme_eigenvalues(shared), extreme_eigenvalues(personal)
    if high_s <= 0:
        raise ValueError("x must hold an input that is not zero.")
    low_s, low_p = (0.0 if low <= len(x) * np.finfo(float).eps * high_s else low for low in (low_s, low_p))
    if eta_l is None:
        eta_l = 1 / extreme_eigenvalues(shared + personal)[1]
    blocks = [slice(a, a + n) for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)]

    kernel = eta_g / len(blocks) * shared + personal

    def slowest(steps: list[float]) -> np.ndarray:
        """Return the eigenvector of the round's map ``I - kernel S`` farthest from zero; S sums local residuals."""
        root = np.zeros_like(shared)
        for rows, s in zip(blocks, steps, strict=True):
            values, vectors = np.linalg.eigh((shared + personal)[rows, rows])
            summed = s * sum((1 - s * values) ** g for g in range(local_steps))
            root[rows, rows] = (vectors * np.sqrt(np.maximum(summed, 0.0))) @ vectors.T
        falls, vectors = np.linalg.eigh(root @ kernel @ root)
        end = 0 if abs(1 - falls[0]) >= abs(1 - falls[-1]) else -1  # long steps go too far
        return np.asarray(np.linalg.lstsq(root, vectors[:, end], rcond=None)[0])

    def exact(start: np.ndarray, steps: list[float]) -> float:
        norms = limit_trajectory(
            shared, personal, start, blocks, eta_g=eta_g, steps=steps, local_steps=local_steps, rounds=rounds
        )
        reached = int(np.argmin(norms > 1e-28 * norms[0])) or rounds  # the round in which rounding ends the descent
        return float((norms[reached] / norms[0]) ** (1 / reached)) if norms[0] > 0 else 1.0

    sums, means = [eta_l] * len(blocks), [eta_l / n for n in sizes.tolist()]
    own, own_mean = (exact(-y, steps) if y.any() else float("nan") for steps in (sums, means))
    return Diagnosis(
        samples=len(x),
        clients=len(blocks),
        smallest_shared=low_s,
        smallest_personal=low_p,
        condition_shared=high_s / low_s if low_s else float("inf"),
        condition_personal=high_p / low_p if low_p else float("inf"),
        eta_g=eta_g,
        eta_l=eta_l,
        local_steps=local_steps,
        rounds=rounds,
        claimed_factor=convergence_factor(
            shared, personal, eta_g=eta_g, eta_l=eta_l, local_steps=local_steps, clients=len(blocks)
        ),
        exact_factor=own,
        exact_factor_mean=own_mean,
        slowest_factor=exact(slowest(sums), sums),
        slowest_factor_mean=exact(slowest(means), means),
        complexity=complexity_term(shared, personal, y, len(blocks)),
    )

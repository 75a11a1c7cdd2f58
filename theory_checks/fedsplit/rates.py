"""How fast FedSplit converges: the rate that Theorem 1 guarantees, and the exact one where training is linear.

The theorem is about networks so wide that nobody can train them. It is therefore judged in the limit of infinite
width, where a round is a linear map of the residual; networks of finite width are judged on the wide study's tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedstat._tables import Tables
from fedstat.claims import Evidence, probability, search
from fedstat.ntk import extreme_eigenvalues
from fedstat.theory.convergence import convergence_factor, prescribed_step
from theory_checks.fedsplit.designs import Design, designs, over_designs

# --- One model: guaranteed against exact ---


def lost(shared: np.ndarray, personal: np.ndarray, *, clients: int, step: float, local_steps: int) -> np.ndarray:
    """Return B, by which a round takes a residual r to ``(I - B) r`` in the wide limit, eta_g = 1.

    At client c a local step takes the residual to ``(I - s K_c) r``, K_c the client's blocks of both kernels. With
    S the sum of these maps' powers below G the round's moves are ``s S r``, so ``B = s (H_s / C + H_p) S``.
    """
    own = np.where(np.kron(np.eye(clients), np.ones((len(shared) // clients,) * 2)) > 0, shared + personal, 0.0)
    local = np.eye(len(shared)) - step * own
    summed = sum(np.linalg.matrix_power(local, g) for g in range(local_steps))
    return np.asarray(step * (shared / clients + personal) @ summed)


def least_decrement(b: np.ndarray) -> float:
    """Return the least share of the squared residual that a round takes away: from its worst start."""
    return extreme_eigenvalues(b + b.T - b.T @ b)[0]


def guaranteed(
    *,
    local_steps: int,
    step: str,
    per_client_mean: bool = False,
    divided: bool = False,
    times: float = 1.0,
    drawn: st.SearchStrategy[Design] | None = None,
) -> Evidence:
    """Search designs for one whose worst start loses less of its squared residual in a round than is guaranteed.

    What every start loses in a round it loses in all rounds, so the theorem's bound holds for all t if it holds for
    one. The step is "prescribed", the theorem's with hidden constants one, or "stable": ``G eta_l`` one over the
    largest eigenvalue of ``H_s / C + H_p``, half the limit of stability for G = 1.
    """

    def sides(case: Design) -> tuple[float, float]:
        shared, personal = case.kernels()
        held = len(shared) // case.clients
        n = held if per_client_mean else 1
        eta = prescribed_step(shared, personal, local_steps=local_steps)
        if step == "stable":
            eta = n / (local_steps * extreme_eigenvalues(shared / case.clients + personal)[1])
        sizes: dict[str, Any] = {"eta_g": 1.0, "eta_l": eta, "local_steps": local_steps, "clients": case.clients}
        claimed = 1 - convergence_factor(shared, personal, **sizes)
        b = lost(shared, personal, clients=case.clients, step=eta / n, local_steps=local_steps)
        return times * claimed / (held if divided else 1), least_decrement(b)

    names = ("share lost in a round, as guaranteed,", "found")
    return search(designs() if drawn is None else drawn, sides, tolerance=1e-14, examples=100, names=names)


#: Starts of the wide study's networks.
_STARTS = {"teacher": "a teacher's labels", "bottom": "labels along the slowest eigenvector"}


def networks(tables: Tables, convention: str) -> Evidence:
    """Runs of the widest networks whose squared residual stays under the claimed bound in every round."""
    runs = tables["networks"].query("convention == @convention")
    runs = runs[runs["width"] == runs["width"].max()]
    below = runs.groupby(["start", "seed"])["below"].all().groupby("start")
    counts = {start: (int(values.sum()), len(values)) for start, values in below}
    start, (good, total) = min(counts.items(), key=lambda item: item[1][0] / item[1][1])
    width = f"{int(runs['width'].max())} units of each kind"
    what = f"runs with {width} that stay under the bound (fewest of {len(counts)} starts: {_STARTS[start]})"
    return probability(good, total, at_least=0.95, what=what)


# --- Models compared at equal small steps ---

#: How many halves of a network are shared and how many personal; a half has the weight of one sum in model (4).
Halves = tuple[int, int]
SPLIT: Halves = (1, 1)
ALL_SHARED: Halves = (2, 0)
SHARED_HALF_ALONE: Halves = (1, 0)
ALL_PERSONAL: Halves = (0, 2)


#: The server's step for a number of clients.
ServerStep = Callable[[int], float]


def averages(clients: int) -> float:
    """Return the step of a server that averages the clients' updates."""
    return 1.0


def adds_up(clients: int) -> float:
    """Return the step of a server that adds the clients' updates up."""
    return float(clients)


def exact_rates(
    slower: Halves,
    faster: Halves,
    names: tuple[str, str],
    *,
    drawn: st.SearchStrategy[Design],
    eta_g: ServerStep = averages,
) -> Evidence:
    """Compare the slowest modes of two networks in the wide limit at equal small steps.

    A network's rate is the smallest eigenvalue of ``a eta_g / C H_s + b H_p``.
    """

    def sides(shared: np.ndarray, personal: np.ndarray, clients: int) -> tuple[float, float]:
        left, right = (
            extreme_eigenvalues(eta_g(clients) * halves[0] / clients * shared + halves[1] * personal)[0]
            for halves in (slower, faster)
        )
        return max(left, 0.0), max(right, 0.0)

    return over_designs(sides, drawn, names)


def guaranteed_rates(
    slower: Halves,
    faster: Halves,
    names: tuple[str, str],
    *,
    drawn: st.SearchStrategy[Design],
    eta_g: ServerStep = averages,
) -> Evidence:
    """Compare the rates that Theorem 1 guarantees at equal steps: ``a eta_g / C ls + b lp``."""

    def sides(shared: np.ndarray, personal: np.ndarray, clients: int) -> tuple[float, float]:
        low, low_p = extreme_eigenvalues(shared)[0], extreme_eigenvalues(personal)[0]
        left, right = (eta_g(clients) * halves[0] * low / clients + halves[1] * low_p for halves in (slower, faster))
        return left, right

    return over_designs(sides, drawn, names)

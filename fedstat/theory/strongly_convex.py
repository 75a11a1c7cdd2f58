"""Bound the convergence of federated averaging on strongly convex clients, as printed and as corrected."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational
from typing import Literal

import numpy as np

from fedstat._checks import choice, number, whole

Number = Fraction | float


def strongly_convex_bound(
    steps: int,
    *,
    smoothness: Number,
    convexity: Number,
    local_steps: int,
    gradient_bound: Number,
    heterogeneity: Number,
    initial_distance: Number,
    form: Literal["printed", "corrected"],
    clients: int = 1,
    participants: int = 1,
    noise: Number = 0,
    beta: Number = 1,
) -> Number:
    """Bound the expected gap ``F(w^T) - F*`` of federated averaging with ``eta_t = 2 / (mu (gamma + t))``.

    Write L, mu, E, G, Gamma for `smoothness`, `convexity`, `local_steps`, `gradient_bound` and `heterogeneity`,
    and Delta_t for the mean square of ``|w^t - w*|``, where ``w^t`` is the clients' average. Both forms read::

        (2 / mu^2) L / (gamma + T) (B + mu^2 factor / 4 Delta_1)

    with, in the paper, ``gamma = max(8 L / mu, E)``, ``factor = 1`` and::

        B = 6 L Gamma + 8 (E / beta - 1)^2 G^2 + 4 (M^2 - m^2) / (m^2 M^2 (M^2 - 1)) (E - 1)^2 G^2

    (Theorem 5.4 at beta = 1, which prints it for steps half as long; Theorem A.1 at m = M, where there is no third
    term). With both ``beta < 1`` and m < M the printed form joins the terms of the two, which neither states. In the
    corrected form ``gamma = max(8 L / mu, E / beta)``, ``factor = gamma + 1`` and::

        B = noise + 6 L Gamma + 8 (E / beta - 1)^2 G^2 + 4 (M - m) / (m (M - 1)) (E / beta)^2 G^2

    *Derivation of the corrected form.* One step of all clients from their average satisfies, for
    ``eta_t <= 1 / (4 L)``::

        Delta' <= (1 - mu eta_t) Delta_t + eta_t^2 (noise + 6 L Gamma) + 2 S_t

    where ``noise = sum_k p_k^2 sigma_k^2`` is the variance of the averaged stochastic gradient, and S_t the clients'
    spread, the expectation of ``sum_k p_k |w_k^t - w^t|^2``. (A third of S_t in place of both ``6 L Gamma eta_t^2``
    and ``2 S_t`` would do; the terms are kept as the paper has them.) Since the last averaging at t0 a client has
    made at most ``E / beta - 1`` steps, and ``gamma >= E / beta`` gives ``eta_t0 <= 2 eta_t``; so the spread is at
    most ``4 eta_t^2 (E / beta - 1)^2 G^2``. Averaging m of M clients drawn without replacement adds ``(M - m) / (m (M
    - 1))`` times the clients' variance, which after a whole period of E / beta steps is at most ``4 eta_t^2 (E /
    beta)^2 G^2``; that is sufficient, not necessary, as the clients rarely part as far as G allows. Together
    ``Delta_{t+1} <= (1 - mu eta_t) Delta_t + eta_t^2 B``. For ``eta_t = b / (gamma + t)`` with ``b mu > 1`` induction
    gives ``Delta_t <= v / (gamma + t)`` with ``v = max(b^2 B / (b mu - 1), (gamma + 1) Delta_1)``: the second entry
    starts it, the first carries it on. At ``b = 2 / mu`` a sum in place of the maximum and ``F - F* <= L Delta / 2``
    give the bound. The printed form lacks the factor ``gamma + 1`` of the start, and the noise.

    Parameters
    ----------
    steps : int
        T: index of the iterate, counted from 1 (the start), so that T - 1 steps have been made.
    smoothness, convexity : Fraction or float
        L and mu of all clients' objectives, ``L >= mu > 0``.
    local_steps : int
        E, steps between two averagings.
    gradient_bound : Fraction or float
        G; G^2 bounds the mean square of the (stochastic) gradients' norm at all points the clients visit.
    heterogeneity : Fraction or float
        ``Gamma = F* - sum_k p_k F_k*``.
    initial_distance : Fraction or float
        ``|w^1 - w*|``.
    form : {"printed", "corrected"}
        Which of the two bounds to return.
    clients, participants : int
        M, and the number m of them that are averaged (drawn without replacement, equal weights); m = M is full
        participation.
    noise : Fraction or float
        ``sum_k p_k^2 sigma_k^2``, the variance of the averaged stochastic gradient. The printed form has no such
        term and ignores it.
    beta : Fraction or float
        The slow part of the parameters is averaged every E / beta steps (fast/slow protocol); 1 otherwise.

    Returns
    -------
    Fraction or float
        The bound; a fraction, and exact, if a number is given as a fraction and none as a float.

    Raises
    ------
    ValueError
        If an argument lies outside the range above.

    References
    ----------
    Filter decomposition, Theorems 5.4 and A.1; Li, Huang, Yang, Wang and Zhang (2020), On the convergence of
    FedAvg on non-IID data, Theorem 1 and Lemmas 1 to 5.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.theory import strongly_convex_bound
    >>> given = dict(smoothness=Fraction(1), convexity=Fraction(1), local_steps=1, gradient_bound=1, heterogeneity=0)
    >>> for form in ("printed", "corrected"):
    ...     print(form, strongly_convex_bound(101, **given, initial_distance=1, form=form))
    printed 1/218
    corrected 9/218

    Without noise and between equal clients only the start is left; the corrected form has the factor ``gamma + 1 = 9``.
    """
    smoothness, convexity, gradient_bound, heterogeneity, initial_distance, noise, beta = (
        one.item() if isinstance(one, np.generic) else one  # whose whole numbers overflow
        for one in (smoothness, convexity, gradient_bound, heterogeneity, initial_distance, noise, beta)
    )
    steps, e = whole("steps", steps, 1), whole("local_steps", local_steps, 1)
    big_m, m = whole("clients", clients, 1), whole("participants", participants, 1)
    if m > big_m:
        raise ValueError(f"participants must be at most clients = {big_m}, got {m}.")
    number("convexity", convexity, "(0, inf)")
    number("smoothness", smoothness)
    if not convexity <= smoothness < math.inf:
        raise ValueError(f"smoothness must be finite and at least convexity = {convexity}, got {smoothness}.")
    number("gradient_bound", gradient_bound, "[0, inf)")
    number("heterogeneity", heterogeneity, "[0, inf)")
    number("initial_distance", initial_distance, "[0, inf)")
    number("noise", noise, "[0, inf)")
    number("beta", beta, "(0, 1]")
    choice("form", form, ("printed", "corrected"))

    ratio, period = _quotient(smoothness, convexity), _quotient(e, beta)
    squared = gradient_bound**2
    gamma: Number = max(8 * ratio, e)
    factor: Number = Fraction(1)
    b: Number = 6 * smoothness * heterogeneity + 8 * (period - 1) ** 2 * squared
    if form == "corrected":
        gamma = max(8 * ratio, period)
        factor = gamma + 1
        b += noise
    if m < big_m and form == "printed":
        b += 4 * Fraction(big_m**2 - m**2, m**2 * big_m**2 * (big_m**2 - 1)) * (e - 1) ** 2 * squared
    elif m < big_m:
        b += 4 * Fraction(big_m - m, m * (big_m - 1)) * period**2 * squared
    start = factor * convexity**2 * initial_distance**2 * Fraction(1, 4)
    bound = 2 * ratio / (convexity * (gamma + steps)) * (b + start)
    numbers = (smoothness, convexity, gradient_bound, heterogeneity, initial_distance, noise, beta)
    return bound if any(isinstance(number, Fraction) for number in numbers) else float(bound)


def _quotient(a: Number, b: Number) -> Number:
    """Divide, exactly if both are rational (integers included)."""
    return Fraction(a) / Fraction(b) if isinstance(a, Rational) and isinstance(b, Rational) else a / b

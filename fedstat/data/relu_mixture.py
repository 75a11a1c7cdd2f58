"""The heterogeneous two-layer ReLU generator of the FedFac paper (section 4.3.1, equation 8)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedstat._checks import choice, number, whole
from fedstat._random import stream
from fedstat.data.clients import Clients, Samples

_REMEDY = {
    "none": 'balance="center" makes it rare, "median" impossible.',
    "center": 'balance="median" makes it impossible.',
    "median": "Draw more test samples.",
}


@dataclass(frozen=True, eq=False)
class ReluTruth:
    """The weights that generated the labels.

    Attributes
    ----------
    weights : ndarray, shape (C, m, d)
        Each client's incoming weights; personal units and personal inputs come first.
    output : ndarray, shape (m,)
        Output weights a, common to all clients.
    personal_units : ndarray of bool, shape (m,)
        True for the personal units, whose weights differ between clients.
    personal_inputs : ndarray of bool, shape (d,)
        True for the personal inputs, whose law differs between clients.
    offset : ndarray, shape (C,)
        Subtracted from each client's score before its sign is taken (zero unless ``balance="median"``).

    Examples
    --------
    >>> import fedstat as fs
    >>> truth = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0).truth
    >>> truth.weights.shape, truth.personal_units.shape
    ((4, 8, 5), (8,))
    """

    weights: np.ndarray
    output: np.ndarray
    personal_units: np.ndarray
    personal_inputs: np.ndarray
    offset: np.ndarray


def relu_mixture(
    *,
    clients: int = 100,
    d: int = 100,
    units: int = 200,
    shared_units: float = 0.5,
    shared_inputs: float = 0.4,
    balance: Literal["none", "center", "median"] = "center",
    samples: int = 160,
    validation: int = 40,
    test: int = 2000,
    noise: float = 1.0,
    correlation: float = 0.5,
    mean_scale: float = 1.0,
    weak: float = 0.1,
    strong: float = 1.0,
    seed: int = 0,
) -> Clients:
    """Draw clients whose labels come from shared and personal ReLU units.

    Client c's score is ``y* = sum_j a_j relu(w_cj . x) + N(0, noise^2)`` and its label ``1`` iff ``y* > 0``.
    Shared covariates are N(0, I), personal ones N(mu_c, Sigma) with mu_c ~ N(0, I) and Sigma_ij =
    correlation^|i-j|. Shared units weigh personal covariates by U(-weak, weak) and shared ones by
    U(-strong, strong); personal units weigh personal covariates by N(mu_c, I), with the same mu_c, and shared
    ones by U(-weak, weak).

    Parameters
    ----------
    clients, d, units : int
        C, dim and m of the paper.
    shared_units : float
        p, the share of units common to all clients, in [0, 1].
    shared_inputs : float
        The paper's alpha, the share of covariates with one law at all clients, in [0, 1].
    balance : {"none", "center", "median"}
        "none" is the generator as written. Personal units then all see a large positive input, so the label is
        close to the sign of the sum of their output weights, and most clients have nearly one class. "center"
        subtracts from the output weights their mean within each group of units; "median" subtracts each
        client's median score.
    samples, validation, test : int
        Samples per client in each split (the paper does not state them; test samples cost nothing, so there
        are many).
    noise : float
        Standard deviation of the score's noise (the paper's c, unstated).
    correlation : float
        Base of Sigma, in (-1, 1).
    mean_scale : float
        Standard deviation of the entries of mu_c.
    weak, strong : float
        Half-widths of the two uniform laws.
    seed : int
        Seed; data and truth are a pure function of it.

    Returns
    -------
    Clients
        With splits ``train``, ``validation``, ``test``, of shape (C n, d) for n samples of each client, and ``truth`` a
        `ReluTruth`.

    Warns
    -----
    UserWarning
        If a client's majority class holds more than 95% of its test samples.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, shared_units=0.5, samples=20, test=50, seed=0)
    >>> clients.train.x.shape, int(clients.truth.personal_units.sum())
    ((80, 5), 4)
    """
    for name, share in (("shared_units", shared_units), ("shared_inputs", shared_inputs)):
        number(name, share, "[0, 1]")
    for name, count in (("clients", clients), ("d", d), ("units", units), ("samples", samples), ("test", test)):
        whole(name, count, 1)
    whole("validation", validation, 0)
    for name, spread in (("noise", noise), ("mean_scale", mean_scale), ("weak", weak), ("strong", strong)):
        number(name, spread, "[0, inf)")
    choice("balance", balance, _REMEDY)
    number("correlation", correlation, "(-1, 1)")

    d_personal = d - round(shared_inputs * d)
    m_personal = units - round(shared_units * units)
    rng = stream(seed, "data")
    mu = rng.normal(0.0, mean_scale, (clients, 1, d_personal))
    weights = np.empty((clients, units, d))
    weights[:, :m_personal, :d_personal] = rng.normal(size=(clients, m_personal, d_personal)) + mu
    weights[:, :m_personal, d_personal:] = rng.uniform(-weak, weak, (clients, m_personal, d - d_personal))
    weights[:, m_personal:, :d_personal] = rng.uniform(-weak, weak, (units - m_personal, d_personal))
    weights[:, m_personal:, d_personal:] = rng.uniform(-strong, strong, (units - m_personal, d - d_personal))
    output = rng.normal(size=units)
    if balance == "center":
        for group in (slice(m_personal), slice(m_personal, None)):
            output[group] -= output[group].mean() if output[group].size else 0.0

    from scipy.signal import lfilter  # takes longer to import than pandas

    total = samples + validation + test
    x = rng.normal(size=(clients, total, d))
    # Sigma_ij = correlation^|i-j| is a stationary first-order autoregression along the covariates
    x[..., 1:d_personal] *= np.sqrt(1 - correlation**2)
    x[..., :d_personal] = lfilter([1.0], [1.0, -correlation], x[..., :d_personal], axis=-1) + mu
    signal = np.stack([np.maximum(x[c] @ weights[c].T, 0.0) @ output for c in range(clients)])
    score = signal + rng.normal(0.0, noise, (clients, total))
    offset = np.median(score, axis=1) if balance == "median" else np.zeros(clients)
    y = (score > offset[:, None]).astype(np.int64)

    def split(start: int, stop: int) -> Samples:
        return Samples.from_rows(x[:, start:stop].astype(np.float32), y[:, start:stop])

    drawn = Clients(
        train=split(0, samples),
        validation=split(samples, samples + validation) if validation else None,
        test=split(samples + validation, total),
        classes=(0, 1),
        truth=ReluTruth(weights, output, np.arange(units) < m_personal, np.arange(d) < d_personal, offset),
    )
    majority = drawn.majority_share("test")
    if majority.max() > 0.95:
        warnings.warn(
            f"{(majority > 0.95).sum()} of {clients} clients have a majority class above 95% (largest "
            f"{majority.max():.3f}): accuracy says little there. {_REMEDY[balance]}",
            stacklevel=2,
        )
    return drawn

"""A regression task that FedSplit's two-layer network can realise (FedSplit paper, model (4))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstat._checks import number, whole
from fedstat._random import stream
from fedstat.data.clients import Clients, Samples


@dataclass(frozen=True, eq=False)
class TeacherTruth:
    """The teacher's weights.

    Attributes
    ----------
    shared : ndarray, shape (shared, d)
        Units that all clients have in common.
    personal : ndarray, shape (K, personal, d)
        Each client's own units.
    shared_output, personal_output : ndarray of +1 and -1
        Output weights, common to all clients.

    Examples
    --------
    >>> import fedstat as fs
    >>> truth = fs.data.split_teacher(clients=2, d=4, shared=3, personal=2, seed=0).truth
    >>> truth.shared_output.shape
    (3,)
    """

    shared: np.ndarray
    personal: np.ndarray
    shared_output: np.ndarray
    personal_output: np.ndarray

    def __call__(self, x: np.ndarray, client: int) -> np.ndarray:
        """Return the teacher's output at `client` for inputs (n, d)."""
        output = np.zeros(len(x))
        for w, a in ((self.shared, self.shared_output), (self.personal[client], self.personal_output)):
            if len(w):
                output += np.maximum(x @ w.T, 0) @ a / np.sqrt(len(w))
        return output


def split_teacher(
    *,
    clients: int = 4,
    samples: int = 64,
    test: int = 1000,
    d: int = 10,
    shared: int = 5,
    personal: int = 5,
    noise: float = 0.0,
    seed: int = 0,
) -> Clients:
    """Draw clients whose targets come from a two-layer ReLU network with shared and personal units.

    Inputs are uniform in the unit ball, alike at all clients, so that norms are at most one as the theory has it.
    The output of client c is ``sum_q a_q relu(w_cq . x) / sqrt(personal) + sum_r a_r relu(w_r . x) / sqrt(shared)``
    with weights from N(0, I) and signs a.

    Parameters
    ----------
    clients, samples, test : int
        Number of clients; training and test samples at each.
    d : int
        Number of inputs.
    shared, personal : int
        Units that all clients have in common, and units of each client; either may be zero.
    noise : float
        Standard deviation of the noise added to training and test targets.
    seed : int
        Seed; the data are a pure function of it.

    Raises
    ------
    ValueError
        If a count is too small or `noise` is negative.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.split_teacher(clients=2, samples=16, d=4, shared=3, personal=2, seed=0)
    >>> clients.train.x.shape, clients.truth.shared.shape, clients.truth.personal.shape
    ((32, 4), (3, 4), (2, 2, 4))
    """
    for name, count in (("clients", clients), ("samples", samples), ("test", test), ("d", d)):
        whole(name, count, 1)
    if whole("shared", shared, 0) + whole("personal", personal, 0) == 0:
        raise ValueError("shared and personal must not both be zero, got 0 and 0.")
    number("noise", noise, "[0, inf)")
    rng = stream(seed, "data")
    signs = (rng.choice([-1.0, 1.0], size=n) for n in (shared, personal))
    truth = TeacherTruth(rng.normal(size=(shared, d)), rng.normal(size=(clients, personal, d)), *signs)

    def split(n: int) -> Samples:
        direction = rng.normal(size=(clients, n, d))
        radius = rng.random((clients, n, 1)) ** (1 / d)
        x = direction / np.linalg.norm(direction, axis=2, keepdims=True) * radius
        y = np.stack([truth(rows, k) for k, rows in enumerate(x)]) + noise * rng.normal(size=(clients, n))
        return Samples.from_rows(x.astype(np.float32), y.astype(np.float32))

    return Clients(train=split(samples), test=split(test), truth=truth)

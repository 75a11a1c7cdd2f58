"""Who takes part in a round, who drops out of it, and how much of their local work clients do.

The ``participation`` of a run is a number, the share of clients that the server draws in each round, all of whom do
all of their work; or an `Attendance`, by which clients may come by chance, drop out, or do part of their work. The
built-in ones take one another as their `participation`, so that laws combine: ``Dropout(Poisson(0.3), 0.1)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedstat._checks import check_fields
from fedstat.federated.client.seeds import Seeds

#: Columns of a trace.
_COLUMNS = ("round", "client", "work")


@runtime_checkable
class Attendance(Protocol):
    """The contract of an attendance: settings as fields, and one function of the round.

    It must be a function of its arguments alone, so that all methods see the same clients and a run that is continued
    equals one that was never stopped; ``fedstat.testing.check_attendance`` checks that. Frozen dataclasses are saved
    with a run's configuration whole, others by their names.

    Examples
    --------
    Clients that are awake by turns:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import fedstat as fs
    >>> @dataclass(frozen=True)
    ... class DayAndNight:
    ...     period: int = 2
    ...     def __call__(self, round, clients, rng, fixed):
    ...         awake = np.arange(clients) % self.period == round % self.period
    ...         return np.where(awake, 1.0, np.nan)
    >>> fs.testing.check_attendance(DayAndNight())
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> how = {"participation": DayAndNight()}
    >>> now = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), **how))
    >>> now.traffic["client"].tolist()
    [0, 2]
    """

    def __call__(self, round: int, clients: int, rng: np.random.Generator, fixed: np.random.Generator) -> Any:
        """Return the share of its local work that each of K clients does and delivers in `round` (from 0), (K,).

        In (0, 1] a client takes part and does that share of its steps; with 0 it is asked, and drops out before it
        delivers; with NaN it is not asked. What `rng` draws is new in each round, what `fixed` draws is the same in
        all rounds of a seed.
        """
        ...


@dataclass(frozen=True, eq=False)
class Attended:
    """Who came to a round.

    Attributes
    ----------
    ids : ndarray of int, shape (m,)
        The participants, sorted: those that deliver.
    work : ndarray, shape (m,), or (1,) for all
        The share of its local work that each does, in (0, 1].
    missing : ndarray of int
        Who was asked and dropped out.
    """

    ids: np.ndarray
    work: np.ndarray = field(default_factory=partial(np.ones, 1))
    missing: np.ndarray = field(default_factory=partial(np.empty, 0, np.int64))


@dataclass(frozen=True)
class Poisson:
    """Each client is drawn on its own, with one probability: Poisson sampling, as accounts of privacy need it.

    A round may be empty; it counts, and nothing moves.

    Parameters
    ----------
    share : float
        The probability, in (0, 1].

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=8, d=5, units=8, samples=20, test=50, seed=0)
    >>> how = {"participation": fs.attendance.Poisson(0.5), "rounds": 3, "progress": False}
    >>> result = fs.federate(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), **how)
    >>> result.traffic.groupby("round")["client"].count().tolist()
    [2, 4, 5]
    """

    share: float

    def __post_init__(self) -> None:
        """Check the range."""
        check_fields(self, share="(0, 1]")

    def __call__(self, round: int, clients: int, rng: np.random.Generator, fixed: np.random.Generator) -> np.ndarray:
        """Return 1 for those who are drawn."""
        return np.where(rng.random(clients) < self.share, 1.0, np.nan)


def attended_by(attendance: Attendance, seeds: Seeds, round: int, clients: int) -> Attended:
    """Return who comes to a round under a seed.

    Raises
    ------
    ValueError
        If the attendance is no share for each client.
    """
    rng, fixed = seeds.stream("participants", round), seeds.stream("attendance")
    work = checked(attendance(round, clients, rng, fixed), clients)
    return Attended(np.flatnonzero(work > 0), work[work > 0], np.flatnonzero(work == 0))


def checked(work: Any, clients: int) -> np.ndarray:
    """Return shares of work in float64; ValueError if they are none, or not one for each client."""
    found = np.asarray(work, dtype=np.float64)
    if found.shape != (clients,):
        raise ValueError(f"an attendance must return a share for each of {clients} clients, got shape {found.shape}.")
    if (wrong := np.flatnonzero((found < 0) | (found > 1))).size:
        raise ValueError(
            f"an attendance must return shares of work in [0, 1], or NaN for who is not asked, got "
            f"{found[wrong[0]]:g} for client {wrong[0]}."
        )
    return found

"""Who takes part in a round, who drops out of it, and how much of their local work clients do.

The ``participation`` of a run is a number, the share of clients that the server draws in each round, all of whom do
all of their work; or an `Attendance`, by which clients may come by chance, drop out, or do part of their work. The
built-in ones take one another as their `participation`, so that laws combine: ``Dropout(Poisson(0.3), 0.1)``. Who is
late counts as dropped out; ``docs/asynchronous.md`` says why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from fedstat._checks import check_fields, local, number
from fedstat._random import drawn, share_of
from fedstat.federated.client.seeds import Seeds

__all__ = ["Attendance", "Attended", "Dropout", "Poisson", "Stragglers", "Trace"]

#: Checks a `participation` that is no attendance.
share_of_clients = partial(
    number, "participation", interval="(0, 1]", also="an attendance such as fs.attendance.Poisson(0.3)"
)
#: Columns of a trace.
_COLUMNS = ("round", "client", "work")


class Unfit(ValueError):
    """Raised by an attendance that does not fit the number of clients."""


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

        What `rng` draws is new in each round, what `fixed` draws is the same in all rounds of a seed.

        ===========  =================================================================================================
        share        what the client does
        ===========  =================================================================================================
        in (0, 1]    it takes part, does that share of its steps, and delivers
        0            it is asked and receives, but drops out before it delivers
        NaN          it is not asked
        ===========  =================================================================================================
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
    expected : float, optional
        How many deliver in the mean over rounds, where a law of fedstat's own says so.
    """

    ids: np.ndarray
    work: np.ndarray = field(default_factory=partial(np.ones, 1))
    missing: np.ndarray = field(default_factory=partial(np.empty, 0, np.int64))
    expected: float | None = None

    @property
    def of(self) -> float:
        """The number that a mechanism's mean divides by; at 0 nothing is released."""
        return len(self.ids) if self.expected is None else self.expected


@dataclass(frozen=True)
class Poisson:
    """Each client is drawn on its own, with one probability: Poisson sampling, as accounts of privacy need it.

    A round may be empty; it counts, and nothing moves but by the noise of a mechanism.

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
    [2, 3, 3]
    """

    share: float

    def __post_init__(self) -> None:
        check_fields(self, share="(0, 1]")

    def __call__(self, round: int, clients: int, rng: np.random.Generator, fixed: np.random.Generator) -> np.ndarray:
        """Return 1 for those who are drawn."""
        return np.where(rng.random(clients) < self.share, 1.0, np.nan)


@dataclass(frozen=True)
class Dropout:
    """Participants drop out with some probability, each on its own, after they received and before they deliver.

    Parameters
    ----------
    participation : float or Attendance
        Who is asked, as in `fedstat.federate`.
    probability : float, or sequence of float
        The probability, in [0, 1]; one for each client if several.

    Examples
    --------
    Who drops out has received, and sends nothing:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> how = {"participation": fs.attendance.Dropout(1.0, (0, 0, 1, 1))}
    >>> now = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), **how))
    >>> now.traffic.groupby("client")[["bytes_up", "bytes_down"]].sum().values.tolist()
    [[228, 228], [228, 228], [0, 228], [0, 228]]
    """

    participation: float | Attendance
    probability: float | Sequence[float]

    def __post_init__(self) -> None:
        _check_base(self)
        several, value = np.ndim(self.probability) > 0, self.probability
        each = [number("probability", one, "[0, 1]") for one in (value if several else [value])]  # type: ignore[union-attr]
        object.__setattr__(self, "probability", tuple(each) if several else each[0])

    def __call__(self, round: int, clients: int, rng: np.random.Generator, fixed: np.random.Generator) -> np.ndarray:
        """Return the shares of who is asked, and 0 for those of them who drop out."""
        if isinstance(self.probability, tuple) and len(self.probability) != clients:
            raise Unfit(
                f"probability must be one number, or one for each of {clients} clients, got {len(self.probability)}."
            )
        work = _asked(self.participation, round, clients, rng, fixed)
        return work * (rng.random(clients) >= np.asarray(self.probability))


@dataclass(frozen=True)
class Stragglers:
    """Some clients, the same ones all along, do only a part of their work, which is drawn anew in each round.

    Parameters
    ----------
    participation : float or Attendance
        Who is asked, as in `fedstat.federate`.
    slow : float
        The share of slow clients, in [0, 1]; halves go up.
    work : tuple of float
        Between which shares, in (0, 1], the work of a slow client is drawn uniformly.

    Notes
    -----
    It follows the systems heterogeneity of Li et al. 2020, "Federated Optimization in Heterogeneous Networks", Section
    5.2: slow clients (0, 50 or 90 percent there) deliver what they have, and the others do all of their work. There
    stragglers are drawn anew among the participants of each round, and do a whole number of epochs, uniform from 1 to
    all (in the authors' code to one less); here a slow device stays slow, and may stop within an epoch. FedAvg drops
    stragglers there; here what they deliver counts under all methods, and `Dropout` is for those who deliver nothing.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> how = {"participation": fs.attendance.Stragglers(1.0, slow=0.5, work=(0.1, 0.5))}
    >>> now = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), **how))
    >>> sorted(now.updates["FedAvg", 0].work.tolist())[2:]
    [1.0, 1.0]
    """

    participation: float | Attendance
    slow: float
    work: tuple[float, float]

    def __post_init__(self) -> None:
        _check_base(self)
        check_fields(self, slow="[0, 1]")
        if not (isinstance(self.work, list | tuple) and len(self.work) == 2):
            raise ValueError(f"work must be two shares such as (0.1, 0.5), got {self.work!r}.")
        low, high = (number("work", one, "(0, 1]") for one in self.work)
        if low > high:
            raise ValueError(f"work must not fall, got ({low:g}, {high:g}).")
        object.__setattr__(self, "work", (low, high))

    def __call__(self, round: int, clients: int, rng: np.random.Generator, fixed: np.random.Generator) -> np.ndarray:
        """Return the shares of who is asked, those of slow clients cut."""
        work = _asked(self.participation, round, clients, rng, fixed)
        slow = fixed.permutation(clients)[: share_of(clients, self.slow)]
        work[slow] *= rng.uniform(*self.work, clients)[slow]
        return work


@dataclass(frozen=True)
class Trace:
    """Who took part is read from a table, such as a log of devices.

    A run that is longer than the table begins it again. Of the table a run's configuration keeps the digest.

    Parameters
    ----------
    table : DataFrame or path of a .csv
        A row for each client that is asked in a round, with the columns round (from 1, as in all tables), client (its
        number, from 0) and work (its share of its local work, in [0, 1]; 0 where it drops out). Nobody else is asked.

    Attributes
    ----------
    rounds : int
        The last round of the table.
    clients : int
        One more than the largest number of a client.
    digest : str
        The hash of what the table says.

    Raises
    ------
    ValueError
        If a column is missing, or a value is out of range or stands twice.

    Examples
    --------
    >>> import pandas as pd
    >>> import fedstat as fs
    >>> log = pd.DataFrame({"round": [1, 1, 2], "client": [0, 3, 1], "work": [1.0, 0.5, 1.0]})
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> how = {"participation": fs.attendance.Trace(log), "rounds": 3, "progress": False}
    >>> result = fs.federate(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), **how)
    >>> result.traffic[["round", "client"]].values.tolist()
    [[1, 0], [1, 3], [2, 1], [3, 0], [3, 3]]
    """

    table: InitVar[str | Path | pd.DataFrame]
    rounds: int = field(init=False, default=0)
    clients: int = field(init=False, default=0)
    digest: str = field(init=False, default="")

    def __post_init__(self, table: str | Path | pd.DataFrame) -> None:
        """Read the table, and check it."""
        if not isinstance(table, str | Path | pd.DataFrame):
            raise ValueError(f"table must be a DataFrame or the path of a .csv, got {type(table).__name__}.")
        if not isinstance(table, pd.DataFrame):
            table = pd.read_csv(local("table", table))
        if missing := [name for name in _COLUMNS if name not in table]:
            raise ValueError(f"table must have the columns {', '.join(_COLUMNS)}; {missing[0]} is missing.")
        if table.empty:
            raise ValueError("table must hold a row for each client that is asked in a round, and it holds none.")
        ids = {name: _whole(name, table[name], least) for name, least in (("round", 1), ("client", 0))}
        fits = table["work"].between(0, 1).fillna(False) if table["work"].dtype.kind in "iuf" else pd.Series([False])
        if not fits.all():
            wrong = table["work"].iloc[int(np.argmin(fits))]
            raise ValueError(f"work must hold shares in [0, 1], got {wrong!r} in row {int(np.argmin(fits))} (from 0).")
        work = table["work"].to_numpy(np.float64)
        order = np.lexsort((ids["client"], ids["round"]))
        t, k, work = ids["round"][order], ids["client"][order], work[order]
        if (twice := np.flatnonzero((np.diff(t) == 0) & (np.diff(k) == 0))).size:
            raise ValueError(f"table holds client {k[twice[0]]} twice in round {t[twice[0]]}.")
        held = hashlib.sha256(t.tobytes() + k.tobytes() + work.tobytes()).hexdigest()[:16]
        vars(self).update(rounds=int(t[-1]), clients=int(k.max()) + 1, digest=held, _rows=(t, k, work))

    def __call__(self, round: int, clients: int, rng: np.random.Generator, fixed: np.random.Generator) -> np.ndarray:
        """Return the shares of the round's rows."""
        if clients < self.clients:
            raise Unfit(
                f"the trace has a client {self.clients - 1}, and there are {clients} clients, numbered from 0 to "
                f"{clients - 1}."
            )
        t, k, work = vars(self)["_rows"]
        rows = slice(*np.searchsorted(t, [round % self.rounds + 1, round % self.rounds + 2]))
        found = np.full(clients, np.nan)
        found[k[rows]] = work[rows]
        return found


#: What a configuration may name.
ATTENDANCES: dict[str, Any] = {"poisson": Poisson, "dropout": Dropout, "stragglers": Stragglers, "trace": Trace}


def _check_base(of: Dropout | Stragglers) -> None:
    """Refuse a `participation` that is neither a share nor an attendance."""
    value = of.participation
    if isinstance(value, type) or not callable(value):
        object.__setattr__(of, "participation", share_of_clients(value))


def _asked(
    participation: float | Attendance, round: int, clients: int, rng: np.random.Generator, fixed: np.random.Generator
) -> np.ndarray:
    """Return shares of work (K,) of one's own; under a number, participants are those of a run with that number."""
    if not isinstance(participation, float):
        return checked(participation(round, clients, rng, fixed), clients).copy()
    work = np.full(clients, np.nan)
    work[drawn(rng, clients, participation)] = 1
    return work


def _whole(name: str, column: pd.Series, least: int) -> np.ndarray:
    """Return whole numbers of a table."""
    if column.dtype.kind not in "iu" or (column < least).any():
        raise ValueError(f"{name} must hold whole numbers, at least {least}; got {column.head(3).tolist()} and so on.")
    return column.to_numpy(np.int64)


def attended_by(attendance: Attendance, seeds: Seeds, round: int, clients: int) -> Attended:
    """Return who comes to a round under a seed; ValueError if the attendance is no share for each client."""
    rng, fixed = seeds.stream("participants", round), seeds.stream("attendance")
    work = checked(attendance(round, clients, rng, fixed), clients)
    expected = expected_of(attendance, clients)
    return Attended(np.flatnonzero(work > 0), work[work > 0], np.flatnonzero(work == 0), expected)


def expected_of(participation: float | Attendance, clients: int) -> float | None:
    """Return how many clients deliver in the mean over rounds; None where no law of fedstat's own says so."""
    if isinstance(participation, float):
        return float(max(1, share_of(clients, participation)))  # as many as are drawn
    if type(participation) is Poisson:
        return participation.share * clients
    if type(participation) is Stragglers:
        return expected_of(participation.participation, clients)
    if type(participation) is Dropout:
        asked = expected_of(participation.participation, clients)
        return None if asked is None else asked * (1 - float(np.mean(participation.probability)))
    return None


def checked(work: Any, clients: int) -> np.ndarray:
    """Return shares of work in float64; ValueError if they are none, or not one for each client."""
    given = np.asarray(work)
    if given.dtype == bool:
        raise ValueError("an attendance must return shares of work, not True and False: 1 is all, NaN is not asked.")
    found = given.astype(np.float64)
    if found.shape != (clients,):
        raise ValueError(f"an attendance must return a share for each of {clients} clients, got shape {found.shape}.")
    if (wrong := np.flatnonzero((found < 0) | (found > 1))).size:
        raise ValueError(
            f"an attendance must return shares of work in [0, 1], or NaN for who is not asked, got "
            f"{found[wrong[0]]:g} for client {wrong[0]}."
        )
    return found

"""What differential privacy a run comes to, or would."""

from __future__ import annotations

from numbers import Real

import pandas as pd

from fedstat._account import Spent, spend, tabulated
from fedstat._checks import number, whole
from fedstat.federated.attendance import Attendance
from fedstat.federated.fingerprint import plain
from fedstat.federated.mechanisms import Gaussian
from fedstat.federated.record.result import Result


def spent(
    mechanism: Gaussian,
    *,
    clients: int,
    rounds: int,
    participation: float | Attendance = 1.0,
    delta: float | None = None,
) -> Spent:
    """Return the epsilon that a run would come to, by dp-accounting.

    Where all clients take part in every round, rounds are Gaussian mechanisms in a row, whose epsilon is exact (Balle
    and Wang 2018). Where a fixed number of them is drawn, the relation is that one client's data are replaced, by which
    the sum may change by twice the norm that changes are cut to; epsilon is the smaller of two bounds, that of samples
    drawn without replacement (Wang, Balle and Kasiviswanathan 2019, Theorem 27) and that of a client who is drawn in
    every round. That of Poisson sampling, which is smaller, would not hold for such draws.

    Under `fedstat.attendance.Poisson` it does hold (Mironov, Talwar and Zhang 2019, "Rényi Differential Privacy of the
    Sampled Gaussian Mechanism"): the mean divides by the number of participants to be expected, and a round to which
    nobody comes releases noise. The relation is that one client is added or removed, where the number K of clients, by
    which the expected number is known, is public and stays.

    Under `fedstat.attendance.Dropout` the server's noise stays whole, and epsilon is that of who is asked: a client who
    drops out counts as one whose change is zero. It is assumed that nobody drops out because of their data.
    `fedstat.attendance.Stragglers` do less work, which changes nothing about who is drawn. A trace and attendances of
    one's own have no account, since no law says how they draw.

    Parameters
    ----------
    mechanism : Gaussian
        The mechanism.
    clients, rounds : int
        How many clients there are, and how many rounds they train.
    participation : float or Attendance
        Who takes part, as `fedstat.federate` has it.
    delta : float, optional
        By default the smaller of 1e-5 and ``clients ** -1.1``.

    Raises
    ------
    ValueError
        If an argument is out of range, or there is no account for the mechanism or for how participants are drawn.
    ImportError
        If dp-accounting is missing.

    Examples
    --------
    >>> import fedstat as fs
    >>> mechanism = fs.mechanisms.Gaussian(clip=1.0, noise=4.0)
    >>> for participation in (1.0, 0.1, fs.attendance.Poisson(0.1)):
    ...     found = fs.privacy.spent(mechanism, clients=50, rounds=30, participation=participation)
    ...     print(f"{found.epsilon:.2f} ({found.relation})")
    6.33 (the change of one client put to zero)
    2.79 (the data of one client replaced)
    0.59 (one client added or removed)
    """
    if type(mechanism) is not Gaussian:
        raise ValueError(f"no account for {mechanism!r}: Gaussian of fs.mechanisms alone has one.")
    if isinstance(participation, Real):
        participation = number("participation", participation, "(0, 1]")
    clients, rounds = whole("clients", clients, 1), whole("rounds", rounds, 0)
    return spend(mechanism.noise, mechanism.at, plain(participation), clients, rounds, delta)


def account(result: Result, delta: float | None = None) -> pd.DataFrame:
    """Return what differential privacy each run of a result comes to, from what its configuration says that it did.

    It is that of one run's models by one seed, of all rounds together. It does not cover what clients measure on their
    data, what is chosen by that (rates, rounds, seeds), nor which classes and words of text there are. Personal parts
    never leave a client.

    Parameters
    ----------
    result : Result
        Of `fedstat.federate`, or loaded.
    delta : float, optional
        By default the smaller of 1e-5 and ``clients ** -1.1``.

    Returns
    -------
    DataFrame
        A row for each method and seed: method, seed, clients, rounds, noise (the multiplier), and the attributes of
        `Spent`: epsilon is infinite with "no mechanism", and 0 of `Local`, which sends "no message".

    Raises
    ------
    ValueError
        If there is no account for a mechanism or for how participants were drawn, or if clients attacked the run: what
        they send may follow what the others do, whose influence it multiplies; and for what is no result.
    ImportError
        If dp-accounting is missing.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> private = fs.FedAvg(weighting="uniform", mechanism=fs.mechanisms.Gaussian(clip=1.0, noise=4.0))
    >>> methods, network = {"plain": fs.FedAvg(), "private": private}, fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(methods, network, clients, fs.Training(lr=0.1), rounds=3, progress=False)
    >>> fs.privacy.account(result)[["method", "epsilon", "delta", "relation"]]
        method   epsilon    delta                              relation
    0    plain       inf      NaN                          no mechanism
    1  private  1.698035  0.00001  the change of one client put to zero
    """
    if not isinstance(result, Result):
        raise ValueError(f"result must be one of fs.federate or fs.load, got {result!r}.")
    return pd.DataFrame([tabulated(result.config, *key, state.round, delta) for key, state in result.states.items()])

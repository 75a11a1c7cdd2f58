"""The account of differential privacy: what epsilon a run comes to, by its configuration; dp-accounting computes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from fedstat._checks import number
from fedstat._random import share_of

#: Orders of Rényi divergence.
_ORDERS = (*range(2, 25), 28, 32, 40, 48, 64, 96, 128, 256)


class NoAccount(ValueError):
    """Raised where no epsilon is known, with the reason."""


@dataclass(frozen=True)
class Spent:
    """How well a run hides each single client.

    Attributes
    ----------
    epsilon : float
        Of whoever sees the server's models of all rounds, and no message and no client's noise.
    epsilon_server : float
        Of a server that sees every message; infinite if it adds the noise itself.
    delta : float
        The delta that both are stated at.
    relation : str
        Which two federations are held against each other.
    sampling : str
        Who took part.
    rounds : int
        How many rounds.
    accountant : str
        What computed `epsilon`.

    Examples
    --------
    >>> import fedstat as fs
    >>> found = fs.privacy.spent(fs.mechanisms.Gaussian(clip=1.0, noise=20.0), clients=50, rounds=30)
    >>> round(found.epsilon, 3), found.delta, found.sampling
    (1.024, 1e-05, 'all 50 clients in each of 30 rounds')
    """

    epsilon: float
    epsilon_server: float
    delta: float
    relation: str
    sampling: str
    rounds: int
    accountant: str

    def __str__(self) -> str:
        by = "" if math.isinf(self.epsilon_server) else f", {_up(self.epsilon_server)} for a server that sees messages"
        return (
            f"epsilon {_up(self.epsilon)}{by} at delta {self.delta:.3g} ({self.relation}; {self.sampling}; "
            f"{self.accountant})"
        )


def stated(delta: float | None, clients: int) -> float:
    """Return the delta that epsilon is stated at: by default less than one of the clients by far."""
    return min(1e-5, clients**-1.1) if delta is None else number("delta", delta, "(0, 1)")


def spend(noise: float, at: str, participation: Any, clients: int, rounds: int, delta: float | None) -> Spent:
    """Return what a Gaussian mechanism comes to; `participation` is as a configuration has it.

    `NoAccount` is raised where participants were drawn in a way that has no account, ImportError without dp-accounting.
    """
    delta = stated(delta, clients)
    share, alone, lossy = _law(participation)
    if at == "client" and (alone or lossy):
        raise NoAccount("no account for noise that clients add where they may be missing, for theirs then is as well")
    drawn = max(1, share_of(clients, share))
    if alone and share < 1:
        relation, sensitivity = "one client added or removed", 1
        who = f"each of {clients} clients with probability {share:g}, by Poisson sampling,"
    elif alone or drawn == clients:
        relation, sensitivity, who = "the change of one client put to zero", 1, f"all {clients} clients"
    else:
        relation, sensitivity = "the data of one client replaced", 2
        who = f"{drawn} of {clients} clients, without replacement,"
    when = "one round" if rounds == 1 else f"each of {rounds} rounds"
    sampling = f"{who} in {when}" + (", some of whom drop out whatever their data" if lossy else "")
    epsilon, accountant = _gaussian(noise / sensitivity, rounds, delta)
    if not who.startswith("all") and noise > 0 and rounds:
        there = epsilon, f"{accountant}, as if drawn in every round"
        size = share if alone else drawn
        epsilon, accountant = min(there, _sampled(noise / sensitivity, size, clients, alone, rounds, delta))
    # the server knows who took part, so that no draw hides anybody
    seen = math.inf if at == "server" else _gaussian(noise / sensitivity / drawn**0.5, rounds, delta)[0]
    return Spent(epsilon, seen, delta, relation, sampling, rounds, accountant)


def _law(participation: Any) -> tuple[float, bool, bool]:
    """Return the share of clients that is drawn, whether each on its own, and whether some of them drop out."""
    if isinstance(participation, int | float) and not isinstance(participation, bool):
        return participation, False, False
    match participation:
        case {"type": "fedstat.federated.attendance.Poisson", "share": share}:
            return share, True, False
        case {"type": "fedstat.federated.attendance.Stragglers", "participation": base}:
            return _law(base)  # how much of its work a client does changes nothing about who is drawn
        case {"type": "fedstat.federated.attendance.Dropout", "participation": base}:
            return *_law(base)[:2], True
    name = participation["type"] if isinstance(participation, Mapping) else participation
    raise NoAccount(f"no account for participation {name}: who takes part is not drawn by a law that it knows")


def tabulated(config: Mapping[str, Any], label: str, seed: int, rounds: int, delta: float | None) -> dict[str, Any]:
    """Return the account of one run of a configuration, as a row; `NoAccount` and ImportError as for `spend`."""
    method, clients = config["methods"][label], int(config["clients"][str(seed)])
    spec, pooled = method.get("mechanism"), config["fingerprint"][str(seed)].get("fit_on") == "pooled"
    row: dict[str, Any] = {"method": label, "seed": seed, "clients": clients, "rounds": rounds}
    if spec is None:
        alone = method["type"] == "fedstat.methods.local.Local" and not pooled
        none, epsilon = ("no message", 0.0) if alone else ("no mechanism", math.inf)
        nothing = Spent(epsilon, epsilon, math.nan, relation=none, sampling=none, rounds=rounds, accountant=none)
        return row | {"noise": 0.0, **vars(nothing)}
    if (kind := spec["type"] if isinstance(spec, Mapping) else spec) != "fedstat.federated.mechanisms.Gaussian":
        raise NoAccount(f"no account for {kind}, of {label}: Gaussian of fs.mechanisms alone has one")
    if pooled:
        raise NoAccount(
            "no account where all clients' samples together teach what prepares the inputs, which no noise hides; "
            'take fit_on="client"'
        )
    if config.get("attack"):
        raise NoAccount("no account under an attack: what attackers send may follow what others do")
    found = spend(spec["noise"], spec["at"], config["participation"], clients, rounds, delta)
    return row | {"noise": spec["noise"], **vars(found)}


def said(config: Mapping[str, Any]) -> list[str]:
    """Say what epsilon each method of a configuration comes to; nothing where none has a mechanism."""
    methods = {label: spec for label, spec in config.get("methods", {}).items() if isinstance(spec, Mapping)}
    lines, hidden = [], False
    for label, spec in methods.items() if any(spec.get("mechanism") for spec in methods.values()) else ():
        try:
            rows = [tabulated(config, label, int(seed), int(config["rounds"]), None) for seed in config["clients"]]
        except (NoAccount, ImportError) as error:
            lines.append(f"{label}: epsilon is not known; {str(error).rstrip('.')}")
            continue
        worst = max(rows, key=lambda row: float(row["epsilon"]))
        if spec.get("mechanism") is None:
            why = "infinite, for it has no mechanism" if worst["epsilon"] else "0, for it sends no message"
            lines.append(f"{label}: epsilon is {why}")
            continue
        own = "; what else a method of one's own tells is not counted" * (not spec["type"].startswith("fedstat."))
        lines.append(f"{label}: {Spent(**{name: worst[name] for name in Spent.__dataclass_fields__})}{own}")
        hidden = True
    if hidden and config.get("stop"):
        lines.append("these are the rounds of the longest run: one that stopped before it spent less")
    if hidden:
        lines.append(
            "epsilon is of one run's models by one seed; it does not cover what clients measure on their data, what "
            "is chosen by that, such as rates, rounds and seeds, nor which classes and words of text there are"
        )
    return lines


@cache
def _gaussian(noise: float, rounds: int, delta: float) -> tuple[float, str]:
    """Return epsilon of all rounds together: Gaussians compose to one whose mean is the root of rounds as large."""
    dp, name = _dp_accounting()
    if noise == 0 or rounds == 0:
        return math.inf if rounds else 0.0, f"{name}, analytic Gaussian"
    return float(dp.get_epsilon_gaussian(noise / rounds**0.5, delta)), f"{name}, analytic Gaussian"


@cache
def _sampled(noise: float, size: float, clients: int, alone: bool, rounds: int, delta: float) -> tuple[float, str]:
    """Return epsilon of samples of the clients: of a share, each drawn alone, or of a fixed number of them.

    Poisson samples: Mironov, Talwar and Zhang 2019; fixed ones: Wang, Balle and Kasiviswanathan 2019. Noise is relative
    to how far the one client that differs can move the sum.
    """
    dp, name = _dp_accounting()
    noisy, relations = dp.GaussianDpEvent(noise), dp.NeighboringRelation
    if alone:
        relation, event = relations.ADD_OR_REMOVE_ONE, dp.PoissonSampledDpEvent(size, noisy)
    else:
        relation, event = relations.REPLACE_ONE, dp.SampledWithoutReplacementDpEvent(clients, size, noisy)
    accountant = dp.rdp.RdpAccountant(_ORDERS, relation)
    return float(accountant.compose(event, rounds).get_epsilon(delta)), f"{name}, Rényi"


def _dp_accounting() -> tuple[Any, str]:
    try:
        import dp_accounting
        import dp_accounting.rdp
    except ImportError:
        raise ImportError("epsilon needs dp-accounting: pip install 'fedstat[privacy]'.") from None
    return dp_accounting, f"dp-accounting {metadata.version('dp-accounting')}"


def _up(epsilon: float) -> str:
    """Write an epsilon, rounded up."""
    return f"{math.ceil(epsilon * 1000) / 1000:.3f}" if math.isfinite(epsilon) else "infinite"

"""Clients that attack a run: what they send in place of what they trained, or the labels that they train on.

An attack is part of the world of a run, as participation is, and the same for all methods: ``fs.federate(...,
attack=fs.attacks.SignFlip(share=0.2))``. The attackers are a share of each seed's clients, drawn by the seed; those of
a small share are among those of a larger one. They train as all others do, and keep what they keep.

What they falsify is their upload: all that travels under the name of a leaf, seen as a change from what they received,
in float64, without the running statistics of batch norm. What else a method sends (SCAFFOLD's controls, FedPAC's
centroids, masks) is honest. Of a method that sends no leaf they falsify what they also received, such as FedProto's
prototypes; a method that sends nothing (Local) is not attacked. As many bytes travel as before. Attackers are not
measured: history and predictions are those of the honest clients. An error ends the run where a client is to train a
model that an attack drove to infinity; smaller scales or an aggregator help, and compression cuts numbers off at the
largest of float32.
"""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from statistics import NormalDist
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import check_fields, number
from fedstat._random import share_of
from fedstat.data import Clients
from fedstat.federated.aggregators import AGGREGATORS, changed, changes_of
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.codec import Bits, Message, elements
from fedstat.federated.slots import is_statistic
from fedstat.federated.state import State, Update


@runtime_checkable
class Attack(Protocol):
    """The contract of an attack: a frozen dataclass with a field ``share``, and one function of all changes.

    An attack on training data has a function ``poison(clients, malicious)`` as well, which is called once for each
    seed, before anything trains: from `Clients` and an array of bool (K,) it makes the `Clients` of the run, in which
    the honest ones hold what they held. ``fedstat.testing.check_attack`` checks the laws of an attack.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import fedstat as fs
    >>> @dataclass(frozen=True)
    ... class Silent:
    ...     share: float
    ...     def __call__(self, changes, malicious, rng):
    ...         return 0 * changes[malicious]
    >>> fs.testing.check_attack(Silent(share=0.2))
    """

    @property
    def share(self) -> float:
        """The share of the clients that attack, in [0, 1); rounded to whole clients."""
        ...

    def __call__(self, changes: Tensor, malicious: Tensor, rng: np.random.Generator) -> Tensor:
        """Return the changes (a, d) that the a malicious ones of m participants send; called where there are any.

        It is given what all m trained, (m, d) in float64, with zeros where a participant does not send an element, and
        who of them is malicious, bool (m,). All that is random is drawn from `rng`.
        """
        ...


@dataclass(frozen=True)
class SignFlip:
    """Every attacker sends its own change turned round (Li et al. 2019, RSA, sign-flipping attack).

    Parameters
    ----------
    share : float
        The share of the clients that attack, in [0, 1).
    scale : float
        By what the change is multiplied beside its sign; positive.

    Examples
    --------
    >>> import numpy as np, torch, fedstat as fs
    >>> changes, malicious = torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([False, True])
    >>> fs.attacks.SignFlip(0.5)(changes, malicious, np.random.default_rng(0))
    tensor([[-3., -1.]])
    """

    share: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self, share="[0, 1)", scale="(0, inf)")

    def __call__(self, changes: Tensor, malicious: Tensor, rng: np.random.Generator) -> Tensor:
        """Return the attackers' own changes, turned round."""
        return -self.scale * changes[malicious]


@dataclass(frozen=True)
class Gaussian:
    """Every attacker sends noise: each number has mean zero (Blanchard et al. 2017, experiments with Gaussian workers).

    Parameters
    ----------
    share : float
        The share of the clients that attack, in [0, 1).
    scale : float
        The standard deviation of each number, positive. The paper's is 200, for gradients; what is sent here is a
        change of weights, which is smaller by the learning rate.

    Examples
    --------
    >>> import numpy as np, torch, fedstat as fs
    >>> changes, malicious = torch.zeros(2, 1000).double(), torch.tensor([False, True])
    >>> sent = fs.attacks.Gaussian(0.5, scale=3.0)(changes, malicious, np.random.default_rng(0))
    >>> sent.shape, bool(2.8 < sent.std() < 3.2)
    (torch.Size([1, 1000]), True)
    """

    share: float
    scale: float

    def __post_init__(self) -> None:
        check_fields(self, share="[0, 1)", scale="(0, inf)")

    def __call__(self, changes: Tensor, malicious: Tensor, rng: np.random.Generator) -> Tensor:
        """Return noise, whatever was trained."""
        shape = int(malicious.sum()), changes.shape[1]
        return torch.from_numpy(rng.normal(0, self.scale, shape)).to(changes)


@dataclass(frozen=True)
class ALittle:
    """All attackers send their mean, moved by z standard deviations (Baruch et al. 2019, Algorithm 3).

    Mean and standard deviation of each coordinate are those of the attackers' own changes, as in the paper, whose
    attackers see no others; one that is alone in a round has no spread, and sends what it trained.

    Parameters
    ----------
    share : float
        The share of the clients that attack, in [0, 1).
    z : float, optional
        How many standard deviations, not negative. By default the paper's z_max for the round's n participants, a of
        them attackers: the quantile of the standard normal distribution at (n - a - s) / (n - a), where
        s = floor(n / 2 + 1) - a honest ones make a majority together with them. It is 0 where that is less than 1/2;
        where the attackers are a majority already, s counts as 1.

    Examples
    --------
    >>> import numpy as np, torch, fedstat as fs
    >>> changes, malicious = torch.tensor([[5.0], [1.0], [3.0]]).double(), torch.tensor([False, True, True])
    >>> fs.attacks.ALittle(0.5, z=1.5)(changes, malicious, np.random.default_rng(0)).flatten()
    tensor([0.5000, 0.5000], dtype=torch.float64)
    """

    share: float
    z: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, share="[0, 1)", z="[0, inf)")

    def __call__(self, changes: Tensor, malicious: Tensor, rng: np.random.Generator) -> Tensor:
        """Return one change for all attackers."""
        own = changes[malicious]
        z = z_max(len(changes), len(own)) if self.z is None else self.z
        return (own.mean(0) - z * own.std(0, correction=0)).expand_as(own)


@dataclass(frozen=True)
class InnerProduct:
    """All attackers send the mean of the honest changes, turned round (Xie et al. 2020, inner product manipulation).

    The attackers know all changes. In a round in which no honest client takes part they send zeros.

    Parameters
    ----------
    share : float
        The share of the clients that attack, in [0, 1).
    epsilon : float
        By what the mean is multiplied beside its sign, positive; a small one deceives medians and Krum.

    Examples
    --------
    >>> import numpy as np, torch, fedstat as fs
    >>> changes, malicious = torch.tensor([[5.0], [1.0], [3.0]]), torch.tensor([True, False, False])
    >>> fs.attacks.InnerProduct(0.3, epsilon=0.5)(changes, malicious, np.random.default_rng(0))
    tensor([[-1.]])
    """

    share: float
    epsilon: float

    def __post_init__(self) -> None:
        check_fields(self, share="[0, 1)", epsilon="(0, inf)")

    def __call__(self, changes: Tensor, malicious: Tensor, rng: np.random.Generator) -> Tensor:
        """Return one change for all attackers."""
        honest = changes[~malicious]
        mean = honest.sum(0) / max(len(honest), 1)
        return (-self.epsilon * mean).expand(int(malicious.sum()), -1)


@dataclass(frozen=True)
class LabelFlip:
    """Every attacker trains on false labels, class C - 1 - c for class c of C (Fang et al. 2020, label flipping).

    What it sends is what it trained. Its test and validation samples stay as they are.

    Parameters
    ----------
    share : float
        The share of the clients that attack, in [0, 1).

    Examples
    --------
    >>> import numpy as np, fedstat as fs
    >>> clients = fs.data.from_arrays(np.zeros((6, 1)), [0, 1, 2] * 2, [0, 0, 0, 1, 1, 1], test=0)
    >>> poisoned = fs.attacks.LabelFlip(0.5).poison(clients, np.array([False, True]))
    >>> clients.train.y.tolist(), poisoned.train.y.tolist()
    ([2, 0, 1, 2, 0, 1], [2, 0, 1, 0, 2, 1])
    """

    share: float

    def __post_init__(self) -> None:
        check_fields(self, share="[0, 1)")

    def poison(self, clients: Clients, malicious: np.ndarray) -> Clients:
        """Return the clients after the attackers' training labels were flipped.

        Raises
        ------
        ValueError
            If targets are numbers, which have no classes.
        """
        if clients.classes is None:
            raise ValueError("LabelFlip needs classes, and the clients' targets are numbers; take another attack.")
        train, last = clients.train, len(clients.classes) - 1
        y = np.where(malicious[train.owners], last - train.y, train.y).astype(train.y.dtype)
        return replace(clients, train=replace(train, y=y))

    def __call__(self, changes: Tensor, malicious: Tensor, rng: np.random.Generator) -> Tensor:
        """Return what the attackers trained."""
        return changes[malicious]


ATTACKS: dict[str, type[Attack]] = {
    "sign-flip": SignFlip,
    "gaussian": Gaussian,
    "a-little": ALittle,
    "inner-product": InnerProduct,
    "label-flip": LabelFlip,
}


def z_max(participants: int, attackers: int) -> float:
    """Return how many standard deviations attackers may move without leaving the crowd; see `ALittle`."""
    honest = participants - attackers
    supporters = max(participants // 2 + 1 - attackers, 1)
    share = (honest - supporters) / max(honest, 1)
    return NormalDist().inv_cdf(share) if share > 0.5 else 0.0


def check_attack(attack: object) -> None:
    """Refuse what is no attack, and say what would be one."""
    wrong = isinstance(attack, (type, *AGGREGATORS.values()))  # a rule may have a share, too
    if wrong or not (is_dataclass(attack) and isinstance(attack, Attack)):
        raise ValueError(
            f"attack must be one such as fs.attacks.SignFlip(share=0.2), or a dataclass of one's own, got {attack!r}."
        )
    number("attack.share", attack.share, "[0, 1)")


def attackers(attack: Attack, clients: int, seeds: Seeds) -> np.ndarray:
    """Return the sorted ids of the clients that attack, a function of seed and share: a larger share has more of them.

    A share that leaves no client honest, or is positive and makes none an attacker, raises a ValueError.
    """
    count = share_of(clients, attack.share)
    if count == clients:
        raise ValueError(f"attack.share = {attack.share} leaves none of {clients} clients honest; take a smaller one.")
    if attack.share > 0 and not count:
        scale = 1e3 * 10 ** np.floor(np.log10(clients))
        least = np.ceil(0.5 / clients * scale) / scale  # rounded up, so that it has one
        raise ValueError(
            f"attack.share = {attack.share} makes none of {clients} clients an attacker; the smallest share that makes "
            f"one is {least:g}."
        )
    return np.sort(seeds.stream("attackers").permutation(clients)[:count])


def poisoned(attack: Attack, clients: Clients, who: np.ndarray) -> Clients:
    """Return the clients of a run after the attackers `who` changed their training data; the same if they change none.

    An attack of one's own that makes something else of them raises a ValueError.
    """
    if not poisons(attack) or not len(who):
        return clients
    found = attack.poison(clients, np.isin(np.arange(len(clients)), who))  # type: ignore[attr-defined]
    if not isinstance(found, Clients) or len(found) != len(clients):
        got = f"{len(found)} clients" if isinstance(found, Clients) else type(found).__name__
        raise ValueError(f"{type(attack).__name__}.poison must return Clients, {len(clients)} of them, got {got}.")
    return found


def poisons(attack: Attack | None) -> bool:
    """Tell whether an attack changes training data."""
    return hasattr(attack, "poison")


def falsified(
    attack: Attack, who: np.ndarray, sent: Message, state: State, update: Update, rng: np.random.Generator
) -> Update:
    """Return the update with what the attackers among the participants send in the place of what they trained.

    `who` are the attackers among all clients, who falsify the elements that they send; `sent` is what the participants
    would upload. An attack that returns anything but a change for each of them, or finds nothing to falsify, raises a
    ValueError.
    """
    malicious = torch.from_numpy(np.isin(update.ids.cpu().numpy(), who)).to(update.ids.device)
    known = {n: entry for n, entry in sent.items() if n in update.start and not is_statistic(n)}
    both = {n: entry for n, entry in known.items() if not isinstance(entry, Bits)}
    weights = {n: entry for n, entry in both.items() if n in state.server} or both
    if not malicious.any() or not sent:
        return update
    if not weights:
        if poisons(attack):
            return update
        raise ValueError(
            f"{attack!r} has nothing to falsify: the method sends no weights, nor anything that clients receive, but "
            f"{', '.join(sent)}. Take an attack on training data, such as fs.attacks.LabelFlip, or another method."
        )
    entries = {n: elements(entry) for n, entry in weights.items()}
    travels = {n: torch.ones_like(x, dtype=torch.bool) if own is None else own for n, (x, own) in entries.items()}
    masks = {n: own.any(0) for n, own in travels.items()}
    own = torch.cat([travels[n][:, mask] for n, mask in masks.items()], 1)
    trained = changes_of(update, masks).where(own, 0)
    found, wanted = attack(trained, malicious, rng), (int(malicious.sum()), own.shape[1])
    if not isinstance(found, Tensor) or found.shape != wanted:
        got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"{attack!r} must return a change for each attacker, of shape {wanted}, got {got}.")
    false = trained.clone()
    false[malicious] = found
    return changed(update, masks, false, own & (false != trained))

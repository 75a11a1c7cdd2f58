"""Rules by which a server combines what participants trained, where some of them may be wrong or malicious."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstat._checks import check_fields
from fedstat.federated.client.network import Params
from fedstat.federated.mechanisms import Mechanism, released
from fedstat.federated.slots import is_statistic
from fedstat.federated.state import State, Update


@runtime_checkable
class Aggregator(Protocol):
    """The contract of a rule: settings as fields, and one function of the participants' changes.

    A rule with a smallest number of participants has it as the attribute ``fewest``. What it returns must not depend
    on the participants' order; ``fedstat.testing.check_aggregator`` checks that. To the rules of `fs.aggregators` a
    change that is not finite counts as none. Running statistics of batch norm are not shown to a rule: under any they
    come to their medians. Rules that are frozen dataclasses are saved with a run's configuration whole, others by their
    names.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import torch, fedstat as fs
    >>> @dataclass(frozen=True)
    ... class Smallest:
    ...     def __call__(self, changes, weight):
    ...         return changes[changes.norm(dim=1).nan_to_num(torch.inf).argmin()]
    >>> fs.testing.check_aggregator(Smallest())
    >>> fs.FedAvg(aggregator=Smallest()).aggregator
    Smallest()
    """

    def __call__(self, changes: Tensor, weight: Tensor) -> Tensor:
        """Return one change (d,) from those of m participants, (m, d), whose weights (m,) sum to one; in float64."""
        ...


@dataclass(frozen=True)
class Median:
    """The median of each coordinate, of all participants alike (Yin et al. 2018, Algorithm 1, option I).

    Examples
    --------
    >>> import torch, fedstat as fs
    >>> fs.aggregators.Median()(torch.tensor([[1.0, 2.0], [3.0, 1.0], [2.0, 900.0]]), torch.ones(3) / 3)
    tensor([2., 2.])
    """

    def __call__(self, changes: Tensor, weight: Tensor) -> Tensor:
        """Return the medians; between two middle values their mean."""
        middle = (len(changes) - 1) // 2, len(changes) // 2
        return _finite(changes).sort(0).values[[*middle]].mean(0)


@dataclass(frozen=True)
class TrimmedMean:
    """The mean of each coordinate without its largest and smallest values (Yin et al. 2018, Algorithm 1, option II).

    Parameters
    ----------
    share : float
        The share of participants, in [0, 0.5), whose values are left out at either end, rounded down.

    Examples
    --------
    >>> import torch, fedstat as fs
    >>> changes = torch.tensor([[1.0], [2.0], [3.0], [4.0], [900.0]])
    >>> fs.aggregators.TrimmedMean(0.2)(changes, torch.ones(5) / 5)
    tensor([3.])
    """

    share: float

    def __post_init__(self) -> None:
        check_fields(self, share="[0, 0.5)")

    def __call__(self, changes: Tensor, weight: Tensor) -> Tensor:
        """Return the means of what is left, of all participants alike."""
        out = min(int(self.share * len(changes) + 1e-9), (len(changes) - 1) // 2)  # 0.29 * 100 is less than 29
        return _finite(changes).sort(0).values[out : len(changes) - out].mean(0)


@dataclass(frozen=True)
class GeometricMedian:
    """The point with the smallest weighted sum of distances (Pillutla et al. 2022, RFA; smoothed Weiszfeld steps).

    It withstands clients with less than half of the weight. A client's weight by samples is what it says of itself:
    ``weighting="uniform"`` counts heads.

    Parameters
    ----------
    smoothing : float
        Distances below it count as this one, so that the rule is the weighted mean where all changes are shorter;
        positive.
    steps : int
        Weiszfeld steps at most; they end sooner where the point stands still.

    Examples
    --------
    >>> import torch, fedstat as fs
    >>> changes = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [900.0, 900.0]], dtype=torch.float64)
    >>> fs.aggregators.GeometricMedian()(changes, torch.ones(4) / 4).norm() < 1
    tensor(True)
    """

    smoothing: float = 1e-6
    steps: int = 1000

    def __post_init__(self) -> None:
        check_fields(self, smoothing="(0, inf)", steps=1)

    def __call__(self, changes: Tensor, weight: Tensor) -> Tensor:
        """Return the median: a participant's change whose weight the pull of the others does not exceed, or else below.

        The search starts beside the best of the changes, on the side to which it is pulled (Vardi and Zhang 2000): from
        a change itself steps are as short as the smoothing. Of several that are best, such as two of equal weight, it
        starts from the mean, which is as good.
        """
        changes = _finite(changes)
        weight = weight.to(changes)
        apart = torch.cdist(changes, changes, compute_mode="donot_use_mm_for_euclid_dist")
        sums = apart.nan_to_num() @ weight  # squares of what attackers send may overflow
        best, tied = int(sums.argmin()), sums <= sums.min() * (1 + 1e-14)
        near = apart[best] <= self.smoothing
        pulls = weight[~near] / apart[best, ~near]
        pull, held = pulls @ (changes[~near] - changes[best]), float(weight[near].sum())
        if (tied & ~near).any():
            point = changes[tied].mean(0)
        elif (strength := float(pull.norm())) <= held:
            return weight[near] @ changes[near] / held
        else:
            point = changes[best] + (1 - held / strength) * pull / pulls.sum()
        for _ in range(self.steps):
            near = weight / (changes - point).norm(dim=1).clamp(min=self.smoothing)
            before, point = point, near @ changes / near.sum()
            if (point - before).norm() <= 1e-12 * (1 + point.norm()):
                break
        return point


@dataclass(frozen=True)
class Krum:
    """The change nearest to its neighbours, or the mean of several such (Blanchard et al. 2017; Multi-Krum).

    A participant's score is the sum of its squared distances to its m - f - 2 nearest neighbours; the smallest win.

    Parameters
    ----------
    f : int
        How many participants may be malicious; there must be more than 2 f + 2 of them in every round.
    kept : int
        How many changes are averaged, all alike; there must be f + 2 participants more.

    Examples
    --------
    >>> import torch, fedstat as fs
    >>> changes = torch.tensor([[0.0], [0.1], [0.2], [0.3], [900.0]])
    >>> fs.aggregators.Krum(f=1)(changes, torch.ones(5) / 5)
    tensor([0.1000])
    """

    f: int
    kept: int = 1

    def __post_init__(self) -> None:
        check_fields(self, f=0, kept=1)

    @property
    def fewest(self) -> int:
        """The smallest number of participants."""
        return max(2 * self.f + 3, self.kept + self.f + 2)

    def __call__(self, changes: Tensor, weight: Tensor) -> Tensor:
        """Return the mean of the changes with the smallest scores."""
        changes = _finite(changes)
        return changes[_ranked(_squares(changes), self.f)[: self.kept]].mean(0)


@dataclass(frozen=True)
class Bulyan:
    """Changes chosen by Krum one after the other, and of these the middle of each coordinate (El Mhamdi et al. 2018).

    Parameters
    ----------
    f : int
        How many participants may be malicious; there must be 4 f + 3 of them at least in every round.

    Examples
    --------
    >>> import torch, fedstat as fs
    >>> changes = torch.tensor([[0.0], [0.1], [0.2], [0.3], [0.4], [0.5], [900.0]])
    >>> bool(fs.aggregators.Bulyan(f=1)(changes, torch.ones(7) / 7) < 1)
    True
    """

    f: int

    def __post_init__(self) -> None:
        check_fields(self, f=0)

    @property
    def fewest(self) -> int:
        """The smallest number of participants."""
        return 4 * self.f + 3

    def __call__(self, changes: Tensor, weight: Tensor) -> Tensor:
        """Return each coordinate's mean over the m - 4 f chosen values that are nearest to their median."""
        changes = _finite(changes)
        distances, left, chosen = _squares(changes), list(range(len(changes))), list[int]()
        for _ in range(len(changes) - 2 * self.f):
            chosen.append(left.pop(_ranked(distances[left][:, left], self.f)[0]))
        some = changes[chosen]
        order = (some - Median()(some, weight)).abs().argsort(stable=True, dim=0)
        return some.gather(0, order[: len(chosen) - 2 * self.f]).mean(0)


@dataclass(frozen=True)
class ClippedMean:
    """The weighted mean of changes, each cut to a largest norm (Sun et al. 2019, norm thresholding).

    Parameters
    ----------
    most : float
        The largest Euclidean norm of a participant's change, over all that is shared; positive.

    Examples
    --------
    >>> import torch, fedstat as fs
    >>> fs.aggregators.ClippedMean(1.0)(torch.tensor([[0.5], [900.0]]), torch.tensor([0.5, 0.5]))
    tensor([0.7500])
    """

    most: float

    def __post_init__(self) -> None:
        check_fields(self, most="(0, inf)")

    def __call__(self, changes: Tensor, weight: Tensor) -> Tensor:
        """Return the mean."""
        changes = _finite(changes)
        norms = changes.norm(dim=1)
        return (weight * self.most / norms.clamp(min=self.most)) @ changes


AGGREGATORS: dict[str, type[Aggregator]] = {
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "geometric-median": GeometricMedian,
    "krum": Krum,
    "bulyan": Bulyan,
    "clipped-mean": ClippedMean,
}


def heard(rule: Aggregator | Mechanism, state: State, update: Update) -> Update:
    """Return the update with every participant's change replaced by the rule's outcome, which is then their mean.

    The rule sees the changes of all shared weights; running statistics, which would outweigh them, come to their
    medians. What clients keep for themselves stays as it is. A rule that returns anything but one change raises a
    ValueError.
    """
    shared = _shared(state)
    weights, running = ({n: shared[n] for n in shared if is_statistic(n) == kind} for kind in (False, True))
    changes, weight = changes_of(update, weights), update.weight.double().clone()
    if isinstance(rule, Mechanism):
        of = len(changes) if update.attended is None else update.attended.of
        found = released(rule, changes, of, update.rng)
    else:
        found = rule(changes, weight)
    if not isinstance(found, Tensor) or found.shape != changes.shape[1:]:
        got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"{rule!r} must return one change, of shape {tuple(changes.shape[1:])}, got {got}.")
    if running:
        medians = Median()(changes_of(update, running), weight)
        update = changed(update, running, medians.expand(len(weight), -1))
    return changed(update, weights, found.expand(len(weight), -1))


def noised(mechanism: Mechanism, state: State, update: Update, of: float) -> State:
    """Return the state after a round to which nobody came: the server moves by what a mechanism makes of no changes."""
    shared, here = _shared(state), {n: leaf[None] for n, leaf in state.server.items()}
    update = replace(update, start=here, end=here)
    found = released(mechanism, changes_of(update, shared)[:0], of, update.rng)
    end = changed(update, shared, found[None]).end
    return replace(state, server={n: leaf[0] for n, leaf in end.items()}, round=state.round + 1)


def _shared(state: State) -> Params:
    """Return masks of the shared elements of the server's leaves, those of the first client."""
    masks = {n: state.shared[n][0] if n in state.shared else torch.ones_like(v).bool() for n, v in state.server.items()}
    return {n: mask.expand_as(state.server[n]) for n, mask in masks.items() if mask.any()}


def changes_of(update: Update, masks: Params) -> Tensor:
    """Return the participants' changes of the elements of leaves under masks, side by side, (m, d) in float64."""
    return torch.cat([(update.end[n] - update.start[n])[:, mask].double() for n, mask in masks.items()], 1)


def changed(update: Update, masks: Params, changes: Tensor, where: Tensor | None = None) -> Update:
    """Return the update with other `changes` (m, d) of the elements under masks; of some alone, bool (m, d)."""
    sizes, end = [int(mask.sum()) for mask in masks.values()], {n: update.end[n].clone() for n in masks}
    where = torch.ones_like(changes, dtype=torch.bool) if where is None else where
    for (n, mask), change, some in zip(masks.items(), changes.split(sizes, 1), where.split(sizes, 1), strict=True):
        moved = update.start[n][:, mask] + change.to(end[n].dtype)
        end[n][:, mask] = moved.where(some, end[n][:, mask])
    return replace(update, end=update.end | end)


def _finite(changes: Tensor) -> Tensor:
    """Return changes (m, d) with zeros in the place of each that is not finite."""
    return changes.where(changes.isfinite().all(1, keepdim=True), 0)


def _squares(points: Tensor) -> Tensor:
    """Return the squared distances of points (m, d), (m, m), by differences: products would lose small ones."""
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").square()


def _ranked(distances: Tensor, f: int) -> list[int]:
    """Return m points, of squared distances (m, m), by the sums of those to their m - f - 2 nearest others.

    Of two nearest neighbours, whose sums may be equal, the one nearer to all comes first.
    """
    others = distances.clone().fill_diagonal_(torch.inf).sort(1).values
    scores = others[:, : max(1, len(distances) - f - 2)].sum(1)
    keys = [*zip(scores.tolist(), distances.sum(1).tolist(), strict=True)]
    return sorted(range(len(keys)), key=keys.__getitem__)

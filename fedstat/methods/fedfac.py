"""FedFac: a statistic of the units, by factor analysis or of agreement, decides which are shared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat import factor
from fedstat.federated.method import Method, Population, State, Update, keep, rows, step_to_mean
from fedstat.federated.network import Network, Params
from fedstat.methods.cut import Count, Cut, Quantile, is_shared
from fedstat.methods.units import share_units

Statistic = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class FedFac(Method):
    """FedSplit whose split comes from the units' communalities (FedFac paper, Algorithms 1 and 2).

    The flattened incoming weights of unit j at all reporting clients make one column of a matrix; principal-axis
    factor analysis of its correlations gives each unit's communality nu_j, and a unit is shared where
    ``nu_j >= tau``. The first split comes from the weights of all clients after one local round from the common
    start, which is then taken up again; `dynamic` recomputes it in every round from the participants' changes.

    Parameters
    ----------
    layers : sequence of str
        Layers whose units are split (the paper's Lambda).
    kappa : float
        Share of the correlations' eigenvalues that the factors must reach, in (0, 1].
    tau : float, Quantile or Count
        The cut: a number, a quantile of the communalities, or how many units are shared.
    dynamic : bool
        Algorithm 2 instead of Algorithm 1.
    source : {"updates", "weights"}
        What the dynamic analysis looks at; the paper says "weights or gradients".
    rejoin : {"add", "average"}
        A unit that turns shared: add the mean change to the server's old value, as the paper's formula does, or
        take the mean of the participants' weights. Both agree on units that never flip.
    statistic : {"communality", "agreement"} or callable
        What is cut. "communality" is the paper's. It cannot tell whether clients agree: inputs permuted within
        each client leave it unchanged. "agreement" is ours, each unit's `intraclass_correlation` over clients. It
        looks at changes, since weights agree that started alike or were averaged: at first those that all clients
        make from the common start, under `dynamic` those of the round. There a personal unit starts from each
        client's own weights and its changes may differ for that reason alone, so units that start alike are
        compared with units that do not. A callable maps stacked weights or changes (K', units, fan_in), whichever
        the communality would see, and a generator to one value per unit, NaN where undefined.
    replicates : int
        Batch orders in which all clients train from the common start for the first "agreement", one local round
        each; two or more separate the clients' differences from the noise of their batches.
    weighting, server_lr
        See `Method`.
    """

    layers: Sequence[str]
    kappa: float = 0.85
    tau: Cut = Quantile(0.5)  # noqa: RUF009 (frozen)
    dynamic: bool = False
    source: Literal["updates", "weights"] = "updates"
    rejoin: Literal["add", "average"] = "add"
    statistic: Literal["communality", "agreement"] | Statistic = "communality"
    replicates: int = 2

    def __post_init__(self) -> None:
        """Check ranges."""
        super().__post_init__()
        if isinstance(self.layers, str) or not self.layers:
            raise ValueError(f'layers must be a sequence of layer names such as ["hidden"], got {self.layers!r}.')
        if not 0 < self.kappa <= 1:
            raise ValueError(f"kappa must lie in (0, 1], got {self.kappa}.")
        if not isinstance(self.tau, Quantile | Count) and not (isinstance(self.tau, float | int) and self.tau >= 0):
            raise ValueError(f"tau must be a number >= 0, a Quantile or a Count, got {self.tau!r}.")
        if self.source not in ("updates", "weights") or self.rejoin not in ("add", "average"):
            raise ValueError(
                f'source must be "updates" or "weights" and rejoin "add" or "average", got {self.source!r} and '
                f"{self.rejoin!r}."
            )
        if self.statistic not in ("communality", "agreement") and not callable(self.statistic):
            raise ValueError(
                'statistic must be "communality", "agreement" or a function of stacked weights and a generator, got '
                f"{self.statistic!r}."
            )
        if self.statistic == "agreement" and self.source == "weights":
            raise ValueError(
                'statistic="agreement" looks at changes, but source is "weights", which agree once they are averaged; '
                'use source="updates".'
            )
        if not isinstance(self.replicates, Integral) or self.replicates < 1:
            raise ValueError(f"replicates must be a whole number, at least 1, got {self.replicates!r}.")

    def shared(self, network: Network, population: Population) -> Params:
        """Split by what all clients make of the common start in one local round."""
        units = {layer: network.shapes[network.unit_leaves(layer)[0]][0] for layer in self.layers}
        everything = {layer: np.ones(n, dtype=bool) for layer, n in units.items()}
        if self._decided_by_tau():
            split = {layer: is_shared(np.full(n, np.nan), self.tau, everything[layer]) for layer, n in units.items()}
        else:
            start = {n: leaf.expand(len(population.clients), *leaf.shape) for n, leaf in network.initial().items()}
            if self.statistic == "agreement":
                ends = [population.warmup(start, replicate) for replicate in range(self.replicates)]
                seen = [_changes(start, end) for end in ends]
            else:
                seen = [population.warmup(start)]
            split = self._split(seen, everything, population.rng)
        return share_units(network, split, len(population.clients))

    def aggregate(self, state: State, update: Update) -> State:
        """As FedSplit; the dynamic version first decides anew which units are shared."""
        if not self.dynamic or self._decided_by_tau():
            return super().aggregate(state, update)
        assert state.shared is not None
        seen = _changes(update.start, update.end) if self.source == "updates" else update.end
        before = {layer: state.shared[f"{layer}.weight"].flatten(1)[0].cpu().numpy() for layer in self.layers}
        shared = dict(state.shared)
        for layer, mask in self._split([seen], before, update.rng).items():
            for name in (f"{layer}.weight", f"{layer}.bias"):
                if name in shared:
                    shared[name] = torch.from_numpy(mask).to(shared[name].device).view(shared[name].shape)
        server = step_to_mean(state.server, update, rows(shared, update.ids), self.server_lr)
        if self.rejoin == "average":
            for name, old in state.shared.items():
                mean = torch.tensordot(update.weight, update.end[name], dims=1)
                server[name] = torch.where((shared[name] & ~old)[0], mean, server[name])
        return replace(state, server=server, clients=keep(state.clients, update), shared=shared, round=state.round + 1)

    def record(self, state: State) -> Mapping[str, Tensor]:
        """Keep which units of each layer are shared."""
        assert state.shared is not None
        return {f"shared {layer}": state.shared[f"{layer}.weight"].flatten(1)[0] for layer in self.layers}

    def _decided_by_tau(self) -> bool:
        """Tell whether tau alone shares all units or none, so that no analysis is needed."""
        return isinstance(self.tau, float | int) and (self.tau == 0 or self.tau == np.inf)

    def _split(
        self, seen: Sequence[Params], before: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Return which units of each layer are shared, judged by stacked weights or changes, one per batch order."""
        split = {}
        for layer in self.layers:
            stacked = np.stack([_flat(params[f"{layer}.weight"].cpu().numpy()) for params in seen])
            if self.statistic == "agreement":
                values = factor.intraclass_correlation(stacked)
            elif self.statistic == "communality":
                values = communality(stacked[0], self.kappa)
            else:
                values = self.statistic(stacked[0], rng)
            if np.shape(values) != before[layer].shape:
                raise ValueError(
                    f"statistic must return one value for each of the {len(before[layer])} units of layer {layer!r}, "
                    f"got shape {np.shape(values)}."
                )
            split[layer] = is_shared(values, self.tau, before[layer])
        return split


def _changes(start: Params, end: Params) -> Params:
    """What local training added."""
    return {name: end[name] - start[name] for name in end}


def _flat(weights: np.ndarray) -> np.ndarray:
    """Reshape stacked weights (K', units, ...) to (K', units, fan_in) in float64, in which decisions are taken."""
    return weights.reshape(*weights.shape[:2], -1).astype(np.float64)


def communality(weights: np.ndarray, kappa: float) -> np.ndarray:
    """Communality of each unit by principal-axis factor analysis of all clients' incoming weights.

    The analysis takes one client at a time. It warns, in words that do not change from round to round, where the data
    do not determine the communalities.

    Parameters
    ----------
    weights : ndarray, shape (K', units, ...)
        Stacked weights or changes.
    kappa : float
        Share of the eigenvalues that the factors must reach.

    Returns
    -------
    ndarray, shape (units,)
        NaN for units that do not vary.
    """
    clients, units = weights.shape[:2]
    if weights.size < 2 * units:
        return np.full(units, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = factor.PrincipalAxis(contribution=kappa).fit_blocks(
            factor.units_as_columns(weights[k : k + 1]) for k in range(clients)
        )
    if not (fit.identified_ and fit.converged_):
        warnings.warn(
            f"kappa = {kappa:g} asks for more factors than the correlations of some layer's units identify; the "
            "communalities there, and with them the split, depend on the start of the iteration. A smaller kappa or "
            "more clients help.",
            factor.IdentificationWarning,
            stacklevel=2,
        )
    values = fit.communalities_.copy()
    values[fit.constant_] = np.nan
    return values

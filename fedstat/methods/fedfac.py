"""FedFac: a statistic of the hidden units, by factor analysis or of agreement, decides which of them are shared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor

from fedstat import factor
from fedstat._checks import names, naming, number
from fedstat.federated.client.network import Network, Params
from fedstat.federated.codec import Bits, Message
from fedstat.federated.means import step_to_mean
from fedstat.federated.method import Method, keep, rows, stack
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.federated.store import ClientStore
from fedstat.methods.cut import Count, Cut, Quantile, is_shared
from fedstat.methods.ensemble import ensemble
from fedstat.methods.units import share_units

#: By how much shares of eigenvalues may miss kappa.
_ROUNDING = 1e-12
#: Bytes of the models of clients that train together for the first analysis.
_TRAINED = 2**26

Statistic = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class FedFac(Method):
    """FedSplit whose shared units follow from the units' communalities (FedFac paper, Algorithms 1 and 2).

    The flattened incoming weights of unit j at all reporting clients make one column of a matrix; principal-axis
    factor analysis of its correlations gives each unit's communality nu_j, and a unit is shared where
    ``nu_j >= tau``. The first analysis sees the weights of all clients after one local round from the common start,
    from which round 0 then starts anew; under `dynamic` the server repeats the analysis in every round, on the weights
    that the participants trained.

    Parameters
    ----------
    layers : sequence of str
        Layers whose units can be personal (the paper's Lambda); without layers the method is FedAvg.
    kappa : float
        Share of the correlations' eigenvalues that the factors must reach, in (0, 1] (0.85, our choice from the paper's
        grid 0.5, 0.75, 0.85, 0.9, 0.95).
    tau : float, Quantile or Count
        The cut: a number, a quantile of the communalities, or the number of shared units (the median, our choice from
        the paper's grid of quartiles).
    dynamic : bool
        Whether Algorithm 2 runs instead of Algorithm 1 (False).
    reading : {"text", "code"}
        The method as the paper says it, or as its authors ran it ("text"; on the paper's generator the code's dynamic
        version does as well or worse, by 0.7 points at most). In their code the statistic is "eigenvectors", of the
        participants' weights in every round; of the named layers only incoming weights are shared, while biases and
        norm layers are personal; and so are the statistics of every norm layer.
    statistic : {"communality", "eigenvectors", "agreement"} or callable, optional
        The statistic that is cut; by default the reading's. "communality" is the text's. "eigenvectors" is the code's:
        the sum of a unit's squares in the leading eigenvectors, one fewer than `kappa` asks for. Neither can tell
        whether clients agree: inputs permuted within each client leave both unchanged. "agreement" is ours, each unit's
        `intraclass_correlation` over clients: their consistency, ICC(3,1), whatever their levels. It looks at changes,
        since weights agree that started alike or were averaged: at first at the changes that all clients make from the
        common start, under `dynamic` at those of the round. There a personal unit starts from each client's own weights
        and its changes may differ for that reason alone, so that units that start alike are compared with units that do
        not. A callable maps stacked weights or changes (K', units, fan_in), whichever the communality would see, and a
        generator to one value per unit, NaN where it is undefined.
    source : {"weights", "updates"}, optional
        The tensors that the dynamic analysis looks at; the paper says "weights or gradients" ("weights", as in the
        code; agreement needs "updates"). On the paper's generator shared units chosen by updates lose up to 9 points to
        the true ones, and units chosen at random in every round lose 11.
    rejoin : {"average", "add"}
        The server's value of a unit that turns shared: the mean of the participants' weights, or the server's old value
        plus their mean change, as in the paper's formula, though the clients started from values of their own
        ("average", as in the code). Both agree on units that never change sides.
    replicates : int
        Number of batch orders in which all clients train from the common start for the first "agreement", one local
        round each; two or more separate the clients' differences from the noise of their batches (2, ours).
    weighting, server, compression
        See `Method`.

    Notes
    -----
    Shared units travel both ways: d numbers, as many as the model has, less (personal units) x (numbers of a unit)
    summed over `layers`. Before the first round every client sends the incoming weights of the named layers, for
    "agreement" once per replicate, and receives one bit per unit. Under `dynamic` it sends all d numbers in every
    round, and receives the shared units and one bit for each unit of the named layers.

    Under `dynamic` a unit that turns personal goes on, at a participant, from the weights that it trained in that
    round; at an absent client from its own row, which dates from when it last took part (before that, from the common
    start). The server's value of the unit stays what it was when it was last shared.

    The communalities' analysis starts from squared multiple correlations and takes the diagonal of R - A A' for the
    unique variances: as printed, without the diagonal, the iteration would be principal components.

    The authors' code: it has no static version, and analyses units for the first time after the first round, as the
    dynamic version does here in that reading. Of several layers it loads the shared units of the last alone; here all
    are shared. Its loss is a batch's sum, so that their weight decay acts on a mean loss as one divided by the batch
    size.

    A new client gets LocalTrain ("personal": its personal units train alone, from the common start or, under `dynamic`,
    from the server's value) and, untrained, the mean of all clients' predicted probabilities ("ensemble").

    Examples
    --------
    The units that are shared after each round:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=6, d=5, units=8, samples=40, test=50, seed=0)
    >>> method = fs.FedFac(layers=["hidden"], tau=fs.Count(3), kappa=0.6)
    >>> network, training = fs.models.mlp(5, 8, 1), fs.Training(lr=0.05)
    >>> result = fs.federate(method, network, clients, training, rounds=2, progress=False)
    >>> result.records["FedFac", 0]["shared hidden"].astype(int)
    array([[1, 1, 0, 0, 0, 0, 1, 0],
           [1, 1, 0, 0, 0, 0, 1, 0]])
    """

    layers: Sequence[str]
    kappa: float = 0.85
    tau: Cut = Quantile(0.5)  # noqa: RUF009 (frozen)
    dynamic: bool = False
    reading: Literal["text", "code"] = "text"
    statistic: Literal["communality", "eigenvectors", "agreement"] | Statistic | None = None
    source: Literal["weights", "updates"] | None = None
    rejoin: Literal["average", "add"] = "average"
    replicates: int = 2

    example = {"layers": ["hidden", "head"], "tau": Count(2), "kappa": 0.5}
    _ranges = {
        "kappa": "(0, 1]", "replicates": 1, "reading": ("text", "code"), "source": ("weights", "updates"),
        "rejoin": ("average", "add"),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        names("layers", self.layers)
        if not isinstance(self.tau, Quantile | Count):
            try:
                object.__setattr__(self, "tau", number("tau", self.tau, "[0, inf]"))
            except ValueError:
                raise ValueError(
                    f"tau must be a number in [0, inf], a Quantile or a Count, got {self.tau!r}."
                ) from None
        if self.statistic not in ("communality", "eigenvectors", "agreement", None) and not callable(self.statistic):
            raise ValueError(
                'statistic must be "communality", "eigenvectors", "agreement" or a function of stacked weights and a '
                f"generator, got {self.statistic!r}."
            )
        if self.statistic == "agreement" and self.source == "weights":
            raise ValueError(
                'statistic="agreement" looks at changes, but source is "weights", which agree once they are averaged; '
                'use source="updates".'
            )
        if self._decides_anew() and self.compression is not None:
            raise ValueError(
                f"compression must be None where the server looks at personal units as well, got {self.compression!r}."
            )

    def shared(self, network: Network, federation: Federation) -> Params:
        """Decide which units are shared, by all clients' weights after one local round from the common start."""
        units = {layer: network.shapes[network.incoming(layer)[0]][0] for layer in self.layers}
        every = {layer: np.ones(n, dtype=bool) for layer, n in units.items()}
        if self._is_decided():
            found = self._cut({layer: np.full(n, np.nan) for layer, n in units.items()}, every)
        elif self._starts_shared():
            found = every
        elif self._named() == "communality":
            found = self._cut(self._first_communalities(network, federation), every)
        else:
            start = stack(network.initial(), len(federation.clients))
            ends = [federation.warmup(start, repeat) for repeat in range(self._orders())]
            seen = [_changes(start, end) for end in ends] if self.statistic == "agreement" else ends
            found = self._shared_units(network, seen, every, federation.rng)
        return self._masks(network, found)

    def at_once(self, network: Network, clients: int) -> Mapping[str, int]:
        """Hold all clients' models where the first analysis does not go client by client, as communalities do."""
        if self._is_decided() or self._starts_shared() or self._named() == "communality":
            return {}
        seen = sum(network.shapes[name].numel() for layer in self.layers for name in network.incoming(layer))
        size = clients * self._orders() * (network.bytes + 2 * 8 * seen)
        return {"the models of all clients after a local round, for the first split,": size}

    def init(self, network: Network, federation: Federation) -> State:
        """Start as FedSplit does; under `dynamic` clients keep all units of the layers, as any may turn personal."""
        state = super().init(network, federation)
        if not self._decides_anew():
            return state
        kept = {name: leaf for name, leaf in state.server.items() if name in state.shared}
        return replace(state, clients=ClientStore.filled(kept, len(federation.clients)))

    def aggregate(self, state: State, update: Update) -> State:
        """Average as FedSplit does; the dynamic version first decides anew which units are shared."""
        if not self._decides_anew():
            return super().aggregate(state, update)
        updates = self.source == "updates" or self.statistic == "agreement"
        seen = _changes(update.start, update.end) if updates else update.end
        before = {layer: _units(state.shared, layer).cpu().numpy() for layer in self.layers}
        shared = self._masks(update.network, self._shared_units(update.network, [seen], before, update.rng))
        server = step_to_mean(state.server, update, rows(shared, update.ids))
        if self.rejoin == "average":
            for name, old in state.shared.items():
                mean = torch.tensordot(update.weight, update.end[name], dims=1)
                server[name] = torch.where((shared[name] & ~old)[0], mean, server[name])
        return replace(state, server=server, clients=keep(state.clients, update), shared=shared, round=state.round + 1)

    def prelude(self, network: Network, clients: int) -> tuple[Message, Message]:
        """Let all clients send the layers' incoming weights, or changes, and receive a bit per unit: shared or not."""
        if self._is_decided() or self._starts_shared():
            return {}, {}
        up, down = {}, {}
        for layer in self.layers:
            for name in network.incoming(layer):
                up[name] = torch.zeros(1, dtype=network.dtype).expand(clients, self._orders(), *network.shapes[name])
            down[layer] = Bits(torch.zeros(clients, len(up[name][0, 0]), dtype=torch.bool))
        return up, down

    def download(self, state: State, update: Update) -> Message:
        """Send shared elements; under `dynamic` also one bit per unit of the layers."""
        message = super().download(state, update)
        if not self._decides_anew():
            return message
        bits = {name: Bits(mask.expand(len(update.ids), -1)) for name, mask in self.record(state).items()}
        return {**message, **bits}

    def upload(self, state: State, update: Update) -> Message:
        """Send shared elements; under `dynamic` send the layers whole, since the analysis looks at all units."""
        message = super().upload(state, update)
        if not self._decides_anew():
            return message
        # in the code's reading a layer's other leaves are personal
        leaves_of = update.network.incoming if self.reading == "code" else update.network.unit_leaves
        whole = [name for layer in self.layers for name in leaves_of(layer)]
        return {name: update.end[name] for name in state.server if name in message or name in whole}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Train the personal units alone (LocalTrain); and offer the ensemble of all clients' models, untrained."""
        models = super().newcomer(state, ids, start, federation)
        return models | {"ensemble": ensemble(self, state, len(ids))} if state.clients else models

    def record(self, state: State) -> Mapping[str, Tensor]:
        """Record which units of each layer are shared."""
        return {f"shared {layer}": _units(state.shared, layer) for layer in self.layers}

    def _named(self) -> str | Statistic:
        """Return the statistic, by default the reading's."""
        return self.statistic or ("eigenvectors" if self.reading == "code" else "communality")

    def _orders(self) -> int:
        """Return in how many batch orders clients train for the first analysis."""
        return self.replicates if self.statistic == "agreement" else 1

    def _first_communalities(self, network: Network, federation: Federation) -> dict[str, np.ndarray]:
        """Return the units' communalities after one local round of all clients, of whom some train at a time."""
        found = dict[str, factor.Moments]()
        for ids in torch.arange(len(federation.clients)).split(max(1, _TRAINED // network.bytes)):
            ends = federation.warmup(stack(network.initial(), len(ids)), 0, ids)
            for layer in self.layers:
                weights = _flat([ends[name] for name in network.incoming(layer)])
                for k in range(len(ids)):
                    one = factor.Moments.of(factor.units_as_columns(weights[k : k + 1]))
                    found[layer] = found[layer] + one if layer in found else one
        return {layer: _communality(moments, self.kappa) for layer, moments in found.items()}

    def _is_decided(self) -> bool:
        """Tell whether no analysis is needed, since tau alone shares all units or none, or no layer is named."""
        return not self.layers or (isinstance(self.tau, float | int) and (self.tau == 0 or self.tau == np.inf))

    def _decides_anew(self) -> bool:
        """Tell whether every round decides which units are shared."""
        return self.dynamic and not self._is_decided()

    def _starts_shared(self) -> bool:
        """Tell whether the first analysis waits for the first round's weights; until then all units are shared."""
        return self.dynamic and self.reading == "code"

    def _masks(self, network: Network, shared_units: Mapping[str, np.ndarray]) -> Params:
        """Return masks of the layers' leaves, and in the code's reading of the leaves that are personal there."""
        masks = share_units(network, shared_units, 1)
        if self.reading == "text":
            return masks
        others = {leaf for layer in self.layers for leaf in network.unit_leaves(layer)}
        others -= {leaf for layer in self.layers for leaf in network.incoming(layer)}
        return masks | share_all_but(network, others | {*network.statistics})

    def _shared_units(
        self, network: Network, seen: Sequence[Params], before: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Return which units of each layer are shared, judged by stacked weights or changes, one per batch order."""
        statistics = {}
        for layer in self.layers:
            stacked = np.stack([_flat([params[name] for name in network.incoming(layer)]) for params in seen])
            match self._named():
                case "communality":
                    values = communality(stacked[0], self.kappa)
                case "eigenvectors":
                    values = squares_in_eigenvectors(stacked[0], self.kappa)
                case "agreement":
                    values = factor.intraclass_correlation(stacked)
                case _:
                    values = cast("Statistic", self.statistic)(stacked[0], rng)
            if np.shape(values) != before[layer].shape:
                raise ValueError(
                    f"statistic must return one value for each of the {len(before[layer])} units of layer {layer!r}, "
                    f"got shape {np.shape(values)}."
                )
            statistics[layer] = np.asarray(values)
        return self._cut(statistics, before)

    def _cut(self, statistics: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return which units of each layer are shared by the values of the statistic."""
        found = {}
        for layer, values in statistics.items():
            with naming(f"layer {layer!r}"):
                found[layer] = is_shared(values, self.tau, before[layer])
        return found


def _changes(start: Params, end: Params) -> Params:
    """Return by how much local training changed leaves."""
    return {name: end[name] - start[name] for name in end}


def _flat(weights: Sequence[Tensor]) -> np.ndarray:
    """Lay stacked incoming weights (K', units, ...) side by side as (K', units, fan_in), in float64 for decisions."""
    return np.concatenate([w.flatten(2).cpu().numpy().astype(np.float64) for w in weights], axis=2)


def _units(shared: Params, layer: str) -> Tensor:
    """Return which units of a layer are shared, (units,); recurrent layers are called ``lstm.l0``."""
    owner, _, depth = layer.rpartition(".l")
    leaf = f"{layer}.weight" if f"{layer}.weight" in shared else f"{owner}.weight_ih_l{depth}"
    return shared[leaf].flatten(1)[0]


def communality(weights: np.ndarray, kappa: float) -> np.ndarray:
    """Return each unit's communality by principal-axis factor analysis of all clients' incoming weights.

    It warns, in words that do not change from round to round, where the data do not determine them. Weights or changes
    are (clients, units, ...). Units that do not vary have NaN.
    """
    clients = (factor.Moments.of(factor.units_as_columns(weights[k : k + 1])) for k in range(len(weights)))
    return _communality(reduce(add, clients), kappa)


def _communality(moments: factor.Moments, kappa: float) -> np.ndarray:
    """Return the communalities of the columns of which these are the moments, NaN if there are too few rows."""
    if moments.rows < 2:
        return np.full(len(moments.mean), np.nan)
    with warnings.catch_warnings(action="ignore"):
        fit = factor.PrincipalAxis(contribution=kappa).fit_moments(moments)
    if not (fit.identified_ and fit.converged_):
        warnings.warn(
            f"kappa = {kappa:g} asks for more factors than the correlations of some layer's units identify; the "
            "communalities there, and with them the shared units, depend on the start of the iteration. A smaller "
            "kappa or more clients help.",
            factor.IdentificationWarning,
            stacklevel=3,
        )
    values = fit.communalities_.copy()
    values[fit.constant_] = np.nan
    return values


def squares_in_eigenvectors(weights: np.ndarray, kappa: float) -> np.ndarray:
    """Return the sum of each unit's squares in the leading unit eigenvectors of the units' correlations.

    Under this statistic of the authors' code, and not under the communality, a unit's squares sum to one over all
    components, as the paper's section 4.2 has it. The eigenvectors are one fewer than the number whose eigenvalues
    reach the share `kappa`. Weights or changes are (clients, units, ...). Units that do not vary have NaN.
    """
    columns = factor.units_as_columns(weights)
    columns = columns - columns.mean(axis=0)
    length = np.linalg.norm(columns, axis=0)
    varies = length > np.finfo(float).eps * len(columns) * np.abs(columns).max(initial=0)
    values = np.full(len(varies), np.nan)
    if varies.any():
        directions = columns[:, varies] / length[varies]
        eigenvalues, vectors = np.linalg.eigh(directions.T @ directions)
        share = np.cumsum(np.maximum(eigenvalues[::-1], 0)) / varies.sum()
        count = int(np.searchsorted(share, kappa - _ROUNDING))  # how many do not reach kappa
        values[varies] = (vectors[:, ::-1][:, :count] ** 2).sum(axis=1)
    return values

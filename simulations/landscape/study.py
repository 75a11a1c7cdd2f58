"""Follow FedAvg and the filter decomposition through weight space (filter-decomposition paper, Figures 4a to 4c).

Four clients hold images of five classes each and train for one epoch a round. Both methods start from equal filters:
atoms begin as the canonical ones, with the coefficients of which FedAvg's filters are made. (Any orthonormal atoms with
rotated coefficients would do the same: gradient steps commute with the rotation.) Of every round the study keeps the
loss of the averaged network over all clients' training images, and of the first rounds the networks themselves, with
filters composed, so that both methods move in one space.

Of some rounds it also measures the networks that clients return, and the virtual ones: client (k, j) has the
coefficients and all other weights of client k and the atoms of client j, for all k != j. The mean over all pairs
(k, j), k = j included, is what the server makes of the round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.func import functional_call

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.federated import Round
from fedstat.federated.client.network import Network
from fedstat.federated.state import Update
from fedstat.methods import FedAvg, FilterDecomp
from simulations.contract import About, Shown
from simulations.filterdecomp.cells import Cell, Size, network, population
from simulations.landscape.plane import filter_norms, flat, grid, plane_of, shaped
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import chosen, tried, tune_arms

_HOW = "1,000 images of CIFAR-10, a network of 23 thousand weights, batches of 20, rates tuned"
ABOUT = About(
    "The way through the landscape of the loss",
    "Filter decomposition",
    "",
    order=82,
    shows=(
        Shown("Figure 4a", "training loss over 200 rounds, four clients", "in part", f"{_HOW}, 100 rounds"),
        Shown("Figure 4b", "the first 25 rounds of both methods on contours of the loss", "in part",
              f"{_HOW}, the plane of both methods' iterates in units of filters' norms"),
        Shown("Figure 4c", "clients and virtual clients from the fourth to the eighth round", "in part",
              f"{_HOW}, with measures over several seeds beside the picture"),
    ),
    data=("cifar10",),
    times={
        "smoke": "ten seconds",
        "quick": "half a minute on two cores",
        "desk": "five minutes of one core",
        "paper": "ten hours on one H200 (an estimate: 2.4e17 operations, in batches of 10, at 7e12 a second)",
    },
)  # fmt: skip
METHODS: Mapping[str, fs.Method] = {"FedAvg": FedAvg(), "FilterDecomp": FilterDecomp(basis="canonical")}
FIRST_SEED = 100
FIRST_TUNING_SEED = 10_000
_AT_ONCE = 1000  # images in one forward pass

#: Networks by what they are: "local" or "virtual" clients.
Networks = dict[str, list[dict[str, np.ndarray]]]


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    `followed` are the first rounds, whose networks are on the plane, and `close` those whose clients are measured;
    `points` is the grid's width; tuning runs for `tuning_rounds` under `tuning_seeds` seeds. `shift` is added to all
    seeds.
    """

    dataset: str
    kind: Literal["small", "alexnet"]
    images: int
    batch_size: int
    rounds: int
    seeds: int
    rates: tuple[float, ...]
    tuning_seeds: int
    tuning_rounds: int
    points: int = 25
    clients: int = 4
    classes: int = 5
    followed: int = 25
    close: tuple[int, ...] = (4, 5, 6, 7, 8)
    shift: int = 0
    device: str = "cpu"

    @property
    def cell(self) -> Cell:
        """Which images, dealt to whom."""
        return Cell(self.dataset, self.dataset, self.clients, self.classes)

    @property
    def size(self) -> Size:
        """The network, and what a client does in a round: one epoch, always."""
        return Size(self.kind, self.images, 200, 1.0, 1, self.batch_size, self.device)


_RATES = (0.01, 0.03, 0.1)
SCALES = {
    "smoke": Scale(
        "digits", "small", images=60, batch_size=20, rounds=6, seeds=2, rates=(0.01, 0.1), tuning_seeds=1,
        tuning_rounds=2, points=5, followed=5, close=(2, 3), shift=SECOND_LOOK,
    ),
    "quick": Scale(
        "cifar10", "small", images=250, batch_size=20, rounds=25, seeds=3, rates=_RATES, tuning_seeds=1,
        tuning_rounds=6, points=15, shift=SECOND_LOOK,
    ),
    "desk": Scale(
        "cifar10", "small", images=250, batch_size=20, rounds=100, seeds=8, rates=_RATES, tuning_seeds=3,
        tuning_rounds=25,
    ),
    "paper": Scale(
        "cifar10", "alexnet", images=0, batch_size=10, rounds=200, seeds=8, rates=(0.003, 0.01, 0.03), tuning_seeds=3,
        tuning_rounds=50, points=41,
    ),
}  # fmt: skip


# --- the rounds --------------------------------------------------------------------------------------------------


def training(scale: Scale, lr: float) -> fs.Training:
    """Return what a client does in a round; all arms have the paper's momentum."""
    return fs.Training(lr=lr, momentum=0.9, batch_size=scale.batch_size, local_epochs=1)


def rounds(scale: Scale, arm: str, lr: float, clients: Clients, seed: int, count: int) -> Iterator[Round]:
    """Play an arm's rounds."""
    found = fs.rounds(
        {arm: METHODS[arm]}, network(scale.cell, scale.size), clients, training(scale, lr), seed=seed,
        device=scale.device,
    )  # fmt: skip
    for round in found:
        yield round
        if round.number == count:
            return


def composed(net: Network, params: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Return a network's weights by name, with filters composed of their parts, in the order of the names."""
    found = net.compose(dict(params))
    return {name: found[name].detach().cpu().numpy() for name in sorted(found)}


def returned(update: Update) -> list[dict[str, np.ndarray]]:
    """Return the networks that the participants send."""
    stacks = update.end
    return [composed(update.network, {n: leaf[k] for n, leaf in stacks.items()}) for k in range(len(update.ids))]


def virtual(update: Update) -> list[dict[str, np.ndarray]]:
    """Return the virtual clients: coefficients and all else of client k, atoms of client j, for all k != j."""
    count = range(len(update.ids))
    return [
        composed(update.network, {n: leaf[j if n.endswith(".atoms") else k] for n, leaf in update.end.items()})
        for k in count
        for j in count
        if k != j
    ]


class Losses:
    """The mean cross-entropy of any network over all clients' training images."""

    def __init__(self, scale: Scale, clients: Clients) -> None:
        self.x = torch.from_numpy(np.asarray(clients.train.x)).to(scale.device)
        self.y = torch.from_numpy(clients.train.y).long().to(scale.device)
        self.module = network(scale.cell, scale.size)().to(scale.device).eval()

    def __call__(self, weights: Mapping[str, np.ndarray]) -> float:
        """Return the loss in nats."""
        params = {name: torch.from_numpy(np.ascontiguousarray(value)).to(self.x) for name, value in weights.items()}
        total = 0.0
        with torch.no_grad():
            for first in range(0, len(self.y), _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                outputs = functional_call(self.module, params, (self.x[some],))
                total += float(torch.nn.functional.cross_entropy(outputs, self.y[some], reduction="sum"))
        return total / len(self.y)


# --- one seed ----------------------------------------------------------------------------------------------------


def tune(scale: Scale, arm: str) -> Tables:
    """Choose an arm's rate by the averaged network's accuracy on validation images; return the table ``tuning``."""
    first = FIRST_TUNING_SEED + scale.shift
    tuning = fs.tune(
        METHODS[arm], {"lr": scale.rates}, network(scale.cell, scale.size), partial(population, scale.cell, scale.size),
        training(scale, scale.rates[0]), rounds=scale.tuning_rounds, last=1,
        seed=range(first, first + scale.tuning_seeds), device=scale.device, progress=False,
    )  # fmt: skip
    return tried(tuning, arm)


def one_seed(scale: Scale, seed: int, rates: Mapping[str, float]) -> Tables:
    """Follow both methods under one seed; the landscape is evaluated under the first seed alone."""
    clients = population(scale.cell, scale.size, seed)
    loss = Losses(scale, clients)
    paths: dict[str, list[dict[str, np.ndarray]]] = {}
    near: dict[str, dict[int, Networks]] = {}
    curves, close = [], []
    for arm, lr in rates.items():
        paths[arm], near[arm] = [], {}
        for round in rounds(scale, arm, lr, clients, seed, scale.rounds):
            ((key, state),) = round.states.items()
            update = round.updates[key]
            here = composed(update.network, state.server)
            if not paths[arm]:
                first = {name: leaf[0] for name, leaf in update.start.items()}
                paths[arm].append(composed(update.network, first))
                curves.append({"arm": arm, "round": 0, "loss": loss(paths[arm][0])})
            if round.number <= scale.followed:
                paths[arm].append(here)
            curves.append({"arm": arm, "round": round.number, "loss": loss(here)})
            if round.number in scale.close:
                near[arm][round.number] = kinds = {"local": returned(update)}
                if arm == "FilterDecomp":
                    kinds["virtual"] = virtual(update)
                close += [{"arm": arm, "round": round.number, **row} for row in about(here, kinds, loss)]
    tables = {"curves": pd.DataFrame(curves), "close": pd.DataFrame(close)}
    tables |= on_plane(scale, paths, near, loss, landscape=seed == FIRST_SEED + scale.shift)
    return {name: table.assign(seed=seed) for name, table in tables.items()}


def about(centre: Mapping[str, np.ndarray], kinds: Networks, loss: Losses) -> Iterator[dict[str, float | str]]:
    """Measure how far networks lie from the aggregate, and how much more they lose.

    Distances are relative to the filters' norms at the aggregate (root of the sum of squares over all weights). Spread
    is the root mean square distance, `farthest` the largest; `excess` the mean loss above the aggregate's, `worst` the
    largest.
    """
    middle, norms, base = flat(centre), filter_norms(centre), loss(centre)
    for kind, networks in kinds.items():
        distance = np.array([np.linalg.norm((flat(w) - middle) / norms) for w in networks])
        excess = np.array([loss(w) - base for w in networks])
        yield {
            "kind": kind, "networks": len(networks), "spread": float(np.sqrt((distance**2).mean())),
            "farthest": float(distance.max()), "excess": float(excess.mean()), "worst": float(excess.max()),
        }  # fmt: skip


def on_plane(
    scale: Scale,
    paths: Mapping[str, list[dict[str, np.ndarray]]],
    near: Mapping[str, Mapping[int, Networks]],
    loss: Losses,
    *,
    landscape: bool,
) -> Tables:
    """Put both methods' iterates on one plane, and evaluate the loss on it where the `landscape` is wanted.

    Returns
    -------
    Tables
        ``plane`` (share held, and per arm the loss of the last followed network and of its projection); with
        `landscape` also ``path`` (x, y of the followed networks, and of clients in the close rounds) and
        ``landscape`` (x, y, loss).
    """
    start = next(iter(paths.values()))[0]
    iterates = {arm: np.stack([flat(w) for w in path]) for arm, path in paths.items()}
    moved = np.concatenate([path[1:] for path in iterates.values()])
    plane = plane_of(flat(start), filter_norms(start), moved)
    places = {arm: plane.coordinates(path) for arm, path in iterates.items()}
    rows = [
        {"arm": arm, "held": plane.held, "start": loss(path[0]), "end": loss(path[-1]),
         "projected": loss(shaped(plane.weights(places[arm][-1:])[0], start))}
        for arm, path in paths.items()
    ]  # fmt: skip
    tables = {"plane": pd.DataFrame(rows)}
    if not landscape:
        return tables
    found = [
        pd.DataFrame(place, columns=["x", "y"]).assign(arm=arm, kind="server", round=np.arange(len(place)))
        for arm, place in places.items()
    ]
    for arm, by_round in near.items():
        for number, kinds in by_round.items():
            for kind, networks in kinds.items():
                place = plane.coordinates(np.stack([flat(w) for w in networks]))
                found.append(pd.DataFrame(place, columns=["x", "y"]).assign(arm=arm, kind=kind, round=number))
    every = pd.concat(found, ignore_index=True)
    x, y = grid([every[["x", "y"]].to_numpy()], scale.points)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    values = [loss(shaped(w, start)) for point in points for w in plane.weights(point[None])]
    return {**tables, "path": every, "landscape": pd.DataFrame({"x": points[:, 0], "y": points[:, 1], "loss": values})}


def run(scale: Scale, out: Path) -> Tables:
    """Tune both rates, then follow both methods under every seed."""
    bare = replace(scale, rounds=0, seeds=0, points=0)

    tuning = tune_arms("landscape", {arm: partial(tune, scale, arm) for arm in METHODS}, bare, out)
    rates = {arm: chosen(tuning)[arm] for arm in METHODS}
    words = "-".join(f"{lr:g}" for lr in rates.values())
    seeds = range(FIRST_SEED + scale.shift, FIRST_SEED + scale.shift + scale.seeds)
    parts = [Part(f"landscape-{seed}-{words}", scale, partial(one_seed, scale, seed, rates)) for seed in seeds]
    return {"tuning": tuning, **run_parts(parts, out, "landscape: seeds")}


def evidence(tables: Tables) -> Tables:
    """Return all tables, rounded to five decimals."""
    return {name: table.round(5) for name, table in tables.items()}

"""What the study of FedFac with its authors' network trains on and with: images, clients, network, start and arms."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import fedstat as fs
from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.data import Clients, datasets
from fedstat.federated.client.network import Network, Params
from fedstat.federated.state import Federation, State
from fedstat.methods import FedPer
from fedstat.models import Factory
from fedstat.models.resnet import ResNet
from simulations.images import images, small_cnn

CODE, RANDOM, LAYER = "FedFac code", "random split", "layer split"
SHARED_MASKED, PERSONAL_MASKED = "shared masked", "personal masked"
#: The only arm whose running statistics are averaged, too.
AVERAGED = "FedAvg, statistics averaged"
ARMS = {
    "FedAvg": "all weights are shared",
    AVERAGED: "all weights and the running statistics are shared",
    "FedPer": "the head is personal",
    CODE: "as the authors ran it: squares in eigenvectors of weights, cut anew in every round",
    RANDOM: "as many units, drawn once",
    LAYER: "the layer is personal as a whole",
    SHARED_MASKED: "FedFac with half of the units, the shared ones replaced by noise at every download",
    PERSONAL_MASKED: "FedFac with half of the units, the personal ones replaced by noise at every download",
}
#: The arms without noise, which are meant to learn.
UNMASKED = tuple(arm for arm in ARMS if arm not in (SHARED_MASKED, PERSONAL_MASKED))
#: Seed of the training from which all arms start, which no other run has.
WARM_SEED = 1


@dataclass(frozen=True)
class Size:
    """What is learnt, and how.

    Attributes
    ----------
    dataset : str
        As `fedstat.data.datasets` names it.
    network : {"resnet18", "small_cnn"}
        The scripts' network, or a small one.
    layer : str
        The layer whose units FedFac splits.
    start : str
        The data set on which all arms' start is trained; empty for random weights.
    clients, train, held_out : int
        Number of clients, and the training and test images of each; no image belongs to two.
    dirichlet : float
        Concentration of the clients' class proportions.
    rounds, every, last : int
        Rounds; after each how many models are measured; how many of the last measurements are averaged.
    participation : float
        Share of the clients in a round.
    epochs, batch : int
        A client's work in a round.
    lr, weight_decay : float
        Of Adam.
    quantile, kappa : float
        The scripts' cut and contribution.
    warm_epochs : int
        Epochs of the training from which arms start.
    device, dtype : str
        Where and how precisely networks train, as `fedstat.federate` takes it.
    """

    dataset: str
    network: Literal["resnet18", "small_cnn"]
    layer: str
    start: str
    clients: int
    train: int
    held_out: int
    rounds: int
    every: int
    last: int
    dirichlet: float = 0.5
    participation: float = 0.1
    epochs: int = 5
    batch: int = 32
    lr: float = 1e-3
    weight_decay: float = 1e-5 / 32
    quantile: float = 0.05
    kappa: float = 0.85
    warm_epochs: int = 20
    device: str = "cpu"
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """The setting's name in tables."""
        return datasets.read(self.dataset).name


def populate(size: Size, seed: int, *, tuning: bool = False) -> Clients:
    """Deal images to clients: training images of the official training part, test images of the other one.

    Where there is no official test part a third of all images stands in its place. For `tuning` clients test on images
    of the training part that no client trains on.
    """
    x, y, test = images(size.dataset)
    order = stream(0, "resnet18 pools").permutation(len(y))
    test = test if test.any() else np.isin(np.arange(len(y)), order[: len(y) // 3])
    spare = order[~test[order]][: int(test.sum())]
    held = spare if tuning else np.flatnonzero(test)
    used = np.concatenate([np.setdiff1d(np.flatnonzero(~test), spare), held])
    parts = fs.data.dirichlet_draws(
        y[used], np.isin(used, held), size.clients, size.dirichlet, train=size.train, held_out=size.held_out,
        apart=True, seed=seed,
    )  # fmt: skip
    with warnings.catch_warnings():  # skewed labels are the point of these partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        return fs.data.from_indices(x[used], y[used], parts, seed=seed)


# --- the network and its start ------------------------------------------------------------------------------------


def factory(size: Size, shape: tuple[int, ...], classes: int) -> Factory:
    """Return what builds the network for images of a shape (channels, side, side)."""
    if size.network == "resnet18":  # torchvision's, whose stem the scripts keep for images of 32 x 32
        return partial(ResNet, classes, channels=shape[0], blocks=(2, 2, 2, 2), stem=7)
    return small_cnn(np.empty((0, *shape)), classes, norm=True)


def network(size: Size) -> Factory:
    """Return what builds the network for a size's images."""
    x, y, _ = images(size.dataset)
    return factory(size, x.shape[1:], int(y.max()) + 1)


@functools.cache
def _first_images(name: str, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels on which the start is trained, averaged to `side` pixels."""
    x, y, _ = images(name)
    n, channels, had, _ = x.shape
    of = had // side
    return x.reshape(n, channels, side, of, side, of).mean((3, 5)), y


def trained_start(size: Size) -> Tables:
    """Train the weights from which all arms start.

    Returns
    -------
    Tables
        ``start``, a column of the numbers of all leaves but the head's, sorted by the leaves' names, and ``warm``, the
        accuracy on a tenth of the images that was not trained on.
    """
    x, y = _first_images(size.start, images(size.dataset)[0].shape[2])
    clients = fs.data.from_indices(x, y, [np.arange(len(y))], test=0.1, seed=WARM_SEED)
    training = fs.Training(lr=size.lr, optimizer="adam", batch_size=100, local_epochs=size.warm_epochs)
    result = fs.federate(
        fs.FedAvg(), factory(size, x.shape[1:], int(y.max()) + 1), clients, training, rounds=1, seed=WARM_SEED,
        device=size.device, dtype=size.dtype, progress=False,
    )  # fmt: skip
    (state,) = result.states.values()
    leaves = [state.server[name].cpu().flatten() for name in sorted(state.server) if not name.startswith("head.")]
    reached = result.history.query("metric == 'accuracy' and split == 'test'")["value"].iloc[-1]
    return {"start": pd.DataFrame({"value": torch.cat(leaves).numpy()}), "warm": pd.DataFrame({"accuracy": [reached]})}


def started(size: Size, start: pd.DataFrame | None) -> Factory | nn.Module:
    """Return the network with the weights of a trained start and a head drawn anew; without a start, what builds it."""
    build = network(size)
    if start is None:
        return build
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(WARM_SEED)
        module = build()
    own = {n: leaf for n, leaf in sorted(module.state_dict().items()) if not n.startswith("head.") and leaf.ndim}
    pieces = torch.from_numpy(start["value"].to_numpy(copy=True)).split([leaf.numel() for leaf in own.values()])
    module.load_state_dict({n: p.view_as(own[n]) for n, p in zip(own, pieces, strict=True)}, strict=False)
    return module


# --- the arms -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OwnStatistics(FedPer):
    """FedPer, or without layers FedAvg, whose clients keep their running statistics of batch norm.

    The scripts average named parameters alone, and so have this under every method.
    """

    def private(self, network: Network) -> tuple[str, ...]:
        """Return the leaves of the private layers, and all running statistics."""
        return (*super().private(network), *network.statistics)


@dataclass(frozen=True, kw_only=True)
class DrawnOnce(fs.FedFac):
    """FedFac in the code's reading with as many units as its quantile cuts, drawn once and without looking."""

    def shared(self, network: Network, federation: Federation) -> Params:
        """Draw the units that are shared."""
        assert isinstance(self.tau, fs.Quantile)
        units = {layer: network.shapes[network.incoming(layer)[0]][0] for layer in self.layers}
        drawn = {layer: federation.rng.permutation(n) >= personal_units(n, self.tau) for layer, n in units.items()}
        return self._masks(network, drawn)


def personal_units(units: int, cut: fs.Quantile) -> int:
    """Return how many of a layer's units lie below a quantile."""
    return int(np.ceil(cut.q * (units - 1)))


@dataclass(frozen=True, kw_only=True)
class Masked(fs.FedFac):
    """FedFac whose clients find standard normal numbers in the place of shared or personal units (Table 8, panel A).

    As in the scripts they find them at every download and at every evaluation. Incoming weights alone are replaced.
    """

    masked: Literal["shared", "personal"] = "shared"

    _ranges = {"masked": ("shared", "personal")}  # noqa: RUF012 (`Method` says that it is the class's)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Return what clients start from and are evaluated with."""
        params = super().receive(state, ids)
        generator = torch.Generator().manual_seed(state.round)
        for name, shared in state.shared.items():
            if any(name.startswith(f"{layer}.weight") for layer in self.layers):
                noise = torch.randn(params[name].shape, generator=generator).to(params[name])
                hit = (shared if self.masked == "shared" else ~shared).to(noise.device)
                params[name] = torch.where(hit, noise, params[name])
        return params


def arms(size: Size) -> dict[str, fs.Method]:
    """Return the methods, all but one with the batch norm of the authors' scripts."""
    fedfac = partial(fs.FedFac, layers=[size.layer], kappa=size.kappa, reading="code")
    masked = partial(Masked, layers=[size.layer], kappa=size.kappa, reading="code", dynamic=True, tau=fs.Quantile(0.5))
    cut = fs.Quantile(size.quantile)
    methods: dict[str, fs.Method] = {
        "FedAvg": OwnStatistics(layers=[]),
        AVERAGED: fs.FedAvg(),
        "FedPer": OwnStatistics(),
        CODE: fedfac(tau=cut, dynamic=True),
        RANDOM: DrawnOnce(layers=[size.layer], kappa=size.kappa, reading="code", tau=cut),
        LAYER: fedfac(tau=np.inf),
        SHARED_MASKED: masked(masked="shared"),
        PERSONAL_MASKED: masked(masked="personal"),
    }
    return {arm: methods[arm] for arm in ARMS}

"""The arms, and the data that they run on: clients of several domains, digits in four cells, and one client alone."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import fedstat as fs
from fedstat import methods
from fedstat._random import stream
from fedstat.data import Clients, datasets
from fedstat.methods.factorizedfl import ReadingPart
from fedstat.models import Factory
from simulations.factorized_parts.variants import Matched, Mixed, Watched, WithoutMu
from simulations.images import images, small_cnn

#: Four classes each; the classes and the domains are those of the images at hand, and the grouping is ours.
DOMAINS: dict[str, Mapping[str, Sequence[str]]] = {
    "tiny-imagenet": {
        "animals": ("goldfish", "tabby", "black stork", "bison"),
        "clothes": ("academic gown", "miniskirt", "sombrero", "Christmas stocking"),
        "vessels": ("teapot", "pill bottle", "refrigerator", "bucket"),
        "thin things": ("iPod", "dumbbell", "walking stick", "centipede"),
        "scenes and food": ("beach wagon", "viaduct", "ice lolly", "meat loaf"),
    },
    "digits": {f"{2 * i} and {2 * i + 1}": (str(2 * i), str(2 * i + 1)) for i in range(5)},
    "cifar100": fs.data.CIFAR100_DOMAINS,
}
CLIENTS, OF_A_DOMAIN = 20, 4
#: The parts of the reading that are switched, one at a time, and the three that the issue of readings does not name.
SWITCHES: dict[str, tuple[ReadingPart, ...]] = {
    "fill": ("fill",),
    "head": ("head",),
    "momentum": ("momentum",),
    "evaluation": ("evaluation",),
    "the rest": ("arrangement", "norms", "mu"),
}
#: How digits are dealt and labelled: the shares of Dirichlet, or None for iid, and whether labels are permuted.
CELLS: dict[str, tuple[float | None, bool]] = {
    "non-iid": (0.3, False),
    "iid": (None, False),
    "non-iid, permuted": (0.3, True),
    "iid, permuted": (None, True),
}
BASES = ("alpha", "beta", "alpha, text", "beta, text")


@dataclass(frozen=True)
class Arm:
    """A method, the arm at whose learning rate it runs, and its network if that is another one."""

    method: fs.Method
    rate: str
    network: str = ""


# --- domains ---------------------------------------------------------------------------------------------------


def domain_arms() -> dict[str, Arm]:
    """Return the arms of Figure 7a to i and k; what is not said is as the authors have it for several domains."""
    of_domains: dict[str, Any] = {"tau": 0.95, "epsilon": 20.0, "min_neighbours": OF_A_DOMAIN}
    beta = partial(Mixed, variant="beta", **of_domains)
    strict = partial(Mixed, variant="beta", epsilon=20.0)  # the paper's rule: no least number of neighbours
    average: dict[str, Any] = {"variant": "beta", "tau": -np.inf, "epsilon": 0.0}
    alone = methods.Local()
    return {
        "Local": Arm(alone, "Local"),
        "FedAvg": Arm(methods.FedPer(), "FedAvg"),
        "alpha": Arm(Watched(variant="alpha", **of_domains), "beta"),
        "beta": Arm(Watched(variant="beta", **of_domains), "beta"),
        "alpha, text": Arm(Watched(variant="alpha", reading="text", **of_domains), "beta, text"),
        "beta, text": Arm(Watched(variant="beta", reading="text", **of_domains), "beta, text"),
        "Factorized-FedAvg": Arm(Mixed(**average), "beta"),
        "without mu": Arm(WithoutMu(**average, switched=("fill",)), "beta"),
        "without mu, plain head": Arm(WithoutMu(**average, switched=("fill", "head")), "beta"),
        "three most similar": Arm(Matched(variant="beta", matching="similar"), "beta"),
        "random three": Arm(Matched(variant="beta", matching="random"), "beta"),
        "worst three": Arm(Matched(variant="beta", matching="worst"), "beta"),
        "own domain": Arm(Matched(variant="beta", matching="domain"), "beta"),
        "rank 2": Arm(beta(rank=2), "beta"),
        "rank 4": Arm(beta(rank=4), "beta"),
        "tau = 0": Arm(strict(tau=0.0), "beta"),
        "tau = 0.99": Arm(strict(tau=0.99), "beta"),
        "tau = 0.999": Arm(strict(tau=0.999), "beta"),
        "nobody averaged": Arm(strict(tau=np.inf), "beta"),
        "FF x IO": Arm(beta(switched=("arrangement",)), "beta"),
        "IF x OF": Arm(beta(kernel="IF x OF"), "beta"),
        "O x IFF": Arm(beta(kernel="O x IFF"), "beta"),
        "Local, second network": Arm(alone, "Local", "second"),
        "beta, second network": Arm(beta(), "beta", "second"),
        "Local, third network": Arm(alone, "Local", "third"),
        "beta, third network": Arm(beta(), "beta", "third"),
    }


@functools.cache
def grouped(dataset: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return images, labels, which are test samples, and each one's class, or superclass in CIFAR-100.

    Images of Tiny-ImageNet are brought to 32 x 32 by means over 2 x 2 pixels.
    """
    x, y, test = images(dataset)
    found = datasets.read(dataset)
    group = np.array([str(name) for name in found.classes])[y] if dataset != "cifar100" else found.groups["superclass"]
    if dataset == "tiny-imagenet":
        n, channels, side, _ = x.shape
        x = x.reshape(n, channels, side // 2, 2, side // 2, 2).mean((3, 5))
    return x, y, test, group


def domain_clients(dataset: str, samples: int | None, seed: int, *, validation: bool = False) -> Clients:
    """Deal the classes of five domains to 20 clients, four for each; labels are permuted for every client.

    Parameters
    ----------
    dataset : str
        One of `DOMAINS`.
    samples : int or None
        Training samples of a client at most; None takes all that there are.
    seed : int
        Decides who holds what, and the permutations.
    validation : bool
        Whether the test samples are some that are kept from training, in place of the data set's own.
    """
    x, y, test, group = grouped(dataset)
    train = np.flatnonzero(~test)
    parts = fs.data.domains(group[train], DOMAINS[dataset], CLIENTS, seed=seed)
    own = [train[part] for part in parts.train]
    if samples is not None:
        kept = 2 * samples if validation else samples
        own = [np.sort(stream(seed, "subset", k).permutation(part)[:kept]) for k, part in enumerate(own)]
    parts = fs.data.permute_labels(replace(parts, train=tuple(own)), int(y.max()) + 1, seed=seed)
    if test.any() and not validation:
        parts = fs.data.own_test(parts, y, test, seed=seed)
        return fs.data.from_indices(x, y, parts, test=0.0, seed=seed)
    share = 0.5 if validation and samples is not None else 0.25
    return fs.data.from_indices(x, y, parts, test=share, seed=seed)


def network(name: str, x: np.ndarray, classes: int, which: str = "") -> Factory:
    """Return a network for images x: "small" or "resnet9", or the second or third one in its place.

    The second and third ones are the small network without norms and one of dense layers, or ResNet-8 and VGG-16.
    """
    if name == "resnet9":
        return {"": fs.models.resnet9, "second": fs.models.resnet8, "third": fs.models.vgg16}[which](classes)
    if which == "third":
        return fs.models.mlp(x[0].size, 64, 64, classes)
    return small_cnn(x, classes, norm=which != "second")


# --- digits ----------------------------------------------------------------------------------------------------


def reading_arms() -> dict[str, Arm]:
    """Return Local, FedAvg, FedAvg with a private head, and Factorized-FL in both readings and all between."""
    single: dict[str, Any] = {"tau": 0.0, "epsilon": 1.0}  # as the authors have it for a single data set
    found = {
        "Local": Arm(methods.Local(), "Local"),
        "FedAvg": Arm(methods.FedAvg(), "FedAvg"),
        "FedPer": Arm(methods.FedPer(), "FedPer"),
    }
    for base in BASES:
        variant, _, reading = base.partition(", ")
        single |= {"variant": variant, "reading": reading or "code"}
        method = Mixed(**single)
        found[base] = Arm(method, base)
        found |= {f"{base}: {name}": Arm(replace(method, switched=parts), base) for name, parts in SWITCHES.items()}
    return found


def cell_arms(cell: str) -> tuple[str, ...]:
    """Return the labels of the arms that run in a cell: all of them in the first, else no mixed readings."""
    if cell == next(iter(CELLS)):
        return tuple(reading_arms())
    shared = () if CELLS[cell][1] else ("FedAvg",)  # whose head would be averaged over permuted labels
    return ("Local", *shared, "FedPer", *BASES)


def digit_clients(cell: str, seed: int, *, validation: bool = False) -> Clients:
    """Deal scikit-learn's digits to 20 clients; with `validation` the test samples are those for tuning."""
    alpha, permuted = CELLS[cell]
    x, y = fs.data.digits()
    if alpha is None:
        parts = fs.data.iid(len(y), CLIENTS, seed=seed)
    else:
        parts = fs.data.dirichlet(y, CLIENTS, alpha, min_size=12, seed=seed)
    if permuted:
        parts = fs.data.permute_labels(parts, 10, seed=seed)
    drawn = fs.data.from_indices(x, y, parts, test=0.25, validation=0.2, seed=seed)
    return Clients(drawn.train, drawn.validation, classes=drawn.classes) if validation else drawn


# --- one client ------------------------------------------------------------------------------------------------


def single_arms() -> dict[str, Arm]:
    """Return a regular model and factorised ones of one client, by sparsity."""
    plain = {"regular": Arm(methods.Local(), "regular")}
    code = {f"code, {s:g}": Arm(Mixed(tau=np.inf, sparsity=s), "code, 0.0005") for s in (5e-4, 5e-3, 2e-2)}
    text = {f"text, {s:g}": Arm(Mixed(tau=np.inf, reading="text", sparsity=s), "text, 0.0005") for s in (5e-4, 5e-3)}
    return plain | code | text


def single_client(dataset: str, samples: int, seed: int, *, validation: bool = False) -> Clients:
    """Draw one client with as many training samples as asked, and as many test samples but a thousand at most."""
    x, y, _ = images(dataset)
    place = stream(seed, "one client", int(validation)).permutation(len(y))
    test = min(samples, 1000)
    share = test / (samples + test)
    return fs.data.from_indices(x, y, [np.sort(place[: samples + test])], test=share, seed=seed)

"""Measure what methods keep, send and need, by running them on a small federation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch

from fedstat import methods
from fedstat.data import Clients, Samples, digits, dirichlet, from_indices
from fedstat.federated.client.local import Training
from fedstat.federated.client.network import Model, Network, build
from fedstat.federated.codec import Bits, Entry, Message, Selected
from fedstat.federated.federate import rounds
from fedstat.federated.method import Method
from fedstat.federated.rounds import Run
from fedstat.federated.state import State
from fedstat.methods import Variant
from fedstat.models import cnn, lstm, mlp

ROUNDS, CLIENTS, SAMPLES, CLASSES, SIDE, WIDTH = 10, 10, 400, 10, 8, 32
TRAINING = Training(lr=0.01, batch_size=20, local_epochs=3)
#: The network on which all is measured.
NETWORK = cnn(SIDE, CLASSES, hidden=WIDTH, norm=True)
#: Its layers below the head.
LAYERS = ("conv1", "conv2", "hidden")
#: Options that make another method of one, beside the method as it stands.
OPTIONS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "FedAvg": ({"fine_tune": 2},),
    "FedProx": ({"fine_tune": 2},),
    "FedPara": ({"personal": True},),
    "FedFac": ({"dynamic": True}, {"dynamic": True, "reading": "code"}),
    "FactorizedFL": ({"reading": "text"}, {"variant": "beta"}, {"variant": "beta", "reading": "text"}),
    "FedDecomp": ({"reading": "text"},),
    "FilterDecomp": (
        {"personal": True}, {"personal": True, "head": "local"}, {"beta": 0.2}, {"beta": 0.2, "slow": "alpha"},
    ),
}  # fmt: skip
#: Words for the parts that weights are composed of, by the last part of the leaf's name.
PARTS = {
    "a": "low-rank part", "b": "low-rank part", "x2": "second factors", "y2": "second factors", "t2": "second factors",
    "u": "basis", "v": "coefficients", "mu": "sparse part", "atoms": "atoms", "alpha": "coefficients",
}  # fmt: skip
#: Slots of the weights by which a client mixes models.
MIXTURES = {"mixture", "aggregation"}


@dataclass(frozen=True)
class Case:
    """A method with options that make another one of it.

    Attributes
    ----------
    name : str
        The name of its class.
    options : mapping
        The options.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The options as they are written in a call."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

    def method(self, layers: tuple[str, ...]) -> Method:
        """Make the method for a network with these layers; every other hidden unit is FedSplit's to share."""
        given: dict[str, Any] = {"layers": layers, "shared_units": {"hidden": np.arange(WIDTH) % 2 == 0}}
        cls = methods.find(self.name)
        return cls(**{name: given[name] for name in required(cls)}, **self.options)


def cases() -> list[Case]:
    """Return all methods, as they stand and with the options that make another one of them."""
    return [Case(name, options) for name in methods.available() for options in ({}, *OPTIONS.get(name, ()))]


def required(cls: type[Method]) -> list[str]:
    """Return the names of the arguments that have no default."""
    return [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]


def measured(some: Iterable[Case]) -> list[Variant]:
    """Return what each case keeps, sends and needs."""
    some = list(some)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few samples are enough to count bytes
        sizes = _run({str(k): case.method(LAYERS) for k, case in enumerate(some)}, NETWORK)
        return [
            Variant(case.words, **sizes[str(k)], needs=", ".join(_needs(case, sizes[str(k)]["personal"])), came_out={})
            for k, case in enumerate(some)
        ]


# --- what is kept and sent -------------------------------------------------------------------------------------


def _run(some: Mapping[str, Method], model: Model) -> dict[str, dict[str, Any]]:
    """Run methods for a few rounds; return kind, personal part, bytes and state of each."""
    whole = build(model, np.random.default_rng(0))
    sent = {label: np.zeros((0, 2)) for label in some}
    mixes = dict.fromkeys(some, False)
    runs: Mapping[Any, Run] = {}
    before: dict[Any, State] = {}
    for now in islice(rounds(some, model, clients(), TRAINING), ROUNDS):
        runs = now.runs
        for (label, seed), run in runs.items():
            if (label, seed) in before:
                down = run.method.download(before[label, seed], now.updates[label, seed])
                mixes[label] |= not _same(down)
        for row in now.sent:
            sent[row.key[0]] = np.vstack([sent[row.key[0]], [np.mean(row.up), np.mean(row.down)]])
        before = dict(now.states)
    found = {}
    for (label, _), run in runs.items():
        up, down = sent[label].mean(axis=0) / whole.bytes
        kept = sum(leaf.nbytes for leaf in run.state.clients.values()) / CLIENTS / whole.bytes
        told = {"kind": _kind(whole, run, mixes[label]), "personal": ", ".join(_personal(whole, run))}
        found[label] = told | {name: round(float(v), 4) for name, v in (("up", up), ("down", down), ("state", kept))}
    return found


def _same(message: Message) -> bool:
    """Tell whether all clients receive the same numbers, as far as they receive the same elements."""
    return all(_alike(entry) for entry in message.values())


def _alike(entry: Entry) -> bool:
    if isinstance(entry, Bits):  # which elements a client shares is no model
        return True
    if isinstance(entry, torch.Tensor):
        return bool((entry == entry[:1]).all())
    values = entry.values
    mask = entry.mask.expand_as(values) if isinstance(entry, Selected) else torch.ones_like(values, dtype=torch.bool)
    highest, lowest = (torch.where(mask, values, -torch.inf).amax(0), torch.where(mask, values, torch.inf).amin(0))
    return bool((highest <= lowest).all())  # where nobody receives an element, -inf lies below inf


def _own(run: Run) -> dict[str, torch.Tensor]:
    """Return masks, true where an element is personal, of the leaves that are personal in part at least."""
    return {name: ~mask for name, mask in run.state.shared.items() if not mask.all()}


def _estimand(run: Run) -> str:
    """Return the name of what the method itself is measured by."""
    return next(iter(run.method.models(run.state, torch.arange(1), run.federation)))


def _kind(network: Network, run: Run, mixes: bool) -> str:
    own = _own(run)
    slots = {name.partition("/")[0] for name in own if "/" in name}
    if mixes or slots & MIXTURES or (run.state.clients and not own):
        return "mixed models"
    if not own or _estimand(run) == "global":
        return "one model for all"
    if {"all", "a second model"} & set(_personal(network, run)):
        return "whole model"
    return "part of the network" if any(name in network.shapes for name in own) else "added part"


def _personal(network: Network, run: Run) -> list[str]:
    """Say what a client keeps for itself."""
    own, estimand = _own(run), _estimand(run)
    if estimand == "global":
        return ["nothing"]
    if not own:
        return [f"model of its {estimand}" if run.state.clients else "nothing; adapts a copy"]
    slots: dict[str, dict[str, torch.Tensor]] = {}
    for name, mask in own.items():
        slot, _, leaf = name.rpartition("/")
        slots.setdefault(slot, {})[leaf] = mask
    words: list[str] = []
    for slot, leaves in slots.items():
        known = [leaf for leaf in leaves if leaf.rpartition(".")[0] in network.shapes or leaf in network.shapes]
        if slot in MIXTURES:
            words.append("mixture weights")
        elif slot and set(leaves) >= set(network.trainable):
            words.append("a second model")
        elif slot and set(leaves) == set(network.head_leaves):
            words.append("a second head")
        elif not slot or known:
            words += _leaves(network, list(run.state.server), leaves)
        elif sum(run.state.server[f"{slot}/{leaf}"].numel() for leaf in leaves) > 1:  # one number is no part of a model
            words.append(f"a {slot}")
    return list(dict.fromkeys(words))


def _leaves(network: Network, every: list[str], own: Mapping[str, torch.Tensor]) -> list[str]:
    """Say which leaves of the network, or parts of its weights, are personal."""
    whole = {name for name, mask in own.items() if mask.all()}
    if whole >= set(network.shapes):
        return ["all"]
    words, told, partly = list[str](), set[str](), set(own) - whole
    norms = whole & set(network.norm_leaves)
    for layer, leaves in network.layers.items():
        parts = {part for leaf in leaves if leaf not in network.norm_leaves
                 for part in (leaf, *(n for n in every if n.startswith(f"{leaf}."))) if part in every}  # fmt: skip
        if parts and parts <= whole:
            words.append("head" if layer == network.head else layer)
            told |= parts
    if norms:
        words.append("norm statistics" if norms <= set(network.statistics) else "norms")
    rest = sorted(whole - told - norms)
    words += ["biases" for name in rest if name.endswith(".bias")]
    words += [PARTS.get(part, part) for part in (name.rpartition(".")[2] for name in rest) if part != "bias"]
    if partly:
        layers = [layer for layer, leaves in network.layers.items() if partly & set(leaves)]
        by_unit = all(_constant(own[name]) for name in partly)
        words.append(f"units of {', '.join(layers)}" if by_unit else "single elements")
    return words


def _constant(mask: torch.Tensor) -> bool:
    """Tell whether a mask (K or 1, units, ...) is the same all over each unit."""
    flat = mask.reshape(*mask.shape[:2], -1)
    return bool((flat.all(-1) == flat.any(-1)).all())


# --- what is needed --------------------------------------------------------------------------------------------


def _needs(case: Case, personal: str) -> list[str]:
    """Say what must be there or given: what has no default, and what the method will not do without, tried out."""
    method, cls = case.method(LAYERS), methods.find(case.name)
    needs = [f"{name} given" for name in required(cls)]
    if method.held_out:
        needs.append(f"validation data ({method.held_out:.0%})")
    network = build(NETWORK, np.random.default_rng(0))
    if any(method.prelude(network, CLIENTS)):
        needs.append("all clients at first")
    if _fails(method, NETWORK, participation=0.5):
        needs.append("all clients in every round")
    if _fails(case.method(("hidden",)), mlp(SIDE**2, WIDTH, CLASSES)):
        needs.append("convolutions")
    elif _fails(case.method(("hidden",)), lstm(CLASSES, vocabulary=9, hidden=4, layers=1, dense=WIDTH), tokens()):
        needs.append("numbers, not tokens")
    if personal == "norms" and not _run({"": method}, cnn(SIDE, CLASSES, hidden=WIDTH))[""]["state"]:
        needs.append("norm layers")
    if _fails(method, cnn(SIDE, 1, hidden=WIDTH, norm=True), numbers()):
        needs.append("class labels")
    if _fails(method, NETWORK, training=replace(TRAINING, momentum=0.9)):
        needs.append("plain SGD")
    elif _fails(method, NETWORK, training=replace(TRAINING, optimizer="adam", lr=0.001)):
        needs.append("SGD")
    return needs


def _fails(
    method: Method,
    model: Model,
    some: Clients | None = None,
    training: Training | None = None,
    participation: float = 1.0,
) -> bool:
    """Tell whether one round of a method is refused."""
    some, training = clients() if some is None else some, training or TRAINING
    try:
        next(rounds({"": method}, model, some, training, participation=participation))
    except ValueError:
        return True
    return False


@cache
def clients() -> Clients:
    """Return a few digits at a few clients."""
    x, y = digits()
    parts = dirichlet(y[:SAMPLES], CLIENTS, 0.3, min_size=12, seed=0)
    return from_indices(x[:SAMPLES], y[:SAMPLES], parts)


def numbers() -> Clients:
    """Return the same with a number to predict in the place of a class."""
    train = clients().train
    return Clients(Samples(train.x, np.asarray(train.x).mean(axis=(-2, -1)).reshape(train.y.shape), train.n))


def tokens() -> Clients:
    """Return the same with tokens in the place of pixels."""
    train = clients().train
    x = 1 + (np.asarray(train.x).reshape(len(train.y), -1)[:, :6] > 0).astype(np.int64)
    return Clients(Samples(x, train.y, train.n), classes=clients().classes)

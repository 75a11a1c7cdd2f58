"""One seed's data and initial network, which every method under that seed starts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedstat._mapped import Mapped, in_blocks
from fedstat._random import drawn, stream
from fedstat.data import Clients
from fedstat.federated.attacks import Attack, attackers, check_attack, falsified, poisoned, poisons
from fedstat.federated.attendance import Attendance, Attended, attended_by
from fedstat.federated.client.convolution import multiplied
from fedstat.federated.client.network import MIXED, Model, Network, build, floating
from fedstat.federated.client.samples import Job, StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.codec import Message
from fedstat.federated.state import State, Update


@dataclass(frozen=True, eq=False)
class Replicate:
    """Data and initial network of one seed.

    All clients start from `network`, which `model` built. `offset` is the first client's row among the stacked samples
    of all seeds. `attackers` are ids, none without an attack.
    """

    seeds: Seeds
    clients: Clients
    network: Network
    model: Model
    offset: int = 0
    attack: Attack | None = None
    attackers: np.ndarray = field(default_factory=partial(np.zeros, 0, int))
    _held_out: dict[str, StackedSamples] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """The master seed, by which the replicate is known."""
        return self.seeds.seed

    @property
    def split(self) -> str:
        """Name of the samples that models are evaluated on, unless others are asked for."""
        return next(name for name in ("test", "validation", "train") if name in self.clients.splits)

    def held_out(self, split: str) -> StackedSamples:
        """Return the samples of a split on the network's device."""
        if split not in self._held_out:
            if split not in self.clients.all_splits:
                raise ValueError(f"split must be one of {', '.join(self.clients.all_splits)}, got {split!r}.")
            self._held_out[split] = held_out(self.clients, split, self.network)
        return self._held_out[split]

    def draw(self, k: int) -> Network:
        """Return an initial network of client k's own."""
        if isinstance(self.model, nn.Module):
            raise ValueError("independent initial weights need a function that builds the network, not a module.")
        rng = self.seeds.stream("client weights", k)
        return build(self.model, rng, self.network.dtype, mixed=self.network.mixed)

    def jobs(self, ids: Iterable[int], work: Iterable[float] = (1.0,)) -> list[Job]:
        """Return the jobs of clients `ids`, of which they do the shares `work`, one for each or for all."""
        return [Job(self.offset + k, self.seeds, k, share) for k, share in zip(ids, cycle(work), strict=False)]

    def attended(self, t: int, participation: float | Attendance) -> Attended:
        """Return who comes to round t (from 0)."""
        if not isinstance(participation, float):
            return attended_by(participation, self.seeds, t, len(self.clients))
        return Attended(participants(self.seeds.of("participants"), t, len(self.clients.train.n), participation))

    def falsified(self, round: int, sent: Message, state: State, update: Update) -> Update:
        """Return the update of a round, in which `sent` would travel up, after what attackers among them falsify."""
        assert self.attack is not None
        return falsified(self.attack, self.attackers, sent, state, update, self.seeds.stream("attack", round))


def held_out(clients: Clients, split: str, network: Network) -> StackedSamples:
    """Stack the samples of a split on the network's device, with their majority shares."""
    samples = StackedSamples.stack([clients.all_splits[split]], network.dtype, network.device)
    return samples if clients.classes is None else replace(samples, majority=clients.majority_share(split))


def participants(seed: int, round: int, clients: int, participation: float) -> np.ndarray:
    """Return the sorted ids of the clients that take part in `round`: a function of seed and round alone."""
    return drawn(stream(seed, "participants", round), clients, participation)


def make_replicate(data: Clients, model: Model, seeds: Seeds, dtype: str, device: str, offset: int = 0) -> Replicate:
    """Pair one seed's data with its initial network, whose ``dtype`` is that of a run.

    Data that the floating type or the network's vocabulary cannot hold raise a ValueError.
    """
    network = build(model, seeds.stream("initial weights"), floating(dtype), mixed=dtype == MIXED)
    check_samples(network, data)
    network.module.to(device)
    if network.device.type == "cuda":
        multiplied(network.module)
    return Replicate(seeds, data, network, model, offset)


def attacked(replicates: Mapping[int, Replicate], attack: Attack) -> dict[int, Replicate]:
    """Return the replicates with their attackers; where these poison data, every seed's samples are its own.

    What is no attack, does not fit the data or leaves no client honest raises a ValueError.
    """
    check_attack(attack)
    found, offset = {}, 0
    for seed, replicate in replicates.items():
        who = attackers(attack, len(replicate.clients), replicate.seeds)
        clients = poisoned(attack, replicate.clients, who)
        place = offset if poisons(attack) else replicate.offset
        found[seed] = replace(replicate, clients=clients, offset=place, attack=attack, attackers=who)
        offset += len(clients)
    return found


def check_samples(network: Network, data: Clients) -> None:
    """Refuse numbers that the network's floating type cannot hold, and tokens that it has no embedding of."""
    for split, samples in data.all_splits.items():
        for name, values in (("x", samples.x), ("y", samples.y)):
            if values.dtype.kind == "f" and values.dtype.itemsize > network.dtype.itemsize:
                _check_range(name, values, network, data, split)
        if samples.x.dtype.kind in "iu" and samples.x.dtype != np.uint8:
            _check_tokens(samples.x, network, data, split)


def _check_range(name: str, values: np.ndarray | Mapped, network: Network, data: Clients, split: str) -> None:
    most, dtype = torch.finfo(network.dtype).max, str(network.dtype).removeprefix("torch.")
    for place, value in _extremes(values):
        if abs(value) > most:
            raise ValueError(
                f"{name} must be at most {most:.4g} in {dtype}, but {_which(data, split, place)} holds "
                f'{value:g}. Scale it, or take dtype="float64".'
            )


def _check_tokens(x: np.ndarray | Mapped, network: Network, data: Clients, split: str) -> None:
    for place, value in _extremes(x):
        vocabulary = _exceeded(network, torch.from_numpy(x[place : place + 1]))
        if vocabulary is not None:
            raise ValueError(
                f"x must hold tokens 0 to {vocabulary - 1}, as the network has a vocabulary of {vocabulary}, but "
                f"{_which(data, split, place)} holds {value}."
            )


def _which(data: Clients, split: str, place: int) -> str:
    k, i = data.all_splits[split].whose(place)
    return f"{split} sample {i}" + ("" if split == "common" else f" of client {data.names[k]}")


def _extremes(values: np.ndarray | Mapped) -> list[tuple[int, Any]]:
    """Return the place of the sample with the smallest number, and the number; and likewise the largest."""
    found: list[tuple[int, Any]] = []
    for first, block in in_blocks(values):
        rows = block.reshape(len(block), -1)
        found += [(first + int(k) // rows.shape[1], rows.flat[k]) for k in (rows.argmin(), rows.argmax())]
    return [min(found, key=itemgetter(1)), max(found, key=itemgetter(1))]


@torch.no_grad()
def _exceeded(network: Network, sample: Tensor) -> int | None:
    """Return the size of an embedding that has no row for one of a sample's tokens; None where all have."""
    found = None

    def ask(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal found
        if inputs[0].min() < 0 or inputs[0].max() >= layer.num_embeddings:  # type: ignore[operator]
            found = int(layer.num_embeddings)  # type: ignore[arg-type]
            raise IndexError("a token has no embedding")  # before a device fails at it, which ends the process

    layers = [layer for layer in network.module.modules() if isinstance(layer, nn.Embedding | nn.EmbeddingBag)]
    hooks = [layer.register_forward_pre_hook(ask) for layer in layers]
    try:
        network(network.initial(), network.inputs(sample.to(network.device)))
    except (RuntimeError, IndexError, AttributeError, TypeError, ValueError) as error:
        if found is None:
            shape = tuple(sample.shape[1:])
            raise ValueError(f"the network does not take inputs of shape {shape}: {error}") from None
    finally:
        for hook in hooks:
            hook.remove()
    return found

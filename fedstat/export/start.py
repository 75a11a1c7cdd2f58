"""How a run starts at an end that sees nobody's data: from the model, the seed and the number of clients."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import choice
from fedstat.export.packet import refusal
from fedstat.federated.client.local import Training
from fedstat.federated.client.network import Model, Params, build, floating
from fedstat.federated.client.samples import Job, StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.composition import check_composition
from fedstat.federated.fingerprint import digest, plain
from fedstat.federated.method import Method, rows, stack
from fedstat.federated.replicate import Replicate
from fedstat.federated.rounds import make_federation
from fedstat.federated.route import Equipment
from fedstat.federated.state import Federation, State
from fedstat.federated.store import ClientStore


class Asked(Exception):
    """Raised where a method's start needs what only the clients have; `repeat` if it is a warm-up."""

    def __init__(self, what: str, repeat: int | None = None) -> None:
        super().__init__(what)
        self.repeat = repeat


@dataclass(frozen=True, eq=False)
class _Counts:
    """All that is known of the clients' training samples: how many they are, if that."""

    counts: np.ndarray | None = None

    @property
    def n(self) -> np.ndarray:
        """Training samples of each client."""
        if self.counts is None:
            raise Asked("it needs the number of every client's training samples")
        return self.counts

    def __getattr__(self, name: str) -> Any:
        raise Asked(f"before the first round it looks at clients' samples (train.{name}), which stay with them")


@dataclass(frozen=True, eq=False)
class Roster:
    """Stand in for `Clients` where their data are not: how many there are, of which classes.

    Class codes are None for regression; `train` has the numbers of training samples, where they are known.
    """

    size: int
    classes: tuple[int, ...] | None
    train: _Counts = _Counts()

    def __len__(self) -> int:
        return self.size

    def __getattr__(self, name: str) -> Any:
        raise Asked(f"before the first round it looks at clients' {name}, which stays with them")


@dataclass(frozen=True, eq=False)
class Seat(Replicate):
    """A replicate as one place of a real federation has it: at most one client's data, which are the first row."""

    def jobs(self, ids: Iterable[int], work: Iterable[float] = (1.0,)) -> list[Job]:
        """Return the jobs of clients `ids`, all on the data at hand."""
        return [replace(job, row=0) for job in super().jobs(ids, work)]


def take_seat(model: Model, seed: int, dtype: str, clients: int, classes: tuple[int, ...] | None) -> Seat:
    """Build the network that everybody starts from; as `fedstat.federated.replicate` does, by the same keys."""
    choice("dtype", dtype, ("float32", "float64"))
    seeds, kind = Seeds(seed), floating(dtype)
    roster: Any = Roster(clients, classes)
    return Seat(seeds, roster, build(model, seeds.stream("initial weights"), kind), model)


def setting_of(*shared: Any) -> int:
    """Return a number that tells what all places must share from anything else; own functions count by their names."""
    return int(digest(plain(shared))[:7], 16)


def federation_of(
    method: Method, seat: Seat, training: Training, counts: np.ndarray | None, warmups: dict[int, Params] | None
) -> Federation:
    """Return the federation as a place sees it.

    `counts` (K,) are the clients' training samples, and `warmups` what came of the warm-ups so far, (K, ...) by
    repeat; None where they are not known.
    """
    nothing = StackedSamples(torch.zeros(0), torch.zeros(0), np.zeros(0, int), torch.float32)
    federation = make_federation(method, seat, Equipment("cross_entropy", training, nothing))
    roster: Any = Roster(len(seat.clients), seat.clients.classes, _Counts(counts))

    def warmup(start: Params, repeat: int = 0, ids: Tensor | None = None) -> Params:
        if warmups is None or repeat not in warmups:
            raise Asked("all clients must train before the first round", repeat)
        common = federation.network.initial()
        if start.keys() != common.keys() or any(not (start[n] == leaf).all() for n, leaf in common.items()):
            raise Asked("its warm-up starts elsewhere than at the common start")
        return warmups[repeat] if ids is None else rows(warmups[repeat], ids)

    def train(*_: Any, **__: Any) -> Params:
        raise Asked("it runs its own local steps at all clients before the first round")

    return replace(federation, clients=roster, warmup=warmup, train=train, statistics=train)


def common_start(method: Method, federation: Federation) -> State:
    """Return the state before the first round as far as everybody can tell it without anybody's data.

    A method whose own start needs data starts as `Method` does; the server finds out whether clients miss something. If
    even the leaves need data, it is `Refused`.
    """
    network = federation.network
    with suppress(Asked):
        return method.init(network, federation)
    with suppress(Asked):  # the masks come from data as well, and are told
        return Method.init(method, network, federation)
    try:
        return State(method.leaves(network, federation))
    except Asked as asked:
        raise refusal(method, str(asked)) from None


def with_masks(state: State, masks: Params, clients: int) -> State:
    """Return a start whose masks were decided by a warm-up: clients keep what they do not share."""
    kept = {name: state.server[name] for name, mask in masks.items() if not mask.all()}
    store = ClientStore.filled(kept, clients) if kept else ClientStore.empty()
    return replace(state, clients=store, shared=masks)


def own_view(start: Params, store: ClientStore, ids: Tensor) -> Params:
    """Return what clients `ids` know before a message comes, (m, ...): the common start, and what they keep."""
    return {**stack(start, len(ids)), **store.rows(ids)}


def check_noise(method: Method, state: State) -> None:
    """Refuse a mechanism that the method has no place for, or that needs more of clients than these do.

    Clients must not be the ones who add the noise: a reply that is left out would take its share along.
    """
    if method.mechanism is None:
        return
    check_composition(method, state)
    if getattr(method.mechanism, "at", None) != "server":
        raise refusal(
            method,
            f"{method.mechanism!r} relies on what every client adds, and a reply may be left out; take one whose noise "
            'the server adds (at="server")',
        )

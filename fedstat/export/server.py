"""A method's server: the shared part and the update rule, without anybody's data or personal leaves.

It holds two beliefs of the run's state, which are equal in all that it was told and differ in all that it was not: the
personal leaves. In one of them they are zero, in the other one. Whatever it sends and whatever it comes to must be the
same by both; where it is not, the method needs at the server what no message brings there, and is refused by name.
Before it sends a message it puts it together as the client will, and compares.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import number as real
from fedstat._checks import whole
from fedstat.export.packet import (
    Ask,
    Packet,
    Refused,
    check,
    combine,
    number,
    pack,
    pack_masks,
    refusal,
    sends_bits,
    unpack,
)
from fedstat.export.start import Asked, common_start, federation_of, own_view, take_seat, with_masks
from fedstat.federated.local import Training
from fedstat.federated.method import Method, State, Update, rows
from fedstat.federated.network import Model, Params
from fedstat.federated.rounds import participants

#: What stands in the two beliefs where the server was told nothing.
_FILLS = (0.0, 1.0)
_MOST = 2**31 - 1

#: One packet for, or from, each of some clients.
Packets = Mapping[int, Packet]


class Server:
    """The server of a method.

    Parameters
    ----------
    method : Method
        The method, with the same settings at the server and at all clients.
    model : callable or nn.Module
        What builds the network, the same everywhere.
    training : Training
        Local training, the same everywhere.
    clients : int
        How many clients the federation has; all must be there before the first round.
    participation : float
        Share of clients drawn in each round.
    seed : int
        The run's seed; under the same one the run equals `fedstat.federate`, up to rounding.
    dtype : {"float32", "float64"}
        Floating type of the leaves.

    Raises
    ------
    ValueError
        If arguments are out of range.

    Examples
    --------
    A round by hand, with the packets carried by the loop:

    >>> import tempfile
    >>> import numpy as np
    >>> import fedstat as fs
    >>> x = np.random.default_rng(0).normal(size=(3, 20, 4))
    >>> setting = fs.methods.FedPer(), fs.models.mlp(4, 3, 2)
    >>> training, folder, ends = fs.Training(lr=0.1), tempfile.mkdtemp(), []
    >>> for k in range(3):
    ...     data = fs.data.from_indices(x[k], (x[k, :, 0] > 0) * 1, [np.arange(20)], classes=[0, 1])
    ...     ends.append(fs.export.Client(*setting, data, training, number=k, clients=3, folder=folder))
    >>> server = fs.export.Server(*setting, training, clients=3)
    >>> asked = list(server.opening({k: ends[k].answer(fs.export.Packet({}, {"ask": 0})) for k in range(3)}))
    >>> server.aggregate({k: ends[k].answer(packet) for k, packet in server.requests().items()})
    >>> server.round
    1
    """

    def __init__(
        self,
        method: Method,
        model: Model,
        training: Training,
        *,
        clients: int,
        participation: float = 1.0,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.method, self.model, self.training = method, model, training
        self.clients, self.seed, self.dtype = whole("clients", clients, 1), seed, dtype
        self.participation = real("participation", participation, "(0, 1]")
        if clients < method.fewest:
            raise ValueError(f"{self._name} needs at least {method.fewest} clients, got clients={clients}.")
        self.round = 0
        self._beliefs: tuple[State, ...] = ()
        self._started: tuple[np.ndarray, tuple[Params, ...]] | None = None

    @property
    def state(self) -> State:
        """What the server knows; what clients keep for themselves is zero in it."""
        if not self._beliefs:
            raise ValueError("the run has not begun: there is no state before the clients said who they are.")
        return self._beliefs[0]

    def opening(self, hellos: Packets) -> Generator[Packets, Packets, None]:
        """Begin a run: yield what clients are asked before the first round, and be sent their answers.

        Parameters
        ----------
        hellos : mapping of int to Packet
            All clients' answers to the question who they are.

        Raises
        ------
        Refused
            If clients do not fit together, or the method cannot start without their data.
        """
        counts, classes = self._counted(hellos)
        self._weights = counts
        seat = take_seat(self.model, self.seed, self.dtype, self.clients, classes)
        self._seeds = seat.seeds
        blind = federation_of(self.method, seat, self.training, None, None)
        self.network = blind.network
        known, warmups = common_start(self.method, blind), dict[int, Params]()
        while True:
            federation = federation_of(self.method, seat, self.training, counts, warmups)
            try:
                state = self.method.init(self.network, federation)
                break
            except Asked as asked:
                if asked.repeat is None:
                    raise self._refusal(str(asked)) from None
                question = {"ask": int(Ask.WARM_UP), "repeat": asked.repeat}
                replies = yield dict.fromkeys(range(self.clients), Packet({}, question))
                warmups[asked.repeat] = self._warmed_up(replies)
        if warmups:
            replies = yield {k: pack_masks(state.shared, k) for k in range(self.clients)}
            self._complete(replies)
            known = with_masks(known, state.shared, self.clients)
        self._compare_starts(known, state)
        self._beliefs, self._common, self.round = (state,) * len(_FILLS), known.server, 0

    def requests(self) -> Packets:
        """Return what the participants of the next round are sent.

        Raises
        ------
        Refused
            If it depends on what clients keep, or would not tell them all that they start from.
        """
        t = self.round
        ids = participants(self._seeds.of("participants"), t, self.clients, self.participation)
        arrays, starts = self._downloads(ids)
        self._started = ids, starts
        numbers = {"ask": int(Ask.TRAIN), "round": t}
        return {int(k): Packet(own, numbers) for k, own in zip(ids, arrays, strict=True)}

    def aggregate(self, replies: Packets) -> None:
        """End the round with what participants sent back; who did not answer is left out.

        Raises
        ------
        Refused
            If a reply is not what the method's message is, or the server's step depends on what clients keep.
        """
        if self._started is None:
            raise ValueError("nobody was asked to train: call requests first.")
        asked, starts = self._started
        there = [row for row, k in enumerate(asked.tolist()) if k in replies]
        self._started = None
        if not there:
            raise Refused(f"none of the {len(asked)} participants of round {self.round + 1} answered.")
        ids, after = asked[there], []
        for belief, start, fill in zip(self._beliefs, starts, _FILLS, strict=True):
            received = {name: leaf[there] for name, leaf in start.items()}
            update = self._update(ids, received, self._ends(belief, ids, received, replies, fill))
            self._compare_uploads(belief, update, replies)
            new = self.method.aggregate(belief, update)
            self._compare_rows(belief, new, update)
            after.append(new)
        first, second = after
        for what in ("server", "memory", "shared"):
            if broken := _different(getattr(first, what), getattr(second, what)):
                raise self._refusal(f"the server's step would need what clients keep, for {broken!r}")
        if _different(self._beliefs[0].shared, first.shared):
            raise self._refusal("who shares what changes from round to round, and clients are not told the masks")
        self._beliefs, self.round = (first, second), self.round + 1

    def questions(self) -> Packets:
        """Return what all clients are sent to measure their models."""
        arrays, _ = self._downloads(np.arange(self.clients))
        return {k: Packet(own, {"ask": int(Ask.EVALUATE), "round": self.round}) for k, own in enumerate(arrays)}

    @property
    def _name(self) -> str:
        return type(self.method).__name__

    def _refusal(self, why: str) -> Refused:
        return refusal(self.method, why)

    def _complete(self, replies: Packets) -> None:
        if missing := [k for k in range(self.clients) if k not in replies]:
            raise Refused(f"all {self.clients} clients must answer before the first round; {missing} did not.")

    def _counted(self, hellos: Packets) -> tuple[np.ndarray, tuple[int, ...] | None]:
        """Return every client's training samples, and the classes that all agree on."""
        self._complete(hellos)
        counts = np.array([number(hellos[k], "samples", 1, _MOST) for k in range(self.clients)])
        classes = {number(hellos[k], "classes", -1, _MOST) for k in range(self.clients)}
        if len(classes) > 1:
            raise Refused(
                f"all clients must have the same classes, but they have {sorted(classes)} of them (-1: none)."
            )
        count = classes.pop()
        return counts, None if count < 0 else tuple(range(count))

    def _warmed_up(self, replies: Packets) -> Params:
        """Return what all clients trained before the first round, (K, ...), as far as the prelude says it."""
        self._complete(replies)
        leaves, stacked = self.network.initial(), dict[str, list[Tensor]]()
        sent, _ = self.method.prelude(self.network, 1)
        if not sent:
            raise self._refusal("it trains before the first round, and names no message that would tell the server")
        for k in range(self.clients):
            if replies[k].arrays.keys() != sent.keys():
                raise Refused(f"client {k} must send {sorted(sent)}, it sent {sorted(replies[k].arrays)}.")
            values, _ = unpack(replies[k].arrays, {name: leaves[name][None] for name in sent}, {})
            for name, value in values.items():
                stacked.setdefault(name, []).append(value)
        return {name: torch.cat(values) for name, values in stacked.items()}

    def _compare_starts(self, known: State, state: State) -> None:
        """Refuse a method whose clients could not tell their own start."""
        if broken := _different(known.server, state.server) or _different(known.shared, state.shared):
            raise self._refusal(f"clients cannot tell the start of {broken!r} without the others' data")
        if further := [name for name in state.clients if name not in known.clients]:
            raise self._refusal(
                f"the server keeps {further[0]!r} of every client, which clients do not keep themselves"
            )
        if known.clients.versions != state.clients.versions:
            raise self._refusal("clients cannot tell their personal start without the others' data")

    def _downloads(self, ids: np.ndarray) -> tuple[list[dict[str, np.ndarray]], tuple[Params, ...]]:
        """Return every client's arrays, and what they start from in each belief; refuse what they cannot rebuild."""
        which, found, starts = torch.from_numpy(ids), [], []
        for belief in self._beliefs:
            start = self.method.receive(belief, which)
            message = self.method.download(belief, self._update(ids, start, start))
            arrays = [pack(message, row, self.method) for row in range(len(ids))]
            if arrays and (bits := sends_bits(arrays[0])) is not None:
                raise self._refusal(
                    f"its server tells clients truth values {bits!r} in every round, which only it reads"
                )
            for row in range(len(ids)):
                one = which[row : row + 1]
                known, masks = own_view(self._common, belief.clients, one), rows(belief.shared, one)
                try:
                    rebuilt = combine(known, *unpack(arrays[row], known, masks))
                except Refused as error:
                    raise self._refusal(f"its messages are in a form that clients could not read ({error})") from None
                if broken := _different(rebuilt, {name: leaf[row : row + 1] for name, leaf in start.items()}):
                    raise self._refusal(f"its messages do not tell a client {broken!r} in a form that it could read")
            found.append(arrays)
            starts.append(start)
        for row, (one, other) in enumerate(zip(*found, strict=True)):
            for name in one:
                if not np.array_equal(one[name], other[name]):
                    raise self._refusal(f"what it sends client {ids[row]} as {name!r} depends on what clients keep")
        return found[0], tuple(starts)

    def _ends(self, belief: State, ids: np.ndarray, start: Params, replies: Packets, fill: float) -> Params:
        """Return what participants came to, (m, ...): what they sent, and `fill` where they sent nothing."""
        ends = dict[str, list[Tensor]]()
        for row, k in enumerate(ids.tolist()):
            known = {name: leaf[row : row + 1] for name, leaf in start.items()}
            if (bits := sends_bits(replies[k].arrays)) is not None:
                raise self._refusal(f"clients send truth values {bits!r}, whose shape the server does not know")
            blank = {name: torch.full_like(leaf, fill) for name, leaf in known.items()}
            values, said = unpack(replies[k].arrays, known, rows(belief.shared, torch.tensor([k])))
            for name, value in combine(blank, values, said).items():
                ends.setdefault(name, []).append(value)
        if ragged := [
            name for name, values in ends.items() if len({v.shape for v in values}) > 1 or len(values) < len(ids)
        ]:
            raise Refused(f"clients {ids.tolist()} sent {ragged[0]!r} in different shapes, or not all of them.")
        return {name: torch.cat(values) for name, values in ends.items()}

    def _update(self, ids: np.ndarray, start: Params, end: Params) -> Update:
        """Return an update as the simulation makes it (`fedstat.federated.run.Run.aggregate`)."""
        rng = self._seeds.stream("server", self.round)
        return Update.of(self.method, ids, self._weights[ids], start, end, rng, self.network)

    def _compare_uploads(self, belief: State, update: Update, replies: Packets) -> None:
        """Refuse replies that are not the method's message of what they say."""
        try:
            message = self.method.upload(belief, update)
        except KeyError as error:
            raise Refused(f"clients did not send {error}, which {self._name}'s message holds.") from None
        for row, k in enumerate(update.ids.tolist()):
            due, came = pack(message, row, self.method), replies[k].arrays
            if due.keys() != came.keys():
                raise Refused(f"client {k} must send {sorted(due)}, it sent {sorted(came)}.")
            for name, array in due.items():
                check(name, came[name], array.shape, array.dtype)
                if not name.startswith("bits:") and not np.array_equal(array, came[name]):
                    raise self._refusal(f"what clients send as {name!r} is not what they trained")

    def _compare_rows(self, before: State, after: State, update: Update) -> None:
        """Refuse a server's step that would change what clients keep."""
        kept = after.clients.rows(update.ids)
        if broken := _different(kept, {name: update.end[name] for name in kept}):
            raise self._refusal(f"its server changes {broken!r}, which clients keep")
        absent = np.setdiff1d(np.arange(self.clients), update.ids.numpy())
        if after.clients and len(absent):
            old, new = before.clients.versions, after.clients.versions
            if any(old[k] != new[k] for k in absent.tolist()):
                raise self._refusal("its server changes what absent clients keep")


def _different(one: Params, other: Params) -> str | None:
    """Return the first name that two sets of tensors do not both have with the same values, if there is one."""
    names: Collection[str] = dict.fromkeys([*one, *other])
    return next((n for n in names if n not in one or n not in other or not torch.equal(one[n], other[n])), None)

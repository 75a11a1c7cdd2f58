"""A method's server: the shared part and the update rule, without anybody's data or personal leaves.

It holds two beliefs of the run's state, which are equal in all that it was told and differ in all that it was not: the
personal leaves. In one of them they are zero, in the other one. Whatever it sends and whatever it comes to must be the
same by both; where it is not, the method needs at the server what no message brings there, and is refused by name.
Before it sends a message it puts it together as the client will, and compares.

A reply that is not what it must be leaves its client, and no other, out of the round. Who entered which average is
recorded.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from secrets import randbits
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from fedstat._checks import number as real
from fedstat._checks import whole
from fedstat.export.coded import unpack_coded
from fedstat.export.compare import compare_rows, compare_starts, compare_upload, different
from fedstat.export.packet import (
    Ask,
    Packet,
    Refused,
    Unfit,
    combine,
    number,
    pack,
    pack_masks,
    question,
    refusal,
    sends_bits,
    unpack,
)
from fedstat.export.start import (
    Asked,
    check_noise,
    common_start,
    federation_of,
    own_view,
    setting_of,
    take_seat,
    with_masks,
)
from fedstat.federated.attendance import Attended, expected_of
from fedstat.federated.client.local import Training
from fedstat.federated.client.network import Model, Params
from fedstat.federated.method import Method, aggregated, rows, unattended, weighed
from fedstat.federated.replicate import participants
from fedstat.federated.state import State, Update
from fedstat.inference import count_missing

T = TypeVar("T")

#: What stands in the two beliefs where the server was told nothing.
_FILLS = (0.0, 1.0)

#: One packet for each of some clients.
Packets = Mapping[int, Packet]
#: What came back from each of some clients: a packet, or why what came is none.
Replies = Mapping[int, Packet | Refused]
#: Columns of the two tables.
_HISTORY = {"round": "int64", "client": "int64", "estimand": "str", "metric": "str", "value": "float64"}
_ENTERED = {"round": "int64", "client": "int64", "entered": "bool", "distance": "float64", "why": "str"}


class Server:
    """The server of a method.

    Parameters
    ----------
    method, model, training, dtype
        As in `Client`, the same everywhere.
    clients : int
        How many clients the federation has; all must be there before the first round.
    participation : float
        Share of clients drawn in each round.
    seed : int
        The run's seed; under the same one the run equals `fedstat.federate`, up to rounding. Beside a mechanism who
        takes part and its noise are drawn from the operating system instead.
    farthest : float, optional
        How far a reply may lie from what its client was sent, in the Euclidean norm over all that it sends; one that
        lies farther is refused. `entered` shows how far honest ones lie. By default there is no bound.

    Attributes
    ----------
    history : DataFrame
        What clients measured on their own held-out samples: round, client, estimand, metric, value.
    entered : DataFrame
        Who was asked to train in each round: round, client, whether the reply entered the average (entered), how far it
        lay from what was sent (distance, NaN if the reply could not be read), and why it was left out (why).

    Raises
    ------
    ValueError
        If arguments are out of range.

    Examples
    --------
    A round by hand, with the packets carried by the loop:

    >>> import tempfile
    >>> import fedstat as fs
    >>> setting = fs.methods.FedPer(), fs.models.mlp(4, 3, 2)
    >>> training, folder, ends = fs.Training(lr=0.1), tempfile.mkdtemp(), []
    >>> for k in range(3):
    ...     data = fs.data.relu_mixture(clients=1, d=4, units=8, seed=k)
    ...     ends.append(fs.export.Client(*setting, data, training, number=k, clients=3, folder=folder))
    >>> server = fs.export.Server(*setting, training, clients=3)
    >>> hello = fs.export.Packet({}, {"ask": 0, "round": 0})
    >>> asked = list(server.opening({k: ends[k].answer(hello) for k in range(3)}))
    >>> replies = {k: ends[k].answer(packet) for k, packet in server.requests().items()}
    >>> del replies[1]
    >>> server.aggregate(replies)
    >>> server.round
    1
    >>> server.entered.query("not entered")[["round", "client", "why"]].values.tolist()
    [[1, 1, 'it did not answer.']]
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
        farthest: float | None = None,
    ) -> None:
        self.method, self.model, self.training = method, model, training
        self.clients, self.seed, self.dtype = whole("clients", clients, 1), seed, dtype
        if callable(participation):
            raise ValueError(
                f"participation must be a number in (0, 1], got {participation!r}: real clients drop out by themselves."
            )
        self.participation = real("participation", participation, "(0, 1]")
        self.farthest = np.inf if farthest is None else real("farthest", farthest, "(0, inf)")
        if clients < method.fewest:
            raise ValueError(f"{type(method).__name__} needs at least {method.fewest} clients, got clients={clients}.")
        self._fewest = getattr(method.aggregator, "fewest", 1)
        if (most := len(participants(0, 0, clients, self.participation))) < self._fewest:
            raise ValueError(f"{method.aggregator!r} needs {self._fewest} participants in a round, there are {most}.")
        self.round = 0
        self.history = pd.DataFrame(columns=list(_HISTORY)).astype(_HISTORY)
        self.entered = pd.DataFrame(columns=list(_ENTERED)).astype(_ENTERED)
        self._beliefs: tuple[State, ...] = ()
        self._started: tuple[np.ndarray, tuple[Params, ...]] | None = None
        self._forms = Counter[frozenset[Any]]()

    @property
    def state(self) -> State:
        """What the server knows; what clients keep for themselves is zero in it."""
        if not self._beliefs:
            raise ValueError("the run has not begun: there is no state before the clients said who they are.")
        return self._beliefs[0]

    def opening(self, hellos: Replies) -> Generator[Packets, Replies, None]:
        """Begin a run: yield what clients are asked before the first round, and be sent their answers.

        Parameters
        ----------
        hellos : mapping of int to Packet
            All clients' answers to the question who they are.

        Raises
        ------
        Refused
            If a client is missing or sends a reply that cannot be used, clients do not fit together, or the method
            cannot start without their data.
        """
        counts, classes = self._counted(hellos)
        self._weights = counts
        seat = take_seat(self.model, self.seed, self.dtype, self.clients, classes)
        self._seeds, self._secret = seat.seeds, randbits(128)
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
                replies = yield dict.fromkeys(range(self.clients), question(Ask.WARM_UP, asked.repeat))
                warmups[asked.repeat] = self._warmed_up(replies, asked.repeat)
        if warmups:
            replies = yield {k: pack_masks(state.shared, k) for k in range(self.clients)}
            self._complete(replies, Ask.MASKS, 0, lambda _: None)
            known = with_masks(known, state.shared, self.clients)
        compare_starts(self.method, known, state)
        check_noise(self.method, state)
        self._beliefs, self._common, self.round = (state,) * len(_FILLS), known.server, 0

    def requests(self) -> Packets:
        """Return what the participants of the next round are sent.

        Raises
        ------
        Refused
            If it depends on what clients keep, or would not tell them all that they start from.
        """
        t = self.round
        # who took part hides nobody from clients who could draw it themselves
        seed = self._seeds.of("participants") if self.method.mechanism is None else self._secret
        ids = participants(seed, t, self.clients, self.participation)
        arrays, starts = self._downloads(ids)
        self._started = ids, starts
        return {int(k): question(Ask.TRAIN, t, own) for k, own in zip(ids, arrays, strict=True)}

    def aggregate(self, replies: Replies) -> None:
        """End the round with what participants sent back; whose reply cannot be used is left out, as `entered` tells.

        If no reply can be used, or fewer than an aggregator needs, or if their average is not finite, the round ends
        without a step. Beside a mechanism a change that is left out counts as zero, also if all are.

        Raises
        ------
        Refused
            If the method cannot run with real clients: its messages cannot be read, or the server's step depends on
            what clients keep.
        """
        if self._started is None:
            raise ValueError("nobody was asked to train: call requests first.")
        asked, starts = self._started
        self._started = None
        ends, distances, left = dict[int, tuple[Params, ...]](), dict[int, float](), dict[int, Refused]()
        for row, k in enumerate(asked.tolist()):
            own = [{name: leaf[row : row + 1] for name, leaf in start.items()} for start in starts]
            try:
                ends[k], distances[k] = self._trained(k, own, replies.get(k))
            except Refused as error:
                left[k] = error
        if not self._forms and not ends and all(isinstance(error, Unfit) for error in left.values()):
            raise left[int(asked[0])]
        left |= self._odd(ends, distances)
        there = [row for row, k in enumerate(asked.tolist()) if k not in left]
        received = [{name: leaf[there] for name, leaf in start.items()} for start in starts]
        came = zip(*(ends[k] for k in asked[there].tolist()), strict=True)
        after = self._step(asked[there], received, [_stacked(each) for each in came])
        if after is None:
            few = f"{self.method.aggregator!r} needs {self._fewest} usable replies, there are {len(there)}."
            why = few if len(there) < self._fewest else "the average with it is not finite."
            left |= dict.fromkeys(asked[there].tolist(), Refused(why))
            after = tuple(replace(belief, round=belief.round + 1) for belief in self._beliefs)
        self._beliefs, self.round = after, self.round + 1
        self._record(asked, distances, left, replies)

    def questions(self) -> Packets:
        """Return what all clients are sent to measure their models."""
        arrays, _ = self._downloads(np.arange(self.clients))
        return {k: question(Ask.EVALUATE, self.round, own) for k, own in enumerate(arrays)}

    def measured(self, replies: Replies) -> pd.DataFrame:
        """Take in what clients measured after the round: return it, and add it to `history`."""
        lines, told = list[tuple[int, int, str, str, float]](), list[str]()
        for k, came in sorted(replies.items()):
            try:
                numbers = self._answer(k, came, Ask.EVALUATE, self.round).numbers
            except Refused as error:
                told.append(f"what client {k} measured after round {self.round} is left out: {error}")
                continue
            named = [(*name.partition("/"), value) for name, value in numbers.items() if "/" in name]
            lines += [(self.round, k, estimand, metric, float(value)) for estimand, _, metric, value in named]
        table = pd.DataFrame(lines, columns=list(_HISTORY)).astype(_HISTORY)
        labelled = table.assign(method=table["estimand"] + "/" + table["metric"], seed=self.seed)
        told += [f"{name}: {words}. There is no mean over clients." for name, words in count_missing(labelled).items()]
        self.history = pd.concat([self.history, table], ignore_index=True)
        for words in told:
            warnings.warn(words, RuntimeWarning, 2)
        return table

    def returned(self, reply: Packet | Refused) -> int:
        """Return which client it is whose connection broke and who came back.

        Raises
        ------
        Refused
            If it is no client of this run, or says that it has another number of samples than when it joined.
        """
        k = number(reply, "number", 0, self.clients - 1) if isinstance(reply, Packet) else -1
        self._answer(k, reply, Ask.RETURN, self.round)
        return k

    def _refusal(self, why: str) -> Refused:
        return refusal(self.method, why)

    def _answer(self, k: int, reply: Packet | Refused | None, ask: Ask, round: int) -> Packet:
        """Return a client's reply; refuse one that did not come, answers another question, or changes its samples."""
        if reply is None:
            raise Refused("it did not answer.")
        if isinstance(reply, Refused):
            raise reply
        due = {"ask": int(ask), "round": round}
        if ask != Ask.HELLO:
            due["samples"] = int(self._weights[k])
        for name, value in due.items():
            if (said := number(reply, name, 0)) != value:
                raise Refused(f"the number {name!r} of its reply must be {value}, got {said}.")
        return reply

    def _complete(self, replies: Replies, ask: Ask, round: int, read: Callable[[Packet], T]) -> list[T]:
        """Return what all clients' replies say; before the first round nobody can be left out."""
        if missing := [k for k in range(self.clients) if k not in replies]:
            raise Refused(f"all {self.clients} clients must answer before the first round; {missing} did not.")
        found = []
        for k in range(self.clients):
            try:
                found.append(read(self._answer(k, replies[k], ask, round)))
            except Refused as error:
                raise Refused(f"client {k} cannot be left out before the first round: {error}") from None
        return found

    def _counted(self, hellos: Replies) -> tuple[np.ndarray, tuple[int, ...] | None]:
        """Return every client's training samples, and the classes that all agree on."""

        def told(hello: Packet) -> tuple[int, int, int]:
            return number(hello, "samples", 1), number(hello, "classes", -1), number(hello, "setting", 0)

        counts, each, settings = zip(*self._complete(hellos, Ask.HELLO, 0, told), strict=True)
        due = setting_of(self.method, self.model, self.training, self.clients, self.seed, self.dtype)
        if others := [k for k, setting in enumerate(settings) if setting != due]:
            raise Refused(
                f"clients {others} do not share the server's method, model, training, number of clients, seed or "
                "dtype; let all import them from one module."
            )
        classes = set(each)
        if len(classes) > 1:
            raise Refused(
                f"all clients must have the same classes, but they have {sorted(classes)} of them (-1: none)."
            )
        count = classes.pop()
        return np.array(counts), None if count < 0 else tuple(range(count))

    def _warmed_up(self, replies: Replies, repeat: int) -> Params:
        """Return what all clients trained before the first round, (K, ...), as far as the prelude says it."""
        sent, _ = self.method.prelude(self.network, 1)
        if not sent:
            raise self._refusal("it trains before the first round, and names no message that would tell the server")
        known = {name: leaf[None] for name, leaf in self.network.initial().items() if name in sent}

        def trained(reply: Packet) -> Params:
            if reply.arrays.keys() != sent.keys():
                raise Refused(f"it must send {sorted(sent)}, it sent {sorted(reply.arrays)}.")
            return unpack(reply.arrays, known, {})[0]

        return _stacked(self._complete(replies, Ask.WARM_UP, repeat, trained))

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
                if broken := different(rebuilt, {name: leaf[row : row + 1] for name, leaf in start.items()}):
                    raise self._refusal(f"its messages do not tell a client {broken!r} in a form that it could read")
            found.append(arrays)
            starts.append(start)
        for row, (one, other) in enumerate(zip(*found, strict=True)):
            for name in one:
                if not np.array_equal(one[name], other[name]):
                    raise self._refusal(f"what it sends client {ids[row]} as {name!r} depends on what clients keep")
        return found[0], tuple(starts)

    def _trained(
        self, k: int, own: Sequence[Params], reply: Packet | Refused | None
    ) -> tuple[tuple[Params, ...], float]:
        """Return a participant's beliefs (1, ...), fill where it sent none, and their distance from what it got."""
        came, ends = self._answer(k, reply, Ask.TRAIN, self.round), list[Params]()
        masks = rows(self._beliefs[0].shared, torch.tensor([k]))
        arrays = unpack_coded(came, self.method, own[0], masks, self.network.dtype)
        if (bits := sends_bits(arrays)) is not None:
            raise self._refusal(f"clients send truth values {bits!r}, whose shape the server does not know")
        values, said = unpack(arrays, own[0], masks)
        for belief, start, fill in zip(self._beliefs, own, _FILLS, strict=True):
            ends.append(combine({name: torch.full_like(leaf, fill) for name, leaf in start.items()}, values, said))
            compare_upload(self.method, belief, self._update(np.array([k]), start, ends[-1]), arrays)
        none = torch.zeros(())
        moved = [torch.where(said[n], v.double() - own[0].get(n, none), 0).norm() for n, v in values.items()]
        return tuple(ends), float(torch.stack(moved).norm()) if moved else 0.0

    def _odd(self, ends: Mapping[int, tuple[Params, ...]], distances: Mapping[int, float]) -> dict[int, Refused]:
        """Return why replies that can be read are left out: they lie too far, or most have another form."""
        odd = {
            k: Refused(f"it lies {distance:.3g} from what it was sent; farthest is {self.farthest:g}.")
            for k, distance in distances.items()
            if distance > self.farthest
        }
        forms = {
            k: frozenset((name, leaf.shape, leaf.dtype) for name, leaf in each[0].items())
            for k, each in ends.items()
            if k not in odd
        }
        self._forms.update(forms.values())
        due = self._forms.most_common(1)
        other = Refused("its arrays have other names or shapes than the other clients'.")
        return odd | {k: other for k, form in forms.items() if form != due[0][0]}

    def _step(self, ids: np.ndarray, starts: Sequence[Params], ends: Sequence[Params]) -> tuple[State, ...] | None:
        """Return both beliefs after the method's step; None with too few participants, and where it is not finite."""
        if self.method.mechanism is None and len(ids) < self._fewest:
            return None
        updates = [self._update(ids, start, end) for start, end in zip(starts, ends or starts, strict=True)]
        both = list(zip(self._beliefs, updates, strict=True))
        step = aggregated if len(ids) else unattended
        after = [step(self.method, belief, update) for belief, update in both]
        if not all(leaf.isfinite().all() for state in after for leaf in state.server.values()):
            return None
        for (belief, update), new in zip(both, after, strict=True):
            compare_rows(self.method, belief, new, update)
        first, second = after
        for what in ("server", "memory", "shared"):
            if broken := different(getattr(first, what), getattr(second, what)):
                raise self._refusal(f"the server's step would need what clients keep, for {broken!r}")
        if different(self._beliefs[0].shared, first.shared):
            raise self._refusal("who shares what changes from round to round, and clients are not told the masks")
        return tuple(after)

    def _record(
        self, asked: np.ndarray, distances: Mapping[int, float], left: Mapping[int, Refused], replies: Replies
    ) -> None:
        """Add the round that ended to `entered`, and warn of replies that were left out."""
        why = {k: str(left.get(k, "")) for k in asked.tolist()}
        lines = [(self.round, k, k not in left, distances.get(k, np.nan), why[k]) for k in why]
        table = pd.DataFrame(lines, columns=list(_ENTERED)).astype(_ENTERED)
        self.entered = pd.concat([self.entered, table], ignore_index=True)
        for k in [k for k in left if k in replies]:
            warnings.warn(f"client {k} is left out of round {self.round}: {why[k]}", RuntimeWarning, 3)

    def _update(self, ids: np.ndarray, start: Params, end: Params) -> Update:
        """Return an update as the simulation makes it (`fedstat.federated.rounds.Run.aggregate`)."""
        rng = self._seeds.stream("server", self.round)
        if self.method.mechanism is not None:  # all clients know the seed, and could take its noise off
            rng = np.random.default_rng([self._secret, self.round])
        # a mechanism's mean divides by how many were asked: who is left out may tell of data
        who = Attended(ids, expected=expected_of(self.participation, self.clients))
        return weighed(self.method, who, self._weights, start, end, rng, self.network)


def _stacked(ends: Sequence[Params]) -> Params:
    """Stack what clients came to, (1, ...) each."""
    return {name: torch.cat([end[name] for end in ends]) for name in ends[0]}

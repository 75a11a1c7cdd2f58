"""A method with real clients equals the simulation, or is refused; what travels is what the codec counts."""

import io
import itertools
import os
import pickle
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save

import fedstat as fs
from fedstat.export import Client, Packet, Refused, Server
from fedstat.federated.replicate import participants
from fedstat.federated.rounds import Round

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
os.environ.setdefault("FLWR_HOME", str(Path(tempfile.gettempdir()) / "fedstat-flower"))
flwr = pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.common import Code, FitIns, FitRes, Parameters, Status, serde  # noqa: E402
from flwr.server.client_proxy import ClientProxy  # noqa: E402
from flwr.serverapp import Grid  # noqa: E402
from flwr.serverapp.strategy import Result  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedstat.export import flower, grpc, talk  # noqa: E402
from fedstat.export.packet import Ask  # noqa: E402
from simulations.names import readable  # noqa: E402
from tests.support import flower_ends as ends  # noqa: E402
from tests.support.named import NAMED  # noqa: E402

#: What needs at the server, or at a client, what the messages do not bring there.
STAY = {"ClusteredFL", "FactorizedFL", "FedAMP", "FedCAC", "FedFOMO", "FedPAC", "FedProto", "PFedGate"}
TOLERANCE = {"rtol": 0, "atol": 2e-6}
#: Methods whose uploads are compressed: with a memory of what was lost, and of a part of a leaf.
COMPRESSED: dict[str, fs.Method] = {
    "FedPer, top-k": replace(ends.METHODS["FedPer"], compression=fs.compression.TopK(0.2)),
    "FedFac, QSGD": replace(ends.METHODS["FedFac"], compression=fs.compression.QSGD(7)),
}


def simulate(method: fs.Method, model: object, clients: fs.data.Clients, rounds: int, **how: object) -> list[Round]:
    """Return the rounds of the simulation; what each sent is read before the next begins."""
    played = []
    for round in fs.rounds(method, model, clients, ends.TRAINING, **how):
        played.append(round)
        if round.number == rounds:
            return played
    return played


def check_equal(server: Server, kept: Callable[[int], fs.State], last: Round) -> None:
    """Compare the server's shared part, and what each client keeps or owes, with the simulation's state."""
    (state,) = last.states.values()
    for name, leaf in state.server.items():
        torch.testing.assert_close(server.state.server[name], leaf, **TOLERANCE)
    assert not server.state.unsent
    for k, store in itertools.product(range(server.clients), ("clients", "unsent")):
        rows, own = (getattr(of, store).rows(torch.tensor([k])) for of in (state, kept(k)))
        if store == "unsent" and not own:  # it has not taken part
            assert not any(row.any() for row in rows.values())
            continue
        for name, leaf in own.items():
            torch.testing.assert_close(leaf, rows[name], **TOLERANCE)
        assert own.keys() == rows.keys()


def check_history(found: pd.DataFrame, played: list[Round]) -> None:
    """Compare what clients measured with what the simulation measures after each round."""
    keys = ["round", "client", "estimand", "metric"]
    due = pd.concat([round.evaluate("test") for round in played])[[*keys, "value"]]
    both = found.merge(due, on=keys, how="outer", validate="one_to_one")
    assert len(both) == len(found) == len(due)
    np.testing.assert_allclose(both["value_x"], both["value_y"], rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")  # five units are few
@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((name, {}) for name in sorted(fs.methods.available())),
        ("FedAvg", {"server": fs.server.Adam(lr=0.1)}),
        ("FedPer", {"aggregator": fs.aggregators.Median()}),
        *(
            (name, {"compression": codec})
            for name in ("FedAvg", "FedPer", "FedSplit", "FedNova")
            for codec in (fs.compression.QSGD(3), fs.compression.TopK(0.3))
        ),
        ("FedPer", {"weighting": "uniform", "mechanism": fs.mechanisms.Gaussian(clip=0.05, noise=0)}),
    ],
)
def test_every_method_equals_the_simulation_or_is_refused_by_name(
    name: str, more: dict[str, Any], tmp_path: Path
) -> None:
    method = (cls := fs.methods.find(name))(**cls.example, **more)
    model, clients = cls.example_model or fs.models.mlp(3, 5, 2), ends.everybody((12, 17, 9, 14), inputs=3)
    how = {"participation": 1.0 if "mechanism" in more else 0.75, "seed": 1}  # nobody can draw whom it asks

    def end(k: int) -> Client:
        return Client(
            method, model, ends.alone(clients, k), ends.TRAINING, number=k, clients=4, folder=tmp_path, seed=1
        )

    def run() -> tuple[Server, list[Client]]:
        people, server = [end(k) for k in range(4)], Server(method, model, ends.TRAINING, clients=4, **how)
        hellos = {k: one.answer(Packet({}, {"ask": 0, "round": 0})) for k, one in enumerate(people)}
        talk.begin(server, hellos, lambda packets: {k: people[k].answer(p) for k, p in packets.items()})
        for _ in range(3):
            server.aggregate({k: people[k].answer(p) for k, p in server.requests().items()})
        return server, people

    if name in STAY:
        with pytest.raises(Refused, match=f"^{name} cannot run with real clients: "):
            run()
        return
    try:
        server, people = run()
    except Refused:
        assert name not in NAMED
        return
    check_equal(server, lambda k: people[k].state(), simulate(method, model, clients, 3, **how)[-1])
    with pytest.raises(ValueError, match=r"client 2 has no model in .*: no round has ended there"):
        end(2).personal()
    server.measured({k: people[k].answer(p) for k, p in server.questions().items()})
    result, x = fs.federate(method, model, clients, ends.TRAINING, rounds=3, **how), torch.rand(5, 3)
    for k, estimand in itertools.product(range(4), server.history["estimand"].unique()):
        due = result.personal(k, estimand=estimand)(x)
        torch.testing.assert_close(end(k).personal(estimand)(x), due, **TOLERANCE)  # it was restarted
    torch.testing.assert_close(end(2).personal()(x), result.personal(2)(x), **TOLERANCE)
    kept = tmp_path / "shared-2.safetensors"
    for content, why in ((save({"hidden.bias": torch.ones(9)}), "holds the leaves of another run"), (b"?", "damaged")):
        kept.write_bytes(content)
        with pytest.raises(Refused, match=rf"shared-2.safetensors (is )?{why}"):
            end(2).personal()


@dataclass(frozen=True, kw_only=True)
class Peeping(fs.methods.find("FedPer")):
    """FedPer whose server looks at the heads that clients keep, or sets them."""

    sets: bool = False

    def aggregate(self, state: fs.State, update: fs.Update) -> fs.State:
        new, head = super().aggregate(state, update), update.end["head.bias"]
        if self.sets:
            return replace(new, clients=new.clients.write(update.ids, {"head.bias": head * 0 + 2.0}))
        return replace(new, server=new.server | {"hidden.bias": new.server["hidden.bias"] + head.mean()})


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        (False, "the server's step would need what clients keep"),
        (True, "its server changes 'head.bias', which clients"),
    ],
)
def test_a_server_that_looks_at_what_clients_keep_is_refused(sets: bool, why: str, tmp_path: Path) -> None:
    method, model, clients = Peeping(sets=sets), ends.model(), ends.everybody()
    people = [
        Client(method, model, ends.alone(clients, k), ends.TRAINING, number=k, clients=3, folder=tmp_path)
        for k in range(3)
    ]
    server = Server(method, model, ends.TRAINING, clients=3)
    talk.begin(server, {k: one.answer(Packet({}, {"ask": 0, "round": 0})) for k, one in enumerate(people)}, dict)
    with pytest.raises(Refused, match=f"Peeping cannot run with real clients: {why}"):
        server.aggregate({k: people[k].answer(p) for k, p in server.requests().items()})


def begun(
    mechanism: fs.mechanisms.Mechanism, folder: Path, name: str = "FedPer", **how: Any
) -> tuple[Server, list[Client]]:
    """A server that has begun, and its three clients; all of them know the seed."""
    method, model = fs.methods.find(name)(weighting="uniform", mechanism=mechanism), ends.model()
    people = [
        Client(method, model, ends.alone(ends.everybody(), k), ends.TRAINING, number=k, clients=3, folder=folder)
        for k in range(3)
    ]
    server = Server(method, model, ends.TRAINING, clients=3, **how)
    talk.begin(server, {k: one.answer(Packet({}, {"ask": 0, "round": 0})) for k, one in enumerate(people)}, dict)
    return server, people


def server_of(mechanism: fs.mechanisms.Mechanism, tmp_path: Path, name: str = "FedPer") -> Server:
    """A server after a round of three clients."""
    server, people = begun(mechanism, tmp_path, name)
    server.aggregate({k: people[k].answer(p) for k, p in server.requests().items()})
    return server


def test_noise_of_a_server_is_no_function_of_the_seed(tmp_path: Path) -> None:
    """Else a client could take it off; it has the deviation that it should have."""
    one, two = (
        server_of(fs.mechanisms.Gaussian(clip=1e-6, noise=1e6), tmp_path / str(k)).questions()[0].arrays
        for k in range(2)
    )
    apart = np.concatenate([(one[name] - two[name]).ravel() for name in one])
    assert abs(apart.std() / (1e-6 * 1e6 / 3 * 2**0.5) - 1) < 4 / (2 * len(apart)) ** 0.5


@pytest.mark.filterwarnings("ignore:client . is left out:RuntimeWarning")
def test_a_mechanism_asks_clients_whom_nobody_can_draw_and_its_noise_comes_also_if_none_replies(tmp_path: Path) -> None:
    """Else epsilon would be that of a client who is known to take part, or one could see that nobody replied."""
    server, _ = begun(fs.mechanisms.Gaussian(clip=0.1, noise=20.0), tmp_path, "FedAvg", participation=0.3)
    moved = []
    for _ in range(20):
        before = server.state.server
        server.requests()
        server.aggregate({})
        moved += [(leaf - before[name]).ravel() for name, leaf in server.state.server.items()]
    drawn = [int(participants(0, t, 3, 0.3)[0]) for t in range(20)]
    assert server.entered["client"].tolist() != drawn
    steps = torch.cat(moved)
    assert abs(steps.std() / 2 - 1) < 4 / (2 * len(steps)) ** 0.5


@pytest.mark.filterwarnings("ignore:client . is left out:RuntimeWarning")
def test_a_change_that_is_left_out_counts_as_zero_beside_a_mechanism(tmp_path: Path) -> None:
    """If the mean were of those who are left, its noise would tell that somebody's change lay too far."""
    server, people = begun(fs.mechanisms.Gaussian(clip=1e3, noise=0.0), tmp_path, "FedAvg")
    start = server.state.server
    replies = {k: people[k].answer(p) for k, p in server.requests().items()}
    del replies[1]
    server.aggregate(replies)
    for name, leaf in server.state.server.items():
        sent = [torch.tensor(reply.arrays[name]) - start[name] for reply in replies.values()]
        torch.testing.assert_close(leaf, start[name] + (sent[0] + sent[1]) / 3, **TOLERANCE)


def test_noise_of_clients_and_methods_without_a_mean_are_refused_by_name(tmp_path: Path) -> None:
    at_clients = fs.mechanisms.Gaussian(clip=1.0, noise=1.0, at="client")
    with pytest.raises(Refused, match=r"FedPer cannot run with real clients: Gaussian.* relies on what every client"):
        server_of(at_clients, tmp_path)
    with pytest.raises(ValueError, match="FedCAC aggregates in a way of its own, which has no place for Gaussian"):
        server_of(fs.mechanisms.Gaussian(clip=1.0, noise=1.0), tmp_path, "FedCAC")


def test_the_page_names_methods_once_and_its_programs_are_python() -> None:
    page = Path("docs/flower.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| APFL")]
    runs, stays = (
        {name for name in NAMED if re.search(rf"(?<![\w-]){readable(name)}(?![\w-])", cell)}
        for cell in row.split("|")[1:3]
    )
    assert runs == NAMED - STAY
    assert stays == STAY | {"FedFac"}  # its dynamic version
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        compile(block, "docs/flower.md", "exec")


@pytest.mark.parametrize(
    ("key", "change", "shape", "why"),
    [
        ("coded:head.bias", lambda data: data[:-1], (), "cannot be decoded: there must be 5 bytes, got 4"),
        ("coded:head.bias", lambda data: data.astype(np.float32), (), "must hold uint8"),
        ("coded:head.bias", lambda data: np.full_like(data, 255), (), "decodes to numbers that are not finite"),
        ("coded:selected:head.bias", lambda data: data, (), "no part of 'head.bias' is shared by itself"),
        ("coded:none", lambda data: data, (), "it must send .*, it sent"),
        ("coded:none", lambda data: data, (float("nan"),), "'shape 0 none' must be a whole number"),
        ("coded:none", lambda data: data, (2, float("inf")), "'shape 1 none' must be a whole number"),
        ("coded:none", lambda data: data, (-1,), "'shape 0 none' must be a whole number"),
        ("coded:none", lambda data: data, (2**30, 2**30, 2**30), "the shape of 'none' must be one of an array"),
        (None, None, (), "it must send .*, it sent"),
    ],
)
def test_bytes_that_stand_for_nothing_leave_their_client_out(
    key: str | None, change: Callable[[np.ndarray], np.ndarray], shape: tuple[float, ...], why: str, tmp_path: Path
) -> None:
    method, model, clients = fs.FedAvg(compression=fs.compression.Sign()), ends.model(), ends.everybody()
    people = [
        Client(method, model, ends.alone(clients, k), ends.TRAINING, number=k, clients=3, folder=tmp_path)
        for k in range(3)
    ]
    server = Server(method, model, ends.TRAINING, clients=3)
    talk.begin(server, {k: one.answer(Packet({}, {"ask": 0, "round": 0})) for k, one in enumerate(people)}, dict)
    replies = {k: people[k].answer(p) for k, p in server.requests().items()}
    arrays = dict(replies[1].arrays)
    data = arrays.pop("coded:head.bias")
    told = {f"shape {axis} none": length for axis, length in enumerate(shape)}
    wrong = Packet(arrays if key is None else {**arrays, key: change(data)}, {**replies[1].numbers, **told})
    with pytest.warns(RuntimeWarning, match=f"client 1 is left out of round 1: .*{why}"):
        server.aggregate({**replies, 1: wrong})
    assert server.entered["entered"].tolist() == [True, False, True]


class Memory(Grid):
    """Flower's grid without a network: messages become bytes and messages again, both ways; arrays are counted."""

    def __init__(self, app: ClientApp, clients: int) -> None:
        self.app, self.nodes = app, {1000 + 7 * k: k for k in range(clients)}
        self.sent: list[tuple[str, str, int, int, int]] = []

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def send_and_receive(self, messages: list[Message], *, timeout: float | None = None) -> list[Message]:
        return [self.deliver(message) for message in messages if message.metadata.dst_node_id in self.nodes]

    def deliver(self, message: Message) -> Message:
        node, k = message.metadata.dst_node_id, self.nodes[message.metadata.dst_node_id]
        reply = self.app(carried(message), Context(1, node, {"number": k}, RecordDict(), {}))
        down, up = (sum(a.numpy().nbytes for a in m.content["arrays"].values()) for m in (message, reply))
        self.sent.append((message.metadata.message_type, message.metadata.group_id, k, up, down))
        return carried(reply)

    def refuse(self, *_: object, **__: object) -> None:
        raise AssertionError("the strategy must not need this")

    set_run = run = create_message = push_messages = pull_messages = refuse


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say whose messages these are, as Flower's processes do before they start an app."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def carried(message: Message) -> Message:
    """Return the message as it comes out of the bytes that Flower makes of it."""
    return serde.message_from_proto(serde.message_to_proto(message))


@pytest.mark.parametrize("name", [*ends.METHODS, *COMPRESSED])
def test_strategy_and_app_equal_the_simulation_and_send_what_the_codec_counts(name: str, tmp_path: Path) -> None:
    method, model, clients = {**ends.METHODS, **COMPRESSED}[name], ends.model(), ends.everybody((12, 17, 9, 14))
    how = {"participation": 0.75, "seed": 1}

    def client(context: Context) -> Client:  # made anew for every message, as if in a process of its own
        k, own = context.node_config["number"], {"clients": 4, "folder": tmp_path, "seed": 1}
        return Client(method, model, ends.alone(clients, k), ends.TRAINING, number=k, **own)

    grid = Memory(flower.client_app(client), 4)
    strategy = flower.Strategy(Server(method, model, ends.TRAINING, clients=4, **how))
    result = strategy.start(grid, ArrayRecord(), num_rounds=4)

    played = simulate(method, model, clients, 4, **how)
    check_equal(strategy.server, lambda k: client(Context(1, 0, {"number": k}, RecordDict(), {})).state(), played[-1])
    check_history(strategy.history, played)
    assert set(result.arrays) == set(strategy.server.state.server)
    columns = ["round", "client", "bytes_up", "bytes_down"]
    sent = pd.DataFrame(grid.sent, columns=["kind", *columns]).astype({"round": int})
    trained = sent[sent["kind"] == "train"][columns].reset_index(drop=True)
    due = pd.concat([round.traffic for round in played], ignore_index=True)[columns]
    pd.testing.assert_frame_equal(trained, due, check_dtype=False)
    before = sent[sent["kind"] == "query"].groupby("client")[["bytes_up", "bytes_down"]].sum()
    (run,) = played[-1].runs.values()
    prelude = run.prelude()
    assert before["bytes_up"].tolist() == np.broadcast_to(prelude.up, 4).tolist()
    assert before["bytes_down"].tolist() == np.broadcast_to(prelude.down, 4).tolist()


class Trap:
    """What a pickle of this does when it is read: it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_a_message_with_anything_but_arrays_and_numbers_is_refused_and_nothing_is_unpickled(tmp_path: Path) -> None:
    trap, good = tmp_path / "trap", np.ones((2, 3), np.float32)
    objects, archive = io.BytesIO(), io.BytesIO()
    np.save(objects, np.array([Trap(trap)], dtype=object), allow_pickle=True)
    np.savez(archive, good)
    known = {"w": torch.zeros(1, 2, 3)}

    def through_records(data: bytes) -> None:
        array = Array("float32", (2, 3), "numpy.ndarray", data)
        records = RecordDict({"arrays": ArrayRecord({"w": array}), "numbers": MetricRecord({"ask": 3})})
        packet = flower.from_records(carried(Message(records, 1, "train")).content)
        fs.export.packet.unpack(packet.arrays, known, {})

    def through_grpc(data: bytes) -> None:
        ins = FitIns(Parameters([data], "numpy.ndarray"), {"ask": 3, "array w": 0})
        ins = serde.fit_ins_from_proto(serde.fit_ins_to_proto(ins))
        packet = grpc._from_flower(ins.parameters, ins.config)
        fs.export.packet.unpack(packet.arrays, known, {})

    def npy(array: np.ndarray) -> bytes:
        data = io.BytesIO()
        np.save(data, array)
        return data.getvalue()

    for through in (through_records, through_grpc):
        through(npy(good))
        bad = {
            "is none": [objects.getvalue(), pickle.dumps(Trap(trap)), b"", npy(good)[:-1]],
            "must hold": [archive.getvalue(), npy(good.astype(np.float64)), npy(good.astype("U3")), npy(good * np.nan)],
            "must have shape": [npy(good[:1]), npy(good.ravel())],
        }
        for why, payloads in bad.items():
            for payload in payloads:
                with pytest.raises(Refused, match=why):
                    through(payload)
    assert not trap.exists()
    for record in (ConfigRecord({"ask": 3}), MetricRecord({"ask": [3, 3]})):
        with pytest.raises(Refused, match=r"records|one number"):
            flower.from_records(RecordDict({"arrays": ArrayRecord(), "numbers": record}))
    with pytest.raises(Refused, match="must be one number"):
        grpc._from_flower(Parameters([], "numpy.ndarray"), {"ask": b"3"})


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    method, model, clients = ends.METHODS["FedPer"], ends.model(), ends.everybody()

    def end(k: int, data: fs.data.Clients = clients) -> Client:
        return Client(method, model, ends.alone(data, k), ends.TRAINING, number=k, clients=3, folder=tmp_path)

    people = [end(k) for k in range(3)]
    hellos = {k: one.answer(Packet({}, {"ask": 0, "round": 0})) for k, one in enumerate(people)}
    with pytest.raises(Refused, match=r"all 3 clients must answer before the first round; \[1\] did not"):
        talk.begin(Server(method, model, ends.TRAINING, clients=3), {0: hellos[0], 2: hellos[2]}, dict)
    with pytest.raises(Refused, match="two clients say that they are client 0"):
        talk.meet(Server(method, model, ends.TRAINING, clients=3), "ab", lambda *_: {0: hellos[0], 1: hellos[0]})
    with pytest.raises(ValueError, match=r"number must be one of 0\.\.2"):
        Client(method, model, ends.alone(clients, 0), ends.TRAINING, number=3, clients=3, folder=tmp_path)
    with pytest.raises(ValueError, match="data must be those of one client, got 3"):
        Client(method, model, clients, ends.TRAINING, number=0, clients=3, folder=tmp_path)

    for change, why in (
        ({"samples": 0}, "'samples' must be a whole number in 1"),
        ({"round": 1}, "'round' of its reply"),
    ):
        wrong = Packet({}, {**hellos[1].numbers, **change})
        with pytest.raises(Refused, match=f"client 1 cannot be left out before the first round: the number {why}"):
            talk.begin(Server(method, model, ends.TRAINING, clients=3), {**hellos, 1: wrong}, dict)

    dynamic = fs.FedFac(layers=["hidden"], tau=fs.Count(3), kappa=0.6, dynamic=True)
    people = [
        Client(dynamic, model, ends.alone(clients, k), ends.TRAINING, number=k, clients=3, folder=tmp_path)
        for k in range(3)
    ]
    server = Server(dynamic, model, ends.TRAINING, clients=3)
    with pytest.raises(Refused, match=r"clients \[0, 1, 2\] do not share the server's method, model, training, number"):
        talk.begin(server, hellos, dict)  # of FedPer's clients
    hellos = {k: one.answer(talk.HELLO) for k, one in enumerate(people)}
    talk.begin(server, hellos, lambda packets: {k: people[k].answer(p) for k, p in packets.items()})
    with pytest.raises(Refused, match="FedFac cannot run with real clients: its server tells clients truth values"):
        server.requests()


# ---- replies that are no messages ---------------------------------------------------------------------------------


class Liar:
    """A client whose replies are changed by a function of the question and the honest reply."""

    def __init__(self, client: Client, change: Callable[[int, Packet, Packet], Packet]) -> None:
        self.client, self.change = client, change

    def answer(self, packet: Packet) -> Packet:
        return self.change(self.client.number, packet, self.client.answer(packet))


class Wire(ClientProxy):
    """A connection of Flower's gRPC server without a network: messages become bytes and messages again.

    Clients, who otherwise are processes of their own, answer one after the other.
    """

    turn = threading.Lock()

    def __init__(self, client: Liar, died: list[Exception]) -> None:
        super().__init__(str(client.client.number))
        self.end: grpc._Client | None = grpc._Client(client)
        self.died = died

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        with self.turn:
            if self.end is None:
                raise ConnectionError
            try:
                reply = self.end.fit(serde.fit_ins_from_proto(serde.fit_ins_to_proto(ins)))
            except Exception as error:  # ends the client's process; the server sees a connection that broke
                self.died.append(error)
                raise
        return serde.fit_res_from_proto(serde.fit_res_to_proto(reply))

    evaluate = get_parameters = get_properties = reconnect = Memory.refuse


@dataclass
class Run:
    """Three clients and a server on one of the two carriers; what is changed on the way is told by `change`."""

    by: str
    folder: Path
    method: fs.Method = field(default_factory=lambda: ends.METHODS["FedPer"])
    change: Callable[[int, Packet, Packet], Packet] = lambda k, asked, reply: reply

    def __post_init__(self) -> None:
        self.server = Server(self.method, ends.model(), ends.TRAINING, clients=3)
        if self.by == "records":
            self.grid = Memory(flower.client_app(lambda context: self.end(context.node_config["number"])), 3)
            return
        self.runner = grpc._Runner(self.server, 1)
        self.died = list[Exception]()
        self.leave_and_return(3)

    def end(self, k: int) -> Liar:
        data = ends.alone(ends.everybody(), k)
        own = Client(self.method, ends.model(), data, ends.TRAINING, number=k, clients=3, folder=self.folder)
        return Liar(own, self.change)

    def leave_and_return(self, clients: int) -> None:
        """Break all connections; so many clients come back on new ones."""
        if self.by == "records":
            first = 1 + max(self.grid.nodes)
            self.grid.nodes = {first + k: k for k in range(clients)}
            return
        manager = self.runner.client_manager()
        for proxy in list(manager.all().values()):
            manager.unregister(proxy)
            proxy.end = None
        for k in range(clients):
            manager.register(Wire(self.end(k), self.died))

    def play(self, rounds: int) -> Result | None:
        """Play, and return Flower's result where there is one."""
        if self.by == "records":
            return flower.Strategy(self.server, 1).start(self.grid, ArrayRecord(), num_rounds=rounds)
        self.runner.fit(rounds, None)
        for error in (self.runner.error, *self.died):
            if error is not None:
                raise error
        return None

    def entered(self) -> dict[int, list[int]]:
        """Return whose replies entered each round's average."""
        return {t: own["client"][own["entered"]].tolist() for t, own in self.server.entered.groupby("round")}


CARRIERS = pytest.mark.parametrize("by", ["records", "grpc"])
EVERY = [0, 1, 2]


def stained(packet: Packet) -> Packet:
    """Return a packet whose arrays are NaN."""
    return replace(packet, arrays={name: array * np.nan for name, array in packet.arrays.items()})


@CARRIERS
def test_a_damaged_reply_leaves_its_client_out_of_the_round_and_it_comes_back(by: str, tmp_path: Path) -> None:
    def change(k: int, asked: Packet, reply: Packet) -> Packet:
        bad = (k, asked.numbers["ask"], asked.numbers["round"]) == (1, Ask.TRAIN, 1)
        return stained(reply) if bad else reply

    run = Run(by, tmp_path, change=change)
    with pytest.warns(RuntimeWarning, match=r"client 1 is left out of round 2: array .* must hold finite numbers"):
        result = run.play(4)
    assert run.entered() == {1: EVERY, 2: [0, 2], 3: EVERY, 4: EVERY}
    left = run.server.entered.query("not entered")
    assert left["why"].str.contains("finite").tolist() == [True]
    assert run.server.history.groupby("round")["client"].nunique().to_dict() == dict.fromkeys([1, 2, 3, 4], 3)
    assert np.isfinite(run.server.history["value"]).all()
    if result is not None:
        told = {t: list(record["entered"]) for t, record in result.train_metrics_clientapp.items()}
        assert told == run.entered()


@CARRIERS
def test_a_message_that_cannot_be_read_leaves_its_client_out_of_the_round(by: str, tmp_path: Path) -> None:
    odd = {"records": [1.0, 2.0], "grpc": b"text"}[by]

    def change(k: int, asked: Packet, reply: Packet) -> Packet:
        bad = k == 2 and asked.numbers["round"] == 1
        return replace(reply, numbers={**reply.numbers, "more": odd}) if bad else reply

    run = Run(by, tmp_path, change=change)
    with pytest.warns(RuntimeWarning, match="'more' must be") as told:
        run.play(3)
    assert [str(one.message)[:50] for one in told] == [
        "what client 2 measured after round 1 is left out: ",
        "client 2 is left out of round 2: number 'more' mus",
    ]
    assert run.entered() == {1: EVERY, 2: [0, 1], 3: EVERY}
    assert run.server.history.query("round == 1")["client"].unique().tolist() == [0, 1]


@CARRIERS
@pytest.mark.parametrize("without", [{1}, {0, 1, 2}])
def test_a_client_that_holds_no_samples_out_measures_nothing(
    by: str, without: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What models come to on samples that they were trained on is no number beside the others'."""
    alone = ends.alone
    monkeypatch.setattr(
        ends, "alone", lambda data, k: replace(alone(data, k), test=None) if k in without else alone(data, k)
    )
    run = Run(by, tmp_path)
    result = run.play(2)
    assert run.entered() == {1: EVERY, 2: EVERY}
    assert set(run.server.history["client"]) == {0, 1, 2} - without
    if result is not None:
        assert [told["clients"] for told in result.evaluate_metrics_clientapp.values()] == [3 - len(without)] * 2


@CARRIERS
@pytest.mark.filterwarnings("ignore:client . is left out of round 2")
def test_a_round_without_a_usable_reply_changes_nothing(by: str, tmp_path: Path) -> None:
    def change(k: int, asked: Packet, reply: Packet) -> Packet:
        return stained(reply) if (asked.numbers["ask"], asked.numbers["round"]) == (Ask.TRAIN, 1) else reply

    run, states = Run(by, tmp_path, change=change), []
    step = run.server.aggregate
    run.server.aggregate = lambda replies: states.append((step(replies), run.server.state)[1])
    run.play(3)
    assert run.entered() == {1: EVERY, 2: [], 3: EVERY}
    first, second, third = (state.server["hidden.weight"] for state in states)
    assert torch.equal(first, second)
    assert not torch.equal(second, third)
    assert [state.round for state in states] == [1, 2, 3]
    assert run.server.history["round"].unique().tolist() == [1, 2, 3]


@CARRIERS
@pytest.mark.parametrize("why", ["it was interrupted", "all clients left, and none came back in 1 s"])
def test_the_history_is_returned_when_a_run_ends_early(by: str, why: str, tmp_path: Path) -> None:
    def change(k: int, asked: Packet, reply: Packet) -> Packet:
        if (k, asked.numbers["ask"], asked.numbers["round"]) == (2, Ask.TRAIN, 2):
            if "interrupted" in why:
                raise KeyboardInterrupt
            run.leave_and_return(0)
        return reply

    run = Run(by, tmp_path, change=change)
    with pytest.warns(RuntimeWarning, match=f"the run ended early, after . rounds: {why}"):
        result = run.play(9)
    done = {1, 2} if "interrupted" in why else {1, 2, 3}
    assert run.entered().keys() == done
    assert set(run.server.history["round"]) >= {1, 2}
    if result is not None:
        assert result.train_metrics_clientapp.keys() == done
        assert set(result.arrays) == set(run.server.state.server)


@CARRIERS
def test_a_client_whose_connection_broke_comes_back_with_what_it_kept(by: str, tmp_path: Path) -> None:
    def change(k: int, asked: Packet, reply: Packet) -> Packet:
        if (k, asked.numbers["ask"]) == (2, Ask.EVALUATE):
            run.leave_and_return(3)
        return reply

    run = Run(by, tmp_path, method=ends.METHODS["FedFac"], change=change)
    run.play(3)
    played = simulate(run.method, ends.model(), ends.everybody(), 3)
    check_equal(run.server, lambda k: run.end(k).client.state(), played[-1])


def test_replies_are_read_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that parse headers of arrays at once may fail in early releases of Python 3.11."""
    run, where = Run("grpc", tmp_path), list[threading.Thread]()

    def read(data: bytes) -> np.ndarray:
        where.append(threading.current_thread())
        return decode(data)

    def fit(*_: object, **__: object) -> FitRes:
        parameters, numbers = grpc._to_flower(Packet({"hidden.bias": np.ones(6, np.float32)}, {"samples": 1}))
        return FitRes(Status(Code.OK, ""), parameters, 1, numbers)

    decode = grpc.bytes_to_ndarray
    monkeypatch.setattr(grpc, "bytes_to_ndarray", read)
    monkeypatch.setattr(Wire, "fit", fit)
    proxies = dict(enumerate(run.runner.client_manager().all().values()))
    answers = run.runner._ask(proxies, dict.fromkeys(proxies, talk.HELLO))
    assert [answer.arrays["hidden.bias"].sum() for answer in answers.values()] == [6, 6, 6]
    assert where == [threading.current_thread()] * 3


def test_a_connection_that_breaks_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a client who answers after the server's timeout; it ends when the server says so."""

    class Broke(grpc.grpc.RpcError):
        def details(self) -> str:
            return "Timeout of 4.0sec was exceeded."

    def start(**_: object) -> None:
        tried.append("start")
        if len(tried) < 6:
            raise Broke

    tried = list[str]()
    monkeypatch.setattr(grpc, "_reach", lambda *_: tried.append("reach"))
    monkeypatch.setattr(grpc, "start_client", start)
    (certificate := tmp_path / "ca.pem").touch()
    with pytest.warns(RuntimeWarning, match=r"to here:1 broke, and is made again: Timeout of 4\.0sec was exceeded"):
        grpc.join(Run("grpc", tmp_path).end(0), "here:1", root_certificate=certificate)
    assert tried == ["reach", "start"] * 3


def asked_to_train(folder: Path, **how: object) -> tuple[Server, dict[int, Packet]]:
    """Return a server whose three clients have trained once, and their honest replies."""
    run = Run("records", folder)
    people, server = [run.end(k) for k in range(3)], Server(run.method, ends.model(), ends.TRAINING, clients=3, **how)
    talk.begin(server, {k: one.answer(talk.HELLO) for k, one in enumerate(people)}, dict)
    return server, {k: people[k].answer(packet) for k, packet in server.requests().items()}


@pytest.mark.parametrize(
    ("arrays", "numbers", "why"),
    [
        ({"extra": np.ones(2, np.float32)}, {}, "it must send .* it sent"),
        ({"extra": np.ones(2, np.longdouble)}, {}, "array 'extra' must hold numbers, got"),
        ({"extra": np.ones(2, ">f4")}, {}, "array 'extra' must hold numbers, got"),
        ({"hidden.bias": None}, {}, "it must send .* it sent|its arrays do not make FedPer's message"),
        ({"hidden.bias": np.full(6, np.inf, np.float32)}, {}, "finite"),
        ({"hidden.bias": np.ones(5, np.float32)}, {}, "must have shape"),
        ({"bits:hidden.bias": np.ones(1, np.uint8)}, {}, "truth values"),
        ({}, {"samples": 10**6}, r"the number 'samples' of its reply must be \d+, got 1000000"),
        ({}, {"round": 7}, "the number 'round' of its reply must be 0, got 7"),
        ({}, {"ask": 4}, "the number 'ask' of its reply must be 3, got 4"),
    ],
)
def test_only_the_message_that_was_asked_for_enters_the_average(
    arrays: dict[str, np.ndarray | None], numbers: dict[str, int], why: str, tmp_path: Path
) -> None:
    server, replies = asked_to_train(tmp_path)
    sent = {name: array for name, array in {**replies[1].arrays, **arrays}.items() if array is not None}
    with pytest.warns(RuntimeWarning, match=f"client 1 is left out of round 1: .*(?:{why})"):
        server.aggregate(replies | {1: Packet(sent, {**replies[1].numbers, **numbers})})
    n, own = ends.everybody().train.n[[0, 2]], [replies[k].arrays["hidden.weight"] for k in (0, 2)]
    due = np.average(own, axis=0, weights=n)
    np.testing.assert_allclose(server.state.server["hidden.weight"].numpy(), due, rtol=0, atol=1e-6)
    assert server.entered["entered"].tolist() == [True, False, True]
    assert server.entered["distance"].isna().tolist() == [False, True, False]


def test_a_reply_to_an_earlier_round_is_refused_in_a_later_one(tmp_path: Path) -> None:
    server, first = asked_to_train(tmp_path)
    server.aggregate(first)
    server.requests()
    with pytest.warns(RuntimeWarning, match="'round' of its reply must be 1, got 0"):
        server.aggregate(first)
    assert server.entered.query("round == 2")["entered"].tolist() == [False] * 3


def test_how_far_replies_lie_is_recorded_and_may_be_bounded(tmp_path: Path) -> None:
    server, replies = asked_to_train(tmp_path)
    begun = server.state.server
    due = [
        np.sqrt(sum(((a - begun[n].numpy()).astype(float) ** 2).sum() for n, a in replies[k].arrays.items()))
        for k in range(3)
    ]
    huge = Packet({n: a + np.float32(1e30) for n, a in replies[1].arrays.items()}, replies[1].numbers)
    server.aggregate(replies)
    np.testing.assert_allclose(server.entered["distance"], due, rtol=1e-6)
    bounded, _ = asked_to_train(tmp_path, farthest=2 * max(due))
    with pytest.warns(RuntimeWarning, match=r"client 1 is left out of round 1: it lies .*e\+.* from what it was sent"):
        bounded.aggregate(replies | {1: huge})
    assert bounded.entered["entered"].tolist() == [True, False, True]
    assert bounded.entered["distance"][1] > 1e29
    with pytest.raises(ValueError, match=r"farthest must be a number in \(0, inf\), got -1"):
        asked_to_train(tmp_path, farthest=-1)


def test_an_average_that_is_not_finite_is_not_taken(tmp_path: Path) -> None:
    run = Run("records", tmp_path, method=fs.FedAvg(server=fs.server.SGD(lr=2)))
    people, server = [run.end(k) for k in range(3)], run.server
    talk.begin(server, {k: one.answer(talk.HELLO) for k, one in enumerate(people)}, dict)
    before = server.state.server
    replies = {k: people[k].answer(packet) for k, packet in server.requests().items()}
    huge = {
        k: Packet({n: a * 0 + np.float32(3e38) for n, a in p.arrays.items()}, p.numbers) for k, p in replies.items()
    }
    with pytest.warns(RuntimeWarning, match="the average with it is not finite"):
        server.aggregate(huge)
    assert all(torch.equal(leaf, before[name]) for name, leaf in server.state.server.items())
    server.requests()


def test_an_aggregator_that_needs_more_replies_says_so(tmp_path: Path) -> None:
    krum = fs.FedAvg(aggregator=fs.aggregators.Krum(0))  # needs three
    with pytest.raises(ValueError, match=r"Krum\(f=0, kept=1\) needs 3 participants in a round, there are 2\."):
        Server(krum, ends.model(), ends.TRAINING, clients=3, participation=0.5)
    run = Run("records", tmp_path, method=krum)
    people, server = [run.end(k) for k in range(3)], run.server
    talk.begin(server, {k: one.answer(talk.HELLO) for k, one in enumerate(people)}, dict)
    replies = {k: people[k].answer(packet) for k, packet in server.requests().items()}
    with pytest.warns(RuntimeWarning, match=r"client . is left out .*: Krum.* needs 3 usable replies, there are 2"):
        server.aggregate({k: replies[k] for k in (0, 2)})
    assert server.entered["entered"].tolist() == [False] * 3


def test_a_method_without_a_form_of_its_own_takes_the_form_that_most_have(tmp_path: Path) -> None:
    run = Run("records", tmp_path, method=fs.methods.find("SCAFFOLD")())
    plain = fs.Training(lr=0.1, batch_size=4)
    server = Server(run.method, ends.model(), plain, clients=3)
    people = [
        Client(run.method, ends.model(), ends.alone(ends.everybody(), k), plain, number=k, clients=3, folder=tmp_path)
        for k in range(3)
    ]
    talk.begin(server, {k: one.answer(talk.HELLO) for k, one in enumerate(people)}, dict)
    replies = {k: people[k].answer(packet) for k, packet in server.requests().items()}
    name = next(n for n in replies[0].arrays if n not in server.state.server)
    short = {**replies[0].arrays, name: np.ones(1, np.float32)}
    with pytest.warns(RuntimeWarning, match="client 0 is left out of round 1: its arrays have other names or shapes"):
        server.aggregate(replies | {0: Packet(short, replies[0].numbers)})
    assert server.entered["entered"].tolist() == [False, True, True]


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_a_client_whose_training_diverges_says_so_and_comes_back_in_a_later_round(tmp_path: Path) -> None:
    run = Run("grpc", tmp_path)
    ask = run.server.requests

    def once() -> dict[int, Packet]:
        sent = ask()
        if run.server.round == 1:
            huge = {name: array * np.float32(1e38) for name, array in sent[1].arrays.items()}
            sent[1] = replace(sent[1], arrays=huge)
        return sent

    run.server.requests = once
    run.play(3)
    assert run.entered() == {1: EVERY, 2: [0, 2], 3: EVERY}
    (why,) = run.server.entered.query("not entered")["why"]
    assert re.match(r"it failed: 'loss or weights of client 1 .* became infinite or NaN", why)


def test_a_value_that_is_nan_makes_the_mean_over_clients_nan(tmp_path: Path) -> None:
    def change(k: int, asked: Packet, reply: Packet) -> Packet:
        bad = (k, asked.numbers["ask"], asked.numbers["round"]) == (1, Ask.EVALUATE, 2)
        return replace(reply, numbers={**reply.numbers, "personal/accuracy": float("nan")}) if bad else reply

    run = Run("records", tmp_path, change=change)
    with pytest.warns(
        RuntimeWarning, match="personal/accuracy: 1 of 3 values of accuracy .*, the first at client 1 after round 2"
    ):
        result = run.play(3)
    means = result.evaluate_metrics_clientapp
    history = run.server.history.query("estimand == 'personal' and metric == 'accuracy'").groupby("round")["value"]
    assert means[1]["personal/accuracy"] == pytest.approx(history.mean()[1])
    assert np.isnan(means[2]["personal/accuracy"])
    assert np.isfinite(means[2]["personal/log_loss"])
    assert [record["clients"] for record in means.values()] == [3, 3, 3]


@pytest.mark.slow
def test_three_processes_over_grpc_with_tls_equal_the_simulation(tmp_path: Path) -> None:
    ends.certify(tmp_path / "tls")
    ends.certify(tmp_path / "other")
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in ends.METHODS]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    silent = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.support.flower_ends"]

    def begin(role: str, number: int) -> subprocess.Popen[bytes]:
        line = [*command, role, str(tmp_path), ",".join(map(str, ports)), str(number)]
        with (tmp_path / f"{role}{number}.log").open("wb") as log:
            return subprocess.Popen(line, env=os.environ | silent, stdout=log, stderr=subprocess.STDOUT)

    def log(role: str, number: int = 0) -> str:
        return (tmp_path / f"{role}{number}.log").read_text()

    running = [begin("server", 0)]
    try:
        wait_for(ports[0])
        client, address = ends.end("FedAvg", 0, tmp_path), f"{ends.HOST}:{ports[0]}"
        with pytest.raises(ConnectionError, match=r"the certificate of localhost.*CERTIFICATE_VERIFY_FAILED"):
            flower.join(client, address, root_certificate=tmp_path / "other" / "ca.pem")
        stranger = begin(
            "stranger", 0
        )  # Flower's own connection, in a process of its own: its threads outlive the refusal
        running.append(stranger)
        assert stranger.wait(100) != 0
        assert "CERTIFICATE_VERIFY_FAILED" in log("stranger")
        running.remove(stranger)
        running += [begin("client", k) for k in range(ends.CLIENTS)]
        for process, who in zip(running, [("server", 0), *(("client", k) for k in range(3))], strict=True):
            assert process.wait(400) == 0, log(*who)
    finally:
        for process in running:
            process.kill()
    for name, method in ends.METHODS.items():
        played = simulate(method, ends.model(), ends.everybody(), ends.ROUNDS, seed=ends.SEED)
        (state,) = played[-1].states.values()
        for leaf, value in load_file(tmp_path / f"{name}.safetensors").items():
            torch.testing.assert_close(value, state.server[leaf], **TOLERANCE)
        for k in range(ends.CLIENTS):
            own, due = ends.end(name, k, tmp_path).state().clients, state.clients.rows(torch.tensor([k]))
            for leaf, value in own.rows(torch.tensor([k])).items():
                torch.testing.assert_close(value, due[leaf], **TOLERANCE)
        check_history(pd.read_csv(tmp_path / f"{name}.csv"), played)


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"nobody listens on {port}")

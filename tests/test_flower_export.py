"""A method with real clients equals the simulation, or is refused; what travels is what the codec counts."""

import io
import os
import pickle
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import fedstat as fs
from fedstat.export import Client, Packet, Refused, Server
from fedstat.federated.rounds import Round

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
os.environ.setdefault("FLWR_HOME", str(Path(tempfile.gettempdir()) / "fedstat-flower"))
flwr = pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.common import FitIns, Parameters, serde  # noqa: E402
from flwr.serverapp import Grid  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedstat.export import flower, grpc, talk  # noqa: E402
from tests.support import flower_ends as ends  # noqa: E402

#: What needs at the server, or at a client, what the messages do not bring there.
STAY = {"ClusteredFL", "FactorizedFL", "FedAMP", "FedCAC", "FedFOMO", "FedPAC", "PFedGate"}
TOLERANCE = {"rtol": 0, "atol": 2e-6}


def simulate(method: fs.Method, model: object, clients: fs.data.Clients, rounds: int, **how: object) -> list[Round]:
    """Return the rounds of the simulation; what each sent is read before the next begins."""
    played = []
    for round in fs.rounds(method, model, clients, ends.TRAINING, **how):
        played.append(round)
        if round.number == rounds:
            return played
    return played


def check_equal(server: Server, kept: Callable[[int], fs.State], last: Round) -> None:
    """Compare the server's shared part, and what each client keeps, with the simulation's state."""
    (state,) = last.states.values()
    for name, leaf in state.server.items():
        torch.testing.assert_close(server.state.server[name], leaf, **TOLERANCE)
    for k in range(server.clients):
        rows = state.clients.rows(torch.tensor([k]))
        own = kept(k).clients.rows(torch.tensor([k]))
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
@pytest.mark.parametrize("name", sorted(fs.methods.available()))
def test_every_method_equals_the_simulation_or_is_refused_by_name(name: str, tmp_path: Path) -> None:
    method = (cls := fs.methods.find(name))(**cls.example)
    model, clients = cls.example_model or fs.models.mlp(3, 5, 2), ends.everybody((12, 17, 9, 14), inputs=3)
    how = {"participation": 0.75, "seed": 1}

    def end(k: int) -> Client:
        return Client(
            method, model, ends.alone(clients, k), ends.TRAINING, number=k, clients=4, folder=tmp_path, seed=1
        )

    def run() -> tuple[Server, list[Client]]:
        people, server = [end(k) for k in range(4)], Server(method, model, ends.TRAINING, clients=4, **how)
        hellos = {k: one.answer(Packet({}, {"ask": 0})) for k, one in enumerate(people)}
        talk.begin(server, hellos, lambda packets: {k: people[k].answer(p) for k, p in packets.items()})
        for _ in range(3):
            server.aggregate({k: people[k].answer(p) for k, p in server.requests().items()})
        return server, people

    if name in STAY:
        with pytest.raises(Refused, match=f"^{name} cannot run with real clients: "):
            run()
        return
    server, people = run()
    check_equal(server, lambda k: people[k].state(), simulate(method, model, clients, 3, **how)[-1])


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
    talk.begin(server, {k: one.answer(Packet({}, {"ask": 0})) for k, one in enumerate(people)}, dict)
    with pytest.raises(Refused, match=f"Peeping cannot run with real clients: {why}"):
        server.aggregate({k: people[k].answer(p) for k, p in server.requests().items()})


def test_the_page_names_every_method_once_and_its_programs_are_python() -> None:
    page = Path("docs/flower.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| APFL")]
    runs, stays = (
        set(re.findall(r"[A-Z][A-Za-z]+", cell)) & set(fs.methods.available()) for cell in row.split("|")[1:3]
    )
    assert runs == set(fs.methods.available()) - STAY
    assert stays == STAY | {"FedFac"}  # its dynamic version
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        compile(block, "docs/flower.md", "exec")


class Memory(Grid):
    """Flower's grid without a network: messages become bytes and messages again, both ways; arrays are counted."""

    def __init__(self, app: ClientApp, clients: int) -> None:
        self.app, self.nodes = app, {1000 + 7 * k: k for k in range(clients)}
        self.sent: list[tuple[str, str, int, int, int]] = []

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def send_and_receive(self, messages: list[Message], *, timeout: float | None = None) -> list[Message]:
        return [self.deliver(message) for message in messages]

    def deliver(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        reply = self.app(carried(message), Context(1, node, {"number": self.nodes[node]}, RecordDict(), {}))
        down, up = (sum(a.numpy().nbytes for a in m.content["arrays"].values()) for m in (message, reply))
        self.sent.append((message.metadata.message_type, message.metadata.group_id, self.nodes[node], up, down))
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


@pytest.mark.parametrize("name", ends.METHODS)
def test_strategy_and_app_equal_the_simulation_and_send_what_the_codec_counts(name: str, tmp_path: Path) -> None:
    method, model, clients = ends.METHODS[name], ends.model(), ends.everybody((12, 17, 9, 14))
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
    with pytest.raises(Refused, match="must be a number"):
        grpc._from_flower(Parameters([], "numpy.ndarray"), {"ask": b"3"})


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    method, model, clients = ends.METHODS["FedPer"], ends.model(), ends.everybody()

    def end(k: int, data: fs.data.Clients = clients) -> Client:
        return Client(method, model, ends.alone(data, k), ends.TRAINING, number=k, clients=3, folder=tmp_path)

    people = [end(k) for k in range(3)]
    hellos = {k: one.answer(Packet({}, {"ask": 0})) for k, one in enumerate(people)}
    with pytest.raises(Refused, match=r"all 3 clients must answer before the first round; \[1\] did not"):
        talk.begin(Server(method, model, ends.TRAINING, clients=3), {0: hellos[0], 2: hellos[2]}, dict)
    with pytest.raises(Refused, match="two clients say that they are client 0"):
        talk.introduced([("a", hellos[0]), ("b", hellos[0])], 3)
    with pytest.raises(ValueError, match=r"number must be one of 0\.\.2"):
        Client(method, model, ends.alone(clients, 0), ends.TRAINING, number=3, clients=3, folder=tmp_path)
    with pytest.raises(ValueError, match="data must be those of one client, got 3"):
        Client(method, model, clients, ends.TRAINING, number=0, clients=3, folder=tmp_path)

    server = Server(method, model, ends.TRAINING, clients=3)
    talk.begin(server, hellos, dict)
    replies = {k: people[k].answer(packet) for k, packet in server.requests().items()}
    honest = replies[1].arrays
    for arrays, why in (
        ({**honest, "extra": np.ones(2, np.float32)}, "sent 'extra' in different shapes, or not all of them"),
        ({n: a for n, a in list(honest.items())[1:]}, "client 1 must send .* it sent"),
        ({n: a * np.inf for n, a in honest.items()}, "finite"),
    ):
        server.requests()
        with pytest.raises(Refused, match=why):
            server.aggregate(replies | {1: Packet(arrays, {"samples": 9})})
    server.requests()
    server.aggregate({k: replies[k] for k in (0, 2)})  # who does not answer is left out
    n, own = clients.train.n[[0, 2]], [replies[k].arrays["hidden.weight"] for k in (0, 2)]
    due = np.average(own, axis=0, weights=n)
    np.testing.assert_allclose(server.state.server["hidden.weight"].numpy(), due, rtol=0, atol=1e-6)

    dynamic = fs.FedFac(layers=["hidden"], tau=fs.Count(3), kappa=0.6, dynamic=True)
    people = [
        Client(dynamic, model, ends.alone(clients, k), ends.TRAINING, number=k, clients=3, folder=tmp_path)
        for k in range(3)
    ]
    server = Server(dynamic, model, ends.TRAINING, clients=3)
    talk.begin(server, hellos, lambda packets: {k: people[k].answer(p) for k, p in packets.items()})
    with pytest.raises(Refused, match="FedFac cannot run with real clients: its server tells clients truth values"):
        server.requests()


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

"""A method on Flower: its client as a ``ClientApp``, its server as a ``Strategy``; and both over plain gRPC.

Of Flower's two interfaces this takes the one that Flower keeps: apps and strategies that exchange `Message` objects of
records, which ``flwr run`` brings to SuperNodes (since Flower 1.40 over HTTPS). `serve` and `join` put the same two
ends on Flower's gRPC connection, which Flower still carries for older programs: one server process, one process for
each client, and nothing to install or to register.

Records hold arrays and numbers. Flower turns arrays into bytes as NumPy's ``.npy`` and reads them back with
``allow_pickle=False``, so that a message with objects is refused, and nothing that came over the network is unpickled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

import pandas as pd

from fedstat._checks import number as real
from fedstat.export.client import Client
from fedstat.export.packet import Ask, Packet, Refused
from fedstat.export.server import Packets, Server
from fedstat.export.talk import begin, introduced, measured

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # nothing is to be sent anywhere; Flower reads it at its import

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid
    from flwr.serverapp import strategy as flower_strategies

    from fedstat.export.grpc import join, serve
except ImportError as error:
    raise ImportError(f"fedstat.export.flower needs Flower: pip install 'fedstat[flower]' ({error}).") from None

__all__ = ["Client", "Refused", "Server", "Strategy", "client_app", "join", "serve"]

_ARRAYS, _NUMBERS = "arrays", "numbers"
#: Seconds between two looks for clients that are not there yet.
_PAUSE = 0.5


def client_app(client: Callable[[Context], Client]) -> ClientApp:
    """Return a Flower app for SuperNodes, which answers as the client that a function makes.

    Parameters
    ----------
    client : callable
        ``client(context)`` returns the `Client` of the node at hand: its data, its number, its folder. Flower may call
        it once per message, in a process of its own; what the client keeps lies in its folder.

    Examples
    --------
    In the module that ``[tool.flwr.app.components]`` names, for nodes that were started with
    ``--node-config "number=2"``:

    >>> def client(context):  # doctest: +SKIP
    ...     number = context.node_config["number"]
    ...     data = fs.data.from_csv(f"/data/client-{number}.csv", ...)
    ...     return flower.Client(method, model, data, training, number=number, clients=3, folder="/data/kept")
    >>> app = flower.client_app(client)  # doctest: +SKIP
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        reply = client(context).answer(from_records(message.content))
        return Message(to_records(reply), reply_to=message)

    for register in (app.query(), app.train(), app.evaluate()):
        register(answer)
    return app


class Strategy(flower_strategies.Strategy):
    """A method's server as a Flower strategy; ``start(grid, ArrayRecord(), num_rounds)`` runs it.

    Parameters
    ----------
    server : Server
        The method's server; after the run ``server.state`` holds the shared part.
    timeout : float
        Seconds to wait for all clients to be there, and for answers before the first round.

    Attributes
    ----------
    evaluations : list of DataFrame
        See `history`.
    """

    def __init__(self, server: Server, timeout: float = 600) -> None:
        self.server, self.timeout = server, real("timeout", timeout, "(0, inf)")
        self.evaluations: list[pd.DataFrame] = []
        self._nodes: dict[int, int] = {}

    @property
    def history(self) -> pd.DataFrame:
        """What clients measured on their own held-out samples: round, client, estimand, metric, value."""
        return _joined(self.evaluations)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask a round's participants to train; before the first one find out who is who."""
        if server_round == 1:
            self._meet(grid)
        return self._messages(self.server.requests(), "train", server_round)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Take the method's step; return the shared part, and how many clients took part."""
        answers = self._answers(replies)
        self.server.aggregate(answers)
        shared = ArrayRecord({name: Array(leaf.numpy()) for name, leaf in self.server.state.server.items()})
        return shared, MetricRecord({"participants": len(answers)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask all clients how good their models are."""
        return self._messages(self.server.questions(), "evaluate", server_round)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord:
        """Keep what clients measured; return the mean over clients of every metric."""
        table = measured(self._answers(replies), server_round)
        self.evaluations.append(table)
        means = table.groupby(["estimand", "metric"])["value"].mean()
        return MetricRecord({f"{estimand}/{metric}": float(value) for (estimand, metric), value in means.items()})

    def summary(self) -> None:
        """Say nothing; the method prints itself."""

    def _meet(self, grid: Grid) -> None:
        """Wait for all clients, learn which node is which client, and begin the run."""
        end = time.monotonic() + self.timeout
        while len(nodes := list(grid.get_node_ids())) < self.server.clients:
            if time.monotonic() > end:
                raise Refused(f"{self.server.clients} clients must be there, {len(nodes)} came in {self.timeout:g} s.")
            time.sleep(_PAUSE)
        hello = to_records(Packet({}, {"ask": int(Ask.HELLO)}))
        asked = [Message(hello, node, "query", group_id="0") for node in nodes]
        replies = [r for r in grid.send_and_receive(asked, timeout=self.timeout) if not r.has_error()]
        known = introduced([(r.metadata.src_node_id, from_records(r.content)) for r in replies], self.server.clients)
        self._nodes = {k: node for k, (node, _) in known.items()}

        def ask(packets: Packets) -> Packets:
            return self._answers(grid.send_and_receive(self._messages(packets, "query", 0), timeout=self.timeout))

        begin(self.server, {k: hello for k, (_, hello) in known.items()}, ask)

    def _messages(self, packets: Packets, kind: str, group: int) -> list[Message]:
        return [Message(to_records(p), self._nodes[k], kind, group_id=str(group)) for k, p in packets.items()]

    def _answers(self, replies: Iterable[Message]) -> dict[int, Packet]:
        """Return the answers by client; a client whose app failed has none."""
        clients = {node: k for k, node in self._nodes.items()}
        came = [reply for reply in replies if not reply.has_error() and reply.metadata.src_node_id in clients]
        return {clients[reply.metadata.src_node_id]: from_records(reply.content) for reply in came}


def to_records(packet: Packet) -> RecordDict:
    """Return a packet as Flower's records: arrays, and numbers."""
    arrays = ArrayRecord({name: Array(array) for name, array in packet.arrays.items()})
    return RecordDict({_ARRAYS: arrays, _NUMBERS: MetricRecord(dict(packet.numbers))})


def from_records(records: RecordDict) -> Packet:
    """Return the packet in Flower's records.

    Raises
    ------
    Refused
        If they hold anything but arrays and numbers.
    """
    arrays, numbers = records.array_records.get(_ARRAYS), records.metric_records.get(_NUMBERS)
    if arrays is None or numbers is None or len(records) != 2:
        raise Refused(f"a message must hold the records {_ARRAYS!r} and {_NUMBERS!r} alone, got {sorted(records)}.")
    found = {}
    for name, array in arrays.items():
        try:
            found[name] = array.numpy()
        except Exception as error:  # any bytes may lie there
            raise Refused(f"array {name!r} is none: {error}") from None
    if lists := [name for name, value in numbers.items() if not isinstance(value, int | float)]:
        raise Refused(f"number {lists[0]!r} must be one number, got {numbers[lists[0]]!r}.")
    return Packet(found, dict(numbers))  # type: ignore[arg-type]


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True) if tables else measured({}, 0)

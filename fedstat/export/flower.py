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
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from fedstat._checks import number as real
from fedstat.export.client import Client
from fedstat.export.packet import Packet, Refused
from fedstat.export.server import Packets, Replies, Server
from fedstat.export.talk import Over, decoded, meet, read, until_over, welcome_back
from fedstat.inference.reading.missing import complete_mean

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

    When the run is interrupted, or all clients have left and none comes back, ``start`` warns and returns the result of
    the rounds until then.

    Parameters
    ----------
    server : Server
        The method's server; after the run ``server.state`` holds the shared part, and ``server.entered`` who entered
        the average of which round.
    timeout : float
        Seconds to wait for all clients to be there, for answers before the first round, and for somebody to come back
        when all have left.
    """

    def __init__(self, server: Server, timeout: float = 600) -> None:
        self.server, self.timeout = server, real("timeout", timeout, "(0, inf)")
        self._nodes: dict[int, int] = {}
        self._result = flower_strategies.Result()

    @property
    def history(self) -> pd.DataFrame:
        """What clients measured on their own held-out samples: round, client, estimand, metric, value."""
        return self.server.history

    def start(self, *args: Any, **how: Any) -> flower_strategies.Result:
        """Run as Flower's strategies do."""
        with until_over(self.server):
            return super().start(*args, **how)
        return self._result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask a round's participants to train; before the first one find out who is who, later who came back."""
        nodes = self._wait(grid, self.server.clients if server_round == 1 else 1)
        if server_round == 1:
            self._nodes = meet(self.server, nodes, partial(self._ask, grid))
        else:
            welcome_back(self.server, self._nodes, nodes, partial(self._ask, grid))
        return self._messages(self._nodes, self.server.requests(), "train", server_round)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Take the method's step; return the shared part, and whose replies entered it."""
        self.server.aggregate(self._answers(self._nodes, replies))
        shared = ArrayRecord({name: Array(leaf.numpy()) for name, leaf in self.server.state.server.items()})
        now = self.server.entered[self.server.entered["round"] == self.server.round]
        told = MetricRecord({"participants": len(now), "entered": now["client"][now["entered"]].tolist()})
        self._result.arrays, self._result.train_metrics_clientapp[server_round] = shared, told
        return shared, told

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask all clients how good their models are."""
        return self._messages(self._nodes, self.server.questions(), "evaluate", server_round)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord:
        """Keep what clients measured; return how many did, and every metric's mean over them, NaN if one value is."""
        table = self.server.measured(self._answers(self._nodes, replies))
        means = {"/".join(names): float(value) for names, value in complete_mean(table, ["estimand", "metric"]).items()}
        told = MetricRecord({"clients": table["client"].nunique(), **means})
        self._result.evaluate_metrics_clientapp[server_round] = told
        return told

    def summary(self) -> None:
        """Say nothing; the method prints itself."""

    def _wait(self, grid: Grid, fewest: int) -> list[int]:
        """Return the nodes that are there, once they are as many as must be."""
        end = time.monotonic() + self.timeout
        while len(nodes := list(grid.get_node_ids())) < fewest:
            if time.monotonic() > end and self._nodes:
                raise Over(f"all clients left, and none came back in {self.timeout:g} s")
            if time.monotonic() > end:
                raise Refused(f"{fewest} clients must be there, {len(nodes)} came in {self.timeout:g} s.")
            time.sleep(_PAUSE)
        return nodes

    def _ask(self, grid: Grid, nodes: Mapping[int, int], packets: Packets) -> Replies:
        """Ask beside the rounds, and return the answers."""
        messages = self._messages(nodes, packets, "query", 0)
        return self._answers(nodes, grid.send_and_receive(messages, timeout=self.timeout) if messages else [])

    def _messages(self, nodes: Mapping[int, int], packets: Packets, kind: str, group: int) -> list[Message]:
        return [Message(to_records(p), nodes[k], kind, group_id=str(group)) for k, p in packets.items()]

    def _answers(self, nodes: Mapping[int, int], replies: Iterable[Message]) -> Replies:
        """Return the answers by client; a client whose app failed has none."""
        clients = {node: k for k, node in nodes.items()}
        came = [reply for reply in replies if not reply.has_error() and reply.metadata.src_node_id in clients]
        return {clients[reply.metadata.src_node_id]: read(from_records, reply.content) for reply in came}


def to_records(packet: Packet) -> RecordDict:
    """Return a packet as Flower's records: arrays, and numbers."""
    arrays = ArrayRecord({name: Array(array) for name, array in packet.arrays.items()})
    return RecordDict({_ARRAYS: arrays, _NUMBERS: MetricRecord(dict(packet.numbers))})


def from_records(records: RecordDict) -> Packet:
    """Return the packet in Flower's records; what holds anything but arrays and numbers is `Refused`."""
    arrays, numbers = records.array_records.get(_ARRAYS), records.metric_records.get(_NUMBERS)
    if arrays is None or numbers is None or len(records) != 2:
        raise Refused(f"a message must hold the records {_ARRAYS!r} and {_NUMBERS!r} alone, got {sorted(records)}.")
    return decoded({name: array.numpy for name, array in arrays.items()}, numbers)

"""A method over Flower's gRPC connection: one server process, one process for each client, TLS throughout.

Flower calls ``start_server`` and ``start_client`` deprecated and keeps them for older programs. They are the one way of
Flower's that is gRPC from end to end and needs neither a SuperLink nor an app to install.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path

import grpc
import pandas as pd
from flwr.client import Client as FlowerClient
from flwr.client import start_client
from flwr.common import Code, FitIns, FitRes, Parameters, Scalar, Status, bytes_to_ndarray, ndarray_to_bytes
from flwr.server import History, ServerConfig, SimpleClientManager, start_server
from flwr.server import Server as FlowerServer
from flwr.server.client_proxy import ClientProxy

from fedstat._checks import number as real
from fedstat._checks import whole
from fedstat.export.client import Client
from fedstat.export.packet import Packet, Refused
from fedstat.export.server import Packets, Replies, Server
from fedstat.export.talk import Over, decoded, meet, read, until_over, welcome_back

#: Seconds between two looks for a server that is not there yet, and after which a look has failed.
_PAUSE, _LOOK = 0.5, 10.0
#: What gRPC says of a certificate that it does not take.
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "Peer name")
#: What stands before an array's name where its place is told.
_PLACE = "array "


def serve(
    server: Server,
    rounds: int,
    address: str,
    *,
    certificates: tuple[str | Path, str | Path, str | Path],
    timeout: float = 600,
) -> pd.DataFrame:
    """Run a method's server over gRPC with TLS, and return when its rounds are over.

    An interruption (Ctrl+C) ends the run when the question at hand is answered. Then, and when all clients have left
    and none comes back, a warning says so and the history of the rounds until then is returned.

    Parameters
    ----------
    server : Server
        The method's server; afterwards ``server.state`` holds the shared part, and ``server.entered`` who entered the
        average of which round. Should an error be raised, ``server.history`` holds what was measured before.
    rounds : int
        Number of rounds.
    address : str
        Where to listen, such as ``"0.0.0.0:9443"``.
    certificates : tuple of path
        The authority's certificate, the server's certificate and its key, in PEM.
    timeout : float
        Seconds to wait for all clients to be there, for a round's answers, and for somebody to come back when all have
        left.

    Returns
    -------
    DataFrame
        What clients measured after every round: round, client, estimand, metric, value.

    Raises
    ------
    Refused
        If the method cannot run with real clients, clients do not come, or a message before the first round is not what
        it must be.
    """
    authority, own, key = (Path(path).read_bytes() for path in certificates)
    runner = _Runner(server, real("timeout", timeout, "(0, inf)"))
    config = ServerConfig(num_rounds=whole("rounds", rounds, 1), round_timeout=timeout)
    start_server(server_address=address, config=config, server=runner, certificates=(authority, own, key))
    if runner.error is not None:
        raise runner.error
    return server.history


def join(client: Client, address: str, *, root_certificate: str | Path, timeout: float = 600) -> None:
    """Take part in a run over gRPC with TLS, and return when the server ends it.

    A connection that breaks, as it does where the client answers after the server's `timeout`, is made again, with a
    warning; the client then takes its place from the next round on.

    Parameters
    ----------
    client : Client
        The client.
    address : str
        The server's, such as ``"fl.example.org:9443"``; its certificate must be made out to that host.
    root_certificate : path
        The certificate of the authority that signed the server's, in PEM.
    timeout : float
        Seconds to wait for the server, at first and whenever the connection broke.

    Raises
    ------
    ConnectionError
        If no server comes, or at once if its certificate is not one that the authority signed for this host.
    """
    root, seconds = Path(root_certificate).read_bytes(), real("timeout", timeout, "(0, inf)")
    while True:
        _reach(address, root, seconds)
        try:
            start_client(server_address=address, client=_Client(client), root_certificates=root, insecure=False)
            return
        except grpc.RpcError as error:
            words = f"the connection to {address} broke, and is made again: {error.details()}"
            warnings.warn(words, RuntimeWarning, 2)


def _reach(address: str, root: bytes, timeout: float) -> None:
    """Wait for a server with a certificate that is trusted: it answers that it has no such method."""
    end = time.monotonic() + timeout
    options = [(f"grpc.{which}_reconnect_backoff_ms", int(1000 * _PAUSE)) for which in ("initial", "min", "max")]
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(root), options=options) as channel:
        while True:
            try:
                channel.unary_unary("/fedstat/look")(b"", timeout=_LOOK)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                    return
                details = error.details() or ""
                if any(word in details for word in _UNTRUSTED):
                    raise ConnectionError(
                        f"the certificate of {address} is not one that the authority in root_certificate signed for "
                        f"this host: {details}"
                    ) from None
                if time.monotonic() > end:
                    raise ConnectionError(f"no server at {address} in {timeout:g} s: {details}") from None
            time.sleep(_PAUSE)


class _Client(FlowerClient):
    """Answer what comes over the connection."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def fit(self, ins: FitIns) -> FitRes:
        """Answer one packet, whatever it asks; a client whose training diverged says so and stays."""
        try:
            reply = self.client.answer(_from_flower(ins.parameters, ins.config))
        except FloatingPointError as error:
            warnings.warn(str(error), RuntimeWarning, 2)
            return FitRes(Status(Code.FIT_NOT_IMPLEMENTED, str(error)), Parameters([], ""), 0, {})
        parameters, numbers = _to_flower(reply)
        return FitRes(Status(Code.OK, ""), parameters, int(reply.numbers["samples"]), numbers)


class _Runner(FlowerServer):
    """Let a `Server` say what is sent, and give it what came back."""

    def __init__(self, server: Server, timeout: float) -> None:
        super().__init__(client_manager=SimpleClientManager())
        self.server, self.timeout = server, timeout
        self.error: Exception | None = None

    def fit(self, num_rounds: int, timeout: float | None) -> tuple[History, float]:
        """Meet all clients and play all rounds; an error is kept, so that clients are sent home before it is raised."""
        begun = time.monotonic()
        try:
            with until_over(self.server):
                proxies = self._meet()
                for _ in range(num_rounds):
                    self._welcome_back(proxies)
                    self.server.aggregate(self._ask(proxies, self.server.requests()))
                    self.server.measured(self._ask(proxies, self.server.questions()))
        except Exception as error:
            self.error = error
        return History(), time.monotonic() - begun

    def _meet(self) -> dict[int, ClientProxy]:
        """Wait for all clients, learn which connection is which client, and begin the run."""
        manager = self.client_manager()
        if not manager.wait_for(self.server.clients, ceil(self.timeout)):
            came = manager.num_available()
            raise Refused(f"{self.server.clients} clients must be there, {came} came in {self.timeout:g} s.")
        return meet(self.server, manager.all().values(), self._ask)

    def _welcome_back(self, proxies: dict[int, ClientProxy]) -> None:
        """Wait until somebody is there, and learn who came back."""
        manager = self.client_manager()
        if not manager.wait_for(1, ceil(self.timeout)):
            raise Over(f"all clients left, and none came back in {self.timeout:g} s")
        welcome_back(self.server, proxies, list(manager.all().values()), self._ask)

    def _ask(self, proxies: Mapping[int, ClientProxy], packets: Packets) -> Replies:
        """Send packets and return the answers; a client whose connection broke has none."""
        if not packets:
            return {}

        def one(k: int) -> FitRes | None:
            parameters, config = _to_flower(packets[k])
            try:
                return proxies[k].fit(FitIns(parameters, config), timeout=self.timeout, group_id=0)
            except Exception:  # Flower has an exception for each way in which a connection may end
                return None

        # replies are read in this thread: in early releases of Python 3.11 threads that parse headers at once may fail
        with ThreadPoolExecutor(len(packets)) as pool:
            came = zip(packets, pool.map(one, packets), strict=True)
            return {k: _answer(reply) for k, reply in came if reply is not None}


def _answer(reply: FitRes) -> Packet | Refused:
    """Return the packet in a client's reply, or why there is none."""
    if reply.status.code != Code.OK:
        return Refused(f"it failed: {reply.status.message!r}.")
    return read(_from_flower, reply.parameters, reply.metrics)


def _to_flower(packet: Packet) -> tuple[Parameters, dict[str, Scalar]]:
    """Return a packet as Flower's parameters and scalars; scalars tell the place of every array by its name."""
    tensors = [ndarray_to_bytes(array) for array in packet.arrays.values()]
    places = {f"{_PLACE}{name}": i for i, name in enumerate(packet.arrays)}
    return Parameters(tensors, "numpy.ndarray"), {**packet.numbers, **places}


def _from_flower(parameters: Parameters, scalars: Mapping[str, Scalar]) -> Packet:
    places = {key.removeprefix(_PLACE): at for key, at in scalars.items() if key.startswith(_PLACE)}
    if len(places) != len(parameters.tensors):
        raise Refused(f"{len(parameters.tensors)} arrays came, but {len(places)} have names.")
    numbers = {key: value for key, value in scalars.items() if not key.startswith(_PLACE)}
    arrays = {name: lambda at=at: bytes_to_ndarray(parameters.tensors[int(at)]) for name, at in places.items()}
    return decoded(arrays, numbers)

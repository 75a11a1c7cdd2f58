"""A method's client: its own data, what it keeps, and the method's local steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from fedstat._checks import whole
from fedstat._files import atomic_file
from fedstat.data import Clients
from fedstat.export.coded import pack_coded
from fedstat.export.packet import Ask, Packet, Refused, combine, number, pack, refusal, unpack, unpack_masks
from fedstat.export.start import common_start, federation_of, own_view, setting_of, take_seat, with_masks
from fedstat.federated.client.local import Learner, Training
from fedstat.federated.client.losses import choose_task
from fedstat.federated.client.network import Model, Params
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.codec import Selected
from fedstat.federated.compression import compressed
from fedstat.federated.engine.rehearsal import outputs_of, rehearse
from fedstat.federated.engine.training import train
from fedstat.federated.method import Method, rows, stack
from fedstat.federated.record.as_module import as_module
from fedstat.federated.replicate import check_samples, held_out
from fedstat.federated.rounds import evaluate, make_federation
from fedstat.federated.route import Equipment
from fedstat.federated.state import Predictor, State, Update
from fedstat.federated.store import ClientStore

#: Under which name, which no leaf has, the round stands beside the leaves that the server said at its end.
_ROUND = "the round"


class Client:
    """One client of a method, with its own data and nobody else's.

    It keeps its personal leaves in a file of `folder`, ``client-NUMBER.safetensors``, from round to round and over
    restarts, and never sends them; beside them lies what a compression with feedback has yet to send, and in
    ``shared-NUMBER.safetensors`` what the server said at the end of a round. It answers packets; who carries them is
    not its affair.

    Parameters
    ----------
    method : Method
        The method, with the same settings at the server and at all clients.
    model : callable or nn.Module
        What builds the network, the same everywhere.
    data : Clients
        The data of this client alone (``len(data) == 1``); class codes must mean the same at all clients.
    training : Training
        Local training.
    number : int
        Which client it is, 0 to `clients` - 1.
    clients : int
        How many clients the federation has.
    folder : path
        Where it keeps its personal leaves.
    seed : int
        The run's seed: initial weights and batches follow it, as in `fedstat.federate`.
    dtype : {"float32", "float64"}
        Floating type of the leaves.

    Raises
    ------
    ValueError
        If data, network and arguments do not fit together.

    Examples
    --------
    What a client says of itself when it is asked:

    >>> import tempfile
    >>> import fedstat as fs
    >>> data = fs.data.relu_mixture(clients=1, d=4, units=8)
    >>> how = {"number": 0, "clients": 3, "folder": tempfile.mkdtemp()}
    >>> client = fs.export.Client(fs.methods.FedPer(), fs.models.mlp(4, 3, 2), data, fs.Training(lr=0.1), **how)
    >>> said = client.answer(fs.export.Packet({}, {"ask": 0, "round": 0})).numbers
    >>> said["number"], said["samples"], said["classes"]
    (0, 160, 2)
    """

    def __init__(
        self,
        method: Method,
        model: Model,
        data: Clients,
        training: Training,
        *,
        number: int,
        clients: int,
        folder: str | Path,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        self.method, self.data = method, data
        self.clients = whole("clients", clients, 1)
        self.number = whole("number", number, 0)
        self._ids = torch.tensor([self.number])
        if number >= clients:
            raise ValueError(f"number must be one of 0..{clients - 1}, as there are {clients} clients, got {number}.")
        if len(data) != 1:
            raise ValueError(f"data must be those of one client, got {len(data)} clients.")
        codes = None if data.classes is None else tuple(range(len(data.classes)))
        self.seat = take_seat(model, seed, dtype, clients, codes)
        check_samples(self.seat.network, data)
        task = choose_task(
            training.loss, None if codes is None else len(codes), outputs_of(self.seat.network, data.train)
        )
        samples = StackedSamples.stack([data.train], self.seat.network.dtype, "cpu")
        self.equipment = Equipment(task, training, samples, rehearse(self.seat.network, data.train))
        self.federation = federation_of(method, self.seat, training, None, None)
        self.network = self.federation.network
        self.setting = setting_of(method, model, training, clients, seed, dtype)
        self.start = common_start(method, self.federation)
        self.file = Path(folder) / f"client-{number}.safetensors"
        self.shared = self.file.with_name(f"shared-{number}.safetensors")
        self.file.parent.mkdir(parents=True, exist_ok=True)

    def answer(self, packet: Packet) -> Packet:
        """Do what the server asks, and return what it is told.

        Raises
        ------
        Refused
            If the packet is not what the method's messages are.
        """
        ask, t = Ask(number(packet, "ask", 0, max(Ask))), number(packet, "round", 0)
        arrays, numbers = dict[str, np.ndarray](), dict[str, int | float]()
        match ask:
            case Ask.HELLO | Ask.RETURN:
                if ask == Ask.HELLO:
                    self.file.unlink(missing_ok=True)
                    self.shared.unlink(missing_ok=True)
                classes = -1 if self.data.classes is None else len(self.data.classes)
                numbers = {"number": self.number, "classes": classes, "setting": self.setting}
            case Ask.WARM_UP:
                arrays = self._warm_up(t)
            case Ask.MASKS:
                masks = unpack_masks(packet, {name: leaf.shape for name, leaf in self.start.server.items()})
                self._keep(with_masks(self.start, masks, self.clients))
            case Ask.TRAIN:
                sent = self._train(packet, t)
                arrays, numbers = dict(sent.arrays), dict(sent.numbers)
            case Ask.EVALUATE:
                numbers = self._evaluate(packet, t)
        return Packet(arrays, {"ask": int(ask), "round": t, "samples": int(self.data.train.n[0]), **numbers})

    def personal(self, estimand: str | None = None) -> nn.Module:
        """Return the model that this client uses, in evaluation mode, as of the last round whose end it was told.

        It is the model that `fedstat.federated.record.result.Result.personal` returns in the simulation.

        Parameters
        ----------
        estimand : str, optional
            Which of the method's models, by default its first, e.g. "personal".

        Raises
        ------
        ValueError
            If no round has ended yet, the method has no such model, or the folder's files are damaged or of another
            run.
        """
        if not self.shared.is_file():
            raise ValueError(f"client {self.number} has no model in {self.file.parent}: no round has ended there.")
        return as_module(self._models(), estimand, Learner(self.network, self.equipment.task))

    def state(self) -> State:
        """Return what this client knows: the common start, its masks, and its row as it last trained it."""
        if not self.file.is_file():
            return self.start
        kept = _read(self.file)
        masks, row, unsent = (
            {name.removeprefix(prefix): leaf for name, leaf in kept.items() if name.startswith(prefix)}
            for prefix in ("mask ", "row ", "unsent ")
        )
        state = with_masks(self.start, masks, self.clients) if masks else self.start
        if _shapes(row) != _shapes({name: leaf[0] for name, leaf in state.clients.rows(self._ids).items()}):
            raise Refused(f"{self.file} holds the leaves of another run; remove it.")
        return replace(
            state,
            clients=state.clients.write(self._ids, {name: leaf[None] for name, leaf in row.items()}),
            unsent=ClientStore.filled(unsent, self.clients) if unsent else state.unsent,
        )

    def _keep(self, state: State) -> None:
        """Write the client's row, what it has not sent, and the masks if they were told."""
        stores = {"row": state.clients, "unsent": state.unsent}
        content = {
            f"{of} {name}": leaf[0].contiguous()
            for of, store in stores.items()
            for name, leaf in store.rows(self._ids).items()
        }
        if state.shared is not self.start.shared:
            content |= {f"mask {name}": mask.contiguous() for name, mask in state.shared.items()}
        with atomic_file(self.file) as new:
            save_file(content, new)

    def _warm_up(self, repeat: int) -> dict[str, np.ndarray]:
        """Train once from the common start, and return what the method's prelude says."""
        start = {name: leaf[None] for name, leaf in self.network.initial().items()}
        end = self._trained(Method(), start, -1 - repeat)
        names, _ = self.method.prelude(self.network, 1)
        return pack({n: end[n] for n in names}, 0, self.method)

    def _trained(self, method: Method, start: Params, round: int) -> Params:
        """Train this client from `start` (1, ...) by a method's local steps."""
        return train(self.equipment.route(method, self.network, start), start, self.seat.jobs([self.number]), round)

    def _received(self, packet: Packet, state: State) -> tuple[Params, Params, Params]:
        """Return the client's leaves with what came put in, what came, and where."""
        known = own_view(self.start.server, state.clients, self._ids)
        values, said = unpack(packet.arrays, known, rows(state.shared, self._ids))
        if unknown := values.keys() - known.keys():
            raise Refused(f"arrays {sorted(unknown)} came, but {type(self.method).__name__} has no such leaves.")
        return combine(known, values, said), values, said

    def _train(self, packet: Packet, t: int) -> Packet:
        """Train for one round; keep what is personal, return what is shared."""
        state = replace(self.state(), round=t)
        start, values, said = self._received(packet, state)
        end = self._trained(self.method, start, t)
        seeds, codec, of = self.seat.seeds, self.method.compression, type(self.method).__name__
        rng = seeds.stream("server", t)
        update = Update(self._ids, start, end, torch.ones(1, dtype=self.network.dtype), rng, self.network)
        try:
            message = self.method.upload(replace(state, memory={}), update)
            sent = Packet(pack(message, 0, self.method))
        except KeyError as error:
            raise refusal(self.method, f"what clients send needs {error}, which the server remembers") from None
        if codec is not None:
            rngs = [seeds.stream("compression", t, self.number)]
            down = {name: Selected(value, said[name]) for name, value in values.items()}
            _, coded, unsent = compressed(codec, of, state, update, down, message, rngs, self.clients)
            sent, state = pack_coded(coded, message, start, self.method), replace(state, unsent=unsent)
        if state.clients:
            store = state.clients.write(self._ids, {name: end[name] for name in state.clients})
            state = replace(state, clients=store)
        if state.clients or state.unsent:
            self._keep(state)
        return sent

    def _models(self) -> Mapping[str, Predictor]:
        """Return this client's models after the last round whose end it was told."""
        shared = _read(self.shared)
        ended = int(shared.pop(_ROUND, torch.tensor(0)))
        if _shapes(shared) != _shapes(self.start.server):
            raise Refused(f"{self.shared} holds the leaves of another run; remove it.")
        state = replace(self.state(), round=ended, server=shared)
        at_hand = replace(make_federation(self.method, self.seat, self.equipment), clients=self.federation.clients)
        return self.method.models(state, self._ids, at_hand)

    def _evaluate(self, packet: Packet, t: int) -> dict[str, int | float]:
        """Keep what came, and measure the models that this client now uses on its held-out samples, if it has any."""
        _, values, said = self._received(packet, self.state())
        common: Params = {name: leaf[None] for name, leaf in self.start.server.items()}
        server = {name: leaf[0].contiguous() for name, leaf in combine(common, values, said).items()}
        with atomic_file(self.shared) as new:
            save_file({**server, _ROUND: torch.tensor(t)}, new)
        split = next((name for name in ("test", "validation") if name in self.data.splits), None)
        if split is None:
            return {}
        route = self.equipment.route(self.method, self.network, stack(server, 1))
        table = evaluate(route, lambda _: self._models(), held_out(self.data, split, self.network), {})
        return {
            f"{e}/{m}": float(v) for e, m, v in zip(table["estimand"], table["metric"], table["value"], strict=True)
        }


def _read(file: Path) -> Params:
    """Return the leaves in a file of the client's folder."""
    try:
        return load_file(file)
    except Exception as error:  # any bytes may lie there
        raise Refused(f"{file} is damaged: {error!r}.") from error


def _shapes(leaves: Params) -> dict[str, torch.Size]:
    return {name: leaf.shape for name, leaf in leaves.items()}

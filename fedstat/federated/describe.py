"""Say who holds which leaf of a network under a method, and how many bytes travel for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import nn

from fedstat._checks import choice
from fedstat.data import Clients, Samples
from fedstat.federated.client.local import Training
from fedstat.federated.client.losses import choose_task
from fedstat.federated.client.network import Model, Network, build
from fedstat.federated.client.optimizers import in_rows
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.codec import size
from fedstat.federated.engine.rehearsal import outputs_of, rehearse
from fedstat.federated.engine.training import train
from fedstat.federated.method import Method
from fedstat.federated.plan import check_one
from fedstat.federated.replicate import make_replicate
from fedstat.federated.rounds import start_run
from fedstat.federated.route import Equipment
from fedstat.federated.state import State, Update


@dataclass(frozen=True, eq=False, repr=False)
class Description:
    """The table of who holds what; ``print`` it.

    Attributes
    ----------
    title : str
        The method's name.
    route : str
        How its clients train.
    table : DataFrame
        One row per leaf or message entry: shape, who holds it (all of it, or how many elements), and bytes per client
        and round, up and down, in the first round.

    Examples
    --------
    >>> import fedstat as fs
    >>> found = fs.describe(fs.methods.FedPer(), fs.models.mlp(4, 3, 2))
    >>> int(found.table["up"].sum())
    60
    """

    title: str
    route: str
    table: pd.DataFrame

    def __repr__(self) -> str:
        total = self.table[["up", "down"]].sum()
        foot = f"A client sends {total['up']:,} bytes and receives {total['down']:,} in the first round."
        return f"{self.title}\n\n{self.table.to_string(index=False)}\n\n{foot}\nTraining: {self.route}."


def describe(method: Method, model: Model, clients: Clients | None = None, *, dtype: str = "float32") -> Description:
    """Say for every leaf who holds it and how many bytes travel for it, and how clients train, by running one round.

    Parameters
    ----------
    method : Method
        The method to describe.
    model : callable or nn.Module
        The network.
    clients : Clients, optional
        The data, on which shared units or sparsity may depend; by default a few made-up samples of a shape that the
        network takes.
    dtype : {"float32", "float64"}
        Floating type of the numbers that travel.

    Returns
    -------
    Description
        The table; ``print`` it.

    Raises
    ------
    ValueError
        If the method does not fit the network, or no shape of inputs is found that the network takes; pass `clients`
        then.

    Examples
    --------
    >>> import fedstat as fs
    >>> print(fs.describe(fs.methods.FedPer(), fs.models.mlp(4, 3, 2)))  # doctest: +ELLIPSIS
    FedPer(weighting='samples', server=None, aggregator=None, ..., layers=None) (made-up inputs)
    <BLANKLINE>
             leaf shape holder  up  down
    hidden.weight   3x4 server  48    48
      hidden.bias     3 server  12    12
      head.weight   2x3 client   0     0
        head.bias     2 client   0     0
    <BLANKLINE>
    A client sends 60 bytes and receives 60 in the first round.
    Training: stacked clients, at most ... at once; closed form: a chain of dense layers.
    """
    check_one(method)
    if clients is not None and not isinstance(clients, Clients):
        raise ValueError(f"clients must be Clients, as fs.data.from_arrays makes them, got {type(clients).__name__}.")
    choice("dtype", dtype, ("float32", "float64"))
    data = _made_up(build(model, np.random.default_rng(0)), max(3, method.fewest)) if clients is None else clients
    replicate = make_replicate(data, model, Seeds(0), dtype, "cpu")
    outputs = outputs_of(replicate.network, data.train)
    task = choose_task(None, None if data.classes is None else len(data.classes), outputs)
    executor = rehearse(replicate.network, data.train)
    # two epochs, so that methods with two phases of local training have one for each
    samples = StackedSamples.stack([data.train], replicate.network.dtype, "cpu")
    equipment = Equipment(task, Training(lr=0.01, local_epochs=2), samples, executor)
    run = start_run((type(method).__name__, 0), method, replicate, equipment)
    ids = torch.arange(len(data))
    start = method.receive(run.state, ids)
    end = train(run.route, start, replicate.jobs(ids.tolist()), 0)
    weight = torch.full((len(ids),), 1 / len(ids), dtype=run.network.dtype)
    update = Update(ids, start, end, weight, np.random.default_rng(0), run.network)
    received = method.download(run.state, update)
    _, sent, _ = run.compressed(0, update, received, method.upload(run.state, update))
    up, down = (
        {name: round(float(np.mean(size({name: entry})))) for name, entry in m.items()} for m in (sent, received)
    )
    shapes = {name: "x".join(map(str, leaf.shape)) for name, leaf in run.state.server.items()}
    names = dict.fromkeys([*shapes, *up, *down])
    table = pd.DataFrame(
        [(name, shapes.get(name, ""), _holder(run.state, name), up.get(name, 0), down.get(name, 0)) for name in names],
        columns=["leaf", "shape", "holder", "up", "down"],
    )
    note = " (made-up inputs)" if clients is None else ""
    return Description(f"{method}{note}", str(run.route), table)


def _holder(state: State, name: str) -> str:
    """Say who holds a leaf: the server, the client, or how many elements each."""
    if name not in state.server:
        return "message"
    if name not in state.shared:
        return "server"
    total = state.server[name].numel()
    mask = state.shared[name].expand(-1, *state.server[name].shape)
    ours = in_rows(mask).sum(1).double().mean().item()
    if ours in (0, total):
        return "server" if ours else "client"
    return f"server {ours:g}, client {total - ours:g}"


def _made_up(network: Network, clients: int) -> Clients:
    """Draw a few random samples of a shape that the network takes."""
    sides = [4, 6, 8, 12, 14, 16, 24, 28, 32, 48, 64, 96, 128, 224]
    shapes: list[tuple[int, ...]] = []
    kinds = nn.Linear | nn.Conv2d | nn.Embedding
    first = next((layer for layer in network.module.modules() if isinstance(layer, kinds)), None)
    if isinstance(first, nn.Embedding):
        shapes = [(s,) for s in sides]
    elif isinstance(first, nn.Linear):
        shapes = [(first.in_features,), (8, first.in_features)]
    elif first is not None:
        shapes = [(*channels, s, s) for channels in ((first.in_channels,), ()) for s in sides]
    for shape in shapes:
        rng = np.random.default_rng(0)
        size = (clients, 8, *shape)
        x = rng.integers(first.num_embeddings, size=size) if isinstance(first, nn.Embedding) else rng.normal(size=size)
        try:
            outputs = network(network.initial(), network.inputs(torch.from_numpy(x[0]))).shape
        except (RuntimeError, IndexError, ValueError):
            continue
        if len(outputs) == 2 and outputs[0] == 8:
            classes = max(2, outputs[1])
            y = rng.integers(classes, size=(clients, 8))
            return Clients(Samples.from_rows(x, y), classes=tuple(range(classes)))
    raise ValueError("no shape of inputs was found that the network takes; pass clients.")

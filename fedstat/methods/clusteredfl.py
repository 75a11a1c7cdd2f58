"""ClusteredFL: the server bisects clients by the cosines of their changes once their common model is stationary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import in_rows, inner_products
from fedstat.federated.method import Method
from fedstat.federated.slots import in_slot, slot
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.federated.store import ClientStore

NODE, SIDE, DELTA = "node", "side", "delta"


@dataclass(frozen=True, kw_only=True)
class ClusteredFL(Method):
    """The server bisects clients, again and again, where their common model is stationary and they still pull apart.

    At first there is one cluster. A cluster whose clients' changes Delta_k cancel, ``|mean Delta| < eps1``, although
    some are large, ``max |Delta_k| > eps2``, is bisected so that the largest cosine between changes across the cut is
    as small as can be. The server averages each cluster by itself (Sattler et al. 2020, "Clustered Federated Learning:
    Model-Agnostic Distributed Multitask Optimization Under Privacy Constraints", Algorithms 1 and 3).

    Parameters
    ----------
    eps1, eps2 : float
        Thresholds of stationarity and of disagreement, not negative (0.4 and 1.6, as in the public code). Both depend
        on model and learning rate, see `relative`. With ``eps1=0`` the method is FedAvg.
    min_rounds : int
        Rounds before the first bisection, not negative (20, as in the public code).
    relative : bool
        Whether eps1 and eps2 are in units of the mean ``|Delta_k|`` over the participants of the first round that has
        any (False).
    linkage : {"single", "complete"}
        The clustering that finds the cut. Single linkage of the distances ``1 - cosine`` is the exact bisection of the
        paper ("single"); the public code has complete linkage.
    server : None
        Every cluster has a mean of its own.
    weighting, compression
        See `Method`; weights count within a cluster, and also in the mean of the criterion. The paper weighs by
        samples, the public code uniformly.

    Notes
    -----
    The cluster's model travels down, the trained model up; the server keeps every client's last change, and judges a
    cluster by these, once each of its clients has sent one. Averages run over the round's participants. The server
    compares changes of the weights that train; it averages running statistics within the cluster.

    Clusters form a tree, whose inner nodes keep the model at which they were bisected, and whose sides keep their mean
    change. A new client trains one round from the model of each node on its way down, takes the side whose mean
    change has the larger cosine with its own, and uses the model where it ends.

    The authors' code: from the second bisection on it takes places in a cluster for numbers of clients, an error that
    we do not repeat; it leaves out running statistics, and evaluates in training mode. Its learning rate decays by 0.99
    per round, as it does here with ``Training(lr_decay=0.99)``; its optimiser, SGD with momentum 0.9, lives on from
    round to round, while ours is new, which matters for eps1 and eps2. The defaults that differ are named above.

    Examples
    --------
    Two clients answer the other way round, and end in a cluster of their own:

    >>> import numpy as np
    >>> import fedstat as fs
    >>> x, client = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 4
    >>> clients = fs.data.from_arrays(x, (x[:, 0] > 0) ^ (client >= 2), client)
    >>> method = fs.methods.ClusteredFL(eps1=0.5, eps2=0.5, relative=True, min_rounds=2)
    >>> result = fs.federate(method, fs.models.mlp(3, 8, 2), clients, fs.Training(lr=0.3), rounds=8, progress=False)
    >>> result.states["Clustered-FL", 0].memory["cluster"].tolist()
    [1, 1, 2, 2]
    """

    eps1: float = 0.4
    eps2: float = 1.6
    min_rounds: int = 20
    relative: bool = False
    linkage: Literal["single", "complete"] = "single"

    label = "Clustered-FL"
    fewest = 2
    exempt = {
        "one client": "one client is nothing to cluster",
        "clones": "the law compares with one client, which is nothing to cluster",
    }
    example = {"eps1": 100.0, "eps2": 0.0, "min_rounds": 0}
    _ranges = {
        "eps1": "[0, inf)", "eps2": "[0, inf)", "min_rounds": 0, "linkage": ("single", "complete"),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.server is not None:
            raise ValueError(f"server must be None, since every cluster has a mean of its own, got {self.server!r}.")

    def at_once(self, network: Network, clients: int) -> Mapping[str, int]:
        """Hold inner products, norms, cosines and distances of all pairs where the first cluster is divided."""
        floats = sum(network.shapes[name].numel() for name in network.trainable)
        return {
            "the inner products and distances of all pairs of clients": 5 * 8 * clients**2,
            "the last changes of all clients": 2 * 8 * clients * floats,
        }

    def init(self, network: Network, federation: Federation) -> State:
        """Start with one cluster, the root of the tree."""
        server, clients = self.leaves(network, federation), federation.clients
        zeros = {name: torch.zeros_like(server[name]) for name in network.trainable}
        n = clients.train.n if self.weighting == "samples" else np.ones(len(clients))
        memory = {
            **in_slot({name: leaf[None] for name, leaf in server.items()}, NODE),
            **in_slot({name: leaf[None] for name, leaf in zeros.items()}, SIDE),
            "sides": torch.full((1, 2), -1),
            "cluster": torch.zeros(len(clients), dtype=torch.int64),
            "weight": torch.from_numpy(n.astype(np.float64)),
            "seen": torch.zeros(len(clients), dtype=torch.bool),
            "unit": torch.ones((), dtype=torch.float64),
        }
        return State(server, ClientStore.filled(in_slot(zeros, DELTA), len(clients)), memory=memory)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Give each participant its cluster's model."""
        return {name: nodes[state.memory["cluster"][ids]] for name, nodes in slot(state.memory, NODE).items()}

    def aggregate(self, state: State, update: Update) -> State:
        """Bisect the clusters that are due, then average within each."""
        change = {name: leaf - update.start[name] for name, leaf in update.end.items() if name in state.server}
        clients = state.clients.write(update.ids, in_slot({n: change[n] for n in update.network.trainable}, DELTA))
        memory = state.memory | {"seen": state.memory["seen"].index_fill(0, update.ids, True)}
        if self.relative and not state.memory["seen"].any():
            memory["unit"] = _gram(clients, update.ids).diagonal().sqrt().mean()
        for node in memory["cluster"].unique().tolist():
            memory = self._divided(memory, clients, node, state.round + 1)
        nodes = torch.arange(len(memory["sides"]), device=update.ids.device)
        weight = (memory["cluster"][update.ids] == nodes[:, None]) * update.weight
        total = weight.sum(1, keepdim=True)
        weight = weight / torch.where(total > 0, total, 1)
        for name, leaf in slot(memory, NODE).items():
            memory[f"{NODE}/{name}"] = leaf + torch.tensordot(weight, change[name], 1)
        root = {name: leaf[0] for name, leaf in slot(memory, NODE).items()}
        return replace(state, server=root, clients=clients, memory=memory, round=state.round + 1)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give each client its cluster's model."""
        return {"cluster": self.predictor(self.receive(state, ids))}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Let new clients descend the tree, by the cosines of their changes with the sides' mean changes."""
        nodes, means, sides = slot(state.memory, NODE), slot(state.memory, SIDE), state.memory["sides"]
        norms = torch.stack([in_rows(leaf.double()).square().sum(1) for leaf in means.values()]).sum(0).sqrt()
        at = torch.zeros_like(ids)
        while (inner := sides[at, 0] >= 0).any():
            start = {name: leaf[at] for name, leaf in nodes.items()}
            end = federation.one_round(self, start, ids, state.round)
            products = inner_products({name: end[name] - start[name] for name in means}, means)
            cosine = products / norms.clamp(min=torch.finfo(torch.float64).tiny)
            left, right = sides[at].clamp(min=0).T
            each = torch.arange(len(at), device=at.device)
            nearer = torch.where(cosine[each, left] >= cosine[each, right], left, right)
            at = torch.where(inner, nearer, at)
        return {"cluster": self.predictor({name: leaf[at] for name, leaf in nodes.items()})}

    def _divided(self, memory: Params, clients: ClientStore, node: int, round: int) -> Params:
        """Return the server's memory after bisecting the cluster at `node`, if it is due."""
        members = (memory["cluster"] == node).nonzero()[:, 0]
        if round <= self.min_rounds or len(members) <= 2 or not memory["seen"][members].all():
            return memory
        gram, weight, unit = _gram(clients, members), memory["weight"][members], memory["unit"]
        weight = weight / weight.sum()
        stationary = (weight @ gram @ weight).clamp(min=0).sqrt() < self.eps1 * unit
        if not (stationary and gram.diagonal().max().sqrt() > self.eps2 * unit):
            return memory
        memory, delta = dict(memory), slot(clients.rows(members), DELTA)
        for side, position in enumerate(_bisect(gram.cpu().numpy(), self.linkage)):
            chosen = position.to(members.device)  # places in the cluster, not numbers of clients
            share = weight[chosen] / weight[chosen].sum()
            new = len(memory["sides"])
            for name, leaf in slot(memory, NODE).items():
                memory[f"{NODE}/{name}"] = torch.cat([leaf, leaf[node : node + 1]])
            for name, leaf in slot(memory, SIDE).items():
                mean = torch.tensordot(share.to(leaf.dtype), delta[name][chosen], 1)
                memory[f"{SIDE}/{name}"] = torch.cat([leaf, mean[None]])
            memory["sides"] = torch.cat([memory["sides"], memory["sides"].new_full((1, 2), -1)])
            memory["sides"][node, side] = new
            memory["cluster"] = memory["cluster"].index_fill(0, members[chosen], new)
        return memory


def _gram(clients: ClientStore, ids: Tensor) -> Tensor:
    """Return the inner products of clients' last changes, (m, m), in float64."""
    changes = clients.rows(ids)
    return inner_products(changes, changes)


def _bisect(gram: np.ndarray, method: Literal["single", "complete"]) -> tuple[Tensor, Tensor]:
    """Return the places in a cluster of its two sides, by hierarchical clustering of ``1 - cosine``."""
    from scipy.cluster.hierarchy import cut_tree, linkage
    from scipy.spatial.distance import squareform

    norm = np.sqrt(np.diagonal(gram))
    scale = np.outer(norm, norm)
    cosine = np.divide(gram, scale, out=np.zeros_like(gram), where=scale > 0)
    tree = linkage(squareform(np.clip(1 - cosine, 0, None), checks=False), method)
    side = torch.from_numpy(cut_tree(tree, [2])[:, 0])
    return (side == 0).nonzero()[:, 0], (side == 1).nonzero()[:, 0]

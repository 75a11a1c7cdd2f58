"""FedFOMO: a client mixes in those of the models it downloads that lower its validation loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.local import ClientData, Context, Learner
from fedstat.federated.client.network import Network, Params
from fedstat.federated.codec import Message, Selected
from fedstat.federated.means import mixed
from fedstat.federated.method import keep
from fedstat.federated.slots import in_slot, slot
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.methods.local import Local

CANDIDATE = "candidate"


@dataclass(frozen=True, kw_only=True)
class FedFOMO(Local):
    """Clients download some of the others' models and mix in those that help on their validation samples.

    Client i weighs candidate n by its benefit ``(V_i(w_i) - V_i(w_n)) / |w_n - w_i|``, where V_i is the mean loss on
    a fifth of its training samples, which are kept from training. Positive benefits, scaled to sum to one, are the
    weights o_n of ``w_i + sum_n o_n (w_n - w_i)``, from which the client trains; without positive benefits it goes on
    from w_i. The server adds the benefits to an affinity matrix and sends each client the models of highest affinity
    (Zhang et al. 2021, "Personalized Federated Learning with First Order Model Optimization", equations 3 to 6).

    Parameters
    ----------
    candidates : int
        M, largest number of models that a client downloads, at least 1 (5, as in the original's experiments).
    epsilon : float
        Probability in [0, 1] with which each of the M is drawn at random instead of being the best that is left (0.3,
        as in the original).
    epsilon_decay : float
        Amount that `epsilon` loses in every round, not negative (0.05, as in the authors' code).
    weighting
        This has no effect, since the server averages nothing.
    server, aggregator, compression, mechanism
        These are refused, since the server keeps no weights.

    Notes
    -----
    The trained model and the benefits as they are, negative ones included, travel up; up to M models travel down,
    chosen among the last round's participants other than the client itself. The server orders equal affinities, as they
    all are at first, at random, and sends nothing in the first round. A candidate equal to w_i has no benefit.
    Distances run over the weights that train; running statistics are mixed with the same o_n. The server sends a new
    client M of the last participants' models at random; the client mixes them with the common start, and trains one
    round.

    The authors' code: there gains and distances count from the model before the last local training, and the model
    trained since, which is one of the M, competes with the others for a place in the mix; ours go on from the trained
    model, so that a client whom no candidate helps trains as if alone. Affinities add scaled benefits there, and
    distances are sums of absolute differences by default.

    Examples
    --------
    It looks at validation samples:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> training, model = fs.Training(lr=0.1), fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(fs.methods.FedFOMO(), model, clients, training, rounds=2, progress=False)
    >>> sorted(result.history["estimand"].unique())
    ['personal']
    """

    candidates: int = 5
    epsilon: float = 0.3
    epsilon_decay: float = 0.05

    held_out = 0.2
    exempt = {
        "permutation": "which samples are held out is drawn for the client's number, so that it changes with the order",
        "one client": "the samples held out for validation do not train",
        "clones": "clones hold out different samples of the same data",
    }
    _ranges = {"candidates": 1, "epsilon": "[0, 1]", "epsilon_decay": "[0, inf)"}

    def at_once(self, network: Network, clients: int) -> Mapping[str, int]:
        """Hold a matrix of affinities, and while it is renewed another one."""
        return {"the affinities of all pairs of clients": 2 * 8 * clients**2}

    def init(self, network: Network, federation: Federation) -> State:
        """Start everybody alike; nobody has sent a model yet, and each client's affinity is to itself alone."""
        clients = len(federation.clients)
        memory = {
            "affinity": torch.eye(clients, dtype=torch.float64),
            "uploaders": torch.zeros(0, dtype=torch.int64),
            "sent": torch.full((clients, min(self.candidates, max(1, clients - 1))), -1),
        }
        return replace(super().init(network, federation), memory=memory)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Give each client its own model, and the candidates that the server chose for it."""
        return _beside(state, state.clients.rows(ids), state.memory["sent"][ids])

    def prepare(self, learner: Learner, params: Params, data: ClientData) -> tuple[Params, Params]:
        """Mix in the candidates that lower the validation loss."""
        candidates = slot(params, CANDIDATE)
        own = {name: params[name] for name in candidates}
        benefit = _benefit(learner, own, candidates, data)
        return mixed(own, candidates, self.mixing(benefit)), {"benefit": benefit}

    def mixing(self, benefit: Tensor) -> Tensor:
        """Return the weights o_n of the candidates, (M,): positive benefits, scaled to sum to one."""
        positive = benefit.clamp(min=0)
        total = positive.sum()
        return positive / torch.where(total > 0, total, 1)

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Report the benefits."""
        return {"benefit": context.aux["benefit"].to(learner.network.dtype)}

    def download(self, state: State, update: Update) -> Message:
        """Send the candidates."""
        sent = state.memory["sent"][update.ids] >= 0
        candidates = in_slot(slot(update.start, CANDIDATE), CANDIDATE)
        return {
            name: Selected(leaf, sent.view(*sent.shape, *[1] * (leaf.dim() - 2))) for name, leaf in candidates.items()
        }

    def upload(self, state: State, update: Update) -> Message:
        """Send the trained model, and the benefit of every candidate."""
        benefit = Selected(update.end["benefit"], state.memory["sent"][update.ids] >= 0)
        return {**{name: update.end[name] for name in state.server}, "benefit": benefit}

    def aggregate(self, state: State, update: Update) -> State:
        """Add the benefits to the affinities, and choose what everybody is sent when it next takes part."""
        sent, affinity = state.memory["sent"], state.memory["affinity"]
        benefit = torch.where(sent[update.ids] >= 0, update.end["benefit"].double(), 0)
        mine = affinity[update.ids].scatter_add(1, sent[update.ids].clamp(min=0), benefit)
        affinity = affinity.index_copy(0, update.ids, mine)
        epsilon = max(0.0, self.epsilon - self.epsilon_decay * state.round)
        best = _best(affinity, update.ids, np.arange(len(affinity)), epsilon, sent.shape[1], update.rng)
        memory = {"affinity": affinity, "uploaders": update.ids, "sent": best}
        return replace(state, clients=keep(state.clients, update), memory=memory, round=state.round + 1)

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give each client's model as it was trained."""
        return {"personal": self.predictor(state.clients.rows(ids))}

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Apply the same rule to the common start, with candidates at random."""
        new, sent = len(ids), state.memory["sent"]
        unknown = torch.zeros(new, len(sent), dtype=torch.float64, device=ids.device)
        best = _best(unknown, state.memory["uploaders"], np.full(new, -1), 0.0, sent.shape[1], federation.rng)
        end = federation.one_round(self, _beside(state, start, best), ids, state.round)
        return {"personal": self.predictor({name: end[name] for name in state.server})}


def _beside(state: State, own: Params, sent: Tensor) -> Params:
    """Put the candidates (m, M, ...) beside own models (m, ...); the own model stands for one that is missing."""
    theirs = state.clients.rows(sent.clamp(min=0).flatten())
    candidates = {}
    for name, leaf in own.items():
        there = (sent >= 0).view(*sent.shape, *[1] * (leaf.dim() - 1))
        candidates[name] = torch.where(there, theirs[name].view(*sent.shape, *leaf.shape[1:]), leaf[:, None])
    return own | in_slot(candidates, CANDIDATE)


def _benefit(learner: Learner, own: Params, candidates: Params, data: ClientData) -> Tensor:
    """Return by how much each candidate lowers one client's validation loss per distance, (M,), in float64."""

    def validation(model: Params) -> Tensor:
        losses = learner.losses(learner.network(model, data.x), data.y).double()
        return torch.where(data.held_out, losses, 0).sum() / data.held_out.sum().clamp(min=1)

    here, benefits = validation(own), []
    for n in range(len(next(iter(candidates.values())))):
        model = {name: leaf[n] for name, leaf in candidates.items()}
        squares = [(model[name] - own[name]).double().square().sum() for name in learner.network.trainable]
        distance = torch.stack(squares).sum().sqrt()
        benefits.append(
            torch.where(distance > 0, (here - validation(model)) / torch.where(distance > 0, distance, 1), 0)
        )
    return torch.stack(benefits)


def _best(
    affinity: Tensor, uploaders: Tensor, ids: np.ndarray, epsilon: float, width: int, rng: np.random.Generator
) -> Tensor:
    """Choose an uploader for each of `ids` in turn, at random with probability `epsilon`, else the best; -1 if none."""
    there, every = uploaders.cpu().numpy(), np.arange(len(ids))
    chance = rng.random((len(ids), len(there)))
    places = np.lexsort((chance, -affinity[:, uploaders].cpu().numpy()), axis=-1).argsort(-1)  # equals at random
    free, chosen = there != ids[:, None], np.full((len(ids), width), -1)
    for place in range(min(width, len(there))):
        explores = rng.random((len(ids), 1)) < epsilon
        pick = np.where(free, np.where(explores, rng.random(places.shape), places), np.inf).argmin(1)
        chosen[:, place] = np.where(free.any(1), there[pick], -1)
        free[every, pick] = False
    return torch.from_numpy(chosen).to(uploaders.device)

"""PFedGate: a private gate scales the blocks of a shared model and leaves some of them out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import number
from fedstat.federated.client.local import Batch, ClientData, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.codec import Bits, Message, Selected
from fedstat.federated.method import Method, stack
from fedstat.federated.slots import in_slot, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.federated.store import ClientStore
from fedstat.methods._gate import TRAINED, Ranking, blocks_of, gate_leaves, score

GATE, KEPT = "gate", "kept"
_TRAINED = tuple(f"{GATE}/{leaf}" for leaf in TRAINED)


@dataclass(frozen=True, kw_only=True)
class PFedGate(Method):
    """A gate of each client's own gives block-wise sparse weights to the shared model, batch by batch.

    The method cuts every tensor into blocks. The gate maps a batch to one score g in (0, 1) per block; blocks are kept
    within a capacity, and the client computes with ``theta * g * kept``. Gradients reach both theta and the gate, while
    the choice of blocks counts as constant (Chen et al. 2023, "Efficient Personalized Federated Learning via Sparse
    Model-Adaptation", equations 3 to 5).

    Parameters
    ----------
    density : float
        s, share of the elements that a client may use, in (0, 1] (0.5, as in the public example). A client uses the
        first blocks in any case, so that ``1 / parts`` is the least share, whatever `density` lies below it.
    parts : int
        Blocks per tensor, at least 1 (5, as in the public example). A tensor has fewer if blocks of one length, rounded
        up, fill it.
    gate_lr : float, optional
        Learning rate of the gate, not negative; by default that of the model. The public example has 0.1 for both.
    alternate : bool
        Whether first the gate trains and then the model, each for all local epochs; by default they train together.
    gates : {"client", "sample"}
        The scores with which a model is evaluated. "client" takes the mean scores over the client's training samples,
        so that no prediction depends on the others in its batch. "sample" takes scores of each test sample by itself,
        where the norms use the training samples' moments; the choice then changes with the sample, and evaluation takes
        long.
    ranking : {"score/size", "score"}
        The order in which blocks are chosen: by score per size until the next one does not fit, or by score alone,
        passing over those that do not fit (the published code, which also rounds scores to tenths).
    weighting, server
        See `Method`.

    Notes
    -----
    The gate is a switchable norm, a dense layer, a batch norm and a sigmoid, averaged over the batch; it stays with
    the client. The first block of each tensor is always kept. Dense layers among themselves, and all other layers among
    themselves, choose from their remaining blocks in the order of `ranking`, within ``s - s_min`` of their elements,
    where ``s_min = min(max(1 / parts, 0.1), s)`` is also the floor of the scores; with ``s = 1`` all blocks are kept.
    Norms of the gate use the moments of the batch in training, and those of all training samples afterwards.

    Theta travels down whole. The blocks that the client's mean scores keep travel up, with one bit per block, and so do
    running statistics, whole; theta counts as unchanged where nothing was sent, and is averaged there all the same. A
    new client trains the gate alone, for one round.

    The authors' code: it gates by the mean scores of each test batch, so that a prediction depends on the others in
    it, and averages over all clients, absentees with the old model; we gate by the client or the sample, and average
    over participants, as in FedAvg. Their floor bounds the scores by which blocks are chosen, not those that scale
    them, and gradients pass through the choice as if it were the score: where the floor does not bind, the score g of a
    block that is kept has 1 + g times our gradient. Their code lowers both rates on plateaus, and clips gradients of
    model and gate at norm 10.

    Examples
    --------
    Clients receive the whole network, and send the part alone that their gate let through:

    >>> import fedstat as fs
    >>> found = fs.describe(fs.methods.PFedGate(density=0.5), fs.models.mlp(40, 30, 2))
    >>> bool(found.table["up"].sum() <= found.table["down"].sum() / 2)
    True
    """

    density: float = 0.5
    parts: int = 5
    gate_lr: float | None = None
    alternate: bool = False
    gates: Literal["client", "sample"] = "client"
    ranking: Ranking = "score/size"

    label = "pFedGate"
    exempt = {"one client": "the gate scales and cuts the model also where there is nobody to share it with"}
    _ranges = {
        "density": "(0, 1]", "parts": 1, "gate_lr": "[0, inf)", "gates": ("client", "sample"),
        "ranking": ("score/size", "score"),
    }  # fmt: skip

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Add one gate, from which all clients start, to the model."""
        blocks, x = blocks_of(network, self.parts).count, federation.clients.train.x
        if x.dtype.kind in "iu" and x.dtype != np.uint8:
            raise ValueError("PFedGate gates by the values of inputs, but these clients' inputs are tokens.")
        gate = gate_leaves(x.shape[1:], blocks, federation.rng)
        return network.initial() | in_slot({n: g.to(network.device, network.dtype) for n, g in gate.items()}, GATE)

    def init(self, network: Network, federation: Federation) -> State:
        """Keep the gate with the client, and show it its training samples, so that every client can be evaluated."""
        server, clients = self.leaves(network, federation), len(federation.clients)
        gate = in_slot(slot(server, GATE), GATE)
        shared = {name: torch.zeros([1] * (1 + leaf.dim()), dtype=torch.bool) for name, leaf in gate.items()}
        seen = federation.train(self, stack(gate, clients), torch.arange(clients, device=network.device), (), 0)
        return State(server, ClientStore.of({name: seen[name] for name in gate}), shared)

    def phases(self, network: Network, training: Training, round: int) -> tuple[Phase, ...]:
        """Train model and gate together, or the gate first."""
        if self.alternate:
            return self._gate_phase(training), Phase(network.trainable, name="model")
        rates = dict.fromkeys(network.trainable, number("lr", training.lr)) | dict.fromkeys(
            _TRAINED, self._rate(training)
        )
        return (Phase(tuple(rates), lr=rates),)

    def objective(self, learner: Learner, params: Params, batch: Batch, context: Context) -> Tensor:
        """Return the loss of the model that is gated by the batch's mean scores."""
        scores, _ = score(slot(params, GATE), batch.x, batch.valid)
        return learner.loss(self._gated(learner.network, params, batch.mean(scores)), batch)

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Score all training samples; the mean scores tell which blocks are sent."""
        scores, moments = score(slot(params, GATE), data.x, data.valid)
        mean, blocks = data.mean(scores), blocks_of(learner.network, self.parts)
        kept = blocks.choose(mean, self.density, self.ranking)
        return in_slot({"scores": mean, **moments}, GATE) | in_slot(blocks.spread(kept), KEPT) | {KEPT: kept}

    def upload(self, state: State, update: Update) -> Message:
        """Send the blocks that were kept, one bit per block that tells which, and running statistics."""
        kept = slot(update.end, KEPT)
        model = {name: update.end[name] for name in without_slots(state.server)}
        parts = {name: Selected(leaf, kept[name]) if name in kept else leaf for name, leaf in model.items()}
        return {**parts, KEPT: Bits(update.end[KEPT])}

    def aggregate(self, state: State, update: Update) -> State:
        """Average as FedAvg does; the model counts as unchanged where nothing was sent."""
        kept = slot(update.end, KEPT)
        sent = {name: torch.where(mask, update.end[name], update.start[name]) for name, mask in kept.items()}
        return super().aggregate(state, replace(update, end=update.end | sent))

    def predict(self, learner: Learner, params: Params, x: Tensor) -> Tensor:
        """Return the gated model's outputs, by one choice of blocks for all inputs or by one for each."""
        if self.gates == "client":
            return learner.network(self._gated(learner.network, params, params[f"{GATE}/scores"]), x)
        scores, _ = score(slot(params, GATE), x)
        outputs = [
            learner.network(self._gated(learner.network, params, own), one[None])
            for own, one in zip(scores, x, strict=True)
        ]
        return torch.cat(outputs)

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Train a gate on the shared model, which stands still, for one round."""
        end = federation.train(self, start, ids, (self._gate_phase(federation.training),), state.round)
        return {"personal": self.predictor(start | in_slot(slot(end, GATE), GATE))}

    def _gate_phase(self, training: Training) -> Phase:
        return Phase(_TRAINED, lr=self._rate(training), name="gate")

    def _rate(self, training: Training) -> float:
        return number("lr", training.lr) if self.gate_lr is None else self.gate_lr

    def _gated(self, network: Network, params: Params, scores: Tensor) -> Params:
        """Return the network's leaves with each block times its score or zero; statistics are passed on themselves."""
        blocks = blocks_of(network, self.parts)
        kept = blocks.choose(scores.detach(), self.density, self.ranking)
        factors = blocks.spread(torch.where(kept, scores.clamp(min=blocks.least(self.density)), 0))
        model = without_slots(params)
        return model | {name: model[name] * factor for name, factor in factors.items()}

"""pFedMe: clients descend the Moreau envelopes of their losses; personal models are the points near by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedstat.federated.client.local import Batch, ClientData, Context, Learner, gradient_on_all
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State

PERSONAL = "personal"


@dataclass(frozen=True, kw_only=True)
class PFedMe(Method):
    """Clients descend the Moreau envelopes of their losses; each one's personal model is the minimum near by.

    Near a model w, client k's personal model ``theta_k(w)`` minimises ``L_k(theta) + penalty / 2 |theta - w|^2``. The
    least value, as a function of w, is the envelope; its gradient is ``penalty (w - theta_k(w))``. In every local step
    the client takes a batch, finds theta from w on by some gradient steps on that batch, and moves w along the
    gradient. The server averages the models w (T. Dinh et al. 2020, "Personalized Federated Learning with Moreau
    Envelopes", Algorithm 1).

    Parameters
    ----------
    penalty : float
        lambda, positive (15, as in the authors' code).
    inner_steps : int
        K, the gradient steps that find theta, at least 1 (5, as in the authors' code).
    inner_lr : float
        Their learning rate, not negative (0.05, ours; 0.1 in the authors' code). From ``2 / penalty`` on they diverge.
    weighting : {"samples", "uniform"}
        Weights of the participants in the mean of the models ("uniform", as in the original).
    server, aggregator, compression, mechanism
        See `Method`. The original's beta, how far the server goes to the mean, is ``fs.server.SGD(lr=beta)``.

    Raises
    ------
    ValueError
        If `penalty`, `inner_steps` or `inner_lr` is out of range.

    Notes
    -----
    The model w travels down and up; the client keeps its personal model. That is theta near the w with which the client
    ends a round, by `inner_steps` steps on all its training samples at once, without dropout. Running statistics are
    those of w, which the first pass on a batch moves. A new client trains for a round, and keeps the personal model
    that results.

    Rates and steps of the training configuration are those of w; optimiser and clipping see the envelope's gradient, to
    which weight decay adds that of w. With one inner step it is ``penalty * inner_lr`` times the loss's gradient, and w
    moves as FedAvg's; with more steps and a larger penalty, at a rate of ``1 / penalty``, it comes near it, too.

    In the authors' code theta starts from w in every round, and goes on from one batch to the next, where the paper
    leaves the start open; the inner steps have a weight decay of 0.001, as in FL-bench. What it measures for the
    personal model is the client's w: theta of the last batch is kept in the tensors of the network, over which w is
    then written. All clients train in every round, and the chosen ones are averaged by samples.

    Examples
    --------
    The larger the penalty, the nearer the personal model is to w:

    >>> import fedstat as fs
    >>> from fedstat.federated import slot, without_slots
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> for penalty in 1.0, 15.0:
    ...     method = fs.methods.PFedMe(penalty=penalty)
    ...     (update,) = next(fs.rounds(method, fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1))).updates.values()
    ...     w, theta = without_slots(update.end), slot(update.end, "personal")
    ...     print(penalty, round((theta["head.weight"] - w["head.weight"]).norm().item(), 3))
    1.0 0.066
    15.0 0.019
    """

    penalty: float = 15.0
    inner_steps: int = 5
    inner_lr: float = 0.05
    weighting: Literal["samples", "uniform"] = "uniform"

    label = "pFedMe"
    exempt = {
        "one client": "a client that is alone descends the envelope of its loss, not the loss.",
        "fixed point": "the personal model is found at a rate of its own, also where the shared model has rate zero.",
    }
    _ranges = {"penalty": "(0, inf)", "inner_steps": 1, "inner_lr": "[0, inf)"}

    def leaves(self, network: Network, federation: Federation) -> Params:
        """Start the shared model and the personal one alike."""
        return network.initial() | in_slot(network.initial(), PERSONAL)

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but those of the personal model."""
        return in_slot(share_all_but(network, network.shapes), PERSONAL)

    def gradient(
        self, grad: Callable[[Params, Batch], Params], params: Params, batches: tuple[Batch, ...], context: Context
    ) -> Params:
        """Return the gradient of the envelope on one batch."""
        slope = grad(params, batches[0])  # the pass that moves statistics
        w = {name: params[name].detach() for name in slope}

        def next_slope(theta: Params) -> Params:
            statistics = {name: leaf.clone() for name, leaf in without_slots(params).items() if name not in w}
            return grad(statistics | {n: leaf.detach().requires_grad_() for n, leaf in theta.items()}, batches[0])

        theta = self._near(w, slope, next_slope)
        return {name: self.penalty * (w[name] - theta[name]) for name in w}

    def finish(self, learner: Learner, params: Params, data: ClientData, context: Context) -> Params:
        """Find the personal model on all samples."""
        slope = gradient_on_all(learner, params, data)
        w = {name: params[name] for name in learner.network.trainable}
        return in_slot(without_slots(params) | self._near(w, slope(w), slope), PERSONAL)

    def _near(self, w: Params, slope: Params, next_slope: Callable[[Params], Params]) -> Params:
        """Return where `inner_steps` gradient steps lead from w; `slope` is the loss's gradient there."""
        theta = {name: leaf - self.inner_lr * slope[name] for name, leaf in w.items()}
        for _ in range(self.inner_steps - 1):
            slope = next_slope(theta)
            pulled = {name: slope[name] + self.penalty * (leaf - w[name]) for name, leaf in theta.items()}
            theta = {name: leaf - self.inner_lr * pulled[name] for name, leaf in theta.items()}
        return theta

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the personal models and the shared one."""
        return self._both(self.receive(state, ids))

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Let new clients train for a round; give the personal models that they keep, and the shared model."""
        return self._both(federation.one_round(self, start, ids, state.round) | without_slots(start))

    def _both(self, params: Params) -> dict[str, Predictor]:
        return {"personal": self.predictor(slot(params, PERSONAL)), "global": self.predictor(without_slots(params))}

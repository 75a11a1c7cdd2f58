"""Per-FedAvg: clients learn shared weights that are good after one gradient step on their own data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedstat.federated.client.local import Batch, Context, Phase
from fedstat.federated.client.network import Network, Params
from fedstat.federated.client.optimizers import SGD
from fedstat.federated.method import Method, stack
from fedstat.federated.state import Federation, Predictor, State


@dataclass(frozen=True, kw_only=True)
class PerFedAvg(Method):
    """Clients learn shared weights that are good after one gradient step on a client's data.

    The method minimises the mean over clients of ``L_k(w - a grad L_k(w))``. Each local step uses independent batches
    D, D', D'': with ``v = grad L(w - a grad L(w; D); D')`` it moves w along v (first-order), or along v minus ``a``
    times the Hessian on D'' times v, by a central difference of gradients (Hessian-free; Fallah et al. 2020,
    "Personalized Federated Learning with Theoretical Guarantees", Algorithm 1 and section 5).

    Parameters
    ----------
    inner_lr : float
        a, the size of the adapting step, not negative (0.01, ours). The outer step is the training configuration's.
    hessian_free : bool
        Whether a step approximates the Hessian's product instead of leaving it out (False, ours).
    delta : float
        Half-width of the central difference, positive (1e-3, ours).
    adaptation : {"step", "epoch"}
        How far the evaluated models adapt: by one step, on one batch, or by one epoch of steps ("step"). These are the
        adapting steps of training: plain, of size a, whatever else the training configuration has.
    weighting, server, aggregator, compression, mechanism
        See `Method`; by default participants count alike, as in the original.

    Notes
    -----
    The shared weights travel down and up. An epoch uses each sample once over D, D' and D'', and so has half as many
    steps as FedAvg's, or a third. Running statistics of batch norm move with the batch D' alone. The evaluated model,
    also a new client's, is the adapted one; the batches on which it adapts are the same after every round.

    The authors' code: none was found. Two public re-implementations adapt the evaluated model on the samples that it
    is then tested on; ours adapts on training samples.

    Examples
    --------
    A client's model is the shared one after a step on its own data; both are measured:

    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> method, training = fs.methods.PerFedAvg(), fs.Training(lr=0.1)
    >>> result = fs.federate(method, fs.models.mlp(5, 8, 1), clients, training, rounds=2, progress=False)
    >>> sorted(result.history["estimand"].unique())
    ['global', 'personal']
    """

    weighting: Literal["samples", "uniform"] = "uniform"
    inner_lr: float = 0.01
    hessian_free: bool = False
    delta: float = 1e-3
    adaptation: Literal["step", "epoch"] = "step"

    label = "Per-FedAvg"
    exempt = {
        "one client": "the gradient is taken at the adapted weights, not at the client's own",
        "permutation": "which samples of a full batch go to which part of a step is drawn by the client's number",
        "clones": "clients with the same data draw different parts of a step",
    }
    _ranges = {"inner_lr": "[0, inf)", "delta": "(0, inf)", "adaptation": ("step", "epoch")}

    @property
    def batches(self) -> int:  # type: ignore[override]
        """Take D and D', and D'' where the Hessian counts."""
        return 3 if self.hessian_free else 2

    def init(self, network: Network, federation: Federation) -> State:
        """Start as every method does, if clients train by SGD: Adam's are not the step by which weights adapt later."""
        if not isinstance(federation.training.steps, SGD):
            raise ValueError(
                f'PerFedAvg adapts by a plain gradient step, so optimizer must be "sgd", got '
                f"{federation.training.steps!r}."
            )
        return super().init(network, federation)

    def gradient(
        self, grad: Callable[[Params, Batch], Params], params: Params, batches: tuple[Batch, ...], context: Context
    ) -> Params:
        """Return the gradient at the adapted weights, times ``I - a Hessian`` if `hessian_free`."""

        def moved(direction: Params, by: float) -> Params:
            return params | {name: params[name] + by * step for name, step in direction.items()}

        adapted = moved(grad(_aside(params), batches[0]), -self.inner_lr)
        v = grad(adapted, batches[1])
        if not self.hessian_free:
            return v
        ahead, behind = (grad(_aside(moved(v, by)), batches[2]) for by in (self.delta, -self.delta))
        return {n: v[n] - self.inner_lr * (ahead[n] - behind[n]) / (2 * self.delta) for n in v}

    def models(self, state: State, ids: Tensor, federation: Federation | None = None) -> dict[str, Predictor]:
        """Give the models adapted to the clients' data, which must be at hand, and the shared weights as they are."""
        if federation is None:
            raise ValueError(
                "PerFedAvg's personal models adapt to the clients' data, which a loaded result does not hold."
            )
        return self._adapted(ids, stack(state.server, len(ids)), federation)

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Give the shared weights adapted to the new clients' data, and as they are."""
        return self._adapted(ids, start, federation)

    def _adapted(self, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        steps = 1 if self.adaptation == "step" else None
        phase = Phase(federation.network.trainable, epochs=1, lr=self.inner_lr, steps=steps, plain=True)
        end = federation.train(Method(), start, ids, (phase,), 0)
        return {"personal": self.predictor(end), "global": self.predictor(start)}


def _aside(params: Params) -> Params:
    """Return the weights with copies of the running statistics, which a forward pass may then move."""
    return {name: leaf if leaf.requires_grad else leaf.clone() for name, leaf in params.items()}

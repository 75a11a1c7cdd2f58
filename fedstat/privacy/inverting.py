"""Search for inputs whose gradient is the one that a client sent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import choice, number, whole
from fedstat._progress import progress_bar
from fedstat._random import stream
from fedstat.federated.client.local import Batch, ClientData, Context, Learner
from fedstat.federated.client.network import Params
from fedstat.federated.slots import is_statistic
from fedstat.privacy.observing import Observation, weight_of_steps

Objective = Literal["squared", "cosine"]
Optimizer = Literal["lbfgs", "adam"]
Labels = Literal["known", "inferred", "optimised"]
Personal = Literal["start", "known"]
Kind = Literal["search", "ratio"]
#: Gradients of a dense layer are those of one input if they are an outer product up to this share of their norm.
_OUTER = 0.01
#: Steps shrink tenfold after these shares of the iterations (Geiping et al.).
_DECAY = (3 / 8, 5 / 8, 7 / 8)


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What an attack found.

    Attributes
    ----------
    x : ndarray of float32, shape (n, ...)
        The reconstructed inputs; after several steps in the order of the attacker's labels.
    labels : ndarray of int, shape (n,)
        The labels that were known, inferred or found.
    objective : float
        What was minimised, at `x`.
    attack : {"search", "ratio"}
        What found `x`: the search, of whose restarts it is the one with the smallest objective; or the ratio of
        gradients, which is taken wherever it applies.
    objectives : ndarray, shape (restarts,)
        That of every restart; infinite where the search broke down.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.from_indices(*fs.data.digits(), fs.data.iid(1797, 20))
    >>> look = fs.privacy.Look(client=3)
    >>> (seen,) = fs.privacy.observe(fs.FedAvg(), fs.models.mlp(64, 32, 10), clients, fs.Training(lr=0.1), look)
    >>> found = fs.privacy.invert(seen, labels="inferred", iterations=20)
    >>> found.x.shape, found.labels.shape
    ((1, 8, 8), (1,))
    """

    x: np.ndarray
    labels: np.ndarray
    objective: float
    objectives: np.ndarray
    attack: Kind


def invert(
    observation: Observation,
    *,
    objective: Objective = "squared",
    optimizer: Optimizer = "lbfgs",
    total_variation: float = 0.0,
    labels: Labels = "known",
    personal: Personal = "start",
    simulate: bool = False,
    restarts: int = 1,
    iterations: int = 300,
    step: float = 0.1,
    signed: bool = True,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    seed: int = 0,
    progress: bool | None = None,
) -> Reconstruction:
    """Reconstruct the inputs behind a message.

    The inputs whose gradient is the one that was sent are searched for. Where a single sample enters a dense layer with
    a bias directly, no search is needed: the gradient by the weights of a unit is the input times the gradient by the
    unit's bias, so that their ratio is the input, whatever comes after that layer and whoever knows it. The ratio is
    offered where the sent gradients of that layer are such a product, and then taken.

    Parameters
    ----------
    observation : Observation
        What `observe` returned.
    objective : {"squared", "cosine"}
        Distance of the gradient at the inputs from the one that was sent, over all elements that were sent: squared
        Euclidean over the squared norm of what was sent (Zhu et al., theirs without the constant divisor), or one less
        the cosine (Geiping et al.).
    optimizer : {"lbfgs", "adam"}
        L-BFGS with bounds (scipy's, 20 pairs of vectors), or Adam with steps that shrink tenfold at 3/8, 5/8 and 7/8
        of the iterations.
    total_variation : float
        Weight of the mean absolute difference of neighbouring pixels, over rows plus over columns, not negative.
    labels : {"known", "inferred", "optimised"}
        The attacker knows the labels; infers the one of a single sample from the head's gradient; or optimises
        probabilities of all classes with the inputs.
    personal : {"start", "known"}
        What stands for leaves that are not sent: the common start, with classes equally frequent; or, as a control,
        the client's own leaves and labels.
    simulate : bool
        Whether several steps are repeated one by one. Otherwise the message is taken for one step on all samples,
        which after one step is no difference.
    restarts : int
        Independent starts of the search, of which the one with the smallest objective is kept; the truth plays no part.
    iterations : int
        Steps of the optimiser in each.
    step : float
        Adam's first step, positive.
    signed : bool
        Whether Adam sees the signs of the gradient alone, as in Geiping et al.
    bounds : tuple of float, optional
        The range of inputs, to which both attacks keep, and from which starts are drawn evenly. Without it starts are
        standard Gaussian.
    seed : int
        Of the starts.
    progress : bool, optional
        Whether to show a bar; by default if standard error is a terminal.

    Returns
    -------
    Reconstruction
        The same for the same arguments.

    Raises
    ------
    ValueError
        If an argument is out of range; if labels cannot be inferred; if nothing was sent but zeros, which no inputs
        explain better than others.

    Examples
    --------
    Above 30 decibels the image is there again:

    >>> import fedstat as fs
    >>> clients = fs.data.from_indices(*fs.data.digits(), fs.data.iid(1797, 20))
    >>> look = fs.privacy.Look(client=3)
    >>> (seen,) = fs.privacy.observe(fs.FedAvg(), fs.models.mlp(64, 32, 10), clients, fs.Training(lr=0.1), look)
    >>> found = fs.privacy.invert(seen, labels="inferred")
    >>> fs.privacy.psnr(seen.secret.x.numpy(), found.x) > 30
    True
    """
    choice("objective", objective, get_args(Objective))
    choice("optimizer", optimizer, get_args(Optimizer))
    choice("labels", labels, get_args(Labels))
    choice("personal", personal, get_args(Personal))
    if bounds is not None and not (len(bounds) == 2 and bounds[0] < bounds[1]):
        raise ValueError(f"bounds must be the least and the largest value of an input, got {bounds!r}.")
    whole("iterations", iterations, 1), whole("seed", seed, 0)
    number("total_variation", total_variation, "[0, inf)"), number("step", step, "(0, inf)")
    attack = _attack(observation, objective, total_variation, labels, personal, simulate, bounds)
    search = _lbfgs if optimizer == "lbfgs" else partial(_adam, step=step, signed=signed)
    tries = []
    with progress_bar("inverting", whole("restarts", restarts, 1) * iterations, progress) as advance:
        for k in range(restarts):
            tries.append(search(attack, attack.begin(stream(seed, "reconstruction", k)), iterations, advance))
    scores = np.array([attack.value(one) for one in tries])
    best, exact = tries[int(np.argmin(scores))], _ratio(observation)
    if exact is not None:
        best = torch.cat([exact if bounds is None else exact.clamp(*bounds), best[len(exact) :]])
    x, y = attack.divide(best)
    return Reconstruction(
        x.detach().cpu().numpy().astype(np.float32),
        (y.argmax(1) if y.ndim > 1 else y).cpu().numpy(),
        attack.value(best),
        scores,
        "search" if exact is None else "ratio",
    )


@dataclass(frozen=True, eq=False)
class _Attack:
    """What is minimised, as a function of one flat vector: the inputs, then the scores of labels if they are sought."""

    observation: Observation
    learner: Learner
    params: Params
    prepare: Callable[[Tensor, Tensor], tuple[Params, Params]]
    labels: Tensor | None
    classes: int
    cosine: bool
    total_variation: float
    simulate: bool
    bounds: tuple[float, float] | None

    @property
    def pixels(self) -> int:
        """How many numbers of the vector are inputs; they come first."""
        return self.observation.samples * int(np.prod(self.observation.shape))

    def begin(self, rng: np.random.Generator) -> Tensor:
        """Draw a start."""
        shape = (self.observation.samples, *self.observation.shape)
        x = rng.normal(size=shape) if self.bounds is None else rng.uniform(*self.bounds, size=shape)
        scores = rng.normal(size=(len(x), self.classes) if self.labels is None else 0)
        return torch.from_numpy(np.concatenate([x.ravel(), scores.ravel()]))

    def divide(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs (n, ...) and labels (n,), or probabilities of the classes (n, Q)."""
        n, shape = self.observation.samples, self.observation.shape
        flat = flat.to(self.learner.network.device, self.learner.network.dtype)
        x = flat[: self.pixels].reshape(n, *shape)
        return x, flat[self.pixels :].reshape(n, -1).softmax(1) if self.labels is None else self.labels

    def distance(self, flat: Tensor) -> Tensor:
        """Return how far the gradient at these inputs is from what was sent, and the penalty on rough images."""
        x, y = self.divide(flat)
        found, sent = self.gradient(x, y), self.observation.gradient
        ours = torch.cat([torch.where(torch.isnan(g), 0, found[n]).flatten() for n, g in sent.items()])
        theirs = torch.cat([g.nan_to_num(0).flatten() for g in sent.values()])
        if self.cosine:
            distance = 1 - (ours @ theirs) / (ours.norm() * theirs.norm()).clamp(min=torch.finfo(ours.dtype).tiny)
        else:
            distance = (ours - theirs).square().sum() / theirs.square().sum()
        if self.total_variation:
            distance = distance + self.total_variation * (x.diff(dim=-2).abs().mean() + x.diff(dim=-1).abs().mean())
        return distance

    def gradient(self, x: Tensor, y: Tensor) -> Params:
        """Return the gradient in the sent leaves, or what the client's own steps would come to."""
        seen = self.observation
        if not self.simulate or seen.look.steps == 1:
            return self.one_gradient(self.params, x, y)
        now, speed = dict(self.params), dict[str, Tensor]()
        for batch, label in zip(x.split(seen.look.batch), y.split(seen.look.batch), strict=True):
            for name, g in self.one_gradient(now, batch, label, every=True).items():
                speed[name] = seen.momentum * speed.get(name, 0) + g + seen.weight_decay * now[name]
                now[name] = now[name] - seen.lr * speed[name]
        rate, decay = seen.lr * weight_of_steps(seen.momentum, seen.look.steps), seen.weight_decay
        return {n: (self.params[n] - now[n]) / rate - decay * self.params[n] for n in seen.gradient}

    def one_gradient(self, params: Params, x: Tensor, y: Tensor, every: bool = False) -> Params:
        """Return the gradient of the method's own objective, pull included, in the sent leaves or all that train."""
        seen = self.observation
        names = list(seen.phase.train) if every else list(seen.gradient)
        leaves = {n: params[n] if params[n].requires_grad else params[n].detach().requires_grad_() for n in names}
        moving = {n: leaf.clone() for n, leaf in params.items() if is_statistic(n)}  # batch norm moves them in place
        rows = torch.arange(-len(x), 0, device=x.device)  # its samples come last where the method prepares
        batch = Batch(x, y, torch.ones(len(x), dtype=torch.bool, device=x.device), rows, full=True)
        context = Context(self.params, self.prepare(x, y.argmax(1) if y.ndim > 1 else y)[1], seen.phase.name)
        model = seen.phase.model(params | moving | leaves, self.learner.network)
        loss = seen.method.objective(self.learner, model, batch, context)
        found = torch.autograd.grad(loss, list(leaves.values()), create_graph=True, materialize_grads=True)
        pulled = seen.method.pull(params | leaves, context)
        return {name: g + pulled[name] if name in pulled else g for name, g in zip(names, found, strict=True)}

    def slope(self, flat: Tensor) -> tuple[float, Tensor]:
        """Return the objective and its gradient."""
        flat = flat.detach().requires_grad_()
        value = self.distance(flat)
        (slope,) = torch.autograd.grad(value, flat)
        return value.item(), slope

    def value(self, flat: Tensor) -> float:
        """Return the objective, infinite where it is no number."""
        value = self.distance(flat).item()
        return value if np.isfinite(value) else float("inf")


def _attack(
    seen: Observation,
    objective: str,
    total_variation: float,
    labels: str,
    personal: str,
    simulate: bool,
    bounds: tuple[float, float] | None = None,
) -> _Attack:
    """Put together what the attacker knows and believes."""
    network = seen.network
    if total_variation and len(seen.shape) < 2:
        raise ValueError(f"total_variation needs inputs with rows and columns, got inputs of shape {seen.shape}.")
    if not any(leaf.nan_to_num(0).any() for leaf in seen.gradient.values()):
        raise ValueError(
            "observation holds an update of zeros, which tells nothing; choose another client, round or batch."
        )
    params = dict(seen.secret.leaves if personal == "known" else seen.guess)
    with torch.no_grad():
        believed = {n: leaf.clone() for n, leaf in params.items()}
        classes = max(2, seen.method.predict(seen.learner, believed, seen.secret.x[:1]).shape[1])
    if labels != "known" and seen.learner.task != "cross_entropy":
        raise ValueError(f'labels must be "known" under the loss {seen.learner.task!r}, got {labels!r}.')
    known = seen.secret.y if labels == "known" else None
    if labels == "inferred":
        known = torch.tensor([infer_label(seen)], device=network.device)
    if personal == "known":
        x, y = seen.secret.own
    else:
        y = torch.arange(classes, device=network.device).to(seen.secret.y.dtype)
        x = torch.zeros(classes, *seen.shape, dtype=network.dtype, device=network.device)
    learner = seen.learner if known is not None else replace(seen.learner, losses=_soft)

    def prepare(more: Tensor, labels: Tensor) -> tuple[Params, Params]:
        """Prepare with more samples as padding, of which the method knows what it looks up, and counts nothing."""
        valid = torch.arange(len(x) + len(more), device=network.device) < len(x)
        data = ClientData(torch.cat([x, more]), torch.cat([y, labels]), valid, torch.zeros_like(valid))
        return seen.method.prepare(seen.learner, dict(params), data)

    with torch.no_grad():
        begun = prepare(x[:0], y[:0])[0]
    cosine = objective == "cosine"
    return _Attack(seen, learner, begun, prepare, known, classes, cosine, total_variation, simulate, bounds)


def infer_label(seen: Observation) -> int:
    """Return the label of the one sample behind a gradient (iDLG, Zhao et al. 2020).

    Under cross-entropy the gradient in the head's bias is the predicted probabilities minus the true class, so that it
    is negative at the true class alone. Without a bias the rows of the head's weight are taken, each of which is that
    number times the features: the true class is the row whose inner products with all others are not positive. With
    several samples, or after several steps, the answer would be a guess.
    """
    if seen.samples > 1:
        raise ValueError(
            f'labels "inferred" needs a message about one sample, this one is about {seen.samples}; take '
            'labels "known" or "optimised".'
        )
    head = f"{seen.network.head}."
    sent = {n.removeprefix(head): g for n, g in seen.gradient.items() if n.startswith(head)}
    if "bias" in sent:
        return int(sent["bias"].argmin())
    weight = sent.get("weight", sent.get("weight.full"))
    if weight is None or torch.isnan(weight).any():
        raise ValueError(
            'labels "inferred" needs the gradient of the head, which this client does not send; take labels "known" '
            'or "optimised".'
        )
    return int((weight @ weight.T).fill_diagonal_(0).sum(1).argmin())


def _ratio(seen: Observation) -> Tensor | None:
    """Return the one input (flat, float64) whose product with a layer's bias gradient is its weights'; else None."""
    layer = _entry(seen) if seen.samples == 1 else None
    weight = seen.gradient.get(f"{layer}.weight", seen.gradient.get(f"{layer}.weight.full"))
    bias = seen.gradient.get(f"{layer}.bias")
    if weight is None or bias is None:
        return None
    both = torch.cat([weight, bias[:, None]], 1).double().cpu()
    both = both[both.isfinite().all(1)]
    weight, bias = both[:, :-1], both[:, -1]
    if not bias.any():
        return None
    x = bias @ weight / bias.square().sum()
    return x if (weight - torch.outer(bias, x)).norm() <= _OUTER * weight.norm() else None


def _entry(seen: Observation) -> str | None:
    """Return the name of the dense layer that takes the input as it is, flat; None if there is no such layer."""
    network, found = seen.network, set[str]()
    probe = torch.linspace(0, 1, int(np.prod(seen.shape)), dtype=network.dtype, device=network.device)

    def look(name: str, taken: Tensor) -> None:
        if taken.shape == (1, len(probe)) and torch.equal(taken[0], probe):
            found.add(name)

    with ExitStack() as hooks, torch.no_grad():
        for name, layer in network.module.named_modules():
            if isinstance(layer, torch.nn.Linear):
                hooks.enter_context(layer.register_forward_pre_hook(lambda _, x, name=name: look(name, x[0])))
        guess = {name: leaf.clone() for name, leaf in seen.guess.items()}
        seen.method.predict(seen.learner, guess, probe.reshape(1, *seen.shape))
    return found.pop() if len(found) == 1 else None


def _soft(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of logits (B, Q) against probabilities (B, Q); an impossible class counts as very unlikely."""
    return -(y * outputs.log_softmax(-1).clamp(min=-100)).sum(-1)


def _lbfgs(attack: _Attack, first: Tensor, iterations: int, advance: Callable[..., None]) -> Tensor:
    from scipy.optimize import Bounds, minimize

    low, high = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    if attack.bounds is not None:
        low[: attack.pixels], high[: attack.pixels] = attack.bounds

    def slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, found = attack.slope(torch.from_numpy(flat))
        return value, found.cpu().numpy().astype(np.float64)

    options: Any = {"maxiter": iterations, "maxfun": 3 * iterations, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
    how: Any = {"jac": True, "method": "L-BFGS-B", "bounds": Bounds(low, high), "options": options}
    found = minimize(slope, first.numpy(), callback=lambda _: advance(), **how)
    return torch.from_numpy(np.asarray(found.x))


def _adam(
    attack: _Attack, first: Tensor, iterations: int, advance: Callable[..., None], *, step: float, signed: bool
) -> Tensor:
    """Minimise by Adam, on the signs of the gradient if wanted; inputs are put back into their range."""
    flat = first.clone().requires_grad_()
    optimizer = torch.optim.Adam([flat], lr=step)
    marks = [int(share * iterations) for share in _DECAY]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, marks, gamma=0.1)
    for _ in range(iterations):
        _, slope = attack.slope(flat)
        flat.grad = slope.sign() if signed else slope
        optimizer.step()
        schedule.step()
        if attack.bounds is not None:
            with torch.no_grad():
                flat[: attack.pixels].clamp_(*attack.bounds)
        advance()
    return flat.detach()

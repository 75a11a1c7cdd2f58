"""Rehearse before training: take a few steps of the network as the engine takes them and as torch takes them.

The engine puts each client's weights into one module, runs many clients as one stack or copies of the module over
threads, pads batches, and repeats every step from its key. A module that draws random numbers, mixes samples, remembers
earlier calls or writes where it should not would be trained wrongly without a word. The rehearsal does not look at the
names of layers, but at the traces that a forward pass leaves. It runs on copies of the module, in float64 if they can,
with weights near the initial ones, samples of the first clients, and the same keys for dropout in every way of
computing.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from fedstat.data import Samples
from fedstat.federated.client.layers import copied
from fedstat.federated.client.local import Batch
from fedstat.federated.client.network import Network, Params
from fedstat.federated.engine.dense_chain import chain_of
from fedstat.federated.engine.executor import ExecutorName
from fedstat.federated.engine.traces import Watch, differ, draws_of, first_difference, generators, layer_called, same

#: Number of samples of each of two clients; the last one stands for padding, the others train.
_ROWS = 4
#: How many draws of weights must show a difference before it counts: one draw may lie on the kink of a ReLU.
DRAWS = 3
#: Number of samples among which to look for different ones.
_LOOKED_AT = 64


class Refused(ValueError):
    """Raised with what is wrong under the executor that is asked for, or under every one."""


class _Fault(Exception):
    """Raised with a sentence about what the network does wrong."""


class _Failure(Exception):
    """Raised with a sentence about a call that failed."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The leaves (2, ...), samples (2, B, ...) and keys of noise (2,) of two clients."""

    network: Network
    params: Params
    x: Tensor
    noise: Tensor

    @property
    def second(self) -> Params:
        """The second client's leaves, since errors of a stack seldom show at the first."""
        return {name: leaf[1] for name, leaf in self.params.items()}

    @property
    def train(self) -> Tensor:
        """The second client's training samples."""
        return self.x[1, :-1].clone()


@dataclass(frozen=True, eq=False)
class _Step:
    """One client's step: gradients and statistics by leaf, outputs in training (B - 1, Q), and in evaluation (B, Q)."""

    gradients: Params
    statistics: Params
    outputs: Tensor
    evaluated: Tensor


def tolerance(network: Network) -> float:
    """Return the share of the largest number by which two ways of computing may differ."""
    return 1e-7 if network.dtype == torch.float64 else 0.2 if network.mixed else 1e-2


def outputs_of(network: Network, samples: Samples, name: str = "the network") -> int:
    """Return the number of outputs that the network has for each sample, found by a trial call.

    A network that does not take such samples, or returns anything but (B, outputs), is refused under its `name`. A
    warning tells of outputs that went through a softmax.
    """
    shape = samples.x.shape[1:]
    with nullcontext() if _needs_no_trial(network) else aside(network.device):
        x = network.inputs(torch.from_numpy(np.zeros((2, *shape), samples.x.dtype)).to(network.device))
        try:
            outputs: Any = network(network.initial(), x)
        except Exception as error:  # a user's module may fail in any way
            hint = ""
            if x.is_floating_point() and "'indices'" in str(error):
                hint = ". Where x holds tokens for an embedding, make clients with tokens=True (a key of [data], too)."
            raise ValueError(f"{name} does not take inputs of shape {shape}: {error}{hint}") from None
    if not isinstance(outputs, Tensor):
        raise ValueError(f"{name} must return a tensor of outputs, it returns {type(outputs).__name__}.")
    if outputs.ndim != 2 or len(outputs) != 2:
        raise ValueError(
            f"{name} must map B samples to (B, outputs), with one output to (B, 1); for B = 2 it returns "
            f"{tuple(outputs.shape)}."
        )
    if outputs.shape[-1] > 1 and (outputs >= 0).all() and (outputs.sum(-1) - 1).abs().max() < 1e-3:
        warnings.warn(
            f"the outputs of {name} are probabilities, as after a softmax, which cross-entropy takes itself: leave it "
            "out, unless a loss of your own expects them.",
            stacklevel=2,
        )
    return outputs.shape[-1]


def rehearse(network: Network, samples: Samples, executor: ExecutorName = "auto") -> ExecutorName:
    """Refuse a network that the engine would train wrongly; return the executor that trains it right.

    Two clients take one step each, by the engine and by torch's own backward pass, which must agree. The weights of the
    network are not yet made of parts.
    """
    if _needs_no_trial(network):
        return executor
    with aside(network.device):
        x = _chosen(network, samples)
        try:
            try:
                alone, stacked = _faults(copy_of(network, torch.float64), x, executor)
            except (_Failure, TypeError):  # a user's layer, or a device, may know no float64
                alone, stacked = _faults(copy_of(network, network.dtype, network.mixed), x, executor)
        except _Failure as failure:
            alone = str(failure)
    if alone:
        raise ValueError(f"the network would be trained wrongly: {alone}")
    if stacked:
        return only_under("per-client", f"the network would be trained wrongly in a stack: {stacked}", executor)
    return executor


def _needs_no_trial(network: Network) -> bool:
    """Tell whether a network is a chain of torch's own dense layers, which do nothing but what is known of them."""
    return chain_of(network) is not None and not _has_any_global_hook()


def only_under(only: ExecutorName, fault: str, executor: ExecutorName) -> ExecutorName:
    """Return the executor `only`, for what has this fault under the other one; refuse the other one."""
    if executor in ("auto", only):
        return only
    right = "Client by client it is right" if only == "per-client" else "In a stack it is right"
    raise Refused(f'executor="{executor}": {fault} {right}: leave executor at "auto", or set it to "{only}".')


def _faults(network: Network, x: Tensor, executor: ExecutorName) -> tuple[str, str]:
    """Say what goes wrong client by client, and what in a stack alone; empty if one of the draws goes right."""
    alone = stacked = ""
    for seed in range(DRAWS):
        trial = drawn(network, x, seed)
        alone = stacked = ""
        try:
            expected = _by_itself(trial)
            _agree(trial, _alone(trial), expected)
        except _Fault as fault:
            alone = str(fault)
            continue
        if executor == "per-client":
            break
        try:
            _agree(trial, _stacked(trial), expected, stacked=True)
            break
        except _Fault as fault:
            stacked = str(fault)
    return alone, stacked


def is_own(part: Any) -> bool:
    """Tell whether a function or object was not written by fedstat; a name, or None, stands for one that was."""
    module = getattr(part, "__module__", None) or type(part).__module__
    return part is not None and not isinstance(part, str) and not f"{module}.".startswith("fedstat.")


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """Restore the global generators after the block, and silence warnings."""
    cards = [device] if device.type == "cuda" else []
    plain, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(cards):
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(numpys)  # noqa: NPY002


def _chosen(network: Network, samples: Samples) -> Tensor:
    """Return stored inputs (2, B, ...) of the first clients, all different if there are enough different ones."""
    rows = list({row.tobytes(): row for row in samples.x[:_LOOKED_AT]}.values())
    if network.inputs(torch.from_numpy(rows[0])).dtype == torch.int64:
        rows.sort(key=lambda row: row.min())  # the smallest token is the likeliest to be padding
    x = np.stack([rows[i % len(rows)] for i in range(2 * _ROWS)])
    return torch.from_numpy(np.stack([x[::2], x[1::2]])).to(network.device)


def copy_of(network: Network, dtype: torch.dtype, mixed: bool = False) -> Network:
    """Copy a network, its module included, into another floating type."""
    return replace(network, module=copied(network.module).to(dtype), dtype=dtype, mixed=mixed)


def drawn(network: Network, x: Tensor, seed: int) -> Trial:
    """Give the first client the initial leaves, and the second leaves near them."""
    leaves = network.initial()
    params = {name: torch.stack([leaves[name], leaf]) for name, leaf in near(leaves, seed).items()}
    return Trial(network, params, network.inputs(x), torch.arange(2 * seed, 2 * seed + 2, device=x.device))


def near(leaves: Params, seed: int) -> Params:
    """Return leaves within a tenth of those given; zeros become small, and what is no floating-point number stays."""
    generator = torch.Generator().manual_seed(seed)

    def moved(leaf: Tensor) -> Tensor:
        share = torch.rand(leaf.shape, generator=generator).to(leaf)
        return torch.where(leaf == 0, 0.05 * share, leaf * (0.9 + 0.2 * share))

    return {name: moved(leaf) if leaf.is_floating_point() else leaf for name, leaf in leaves.items()}


def _by_itself(trial: Trial) -> _Step:
    """Take one step of the module itself by torch alone, and refuse what a module must never do."""
    network = trial.network
    module = copied(network.module).train()
    leaves = dict(module.named_parameters()) | dict(module.named_buffers())
    with torch.no_grad():
        for name, leaf in trial.second.items():
            leaves[name].copy_(leaf)
    before = {name: leaf.detach().clone() for name, leaf in leaves.items() if name not in network.statistics}
    untouched, call = generators(network.device), partial(_called, module, network.keys(trial.noise[1]))

    def watched(x: Tensor, mode: str) -> Tensor:
        given = x.clone()
        outputs = call(given, mode)
        _check_writes(module, before, given, x)
        if untouched != generators(network.device):
            raise _Fault(draws_of(module, trial.train))
        return outputs

    outputs = watched(trial.train, "training")
    gradients = _gradients(_losses(outputs).mean(), leaves, network)
    statistics = {name: leaves[name].clone() for name in network.statistics}
    with torch.no_grad():
        if differ(call(trial.train, "training"), outputs.detach(), tolerance(network)):
            where = first_difference(module, trial.train, trial.train)
            raise _Fault(
                f"the outputs of {where} differ between two identical calls: it draws random numbers, or keeps in its "
                "attributes what a later call reads. Every call must start afresh."
            )
        module.eval()
        for name in statistics:
            leaves[name].copy_(trial.second[name])
        evaluated = watched(trial.x[1], "evaluation")
        half = trial.x[1, : _ROWS // 2]
        if differ(call(half.clone(), "evaluation"), evaluated[: len(half)], tolerance(network)):
            where = first_difference(module, trial.x[1], half)
            raise _Fault(
                f"the outputs of {where} for a sample depend on the other samples in evaluation mode, where clients' "
                "samples are cut and padded. Let it compute sample by sample; batch norm needs "
                "track_running_stats=True."
            )
    return _Step(gradients, statistics, outputs.detach(), evaluated)


def _called(module: nn.Module, keys: Params, x: Tensor, mode: str) -> Tensor:
    """Return the outputs of one call, with the keys of dropout in their buffers."""
    try:
        # dict(keys) is a copy, since the call moves the keys
        outputs = torch.func.functional_call(module, dict(keys), (x,), tie_weights=False)
    except Exception as error:  # a user's module may fail in any way
        raise _Failure(f"it fails in {mode} mode: {error}") from None
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(x):
        what = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise _Fault(f"in {mode} mode it must map B samples to (B, outputs); for B = {len(x)} it returns {what}.")
    return outputs


def _losses(outputs: Tensor) -> Tensor:
    """Weigh outputs (B, Q) into losses (B,), with different weights for each sample and output."""
    weights = torch.arange(outputs.numel(), device=outputs.device, dtype=outputs.dtype).cos()
    return (outputs * weights.view_as(outputs)).sum(-1)


def _gradients(value: Tensor, leaves: Params, network: Network) -> Params:
    if not value.requires_grad:
        raise _Fault("no gradient reaches its weights; look for detach() or torch.no_grad() in its forward pass.")
    moved = [leaves[name] for name in network.trainable]
    try:
        found = torch.autograd.grad(value, moved, allow_unused=True, materialize_grads=True)
    except RuntimeError:
        raise _Fault(
            "torch.autograd.grad finds no way back through its forward pass, as it finds none through reentrant "
            "checkpoints (torch.utils.checkpoint). Do without them."
        ) from None
    return dict(zip(network.trainable, found, strict=True))


def _check_writes(module: nn.Module, before: Params, x: Tensor, given: Tensor) -> None:
    """Refuse a module that wrote to its inputs, its weights or its buffers."""
    if not same(x, given):
        raise _Fault(
            "its forward pass writes to its inputs, which are the clients' stored samples. Let the first layers make "
            "new tensors: inplace=False, x = x + 1 for x += 1 or x.add_(1)."
        )
    after = dict(module.named_parameters()) | dict(module.named_buffers())
    for name, leaf in before.items():
        if name not in after or not same(after[name].detach(), leaf):
            raise _Fault(
                f"its forward pass changes {name!r}, which would pass from client to client. Only the running "
                "statistics of nn.BatchNorm1d, 2d and 3d may move there; keep other averages, counters and "
                "spectral_norm out of it."
            )


def _alone(trial: Trial) -> _Step:
    """Take one step of a single client by the engine."""
    network = _staged(trial)
    leaves = _ready(network, trial.second)
    try:
        outputs = network(leaves, trial.train, train=True, noise=trial.noise[1])
        gradients = _gradients(_losses(outputs).mean(), leaves, network)
        with torch.no_grad():
            evaluated = network(trial.second, trial.x[1].clone())
    except (RuntimeError, NotImplementedError) as error:
        raise _Fault(f"with a client's weights in the place of its own it fails: {error}") from None
    moved = {name: leaves[name] for name in network.statistics}
    return _Step(gradients, moved, outputs.detach(), evaluated)


def _stacked(trial: Trial) -> _Step:
    """Take a step of a stack of two clients, each with a row of padding, and return the second client's."""
    network = _staged(trial)
    leaves = _ready(network, trial.params)
    rows = torch.arange(_ROWS, device=network.device)

    def step(params: Params, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        batch = Batch(x, rows, rows < _ROWS - 1, rows, noise=noise)
        outputs = network(params, batch.x, batch.mask, train=True, noise=batch.noise)
        return batch.mean(_losses(outputs)), outputs

    def passes() -> tuple[Params, Tensor, Tensor]:
        values, outputs = torch.vmap(step)(leaves, trial.x.clone(), trial.noise)
        gradients = _gradients(values.sum(), leaves, network)
        with torch.no_grad():
            return gradients, outputs.detach(), network.forward(trial.params, trial.x.clone())

    try:
        gradients, outputs, evaluated = passes()
    except Exception:  # torch.vmap refuses by many kinds of errors
        with Watch(network.module) as watch, suppress(Exception):
            passes()
        where = layer_called(watch.running[-1][0] if watch.running else "")
        raise _Fault(
            f"{where} does what torch.vmap cannot do, such as decisions on values (.item(), if) or tensors kept for "
            "later."
        ) from None
    return _Step(
        {name: gradient[1] for name, gradient in gradients.items()},
        {name: leaves[name][1] for name in network.statistics},
        outputs[1, :-1],
        evaluated[1],
    )


def _staged(trial: Trial) -> Network:
    """Return the network with NaN as its module's own weights, whose use would show."""
    module = copied(trial.network.module)
    with torch.no_grad():
        for name, leaf in module.named_parameters():
            if name in trial.params:
                leaf.fill_(torch.nan)
    return replace(trial.network, module=module)


def _ready(network: Network, leaves: Params) -> Params:
    """Copy leaves; those that train require gradients."""
    return {name: leaf.clone().requires_grad_(name in network.trainable) for name, leaf in leaves.items()}


def _agree(trial: Trial, step: _Step, expected: _Step, *, stacked: bool = False) -> None:
    """Compare the engine's step with the module's own step, and refuse a difference."""
    pairs = [
        ("outputs in training mode are", step.outputs, expected.outputs, 0.0),
        ("outputs in evaluation mode are", step.evaluated, expected.evaluated, 0.0),
    ]
    pairs += [(f"running statistics {n!r} are", step.statistics[n], e, 0.0) for n, e in expected.statistics.items()]
    # a bias before batch norm has a gradient of zero, which rounding makes some tiny number
    sizes = [float(g.abs().max()) for g in expected.gradients.values() if g.numel()]
    largest = max(filter(np.isfinite, sizes), default=0.0)
    pairs += [(f"gradients of {n!r} are", step.gradients[n], e, 1e-3 * largest) for n, e in expected.gradients.items()]
    different = [what for what, found, wanted, least in pairs if differ(found, wanted, tolerance(trial.network), least)]
    if different and stacked:
        raise _Fault(
            f"among other clients and with a row of padding, {different[0]} not those of the client alone. Every "
            "operation must treat each sample as if it were the only one, and be one that torch.vmap knows."
        )
    if different:
        raise _Fault(
            _recomputed(trial)
            or f"with a client's weights in the place of its own, {different[0]} not those of the module itself. Its "
            "forward pass must use weights as the attributes of their layers, not as copies or through other names."
        )


def _recomputed(trial: Trial) -> str | None:
    """Name a layer that computes again in the backward pass; return None if none does."""
    network = replace(trial.network, module=copied(trial.network.module))
    leaves = _ready(network, trial.second)
    with Watch(network.module) as watch:
        outputs = network(leaves, trial.train, train=True)
        forward = len(watch.begun)
        _gradients(outputs.sum(), leaves, network)
    if len(watch.begun) == forward:
        return None
    return (
        f"{layer_called(watch.begun[forward])} computes again in the backward pass (torch.utils.checkpoint), when the "
        "client's weights are no longer in place. Do without checkpoints."
    )

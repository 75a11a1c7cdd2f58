"""Clients' work as tasks of a Ray cluster: the same chunks as here, on whichever machine has room for them.

What a task does is what the built-in executor would have done in this process: a chunk of a stack begins and ends
where it does here, torch has as many threads as here, every random draw is a function of keys, and numbers travel with
the layout that they have here. So the bits are those of this process, on the same kind of processor with the same
versions, whoever computed them and however often: Ray does a task again whose worker was killed. On GPUs, whose sums
have no fixed order, chunks are cut so that all of them have work. ``docs/ray.md`` says what travels, and when; nothing
is kept by a worker that a later task would need.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from math import ceil
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from fedstat._checks import choice, number
from fedstat._memory import sharing_gpu
from fedstat._workers import RETRIES, connected
from fedstat.federated.client.layers import copied
from fedstat.federated.client.local import Learner
from fedstat.federated.client.network import Network, Params, products, rounds_to_tf32
from fedstat.federated.client.samples import Job, StackedSamples
from fedstat.federated.engine.executor import NAMES, ExecutorName, PerClient, Stacked, chunked_outputs, stack
from fedstat.federated.engine.training import LocalTraining
from fedstat.federated.state import Predictor

#: Most tasks for each processor (or share of a GPU), where clients train by themselves: the last ones fill the gaps.
_TASKS = 4
#: Networks that a worker keeps ready.
_READY = 32


@dataclass(frozen=True)
class RayExecutor:
    """The executor "ray", with options.

    A task computes with as many threads as torch has here, and reserves as many processors; clients that train by
    themselves have one each. Without a cluster at hand, one is started on this machine (``ray.init()``).

    Parameters
    ----------
    gpus : float
        GPUs that a task reserves where the run's device is one; 0.25 lets four tasks share a GPU.
    local : {"auto", "stacked", "per-client"}
        The built-in executor whose work the tasks do.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.RayExecutor(gpus=0.25)
    RayExecutor(gpus=0.25, local='auto')
    """

    gpus: float = 1.0
    local: ExecutorName = "auto"

    def __post_init__(self) -> None:
        number("gpus", self.gpus, "(0, inf)")
        choice("local", self.local, [name for name in NAMES if name != "ray"])

    def over(self, executor: Stacked | PerClient) -> Tasks:
        """Return the executor that has the work of a built-in one done by tasks."""
        return Tasks(executor, self.gpus)


@dataclass(frozen=True)
class Tasks:
    """The work of a built-in executor, done by tasks of Ray, each of which reserves so many GPUs on a GPU."""

    local: Stacked | PerClient
    gpus: float = 1.0

    @property
    def together(self) -> bool:
        """Whether methods and seeds with equal local steps should come as one stack."""
        return self.local.together

    def train(self, work: LocalTraining, start: Params, jobs: Sequence[Job], moves: Params) -> Params:
        """Train chunks of the clients wherever there is room; see `Executor`."""
        ray, options = _cluster(), self.options(work.route.learner.network.device)
        size = self._size(len(jobs), options, lambda local: local.chunk or work.route.chunk)
        local = replace(self.local, chunk=size) if isinstance(self.local, Stacked) else self.local
        same = {name: _packed(leaf[:1]) for name, leaf in start.items() if _alike(leaf)}
        shared = ray.put((local, work, list(start), same))
        task = _task(_trained).options(**options)
        waiting = []
        for first in range(0, len(jobs), size):
            rows = slice(first, first + size)
            own = {name: _packed(leaf[rows]) for name, leaf in start.items() if name not in same}
            some = {name: _packed(mask if len(mask) == 1 else mask[rows]) for name, mask in moves.items()}
            waiting.append(task.remote([shared], _settings(self.gpus), jobs[rows], own, some))
        ends: list[dict[str, _Packed]] = _gathered(waiting)
        device = work.route.learner.network.device
        return {name: _joined([_unpacked(end[name], device) for end in ends]) for name in ends[0]}

    def evaluate(self, learner: Learner, predictor: Predictor, x: Tensor, n: Tensor) -> Tensor:
        """Evaluate chunks of the clients wherever there is room; see `Executor`."""
        ray, options = _cluster(), self.options(learner.network.device)
        size = self._size(len(x), options, lambda local: local.evaluated(learner, predictor, x))
        outputs = partial(_chunked_outputs, size) if isinstance(self.local, Stacked) else self.local.evaluate
        same = {name: _packed(leaf[:1]) for name, leaf in predictor.params.items() if _alike(leaf)}
        shared = ray.put((outputs, learner, replace(predictor, params={}), list(predictor.params), same))
        held, place = _held_out(x)
        task = _task(_evaluated).options(**options)
        waiting = []
        for first in range(0, len(x), size):
            rows = slice(first, first + size)
            own = {name: _packed(leaf[rows]) for name, leaf in predictor.params.items() if name not in same}
            # a view of what the store holds is told by its place; anything else travels itself
            inputs = (
                _packed(x[rows]) if held is None else (place + first, place + min(first + size, len(x)), x.shape[1])
            )
            waiting.append(task.remote([shared], _settings(self.gpus), own, held, inputs, _packed(n[rows])))
        parts: list[_Packed] = _gathered(waiting)
        return torch.cat([_unpacked(part, x.device) for part in parts])

    def _size(self, count: int, options: dict[str, Any], here: Callable[[Stacked], int]) -> int:
        """Return how many clients a task has: what keeps all GPUs at work, or a chunk `here`, for this process's bits.

        Clients that train by themselves have the same bits in tasks of any size.
        """
        local = self.local
        if isinstance(local, Stacked):
            with sharing_gpu(self.gpus):
                size = here(local)
            spread = options["num_gpus"] and local.chunk is None
            return min(size, ceil(count / _workers(options))) if spread else size
        workers = _workers(options)  # they should end together
        sizes = {ceil(count / (workers * tasks)) for tasks in range(1, _TASKS + 1)}
        return min(sizes, key=lambda size: (ceil(ceil(count / size) / workers) * size, size))

    def options(self, device: torch.device) -> dict[str, Any]:
        """Return what a task reserves; refuse what no machine of the cluster has, as the task would wait forever."""
        cores = torch.get_num_threads() if self.local.together else 1
        gpus = self.gpus if device.type == "cuda" else 0
        if not _fits(connected().get_runtime_context().get_worker_id(), cores, gpus):
            raise ValueError(
                f"a task needs {cores} processors, as many as torch has threads here, and {gpus:g} GPUs; no machine of "
                "the Ray cluster has them. Use torch.set_num_threads(1) before the run, or start Ray with more."
            )
        return {"num_cpus": cores, "num_gpus": gpus}


# What tasks do, in workers.

#: Torch's threads, and whether products round to TF32, as in the process that starts the task; and the share of a GPU.
_Settings = tuple[int, bool, float]


def _settings(gpus: float) -> _Settings:
    return torch.get_num_threads(), rounds_to_tf32(), gpus


def _trained(
    shared: list[Any], settings: _Settings, jobs: Sequence[Job], own: dict[str, _Packed], moves: dict[str, _Packed]
) -> dict[str, _Packed]:
    """Train some clients."""
    import ray

    threads, tf32, gpus = settings
    torch.set_num_threads(threads)
    local, work, names, same = ray.get(shared[0])
    device = work.route.learner.network.device
    start = _rows(names, same, own, len(jobs), device)
    with products(tf32=tf32), sharing_gpu(gpus):
        ends = local.train(work, start, jobs, {name: _unpacked(mask, device) for name, mask in moves.items()})
    return {name: _packed(leaf) for name, leaf in ends.items()}


def _evaluated(
    shared: list[Any], settings: _Settings, own: dict[str, _Packed], held: _Packed | None, inputs: Any, n: _Packed
) -> _Packed:
    """Evaluate some clients' models."""
    import ray

    threads, tf32, gpus = settings
    torch.set_num_threads(threads)
    outputs, learner, predictor, names, same = ray.get(shared[0])
    device = learner.network.device
    if held is None:
        x = _unpacked(inputs, device)
    else:  # rows of as many samples each, which lie end to end
        first, last, each = inputs
        x = _view(held)[first * each : last * each].unflatten(0, (last - first, each)).to(device)
    predictor = replace(predictor, params=_rows(names, same, own, len(x), device))
    with products(tf32=tf32), sharing_gpu(gpus):
        return _packed(outputs(learner, predictor, x, _unpacked(n, device)))


def _chunked_outputs(size: int, learner: Learner, predictor: Predictor, x: Tensor, n: Tensor) -> Tensor:
    return chunked_outputs(size, learner, predictor, x)


def _rows(
    names: Sequence[str], same: dict[str, _Packed], own: dict[str, _Packed], rows: int, device: torch.device
) -> Params:
    """Return the leaves of some clients, in their order: what is the same for all of them, and what is their own."""
    return {
        name: _unpacked(own[name], device)
        if name in own
        else _unpacked(same[name], device).expand(rows, *same[name].shape[1:])
        for name in names
    }


# How tensors travel.


@dataclass(frozen=True)
class _Packed:
    """A tensor as bytes in the order of memory, which Ray maps into a worker without a copy; axes by falling stride."""

    values: np.ndarray
    axes: tuple[int, ...]
    held: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype


def _packed(leaf: Tensor) -> _Packed:
    leaf = leaf.detach().cpu()
    once = leaf[tuple(slice(0, 1) if step == 0 else slice(None) for step in leaf.stride())]
    axes = tuple(sorted(range(leaf.dim()), key=lambda axis: -once.stride()[axis]))
    dense = once.permute(axes)
    flat = dense.reshape(-1).as_strided((dense.numel(),), (1,))  # a single element may have any stride
    return _Packed(flat.view(torch.uint8).numpy(), axes, tuple(dense.shape), tuple(leaf.shape), leaf.dtype)


def _unpacked(packed: _Packed, device: torch.device) -> Tensor:
    """Return a tensor of one's own, laid out as it was."""
    return _view(replace(packed, values=packed.values.copy())).to(device)


def _view(packed: _Packed) -> Tensor:
    """Return a tensor on the bytes as they lie, which must not be written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they are read-only
        flat = torch.from_numpy(packed.values)
    places = [packed.axes.index(axis) for axis in range(len(packed.axes))]
    flat = flat.as_strided((flat.numel(),), (1,))  # without elements it may have any stride
    return flat.view(packed.dtype).view(packed.held).permute(places).expand(packed.shape)


def _alike(leaf: Tensor) -> bool:
    """Tell whether all clients share one row."""
    return len(leaf) > 1 and leaf.stride(0) == 0


def _joined(parts: list[Tensor]) -> Tensor:
    """Join clients' rows; values per sample are padded to the client with most of them."""
    if len(parts) == 1:
        return parts[0]
    alike = len({part.shape[1:] for part in parts}) == 1
    return torch.cat(parts) if alike else stack([row for part in parts for row in part])


# What is put into the object store once, by what it is kept alive for.

_STORED: WeakKeyDictionary[Any, tuple[str, Any]] = WeakKeyDictionary()
_HELD_OUT: Any = WeakTensorKeyDictionary()
_LOCK = threading.Lock()
_NETWORKS: OrderedDict[str, Network] = OrderedDict()


def _cluster() -> Any:
    """Return Ray, connected, and able to send networks and samples, of which it holds one copy each."""
    ray = connected()
    ray.util.register_serializer(Network, serializer=_network_put, deserializer=_network)
    ray.util.register_serializer(StackedSamples, serializer=_samples_put, deserializer=_samples)
    return ray


def _put(stored: Any, key: Any, make: Callable[[], Any]) -> Any:
    """Return the reference to what `make` returns, which this connection to Ray puts into the store once."""
    ray = connected()
    connection = ray.get_runtime_context().get_worker_id()
    with _LOCK:
        if key not in stored or stored[key][0] != connection:
            stored[key] = connection, ray.put(make())
        return stored[key][1]


def _network_put(network: Network) -> tuple[Any, str]:
    def portable() -> tuple[Any, ...]:
        parts = {name: leaf.cpu() for name, leaf in network.parts.items()}
        return copied(network.module).cpu(), network.dtype, network.forms, parts, network.mixed

    return _put(_STORED, network, portable), network.device.type


def _network(stored: tuple[Any, str]) -> Network:
    """Return a network, the same object for all tasks of a worker."""
    import ray

    ref, device = stored
    key = ref.hex()
    if key not in _NETWORKS:
        module, dtype, forms, parts, mixed = ray.get(ref)
        parts = {name: leaf.to(device) for name, leaf in parts.items()}
        _NETWORKS[key] = Network(module.to(device), dtype, forms, parts, mixed)
    _NETWORKS.move_to_end(key)
    while len(_NETWORKS) > _READY:
        _NETWORKS.popitem(last=False)
    return _NETWORKS[key]


def _samples_put(samples: StackedSamples) -> tuple[Any, str]:
    def portable() -> dict[str, Any]:
        held = {field.name: getattr(samples, field.name) for field in fields(samples)}
        return {name: _packed(value) if isinstance(value, Tensor) else value for name, value in held.items()}

    return _put(_STORED, samples, portable), samples.device.type


def _samples(stored: tuple[Any, str]) -> StackedSamples:
    """Return samples, which on a CPU are those of the store."""
    import ray

    ref, device = stored
    held: Any = {n: _view(v).to(device) if isinstance(v, _Packed) else v for n, v in ray.get(ref).items()}
    return StackedSamples(**held)


def _held_out(x: Tensor) -> tuple[Any, int]:
    """Return the reference to the samples of which `x` is a view, and its first row there; None if rows are padded."""
    whole = x._base
    if whole is None or not len(x) or whole.shape[1:] != x.shape[2:] or whole.stride() != x.stride()[1:]:
        return None, 0
    row = x.shape[1] * x.stride(1)
    offset = x.storage_offset() - whole.storage_offset()
    if not row or x.stride(0) != row or offset % row:
        return None, 0
    return _put(_HELD_OUT, whole, lambda: _packed(whole)), offset // row


# Tasks and the cluster.


@cache
def _task(function: Callable[..., Any]) -> Any:
    """Make a function a task, whose worker goes on to other tasks, on a GPU too."""
    return connected().remote(max_calls=0, max_retries=RETRIES)(function)


@cache
def _fits(connection: str, cores: int, gpus: float) -> bool:
    """Tell whether a machine of the cluster has as many processors and GPUs."""
    machines = [node["Resources"] for node in connected().nodes() if node["Alive"]]
    return any(has.get("CPU", 0) >= cores and has.get("GPU", 0) >= gpus for has in machines)


def _workers(options: dict[str, Any]) -> int:
    """Count the tasks that the cluster does at once."""
    there = connected().cluster_resources()
    at_once = there.get("GPU", 0) / options["num_gpus"] if options["num_gpus"] else there.get("CPU", 1)
    return max(1, int(at_once))


def _gathered(waiting: Sequence[Any]) -> list[Any]:
    """Return what tasks come to; the first error, in their order, is raised as it was."""
    ray = connected()
    try:
        return [ray.get(one) for one in waiting]
    except ray.exceptions.RayTaskError as error:
        # no ray.cancel of the others: where it meets a task's end, Ray aborts this process (ray-project/ray#54785)
        raise error.cause from None

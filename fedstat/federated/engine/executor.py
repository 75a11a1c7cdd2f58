"""Where clients' work is done, and how much of it at once: executors train and evaluate clients stacked or singly.

Stacked clients share every operation, which pays where one client's operations are short, and on a GPU. On a CPU the
grouped convolutions that stacking makes of ordinary ones lose as soon as there is real arithmetic in them: such clients
go one by one over worker threads.

Everything random is a function of keys, and where a chunk of a stack begins and ends is a function of network, data and
device (`chunk_size`), not of who computes it, unless a GPU lacks the memory or shares the work with others: an executor
decides how fast a result comes, and beyond rounding (`docs/reliability.md`) never which.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, get_args, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.rnn import pad_sequence

from fedstat._memory import gpu_share
from fedstat.federated.client.layers import copied
from fedstat.federated.client.local import Learner
from fedstat.federated.client.network import Network, Params, bytes_of_one
from fedstat.federated.client.samples import Job
from fedstat.federated.engine.dense_chain import chain_of
from fedstat.federated.state import Predictor

if TYPE_CHECKING:
    from fedstat.federated.engine.training import LocalTraining

ExecutorName = Literal["auto", "stacked", "per-client", "ray"]
NAMES: tuple[ExecutorName, ...] = get_args(ExecutorName)
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

#: Arithmetic of one client's step, forward and backward, from which networks with convolutions train per client.
#: Stacked over per client in CPU time, one thread: 0.3 to 0.5 at 2 to 11 million, 0.7 at 9 (14x14 pixels), 0.9 at 42,
#: 1.1 at 37 (28x28), 0.95 at 79 (14x14), 1.3 at 128 (28x28), 1.25 at 512 (`two_conv`), 1.2 at 1,736 (ResNet-8); more
#: threads add to it, as workers never wait for each other.
PER_CLIENT_FLOPS = 50e6
#: Outputs of hidden layers alive at once in evaluation, in bytes: bounds its memory. On a GPU more, `evaluation_bytes`.
_BLOCK = 2**26
#: The same on a CPU, as long as a piece holds so many samples (fewer may round otherwise). What fits the cache is as
#: fast, and large tensors that come and go between small tables that stay keep several times their memory.
_CPU_BLOCK, _SAMPLES = 2**22, 128
#: How many clients of a network fitted into a device's memory after more had not.
_FITTING: WeakKeyDictionary[Network, int] = WeakKeyDictionary()
#: Bytes of one chunk's stacked leaves on a CPU, beyond which more clients at once save hardly any time.
CHUNK_BYTES = 8 * 2**20
#: What all tensors of a chunk may fill: bytes on a CPU; on a GPU a share of all its memory, whatever is free just now.
CPU_BYTES, CARD_SHARE = 2**30, 0.4
#: Copies of a client's leaves that training holds: received, trained, gradient, and two of the optimiser.
COPIES = 5
#: What a sample of each network costs; nothing is timed, so that a run repeats itself.
_COSTS: WeakKeyDictionary[Network, Cost] = WeakKeyDictionary()


@runtime_checkable
class Executor(Protocol):
    """An object that does the clients' work.

    The built-in ones are `Stacked` and `PerClient`; a class of one's own has the same two verbs.

    Examples
    --------
    An executor that does the work of a built-in one, and counts:

    >>> import fedstat as fs
    >>> class Counting(fs.federated.Stacked):
    ...     jobs = 0
    ...     def train(self, work, start, jobs, moves):
    ...         self.jobs += len(jobs)
    ...         return super().train(work, start, jobs, moves)
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> executor, training = Counting(), fs.Training(lr=0.1)
    >>> _ = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, training, executor=executor))
    >>> executor.jobs
    4
    """

    @property
    def together(self) -> bool:
        """Whether methods and seeds with equal local steps should come as one stack."""
        ...

    def train(self, work: LocalTraining, start: Params, jobs: Sequence[Job], moves: Params) -> Params:
        """Train every client from its row of `start` (J, ...); return the ends (J, ...).

        `moves` holds masks (J, ...), or (1, ...) for all; where one is false an element stays.
        """
        ...

    def evaluate(self, learner: Learner, predictor: Predictor, x: Tensor, n: Tensor) -> Tensor:
        """Return outputs (m, n_max, Q) of every client's model on its inputs `x` (m, n_max, ...), of which `n` count.

        Outputs beyond a client's own count may be anything finite.
        """
        ...


@runtime_checkable
class RemoteExecutor(Protocol):
    """Runs clients' work in other processes."""

    @property
    def local(self) -> ExecutorName:
        """Name of the built-in executor."""
        ...

    def over(self, executor: Stacked | PerClient) -> Executor:
        """Return the executor that does in other processes what `executor` does here."""
        ...


#: The name of an executor, or one.
AnyExecutor = ExecutorName | Executor | RemoteExecutor


@dataclass(frozen=True)
class Stacked:
    """Clients lie along an axis of every tensor, as many at once as a chunk holds.

    Parameters
    ----------
    chunk : int, optional
        Clients of a chunk; by default as many as fill a fixed number of bytes. It matters for rounding alone, which
        batch norm in float32 amplifies.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> how = {"executor": fs.federated.Stacked()}
    >>> now = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), **how))
    >>> now.number
    1
    """

    chunk: int | None = None
    together: ClassVar[bool] = True

    def train(self, work: LocalTraining, start: Params, jobs: Sequence[Job], moves: Params) -> Params:
        """Train chunk after chunk."""

        def chunk(rows: slice) -> Params:
            some = {name: mask if len(mask) == 1 else mask[rows] for name, mask in moves.items()}
            return work.stacked({name: leaf[rows] for name, leaf in start.items()}, jobs[rows], some)

        ends = _in_chunks(work.route.learner.network, len(jobs), self.chunk or work.route.chunk, chunk)
        return ends[0] if len(ends) == 1 else {name: torch.cat([end[name] for end in ends]) for name in ends[0]}

    def evaluate(self, learner: Learner, predictor: Predictor, x: Tensor, n: Tensor) -> Tensor:
        """Evaluate chunk after chunk, padding included, the samples of a chunk in pieces."""
        return chunked_outputs(self.evaluated(learner, predictor, x), learner, predictor, x)

    def evaluated(self, learner: Learner, predictor: Predictor, x: Tensor) -> int:
        """Count the clients that are evaluated at once."""
        return min(len(x), self.chunk or chunk_size(bytes_of_one(predictor.params), learner.network, x[0], 1))


@dataclass(frozen=True)
class PerClient:
    """Each client is computed by itself, without stacking or padding; on a CPU over as many threads as torch has.

    Each worker thread computes with one thread of torch's and with its own copy of the module, because
    ``functional_call`` puts weights into the module while it runs. What a client comes to does not depend on how many
    workers there are.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> how = {"executor": fs.federated.PerClient()}
    >>> now = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), **how))
    >>> now.number
    1
    """

    together: ClassVar[bool] = False

    def train(self, work: LocalTraining, start: Params, jobs: Sequence[Job], moves: Params) -> Params:
        """Train client by client; who trains one also puts what it comes to into its row, while others still train."""
        stacks = {name: leaf.new_empty(leaf.shape) for name, leaf in start.items()}

        def one(network: Network, k: int) -> Params:
            own = {name: mask[k % len(mask)] for name, mask in moves.items()}
            end = work.alone(network, _of_one(start, k), jobs[k], own)
            for name in end.keys() & stacks.keys():
                end[name] = stacks[name][k].copy_(end[name])
            return end

        ends = _each(work.route.learner.network, one, range(len(jobs)))
        return {n: stacks[n] if n in stacks else stack([end.pop(n) for end in ends]) for n in list(ends[0])}

    def evaluate(self, learner: Learner, predictor: Predictor, x: Tensor, n: Tensor) -> Tensor:
        """Evaluate client by client, each client's samples in pieces of their own; zero at padding."""
        block = max(1, evaluation_bytes(x.device, _BLOCK) // cost(learner.network, x[0]).activations)
        pieces = [
            (k, slice(first, min(first + block, own)))
            for k, own in enumerate(n.tolist())
            for first in range(0, own, block)
        ]

        def outputs(network: Network, piece: tuple[int, slice]) -> Tensor:
            k, rows = piece
            params = _of_one(predictor.params, k)
            return predictor.outputs(replace(learner, network=network), params, network.inputs(x[k, rows]))

        parts = _each(learner.network, outputs, pieces, grad=False)
        joined = parts[0].new_zeros(*x.shape[:2], parts[0].shape[-1])
        for (k, rows), part in zip(pieces, parts, strict=True):
            joined[k, rows] = part
        return joined


@torch.no_grad()
def chunked_outputs(size: int, learner: Learner, predictor: Predictor, x: Tensor) -> Tensor:
    """Return outputs (m, n_max, Q) of clients in chunks of `size`, the samples of a chunk in pieces.

    The size of the chunks and not the number of clients says where the samples are cut.
    """
    network = learner.network
    pieces = _pieces(x.shape[1], size * cost(network, x[0]).activations, x.device)

    def single(params: Params, inputs: Tensor) -> Tensor:
        outputs = predictor.outputs(learner, params, inputs)
        if not isinstance(outputs, Tensor):
            what = getattr(predictor.outputs, "__qualname__", "the outputs of a predictor")
            raise ValueError(f"{what} must return a tensor of outputs, got {type(outputs).__name__}.")
        return outputs

    def chunk(rows: slice) -> Tensor:
        params = {name: leaf[rows] for name, leaf in predictor.params.items()}
        parts = [torch.vmap(single)(params, network.inputs(piece)) for piece in x[rows].split(pieces, dim=1)]
        return torch.cat(parts, dim=1)

    return torch.cat(_in_chunks(network, len(x), size, chunk))


def _in_chunks(network: Network, count: int, size: int, work: Callable[[slice], Outcome]) -> list[Outcome]:
    """Do work on the clients, `size` at a time; halve it, down to one, while the device's memory does not hold them."""
    done, first = list[Outcome](), 0
    while first < count:
        rows = slice(first, min(first + min(size, _FITTING.get(network, size)), count))
        try:
            done.append(work(rows))
        except torch.OutOfMemoryError as error:
            if (many := rows.stop - first) == 1:
                raise _too_large(network.device, error) from None
            _FITTING[network] = many // 2
            warnings.warn(
                f"{many} clients at once do not fit into the memory of {network.device}: from now on {many // 2} are "
                "computed at once. Beyond rounding nothing changes; chunk says how many from the start.",
                stacklevel=2,
            )
        else:
            first = rows.stop
    return done


def _too_large(device: torch.device, error: torch.OutOfMemoryError) -> MemoryError:
    """Return what to raise where one client does not fit."""
    return MemoryError(
        f"one client alone does not fit into the memory of {device}; take a smaller batch_size or network, or "
        f'dtype="bf16-mixed", or end what else computes there. Torch says: {error}'
    )


def _pieces(samples: int, each: int, device: torch.device) -> list[int]:
    """Return the sizes of pieces in which samples are evaluated, each of which takes so many bytes of hidden layers."""
    block = max(1, evaluation_bytes(device, _BLOCK) // each)
    piece = max(_SAMPLES, _CPU_BLOCK // each) if device.type == "cpu" else block
    blocks = [min(block, samples - first) for first in range(0, samples, block)]
    return [len(part) for whole in blocks for part in np.array_split(range(whole), max(1, whole // piece))]


def choose(wanted: AnyExecutor, network: Network, x: Tensor, batch_size: int, chunk: int | None = None) -> Executor:
    """Return the executor that is wanted, or by default the one that the rule of this module takes.

    "auto" is per client on a CPU where the network has convolutions with much arithmetic on stored inputs (N, ...), and
    stacked otherwise; `chunk` is that of `Stacked`.
    """
    if isinstance(wanted, RemoteExecutor):
        cost(network, x)  # once and here, since threads that wait for others must not call one module at once
        local: Any = choose(wanted.local, network, x, batch_size, chunk)
        return wanted.over(local)
    if not isinstance(wanted, str):
        return wanted
    if wanted == "auto":
        convolves = network.device.type == "cpu" and any(isinstance(one, _ConvNd) for one in network.module.modules())
        heavy = convolves and 3 * batch_size * cost(network, x).flops >= PER_CLIENT_FLOPS
        wanted = "per-client" if heavy else "stacked"
    return PerClient() if wanted == "per-client" else Stacked(chunk)


def here(executor: Any) -> Any:
    """Return the executor that would do the same work in this process."""
    return executor.local if isinstance(executor, RemoteExecutor) else executor


def check_executor(value: Any) -> None:
    """Refuse what is neither the name of an executor nor has its two verbs."""
    fits = isinstance(value, Executor | RemoteExecutor) and not isinstance(value, type)
    if not (value in NAMES if isinstance(value, str) else fits):
        raise ValueError(
            f"executor must be one of {', '.join(NAMES)}, or an object with the verbs train and evaluate as "
            f"fs.federated.Executor has them; got {value!r}."
        )


def _of_one(params: Params, k: int) -> Params:
    """Take client k's leaves out of a stack, kernels channels last, the layout that a CPU is fastest with."""
    own = {name: leaf[k] for name, leaf in params.items()}
    kernels = {name: leaf for name, leaf in own.items() if leaf.dim() == 4 and leaf.device.type == "cpu"}
    return own | {name: leaf.clone(memory_format=torch.channels_last) for name, leaf in kernels.items()}


def _each(
    network: Network, work: Callable[[Network, Item], Outcome], items: Sequence[Item], *, grad: bool = True
) -> list[Outcome]:
    """Apply ``work(network, item)`` to every item; raise the first exception in their order, and drop what is left."""
    if network.device.type != "cpu":
        try:
            with torch.set_grad_enabled(grad):
                return [work(network, item) for item in items]
        except torch.OutOfMemoryError as error:
            raise _too_large(network.device, error) from None
    threads, own = torch.get_num_threads(), threading.local()

    def begin() -> None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(grad)
        own.network = replace(network, module=copied(network.module))

    try:
        with ThreadPoolExecutor(min(threads, len(items)), initializer=begin) as workers:
            return list(workers.map(lambda item: work(own.network, item), items))
    finally:
        torch.set_num_threads(threads)


def stack(leaves: list[Tensor]) -> Tensor:
    """Stack what clients came to by themselves; values per sample are padded to the client with most of them."""
    alike = all(leaf.shape == leaves[0].shape for leaf in leaves)
    return torch.stack(leaves) if alike else pad_sequence(leaves, batch_first=True)


@dataclass(frozen=True)
class Cost:
    """The cost of one sample's forward pass: operations of dense and convolutional layers, and bytes that it keeps.

    ``activations`` are kept for the backward pass; ``weights`` once per client, for any number of samples: those made
    of parts, or rounded to bfloat16.
    """

    flops: int
    activations: int
    weights: int


def cost(network: Network, x: Tensor) -> Cost:
    """Return, found once per network, what a sample of stored inputs `x` (B, ...) costs."""
    if network not in _COSTS:
        chain = chain_of(network)
        if chain is None or not chain.takes(x):
            _COSTS[network] = _measured(network, network.inputs(x[:1]))
        else:  # what a chain of dense layers keeps are the inputs of all layers
            shapes = [network.weights[layer.weight] for layer in chain.layers]
            kept = network.dtype.itemsize * sum(inputs for _, inputs in shapes)
            _COSTS[network] = Cost(2 * sum(map(math.prod, shapes)), kept, 0)
    return _COSTS[network]


def _measured(network: Network, sample: Tensor) -> Cost:
    """Measure the cost of a sample, (1, ...), by two forward passes."""
    (flops, kept), (_, more) = (_counted(network, sample.expand(n, *sample.shape[1:])) for n in (2, 4))
    each = max(1, (more - kept) // 2)
    return Cost(flops // 2, each, max(0, kept - 2 * each))


def _counted(network: Network, x: Tensor) -> tuple[int, int]:
    """Count the operations of one forward pass, and the bytes that it keeps beside the leaves."""
    flops, kept = 0, dict[int, int]()
    params = {n: leaf.requires_grad_(n in network.trainable) for n, leaf in network.initial().items()}
    leaves = {leaf.untyped_storage().data_ptr() for leaf in params.values()}

    def count(layer: nn.Module, _: object, outputs: Tensor) -> None:
        nonlocal flops
        flops += 2 * outputs.numel() * layer.weight[0].numel()  # type: ignore[index]

    def keep(saved: Tensor) -> Tensor:
        place = saved.untyped_storage().data_ptr()
        if place not in leaves:
            kept[place] = saved.nbytes
        return saved

    with ExitStack() as hooks, torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        for layer in network.module.modules():
            if isinstance(layer, nn.Linear | _ConvNd):
                hooks.enter_context(layer.register_forward_hook(count))
        outputs = network(params, x, train=True, noise=torch.zeros((), dtype=torch.int64, device=x.device))
    del outputs  # kept alive until here, so that no two storages share an address
    return flops, sum(kept.values())


def chunk_size(held: int, network: Network, x: Tensor, batch_size: int, *, blocks: bool = False) -> int:
    """Return how many clients train at once: as many as the chunk's bytes hold, and on a CPU no more than pays.

    A client's leaves fill `held` bytes; `x` are stored inputs (N, ...). A chunk that is worked off in `blocks`, which
    fit the cache, may be as large as the memory allows.
    """
    models = max(1, round(held / network.bytes))  # a client of some methods holds several models
    one = cost(network, x)
    each = COPIES * held + models * (batch_size * one.activations + 2 * one.weights)  # weights, and their gradients
    most = chunk_bytes(network.device) // each
    return max(1, most if blocks or network.device.type == "cuda" else min(most, CHUNK_BYTES // held))


def chunk_bytes(device: torch.device) -> int:
    """Return the bytes that the tensors of one chunk may fill."""
    if device.type == "cuda":
        return int(CARD_SHARE * gpu_share() * torch.cuda.get_device_properties(device).total_memory)
    return CPU_BYTES


def evaluation_bytes(device: torch.device, least: int) -> int:
    """Return the bytes that models, or outputs of hidden layers, may each fill in evaluation.

    On a GPU that is a quarter of what a chunk's training may fill, if it is more than `least`.
    """
    return max(least, chunk_bytes(device) // 4) if device.type == "cuda" else least

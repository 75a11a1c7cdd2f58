"""Count what one client's step costs in arithmetic and memory; nothing is timed, so that a run repeats itself."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from fedstat._memory import gpu_share
from fedstat.federated.client.network import Network

#: Bytes of one chunk's stacked leaves on a CPU, beyond which more clients at once save hardly any time.
CHUNK_BYTES = 8 * 2**20
#: What all tensors of a chunk may fill: bytes on a CPU; on a GPU a share of all its memory, whatever is free just now.
CPU_BYTES, CARD_SHARE = 2**30, 0.4
#: Copies of a client's leaves that training holds: received, trained, gradient, and two of the optimiser.
COPIES = 5


@dataclass(frozen=True)
class Cost:
    """The cost of one sample's forward pass.

    Attributes
    ----------
    flops : int
        Floating-point operations of dense and convolutional layers.
    activations : int
        Bytes kept for the backward pass.
    weights : int
        Bytes kept once per client, for any number of samples: weights made of parts, or rounded to bfloat16.
    """

    flops: int
    activations: int
    weights: int


_COSTS: WeakKeyDictionary[Network, Cost] = WeakKeyDictionary()


def cost(network: Network, x: Tensor) -> Cost:
    """Measure by two forward passes, once per network, what a sample of stored inputs `x` (B, ...) costs."""
    if network not in _COSTS:
        sample = network.inputs(x[:1])
        (flops, kept), (_, more) = (_counted(network, sample.expand(n, *sample.shape[1:])) for n in (2, 4))
        each = max(1, (more - kept) // 2)
        _COSTS[network] = Cost(flops // 2, each, max(0, kept - 2 * each))
    return _COSTS[network]


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

    layers = [layer for layer in network.module.modules() if isinstance(layer, nn.Linear | _ConvNd)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
            outputs = network(params, x, train=True, noise=torch.zeros((), dtype=torch.int64, device=x.device))
    finally:
        for hook in hooks:
            hook.remove()
    del outputs  # kept alive until here, so that no two storages share an address
    return flops, sum(kept.values())


def chunk_size(held: int, network: Network, x: Tensor, batch_size: int, *, blocks: bool = False) -> int:
    """Return how many clients train at once: as many as the chunk's bytes hold, and on a CPU no more than pays.

    Parameters
    ----------
    held : int
        Bytes of one client's leaves.
    network : Network
        The network that is trained.
    x : Tensor, shape (N, ...)
        Stored inputs, of the shape that the network takes.
    batch_size : int
        Number of samples of one step.
    blocks : bool
        Whether a chunk is worked off in blocks that fit the cache, so that it may be as large as the memory allows.
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

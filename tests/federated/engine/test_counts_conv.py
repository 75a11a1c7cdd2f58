"""What one local step of a network with convolutions asks of torch: operations, arithmetic and memory, to the number.

No machine changes these numbers. They guard the closed form: autograd takes more operations, and computes gradients
that nobody needs.
"""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import fedstat as fs
from benchmarks.conv import Setting
from fedstat.federated.engine import executor
from fedstat.federated.route import Route

SETTING = Setting(
    model=fs.models.two_conv(10),
    shape=(28, 28),
    clients=1,
    samples=100,
    participants=1,
    training=fs.Training(lr=0.05, batch_size=20),
)
#: Operations that make another view of the same numbers.
VIEWS = {
    "view", "_unsafe_view", "t", "transpose", "permute", "select", "slice", "squeeze", "unsqueeze", "expand", "unbind",
    "detach",
}  # fmt: skip
#: Operations of dense layers, by oneDNN and otherwise.
PRODUCTS = {"_linear_pointwise", "linear", "addmm", "mm"}


class Counts(TorchDispatchMode):
    """Counts operations, their multiplications and additions in convolutions and products, and new bytes."""

    def __init__(self):
        super().__init__()
        self.operations, self.flops, self.bytes = Counter(), 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        outputs = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        self.operations[name] += 1
        known, made = ([t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)] for tree in (args, outputs))
        places = {tensor.untyped_storage().data_ptr() for tensor in known}
        self.bytes += sum(tensor.nbytes for tensor in made if tensor.untyped_storage().data_ptr() not in places)
        match name:
            case "convolution":
                self.flops += 2 * outputs.numel() * args[1][0].numel()
            case "convolution_backward":
                self.flops += 2 * args[0].numel() * args[2][0].numel() * sum(args[-1][:2])
            case _ if name in PRODUCTS:
                first = args[1] if name == "addmm" else args[0]
                self.flops += 2 * outputs.numel() * first.shape[-1]
        return outputs


@pytest.fixture
def here(monkeypatch):
    """Let the only client train in this thread, where its operations can be seen."""

    def each(network, work, items, *, grad=True):
        with torch.set_grad_enabled(grad):
            return [work(network, item) for item in items]

    monkeypatch.setattr(executor, "_each", each)


def of_a_round(epochs):
    """Counts of one round of one client, which takes five steps an epoch."""
    settings = replace(SETTING.training, local_epochs=epochs)
    rounds = fs.rounds(fs.FedAvg(), SETTING.model, SETTING.make_clients(), settings, executor="per-client")
    next(rounds)
    with Counts() as counts:
        next(rounds)
    return counts


def of_a_step():
    """What a round of three epochs takes more than one of one epoch, by step."""
    one, three = of_a_round(1), of_a_round(3)
    more = {name: (n - one.operations[name]) / 10 for name, n in three.operations.items() if name not in VIEWS}
    return {name: n for name, n in more.items() if n}, (three.flops - one.flops) / 10, (three.bytes - one.bytes) / 10


def test_operations_arithmetic_and_memory_of_a_step(here, monkeypatch):
    operations, flops, new = of_a_step()
    expected = {
        "convolution": 2, "max_pool2d_with_indices": 2, "relu": 3, "threshold_backward": 3,
        "max_pool2d_with_indices_backward": 2, "convolution_backward": 2, "index_select": 2, "add_": 8,
    }  # fmt: skip
    assert {name: operations[name] for name in expected} == expected
    assert sum(operations[name] for name in PRODUCTS & operations.keys()) == 6
    assert sum(operations.values()) <= 55

    # a product forward, one backward by weights and one by inputs; nothing asks for the gradient by the pixels
    layers = {"conv1": 24 * 24 * 32 * 25, "conv2": 8 * 8 * 64 * 25 * 32, "hidden": 1024 * 512, "head": 512 * 10}
    assert flops == 2 * 20 * (3 * sum(layers.values()) - layers["conv1"])

    # gradients by the leaves, and by outputs of convolutions: 4 bytes each as they come, and once more in the backward
    # pass; a quarter of them as maxima, cut off at zero, the latter's gradient, and the places of maxima (8 bytes)
    leaves, outputs = 582_026, 20 * (24 * 24 * 32 + 8 * 8 * 64)
    assert new <= 4 * (leaves + (2 + 3 / 4 + 2 / 4 + 0.5) * outputs)

    monkeypatch.setattr(Route, "layers", None)
    by_autograd, same, most = of_a_step()
    assert same == flops
    assert sum(by_autograd.values()) >= sum(operations.values())
    assert most > 1.25 * new


def test_operations_of_a_round_beside_its_steps(here):
    counts, (step, _, new) = of_a_round(1), of_a_step()
    beside = sum(n for name, n in counts.operations.items() if name not in VIEWS) - 5 * sum(step.values())
    assert beside <= 130
    # copies of the leaves: in training, in the client's row; change, mean, the server's step, and where it leads
    assert counts.bytes - 5 * new <= 6.5 * 4 * 582_026

"""What training costs, counted: operations, bytes and arithmetic, which are the same on every machine."""

from dataclasses import replace

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import fedstat as fs
from fedstat.federated.client.local import Learner
from fedstat.federated.client.network import build
from fedstat.federated.client.samples import Job, StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.engine.executor import Stacked
from fedstat.federated.route import Route
from tests.support.runs import train_once

INPUTS, UNITS, BATCH, SAMPLES, CLIENTS = 6, 50, 4, 12, 5
#: W1, small: one hidden layer, one output, plain steps, three of them in an epoch.
SETTINGS = fs.Training(lr=0.05, batch_size=BATCH, local_epochs=2)
STEPS = SAMPLES // BATCH
DENSE = build(fs.models.mlp(INPUTS, UNITS, 1), np.random.default_rng(0))
IMAGES = build(fs.models.cnn(8, 10), np.random.default_rng(0))


class Counted(TorchDispatchMode):
    """Counts operations, the bytes of new memory that they fill (views are neither), and arithmetic of products."""

    def __init__(self):
        super().__init__()
        self.operations = self.bytes = self.flops = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        def memory(values):
            found = {id(t): t for t in tree_leaves(values) if isinstance(t, torch.Tensor)}
            return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in found.values()}

        given = memory((args, kwargs or {}))
        result = function(*args, **(kwargs or {}))
        new = [size for place, size in memory(result).items() if place not in given]
        self.operations += bool(new) or function._schema.is_mutable
        self.bytes += sum(new)
        if (name := function.overloadpacket.__name__) in ("bmm", "baddbmm", "baddbmm_"):
            first, second = args[:2] if name == "bmm" else args[1:3]
            self.flops += 2 * first.numel() * second.shape[-1]
        return result


def trained(network, settings, clients=CLIENTS, executor=None, counter=None):
    """Train some clients for a round under a counter, a new one by default; return the counter."""
    rng = np.random.default_rng(0)
    shape = (8, 8) if network is IMAGES else (INPUTS,)
    x = rng.normal(size=(clients, SAMPLES, *shape)).astype(np.float32)
    y = rng.integers(2, size=(clients, SAMPLES))
    samples = StackedSamples.stack([fs.data.Samples.from_rows(x, y)], torch.float32, "cpu")
    start = {name: leaf.expand(clients, *leaf.shape).clone() for name, leaf in network.initial().items()}
    jobs, learner = (
        [Job(k, Seeds(0), k) for k in range(clients)],
        Learner(network, "cross_entropy" if network is IMAGES else "logistic"),
    )
    counter = Counted() if counter is None else counter
    with counter:
        train_once(fs.FedAvg(), learner, settings, samples, start, jobs, 0, executor or Stacked())
    return counter


def of_a_step(network, settings=SETTINGS, **how):
    """Operations, bytes and floating-point operations that one more step takes."""
    counts = [trained(network, replace(settings, local_epochs=e), **how) for e in (1, 2, 3)]  # the first call warms up
    return tuple((getattr(counts[2], n) - getattr(counts[1], n)) / STEPS for n in ("operations", "bytes", "flops"))


def of_a_round(clients):
    """Operations and bytes that one more round of `fedstat.federate` takes."""
    x = np.random.default_rng(0).normal(size=(clients * SAMPLES, INPUTS))
    data = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.arange(len(x)) % clients, test=0)
    counts = []
    for rounds in (1, 2, 3):  # the first call warms up
        with Counted() as counter:
            fs.federate(
                fs.FedAvg(),
                fs.models.mlp(INPUTS, UNITS, 1),
                data,
                SETTINGS,
                rounds=rounds,
                evaluate_at=(),
                progress=False,
            )
        counts.append(counter)
    return tuple(getattr(counts[2], n) - getattr(counts[1], n) for n in ("operations", "bytes"))


def test_a_plain_step_of_a_chain_is_twelve_operations_and_stores_no_gradient():
    # forward: two products and a ReLU; slopes of the loss: three; back through the head: two; four leaves move
    operations, size, _ = of_a_step(DENSE)
    assert operations == 12
    assert of_a_step(DENSE, clients=9)[0] == 12
    assert size < CLIENTS * DENSE.bytes / 5  # places, targets and outputs of the batch, no leaf


def test_other_optimisers_add_no_more_than_their_own_operations():
    assert of_a_step(DENSE, replace(SETTINGS, momentum=0.5))[0] == 18
    assert of_a_step(DENSE, replace(SETTINGS, optimizer="adam"))[0] == 49


def test_the_general_path_takes_no_more_than_it_did(monkeypatch):
    monkeypatch.setattr(Route, "dense", None)
    operations, size, _ = of_a_step(DENSE)
    assert operations <= 65
    assert size <= 33212
    assert of_a_step(DENSE, clients=9)[0] == operations


def test_a_chains_arithmetic_is_that_of_its_products():
    products, biases = INPUTS * UNITS + UNITS, UNITS + 1
    # forward and weights' gradients; sums of slopes as products with ones; slopes go back through the one output as the
    # product of a column and a row, which is none of matrices
    assert of_a_step(DENSE)[2] == CLIENTS * BATCH * 2 * (2 * products + biases)


def test_a_round_takes_as_many_operations_for_any_number_of_clients():
    few, many = of_a_round(5), of_a_round(20)
    assert few[0] == many[0] <= 153
    assert many[1] <= 20 / 5 * few[1]


def test_a_stack_of_convolutional_networks_takes_no_more_than_it_did():
    operations, size, _ = of_a_step(IMAGES)
    assert operations <= 65
    assert size <= 549008

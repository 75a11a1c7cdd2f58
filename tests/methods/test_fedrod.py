"""FedRoD: limits, a plain loop with two heads, bytes, new clients."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated import Phase
from fedstat.federated.client.local import Batch, Context, Learner
from fedstat.federated.client.network import build
from fedstat.methods import FedAvg, FedRoD
from tests.support.clients import CLASSES, SIDE
from tests.support.layers import (
    D,
    assert_bytes,
    assert_models,
    assert_new_clients_train,
    assert_refuses_tasks_without_classes,
    loaded,
    mean,
    network_of,
    samples,
    shares,
)
from tests.support.networks import leaves_of
from tests.support.runs import FULL, equal, reference, run, same, trajectory


def test_fedrod_without_balance_has_fedavg_as_its_generic_model():
    equal(run(FedRoD(gamma=0.0)), reference(FedAvg()), 1e-12, ("global", None))


def test_fedrod_on_balanced_classes_has_fedavg_as_its_generic_model():
    rng = np.random.default_rng(0)
    client = np.repeat([0, 1, 2, 3], [8, 12, 16, 4])
    y = np.concatenate([rng.permutation(np.arange(n) % CLASSES) for n in (8, 12, 16, 4)])
    clients = fs.data.from_arrays(rng.normal(size=(len(y), SIDE, SIDE)), y, client, test=0)
    here, there = (run(method, clients=clients) for method in (FedRoD(), FedAvg()))
    equal(here, there, 1e-10, ("global", None))
    assert (trajectory(here)["log_loss"] != trajectory(here, "global")["log_loss"]).any()


@dataclass(frozen=True, kw_only=True)
class FrozenPrivateHead(FedRoD):
    """FedRoD whose private head stays zero."""

    def phases(self, network, training, round):
        return (Phase(network.trainable),)


def test_fedrod_with_a_frozen_private_head_predicts_as_the_generic_model():
    result = run(FrozenPrivateHead())
    same(result, result, 0, ("personal", "global"))
    assert reference(FedRoD()).history["value"].notna().all()


def test_fedrod_is_a_loop_over_clients_with_two_heads():
    result = run(FedRoD(gamma=0.8), rounds=2, training=FULL, participation=1.0)
    data = samples(result)
    assert any(len(y.unique()) < CLASSES for _, y in data), "no client lacks a class"
    server = network_of(result).initial()
    heads = [(torch.zeros(CLASSES, 7).double(), torch.zeros(CLASSES).double())] * len(data)
    for _ in range(2):
        ends = []
        for k, (x, y) in enumerate(data):
            module = loaded(server)
            private = nn.Linear(7, CLASSES).double()
            private.load_state_dict(dict(zip(("weight", "bias"), heads[k], strict=True)))
            counts = torch.bincount(y, minlength=CLASSES).double()
            seen = []
            module.head.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
            first, second = (
                torch.optim.SGD(m.parameters(), FULL.lr, momentum=FULL.momentum) for m in (module, private)
            )
            for _ in range(FULL.local_epochs):
                generic = module(x)
                z = seen.pop()
                odds = counts**0.8 * generic.exp()  # the balanced softmax as the paper has it, without logarithms
                balanced = -(odds[torch.arange(len(y)), y] / odds.sum(1)).log().mean()
                personal = F.cross_entropy(generic.detach() + private(z.detach()), y)
                for optimizer, loss in ((first, balanced), (second, personal)):
                    optimizer.zero_grad()
                    loss.backward()
                for optimizer in (first, second):
                    optimizer.step()
            ends.append(leaves_of(module))
            heads[k] = tuple(leaf.detach().clone() for leaf in private.parameters())
        server = {n: mean([e[n] for e in ends], shares(result)) for n in server}
    assert_models(result, [server] * len(data), "global")
    own = [dict(zip(("private/head.weight", "private/head.bias"), pair, strict=True)) for pair in heads]
    assert_models(result, [server | pair for pair in own], "personal")
    x = data[0][0]
    generic, both = (result.personal(2, estimand=e)(x) for e in ("global", "personal"))
    seen = []
    module = loaded(server).eval()
    module.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.testing.assert_close(generic, module(x), rtol=0, atol=1e-10)
    torch.testing.assert_close(both - generic, F.linear(seen[0], *heads[2]), rtol=0, atol=1e-10)


def test_fedrod_stays_finite_where_padding_is_of_a_class_that_the_client_lacks():
    network = build(fs.models.mlp(3, 5, 3), np.random.default_rng(0), torch.float64)
    params = network.initial() | {"private/head.weight": torch.zeros(3, 5).double()}
    batch = Batch(torch.ones(2, 3).double(), torch.tensor([0, 2]), torch.tensor([True, False]), torch.tensor([0, 0]))
    context = Context(params, {"log_counts": torch.tensor([4.0, 1, 0]).double().log()}, "train")
    learner = Learner(network, "cross_entropy")
    stacked = {name: leaf.expand(2, *leaf.shape).clone().requires_grad_() for name, leaf in params.items()}
    loss = torch.vmap(lambda p: FedRoD().objective(learner, p, batch, context))(stacked).sum()
    grads = torch.autograd.grad(loss, list(stacked.values()))
    assert loss.isfinite()
    assert all(grad.isfinite().all() for grad in grads)
    assert grads[list(stacked).index("head.bias")][:, 2].abs().max() == 0  # the class is out of the balanced loss


def test_the_generic_model_travels_in_each_direction():
    assert_bytes(FedRoD(), D, D)


def test_new_clients_train_the_private_head_alone():
    assert_new_clients_train(FedRoD(), {"private/head.weight", "private/head.bias"})


def test_tasks_without_classes_are_refused():
    assert_refuses_tasks_without_classes(FedRoD())


@pytest.mark.parametrize(
    ("make", "message"), [(lambda: FedRoD(gamma=np.inf), r"gamma must be a number in \[0, inf\), got inf")]
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

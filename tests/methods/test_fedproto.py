"""FedProto: limits, plain loops, predictions by the nearest prototype, bytes, new clients."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.client.local import Learner
from fedstat.methods import FedProto, Local
from tests.support.clients import CLASSES, image_clients, samples
from tests.support.copies import load, orders, start_of, trained
from tests.support.layers import assert_refuses_tasks_without_classes, newcomers
from tests.support.networks import leaves_of, plain_net
from tests.support.runs import FULL, KEY, TRAINING, assert_close, differ, equal, final, reference, run, traffic

#: Features of the network's head.
WIDTH = 7


def features(module, x):
    """Inputs of the head and outputs."""
    seen = []
    with module.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
        outputs = module(x)
    return seen[0], outputs


def loss_of(x, y, prototypes, penalty):
    """Cross-entropy, and the mean squared distance from prototypes; a feature of no known class is its own target."""

    def loss(module, b):
        z, outputs = features(module, x[b])
        target = torch.stack([prototypes.get(q, z[i].detach()) for i, q in enumerate(y[b].tolist())])
        return F.cross_entropy(outputs, y[b]) + penalty * F.mse_loss(z, target)

    return loss


def means_of(module, x, y):
    with torch.no_grad():
        z = features(module.eval(), x)[0]
    return {q: z[y == q].mean(0) for q in set(y.tolist())}


def nearest(module, prototypes, x):
    with torch.no_grad():
        z = features(module.eval(), x)[0]
    labels = list(prototypes)
    distances = torch.stack([(z - prototypes[q]).square().sum(1) for q in labels], 1)
    return torch.tensor(labels)[distances.argmin(1)]


def test_without_alignment_clients_have_locals_models():
    equal(run(FedProto(penalty=0.0)), reference(Local()), 0, ("classifier", None))
    differ(run(FedProto(penalty=0.0)), run(FedProto(penalty=5.0)))


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_rounds_are_those_of_a_plain_loop(weighting, executor):
    clients, rounds, penalty = image_clients(seed=3), 4, 2.0
    method = FedProto(penalty=penalty, weighting=weighting)
    result = run(method, rounds, clients=clients, executor=executor, participation=0.34, trained=True)
    up, down = (traffic(result, f"bytes_{way}") for way in ("up", "down"))
    own, prototypes, missing, accuracies = [start_of(result) for _ in range(6)], {}, 0, []
    for t in range(rounds):
        sent = []
        for k in [k for k in up.columns if up.notna().loc[t + 1, k]]:
            x, y = samples(clients, k)
            missing += 0 < len(prototypes) < CLASSES and not {*y.tolist()} <= {*prototypes}
            own[k] = trained(own[k], loss_of(x, y, prototypes, penalty), orders(clients, k, t, TRAINING), TRAINING)
            means = means_of(own[k], x, y)
            sent.append((means, {q: y.tolist().count(q) if weighting == "samples" else 1 for q in means}))
            assert up.loc[t + 1, k] == 8 * WIDTH * len(means)
            assert down.loc[t + 1, k] == 8 * WIDTH * len(prototypes)
            inputs, targets = (torch.from_numpy(values) for values in clients.test.client(k))
            accuracies.append((nearest(own[k], means, inputs) == targets).double().mean().item())
        for q in {q for means, _ in sent for q in means}:
            total = sum(n.get(q, 0) for _, n in sent)
            prototypes[q] = sum(n[q] / total * means[q] for means, n in sent if q in means)
    assert missing, "nobody had a class without a prototype"
    seen = result.history.query("estimand == 'trained' and metric == 'accuracy'").sort_values(["round", "client"])
    np.testing.assert_allclose(seen["value"], accuracies, rtol=0, atol=1e-12)
    state = result.states[KEY]
    assert_close({q: state.memory["mean"][q] for q in prototypes}, prototypes)
    assert state.memory["known"].tolist() == [q in prototypes for q in range(CLASSES)]
    models = final(result, "classifier")
    for k in range(6):
        assert_close({n: leaf[k] for n, leaf in models.items()}, leaves_of(own[k]))
        x = torch.from_numpy(clients.test.client(k)[0])
        by_prototype, by_head = (result.personal(k, estimand=e)(x) for e in ("personal", "classifier"))
        assert torch.equal(by_prototype.argmax(1), nearest(own[k], prototypes, x))
        torch.testing.assert_close(by_head, own[k].eval()(x), rtol=0, atol=1e-10)


def test_before_there_are_prototypes_the_head_predicts_and_a_class_without_one_is_never_predicted():
    result, x = reference(FedProto()), torch.from_numpy(image_clients().test.client(0)[0])
    learner, state = Learner(result.federations[KEY].network, "cross_entropy"), result.states[KEY]

    def predicted(known):
        memory = state.memory | {"known": torch.tensor(known, dtype=torch.float64)}
        models = FedProto().models(replace(state, memory=memory), torch.tensor([0])).values()
        return [model.outputs(learner, {n: leaf[0] for n, leaf in model.params.items()}, x) for model in models]

    by_prototype, by_head = predicted([0, 0, 0, 0])
    assert torch.equal(by_prototype, by_head)
    for q in range(CLASSES):
        logits, _ = predicted([int(q == p) for p in range(CLASSES)])
        assert logits.isfinite().all()
        assert (logits.argmax(1) == q).all()


def test_at_learning_rate_zero_prototypes_are_the_first_models_features():
    """Of all classes, whose prototypes are means over all samples; weights stay."""
    clients = image_clients()
    result = run(FedProto(), 2, clients=clients, training=fs.Training(lr=0.0), model=plain_net, participation=1.0)
    x, y = (torch.cat(values) for values in zip(*(samples(clients, k) for k in range(6)), strict=True))
    start = start_of(result, plain_net)
    assert_close(dict(enumerate(result.states[KEY].memory["mean"])), means_of(start, x, y))
    for n, leaf in leaves_of(start).items():
        assert (final(result, "classifier")[n] == leaf).all()


def test_new_clients_train_a_model_aligned_to_the_prototypes():
    method = FedProto(penalty=3.0)
    models, result, federation = newcomers(method, FULL)
    assert list(models) == ["personal", "classifier"]
    memory = result.states[KEY].memory
    prototypes = {q: memory["mean"][q] for q in range(CLASSES) if memory["known"][q]}
    for k in range(3):
        x, y = samples(federation.clients, k)
        start = load(start_of(result), federation.network.initial())
        end = trained(start, loss_of(x, y, prototypes, 3.0), [torch.arange(len(y))] * FULL.local_epochs, FULL)
        assert_close({n: leaf[k] for n, leaf in models["classifier"].params.items()}, leaves_of(end))
    assert torch.equal(models["personal"].params["prototype/mean"][0], memory["mean"])


def test_tasks_without_classes_are_refused():
    assert_refuses_tasks_without_classes(FedProto())


def test_a_value_out_of_range_is_named():
    with pytest.raises(ValueError, match=r"penalty must be a number in \[0, inf\), got inf"):
        FedProto(penalty=np.inf)

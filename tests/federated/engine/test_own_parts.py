"""What a user brings is rehearsed: it is refused by law, or goes client by client where only company makes it wrong."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated import Phase, State, share_all_but
from fedstat.federated.client.network import build
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.engine.own_parts import rehearse_metrics
from fedstat.federated.replicate import make_replicate
from tests.support.clients import vector_clients

CLIENTS = vector_clients(5)
MOODS = iter(range(10**6))
MODEL = fs.models.mlp(3, 6, 2)
TRAINING = fs.Training(lr=0.2, batch_size=4, local_epochs=2)


def history(method=None, executor="auto", model=MODEL, training=TRAINING, **options):
    how = {"rounds": 3, "seed": 1, "progress": False, "executor": executor} | options
    return fs.federate({"it": method or fs.FedAvg()}, model, CLIENTS, training, **how).history


def replicate():
    return make_replicate(CLIENTS, MODEL, Seeds(0, 0, ()), "float32", "cpu")


def training(**changes):
    return replace(TRAINING, **changes)


def hardest_half(outputs, y):
    losses = F.cross_entropy(outputs, y, reduction="none")
    return losses * (losses >= losses.median())


@dataclass(frozen=True)
class LARS:
    """You et al. 2017: each layer's step has the length of its weights; here over whatever it is given."""

    def start(self, params):
        return {}

    def step(self, params, grads, state):
        return {n: g * params[n].norm() / g.norm().clamp(min=1e-9) for n, g in grads.items()}, 1.0


@dataclass(frozen=True, kw_only=True)
class CountsPadding(fs.FedAvg):
    """The mean of a batch runs over its padding."""

    def objective(self, learner, params, batch, context):
        return learner.losses(learner.outputs(params, batch), batch.y).mean()


@dataclass(frozen=True, kw_only=True)
class Normed(fs.FedAvg):
    """Steps of length one, over whatever it is given."""

    def gradient(self, grad, params, batches, context):
        found = grad(params, batches[0])
        return {n: g / g.norm().clamp(min=1e-9) for n, g in found.items()}


IN_COMPANY = {
    "a loss that looks at its batch": {"training": training(loss=hardest_half)},
    "a loss that decides on values": {
        "training": training(loss=lambda o, y: F.cross_entropy(o, y, reduction="none") if o.sum() < 1e9 else o.sum(-1))
    },
    "an optimiser that takes norms": {"training": training(optimizer=LARS())},
    "an objective that counts padding": {"method": CountsPadding()},
    "a direction that takes norms": {"method": Normed()},
}


@pytest.mark.parametrize("case", IN_COMPANY)
def test_what_is_wrong_in_company_goes_client_by_client(case):
    own = IN_COMPANY[case]
    pd.testing.assert_frame_equal(history(**own), history(executor="per-client", **own))
    with pytest.raises(ValueError, match=r'executor="stacked": .*Client by client it is right'):
        history(executor="stacked", **own)


@dataclass(frozen=True, kw_only=True)
class Own(fs.FedAvg):
    """FedAvg with one more step, as the test gives it."""

    def objective(self, learner, params, batch, context):
        return self.twisted(learner, params, batch)

    def twisted(self, learner, params, batch):
        raise NotImplementedError


def own(function):
    return type("Own", (Own,), {"twisted": staticmethod(function)})()


def wrong_shapes(learner, params, batch):
    return learner.loss(params, batch) + (params["head.weight"] @ params["hidden.weight"].T).sum()


WRONG = {
    "mean of a batch": (training(loss=F.cross_entropy), "loss breaks the law 'shape': .*got \\(\\).*reduction"),
    "one column": (training(loss=lambda o, y: (o.sum(-1, keepdim=True) - 1) ** 2), "'shape': .*got \\(8, 1\\)"),
    "broadcast": (training(loss=lambda o, y: (o[:, :1] - y) ** 2), "'shape': .*got \\(8, 8\\)"),
    "numpy": (training(loss=lambda o, y: o.detach().numpy()[:, 0]), "'shape': .*got ndarray.*Compute it by torch"),
    "no gradient": (training(loss=lambda o, y: F.cross_entropy(o.detach(), y, reduction="none")), "'gradient': "),
    "noise": (
        training(loss=lambda o, y: F.cross_entropy(o, y, reduction="none") * torch.rand(len(y))),
        "loss breaks the law 'repeat'",
    ),
    "an optimiser of other shapes": (
        training(
            optimizer=type("Flat", (LARS,), {"step": lambda s, p, g, t: ({n: v.sum() for n, v in g.items()}, 1)})()
        ),
        "optimizer Flat breaks the law 'shape': .* 'hidden.weight' must have shape \\(6, 3\\), got \\(\\)",
    ),
    "an optimiser that moves by itself": (
        training(optimizer=type("Eager", (LARS,), {"step": lambda s, p, g, t: ({n: p[n].mul_(0.9) for n in p}, 1)})()),
        "optimizer Eager breaks the law 'untouched'",
    ),
    "a schedule of moods": (training(schedule=lambda round, step: next(MOODS)), "schedule breaks the law 'repeat'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_right_is_refused_before_anybody_trains(case):
    wrong, message = WRONG[case]
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match=message):
        next(fs.rounds(fs.FedAvg(), MODEL, CLIENTS, wrong))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_metric_that_depends_on_the_order_of_samples_is_refused_by_name():
    with pytest.raises(ValueError, match=r"metrics\['first'\] breaks the law 'order'"):
        history(metrics={"first": lambda outputs, y: outputs[0, 0]})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            wrong_shapes,
            r"Own.objective failed in phase 'train' of round 1 at line \d+ of test_own_parts.py: RuntimeError: .* Its "
            r"leaves are one client's, without a client axis: hidden.weight \(6, 3\), hidden.bias \(6,\)",
        ),
        (lambda learner, params, batch: params["haed.weight"].sum(), "objective failed .* KeyError: 'haed.weight'"),
        (lambda learner, params, batch: learner.outputs(params, batch), "must return one number, .* got shape"),
        (lambda learner, params, batch: learner.loss(params, batch).detach(), "no gradient reaches hidden.weight"),
        (lambda learner, params, batch: learner.loss(params, batch) * torch.rand(()), "Own breaks the law 'repeat'"),
    ],
)
def test_a_step_that_goes_wrong_is_named_with_phase_round_and_leaves(function, message):
    with pytest.raises(ValueError, match=message):
        history(own(function))


def test_an_error_in_a_later_round_is_named_as_well():
    class Late(fs.FedAvg):
        def aggregate(self, state, update):
            if state.round == 1:
                update.end["haed.weight"]
            return super().aggregate(state, update)

    with pytest.raises(ValueError, match=r"Late.aggregate failed in round 2 at line \d+ .*with a client axis first"):
        history(Late())


def test_hooks_on_parameters_are_refused():
    def hooked():
        module = MODEL()
        module.head.weight.register_hook(lambda g: g * 0)
        return module

    for model in (hooked, hooked()):
        with pytest.raises(ValueError, match=r"'head\.weight' of the network has a hook, which would be lost"):
            build(model, np.random.default_rng(0))


def normed():
    return nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))


@dataclass(frozen=True, kw_only=True)
class Sleeper(fs.FedAvg):
    """It offers a model that no client ever runs forward: the weights are trained, the statistics stay at the start."""

    def aggregate(self, state, update):
        new = super().aggregate(state, update)
        still = {n: state.server[n] for n in update.network.statistics}
        return State(new.server | still, new.clients, new.shared, new.memory, new.round)


def test_batch_norm_that_never_moves_is_refused():
    with pytest.raises(ValueError, match="Sleeper breaks the law 'statistics': the model 'global' is offered with"):
        history(Sleeper(), model=normed)
    with pytest.raises(AssertionError, match="Sleeper breaks the law 'statistics' on Case"):
        fs.testing.check_method(Sleeper(), except_for=["traffic"], examples=1)
    assert history(Sleeper())["value"].notna().all()  # without batch norm there is nothing to move


def over_clients(leaf):
    axes = tuple(range(1, leaf.dim()))
    return leaf.square().sum(axes, keepdim=True).sqrt() if axes else leaf.abs()


class StackedLARS(LARS):
    """Norms over all axes but the first, which is right where that is the clients'."""

    def step(self, params, grads, state):
        return {n: g * over_clients(params[n]) / over_clients(g).clamp(min=1e-9) for n, g in grads.items()}, 1.0


@dataclass(frozen=True, kw_only=True)
class StackedNorms(fs.FedAvg):
    def gradient(self, grad, params, batches, context):
        return {n: g / over_clients(g).clamp(min=1e-9) for n, g in grad(params, batches[0]).items()}


@pytest.mark.parametrize("own", [{"training": training(optimizer=StackedLARS())}, {"method": StackedNorms()}])
def test_what_is_right_in_a_stack_alone_trains_there(own):
    pd.testing.assert_frame_equal(history(**own), history(executor="stacked", **own))
    single = history(executor=fs.federated.Stacked(1), **own)
    np.testing.assert_allclose(history(**own)["value"], single["value"], atol=1e-5)
    with pytest.raises(ValueError, match=r'executor="per-client": .*In a stack it is right'):
        history(executor="per-client", **own)


class Once(fs.FedAvg):
    """The first gradient that it ever sees counts ten times."""

    def gradient(self, grad, params, batches, context):
        factor = 1.0 if "seen" in self.__dict__ else 10.0
        self.__dict__["seen"] = True
        return {n: factor * g for n, g in grad(params, batches[0]).items()}


class Overwrites(fs.FedAvg):
    """The mean is right, and stands where the last round's server did."""

    def aggregate(self, state, update):
        new = super().aggregate(state, update)
        return replace(new, server={n: state.server[n].copy_(leaf) for n, leaf in new.server.items()})


class Noisy(fs.FedAvg):
    """Noise from the generator of the process, which no file of a run keeps."""

    def aggregate(self, state, update):
        new = super().aggregate(state, update)
        return replace(new, server={n: leaf + 1e-3 * torch.randn_like(leaf) for n, leaf in new.server.items()})


class Centred(fs.FedAvg):
    def predict(self, learner, params, x):
        outputs = super().predict(learner, params, x)
        return outputs - outputs.mean(0)


class LaterPadding(CountsPadding):
    """As its parent, from the second round on."""

    def phases(self, network, training, round):
        return (Phase(network.trainable, name="late" if round else "train"),)

    def objective(self, learner, params, batch, context):
        if context.phase == "train":
            return learner.loss(params, batch)
        return super().objective(learner, params, batch, context)


def test_what_remembers_or_mixes_samples_in_predictions_is_refused_under_every_executor():
    for executor in ("auto", "stacked", "per-client"):
        with pytest.raises(ValueError, match="Once breaks the law 'repeat'"):
            history(Once(), executor)
        with pytest.raises(ValueError, match="Noisy breaks the law 'repeat': its steps draw random numbers"):
            history(Noisy(), executor)
        with pytest.raises(ValueError, match=r"Overwrites breaks the law 'untouched': it writes to 'hidden\.weight'"):
            history(Overwrites(), executor)
        with pytest.raises(ValueError, match="Centred breaks the law 'one sample'"):
            history(Centred(), executor)
    method = Once()
    with pytest.raises(ValueError, match="Once"):
        history(method)
    assert "seen" not in method.__dict__  # copies are tried
    pd.testing.assert_frame_equal(history(LaterPadding()), history(LaterPadding(), "per-client"))


def test_what_is_right_is_not_refused():
    weights = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0]), reduction="none")  # float32, as people write it
    assert history(training=training(loss=weights))["value"].notna().all()
    cost = torch.tensor([[0.0, 1.0], [5.0, 0.0]], dtype=torch.float64)  # and evaluation is in float64

    def paid(outputs, y):
        return (outputs.softmax(-1) @ cost).gather(1, y[:, None]).mean()

    def both_classes(outputs, y):
        if len(y.unique()) < 2:
            raise ValueError("one class only")
        return (outputs.argmax(-1) == y).double().mean()

    assert history(metrics={"paid": paid})["value"].notna().all()
    rehearse_metrics({"both": both_classes}, replicate())

    class Heads(LARS):
        def step(self, params, grads, state):
            return {n: g for n, g in grads.items() if n.startswith("head")}, 1.0

    assert history(training=training(optimizer=Heads()))["value"].notna().all()

    class Covariance(fs.FedAvg):
        def prepare(self, learner, params, data):
            return params, {"largest": data.x.flatten(1).abs().sum(1).topk(5).values}

    assert history(Covariance())["value"].notna().all()


@dataclass(frozen=True, kw_only=True)
class Picky(fs.Method):
    """It knows its five clients one by one."""

    rates: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)

    def init(self, network, federation):
        assert len(self.rates) == len(federation.clients)
        return super().init(network, federation)

    def shared(self, network, federation):
        return share_all_but(network, network.head_leaves)


def test_what_needs_all_clients_is_left_to_the_run():
    assert history(Picky())["value"].notna().all()

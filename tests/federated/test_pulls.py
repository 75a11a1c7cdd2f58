"""Methods that pull weights to others: the pull is the gradient of the term in the paper's objective."""

from dataclasses import dataclass, replace

import pytest
import torch

import fedstat as fs
from fedstat.federated.slots import slot, without_slots
from tests.support.clients import image_clients, vector_clients
from tests.support.networks import conv_net
from tests.support.runs import KEY, TRAINING, run


def far(params, anchor, names):
    return sum((params[name] - anchor[name]).square().sum() for name in names)


class InObjective:
    """Leaves the pull to `objective`."""

    def pull(self, params, context):
        return {}


@dataclass(frozen=True, kw_only=True)
class Prox(InObjective, fs.methods.FedProx):
    def objective(self, learner, params, batch, context):
        return learner.loss(params, batch) + self.mu / 2 * far(params, context.received, learner.network.trainable)


@dataclass(frozen=True, kw_only=True)
class Two(InObjective, fs.methods.Ditto):
    def phases(self, network, training, round):
        return tuple(
            fs.federated.Phase(p.train, first_epoch=0, name=p.name) for p in super().phases(network, training, round)
        )

    def objective(self, learner, params, batch, context):
        if context.phase != "personal":
            return learner.loss(without_slots(params), batch)
        v = slot(params, "personal")
        return learner.loss(v, batch) + self.penalty / 2 * far(v, context.received, learner.network.trainable)


@dataclass(frozen=True, kw_only=True)
class Mixed(InObjective, fs.methods.FedAMP):
    def objective(self, learner, params, batch, context):
        pull = far(params, slot(params, "cloud"), learner.network.trainable)
        return learner.loss(without_slots(params), batch) + self.penalty / (2 * self.alpha) * pull


@pytest.mark.parametrize("clip", [None, 0.3], ids=["plain", "momentum, clipped, with decay"])
@pytest.mark.parametrize("kind", ["dense, stacked", "batch norm, per client"])
@pytest.mark.parametrize(
    ("ours", "written"),
    [
        (fs.methods.FedProx(mu=0.7), Prox(mu=0.7)),
        (fs.methods.Ditto(penalty=1.5), Two(penalty=1.5)),
        (fs.methods.FedAMP(alpha=0.1, scale=1.0), Mixed(alpha=0.1, scale=1.0)),
    ],
    ids=["FedProx", "Ditto", "FedAMP"],
)
def test_the_pull_is_autograds_of_the_papers_objective(ours, written, kind, clip):
    how = {} if clip is None else {"momentum": 0.9, "clip_norm": clip, "weight_decay": 0.1}
    training = fs.Training(lr=TRAINING.lr, batch_size=5, local_epochs=2, **how)
    dense = {"clients": vector_clients(), "model": fs.models.mlp(3, 5, 2), "executor": "stacked"}
    conv = {"clients": image_clients(), "model": conv_net, "executor": "per-client"}
    states = [
        run(method, 3, training=training, **(dense if "dense" in kind else conv)).states[KEY]
        for method in (ours, written)
    ]
    for here, there in (
        [state.server for state in states],
        [state.clients.rows(torch.arange(state.clients.clients)) if state.clients else {} for state in states],
    ):
        assert here.keys() == there.keys()
        for name, leaf in here.items():
            torch.testing.assert_close(leaf, there[name], rtol=0, atol=1e-12)


def test_a_field_that_hides_a_step_is_named():
    @dataclass(frozen=True, kw_only=True)
    class Hidden(fs.Method):
        pull: float = 0.1

    with pytest.raises(ValueError, match="Hidden has a field 'pull', which is the name of a step of methods"):
        Hidden()


def test_a_function_with_nearly_the_name_of_a_step_is_warned_of_once(recwarn):
    @dataclass(frozen=True, kw_only=True)
    class Typo(fs.Method):
        def agregate(self, state, update):
            raise AssertionError

        def objectve(self, *args):
            raise AssertionError

        def finish(self, learner, params, data, context):
            return super().finish(learner, params, data, context)

        def private(self, network):
            return ()

    replace(Typo(), weighting="uniform")
    assert [str(one.message).partition(". ")[0] for one in recwarn] == [
        "Typo.agregate is no step of methods; aggregate is one",
        "Typo.objectve is no step of methods; objective is one",
    ]
    assert {(one.category, one.filename) for one in recwarn} == {(UserWarning, __file__)}

"""Every method that the package finds obeys the laws, in the configuration that its file names; so do others."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

import fedstat as fs
from fedstat.federated import Method
from fedstat.testing import check_method
from tests.support.named import NAMED

pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")


#: The rest wait for the slow lane, where all are tried at length.
QUICK = ("FedAvg", "FedFac", "FactorizedFL", "FedDecomp", "FilterDecomp", "Local", "FedRoD", "PerFedAvg", "SCAFFOLD")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in fs.methods.available()]
)
def test_every_method_obeys_the_laws(name, examples):
    cls = fs.methods.find(name)
    check_method(cls(**cls.example), examples=examples)


@pytest.mark.parametrize("name", fs.methods.available())
def test_every_method_explains_itself(name):
    cls = fs.methods.find(name)
    text = " ".join((cls.__doc__ or "").split())
    assert fs.methods.available()[name].about.endswith(".")
    assert "new client" in text.lower()
    assert all(reason.strip() for reason in cls.exempt.values())


def test_a_method_has_one_file_and_its_limit_cases_another():
    modules = {name: fs.methods.find(name).__module__.rpartition(".")[2] for name in fs.methods.available()}
    assert len({*modules.values()}) == len(modules)
    files = {path.stem.removeprefix("test_") for path in (Path(__file__).parents[1] / "methods").glob("test_*.py")}
    assert {modules[name] for name in NAMED} <= files <= {*modules.values()}


@dataclass(frozen=True, kw_only=True)
class FedAvgM(Method):
    """A method defined outside the package: FedAvg with momentum at the server."""

    beta: float = 0.5

    def init(self, network, population):
        state = super().init(network, population)
        return replace(state, memory={name: torch.zeros_like(leaf) for name, leaf in state.server.items()})

    def aggregate(self, state, update):
        new = super().aggregate(state, update)
        velocity = {n: self.beta * v + (new.server[n] - state.server[n]) for n, v in state.memory.items()}
        return replace(new, server={n: leaf + velocity[n] for n, leaf in state.server.items()}, memory=velocity)


@dataclass(frozen=True, kw_only=True)
class Forgetful(Method):
    """A broken method: its aggregation weights sum to 0.9."""

    def aggregate(self, state, update):
        return super().aggregate(state, replace(update, weight=0.9 * update.weight))


class Counting(Method):
    """It knows how many clients there are."""

    def init(self, network, population):
        return replace(
            super().init(network, population), memory={"clients": torch.tensor(float(len(population.clients)))}
        )


class Diluted(Counting):
    """A broken method: it divides by all clients, present or not."""

    def aggregate(self, state, update):
        new, share = super().aggregate(state, update), len(update.ids) / state.memory["clients"]
        return replace(new, server={n: share * leaf for n, leaf in new.server.items()})


class Favours(Counting):
    """A broken method: where somebody is absent, the client with number 0 counts twice."""

    def aggregate(self, state, update):
        if len(update.ids) < state.memory["clients"]:
            weight = torch.where(update.ids == 0, 2.0, 1.0) * update.weight
            update = replace(update, weight=weight / weight.sum())
        return super().aggregate(state, update)


def test_a_method_from_outside_is_checked_the_same_way(examples):
    check_method(FedAvgM(), all_shared=FedAvgM(beta=0.0), except_for=["one client"], examples=examples)


def test_a_broken_method_is_caught_with_a_small_population():
    with pytest.raises(AssertionError, match=r"Forgetful breaks the law 'one client' on Case\(sizes=\(2,\), seed=0\)"):
        check_method(Forgetful())


@pytest.mark.parametrize(("method", "law"), [(Diluted(), "fixed point"), (Favours(), "permutation")])
def test_what_is_wrong_only_where_clients_are_absent_is_caught(method, law):
    with pytest.raises(AssertionError, match=f"{type(method).__name__} breaks the law '{law}'"):
        check_method(method, except_for={"permutation", "fixed point"} - {law}, examples=3)


def test_exceptions_are_laws():
    with pytest.raises(ValueError, match="except_for names no law"):
        check_method(fs.FedAvg(), except_for=["gravity"])

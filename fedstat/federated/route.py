"""The one way in which a method's clients train on a network: decided before the first round, followed by all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch.nn.modules.module import _has_any_global_hook

from fedstat.federated.attacks import Attack
from fedstat.federated.client.local import Learner, Training
from fedstat.federated.client.losses import LOSSES, LossName
from fedstat.federated.client.network import Network, Params, bytes_of_one
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.engine import dense_chain, layer_chain
from fedstat.federated.engine.executor import AnyExecutor, Executor, Stacked, choose, chunk_size
from fedstat.federated.method import Method

#: The steps and class attributes that say what local training comes to.
_LOCAL = (
    "receive", "leaves", "prepare", "phases", "objective", "pull", "gradient", "constrain", "finish", "held_out",
    "batches",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Equipment:
    """What all runs train with: the training samples are those of all seeds.

    `task` says what outputs mean. The executor "auto" is chosen by the network; `chunk` is the number of clients
    stacked at once. With `tf32` products may round to TF32.
    """

    task: LossName
    training: Training
    samples: StackedSamples
    executor: AnyExecutor = "auto"
    chunk: int | None = None
    tf32: bool = False
    attack: Attack | None = None

    def route(self, method: Method, network: Network, start: Params) -> Route:
        """Decide how clients train by a method on a network from leaves such as `start`, each (J, ...)."""
        loss = self.training.loss if callable(self.training.loss) else LOSSES[self.task]
        executor = choose(self.executor, network, self.samples.sample, self.training.batch_size, self.chunk)
        learner, own, held = Learner(network, self.task, loss), own_steps(method), bytes_of_one(start)
        return Route(method, learner, self.training, self.samples, executor, own, held, self.tf32, self.attack)


@dataclass(frozen=True, eq=False)
class Route:
    """What a method's clients train with on a network, and how; ``str`` says it in a line.

    Gradients have a closed form where nothing but the plain loss of a chain of layers is asked for; everything else
    takes the general path, autograd's. `own` has the steps and class attributes in which the method's local training
    differs from FedAvg's; `held` is the bytes of one client's leaves.
    """

    method: Method
    learner: Learner
    training: Training
    samples: StackedSamples
    executor: Executor
    own: frozenset[str]
    held: int
    tf32: bool
    attack: Attack | None = None

    @cached_property
    def barred(self) -> str:
        """Why gradients have no closed form, whatever the layers; empty if nothing is in the way."""
        if "objective" in self.own:
            return f"{type(self.method).__name__} has its own objective"
        if type(self.learner) is not Learner or type(self.learner.network) is not Network:
            return "the network is of a class of its own"
        return "torch calls a hook for all modules" if _has_any_global_hook() else ""

    @cached_property
    def dense(self) -> dense_chain.Chain | None:
        """The chain of dense layers by which the gradients of a stack have a closed form."""
        # looked up in a list, since a loss of one's own may be unhashable
        if self.barred or self.samples.device.type != "cpu" or self.learner.losses not in [*dense_chain.SLOPES]:
            return None
        chain = dense_chain.chain_of(self.learner.network)
        return chain if chain is not None and chain.takes(self.samples.sample) else None

    @cached_property
    def layers(self) -> layer_chain.Chain | None:
        """The chain of layers by which the gradients of one client by itself have a closed form."""
        return None if self.barred else layer_chain.chain_of(self.learner.network)

    @cached_property
    def chunk(self) -> int:
        """Clients that are stacked at once, if the executor does not say it; on a GPU by what it has of one."""
        blocks = self.dense is not None and self.own.isdisjoint(("prepare", "gradient", "finish"))
        batch, network = min(self.training.batch_size, self.samples.n_max), self.learner.network
        return chunk_size(self.held, network, self.samples.sample, batch, blocks=blocks)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the layers, which are those of the network where they are asked for."""
        return {name: value for name, value in vars(self).items() if name != "layers"}

    def __str__(self) -> str:
        """Say who trains at once and how gradients come about."""
        together, network, name = self.executor.together, self.learner.network, type(self.method).__name__
        most = self.executor.chunk or self.chunk if isinstance(self.executor, Stacked) else None
        many = "" if most is None else f", at most {most:,} at once"
        who = f"stacked clients{many}" if together else "each client by itself"
        if (self.dense if together else self.layers) is not None:
            singly = f", step by step: {name} has its own gradient" if "gradient" in self.own else ""
            return f"{who}; closed form: a chain of {'dense layers' if together else 'layers'}{singly}"
        if self.barred:
            why = self.barred
        elif network.forms:
            why = f"{name} makes weights of parts"
        elif together and self.samples.device.type != "cpu":
            why = "the clients are on a GPU"
        elif callable(self.training.loss):
            why = "the loss is one's own"
        else:
            why = f"the network is no chain of {'dense layers' if together else 'layers with a rule'}"
        return f"{who}; general path: {why}"


def own_steps(method: Method) -> frozenset[str]:
    """Return the steps and class attributes of local training in which a method differs from FedAvg.

    Methods without any can train as one stack, unless one builds its network of parts.
    """
    return frozenset(name for name in _LOCAL if overrides(method, name))


def overrides(method: Method, name: str) -> bool:
    """Tell whether a method has a step or class attribute of its own in the place of FedAvg's."""
    own = getattr(type(method), name)
    return own is not getattr(Method, name) and not getattr(own, "written_out", False)

"""Measure what methods cost relative to FedAvg (FedFac paper, Table 7): time, arithmetic and bytes.

Time: the methods take turns, a round each, in a new order every time; each turn gives a ratio to FedAvg's round of the
same number, which has the same participants and batches. Training and the server's step count, evaluation does not.
Processor time is what a busy machine distorts least; wall time stands beside it.

Arithmetic: dense layers, convolutions and matrix products of one round, forward and backward, counted by torch while
clients train one by one. What goes element by element (the optimiser, FedProx's pull) is not counted, nor is the factor
analysis, which NumPy does. Bytes are those of the codec.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.flop_counter import FlopCounterMode

import fedstat as fs
from fedstat import methods
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.factor import IdentificationWarning
from fedstat.federated import PerClient
from fedstat.federated.client.samples import Job
from fedstat.models import Factory
from simulations.contract import About, Shown
from simulations.images import dealt, images, small_cnn
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "What the methods cost",
    "FedSplit/FedFac",
    "",
    order=38,
    shows=(
        Shown(
            "Table 7",
            "running time of every method relative to FedAvg",
            "in part",
            "the first 9,085 images of CIFAR-10 at Dirichlet 0.1, 30 clients, a network of two convolutions and two "
            "dense layers instead of ResNet-18, 2 local epochs instead of 20, one core; arithmetic and bytes beside it",
        ),
    ),
    data=("cifar10",),
    times={
        "smoke": "half a minute",
        "quick": "half a minute on one core",
        "desk": "4 minutes of one core",
        "paper": "2 hours on a GPU (an estimate; ResNet-18 at 20 epochs is most of it); needs CIFAR-10, CIFAR-100",
    },
)
CONTROL = "FedAvg"


@dataclass(frozen=True)
class Setting:
    """Data and a network, as a row of Table 7 has them.

    Attributes
    ----------
    dataset, network : str
        The images, and "small_cnn", "resnet18" or "vgg16".
    dirichlet : float
        Concentration of the partition; 0 for shards of `classes` classes a client.
    classes : int
        Classes of a client's shards.
    batch, epochs : int
        A client's work in a round.
    printed : str
        The row of the paper's table; our own data never have its name.
    """

    dataset: str
    network: str
    dirichlet: float = 0.0
    classes: int = 0
    batch: int = 32
    epochs: int = 20
    printed: str = ""

    @property
    def name(self) -> str:
        """Name of the setting in tables."""
        deal = f"Dirichlet {self.dirichlet:g}" if self.dirichlet else f"{self.classes} classes a client"
        return f"{self.dataset}, {deal}"


@dataclass(frozen=True)
class Scale:
    """Size of the study: `repeats` turns of each method; of the images the first `images`, 0 for all."""

    settings: tuple[Setting, ...]
    clients: int
    repeats: int
    images: int = 0
    participation: float = 1 / 3
    shift: int = 0
    device: str = "cpu"


_PAPER = (
    *(Setting("cifar10", "resnet18", dirichlet=a, printed=f"CIFAR-10, Dirichlet {a:g}") for a in (0.1, 0.5, 1.0)),
    *(Setting("cifar100", "vgg16", classes=s, batch=64, epochs=1, printed=f"CIFAR-100, S = {s}") for s in (5, 10, 30)),
)
_DESK = Setting("cifar10", "small_cnn", dirichlet=0.1, batch=20, epochs=2, printed="CIFAR-10, Dirichlet 0.1")
SCALES = {
    "smoke": Scale(
        (Setting("digits", "small_cnn", dirichlet=0.5, batch=20, epochs=2, printed="CIFAR-10, Dirichlet 0.1"),),
        6, 2, images=400, shift=SECOND_LOOK,
    ),
    "quick": Scale((_DESK,), 15, 6, images=3000, shift=SECOND_LOOK),
    "desk": Scale((_DESK,), 30, 16),
    "paper": Scale(_PAPER, 100, 10, participation=0.1),
}  # fmt: skip
#: The layers whose units FedFac cuts; they decide how much it analyses and sends.
LAYERS = {"small_cnn": ("hidden",), "vgg16": ("hidden2",), "resnet18": ("stage4.block2.conv1", "stage4.block2.conv2")}


def arms(setting: Setting) -> dict[str, fs.Method]:
    """Return the methods of Table 7; FedRep by equal epochs, and by those of its own paper."""
    fedfac: dict[str, Any] = {"layers": LAYERS[setting.network]}
    half = max(1, setting.epochs // 2)
    return {
        CONTROL: fs.FedAvg(),
        "FedProx": methods.FedProx(),
        "FedPer": methods.FedPer(),
        "LG-FedAvg": methods.LGFedAvg(),
        "FedEM": methods.FedEM(),
        "FedRep, half the epochs each": methods.FedRep(head_epochs=half, body_epochs=max(1, setting.epochs - half)),
        "FedRep, 10 epochs for the head, 1 for the body": methods.FedRep(),
        "FedFac, static": fs.FedFac(**fedfac),
        "FedFac, dynamic": fs.FedFac(**fedfac, dynamic=True),
        "FedFac, code": fs.FedFac(**fedfac, dynamic=True, reading="code"),
    }


def network(setting: Setting) -> Factory:
    """Return what builds the network."""
    x, y, _ = images(setting.dataset)
    classes = int(y.max()) + 1
    if setting.network == "small_cnn":
        return small_cnn(x, classes)
    return fs.models.vgg16(classes) if setting.network == "vgg16" else fs.models.resnet18(classes)


def draw(scale: Scale, setting: Setting, seed: int) -> Clients:
    """Deal the images to clients."""
    x, y, _ = images(setting.dataset)
    some = slice(0, scale.images or len(y))
    if setting.dirichlet:
        parts = fs.data.dirichlet(y[some], scale.clients, setting.dirichlet, min_size=20, tries=1000, seed=seed)
    else:
        parts = fs.data.shards(y[some], scale.clients, setting.classes, seed=seed)
    return dealt(x[some], y[some], parts, seed=seed)


@dataclass(frozen=True)
class OneByOne:
    """Clients train one after the other in this thread, where torch's counter sees their operations."""

    together: ClassVar[bool] = False

    def train(self, work: Any, start: Mapping[str, Tensor], jobs: list[Job], moves: Mapping[str, Tensor]) -> Any:
        """Train every client from its row of `start`."""
        ends = []
        for k, job in enumerate(jobs):
            own = {name: mask[k % len(mask)] for name, mask in moves.items()}
            ends.append(
                work.alone(work.route.learner.network, {n: leaf[k].clone() for n, leaf in start.items()}, job, own)
            )
        return {name: pad_sequence([end[name] for end in ends], batch_first=True) if ends[0][name].dim() else
                torch.stack([end[name] for end in ends]) for name in ends[0]}  # fmt: skip

    def evaluate(self, *given: Any) -> Tensor:
        """Evaluate as the engine does."""
        return PerClient().evaluate(*given)


def start(scale: Scale, setting: Setting, method: fs.Method, executor: Any = "auto") -> Iterator[fs.federated.Round]:
    """Make ready a run of one method, round by round."""
    return fs.rounds(
        method,
        network(setting),
        draw(scale, setting, scale.shift),
        fs.Training(lr=1e-3, optimizer="adam", batch_size=setting.batch, local_epochs=setting.epochs),
        participation=scale.participation,
        seed=scale.shift,
        device=scale.device,
        executor=executor,
    )


def timed(scale: Scale, setting: Setting) -> Tables:
    """Let the methods take turns; return the seconds of every turn, and those before the first round."""
    rows, before, runs = [], [], {}
    for arm, method in arms(setting).items():
        clock = _Clock(scale.device)
        runs[arm] = start(scale, setting, method)
        before.append({"arm": arm, **clock.read()})
        next(runs[arm])  # the first round allocates memory
    rng = np.random.default_rng(scale.shift)
    for repeat in range(scale.repeats):
        for arm in rng.permutation(list(runs)):
            clock = _Clock(scale.device)
            next(runs[str(arm)])
            rows.append({"repeat": repeat, "arm": str(arm), **clock.read()})
    return {"times": pd.DataFrame(rows), "before": pd.DataFrame(before)}


class _Clock:
    """Seconds since it was made, by the wall and by the processor; of a GPU both wait until it is done."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.wall, self.processor = self._now()

    def _now(self) -> tuple[float, float]:
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        return time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return both."""
        wall, processor = self._now()
        return {"wall": wall - self.wall, "processor": processor - self.processor}


def _dense(x: tuple[int, ...], weight: tuple[int, ...], *_: object, **__: object) -> int:
    """Operations of a dense layer by oneDNN, which torch's counter does not know."""
    return 2 * math.prod(x) * weight[0]


_MORE = {torch.ops.mkldnn._linear_pointwise: _dense} if hasattr(torch.ops.mkldnn, "_linear_pointwise") else {}


def counted(scale: Scale, setting: Setting) -> pd.DataFrame:
    """Count the operations and the bytes of a round, and of what comes before the first."""
    rows = []
    for arm, method in arms(setting).items():
        with FlopCounterMode(display=False, custom_mapping=_MORE) as ahead:
            run = start(scale, setting, method, OneByOne())
        first = next(run)
        with FlopCounterMode(display=False, custom_mapping=_MORE) as counter:
            second = next(run)
        traffic = second.traffic
        rows.append(
            {"arm": arm, "flops": counter.get_total_flops(), "flops before": ahead.get_total_flops(),
             "bytes up": int(traffic["bytes_up"].sum()), "bytes down": int(traffic["bytes_down"].sum()),
             "participants": len(traffic), "numbers": sum(leaf.numel() for leaf in _leaves(first))}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _leaves(done: fs.federated.Round) -> list[Tensor]:
    return list(next(iter(done.states.values())).server.values())


def one_setting(scale: Scale, setting: Setting) -> Tables:
    """Measure a setting."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        tables = {**timed(scale, setting), "counts": counted(scale, setting)}
    return {name: table.assign(setting=setting.name, printed=setting.printed) for name, table in tables.items()}


def run(scale: Scale, out: Path) -> Tables:
    """Measure all settings, one at a time so that none disturbs another."""
    tables: Tables = {}
    for setting in scale.settings:
        part = Part(
            f"costs-{setting.name.replace(', ', '-').replace(' ', '-')}", scale, partial(one_setting, scale, setting)
        )
        found = run_parts([part], out, f"costs: {setting.name}")
        tables = {name: pd.concat([tables[name], t]) if name in tables else t for name, t in found.items()}
    return tables

"""Ask what burdens cost a personal method, and whether what stays with the clients protects it.

Attackers and a rule that withstands them, compressed uploads, clients that are absent or slow, and differential
privacy: each method's accuracy with a burden is compared with its own without, on the same honest clients. Local trains
alone and bears none.

Learning rates are tuned at the reported number of rounds on validation samples of other seeds: for each method, and
again for each codec, each noise and the robust rule, which are chosen by whoever trains. Attacks and absences are not
known beforehand, and run at the rate without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from simulations.burdens.loads import Burden, burdens, planned
from simulations.burdens.runs import Arm, Job, Setting, measure, summaries, tune
from simulations.contract import About
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import chosen, tune_arms

ABOUT = About(
    "What robustness, compression, absence and privacy cost a personal method",
    "",
    "a question of users",
    order=107,
    data=("cifar10-jpeg",),
    times={
        "smoke": "half a minute",
        "quick": "two minutes on two cores",
        "desk": "half an hour on two cores",
        "paper": "three hours on two cores (an estimate)",
    },
)
FIRST_SEED, FIRST_TUNING_SEED = 400, 10_000


@dataclass(frozen=True)
class Scale:
    """Size of the study: its settings; `shift` is added to all seeds, and `device` is where networks train."""

    settings: tuple[Setting, ...]
    shift: int = 0
    device: str = "cpu"


_SMALL = burdens((0.2,), (), {"sign": 0.0}, (0.3,), (0.5,), (0.3,))
_FEW = burdens((0.2, 0.4), (0.2,), {"QSGD": 7, "sign": 0.0}, (0.6,), (0.5,), (0.3, 3.0))
_MANY = burdens(
    (0.1, 0.2, 0.3, 0.4), (0.2,), {"half": 0.0, "QSGD": 7, "top-k": 0.01, "sign": 0.0}, (0.3, 0.6), (0.5,),
    (0.0, 0.3, 1.0, 3.0, 10.0),
)  # fmt: skip
_ON_IMAGES = burdens(
    (0.2, 0.4), (0.2,), {"QSGD": 7, "top-k": 0.01, "sign": 0.0}, (0.3, 0.6), (0.5,), (0.0, 0.1, 0.3, 1.0)
)
_DIGITS = Setting(
    "digits", "digits", ("FedAvg", "FedPer", "Ditto"), _MANY, (0.1, 0.3, 1.0), seeds=10, tuning_seeds=3, clients=20,
    rounds=120, last=10, clip=1.0,
)  # fmt: skip
_IMAGES = Setting(
    "images", "cifar10-jpeg", ("FedAvg", "FedPer"), _ON_IMAGES, (0.01, 0.03, 0.1), seeds=5, tuning_seeds=2, clients=10,
    rounds=50, last=10, clip=1.0, epochs=1, momentum=0.9, train=300, held_out=200,
)  # fmt: skip
SCALES = {
    "smoke": Scale(
        (replace(_DIGITS, methods=("FedAvg", "FedPer"), burdens=_SMALL, rates=(0.3,), seeds=2, tuning_seeds=1,
                 clients=5, rounds=2, last=1),),
        shift=SECOND_LOOK,
    ),
    "quick": Scale(
        (replace(_DIGITS, methods=("FedAvg", "FedPer"), burdens=_FEW, rates=(0.3,), seeds=4, tuning_seeds=1),),
        shift=SECOND_LOOK,
    ),
    "desk": Scale((_DIGITS, _IMAGES)),
    "paper": Scale(
        (replace(_DIGITS, seeds=20), replace(_IMAGES, methods=("FedAvg", "FedPer", "Ditto"), clients=20, seeds=8,
                                             tuning_seeds=3, rounds=100)),
    ),
}  # fmt: skip


def arms(setting: Setting) -> list[Arm]:
    """Return a setting's arms: each method without a burden and with each, and FedNova, where steps are plain."""
    found = [Arm("Local"), *(Arm(name, burden) for name in setting.methods for burden in (Burden(), *setting.burdens))]
    slow = [burden for burden in setting.burdens if burden.way == "stragglers"] if not setting.momentum else []
    return found + [Arm("FedNova", burden) for burden in ([Burden(), *slow] if slow else ())]


def rates(scale: Scale, setting: Setting, out: Path) -> pd.DataFrame:
    """Tune the arms whose burden is chosen by whoever trains; with a single rate in the grid, take that."""
    tuned = list(dict.fromkeys(Arm(arm.method, planned(arm.burden)) for arm in arms(setting)))
    first = FIRST_TUNING_SEED + scale.shift
    seeds = tuple(range(first, first + setting.tuning_seeds))
    if len(setting.rates) == 1:
        told = {"lr": setting.rates[0], "seed": seeds[0], "accuracy": float("nan"), "chosen": True, "end": False}
        table = pd.DataFrame([{"arm": arm.label, **told} for arm in tuned])
    else:
        every = {arm.label: partial(tune, setting, arm, seeds, scale.device) for arm in tuned}
        table = tune_arms(
            f"burdens, {setting.name}", every, replace(scale, settings=(replace(setting, seeds=0, burdens=()),)), out
        )
    return table.assign(setting=setting.name)


def _part(scale: Scale, setting: Setting, arm: Arm, lr: float) -> Part:
    first = FIRST_SEED + scale.shift
    job = Job(replace(setting, burdens=()), arm, lr, tuple(range(first, first + setting.seeds)), scale.device)
    slug = "".join(c if c.isalnum() or c == "." else "_" for c in f"{setting.name}-{arm.label}")
    return Part(f"burdens-{slug}", job, partial(measure, job))


def account(setting: Setting) -> pd.DataFrame:
    """Return epsilon of each noise, with its delta, relation and sampling: all clients take part in every round."""
    rows = []
    for burden in setting.burdens:
        if burden.kind == "privacy":
            mechanism = fs.mechanisms.Gaussian(clip=setting.clip, noise=burden.dose)
            spent = vars(fs.privacy.spent(mechanism, clients=setting.clients, rounds=setting.rounds))
            told = {name: spent[name] for name in ("epsilon", "delta", "relation", "sampling")}
            rows.append({"setting": setting.name, "noise": burden.dose, "clip": setting.clip, **told})
    return pd.DataFrame(rows)


def run(scale: Scale, out: Path) -> Tables:
    """Tune, then run every arm under fresh seeds."""
    tuning = [rates(scale, setting, out) for setting in scale.settings]
    parts, used = [], []
    for setting, table in zip(scale.settings, tuning, strict=True):
        lr = chosen(table)
        for arm in arms(setting):
            rate = lr[Arm(arm.method, planned(arm.burden)).label]
            parts.append(_part(scale, setting, arm, rate))
            used.append({"setting": setting.name, "arm": arm.label, "lr": rate})
    tables = run_parts(parts, out, "burdens: arms")
    sent = tables["traffic"].groupby(["setting", "arm"], sort=False)[["up", "down"]].mean().reset_index()
    return {
        "runs": pd.concat([summaries(tables, arms(s), s) for s in scale.settings], ignore_index=True),
        "arms": pd.DataFrame(used).merge(sent, on=["setting", "arm"], how="left"),
        "tuning": pd.concat(tuning, ignore_index=True),
        "account": pd.concat([account(setting) for setting in scale.settings], ignore_index=True),
    }


def evidence(tables: Tables) -> Tables:
    """Return all tables, rounded."""
    return {name: table.round(6) for name, table in tables.items()}

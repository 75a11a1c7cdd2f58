"""Draw Figures 6 and 7 of the FedFac paper, with the generator as it is written, and ask whether the design can see.

With output weights as written the sign of a client's score is almost that of the sum of the personal units' output
weights, which all clients have in common: in most populations all clients have one label, and every decomposition is
right. The study counts such populations; it trains networks on those in which labels vary (their mean majority share
is below 95%), and at one setting on a few in which they do not, and with output weights centred. The choice looks at
labels only.

All arms train the same participants for the same local steps; FedFac's arms spend one further local round of all
clients on their first analysis. Learning rates are tuned on validation data of other populations, by one rule, for
FedAvg, Local, arms whose shared units stay and arms whose shared units change. The oracle's decomposition is left out:
by a theorem its law is the true one's (the split study has both).

The positive control asks what the design is for: whether a good decomposition can be told from a bad one. Networks
start at their clients' true parameters plus noise, so that unit j is the generator's unit j; then the true
decomposition must beat its complement, in which the personal units are shared and the shared ones personal, as many if
p is one half. Each of the arms has its own tuned rate.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.data.relu_mixture import ReluTruth
from fedstat.inference import primary_summary
from simulations.agreement.study import start_weights
from simulations.contract import About, Shown
from simulations.parts import SECOND_LOOK, Part, complete, run_parts
from simulations.rates import chosen, tried, tune_arms
from simulations.showing import setting
from simulations.split import study as split
from simulations.split.study import LAYER, TUNED_AT, family

Outputs = Literal["as written", "nearly one label", "centred"]

ABOUT = About(
    "The paper’s decompositions, as printed",
    "FedSplit/FedFac",
    "",
    order=25,
    shows=(
        Shown(
            "Figure 6",
            "test accuracy under five decompositions, over p and over the shared covariates",
            "in part",
            "the values of p and of the shared covariates, samples, noise and rounds are not printed and are ours; the "
            "oracle decomposition has the true one's law by a theorem and is left to the split study",
        ),
        Shown(
            "Figure 7",
            "share of units that keep their state from round to round",
            "in part",
            "the values of p and of the shared covariates, samples, noise and rounds are not printed and are ours",
        ),
    ),
    times={
        "smoke": "half a minute",
        "quick": "a minute on two cores",
        "paper": "a quarter of an hour of processor time",
    },
)
OUTPUTS: dict[Outputs, str] = {
    "as written": "output weights as written, populations in which labels vary",
    "nearly one label": "output weights as written, populations with nearly one label at all clients",
    "centred": "output weights centred",
}
ARMS = {
    "FedAvg": "everything shared",
    "Local": "everything personal",
    "true": "true",
    "static": "static FedFac",
    "dynamic": "dynamic FedFac, on weights",
    "dynamic, code": "dynamic FedFac, the authors’ code",
    "random, every round": "random, drawn in every round",
}
#: Arms that tune the learning rates of their families.
TUNERS = ("FedAvg", "Local", "true", "dynamic")
CONTROL_ARMS = {
    "true": "the generator’s shared units shared",
    "random": "as many units shared, drawn once",
    "complement": "the generator’s personal units shared, its shared units personal",
}
#: (p, alpha, samples): a setting of Figure 6, and the split study's control, few samples and many shared inputs.
CONTROLS = ((0.5, 0.4, 160), (0.5, 0.8, 20))
METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
#: Labels vary in populations whose mean majority share is smaller.
VARIED = 0.95
#: Smaller seeds are the other studies'.
FIRST_SEED = 300
FIRST_TUNING_SEED = 10_300
_MOST = 40  # populations looked at for each that is wanted


@dataclass(frozen=True)
class Scale(split.Scale):
    """Size of the study, with what it has beside the split study's.

    `populations` are counted for the labels; `constant_seeds` are those of populations with nearly one label, and
    `control_noises` are in standard deviations of the true weights.
    """

    populations: int = 24
    constant_seeds: int = 1
    control_seeds: int = 6
    control_rounds: int = 20
    control_noises: tuple[float, ...] = (0.5, 2.0)
    controls: tuple[tuple[float, float, int], ...] = CONTROLS
    device: str = "cpu"


SCALES = {
    "smoke": Scale(
        clients=8, d=12, units=16, samples=30, test=50, rounds=12, participation=0.5, seeds=2, rates=(1e-2, 1e-1, 1),
        tuning_seeds=1, balance_seeds=0, noises=(), settings=((0.5, 0.4), (0.5, 0.8)), populations=4, constant_seeds=1,
        control_seeds=2, control_rounds=4, control_noises=(0.5,), controls=((0.5, 0.8, 20),), shift=SECOND_LOOK,
    ),
    "quick": Scale(
        clients=20, d=30, units=40, samples=80, test=200, rounds=15, participation=0.2, seeds=3,
        rates=(3e-3, 1e-2, 3e-2), tuning_seeds=2, balance_seeds=0, noises=(), settings=((0.5, 0.4), (0.5, 0.8)),
        constant_seeds=1, control_seeds=4, control_rounds=10, control_noises=(0.5,), shift=SECOND_LOOK,
    ),
    "paper": Scale(
        clients=100, d=100, units=200, samples=160, test=300, rounds=30, participation=0.1, seeds=4,
        rates=(3e-4, 1e-3, 3e-3, 1e-2), tuning_seeds=3, balance_seeds=0, noises=(),
    ),
}  # fmt: skip


# --- populations -----------------------------------------------------------------------------------------------


def draw(scale: Scale, outputs: Outputs, p: float, alpha: float, samples: int, seed: int, *, test: int = 0) -> Clients:
    """Draw the clients of one seed, by default with the scale's test samples."""
    with warnings.catch_warnings():  # the majority class is what this study counts
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        return fs.data.relu_mixture(
            clients=scale.clients, d=scale.d, units=scale.units, shared_units=p, shared_inputs=alpha,
            balance="center" if outputs == "centred" else "none", samples=samples, validation=max(samples // 4, 10),
            test=test or scale.test, seed=seed,
        )  # fmt: skip


def look_at_labels(scale: Scale, p: float, alpha: float, first: int, least: int, varied: int, constant: int) -> Tables:
    """Look at populations from seed `first` on: at `least` as many, and until enough have labels that vary, or not.

    Returns
    -------
    Tables
        ``populations``: mean majority share, share of clients whose training samples have one label, and `outputs`,
        which is "as written" where labels vary and else "nearly one label"; `used` where networks are to be trained.

    Raises
    ------
    RuntimeError
        If there are not enough among forty times as many.
    """
    wanted: dict[Outputs, int] = {"as written": varied, "nearly one label": constant}
    rows: list[dict[str, float | str | bool]] = []
    for seed in itertools.count(first):
        drawn = draw(scale, "as written", p, alpha, scale.samples, seed, test=200)
        share = float(drawn.majority_share("test").mean())
        outputs: Outputs = "as written" if share < VARIED else "nearly one label"
        rows.append(
            {
                "seed": seed,
                "majority_share": share,
                "one_label": float((drawn.majority_share("train") == 1).mean()),
                "outputs": outputs,
                "used": wanted[outputs] > 0,
            }
        )
        wanted[outputs] -= 1
        enough = max(wanted.values()) <= 0
        if enough and len(rows) >= least:
            return {"populations": pd.DataFrame(rows).assign(p=p, alpha=alpha)}
        if len(rows) >= _MOST * (varied + constant):
            missing = [name for name, n in wanted.items() if n > 0]
            raise RuntimeError(
                f"{len(rows)} populations at p = {p}, alpha = {alpha} are too few: {missing} is wanting."
            )
    raise AssertionError("unreachable")


def used(populations: pd.DataFrame, outputs: Outputs, p: float, alpha: float) -> list[int]:
    """Return the seeds of the populations on which networks are trained."""
    rows = populations[populations["used"] & (populations["outputs"] == outputs)]
    return [int(seed) for seed in rows.loc[(rows["p"] == p) & (rows["alpha"] == alpha), "seed"]]


# --- Figures 6 and 7 -------------------------------------------------------------------------------------------


def marks(scale: Scale) -> list[int]:
    """Return the evaluated rounds: the first, some on the way, and the last ones that are averaged."""
    step = max(scale.rounds // 5, 1)
    last = range(max(1, scale.rounds - split.LAST + 1), scale.rounds + 1)
    return sorted({1, *range(step, scale.rounds + 1, step), *last})


def _training(scale: Scale, lr: float) -> fs.Training:
    return fs.Training(lr=lr, optimizer="adam", batch_size=scale.batch_size, local_epochs=scale.local_epochs)


def federate(
    scale: Scale, methods: Mapping[str, fs.Method], clients: Clients, lr: float, seed: int, rounds: list[int]
) -> fs.Result:
    """Run methods from one random start at one learning rate."""
    result = fs.federate(
        methods, fs.models.mlp(scale.d, scale.units, 1), clients, _training(scale, lr), rounds=scale.rounds,
        participation=scale.participation, seed=seed, evaluate_at=rounds, progress=False, device=scale.device,
    )  # fmt: skip
    return complete(result)


def tune(scale: Scale, name: str, what: str) -> Tables:
    """Choose the rate of a family's arm, where labels vary, on validation samples; return the table ``tuning``."""
    p, alpha = TUNED_AT
    label = next(arm for arm in TUNERS if family(arm) == name)
    first = FIRST_TUNING_SEED + scale.shift
    looked = look_at_labels(scale, p, alpha, first, 0, scale.tuning_seeds, 0)["populations"]
    tuning = fs.tune(
        split.arms(scale, p)[label], {"lr": scale.rates}, fs.models.mlp(scale.d, scale.units, 1),
        partial(draw, scale, "as written", p, alpha, scale.samples), _training(scale, scale.rates[0]),
        rounds=scale.rounds, last=split.LAST, seed=used(looked, "as written", p, alpha),
        participation=scale.participation, device=scale.device, progress=False,
    )  # fmt: skip
    return tried(tuning, what)


def compare_arms(
    scale: Scale, outputs: Outputs, p: float, alpha: float, seed: int, rates: Mapping[str, float]
) -> Tables:
    """Return one population's curves and primary summaries by arm, and the agreement of units between rounds."""
    clients = draw(scale, outputs, p, alpha, scale.samples, seed)
    every = {label: method for label, method in split.arms(scale, p).items() if label in ARMS}
    summaries, curves, agreements = [], [], []
    for name, lr in rates.items():
        methods = {label: method for label, method in every.items() if family(label) == name}
        result = federate(scale, methods, clients, lr, seed, marks(scale))
        for metric in METRICS:
            table = primary_summary(result.history, metric, last=split.LAST).reset_index()
            summaries.append(table.melt("seed", var_name="arm", value_name="value").assign(metric=metric))
        means = result.history.groupby(["method", "seed", "round", "metric"], observed=True)["value"].mean()
        curves.append(means.unstack("metric").reset_index().rename(columns={"method": "arm"}))
        agreements += list(split.agreement_between_rounds(result))
    where = {"outputs": outputs, "p": p, "alpha": alpha, "samples": scale.samples}
    tables = {"accuracy": summaries, "curves": curves, "agreement": agreements}
    return {name: pd.concat(found, ignore_index=True).assign(**where) for name, found in tables.items()}


# --- the positive control --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Started(ReluTruth):
    """The truth, with the hidden weights that clients (C, m, d) and the server (m, d) start from."""

    own: np.ndarray
    common: np.ndarray


def drawn_with_start(scale: Scale, p: float, alpha: float, samples: int, noise: float, seed: int) -> Clients:
    """Draw the clients of one seed, and networks at the truth plus noise; shared units start at the clients' mean."""
    clients = draw(scale, "centred", p, alpha, samples, seed)
    own, common = (start_weights(clients, noise, start, seed) for start in ("own", "common"))
    return replace(clients, truth=Started(**vars(clients.truth), own=own, common=common[0]))


@dataclass(frozen=True, kw_only=True)
class Identified(fs.FedSplit):
    """FedSplit of networks that start where the truth says; output weights at the true ones, biases at zero."""

    def init(self, network: fs.federated.Network, federation: fs.Federation) -> fs.State:
        """Put the given weights into the server's leaves and every client's row."""
        import torch

        state, truth = super().init(network, federation), federation.clients.truth
        name, head = f"{LAYER}.weight", "head.weight"
        server = {leaf: torch.zeros_like(value) for leaf, value in state.server.items()}
        server |= {name: torch.as_tensor(truth.common).to(server[name])}
        server |= {head: torch.as_tensor(truth.output[None]).to(server[head])}
        rows = {leaf: server[leaf].expand_as(torch.as_tensor(row)).clone() for leaf, row in state.clients.items()}
        rows[name] = torch.as_tensor(truth.own).to(rows[name])
        return replace(state, server=server, clients=fs.federated.ClientStore.of(rows))


def control_units(federation: fs.Federation, arm: str) -> dict[str, np.ndarray]:
    """Return which units an arm of the control shares."""
    personal = federation.clients.truth.personal_units
    if arm == "random":
        return split.random_units(federation, shared=int((~personal).sum()), per_client=False)
    return {LAYER: personal if arm == "complement" else ~personal}


def control_arms() -> dict[str, fs.Method]:
    """Return the decompositions of networks whose clients start at their own true hidden weights plus noise."""
    return {arm: Identified(shared_units=partial(control_units, arm=arm)) for arm in CONTROL_ARMS}


def federate_identified(
    scale: Scale, methods: Mapping[str, fs.Method], clients: Clients, lr: float, seed: int
) -> fs.Result:
    """Run methods on clients with a start."""
    last = range(max(1, scale.control_rounds - split.LAST + 1), scale.control_rounds + 1)
    result = fs.federate(
        methods, fs.models.mlp(scale.d, scale.units, 1), clients, _training(scale, lr), rounds=scale.control_rounds,
        participation=scale.participation, seed=seed, evaluate_at=last, progress=False, device=scale.device,
    )  # fmt: skip
    return complete(result)


def tune_control(scale: Scale, p: float, alpha: float, samples: int, arm: str, what: str) -> Tables:
    """Choose the rate of one decomposition at the smallest noise of the start; return the table ``tuning``."""
    first = FIRST_TUNING_SEED + scale.shift
    tuning = fs.tune(
        control_arms()[arm], {"lr": scale.rates}, fs.models.mlp(scale.d, scale.units, 1),
        partial(drawn_with_start, scale, p, alpha, samples, min(scale.control_noises)),
        _training(scale, scale.rates[0]), rounds=scale.control_rounds, last=split.LAST,
        seed=range(first, first + scale.tuning_seeds), participation=scale.participation, device=scale.device,
        progress=False,
    )  # fmt: skip
    return tried(tuning, what)


def control(
    scale: Scale, p: float, alpha: float, samples: int, noise: float, seed: int, rates: Mapping[str, float]
) -> Tables:
    """Return primary summaries of the decompositions of identified units under one seed."""
    found = []
    clients = drawn_with_start(scale, p, alpha, samples, noise, seed)
    for arm, method in control_arms().items():
        result = federate_identified(scale, {arm: method}, clients, rates[arm], seed)
        for metric in METRICS:
            value = float(primary_summary(result.history, metric, last=split.LAST)[arm].iloc[0])
            found.append({"arm": arm, "seed": seed, "metric": metric, "value": value})
    where = {"p": p, "alpha": alpha, "samples": samples, "noise": noise}
    return {"control": pd.DataFrame(found).assign(**where)}


# --- the study -------------------------------------------------------------------------------------------------


def run(scale: Scale, out: Path) -> Tables:
    """Tune all arms, run the positive control and look at populations, then train on those chosen."""
    one = replace(scale, seeds=0, constant_seeds=0, control_seeds=0, populations=0)  # how many does not decide a run
    families = {f"Figure 6: {name}": name for name in dict.fromkeys(family(arm) for arm in TUNERS)}
    controls = {
        f"control at {setting(p, alpha)}, n = {n}: {arm}": (p, alpha, n, arm)
        for p, alpha, n in scale.controls
        for arm in CONTROL_ARMS
    }

    asked = {what: partial(tune, one, name, what) for what, name in families.items()}
    asked |= {what: partial(tune_control, one, *place, what) for what, place in controls.items()}
    tuning = tune_arms("decompositions", asked, one, out)
    best = chosen(tuning)
    rates = {name: best[what] for what, name in families.items()}
    first = FIRST_SEED + scale.shift
    parts = [
        Part(f"decompositions-labels-p{p}-alpha{alpha}", scale, partial(look_at_labels, scale, p, alpha, first,
             scale.populations, scale.seeds, scale.constant_seeds if (p, alpha) == TUNED_AT else 0))
        for p, alpha in scale.settings
    ]  # fmt: skip
    for p, alpha, n in scale.controls:
        of = {arm: best[what] for what, (*place, arm) in controls.items() if place == [p, alpha, n]}
        parts += [
            Part(f"decompositions-control-p{p}-alpha{alpha}-n{n}-noise{noise:g}-seed{seed}", one,
                 partial(control, one, p, alpha, n, noise, seed, of))
            for noise in scale.control_noises
            for seed in range(first, first + scale.control_seeds)
        ]  # fmt: skip
    looked = run_parts(parts, out, "decompositions: labels and control")
    populations = looked["populations"]
    runs = [
        (place, outputs, p, alpha, seed)
        for p, alpha in scale.settings
        for outputs in OUTPUTS
        for place, seed in enumerate(seeds_of(scale, populations, outputs, p, alpha))
    ]
    trained = [
        Part(f"decompositions-{'-'.join(o.split())}-p{p}-alpha{a}-seed{s}", one,
             partial(compare_arms, one, o, p, a, s, rates))
        for _, o, p, a, s in sorted(runs, key=lambda r: r[0])  # an interrupted study has all settings of some seeds
    ]  # fmt: skip
    found = run_parts(trained, out, "decompositions: settings")
    return {**found, **looked, "late": late(found["agreement"]), "tuning": tuning}


def seeds_of(scale: Scale, populations: pd.DataFrame, outputs: Outputs, p: float, alpha: float) -> list[int]:
    """Return the seeds of the populations on which networks are trained."""
    if outputs == "centred":
        first = FIRST_SEED + scale.shift
        return list(range(first, first + scale.seeds)) if (p, alpha) == TUNED_AT else []
    return used(populations, outputs, p, alpha)


def late(agreement: pd.DataFrame) -> pd.DataFrame:
    """Return the agreement's means over the last rounds: a row for each population and arm."""
    rows = agreement[agreement["round"] > agreement["round"].max() - split.LAST]
    place = ["outputs", "p", "alpha", "samples", "arm", "seed"]
    return rows.groupby(place, sort=False)[["agreement", "kappa"]].mean(skipna=False).reset_index()


def evidence(tables: Tables) -> Tables:
    """Return curves and agreement at few rounds, and all other tables."""
    curves, agreement = tables["curves"], tables["agreement"]
    end = curves["round"].max()
    return {
        **{name: table.round(6) for name, table in tables.items()},
        "curves": curves[(curves["round"] <= end - split.LAST) | (curves["round"] == end)].round(5),
        "agreement": agreement[(agreement["round"] - 2) % max(end // 8, 1) == 0].round(5),
    }

"""Ask whether it matters which hidden units are shared (FedFac paper, Figure 6).

The study measures test accuracy under true, oracle, static, dynamic and random shared units, with FedAvg and Local as
yardsticks, over the share p of shared units and the share alpha of shared covariates. In every round all arms train
the same participants for the same local steps; FedFac's arms spend one further local round of all clients on their
first analysis. Learning rates are tuned on validation data of other seeds, on one grid, for FedAvg, Local, arms with
fixed shared units (which are compared for equality and have one rate) and arms whose shared units change; anew for the
positive control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.inference import primary_summary
from fedstat.methods.cut import Cut, is_shared
from fedstat.methods.fedfac import communality
from simulations.contract import About
from simulations.parts import SECOND_LOOK, Part, complete, run_parts

ABOUT = About(
    "Which hidden units are shared", "FedSplit/FedFac", "section 4.3, every reading", order=20,
    times={"paper": "an hour of processor time, and 2.5 GiB in each of two workers"},
)  # fmt: skip
LAYER = "hidden"
LAST = 10
#: Smaller seeds served to design the study and to word FS-41c and FS-42c.
FIRST_SEED = 100
#: Learning rates are tuned on seeds of their own.
FIRST_TUNING_SEED = 10_000

#: (p, alpha): as its caption says, the upper row of Figure 6 varies p at alpha = 0.4, the lower row alpha at p = 0.5.
#: The values that are varied are ours.
SETTINGS = ((0.2, 0.4), (0.5, 0.4), (0.8, 0.4), (0.5, 0.2), (0.5, 0.5), (0.5, 0.8))
#: Few samples and many shared units: sharing must beat Local here, or the design could not see anything.
CONTROL = (0.9, 0.8)
#: Where the learning rates of Figure 6's settings are tuned.
TUNED_AT = (0.5, 0.4)

ARMS = {
    "FedAvg": "everything shared",
    "Local": "everything personal",
    "true": "the generator's number of units, shared as the generator has them",
    "oracle": "factor analysis of the true weights, cut at the true number",
    "static": "FedFac, Algorithm 1, cut at the true number",
    "dynamic": "FedFac, Algorithm 2 on weights, cut at the true number",
    "dynamic, code": "as dynamic, as the authors' code has it",
    "dynamic, updates": "as dynamic, on updates, which are added where a unit turns shared",
    "oracle, median": "as oracle, cut at the median",
    "static, median": "as static, cut at the median",
    "dynamic, median": "as dynamic, cut at the median",
    "random, once": "the true number of units, drawn once",
    "random, every round": "the true number of units, drawn in every round",
    "random, per client": "the true number of units, drawn for each client",
}


@dataclass(frozen=True)
class Scale:
    """Size of the study; symbols as in `fedstat.data.relu_mixture`, `shift` is added to all seeds."""

    clients: int
    d: int
    units: int
    samples: int
    test: int
    rounds: int
    participation: float
    seeds: int
    rates: tuple[float, ...]
    tuning_seeds: int
    balance_seeds: int
    noises: tuple[float, ...]
    batch_size: int = 32
    local_epochs: int = 2
    control_samples: int = 20
    settings: tuple[tuple[float, float], ...] = SETTINGS
    shift: int = 0

    @property
    def every_seed(self) -> range:
        """The master seeds of the comparisons."""
        return range(FIRST_SEED + self.shift, FIRST_SEED + self.shift + self.seeds)

    @property
    def every_tuning_seed(self) -> range:
        """The master seeds on which learning rates are tuned."""
        return range(FIRST_TUNING_SEED + self.shift, FIRST_TUNING_SEED + self.shift + self.tuning_seeds)


SCALES = {
    "smoke": Scale(
        clients=12, d=16, units=16, samples=60, test=200, rounds=12, participation=0.25, seeds=3,
        rates=(1e-3, 1e-2), tuning_seeds=1, balance_seeds=6, noises=(0.0, 1.0), settings=((0.5, 0.4), (0.5, 0.8)),
        shift=SECOND_LOOK,
    ),
    "quick": Scale(
        clients=40, d=40, units=64, samples=160, test=400, rounds=20, participation=0.25, seeds=6,
        settings=((0.2, 0.4), (0.5, 0.4), (0.8, 0.4), (0.5, 0.8)), rates=(3e-3, 1e-2, 3e-2),
        tuning_seeds=2, balance_seeds=40, noises=(0.0, 1.0, 4.0),
        shift=SECOND_LOOK,
    ),
    "paper": Scale(
        clients=100, d=100, units=200, samples=160, test=1000, rounds=100, participation=0.1, seeds=6,
        rates=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2), tuning_seeds=2, balance_seeds=100, noises=(0.0, 0.5, 1.0, 2.0, 4.0),
    ),
}  # fmt: skip


# --- the arms --------------------------------------------------------------------------------------------------


def true_units(federation: fs.Federation) -> dict[str, np.ndarray]:
    """Return masks of the units that the generator shares."""
    return {LAYER: ~federation.clients.truth.personal_units}


def oracle_units(federation: fs.Federation, tau: Cut) -> dict[str, np.ndarray]:
    """Return the shared units by a factor analysis of the true weights of all clients."""
    weights = federation.clients.truth.weights
    nu = communality(weights, kappa=0.85)
    return {LAYER: is_shared(nu, tau, np.ones(weights.shape[1], dtype=bool))}


def random_units(federation: fs.Federation, shared: int, per_client: bool) -> dict[str, np.ndarray]:
    """Draw `shared` units at random, the same for all clients or anew for each."""
    truth = federation.clients.truth
    clients, units = truth.weights.shape[:2]
    order = federation.rng.permuted(np.tile(np.arange(units), (clients if per_client else 1, 1)), axis=1)
    mask = order < shared
    return {LAYER: mask if per_client else mask[0]}


def random_statistic(stacked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a statistic that knows nothing of the units: the control of the dynamic arms."""
    return np.asarray(rng.random(stacked.shape[1]))


def arms(scale: Scale, p: float) -> dict[str, fs.Method]:
    """Return all arms of one setting; if p is one half, a median cut is the true number and its arms are left out."""
    shared = round(p * scale.units)
    fedfac = partial(fs.FedFac, layers=[LAYER], tau=fs.Count(shared))
    methods: dict[str, fs.Method] = {
        "FedAvg": fs.FedAvg(),
        "Local": fs.Local(),
        "true": fs.FedSplit(shared_units=true_units),
        "oracle": fs.FedSplit(shared_units=partial(oracle_units, tau=fs.Count(shared))),
        "static": fedfac(),
        "dynamic": fedfac(dynamic=True),
        "dynamic, code": fedfac(dynamic=True, reading="code"),
        "dynamic, updates": fedfac(dynamic=True, source="updates", rejoin="add"),
        "random, once": fs.FedSplit(shared_units=partial(random_units, shared=shared, per_client=False)),
        "random, every round": fedfac(dynamic=True, statistic=random_statistic),
        "random, per client": fs.FedSplit(shared_units=partial(random_units, shared=shared, per_client=True)),
    }
    if p != 0.5:
        median = fs.Quantile(0.5)
        methods["oracle, median"] = fs.FedSplit(shared_units=partial(oracle_units, tau=median))
        methods["static, median"] = fedfac(tau=median)
        methods["dynamic, median"] = fedfac(tau=median, dynamic=True)
    return {label: methods[label] for label in ARMS if label in methods}


def family(label: str) -> str:
    """Return the name of the group of arms that use one learning rate."""
    if label in ("FedAvg", "Local"):
        return label
    return "changing split" if label.startswith("dynamic") or label == "random, every round" else "fixed split"


# --- the runs --------------------------------------------------------------------------------------------------


def draw(scale: Scale, p: float, alpha: float, samples: int, seed: int) -> Clients:
    """Draw the clients of one seed."""
    import warnings

    with warnings.catch_warnings():  # class balance has a table of its own in this study
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        return fs.data.relu_mixture(
            clients=scale.clients, d=scale.d, units=scale.units, shared_units=p, shared_inputs=alpha,
            samples=samples, validation=max(samples // 4, 10), test=scale.test, seed=seed,
        )  # fmt: skip


def federate(
    scale: Scale, methods: Mapping[str, fs.Method], clients: Callable[[int], Clients], lr: float, seeds: range
) -> fs.Result:
    """Run methods at one learning rate; evaluated in the last rounds only."""
    last = range(max(1, scale.rounds - LAST + 1), scale.rounds + 1)
    training = fs.Training(lr=lr, optimizer="adam", batch_size=scale.batch_size, local_epochs=scale.local_epochs)
    result = fs.federate(
        methods, fs.models.mlp(scale.d, scale.units, 1), clients, training, rounds=scale.rounds,
        participation=scale.participation, seed=seeds, evaluate_at=last, progress=False,
    )  # fmt: skip
    return complete(result)


def tune(scale: Scale, p: float, alpha: float, samples: int) -> Tables:
    """Return validation accuracy over the grid for FedAvg, Local, a true and a dynamic arm, one for each family."""
    seeds = scale.every_tuning_seed

    def on_validation(seed: int) -> Clients:
        drawn = draw(scale, p, alpha, samples, seed)
        return Clients(drawn.train, drawn.validation, classes=drawn.classes, truth=drawn.truth)

    every = arms(scale, p)
    methods = {family(label): every[label] for label in ("FedAvg", "Local", "true", "dynamic")}
    rows = []
    for lr in scale.rates:
        table = primary_summary(federate(scale, methods, on_validation, lr, seeds).history, "accuracy", last=LAST)
        rows += [{"family": name, "lr": lr, "accuracy": table[name].mean()} for name in methods]
    table = pd.DataFrame(rows).assign(p=p, alpha=alpha, samples=samples)
    best = table.groupby("family")["accuracy"].transform("max") == table["accuracy"]
    return {"tuning": table.assign(chosen=best)}


def tuning_part(scale: Scale, p: float, alpha: float, samples: int) -> Part:
    """Return the part that tunes the learning rates at one setting."""
    return Part(f"split-tuning-p{p}-alpha{alpha}-n{samples}", scale, partial(tune, scale, p, alpha, samples))


def chosen_rates(tuning: pd.DataFrame, p: float, alpha: float) -> dict[str, float]:
    """Return the learning rate of each family, as tuned at p and alpha."""
    rows = tuning[tuning["chosen"] & (tuning["p"] == p) & (tuning["alpha"] == alpha)]
    return {str(name): float(lr) for name, lr in rows.groupby("family")["lr"].min().items()}


def compare_arms(scale: Scale, p: float, alpha: float, samples: int, rates: Mapping[str, float]) -> Tables:
    """Return primary summaries per seed and arm, and the agreement of dynamic arms' shared units between rounds."""
    every = arms(scale, p)
    seeds = scale.every_seed
    drawn = {seed: draw(scale, p, alpha, samples, seed) for seed in seeds}
    summaries, agreements = [], []
    for name, lr in rates.items():
        methods = {label: method for label, method in every.items() if family(label) == name}
        result = federate(scale, methods, drawn.__getitem__, lr, seeds)
        for metric in ("accuracy", "balanced_accuracy", "log_loss", "majority_share"):
            table = primary_summary(result.history, metric, last=LAST).reset_index()
            summaries.append(table.melt("seed", var_name="arm", value_name="value").assign(metric=metric))
        agreements += list(agreement_between_rounds(result))
    where = {"p": p, "alpha": alpha, "samples": samples}
    return {
        "accuracy": pd.concat(summaries, ignore_index=True).assign(**where),
        "agreement": pd.concat(agreements, ignore_index=True).assign(**where),
    }


def agreement_between_rounds(result: fs.Result) -> Iterator[pd.DataFrame]:
    """Yield for each run whose shared units may change their agreement in consecutive rounds, raw and corrected."""
    for (label, seed), records in result.records.items():
        shared = records.get(f"shared {LAYER}")
        if shared is not None and not label.startswith("static"):
            pairs = [chance_corrected(a, b) for a, b in pairwise(shared)]
            table = pd.DataFrame(pairs, columns=["agreement", "kappa"])
            yield table.assign(arm=label, seed=seed, round=np.arange(2, len(shared) + 1))


def class_balance(scale: Scale) -> Tables:
    """Return the share of each client's largest class as the generator is written, and centred in two ways."""
    rows = []
    for balance in ("none", "center", "median"):
        for seed in range(scale.shift, scale.shift + scale.balance_seeds):
            drawn = _balanced(scale, balance, seed)
            share = drawn.majority_share("test")
            rows.append(
                {
                    "balance": balance,
                    "seed": seed,
                    "one_class_clients": int((drawn.majority_share("train") == 1).sum()),
                    "above_95": int((share > 0.95).sum()),
                    "clients": scale.clients,
                    "median_share": np.median(share),
                }
            )
    return {"balance": pd.DataFrame(rows)}


def _balanced(scale: Scale, balance: Any, seed: int) -> Clients:
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        return fs.data.relu_mixture(
            clients=scale.clients, d=scale.d, units=scale.units, balance=balance, samples=scale.samples,
            validation=0, test=500, seed=seed,
        )  # fmt: skip


def recovery(scale: Scale, lr: float) -> Tables:
    """Measure recovery of the true units, where it is defined: from true weights, and from networks started there.

    Networks start at the true weights of their client plus noise, in units of the weights' standard deviation,
    and train alone for one local round before the factor analysis. (In a network started at random unit j has
    no link to unit j of the generator.)
    """
    rows = []
    training = fs.Training(lr=lr, optimizer="adam", batch_size=scale.batch_size, local_epochs=scale.local_epochs)
    for p, alpha in scale.settings:
        for seed in scale.every_seed:
            drawn = draw(scale, p, alpha, scale.samples, seed)
            truth = drawn.truth
            starts = {"true weights": truth.weights}
            if (p, alpha) == TUNED_AT:
                for noise in scale.noises:
                    rng = stream(seed, "start noise", int(1000 * noise))
                    jitter = noise * truth.weights.std() * rng.normal(size=truth.weights.shape)
                    starts[f"trained from truth + {noise:g} sd"] = trained_from(
                        truth.weights + jitter, drawn, training, seed
                    )
            for start, weights in starts.items():
                nu = communality(weights, kappa=0.85)
                cut = is_shared(nu, fs.Count(round(p * scale.units)), ~truth.personal_units)
                rows.append(
                    {
                        "p": p,
                        "alpha": alpha,
                        "seed": seed,
                        "start": start,
                        "auc": auc(np.nan_to_num(nu), ~truth.personal_units),
                        "accuracy": float((cut == ~truth.personal_units).mean()),
                    }
                )
    return {"recovery": pd.DataFrame(rows)}


@dataclass(frozen=True, kw_only=True)
class FromTruth(fs.Local):
    """Local training in which every client starts from given hidden weights and the true output weights."""

    weights: np.ndarray
    output: np.ndarray

    def init(self, network: fs.federated.Network, federation: fs.Federation) -> fs.State:
        """Put the given weights into every client's row; biases start at zero, as the generator has none."""
        import torch

        state = super().init(network, federation)
        given = {f"{LAYER}.weight": self.weights, "head.weight": np.tile(self.output, (len(self.weights), 1, 1))}
        clients = {
            name: torch.as_tensor(given[name], dtype=leaf.dtype) if name in given else torch.zeros_like(leaf)
            for name, leaf in state.clients.items()
        }
        return replace(state, clients=fs.federated.ClientStore.of(clients))


def trained_from(weights: np.ndarray, clients: Clients, training: fs.Training, seed: int) -> np.ndarray:
    """Return the hidden weights (C, m, d) after one local round from `weights`."""
    _, units, d = weights.shape
    method = FromTruth(weights=weights, output=clients.truth.output)
    result = fs.federate(
        method, fs.models.mlp(d, units, 1), clients, training, rounds=1, seed=seed, evaluate_at=(), progress=False
    )
    kept = result.states["FromTruth", seed].clients
    assert kept is not None
    return kept[f"{LAYER}.weight"].numpy()


def run(scale: Scale, out: Path) -> Tables:
    """Run all parts of the study: first the learning rates, then all that uses them."""
    base, control = (*TUNED_AT, scale.samples), (*CONTROL, scale.control_samples)
    tuned = run_parts([tuning_part(scale, *s) for s in (base, control)], out, "split study: learning rates")
    rates, control_rates = (chosen_rates(tuned["tuning"], p, alpha) for p, alpha, _ in (base, control))
    settings = [((p, alpha, scale.samples), rates) for p, alpha in scale.settings]
    parts = [
        Part(f"split-p{s[0]}-alpha{s[1]}-n{s[2]}", scale, partial(compare_arms, scale, *s, rates=chosen))
        for s, chosen in (*settings, (control, control_rates))
    ]
    parts.append(Part("split-recovery", scale, partial(recovery, scale, rates["fixed split"])))
    parts.append(Part("split-balance", scale, partial(class_balance, scale)))
    return {**tuned, **run_parts(parts, out, "split study: settings")}


# --- what is read from the tables ------------------------------------------------------------------------------


def per_seed(tables: Tables, p: float, alpha: float, samples: int, metric: str = "accuracy") -> pd.DataFrame:
    """Return primary summaries of one setting: one row per seed, one column per arm."""
    rows = tables["accuracy"].query("p == @p and alpha == @alpha and samples == @samples and metric == @metric")
    return rows.pivot(index="seed", columns="arm", values="value")


def settings_of(tables: Tables) -> list[tuple[float, float, int]]:
    """Return the settings that a study holds: (p, alpha, samples), the positive control last."""
    rows = tables["accuracy"][["p", "alpha", "samples"]].drop_duplicates()
    return [(float(p), float(a), int(n)) for p, a, n in rows.itertuples(index=False)]


def evidence(tables: Tables) -> Tables:
    """Return the small tables that claims are judged on, without the agreement of early rounds."""
    agreement = tables["agreement"]
    return {**tables, "agreement": agreement[agreement["round"] > agreement["round"].max() - LAST]}


def chance_corrected(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return the share of units on which two choices of shared units agree, and Cohen's kappa, corrected for chance.

    kappa is NaN if chance alone gives full agreement: both choices are all units, or both none.
    """
    agreement = float((first == second).mean())
    chance = float(first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean()))
    return agreement, (agreement - chance) / (1 - chance) if chance < 1 else float("nan")


def auc(values: np.ndarray, positive: np.ndarray) -> float:
    """Return the probability that a positive unit has a larger value than another one (ties count half)."""
    from scipy.stats import mannwhitneyu

    ours, theirs = values[positive], values[~positive]
    return float(mannwhitneyu(ours, theirs).statistic / (len(ours) * len(theirs)))

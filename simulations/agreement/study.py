"""Ask which statistic of a unit tells whether it is shared (a second rule for the FedFac paper's shared units).

The communality cannot see whether clients agree: inputs permuted within each client leave it unchanged. Nor can the
statistic of the authors' code, a unit's squares in the leading eigenvectors of the same correlations. A unit's
intraclass correlation over clients can; "agreement" here is the one for consistency, ICC(3,1), in which clients' levels
do not count. The study compares the three where units of a network have a link to units of the generator: on the true
parameters, with the permuted ones as placebo; on networks that start at the true parameters plus noise and train for
one local round; and by the test accuracy under the shared units that they then choose.

Such networks start in one of two ways. Under the own start every client begins at its own true weights plus noise,
and shared units at their mean over clients plus noise: the start gives personal units away, and an arm that shares them
loses them.
Under the common start all clients begin at that mean, as FedFac's contract has it: shared units are near the truth,
personal ones near zero, and the changes of all clients can be compared. Agreement of weights is a control: weights
agree that started alike, so it measures the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.factor import intraclass_correlation
from fedstat.inference import primary_summary
from fedstat.methods.cut import Cut, is_shared
from fedstat.methods.fedfac import communality, squares_in_eigenvectors
from simulations.contract import About
from simulations.parts import SECOND_LOOK, Part, complete, run_parts
from simulations.split import study as split
from simulations.split.study import LAST, LAYER, auc, draw, random_units, trained_from, true_units

Start = Literal["own", "common"]

ABOUT = About(
    "A statistic that sees whether clients agree", "FedSplit/FedFac", "section 4.1", order=50,
    times={"paper": "half an hour of two busy cores"},
)  # fmt: skip
STARTS: dict[Start, str] = {
    "own": "each client at its own true weights plus noise",
    "common": "all clients at the mean of the true weights plus noise",
}
#: Statistic and what it looks at. A probe of two local rounds separates agreement from the noise of batches.
LOOKS = {
    ("communality", "weights"): "communality of weights",
    ("communality", "changes"): "communality of changes",
    ("eigenvectors", "weights"): "squares in eigenvectors of weights",
    ("agreement", "changes"): "agreement of changes",
    ("agreement", "weights"): "agreement of weights",
}
#: What the statistics of the arms look at.
LOOKED_AT: dict[Literal["communality", "eigenvectors", "agreement"], str] = {
    "communality": "weights",
    "eigenvectors": "weights",
    "agreement": "changes",
}
ARMS = {
    "FedAvg": "everything shared",
    "Local": "everything personal",
    "true": "the generator's units",
    "communality": "static FedFac by communality of weights, cut at the true number",
    "eigenvectors": "static FedFac by squares in eigenvectors of weights, cut at the true number",
    "agreement": "static FedFac by agreement of changes, cut at the true number",
    "random": "the true number of units, drawn once",
}
#: The text's statistic and the authors' code's, each a function of weights (C, m, d) and the contribution.
PER_KAPPA: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "communality": communality,
    "eigenvectors": squares_in_eigenvectors,
}
#: The contribution at which networks are analysed.
KAPPA = 0.85
#: The quantiles at which the paper cuts.
QUANTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Scale(split.Scale):
    """Size of the study, with what it has beside the split study's."""

    shared_units: tuple[float, ...] = (0.2, 0.5, 0.8)
    shared_inputs: tuple[float, ...] = (0.2, 0.4, 0.8)
    kappas: tuple[float, ...] = (0.5, 0.75, 0.85, 0.9, 0.95)
    placebos: int = 10
    replicates: int = 2
    trained_noise: float = 0.5
    trained_seeds: int = 6
    settings: tuple[tuple[float, float], ...] = (split.TUNED_AT, split.CONTROL)


SCALES = {
    "smoke": Scale(
        clients=8, d=12, units=20, samples=30, test=50, rounds=3, participation=0.5, seeds=2, rates=(1e-3,),
        tuning_seeds=1, balance_seeds=0, noises=(0.0, 1.0), placebos=2, shared_units=(0.5,), shared_inputs=(0.4, 0.8),
        kappas=(0.75, 0.85), settings=(split.CONTROL,), shift=SECOND_LOOK,
    ),
    "quick": Scale(
        clients=30, d=30, units=40, samples=160, test=500, rounds=20, participation=0.25, seeds=6,
        rates=(1e-3, 3e-3, 1e-2, 3e-2), tuning_seeds=1, balance_seeds=0, noises=(0.0, 0.5, 1.0, 2.0, 4.0),
        shift=SECOND_LOOK,
    ),
    "paper": Scale(
        clients=100, d=100, units=200, samples=160, test=1000, rounds=50, participation=0.1, seeds=10,
        rates=(1e-3, 3e-3, 1e-2, 3e-2, 1e-1), tuning_seeds=2, balance_seeds=0, noises=(0.0, 0.5, 1.0, 2.0, 4.0),
    ),
}  # fmt: skip


# --- true parameters -------------------------------------------------------------------------------------------


def permuted(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Permute the inputs within each client, alike for all its units; weights (C, m, d)."""
    return np.stack([w[:, rng.permutation(w.shape[1])] for w in weights])


def recovered(values: np.ndarray, shared: np.ndarray) -> dict[str, float]:
    """Return AUC for the shared units, share of units on their true side for three cuts, and both groups' means."""
    p = float(shared.mean())
    nearest = min(QUANTILES, key=lambda q: abs(q - (1 - p)))
    cuts: dict[str, Cut] = {
        "true_size": fs.Count(int(shared.sum())),
        "median": fs.Quantile(0.5),
        "nearest": fs.Quantile(nearest),
    }
    before = np.ones(len(shared), dtype=bool)  # undefined units stay shared, as in FedFac's first analysis
    right = {name: float((is_shared(values, cut, before) == shared).mean()) for name, cut in cuts.items()}
    return {
        "auc": auc(np.nan_to_num(values), shared),
        **right,
        "shared": float(np.nanmean(values[shared])),
        "personal": float(np.nanmean(values[~shared])),
    }


def true_parameters(scale: Scale, p: float, alpha: float) -> Tables:
    """Compute all statistics of the true parameters, and of the permuted ones.

    Rows of the placebo's agreement are means over several permutations; the other two statistics see the first, which
    leaves them unchanged (the communality, whose iteration takes long, at one contribution).
    """
    rows = []
    for seed in scale.every_seed:
        truth = draw(replace(scale, test=1), p, alpha, 1, seed).truth
        shared, rng = ~truth.personal_units, stream(seed, "placebo")
        placebos = [permuted(truth.weights, rng) for _ in range(scale.placebos)]
        for name, weights in (("true", [truth.weights]), ("permuted", placebos)):
            found = [
                (statistic, kappa, [PER_KAPPA[statistic](weights[0], kappa)])
                for statistic in PER_KAPPA
                for kappa in scale.kappas
                if name == "true" or statistic == "eigenvectors" or kappa == KAPPA
            ]
            found.append(("agreement", np.nan, [intraclass_correlation(w) for w in weights]))
            for statistic, kappa, draws in found:
                mean = pd.DataFrame([recovered(values, shared) for values in draws]).mean()
                rows.append({"parameters": name, "statistic": statistic, "kappa": kappa, "seed": seed, **mean})
    return {"truth": pd.DataFrame(rows).assign(p=p, alpha=alpha)}


# --- networks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OwnStart(fs.FedSplit):
    """FedSplit whose clients start their personal units at given hidden weights, (C, m, d)."""

    weights: np.ndarray

    def init(self, network: fs.federated.Network, federation: fs.Federation) -> fs.State:
        """Put the given weights into every client's row."""
        import torch

        state = super().init(network, federation)
        name = f"{LAYER}.weight"
        given = torch.as_tensor(self.weights, dtype=state.clients[name].dtype)
        return replace(state, clients=fs.federated.ClientStore.of({**state.clients, name: given}))


def start_weights(clients: Clients, noise: float, start: Start, seed: int) -> np.ndarray:
    """Draw the hidden weights (C, m, d) that clients start from; noise in standard deviations of the true weights.

    Noise is drawn for each client under the own start and once under the common one.
    """
    true = clients.truth.weights
    if start == "common":
        true = np.broadcast_to(true.mean(axis=0, keepdims=True), true.shape)
    rng = stream(seed, f"{start} start", round(1000 * noise))
    jitter = rng.normal(size=true.shape if start == "own" else true.shape[1:])
    return (true + noise * clients.truth.weights.std() * jitter).astype(np.float32)


def unit_statistics(
    scale: Scale, clients: Clients, start: np.ndarray, lr: float, seed: int
) -> dict[tuple[str, str], np.ndarray]:
    """Compute the statistics in `LOOKS`, of the weights after one local round and of the changes from `start`."""
    # the seed decides the batch orders alone, which differ from those of the runs
    ends = [trained_from(start, clients, _training(scale, lr), 100_000 * r + seed) for r in _replicates(scale)]
    seen = {"weights": np.stack(ends), "changes": np.stack(ends) - start}
    return {
        (statistic, what): intraclass_correlation(seen[what])
        if statistic == "agreement"
        else PER_KAPPA[statistic](seen[what][0], KAPPA)
        for statistic, what in LOOKS
    }


def _replicates(scale: Scale) -> range:
    return range(1, scale.replicates + 1)


def _training(scale: Scale, lr: float) -> fs.Training:
    return fs.Training(lr=lr, optimizer="adam", batch_size=scale.batch_size, local_epochs=scale.local_epochs)


def yardsticks(scale: Scale, clients: Clients, start: Start, seed: int) -> dict[str, fs.Method]:
    """Return the arms whose shared units need no statistic."""
    personal = clients.truth.personal_units
    at_random = partial(random_units, shared=int((~personal).sum()), per_client=False)
    given: Callable[..., fs.Method] = fs.FedSplit
    local: fs.Method = fs.Local()
    if start == "own":
        given = partial(OwnStart, weights=start_weights(clients, scale.trained_noise, start, seed))
        local = given(shared_units={LAYER: np.zeros(len(personal), dtype=bool), "head": np.zeros(1, dtype=bool)})
    return {
        "FedAvg": fs.FedAvg(),
        "Local": local,
        "true": given(shared_units=true_units),
        "random": given(shared_units=at_random),
    }


def arms(scale: Scale, clients: Clients, start: Start, lr: float, seed: int) -> dict[str, fs.Method]:
    """Return all arms; under the own start FedFac's shared units are found here, since its clients start apart."""
    shared = int((~clients.truth.personal_units).sum())
    found: dict[str, fs.Method]
    if start == "common":
        fedfac = partial(fs.FedFac, layers=[LAYER], tau=fs.Count(shared), replicates=scale.replicates)
        found = {name: fedfac(statistic=name) for name in LOOKED_AT}
    else:
        weights = start_weights(clients, scale.trained_noise, start, seed)
        values = unit_statistics(scale, clients, weights, lr, seed)
        everything = np.ones(weights.shape[1], dtype=bool)
        found = {
            name: OwnStart(
                shared_units={LAYER: is_shared(values[name, what], fs.Count(shared), everything)}, weights=weights
            )
            for name, what in LOOKED_AT.items()
        }
    return {**yardsticks(scale, clients, start, seed), **found}


def family(label: str) -> str:
    """Return the name of the group of arms that use one learning rate."""
    return label if label in ("FedAvg", "Local") else "split"


def federate(scale: Scale, methods: Mapping[str, fs.Method], clients: Clients, lr: float, seed: int) -> fs.Result:
    """Run methods on networks that start at the common start with the true output weights and no biases."""
    import torch

    module = fs.models.mlp(scale.d, scale.units, 1)()
    given = {
        f"{LAYER}.weight": start_weights(clients, scale.trained_noise, "common", seed)[0],
        "head.weight": clients.truth.output[None],
    }
    with torch.no_grad():
        for name, leaf in module.named_parameters():
            leaf.copy_(torch.as_tensor(given.get(name, np.zeros(leaf.shape))))
    last = range(max(1, scale.rounds - LAST + 1), scale.rounds + 1)
    result = fs.federate(
        methods, module, clients, _training(scale, lr), rounds=scale.rounds, participation=scale.participation,
        seed=seed, evaluate_at=last, progress=False,
    )  # fmt: skip
    return complete(result)


def tune(scale: Scale, p: float, alpha: float, samples: int, start: Start) -> pd.DataFrame:
    """Return validation accuracy over the grid, on other seeds; the true shared units stand for all choices of them."""
    rows = []
    for seed in scale.every_tuning_seed:
        drawn = draw(scale, p, alpha, samples, seed)
        held = Clients(drawn.train, drawn.validation, classes=drawn.classes, truth=drawn.truth)
        for lr in scale.rates:
            every = yardsticks(scale, held, start, seed)
            methods = {family(label): every[label] for label in ("FedAvg", "Local", "true")}
            result = primary_summary(federate(scale, methods, held, lr, seed).history, "accuracy", last=LAST)
            rows += [{"family": name, "lr": lr, "accuracy": float(result[name].iloc[0])} for name in methods]
    table = pd.DataFrame(rows).groupby(["family", "lr"], as_index=False)["accuracy"].mean()
    return table.assign(chosen=table.groupby("family")["accuracy"].transform("max") == table["accuracy"])


def networks(scale: Scale, p: float, alpha: float, samples: int, start: Start) -> Tables:
    """Measure recovery against the noise of the start, and test accuracy under the units found, at one setting."""
    tuning = tune(scale, p, alpha, samples, start)
    rates = {str(name): float(lr) for name, lr in tuning[tuning["chosen"]].groupby("family")["lr"].min().items()}
    noise, accuracy = [], []
    for seed in scale.every_seed[: scale.trained_seeds]:
        drawn = draw(scale, p, alpha, samples, seed)
        shared = ~drawn.truth.personal_units
        for level in scale.noises:
            weights = start_weights(drawn, level, start, seed)
            found = unit_statistics(scale, drawn, weights, rates["split"], seed)
            noise += [
                {"statistic": s, "looked_at": what, "noise": level, "seed": seed, **recovered(values, shared)}
                for (s, what), values in found.items()
            ]
        accuracy += list(_accuracies(scale, drawn, start, rates, seed))
    where = {"p": p, "alpha": alpha, "samples": samples, "start": start}
    tables = {"tuning": tuning, "noise": pd.DataFrame(noise), "accuracy": pd.DataFrame(accuracy)}
    return {name: table.assign(**where) for name, table in tables.items()}


def _accuracies(
    scale: Scale, clients: Clients, start: Start, rates: Mapping[str, float], seed: int
) -> Iterator[dict[str, str | float]]:
    """Return primary summaries of all arms under one seed, and the share of units on their true side."""
    every = arms(scale, clients, start, rates["split"], seed)
    for name, lr in rates.items():
        methods = {label: method for label, method in every.items() if family(label) == name}
        result = federate(scale, methods, clients, lr, seed)
        for metric in ("accuracy", "balanced_accuracy", "log_loss", "majority_share"):
            table = primary_summary(result.history, metric, last=LAST)
            for label in methods:
                yield {"arm": label, "seed": seed, "metric": metric, "value": float(table[label].iloc[0])}
        for label in methods if name == "split" else ():
            mask = result.states[label, seed].shared
            sides = mask[f"{LAYER}.weight"].flatten().numpy() == ~clients.truth.personal_units
            yield {"arm": label, "seed": seed, "metric": "units_right", "value": float(sides.mean())}


def run(scale: Scale, out: Path) -> Tables:
    """Run all parts of the study."""
    parts = [
        Part(f"agreement-networks-p{p}-alpha{alpha}-{start}", scale, partial(networks, scale, p, alpha, n, start))
        for p, alpha in scale.settings
        for n in [scale.control_samples if (p, alpha) == split.CONTROL else scale.samples]
        for start in STARTS
    ]
    parts += [
        Part(f"agreement-truth-p{p}-alpha{alpha}", scale, partial(true_parameters, scale, p, alpha))
        for p in scale.shared_units
        for alpha in scale.shared_inputs
    ]
    return run_parts(parts, out, "agreement study")


# --- what is read from the tables ------------------------------------------------------------------------------


def per_seed(
    tables: Tables, p: float, alpha: float, samples: int, start: str, metric: str = "accuracy"
) -> pd.DataFrame:
    """Return primary summaries of the networks at one setting and start: one row per seed, one column per arm."""
    rows = tables["accuracy"]
    return split.per_seed({"accuracy": rows[rows["start"] == start]}, p, alpha, samples, metric)


def places_of(table: pd.DataFrame) -> list[tuple[float, float, int, str]]:
    """Return the networks' settings and starts."""
    rows = (
        table[["p", "alpha", "samples", "start"]].drop_duplicates().sort_values(["start", "p"], ascending=[False, True])
    )
    return [(float(p), float(a), int(n), str(start)) for p, a, n, start in rows.itertuples(index=False)]

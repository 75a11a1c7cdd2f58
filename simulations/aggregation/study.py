"""Measure what averaging coefficients and atoms separately does on a toy (filter-decomposition paper, Figure 1b).

The study trains the toy model ``w = alpha D`` on Gaussian classes, whose centres differ between clients. As the paper's
Figure 1b it compares 5 with 25 clients in a round, for FedAvg and for averages apart. It compares two aggregates of m
clients: the average of products (plain, FedAvg's) and the product of averages (decomposed). Bias
and variance come from the exact formula for the law of trained clients, from samples of that law, and from groups of
other clients; once with a common start, as in the algorithm, and once with independent random starts. Figures 3b and
4c, which show a real network, are the matter of other studies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import fedstat as fs
from fedstat import data
from fedstat._tables import Tables
from fedstat.federated.client.network import Network
from fedstat.federated.state import Federation, State
from fedstat.federated.store import ClientStore
from fedstat.theory.product_average import product_average_moments
from simulations.contract import About, Shown
from simulations.estimates import Estimate, mean_of, reason, undefined
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "Averaging coefficients and atoms apart",
    "Filter decomposition",
    "",
    order=80,
    shows=(
        Shown(
            "Figure 1b", "loss landscape of a model of two weights, averaged over 5 and over 25 clients", "in part",
            "the paper does not state Σ (ours is the identity), rounds or rate; 5 or 25 of 100 clients whose class "
            "centres differ take part in each of 25 rounds; averages apart stand beside FedAvg",
        ),
    ),
    data=(),
    times={
        "smoke": "seconds",
        "quick": "half a minute on two cores",
        "paper": "four minutes on two cores (an estimate: eight times the clients of quick)",
    },
)  # fmt: skip
#: Sizes of an aggregate.
GROUPS = (2, 3, 5, 10, 20, 40)
STARTS = {"common": "common start", "independent": "independent random starts"}
#: Where the trajectories begin: coefficient one, and this atom.
START = (-0.35, 0.5)
PARTICIPANTS = (5, 25)
#: Smaller seeds served to choose the design and to word claims about it.
FIRST_SEED = 100


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    Half of the `clients` make the law that the formula is applied to, the other half form the groups. Client k's
    classes lie around ``+-((2, 2) + spread z_k)``. `shift` is added to all seeds.
    """

    clients: int
    seeds: int
    draws: int
    runs: int
    rounds: int
    samples: int = 50
    spread: float = 1.0
    lr: float = 0.001
    batch_size: int = 10
    epochs: int = 20
    warmup_clients: int = 20
    warmup_rounds: int = 5
    shift: int = 0

    @property
    def training(self) -> fs.Training:
        """The settings of local training, the same throughout."""
        return fs.Training(lr=self.lr, batch_size=self.batch_size, local_epochs=self.epochs)


SCALES = {
    "smoke": Scale(clients=400, seeds=2, draws=200, runs=3, rounds=6, epochs=2, warmup_rounds=2, shift=SECOND_LOOK),
    "quick": Scale(clients=4000, seeds=10, draws=4000, runs=12, rounds=25, shift=SECOND_LOOK),
    "paper": Scale(clients=16000, seeds=20, draws=20000, runs=30, rounds=25),
}


#: The least-squares solution over all clients, whichever are drawn.
TRUTH: data.GaussianTruth = data.gaussian_task(clients=1, samples=1, test=0, spread=Scale.spread).truth


@dataclass(frozen=True, kw_only=True)
class _Apart(fs.Local):
    """Local training in which every client starts from initial weights of its own."""

    def init(self, network: Network, federation: Federation) -> State:
        return replace(super().init(network, federation), clients=ClientStore.of(federation.fresh()))


@dataclass(frozen=True, kw_only=True)
class _Traced(fs.FedAvg):
    """FedAvg that records the server's weights of every round."""

    def record(self, state: State) -> Mapping[str, Tensor]:
        return state.server


def draw(scale: Scale, clients: int, seed: int, purpose: int) -> data.Clients:
    """Draw clients anew, each with its own class centres ``+-((2, 2) + spread z_k)`` and unit noise."""
    rng = np.random.default_rng([seed, purpose])
    return data.gaussian_task(clients=clients, samples=scale.samples, test=0, spread=scale.spread, seed=rng)


def trained(scale: Scale, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return each client's coefficient (K,) and atom (K, 2) after one round of local training, by the kind of start."""
    model = fs.models.atom_linear(2)
    early = fs.federate(
        fs.FedAvg(),
        model,
        draw(scale, scale.warmup_clients, seed, purpose=0),
        scale.training,
        rounds=scale.warmup_rounds,
        seed=seed,
        evaluate_at=(),
        progress=False,
    )
    clients = draw(scale, scale.clients, seed, purpose=1)
    return {
        "common": _local(scale, fs.Local(), early.personal(0), clients, seed),
        "independent": _local(scale, _Apart(), model, clients, seed),
    }


def _local(
    scale: Scale, method: fs.Method, model: nn.Module | fs.models.Factory, clients: data.Clients, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the clients send in one round of FedAvg: their leaves after local training."""
    result = fs.federate(method, model, clients, scale.training, rounds=1, seed=seed, evaluate_at=(), progress=False)
    ((_, state),) = result.states.items()
    return state.clients["alpha"].double().numpy()[:, 0], state.clients["atom"].double().numpy()


def exact(alpha: np.ndarray, atom: np.ndarray, m: int) -> dict[str, float]:
    """Apply the formula to the law of these clients; variances are summed over the filter's two entries."""
    uniform, weights = np.full(len(alpha), 1 / len(alpha)), np.full(m, 1 / m)
    entries = [product_average_moments(np.stack([alpha, d], axis=1), uniform, weights) for d in atom.T]
    plain, decomposed, mse = (
        float(sum(getattr(e, name) for e in entries))
        for name in ("plain_variance", "decomposed_variance", "decomposed_mse")
    )
    return {"plain_variance": plain, "decomposed_variance": decomposed, "squared_bias": mse - decomposed, "mse": mse}


def _aggregates(alpha: np.ndarray, atom: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the plain and the decomposed aggregates of clients given as (groups, m) and (groups, m, 2)."""
    return (alpha[..., None] * atom).mean(axis=1), alpha.mean(axis=1)[:, None] * atom.mean(axis=1)


def sampled(alpha: np.ndarray, atom: np.ndarray, m: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Measure the same by drawing m clients from their law repeatedly."""
    drawn = data.product_clients(np.column_stack([alpha, atom]), clients=m, repeats=draws, seed=rng)
    plain, decomposed = _aggregates(drawn[..., 0], drawn[..., 1:])
    expected = (alpha[:, None] * atom).mean(axis=0)
    squares = ((decomposed - expected) ** 2).sum(axis=1)
    variance = float(decomposed.var(axis=0, ddof=1).sum())
    return {
        "plain_variance": float(plain.var(axis=0, ddof=1).sum()),
        "decomposed_variance": variance,
        "squared_bias": float(squares.mean()) - variance,
        "mse": float(squares.mean()),
    }


def grouped(alpha: np.ndarray, atom: np.ndarray, m: int) -> dict[str, float]:
    """Measure the same over disjoint groups of m clients; the squared bias is corrected for its own noise."""
    groups = len(alpha) // m
    plain, decomposed = _aggregates(alpha[: groups * m].reshape(groups, m), atom[: groups * m].reshape(groups, m, 2))
    difference = decomposed - plain
    bias = float((difference.mean(axis=0) ** 2).sum() - difference.var(axis=0, ddof=1).sum() / groups)
    variance = float(decomposed.var(axis=0, ddof=1).sum())
    return {
        "plain_variance": float(plain.var(axis=0, ddof=1).sum()),
        "decomposed_variance": variance,
        "squared_bias": bias,
        "mse": variance + bias,
    }


def one_seed(scale: Scale, seed: int) -> Tables:
    """Measure both starts on the same clients."""
    rows = []
    for start, (alpha, atom) in trained(scale, seed).items():
        half, rng = scale.clients // 2, np.random.default_rng([seed, 2])
        law, rest = (alpha[:half], atom[:half]), (alpha[half:], atom[half:])
        for m in GROUPS:
            for source, values in (
                ("formula", exact(*law, m)),
                ("sampling", sampled(*law, m, scale.draws, rng)),
                ("training", grouped(*rest, m)),
            ):
                rows.append({"seed": seed, "start": start, "clients": m, "source": source, **values})
    return {"variance": pd.DataFrame(rows)}


def landscape(scale: Scale) -> Tables:
    """Return the trajectories of both aggregates in the plane of w, and one round's local and virtual clients.

    The whole path is kept of the first run, and the mean excess risk over the last ten rounds of every run. Both
    aggregates see the same participants and batches.
    """
    everyone = draw(scale, 100, scale.shift, purpose=3)
    paths, late = [], []
    for participants in PARTICIPANTS:
        for aggregate, model in (("FedAvg", _linear()), ("decomposed", _product())):
            result = fs.federate(
                _Traced(),
                model,
                everyone,
                scale.training,
                rounds=scale.rounds,
                participation=participants / 100,
                seed=range(scale.shift, scale.shift + scale.runs),
                evaluate_at=(),
                progress=False,
            )
            for (_, seed), record in result.records.items():
                w = record["weight"][:, 0] if aggregate == "FedAvg" else record["alpha"] * record["atom"]
                names = {"clients": participants, "aggregate": aggregate}
                if seed == scale.shift:
                    path = pd.DataFrame(np.concatenate([[START], w]), columns=["w1", "w2"])
                    paths.append(path.assign(**names, round=np.arange(len(path))))
                late.append({**names, "run": seed, "excess_risk": everyone.truth.excess(w[-10:]).mean()})

    few = draw(scale, PARTICIPANTS[0], scale.shift + 2, purpose=4)
    alpha, atom = _local(scale, fs.Local(), _product(), few, scale.shift)
    products = [
        {"coefficient": k, "atom": j, "w1": a * d[0], "w2": a * d[1]}
        for k, a in enumerate(alpha)
        for j, d in enumerate(atom)
    ]
    return {
        "trajectories": pd.concat(paths, ignore_index=True),
        "late": pd.DataFrame(late),
        "products": pd.DataFrame(products),
    }


def _linear() -> nn.Module:
    """Build the plain linear model with the initial weights."""
    module = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([START]))
    return module


def _product() -> nn.Module:
    """Build the factorised model with the same initial weights."""
    module = fs.models.atom_linear(2)()
    with torch.no_grad():
        module.load_state_dict({"alpha": torch.ones(1), "atom": torch.tensor(START)})
    return module


def run(scale: Scale, out: Path) -> Tables:
    """Run all seeds, and the trajectories in the plane."""
    parts = [Part("aggregation-landscape", scale, partial(landscape, scale))]
    first = FIRST_SEED + scale.shift
    parts += [
        Part(f"aggregation-{seed}", scale, partial(one_seed, scale, seed)) for seed in range(first, first + scale.seeds)
    ]
    return run_parts(parts, out, "aggregation: seeds")


def over_seeds(values: pd.Series, level: float = 0.95) -> Estimate:
    """Return geometric mean and t limits on the log scale; undefined, and so not drawn, if a value is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = mean_of(np.log(values).rename(f"logarithm of {values.name}"), level)
    mean, low, high = map(float, np.exp(found))
    return undefined(reason(found), mean) if reason(found) else (mean, low, high)

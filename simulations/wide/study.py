"""Compare FedSplit's two-layer network with Theorem 1 and with its limit of infinite width.

There is one fixed sample with inputs in the unit ball; only the random initialisation is repeated, as the theorem has
it. There are two starts: the teacher's labels with an ordinary random start, and labels along the bottom eigenvector of
the kernel that training sees, fixed beforehand, with an antisymmetric start whose output is zero. There are two
conventions: local steps with the client's mean loss (with 1/n), and with the sum over its samples (without), as the
theorem's update. Beside it stand samples whose smallest eigenvalue spans two decades (`simulations.wide.designs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.ntk import extreme_eigenvalues, finite_gram, finite_personal_gram, infinite_gram, personal_gram
from fedstat.theory.convergence import convergence_factor, limit_trajectory
from simulations.contract import About
from simulations.estimates import mean_of
from simulations.parts import SECOND_LOOK, Part, complete, run_parts
from simulations.wide.designs import design
from simulations.wide.teacher import taught

ABOUT = About(
    "Wide networks and the convergence theorem", "FedSplit/FedFac", "Theorem 1", order=60,
    times={"paper": "11 minutes of two cores"},
)  # fmt: skip
STARTS = {"teacher": "teacher's labels, random start", "bottom": "bottom eigenvector, zero output"}
CONVENTIONS = ("without 1/n", "with 1/n")
#: Seeds that train as one stack; wide networks would not fit otherwise.
_BLOCK = 10


@dataclass(frozen=True)
class Scale:
    """Size of the study; `shift` is added to the seeds of the random initialisations.

    `designs` is the number of samples whose smallest eigenvalue differs, with networks of `design_widths` and
    `design_seeds` starts.
    """

    seeds: int
    widths: tuple[int, ...]
    rounds: int
    repeats: int
    clients: int = 3
    samples: int = 6
    d: int = 8
    local_steps: int = 5
    designs: int = 20
    design_widths: tuple[int, ...] = (32, 128, 512, 2048, 8192, 32768)
    design_seeds: int = 5
    shift: int = 0


SCALES = {
    "smoke": Scale(
        seeds=2, widths=(64, 256), rounds=10, repeats=20, designs=3, design_widths=(32, 256), design_seeds=2,
        shift=SECOND_LOOK,
    ),
    "quick": Scale(
        seeds=8, widths=(128, 1024, 8192), rounds=30, repeats=50, designs=5, design_widths=(32, 1024),
        design_seeds=2, shift=SECOND_LOOK,
    ),
    "paper": Scale(seeds=60, widths=(128, 2048, 32768), rounds=40, repeats=1000),
}  # fmt: skip
#: The largest and the smallest angle between two inputs of a client, radians: two decades of the smallest eigenvalue.
ANGLES = (1.2, 0.012)


def problem(scale: Scale, start: str) -> tuple[Clients, np.ndarray, np.ndarray, np.ndarray]:
    """Return the clients (training samples also held out), both limit kernels, and the labels in order of clients."""
    drawn = taught(scale.clients, scale.samples, scale.d)
    x = np.asarray(drawn.x, dtype=np.float64)
    shared, personal = infinite_gram(x), personal_gram(x, np.repeat(np.arange(scale.clients), scale.samples))
    y = drawn.y.astype(np.float64)
    if start == "bottom":
        bottom = np.linalg.eigh(shared / scale.clients + personal)[1][:, 0]
        y = np.sqrt(bottom.size) / 2 * bottom.reshape(y.shape)
    samples = replace(drawn, y=y.astype(np.float32))
    return Clients(train=samples, test=samples), shared, personal, y.ravel()


def steps(scale: Scale, shared: np.ndarray, personal: np.ndarray) -> dict[str, float]:
    """Return step sizes without 1/n: G steps together are one over the largest eigenvalue of the round's kernel."""
    largest = extreme_eigenvalues(shared / scale.clients + personal)[1]
    return {"eta_g": 1.0, "eta_l": 1 / (scale.local_steps * largest)}


def networks(scale: Scale, width: int, start: str, convention: str, seeds: range) -> Tables:
    """Return the squared residual of networks with `width` personal and `width` shared units, over its start."""
    clients, shared, personal, _ = problem(scale, start)
    size = steps(scale, shared, personal)
    lr = size["eta_l"] * (scale.samples if convention == "without 1/n" else 1)
    units = np.repeat([False, True], width)
    result = fs.federate(
        fs.FedSplit(shared_units={"hidden": units}, independent=True, weighting="uniform"),
        fs.models.split_relu(scale.d, personal=width, shared=width, antisymmetric=start == "bottom"),
        clients,
        fs.Training(lr=lr, batch_size=scale.samples, local_epochs=scale.local_steps),
        rounds=scale.rounds,
        seed=seeds,
        evaluate_at=range(scale.rounds + 1),
        progress=False,
    )
    history = complete(result).history
    losses = history[history["metric"] == "mse"]
    total = losses.groupby(["seed", "round"])["value"].sum().unstack("round")
    ratio = total.div(total[0], axis=0).stack().rename("ratio").reset_index()
    return {"ratios": ratio.assign(start=start, convention=convention, width=width)}


def summaries(scale: Scale, ratios: pd.DataFrame, limit: pd.DataFrame) -> Tables:
    """Return a row per run, which says whether it stayed under the bound, and the mean over runs, round by round."""
    bounded = ratios.merge(limit, on=["start", "convention", "round"])
    bounded["below"] = bounded["ratio"] <= (1 + 1e-6) * bounded["bound"]
    keys = ["start", "convention", "width"]
    runs = bounded.groupby([*keys, "seed"])["below"].all().reset_index()
    curves = []
    for values, rows in ratios.groupby([*keys, "round"]):
        mean, low, high = mean_of(rows["ratio"])
        curves.append({**dict(zip([*keys, "round"], values, strict=True)), "ratio": mean, "low": low, "high": high})
    return {"networks": runs, "curves": pd.DataFrame(curves)}


def limits(scale: Scale, start: str, convention: str) -> pd.DataFrame:
    """Return the claimed bound and the limit of infinite width, from the residual of a zero output."""
    _, shared, personal, y = problem(scale, start)
    size, n = steps(scale, shared, personal), scale.samples
    step = size["eta_l"] / n if convention == "with 1/n" else size["eta_l"]
    norms = limit_trajectory(
        shared,
        personal,
        -y,
        [slice(first, first + n) for first in range(0, len(y), n)],
        eta_g=size["eta_g"],
        steps=[step] * scale.clients,
        local_steps=scale.local_steps,
        rounds=scale.rounds,
    )
    rounds = np.arange(scale.rounds + 1)
    factor = convergence_factor(shared, personal, **size, local_steps=scale.local_steps, clients=scale.clients)
    bound = factor**rounds
    keys = {"start": start, "convention": convention, "round": rounds}
    return pd.DataFrame({**keys, "limit": norms / norms[0], "bound": bound})


def concentration(scale: Scale) -> Tables:
    """Return the Frobenius distance of kernels of finite width from their limit, and its exact root mean square.

    An entry is ``x_i . x_j`` times a mean of m independent indicators of probability q = H_ij / x_i . x_j, so the mean
    squared distance is ``(1/m) sum_ij (x_i . x_j)^2 q_ij (1 - q_ij)``, over pairs of one client for personal units.
    """
    clients, shared, personal, y = problem(scale, "teacher")
    x = np.asarray(clients.train.x, dtype=np.float64).reshape(len(y), -1)
    owner = np.repeat(np.arange(scale.clients), scale.samples)
    inner, q = x @ x.T, shared / (x @ x.T)
    squares = inner**2 * q * (1 - q)
    rng = np.random.default_rng(1 + scale.shift)
    rows = []
    for width in scale.widths:
        exact = {"shared": squares.sum(), "personal": squares[owner[:, None] == owner].sum()}
        distances: dict[str, list[float]] = {"shared": [], "personal": []}
        for _ in range(scale.repeats):
            w = rng.normal(size=(1 + scale.clients, width, scale.d))
            distances["shared"].append(float(((finite_gram(x, w[0]) - shared) ** 2).sum()))
            distances["personal"].append(float(((finite_personal_gram(x, owner, w[1:]) - personal) ** 2).sum()))
        for kernel, values in distances.items():
            mean, low, high = mean_of(values)
            keys = {"kernel": kernel, "width": width, "exact": float(np.sqrt(exact[kernel] / width))}
            rows.append({**keys, "rms": mean**0.5, "low": max(low, 0.0) ** 0.5, "high": high**0.5})
    return {"concentration": pd.DataFrame(rows)}


def run(scale: Scale, out: Path) -> Tables:
    """Run all widths, starts and conventions, kernels of finite width, and the limits, which cost nothing."""
    combinations = [(start, convention) for start in STARTS for convention in CONVENTIONS]
    end = scale.shift + scale.seeds
    blocks = [range(i, min(i + _BLOCK, end)) for i in range(scale.shift, end, _BLOCK)]
    parts = [
        Part(
            f"wide-{width}-{start}-{convention.replace('/', '')}-{seeds.start}".replace(" ", "-"),
            scale,
            partial(networks, scale, width, start, convention, seeds),
        )
        for width in reversed(scale.widths)
        for start, convention in combinations
        for seeds in blocks
    ]
    parts.append(Part("wide-concentration", scale, partial(concentration, scale)))
    starts = range(scale.shift, scale.shift + scale.design_seeds)
    sizes = (scale.clients, scale.samples, scale.d)
    for number, angle in enumerate(np.geomspace(*ANGLES, scale.designs)):
        one = partial(design, *sizes, float(angle), number, scale.design_widths, starts)
        parts.append(Part(f"wide-design-{number}", scale, one))
    tables = run_parts(parts, out, "wide: parts")
    limit = pd.concat([limits(scale, *c) for c in combinations], ignore_index=True)
    return {
        **summaries(scale, tables["ratios"], limit),
        "concentration": tables["concentration"],
        "limits": limit,
        "designs": tables["designs"],
    }

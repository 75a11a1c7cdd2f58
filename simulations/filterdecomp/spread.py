"""How far the aggregated filters vary with who takes part, of one round's trained clients (Figure 3b)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

import fedstat as fs
from fedstat._tables import Tables
from fedstat.federated.state import State, Update
from fedstat.methods import FilterDecomp
from simulations.filterdecomp.cells import Cell, Size, network, population


@dataclass(frozen=True)
class Spread:
    """Moments of a layer's aggregated filters over all choices of m of M clients; squares summed over the entries.

    Attributes
    ----------
    plain, decomposed : float
        Variance of the average of products, and of the product of averages.
    squared_bias : float
        Squared distance of the expected product of averages from the average product of all M clients, of which the
        average of products is an unbiased estimate.
    energy : float
        Squared norm of the average product of all M clients.
    """

    plain: float
    decomposed: float
    squared_bias: float
    energy: float


def drawn(m: int, size: int, coefficients: tuple[int, ...]) -> float:
    """Return the sum of coefficients times the probabilities that 1, 2, ... given clients are among m of `size`."""
    total, probability = 0.0, 1.0
    for r, coefficient in enumerate(coefficients):
        probability *= (m - r) / (size - r) if m > r else 0.0
        total += coefficient * probability
    return total


def spread(coefficients: ArrayLike, atoms: ArrayLike, m: int) -> Spread:
    """Return the moments of both aggregates of m clients, drawn without replacement and with equal weights.

    `theory_checks.filter_decomposition.drawn_clients` has them for one atom. With deviations u, v of coefficients and
    atoms from their means over all clients, ``L_k = u_k x D0 + a0 x v_k`` and ``W_kl = u_k x v_l`` (sums over atoms),
    the product of averages is ``Q0 + L + W`` with averages over the m clients, and ::

        E|L|^2   = (pi_1 - pi_2) / m^2 sum_k |L_k|^2
        E<L, W>  = (pi_1 - 3 pi_2 + 2 pi_3) / m^3 sum_k <L_k, W_kk>
        E|W|^2   = ((pi_1 - 7 pi_2 + 12 pi_3 - 6 pi_4) sum_k |W_kk|^2
                    + (pi_2 - 2 pi_3 + pi_4) (|sum_k W_kk|^2 + sum_kl |W_kl|^2 + sum_kl <W_kl, W_lk>)) / m^4

    where pi_r is the probability that r given clients are drawn: in sums over distinct clients all terms with a lone
    deviation vanish. Inner products of filters come from those of coefficients and of atoms.

    Parameters
    ----------
    coefficients : array_like, shape (M, r, o, i)
        The clients' coefficients of one layer.
    atoms : array_like, shape (M, a, b, r)
        Their atoms.
    m : int
        Clients drawn, in 1..M.
    """
    alpha, d = np.asarray(coefficients, np.float64), np.moveaxis(np.asarray(atoms, np.float64), 3, 1)
    size, rank = alpha.shape[:2]
    u, v = _gram(alpha.reshape(size, rank, -1)), _gram(d.reshape(size, rank, -1))
    k = np.arange(size)
    uu, vv, ua, vd = u[k, k], v[k, k], u[:-1, -1], v[:-1, -1]
    linear = float((uu * v[-1, -1] + u[-1, -1] * vv + 2 * ua * vd.swapaxes(1, 2)).sum())
    cubic = float((uu * vd.swapaxes(1, 2) + ua.swapaxes(1, 2) * vv).sum())
    own, mean_product = float((uu * vv).sum()), float((u[:-1, :-1] * v[:-1, :-1]).sum())
    across = float((uu.sum(axis=0) * vv.sum(axis=0)).sum())
    crossed = float((u[:-1, :-1] * v[:-1, :-1].swapaxes(0, 1)).sum())
    two, three = drawn(m, size, (1, -1)) / m**2, drawn(m, size, (1, -3, 2)) / m**3
    four = drawn(m, size, (1, -7, 12, -6)) * own
    four += drawn(m, size, (0, 1, -2, 1)) * (mean_product + across + crossed)
    center = np.einsum("kro,krd->od", alpha.reshape(size, rank, -1), d.reshape(size, rank, -1), optimize=True) / size
    return Spread(
        plain=two * (linear + 2 * cubic + own - mean_product / size),
        decomposed=two * linear + 2 * three * cubic + four / m**4 - two**2 * mean_product,
        squared_bias=(two - 1 / size) ** 2 * mean_product,
        energy=float((center**2).sum()),
    )


def _gram(x: np.ndarray) -> np.ndarray:
    """Return inner products of the clients' deviations and, in the last place, of their mean, (M + 1, M + 1, r, r)."""
    mean = x.mean(axis=0)
    rows = np.concatenate([x - mean, mean[None]])
    size, rank = rows.shape[:2]
    flat = rows.reshape(size * rank, -1)
    return (flat @ flat.T).reshape(size, rank, size, rank).transpose(0, 2, 1, 3)


def plain_spread(filters: ArrayLike, m: int) -> Spread:
    """Return the moments of the average of m clients' filters (M, ...), drawn without replacement."""
    x = np.asarray(filters, np.float64).reshape(len(np.asarray(filters)), -1)
    mean = x.mean(axis=0)
    variance = drawn(m, len(x), (1, -1)) / m**2 * float(((x - mean) ** 2).sum())
    return Spread(variance, float("nan"), 0.0, float((mean**2).sum()))


def _some(update: Update, m: int) -> Update:
    """Return what m of the participants trained, drawn at random, with weights that sum to one."""
    few = torch.from_numpy(np.sort(update.rng.permutation(len(update.ids))[:m]))
    start, end = ({name: leaf[few] for name, leaf in held.items()} for held in (update.start, update.end))
    weight = update.weight[few] / update.weight[few].sum()
    return replace(update, ids=update.ids[few], start=start, end=end, weight=weight)


@dataclass(frozen=True, kw_only=True)
class FewAveraged(fs.FedAvg):
    """FedAvg in which all participants train, and the server averages a random few of them."""

    few: int = 1

    def aggregate(self, state: State, update: Update) -> State:
        """Average a random few."""
        return super().aggregate(state, _some(update, self.few))


@dataclass(frozen=True, kw_only=True)
class FewDecomposed(FilterDecomp):
    """FilterDecomp in which all participants train, and the server averages a random few of them."""

    few: int = 1

    def aggregate(self, state: State, update: Update) -> State:
        """Average a random few."""
        return super().aggregate(state, _some(update, self.few))


@dataclass(frozen=True)
class Watch:
    """Runs of both methods in which all clients train in every round; `few` are averaged, `sizes` are asked about."""

    cell: Cell
    size: Size
    rates: Mapping[str, float]
    seed: int
    rounds: int
    few: int
    sizes: tuple[int, ...]


def watch(job: Watch) -> Tables:
    """Return the moments of every layer's aggregated filters in every round, of both methods under one seed.

    FilterDecomp's clients give both aggregates; FedAvg's the average of filters.
    """
    rows = []
    methods = {"FedAvg": FewAveraged(few=job.few), "FilterDecomp": FewDecomposed(few=job.few)}
    for arm, made in methods.items():
        training = fs.Training(lr=job.rates[arm], momentum=0.9, batch_size=job.size.batch, local_epochs=job.size.epochs)
        played = fs.rounds(
            {arm: made}, network(job.cell, job.size), partial(population, job.cell, job.size),
            training, seed=job.seed, device=job.size.device,
        )  # fmt: skip
        for one in played:
            (update,) = one.updates.values()
            for layer, found in layers(update, job.sizes):
                rows.append({"arm": arm, "seed": job.seed, "round": one.number, "layer": layer, **found})
            if one.number == job.rounds:
                break
    return {"spread": pd.DataFrame(rows).assign(cell=job.cell.name)}


def layers(update: Update, sizes: tuple[int, ...]) -> list[tuple[str, dict[str, float]]]:
    """Return the moments of each convolution for each number of clients."""
    end = {name: leaf.cpu().numpy() for name, leaf in update.end.items() if name.startswith("conv")}
    found = []
    for layer in sorted({name.split(".")[0] for name in end}):
        for m in sizes:
            if f"{layer}.weight.alpha" in end:
                s = spread(end[f"{layer}.weight.alpha"], end[f"{layer}.weight.atoms"], m)
            else:
                s = plain_spread(end[f"{layer}.weight"], m)
            moments = {"plain": s.plain, "decomposed": s.decomposed, "bias": s.squared_bias, "energy": s.energy}
            found.append((layer, {"clients": m, **moments}))
    return found

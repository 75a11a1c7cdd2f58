"""FS-18: the complexity term bounds the loss, as far as measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.claims import Claim, Evidence, Sides, Studies, all_of, both, compared, missing, probability, within
from fedstat.inference import mean_interval
from fedstat.ntk import infinite_gram, personal_gram
from fedstat.theory.generalisation import complexity_term
from theory_checks.fedsplit.growth import on_a_sphere

#: The complexity study's labels, in words.
_LABELS = {"linear": "of a linear teacher", "relu": "of a ReLU teacher", "random": "by coin flips"}


def _bounded(cases: Iterable[tuple[str, pd.DataFrame]]) -> Evidence:
    """Independent seeds of cases whose term is below one: the measured loss is within the term.

    A case counts as a whole if the term is below one under 95% of its seeds. How much smaller the term could be is told
    by the 95% quantile of the loss over the term.
    """
    parts, quantiles = [], []
    for case, rows in cases:
        if (rows["term"] < 1).mean() < 0.95:
            continue
        ratios = rows["loss"] / rows["term"]
        what = f"{case}: seeds with a loss within the term"
        parts.append(probability(int((ratios <= 1).sum()), len(rows), at_least=0.95, what=what))
        quantiles.append(Sides(case, float(ratios.quantile(0.95)), 1.0, ("95% quantile of loss over term", "claimed")))
    if not parts:
        return missing("a case whose term is below one")
    return both(all_of(parts), compared(quantiles, of="cases"))


def _studied(tables: Tables) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the seeds of the complexity study, by labels and number of clients."""
    for (labels, clients), rows in tables["repeats"].groupby(["labels", "clients"]):
        yield f"labels {_LABELS[str(labels)]}, C = {clients}", rows


def _small_flips() -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield seeds with 64 inputs in 256 dimensions and labels by coin flips, so small that the term is below one.

    The trained model is regression with the kernel ``H_s / C + H_p`` (FS-20c), its loss is measured on 128 more inputs.
    """
    n, new = 64, 128
    for clients in (1, 2, 4):
        owner, size = np.arange(n + new) % clients, 0.25 / clients
        rows = []
        for seed in range(60):
            rng = np.random.default_rng([seed, clients])
            x, y = on_a_sphere(rng, n + new, 256), size * rng.choice([-1.0, 1.0], size=n + new)
            shared, personal = infinite_gram(x), personal_gram(x, owner)
            kernel = shared / clients + personal
            fitted = kernel[n:, :n] @ np.linalg.solve(kernel[:n, :n], y[:n])
            term = complexity_term(shared[:n, :n], personal[:n, :n], y[:n], clients)
            rows.append({"term": term, "loss": float(np.minimum(1.0, np.abs(fitted - y[n:])).mean())})
        yield f"labels ±{size:g} by coin flips, C = {clients}", pd.DataFrame(rows)


def _ranked(tables: Tables, labels: Sequence[str]) -> Evidence:
    """Term and loss rise together over the partitions of one sample: mean rank correlation over samples."""
    level = 1 - 0.05 / len(labels)
    parts = []
    for name in labels:
        values = tables["ranks"].query(f"labels == {name!r}")["correlation"]
        _, low, high = mean_interval(values, level)
        what = f"rank correlation of term and loss over partitions, labels {_LABELS[name]}"
        parts.append(within(low, high, (0.5, 1.0), cases=len(values), what=what, level=level))
    return all_of(parts)


FS18 = Claim(
    id="FS-18",
    place="section 3.3, Theorem 2, displayed bound",
    said_by="paper",
    words="The complexity term, with a term that falls like √(log(N)/N), bounds the trained model's population "
    "loss. (Measured losses do not contradict it; they test it only where the term is below one, with labels "
    "of unit size for one or two clients of 1,024 samples.)",
    statement="EE ell(h(x), y) <= 2 sqrt(C / n dot y^top (H^s + H^p)^(-1) y) + O(sqrt(log(N / (lambda delta)) / (2N)))",
    severity="false",
    assumptions="δ = 0.05; the hidden term is taken to be zero, which makes the bound sharper (were it exceeded, "
    "nothing would follow); loss min(1, |h − y|), trained in the wide limit with η_g = 1; labels of unit mean square, "
    "not all in [0, 1], or small ones; cases with a term above one are not counted, among them all coin flips of unit "
    "size; 'as the loss does' is a mean rank correlation of at least one half",
    sensitivity="a share of 5% of seeds above the term, where 59 of 59 are below it; for teachers' labels a tenth of "
    "the term would bound the loss too; for small coin flips in many dimensions and a single client half of it would "
    "not",
)


@FS18.reading("the wide limit, cases of the study with a term below one")
def bounded(studies: Studies) -> Evidence:
    return _bounded(_studied(studies["complexity"]))


@FS18.reading("the wide limit, labels by coin flips so small that the term is below one, inputs in many dimensions")
def small_flips() -> Evidence:
    return _bounded(_small_flips())


@FS18.reading("the term ranks partitions as the loss does, teachers' labels", natural=False)
def ranked(studies: Studies) -> Evidence:
    return _ranked(studies["complexity"], ("linear", "relu"))


@FS18.reading("the same for labels by coin flips", natural=False)
def coin_flips(studies: Studies) -> Evidence:
    return _ranked(studies["complexity"], ("random",))

"""FS-18: the complexity term and the measured loss."""

from __future__ import annotations

from collections.abc import Sequence

from fedstat._tables import Tables
from fedstat.claims import (
    Claim,
    Evidence,
    Studies,
    all_of,
    missing,
    probability,
    within,
)
from fedstat.inference import mean_interval

#: The complexity study's labels, in words.
_LABELS = {"linear": "of a linear teacher", "relu": "of a ReLU teacher", "random": "by coin flips"}


def _bounded(tables: Tables, *, slack: float = 1.0) -> Evidence:
    """Independent repeats of the cases whose term is below one: the measured loss is within `slack` times the term.

    A case, labels and a number of clients, counts as a whole if the term is below one in 95% of its repeats.
    """
    parts = []
    for (labels, clients), rows in tables["repeats"].groupby(["labels", "clients"]):
        if (rows["term"] < 1).mean() < 0.95:
            continue
        good = int((rows["loss"] <= slack * rows["term"]).sum())
        sharpest = (rows["loss"] / rows["term"]).max()
        case = f"labels {_LABELS[str(labels)]}, C = {clients}"
        what = f"{case}: repeats with a loss within the term (largest ratio {sharpest:.2g})"
        parts.append(probability(good, len(rows), at_least=0.95, what=what))
    return all_of(parts) if parts else missing("a case whose term is below one")


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
    words="The complexity term, with a term that falls like √(log(N)/N), bounds the trained model's population loss.",
    statement="EE ell(h(x), y) <= 2 sqrt(C / n dot y^top (H^s + H^p)^(-1) y) + O(sqrt(log(N / (lambda delta)) / (2N)))",
    severity="false",
    assumptions="δ = 0.05; the hidden term is taken to be zero, which makes the bound sharper (were it exceeded, "
    "nothing would follow); loss min(1, |h − y|), trained in the wide limit with η_g = 1; labels of unit mean square, "
    "not all in [0, 1]; cases with a term above one are not counted, all those of coin flips among them; 'as the loss "
    "does' is a mean rank correlation of at least one half",
    sensitivity="a share of 5% of repeats above the term, where 59 of 59 are below it; but a term ten times smaller "
    "would pass too",
)


@FS18.reading("the wide limit, cases with a term below one")
def bounded(studies: Studies) -> Evidence:
    return _bounded(studies["complexity"])


@FS18.reading("the term ranks partitions as the loss does, teachers' labels", natural=False)
def ranked(studies: Studies) -> Evidence:
    return _ranked(studies["complexity"], ("linear", "relu"))


@FS18.reading("the same for labels by coin flips", natural=False)
def coin_flips(studies: Studies) -> Evidence:
    return _ranked(studies["complexity"], ("random",))


@FS18.mutant("a thousandth of the term")
def thousandth(studies: Studies) -> Evidence:
    return _bounded(studies["complexity"], slack=0.001)

"""CL-22: clustering never hurts, by the mean training loss.

CL-22c: no cluster's training loss rises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

from fedstat.claims import Claim, Evidence, Parabolas, Sides, compared, expectation

CL22 = Claim(
    id="CL-22",
    place="Sattler, Müller and Samek, Clustered federated learning: Model-agnostic distributed multitask optimization "
    "under privacy constraints (IEEE Transactions on Neural Networks and Learning Systems 32, 2021), abstract, last "
    "sentence but one; doi:10.1109/TNNLS.2020.3015958",
    said_by="paper",
    words="Splitting the clients into clusters after federated learning has converged always gives greater or equal "
    "performance.",
    statement='R("split") <= R("global")',
    severity="unstated condition",
    assumptions="clients with the losses h_k (w − c_k)² / 2 and equal weights; federated learning has reached the "
    "optimum, the clusters are those of the paper, here the two signs of the gradients, and each is trained to its own "
    "optimum",
    sensitivity="any loss, exact",
    flaw="The loss falls for a cluster as a whole, not for each of its clients: one whose minimiser is near the global "
    "optimum may be pulled away. And a cluster has fewer samples, so that its model may be worse on new ones.",
    corrected="CL-22c",
)


def _split(problem: Parabolas) -> list[Fraction]:
    """Return the model that each client has after the split; a client with no gradient goes with the positive ones."""
    slopes = [gradient(problem.optimum) >= 0 for gradient in problem.gradients]
    return [_optimum(problem, [other == own for other in slopes]) for own in slopes]


def _optimum(problem: Parabolas, members: list[bool]) -> Fraction:
    chosen = [p * member for p, member in zip(problem.p, members, strict=True)]
    return replace(problem, p=tuple(p / sum(chosen) for p in chosen)).optimum


def _losses(problem: Parabolas, models: list[Fraction]) -> list[Fraction]:
    return [problem.losses(w)[k] for k, w in enumerate(models)]


def _problems() -> Iterator[Parabolas]:
    for n in (2, 3, 4):
        for c, h in product(combinations_with_replacement(range(6), n), ((1, 1, 1, 1), (1, 2, 1, 4))):
            problem = Parabolas(h[:n], c, (Fraction(1, n),) * n)
            if problem.optimum not in c:  # else a client has no gradient, and belongs to no cluster
                yield problem


def _means() -> Iterator[Sides]:
    for problem in _problems():
        loss = sum(p * x for p, x in zip(problem.p, _losses(problem, _split(problem)), strict=True))
        yield Sides(str(problem), loss, problem.loss(problem.optimum), names=("mean loss after", "before"))


@CL22.reading("the mean training loss of all clients")
def on_average() -> Evidence:
    return compared(_means(), of="federations of 2 to 4 clients")


@CL22.reading("the training loss of every client")
def of_everyone() -> Evidence:
    def cases() -> Iterator[Sides]:
        for problem in _problems():
            before = problem.losses(problem.optimum)
            for k, (after, was) in enumerate(zip(_losses(problem, _split(problem)), before, strict=True), start=1):
                yield Sides(f"{problem}, client {k}", after, was, names=("loss after", "before"))

    return compared(cases(), of="clients")


def _expected(truth: Parabolas, *, split: bool) -> Fraction:
    """Return the clients' mean true loss, if each measures its c_k with an error of plus or minus one."""
    n = len(truth.c)

    def loss(errors: tuple[int, ...]) -> Fraction:
        measured = replace(truth, c=tuple(c + e for c, e in zip(truth.c, errors, strict=True)))
        models = _split(measured) if split else [measured.optimum] * n
        return sum(_losses(truth, models), Fraction(0)) / n

    return Fraction(expectation([(Fraction(1, 2**n), errors) for errors in product((-1, 1), repeat=n)], loss))


@CL22.reading("the expected loss on new samples, by models from a measurement of each client")
def on_new_samples() -> Evidence:
    def cases() -> Iterator[Sides]:
        for n, gap in product((2, 3), (1, 2, 4)):
            truth = Parabolas((1,) * n, (0,) * (n - 1) + (gap,), (Fraction(1, n),) * n)
            sides = _expected(truth, split=True), _expected(truth, split=False)
            yield Sides(f"{truth}, measured ± 1", *sides, names=("loss after", "before"))

    return compared(cases(), of="federations with noise")


CL22C = Claim(
    id="CL-22c",
    place="corrected statement of CL-22",
    said_by="fedstat",
    words="Whatever the clusters, training each of them on from the global optimum raises no cluster's mean training "
    "loss; of single clients and of new samples nothing follows.",
    statement="sum_(k in C) p_k F_k (w_C) <= sum_(k in C) p_k F_k (w^*)",
    severity="false",
    assumptions="each cluster is trained to its own optimum",
    sensitivity="any loss, exact",
)


@CL22C.reading("every set of clients")
def every_cluster() -> Evidence:
    def cases() -> Iterator[Sides]:
        for problem in _problems():
            n = len(problem.c)
            for members in product((False, True), repeat=n):
                if any(members):
                    after, before = (
                        sum(p * x for p, x, m in zip(problem.p, problem.losses(w), members, strict=True) if m)
                        for w in (_optimum(problem, list(members)), problem.optimum)
                    )
                    cluster = ", ".join(str(k) for k, m in enumerate(members, start=1) if m)
                    yield Sides(f"{problem}, clients {cluster}", after, before, names=("loss after", "before"))

    return compared(cases(), of="clusters")

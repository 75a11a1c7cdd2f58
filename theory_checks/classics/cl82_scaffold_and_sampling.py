"""CL-82: client sampling can keep SCAFFOLD from the optimum.

CL-82c: short steps converge whoever is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from fedstat.claims import Claim, Evidence, Parabolas, Sides, compared, exact, subsets
from theory_checks.classics.second_moments import expected_square

CL82 = Claim(
    id="CL-82",
    place="Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, SCAFFOLD: Stochastic controlled averaging for federated "
    "learning (ICML 2020), abstract, second paragraph, second sentence, and section 5, Theorem III, whose rate holds "
    "for some steps and is free of heterogeneity, but has a term N / S for S of N clients drawn; arXiv:1910.06378",
    link="https://arxiv.org/abs/1910.06378",
    said_by="paper",
    words="SCAFFOLD is not affected by data heterogeneity or client sampling.",
    statement='x^* = "argmin"_x 1/N sum_i f_i (x) "is at rest, whoever takes part"',
    severity="unstated condition",
    assumptions="losses h_i (x − m_i)² / 2, no noise, Algorithm 1 with server step 1 and controls by option II; what "
    "Theorem III asks of the steps stands in an appendix that could not be read",
    sensitivity="any move from rest, exact; for sampling any growth of the expected square in 40 rounds, exact",
    flaw="Where it rests does not depend on who is drawn. Whether it gets there does: the controls of those who were "
    "not drawn are out of date, and with a step of 1 / L the correction then overshoots.",
    corrected="CL-82c",
)


def _round(state: list[Any], chosen: tuple[int, ...], clients: Parabolas, steps: int, lr: Fraction) -> list[Any]:
    """Return the model and the clients' controls after a round."""
    x, *controls = state
    mean = sum(controls) / Fraction(len(controls))
    ends = {}
    for k in chosen:
        y = x
        for _ in range(steps):
            y = y - lr * (clients.gradients[k](y) - controls[k] + mean)
        ends[k] = y
    new = [c - mean + (x - ends[k]) / (steps * lr) if k in ends else c for k, c in enumerate(controls)]
    return [x + sum(y - x for y in ends.values()) / Fraction(len(ends)), *new]


def _equal(h: tuple[int, ...], m: tuple[int, ...]) -> Parabolas:
    return Parabolas(h, m, (Fraction(1, len(h)),) * len(h))


def _at_rest(controlled: bool = True) -> Iterator[Sides]:
    """Compare the model after a round from the optimum with the optimum, for everybody who may take part."""
    for h, m, steps in product(((1, 1, 1), (1, 2, 4), (1, 1, 8)), ((0, 0, 0), (0, 1, 3), (-2, 5, 0)), (1, 2, 5)):
        clients = _equal(h, m)
        x, lr = clients.optimum, 1 / clients.smoothness
        controls = [gradient(x) if controlled else Fraction(0) for gradient in clients.gradients]
        for size in (1, 2, 3):
            for _, chosen in subsets(3, size):
                found = _round([x, *controls], chosen, clients, steps, lr)[0]
                who = ", ".join(str(k + 1) for k in chosen)
                yield Sides(f"{clients}, K = {steps}, {who} of 3 take part", found, x, names=("model", "optimum"))


def _after(size: int, share: Fraction, rounds: int, below: Fraction) -> Iterator[Sides]:
    """Compare the expected squared distance after some rounds with the one at the start, steps of a share of 1 / (K L).

    Clients agree in the minimiser, and the controls start with the gradients at the optimum, which are zero.
    """
    for h, steps in product(((1, 1, 1, 8), (1, 1, 8), (1, 8), (1, 1)), (1, 2)):
        clients = _equal(h, (0,) * len(h))
        one = partial(_round, clients=clients, steps=steps, lr=share / (steps * clients.smoothness))
        start = [Fraction(1)] + [Fraction(0)] * len(h)
        found = expected_square(one, start, min(size, len(h)), rounds)
        who = f"{size} takes part" if size == 1 else "all take part"
        case = f"h = {h}, K = {steps}, {who}, {rounds} rounds of steps {exact(share)} / (K L)"
        yield Sides(case, found, below, names=("expected square", "at the start" if below == 1 else "claimed"))


@CL82.reading("the optimum is at rest, however clients differ and whoever takes part")
def at_rest() -> Evidence:
    return compared(_at_rest(), of="rounds from the optimum", relation="==")


@CL82.reading("with a step of 1 / (K L) the distance shrinks, whoever takes part")
def one_of_them() -> Evidence:
    return compared(_after(1, Fraction(1), 40, Fraction(1)), of="settings with one client a round")


@CL82.reading("with such a step the expected square is below a tenth after four rounds of all clients", natural=False)
def all_of_them() -> Evidence:
    return compared(_after(4, Fraction(1), 4, Fraction(1, 10)), of="settings with all clients")


@CL82.mutant("controls of zero, which is FedAvg")
def no_controls() -> Evidence:
    return compared(_at_rest(controlled=False), of="rounds from the optimum", relation="==")


CL82C = Claim(
    id="CL-82c",
    place="corrected statement of CL-82",
    said_by="fedstat",
    words="With steps of at most 1 / (3 K L) SCAFFOLD's expected squared distance from the optimum falls below a tenth "
    "in 40 rounds on these problems, even if a single client is drawn a round.",
    statement="eta <= 1 / (3 K L) ==> EE norm(x_40 - x^*)^2 <= 1/10 norm(x_0 - x^*)^2",
    severity="false",
    assumptions="as in CL-82, with 2 to 4 clients that agree in the minimiser and curvatures 1 and 8",
    sensitivity="any excess, exact",
)


@CL82C.reading("one client a round")
def shorter_steps() -> Evidence:
    return compared(_after(1, Fraction(1, 3), 40, Fraction(1, 10)), of="settings with shorter steps")

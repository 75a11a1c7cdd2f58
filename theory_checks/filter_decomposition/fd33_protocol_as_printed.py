"""FD-33: the analysis is not about the protocol as printed.

FD-33c: which protocol the analysis is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.filter_decomposition.exact_laws import mean, text

FD33 = Claim(
    id="FD-33",
    place="appendix A.2, (11) and Algorithm 2; appendix A.4.2, the sentence before (23)",
    said_by="paper",
    words="Between two synchronisations a client's coefficients move by E/β local steps, as the analysis has it.",
    statement="alpha_k^(t_0 + E \\/ beta) = alpha^(t_0) - "
    "sum_(s = t_0)^(t_0 + E \\/ beta - 1) eta_s nabla_(alpha_k) F_k (w_k^s)",
    severity="false",
    assumptions="exact gradients, equal weights, a constant step, F_k = (αD − y_k)²/2 with scalars α and D; round 0 "
    "synchronises, as 0 is a whole number",
    sensitivity="any difference of the server's coefficient or atom",
    flaw="In rounds without synchronisation (11) and Algorithm 2 put the server's old coefficients back, so a client's "
    "coefficients never move by more than E steps and the steps of those rounds are lost; only the atoms learn from "
    "them. The theorem is about clients that keep their coefficients and all take part.",
    corrected="FD-33c",
)


RATE = Fraction(1, 4)


def stepped(alpha: Fraction, d: Fraction, target: int) -> tuple[Fraction, Fraction]:
    residual = alpha * d - target
    return alpha - RATE * residual * d, d - RATE * residual * alpha


def algorithm_2(
    targets: tuple[int, ...], local_steps: int, rounds: int, *, keep: bool, absent: bool
) -> tuple[Fraction, ...]:
    """Run rounds t = 0..1/beta, up to and with the second that synchronises the coefficients.

    As printed, clients start each round from the server's coefficients, which (11) leaves alone between
    synchronisations. With `keep`, they start from their own. With `absent`, the last client misses round 1.
    """
    alpha, d = Fraction(1), Fraction(1)
    own = [alpha] * len(targets)
    for t in range(rounds + 1):
        atoms = []
        for k, target in enumerate(targets):
            if absent and t == 1 and k == len(targets) - 1:
                continue
            a, b = (own[k] if keep else alpha), d
            for _ in range(local_steps):
                a, b = stepped(a, b, target)
            own[k] = a
            atoms.append(b)
        d = mean(atoms)
        if t % rounds == 0:
            alpha = mean(own)
            own = [alpha] * len(targets)
    return alpha, d


def analysed(targets: tuple[int, ...], local_steps: int, rounds: int) -> tuple[Fraction, ...]:
    """Run the algorithm of the proof step by step: atoms meet every E steps, coefficients every E / beta."""
    alpha, d = [Fraction(1)] * len(targets), [Fraction(1)] * len(targets)
    first = local_steps  # round 0 synchronises
    for step in range(1, local_steps * (rounds + 1) + 1):
        moved = [stepped(a, b, y) for a, b, y in zip(alpha, d, targets, strict=True)]
        alpha, d = [a for a, _ in moved], [b for _, b in moved]
        if step % local_steps == 0:
            d = [mean(d)] * len(targets)
        if (step - first) % (local_steps * rounds) == 0:
            alpha = [mean(alpha)] * len(targets)
    return alpha[0], d[0]


def same_algorithm(*, keep: bool, periods: Iterable[int] = (2, 3), fewest: int = 1, absent: bool = False) -> Evidence:
    """Compare server's coefficient and atom after the second synchronisation: protocol against analysed algorithm.

    With kept coefficients and all clients in every round they agree for any losses, by induction over rounds: a
    client's alpha is touched by its own steps only until the next synchronisation, and its atoms are replaced by their
    average every E steps in both descriptions. A client that misses a round makes E steps fewer. Of the clients there
    are at least `fewest`.
    """

    def compare() -> Iterator[Sides]:
        clients = [y for y in ((2,), (0, 2), (0, 1, 3)) if len(y) >= fewest]
        for rounds, e, targets in product(periods, (1, 2), clients):
            case = f"y = ({text(*targets)}), E = {e}, β = 1/{rounds}, step 1/4 from α = D = 1, the server's"
            protocol = algorithm_2(targets, e, rounds, keep=keep, absent=absent)
            for name, a, b in zip(("α", "D"), protocol, analysed(targets, e, rounds), strict=True):
                names = ("after the second synchronisation", "with E/β uninterrupted steps")
                yield Sides(f"{case} {name}", a, b, names)

    return compared(compare(), of="coefficients and atoms after 1/β + 1 rounds", relation="==")


@FD33.reading("Algorithm 2 as printed")
def as_printed() -> Evidence:
    return same_algorithm(keep=False)


@FD33.control("Algorithm 2 as printed, with β = 1")
def always_synchronised() -> Evidence:
    return same_algorithm(keep=False, periods=(1,))


FD33C = Claim(
    id="FD-33c",
    place="corrected statement of FD-33",
    said_by="fedstat",
    words="If all clients take part in every round and keep their coefficients between synchronisations, these move by "
    "E/β local steps as analysed.",
    statement="alpha_k^(t_0 + E \\/ beta) = alpha^(t_0) - "
    'sum_(s = t_0)^(t_0 + E \\/ beta - 1) eta_s nabla_(alpha_k) F_k (w_k^s), quad m = M, alpha_k "kept by client" k',
    severity="false",
    assumptions="exact gradients, equal weights, a constant step, F_k = (αD − y_k)²/2 with scalars α and D; for other "
    "losses and any number of rounds by induction over rounds",
    sensitivity="any difference of the server's coefficient or atom",
)


@FD33C.reading("clients keep their coefficients, and all take part in every round")
def all_take_part() -> Evidence:
    return same_algorithm(keep=True)


@FD33C.mutant("a client misses one round between the synchronisations")
def one_absent() -> Evidence:
    return same_algorithm(keep=True, fewest=2, absent=True)

"""CL-95: k shares give the secret, and k − 1 tell nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.classics.shamir_shares import secret, shares

CL95 = Claim(
    id="CL-95",
    place="Shamir, How to share a secret (Communications of the ACM 22, 1979), abstract, first sentence; "
    "doi:10.1145/359168.359176",
    link="https://doi.org/10.1145/359168.359176",
    said_by="paper",
    words="Data D are divided into n pieces such that any k of them give D, while k − 1 pieces reveal nothing about D.",
    statement="q(x) = D + a_1 x + dots + a_(k-1) x^(k-1) mod p, quad q(u_1), dots, q(u_k) ==> D, quad "
    "P(q(u_1) = y_1, dots, q(u_(k-1)) = y_(k-1) | D) = 1 / p^(k-1)",
    severity="false",
    assumptions="of the paper the abstract could be read; the scheme is as later authors describe it, with "
    "coefficients drawn uniformly modulo a prime p, of which the first is D, and pieces q(1) to q(n), n < p; p up "
    "to 7 and k up to 3",
    sensitivity="any difference of a chance, over all coefficients, exact",
)

#: Primes and numbers of pieces that are needed, of p − 1 pieces.
_SCHEMES = tuple((prime, needed) for prime in (2, 3, 5, 7) for needed in (1, 2, 3) if needed < prime)


def _chances(less: int = 1, beyond: int = 0, degree: bool = False) -> Iterator[Sides]:
    """Compare the chance of pieces, over all polynomials with a given D, with that of as many uniform numbers.

    So many pieces fewer than k are known; more users than p − 1 may hold some, and the degree may be exactly k − 1.
    """
    for prime, needed in _SCHEMES:
        polynomials = list(product(range(prime), repeat=needed - 1))
        if degree:
            polynomials = [rest for rest in polynomials if not rest or rest[-1]]
        for size in range(needed - less + 1):
            for users, data in product(combinations(range(1, prime + beyond), size), range(prime)):
                seen = Counter(tuple(shares((data, *rest), users, prime).values()) for rest in polynomials)
                for pieces in product(range(prime), repeat=size):
                    told = ", ".join(f"q({u}) = {y}" for u, y in zip(users, pieces, strict=True)) or "no piece"
                    case = f"modulo {prime}, k = {needed}, D = {data}, {told}"
                    claimed = Fraction(1, prime**size)
                    yield Sides(case, Fraction(seen[pieces], len(polynomials)), claimed, names=("chance", "uniform"))


def _found(less: int = 0) -> Iterator[Sides]:
    """Compare what k pieces or more give, less so many, with D, for all polynomials."""
    for prime, needed in _SCHEMES:
        for polynomial in product(range(prime), repeat=needed):
            for size in range(needed - less, prime):
                for users in combinations(range(1, prime), size):
                    held = shares(polynomial, users, prime)
                    told = ", ".join(f"q({u}) = {y}" for u, y in held.items()) or "no piece"
                    yield Sides(f"modulo {prime}, k = {needed}, {told}", secret(held, prime), polynomial[0])


@CL95.reading("the chance of k − 1 pieces or fewer is the same whatever D is")
def nothing() -> Evidence:
    return compared(_chances(), of="pieces, given D", relation="==")


@CL95.reading("any k pieces or more give D")
def everything() -> Evidence:
    return compared(_found(), of="polynomials and sets of users", relation="==")


@CL95.mutant("k pieces reveal nothing")
def one_more() -> Evidence:
    return compared(_chances(less=0), of="pieces, given D", relation="==")


@CL95.mutant("k − 1 pieces give D")
def one_fewer() -> Evidence:
    return compared(_found(less=1), of="polynomials and sets of users", relation="==")


@CL95.mutant("as many users as numbers modulo p, of whom the last holds D itself")
def too_many_users() -> Evidence:
    return compared(_chances(beyond=1), of="pieces, given D", relation="==")


@CL95.mutant("polynomials of degree k − 1 alone, so that the last coefficient is never 0")
def exact_degree() -> Evidence:
    return compared(_chances(degree=True), of="pieces, given D", relation="==")

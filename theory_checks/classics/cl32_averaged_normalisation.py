"""CL-32: averaged variances leave out how far the clients' means lie apart.

CL-32c: the pooled variance is the averaged one plus that of the means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

from fedstat.claims import Claim, Evidence, Sides, compared, identity

CL32 = Claim(
    id="CL-32",
    place="folklore: what averaging all entries of the clients' models, running means and variances among them, is "
    "meant to give",
    said_by="folklore",
    words="Averaging the clients' means and variances of a feature, by their numbers of samples, gives mean and "
    "variance of the pooled data.",
    statement="m = sum_k p_k m_k, quad v = sum_k p_k v_k, quad p_k = n_k / n",
    severity="unstated condition",
    assumptions="variances divide by the number of samples",
    sensitivity="any difference, exact",
    flaw="The averaged variance leaves out how far the clients' means lie apart: under feature shift the pooled "
    "data vary more than the clients' do on average.",
    corrected="CL-32c",
)

Client = tuple[int, ...]


def _moments(values: Client) -> tuple[Fraction, Fraction]:
    mean = Fraction(sum(values), len(values))
    return mean, sum(((x - mean) ** 2 for x in values), Fraction(0)) / len(values)


def _pairs() -> Iterator[tuple[Client, Client]]:
    clients: list[Client] = [c for n in (1, 2, 3) for c in combinations_with_replacement(range(4), n)]
    return product(clients, clients)


def _averaged(cases: Iterable[tuple[Client, Client]], which: int) -> Evidence:
    """Compare averaged and pooled means (0) or variances (1)."""

    def sides() -> Iterator[Sides]:
        for pair in cases:
            n = sum(map(len, pair))
            parts = {f"share of client {k}": Fraction(len(c), n) * _moments(c)[which] for k, c in enumerate(pair, 1)}
            values = " and ".join("{" + ", ".join(map(str, client)) + "}" for client in pair)
            yield Sides(
                f"clients with the values {values}", parts, _moments(sum(pair, ()))[which], ("averaged", "pooled")
            )

    return compared(sides(), of=("means", "variances")[which], relation="==")


@CL32.reading("the variances")
def variances() -> Evidence:
    return _averaged(_pairs(), 1)


@CL32.reading("the means alone", natural=False)
def means() -> Evidence:
    return _averaged(_pairs(), 0)


@CL32.condition("clients of the same mean")
def no_shift() -> Evidence:
    return _averaged(((a, b) for a, b in _pairs() if _moments(a)[0] == _moments(b)[0]), 1)


CL32C = Claim(
    id="CL-32c",
    place="corrected statement of CL-32, the law of total variance",
    said_by="fedstat",
    words="The pooled variance is the averaged variance plus the weighted variance of the clients' means.",
    statement="v = sum_k p_k v_k + sum_k p_k (m_k - m)^2",
    severity="false",
    assumptions="as in CL-32",
    sensitivity="any difference, as polynomials",
)


@CL32C.reading("any values, up to three clients of up to three samples")
def total_variance() -> Evidence:
    import sympy

    def moments(values: Any) -> tuple[Any, Any]:
        mean = sum(values) / sympy.Integer(len(values))
        return mean, sum((x - mean) ** 2 for x in values) / sympy.Integer(len(values))

    def cases() -> Iterator[Sides]:
        for sizes in ((1, 1), (1, 2), (2, 3), (1, 2, 3)):
            clients = [sympy.symbols(f"x{k}_1:{n + 1}") for k, n in enumerate(sizes, start=1)]
            pooled, p = moments(sum(clients, ())), [sympy.Rational(n, sum(sizes)) for n in sizes]
            parts = {
                "averaged variance": sum(q * moments(c)[1] for q, c in zip(p, clients, strict=True)),
                "variance of the means": sum(
                    q * (moments(c)[0] - pooled[0]) ** 2 for q, c in zip(p, clients, strict=True)
                ),
            }
            yield Sides(f"clients with {sizes} samples", pooled[1], parts, names=("pooled", "claimed"))

    return identity(cases(), of="pooled variances")

"""CL-07: FedBN is faster than FedAvg, but not always.

CL-07c: FedBN's smallest eigenvalue is never less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from mpmath import mp

from fedstat.claims import Claim, Evidence, Sides, compared

CL07 = Claim(
    id="CL-07",
    place="Li, Jiang, Zhang, Kamp and Dou, FedBN: Federated learning on non-IID features via local batch normalization "
    "(ICLR 2021, arXiv:2102.07623), Corollary 4.6, with the strict inequality of its proof; read in the version under "
    "review",
    said_by="paper",
    words="Where the gains of normalisation dominate, FedBN converges faster than FedAvg: its kernel has the larger "
    "smallest eigenvalue.",
    statement='lambda_"min" (G^infinity) < lambda_"min" (G^(* infinity)), quad G_(p q)^infinity = EE sigma(v^top '
    "x_p) sigma(v^top x_q), quad G_(p q)^(* infinity) = G_(p q)^infinity 1_(i_p = i_q)",
    severity="unstated condition",
    assumptions="equally many samples at every client, no two of them parallel, those of each client with mean zero if "
    "there are three, σ the rectifier, v standard normal; one local step (the paper's Assumption 4.1 and Definition "
    "4.2)",
    sensitivity="a difference of one part in 10^25",
    flaw="The smallest eigenvalue of a block is no smaller than that of the whole matrix, but it may be the same. "
    "So it can be if two samples of one client are mirror images and all other samples lie on the mirror: FedAvg then "
    "learns what tells the two apart as fast as FedBN, and if nothing is learnt more slowly, both are equally fast.",
    corrected="CL-07c",
)

Point = tuple[int, ...]
Clients = tuple[tuple[Point, ...], ...]


def _kernel(clients: Clients, *, shared: bool) -> Any:
    """Return the Gram matrix of the gains: shared by all clients as in FedAvg, or one for each client as in FedBN.

    The expectation is the arc-cosine kernel, ``|x| |z| (sin t + (pi - t) cos t) / (2 pi)`` at the angle t.
    """
    points = [(i, mp.matrix(x)) for i, client in enumerate(clients) for x in client]

    def entry(i: int, x: Any, j: int, z: Any) -> Any:
        if i != j and not shared:
            return mp.mpf(0)
        norms, inner = mp.norm(x) * mp.norm(z), (x.T * z)[0]
        cosine = min(inner / norms, mp.mpf(1))
        angle = mp.acos(cosine)
        return norms * (mp.sin(angle) + (mp.pi - angle) * cosine) / (2 * mp.pi)

    return mp.matrix([[entry(i, x, j, z) for j, z in points] for i, x in points])


def _exact(value: Any) -> Fraction:
    """Return a number to 25 places."""
    return Fraction(int(mp.nint(value * mp.mpf(10) ** 25)), 10**25)


def _eigenvalues(cases: Iterable[Clients]) -> Iterator[Sides]:
    with mp.workdps(40):
        for clients in cases:
            together, apart = (min(mp.eigsy(_kernel(clients, shared=s), eigvals_only=True)) for s in (True, False))
            yield Sides(_in_words(clients), _exact(together), _exact(apart), names=("FedAvg's", "FedBN's"))


def _in_words(clients: Clients) -> str:
    return "clients with the samples " + " and ".join("{" + ", ".join(map(str, c)) + "}" for c in clients)


def _parallel(x: Point, z: Point) -> bool:
    return all(a * d == b * c for (a, c), (b, d) in combinations(zip(x, z, strict=True), 2))


def _pairs() -> Iterator[Clients]:
    """Yield two clients: two samples each that lie anywhere, or three with mean zero, two of them mirror images."""
    mirrored: list[Clients] = [
        (((1, 0, a), (-1, 0, a), (0, 0, -2 * a)), other)
        for a in (2, 3)
        for other in (((0, 8, 0), (0, -4, 2), (0, -4, -2)), ((0, -6, 0), (0, 3, 2), (0, 3, -2)))
    ]
    mirrored.append((((1, 0, 2), (-1, 0, 2), (0, 0, -4)), ((0, 3, 1), (0, -4, 1), (0, 1, -2))))  # FedBN is faster
    plane = [(1, 0), (0, 1), (1, 1), (1, -2), (-1, 3), (-2, -1)]
    anywhere: list[Clients] = [((a, b), (c, d)) for a, b, c, d in combinations(plane, 4)]
    for clients in (*anywhere, *mirrored):
        if not any(_parallel(x, z) for x, z in combinations(sum(clients, ()), 2)):
            yield clients


def _linked(clients: Clients) -> bool:
    """Whether the smallest eigenvector of FedBN's kernel, which belongs to one client, meets the others' rows."""
    with mp.workdps(40):
        values, vectors = mp.eigsy(_kernel(clients, shared=False))
        least = min(range(len(values)), key=lambda i: values[i])
        u = vectors[:, least]
        return bool(mp.norm(_kernel(clients, shared=True) * u - values[least] * u) > mp.mpf(10) ** -20)


@CL07.reading("smallest eigenvalues, two clients with two or three samples each")
def strictly() -> Evidence:
    return compared(_eigenvalues(_pairs()), of="pairs of clients", relation="<")


@CL07.reading("losses after some steps, for any labels, two clients with one sample each", natural=False)
def losses() -> Evidence:
    """Compare the losses of gradient descent in the kernel's regime, from predictions of zero.

    The smallest eigenvalue bounds the slowest direction. Labels in which the clients agree lie in a faster one, in
    which FedAvg learns from all clients at once.
    """

    def loss(clients: Clients, labels: tuple[int, int], steps: int, *, shared: bool) -> Fraction:
        error, kernel = mp.matrix(labels), _kernel(clients, shared=shared)
        rate = 1 / sum(mp.norm(mp.matrix(x)) ** 2 for client in clients for x in client)
        for _ in range(steps):
            error = error - rate * kernel * error
        return _exact(mp.norm(error) ** 2)

    def cases() -> Iterator[Sides]:
        with mp.workdps(40):
            for x, labels, steps in product(((0, 1), (1, 1)), ((1, -1), (1, 1)), (1, 5)):
                clients = (((1, 0),), (x,))
                fedbn, fedavg = (loss(clients, labels, steps, shared=shared) for shared in (False, True))
                case = f"{_in_words(clients)}, labels {labels}, steps: {steps}"
                yield Sides(case, fedbn, fedavg, names=("FedBN's", "FedAvg's"))

    return compared(cases(), of="losses")


@CL07.condition("the other clients' rows of FedAvg's kernel are not orthogonal to the slowest client's direction")
def linked() -> Evidence:
    return compared(_eigenvalues(filter(_linked, _pairs())), of="pairs of clients", relation="<")


CL07C = Claim(
    id="CL-07c",
    place="corrected statement of CL-07, by the interlacing of eigenvalues",
    said_by="fedstat",
    words="FedBN's smallest eigenvalue, which is that of the slowest client alone, is at least FedAvg's.",
    statement='lambda_"min" (G^infinity) <= lambda_"min" (G^(* infinity)) = min_i lambda_"min" (G_i^infinity)',
    severity="unstated condition",
    assumptions="as in CL-07; only that G is symmetric is needed",
    sensitivity="an excess of one part in 10^25",
)


@CL07C.reading("smallest eigenvalues, two clients with two or three samples each")
def weakly() -> Evidence:
    """The least of ``u^T G u`` over unit vectors u is no larger than that over those which live on one client."""
    return compared(_eigenvalues(_pairs()), of="pairs of clients")

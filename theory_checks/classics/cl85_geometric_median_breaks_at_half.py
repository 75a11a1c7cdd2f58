"""CL-85: the geometric median stands fewer than half corrupted, not half.

CL-85c: how far corrupted clients can move the geometric median.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement

from fedstat.claims import Claim, Evidence, Sides, compared

CL85 = Claim(
    id="CL-85",
    place="folklore after Lopuhaä and Rousseeuw, Breakdown points of affine equivariant estimators of multivariate "
    "location and covariance matrices (Annals of Statistics 19, 1991), as the literature on robust aggregation quotes "
    "it: a breakdown point of 1/2, that is, up to half of the points may be corrupted; doi:10.1214/aos/1176347978",
    said_by="folklore",
    words="The geometric median has a breakdown point of one half: up to half of the points may be anything, and it "
    "stays near the others.",
    statement='f <= n/2 ==> "geometric median" in "a ball around the others, wherever the" f "points are"',
    severity="unstated condition",
    assumptions="n points, f of them corrupted, the others within r of their centre; configurations in a plane that "
    "are symmetric about the line through centre and median, and points on a line",
    sensitivity="any excess over the bound, exact, with equality at its worst case",
    flaw="The breakdown point is the share that breaks it: with exactly half of the points the corrupted ones can be a "
    "median themselves. And where clients are weighted, half of the weight decides, which one client may have.",
    corrected="CL-85c",
)


def _planes(weights: tuple[tuple[int, int], ...]) -> Iterator[Sides]:
    """Compare the median's squared distance from the centre with the bound, for points of which it is the median.

    The median is put at the origin and the centre at distance one. A quarter of the weight H stands in each of four
    directions, two on either side of the centre's. Where these unit vectors add up to at most f, corrupted points of
    weight f can pull back as much, from any distance, so that the origin is the median of all. A point in a direction
    with cosine c comes as near to the centre as √(1 − c²); the ball must reach the farthest of them.
    """
    for honest, corrupt in weights:
        for cosines in combinations_with_replacement([Fraction(n, 12) for n in range(12)], 2):
            parts = (Fraction(honest, 2),) * 2
            if sum((w * c for w, c in zip(parts, cosines, strict=True)), Fraction(0)) > corrupt:
                continue
            radius2 = 1 - min(cosines) ** 2
            bound = Fraction(honest**2, honest**2 - corrupt**2) * radius2
            case = f"H = {honest}, f = {corrupt}, cosines {cosines[0]} and {cosines[1]}"
            yield Sides(case, Fraction(1), bound, names=("squared distance", "bound"))


def _line(clients: tuple[tuple[tuple[int, ...], int], ...]) -> Iterator[Sides]:
    """Compare the farthest median on a line with a hundred times the radius of the points that are not corrupted.

    They stand at −1 and 1 in turn, the corrupted ones, the last of them, a million away. A point is a median if it
    leaves at most half of the weight on either side.
    """
    for weights, corrupted in clients:
        n = len(weights)
        points = [(-1) ** k for k in range(n - corrupted)] + [10**6] * corrupted
        total = sum(weights)

        def beside(x: int, points: list[int] = points, weights: tuple[int, ...] = weights) -> tuple[int, int]:
            below = sum(w for p, w in zip(points, weights, strict=True) if p < x)
            return below, sum(w for p, w in zip(points, weights, strict=True) if p > x)

        farthest = max(x for x in points if 2 * max(beside(x)) <= total)
        alike = len(set(weights)) == 1
        case = f"{corrupted} of {n} corrupted" + ("" if alike else f", weights {', '.join(map(str, weights))}")
        yield Sides(case, farthest, 100, names=("farthest median", "100 radii"))


#: Numbers of points that are not corrupted, and of those that are.
_FEWER = ((4, 0), (4, 1), (4, 2), (4, 3), (8, 3), (8, 7), (12, 1), (12, 11))


@CL85.reading("up to half, half among it")
def half_itself() -> Evidence:
    equal = tuple(((1,) * n, f) for n in (2, 3, 4, 5, 6) for f in range(n // 2 + 1))
    return compared(_line(equal), of="sets of points on a line")


@CL85.reading("fewer than half: the median is within H / √(H² − f²) radii, for H points that are not corrupted")
def fewer_than_half() -> Evidence:
    return compared(_planes(_FEWER), of="configurations in a plane")


@CL85.reading("fewer than half of the clients, weighted by their samples", natural=False)
def of_weighted_clients() -> Evidence:
    return compared(_line((((1, 1, 1), 1), ((1, 1, 2), 1), ((1, 1, 3), 1))), of="sets of weighted clients")


CL85C = Claim(
    id="CL-85c",
    place="corrected statement of CL-85, with the constant of Minsker, Geometric median and robust estimation in "
    "Banach spaces (Bernoulli 21, 2015), as a share of the weight, doi:10.3150/14-BEJ645; the proof is the sum of unit "
    "vectors that a median balances",
    said_by="fedstat",
    words="If corrupted clients have the weight f and the others the weight H > f, the geometric median is within "
    "H / √(H² − f²) times the others' radius of their centre, and no smaller factor will do.",
    statement='f < H ==> norm("median" - "centre") <= H / sqrt(H^2 - f^2) r',
    severity="false",
    assumptions="as in CL-85, weights that are whole numbers",
    sensitivity="any excess, exact, with equality at the worst case",
)


@CL85C.reading("weights up to thirteen")
def by_weight() -> Evidence:
    weights = tuple((honest, corrupt) for honest in range(1, 14) for corrupt in range(honest))
    return compared(_planes(weights), of="configurations in a plane")

"""Judge a statement about a probability or a mean from confidence limits."""

from __future__ import annotations

import math

from fedstat._checks import number as real
from fedstat.claims.evidence import Evidence, Verdict
from fedstat.claims.mutation import TURNED, scaled
from fedstat.inference import clopper_pearson, number

#: Level of a two-sided interval whose limits are one-sided at 95%.
_ONE_SIDED = 0.90


def probability(successes: int, n: int, *, at_least: float, what: str) -> Evidence:
    """Judge 'true with probability at least' from independent repeats, by one-sided 95% Clopper-Pearson limits.

    Parameters
    ----------
    successes, n : int
        How many of n independent repeats bore the statement out.
    at_least : float
        The claimed probability, from 0 to 1.
    what : str
        What was repeated, for the summary.

    Examples
    --------
    >>> from fedstat.claims import probability
    >>> [probability(hits, 20, at_least=0.8, what="coverage").verdict for hits in (20, 18, 10)]
    ['supported', 'undecided', 'refuted']

    All of 20 repeats bear a claim of 80% out, 18 leave it open, and 10 refute it.
    """
    at_least = real("at_least", at_least, "[0, 1]")
    low, high = clopper_pearson(successes, n, _ONE_SIDED)
    verdict: Verdict = "supported" if low > at_least else "refuted" if high < at_least else "undecided"
    summary = (
        f"{what}: {successes} of {n}, one-sided 95% limits {low:.3f} and {high:.3f}, claimed at least {at_least:g}"
    )
    if verdict == "undecided" and 0 < at_least < 1:  # k of k have the lower limit 0.05 ** (1 / k); a tie is not above
        needed = math.floor(math.log(0.05) / math.log(at_least) * (1 + 1e-12)) + 1
        summary += f"; {needed} successes in a row would decide for it"
    made = {TURNED: clopper_pearson(n - successes, n, _ONE_SIDED)[1] < at_least} if verdict == "supported" else {}
    return Evidence(verdict, summary, n, min(low - at_least, high - at_least, key=abs), made=made)


def within(
    low: float, high: float, region: tuple[float, float], *, cases: int, what: str, level: float = 0.95
) -> Evidence:
    """Judge 'the quantity lies in the region' from a confidence interval for the quantity.

    An interval inside the region supports the statement, an interval outside refutes it, and an interval across the
    region's border leaves it undecided.

    Parameters
    ----------
    low, high : float
        The interval.
    region : tuple of float
        The interval in which the quantity is claimed to lie; either end may be infinite.
    cases : int
        Seeds behind the interval.
    what : str
        The quantity, for the summary.
    level : float
        The interval's confidence level, for the summary.

    Raises
    ------
    ValueError
        If the limits of the interval or of the region are not in order.

    Examples
    --------
    >>> from fedstat.claims import within
    >>> for low, high in ((0.01, 0.03), (-0.03, -0.01), (-0.01, 0.03)):
    ...     print(within(low, high, (0, float("inf")), cases=10, what="gain").verdict)
    supported
    refuted
    undecided
    """
    bottom, top = region
    if low > high or bottom > top:
        raise ValueError(f"low and high, and both ends of region, must be in order, got {low}, {high} and {region}.")
    inside, outside = bottom <= low and high <= top, high < bottom or low > top
    verdict: Verdict = "supported" if inside else "refuted" if outside else "undecided"
    limits = f"{100 * level:.3g}% interval {number(low)} to {number(high)}"
    summary, needed = f"{what}: {limits}, claimed {_interval(region)}", None
    if verdict == "undecided":
        centre, half = (low + high) / 2, (high - low) / 2
        distance = min(abs(centre - bottom), abs(top - centre))
        if distance > 0 and half < math.inf:  # an interval shrinks like one over the square root of the cases
            needed = math.ceil(cases * (half / distance) ** 2)
            many = f"{needed}" if needed <= 1000 else "more than a thousand"
            summary += f"; {many} seeds in place of {cases} would decide, if the estimate stayed"
    made = scaled(low, high, lambda a, b: b < bottom or a > top) if verdict == "supported" else {}
    return Evidence(verdict, summary, cases, min(low - bottom, top - high), needed=needed, made=made)


def _interval(region: tuple[float, float]) -> str:
    low, high = region
    if low == float("-inf"):
        return f"at most {number(high)}"
    if high == float("inf"):
        return f"at least {number(low)}"
    return f"{number(low)} to {number(high)}"

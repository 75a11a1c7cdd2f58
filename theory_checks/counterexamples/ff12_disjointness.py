"""FF-12: an empty intersection over all clients does not mean that no two clients overlap.

Factorized-FL (section 3.2, 'Domain Heterogeneity', last sentence but two) writes "no overlap between clients" as an
empty intersection of all clients' data. That is right for two clients, or if every pair is meant.

Counterexample: three clients with the points {1}, {1} and {2}. No point is with all three, and two clients share one.
"""

from fractions import Fraction
from itertools import combinations

CLIENTS = [{1}, {1}, {2}]


def in_common() -> set[int]:
    """Return the points that are with every client."""
    return set.intersection(*CLIENTS)


def overlapping() -> Fraction:
    """Return the share of the pairs of clients that have a point in common."""
    pairs = list(combinations(CLIENTS, 2))
    return Fraction(sum(bool(one & other) for one, other in pairs), len(pairs))


if __name__ == "__main__":
    print(f"Points that all three clients have: {len(in_common())}; pairs of clients that overlap: {overlapping()}.")
    if not (not in_common() and overlapping() > 0):
        raise SystemExit("The empty intersection means that no two clients overlap here.")

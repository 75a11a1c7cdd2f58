"""FF-12: clients may overlap though the intersection of all is empty.

FF-12c: clients are disjoint if every pair is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement

from fedstat.claims import Claim, Evidence, enumeration, sampled

FF12 = Claim(
    id="FF-12",
    place="section 3.2, 'Domain Heterogeneity', last sentence but two",
    said_by="paper",
    words="An empty intersection over all clients means that no two clients overlap.",
    statement='inter.big_(k = 1)^K D_k = emptyset <=> "no overlap between clients"',
    severity="misprint",
    sensitivity="any family of up to four non-empty subsets of three points",
    flaw="With three clients or more the intersection over all is empty as soon as one point is missing somewhere, "
    "however much pairs of clients share.",
    corrected="FF-12c",
)

_SUBSETS: tuple[frozenset[int], ...] = tuple(
    frozenset(s) for s in ((1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3))
)
_Family = tuple[frozenset[int], ...]


def _families(clients: Sequence[int]) -> list[_Family]:
    return [family for k in clients for family in combinations_with_replacement(_SUBSETS, k)]


def _right(family: _Family, condition: Callable[[_Family], bool]) -> bool:
    """Whether the condition is satisfied exactly if no point has two owners: if the sizes add up to the union's."""
    return condition(family) == (sum(map(len, family)) == len(frozenset.union(*family)))


def _written(family: _Family) -> str:
    return "clients with the points " + ", ".join("{" + ", ".join(map(str, sorted(s))) + "}" for s in family)


def _nobody_has_all(family: _Family) -> bool:
    return not frozenset.intersection(*family)


def _pairwise(family: _Family) -> bool:
    return all(not family[i] & family[j] for i in range(len(family)) for j in range(i))


def _disjoint(clients: Sequence[int], condition: Callable[[_Family], bool]) -> Evidence:
    of = "families of non-empty subsets of three points"
    return sampled(_families(clients), lambda family: _right(family, condition), of=of, show=_written)


@FF12.reading("two to four clients")
def several() -> Evidence:
    return _disjoint((2, 3, 4), _nobody_has_all)


@FF12.reading("the intersection taken over every pair of clients, as 'no overlap' says")
def every_pair() -> Evidence:
    return _disjoint((2, 3, 4), _pairwise)


@FF12.condition("two clients")
def two() -> Evidence:
    """Judge two clients.

    Both sides speak of every point by itself: they say that none is with both clients. A family of two sets shows
    each point as one of three kinds (first's, second's, both's); up to names all combinations of kinds are among
    those of three points.
    """
    of = "pairs of non-empty subsets of three points"
    families = _families((2,))
    return enumeration(families, lambda family: _right(family, _nobody_has_all), of=of, show=_written)


@FF12.mutant("two clients, the intersection required not to be empty")
def not_empty() -> Evidence:
    return _disjoint((2,), lambda family: not _nobody_has_all(family))


FF12C = Claim(
    id="FF-12c",
    place="corrected statement of FF-12",
    said_by="fedstat",
    words="Clients are completely disjoint if every pair of them is.",
    statement='forall j != k: D_j inter D_k = emptyset <=> "no overlap between clients"',
    severity="misprint",
    sensitivity="any family of up to four non-empty subsets of three points",
)


@FF12C.reading("two to four clients")
def pairwise() -> Evidence:
    return _disjoint((2, 3, 4), _pairwise)


@FF12C.mutant("the first two clients alone")
def first_pair() -> Evidence:
    return _disjoint((2, 3, 4), lambda family: not family[0] & family[1])

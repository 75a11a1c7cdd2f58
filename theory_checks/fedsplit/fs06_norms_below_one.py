"""FS-06: norms below one keep the smallest eigenvalue positive."""

from __future__ import annotations

import numpy as np

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import extreme_eigenvalues, infinite_gram
from theory_checks.fedsplit.exact_kernels import Inputs, no_two_parallel, ranks, spread, written

#: The largest norm among the inputs that are drawn, of (4, 4, 2): divided by it all are one at most.
_SCALE = 6


def _scaled() -> Evidence:
    """The smallest eigenvalue is at least the least squared norm times that of the directions.

    With D the diagonal matrix of norms ``H(x) = D H(u) D``, so ``v' H(x) v >= ls(u) |D v|^2 >= ls(u) min |x|^2 |v|^2``.
    """

    def sides(x: Inputs) -> tuple[float, float]:
        inputs = np.array(x, dtype=float) / _SCALE
        norms = np.linalg.norm(inputs, axis=1)
        low, unit = (extreme_eigenvalues(infinite_gram(v))[0] for v in (inputs, inputs / norms[:, None]))
        return float(norms.min() ** 2) * max(unit, 0.0), max(low, 0.0)

    names = ("least squared norm times the directions' smallest eigenvalue,", "the inputs'")
    return search(spread, sides, tolerance=1e-14, examples=60, names=names, show=lambda x: written(x, _SCALE))


FS06 = Claim(
    id="FS-06",
    place="section 3.3, Assumption 1, first sentence, with the sentence after the assumption",
    said_by="paper",
    words="Norms of at most one, in place of unit norms, keep the smallest eigenvalue positive.",
    statement="x_i parallel.not x_j, norm(x_i) <= 1 => lambda_min (H^s) > 0",
    severity="unstated condition",
    assumptions="Assumption 1; zero is parallel to every vector, so two inputs or more exclude it",
    sensitivity="a rank one too small (an eigenvalue below 1e-30), or an excess of 1e-14 over the least squared norm "
    "times the directions' eigenvalue",
)


@FS06.reading("no two inputs are parallel, zero is excluded")
def zero_excluded() -> Evidence:
    return ranks(no_two_parallel, spread, scale=_SCALE)


@FS06.reading("by how much: at least the least squared norm times that of the directions", natural=False)
def by_how_much() -> Evidence:
    return _scaled()

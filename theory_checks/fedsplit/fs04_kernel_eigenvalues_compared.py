"""FS-04: the personal kernel's smallest eigenvalue is no smaller."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import extreme_eigenvalues, infinite_gram, personal_gram
from theory_checks.fedsplit.populations import Population, populations, written

#: Smallest and largest eigenvalue.
Extremes = tuple[float, float]


def _spectra(compare: Callable[[Extremes, Extremes], tuple[float, float]], names: tuple[str, str]) -> Evidence:
    def sides(case: Population) -> tuple[float, float]:
        x, client = np.array(case[0]), np.array(case[1])
        return compare(extreme_eigenvalues(infinite_gram(x)), extreme_eigenvalues(personal_gram(x, client)))

    return search(populations(8, 4, 5, least=2), sides, tolerance=1e-12, examples=300, names=names, show=written)


FS04 = Claim(
    id="FS-04",
    place="section 3.3, paragraph after Definition 1, last sentence, second half",
    said_by="paper",
    words="The personal kernel's smallest eigenvalue is at least the shared kernel's.",
    statement="lambda_min (H^p) >= lambda_min (H^s)",
    severity="false",
    assumptions="none needed: the blocks are principal submatrices, and Cauchy's interlacing applies",
    sensitivity="an excess of 1e-12 in the searched designs (up to 8 samples, entries in quarters)",
)


@FS04.reading("smallest eigenvalue")
def smallest() -> Evidence:
    return _spectra(lambda s, p: (s[0], max(p[0], 0.0)), ("shared", "personal"))


@FS04.reading("largest eigenvalue, at most the shared one", natural=False)
def largest() -> Evidence:
    return _spectra(lambda s, p: (p[1], s[1]), ("personal", "shared"))


@FS04.reading("condition number, at most the shared one", natural=False)
def condition() -> Evidence:
    # without division, so that singular kernels are covered: largest personal times smallest shared on the left
    names = ("largest personal times smallest shared", "largest shared times smallest personal")
    return _spectra(lambda s, p: (p[1] * max(s[0], 0.0), s[1] * max(p[0], 0.0)), names)

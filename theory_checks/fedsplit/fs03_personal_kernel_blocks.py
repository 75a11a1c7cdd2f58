"""FS-03: the personal kernel's blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import infinite_gram, personal_gram
from theory_checks.fedsplit.populations import Population, expectation, populations, written


def _blocks(kernel: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Evidence:
    """Definition 1, entry by entry and by quadrature with the indicator of the same client, against the blocks."""

    def sides(case: Population) -> tuple[float, float]:
        x, client = np.array(case[0]), np.array(case[1])
        held = list(zip(x, client, strict=True))
        defined = np.array([[expectation(a, b) if i == j else 0.0 for b, j in held] for a, i in held])
        return float(np.abs(kernel(x, client) - defined).max()), 0.0

    names = ("largest difference of two entries", "claimed")
    drawn = populations(4, 3, 3)
    return search(drawn, sides, relation="==", tolerance=1e-10, examples=60, names=names, show=written)


FS03 = Claim(
    id="FS-03",
    place="section 3.3, paragraph after Definition 1, last sentence, first half",
    said_by="paper",
    words="The personal kernel consists of the clients' diagonal blocks of the shared kernel.",
    statement='H^p = op("blockdiag")(H^s_(S_1), dots, H^s_(S_C))',
    severity="false",
    assumptions="the indicator in Definition 1 means 'held by the same client' (FS-02 judges its letter)",
    sensitivity="an entry off by 1e-10",
)


@FS03.reading("indicator of the same client")
def blocks() -> Evidence:
    return _blocks(personal_gram)


@FS03.mutant("entries between clients left in")
def undivided() -> Evidence:
    return _blocks(lambda x, client: infinite_gram(x))

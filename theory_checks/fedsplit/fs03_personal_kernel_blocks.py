"""FS-03: the personal kernel is made of the shared one's blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import infinite_gram, personal_gram
from theory_checks.fedsplit.populations import Population, expectation, populations, written

#: A population and the positions of two of its samples.
_Pair = tuple[Population, int, int]
_PAIRS: st.SearchStrategy[_Pair] = populations(4, 3, 3, least=2).flatmap(
    lambda case: st.tuples(st.just(case), *[st.integers(0, len(case[0]) - 1)] * 2)
)


def _blocks(kernel: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Evidence:
    """Compare an entry of the kernel with Definition 1, by quadrature and with the indicator of the same client."""

    def sides(case: _Pair) -> tuple[float, float]:
        (inputs, held), i, j = case
        x, client = np.array(inputs), np.array(held)
        return float(kernel(x, client)[i, j]), expectation(x[i], x[j]) if client[i] == client[j] else 0.0

    def show(case: _Pair) -> str:
        return f"samples {case[1] + 1} and {case[2] + 1} of {written(case[0])}"

    names = ("entry of the kernel", "of the definition")
    return search(_PAIRS, sides, relation="==", tolerance=1e-10, names=names, show=show)


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

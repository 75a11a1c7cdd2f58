"""FF-09: a score of zero alone does not leave a client out.

FF-09c: who is left out of both sums has no weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, sampled, search
from theory_checks.factorized_fl.tables import CLIENTS
from theory_checks.factorized_fl.weighted_average import Scores, scores, softmax

FF09 = Claim(
    id="FF-09",
    place="section 4.2, sentence after equation (4), with equation (5)",
    said_by="paper",
    words="Setting the scores of unmatched clients to zero leaves them out of the aggregate.",
    statement="sigma_i < tau => sigma_i := 0 => omega_i = 0",
    severity="unstated condition",
    assumptions="20 clients as in the experiments, four of them in each domain; matched clients have similarity one, "
    "which makes the others' share as small as it can be; the text does not state ε",
    sensitivity="any positive weight",
    flaw="A score of zero still has the weight exp(0) = 1 before normalisation: with four of twenty clients matched "
    "and ε = 1 the other sixteen keep 16 / (16 + 4 e) = 60% of the weight, with ε = 20 only 8 billionths. They are "
    "left out only if the sums of (5) run over the set of matched clients that (4) defines.",
    corrected="FF-09c",
)


class Share(NamedTuple):
    """So many of the clients reach the threshold, with similarity one; the others have one half."""

    matched: int
    scale: int

    def __str__(self) -> str:
        return f"{self.matched} of {CLIENTS} clients matched, ε = {self.scale}"


#: Of the released code's domain settings.
_THRESHOLD = 0.95


def _unmatched(
    scales: tuple[int, ...],
    at_most: float,
    *,
    matched: tuple[int, ...] = (4, 1, 10, 19),
    threshold: float = _THRESHOLD,
    exclude: bool = False,
) -> Evidence:
    """Weight that clients below the threshold receive together."""

    def kept(case: Share) -> float:
        similarities = (1.0,) * case.matched + (0.5,) * (CLIENTS - case.matched)
        omega = softmax(Scores(similarities, case.scale), threshold=threshold, exclude=exclude)
        return float(omega[case.matched :].sum())

    def cases() -> Iterator[Share]:
        for scale, several in product(scales, matched):
            yield Share(several, scale)

    def show(case: Share) -> str:
        return f"{case}: the others keep {kept(case):.2g} of the weight"

    return sampled(cases(), lambda case: kept(case) <= at_most, of="numbers of matched clients", show=show)


@FF09.reading("scores of zero enter the softmax")
def enter() -> Evidence:
    return _unmatched((1, 20), 0.0)


@FF09.reading("the sums run over the set of matched clients of equation (4)")
def matched_only() -> Evidence:
    return _unmatched((1, 20), 0.0, exclude=True)


@FF09.reading("scores of zero enter the softmax, ε = 20, a share of a millionth tolerated", natural=False)
def nearly() -> Evidence:
    return _unmatched((20,), 1e-6)


@FF09.mutant("the sums run over the matched clients, with the threshold at the others' similarity")
def lower_threshold() -> Evidence:
    return _unmatched((1, 20), 0.0, threshold=0.5, exclude=True)


FF09C = Claim(
    id="FF-09c",
    place="corrected statement of FF-09",
    said_by="fedstat",
    words="Unmatched clients left out of both sums have weight zero, and the others' weights sum to one.",
    statement="omega_i = cases(e^(epsilon sigma_i) / (sum_(j : sigma_j >= tau) e^(epsilon sigma_j)) & "
    '"if" sigma_i >= tau, '
    '0 & "otherwise"), quad sum_i omega_i = 1',
    severity="unstated condition",
    assumptions="the threshold is at most one, which the client itself always reaches",
    sensitivity="a difference of 10⁻¹² of an aggregate of entries up to nine",
)


class Matching(NamedTuple):
    """Similarities with a threshold in quarters, and one entry of each client's vector."""

    scores: Scores
    threshold: float
    u: tuple[int, ...]

    def __str__(self) -> str:
        entries = ", ".join(map(str, self.u))
        return f"{self.scores}, threshold {self.threshold:g}, entries ({entries})".replace("-", "−")


_matchings = st.tuples(scores(20), st.integers(-4, 4)).flatmap(
    lambda drawn: st.tuples(*[st.integers(-9, 9)] * len(drawn[0].similarity)).map(
        lambda u: Matching(drawn[0], drawn[1] / 4, u)
    )
)


def _selective(*, exclude: bool) -> Evidence:
    """Compare the aggregate of any vectors with a softmax average over the matched clients alone.

    A client has similarity one with itself, so somebody always reaches a threshold up to one. Leaving the others
    out of both sums gives them weight zero and leaves positive weights that sum to one. An aggregate that agrees
    whatever the vectors has these weights.
    """

    def sides(case: Matching) -> tuple[float, float]:
        omega = softmax(case.scores, threshold=case.threshold, exclude=exclude)
        raw = [math.exp(case.scores.scale * (s - 1)) if s >= case.threshold else 0.0 for s in case.scores.similarity]
        average = math.fsum(r * u for r, u in zip(raw, case.u, strict=True)) / math.fsum(raw)
        return float(omega @ case.u), average

    return search(_matchings, sides, relation="==", tolerance=1e-12, names=("the aggregate", "the matched clients'"))


@FF09C.reading("up to five clients")
def left_out() -> Evidence:
    return _selective(exclude=True)


@FF09C.mutant("scores of zero enter the softmax")
def left_in() -> Evidence:
    return _selective(exclude=False)

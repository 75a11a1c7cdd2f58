"""FS-39: whether the rates quoted are those of their papers."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence, not_checkable

FS39 = Claim(
    id="FS-39",
    place="section 3.3, paragraph after Theorem 1, last two sentences",
    said_by="paper",
    words="The convergence rates quoted for pFedMe and Per-FedAvg are those of their papers.",
    statement='"pFedMe: " cal(O)(1 \\/ (T G C)^(2 \\/ 3)), quad "Per-FedAvg: " cal(O)(1 \\/ T^(3 \\/ 2))',
    severity="misprint",
    sensitivity="none",
)


@FS39.reading("the quoted papers' theorems")
def quoted_theorems() -> Evidence:
    return not_checkable(
        "the statements of the quoted papers are not among the sources at hand, and what the rates measure is not "
        "said. If it is the squared gradient norm of a smooth non-convex function after T steps, first-order methods "
        "cannot in general do better than 1/T, so 1/T^(3/2) would look like an inverted exponent; that is not judged"
    )

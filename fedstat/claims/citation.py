"""Cite a judgement: a remark for LaTeX, and where the judgement comes from."""

from __future__ import annotations

from collections.abc import Mapping

from fedstat._environment import environment
from fedstat._files import sha256
from fedstat.claims.claim import Claim, Judgement
from fedstat.claims.evidence import FAVOURABLE
from fedstat.inference.comparing.printing import tex


def source(claim: Claim) -> dict[str, str]:
    """Return what a citation must name: paper, the claim's file and its digest, version and revision of fedstat."""
    here = environment()
    file = {"file": claim.file.name, "digest": sha256(claim.file)} if claim.file else {}
    paper = {"link": claim.link} if claim.link else {}
    return paper | file | {"fedstat": here["packages"]["fedstat"], "revision": here["revision"]}


def remark(judgement: Judgement, claims: Mapping[str, Claim]) -> str:
    r"""Return a judgement as a remark for LaTeX: statement, place, verdict, counterexample, and where it comes from.

    The preamble needs ``\newtheorem{remark}{Remark}`` and no package. `claims` holds the corrected statement by its id.

    Examples
    --------
    >>> from fedstat.claims import Claim, Sides, compared, judge, remark
    >>> claim = Claim(id="EX-01", paper="Powers", place="folklore", said_by="paper", severity="false",
    ...     words="2^n is at least n^2.", statement="2^n >= n^2", sensitivity="any excess")
    >>> powers = [Sides(f"n = {n}", n**2, 2**n) for n in range(9)]
    >>> letter = claim.reading("every n")(lambda: compared(powers, of="numbers"))
    >>> control = claim.control("n = 4")(lambda: compared([Sides("n = 4", 16, 16)], of="numbers"))
    >>> print(remark(judge(claim), {}))  # doctest: +ELLIPSIS
    \begin{remark}[Powers, folklore]
    ``2\textasciicircum{}n is at least n\textasciicircum{}2.'' is refuted.
    Counterexample: n = 3: found 9, claimed 8.
    Judged as EX-01 by fedstat ...
    \end{remark}
    """
    claim = judgement.claim
    words = {"holds": "holds", "holds-on-cases": "has no counterexample among the cases tried"}
    verdict = words.get(judgement.verdict, f"is {judgement.verdict}")
    if judgement.saved_by:
        how = "in one reading" if judgement.verdict == "holds-in-a-reading" else "on a condition that is not stated"
        verdict = f"is true {how}: {judgement.saved_by}"
    lines = [f"``{tex(claim.words)}'' {tex(verdict)}."]
    natural = [judgement.evidence[r.name] for r in claim.readings if r.natural]
    cases = [e.counterexample for e in natural if e.counterexample and judgement.verdict not in FAVOURABLE]
    found = f"Counterexample: {cases[0]}" if cases else judgement.main.summary
    lines += [f"{tex(found.rstrip('.'))}."]
    lines += [tex(claim.flaw)] if claim.flaw else []
    if claim.corrected:
        lines.append(f"True instead ({claim.corrected}): {tex(claims[claim.corrected].words)}")
    origin = source(claim)
    said = f"The paper: \\texttt{{{tex(claim.link)}}}. " if claim.link else ""
    said += f"Judged as {claim.id} by fedstat {origin['fedstat']}"
    said += f", revision {origin['revision']}" if origin["revision"] else ""
    if "file" in origin:
        said += f", from \\texttt{{{tex(origin['file'])}}} (SHA-256 {origin['digest'][:12]})"
    cited = ", ".join(filter(None, [claim.paper, claim.place]))
    return "\n".join([f"\\begin{{remark}}[{tex(cited)}]", *lines, f"{said}.", r"\end{remark}"])

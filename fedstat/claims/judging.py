"""Judge all claims of a file or a folder, on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from fedstat._workers import run_jobs
from fedstat.claims.claim import ClaimError, Judgement, judge
from fedstat.claims.counterexample import searching
from fedstat.claims.evidence import Evidence
from fedstat.claims.files import read_claims
from fedstat.claims.studies import Studies

#: Fewer claims than this are judged where we are: starting workers takes seconds.
_FEW = 4
_claims = cache(read_claims)


def judge_all(
    path: str | Path, ids: Sequence[str] = (), *, studies: Path | None = None, cases: int | None = None
) -> list[Judgement]:
    """Judge claims, each in a worker process with one thread.

    Parameters
    ----------
    path : str or Path
        A Python file with claims, or a folder of such files.
    ids : sequence of str
        Which claims; all if there are none.
    studies : Path, optional
        Folder with one folder of tables per study, for claims that read some.
    cases : int, optional
        Cases that every search tries, in place of its own number.

    Raises
    ------
    ClaimError
        If the claims cannot be read, one of `ids` is unknown, or one cannot be judged. Its `judged` then holds the
        judgements of the others.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedstat.claims import judge_all
    >>> file = Path(tempfile.mkdtemp(), "example_powers.py")
    >>> _ = file.write_text('''
    ... from fedstat.claims import Claim, Sides, compared
    ... POWERS = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    ... @POWERS.reading("n from 4 to 99")
    ... def letter():
    ...     return compared([Sides(f"n = {n}", n**2, 2**n) for n in range(4, 100)], of="numbers")
    ... ''')
    >>> [(j.claim.id, j.verdict) for j in judge_all(file)]
    [('EX-01', 'holds-on-cases')]
    """
    ids = [ids] if isinstance(ids, str) else ids
    claims = _claims(path)
    unknown = [name for name in ids if name not in claims]
    if unknown:
        raise ClaimError(f"{path} has no claim {unknown[0]}; there are {', '.join(claims)}.")
    chosen = list(dict.fromkeys(ids)) or list(claims)
    file = Path(path).absolute()  # workers may stand elsewhere
    jobs = [partial(_judged, file, name, studies and studies.absolute(), cases) for name in chosen]
    found = run_jobs("claims", jobs, few=_FEW)
    faults = [str(one) for one in found if isinstance(one, ClaimError)]
    each = zip(chosen, found, strict=True)
    judged = [Judgement(claims[name], *one) for name, one in each if not isinstance(one, ClaimError)]
    if faults:
        error = ClaimError("\n".join(faults))
        error.judged = judged
        raise error
    return judged


#: Evidence of readings, conditions, mutants and controls, by their names.
Found = tuple[dict[str, Evidence], ...]


def _judged(path: str | Path, name: str, studies: Path | None, cases: int | None) -> Found | ClaimError:
    """Return what a judgement holds beside the claim, which cannot travel between processes, or what it lacks."""
    try:
        with searching(cases):
            judgement = judge(_claims(path)[name], Studies(studies))
    except ClaimError as error:
        return error
    return judgement.evidence, judgement.conditions, judgement.mutants, judgement.controls

"""``fedstat judge``: run the checks of anybody's claims and print the verdicts."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer


def judge(
    path: Annotated[Path, typer.Argument(help="A Python file with claims, or a folder of such files.")],
    ids: Annotated[list[str] | None, typer.Argument(help="Claims to explain, e.g. FS-04; all if left out.")] = None,
    cases: Annotated[
        int | None, typer.Option(min=1, help="How many cases every search tries.", show_default="its own number")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Tables of studies, a folder for each, for claims on training."
        ),
    ] = None,
    executor: Annotated[
        Literal["processes", "ray"],
        typer.Option(help="Who judges: processes of this machine, or tasks of a Ray cluster."),
    ] = "processes",
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgements as a JSON list.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print a remark for LaTeX for each claim.")] = False,
) -> None:
    """Judge claims: search, enumerate or compute what would refute them, and say what was found.

    A claim is a fedstat.claims.Claim with its checks, as the documentation of that module shows; mutants show that a
    check can fail.

    Examples:

    \b
    fedstat judge my_claims.py
    fedstat judge my_claims EX-02 --cases 10000
    fedstat judge my_claims EX-02 --latex  # a remark to cite, with counterexample, version and digest
    """
    from fedstat._warnings import plain_warnings
    from fedstat._workers import workers
    from fedstat.claims import ClaimError, as_object, explain, judge_all, read_claims, remark, table
    from fedstat.claims.citation import source

    unjudged = None
    try:
        with plain_warnings(), workers(executor):
            judgements = judge_all(path, ids or (), studies=results, cases=cases)
    except ClaimError as error:
        unjudged, judgements = error, [*error.judged]
        if "no folder of tables was given" in str(error):
            line = shlex.join(["fedstat", "judge", str(path), *(ids or ()), "--results", "reports/results"])
            unjudged = ClaimError(f"{error}\nA checkout of the sources has such a folder: `{line}`.")
        if not judgements:
            raise unjudged from None
    claims = read_claims(path)
    if as_json:
        entries = [as_object(j) | {"words": j.claim.words, "source": source(j.claim)} for j in judgements]
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
    elif as_latex:
        typer.echo("\n\n".join(remark(j, claims) for j in judgements))
    else:
        typer.echo(table(judgements))
        for judgement in judgements if ids else ():
            typer.echo("\n" + explain(judgement, claims))
    if unjudged is not None:
        raise unjudged

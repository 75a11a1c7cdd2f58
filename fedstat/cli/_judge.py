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
        int | None, typer.Option(min=1, help="Cases that every search tries.", show_default="its own number")
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
) -> None:
    """Judge claims: search, enumerate or compute what would refute them, and say what was found.

    A claim is a fedstat.claims.Claim with its checks, as the documentation of that module shows; a mutant that its
    check must refute comes with it.

    Examples:

    \b
    fedstat judge my_claims.py
    fedstat judge my_claims EX-02 --cases 10000
    """
    from fedstat._warnings import plain_warnings
    from fedstat._workers import workers
    from fedstat.claims import ClaimError, as_object, explain, judge_all, read_claims, table

    try:
        with plain_warnings(), workers(executor):
            judgements = judge_all(path, ids or (), studies=results, cases=cases)
    except ClaimError as error:
        if "no folder of tables was given" not in str(error):
            raise
        line = shlex.join(["fedstat", "judge", str(path), *(ids or ()), "--results", "reports/results"])
        raise ClaimError(f"{error} A checkout of the sources has one: `{line}`.") from None
    if as_json:
        typer.echo(json.dumps([as_object(j) for j in judgements], indent=2, ensure_ascii=False))
        return
    typer.echo(table(judgements))
    claims = read_claims(path)
    for judgement in judgements if ids else ():
        typer.echo("\n" + explain(judgement, claims))

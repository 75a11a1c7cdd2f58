"""``fedstat factor``: a principal-axis factor analysis of a user's own table or network."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from fedstat._files import check_not_read
from fedstat._in_words import counted
from fedstat.cli._factor_told import Analysis, as_text, as_values, bootstrapped, plot_scree, write_scores
from fedstat.inference.formatting import first_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fedstat.factor import FitTests, Retention
    from fedstat.factor.diagnostics import SamplingAdequacy, Sphericity
    from fedstat.factor.files import Table
    from fedstat.factor.gaps import Missing
    from fedstat.factor.rotation import Rotation

_RULES_UP_TO = 512  # columns beyond which parallel analysis takes many seconds
_NUMBERS_UP_TO = 60  # columns beyond which likelihoods of several numbers of factors take seconds
_KAPPA = 0.85  # FedFac's contribution
#: What becomes of rows with gaps, and what is assumed of them.
_GAPS: dict[str, Literal["refuse", "drop", "keep"]] = {
    "refuse": "refuse", "listwise": "drop", "pairwise": "keep", "likelihood": "keep",
}  # fmt: skip
_ASSUMED = {
    "listwise": "rows with gaps are left out, as if values were missing by chance alone.",
    "pairwise": "each correlation is that of the rows with both values, as if values were missing by chance alone. "
    "Parallel analysis counts all rows.",
    "likelihood": "correlations by full-information maximum likelihood: what is missing may depend on the "
    "answers, which are taken as normal. Parallel analysis counts all rows.",
}
_TO_TARGET = ("target_ort", "target_obl")


def factor(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="A table (.csv, .tsv, .txt, .npy) or weights (.npy, .safetensors)."
        ),
    ],
    correlation: Annotated[
        bool, typer.Option("--correlation", help="The table is a correlation matrix, both triangles filled in.")
    ] = False,
    observations: Annotated[
        int | None, typer.Option(min=2, help="Rows behind the correlations, for parallel analysis and Bartlett's test.")
    ] = None,
    factors: Annotated[
        str,
        typer.Option(
            metavar="auto|N",
            help="Number of factors to extract. auto: for a table as parallel analysis says; for correlations without "
            "--observations as the minimum average partial; for the units of a layer as the contribution rule.",
        ),
    ] = "auto",
    contribution: Annotated[
        float | None,
        typer.Option(
            help="Extract as many as hold this share of the eigenvalues of R, in (0, 1]. That is FedFac's rule for "
            "networks (there by default with 0.85), and far too many for questionnaires.",
            show_default=False,
        ),
    ] = None,
    rotate: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="Rotate the loadings: varimax, quartimax, equamax, geomin_ort; or obliquely: promax, oblimin, "
            "quartimin, geomin_obl. With --target: target_ort or target_obl.",
        ),
    ] = "none",
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Loadings to rotate to: .csv with the columns' names first and a column for every factor; empty where "
            "a loading is free.",
        ),
    ] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            min=50,
            metavar="DRAWS",
            help="Print 95% bootstrap intervals of loadings and communalities, from so many draws; 1000 are enough. "
            "With --ordinal a draw can take a second.",
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Write each row's scores on the rotated factors as .csv."),
    ] = None,
    score_method: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="regression: closest to the factors; bartlett: free of the other factors; tenberge: correlate as the "
            "factors do.",
        ),
    ] = "regression",
    ordinal: Annotated[
        bool,
        typer.Option(
            "--ordinal",
            help="Columns hold answers in few steps: polychoric correlations in place of Pearson's, pair by pair where "
            "answers are missing.",
        ),
    ] = False,
    without: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Leave out a column; may be given repeatedly.")
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="Where a cell is empty or holds ., NA, N/A, #N/A, NaN, null or none: refuse; listwise: leave the row "
            "out; pairwise: each correlation from the rows that have both values; likelihood: full-information maximum "
            "likelihood of a normal law.",
        ),
    ] = "refuse",
    layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Layer or tensor of a .safetensors file; its units are analysed.")
    ] = None,
    clients: Annotated[
        bool, typer.Option("--clients", help="The weights are stacked: clients on the first axis, then units.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write a scree plot as .pdf, .svg or .png.")
    ] = None,
) -> None:
    """Analyse the factors of a table, or of a layer's units.

    Says how many factors several rules would keep, whether the solution
    converged and is identified, and prints the loadings as R's psych does.
    Parallel analysis sets the number of factors of a table, FedFac's
    contribution rule that of a layer's units; --factors sets it by hand.
    "Identified (locally)" means that no neighbouring communalities fit as
    well; others further away are not looked for.

    A table has a line for every observation; names of columns and rows are
    recognised. A layer's table has a column for every unit and a row for
    every incoming weight (below one another for stacked clients).

    Examples:

    \b
    fedstat factor answers.csv --without age --factors 5 --rotate oblimin
    fedstat factor answers.csv --rotate varimax --bootstrap 1000
    fedstat factor answers.csv --rotate oblimin --scores scores.csv
    fedstat factor tests.csv --correlation --observations 213 --plot scree.pdf
    fedstat factor model.safetensors --layer conv1 --contribution 0.9
    """
    from rich.console import Console

    from fedstat.factor.rotation import OBLIQUE, ORTHOGONAL
    from fedstat.factor.scores import METHODS

    methods = ("none", *ORTHOGONAL, *OBLIQUE, *_TO_TARGET)
    rotate = rotate.lower()
    if factors != "auto" and not (factors.isdecimal() and int(factors) >= 1):
        raise typer.BadParameter(f"{factors} is neither auto nor a number of at least 1.", param_hint="--factors")
    wanted = None if factors == "auto" else int(factors)
    if wanted is not None and contribution is not None:
        raise typer.BadParameter("--factors and --contribution exclude each other.")
    if (rotate in _TO_TARGET) != (target is not None):
        raise typer.BadParameter(f"--target and --rotate {' or '.join(_TO_TARGET)} go together.")
    if target is not None and contribution is not None:
        raise typer.BadParameter("--contribution does not go with --target, which has as many factors as columns.")
    if bootstrap is not None and (correlation or layer is not None or clients):
        raise typer.BadParameter("it draws the rows of a table, which must be independent.", param_hint="--bootstrap")
    if contribution is not None and not 0 < contribution <= 1:
        raise typer.BadParameter(f"{contribution} does not lie in (0, 1].", param_hint="--contribution")
    named = (("--rotate", rotate, methods), ("--score-method", score_method, METHODS), ("--missing", missing, _GAPS))
    for option, word, words in named:
        if word not in words:
            raise typer.BadParameter(f"choose one of {', '.join(words)}, not {word}.", param_hint=option)
    if scores is not None and (correlation or layer is not None or clients):
        raise typer.BadParameter("only rows of a table of observations have scores.", param_hint="--scores")
    for option, path, endings in (("--scores", scores, [".csv"]), ("--plot", plot, [".pdf", ".svg", ".png"])):
        if path is not None and path.suffix.lower() not in endings:
            told = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
            raise typer.BadParameter(f"{path} must end in {told}.", param_hint=option)
        if path is not None and not path.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {path.parent}.", param_hint=option)
        check_not_read(option, path, file, target)
    if correlation and (layer is not None or clients or missing != "refuse"):
        raise typer.BadParameter("--layer, --clients and --missing do not go with --correlation.")
    if ordinal and (correlation or layer is not None or clients):
        raise typer.BadParameter("only columns of a table of observations hold answers.", param_hint="--ordinal")
    if ordinal and missing == "likelihood":
        raise typer.BadParameter("--missing likelihood is for Pearson's correlations.", param_hint="--ordinal")
    if observations is not None and not correlation:
        raise typer.BadParameter("only for --correlation; rows of a table are counted.", param_hint="--observations")

    from fedstat.factor.files import read_correlation, read_table

    with warnings.catch_warnings(record=True) as caught, Console(stderr=True).status("reading") as status:
        warnings.simplefilter("always", UserWarning)
        if correlation:
            table = read_correlation(file, without=without or ())
        else:
            table = read_table(file, layer=layer, clients=clients, without=without or (), missing=_GAPS[missing])
            observations = None if table.weights else len(table.values)
        aim = None if target is None else _read_target(target, table.names)
        kind = "correlation" if correlation else "weights" if table.weights else "ordinal" if ordinal else "table"
        analysis = _analyse(table, missing, kind, observations, wanted, contribution, rotate, aim, status.update)
        if plot is not None:
            plot_scree(analysis, plot)
        scored = None if scores is None else write_scores(analysis, score_method, scores)
    drawn = None if bootstrap is None else bootstrapped(analysis, bootstrap)
    ours, theirs = "--factors, or a smaller --contribution", "n_factors, or a smaller contribution"
    notes = [*dict.fromkeys(str(warning.message).replace(theirs, ours) for warning in caught), *analysis.notes]
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        found = {"file": str(file), "layer": layer, **as_values(analysis, drawn), "notes": notes}
        found["scores"] = None if scored is None else {"file": str(scores), "method": score_method, **scored}
        typer.echo(json.dumps(found, allow_nan=False))
    else:
        typer.echo(as_text(str(file) if layer is None else f"{file}, layer {layer}", analysis))
        if drawn is not None:
            typer.echo(f"\n{drawn.text(analysis.names(analysis.varies))}")
        if scored is not None:
            each = ", ".join(f"{name} {value:.2f}" for name, value in scored["determinacy"].items())
            typer.echo(f"\nscores by {score_method}: {scores}; they correlate with their factors: {each}")
        if plot is not None:
            typer.echo(f"\nscree plot: {plot}")


def _analyse(
    table: Table,
    missing: str,
    kind: str,
    observations: int | None,
    factors: int | None,
    contribution: float | None,
    rotate: str,
    target: np.ndarray | None,
    status: Callable[[str], None],
) -> Analysis:
    import numpy as np

    from fedstat.factor import Moments, PrincipalAxis, moments_with_gaps, polychoric, root_mean_square_residual
    from fedstat.factor.correlation import smoothed
    from fedstat.factor.ordinal import STEPS
    from fedstat.factor.rotation import rotate as rotated
    from fedstat.factor.targets import target_rotation

    gaps = cast("Missing", missing) if np.isnan(table.values).any() else None  # which other ways leave none of
    notes = [_ASSUMED[missing]] if gaps or table.left_out else []
    n, p = table.values.shape
    square = table.values[:, :n]
    if (
        kind == "table"
        and n <= p
        and np.allclose(square, square.T, 0, 1e-6)
        and np.allclose(np.diag(square), 1, 0, 1e-6)
    ):
        notes.append("the table is symmetric with ones on its diagonal; add --correlation if it holds correlations.")
    moments = None
    if kind in ("table", "weights"):
        moments = Moments.of(table.values) if gaps is None else moments_with_gaps(table.values, gaps)
    varies = np.arange(p) if moments is None else np.flatnonzero(moments.varies())
    if kind == "ordinal":
        for name, column in zip(table.names, table.values.T, strict=True):
            steps = len(np.unique(column[~np.isnan(column)]))
            if steps > STEPS:
                raise ValueError(
                    f"column {name!r} holds more than {STEPS} values; leave it (--without) or --ordinal out."
                )
            if steps < 2:
                raise ValueError(f"column {name!r} holds one value alone; leave it out (--without).")
    if len(varies) < 2:
        raise ValueError(f"columns that vary: {len(varies)} of {p}; correlations need at least two.")
    if factors is not None and factors > len(varies):
        raise ValueError(f"--factors {factors} is too many for {len(varies)} columns that vary.")
    if target is not None and factors not in (None, target.shape[1]):
        raise ValueError(f"--factors is {factors}, but the target has {counted(target.shape[1], 'factor')}.")

    status("number of factors")
    if moments is not None:
        r = moments.correlation()
    elif kind == "ordinal":
        r = polychoric(table.values)
    else:
        r = table.values
    r, change = smoothed(r)
    if change:
        notes.append(
            "the correlations belong to no table, so they were smoothed as in psych (no negative eigenvalues), which "
            f"changed them by up to {change:.3f}."
        )
        if moments is not None:
            scale, scatter = np.sqrt(np.diag(moments.scatter)[varies]), moments.scatter.copy()
            scatter[np.ix_(varies, varies)] = r * np.outer(scale, scale)
            moments = replace(moments, scatter=scatter)
    if kind == "ordinal" and observations is not None:
        notes.append(
            "parallel analysis draws normal variables: polychoric correlations vary more, so it may keep too many."
        )
    decide = factors is None and target is None and contribution is None and kind != "weights"
    rules = _rules(r, observations, _KAPPA if contribution is None else contribution, decide, notes)
    if decide:
        m, decided_by = _decision(rules, notes)
    elif factors is not None:
        m, decided_by = factors, "--factors"
    elif target is not None:
        m, decided_by = target.shape[1], "--target"
    else:
        m, decided_by = rules[0].n_factors, rules[0].rule
    status("principal axes")
    fit = PrincipalAxis(m)
    fit = fit.fit_correlation(r) if moments is None else fit.fit_moments(moments)
    turn: Callable[[np.ndarray], Rotation] | None = None
    if target is not None:
        turn = partial(target_rotation, target=target[varies], oblique=rotate == "target_obl")
    elif rotate != "none":
        turn = partial(rotated, method=rotate)
    rotation = None if turn is None else turn(fit.loadings_[varies])
    if rotation is not None:  # rows of zeros where columns do not vary
        loadings = np.zeros((p, m))
        loadings[varies] = rotation.loadings
        rotation = replace(rotation, loadings=loadings)
    status("measures")
    tests = not gaps and kind != "ordinal"
    measures = _measures(table, kind, fit.correlation_, varies, observations, m, tests, change > 0, notes)
    residual = root_mean_square_residual(fit.correlation_, fit.loadings_[varies])
    solved = (fit, rules, decided_by, turn, rotate, rotation)
    return Analysis(table, gaps, kind, observations, varies, *solved, *measures, residual, notes)


def _measures(
    table: Table,
    kind: str,
    r: np.ndarray,
    varies: np.ndarray,
    observations: int | None,
    m: int,
    tests: bool,
    smooth: bool,
    notes: list[str],
) -> tuple[SamplingAdequacy | None, Sphericity | None, FitTests | None, pd.DataFrame | None]:
    """Measure what the kind of table allows, and note what it does not."""
    import numpy as np

    from fedstat.factor import bartlett, compare_numbers, fit_tests, kmo

    n, p = len(table.values), len(r)
    few = observations is not None and observations <= p
    if kind == "weights":
        notes.append(
            "no parallel analysis, Kaiser-Meyer-Olkin measure or Bartlett's test: the incoming weights of a unit are "
            "no independent observations."
        )
        return None, None, None, None
    if kind == "table" and few:
        notes.append(f"no Kaiser-Meyer-Olkin measure or Bartlett's test: {n} rows are too few for {p} columns.")
        return None, None, None, None
    adequacy = sphericity = likelihood = numbers = None
    try:
        adequacy = kmo(r)
    except ValueError:  # R is singular
        name = table.names[varies[np.abs(np.linalg.eigh(r)[1][:, 0]).argmax()]]
        why = f"column {name} is a combination of others; leave it out (--without)."
        if smooth:
            why = "smoothed correlations have no inverse."
        notes.append(f"no Kaiser-Meyer-Olkin measure or Bartlett's test: {why}")
    if observations is None:
        notes.append("no parallel analysis or Bartlett's test: they need --observations, the rows behind R.")
    elif not tests:
        notes.append("no Bartlett's test or tests of fit: they are for Pearson's correlations of tables without gaps.")
    elif few:
        notes.append(f"no Bartlett's test: {observations} observations are too few for {p} columns.")
    elif adequacy is not None:
        sphericity = bartlett(r, observations)
        if (p - m) ** 2 > p + m and p <= _RULES_UP_TO:
            likelihood = fit_tests(r, observations, m)
    if observations is not None and (p - 1) ** 2 > p + 1 and p <= _NUMBERS_UP_TO:
        numbers = compare_numbers(r, observations, tests=tests and not few and adequacy is not None)
    return adequacy, sphericity, likelihood, numbers


def _rules(r: np.ndarray, observations: int | None, kappa: float, decide: bool, notes: list[str]) -> list[Retention]:
    """Ask the rules for the number of factors, the slow ones of many columns only where they decide."""
    import numpy as np

    from fedstat._threads import one_thread
    from fedstat.factor import (
        contribution_rule,
        factor_parallel_analysis,
        kaiser_rule,
        minimum_average_partial,
        parallel_analysis,
    )

    p = len(r)
    with one_thread(p):
        eigenvalues = np.linalg.eigvalsh(r)
    rules = [contribution_rule(eigenvalues, kappa), kaiser_rule(eigenvalues)]
    if p <= _RULES_UP_TO:
        if observations is not None:
            rules.append(parallel_analysis(eigenvalues, observations))
            if observations >= p + 2:
                if eigenvalues[0] > 1e-12 * eigenvalues[-1]:  # else there are no squared multiple correlations
                    rules.append(factor_parallel_analysis(r, observations))
                if p <= _NUMBERS_UP_TO:
                    rules.append(factor_parallel_analysis(r, observations, communalities="one factor"))
        return [*rules, minimum_average_partial(r)]
    if not decide:
        notes.append(f"no parallel analysis or minimum average partial: too slow above {_RULES_UP_TO} columns.")
    elif observations is not None:
        notes.append(f"parallel analysis by 20 simulations, no minimum average partial: above {_RULES_UP_TO} columns.")
        rules.append(parallel_analysis(eigenvalues, observations, simulations=20))
    else:
        rules.append(minimum_average_partial(r))
    return rules


def _decision(rules: list[Retention], notes: list[str]) -> tuple[int, str]:
    """Return the number of factors of a table, and which rule decided it."""
    # without the number of rows the minimum average partial
    rule = next((rule for rule in rules if rule.rule == "parallel analysis (of components)"), rules[-1])
    if rule.n_factors == 0:
        notes.append(
            f"{rule.rule} finds no factor: independent columns would look the same. One is extracted all the same."
        )
    return max(1, rule.n_factors), rule.rule


def _read_target(path: Path, names: Sequence[str]) -> np.ndarray:
    """Read loadings to rotate to, one row for each of `names`; NaN where the file has no number."""
    import numpy as np
    import pandas as pd

    from fedstat._checks import local

    try:
        frame = pd.read_csv(local("target", path), index_col=0)
        values = frame.astype(np.float64)
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(f"{path}: a target is a .csv of names and numbers ({error}).") from None
    unknown = [str(name) for name in frame.index if str(name) not in names]
    if unknown:
        raise ValueError(f"{path}: {first_of(unknown)}: no such column in the table, which has {first_of(names)}.")
    values.index = values.index.map(str)
    if values.index.has_duplicates or values.shape[1] == 0:
        raise ValueError(f"{path}: a target has one row for a column of the table, and a column for every factor.")
    return values.reindex(list(names)).to_numpy()

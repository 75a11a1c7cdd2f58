"""``fedstat factor``: a principal-axis factor analysis of a user's own table or network."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np

    from fedstat.factor import FitTests, LoadingBootstrap, PrincipalAxis, Retention
    from fedstat.factor.diagnostics import SamplingAdequacy, Sphericity
    from fedstat.factor.files import Table
    from fedstat.factor.rotation import Rotation

_RULES_UP_TO = 512  # columns beyond which parallel analysis takes many seconds
_KAPPA = 0.85  # FedFac's contribution
_TO_TARGET = ("target_ort", "target_obl")
_LONG, _WIDE = 60, 20  # variables and factors that a printed table of loadings may have


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
            help="Print 95% bootstrap intervals of loadings and communalities, from so many draws; 1000 are enough.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Leave out a column; may be given repeatedly.")
    ] = None,
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Leave out rows in which a value is missing: an empty cell, ., NA, N/A, #N/A, NaN, null or none.",
        ),
    ] = False,
    layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Layer or tensor of a .safetensors file; its units are analysed.")
    ] = None,
    clients: Annotated[
        bool, typer.Option("--clients", help="The weights are stacked: clients on the first axis, then units.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Write a scree plot as .pdf, .svg or .png."),
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
    fedstat factor tests.csv --correlation --observations 213 --plot scree.pdf
    fedstat factor model.safetensors --layer conv1 --contribution 0.9
    """
    from rich.console import Console

    from fedstat.factor.rotation import OBLIQUE, ORTHOGONAL

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
    if rotate not in methods:
        raise typer.BadParameter(f"choose one of {', '.join(methods)}, not {rotate}.", param_hint="--rotate")
    if plot is not None and plot.suffix.lower() not in (".pdf", ".svg", ".png"):
        raise typer.BadParameter(f"{plot} must end in .pdf, .svg or .png.", param_hint="--plot")
    if plot is not None and not plot.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {plot.parent}.", param_hint="--plot")
    if correlation and (layer is not None or clients or drop_missing):
        raise typer.BadParameter("--layer, --clients and --drop-missing do not go with --correlation.")
    if observations is not None and not correlation:
        raise typer.BadParameter("only for --correlation; rows of a table are counted.", param_hint="--observations")

    from fedstat.factor.files import read_correlation, read_table

    with warnings.catch_warnings(record=True) as caught, Console(stderr=True).status("reading") as status:
        warnings.simplefilter("always", UserWarning)
        if correlation:
            table = read_correlation(file, without=without or ())
        else:
            table = read_table(file, layer=layer, clients=clients, without=without or (), drop_missing=drop_missing)
            observations = None if table.weights else len(table.values)
        aim = None if target is None else _read_target(target, table.names)
        analysis = _analyse(table, correlation, observations, wanted, contribution, rotate, aim, status.update)
        if plot is not None:
            _plot_scree(analysis, plot)
    drawn = None if bootstrap is None else _bootstrap(analysis, bootstrap)
    ours, theirs = "--factors, or a smaller --contribution", "n_factors, or a smaller contribution"
    notes = [*dict.fromkeys(str(warning.message).replace(theirs, ours) for warning in caught), *analysis.notes]
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        found = {"file": str(file), "layer": layer, **_plain(analysis, drawn), "notes": notes}
        typer.echo(json.dumps(found, allow_nan=False))
    else:
        typer.echo(_text(str(file) if layer is None else f"{file}, layer {layer}", analysis))
        if drawn is not None:
            typer.echo(f"\n{drawn.text(analysis.names(analysis.varies))}")
        if plot is not None:
            typer.echo(f"\nscree plot: {plot}")


@dataclass(frozen=True, eq=False)
class _Analysis:
    """The results of ``fedstat factor``."""

    table: Table
    kind: str
    observations: int | None
    varies: np.ndarray
    fit: PrincipalAxis
    rules: list[Retention]
    decided_by: str
    turn: Callable[[np.ndarray], Rotation] | None
    method: str
    rotation: Rotation | None
    kmo: SamplingAdequacy | None
    bartlett: Sphericity | None
    likelihood: FitTests | None
    rmsr: float
    notes: list[str]

    @property
    def loadings(self) -> np.ndarray | Rotation:
        """The loadings, rotated if that was asked for."""
        return self.fit.loadings_ if self.rotation is None else self.rotation

    def names(self, columns: np.ndarray) -> list[str]:
        """Return the names of the columns at these positions."""
        return [self.table.names[j] for j in columns]


def _analyse(
    table: Table,
    correlation: bool,
    observations: int | None,
    factors: int | None,
    contribution: float | None,
    rotate: str,
    target: np.ndarray | None,
    status: Callable[[str], None],
) -> _Analysis:
    import numpy as np

    from fedstat.factor import Moments, PrincipalAxis, root_mean_square_residual

    notes = []
    kind = "correlation" if correlation else "weights" if table.weights else "table"
    n, p = table.values.shape
    square = table.values[:, :n]
    if (
        kind == "table"
        and n <= p
        and np.allclose(square, square.T, 0, 1e-6)
        and np.allclose(np.diag(square), 1, 0, 1e-6)
    ):
        notes.append("the table is symmetric with ones on its diagonal; add --correlation if it holds correlations.")
    moments = None if correlation else Moments.of(table.values)
    varies = np.arange(p) if moments is None else np.flatnonzero(moments.varies())
    if len(varies) < 2:
        raise ValueError(f"columns that vary: {len(varies)} of {p}; correlations need at least two.")
    if factors is not None and factors > len(varies):
        raise ValueError(f"--factors {factors} is too many for {len(varies)} columns that vary.")
    if target is not None and factors not in (None, target.shape[1]):
        raise ValueError(f"--factors is {factors}, but the target has {_counted(target.shape[1], 'factor')}.")

    status("number of factors")
    r = table.values if moments is None else moments.correlation()
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
    fit = fit.fit_correlation(table.values) if moments is None else fit.fit_moments(moments)
    turn = _turn(rotate, None if target is None else target[varies])
    rotation = None if turn is None else _with_constant(turn(fit.loadings_[varies]), varies, p)
    status("measures")
    measures = _measures(table, kind, fit.correlation_, varies, observations, m, notes)
    residual = root_mean_square_residual(fit.correlation_, fit.loadings_[varies])
    return _Analysis(
        table, kind, observations, varies, fit, rules, decided_by, turn, rotate, rotation, *measures, residual, notes
    )


def _turn(rotate: str, target: np.ndarray | None) -> Callable[[np.ndarray], Rotation] | None:
    """Return the function that rotates loadings of the columns that vary."""
    from fedstat.factor import rotate as rotated
    from fedstat.factor import target_rotation

    if target is not None:
        return partial(target_rotation, target=target, oblique=rotate == "target_obl")
    return None if rotate == "none" else partial(rotated, method=rotate)


def _measures(
    table: Table, kind: str, r: np.ndarray, varies: np.ndarray, observations: int | None, m: int, notes: list[str]
) -> tuple[SamplingAdequacy | None, Sphericity | None, FitTests | None]:
    """Measure what the kind of table allows, and note what it does not."""
    import numpy as np

    from fedstat.factor import bartlett, fit_tests, kmo

    n, p = len(table.values), len(r)
    few = observations is not None and observations <= p
    if kind == "weights":
        notes.append(
            "no parallel analysis, Kaiser-Meyer-Olkin measure or Bartlett's test: the incoming weights of a unit are "
            "no independent observations."
        )
        return None, None, None
    if kind == "table" and few:
        notes.append(f"no Kaiser-Meyer-Olkin measure or Bartlett's test: {n} rows are too few for {p} columns.")
        return None, None, None
    adequacy = sphericity = likelihood = None
    try:
        adequacy = kmo(r)
    except ValueError:  # R is singular
        name = table.names[varies[np.abs(np.linalg.eigh(r)[1][:, 0]).argmax()]]
        notes.append(
            f"no Kaiser-Meyer-Olkin measure or Bartlett's test: column {name} is a combination of others; leave it "
            "out (--without)."
        )
    if observations is None:
        notes.append("no parallel analysis or Bartlett's test: they need --observations, the rows behind R.")
    elif few:
        notes.append(f"no Bartlett's test: {observations} observations are too few for {p} columns.")
    elif adequacy is not None:
        sphericity = bartlett(r, observations)
        if (p - m) ** 2 > p + m and p <= _RULES_UP_TO:
            likelihood = fit_tests(r, observations, m)
    return adequacy, sphericity, likelihood


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
                rules.append(factor_parallel_analysis(r, observations))
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
        raise ValueError(f"{path}: {_listed(unknown)}: no such column in the table, which has {_listed(names)}.")
    values.index = values.index.map(str)
    if values.index.has_duplicates or values.shape[1] == 0:
        raise ValueError(f"{path}: a target has one row for a column of the table, and a column for every factor.")
    return values.reindex(list(names)).to_numpy()


def _with_constant(rotation: Rotation, varies: np.ndarray, p: int) -> Rotation:
    """Put rows of zeros where columns do not vary."""
    import numpy as np

    loadings = np.zeros((p, rotation.loadings.shape[1]))
    loadings[varies] = rotation.loadings
    return replace(rotation, loadings=loadings)


def _bootstrap(found: _Analysis, draws: int) -> LoadingBootstrap:
    from fedstat.factor import bootstrap_loadings

    x, m = found.table.values[:, found.varies], found.fit.n_factors_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the analysis of all rows has said it
        try:
            return bootstrap_loadings(x, m, found.turn, draws=draws)
        except ValueError as error:
            raise ValueError(str(error).replace("n_factors", "--factors")) from None


def _text(title: str, found: _Analysis) -> str:
    """Return the analysis as text for people."""
    import numpy as np

    from fedstat.factor import ledermann_bound
    from fedstat.factor.table import loading_table

    fit, table, m = found.fit, found.table, found.fit.n_factors_
    n, p = table.values.shape
    columns = f"{p} columns ({table.names[0]} to {table.names[-1]})"
    if found.kind == "correlation":
        lines = [f"{title}: correlations of {columns}"]
    elif found.kind == "weights":
        stacked = f"{table.clients} clients x " if table.clients > 1 else ""
        lines = [f"{title}: {stacked}{_counted(n // table.clients, 'incoming weight')} of {p} units"]
    else:
        lines = [f"{title}: {n} rows, {columns}"]
    if table.row_names is not None and found.kind == "table":
        lines.append("the first column was read as row names")
    if table.left_out:
        lines.append(f"left out: {_counted(table.left_out, 'row')} in which a value is missing")
    if len(fit.constant_):
        verb = "does" if len(fit.constant_) == 1 else "do"
        lines.append(f"left out: {_listed(found.names(fit.constant_))}, which {verb} not vary")

    lines += ["", "How many factors?", *(f"  {rule}" for rule in found.rules)]
    lines.append(f"  Ledermann bound: at most {ledermann_bound(len(fit.correlation_))} can be identified")
    lines.append(f"Extracted: {_counted(m, 'factor')}, decided by {found.decided_by}")

    state = "converged" if fit.converged_ else "NOT CONVERGED"
    identified = "identified (locally)" if fit.identified_ else "NOT IDENTIFIED"
    steps = f"{_counted(fit.n_iter_, 'step')} (residual {fit.residual_:.0e})"
    lines += ["", f"Principal axes, {_counted(m, 'factor')}: {state} in {steps}, {identified}"]
    if len(fit.heywood_):
        lines.append(f"Heywood cases, with communality 1: {_listed(found.names(fit.heywood_))}")
    if m <= _WIDE:
        rows = None if p <= _LONG else _LONG // m
        lines += ["", loading_table(found.loadings, table.names, communalities=fit.communalities_, per_factor=rows)]
    else:
        least, *quartiles, most = np.quantile(fit.communalities_, [0, 0.25, 0.5, 0.75, 1])
        between = ", ".join(f"{q:.2f}" for q in quartiles)
        lines.append(f"Communalities from {least:.2f} to {most:.2f}, quartiles {between}")
        lines.append(f"{m} columns of loadings are too wide to print; --json has them")

    lines += ["", *(str(measure) for measure in (found.kmo, found.bartlett, found.likelihood) if measure is not None)]
    return "\n".join([*lines, f"Root mean square of the residual correlations {found.rmsr:.3f}"])


def _plain(found: _Analysis, drawn: LoadingBootstrap | None) -> dict[str, Any]:
    """Return the analysis in values that JSON has; None for numbers that are undefined."""
    from pydantic_core import to_json

    from fedstat.factor import ledermann_bound
    from fedstat.factor.diagnostics import explained_variance

    fit, table = found.fit, found.table
    written = to_json(
        {
            "kind": found.kind,
            "rows": found.observations if found.kind == "correlation" else len(table.values),
            "rows_left_out": table.left_out,
            "columns": table.names,
            "constant": found.names(fit.constant_),
            "rules": [asdict(rule) for rule in found.rules],
            "ledermann_bound": ledermann_bound(len(fit.correlation_)),
            "n_factors": fit.n_factors_,
            "decided_by": found.decided_by,
            "converged": fit.converged_,
            "identified": fit.identified_,
            "steps": fit.n_iter_,
            "residual": fit.residual_,
            "criterion": fit.criterion_,
            "heywood": found.names(fit.heywood_),
            "eigenvalues": fit.eigenvalues_,
            "reduced_eigenvalues": fit.reduced_eigenvalues_,
            "communalities": fit.communalities_,
            "uniquenesses": fit.uniquenesses_,
            "loadings": fit.loadings_,
            "rotation": None if found.rotation is None else {"method": found.method, **asdict(found.rotation)},
            "explained_variance": explained_variance(found.loadings).T.to_dict("list"),
            "kmo": None if found.kmo is None else asdict(found.kmo),
            "bartlett": None if found.bartlett is None else asdict(found.bartlett),
            "likelihood": None if found.likelihood is None else asdict(found.likelihood),
            "root_mean_square_residual": found.rmsr,
            "bootstrap": None if drawn is None else asdict(drawn) | {"columns": found.names(found.varies)},
        },
        inf_nan_mode="null",
        fallback=lambda array: array.tolist(),
    )
    return dict(json.loads(written))


def _plot_scree(found: _Analysis, path: Path) -> None:
    import matplotlib.pyplot as plt

    from fedstat._files import atomic_file
    from fedstat.factor import scree_plot
    from fedstat.report.figures import style

    with style(), atomic_file(path) as temporary:
        figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
        scree_plot(found.fit.eigenvalues_, *found.rules, extracted=found.fit.n_factors_, ax=axes)
        figure.savefig(temporary, dpi=300)
        plt.close(figure)


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _listed(names: Sequence[str]) -> str:
    """List names, of a long list the first ten."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")

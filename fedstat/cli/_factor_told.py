"""What ``fedstat factor`` found: text for people, values that JSON has, bootstrap, scores and scree plot."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedstat._in_words import counted
from fedstat.inference.formatting import first_of, p_value

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fedstat.factor import FitTests, LoadingBootstrap, PrincipalAxis, Retention
    from fedstat.factor.diagnostics import SamplingAdequacy, Sphericity
    from fedstat.factor.files import Table
    from fedstat.factor.gaps import Missing
    from fedstat.factor.rotation import Rotation

_LONG, _WIDE = 60, 20  # variables and factors that a printed table of loadings may have


@dataclass(frozen=True, eq=False)
class Analysis:
    """The results of ``fedstat factor``."""

    table: Table
    gaps: Missing | None
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
    numbers: pd.DataFrame | None
    rmsr: float
    notes: list[str]

    @property
    def loadings(self) -> np.ndarray | Rotation:
        """The loadings of the columns that vary, rotated if that was asked for."""
        turned, varies = self.rotation, self.varies
        return self.fit.loadings_[varies] if turned is None else replace(turned, loadings=turned.loadings[varies])

    def names(self, columns: np.ndarray) -> list[str]:
        """Return the names of the columns at these positions."""
        return [self.table.names[j] for j in columns]


def as_text(title: str, found: Analysis) -> str:
    """Return the analysis as text for people."""
    import numpy as np

    from fedstat.factor import ledermann_bound
    from fedstat.factor.table import loading_table

    fit, table, varies, m = found.fit, found.table, found.varies, found.fit.n_factors_
    n, p = table.values.shape
    columns = f"{p} columns ({table.names[0]} to {table.names[-1]})"
    if found.kind == "correlation":
        lines = [f"{title}: correlations of {columns}"]
    elif found.kind == "weights":
        stacked = f"{table.clients} clients x " if table.clients > 1 else ""
        lines = [f"{title}: {stacked}{counted(n // table.clients, 'incoming weight')} of {p} units"]
    else:
        lines = [f"{title}: {n} rows, {columns}"]
    if found.kind == "ordinal":
        lines.append("polychoric correlations, pair by pair")
    if table.row_names is not None and found.kind in ("table", "ordinal"):
        lines.append("the first column was read as row names")
    if found.gaps:
        rows = np.isnan(table.values).any(axis=1).sum()
        lines.append(f"{counted(int(rows), 'row')} with gaps: correlations by {found.gaps}")
    if table.left_out:
        lines.append(f"left out: {counted(table.left_out, 'row')} in which a value is missing")
    if len(fit.constant_):
        verb = "does" if len(fit.constant_) == 1 else "do"
        units = "units" if found.kind == "weights" else "columns"
        constant = first_of(found.names(fit.constant_))
        lines.append(f"left out: {constant}, which {verb} not vary; {len(varies)} {units} are analysed")

    lines += ["", "How many factors?", *(f"  {rule}" for rule in found.rules)]
    lines.append(f"  Ledermann bound: at most {ledermann_bound(len(fit.correlation_))} can be identified")
    lines.append(f"Extracted: {counted(m, 'factor')}, decided by {found.decided_by}")
    if found.numbers is not None:
        lines += ["", _numbers(found.numbers)]

    state = "converged" if fit.converged_ else "NOT CONVERGED"
    identified = "identified (locally)" if fit.identified_ else "NOT IDENTIFIED"
    steps = f"{counted(fit.n_iter_, 'step')} (residual {fit.residual_:.0e})"
    lines += ["", f"Principal axes, {counted(m, 'factor')}: {state} in {steps}, {identified}"]
    if len(fit.heywood_):
        lines.append(f"Heywood cases, with communality 1: {first_of(found.names(fit.heywood_))}")
    communalities = fit.communalities_[varies]
    if m <= _WIDE:
        rows, names = None if len(varies) <= _LONG else _LONG // m, found.names(varies)
        lines += ["", loading_table(found.loadings, names, communalities=communalities, per_factor=rows)]
    else:
        least, *quartiles, most = np.quantile(communalities, [0, 0.25, 0.5, 0.75, 1])
        between = ", ".join(f"{q:.2f}" for q in quartiles)
        lines.append(f"Communalities from {least:.2f} to {most:.2f}, quartiles {between}")
        lines.append(f"{m} columns of loadings are too wide to print; --json has them")

    if found.kind != "weights" and (m == 1 or found.rotation is not None):
        lines += ["", *_scales(found)]
    lines += ["", *(str(measure) for measure in (found.kmo, found.bartlett) if measure is not None)]
    lines += [] if found.likelihood is None else [found.likelihood.text(found.names(varies))]
    return "\n".join([*lines, f"Root mean square of the residual correlations {found.rmsr:.3f}"])


def _numbers(table: pd.DataFrame) -> str:
    """Print the table over the number of factors."""
    import pandas as pd

    digits = {"chi2": 1, "RMSEA": 3, "SRMR": 3, "BIC": 1, "eigenvalue": 3, "by chance": 3, "MAP": 4}
    shown = {name: table[name].map(f"{{:.{places}f}}".format) for name, places in digits.items() if name in table}
    shown |= {"factors": table["factors"]}
    if "p" in table:
        shown |= {"df": table["df"], "p": table["p"].map(p_value)}
    order = [name for name in ("factors", "chi2", "df", "p", *list(digits)[1:]) if name in shown]
    return pd.DataFrame(shown)[order].rename(columns={"chi2": "chi square"}).to_string(index=False)


def _scales(found: Analysis) -> list[str]:
    """Return a line for each scale: its items, and how reliable their sum is."""
    names = found.names(found.varies)
    of = "what lies behind them" if found.kind == "ordinal" else "the standardised items"
    lines = [
        "Items by the factor on which they load most (- reversed), and the reliability of the sum of "
        f"{of}: Cronbach's alpha (psych's std.alpha) and omega total"
    ]
    for row in _reliability(found).to_dict("records")[:-1]:  # all items together are no scale
        keyed = [f"-{names[j]}" if j in row["reversed"] else names[j] for j in row["items"]]
        values = f"alpha {row['alpha']:.2f}, omega {row['omega']:.2f}" if len(keyed) > 1 else "a single item"
        lines.append(f"  {row['scale']}: {values}: {first_of(keyed)}")
    return lines


def _reliability(found: Analysis) -> pd.DataFrame:
    from fedstat.factor import reliability

    return reliability(found.fit.correlation_, found.loadings)


def as_values(found: Analysis, drawn: LoadingBootstrap | None) -> dict[str, Any]:
    """Return the analysis in values that JSON has; None for numbers that are undefined."""
    from pydantic_core import to_json

    from fedstat.factor import ledermann_bound
    from fedstat.factor.diagnostics import explained_variance

    fit, table, varies = found.fit, found.table, found.varies
    written = to_json(
        {
            "kind": found.kind,
            "rows": found.observations if found.kind == "correlation" else len(table.values),
            "rows_left_out": table.left_out,
            "gaps": found.gaps,
            "columns": table.names,
            "constant": found.names(fit.constant_),
            "rules": found.rules,
            "numbers": None if found.numbers is None else found.numbers.to_dict("records"),
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
            "structure": None if found.rotation is None else found.rotation.structure,
            "reliability": None if found.kind == "weights" else _reliability(found).to_dict("records"),
            "explained_variance": explained_variance(found.loadings).T.to_dict("list"),
            "kmo": found.kmo,
            "bartlett": found.bartlett,
            "likelihood": found.likelihood
            and asdict(found.likelihood) | {"heywood": found.names(varies[found.likelihood.heywood])},
            "root_mean_square_residual": found.rmsr,
            "bootstrap": None if drawn is None else asdict(drawn) | {"columns": found.names(varies)},
        },
        inf_nan_mode="null",
        fallback=lambda array: array.tolist(),
    )
    return dict(json.loads(written))


def bootstrapped(found: Analysis, draws: int) -> LoadingBootstrap:
    """Draw the rows of an analysis anew."""
    from fedstat.factor import bootstrap_loadings, polychoric

    gaps, correlation = (None, polychoric) if found.kind == "ordinal" else (found.gaps, None)
    x, m = found.table.values[:, found.varies], found.fit.n_factors_
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the analysis of all rows has said it
        try:
            return bootstrap_loadings(x, m, found.turn, missing=gaps, correlation=correlation, draws=draws)
        except ValueError as error:
            raise ValueError(str(error).replace("n_factors", "--factors")) from None


def write_scores(found: Analysis, method: str, path: Path) -> dict[str, Any]:
    """Write the rows' scores, note what they are, and return the determinacy of each factor."""
    import numpy as np
    import pandas as pd

    from fedstat._files import atomic_file
    from fedstat.factor import factor_scores

    table, x = found.table, found.table.values
    if found.kind == "ordinal":
        x = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0, ddof=1)
        found.notes.append(
            "scores weight the standardised answers, by weights for what lies behind them; so they correlate with "
            "their factors less than is said."
        )
    missing: Literal["likelihood"] | None = None
    rows = ~np.isnan(x).any(axis=1)
    if found.gaps == "likelihood" and method == "regression":
        missing, rows = "likelihood", ~np.isnan(x).all(axis=1)
        found.notes.append(
            "scores are the factors' means given what a row has, by the model's correlations. Fewer answers make them "
            "less certain than is said."
        )
    remedy = "; --missing likelihood with --score-method regression scores them"
    remedy = "" if found.kind == "ordinal" or missing else remedy
    if not rows.any():
        raise ValueError(f"--scores: no row has all values{remedy}.")
    heywood = found.fit.heywood_
    try:
        scored = factor_scores(found.fit, x[rows], found.rotation, method=method, missing=missing)  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(str(error).replace(str(heywood.tolist()), first_of(found.names(heywood)))) from None
    if not rows.all():
        found.notes.append(f"without scores, since values are missing: {counted(int((~rows).sum()), 'row')}{remedy}.")
    names = [f"PA{j + 1}" for j in range(scored.values.shape[1])]
    numbers = range(1, len(x) + 1) if table.numbers is None else table.numbers
    index = pd.Index(numbers if table.row_names is None else table.row_names, name="row")
    with atomic_file(path) as temporary:
        pd.DataFrame(scored.values, index[rows], names).reindex(index).to_csv(temporary)
    return {"determinacy": dict(zip(names, scored.determinacy.tolist(), strict=True))}


def plot_scree(found: Analysis, path: Path) -> None:
    """Draw the eigenvalues and what the rules make of them."""
    import matplotlib.pyplot as plt

    from fedstat._files import atomic_file
    from fedstat.factor import scree_plot
    from fedstat.report.figures import style

    with style(), atomic_file(path) as temporary:
        figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
        scree_plot(found.fit.eigenvalues_, *found.rules, extracted=found.fit.n_factors_, ax=axes)
        figure.savefig(temporary, dpi=300)
        plt.close(figure)

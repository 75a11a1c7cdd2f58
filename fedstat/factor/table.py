"""Print the table of loadings as R's psych does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedstat._checks import whole
from fedstat.factor.diagnostics import explained_variance
from fedstat.factor.rotation import Rotation, with_correlations
from fedstat.factor.solver import AT_BOUND


def loading_table(
    loadings: np.ndarray | Rotation,
    names: Sequence[str] | None = None,
    *,
    communalities: np.ndarray | None = None,
    sort: bool = True,
    per_factor: int | None = None,
) -> str:
    """Return the text of a table of loadings, with their summaries by variable and by factor.

    Beside the loadings stand the communality h2, the uniqueness u2 = 1 - h2 and Hofmann's (1978) complexity com,
    ``(sum l^2)^2 / sum l^4`` over a variable's loadings l: 1 if it loads on one factor only, m if on all alike; blank
    if on none. Below stand what each factor explains (`explained_variance`), the factors' correlations after an
    oblique rotation, and the mean complexity. An asterisk marks Heywood cases, if there are any.
    Factors are called PA1, PA2, ... in the order of their columns, so PA1 of a `Rotation` is the rotated factor that
    explains most, whatever its number was before.

    Parameters
    ----------
    loadings : ndarray, shape (p, m), or Rotation
        L; after an oblique rotation the Rotation, which holds the factors' correlations Phi too.
    names : sequence of str, length p, optional
        Names of the variables, by default V1, V2, ...
    communalities : ndarray, shape (p,), optional
        h2, by default that of the loadings, which exceeds communalities that were held at 1.
    sort : bool
        Group variables by the factor on which they load highest in absolute value and sort each group by that
        loading, as psych's ``fa.sort`` does; variables without loadings come last. Otherwise variables keep their
        order, as in psych by default.
    per_factor : int, optional
        Largest number of variables to show of each group, those that load highest; by default all.

    Raises
    ------
    ValueError
        If `loadings` is no finite matrix, `names` or `communalities` do not match it, or `per_factor` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import loading_table
    >>> loadings = np.array([[0.1, 0.7], [0.8, 0.0], [0.6, 0.3]])
    >>> print(loading_table(loadings, names=["letters", "sums", "series"]))
             PA1  PA2   h2    u2 com
    sums    0.80 0.00 0.64  0.36 1.0
    series  0.60 0.30 0.45  0.55 1.5
    letters 0.10 0.70 0.50  0.50 1.0
    <BLANKLINE>
                           PA1  PA2
    SS loadings           1.01 0.58
    Proportion Var        0.34 0.19
    Cumulative Var        0.34 0.53
    Proportion Explained  0.64 0.36
    Cumulative Proportion 0.64 1.00
    <BLANKLINE>
    Mean item complexity 1.2
    """
    import pandas as pd

    variance = explained_variance(loadings)
    oblique = isinstance(loadings, Rotation) and loadings.correlations is not None
    loadings, phi = with_correlations(loadings)
    p, m = loadings.shape
    labels = variable_names(names, p)
    if communalities is not None and np.shape(communalities) != (p,):
        raise ValueError(f"communalities must hold {p} numbers, one for each variable, got {np.shape(communalities)}.")
    if per_factor is not None:
        whole("per_factor", per_factor, 1)

    squares = loadings**2
    highest = squares.max(axis=1)
    group = np.where(highest > 0, squares.argmax(axis=1), m)
    shown = np.lexsort((-highest, group))
    if per_factor is not None:
        rank = np.arange(p) - np.searchsorted(group[shown], group[shown])
        shown = shown[rank < per_factor]
    if not sort:
        shown = np.sort(shown)

    reproduced = (loadings @ phi * loadings).sum(axis=1)
    communality = reproduced if communalities is None else np.asarray(communalities)
    complexity = np.full(p, np.nan)
    np.divide(squares.sum(axis=1) ** 2, (squares**2).sum(axis=1), out=complexity, where=highest > 0)
    table = pd.DataFrame(loadings, labels, variance.columns)
    table = table.assign(**{"h2 ": communality, "u2": 1 - communality, "com": complexity}).iloc[shown]
    formatters = {"h2 ": _communality, "com": "{:.1f}".format}
    lines = [table.to_string(float_format=decimals, formatters=formatters, na_rep="")]
    if len(shown) < p:
        lines.append(f"({p - len(shown)} of {p} variables left out; at most {per_factor} of each factor are shown)")
    # a single factor has nothing to accumulate
    lines += ["", variance.iloc[: 2 if m == 1 else None].to_string(float_format=decimals)]
    if oblique:
        factors = pd.DataFrame(phi, variance.columns, variance.columns)
        lines += ["", "Correlations of the factors", factors.to_string(float_format=decimals)]
    if (highest > 0).any():
        lines += ["", f"Mean item complexity {complexity[highest > 0].mean():.1f}"]
    heywood = communality > AT_BOUND
    if heywood.any():
        note = (
            f"* Heywood case ({heywood.sum()} of {p} variables): a communality of 1 or more leaves no unique variance"
        )
        lines += ["", note]
        most = float(reproduced[heywood].max())
        if communalities is not None and most > AT_BOUND + 0.005:
            lines.append(f"  h2 is held at 1 there; the loadings alone make it up to {most:.2f}")
    return "\n".join(lines)


def variable_names(names: Sequence[str] | None, p: int) -> list[str]:
    """Return the names of p variables as text, V1, V2, ... where there are none."""
    labels = [f"V{j + 1}" for j in range(p)] if names is None else [str(name) for name in names]
    if len(labels) != p:
        raise ValueError(f"names must hold one name for each of the {p} variables, got {len(labels)}.")
    return labels


def decimals(value: float) -> str:
    """Format a number with two decimals, without a minus sign before zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def _communality(value: float) -> str:
    return decimals(value) + ("*" if value > AT_BOUND else " ")

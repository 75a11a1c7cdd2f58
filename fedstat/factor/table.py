"""The table of loadings, as R's psych prints it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedstat.factor.diagnostics import check_loadings, explained_variance
from fedstat.factor.solver import AT_BOUND


def loading_table(
    loadings: np.ndarray,
    names: Sequence[str] | None = None,
    *,
    communalities: np.ndarray | None = None,
    correlations: np.ndarray | None = None,
    sort: bool = True,
    per_factor: int | None = None,
) -> str:
    """Print loadings, and what they say about variables and factors.

    Beside the loadings stand the communality h2, the uniqueness u2 = 1 - h2 and Hofmann's (1978) complexity com,
    ``(sum l^2)^2 / sum l^4`` over a variable's loadings l: 1 if it loads on one factor only, m if on all alike; blank
    if on none. Below stand what each factor explains (`explained_variance`), the factors' correlations after an
    oblique rotation, and the mean complexity. An asterisk marks Heywood cases, if there are any.
    Factors are called PA1, PA2, ... in the order of their columns.

    Parameters
    ----------
    loadings : ndarray, shape (p, m)
        L.
    names : sequence of str, length p, optional
        Names of the variables, by default V1, V2, ...
    communalities : ndarray, shape (p,), optional
        h2, by default what the loadings say, which exceeds communalities that were held at 1.
    correlations : ndarray, shape (m, m), optional
        Phi, of the factors after an oblique rotation.
    sort : bool
        Group variables by the factor on which they load highest in absolute value and sort each group by that
        loading; variables without loadings come last. Otherwise variables keep their order.
    per_factor : int, optional
        Show at most so many variables of each group, those that load highest; by default all.

    Raises
    ------
    ValueError
        If `loadings` is no finite matrix, `names`, `communalities` or `correlations` do not match it, or `per_factor`
        is below 1.
    """
    import pandas as pd

    variance = explained_variance(loadings, correlations)
    loadings, phi = check_loadings(loadings, correlations)
    p, m = loadings.shape
    labels = [f"V{j + 1}" for j in range(p)] if names is None else [str(name) for name in names]
    if len(labels) != p:
        raise ValueError(f"names must hold one name for each of the {p} variables, got {len(labels)}.")
    if communalities is not None and np.shape(communalities) != (p,):
        raise ValueError(f"communalities must hold {p} numbers, one for each variable, got {np.shape(communalities)}.")
    if per_factor is not None and per_factor < 1:
        raise ValueError(f"per_factor must be at least 1, got {per_factor}.")

    squares = loadings**2
    highest = squares.max(axis=1)
    group = np.where(highest > 0, squares.argmax(axis=1), m)
    shown = np.lexsort((-highest, group))
    if per_factor is not None:
        rank = np.arange(p) - np.searchsorted(group[shown], group[shown])
        shown = shown[rank < per_factor]
    if not sort:
        shown = np.sort(shown)

    communality = (loadings @ phi * loadings).sum(axis=1) if communalities is None else np.asarray(communalities)
    complexity = np.full(p, np.nan)
    np.divide(squares.sum(axis=1) ** 2, (squares**2).sum(axis=1), out=complexity, where=highest > 0)
    table = pd.DataFrame(loadings, labels, variance.columns)
    table = table.assign(**{"h2 ": communality, "u2": 1 - communality, "com": complexity}).iloc[shown]
    formatters = {"h2 ": _communality, "com": "{:.1f}".format}
    lines = [table.to_string(float_format=_decimals, formatters=formatters, na_rep="")]
    if len(shown) < p:
        lines.append(f"({p - len(shown)} of {p} variables left out; at most {per_factor} of each factor are shown)")
    # of a single factor there is nothing to accumulate
    lines += ["", variance.iloc[: 2 if m == 1 else None].to_string(float_format=_decimals)]
    if correlations is not None:
        factors = pd.DataFrame(phi, variance.columns, variance.columns)
        lines += ["", "Correlations of the factors", factors.to_string(float_format=_decimals)]
    if (highest > 0).any():
        lines += ["", f"Mean item complexity {complexity[highest > 0].mean():.1f}"]
    heywood = int((communality > AT_BOUND).sum())
    if heywood:
        lines += [
            "",
            f"* Heywood case ({heywood} of {p} variables): a communality of 1 or more leaves no unique variance",
        ]
    return "\n".join(lines)


def _decimals(value: float) -> str:
    """Two decimals, without a minus sign before zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def _communality(value: float) -> str:
    return _decimals(value) + ("*" if value > AT_BOUND else " ")

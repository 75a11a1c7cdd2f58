"""Rules for the number of factors, by the eigenvalues of R; each returns what it decided and on what grounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from math import isqrt
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.linalg.blas import dsyr

from fedstat._checks import array, choice, number, whole
from fedstat._in_words import counted
from fedstat._random import stream
from fedstat._threads import one_thread
from fedstat.factor.correlation import check_correlation, reduced, squared_multiple_correlations
from fedstat.factor.solver import newton

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROUNDING = 1e-12
_EIGENVALUE = "eigenvalue of the correlation matrix"
_MEAN = "1, the mean eigenvalue"


@dataclass(frozen=True, eq=False)
class Retention:
    """The decision of a rule and its grounds; ``print`` it for one line.

    Attributes
    ----------
    rule : str
        Name of the rule.
    n_factors : int
        Number of factors m, at least 0.
    observed : ndarray, shape (k,)
        The quantity at ``first, first + 1, ...`` factors. NaN where it is undefined.
    reference : ndarray, shape (k,)
        The numbers that `observed` was compared with.
    quantity : str
        What `observed` and `reference` measure.
    against : str
        How `reference` was found.
    note : str
        The circumstances of the decision.
    first : int
        Number of factors that ``observed[0]`` belongs to, 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import kaiser_rule
    >>> found = kaiser_rule(np.array([2.5, 0.5, 0.5, 0.5]))
    >>> print(found)
    Kaiser rule: 1 factor (eigenvalues above 1; closest: eigenvalue 2, 0.500 against 1.000)
    >>> found.observed, found.reference
    (array([2.5, 0.5, 0.5, 0.5]), array([1., 1., 1., 1.]))
    """

    rule: str
    n_factors: int
    observed: np.ndarray
    reference: np.ndarray
    quantity: str
    against: str
    note: str
    first: int = 1

    def __str__(self) -> str:
        return f"{self.rule}: {counted(self.n_factors, 'factor')} ({self.note})"


def contribution_rule(eigenvalues: np.ndarray, contribution: float = 0.85) -> Retention:
    """Retain the least number of factors whose share of the eigenvalues reaches `contribution`, at most p - 1.

    FedFac uses this rule with kappa = 0.85, and so does much applied work. Negative eigenvalues (rounding, or an
    indefinite matrix) count as zero. It asks how much variance to keep, not how many factors the data support; its m
    often exceeds the `ledermann_bound`.

    Parameters
    ----------
    eigenvalues : ndarray, shape (p,)
        All eigenvalues of the correlation matrix R, in any order.
    contribution : float
        kappa, in (0, 1].

    Returns
    -------
    Retention
        `observed` are the cumulative shares; 1 factor at least.

    Raises
    ------
    ValueError
        If `contribution` lies outside (0, 1], or no eigenvalue is positive.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import contribution_rule
    >>> found = contribution_rule(np.array([2.0, 1.0, 0.6, 0.4]), contribution=0.85)
    >>> found.n_factors, found.observed  # two factors reach only 75%
    (3, array([0.5 , 0.75, 0.9 , 1.  ]))
    """
    values = np.maximum(_descending(eigenvalues), 0.0)
    number("contribution", contribution, "(0, 1]")
    total = float(values.sum())
    if not total > 0:
        raise ValueError(f"eigenvalues must have a positive sum, as those of a correlation matrix do, got {total}.")
    share = np.cumsum(values) / total
    # the last share is 1 up to rounding, whatever the contribution
    reached = int(np.searchsorted(share, contribution * (1 - _ROUNDING))) + 1
    reached = max(1, min(reached, len(values) - 1))
    note = f"share {share[reached - 1]:.4f} of the eigenvalues' sum, wanted {contribution:g}"
    if reached > 1:
        note += f", one fewer {share[reached - 2]:.4f}"
    if share[reached - 1] < contribution * (1 - _ROUNDING):
        note += "; columns - 1 is the most allowed"
    reference = np.full(len(share), contribution)
    quantity = "cumulative share of the eigenvalues"
    return Retention("contribution rule", reached, share, reference, quantity, f"wanted, {contribution:g}", note)


def kaiser_rule(eigenvalues: np.ndarray) -> Retention:
    """Retain the factors with eigenvalues above 1 (Kaiser 1960).

    In samples of uncorrelated variables about half of the eigenvalues exceed 1, so the rule retains too many:
    `parallel_analysis` allows for that. The rule retains 0 factors if all eigenvalues are 1 up to rounding, that is, if
    R is the identity.

    Parameters
    ----------
    eigenvalues : ndarray, shape (k,)
        Eigenvalues of the correlation matrix R, in any order; all of them, or at least those above 1 and the next one.

    Raises
    ------
    ValueError
        If all eigenvalues exceed 1: those of R have mean 1, so some are missing.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import kaiser_rule
    >>> noise = np.random.default_rng(0).normal(size=(100, 20))  # no factors at all
    >>> kaiser_rule(np.linalg.eigvalsh(np.corrcoef(noise.T))).n_factors
    8

    So many by chance; see `parallel_analysis`.
    """
    values = _descending(eigenvalues)
    above = values > 1 + _ROUNDING
    if above.all():
        raise ValueError(
            f"eigenvalues must include one that is at most 1, but the least of the {len(values)} given is "
            f"{values[-1]:.6g}; give more of them, or those of a correlation matrix."
        )
    m, ones = int(above.sum()), np.ones(len(values))
    note = f"eigenvalues above 1; {_closest(values, ones, m)}"
    return Retention("Kaiser rule", m, values, ones, _EIGENVALUE, _MEAN, note)


def parallel_analysis(
    eigenvalues: np.ndarray, rows: float, *, simulations: int = 100, quantile: float = 0.95, seed: int = 0
) -> Retention:
    """Retain components while their eigenvalue exceeds that of independent variables by chance (Horn 1965).

    As in Horn, the eigenvalues are those of R with ones on its diagonal, so the rule counts principal components;
    ``fa.parallel(..., fa="pc")`` in R's psych does the same. The number serves for factors too, but with correlated
    factors it can be too small: of the nine tests of Thurstone's three factors it retains one.
    `factor_parallel_analysis` compares eigenvalues of reduced matrices and retains more.

    The reference of the j-th eigenvalue is a quantile of the j-th largest eigenvalue of correlation matrices of
    `rows` draws of p independent normal variables; Horn took the mean, Glorfeld (1995) the 95% quantile. The first
    component that does not exceed it ends the retention.

    The null scatter matrices follow the Wishart law with ``rows - 1`` degrees of freedom and are drawn as T T', where
    T is lower triangular with independent entries, chi on the diagonal and normal below (Bartlett 1933): exact, also
    where p exceeds the degrees of freedom and T has fewer columns than rows, and without drawing any rows. One
    simulation costs one product and the eigenvalues of a matrix of order min(p, rows - 1): 0.1 s at 1024 and 0.5 s at
    2048 on two cores.

    The rows must be independent. Those of a network's weight table are not (fan-in coordinates of units trained
    together), nor are clients' copies of one model; the reference is then too low.

    Parameters
    ----------
    eigenvalues : ndarray, shape (p,)
        All eigenvalues of the correlation matrix R, in any order.
    rows : float
        Number of independent rows that R was computed from, a whole number.
    simulations : int
        Number of null matrices. The reference is an estimate, and so is the answer if an eigenvalue comes close to it.
    quantile : float
        In (0, 1).
    seed : int
        The same seed gives the same reference.

    Raises
    ------
    ValueError
        If the eigenvalues do not sum to p, `rows` is below 2 or not whole, `simulations` is below 1 or `quantile`
        lies outside (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import parallel_analysis
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(100, 20))
    >>> parallel_analysis(np.linalg.eigvalsh(np.corrcoef(noise.T)), rows=100).n_factors
    0
    >>> factor = noise + rng.normal(size=(100, 1))  # one factor in all variables
    >>> parallel_analysis(np.linalg.eigvalsh(np.corrcoef(factor.T)), rows=100).n_factors
    1
    """
    values = _descending(eigenvalues)
    p = len(values)
    if abs(values.sum() - p) > 1e-6 * p:
        raise ValueError(
            f"eigenvalues must be all p of a correlation matrix, which sum to p; got {p} with sum {values.sum():.6g}."
        )
    _check_simulation(rows, simulations, quantile)
    rng = stream(seed, "parallel analysis")
    with one_thread(p):
        null = np.stack([_null_eigenvalues(p, int(rows), rng) for _ in range(simulations)])
    return _above_chance("parallel analysis (of components)", _EIGENVALUE, values, null, rows, quantile, seed)


def factor_parallel_analysis(
    r: np.ndarray,
    rows: float,
    *,
    communalities: Literal["smc", "one factor"] = "smc",
    simulations: int = 100,
    quantile: float = 0.95,
    seed: int = 0,
) -> Retention:
    """Retain factors while the reduced matrix's eigenvalue exceeds that of independent variables by chance.

    As `parallel_analysis`, but both R and the null matrices carry communalities on their diagonals in place of ones:
    squared multiple correlations (Humphreys and Montanelli 1975; ``fa.parallel(..., SMC=TRUE)`` in R's psych), or those
    of one factor alone (``fa.parallel`` by default), which are smaller, so that fewer factors are kept.
    So it looks at the variance that variables have in common. Take it for factors that may correlate, and where
    factors have few variables: there the analysis of components retains too few. Its known weakness is the other one:
    it retains too many where there is one factor or none, and the more so the more rows there are, since
    eigenvalues near zero are compared with others near zero (Buja and Eyuboglu 1992; Timmerman and Lorenzo-Seva 2011).
    Read a number above that of the components as an upper limit: look whether the last factors have
    variables of their own.

    Parameters
    ----------
    r : ndarray, shape (p, p)
        Correlation matrix.
    rows : float
        Number of independent rows that R was computed from, a whole number, at least p + 2 (with fewer a variable's
        squared multiple correlation is 1 whatever the data).
    communalities : {"smc", "one factor"}
        What the diagonals carry.
    simulations, quantile, seed
        As in `parallel_analysis`.

    Raises
    ------
    ValueError
        If `r` is no correlation matrix, or another argument is out of range.

    Examples
    --------
    Three factors with correlations of 0.6, which the analysis of components takes for one:

    >>> import numpy as np
    >>> from fedstat.factor import factor_parallel_analysis, parallel_analysis
    >>> loadings = np.kron(np.eye(3), [[0.8], [0.7], [0.6]])
    >>> r = loadings @ (0.6 + 0.4 * np.eye(3)) @ loadings.T
    >>> np.fill_diagonal(r, 1.0)
    >>> factor_parallel_analysis(r, rows=200).n_factors, parallel_analysis(np.linalg.eigvalsh(r), rows=200).n_factors
    (3, 1)
    """
    r = check_correlation(r)
    p = len(r)
    choice("communalities", communalities, _COMMUNALITIES)
    _check_simulation(rows, simulations, quantile)
    if rows < p + 2:
        raise ValueError(
            f"rows must be at least columns + 2 = {p + 2}, got {rows:.0f}: with fewer every variable is a combination "
            "of others. Leave columns out, or take parallel_analysis."
        )
    rng, of = stream(seed, "parallel analysis of factors"), _COMMUNALITIES[communalities]
    with one_thread(p):
        values = _reduced_eigenvalues(r, of)
        factors = (_null_factor(p, int(rows), rng) for _ in range(simulations))
        null = np.stack([_reduced_eigenvalues(t @ t.T, of) for t in factors])
    name = "parallel analysis (of factors)" if communalities == "smc" else "parallel analysis (of factors, as in psych)"
    return _above_chance(name, "eigenvalue of the reduced correlation matrix", values, null, rows, quantile, seed)


def _check_simulation(rows: float, simulations: int, quantile: float) -> None:
    if not rows >= 2 or rows % 1:
        raise ValueError(f"rows must be a whole number of at least 2 independent rows, got {rows}.")
    whole("simulations", simulations, 1)
    number("quantile", quantile, "(0, 1)")


def _above_chance(
    rule: str, quantity: str, values: np.ndarray, null: np.ndarray, rows: float, quantile: float, seed: int
) -> Retention:
    """Retain the eigenvalues before the first that chance explains; `null` has those of each simulation in a row."""
    reference = np.quantile(null, quantile, axis=0)
    # an eigenvalue that is not positive belongs to no factor
    retained = values > np.maximum(reference, 0) * (1 + _ROUNDING) + _ROUNDING
    m = len(values) if retained.all() else int(np.argmin(retained))
    share = f"{100 * quantile:g}% quantile"
    drawn = f"{share} of {len(null)} simulations of {rows:.0f} independent rows, seed {seed}"
    note = f"{_closest(values, reference, m)}; {drawn}"
    return Retention(rule, m, values, reference, quantity, f"{share} for independent data", note)


def _closest(values: np.ndarray, reference: np.ndarray, m: int) -> str:
    """Name the nearer of the last eigenvalue kept and the next."""
    j = min(range(max(0, m - 1), min(m + 1, len(values))), key=lambda k: abs(values[k] - reference[k]))
    return f"closest: eigenvalue {j + 1}, {values[j]:.3f} against {reference[j]:.3f}"


def _null_factor(p: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw T, where T T' is the correlation matrix of `rows` draws of p independent normal variables."""
    columns = min(p, rows - 1)
    t = np.tril(rng.standard_normal((p, columns)))
    np.fill_diagonal(t, np.sqrt(rng.chisquare(rows - 1 - np.arange(columns))))
    return np.asarray(t / np.linalg.norm(t, axis=1, keepdims=True))


def _null_eigenvalues(p: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the descending eigenvalues of the correlation matrix of `rows` draws of p independent normal variables."""
    t = _null_factor(p, rows, rng)
    # T' T has the eigenvalues of T T' apart from zeros
    return np.concatenate([np.linalg.eigvalsh(t.T @ t)[::-1], np.zeros(p - t.shape[1])])


def _reduced_eigenvalues(r: np.ndarray, communalities: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the descending eigenvalues of R with communalities on its diagonal."""
    return np.asarray(np.linalg.eigvalsh(reduced(r, communalities(r)))[::-1])


_COMMUNALITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "smc": squared_multiple_correlations,
    "one factor": lambda r: newton(r, squared_multiple_correlations(r), 1, 1.0, 1e-8, 100).communalities,
}


def minimum_average_partial(r: np.ndarray) -> Retention:
    """Retain the number of components whose removal leaves the least correlation between variables (Velicer 1976).

    The criterion at m is the average squared partial correlation of all pairs of variables given the first m
    principal components, for m = 0, ..., p - 1; the m with the least is retained. Where a variable's partial variance
    is zero up to rounding, its partial correlations are undefined and so is the criterion, which is NaN there and takes
    no part; else it is 1 at m = p - 1. 0 factors are possible: no component makes the variables less correlated.
    Where the m-th eigenvalue equals the next, the first m components, and so the criterion at m, are not determined.

    The covariances that m components leave are summed up from the smallest component, so nothing cancels. Cost: one
    eigendecomposition and p updates of rank one, of the order of p^3 operations; 0.6 s at p = 1024 and 9 s at
    p = 2048 on one core, where memory is the limit.

    Parameters
    ----------
    r : ndarray, shape (p, p)
        Correlation matrix.

    Raises
    ------
    ValueError
        If `r` is no correlation matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import minimum_average_partial
    >>> loadings = np.array([[0.9, 0], [0.8, 0], [0.7, 0], [0.6, 0], [0, 0.8], [0, 0.7], [0, 0.6], [0, 0.5]])
    >>> r = loadings @ loadings.T
    >>> np.fill_diagonal(r, 1.0)
    >>> found = minimum_average_partial(r)
    >>> found.n_factors, found.observed[:4].round(3)  # for 0 to 3 components; least at the two factors
    (2, array([0.108, 0.064, 0.049, 0.111]))
    """
    r = check_correlation(r)
    p = len(r)
    with one_thread(p):
        values, vectors = np.linalg.eigh(r)
    rounding = p * np.finfo(float).eps * values[-1]
    components = vectors * np.sqrt(np.where(values > rounding, values, 0.0))
    average = np.full(p, np.nan)
    left, squares = np.zeros((2, p, p)).transpose(0, 2, 1)  # columns contiguous, as BLAS wants them
    with one_thread():  # updates of rank one wait for memory, and so would a second thread
        for m, component in zip(range(p - 1, -1, -1), components.T, strict=True):
            left = dsyr(1.0, component, a=left, lower=1, overwrite_a=1)  # updates the lower triangle
            variance = left.diagonal()
            if variance.min() > rounding:
                weight = 1 / variance
                off_diagonal = weight @ np.multiply(left, left, out=squares) @ weight - p
                average[m] = 2 * max(0.0, float(off_diagonal)) / max(1, p * (p - 1))
    m = int(np.nanargmin(average))
    least = np.full(p, average[m])
    quantity = "average squared partial correlation"
    note = f"{quantity} {average[m]:.3g}"
    others = np.delete(average, m)
    if np.isfinite(others).any():
        note += f"; next best: {np.nanmin(others):.3g}"
    return Retention("minimum average partial", m, average, least, quantity, "least of all", note, first=0)


def ledermann_bound(p: int) -> int:
    """Return the largest m with ``(p - m)^2 >= p + m`` (Ledermann 1937).

    With more factors the model has more parameters than R has correlations, and communalities are not identified.

    Examples
    --------
    >>> from fedstat.factor import ledermann_bound
    >>> [ledermann_bound(p) for p in (3, 6, 9, 100)]
    [1, 3, 5, 86]
    """
    whole("p", p, 1)
    # m <= (2 p + 1 - sqrt(8 p + 1)) / 2, and the least whole number above that root is isqrt(8 p) + 1
    return (2 * p - isqrt(8 * p)) // 2


def scree_plot(
    eigenvalues: np.ndarray, *rules: Retention, extracted: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the eigenvalues of R in descending order, and mark the number of factors of each rule.

    The references of rules that compare eigenvalues are drawn too: dashed for parallel analysis, dotted at 1. A grey
    line stands behind the last of the extracted factors. Beyond twice the largest number of factors and ten more
    nothing is shown. Where the largest eigenvalue exceeds 50 their axis is logarithmic and begins at 0.01 or above.

    Parameters
    ----------
    eigenvalues : ndarray, shape (k,)
        Eigenvalues of R, or the leading ones, in any order.
    *rules : Retention
        The decisions to mark; the legend names each, and rules that agree on one line.
    extracted : int, optional
        Number of factors that were extracted.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Raises
    ------
    ValueError
        If there are fewer eigenvalues than factors that a rule retained or that were extracted.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from fedstat.factor import kaiser_rule, parallel_analysis, scree_plot
    >>> eigenvalues = np.array([2.5, 1.1, 0.6, 0.5, 0.3])
    >>> rules = kaiser_rule(eigenvalues), parallel_analysis(eigenvalues, rows=50)
    >>> axes = scree_plot(eigenvalues, *rules, ax=Figure().subplots())
    >>> for text in axes.get_legend().get_texts()[-2:]:
    ...     print(text.get_text())
    1 factor: parallel analysis (of components)
    2 factors: Kaiser rule
    """
    import matplotlib.pyplot as plt

    values = _descending(eigenvalues)
    counts = [rule.n_factors for rule in rules] + ([] if extracted is None else [extracted])
    most = max(counts, default=0)
    if most > len(values):
        raise ValueError(f"eigenvalues must be at least as many as there are factors, {most}, got {len(values)}.")
    ax = plt.gca() if ax is None else ax
    shown = min(len(values), 2 * most + 10)
    m = np.arange(1, shown + 1)
    dots = "o" if shown <= 60 else ""  # as long as they can be told apart
    ax.plot(m, values[:shown], color="black", linewidth=0.8, marker=dots, markersize=3, label=_EIGENVALUE)
    ax.axhline(1, color="black", linestyle=":", linewidth=0.8, label=_MEAN)
    for rule in rules:
        if rule.quantity == _EIGENVALUE and np.ptp(rule.reference) > 0:
            chance = rule.reference[:shown]
            ax.plot(m[: len(chance)], chance, color="black", linestyle="--", linewidth=0.8, label=rule.against)
    for marker, n in zip(cycle("sD^v"), sorted({rule.n_factors for rule in rules}), strict=False):
        names = ",\n".join(rule.rule for rule in rules if rule.n_factors == n)
        label = f"{counted(n, 'factor')}: {names}"
        ax.plot(n, values[max(0, n - 1)], marker, color="black", markersize=9, markerfacecolor="none", label=label)
    if extracted is not None:
        label = f"{counted(extracted, 'factor')} extracted"
        ax.axvline(extracted + 0.5, color="0.6", linewidth=0.8, zorder=0, label=label)
    if values[0] > 50:
        ax.set_yscale("log")
        ax.set_ylim(bottom=max(0.01, 0.8 * values[shown - 1]))
    else:
        ax.set_ylim(bottom=min(0.0, float(values[shown - 1])))
    ax.set(xlabel="number of factors", ylabel=_EIGENVALUE)
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False, loc="upper right")
    return ax


def _descending(eigenvalues: np.ndarray) -> np.ndarray:
    return np.sort(array("eigenvalues", eigenvalues, ("variables",)))[::-1]

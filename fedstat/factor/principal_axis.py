"""Principal-axis factor analysis as a scikit-learn estimator."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from scipy.linalg import LinAlgError
from scipy.sparse.linalg import ArpackError
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from fedstat._checks import choice, number, whole
from fedstat._in_words import counted
from fedstat._threads import one_thread
from fedstat.factor.components import positive_sums, principal_components_loadings
from fedstat.factor.correlation import check_correlation, largest_correlations, reduced, squared_multiple_correlations
from fedstat.factor.moments import Moments
from fedstat.factor.retention import contribution_rule, ledermann_bound
from fedstat.factor.scores import factor_scores
from fedstat.factor.solver import AT_BOUND, Solution, lanczos, newton, plain

Start = Literal["smc", "largest", "components"]
Solver = Literal["auto", "newton", "lanczos", "plain", "cuda"]

_PARTIAL = 256  # columns from which on a partial eigensolver may be faster
_SHARE = 12  # ... and how many times fewer the factors must be


class IdentificationWarning(UserWarning):
    """The data do not determine the communalities.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from fedstat.factor import IdentificationWarning, PrincipalAxis
    >>> r = np.full((4, 4), 0.36) + 0.64 * np.eye(4)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", IdentificationWarning)
    ...     fit = PrincipalAxis(2).fit_correlation(r)  # the Ledermann bound of 4 variables is 1
    >>> print(caught[0].message)
    the data do not identify 2 factors of 4 variables (the Ledermann bound is 1): others may fit as well, and the
    communalities returned depend on the start. Ask for fewer factors (n_factors, or a smaller contribution).
    """


class ConstantColumnWarning(UserWarning):
    """Columns are left out that differ from row to row, but by no more than rounding may have left.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from fedstat.factor import ConstantColumnWarning, PrincipalAxis
    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> x[:, 3] = 1e9 + 1e-7 * x[:, 3]  # all that is left of its spread is rounding
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", ConstantColumnWarning)
    ...     fit = PrincipalAxis(1).fit(x)
    >>> print(caught[0].message)
    column 3: left out as constant, as it varies by no more than 1e-12 of its largest entry, which rounding may
    leave. If such a spread is real, subtract the column's mean first.
    """


class PrincipalAxis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Iterated principal-axis factoring (Harman 1976, chapter 8), to the accuracy asked for.

    The communalities h are the limit of the iteration ``h <- min(F(h), 1)`` from `start`, where F(h) is the diagonal of
    the rank-m positive part of the correlation matrix with h on its diagonal. The start is part of the definition,
    since there can be several limits. The solver decides how the limit is found (`fedstat.factor.solver`).

    Parameters
    ----------
    n_factors : int, optional
        Number of factors m, from 1 to p. By default the least m whose share of the eigenvalues of R (negative ones
        counted as zero) reaches `contribution`, at most p - 1.
    contribution : float
        The FedFac paper's kappa, in (0, 1].
    start : {"smc", "largest", "components"} or array-like, shape (p,)
        The first communalities. "smc": squared multiple correlations; "largest": each variable's largest absolute
        correlation, which also replaces "smc" if R is singular; "components": those of the m principal components, as
        in the FedFac paper; or an array of numbers in [0, 1], one for each column.
    bounded : bool
        Whether communalities are held at or below one. Unbounded ones may pass one (Heywood cases) and even grow
        without end.
    solver : {"auto", "newton", "lanczos", "plain", "cuda"}
        "auto" takes "lanczos" if there are at least 256 columns, m is at most a twelfth of them, and "lanczos" ends at
        an identified point; otherwise "newton". "plain" is the definition itself, for comparison; it can need many
        thousand steps. "cuda" is "newton" with its matrices on a GPU, made for 1,024 columns and more; "auto" never
        takes it.
    tol : float
        Largest distance of a communality from its limit, judged by the last step of the solver.
    max_iter : int
        Largest number of steps of the solver.

    Attributes
    ----------
    loadings_ : ndarray, shape (p, m)
        Unrotated loadings by descending eigenvalue; signs make each column's sum non-negative. Zero for columns that
        do not vary.
    communalities_, uniquenesses_ : ndarray, shape (p,)
        h and 1 - h. A column that does not vary has h = 0.
    eigenvalues_ : ndarray, shape (v,)
        Eigenvalues of R, descending, for the v columns that vary; computed when first asked for.
    reduced_eigenvalues_ : ndarray, shape (v,)
        Eigenvalues of R with h on its diagonal, likewise.
    n_factors_ : int
        The number of factors, m.
    n_iter_ : int
        Steps taken.
    converged_ : bool
        Whether `tol` was reached.
    heywood_ : ndarray of int
        Columns with h at the bound 1, to 1e-6, or above it if `bounded` is false.
    identified_ : bool
        Whether m is within the Ledermann bound, beyond which a model without bounds is not identified in general, and
        psi curves upwards, by 1e-5 and more, in all directions in which h can move. If it does not, neighbouring h fit
        about as well and the start decides between them, or rounding does if the m-th eigenvalue is zero or equals the
        next. A warning says so. The solver does not look for other minima far away.
    criterion_ : float
        psi: half the sum of squares of the discarded eigenvalues of R with h on its diagonal. Its minimisers are those
        of MINRES. From "lanczos" it is a difference of sums, right to about 1e-15 times the squared norm of R.
    residual_ : float
        ``max |h - min(F(h), 1)|``; without the bound ``max |h - F(h)|``.
    constant_ : ndarray of int
        Columns that do not vary, left out of the analysis. One counts as constant where its standard deviation is at
        most 1e-12 of its largest entry, which rounding may leave; if its entries differ, a warning names it.
    correlation_ : ndarray, shape (v, v)
        R.

    See Also
    --------
    fedstat.factor.rotate, fedstat.factor.factor_scores, fedstat.factor.loading_table
    fedstat.factor.parallel_analysis

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import PrincipalAxis
    >>> r = np.array([[1, 0.56, 0.48], [0.56, 1, 0.42], [0.48, 0.42, 1]])
    >>> PrincipalAxis(1).fit_correlation(r).loadings_.ravel().round(6)
    array([0.8, 0.7, 0.6])
    """

    def __init__(
        self,
        n_factors: int | None = None,
        *,
        contribution: float = 0.85,
        start: Start | np.ndarray = "smc",
        bounded: bool = True,
        solver: Solver = "auto",
        tol: float = 1e-10,
        max_iter: int = 1000,
    ) -> None:
        self.n_factors = n_factors
        self.contribution = contribution
        self.start = start
        self.bounded = bounded
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: np.ndarray, y: None = None) -> PrincipalAxis:
        """Analyse the correlations of the columns of `X`, shape (n, p); `y` is ignored.

        Raises
        ------
        ValueError
            If `X` is no finite matrix with at least two rows, or a parameter is out of range.
        """
        X = validate_data(self, X, ensure_all_finite=False, ensure_min_samples=2, dtype=[np.float64, np.float32])
        return self._fit(*_standardised(Moments.of(X)), named=True)

    def fit_moments(self, moments: Moments) -> PrincipalAxis:
        """Analyse rows given by their moments; those of blocks of rows (clients) add up.

        Raises
        ------
        ValueError
            If there are fewer than two rows, a parameter is out of range, or the correlations belong to no table, as
            those of `moments_with_gaps` may that are taken pair by pair.
        """
        r, mean, scale, level = _standardised(moments)
        if len(r):
            check_correlation(r)
        return self._fit(r, mean, scale, level)

    def fit_correlation(self, R: np.ndarray) -> PrincipalAxis:
        """Analyse a correlation matrix `R`, shape (p, p).

        Raises
        ------
        ValueError
            If `R` is not symmetric and positive semidefinite with unit diagonal and finite entries in [-1, 1], each
            to rounding in single precision, or a parameter is out of range.
        """
        r = check_correlation(R)
        return self._fit(r, np.zeros(len(r)), np.ones(len(r)))

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Estimate scores of the unrotated factors by regression; `factor_scores` has those of rotated ones.

        Parameters
        ----------
        X : ndarray, shape (n, p)
            Rows, as `factor_scores` takes them.

        Returns
        -------
        ndarray, shape (n, m)
        """
        return factor_scores(self, X).values

    def standardised(self, X: np.ndarray, *, gaps: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of `X` that vary, standardised by the fitted means and deviations, and which they are."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, ensure_all_finite="allow-nan" if gaps else True, dtype=np.float64)
        varies = self.scale_ > 0
        return (X[:, varies] - self.mean_[varies]) / self.scale_[varies], varies

    @functools.cached_property
    def eigenvalues_(self) -> np.ndarray:
        """The eigenvalues of R, descending."""
        check_is_fitted(self, "correlation_")
        return _eigenvalues(self.correlation_)

    @functools.cached_property
    def reduced_eigenvalues_(self) -> np.ndarray:
        """The eigenvalues of R with the communalities on its diagonal, descending."""
        check_is_fitted(self, "correlation_")
        return _eigenvalues(reduced(self.correlation_, np.delete(self.communalities_, self.constant_)))

    @property
    def _n_features_out(self) -> int:
        return self.n_factors_

    def _fit(
        self, r: np.ndarray, mean: np.ndarray, scale: np.ndarray, level: Sequence[int] = (), named: bool = False
    ) -> PrincipalAxis:
        """Analyse R of the columns whose scale is positive; a warning names those in `level`."""
        self._check_parameters()
        varies, p = scale > 0, len(r)
        if self.n_factors is not None and self.n_factors > p:
            what = f"only {p} of {len(varies)} columns vary" if p < len(varies) else f"there are {p} columns"
            raise ValueError(f"n_factors is {self.n_factors}, but {what}; at most that many factors can be asked for.")
        with one_thread(p):
            eigenvalues = _eigenvalues(r) if self.n_factors is None and p else None
            m = min(1, p) if eigenvalues is None else contribution_rule(eigenvalues, self.contribution).n_factors
            m = m if self.n_factors is None else self.n_factors
            solution = self._solve(r, self._first_communalities(r, varies, m), m) if p else _NOTHING

        self.mean_, self.scale_, self.n_features_in_ = mean, scale, len(scale)
        self.correlation_, self.constant_ = r, np.flatnonzero(~varies)
        for earlier in ("eigenvalues_", "reduced_eigenvalues_", *(() if named else ("feature_names_in_",))):
            self.__dict__.pop(earlier, None)
        if eigenvalues is not None:
            self.eigenvalues_ = eigenvalues
        self.loadings_, self.communalities_ = np.zeros((len(varies), m)), np.zeros(len(varies))
        self.loadings_[varies] = positive_sums(solution.loadings)
        self.communalities_[varies] = solution.communalities
        self.uniquenesses_ = 1 - self.communalities_
        self.heywood_ = np.flatnonzero(self.communalities_ >= AT_BOUND)
        self.n_factors_, self.n_iter_ = m, solution.iterations
        self.criterion_, self.residual_ = solution.criterion, solution.residual
        self.converged_ = solution.converged
        self.identified_ = solution.identified and (p == 0 or m <= ledermann_bound(p))
        self._warn(p, level)
        return self

    def _solve(self, r: np.ndarray, start: np.ndarray, m: int) -> Solution:
        p, bound = len(r), 1.0 if self.bounded else np.inf
        solver = self.solver
        if solver == "plain":
            return plain(r, start, m, bound, self.tol, self.max_iter)
        partial = p >= _PARTIAL and _SHARE * m <= p
        if m < p and (solver == "lanczos" or (solver == "auto" and partial)):
            try:
                with one_thread():  # products of a matrix and a vector wait for memory, not for a thread
                    solution = lanczos(r, start, m, bound, self.tol, self.max_iter if solver == "lanczos" else 30)
                # extrapolation need not descend and may end at a saddle, which newton leaves
                if solver == "lanczos" or (solution.converged and solution.identified):
                    return solution
            except (LinAlgError, ArpackError):  # the full decomposition misses nothing
                pass
        return newton(r, start, m, bound, self.tol, self.max_iter, device="cuda" if solver == "cuda" else None)

    def _first_communalities(self, r: np.ndarray, varies: np.ndarray, m: int) -> np.ndarray:
        if isinstance(self.start, str):
            if self.start == "smc":
                return squared_multiple_correlations(r)
            if self.start == "largest":
                return largest_correlations(r)
            return np.minimum((principal_components_loadings(r, m) ** 2).sum(axis=1), 1.0)
        start = np.asarray(self.start, dtype=np.float64)
        if start.shape != varies.shape or not ((start >= 0) & (start <= 1)).all():
            raise ValueError(f"start must hold {len(varies)} communalities in [0, 1], one for each column.")
        return start[varies]

    def _check_parameters(self) -> None:
        if self.n_factors is not None:
            whole("n_factors", self.n_factors, 1)
        number("contribution", self.contribution, "(0, 1]")
        if isinstance(self.start, str):
            choice("start", self.start, get_args(Start))
        choice("solver", self.solver, get_args(Solver))
        if not isinstance(self.bounded, bool | np.bool_):
            raise ValueError(f"bounded must be True or False, got {self.bounded!r}.")
        number("tol", self.tol, "(0, inf)")
        whole("max_iter", self.max_iter, 1)

    def _warn(self, p: int, level: Sequence[int]) -> None:
        if len(level):
            known = getattr(self, "feature_names_in_", range(self.n_features_in_))
            shown = [str(known[column]) for column in level[:10]] + [f"{len(level) - 10} more"] * (len(level) > 10)
            warnings.warn(
                f"column {', '.join(shown)}: left out as constant, as it varies by no more than 1e-12 of its largest "
                "entry, which rounding may leave. If such a spread is real, subtract the column's mean first.",
                ConstantColumnWarning,
                stacklevel=4,
            )
        what = counted(self.n_factors_, "factor")
        if not self.converged_:
            warnings.warn(
                f"principal-axis factoring with {what} has not converged in {self.n_iter_} steps "
                f"(residual {self.residual_:.1e}, largest communality {self.communalities_.max():.3g}); "
                + (
                    "raise max_iter or ask for fewer factors."
                    if self.bounded
                    else "unbounded communalities may grow without end: use bounded."
                ),
                ConvergenceWarning,
                stacklevel=4,
            )
        if not self.identified_:
            warnings.warn(
                f"the data do not identify {what} of {p} variables (the Ledermann bound is {ledermann_bound(p)}): "
                "others may fit as well, and the communalities returned depend on the start. Ask for fewer factors "
                "(n_factors, or a smaller contribution).",
                IdentificationWarning,
                stacklevel=4,
            )


def _eigenvalues(r: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of a symmetric matrix, the largest first."""
    with one_thread(len(r)):
        return np.asarray(np.linalg.eigvalsh(r)[::-1])


_NOTHING = Solution(np.zeros(0), np.zeros((0, 0)), 0.0, 0.0, 0, True, True)


def _standardised(moments: Moments) -> tuple[np.ndarray, np.ndarray, np.ndarray, Sequence[int]]:
    """Return the correlations of the columns that vary, and all columns' means and deviations (0 if constant).

    Last come the columns that are left out although their entries differ.
    """
    if moments.rows < 2:
        raise ValueError(
            f"correlations need at least two rows, got {moments.rows:g}; weights of blocks are counts, not shares."
        )
    deviation = np.sqrt(np.maximum(np.diag(moments.scatter), 0) / (moments.rows - 1))
    varies = moments.varies()
    level = np.flatnonzero((moments.low < moments.high) & ~varies).tolist()
    return moments.correlation(), moments.mean, np.where(varies, deviation, 0.0), level

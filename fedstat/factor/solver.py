"""Find the fixed points of principal-axis factoring fast.

Write R_h for the correlation matrix with the communalities h on its diagonal, V diag(w) V' for its decomposition and
F(h) for the diagonal of its rank-m positive part. Principal-axis factoring iterates ``h <- min(F(h), 1)``. With

    psi(h) = 1/2 * (sum of squares of the discarded eigenvalues of R_h),    grad psi(h) = h - F(h),

each step is projected gradient descent with unit step: psi never rises, and without the bound the minimisers of psi
are those of MINRES (Harman and Jones 1966). Near a minimum the iteration contracts by the largest eigenvalue of
F'(h), often 0.99 and more. Three solvers look for the limit of that iteration: `plain`, `newton` and `lanczos`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.blas import dsymv
from scipy.sparse.linalg import LinearOperator, eigsh

from fedstat.factor.correlation import reduced

#: A communality of this or more counts as at its bound 1: the iteration approaches a limit of 1 without reaching it.
AT_BOUND = 1 - 1e-6
_EPS = float(np.finfo(np.float64).eps)
_FLAT = 1e-5  # curvature of psi below which a direction counts as flat
_TIE = 1e-8  # difference of eigenvalues, relative to the largest, below which they count as equal
_DEPTH = 5  # steps that the extrapolation remembers


@dataclass(frozen=True)
class Solution:
    """The communalities h at which a solver ended, with psi(h) as `criterion`.

    Loadings are eigenvectors of R_h times the roots of its m largest eigenvalues; zero where those are negative.
    Iterations are steps tried; each took an eigendecomposition, as did the start. It `converged` if the last step was
    below the tolerance. `PrincipalAxis` says what the residual is, and when h is `identified`.
    """

    communalities: np.ndarray
    loadings: np.ndarray
    criterion: float
    residual: float
    iterations: int
    converged: bool
    identified: bool


@dataclass(frozen=True)
class _Arrays:
    """The matrix operations, by numpy on the processor or by torch on a device."""

    put: Callable[[np.ndarray], Any]
    get: Callable[[Any], np.ndarray]
    eigh: Callable[[Any], tuple[Any, Any]]


_NUMPY = _Arrays(
    put=np.asarray, get=np.asarray, eigh=lambda a: eigh(a, driver="evd", overwrite_a=True, check_finite=False)
)


def _torch(device: str) -> _Arrays:
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError('solver="cuda" needs a GPU that torch can use, and there is none; take "auto".')
    return _Arrays(
        put=lambda a: torch.as_tensor(a, dtype=torch.float64, device=device),
        get=lambda a: a.cpu().numpy(),
        eigh=torch.linalg.eigh,
    )


class _Spectrum:
    """The full decomposition of R_h, split into the m leading positive eigenvalues and the discarded ones."""

    def __init__(self, r: np.ndarray, h: np.ndarray, m: int, arrays: _Arrays) -> None:
        values, vectors = arrays.eigh(arrays.put(reduced(r, h)))
        self.arrays, self.vectors, self.values = arrays, vectors, arrays.get(values)
        self.cut = len(h) - int(np.count_nonzero(self.values[len(h) - m :] > 0))
        discarded = vectors[:, : self.cut]
        # h - F(h) is the diagonal of the discarded part, which loses no digits where the fit is exact
        self.gradient = arrays.get(((discarded * values[: self.cut]) * discarded).sum(1))
        self.criterion = 0.5 * float(self.values[: self.cut] @ self.values[: self.cut])
        self.image = h - self.gradient
        # F is not differentiable where the m-th eigenvalue is zero or equals the next
        near = self.values[max(len(h) - m - 1, 0) : len(h) - m + 1]
        scale = float(np.abs(self.values).max())
        self.smooth = bool(abs(near[-1]) > _TIE * scale and (m == len(h) or np.ptp(near) > _TIE * scale))

    def loadings(self, m: int) -> np.ndarray:
        leading = self.arrays.get(self.vectors[:, len(self.values) - m :])[:, ::-1]
        return leading * np.sqrt(np.maximum(self.values[: -m - 1 : -1], 0.0))

    def hessian(self, free: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the product with the Hessian ``I - F'(h)`` of psi on the free communalities.

        For ``K = V' diag(x) V``, ``F'(h) x = diag(V (G o K) V')`` with G = 1 on kept x kept pairs,
        ``w_t / (w_t - w_b)`` on kept x discarded pairs and 0 on discarded ones (the Daleckii-Krein derivative of
        the positive part); the smaller of the two blocks is formed.
        """
        p, cut, put, get = len(self.values), self.cut, self.arrays.put, self.arrays.get
        discarded, kept = self.values[:cut], self.values[cut:]
        # a kept and a discarded eigenvalue may cross; the safeguards of the solver deal with a huge slope
        gap = np.maximum(kept - discarded[:, None], 1e-10 * max(float(self.values[-1]), _EPS))
        of_kept = 2 * cut > p
        if of_kept:
            block, weight = self.vectors[:, cut:], np.hstack([2 * (kept / gap).T, np.ones((p - cut, p - cut))])
        else:
            block, weight = self.vectors[:, :cut], np.hstack([np.ones((cut, cut)), -2 * discarded[:, None] / gap])
        vectors, weight, x = self.vectors, put(weight), np.zeros(p)

        def product(moved: np.ndarray) -> np.ndarray:
            x[free] = moved
            inner = ((block.T * put(x)) @ vectors) * weight
            y = get(((inner @ vectors.T) * block.T).sum(0))
            return (x - y if of_kept else y)[free]

        return product


def plain(r: np.ndarray, start: np.ndarray, m: int, bound: float, tol: float, max_iter: int) -> Solution:
    """Iterate ``h <- min(F(h), bound)``, as the definition says, by full decompositions.

    It stops when the step divided by one minus its observed rate of contraction, which estimates the distance to the
    limit, is below `tol`.
    """
    h, last, smooth = start, np.inf, True
    for iteration in range(max_iter + 1):
        spectrum = _Spectrum(r, h, m, _NUMPY)
        smooth = smooth and (iteration > 0 or spectrum.smooth)
        step = np.clip(spectrum.image, 0, bound) - h
        size = float(np.abs(step).max())
        converged = size <= _floor(spectrum) or (size < last < np.inf and size <= tol * (1 - size / last))
        if converged or iteration == max_iter:
            break
        h, last = h + step, size
    return _solution(spectrum, h, m, bound, iteration, converged, smooth)


def newton(
    r: np.ndarray, start: np.ndarray, m: int, bound: float, tol: float, max_iter: int, *, device: str | None = None
) -> Solution:
    """Follow the gradient flow of psi, of which plain steps are Euler's of unit length, by implicit steps that grow.

    A step of length t solves ``(I / t + I - F'(h)) d = F(h) - h`` by conjugate gradients on the communalities that
    are free to move, and is kept if psi falls and the new gradient is near the one that the linear model foretells;
    that agreement also sets the next length (pseudo-transient continuation, Kelley and Keyes 1998). Short steps stay
    in the basin of the start, long ones are Newton's. If no implicit step is accepted, the solver takes a plain one.
    """
    arrays = _NUMPY if device is None else _torch(device)
    h, spectrum, length = start, _Spectrum(r, start, m, arrays), 1.0
    smooth = spectrum.smooth
    for iteration in range(max_iter + 1):
        step = np.clip(spectrum.image, 0, bound) - h
        size = float(np.abs(step).max())
        converged = size <= _floor(spectrum)
        if converged or iteration == max_iter:
            break
        # two steps of the definition leave the fastest directions behind
        if iteration < 2 or length < 0.5:
            h, length = h + step, 1.0
            spectrum = _Spectrum(r, h, m, arrays)
            continue
        free = (h < bound) | (spectrum.image < bound)
        gradient, product = spectrum.gradient[free], spectrum.hessian(free)
        trial = h.copy()
        trial[free] += _conjugate_gradients(product, gradient, 1 / length, min(0.1, np.sqrt(size)))
        np.clip(trial, 0, bound, out=trial)
        if converged := length > 1e6 and max(size, float(np.abs(trial - h).max())) <= tol:
            break
        new = _Spectrum(r, trial, m, arrays)
        foretold = np.zeros_like(h)
        foretold[free] = gradient + product((trial - h)[free])
        still = free & ((trial < bound) | (new.image < bound))
        surprise = float(np.linalg.norm((new.gradient - foretold)[still]) / np.linalg.norm(gradient))
        residual = float(np.abs(np.minimum(new.image, bound) - trial).max())
        # below rounding psi cannot tell points apart, but the residual can
        noise = 1e-13 * (1 + spectrum.criterion)
        falls = new.criterion < spectrum.criterion - (noise if residual > size else -noise)
        # far from the end a bold step may leave the basin
        if falls and (surprise <= 5 or size < 1e-4):
            h, spectrum = trial, new
            length *= 5 if surprise <= 0.25 else 2 if surprise <= 0.5 else 0.5
            length = max(length, 0.5)
        else:
            length /= 4
    return _solution(spectrum, h, m, bound, iteration, converged, smooth)


def lanczos(r: np.ndarray, start: np.ndarray, m: int, bound: float, tol: float, max_iter: int) -> Solution:
    """Iterate with the m leading eigenpairs only, extrapolating from the last steps (Anderson 1965).

    It suits m far below p. The eigenpairs of one step start the search of the next. When extrapolation makes the
    residual grow, the solver drops its history and takes a plain step. LinAlgError says that an eigenvalue was missed
    (one Krylov space holds one vector of a repeated eigenvalue), or that the m-th one is about as large as the next, so
    that F is hardly defined.
    """
    h, vector = start, np.random.default_rng(0).normal(size=len(r))
    history: list[tuple[np.ndarray, np.ndarray]] = []
    size = best = np.inf
    for iteration in range(max_iter + 1):
        # eigenpairs need be no better than the communalities
        values, vectors = leading_eigenpairs(r, m, h, vector, min(1e-4, 1e-4 * size))
        if iteration == 0 and values[-1] <= (1 + 2e-4) * max(next_eigenvalue(r, h, values, vectors), 0):
            raise LinAlgError("the m-th eigenvalue and the next are too close for this solver")
        vector = vectors.sum(axis=1)
        image = (vectors**2) @ np.maximum(values, 0)
        target = np.minimum(image, bound)
        size = float(np.abs(target - h).max())
        if size > 2 * best:
            history = []
        best = min(best, size)
        history = [*history[-_DEPTH:], (h, target)]
        new = np.clip(_extrapolated(history), 0, bound)
        moved = float(np.abs(new - h).max())
        converged = size <= 4 * _EPS * values[0] or (size <= tol and moved <= 0.1 * tol)
        if converged or iteration == max_iter:
            break
        h = new
    following = next_eigenvalue(r, h, values, vectors)
    free = (h < bound) | (image < bound)
    identified = _least_curvature_at_least(values, vectors, following) > _FLAT or _is_identified(
        _Spectrum(r, h, m, _NUMPY), free
    )
    positive = np.maximum(values, 0)
    squares = float((r**2).sum()) - len(r) + float(h @ h)
    criterion = 0.5 * max(squares - float(positive @ positive), 0.0)
    return Solution(h, vectors * np.sqrt(positive), criterion, size, iteration, converged, identified)


def leading_eigenpairs(
    r: np.ndarray, k: int, diagonal: np.ndarray, start: np.ndarray, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest eigenvalues, descending, and eigenvectors of R with `diagonal` in place of ones."""
    shift = diagonal - 1.0
    # dsymv reads one triangle only, and the product waits for memory
    operator = LinearOperator(r.shape, matvec=lambda x: dsymv(1.0, r.T, x) + shift * x, dtype=np.float64)
    values, vectors = eigsh(operator, k=k, which="LA", v0=start, tol=tol)
    return values[::-1], vectors[:, ::-1]


def next_eigenvalue(r: np.ndarray, diagonal: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> float:
    """Return the largest eigenvalue besides the given leading ones, to about 1e-4.

    If it exceeds the least of `values`, which then are not the leading ones, LinAlgError is raised.
    """
    shift, moved = diagonal - 1.0, vectors * (values + 1 + np.abs(values).max())

    def product(x: np.ndarray) -> np.ndarray:
        return dsymv(1.0, r.T, x) + shift * x - moved @ (vectors.T @ x)

    operator = LinearOperator(r.shape, matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=len(r))
    largest = float(eigsh(operator, k=1, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)[0])
    if largest > values[-1] + 2e-4 * abs(values[-1]):
        raise LinAlgError("a repeated eigenvalue was missed")
    return largest


def _solution(
    spectrum: _Spectrum, h: np.ndarray, m: int, bound: float, iterations: int, converged: bool, smooth: bool
) -> Solution:
    residual = float(np.abs(np.minimum(spectrum.image, bound) - h).max())
    identified = smooth and _is_identified(spectrum, (h < bound) | (spectrum.image < bound))
    return Solution(h, spectrum.loadings(m), spectrum.criterion, residual, iterations, converged, identified)


def _floor(spectrum: _Spectrum) -> float:
    """Return the largest residual that rounding alone explains."""
    return 4 * _EPS * float(np.abs(spectrum.values).max())


def _conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], gradient: np.ndarray, damping: float, tol: float
) -> np.ndarray:
    """Solve ``(H + damping I) d = -gradient`` to the relative residual `tol`, or until curvature turns negative."""
    direction = np.zeros_like(gradient)
    residual = -gradient
    search = residual
    square = float(residual @ residual)
    goal = tol**2 * square
    for step in range(200):
        image = product(search) + damping * search
        curvature = float(search @ image)
        if curvature <= 1e-14 * float(search @ search):
            return direction if step else residual
        length = square / curvature
        direction, residual = direction + length * search, residual - length * image
        last, square = square, float(residual @ residual)
        if square <= goal:
            break
        search = residual + (square / last) * search
    return direction


def _extrapolated(history: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return Anderson's combination of images whose combined residual is least (the second of his two forms)."""
    points, images = (np.array(column).T for column in zip(*history, strict=True))
    residuals = images - points
    weights = np.linalg.lstsq(np.diff(residuals), residuals[:, -1], rcond=1e-12)[0]
    return np.asarray(images[:, -1] - np.diff(images) @ weights)


def _is_identified(spectrum: _Spectrum, free: np.ndarray) -> bool:
    """Tell whether the Hessian of psi on the free communalities is positive definite."""
    if not spectrum.smooth or not free.any():
        return spectrum.smooth
    product = spectrum.hessian(free)
    k = int(free.sum())
    if k <= 100:
        hessian = np.array([product(row) for row in np.eye(k)])
        return bool(np.linalg.eigvalsh((hessian + hessian.T) / 2)[0] > _FLAT)
    operator = LinearOperator((k, k), matvec=lambda x: x - product(x), dtype=np.float64)
    start = np.random.default_rng(0).normal(size=k)
    return bool(1 - eigsh(operator, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0] > _FLAT)


def _least_curvature_at_least(values: np.ndarray, vectors: np.ndarray, following: float) -> float:
    """Bound the least eigenvalue of the Hessian from below by the kept eigenpairs and the next eigenvalue.

    In ``x' F'(h) x = sum_tt' K_tt'^2 + 2 sum_tb w_t / (w_t - w_b) K_tb^2`` the slopes of t are at most
    ``g_t = w_t / (w_t - max(w_{m+1}, 0))`` and ``sum_b K_tb^2 = v_t' diag(x)^2 v_t - sum_t' K_tt'^2``, so with
    ``P = V_t V_t'`` and ``P_g = V_t diag(g) V_t'``, ``F'(h) <= 2 diag(P_g) + P o P - 2 P o P_g``.
    """
    if values[-1] <= following or values[-1] <= 0:
        return -np.inf
    slope = values / (values - max(following, 0.0))
    projection, weighted = vectors @ vectors.T, (vectors * slope) @ vectors.T
    bound = projection * (projection - 2 * weighted)
    bound[np.diag_indices(len(bound))] += 2 * np.diag(weighted)
    return 1 - float(eigsh(bound, k=1, which="LA", v0=np.ones(len(bound)), tol=1e-6, return_eigenvectors=False)[0])
